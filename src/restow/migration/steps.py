"""Instructions: the steps a migration can take, each with the status that is to be recorded with it, and the words for
how one ends.
"""

from __future__ import annotations

import msgspec

from restow.migration.conditions import ConditionUpdate, ended_status, with_conditions
from restow.migration.facts import Facts
from restow.model.objects import (
    JobPhase,
    JobReason,
    ObjectReference,
    Pod,
    PodMigrationJobStatus,
    Reservation,
)
from restow.model.reservations.observed import is_being_deleted
from restow.model.reservations.spec import expires_at
from restow.model.times import TimeError, format_time

BRIEF_WAIT = 5.0
"""Seconds within which most things come of themselves that a job waits for."""


class ReadLive(msgspec.Struct, frozen=True):
    """The facts do not suffice: read all of them from the API server and, if asked for, try the eviction."""

    dry_run_eviction: bool = False


class PinPod(msgspec.Struct, frozen=True):
    """Write down what nobody can tell later: which life of the pod is meant, whose replica it is, where it was, and
    how it is to move, whatever becomes of the configuration."""

    status: PodMigrationJobStatus
    uid: str
    mode: str
    workload: str | None = None
    source: str | None = None


class AwaitAdmission(msgspec.Struct, frozen=True):
    """Nothing is in the way but arbitration."""

    status: PodMigrationJobStatus
    retry_at: float | None = None


class Reserve(msgspec.Struct, frozen=True):
    """Create the reservation; that it exists already is as good."""

    status: PodMigrationJobStatus
    reservation: Reservation


class RecordReservation(msgspec.Struct, frozen=True):
    """Write down which reservation was made; that it was is told with whatever comes of it."""

    status: PodMigrationJobStatus
    reference: ObjectReference


class Extend(msgspec.Struct, frozen=True):
    """Let our reservation live until then."""

    status: PodMigrationJobStatus
    reservation: Reservation
    until: float


class Evict(msgspec.Struct, frozen=True):
    """Record the status, then evict this very pod."""

    status: PodMigrationJobStatus
    pod: Pod


class Release(msgspec.Struct, frozen=True):
    """Delete our reservation."""

    status: PodMigrationJobStatus
    reservation: Reservation


class Wait(msgspec.Struct, frozen=True):
    """Until something happens, or until then."""

    status: PodMigrationJobStatus
    retry_at: float | None = None


class Done(msgspec.Struct, frozen=True):
    status: PodMigrationJobStatus


class Fail(msgspec.Struct, frozen=True):
    status: PodMigrationJobStatus


class Abort(msgspec.Struct, frozen=True):
    """It ends because somebody wanted it so: who wrote Aborted, or configured a dry run."""

    status: PodMigrationJobStatus


Act = PinPod | AwaitAdmission | Reserve | RecordReservation | Extend | Evict | Release | Wait | Done | Fail | Abort
Step = ReadLive | Act


# --- words ------------------------------------------------------------------------------------------------------------


def wait_for(facts: Facts, said: ConditionUpdate, *, again: float | None = None) -> Step:
    return Wait(with_conditions(facts.job.status, said, now=facts.now), again)


def wait_briefly(facts: Facts, since: float | None) -> Step | None:
    """Waiting without a word for what mostly comes at once; None if that is not known to have begun just now."""
    if since is None or not 0 <= facts.now - since < BRIEF_WAIT:
        return None
    return Wait(facts.job.status, since + BRIEF_WAIT)


def job_done(facts: Facts, message: str) -> Step:
    return Done(ended_status(facts.job.status, JobPhase.SUCCEED, "", message, now=facts.now))


def fail_job(facts: Facts, reason: JobReason, message: str) -> Step:
    return Fail(ended_status(facts.job.status, JobPhase.FAILED, reason, message, now=facts.now))


def forbid_move(facts: Facts, why: str) -> Step:
    return fail_job(facts, JobReason.FORBIDDEN_MIGRATE_POD, f"pod {pod_name(facts)} cannot be moved: {why}")


def dry_run_result(facts: Facts, what: str) -> Step:
    """What a dry run comes to; it may be asked for when something was done already."""
    told = f"dry run, {_already_done(facts) or 'nothing was changed'}: {what}"
    return Abort(ended_status(facts.job.status, JobPhase.ABORTED, JobReason.DRY_RUN, told, now=facts.now))


def _already_done(facts: Facts) -> str:
    if facts.is_evicting:
        return "but an eviction was recorded before, and may still be on its way"
    if facts.owns_reservation:
        assert facts.reservation is not None, "it is ours"
        return f"but reservation {facts.reservation.metadata.name} was made before, and is released now"
    return ""


def pod_name(facts: Facts) -> str:
    reference = facts.job.spec.pod_ref
    return f"{reference.namespace}/{reference.name}"


def reservation_exists(reservation: Reservation | None) -> bool:
    """Whether there is one, and nobody is deleting it."""
    return reservation is not None and not is_being_deleted(reservation)


def reservation_failure_reason(reservation: Reservation) -> JobReason:
    match reservation.status.state.reason:
        case "Expired":
            return JobReason.RESERVATION_EXPIRED
        case "RoomTaken":
            return JobReason.ROOM_TAKEN
        case _:
            return JobReason.UNSCHEDULABLE


def reservation_failure(reservation: Reservation) -> str:
    state = reservation.status.state
    why = ": ".join(text for text in (state.reason, state.message) if text)
    return f"reservation {reservation.metadata.name} failed" + (f" ({why})" if why else "")


def seat_expiry(facts: Facts) -> str:
    assert facts.reservation is not None, "asked only then"
    try:
        end = expires_at(facts.reservation)
    except TimeError:
        end = None
    return format_time(end) if end is not None else "it is deleted"
