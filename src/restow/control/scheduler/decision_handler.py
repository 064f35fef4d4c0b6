"""The decision handler: carries out what a session decided, in the order in which it was decided.

Goes in: decisions. Comes out:

    Assign             a binding cycle (`binding_tasks`)
    Nominate           remembered until the RefusePod of the same pod, which follows and makes it take effect: room is
                       kept for the pod on that node
    RefusePod          the pod goes back to the queue, and its status and an Event say why
    RecordEvent        an Event about a pod
    HoldSeats          the seats are written (`reservation_status`)
    RefuseReservation  its queue entry goes back to the queue, and its status says why
    SetPodGroupStatus  the status of a gang is written
"""

from __future__ import annotations

import asyncio
from typing import assert_never

from restow.control.scheduler.binding_tasks import BindingTasks
from restow.control.scheduler.broken_gangs import BrokenGangs
from restow.control.scheduler.gang_bind_barrier import GangBindBarriers
from restow.control.scheduler.monotonic_clock import monotonic_time
from restow.control.scheduler.nominator import Nominator
from restow.control.scheduler.pod_group_status_writer import PodGroupStatusWriter
from restow.control.scheduler.pod_status_writer import SCHEDULER_ERROR, PodStatusWriter
from restow.control.scheduler.reservation_status import ReservationStatusController
from restow.scheduling.decisions import (
    Assign,
    Decision,
    HoldSeats,
    Nominate,
    RecordEvent,
    RefusePod,
    RefuseReservation,
    SetPodGroupStatus,
)
from restow.scheduling.framework import Code
from restow.scheduling.queue.scheduling_queue import SchedulingQueue


class DecisionHandler:
    def __init__(
        self,
        queue: SchedulingQueue,
        nominator: Nominator,
        barriers: GangBindBarriers,
        broken_gangs: BrokenGangs,
        binding_tasks: BindingTasks,
        pod_status: PodStatusWriter,
        pod_group_status: PodGroupStatusWriter,
        reservations: ReservationStatusController,
    ) -> None:
        self._queue = queue
        self._nominator = nominator
        self._barriers = barriers
        self._broken_gangs = broken_gangs
        self._binding_tasks = binding_tasks
        self._pod_status = pod_status
        self._pod_group_status = pod_group_status
        self._reservations = reservations

    def carry_out(self, decisions: list[Decision], tasks: asyncio.TaskGroup) -> None:
        """Carry out the decisions of one session. Binding cycles run in `tasks` from now on."""
        nominations: dict[str, str] = {}
        # All members of a gang are at its barrier before the first of them may be bound.
        self._barriers.add_members(decision for decision in decisions if isinstance(decision, Assign))
        for decision in decisions:
            if isinstance(decision, Assign):
                self._nominator.end_nomination(decision.pod.metadata.uid, decision.node)
                self._binding_tasks.start(decision, tasks)
            elif isinstance(decision, RefusePod):
                self._refuse_pod(decision, nominations.get(decision.pod.metadata.uid, ""))
            elif isinstance(decision, Nominate):  # takes effect with the RefusePod of the same pod, which follows
                nominations[decision.pod.metadata.uid] = decision.node
            elif isinstance(decision, SetPodGroupStatus):
                self._pod_group_status.set_status(decision.group, decision.status)
            elif isinstance(decision, HoldSeats):
                self._reservations.seats_held(decision)
            elif isinstance(decision, RefuseReservation):
                self._refuse_reservation(decision)
            elif isinstance(decision, RecordEvent):
                self._pod_status.record_warning(decision.pod, decision.reason, decision.message)
            else:
                assert_never(decision)
        self._broken_gangs.drop_completed()

    def _refuse_pod(self, refusal: RefusePod, nominated: str) -> None:
        pod, uid, now = refusal.pod, refusal.pod.metadata.uid, monotonic_time()
        if nominated:
            self._nominator.nominate_to(pod, nominated)
        else:
            self._nominator.end_nomination(uid)
        if refusal.code is Code.ERROR:
            self._queue.requeue_failed(uid, now)
            self._pod_status.report_unschedulable(pod, refusal.message, nominated=nominated, reason=SCHEDULER_ERROR)
        else:
            self._queue.requeue_refused(uid, refusal.plugins, now)
            self._pod_status.report_unschedulable(pod, refusal.message, nominated=nominated)

    def _refuse_reservation(self, refusal: RefuseReservation) -> None:
        uid, now = refusal.reservation.metadata.uid, monotonic_time()
        if refusal.code is Code.ERROR:
            self._queue.requeue_failed(uid, now)
        else:
            self._queue.requeue_refused(uid, refusal.plugins, now)
        self._reservations.seats_refused(refusal)
