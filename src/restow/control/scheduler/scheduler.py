"""The scheduler: its loop, and how its parts are put together.

Goes in: an API server, a clock, a Random and a `Profile` (plugins and actions). What comes out happens in the API
server. Nothing that matters lives only here: the next leader starts from lists and goes on.

    watch events ──event_handlers──> snapshot, PodGroup cache, scheduling queue
                                                             │  1  batch_selection: pods in order, gangs whole
                                                             v
                                                        one batch
                                                             │  2  session_runner: one session
                                                             v
                                                         decisions
                                                             │  3  decision_handler
           ┌──────────────────────────────┬──────────────────┴───────────┐
           v                              v                              v
    RefusePod: back to the queue,   HoldSeats: the status          Assign: a binding cycle,
    status and Event say why        of the reservation             which ends bound, or with
                                    is written                     everything given back

Steps 1 to 3 are synchronous: no event comes in between. Everything that waits is a task of its own.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from random import Random

from restow.client.event_recorder import EventRecorder
from restow.client.shared_informers import SharedInformers
from restow.client.verbs import Client
from restow.control.scheduler.assumed_pod_expiry import AssumedPodExpiry
from restow.control.scheduler.batch_selection import BatchSelection
from restow.control.scheduler.binding_cycle import BindingCycle
from restow.control.scheduler.binding_tasks import BindingTasks
from restow.control.scheduler.broken_gangs import BrokenGangs
from restow.control.scheduler.decision_handler import DecisionHandler
from restow.control.scheduler.dependencies import SchedulerDependencies
from restow.control.scheduler.event_handlers import EventHandlers
from restow.control.scheduler.gang_bind_barrier import GangBindBarriers
from restow.control.scheduler.live_reads import LiveReads
from restow.control.scheduler.metrics import SchedulerMetrics
from restow.control.scheduler.monotonic_clock import monotonic_time
from restow.control.scheduler.node_updates import NodeUpdates
from restow.control.scheduler.nominator import Nominator
from restow.control.scheduler.pod_group_status_writer import PodGroupStatusWriter
from restow.control.scheduler.pod_status_writer import PodStatusWriter
from restow.control.scheduler.pod_updates import PodUpdates
from restow.control.scheduler.pods_awaiting_owners import PodsAwaitingOwners
from restow.control.scheduler.reservation_parts import make_reservation_parts
from restow.control.scheduler.reservation_status import ReservationStatusController
from restow.control.scheduler.scheduler_cache import SchedulerCache
from restow.control.scheduler.session_runner import SessionRunner
from restow.control.scheduler.settings import SchedulerSettings
from restow.control.scheduler.status_write_queue import StatusWriteQueue
from restow.ports import Api, Clock
from restow.scheduling.queue.queue_sort import queue_sort_order
from restow.scheduling.queue.queued_pod import QueueState
from restow.scheduling.queue.scheduling_queue import SchedulingQueue
from restow.scheduling.registry import Profile

_SHORTEST_SLEEP = 0.01
_PENDING_PODS = {
    "active": QueueState.ACTIVE,
    "backoff": QueueState.BACKOFF,
    "unschedulable": QueueState.UNSCHEDULABLE,
    "gated": QueueState.GATED,
}
"""The parts of the queue by the names that kube-scheduler's metric scheduler_pending_pods gives them."""


class Scheduler:
    """`run()` it until it is cancelled; one at a time per cluster, which leader election sees to."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        rng: Random,
        *,
        profile: Profile,
        settings: SchedulerSettings | None = None,
        metrics: SchedulerMetrics | None = None,
        informers: SharedInformers | None = None,
    ) -> None:
        self._settings = settings = settings or SchedulerSettings()
        metrics = metrics or SchedulerMetrics()
        client = Client(api, manager="restow-scheduler")

        # 1. What is known of the cluster.
        self._cache = cache = SchedulerCache(informers or SharedInformers(client, rng), profile.scheduler_names)
        self._recorder = EventRecorder(client, clock, Random(rng.getrandbits(64)))
        dependencies = SchedulerDependencies(client, clock, self._recorder, profile, settings)

        # 2. What is written about pods and gangs.
        barriers = GangBindBarriers(cache.pod_groups, cache.snapshot)
        self._status_writes = StatusWriteQueue()
        pod_status = PodStatusWriter(dependencies, cache, self._status_writes)
        group_status = PodGroupStatusWriter(dependencies, cache, barriers, self._status_writes)

        # 3. What waits to be scheduled: pods, and reservations among them.
        self._queue = queue = _scheduling_queue(profile, cache, pod_status)
        nominator = Nominator(queue)
        binding_slots = asyncio.Semaphore(settings.binding_writers)
        self._reservation_parts = parts = make_reservation_parts(dependencies, cache, queue, binding_slots)

        # 4. What events change in all of that. Handlers are called once `run` has begun, and not before.
        awaiting_owners = PodsAwaitingOwners(cache.snapshot)
        nodes = NodeUpdates(cache.snapshot, parts.work)
        pods = PodUpdates(cache, queue, nominator, awaiting_owners, parts.work)
        self._handlers = EventHandlers(cache, queue, nodes, pods, parts.updates, awaiting_owners, group_status)

        # 5. The loop: batch, session, decisions; and what goes on beside it.
        live_reads = LiveReads(client, cache, nodes, pods)
        self._reservations = reservations = ReservationStatusController(dependencies, cache, parts, live_reads)
        self._cycle = cycle = BindingCycle(dependencies, cache, queue, barriers, pod_status, binding_slots)
        self._broken_gangs = gangs = BrokenGangs(cache, queue, nominator, barriers, group_status)
        self._binding_tasks = tasks = BindingTasks(
            profile.engine, cache, queue, nominator, pods, cycle, barriers, gangs, pod_status, reservations
        )
        self._batches = BatchSelection(settings, cache, queue, gangs, tasks)
        self._sessions = SessionRunner(dependencies, metrics, cache, queue, nominator, parts.entries)
        self._decisions = DecisionHandler(
            queue, nominator, barriers, gangs, tasks, pod_status, group_status, reservations
        )
        self._assumed_pod_expiry = AssumedPodExpiry(dependencies, cache, pods, tasks)
        self._ready = asyncio.Event()
        _expose_pending_pods(metrics, queue)

    async def run(self) -> None:
        """Schedule until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._handlers.run(), name="scheduler event handlers")
            for number in range(self._settings.event_writers):
                tasks.create_task(self._recorder.run(), name=f"scheduler events {number}")
            for number in range(self._settings.status_writers):
                tasks.create_task(self._status_writes.run(), name=f"scheduler status {number}")
            # After a change of leader: nothing is decided or written before everything that exists was seen.
            await self._handlers.synced()
            self._broken_gangs.find_all()
            self._reservations.start(tasks)
            self._ready.set()
            tasks.create_task(self._assumed_pod_expiry.run(), name="scheduler assumed-pod expiry")
            await self._schedule_forever(tasks)

    async def ready(self) -> None:
        """Wait until the scheduler knows the cluster and has begun."""
        await self._ready.wait()

    # --- the loop -----------------------------------------------------------------------------------------------------

    async def _schedule_forever(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            # The signal is reset before the queue is looked at: a change during the session is not slept through.
            self._cache.signal.reset()
            now = monotonic_time()
            self._queue.flush_unschedulable(now)
            batch = self._batches.take(now)
            if batch.pods:
                self._decisions.carry_out(self._sessions.decide(batch), tasks)
                await asyncio.sleep(0)  # let events in, and binding cycles begin
            else:
                await self._sleep(now)

    async def _sleep(self, now: float) -> None:
        """Until something happens, or until a pod is due by itself."""
        due = self._queue.next_due(now)
        if due is not None and due <= now:
            # A pod is due and was not taken: too many bindings are under way. When one has ended, others are about to:
            # a short sleep makes room for a large batch instead of a session for every pod.
            await self._cache.signal.wait_for_wakeup()
            await asyncio.sleep(_SHORTEST_SLEEP)
            return
        delay = None if due is None else max(due - now, _SHORTEST_SLEEP)
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._cache.signal.wait_for_wakeup()


def _scheduling_queue(profile: Profile, cache: SchedulerCache, pod_status: PodStatusWriter) -> SchedulingQueue:
    return SchedulingQueue(
        hints=profile.hints,
        pre_enqueue=profile.pre_enqueue,
        order=queue_sort_order(profile.engine.sort),
        queue_of=cache.pod_groups.queue_of,
        report_gated=pod_status.report_gated,
    )


def _expose_pending_pods(metrics: SchedulerMetrics, queue: SchedulingQueue) -> None:
    def count_pods(state: QueueState) -> int:
        return len(queue.pods(state))

    for name, state in _PENDING_PODS.items():
        metrics.set_pending_pods(name, partial(count_pods, state))
