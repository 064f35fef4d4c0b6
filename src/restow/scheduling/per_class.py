"""What plugins work out once per class of pods and keep for the next pod of it.

The states of the classes asked for last are kept, for as long as their snapshot lives; they do not depend on a pod's
volumes, nor on whose pods nodes are locked for. A state may refer to the parts of a snapshot, not to the snapshot
itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary, ref

from restow.model.cluster import PodClass, Snapshot
from restow.scheduling.framework import Cycle

_KEPT = 1024
T = TypeVar("T")


class PerClass(Generic[T]):
    def __init__(self, make: Callable[[Cycle], T]) -> None:
        self._make = make
        self._kept: WeakKeyDictionary[Snapshot, dict[PodClass, T]] = WeakKeyDictionary()
        self._last: tuple[ref[Snapshot], PodClass, T] | None = None

    def of(self, cycle: Cycle) -> T:
        """The state of the cycle's class."""
        pod_class = cycle.pod_class.base.unlocked
        last = self._last
        if last is not None and last[1] is pod_class and last[0]() is cycle.snapshot:
            return last[2]
        kept = self._kept.get(cycle.snapshot)
        if kept is None:
            kept = self._kept[cycle.snapshot] = {}
        state = kept.pop(pod_class, None)
        if state is None:
            state = self._make(cycle)
        kept[pod_class] = state
        self._last = (ref(cycle.snapshot), pod_class, state)
        if len(kept) > _KEPT:
            del kept[next(iter(kept))]
        return state
