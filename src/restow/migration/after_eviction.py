"""After the pod has left, or while it leaves: see its successor into the seat, and Ready.

Goes in: facts about a job whose pod is terminating or gone, by whoever's hand. Comes out: the step that follows it.
"""

from __future__ import annotations

from msgspec.structs import replace

from restow.migration.conditions import ConditionUpdate, is_condition_true, with_conditions
from restow.migration.facts import Facts
from restow.migration.history import evicted_at
from restow.migration.steps import (
    Step,
    Wait,
    fail_job,
    job_done,
    pod_name,
    reservation_exists,
    reservation_failure,
    reservation_failure_reason,
    wait_briefly,
    wait_for,
)
from restow.model.objects import (
    JobConditionType,
    JobReason,
    ObjectReference,
    Pod,
    PodMigrationJobStatus,
    ReservationPhase,
)
from restow.model.pods import is_ready, is_terminating
from restow.model.times import time_of


def follow(facts: Facts) -> Step:
    """The pod leaves, or has left: see its successor into the seat."""
    step = _just_starting(facts) if facts.successor_ref is not None else _no_seat(facts) or _just_left(facts)
    if step is not None:
        return step
    facts = _observed(facts)
    if facts.successor_ref is None:
        told = f"the successor of pod {pod_name(facts)} has not taken the seat{_where(facts)} yet"
        waiting = ConditionUpdate(
            JobConditionType.POD_BOUND_RESERVATION, False, JobReason.WAIT_FOR_POD_BIND_RESERVATION, told
        )
        return wait_for(facts, waiting)
    return _see_ready(facts, facts.successor_ref)


def _no_seat(facts: Facts) -> Step | None:
    """Whether the pod leaves without a seat to go to, and so ends the job."""
    reservation = facts.reservation
    if not reservation_exists(reservation):
        if facts.reservation_reference is None or not facts.reservation_reference.name:
            return fail_job(
                facts, JobReason.MISSING_POD, f"pod {pod_name(facts)} left before a seat was reserved for it"
            )
        told = f"reservation {facts.reservation_reference.name} is gone, and pod {pod_name(facts)} has left"
        return fail_job(facts, JobReason.MISSING_RESERVATION, told)
    assert reservation is not None, "it is there"
    state = reservation.status.state
    if state.phase == ReservationPhase.FAILED:
        return fail_job(
            facts,
            reservation_failure_reason(reservation),
            f"{reservation_failure(reservation)}; pod {pod_name(facts)} has left",
        )
    if not facts.is_evicting and not facts.holds_room and state.phase != ReservationPhase.SUCCEEDED:
        return fail_job(facts, JobReason.MISSING_POD, f"pod {pod_name(facts)} left before its seat was ready")
    return None


def _just_left(facts: Facts) -> Step | None:
    return wait_briefly(facts, evicted_at(facts.job))


def _just_starting(facts: Facts) -> Step | None:
    """A successor that is new. Who took a seat that is nobody else's need not be told at once."""
    successor = facts.successor
    if (
        successor is None
        or _lost(successor)
        or _has_arrived(successor)
        or not (facts.is_evicting and facts.owns_reservation)
    ):
        return None
    return wait_briefly(facts, time_of(successor.metadata.creation_timestamp))


def _observed(facts: Facts) -> Facts:
    """With what is to be seen of the pod's leaving, recorded."""
    name = pod_name(facts)
    if facts.is_gone:
        said = ConditionUpdate(JobConditionType.EVICTION, True, JobReason.EVICT_COMPLETE, f"pod {name} is gone")
    elif facts.is_evicting:
        return facts
    else:
        told = f"pod {name} is being deleted by someone else; its seat is kept for its successor"
        said = ConditionUpdate(JobConditionType.EVICTION, False, JobReason.EVICTING, told)
    return facts.with_status(with_conditions(facts.job.status, said, now=facts.now))


def _see_ready(facts: Facts, reference: ObjectReference) -> Step:
    """The seat is taken: once its taker was Ready, only the pod itself is waited for, whatever becomes of the taker."""
    if not is_condition_true(facts.job.status, JobConditionType.BOUND_POD_READY):
        successor = facts.successor
        lost = _lost(successor)
        if successor is None or lost:
            return fail_job(facts, JobReason.MISSING_POD, f"successor {reference.name} {lost} before it was Ready")
        facts = facts.with_status(_bound(facts, reference, successor))
        if not _has_arrived(successor):
            told = f"pod {reference.name} on node {facts.job.status.node_name} is not Ready yet"
            waiting = ConditionUpdate(JobConditionType.BOUND_POD_READY, False, JobReason.WAIT_FOR_BOUND_POD_READY, told)
            return wait_for(facts, waiting)
        told = f"pod {reference.name} on node {facts.job.status.node_name} is Ready"
        ready = ConditionUpdate(JobConditionType.BOUND_POD_READY, True, "", told)
        facts = facts.with_status(with_conditions(facts.job.status, ready, now=facts.now))
    if not facts.is_gone:
        return Wait(facts.job.status)
    return job_done(facts, f"pod {pod_name(facts)} moved to node {facts.job.status.node_name} as {reference.name}")


def _has_arrived(successor: Pod) -> bool:
    return is_ready(successor) or successor.status.phase == "Succeeded"


def _lost(successor: Pod | None) -> str:
    """What became of a successor that will never be Ready; empty if it still may."""
    if successor is None or is_terminating(successor):
        return "was deleted"
    return "failed" if successor.status.phase == "Failed" else ""


def _bound(facts: Facts, reference: ObjectReference, successor: Pod) -> PodMigrationJobStatus:
    node = successor.spec.node_name or facts.job.status.node_name
    bound = f"pod {reference.name} took the seat on node {node}"
    return with_conditions(
        replace(facts.job.status, pod_ref=reference, node_name=node),
        ConditionUpdate(JobConditionType.POD_SCHEDULED, True, "", bound),
        ConditionUpdate(JobConditionType.RESERVATION_BOUND, True, "", bound),
        ConditionUpdate(JobConditionType.POD_BOUND_RESERVATION, True, "", bound),
        now=facts.now,
    )


def leave(facts: Facts) -> Step:
    """Evicted directly: all that is left is to see it gone."""
    if not facts.is_evicting:
        return fail_job(facts, JobReason.MISSING_POD, f"pod {pod_name(facts)} left before it was evicted")
    facts = _observed(facts)
    if not facts.is_gone:
        return Wait(facts.job.status)
    return job_done(facts, f"pod {pod_name(facts)} is gone")


def _where(facts: Facts) -> str:
    node = facts.job.status.node_name
    return f" on node {node}" if node else ""
