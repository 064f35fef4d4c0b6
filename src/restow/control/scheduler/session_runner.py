"""The session runner: one session per batch, from pods to decisions.

Goes in: a batch. Comes out: a decision for every pod and every reservation in it, except those that the session left
for later, which go back to their place in the queue. A session is synchronous: no event comes in between.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from restow.control.scheduler.batch_selection import Batch
from restow.control.scheduler.dependencies import SchedulerDependencies
from restow.control.scheduler.metrics import ERROR, SCHEDULED, UNSCHEDULABLE, SchedulerMetrics
from restow.control.scheduler.monotonic_clock import monotonic_time
from restow.control.scheduler.nominator import Nominator
from restow.control.scheduler.reservation_queue_entries import ReservationQueueEntries
from restow.control.scheduler.scheduler_cache import SchedulerCache
from restow.model.objects import Pod, Reservation
from restow.scheduling.decisions import Assign, Decision, HoldSeats, RefusePod, RefuseReservation
from restow.scheduling.explain import describe_plugin_failure
from restow.scheduling.framework import Code
from restow.scheduling.queue.scheduling_queue import SchedulingQueue
from restow.scheduling.session import PendingWork, Session

log = logging.getLogger(__name__)


class SessionRunner:
    def __init__(
        self,
        dependencies: SchedulerDependencies,
        metrics: SchedulerMetrics,
        cache: SchedulerCache,
        queue: SchedulingQueue,
        nominator: Nominator,
        entries: ReservationQueueEntries,
    ) -> None:
        self._clock = dependencies.clock
        self._profile = dependencies.profile
        self._settings = dependencies.settings
        self._metrics = metrics
        self._cache = cache
        self._queue = queue
        self._nominator = nominator
        self._entries = entries

    def decide(self, batch: Batch) -> list[Decision]:
        """Run one session. If a plugin breaks it, the decisions made before stand, and all other pods and reservations
        are refused with the error."""
        pods, reservations = self._split(batch.pods)
        self._cache.note_pods_seen()
        began = monotonic_time()
        session = None
        try:
            session = Session(
                self._cache.snapshot,
                self._profile.engine,
                self._cache.pod_groups,
                PendingWork(pods, reservations, self._nominator.pods.values(), batch.truncated_queues),
                now=self._clock.now(),
                namespace_share=self._settings.namespace_share,
                scheduler_names=self._profile.scheduler_names,
            )
            decisions = session.run(self._profile.actions)
            for pod in session.postponed:
                self._queue.requeue_postponed(pod.metadata.uid)
        except Exception as error:
            log.exception("session failed", extra={"pods": len(pods)})
            decisions = _refuse_undecided(session.decisions.made if session else (), pods, reservations, error)
        self._return_entries(reservations, decisions)
        self._measure(decisions, pods, monotonic_time() - began)
        return decisions

    def _split(self, batch: list[Pod]) -> tuple[list[Pod], list[Reservation]]:
        """The pods, and the reservations with queue entries among them."""
        pods = [pod for pod in batch if not self._entries.is_entry(pod)]
        reservations = [self._entries.reservation_of(pod) for pod in batch if self._entries.is_entry(pod)]
        return pods, [reservation for reservation in reservations if reservation is not None]

    def _return_entries(self, reservations: list[Reservation], decisions: Iterable[Decision]) -> None:
        """Reservations with all their seats leave the queue. Those without any decision go back to their place in it. A
        refused one stays in flight until `decision_handler` says which events may help."""
        refused = {each.reservation.metadata.uid for each in decisions if isinstance(each, RefuseReservation)}
        held = {each.reservation.metadata.uid for each in decisions if isinstance(each, HoldSeats)}
        for uid in (reservation.metadata.uid for reservation in reservations):
            if uid not in refused:
                (self._queue.delete if uid in held else self._queue.requeue_postponed)(uid)

    def _measure(self, decisions: Iterable[Decision], pods: list[Pod], seconds: float) -> None:
        assigned = sum(isinstance(decision, Assign) for decision in decisions)
        log.info("session", extra={"pods": len(pods), "assigned": assigned, "seconds": round(seconds, 4)})
        for decision in decisions:
            if isinstance(decision, Assign):
                result = SCHEDULED
            elif isinstance(decision, RefusePod):
                result = ERROR if decision.code is Code.ERROR else UNSCHEDULABLE
            else:
                continue
            self._metrics.record_attempt(result, decision.pod.spec.scheduler_name or "", seconds / len(pods))


def _refuse_undecided(
    decided: Iterable[Decision], pods: list[Pod], reservations: list[Reservation], error: Exception
) -> list[Decision]:
    """The decisions that were made, and a refusal with the error for every pod and reservation that has none."""
    decisions = list(decided)
    message = describe_plugin_failure(error)
    decided_pods = {each.pod.metadata.uid for each in decisions if isinstance(each, Assign | RefusePod)}
    decided_reservations = {
        each.reservation.metadata.uid for each in decisions if isinstance(each, HoldSeats | RefuseReservation)
    }
    decisions += [RefusePod(pod, Code.ERROR, message) for pod in pods if pod.metadata.uid not in decided_pods]
    undecided = [each for each in reservations if each.metadata.uid not in decided_reservations]
    return decisions + [RefuseReservation(each, message, code=Code.ERROR) for each in undecided]
