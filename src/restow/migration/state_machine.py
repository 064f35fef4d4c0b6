"""The state machine of a migration: from facts about a job to its next step. Pure and total.

    Pending ──PinPod──> waits for admission ──> Running ──Reserve──RecordReservation──> waits for the seat
                                                                                            │ Available, fit, lasts
       Succeed <──Done── Ready successor, old UID gone <── pod leaves <──Evict──────────────┘

Rules that hold throughout:

- Nothing is written because of facts that may be old: the answer to those is ReadLive. Only what stays true once it was
  true is recorded from caches: which pod it is and, once that has left, what is seen of its leaving and its successor.
- An eviction is recorded as intended before it is sent, so that the next leader knows that it may have been sent.
- A job fails by its status alone. What it held is released by a step of its own, after the end, and only while the pod
  is still on its node: from the moment the pod leaves, by whatever client's request, its seat is its successor's.
- Reservations that a user gave to a job are used as they are, and never changed or deleted.
"""

from __future__ import annotations

from msgspec.structs import replace

from restow.migration.after_eviction import follow_successor, wait_until_gone
from restow.migration.before_eviction import evict_directly, prepare_eviction
from restow.migration.conditions import (
    EVICTION_SETTLES_AFTER,
    ended_status,
    eviction_withdrawn_status,
    find_condition,
    is_condition_true,
    is_job_ended,
    is_job_running,
    job_ended_at,
    job_seconds_used,
    paused_status,
    resumed_status,
)
from restow.migration.facts import Facts, narrow_facts
from restow.migration.facts_after import FactsAfterEviction
from restow.migration.facts_before import FactsBeforeEviction
from restow.migration.history import WORKLOAD_ANNOTATION
from restow.migration.job_rules import pod_has_another_name, pod_is_not_the_admitted_one, spec_is_invalid
from restow.migration.pod_rules import pod_cannot_move
from restow.migration.reservation import holds_room
from restow.migration.steps import (
    Abort,
    AwaitAdmission,
    Done,
    Evict,
    Fail,
    PinPod,
    ReadLive,
    Release,
    Step,
    Wait,
    fail_job,
    first_step,
    reservation_exists,
    seat_expiry,
)
from restow.model.objects import (
    ConditionStatus,
    JobConditionType,
    JobMode,
    JobPhase,
    JobReason,
    Pod,
    PodMigrationJobStatus,
)
from restow.model.pods import is_terminating
from restow.model.reservations.observed_spec import is_ended as reservation_is_ended
from restow.model.reservations.reservation_annotations import MOVED_FROM_ANNOTATION, migrating_pod
from restow.model.times import format_duration

_LAST_CONDITIONS = (JobConditionType.BOUND_POD_READY, JobConditionType.POD_BOUND_RESERVATION)


def next_step(facts: Facts) -> Step:
    """What to do about a job now."""
    step = _decide(facts)
    if facts.is_fresh or isinstance(step, ReadLive) or _may_be_decided_from_caches(facts, step):
        return step
    return ReadLive()


def _may_be_decided_from_caches(facts: Facts, step: Step) -> bool:
    """Whether what a step records, if anything, is still true though its facts may be old. The job itself need not be
    the newest: what is written holds only for the version that was read."""
    match step:
        case PinPod():
            return facts.migrating_pod is not None
        case Wait() | AwaitAdmission() if step.status == facts.job.status:
            return True
        case Wait() | Done():
            return facts.is_evicting and facts.has_left
        case _:
            return False


def _decide(facts: Facts) -> Step:
    """The step; an eviction that was recorded and not sent is withdrawn, unless the step is to send it after all."""
    if facts.eviction_unsent and not facts.has_left:
        step = _decide_by_phase(facts.with_status(eviction_withdrawn_status(facts.job.status, now=facts.now)))
        if not isinstance(step, Evict):
            return step
    return _decide_by_phase(facts)


def _decide_by_phase(facts: Facts) -> Step:
    job = facts.job
    if is_job_ended(job):
        return _after_end(facts)
    if job.metadata.deletion_timestamp is not None:  # a finalizer keeps the job
        message = "the job is being deleted"
        return Abort(ended_status(job.status, JobPhase.ABORTED, JobReason.ABORTED, message, now=facts.now))
    if job.spec.paused:
        return Wait(paused_status(job.status, now=facts.now))
    facts = facts.with_status(resumed_status(job.status, now=facts.now))
    # By the condition Admitted, not by the phase alone: a phase that a user writes must not skip arbitration.
    if is_job_running(facts.job):
        return _within_time_limit(facts, facts.options.ttl, _under_way(facts))
    return _within_time_limit(facts, facts.options.waiting_ttl, _before_admission(facts))


# --- time -------------------------------------------------------------------------------------------------------------


def _within_time_limit(facts: Facts, limit: float, step: Step) -> Step:
    """The step, which is due again at the end of the job's time; or the failure, once the time is over."""
    if limit <= 0 or isinstance(step, Done | Fail | Abort):
        return step
    left = limit - job_seconds_used(facts.job, facts.now)
    if left > 0:
        return _retry_no_later_than(step, facts.now + left)
    missing = _missing_for_success(facts, step.status if isinstance(step, Wait) else facts.job.status)
    why = f": {missing}" if missing else ""
    goal = "done" if is_job_running(facts.job) else "admitted"
    message = f"not {goal} within {format_duration(limit)}{why}{_what_becomes_of_seat(facts)}"
    return fail_job(facts, JobReason.TIMEOUT, message)


def _retry_no_later_than(step: Step, deadline: float) -> Step:
    if isinstance(step, Wait | AwaitAdmission):
        return replace(step, retry_at=deadline if step.retry_at is None else min(step.retry_at, deadline))
    return step


def _missing_for_success(facts: Facts, status: PodMigrationJobStatus) -> str | None:
    """What is missing, in the words of the condition that comes last; the one that changed last may be another."""
    if facts.migrating_pod is not None and is_condition_true(status, JobConditionType.BOUND_POD_READY):
        return f"pod {facts.pod_name} has not left yet"
    for type in _LAST_CONDITIONS:
        condition = find_condition(status, type)
        if condition is not None and condition.status != ConditionStatus.TRUE:
            return condition.message
    return status.message


def _what_becomes_of_seat(facts: Facts) -> str:
    """What becomes of the seat at the end of the job, if an eviction was recorded and no successor took the seat."""
    if not facts.is_evicting or facts.reservation is None or reservation_is_ended(facts.reservation):
        return ""
    if facts.has_left:
        return f"; its seat is kept until {seat_expiry(facts.reservation)}"
    return "; its seat is kept for now, because the eviction may still take effect"


# --- before admission -------------------------------------------------------------------------------------------------


def _before_admission(facts: Facts) -> Step:
    # 1. Is the spec valid, and does it name a pod that exists?
    step = first_step(facts, (spec_is_invalid, pod_has_another_name))
    if step is not None:
        return step
    if facts.pod is None:
        return fail_job(facts, JobReason.MISSING_POD, f"there is no pod {facts.pod_name}")
    # 2. Record on the job which pod that is: a successor may have the same name.
    step = _pod_has_left(facts, facts.pod) or _pin_pod(facts, facts.pod)
    if step is not None:
        return step
    # 3. May it move?
    return pod_cannot_move(narrow_facts(facts, FactsBeforeEviction)) or AwaitAdmission(facts.job.status)


def _pod_has_left(facts: Facts, pod: Pod) -> Step | None:
    if facts.pod_uid and facts.migrating_pod is None:
        gone = f"pod {facts.pod_name} with UID {facts.pod_uid} is gone"
        return fail_job(facts, JobReason.MISSING_POD, f"{gone}; another with UID {pod.metadata.uid} has its name")
    if is_terminating(pod):
        return fail_job(facts, JobReason.MISSING_POD, f"pod {facts.pod_name} is already terminating")
    return None


def _pin_pod(facts: Facts, pod: Pod) -> Step | None:
    annotations, source = facts.job.metadata.annotations or {}, pod.spec.node_name
    known = (facts.workload_uid, WORKLOAD_ANNOTATION), (source, MOVED_FROM_ANNOTATION)
    is_annotated = all(value in (None, annotations.get(annotation)) for value, annotation in known)
    if facts.pod_uid and facts.job.spec.mode and is_annotated:
        return None
    return PinPod(facts.job.status, pod.metadata.uid, facts.options.mode, facts.workload_uid, source)


# --- under way --------------------------------------------------------------------------------------------------------


def _under_way(facts: Facts) -> Step:
    # 1. Does the job still mean the pod that was admitted? Once the eviction is recorded, the rest of the spec no
    #    longer counts: the pod leaves, and its seat must not be given up for a typing mistake.
    step = first_step(facts, (pod_has_another_name, pod_is_not_the_admitted_one))
    step = step or (None if facts.is_evicting else spec_is_invalid(facts))
    if step is not None:
        return step
    # 2. Bring the eviction closer, or see what comes after it.
    is_direct = facts.options.mode == JobMode.EVICT_DIRECTLY
    before = FactsBeforeEviction.of(facts)
    if before is not None:
        return evict_directly(before) if is_direct else prepare_eviction(before)
    after = FactsAfterEviction.of(facts)
    return wait_until_gone(after) if is_direct else follow_successor(after)


# --- after the end ----------------------------------------------------------------------------------------------------


def _after_end(facts: Facts) -> Step:
    """Say that the job is over, if another client ended it, and release what it still holds for no pod."""
    status = facts.job.status
    if find_condition(status, JobConditionType.COMPLETE) is None:
        return _confirm_end(facts)
    reservation = facts.reservation
    if reservation is None or not facts.owns_reservation or reservation_is_ended(reservation):
        return Wait(status)
    if not reservation_exists(reservation):
        return Wait(status)
    # The job's spec may have been changed since; which pod the seat is for, the reservation itself says.
    pod = facts.pod
    stays = pod is not None and pod.metadata.uid == migrating_pod(reservation) and not is_terminating(pod)
    if facts.is_evicting and stays:
        return _eviction_may_take_effect(facts) or Release(status, reservation)
    if facts.is_evicting or (facts.has_left and not stays and holds_room(reservation)):
        return Wait(status)
    return Release(status, reservation)


def _confirm_end(facts: Facts) -> Step:
    """Record the condition Complete for a phase that was not written by this controller."""
    status = facts.job.status
    phase = JobPhase(status.phase or "")
    message = f"the job was {'aborted' if phase is JobPhase.ABORTED else 'ended'} by a user"
    reason = JobReason.ABORTED if phase is JobPhase.ABORTED else status.reason or ""
    if status.reason == JobReason.LOCK_RELEASED:  # the queue controller ended it, and says why
        message, reason = status.message or message, status.reason
    return Abort(ended_status(status, phase, reason, message + _what_becomes_of_seat(facts), now=facts.now))


def _eviction_may_take_effect(facts: Facts) -> Step | None:
    """Wait while the recorded eviction may still take effect, though the pod stays; None once it no longer can."""
    since = job_ended_at(facts.job)
    if since is None or facts.now - since < EVICTION_SETTLES_AFTER:
        return Wait(facts.job.status, (facts.now if since is None else since) + EVICTION_SETTLES_AFTER)
    return None
