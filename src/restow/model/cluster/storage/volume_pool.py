"""Pools: the volumes that wait for a claim, one pool per storage class, and which of them a pod's claims would get.

Goes in: volumes as they become available or taken. Comes out: for claims and nodes, the smallest volume that is large
enough, suits the claim and can be reached from the node, each volume for one claim only; over all nodes at once.

A volume that is reached by one label (a zone, or a host name for a local disk) is found through that label's column of
value ids; other reaches are decided once per distinct reach. So neither many nodes nor many local disks cost a loop.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from restow.model import volumes
from restow.model.affinity import NodeConstraint
from restow.model.cluster import node_filters
from restow.model.cluster.node_labels import Ids, LabelColumn
from restow.model.cluster.node_table import NodeTable
from restow.model.cluster.rows import Mask, RowIndex, Which
from restow.model.objects import PersistentVolume, PersistentVolumeClaim
from restow.model.quantity import Quantity
from restow.model.selectors import LabelSelector, Requirement, label_selector

Numbers = NDArray[np.int64]
"""Numbers of offers, or of label values."""
NONE = -1
_BEYOND = np.iinfo(np.int64).max
_FEW = 4


class VolumeProperties(msgspec.Struct, frozen=True, gc=False):
    """What must agree between a volume and a claim besides size, labels and reach; a cluster has few distinct ones."""

    mode: str
    attributes_class: str
    access_modes: frozenset[str]

    def suits(self, offered: VolumeProperties) -> bool:
        """Whether a claim that asks for this can have that."""
        return (
            self.mode == offered.mode
            and self.attributes_class == offered.attributes_class
            and self.access_modes <= offered.access_modes
        )


class OfferedVolume(msgspec.Struct, frozen=True):
    """An available volume."""

    volume: PersistentVolume
    capacity: Quantity
    properties: VolumeProperties
    node_affinity: NodeConstraint

    def is_like(self, other: OfferedVolume) -> bool:
        """Whether both have the same place in a pool."""
        return (
            self.capacity == other.capacity
            and self.properties == other.properties
            and self.node_affinity == other.node_affinity
        )


class ClaimRequirements(msgspec.Struct, frozen=True):
    """What a claim demands of a volume, wherever it is."""

    claim: PersistentVolumeClaim
    size: Quantity
    properties: VolumeProperties
    selector: LabelSelector | None

    def can_be_bound_to(self, offer: OfferedVolume) -> bool:
        """Whether the claim can have a volume that names it; labels and access modes are then taken on trust."""
        return (
            offer.capacity >= self.size
            and offer.properties.mode == self.properties.mode
            and offer.properties.attributes_class == self.properties.attributes_class
        )

    def selects(self, offer: OfferedVolume) -> bool:
        return self.selector is None or self.selector.matches(offer.volume.metadata.labels)


def offered_volume(volume: PersistentVolume) -> OfferedVolume:
    """Raises QuantityError."""
    return OfferedVolume(volume, volumes.capacity(volume), _make(volume), volumes.node_affinity_of(volume))


def claim_requirements(claim: PersistentVolumeClaim) -> ClaimRequirements:
    """Raises QuantityError, SelectorError."""
    selector = claim.spec.selector
    selects = None if selector is None else label_selector(selector)
    return ClaimRequirements(claim, volumes.requested(claim), _make(claim), selects)


def _make(item: PersistentVolume | PersistentVolumeClaim) -> VolumeProperties:
    attributes_class = item.spec.volume_attributes_class_name or ""
    return VolumeProperties(volumes.mode(item), attributes_class, frozenset(item.spec.access_modes or ()))


class _ByLabel(msgspec.Struct, frozen=True):
    """Offers reached through one label: pairs of the id of a value and an offer, in the order of offers."""

    column: LabelColumn
    ids: Numbers
    offers: Numbers


class _ByReach(msgspec.Struct, frozen=True):
    """Offers that are reached from the same nodes, by a rule other than one label."""

    reach: NodeConstraint
    offers: Numbers


class VolumePool:
    """The available volumes of one class, numbered by size; equal ones by name.

    A volume that is taken keeps its number until a new one makes everything be numbered again, since an assumption that
    is taken back brings the same volume back.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._available: dict[str, OfferedVolume] = {}
        self._stale = False
        self._number_all()

    def __len__(self) -> int:
        return len(self._available)

    def put(self, offer: OfferedVolume) -> None:
        name = offer.volume.metadata.name
        self._available[name] = offer
        number = self._numbers.get(name)
        if number is not None and self.offers[number].is_like(offer):
            self.offers[number] = offer
            self._open[number] = True
        else:
            self._stale = True

    def drop(self, name: str) -> None:
        if self._available.pop(name, None) is not None and name in self._numbers:
            self._open[self._numbers[name]] = False

    def choose_volumes(self, claims: Sequence[ClaimRequirements], rows: Which) -> list[Numbers]:
        """For each wish, in the order given, the offer it gets on each row, NONE for none: the first that suits it and
        that no wish before it took."""
        if self._stale:
            self._number_all()
        chosen: list[Numbers] = []
        for wish in claims:
            best = np.full(self._nodes.present[rows].shape, _BEYOND)
            for candidates in self._candidates(wish, rows, depth=len(chosen) + 1):
                for earlier in chosen:
                    candidates = np.where(candidates == earlier, _BEYOND, candidates)
                best = np.minimum(best, candidates)
            chosen.append(np.where(best == _BEYOND, NONE, best))
        return chosen

    # ------------------------------------------------------------------------------------------------------------------

    def _candidates(self, wish: ClaimRequirements, rows: Which, depth: int) -> Iterable[Numbers]:
        """The first `depth` offers that each row could give to a wish, of every group of offers."""
        suits = self._suits(wish)
        if not suits.any():
            return
        for group in self._by_label:
            here = group.column.ids[rows]
            near = _near(group, here)
            ids, offers = group.ids[near], group.offers[near]
            suited = suits[offers]
            ids, offers = ids[suited], offers[suited]
            for first in _firsts(ids, offers, len(group.column.values), depth):
                yield first[here]
        for same in self._by_reach:
            few = same.offers[suits[same.offers]][:depth]
            if len(few):
                reached = node_filters.selected(self._nodes, same.reach, rows)
                yield from (np.where(reached, offer, _BEYOND) for offer in few)

    def _suits(self, wish: ClaimRequirements) -> Mask:
        """The available offers that meet a wish."""
        suits: Mask = (
            self._open & np.array([wish.properties.suits(make) for make in self._makes], np.bool_)[self._make_of]
        )
        suits[: bisect_left(self._sizes, wish.size)] = False
        if wish.selector is not None:
            for number in np.flatnonzero(suits).tolist():
                suits[number] = wish.selects(self.offers[number])
        return suits

    def _number_all(self) -> None:
        self.offers = sorted(self._available.values(), key=lambda one: (one.capacity, one.volume.metadata.name))
        self._numbers = {offer.volume.metadata.name: number for number, offer in enumerate(self.offers)}
        self._open = np.ones(len(self.offers), np.bool_)
        self._sizes = [offer.capacity for offer in self.offers]
        self._makes = list(dict.fromkeys(offer.properties for offer in self.offers))
        place = {make: number for number, make in enumerate(self._makes)}
        self._make_of = np.array([place[offer.properties] for offer in self.offers], np.intp)
        self._group()
        self._stale = False

    def _group(self) -> None:
        """Tell offers that are reached by one label from those that are not."""
        by_label: dict[str, list[tuple[str, int]]] = {}
        by_reach: dict[NodeConstraint, list[int]] = {}
        for number, offer in enumerate(self.offers):
            label = _one_label(offer.node_affinity)
            if label is None:
                by_reach.setdefault(offer.node_affinity, []).append(number)
            else:
                pairs = by_label.setdefault(label.key, [])
                pairs.extend((value, number) for value in dict.fromkeys(label.values))
        self._by_label = [self._through(key, pairs) for key, pairs in sorted(by_label.items())]
        self._by_reach = [_ByReach(reach, np.array(numbers, np.int64)) for reach, numbers in by_reach.items()]

    def _through(self, key: str, pairs: list[tuple[str, int]]) -> _ByLabel:
        column = self._nodes.labels.column(key)
        ids = np.array([column.intern(value) for value, _ in pairs], np.int64)
        return _ByLabel(column, ids, np.array([number for _, number in pairs], np.int64))


def _firsts(ids: Numbers, offers: Numbers, values: int, depth: int) -> Iterable[Numbers]:
    """By value: its first offer, then its second, and so on; offers are in order."""
    for left in range(depth, 0, -1):
        first = np.full(values, _BEYOND)
        first[ids[::-1]] = offers[::-1]  # of equal ids the last one written stays, which is the smallest offer
        yield first
        if left > 1:
            rest = first[ids] != offers
            ids, offers = ids[rest], offers[rest]


def _near(group: _ByLabel, here: Ids) -> RowIndex | slice:
    """The pairs that matter to nodes with these values; sought out only for few nodes, of which one is asked often."""
    if len(here) > _FEW:
        return slice(None)
    return np.flatnonzero(np.logical_or.reduce([group.ids == value for value in here]))


def _one_label(reach: NodeConstraint) -> Requirement | None:
    """The requirement of a reach that is nothing but one label having one of some values."""
    terms = reach.terms or ()
    if len(terms) != 1 or terms[0].problem or len(terms[0].labels) != 1:
        return None
    only = terms[0].labels[0]
    return only if only.operator == "In" else None
