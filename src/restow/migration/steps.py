"""Steps: the instructions that the state machine gives, each with the status that is to be recorded with it.

The functions below build the steps that many rules share: wait, fail, hold the eviction back, end a dry run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeGuard, TypeVar

import msgspec

from restow.migration.conditions import ConditionUpdate, ended_status, with_conditions
from restow.migration.facts import Facts
from restow.migration.reservation import reservation_name
from restow.model.objects import (
    JobConditionType,
    JobPhase,
    JobReason,
    ObjectReference,
    Pod,
    PodMigrationJobStatus,
    Reservation,
)
from restow.model.reservations.observed_spec import is_being_deleted
from restow.model.reservations.spec import expires_at
from restow.model.times import TimeError, format_time

BRIEF_WAIT = 5.0
"""Seconds within which most things that a job waits for happen by themselves."""
RETRY_AFTER = 10.0
"""Seconds after which a job is looked at again, if no event comes before."""

F = TypeVar("F", bound=Facts)


class ReadLive(msgspec.Struct, frozen=True):
    """The facts do not suffice: read all of them from the API server, after a dry run of the eviction if told so."""

    dry_run_eviction: bool = False


class PinPod(msgspec.Struct, frozen=True):
    """Record on the job what cannot be told any more once its pod is gone: the UID of the pod, its workload and node,
    and the mode, whatever becomes of the configuration."""

    status: PodMigrationJobStatus
    uid: str
    mode: str
    workload: str | None = None
    source: str | None = None


class AwaitAdmission(msgspec.Struct, frozen=True):
    """The job waits for nothing but arbitration."""

    status: PodMigrationJobStatus
    retry_at: float | None = None


class Reserve(msgspec.Struct, frozen=True):
    """Create the reservation; if it exists already, that is as good."""

    status: PodMigrationJobStatus
    reservation: Reservation


class RecordReservation(msgspec.Struct, frozen=True):
    """Record in the job's spec which reservation was created."""

    status: PodMigrationJobStatus
    reference: ObjectReference


class Extend(msgspec.Struct, frozen=True):
    """Let our reservation live until a later time."""

    status: PodMigrationJobStatus
    reservation: Reservation
    until: float


class Evict(msgspec.Struct, frozen=True):
    """Record the status, then evict the pod with this UID."""

    status: PodMigrationJobStatus
    pod: Pod


class Release(msgspec.Struct, frozen=True):
    """Delete our reservation."""

    status: PodMigrationJobStatus
    reservation: Reservation


class Wait(msgspec.Struct, frozen=True):
    """Do nothing until an event comes, or until `retry_at`."""

    status: PodMigrationJobStatus
    retry_at: float | None = None


class Done(msgspec.Struct, frozen=True):
    status: PodMigrationJobStatus


class Fail(msgspec.Struct, frozen=True):
    status: PodMigrationJobStatus


class Abort(msgspec.Struct, frozen=True):
    """The job ends on request: its phase was set to Aborted, it is being deleted, or it is a dry run."""

    status: PodMigrationJobStatus


Act = PinPod | AwaitAdmission | Reserve | RecordReservation | Extend | Evict | Release | Wait | Done | Fail | Abort
Step = ReadLive | Act
Rule = Callable[[F], Step | None]


def first_step(facts: F, rules: Iterable[Rule[F]]) -> Step | None:
    """The step of the first rule that has one."""
    return next((step for rule in rules if (step := rule(facts)) is not None), None)


# --- waiting ----------------------------------------------------------------------------------------------------------


def wait_for(facts: Facts, update: ConditionUpdate, *, retry_at: float | None = None) -> Step:
    """Wait, and say in a condition for what."""
    return Wait(with_conditions(facts.job.status, update, now=facts.now), retry_at)


def wait_briefly(facts: Facts, since: float | None) -> Step | None:
    """Wait, without a word in the status, for something that mostly happens at once; None if the wait is not known to
    have begun just now."""
    if since is None or not 0 <= facts.now - since < BRIEF_WAIT:
        return None
    return Wait(facts.job.status, since + BRIEF_WAIT)


def hold_eviction(
    facts: Facts, reason: JobReason, message: str, *, retry_at: float | None, withdraw: bool = False
) -> Step:
    """Do not evict now. An eviction that was recorded stays recorded, because it may still take effect, unless it is
    certain that it will not (`withdraw`)."""
    if facts.is_evicting and not withdraw:
        return Wait(facts.job.status, retry_at)
    return wait_for(facts, ConditionUpdate(JobConditionType.EVICTION, False, reason, message), retry_at=retry_at)


# --- ending -----------------------------------------------------------------------------------------------------------


def job_done(facts: Facts, message: str) -> Step:
    return Done(ended_status(facts.job.status, JobPhase.SUCCEED, "", message, now=facts.now))


def fail_job(facts: Facts, reason: JobReason, message: str) -> Step:
    return Fail(ended_status(facts.job.status, JobPhase.FAILED, reason, message, now=facts.now))


def forbid_move(facts: Facts, why: str) -> Step:
    return fail_job(facts, JobReason.FORBIDDEN_MIGRATE_POD, f"pod {facts.pod_name} cannot be moved: {why}")


def end_dry_run(facts: Facts, would: str) -> Step:
    """End a dry run with what would have been done. A dry run may be asked for when something was done already."""
    message = f"dry run, {_already_done(facts) or 'nothing was changed'}: {would}"
    return Abort(ended_status(facts.job.status, JobPhase.ABORTED, JobReason.DRY_RUN, message, now=facts.now))


def _already_done(facts: Facts) -> str:
    if facts.is_evicting:
        return "but an eviction was recorded before and may still take effect"
    if facts.owns_reservation:
        return f"but reservation {reservation_name(facts.job)} was created before and is released now"
    return ""


# --- the reservation --------------------------------------------------------------------------------------------------


def reservation_exists(reservation: Reservation | None) -> TypeGuard[Reservation]:
    """Whether there is a reservation that is not being deleted."""
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
    """That a reservation failed, and why, in words."""
    state = reservation.status.state
    why = ": ".join(text for text in (state.reason, state.message) if text)
    return f"reservation {reservation.metadata.name} failed" + (f" ({why})" if why else "")


def seat_expiry(reservation: Reservation) -> str:
    """Until when a reservation keeps its seats, in words."""
    try:
        end = expires_at(reservation)
    except TimeError:
        end = None
    return format_time(end) if end is not None else "it is deleted"
