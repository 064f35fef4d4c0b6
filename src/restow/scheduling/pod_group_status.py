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
    """The status that says how a gang fared; None if it says so already."""
    assert job.group is not None, "only gangs have one"
    old = job.group.status
    whole = job.is_whole
    if whole:
        told = [_condition(SCHEDULED, True, READY, f"{job.placed} of {job.min_available} pods have a node")]
        told.append(_condition(UNSCHEDULABLE, False, READY, ""))
    else:
        reason = COMPLETING if job.is_broken else NOT_ENOUGH
        told = [_condition(UNSCHEDULABLE, True, reason, _lament(job, refusal))]
        told.append(_condition(SCHEDULED, False, reason, ""))
    conditions = _merged(old.conditions or [], told, now)
    status = replace(old, phase=_phase(job, whole), conditions=conditions)
    return None if status == old else status


def _lament(job: Job, refusal: str | None) -> str:
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


def _merged(old: list[PodGroupCondition], told: list[PodGroupCondition], now: float) -> list[PodGroupCondition]:
    merged = {one.type: one for one in old}
    for one in told:
        before = merged.get(one.type)
        if before is None and one.status == ConditionStatus.FALSE:
            continue  # what never held need not be denied
        same = before is not None and before.status == one.status
        since = before.last_transition_time if before and same else format_time(now)
        merged[one.type] = replace(
            one, last_transition_time=since, transition_id=before.transition_id if before else None
        )
    return list(merged.values())
