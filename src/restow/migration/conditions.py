"""Job conditions: the status of a PodMigrationJob, its conditions by type, and the times that they record.

Goes in: the status as it is and what is true now. Comes out: the status as it should be, equal to the old one if
nothing has changed. There is one condition per type; its transition time changes only with its status. `status`,
`reason` and `message` of the job are those of the condition that changed last, so people read one sentence everywhere.

Times are in conditions alone, because nothing else survives a restart: `Admitted` has since when a job runs, `Paused`
how long it was paused (see JobConditionType).
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from restow.model.objects import (
    ENDED,
    ConditionStatus,
    JobConditionType,
    JobPhase,
    JobReason,
    PodMigrationJob,
    PodMigrationJobCondition,
    PodMigrationJobStatus,
)
from restow.model.times import format_time, time_of

EVICTION_SETTLES_AFTER = 120.0
"""Seconds after which an eviction that was sent has taken effect, or never will: no request is under way so long."""
REWRITE_AFTER = 30.0
"""Seconds after which the time of an eviction that is sent again is recorded again."""


class ConditionUpdate(msgspec.Struct, frozen=True):
    """A condition that is true of a job now, or is not."""

    type: JobConditionType
    is_true: bool
    reason: str
    message: str


def find_condition(status: PodMigrationJobStatus, type: str) -> PodMigrationJobCondition | None:
    return next((condition for condition in status.conditions or () if condition.type == type), None)


def is_condition_true(status: PodMigrationJobStatus, type: str) -> bool:
    condition = find_condition(status, type)
    return condition is not None and condition.status == ConditionStatus.TRUE


def is_job_ended(job: PodMigrationJob) -> bool:
    return job.status.phase in ENDED


def is_job_running(job: PodMigrationJob) -> bool:
    """Whether a job was admitted and has not ended. The phase alone is not enough: a user may have written it."""
    return job.status.phase == JobPhase.RUNNING and is_condition_true(job.status, JobConditionType.ADMITTED)


def is_in_doubt(status: PodMigrationJobStatus) -> bool:
    """Whether earlier moves of the job's plan failed before its admission, so that the room it needs may be missing."""
    condition = find_condition(status, JobConditionType.ADMITTED)
    return condition is not None and condition.reason == JobReason.IN_DOUBT


def is_evicting(status: PodMigrationJobStatus) -> bool:
    """Whether an eviction was sent, or may have been, and was not certainly refused."""
    condition = find_condition(status, JobConditionType.EVICTION)
    return condition is not None and (
        condition.status == ConditionStatus.TRUE or condition.reason == JobReason.EVICTING
    )


def with_conditions(status: PodMigrationJobStatus, *updates: ConditionUpdate, now: float) -> PodMigrationJobStatus:
    """The status with these conditions; the last one that changes gives the status its reason and message."""
    for update in updates:
        status = _update(status, update, now)
    return status


def ended_status(
    status: PodMigrationJobStatus, phase: JobPhase, reason: str, message: str, *, now: float
) -> PodMigrationJobStatus:
    """The status of a job that has ended, and why."""
    update = ConditionUpdate(JobConditionType.COMPLETE, phase is JobPhase.SUCCEED, reason, message)
    return replace(_update(status, update, now), phase=phase)


def _update(status: PodMigrationJobStatus, update: ConditionUpdate, now: float) -> PodMigrationJobStatus:
    old = find_condition(status, update.type)
    written = ConditionStatus.TRUE if update.is_true else ConditionStatus.FALSE
    if old is not None and (old.status, old.reason or "", old.message or "") == (
        written,
        update.reason,
        update.message,
    ):
        return status
    since = old.last_transition_time if old is not None and old.status == written else format_time(now)
    new = PodMigrationJobCondition(
        type=update.type,
        status=written,
        reason=update.reason or None,
        message=update.message or None,
        last_transition_time=since,
        last_probe_time=_sent_at(old, update),
    )
    return replace(_with(status, new), status=update.type, reason=update.reason or None, message=update.message or None)


def _sent_at(old: PodMigrationJobCondition | None, update: ConditionUpdate) -> str | None:
    """When the eviction that a condition is about was sent, if we sent it. The condition may have had the same status
    before, while the eviction was held back, so its transition time does not tell that."""
    if update.type != JobConditionType.EVICTION or not (update.is_true or update.reason == JobReason.EVICTING):
        return None
    return old.last_probe_time if old is not None else None


def eviction_repeated_status(status: PodMigrationJobStatus, *, now: float) -> PodMigrationJobStatus:
    """The status of a job whose eviction is sent now, though it may have been before, without effect: the time that
    counts is the last. It is recorded at most every REWRITE_AFTER, because a write may take longer than facts last."""
    condition = find_condition(status, JobConditionType.EVICTION)
    before = time_of(condition.last_probe_time) if condition is not None else None
    if condition is None or (before is not None and 0 <= now - before <= REWRITE_AFTER):
        return status
    return _with(status, replace(condition, last_probe_time=format_time(now)))


def eviction_withdrawn_status(status: PodMigrationJobStatus, *, now: float) -> PodMigrationJobStatus:
    """The status of a job whose eviction was recorded and is not sent after all."""
    if not is_evicting(status) or is_condition_true(status, JobConditionType.EVICTION):
        return status
    message = "the eviction was not sent: something changed after it was recorded"
    new = _update(status, ConditionUpdate(JobConditionType.EVICTION, False, JobReason.WITHDRAWN, message), now)
    if status.phase in ENDED:  # reason and message stay those of the end
        return replace(new, status=status.status, reason=status.reason, message=status.message)
    return new


def _with(status: PodMigrationJobStatus, new: PodMigrationJobCondition) -> PodMigrationJobStatus:
    conditions = list(status.conditions or ())
    for index, condition in enumerate(conditions):
        if condition.type == new.type:
            conditions[index] = new
            break
    else:
        conditions.append(new)
    return replace(status, conditions=conditions)


# --- time -------------------------------------------------------------------------------------------------------------


def admitted_status(
    status: PodMigrationJobStatus, message: str, *, doubt: bool = False, now: float
) -> PodMigrationJobStatus:
    """The status of a job that is admitted; earlier pauses no longer count. In doubt it must not wait for a seat."""
    update = ConditionUpdate(JobConditionType.ADMITTED, True, JobReason.IN_DOUBT if doubt else "", message)
    kept = [condition for condition in status.conditions or () if condition.type != JobConditionType.PAUSED]
    return replace(_update(replace(status, conditions=kept), update, now), phase=JobPhase.RUNNING)


def waiting_status(status: PodMigrationJobStatus, reason: str, message: str, *, now: float) -> PodMigrationJobStatus:
    """The status of a job that waits for admission, and for what."""
    update = ConditionUpdate(JobConditionType.ADMITTED, False, reason, message)
    return replace(_update(status, update, now), phase=JobPhase.PENDING)


def paused_status(status: PodMigrationJobStatus, *, now: float) -> PodMigrationJobStatus:
    """The status of a job that is paused, from now on or since before."""
    old = find_condition(status, JobConditionType.PAUSED)
    if old is not None and old.status == ConditionStatus.TRUE:
        return status
    message = "the job is paused; its ttl does not run until spec.paused is false"
    begun = replace(status, phase=status.phase or JobPhase.PENDING)  # a new job has no phase yet
    return _pause(begun, True, message, seconds=paused_seconds(status, now), now=now)


def resumed_status(status: PodMigrationJobStatus, *, now: float) -> PodMigrationJobStatus:
    """The status of a job that is not paused, any more or at all."""
    if not is_condition_true(status, JobConditionType.PAUSED):
        return status
    seconds = paused_seconds(status, now)
    return _pause(
        status, False, f"the job continues; it was paused for {seconds:.0f} s in total", seconds=seconds, now=now
    )


def _pause(
    status: PodMigrationJobStatus, is_paused: bool, message: str, *, seconds: float, now: float
) -> PodMigrationJobStatus:
    new = PodMigrationJobCondition(
        type=JobConditionType.PAUSED,
        status=ConditionStatus.TRUE if is_paused else ConditionStatus.FALSE,
        reason=JobReason.PAUSED if is_paused else None,
        message=message,
        last_probe_time=format_time(now - seconds),
        last_transition_time=format_time(now),
    )
    return replace(_with(status, new), status=JobConditionType.PAUSED, reason=new.reason, message=message)


def paused_seconds(status: PodMigrationJobStatus, now: float) -> float:
    """The seconds for which a job was paused since its admission or, before that, since its creation."""
    condition = find_condition(status, JobConditionType.PAUSED)
    since = time_of(condition.last_transition_time) if condition else None
    if condition is None or since is None:
        return 0.0
    before = time_of(condition.last_probe_time)
    total = since - before if before is not None else 0.0
    if condition.status == ConditionStatus.TRUE:
        total += now - since
    return max(total, 0.0)


def job_started_at(job: PodMigrationJob) -> float | None:
    """When a job's time began to count: at its admission or, before that, at its creation."""
    condition = find_condition(job.status, JobConditionType.ADMITTED)
    if condition is not None and condition.status == ConditionStatus.TRUE:
        return time_of(condition.last_transition_time)
    return time_of(job.metadata.creation_timestamp)


def job_seconds_used(job: PodMigrationJob, now: float) -> float:
    """The seconds of its time limit that a job has used; pauses do not count."""
    since = job_started_at(job)
    return 0.0 if since is None else max(now - since - paused_seconds(job.status, now), 0.0)


def job_ended_at(job: PodMigrationJob) -> float | None:
    """When a job ended; None while it has not."""
    condition = find_condition(job.status, JobConditionType.COMPLETE)
    return time_of(condition.last_transition_time) if condition is not None and is_job_ended(job) else None
