"""The status of a PodGroup after a session: its phase, and one condition each for Scheduled and Unschedulable.

Conditions are set by type, never appended; a transition time changes only when a status does.
"""

from __future__ import annotations

from msgspec.structs import replace

from restow.model.objects import ConditionStatus, PodGroupCondition, PodGroupPhase, PodGroupStatus
from restow.model.times import format_time
from restow.scheduling.jobs import Job

SCHEDULED, UNSCHEDULABLE = "Scheduled", "Unschedulable"
READY, NOT_ENOUGH, COMPLETING = "Ready", "NotEnoughResources", "Completing"


def pod_group_status(job: Job, refusal: str | None, now: float) -> PodGroupStatus | None:
    """The status of a gang's PodGroup after the session; None if it has not changed. `refusal` is why the gang
    waits."""
    assert job.group is not None, "only gangs have one"
    old = job.group.status
    whole = job.is_whole
    if whole:
        conditions = [_condition(SCHEDULED, True, READY, f"{job.placed} of {job.min_available} pods have a node")]
        conditions.append(_condition(UNSCHEDULABLE, False, READY, ""))
    else:
        reason = COMPLETING if job.is_broken else NOT_ENOUGH
        conditions = [_condition(UNSCHEDULABLE, True, reason, _waiting_message(job, refusal))]
        conditions.append(_condition(SCHEDULED, False, reason, ""))
    merged = _merged(old.conditions or [], conditions, now)
    status = replace(old, phase=_phase(job, whole), conditions=merged)
    return None if status == old else status


def _waiting_message(job: Job, refusal: str | None) -> str:
    if job.is_broken:
        bound = (
            f"{job.placed} of {job.min_available} pods have a node already: the gang is completed before anything else"
        )
        return f"{bound}. {refusal}" if refusal else bound
    return refusal or f"{job.placed} of {job.min_available} pods have a node"


def _phase(job: Job, whole: bool) -> str:
    if whole:
        return PodGroupPhase.RUNNING
    return PodGroupPhase.INQUEUE if job.admitted else PodGroupPhase.PENDING


def _condition(type: str, holds: bool, reason: str, message: str) -> PodGroupCondition:
    status = ConditionStatus.TRUE if holds else ConditionStatus.FALSE
    return PodGroupCondition(type=type, status=status, reason=reason, message=message)


def _merged(old: list[PodGroupCondition], new: list[PodGroupCondition], now: float) -> list[PodGroupCondition]:
    merged = {condition.type: condition for condition in old}
    for condition in new:
        before = merged.get(condition.type)
        if before is None and condition.status == ConditionStatus.FALSE:
            continue  # a condition that was never true need not be shown as false
        same = before is not None and before.status == condition.status
        since = before.last_transition_time if before and same else format_time(now)
        merged[condition.type] = replace(
            condition, last_transition_time=since, transition_id=before.transition_id if before else None
        )
    return list(merged.values())
