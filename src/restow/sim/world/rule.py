"""What all rules share: their interface, the owner of a changed object, adoption by selector, and status writes.

A rule controls the objects of one kind. `keys` returns those of them that a change of another kind affects; `decide`
reads one of them in the view and returns a Step. Both are quick and change nothing themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

import msgspec

from restow.client.cache import Change
from restow.model.kinds import Kind
from restow.model.object_key import Key, key_of
from restow.model.objects import Document, Object, ObjectReference
from restow.model.pods import controller_of
from restow.model.selectors import LabelSelector, SelectorError, label_selector
from restow.model.times import format_time
from restow.sim.world.raw_objects import RawObject
from restow.sim.world.step import Patch, Step, Write
from restow.sim.world.template import controller_reference
from restow.sim.world.view import View

T = TypeVar("T", bound=Object)


class Rule(ABC):
    """One controller of the world.

    `kind` is the kind of the objects that it controls, `also` are the other kinds it reads. Changes within `settle`
    seconds of each other are handled together.
    """

    kind: ClassVar[Kind[Any]]
    also: ClassVar[tuple[Kind[Any], ...]] = ()
    settle: ClassVar[float] = 0.0

    def keys(self, kind: Kind[Any], change: Change[Any], view: View) -> Iterable[Key]:
        """The objects of `self.kind` that a change of another kind affects."""
        return ()

    @abstractmethod
    def decide(self, key: Key, view: View) -> Step: ...


def owner_keys(owner: Kind[Any], change: Change[Any], view: View) -> Iterator[Key]:
    """The controllers of an object, before and after a change; for an orphan, those with a matching selector."""
    for item in filter(None, (change.object, change.old)):
        reference = controller_of(item)
        if reference is not None and reference.kind == owner.kind:
            yield (item.metadata.namespace or "", reference.name)
    if change.type != "DELETED" and controller_of(change.object) is None:
        meta = change.object.metadata
        for candidate in view.inside(owner, meta.namespace or ""):
            if selector_of(candidate).matches(meta.labels):
                yield key_of(candidate)


def selector_of(workload: RawObject) -> LabelSelector:
    """The selector of a workload; an invalid one selects nothing."""
    try:
        return label_selector(workload.spec.get("selector"))
    except SelectorError:
        return _NOTHING


_NOTHING = label_selector(
    {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}], "matchLabels": {"a": "c"}}
)


def reference_to(kind: Kind[Any], item: Object) -> Document:
    """The owner reference that a controller sets on the objects it creates."""
    return controller_reference(kind.api_version, kind.kind, item.metadata.name, item.metadata.uid)


def object_reference(kind: Kind[Any], item: Object) -> ObjectReference:
    meta = item.metadata
    return ObjectReference(
        api_version=kind.api_version, kind=kind.kind, name=meta.name, namespace=meta.namespace, uid=meta.uid
    )


def adopt_and_release(
    owner_kind: Kind[Any], owner: RawObject, kind: Kind[T], view: View
) -> tuple[list[T], list[Write]]:
    """The objects that the owner controls, and the writes that adopt matching orphans and release objects that do not
    match its selector any more."""
    selector = selector_of(owner)
    mine: list[T] = []
    writes: list[Write] = []
    for item in view.owned(kind, owner.metadata.uid):
        if selector.matches(item.metadata.labels):
            mine.append(item)
        elif not view.is_leaving(item):
            writes.append(
                _set_owners(kind, item, [each for each in _owners(item) if each["uid"] != owner.metadata.uid])
            )
    for item in view.orphans(kind, owner.metadata.namespace or ""):
        if selector.matches(item.metadata.labels) and not view.is_leaving(item):
            writes.append(_set_owners(kind, item, [*_owners(item), reference_to(owner_kind, owner)]))
            mine.append(item)
    return mine, writes


def _owners(item: Object) -> list[Document]:
    owners: list[Document] = msgspec.to_builtins(item.metadata.owner_references or [])
    return owners


def _set_owners(kind: Kind[Any], item: Object, owners: list[Document]) -> Patch:
    meta = item.metadata
    return Patch(
        kind=kind,
        namespace=meta.namespace,
        name=meta.name,
        changes={"metadata": {"uid": meta.uid, "ownerReferences": owners}},
        version=meta.resource_version,
    )


def write_status(kind: Kind[Any], item: RawObject, wanted: Mapping[str, Any]) -> list[Write]:
    """The patch that sets these status fields, if any of them differs. None removes a field."""
    changes = {key: value for key, value in wanted.items() if item.status.get(key) != value}
    if not changes:
        return []
    meta = item.metadata
    return [
        Patch(
            kind=kind,
            namespace=meta.namespace,
            name=meta.name,
            changes={"metadata": {"uid": meta.uid}, "status": changes},
            subresource="status",
        )
    ]


def shortest_wait(waits: Iterable[float | None]) -> float | None:
    """The shortest of several waits, where None and 0 mean that there is nothing to wait for."""
    return min((wait for wait in waits if wait), default=None)


def none_if_zero(number: int) -> int | None:
    """A count as most status fields hold it: absent when zero."""
    return number or None


def with_condition(
    conditions: list[Document] | None, kind: str, status: str, reason: str, message: str, now: float
) -> list[Document]:
    """The conditions with one set; its transition time moves only when its status does."""
    before = next((each for each in conditions or () if each["type"] == kind), None)
    others = [each for each in conditions or () if each["type"] != kind]
    if before and (before["status"], before.get("reason"), before.get("message")) == (status, reason, message):
        return list(conditions or ())
    since = before["lastTransitionTime"] if before and before["status"] == status else format_time(now)
    entry = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}
    return [*others, entry]
