"""The two heaps of the scheduling queue: pods that are ready to be tried, and pods that back off (activeQ, backoffQ).

A pod that leaves a heap is not searched for in it. Its row stays and is stale from then on: the pod is in another
state, or has a newer ticket. Stale rows are dropped when they come to the head.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from typing import Any

from restow.model.objects import Pod
from restow.scheduling.queue.queued_pod import QueuedPod, QueueState

QueueName = str
"""The Volcano queue of a pod (its `Queue` object), with a heap of its own for the pods that are ready to be tried."""


class ActiveQueue:
    def __init__(self, entries: Mapping[str, QueuedPod], queue_of: Callable[[Pod], QueueName]) -> None:
        self._entries = entries
        self._queue_of = queue_of
        self._heaps: dict[QueueName, list[tuple[Any, int, str]]] = {}
        self._tickets = 0

    def __len__(self) -> int:
        """How many pods are ready at the most: stale rows count."""
        return sum(map(len, self._heaps.values()))

    def put(self, entry: QueuedPod) -> None:
        entry.state = QueueState.ACTIVE
        self._tickets += 1
        entry.ticket = self._tickets
        heap = self._heaps.setdefault(self._queue_of(entry.pod), [])
        heapq.heappush(heap, (entry.position, entry.ticket, entry.pod.metadata.uid))

    def queues_with_pods(self) -> list[QueueName]:
        """The queues with a pod, by name."""
        return [queue for queue in sorted(self._heaps) if self._has_pod(queue)]

    def has_pods(self) -> bool:
        return any(self._has_pod(queue) for queue in list(self._heaps))

    def pop(self, queue: QueueName | None) -> QueuedPod | None:
        """The first pod of a queue, or of all; it is still in its state."""
        queues = [each for each in (list(self._heaps) if queue is None else [queue]) if self._has_pod(each)]
        if not queues:
            return None
        first = queues[0] if len(queues) == 1 else min(queues, key=lambda each: self._heaps[each][0])
        _, _, uid = heapq.heappop(self._heaps[first])
        return self._entries[uid]

    def _has_pod(self, queue: QueueName) -> bool:
        """Drop stale rows from the head of the heap of a queue; whether it has a pod now."""
        heap = self._heaps.get(queue)
        while heap:
            _, ticket, uid = heap[0]
            if _is_current(self._entries, uid, ticket, QueueState.ACTIVE):
                return True
            heapq.heappop(heap)
        if heap is not None:
            del self._heaps[queue]
        return False


class BackoffQueue:
    def __init__(self, entries: Mapping[str, QueuedPod]) -> None:
        self._entries = entries
        self._heap: list[tuple[float, Any, int, str]] = []
        self._tickets = 0

    def put(self, entry: QueuedPod) -> None:
        entry.state = QueueState.BACKOFF
        self._tickets += 1
        entry.ticket = self._tickets
        heapq.heappush(self._heap, (entry.ready_at, entry.position, entry.ticket, entry.pod.metadata.uid))

    def pop_ready(self, now: float) -> QueuedPod | None:
        """A pod whose back-off is over, the earliest first; it is still in its state."""
        while self._heap:
            at, _, ticket, uid = self._heap[0]
            current = _is_current(self._entries, uid, ticket, QueueState.BACKOFF)
            if current and at > now:
                return None
            heapq.heappop(self._heap)
            if current:
                return self._entries[uid]
        return None

    def next_ready_at(self) -> float | None:
        """When the first back-off ends; a stale row may say too early."""
        return self._heap[0][0] if self._heap else None


def _is_current(entries: Mapping[str, QueuedPod], uid: str, ticket: int, state: QueueState) -> bool:
    entry = entries.get(uid)
    return entry is not None and entry.state is state and entry.ticket == ticket
