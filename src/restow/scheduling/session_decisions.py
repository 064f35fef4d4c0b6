"""The decisions of a session, in the order in which they are to be carried out.

Goes in: what an action decided about a job. Comes out: `made`, a list that is complete at any time: if a plugin breaks
later on, what was decided before stands. With each decision the job has less to place, the shares of its queue are
charged, and the PodGroup cache counts the pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from restow.model.objects import Pod
from restow.model.queues import DEFAULT_QUEUE
from restow.model.reservations.seat_name import SeatName
from restow.model.resources import Vector
from restow.model.snapshot import Snapshot
from restow.model.times import format_time
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
from restow.scheduling.jobs import Job
from restow.scheduling.kept_room import KeptRoom
from restow.scheduling.pod_group_cache import PodGroupCache, requests_of
from restow.scheduling.pod_group_status import pod_group_status
from restow.scheduling.queue_shares import QueueShares
from restow.scheduling.statement import Statement

_NOT_NOMINATED: Mapping[str, str] = {}


class SessionDecisions:
    def __init__(
        self, snapshot: Snapshot, pod_groups: PodGroupCache, shares: QueueShares, kept_room: KeptRoom, now: float
    ) -> None:
        self.made: list[Decision] = []
        self._snapshot = snapshot
        self._pod_groups = pod_groups
        self._shares = shares
        self._kept_room = kept_room
        self._now = now
        self._position_of_hold: dict[Job, int] = {}
        self._messages: dict[Job, str] = {}
        """Why a job waits, for the status of its PodGroup."""

    # --- pods and seats are placed ------------------------------------------------------------------------------------

    def assign_single(self, job: Job, assigned: Assign) -> None:
        """The only pod of a job has a node."""
        job.pods = []
        self._assign(job, assigned)

    def accept(self, job: Job, statement: Statement) -> None:
        """Commit a statement: a job, or the part of it that may start, starts."""
        steps = statement.commit()
        for step in steps:
            if isinstance(step, Assign):
                self._assign(job, step)
            elif isinstance(step, HoldSeats):
                self._hold(job, step)
            else:
                self.made.append(step)
        job.mark_placed([pod for step in steps for pod in _pods_placed(job, step)])

    def _assign(self, job: Job, assigned: Assign) -> None:
        pod = assigned.cycle.pod
        self.made.append(assigned)
        self._pod_groups.assume(pod)
        if self._shares.is_limited:
            self._charge(job, pod)
            if assigned.seat is not None:  # the seat was charged when it was held
                self._shares.discharge(*self._charged_for_seat(assigned.seat))

    def _hold(self, job: Job, step: HoldSeats) -> None:
        """One decision for all seats that a reservation gets in this session."""
        position = self._position_of_hold.setdefault(job, len(self.made))
        if position == len(self.made):
            self.made.append(step)
        else:
            before = self.made[position]
            assert isinstance(before, HoldSeats)
            placements = (*before.placements, *step.placements)
            self.made[position] = HoldSeats(step.reservation, placements, before.waiting or step.waiting)
        for pod in _pods_placed(job, step):
            self._charge(job, pod)

    # --- jobs and pods wait -------------------------------------------------------------------------------------------

    def keep_room(self, job: Job, statement: Statement, plugins: Iterable[str], until: float | None) -> None:
        """Commit a statement of nominations: these plugins refuse the job now, and room is kept for it."""
        when = "" if until is None else f" by {format_time(until)}"
        self._messages[job] = reason = f"waiting for room that other pods are leaving{when}"
        for step in statement.commit():
            self.made.append(step)
            if isinstance(step, Nominate):
                self._kept_room.keep_assumed(step.pod, step.node, until)
                self._charge(job, step.pod)
                job.drop_pods([step.pod])
                message = f"waiting for room that other pods are leaving on node {step.node}{when}"
                self.made.append(RefusePod(step.pod, Code.UNSCHEDULABLE, message, frozenset(plugins)))
        self._refuse_rest(job, Code.UNSCHEDULABLE, f"pod group {job.name} is {reason}", plugins)
        job.pods = []  # of a gang, what it has beyond its minimum cannot start before that

    def refuse(
        self,
        job: Job,
        message: str,
        plugins: Iterable[str],
        code: Code = Code.UNSCHEDULABLE,
        nominated: Mapping[str, str] = _NOT_NOMINATED,
    ) -> None:
        """Everything left of a job has to wait; room is kept for pods that are nominated to a node, by UID."""
        self._messages[job] = message
        for pod in job.pods if nominated else ():
            node = nominated.get(pod.metadata.uid)
            if node:
                self.made.append(Nominate(pod, node))
                self._kept_room.keep(pod, node)
        self._refuse_rest(job, code, message, plugins)
        job.pods = []

    def refuse_pod(self, job: Job, pod: Pod, message: str, plugins: Iterable[str]) -> None:
        """One pod of a job has to wait, whatever becomes of the others."""
        self._messages[job] = message
        self.made.append(RefusePod(pod, Code.UNSCHEDULABLE, message, frozenset(plugins)))
        job.drop_pods([pod])

    def refuse_behind_waiting(self, job: Job) -> None:
        """No action decided about a job: an earlier one of its queue waits for room."""
        self._refuse_rest(job, Code.UNSCHEDULABLE, f"queue {job.queue} waits for an earlier job", ())

    def record_event(self, pod: Pod, reason: str, message: str) -> None:
        """An event about a pod; it decides nothing."""
        self.made.append(RecordEvent(pod, reason, message))

    def report_pod_groups(self, jobs: Iterable[Job]) -> None:
        """The status of the PodGroup of every gang, if it changed."""
        for job in jobs:
            if job.group is not None:
                status = pod_group_status(job, self._messages.get(job), self._now)
                if status is not None:
                    self.made.append(SetPodGroupStatus(job.group, status))

    # ------------------------------------------------------------------------------------------------------------------

    def _refuse_rest(self, job: Job, code: Code, message: str, plugins: Iterable[str]) -> None:
        refusing = frozenset(plugins)
        if job.reservation is not None:
            self.made.append(RefuseReservation(job.reservation, message, refusing, code))
        else:
            self.made += [RefusePod(pod, code, message, refusing) for pod in job.pods]

    def _charge(self, job: Job, pod: Pod) -> None:
        if self._shares.is_limited:
            self._shares.charge(job.queue, self._pod_groups.requests_of(pod))

    def _charged_for_seat(self, name: SeatName) -> tuple[str, Vector]:
        """The queue that a seat was charged to, and how much."""
        seat = self._snapshot.reservations.seat(name)
        return (
            (seat.queue or DEFAULT_QUEUE, requests_of(seat.reserved_pod)) if seat is not None else (DEFAULT_QUEUE, {})
        )


def _pods_placed(job: Job, step: Decision) -> list[Pod]:
    """The pods of a job that a decision puts somewhere."""
    if isinstance(step, Assign):
        return [step.pod]
    if not isinstance(step, HoldSeats):
        return []
    meta = step.reservation.metadata
    held = {str(SeatName(meta.namespace or "", meta.name, seat.task, seat.index)) for seat in step.placements}
    return [pod for pod in job.pods if pod.metadata.uid in held]
