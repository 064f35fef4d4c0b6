"""Batch selection: which pods the next session decides about.

Goes in: the scheduling queue, and how many pods are being bound. Comes out: a `Batch`: the pods of broken gangs first,
then the most important ones of every queue that competes, each with the rest of its gang.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from restow.control.scheduler.binding_tasks import BindingTasks
from restow.control.scheduler.broken_gangs import BrokenGangs
from restow.control.scheduler.scheduler_cache import SchedulerCache
from restow.control.scheduler.settings import SchedulerSettings
from restow.model.object_key import Key
from restow.model.objects import Pod
from restow.scheduling.queue.scheduling_queue import SchedulingQueue


class Batch(msgspec.Struct, frozen=True):
    """What one session decides about."""

    pods: list[Pod]
    """With the queue entries of reservations among them."""
    truncated_queues: frozenset[str]
    """Queues with more pods waiting behind these."""


class BatchSelection:
    def __init__(
        self,
        settings: SchedulerSettings,
        cache: SchedulerCache,
        queue: SchedulingQueue,
        broken_gangs: BrokenGangs,
        binding_tasks: BindingTasks,
    ) -> None:
        self._settings = settings
        self._snapshot, self._pod_groups = cache.snapshot, cache.pod_groups
        self._queue = queue
        self._broken_gangs = broken_gangs
        self._binding_tasks = binding_tasks

    def take(self, now: float) -> Batch:
        """Take the next batch from the scheduling queue; its pods are in flight from now on."""
        pods: dict[str, Pod] = {}
        # 1. Broken gangs: as a whole, as soon as one of their pods may be tried.
        for gang in self._broken_gangs:
            if any(self._queue.is_requeued(pod.metadata.uid) for pod in self._pod_groups.members(gang)):
                pods |= self._pending_members(gang)
        # 2. The same number from every queue that competes: one queue with many pods must not keep out the others.
        limit = self._limit(now)
        is_usage_limited = self._pod_groups.queues.is_usage_limited
        queues: Sequence[str | None] = self._queue.queues_with_pods(now) if is_usage_limited else [None]
        for queue in queues if limit > 0 else ():
            pods |= self._first_pods(now, queue, -(-limit // len(queues)))
        truncated_queues = self._queue.queues_with_pods(now) if is_usage_limited else ()
        return Batch(list(pods.values()), frozenset(truncated_queues))

    def _limit(self, now: float) -> int:
        """How many pods may be decided now. While many wait, none until there is room for a large batch: pods that are
        alike cost less in one session."""
        limit = self._settings.max_binding_pods
        room = limit - self._binding_tasks.at_work
        large_batch = min(self._settings.max_session_pods, max(limit // 2, 1))
        return min(room, large_batch) if room >= large_batch or room >= self._queue.ready_count(now) else 0

    def _first_pods(self, now: float, queue: str | None, limit: int) -> dict[str, Pod]:
        """The first pods of one queue, or of all, with the rest of their gangs even beyond the limit."""
        pods: dict[str, Pod] = {}
        while len(pods) < limit and (pod := self._queue.pop(now, queue)) is not None:
            if self._is_unplaced(pod):
                pods[pod.metadata.uid] = pod
                gang = self._pod_groups.gang_of(pod)
                if gang is not None:
                    pods |= self._pending_members(gang)
        return pods

    def _pending_members(self, gang: Key) -> dict[str, Pod]:
        """The pods of a gang in the scheduling queue, even those that still back off."""
        taken = [self._queue.take_pod(pod.metadata.uid) for pod in self._pod_groups.members(gang)]
        return {pod.metadata.uid: pod for pod in taken if pod is not None and self._is_unplaced(pod)}

    def _is_unplaced(self, pod: Pod) -> bool:
        """Whether a pod has no node yet; if it has, it leaves the queue."""
        if pod.metadata.uid not in self._snapshot.pods.known:
            return True
        self._queue.delete(pod.metadata.uid)
        return False
