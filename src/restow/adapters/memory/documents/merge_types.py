"""How documents merge: for every field of a kind, what it is, and for every list whether it is a map, a set or atomic.

One description, `MergeTypes`, serves strategic merge patch, server-side apply, typed reading and unknown-field reports.
Built-in kinds are described by `types.json`, which `generate_types` writes; custom resources by their schema (see
`schema`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec

Form = Literal["leaf", "struct", "map", "list", "any"]


class MergeTypes(msgspec.Struct, eq=False):
    """The type of one value: a leaf, a struct of named fields, a map or list of `element`, or anything at all.

    `atomic` values are replaced and owned whole, as leaves are; `whole` is true for both. A list that is not atomic is
    a set of scalars, or a map when `keys` are given. `patch` and `patch_key` are what strategic merge goes by, which
    differs from server-side apply in places. `omit` is how an empty value is written: "pointer" and "omitempty" leave
    it out, "" always writes it.
    """

    form: Form
    leaf: str = ""
    fields: Mapping[str, MergeTypes] = {}
    element: MergeTypes | None = None
    atomic: bool = False
    keys: tuple[str, ...] = ()
    key_defaults: Mapping[str, Any] = {}
    patch: frozenset[str] = frozenset()
    patch_key: str = ""
    omit: str = "omitempty"
    sorted_keys: tuple[str, ...] = ()
    whole: bool = False

    def __post_init__(self) -> None:
        self.sorted_keys = tuple(sorted(self.keys))
        self.whole = self.atomic or self.form == "leaf"

    def child(self, name: str) -> MergeTypes:
        """The type of the member `name`; members without a description merge by their form (`DEDUCED`)."""
        if self.form == "struct":
            return self.fields.get(name, DEDUCED)
        return self.element or DEDUCED

    def item(self) -> MergeTypes:
        return self.element or DEDUCED


DEDUCED = MergeTypes("any")
SCALAR = MergeTypes("leaf", leaf="any")


class _Table(msgspec.Struct, frozen=True):
    kinds: dict[str, str]
    types: dict[str, dict[str, str]]


@cache
def _table() -> _Table:
    return msgspec.json.decode(files(__package__).joinpath("types.json").read_bytes(), type=_Table)


@cache
def struct_fields(name: str) -> dict[str, MergeTypes]:
    return {field: _field(text) for field, text in _table().types[name].items()}


def _field(text: str) -> MergeTypes:
    """One field as `types.json` writes it: a type, its JSON options, then merge attributes."""
    written, *attributes = text.split(" ")
    written, _, omit = written.partition(",")
    marks = dict(mark.partition("=")[::2] for mark in attributes)
    return _described(written.removeprefix("*"), marks, omit="pointer" if written.startswith("*") else omit)


def _described(written: str, marks: Mapping[str, str], *, omit: str = "omitempty") -> MergeTypes:
    atomic = "atomic" in marks
    patch = frozenset(marks["patch"].split(",")) if "patch" in marks else frozenset()
    if written.startswith("[]"):
        keys = tuple(marks["keys"].split(",")) if marks.get("list") == "map" else ()
        return MergeTypes(
            "list",
            element=_described(written[2:], {}),
            atomic=marks.get("list", "atomic") == "atomic",
            keys=keys,
            key_defaults=_key_defaults(written[2:], keys),
            patch=patch,
            patch_key=marks.get("key", ""),
            omit=omit,
        )
    if written.startswith("{}"):
        return MergeTypes("map", element=_described(written[2:], {}), atomic=atomic, patch=patch, omit=omit)
    if written == "any":
        return MergeTypes("any", leaf="any", atomic=True, omit=omit)
    if "." in written:
        return MergeTypes("struct", leaf=written, fields=struct_fields(written), atomic=atomic, patch=patch, omit=omit)
    return MergeTypes("leaf", leaf=written, omit=omit)


_ZEROS: dict[str, Any] = {"string": "", "int": 0, "int32": 0, "bool": False}  # of fields that are always written


def _key_defaults(item: str, keys: tuple[str, ...]) -> dict[str, Any]:
    """Values a missing key of a list-map item stands for, e.g. protocol TCP."""
    defaults: dict[str, Any] = {}
    for key in keys:
        written, *marks = _table().types[item][key].split(" ")
        if written in _ZEROS:
            defaults[key] = _ZEROS[written]
        for mark in marks:
            if mark.startswith("default="):
                defaults[key] = msgspec.json.decode(mark.removeprefix("default="))
    return defaults


@cache
def merge_types(group: str, kind: str) -> MergeTypes | None:
    """The description of a built-in kind, or None when it is not one."""
    name = _table().kinds.get(f"{group}/{kind}")
    return _described(name, {}) if name else None


METADATA = MergeTypes("struct", leaf="meta.v1.ObjectMeta", fields=struct_fields("meta.v1.ObjectMeta"))
