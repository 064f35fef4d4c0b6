"""Caches what a plugin works out once per class of pods, for the next pod of the class.

Goes in: how the state of a class is made. Comes out: the state of a cycle's class. The classes used last are kept, for
as long as their snapshot lives. A state does not depend on a pod's volumes or on the queue that nodes are locked for.
It may refer to the parts of a snapshot, not to the snapshot itself: that would keep it alive for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary, ref

from restow.model.cluster import PodClass
from restow.model.snapshot import Snapshot
from restow.scheduling.framework import Cycle

_MOST_CLASSES = 1024
T = TypeVar("T")


class ClassStateCache(Generic[T]):
    def __init__(self, make: Callable[[Cycle], T]) -> None:
        self._make = make
        self._states: WeakKeyDictionary[Snapshot, dict[PodClass, T]] = WeakKeyDictionary()
        self._last: tuple[ref[Snapshot], PodClass, T] | None = None

    def state_of(self, cycle: Cycle) -> T:
        """The state of the cycle's class."""
        pod_class = cycle.pod_class.base.unlocked
        last = self._last
        if last is not None and last[1] is pod_class and last[0]() is cycle.snapshot:
            return last[2]
        states = self._states.get(cycle.snapshot)
        if states is None:
            states = self._states[cycle.snapshot] = {}
        state = states.pop(pod_class, None)
        if state is None:
            state = self._make(cycle)
        states[pod_class] = state
        self._last = (ref(cycle.snapshot), pod_class, state)
        if len(states) > _MOST_CLASSES:
            del states[next(iter(states))]
        return state
