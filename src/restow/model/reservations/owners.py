"""The owners of a reservation: may this pod consume one of its seats?

Goes in: the owners that a reservation lists, a pod of its namespace, and the owner chains that the API has shown. The
entries are ORed, and so are the fields of an entry:

    object          the pod itself, its PodGroup, or anything in its owner chain
    controller      anything in its owner chain, so that a rolling update still matches
    labelSelector   the labels of the pod or of its PodGroup

No pod may consume a reservation without owners.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Self

import msgspec

from restow.model.cluster.owner_chains import OwnerChains, group_name
from restow.model.objects import ObjectReference, Pod, ReservationOwner
from restow.model.selectors import NOTHING, LabelSelector, SelectorError, label_selector

_POD_KINDS = (None, "", "Pod")

LookupKind = tuple[str, str]
"""By what a reservation is looked up for a pod: ("label", key), or one of these:"""
UID: LookupKind = ("uid", "")
NAME: LookupKind = ("name", "")
ANYTHING: LookupKind = ("anything", "")


class _Owner(msgspec.Struct, frozen=True):
    """One entry, with its selector parsed."""

    object: ObjectReference | None
    controller: ObjectReference | None
    selector: LabelSelector

    def matches(self, pod: Pod, owner_chains: OwnerChains) -> bool:
        return (
            (self.object is not None and _refers_to(self.object, pod, owner_chains))
            or (self.controller is not None and _refers_to_owner(self.controller, pod, owner_chains))
            or _selects(self.selector, pod, owner_chains)
        )


class Owners(msgspec.Struct, frozen=True):
    """The owners of a reservation, parsed once."""

    entries: tuple[_Owner, ...] = ()
    has_pod_reference: bool = False
    """Whether an entry may refer to one very pod, and to none of the pods that are like it."""

    @classmethod
    def of(cls, written: Iterable[ReservationOwner]) -> Self:
        entries = tuple(_Owner(owner.object, owner.controller, _selector(owner)) for owner in written)
        return cls(entries, any(owner.object and owner.object.kind in _POD_KINDS for owner in entries))

    def matches(self, pod: Pod, owner_chains: OwnerChains) -> bool:
        """Whether any entry matches this pod, which must be of the reservation's namespace."""
        return any(owner.matches(pod, owner_chains) for owner in self.entries)

    def lookup_keys(self) -> Iterator[tuple[LookupKind, str]]:
        """Kinds with values, at least one of which every pod that matches has."""
        for owner in self.entries:
            for reference in (owner.object, owner.controller):
                if reference is not None and (reference.uid or reference.name):
                    yield (UID, reference.uid) if reference.uid else (NAME, reference.name or "")
            if not owner.selector.nothing:
                equal = [
                    requirement
                    for requirement in owner.selector.requirements
                    if requirement.operator == "In" and len(requirement.values) == 1
                ]
                yield (("label", equal[0].key), equal[0].values[0]) if equal else (ANYTHING, "")


def lookup_values(pod: Pod, kind: LookupKind, owner_chains: OwnerChains) -> Iterable[str]:
    """The values of a lookup kind that a pod has: its own, those of its owner chain, and those of its PodGroup."""
    metadata = pod.metadata
    group = owner_chains.group_of(pod) if metadata.annotations else None
    if kind[0] == "label":
        all_labels = (metadata.labels, group.metadata.labels if group is not None else None)
        return [labels[kind[1]] for labels in all_labels if labels and kind[1] in labels]
    if kind == UID:
        group_uids = [group.metadata.uid] if group is not None else []
        return [metadata.uid, *(owner.uid for owner in owner_chains.chain(pod)), *group_uids]
    if kind == NAME:
        group_names = [name] if (name := group_name(pod)) else []
        return [metadata.name, *(owner.name for owner in owner_chains.chain(pod)), *group_names]
    return ("",)


def _refers_to(reference: ObjectReference, pod: Pod, owner_chains: OwnerChains) -> bool:
    """Whether a reference means the pod, its PodGroup, or something in its owner chain."""
    metadata = pod.metadata
    if reference.kind in _POD_KINDS and _names(reference, metadata.name, metadata.uid):
        return True
    if reference.kind == "PodGroup":
        group = owner_chains.group_of(pod)
        return _names(reference, group_name(pod) or "", group.metadata.uid if group else "")
    return _refers_to_owner(reference, pod, owner_chains)


def _refers_to_owner(reference: ObjectReference, pod: Pod, owner_chains: OwnerChains) -> bool:
    """Whether a reference means something in the owner chain of a pod."""
    return any(
        _names(reference, owner.name, owner.uid)
        and reference.kind in (None, "", owner.kind)
        and reference.api_version in (None, "", owner.api_version)
        for owner in owner_chains.chain(pod)
    )


def _names(reference: ObjectReference, name: str, uid: str) -> bool:
    """Whether a reference agrees with a name and a UID where it has them; it must have one of them."""
    if not reference.name and not reference.uid:
        return False
    return reference.name in (None, "", name) and reference.uid in (None, "", uid)


def _selector(owner: ReservationOwner) -> LabelSelector:
    """The label selector of an entry; an invalid one selects nothing (validation reports it)."""
    try:
        return label_selector(owner.label_selector)
    except SelectorError:
        return NOTHING


def _selects(selector: LabelSelector, pod: Pod, owner_chains: OwnerChains) -> bool:
    if selector.nothing:
        return False
    if selector.matches(pod.metadata.labels):
        return True
    group = owner_chains.group_of(pod) if pod.metadata.annotations else None
    return group is not None and selector.matches(group.metadata.labels)
