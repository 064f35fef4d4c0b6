"""A pool: the available volumes of one storage class, and which of them the claims of a pod would be bound to.

Goes in: volumes as they become available or bound. Comes out: for claims and nodes, the smallest volume that is large
enough, matches the claim and can be reached from the node, each volume for one claim only; over all nodes at once.

A volume with a node affinity of one label (a zone, or a host name for a local disk) is found through that label's
column of value ids; other node affinities are decided once each. So neither many nodes nor many local disks cost a
loop.
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
"""Numbers of offered volumes, or of label values."""
NONE = -1
_BEYOND = np.iinfo(np.int64).max
_FEW = 4


class VolumeProperties(msgspec.Struct, frozen=True, gc=False):
    """What must agree between a volume and a claim besides size, labels and node affinity; a cluster has few of
    them."""

    mode: str
    attributes_class: str
    access_modes: frozenset[str]

    def suits(self, offered: VolumeProperties) -> bool:
        """Whether a claim with these properties can be bound to a volume with those."""
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
        """Whether both are equal to every claim but for labels and name, and so can have one number in a pool."""
        return (
            self.capacity == other.capacity
            and self.properties == other.properties
            and self.node_affinity == other.node_affinity
        )


class ClaimRequirements(msgspec.Struct, frozen=True):
    """What a claim requires of a volume on any node."""

    claim: PersistentVolumeClaim
    size: Quantity
    properties: VolumeProperties
    selector: LabelSelector | None

    def can_be_bound_to(self, offer: OfferedVolume) -> bool:
        """Whether the claim can be bound to a volume that names it: labels and access modes are not checked then."""
        return (
            offer.capacity >= self.size
            and offer.properties.mode == self.properties.mode
            and offer.properties.attributes_class == self.properties.attributes_class
        )

    def selects(self, offer: OfferedVolume) -> bool:
        return self.selector is None or self.selector.matches(offer.volume.metadata.labels)


def offered_volume(volume: PersistentVolume) -> OfferedVolume:
    """Raises QuantityError."""
    return OfferedVolume(volume, volumes.volume_capacity(volume), _properties(volume), volumes.node_affinity_of(volume))


def claim_requirements(claim: PersistentVolumeClaim) -> ClaimRequirements:
    """Raises QuantityError, SelectorError."""
    selector = claim.spec.selector
    selects = None if selector is None else label_selector(selector)
    return ClaimRequirements(claim, volumes.requested_size(claim), _properties(claim), selects)


def _properties(item: PersistentVolume | PersistentVolumeClaim) -> VolumeProperties:
    attributes_class = item.spec.volume_attributes_class_name or ""
    return VolumeProperties(volumes.volume_mode(item), attributes_class, frozenset(item.spec.access_modes or ()))


class _ByLabel(msgspec.Struct, frozen=True):
    """Volumes with a node affinity of one label: pairs of the id of a value and a volume, in the order of volumes."""

    column: LabelColumn
    ids: Numbers
    offers: Numbers


class _ByNodeAffinity(msgspec.Struct, frozen=True):
    """Volumes with one node affinity that is not about one label only."""

    node_affinity: NodeConstraint
    offers: Numbers


class VolumePool:
    """The available volumes of one class, numbered by size; equal ones by name.

    A bound volume keeps its number until a new one makes all be numbered again, because an assumption that is taken
    back makes the same volume available again.
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
        """For each claim, in the order given, the volume that it gets on each row, NONE for none: the first that
        matches and that no claim before it got."""
        if self._stale:
            self._number_all()
        chosen: list[Numbers] = []
        for claim in claims:
            best = np.full(self._nodes.present[rows].shape, _BEYOND)
            for candidates in self._candidates(claim, rows, depth=len(chosen) + 1):
                for earlier in chosen:
                    candidates = np.where(candidates == earlier, _BEYOND, candidates)
                best = np.minimum(best, candidates)
            chosen.append(np.where(best == _BEYOND, NONE, best))
        return chosen

    # ------------------------------------------------------------------------------------------------------------------

    def _candidates(self, claim: ClaimRequirements, rows: Which, depth: int) -> Iterable[Numbers]:
        """The first `depth` volumes of every group that a claim could be bound to on each row."""
        suits = self._suits(claim)
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
        for same in self._by_node_affinity:
            few = same.offers[suits[same.offers]][:depth]
            if len(few):
                reached = node_filters.selected_rows(self._nodes, same.node_affinity, rows)
                yield from (np.where(reached, offer, _BEYOND) for offer in few)

    def _suits(self, claim: ClaimRequirements) -> Mask:
        """The available volumes that match a claim, on any node."""
        suits: Mask = (
            self._open
            & np.array([claim.properties.suits(properties) for properties in self._distinct_properties], np.bool_)[
                self._properties_of
            ]
        )
        suits[: bisect_left(self._sizes, claim.size)] = False
        if claim.selector is not None:
            for number in np.flatnonzero(suits).tolist():
                suits[number] = claim.selects(self.offers[number])
        return suits

    def _number_all(self) -> None:
        self.offers = sorted(self._available.values(), key=lambda offer: (offer.capacity, offer.volume.metadata.name))
        self._numbers = {offer.volume.metadata.name: number for number, offer in enumerate(self.offers)}
        self._open = np.ones(len(self.offers), np.bool_)
        self._sizes = [offer.capacity for offer in self.offers]
        self._distinct_properties = list(dict.fromkeys(offer.properties for offer in self.offers))
        place = {properties: number for number, properties in enumerate(self._distinct_properties)}
        self._properties_of = np.array([place[offer.properties] for offer in self.offers], np.intp)
        self._group()
        self._stale = False

    def _group(self) -> None:
        """Group the volumes by the label of their node affinity, or by their node affinity."""
        by_label: dict[str, list[tuple[str, int]]] = {}
        by_node_affinity: dict[NodeConstraint, list[int]] = {}
        for number, offer in enumerate(self.offers):
            label = _one_label(offer.node_affinity)
            if label is None:
                by_node_affinity.setdefault(offer.node_affinity, []).append(number)
            else:
                pairs = by_label.setdefault(label.key, [])
                pairs.extend((value, number) for value in dict.fromkeys(label.values))
        self._by_label = [self._through(key, pairs) for key, pairs in sorted(by_label.items())]
        self._by_node_affinity = [
            _ByNodeAffinity(node_affinity, np.array(numbers, np.int64))
            for node_affinity, numbers in by_node_affinity.items()
        ]

    def _through(self, key: str, pairs: list[tuple[str, int]]) -> _ByLabel:
        column = self._nodes.labels.column(key)
        ids = np.array([column.intern(value) for value, _ in pairs], np.int64)
        return _ByLabel(column, ids, np.array([number for _, number in pairs], np.int64))


def _firsts(ids: Numbers, offers: Numbers, values: int, depth: int) -> Iterable[Numbers]:
    """By value: its first volume, then its second, and so on; volumes are in order."""
    for left in range(depth, 0, -1):
        first = np.full(values, _BEYOND)
        first[ids[::-1]] = offers[::-1]  # of equal ids the last one written stays, which is the smallest offer
        yield first
        if left > 1:
            rest = first[ids] != offers
            ids, offers = ids[rest], offers[rest]


def _near(group: _ByLabel, here: Ids) -> RowIndex | slice:
    """The pairs that concern nodes with these values; picked out only for few nodes, because filters often ask for
    one."""
    if len(here) > _FEW:
        return slice(None)
    return np.flatnonzero(np.logical_or.reduce([group.ids == value for value in here]))


def _one_label(node_affinity: NodeConstraint) -> Requirement | None:
    """The requirement of a node affinity that only requires some values of one label; else None."""
    terms = node_affinity.terms or ()
    if len(terms) != 1 or terms[0].problem or len(terms[0].labels) != 1:
        return None
    only = terms[0].labels[0]
    return only if only.operator == "In" else None
