"""Snapshot files: a cluster written down, as `kubectl get nodes,pods,… -A -o json` (or yaml) prints it.

Goes in: the bytes of one file, of any kinds mixed, gzip accepted. Comes out: an `Inventory` of typed objects. Kinds
that are not there do not exist; kinds that Restow does not read are counted and left out. Everything that is wrong
with the file is reported at once, each with its place and path.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

from restow.model.kinds import Kind, UnknownKind, kind_of
from restow.model.problems import Problem
from restow.model.wire import Located, RawItem, WireError, convert_document, locate_documents, raw_items

T = TypeVar("T")


class Inventory:
    """The objects of a cluster by kind, in the order of the file."""

    def __init__(self, objects: Mapping[Kind[Any], list[Any]], left_out: Mapping[str, int]) -> None:
        self._objects = objects
        self.left_out = left_out
        """How many objects of which unread kinds the file has."""

    def of(self, kind: Kind[T]) -> list[T]:
        return cast("list[T]", self._objects.get(kind, []))

    @property
    def kinds(self) -> Iterable[Kind[Any]]:
        return self._objects.keys()


def read_inventory(data: bytes, name: str) -> Inventory:
    """Read a snapshot file. Raises WireError."""
    if not data.strip():  # what a command that failed leaves behind is no empty cluster
        raise WireError(name, [Problem("", "there is nothing in it")])
    objects: dict[Kind[Any], list[Any]] = {}
    left_out: Counter[str] = Counter()
    problems: list[Problem] = []
    seen: set[tuple[Kind[Any], str, str]] = set()
    raw = raw_items(data, name)
    for each in locate_documents(data, name) if raw is None else raw:
        try:
            kind, item = _read_fast(each) or _read_checked(each.located() if isinstance(each, RawItem) else each)
        except _Unread as unread:
            left_out[unread.kind] += 1
            continue
        except WireError as error:
            problems += [Problem(error.what, str(problem)) for problem in error.problems]
            continue
        problem = _identity_problem(kind, item, seen)
        if problem:
            problems.append(Problem(each.where, problem))
        else:
            objects.setdefault(kind, []).append(item)
    if problems:
        raise WireError("cannot read the snapshot", problems)
    return Inventory(objects, left_out)


class _Unread(Exception):
    """Restow reads nothing of this kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


def _read_fast(each: RawItem | Located) -> tuple[Kind[Any], Any] | None:
    """An object in which nothing is unusual; None if it needs a closer look. Raises _Unread."""
    if isinstance(each, Located) or not each.api_version or not each.kind:
        return None
    kind = _known_kind(each.api_version, each.kind)
    item = each.quickly(kind.type)
    return None if item is None else (kind, item)


def _read_checked(located: Located) -> tuple[Kind[Any], Any]:
    """An object, or everything that is wrong with it. Raises WireError, _Unread."""
    api_version, kind = located.document.get("apiVersion"), located.document.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str) or not api_version or not kind:
        raise WireError(located.where, [Problem("", "apiVersion and kind must say what this is")])
    known = _known_kind(api_version, kind)
    return known, convert_document(known.type, located.document, located.where)


def _known_kind(api_version: str, kind: str) -> Kind[Any]:
    try:
        return kind_of(api_version, kind)
    except UnknownKind:
        raise _Unread(kind) from None


def _identity_problem(kind: Kind[Any], item: Any, seen: set[tuple[Kind[Any], str, str]]) -> str:
    """What is wrong with an object's name, if anything: it has none, or another object has it already."""
    metadata = item.metadata
    if not metadata.name:
        return f"metadata.name: a {kind.kind} needs a name"
    key = (kind, metadata.namespace or "", metadata.name)
    if key in seen:
        return f"metadata.name: {kind.kind} {'/'.join(filter(None, key[1:]))} is there twice"
    seen.add(key)
    return ""
