"""Keeps the pods that leave their nodes in the present wave, and finds those that matter to another pod.

Goes in: pods, as targets are reserved for them. Comes out: for a pod that looks for a target, the departing pods that
its topology spread counts and those that its pod affinity requires. When they leave, a target that passes the filters
now may fail them. Departing pods that it only keeps away from (anti-affinity) are left out: without them more nodes
pass, never fewer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from restow.model.cluster import Occupant, PodClass
from restow.model.cluster.selector_group import (
    SelectorGroup,
    required_label,
    selector_group_of_constraint,
    selector_group_of_term,
)
from restow.model.match_label_keys import fold_label_keys
from restow.model.objects import Pod
from restow.model.selectors import SelectorError
from restow.model.snapshot import Snapshot

_Label = tuple[str, str, str]
"""Namespace, key and value."""


class Departure(msgspec.Struct, frozen=True, gc=False):
    """A pod that leaves its node when the wave ends."""

    uid: str
    occupant: Occupant
    """The pod on its old node."""
    seat_key: str
    """The key of the occupant that represents it on its target."""


class WaveDepartures:
    """The departures of the present wave, in the order in which targets were reserved."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._namespaces = snapshot.namespaces
        self._departures: list[Departure] = []
        self._by_label: dict[_Label, list[Departure]] = {}
        self._required_peers: dict[PodClass, tuple[SelectorGroup, ...]] = {}

    def __len__(self) -> int:
        return len(self._departures)

    def add(self, departure: Departure) -> None:
        self._departures.append(departure)
        for label in _labels(departure):
            self._by_label.setdefault(label, []).append(departure)

    def truncate(self, number: int) -> None:
        """Remove all but the first `number` departures."""
        while len(self._departures) > number:
            for label in _labels(self._departures.pop()):
                self._by_label[label].pop()

    def take_all(self) -> list[Departure]:
        """The departures of the wave, which ends: afterwards there are none."""
        departures, self._departures = self._departures, []
        self._by_label.clear()
        return departures

    def relevant_to(self, pod: Pod, pod_class: PodClass) -> list[str]:
        """The keys of the departing pods without which a node may refuse a pod of this class."""
        if not self._departures or not pod_class.shape.selector_scopes:
            return []
        peers = self._required_peers.get(pod_class)
        if peers is None:
            peers = self._required_peers[pod_class] = tuple(required_peers(pod))
        return list(dict.fromkeys(departure.occupant.key for group in peers for departure in self._members(group)))

    def _members(self, group: SelectorGroup) -> Iterator[Departure]:
        """The departing pods that a selector group selects."""
        label = required_label(group)
        if label is None or not group.namespace_selector.nothing:
            candidates: Iterable[Departure] = self._departures
        else:  # only pods with this label in these namespaces can match: no need to test all departures
            namespaces = sorted(group.namespaces)
            candidates = (each for name in namespaces for each in self._by_label.get((name, *label), ()))
        for departure in candidates:
            metadata = departure.occupant.pod.metadata
            namespace = metadata.namespace or ""
            if group.includes(namespace, metadata.labels or {}, self._namespaces.labels(namespace)):
                yield departure


def required_peers(pod: Pod) -> Iterator[SelectorGroup]:
    """The pods that a pod's topology spread counts and those that its pod affinity requires. Nothing more after a
    selector that cannot be read."""
    namespace = pod.metadata.namespace or ""
    spec = fold_label_keys(pod.spec, pod.metadata.labels or {})
    affinity_terms = spec.affinity.pod_affinity.required if spec.affinity and spec.affinity.pod_affinity else None
    try:
        for constraint in spec.topology_spread_constraints or ():
            if constraint.when_unsatisfiable == "DoNotSchedule":
                yield selector_group_of_constraint(constraint, namespace)
        for term in affinity_terms or ():
            yield selector_group_of_term(term, namespace)
    except SelectorError:
        return


def _labels(departure: Departure) -> Iterator[_Label]:
    metadata = departure.occupant.pod.metadata
    for key, value in (metadata.labels or {}).items():
        yield metadata.namespace or "", key, value
