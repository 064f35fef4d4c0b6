"""TODO"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Self

import msgspec

from restow.model.cluster.owner_chains import OwnerChains, group_name
from restow.model.objects import ObjectReference, Pod, ReservationOwner
from restow.model.selectors import NOTHING, LabelSelector, SelectorError, label_selector


class _Owner(msgspec.Struct, frozen=True):
    object: ObjectReference | None
    controller: ObjectReference | None
    selector: LabelSelector

    def matches(self, pod: Pod, kinship: OwnerChains) -> bool:
        return (
            (self.object is not None and _is_object(self.object, pod, kinship))
            or (self.controller is not None and _is_owner(self.controller, pod, kinship))
            or _is_selected(self.selector, pod, kinship)
        )


_POD_KINDS = (None, "", "Pod")

Facet = tuple[str, str]
"""What may be asked of a pod: ("label", key), or one of these:"""

UID: Facet = ("uid", "")

NAME: Facet = ("name", "")

ANYTHING: Facet = ("anything", "")


class Owners(msgspec.Struct, frozen=True):
    """The owners of a reservation, read once."""

    entries: tuple[_Owner, ...] = ()
    speaks_of_pods: bool = False
    """Whether one of them may mean a very pod, and none that is like it."""

    @classmethod
    def of(cls, written: Iterable[ReservationOwner]) -> Self:
        entries = tuple(_Owner(one.object, one.controller, _selector(one)) for one in written)
        return cls(entries, any(one.object and one.object.kind in _POD_KINDS for one in entries))

    def match(self, pod: Pod, kinship: OwnerChains) -> bool:
        """Whether one of them speaks of this pod, which must be of the reservation's namespace."""
        return any(owner.matches(pod, kinship) for owner in self.entries)

    def traits(self) -> Iterator[tuple[Facet, str]]:
        """Facets with values, of which every pod that matches has one."""
        for owner in self.entries:
            for reference in (owner.object, owner.controller):
                if reference is not None and (reference.uid or reference.name):
                    yield (UID, reference.uid) if reference.uid else (NAME, reference.name or "")
            if not owner.selector.nothing:
                equal = [one for one in owner.selector.requirements if one.operator == "In" and len(one.values) == 1]
                yield (("label", equal[0].key), equal[0].values[0]) if equal else (ANYTHING, "")


def values_of(pod: Pod, facet: Facet, kinship: OwnerChains) -> Iterable[str]:
    """What a pod has of a facet: itself, its owners, its PodGroup."""
    metadata = pod.metadata
    group = kinship.group_of(pod) if metadata.annotations else None
    if facet[0] == "label":
        known = (metadata.labels, group.metadata.labels if group is not None else None)
        return [labels[facet[1]] for labels in known if labels and facet[1] in labels]
    if facet == UID:
        related = [group.metadata.uid] if group is not None else []
        return [metadata.uid, *(owner.uid for owner in kinship.chain(pod)), *related]
    if facet == NAME:
        named = group_name(pod)
        return [metadata.name, *(owner.name for owner in kinship.chain(pod)), *([named] if named else [])]
    return ("",)


def _is_object(reference: ObjectReference, pod: Pod, kinship: OwnerChains) -> bool:
    metadata = pod.metadata
    if reference.kind in _POD_KINDS and _same(reference, metadata.name, metadata.uid):
        return True
    if reference.kind == "PodGroup":
        group = kinship.group_of(pod)
        return _same(reference, group_name(pod) or "", group.metadata.uid if group else "")
    return _is_owner(reference, pod, kinship)


def _is_owner(reference: ObjectReference, pod: Pod, kinship: OwnerChains) -> bool:
    return any(
        _same(reference, owner.name, owner.uid)
        and reference.kind in (None, "", owner.kind)
        and reference.api_version in (None, "", owner.api_version)
        for owner in kinship.chain(pod)
    )


def _same(reference: ObjectReference, name: str, uid: str) -> bool:
    """Whether name and UID agree where they are given; one of them must be."""
    if not reference.name and not reference.uid:
        return False
    return reference.name in (None, "", name) and reference.uid in (None, "", uid)


def _selector(owner: ReservationOwner) -> LabelSelector:
    """A selector that cannot be read selects nothing."""
    try:
        return label_selector(owner.label_selector)
    except SelectorError:
        return NOTHING


def _is_selected(selector: LabelSelector, pod: Pod, kinship: OwnerChains) -> bool:
    if selector.nothing:
        return False
    if selector.matches(pod.metadata.labels):
        return True
    group = kinship.group_of(pod) if pod.metadata.annotations else None
    return group is not None and selector.matches(group.metadata.labels)
