"""What a job's status says: conditions by type, and the time they tell.

Goes in: the status as it is and what is true now. Comes out: the status as it should be, equal to the old one when
there is no news. There is one condition per type; its transition time changes only with its status. `status`, `reason`
and `message` of the job are those of the condition that changed last: people read the same sentence everywhere.

Time is told by conditions alone, because nothing else survives a restart: `Admitted` since when a job runs, `Paused`
how long it was held up (see JobConditionType).
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
"""Seconds after which an eviction that is asked for again is written down anew."""


class ConditionUpdate(msgspec.Struct, frozen=True):
    """One thing that is true of a job, or is not."""

    type: JobConditionType
    is_true: bool
    reason: str
    message: str


def find_condition(status: PodMigrationJobStatus, type: str) -> PodMigrationJobCondition | None:
    return next((one for one in status.conditions or () if one.type == type), None)


def is_condition_true(status: PodMigrationJobStatus, type: str) -> bool:
    found = find_condition(status, type)
    return found is not None and found.status == ConditionStatus.TRUE


def is_job_ended(job: PodMigrationJob) -> bool:
    return job.status.phase in ENDED


def is_job_running(job: PodMigrationJob) -> bool:
    """Whether it was admitted and has not ended. A phase alone does not do: anybody may have written it."""
    return job.status.phase == JobPhase.RUNNING and is_condition_true(job.status, JobConditionType.ADMITTED)


def is_in_doubt(status: PodMigrationJobStatus) -> bool:
    """Whether earlier moves of its plan failed before it was admitted, so that room it counts on may be missing."""
    found = find_condition(status, JobConditionType.ADMITTED)
    return found is not None and found.reason == JobReason.IN_DOUBT


def is_evicting(status: PodMigrationJobStatus) -> bool:
    """Whether an eviction was, or may have been, sent and has not been refused for certain."""
    found = find_condition(status, JobConditionType.EVICTION)
    return found is not None and (found.status == ConditionStatus.TRUE or found.reason == JobReason.EVICTING)


def with_conditions(status: PodMigrationJobStatus, *said: ConditionUpdate, now: float) -> PodMigrationJobStatus:
    """The status that also says this; the last of what is new is what it says first."""
    for one in said:
        status = _record(status, one, now)
    return status


def ended_status(
    status: PodMigrationJobStatus, phase: JobPhase, reason: str, message: str, *, now: float
) -> PodMigrationJobStatus:
    """The status of a job that is over, and why."""
    said = ConditionUpdate(JobConditionType.COMPLETE, phase is JobPhase.SUCCEED, reason, message)
    return replace(_record(status, said, now), phase=phase)


def _record(status: PodMigrationJobStatus, said: ConditionUpdate, now: float) -> PodMigrationJobStatus:
    old = find_condition(status, said.type)
    written = ConditionStatus.TRUE if said.is_true else ConditionStatus.FALSE
    if old is not None and (old.status, old.reason or "", old.message or "") == (written, said.reason, said.message):
        return status
    since = old.last_transition_time if old is not None and old.status == written else format_time(now)
    new = PodMigrationJobCondition(
        type=said.type,
        status=written,
        reason=said.reason or None,
        message=said.message or None,
        last_transition_time=since,
        last_probe_time=_asked(old, said),
    )
    return replace(_with(status, new), status=said.type, reason=said.reason or None, message=said.message or None)


def _asked(old: PodMigrationJobCondition | None, said: ConditionUpdate) -> str | None:
    """When the eviction was asked for that a condition speaks of, if it was by us. It may have been held up before, and
    heard of later, so the time of its transition does not say it."""
    if said.type != JobConditionType.EVICTION or not (said.is_true or said.reason == JobReason.EVICTING):
        return None
    return old.last_probe_time if old is not None else None


def eviction_repeated_status(status: PodMigrationJobStatus, *, now: float) -> PodMigrationJobStatus:
    """The status of a job whose eviction is asked for now, though it may have been before, in vain: what counts is
    when it was asked for last. Not each time is written down, because that may take longer than facts are fresh."""
    found = find_condition(status, JobConditionType.EVICTION)
    before = time_of(found.last_probe_time) if found is not None else None
    if found is None or (before is not None and 0 <= now - before <= REWRITE_AFTER):
        return status
    return _with(status, replace(found, last_probe_time=format_time(now)))


def eviction_withdrawn_status(status: PodMigrationJobStatus, *, now: float) -> PodMigrationJobStatus:
    """The status of a job whose eviction was written down, and is not sent after all."""
    if not is_evicting(status) or is_condition_true(status, JobConditionType.EVICTION):
        return status
    told = "the eviction was not sent: something has happened since it was written down"
    new = _record(status, ConditionUpdate(JobConditionType.EVICTION, False, JobReason.WITHDRAWN, told), now)
    if status.phase in ENDED:  # what it says first is how it ended
        return replace(new, status=status.status, reason=status.reason, message=status.message)
    return new


def _with(status: PodMigrationJobStatus, new: PodMigrationJobCondition) -> PodMigrationJobStatus:
    conditions = list(status.conditions or ())
    for place, one in enumerate(conditions):
        if one.type == new.type:
            conditions[place] = new
            break
    else:
        conditions.append(new)
    return replace(status, conditions=conditions)


# --- time -------------------------------------------------------------------------------------------------------------


def admitted_status(
    status: PodMigrationJobStatus, message: str, *, doubt: bool = False, now: float
) -> PodMigrationJobStatus:
    """The status of a job that may begin; pauses before that no longer count. In doubt it must not wait for a seat."""
    said = ConditionUpdate(JobConditionType.ADMITTED, True, JobReason.IN_DOUBT if doubt else "", message)
    kept = [one for one in status.conditions or () if one.type != JobConditionType.PAUSED]
    return replace(_record(replace(status, conditions=kept), said, now), phase=JobPhase.RUNNING)


def waiting_status(status: PodMigrationJobStatus, reason: str, message: str, *, now: float) -> PodMigrationJobStatus:
    """The status of a job that waits, and for what."""
    said = ConditionUpdate(JobConditionType.ADMITTED, False, reason, message)
    return replace(_record(status, said, now), phase=JobPhase.PENDING)


def paused_status(status: PodMigrationJobStatus, *, now: float) -> PodMigrationJobStatus:
    """The status of a job that is held up from now on, or already was."""
    old = find_condition(status, JobConditionType.PAUSED)
    if old is not None and old.status == ConditionStatus.TRUE:
        return status
    message = "the job is paused: nothing happens, and its time stands still, until spec.paused is false"
    held_up = replace(status, phase=status.phase or JobPhase.PENDING)  # one without a phase is one that nobody saw
    return _pause(held_up, True, message, seconds=paused_seconds(status, now), now=now)


def resumed_status(status: PodMigrationJobStatus, *, now: float) -> PodMigrationJobStatus:
    """The status of a job that is no longer held up, or never was."""
    if not is_condition_true(status, JobConditionType.PAUSED):
        return status
    seconds = paused_seconds(status, now)
    return _pause(status, False, f"the job goes on; it was paused for {seconds:g} s in all", seconds=seconds, now=now)


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
    """The seconds a job was paused, since it was admitted or, before that, since it was made."""
    found = find_condition(status, JobConditionType.PAUSED)
    since = time_of(found.last_transition_time) if found else None
    if found is None or since is None:
        return 0.0
    before = time_of(found.last_probe_time)
    total = since - before if before is not None else 0.0
    if found.status == ConditionStatus.TRUE:
        total += now - since
    return max(total, 0.0)


def job_started_at(job: PodMigrationJob) -> float | None:
    """When a job's time began to count: when it was admitted; before that, when it was made."""
    found = find_condition(job.status, JobConditionType.ADMITTED)
    if found is not None and found.status == ConditionStatus.TRUE:
        return time_of(found.last_transition_time)
    return time_of(job.metadata.creation_timestamp)


def job_seconds_used(job: PodMigrationJob, now: float) -> float:
    """The seconds of its time that a job has used up."""
    since = job_started_at(job)
    return 0.0 if since is None else max(now - since - paused_seconds(job.status, now), 0.0)


def job_ended_at(job: PodMigrationJob) -> float | None:
    """When a job was over; None while it is not."""
    found = find_condition(job.status, JobConditionType.COMPLETE)
    return time_of(found.last_transition_time) if found is not None and is_job_ended(job) else None
