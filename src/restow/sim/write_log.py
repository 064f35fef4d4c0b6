"""The writes of a run, each with a name that is the same in every run from the same seed.

A name says verb, kind and object: "create Reservation default/x", "bind Pod default/web-1", "patch Job/status
batch/etl". When a name comes again it gets a count: "patch Node n1 (2)". Names are the crash points of
`restow.sim.faults`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from restow.model.kinds import ALL_KINDS
from restow.ports import Request, Resource, Response

WRITES = frozenset({"create", "replace", "patch", "delete", "deletecollection"})

_KINDS = {(kind.group, kind.version, kind.plural): kind.kind for kind in ALL_KINDS}
_ACTS = {"binding": "bind", "eviction": "evict"}


class RecordedWrite(msgspec.Struct, frozen=True):
    """One write that took effect: its place in the run, its name, what was asked and what was answered."""

    index: int
    name: str
    request: Request
    response: Response


class _Named(msgspec.Struct):
    name: str | None = None
    generate_name: str | None = msgspec.field(name="generateName", default=None)


class _Body(msgspec.Struct):
    metadata: _Named | None = None


class WriteLog:
    """Every write of a run in order."""

    def __init__(self) -> None:
        self._writes: list[RecordedWrite] = []
        self._seen: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._writes)

    def __iter__(self) -> Iterator[RecordedWrite]:
        return iter(self._writes)

    @property
    def names(self) -> list[str]:
        return [write.name for write in self._writes]

    def add(self, request: Request, response: Response) -> RecordedWrite:
        name = name_of(request)
        self._seen[name] += 1
        count = self._seen[name]
        write = RecordedWrite(len(self._writes), name if count == 1 else f"{name} ({count})", request, response)
        self._writes.append(write)
        return write


def is_write(request: Request) -> bool:
    return request.verb in WRITES and "dryRun" not in request.query


def name_of(request: Request) -> str:
    """What a write does, in words: act, kind (and subresource), object."""
    kind = _kind(request.resource)
    act = _ACTS.get(request.subresource or "")
    if act is None:
        act = request.verb
        kind += f"/{request.subresource}" if request.subresource else ""
    return f"{act} {kind} {_object(request)}".rstrip()


def _kind(resource: Resource) -> str:
    return _KINDS.get((resource.group, resource.version, resource.plural), resource.plural)


def _object(request: Request) -> str:
    name = request.name or _name_in(request.body)
    return f"{request.namespace}/{name}" if request.namespace else name


def _name_in(body: bytes) -> str:
    try:
        metadata = msgspec.json.decode(body, type=_Body).metadata or _Named()
    except msgspec.DecodeError:
        return ""
    return metadata.name or f"{metadata.generate_name or ''}*"
