"""A plan while it is carried out: the names of its jobs, what has become of its moves, and how far it is.

Goes in: the plan and what the event handlers know. Comes out: facts for `plan_runner`, and the progress for its caller.
The jobs in the API server are the only memory: a second process that applies the same plan finds the same state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from restow.control.descheduler.event_handlers import DeschedulerEventHandlers
from restow.control.descheduler.plan_jobs import PlanJobs, new_plan_name, pod_reference
from restow.migration.conditions import is_job_ended
from restow.model.objects import JobPhase, ObjectReference, PodMigrationJob
from restow.planning.plan import Move, Plan
from restow.planning.replay import PlanDefect

APPLY_PLAN_TITLE: Final = "apply"


class ApplyProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a plan is."""

    plan: str
    """The name of the plan."""
    jobs: dict[int, PodMigrationJob]
    """By order of their move; a move without a job has not begun."""
    wave: int
    """The current wave."""
    stop_reason: str | None = None
    """Why evictions are stopped, if they are."""
    interruption: str | None = None
    """Why the plan does not go on for now: the API server does not answer, or is too busy."""
    repairs: tuple[str, ...] = ()
    """The differences to the plan as it was saved, in sentences."""
    filled_places: int = 0
    """How many of the plan's places have their pods."""

    @property
    def succeeded(self) -> int:
        return sum(job.status.phase == JobPhase.SUCCEED for job in self.jobs.values())

    @property
    def failed(self) -> int:
        return sum(is_job_ended(job) and job.status.phase != JobPhase.SUCCEED for job in self.jobs.values())


class AppliedPlan:
    def __init__(self, plan: Plan, handlers: DeschedulerEventHandlers) -> None:
        self.plan = plan
        self.name = new_plan_name(APPLY_PLAN_TITLE, plan)
        self.jobs = PlanJobs(plan=self.name, move_count=len(plan.moves))
        self.wave = 0
        self.interruption: str | None = None
        self.places_deadline: float | None = None
        """When the pods have had enough time to take their places; None while moves are left."""
        self._handlers = handlers
        self._moves = {move.order: move for move in plan.moves}
        """By order, as their jobs are named after them. A repair may add some."""
        self._repairs: dict[str, None] = {}
        self._orders_left = set(self._moves)

    def unstarted_moves(self) -> list[Move]:
        """The moves without a job that no repair has dropped."""
        return [move for move in self.plan.moves if move.order in self._orders_left and self.job_of(move) is None]

    def previous_move(self, move: Move) -> Move | None:
        """The move of the same pod before this one."""
        earlier = (other for other in self.plan.moves if other.order < move.order and _pod_key(other) == _pod_key(move))
        return max(earlier, key=lambda other: other.order, default=None)

    def original_move(self, move: Move) -> Move:
        """The move of this order as the saved plan has it. Its job is named after that one, whatever a repair
        changes."""
        return self._moves.setdefault(move.order, move)

    def accept_repair(self, rest: Plan, changes: Iterable[PlanDefect]) -> None:
        """From now on, these are the moves that are left."""
        self._orders_left = {move.order for move in rest.moves}
        self._repairs |= dict.fromkeys(map(str, changes))

    # --- what has become of the moves ---------------------------------------------------------------------------------

    def job_of(self, move: Move) -> PodMigrationJob | None:
        return self._handlers.job(self.jobs.job_name(move))

    def started_jobs(self) -> dict[int, PodMigrationJob]:
        """By order of their move."""
        jobs = {order: self.job_of(move) for order, move in self._moves.items()}
        return {order: job for order, job in jobs.items() if job is not None}

    def current_pod(self, move: Move) -> ObjectReference | None:
        """The pod that a move is about now; None if the pod's previous move has failed, so that the plan has lost it.

        A pod that moves twice is another pod the second time: the job of its first move names the successor."""
        previous = self.previous_move(move)
        if previous is None:
            # A plan that was written by hand has no UIDs: then the pod that has the name now is meant.
            pod = self._handlers.pod(move.namespace, move.pod) if not move.uid else None
            return replace(pod_reference(move), uid=pod.metadata.uid) if pod is not None else pod_reference(move)
        job = self.job_of(previous)
        if job is None:
            return pod_reference(move)
        return job.status.pod_ref if job.status.phase == JobPhase.SUCCEED else None

    def current_move(self, move: Move, pod: ObjectReference) -> Move:
        """The move of the pod that it is about now, from the node where that pod is. Before the previous move has
        begun, neither is known, and the move stays as it is."""
        previous = self.previous_move(move)
        job = self.job_of(previous) if previous is not None else None
        source = (job.status.node_name if job is not None else None) or move.source
        return replace(move, pod=pod.name or "", uid=pod.uid or "", source=source)

    def progress(self) -> ApplyProgress:
        places = (self._handlers.pod(place.namespace, place.pod) for place in self.plan.places)
        return ApplyProgress(
            plan=self.name,
            jobs=self.started_jobs(),
            wave=self.wave,
            stop_reason=self._handlers.stop_reason(),
            interruption=self.interruption,
            repairs=tuple(self._repairs),
            filled_places=sum(pod is not None and bool(pod.spec.node_name) for pod in places),
        )


def _pod_key(move: Move) -> tuple[str, str, str]:
    return move.namespace, move.pod, move.uid
