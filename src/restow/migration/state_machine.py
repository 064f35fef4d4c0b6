"""The next step of a migration: from facts to one instruction. Pure and total.

    Pending ──Pin──> waits for admission ──> Running ──Reserve──Refer──> waits for the seat
                                                                             │ Available, fit, outlives the move
       Succeed <──Done── Ready successor, old UID gone <── leaves <──Evict───┘

Rules that hold throughout:

- nothing is done on facts that may be old: the answer to those is Look. What is only told may come from them where it
  stays true once it was: which pod it is, and, once that has left, what is seen of its leaving and of its successor;
- an eviction is recorded as intended before it is sent, so whoever takes over knows that it may have been;
- a job fails by its status alone; what it held is let go by a step of its own, after the end, and only while the pod is
  where it was: from the moment it leaves, by whoever's hand, its seat is its successor's;
- reservations that were given to a job are used as they are and never changed or deleted.
"""

from __future__ import annotations

from msgspec.structs import replace

from restow.migration.after_eviction import follow, leave
from restow.migration.before_eviction import MARGIN, UNLIMITED, evict_directly, prepare, unmovable
from restow.migration.conditions import (
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
from restow.migration.facts import Facts
from restow.migration.history import WORKLOAD_ANNOTATION
from restow.migration.reservation import template_problems
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
    forbid_move,
    pod_name,
    reservation_exists,
    seat_expiry,
)
from restow.model.objects import (
    ConditionStatus,
    JobConditionType,
    JobMode,
    JobPhase,
    JobReason,
    PodMigrationJobStatus,
)
from restow.model.pods import is_terminating
from restow.model.reservations.observed import is_ended as reservation_is_ended
from restow.model.reservations.reservation_annotations import MOVED_FROM_ANNOTATION, migrating_pod
from restow.model.times import MAX_DURATION_SECONDS, format_duration

_LAST = (JobConditionType.BOUND_POD_READY, JobConditionType.POD_BOUND_RESERVATION)
SETTLED = 120.0
"""Seconds after which no request is under way any more that was sent before."""


def next_step(facts: Facts) -> Step:
    """What to do about a job now."""
    step = _decide(facts)
    return step if facts.is_fresh or isinstance(step, ReadLive) or _is_lasting(facts, step) else ReadLive()


def _is_lasting(facts: Facts, step: Step) -> bool:
    """Whether what a step tells, if anything, is as true as it was when its facts were read. The job itself need not
    be the newest: what is written holds only for the version that was read."""
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
    """An eviction that was written down and not sent is withdrawn, unless it is to be sent after all."""
    if facts.eviction_unsent and not facts.has_left:
        step = _move(facts.with_status(eviction_withdrawn_status(facts.job.status, now=facts.now)))
        if not isinstance(step, Evict):
            return step
    return _move(facts)


def _move(facts: Facts) -> Step:
    job = facts.job
    if is_job_ended(job):
        return _after_the_end(facts)
    if job.metadata.deletion_timestamp is not None:  # somebody's finalizer keeps it
        told = "the job is being deleted"
        return Abort(ended_status(job.status, JobPhase.ABORTED, JobReason.ABORTED, told, now=facts.now))
    if job.spec.paused:
        return Wait(paused_status(job.status, now=facts.now))
    facts = facts.with_status(resumed_status(job.status, now=facts.now))
    if _phase(facts) is JobPhase.PENDING:
        return _in_time(facts, facts.options.waiting_ttl, _before_admission(facts))
    return _in_time(facts, facts.options.ttl, _under_way(facts))


def _phase(facts: Facts) -> JobPhase:
    """Running once admitted; whatever else is written there does not let a job skip arbitration."""
    return JobPhase.RUNNING if is_job_running(facts.job) else JobPhase.PENDING


def _in_time(facts: Facts, limit: float, step: Step) -> Step:
    """The step, unless the job's time is up; with when that will be."""
    if limit <= 0 or isinstance(step, Done | Fail | Abort):
        return step
    left = limit - job_seconds_used(facts.job, facts.now)
    if left > 0:
        return _until(step, facts.now + left)
    waits = _waits_for(facts, step.status if isinstance(step, Wait) else facts.job.status)
    why = f": {waits}" if waits else ""
    what = "done" if _phase(facts) is JobPhase.RUNNING else "admitted"
    return fail_job(facts, JobReason.TIMEOUT, f"not {what} within {format_duration(limit)}{why}{_kept(facts)}")


def _waits_for(facts: Facts, status: PodMigrationJobStatus) -> str | None:
    """What is missing, which need not be what was heard of last."""
    if facts.migrating_pod is not None and is_condition_true(status, JobConditionType.BOUND_POD_READY):
        return f"pod {pod_name(facts)} has not left yet"
    for type in _LAST:
        found = find_condition(status, type)
        if found is not None and found.status != ConditionStatus.TRUE:
            return found.message
    return status.message


def _kept(facts: Facts) -> str:
    """What becomes of the seat once time is up, if an eviction was recorded and nobody took it."""
    if not facts.is_evicting or facts.reservation is None or reservation_is_ended(facts.reservation):
        return ""
    if facts.has_left:
        return f"; its seat is kept until {seat_expiry(facts)}"
    return "; its seat is kept for now, because an eviction may still be on its way"


def _until(step: Step, deadline: float) -> Step:
    if isinstance(step, Wait | AwaitAdmission):
        return replace(step, retry_at=deadline if step.retry_at is None else min(step.retry_at, deadline))
    return step


# --- before admission -------------------------------------------------------------------------------------------------


def _before_admission(facts: Facts) -> Step:
    for rule in (_bad_words, _misnamed, _missing_pod, _unpinned, unmovable):
        step = rule(facts)
        if step is not None:
            return step
    return AwaitAdmission(facts.job.status)


def _bad_words(facts: Facts) -> Step | None:
    """What the job itself says that cannot be done."""
    reference, wanted = facts.job.spec.pod_ref, facts.reservation_reference
    if not reference.namespace or not reference.name:
        return fail_job(facts, JobReason.INVALID_POD_REF, "spec.podRef: namespace and name of the pod are needed")
    if reference.kind not in (None, "", "Pod"):
        return fail_job(facts, JobReason.INVALID_POD_REF, f"spec.podRef.kind: {reference.kind} is not Pod")
    if facts.options.problem:
        return fail_job(facts, JobReason.INVALID_SPEC, facts.options.problem)
    problems = template_problems(facts.job, facts.migrating_pod, facts.owner_chain)
    if problems:
        return fail_job(facts, JobReason.INVALID_SPEC, "; ".join(map(str, problems)))
    if wanted is not None and wanted.uid and not wanted.name:
        told = "spec.reservationOptions.reservationRef.name: the name of the reservation is needed"
        return fail_job(facts, JobReason.INVALID_SPEC, told)
    if wanted is not None and wanted.namespace not in (None, "", reference.namespace):
        where = f"{wanted.namespace} is not {reference.namespace}, the namespace of the pod"
        return fail_job(facts, JobReason.INVALID_SPEC, f"spec.reservationOptions.reservationRef.namespace: {where}")
    return _too_long(facts)


def _too_long(facts: Facts) -> Step | None:
    """Longer than any reservation may live; asked while it is known how long the pod may take to stop."""
    if facts.migrating_pod is None or facts.grace + max(facts.options.ttl, UNLIMITED) + MARGIN <= MAX_DURATION_SECONDS:
        return None
    spec, ttl = facts.job.spec, facts.options.ttl
    limit = "its seat would have to live longer than 292 years, which nothing does"
    if facts.grace <= ttl:
        field = "spec.ttl" if spec.ttl else "defaultJobTTL"
        return fail_job(facts, JobReason.INVALID_SPEC, f"{field}: {format_duration(ttl)} is too long: {limit}")
    told = f"{facts.grace:.0f} s is too long: {limit}"
    if spec.delete_options is not None and spec.delete_options.grace_period_seconds is not None:
        return fail_job(facts, JobReason.INVALID_SPEC, f"spec.deleteOptions.gracePeriodSeconds: {told}")
    return forbid_move(facts, f"its grace period of {told}")


def _misnamed(facts: Facts) -> Step | None:
    """Under another name its pod would seem to be gone."""
    if facts.migrating_pod is None:
        return None
    meta, reference = facts.migrating_pod.metadata, facts.job.spec.pod_ref
    if (meta.namespace, meta.name) == (reference.namespace, reference.name):
        return None
    told = f"spec.podRef: the pod with UID {facts.pod_uid} is {meta.namespace}/{meta.name}, not {pod_name(facts)}"
    return fail_job(facts, JobReason.INVALID_POD_REF, told)


def _missing_pod(facts: Facts) -> Step | None:
    if facts.pod is None:
        return fail_job(facts, JobReason.MISSING_POD, f"there is no pod {pod_name(facts)}")
    if facts.pod_uid and facts.migrating_pod is None:
        now_there = facts.pod.metadata.uid
        told = f"pod {pod_name(facts)} with UID {facts.pod_uid} is gone; another with UID {now_there} has its name"
        return fail_job(facts, JobReason.MISSING_POD, told)
    if is_terminating(facts.pod):
        return fail_job(facts, JobReason.MISSING_POD, f"pod {pod_name(facts)} is leaving already")
    return None


def _unpinned(facts: Facts) -> Step | None:
    assert facts.pod is not None, "it is not missing"
    notes, source = facts.job.metadata.annotations or {}, facts.pod.spec.node_name
    known = (facts.workload_uid, WORKLOAD_ANNOTATION), (source, MOVED_FROM_ANNOTATION)
    if facts.pod_uid and facts.job.spec.mode and all(value in (None, notes.get(note)) for value, note in known):
        return None
    return PinPod(facts.job.status, facts.pod.metadata.uid, facts.options.mode, facts.workload_uid, source)


# --- under way --------------------------------------------------------------------------------------------------------


def _under_way(facts: Facts) -> Step:
    changed = _misnamed(facts) or _other_pod(facts) or (None if facts.is_evicting else _bad_words(facts))
    if changed is not None:
        return changed
    if facts.options.mode == JobMode.EVICT_DIRECTLY:
        return leave(facts) if facts.has_left else evict_directly(facts)
    return follow(facts) if facts.has_left else prepare(facts)


def _other_pod(facts: Facts) -> Step | None:
    """Which pod moves cannot be changed on the way: another one's absence must not pass for its leaving."""
    meant = (
        migrating_pod(facts.reservation) if facts.reservation is not None and facts.owns_reservation else facts.pod_uid
    )
    if facts.pod_uid and facts.pod_uid == meant:
        return None
    return fail_job(
        facts, JobReason.INVALID_POD_REF, f"spec.podRef.uid: {facts.pod_uid!r} is not the pod that was admitted"
    )


# --- after the end ----------------------------------------------------------------------------------------------------


def _after_the_end(facts: Facts) -> Step:
    """Say that it is over, if somebody else ended it, and let go of what is still held for nobody."""
    status = facts.job.status
    if find_condition(status, JobConditionType.COMPLETE) is None:
        phase = JobPhase(status.phase or "")
        said = f"the job was {'aborted' if phase is JobPhase.ABORTED else 'ended'} by a user"
        reason = JobReason.ABORTED if phase is JobPhase.ABORTED else status.reason or ""
        if status.reason == JobReason.LOCK_RELEASED:  # by the queue controller, which says why
            said, reason = status.message or said, status.reason
        return Abort(ended_status(status, phase, reason, said + _kept(facts), now=facts.now))
    reservation = facts.reservation
    if (
        reservation is None
        or not facts.owns_reservation
        or reservation_is_ended(reservation)
        or not reservation_exists(reservation)
    ):
        return Wait(status)
    pod = facts.pod  # the job may have forgotten which one it was; its reservation has not
    stays = pod is not None and pod.metadata.uid == migrating_pod(reservation) and not is_terminating(pod)
    if facts.is_evicting and stays:
        return _on_its_way(facts) or Release(status, reservation)
    if facts.is_evicting or (facts.has_left and not stays and facts.holds_room):
        return Wait(status)
    return Release(status, reservation)


def _on_its_way(facts: Facts) -> Step | None:
    """An eviction that may still be on its way, though the pod stays; None once whatever was sent has ended."""
    since = job_ended_at(facts.job)
    if since is None or facts.now - since < SETTLED:
        return Wait(facts.job.status, facts.now + SETTLED if since is None else since + SETTLED)
    return None
