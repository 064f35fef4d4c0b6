"""The status of a reservation: what it is to say next.

Goes in: a Reservation as it is, what was observed of its seats, and the time. Comes out: the status it is to have, or
None if it has that already. Everything is derived again each time, so it does not matter which process wrote the status
before, nor how many times an event is seen.

                    minAvailable fit at once                 every seat is consumed
        Pending ────────────────────────────> Available ───────────────────────────> Succeeded
           │  ^                                 ^   │
           │  │ seats were added, or lost       │   │  a node is unfit
           │  └─────────────────────────────────┤   v
           └─────────────────────────────────> Waiting: pods are still leaving the room, or a node is unfit for now
                    placed

    Failed, from any of the first three:
        Invalid         the spec is invalid
        Expired         the reservation expired, whether it was placed or not
        NodeGone        the node of an open seat was deleted                }
        RoomTaken       other pods took the room of an open seat            }  and fewer than minAvailable are left;
        LimitExceeded   it was changed, to more than its limits allow       }  otherwise it goes on without the seat
        NoLongerFits    it was changed, to a pod that its node refuses      }

A consumed seat stays consumed: its pod keeps running whatever becomes of the reservation, and the seat never opens
again. An end is final, but a pod that consumed its seat just before is still recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from restow.model.objects import (
    ObjectReference,
    Placement,
    Reservation,
    ReservationCondition,
    ReservationOwner,
    ReservationPhase,
    ReservationState,
    ReservationStatus,
    TaskState,
)
from restow.model.problems import Problem
from restow.model.reservations.observed_spec import has_undecided_change, is_ended
from restow.model.reservations.reservation_annotations import awaited_pods
from restow.model.reservations.seat_fault import FaultReason, SeatFault
from restow.model.reservations.spec import (
    expires_at,
    requests_per_task,
    seat_count,
    seats_needed,
    seats_per_task,
    total_requests,
)
from restow.model.resources import format_quantities
from restow.model.times import format_time

PENDING, WAITING, AVAILABLE = ReservationPhase.PENDING, ReservationPhase.WAITING, ReservationPhase.AVAILABLE
SUCCEEDED, FAILED = ReservationPhase.SUCCEEDED, ReservationPhase.FAILED


MOST_OWNERS = 100
"""More of them, beside thousands of seats, make an object that is too large for an API server."""


MOST_AMOUNTS = 6
"""A sentence with more resources than this is too long to read."""


class Reason(StrEnum):
    """Why a reservation is in its phase; the others are in `FaultReason`."""

    UNSCHEDULABLE = "Unschedulable"
    SEATS_MISSING = "SeatsMissing"
    RESERVED = "Reserved"
    CONSUMED = "Consumed"
    EXPIRED = "Expired"
    INVALID = "Invalid"


_FINAL = "this is final: correct the spec and create the reservation again (kubectl replace --force)"
"""What to do about an invalid reservation, which no other output says."""


class SeatObservation(msgspec.Struct, frozen=True):
    """One seat, as the status shows it or as it was decided, and what was observed of it."""

    placement: Placement
    """With the pod that consumed it, if one did."""
    fault: SeatFault | None = None
    owner: ObjectReference | None = None
    """The workload of the pod that consumed it, where that is known."""

    @property
    def is_consumed(self) -> bool:
        return self.placement.pod_ref is not None

    def is_in_spec(self, wanted: Mapping[str, int]) -> bool:
        """Whether the spec, with this many seats per task, (still) has the seat."""
        return self.placement.index < wanted.get(self.placement.task, 0)

    @property
    def is_lost(self) -> bool:
        return not self.is_consumed and self.fault is not None and self.fault.reason.loses_seat

    @property
    def has_room_being_left(self) -> bool:
        """Whether its room is not there before other pods have left it."""
        return not self.is_consumed and self.fault is not None and self.fault.reason is FaultReason.ROOM_BEING_LEFT

    @property
    def is_ready(self) -> bool:
        return self.is_consumed or self.fault is None


class ReservationObservation(msgspec.Struct, frozen=True, kw_only=True):
    """What was observed of a reservation."""

    seats: Sequence[SeatObservation] = ()
    problems: Sequence[Problem] = ()
    """What is wrong with its spec."""
    refusal: str | None = None
    """Why the missing seats could not be placed, the last time that was tried."""
    has_pods_on_the_way: bool = False
    """Whether pods are on their way into seats: the spec may have named their owners when they were assigned."""


class _PhaseDecision(msgspec.Struct, frozen=True):
    phase: ReservationPhase
    reason: str
    message: str


def next_status(reservation: Reservation, observation: ReservationObservation, now: float) -> ReservationStatus | None:
    """The status that a reservation is to have now; None if it has that already."""
    # 1. The seats that count: consumed ones for good, others while the spec has them.
    wanted = seats_per_task(reservation)
    seats = [seat for seat in observation.seats if seat.is_consumed or seat.is_in_spec(wanted)]
    # 2. The phase. A reservation that becomes Available releases the seats that still wait for room.
    decision = _decide_phase(reservation, seats, observation, now)
    if decision is not None and decision.phase is AVAILABLE and _releases_waiting_seats(reservation):
        seats = [seat for seat in seats if not seat.has_room_being_left]
        decision = _decide_phase(reservation, seats, observation, now)
    if decision is None:
        return None
    # 3. Lost seats are dropped, unless the reservation fails: then the status shows what it had.
    if decision.phase is not FAILED:
        seats = [seat for seat in seats if not seat.is_lost]
    # 4. The rest of the status follows from the phase and the seats.
    old, state = reservation.status, _state(reservation.status.state, decision, now)
    owners = _current_owners(old.current_owners or (), seats)
    status = replace(
        old,
        state=state,
        min_available=seats_needed(reservation),
        conditions=_conditions(old.conditions or (), state),
        placements=sorted((seat.placement for seat in seats), key=lambda placement: (placement.task, placement.index))
        or None,
        current_owner=owners[0] if owners else None,
        current_owners=owners or None,
        observed_generation=reservation.metadata.generation,
        observed_owners=_observed_owners(reservation, observation),
        observed_queue=reservation.spec.queue,
        **_seat_counts(reservation, seats, decision.phase),
        **({} if observation.problems else _seat_requests(reservation, seats, decision.phase)),
    )
    return None if status == old else status


def _releases_waiting_seats(reservation: Reservation) -> bool:
    """Whether seats are released when enough others are ready, because pods are still leaving their room.

    The reservation can be relied on without them, and newer reservations would have to wait for their room. Seats are
    kept where a plan makes the room for this very reservation.
    """
    return reservation.status.state.phase == WAITING and not awaited_pods(reservation)


# --- the phase --------------------------------------------------------------------------------------------------------


def _decide_phase(
    reservation: Reservation, seats: Sequence[SeatObservation], observation: ReservationObservation, now: float
) -> _PhaseDecision | None:
    if is_ended(reservation):
        state = reservation.status.state
        return _PhaseDecision(ReservationPhase(state.phase or ""), state.reason or "", state.message or "")
    wanted = seats_per_task(reservation)
    seats = [seat for seat in seats if seat.is_in_spec(wanted)]
    total, consumed = sum(wanted.values()), sum(seat.is_consumed for seat in seats)
    if total and consumed == total:
        message = f"all {total} seats are consumed" if total > 1 else "its seat is consumed"
        return _PhaseDecision(SUCCEEDED, Reason.CONSUMED, message)
    failure = _decide_failure(reservation, seats, observation, now, f"{consumed} of {total} seats are consumed")
    return failure or _decide_live_phase(reservation, seats, observation, total)


def _decide_failure(
    reservation: Reservation,
    seats: Sequence[SeatObservation],
    observation: ReservationObservation,
    now: float,
    consumed: str,
) -> _PhaseDecision | None:
    """Why a reservation fails; None if it does not."""
    if observation.problems:
        problems = "; ".join(map(str, observation.problems))
        return _PhaseDecision(FAILED, Reason.INVALID, f"{problems}; {_FINAL}")
    end = expires_at(reservation)
    if end is not None and now >= end:
        return _PhaseDecision(FAILED, Reason.EXPIRED, f"it expired at {format_time(end)}; {consumed}")
    faults = [seat.fault for seat in seats if seat.is_lost and seat.fault]
    if faults and len(seats) - len(faults) < seats_needed(reservation):
        return _PhaseDecision(FAILED, faults[0].reason, f"{_counted(faults)}; {consumed}")
    return None


def _decide_live_phase(
    reservation: Reservation, seats: Sequence[SeatObservation], observation: ReservationObservation, total: int
) -> _PhaseDecision | None:
    """The phase of a reservation that has not ended; None for a new one before the first try to place it."""
    old, needed, refusal = reservation.status.state, seats_needed(reservation), observation.refusal
    held = [seat for seat in seats if not seat.is_lost]
    if len(held) < needed:
        if refusal is not None:
            return _PhaseDecision(PENDING, Reason.UNSCHEDULABLE, refusal)
        if old.phase == PENDING and not has_undecided_change(reservation):
            return _PhaseDecision(PENDING, old.reason or "", old.message or "")
        counted = f"{len(held)} of {needed} required seats are held"
        message = counted if needed > 1 else "the required seat is not held"
        return _PhaseDecision(PENDING, Reason.SEATS_MISSING, message) if old.phase else None
    ready = [seat for seat in held if seat.is_ready]
    faults = [seat.fault for seat in held if not seat.is_ready and seat.fault]
    if len(ready) < needed:
        return _PhaseDecision(WAITING, faults[0].reason, _counted(faults))
    message = f"{len(held)} of {total} seats are held or consumed{_requests_message(reservation, held)}"
    more = [refusal] if refusal and len(held) < total else []
    more += [_counted(faults)] if faults else []
    more += [] if reservation.spec.owners else ["spec.owners is empty, so no pod may consume a seat"]
    return _PhaseDecision(
        AVAILABLE, Reason.RESERVED, "; ".join([message, *more, *_tasks_without_requests(reservation)])
    )


def _requests_message(reservation: Reservation, seats: Iterable[SeatObservation]) -> str:
    """What seats request together, unless that makes a sentence too long."""
    total = total_requests(reservation, (seat.placement for seat in seats))
    requested = {name: amount for name, amount in total.items() if amount}
    if not 0 < len(requested) <= MOST_AMOUNTS:
        return ""
    return f": {', '.join(f'{name} {amount}' for name, amount in format_quantities(requested).items())}"


def _tasks_without_requests(reservation: Reservation) -> list[str]:
    """A warning about templates without requests: they may have been meant to be in another field."""
    each = requests_per_task(reservation)
    paths = [
        f"spec.tasks[{number}].template"
        for number, task in enumerate(reservation.spec.tasks or ())
        if seat_count(task) and not any(each[task.name].values())
    ]
    if not paths:
        return []
    verb, their = ("requests", "its") if len(paths) == 1 else ("request", "their")
    return [f"{', '.join(paths)} {verb} no resources, so {their} seats hold nothing but a pod slot"]


def _counted(faults: Iterable[SeatFault]) -> str:
    """Each message once, with the number of seats that it is about."""
    counted = Counter(fault.message for fault in faults)
    return "; ".join(f"{message} ({count} seat{'s' * (count > 1)})" for message, count in counted.items())


# --- the other fields -------------------------------------------------------------------------------------------------


def _state(old: ReservationState, decision: _PhaseDecision, now: float) -> ReservationState:
    is_same_phase = old.phase == decision.phase
    since = (old.last_transition_time if is_same_phase else None) or format_time(now)
    return ReservationState(
        phase=decision.phase.value,
        reason=str(decision.reason) or None,
        message=decision.message or None,
        last_transition_time=since,
    )


def _conditions(old: Iterable[ReservationCondition], state: ReservationState) -> list[ReservationCondition]:
    """One condition per phase that the reservation was in, in the order in which it first was; updated in place."""
    conditions = {condition.status: condition for condition in old}
    phase = state.phase or ""
    conditions[phase] = ReservationCondition(
        status=phase, reason=state.reason, message=state.message, last_transition_time=state.last_transition_time
    )
    return list(conditions.values())


def _current_owners(old: Iterable[ObjectReference], seats: Iterable[SeatObservation]) -> list[ObjectReference]:
    """The workloads that consumed seats, in the order in which they did; of very many the first hundred."""
    consumed_by = (seat.owner for seat in seats if seat.owner is not None)
    owners = {_identity(owner): owner for owner in [*old, *consumed_by]}
    return list(owners.values())[:MOST_OWNERS]


def _observed_owners(reservation: Reservation, observation: ReservationObservation) -> list[ReservationOwner]:
    """The owners of the spec, and while pods are on their way also those that it had before: such a pod may have
    consumed a seat that this status does not record, and the next leader believes only pods of these owners."""
    owners = list(reservation.spec.owners or ())
    before = reservation.status.observed_owners or () if observation.has_pods_on_the_way else ()
    return owners + [owner for owner in before if owner not in owners]


def _identity(reference: ObjectReference) -> tuple[str | None, ...]:
    return reference.api_version, reference.kind, reference.namespace, reference.name, reference.uid


def _seat_counts(
    reservation: Reservation, seats: Sequence[SeatObservation], phase: ReservationPhase
) -> dict[str, object]:
    """How many seats are in which phase, per task and in all."""
    wanted = seats_per_task(reservation)
    counts = {task: Counter({PENDING: count}) for task, count in wanted.items()}
    for seat in seats:
        if seat.is_in_spec(wanted):
            count = counts[seat.placement.task]
            count[_seat_phase(seat)] += 1
            count[PENDING] -= 1
    if phase is FAILED:
        for count in counts.values():
            count[FAILED] = count[PENDING] + count[WAITING] + count[AVAILABLE]
            count[PENDING] = count[WAITING] = count[AVAILABLE] = 0
    total: Counter[ReservationPhase] = sum(counts.values(), Counter())
    return {
        "task_status_count": {
            task: TaskState(phase={str(phase.value): count[phase] for phase in ReservationPhase if count[phase]})
            for task, count in counts.items()
        }
        or None,
        "pending": total[PENDING] + total[WAITING],
        "available": total[AVAILABLE],
        "succeeded": total[SUCCEEDED],
        "failed": total[FAILED],
    }


def _seat_phase(seat: SeatObservation) -> ReservationPhase:
    if seat.is_consumed:
        return SUCCEEDED
    return AVAILABLE if seat.is_ready else WAITING


def _seat_requests(
    reservation: Reservation, seats: Sequence[SeatObservation], phase: ReservationPhase
) -> dict[str, object]:
    """What the seats hold or held, how much of that is consumed, and what one seat of each task was granted."""
    consumed = total_requests(reservation, (seat.placement for seat in seats if seat.is_consumed))
    held = consumed if phase is FAILED else total_requests(reservation, (seat.placement for seat in seats))
    granted = {task: format_quantities(request) for task, request in requests_per_task(reservation).items()}
    return {
        "allocatable": format_quantities(held) or None,
        "allocated": format_quantities(consumed) or None,
        "observed_requests": granted or None,
    }
