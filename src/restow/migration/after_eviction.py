"""After the eviction: see the successor into its seat, and Ready.

Goes in: facts about a job whose pod is terminating or gone, whether we evicted it or another client deleted it. Comes
out: the step that follows. From the moment the pod leaves, its seat is its successor's: nothing here releases it.
"""

from __future__ import annotations

from msgspec.structs import replace

from restow.migration.conditions import ConditionUpdate, is_condition_true, with_conditions
from restow.migration.facts_after import FactsAfterEviction
from restow.migration.history import eviction_intended_at
from restow.migration.reservation import holds_room
from restow.migration.steps import (
    Step,
    Wait,
    fail_job,
    job_done,
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


def follow_successor(facts: FactsAfterEviction) -> Step:
    """Mode ReservationFirst: wait until the successor has taken the seat and is Ready."""
    # 1. Is a seat kept for the successor? And is it too early to say more?
    successor = facts.successor_reference
    if successor is not None:
        step = _successor_just_started(facts, successor)
    else:
        step = _pod_left_without_seat(facts) or wait_briefly(facts, eviction_intended_at(facts.job))
    if step is not None:
        return step
    # 2. Record what is seen of the pod's leaving, which may tell since when the seat was kept.
    facts = _with_departure(facts)
    successor = facts.successor_reference
    # 3. Has the successor taken the seat?
    if successor is None:
        node = facts.job.status.node_name
        where = f" on node {node}" if node else ""
        message = f"the successor of pod {facts.pod_name} has not taken the seat{where} yet"
        reason = JobReason.WAIT_FOR_POD_BIND_RESERVATION
        return wait_for(facts, ConditionUpdate(JobConditionType.POD_BOUND_RESERVATION, False, reason, message))
    # 4. Is it Ready?
    return _wait_until_ready(facts, successor)


def wait_until_gone(facts: FactsAfterEviction) -> Step:
    """Mode EvictDirectly: the job is done when the pod is gone."""
    if not facts.is_evicting:
        return fail_job(facts, JobReason.MISSING_POD, f"pod {facts.pod_name} left before it was evicted")
    facts = _with_departure(facts)
    if not facts.is_gone:
        return Wait(facts.job.status)
    return job_done(facts, f"pod {facts.pod_name} is gone")


def _pod_left_without_seat(facts: FactsAfterEviction) -> Step | None:
    """The job ends if no seat was ready when the pod left, or if the seat is lost."""
    reservation, reference = facts.reservation, facts.reservation_reference
    if not reservation_exists(reservation):
        if reference is None or not reference.name:
            message = f"pod {facts.pod_name} left before a seat was reserved for it"
            return fail_job(facts, JobReason.MISSING_POD, message)
        message = f"reservation {reference.name} is gone, and pod {facts.pod_name} has left"
        return fail_job(facts, JobReason.MISSING_RESERVATION, message)
    phase = reservation.status.state.phase
    if phase == ReservationPhase.FAILED:
        message = f"{reservation_failure(reservation)}; pod {facts.pod_name} has left"
        return fail_job(facts, reservation_failure_reason(reservation), message)
    if not facts.is_evicting and not holds_room(reservation) and phase != ReservationPhase.SUCCEEDED:
        return fail_job(facts, JobReason.MISSING_POD, f"pod {facts.pod_name} left before its seat was ready")
    return None


def _successor_just_started(facts: FactsAfterEviction, reference: ObjectReference) -> Step | None:
    """The successor of an eviction of ours is given a moment to become Ready. A consumer of a user's reservation is
    recorded at once, so that no other job takes it for its own successor."""
    successor = facts.find_consumer(reference)
    if successor is None or _how_lost(successor) or _has_arrived(successor):
        return None
    if not (facts.is_evicting and facts.owns_reservation):
        return None
    return wait_briefly(facts, time_of(successor.metadata.creation_timestamp))


def _with_departure(facts: FactsAfterEviction) -> FactsAfterEviction:
    """The facts with what is seen of the pod's leaving recorded in the status."""
    if facts.is_gone:
        update = ConditionUpdate(
            JobConditionType.EVICTION, True, JobReason.EVICT_COMPLETE, f"pod {facts.pod_name} is gone"
        )
    elif facts.is_evicting:
        return facts
    else:
        message = f"pod {facts.pod_name} is being deleted by another client; its seat is kept for its successor"
        update = ConditionUpdate(JobConditionType.EVICTION, False, JobReason.EVICTING, message)
    return facts.with_status(with_conditions(facts.job.status, update, now=facts.now))


def _wait_until_ready(facts: FactsAfterEviction, reference: ObjectReference) -> Step:
    """The seat is taken. Once the successor was Ready, only the old pod is waited for, whatever becomes of the
    successor later."""
    if not is_condition_true(facts.job.status, JobConditionType.BOUND_POD_READY):
        successor = facts.find_consumer(reference)
        lost = _how_lost(successor)
        if successor is None or lost:
            return fail_job(facts, JobReason.MISSING_POD, f"successor {reference.name} {lost} before it was Ready")
        facts = facts.with_status(_bound_status(facts, reference, successor))
        pod = f"pod {reference.name} on node {facts.job.status.node_name}"
        if not _has_arrived(successor):
            reason = JobReason.WAIT_FOR_BOUND_POD_READY
            return wait_for(
                facts, ConditionUpdate(JobConditionType.BOUND_POD_READY, False, reason, f"{pod} is not Ready yet")
            )
        ready = ConditionUpdate(JobConditionType.BOUND_POD_READY, True, "", f"{pod} is Ready")
        facts = facts.with_status(with_conditions(facts.job.status, ready, now=facts.now))
    if not facts.is_gone:
        return Wait(facts.job.status)
    return job_done(facts, f"pod {facts.pod_name} moved to node {facts.job.status.node_name} as {reference.name}")


def _has_arrived(successor: Pod) -> bool:
    return is_ready(successor) or successor.status.phase == "Succeeded"


def _how_lost(successor: Pod | None) -> str:
    """What became of a successor that will never be Ready; empty if it still may."""
    if successor is None or is_terminating(successor):
        return "was deleted"
    return "failed" if successor.status.phase == "Failed" else ""


def _bound_status(facts: FactsAfterEviction, reference: ObjectReference, successor: Pod) -> PodMigrationJobStatus:
    node = successor.spec.node_name or facts.job.status.node_name
    message = f"pod {reference.name} took the seat on node {node}"
    return with_conditions(
        replace(facts.job.status, pod_ref=reference, node_name=node),
        ConditionUpdate(JobConditionType.POD_SCHEDULED, True, "", message),
        ConditionUpdate(JobConditionType.RESERVATION_BOUND, True, "", message),
        ConditionUpdate(JobConditionType.POD_BOUND_RESERVATION, True, "", message),
        now=facts.now,
    )
