"""The binding cycles under way, and what follows from how they end.

Goes in: pods that a session assigned to nodes. Comes out: one task per pod that runs its binding cycle, and then

    bound      the pod leaves the queue; its seat is consumed; PostBind plugins are called
    otherwise  1  the pod's last version is taken over, if another component bound it
               2  every Unreserve plugin in reverse order, then the assumed pod is forgotten: its room is free for
                  others
               3  the assigned seat and the nomination are given up
               4  the queue: refused by a Permit plugin, failed with back-off, or deleted if the pod is gone
               5  if the gang of the pod is bound in part now, it is completed before all others
"""

from __future__ import annotations

import asyncio
import logging

from restow.control.scheduler.binding_cycle import BindingCycle
from restow.control.scheduler.binding_outcomes import Bound, Failed, Lost, Rejected
from restow.control.scheduler.broken_gangs import BrokenGangs
from restow.control.scheduler.gang_bind_barrier import GangBindBarriers
from restow.control.scheduler.monotonic_clock import monotonic_time
from restow.control.scheduler.nominator import Nominator
from restow.control.scheduler.pod_status_writer import SCHEDULER_ERROR, PodStatusWriter
from restow.control.scheduler.pod_updates import PodUpdates
from restow.control.scheduler.reservation_status import ReservationStatusController
from restow.control.scheduler.scheduler_cache import SchedulerCache
from restow.scheduling.decisions import Assign
from restow.scheduling.engine import Engine
from restow.scheduling.explain import describe_plugin_failure, join_reasons
from restow.scheduling.framework import PostBindPlugin
from restow.scheduling.queue.scheduling_queue import SchedulingQueue

log = logging.getLogger(__name__)


class BindingTasks:
    def __init__(
        self,
        engine: Engine,
        cache: SchedulerCache,
        queue: SchedulingQueue,
        nominator: Nominator,
        pods: PodUpdates,
        binding_cycle: BindingCycle,
        barriers: GangBindBarriers,
        broken_gangs: BrokenGangs,
        pod_status: PodStatusWriter,
        reservation_status: ReservationStatusController,
    ) -> None:
        self._engine = engine
        self._cache = cache
        self._queue = queue
        self._nominator = nominator
        self._pods = pods
        self._binding_cycle = binding_cycle
        self._barriers = barriers
        self._broken_gangs = broken_gangs
        self._pod_status = pod_status
        self._reservation_status = reservation_status
        self._post_bind_plugins = [plugin for plugin in engine.plugins if isinstance(plugin, PostBindPlugin)]
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def __contains__(self, uid: object) -> bool:
        """Whether a pod has a binding cycle under way."""
        return uid in self._tasks

    @property
    def at_work(self) -> int:
        """How many cycles are under way and do not wait for plugins, other pods or the watch."""
        return len(self._tasks) - self._binding_cycle.waiting

    def start(self, assign: Assign, tasks: asyncio.TaskGroup) -> None:
        self._tasks[assign.pod.metadata.uid] = tasks.create_task(self._run(assign))

    async def _run(self, assign: Assign) -> None:
        try:
            outcome = await self._binding_cycle.run(assign)
        except Exception as error:  # of a plugin: a bug that one pod meets must not stop the others
            log.exception("binding cycle failed", extra={"pod": assign.pod.metadata.name, "node": assign.node})
            outcome = Failed(describe_plugin_failure(error))
        del self._tasks[assign.pod.metadata.uid]
        if isinstance(outcome, Bound):
            self._pod_bound(assign, outcome)
        else:
            self._pod_not_bound(assign, outcome)
        # Last: as long as its barrier is closed, the gang cannot be broken, so a failed start does not count as that.
        self._barriers.remove_member(assign.pod)
        self._cache.signal.wake_scheduling_loop()

    def _pod_bound(self, assign: Assign, outcome: Bound) -> None:
        self._queue.delete(assign.pod.metadata.uid)
        self._pod_status.report_scheduled(assign, outcome.consumed_seat)
        self._reservation_status.pod_bound(assign, outcome.consumed_seat)
        for plugin in self._post_bind_plugins:
            try:
                plugin.post_bind(assign.cycle, assign.node)
            except Exception:
                log.exception("post-bind failed", extra={"plugin": plugin.name, "pod": assign.pod.metadata.name})

    def _pod_not_bound(self, assign: Assign, outcome: Lost | Rejected | Failed) -> None:
        pod, uid, now = assign.pod, assign.pod.metadata.uid, monotonic_time()
        # 1. Another component bound the pod: it has to be known there before its assumption is dropped here.
        if isinstance(outcome, Lost) and outcome.pod is not None:
            self._pods.upsert_pod(outcome.pod)
        # 2. Take back what the session reserved.
        try:
            self._engine.unreserve(assign.cycle, assign.node)
        except Exception:
            log.exception("unreserve failed", extra={"pod": pod.metadata.name, "node": assign.node})
        self._pods.forget_pod(pod)
        # 3. Its seat and its nomination.
        self._reservation_status.seat_not_consumed(assign)
        self._nominator.end_nomination(uid, assign.node)
        # 4. and 5. Its place in the queue, and its gang.
        if isinstance(outcome, Lost) or self._cache.latest(pod) is None:
            self._queue.delete(uid)
            self._broken_gangs.pod_not_bound(assign, "it is gone")
        elif isinstance(outcome, Rejected):
            message = join_reasons(outcome.verdict.reasons)
            self._queue.requeue_refused(uid, [outcome.verdict.plugin], now)
            self._pod_status.report_unschedulable(pod, message)
            self._broken_gangs.pod_not_bound(assign, message)
        else:
            self._queue.requeue_failed(uid, now)
            self._pod_status.report_unschedulable(pod, outcome.message, reason=SCHEDULER_ERROR)
            self._broken_gangs.pod_not_bound(assign, outcome.message, retry_at_once=outcome.retry_at_once)
