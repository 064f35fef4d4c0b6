"""The field tables of Kubernetes' protobuf messages, read from `fields.txt` when first asked for.

In: the text table that ships beside this module. Out: `messages()`, a map from message name ("core.v1.PodSpec") to its
fields by number. The protobuf decoder reads requests with it; the OpenAPI documents describe built-in kinds with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple

Shape = Literal["one", "list", "map"]

# Kubernetes' proto packages are named by the first label of the API group; the core group is called core.
CORE = "core"


class ProtobufField(NamedTuple):
    """One field of a message. `keep_zero`: JSON shows it even when zero. `inline`: JSON shows its fields instead."""

    name: str
    type: str
    shape: Shape
    keep_zero: bool
    inline: bool


Message = Mapping[int, ProtobufField]


@cache
def message_tables() -> Mapping[str, Message]:
    text = (files(__package__) / "fields.txt").read_text(encoding="utf-8")
    return parse_table(text)


def parse_table(text: str) -> Mapping[str, Message]:
    table: dict[str, dict[int, ProtobufField]] = {}
    current: dict[int, ProtobufField] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        if line.startswith("  "):
            number, name, type_name = line.split()
            current[int(number)] = _field(name, type_name)
        else:
            current = table[line] = {}
    return table


def _field(name: str, type_name: str) -> ProtobufField:
    shape: Shape = "list" if type_name.startswith("[]") else "map" if type_name.startswith("{}") else "one"
    return ProtobufField(
        name=name.rstrip("!."),
        type=type_name if shape == "one" else type_name[2:],
        shape=shape,
        keep_zero=name.endswith("!"),
        inline=name.endswith("..."),
    )


def message_name(api_version: str, kind: str) -> str | None:
    """The message of a kind, or None if the tables have none: ("rbac.authorization.k8s.io/v1", "Role") -> rbac.v1.Role.

    Options such as DeleteOptions are known in every group.
    """
    group, _, version = api_version.rpartition("/")
    package = group.split(".")[0] if group else CORE
    for name in (f"{package}.{version}.{kind}", f"meta.v1.{kind}"):
        if name in message_tables():
            return name
    return None
