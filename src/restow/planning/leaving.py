"""Leaving: who gives up a place in the present wave, and whom that concerns.

Goes in: pods as they are given seats elsewhere. Comes out: of those, the ones whose going may spoil a place for a pod:
the pods it is spread with and the pods it must be near. Whom a pod keeps away from is no worry: their going only helps.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from restow.model.cluster import Occupant, PodClass, Snapshot
from restow.model.cluster.audience import Audience, of_constraint, of_term
from restow.model.cluster.seat import fold_label_keys
from restow.model.objects import Pod
from restow.model.selectors import SelectorError

_Alike = tuple[str, tuple[tuple[str, str], ...]]
"""Namespace and labels: what others can tell pods apart by."""


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
        self._alike: dict[_Alike, list[str]] = {}
        self._needs: dict[PodClass, tuple[Audience, ...]] = {}
        self._concerns: dict[PodClass, dict[_Alike, bool]] = {}

    def __len__(self) -> int:
        return len(self._leavers)

    def add(self, leaver: Leaver) -> None:
        self._leavers.append(leaver)
        self._alike.setdefault(_alike(leaver.occupant.pod), []).append(leaver.occupant.key)

    def take_back(self, number: int) -> None:
        """Forget all but the first `number`."""
        while len(self._leavers) > number:
            self._alike[_alike(self._leavers.pop().occupant.pod)].pop()

    def end(self) -> list[Leaver]:
        """Everybody is gone: who that was."""
        gone, self._leavers = self._leavers, []
        self._alike.clear()
        return gone

    def concerning(self, pod: Pod, pod_class: PodClass) -> list[str]:
        """The keys of those whose going may spoil a place for a pod of this class."""
        if not self._leavers or not pod_class.shape.readings:
            return []
        needs = self._needs.get(pod_class)
        if needs is None:
            needs = self._needs[pod_class] = tuple(needed_company(pod))
        if not needs:
            return []
        known = self._concerns.setdefault(pod_class, {})
        return [key for alike, keys in self._alike.items() if self._concern(needs, alike, known) for key in keys]

    def _concern(self, needs: tuple[Audience, ...], alike: _Alike, known: dict[_Alike, bool]) -> bool:
        found = known.get(alike)
        if found is None:
            namespace, labels = alike[0], dict(alike[1])
            about = self._namespaces.labels(namespace)
            found = known[alike] = any(one.includes(namespace, labels, about) for one in needs)
        return found


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


def _alike(pod: Pod) -> _Alike:
    return pod.metadata.namespace or "", tuple((pod.metadata.labels or {}).items())
