"""Leaving: who gives up a place in the present wave, and whom that concerns.

Goes in: pods as they are given seats elsewhere. Comes out: of those, the ones whose going may spoil a place for a pod:
the pods it is spread with and the pods it must be near. Whom a pod keeps away from is no worry: their going only helps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from restow.model.cluster import Occupant, PodClass, Snapshot
from restow.model.cluster.audience import Audience, of_constraint, of_term, required_label
from restow.model.cluster.seat import fold_label_keys
from restow.model.objects import Pod
from restow.model.selectors import SelectorError

_Label = tuple[str, str, str]
"""Namespace, key and value."""


class Leaver(msgspec.Struct, frozen=True, gc=False):
    uid: str
    occupant: Occupant
    """Where it still is."""
    seat: str
    """The key of what stands for it where it goes."""


class Leaving:
    """The pods of the present wave, in the order they were given seats."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._namespaces = snapshot.namespaces
        self._leavers: list[Leaver] = []
        self._labelled: dict[_Label, list[Leaver]] = {}
        self._needs: dict[PodClass, tuple[Audience, ...]] = {}

    def __len__(self) -> int:
        return len(self._leavers)

    def add(self, leaver: Leaver) -> None:
        self._leavers.append(leaver)
        for label in _labels(leaver):
            self._labelled.setdefault(label, []).append(leaver)

    def take_back(self, number: int) -> None:
        """Forget all but the first `number`."""
        while len(self._leavers) > number:
            for label in _labels(self._leavers.pop()):
                self._labelled[label].pop()

    def end(self) -> list[Leaver]:
        """Everybody is gone: who that was."""
        gone, self._leavers = self._leavers, []
        self._labelled.clear()
        return gone

    def concerning(self, pod: Pod, pod_class: PodClass) -> list[str]:
        """The keys of those whose going may spoil a place for a pod of this class."""
        if not self._leavers or not pod_class.shape.readings:
            return []
        needs = self._needs.get(pod_class)
        if needs is None:
            needs = self._needs[pod_class] = tuple(needed_company(pod))
        return list(dict.fromkeys(one.occupant.key for need in needs for one in self._among(need)))

    def _among(self, need: Audience) -> Iterator[Leaver]:
        label = required_label(need)
        if label is None or not need.namespace_selector.nothing:
            candidates: Iterable[Leaver] = self._leavers
        else:
            named = sorted(need.namespaces)
            candidates = (one for name in named for one in self._labelled.get((name, *label), ()))
        for one in candidates:
            metadata = one.occupant.pod.metadata
            namespace = metadata.namespace or ""
            if need.includes(namespace, metadata.labels or {}, self._namespaces.labels(namespace)):
                yield one


def needed_company(pod: Pod) -> Iterator[Audience]:
    """The pods that a pod is spread with, and those it must be near; terms that cannot be read ask for nobody."""
    namespace = pod.metadata.namespace or ""
    spec = fold_label_keys(pod.spec, pod.metadata.labels or {})
    near = spec.affinity.pod_affinity.required if spec.affinity and spec.affinity.pod_affinity else None
    try:
        for constraint in spec.topology_spread_constraints or ():
            if constraint.when_unsatisfiable == "DoNotSchedule":
                yield of_constraint(constraint, namespace)
        for term in near or ():
            yield of_term(term, namespace)
    except SelectorError:
        return


def _labels(leaver: Leaver) -> Iterator[_Label]:
    metadata = leaver.occupant.pod.metadata
    for key, value in (metadata.labels or {}).items():
        yield metadata.namespace or "", key, value
