"""What all rules share: their form, finding the owner to wake, adopting what fits a selector, writing a status once.

A rule looks after the objects of one kind. `keys` says which of them a change elsewhere concerns; `decide` looks at
one of them in the view and returns a Step. Both are quick and change nothing themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

import msgspec

from restow.client.cache import Change
from restow.model.cluster.names import Key, key_of
from restow.model.kinds import Kind
from restow.model.objects import Document, Object, ObjectReference
from restow.model.pods import controller_of
from restow.model.selectors import LabelSelector, SelectorError, label_selector
from restow.model.times import format_time
from restow.sim.world.objects import Whole
from restow.sim.world.step import Patch, Step, Write
from restow.sim.world.template import controller_reference
from restow.sim.world.view import View

T = TypeVar("T", bound=Object)


class Rule(ABC):
    """One controller of the world.

    `kind` is the kind whose objects are looked after, `also` are the others it reads. Changes that come within
    `settle` seconds of each other are looked at once.
    """

    kind: ClassVar[Kind[Any]]
    also: ClassVar[tuple[Kind[Any], ...]] = ()
    settle: ClassVar[float] = 0.0

    def keys(self, kind: Kind[Any], change: Change[Any], view: View) -> Iterable[Key]:
        """Which objects of `kind` a change of another kind concerns."""
        return ()

    @abstractmethod
    def decide(self, key: Key, view: View) -> Step: ...


def owner_keys(owner: Kind[Any], change: Change[Any], view: View) -> Iterator[Key]:
    """The controllers of an object, before and after a change; for an orphan, those whose selector it fits."""
    for item in filter(None, (change.object, change.old)):
        reference = controller_of(item)
        if reference is not None and reference.kind == owner.kind:
            yield (item.metadata.namespace or "", reference.name)
    if change.type != "DELETED" and controller_of(change.object) is None:
        meta = change.object.metadata
        for candidate in view.inside(owner, meta.namespace or ""):
            if selector_of(candidate).matches(meta.labels):
                yield key_of(candidate)


def selector_of(workload: Whole) -> LabelSelector:
    """What a workload selects; an invalid selector selects nothing."""
    try:
        return label_selector(workload.spec.get("selector"))
    except SelectorError:
        return _NOTHING


_NOTHING = label_selector(
    {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}], "matchLabels": {"a": "c"}}
)


def reference_to(kind: Kind[Any], item: Object) -> Document:
    """The owner reference by which a controller marks what it makes."""
    return controller_reference(kind.api_version, kind.kind, item.metadata.name, item.metadata.uid)


def about(kind: Kind[Any], item: Object) -> ObjectReference:
    meta = item.metadata
    return ObjectReference(
        api_version=kind.api_version, kind=kind.kind, name=meta.name, namespace=meta.namespace, uid=meta.uid
    )


def claim(owner_kind: Kind[Any], owner: Whole, kind: Kind[T], view: View) -> tuple[list[T], list[Write]]:
    """What the owner controls, and the writes that adopt fitting orphans and release what fits its selector no more."""
    selector = selector_of(owner)
    mine: list[T] = []
    writes: list[Write] = []
    for item in view.owned(kind, owner.metadata.uid):
        if selector.matches(item.metadata.labels):
            mine.append(item)
        elif not view.is_leaving(item):
            writes.append(_own(kind, item, [each for each in _owners(item) if each["uid"] != owner.metadata.uid]))
    for item in view.orphans(kind, owner.metadata.namespace or ""):
        if selector.matches(item.metadata.labels) and not view.is_leaving(item):
            writes.append(_own(kind, item, [*_owners(item), reference_to(owner_kind, owner)]))
            mine.append(item)
    return mine, writes


def _owners(item: Object) -> list[Document]:
    owners: list[Document] = msgspec.to_builtins(item.metadata.owner_references or [])
    return owners


def _own(kind: Kind[Any], item: Object, owners: list[Document]) -> Patch:
    meta = item.metadata
    return Patch(
        kind=kind,
        namespace=meta.namespace,
        name=meta.name,
        changes={"metadata": {"uid": meta.uid, "ownerReferences": owners}},
        version=meta.resource_version,
    )


def write_status(kind: Kind[Any], item: Whole, wanted: Mapping[str, Any]) -> list[Write]:
    """The patch that makes the status say what it should, or nothing if it does. None removes a field."""
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


def soonest(waits: Iterable[float | None]) -> float | None:
    """The shortest of several waits, where None and 0 mean that there is nothing to wait for."""
    return min((wait for wait in waits if wait), default=None)


def some(number: int) -> int | None:
    """A count as Kubernetes writes most of them: left out when zero."""
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
