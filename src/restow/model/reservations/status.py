"""The life of a reservation: what its status is to say next.

Goes in: a Reservation as it is, what was found out about its seats, and the time. Comes out: the status it is to have,
or None if it says so already. Everything is derived again each time, so it does not matter who wrote the status before,
nor how many times something is seen.

                    minAvailable fit at once                 every seat was taken
        Pending ────────────────────────────> Available ───────────────────────────> Succeeded
           │  ^                                 ^   │
           │  │ seats were added, or lost       │   │  a node is unfit
           │  └─────────────────────────────────┤   v
           └─────────────────────────────────> Waiting: pods are still leaving the room, or a node is unfit for now
                    placed

    Failed, from any of the first three:
        Invalid         the spec asks for something that cannot be
        Expired         its time is over, whether it was placed or not
        NodeGone        a node with an open seat does not exist any more  }
        RoomTaken       others took the room of an open seat              }  and fewer than minAvailable are left;
        LimitExceeded   it was changed, to more than it may have          }  otherwise it goes on without the seat
        NoLongerFits    it was changed, to what its node does not take    }

What was taken stays taken: pods keep running whatever becomes of the reservation, and a seat that somebody took never
opens again. An end is final; a pod that took its seat just before is still written down.
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
from restow.model.resources import quantities
from restow.model.times import format_time

PENDING, WAITING, AVAILABLE = ReservationPhase.PENDING, ReservationPhase.WAITING, ReservationPhase.AVAILABLE
SUCCEEDED, FAILED = ReservationPhase.SUCCEEDED, ReservationPhase.FAILED


MOST_OWNERS = 100
"""More of them, beside thousands of seats, make an object that no API server stores."""


MOST_AMOUNTS = 6
"""More resources than this are no help to whoever reads a sentence."""


class Reason(StrEnum):
    """Why a reservation is in its phase; those of `standing.Trouble` beside."""

    UNSCHEDULABLE = "Unschedulable"
    SEATS_MISSING = "SeatsMissing"
    RESERVED = "Reserved"
    CONSUMED = "Consumed"
    EXPIRED = "Expired"
    INVALID = "Invalid"


_FINAL = "it stays so: correct it and make it anew (kubectl replace --force)"
"""What to do about one that is invalid, which nothing on a screen says otherwise."""


class SeatObservation(msgspec.Struct, frozen=True):
    """One placement, as its status shows it or as it was decided, and how it stands."""

    placement: Placement
    """With the pod that took it, if one did."""
    fault: SeatFault | None = None
    owner: ObjectReference | None = None
    """For whom the pod that took it works, where that is known."""

    @property
    def is_consumed(self) -> bool:
        return self.placement.pod_ref is not None

    def is_in_spec(self, wants: Mapping[str, int]) -> bool:
        """Whether the spec (still) has this seat."""
        return self.placement.index < wants.get(self.placement.task, 0)

    @property
    def is_lost(self) -> bool:
        return not self.is_consumed and self.fault is not None and self.fault.reason.loses_seat

    @property
    def has_room_being_left(self) -> bool:
        """Whether its room is not there before others have left it."""
        return not self.is_consumed and self.fault is not None and self.fault.reason is FaultReason.ROOM_BEING_LEFT

    @property
    def is_ready(self) -> bool:
        return self.is_consumed or self.fault is None


class ReservationObservation(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out about a reservation."""

    seats: Sequence[SeatObservation] = ()
    problems: Sequence[Problem] = ()
    refusal: str | None = None
    """Why what is missing could not be placed, the last time that was tried."""
    has_pods_on_the_way: bool = False
    """Whether pods are on their way into seats, for which they may have been owners once."""


class _Verdict(msgspec.Struct, frozen=True):
    phase: ReservationPhase
    reason: str
    message: str


def next_status(reservation: Reservation, facts: ReservationObservation, now: float) -> ReservationStatus | None:
    """The status a reservation is to have now; None if it has it already."""
    wants = seats_per_task(reservation)
    seats = [one for one in facts.seats if one.is_consumed or one.is_in_spec(wants)]
    verdict = _verdict(reservation, seats, facts, now)
    if verdict is not None and verdict.phase is AVAILABLE and _gives_up_hope(reservation):
        seats = [one for one in seats if not one.has_room_being_left]
        verdict = _verdict(reservation, seats, facts, now)
    if verdict is None:
        return None
    if verdict.phase is not FAILED:
        seats = [one for one in seats if not one.is_lost]
    old, state = reservation.status, _state(reservation.status.state, verdict, now)
    owners = _owners(old.current_owners or (), seats)
    status = replace(
        old,
        state=state,
        min_available=seats_needed(reservation),
        conditions=_conditions(old.conditions or (), state),
        placements=sorted((one.placement for one in seats), key=lambda one: (one.task, one.index)) or None,
        current_owner=owners[0] if owners else None,
        current_owners=owners or None,
        observed_generation=reservation.metadata.generation,
        observed_owners=_takers(reservation, facts),
        observed_queue=reservation.spec.queue,
        **_counts(reservation, seats, verdict.phase),
        **({} if facts.problems else _amounts(reservation, seats, verdict.phase)),
    )
    return None if status == old else status


def _gives_up_hope(reservation: Reservation) -> bool:
    """Whether seats are given up whose room is being left: one that has all that it needs can be relied on, and stands
    before newer ones, which would have to wait for those seats. Room that is being made for it is its own."""
    return reservation.status.state.phase == WAITING and not awaited_pods(reservation)


# --- the phase --------------------------------------------------------------------------------------------------------


def _verdict(reservation: Reservation, seats: Sequence[SeatObservation], facts: ReservationObservation, now: float) -> _Verdict | None:
    if is_ended(reservation):
        state = reservation.status.state
        return _Verdict(ReservationPhase(state.phase or ""), state.reason or "", state.message or "")
    wants = seats_per_task(reservation)
    seats = [one for one in seats if one.is_in_spec(wants)]
    total, taken = sum(wants.values()), sum(one.is_consumed for one in seats)
    if total and taken == total:
        told = f"all {total} seats were taken" if total > 1 else "its seat was taken"
        return _Verdict(SUCCEEDED, Reason.CONSUMED, told)
    ended = _end(reservation, seats, facts, now, f"{taken} of {total} seats were taken")
    return ended or _life(reservation, seats, facts, total)


def _end(reservation: Reservation, seats: Sequence[SeatObservation], facts: ReservationObservation, now: float, sum_up: str) -> _Verdict | None:
    """What makes it fail."""
    if facts.problems:
        told = "; ".join(map(str, facts.problems))
        return _Verdict(FAILED, Reason.INVALID, f"{told}; {_FINAL}")
    end = expires_at(reservation)
    if end is not None and now >= end:
        return _Verdict(FAILED, Reason.EXPIRED, f"it expired at {format_time(end)}; {sum_up}")
    lost = [one.fault for one in seats if one.is_lost and one.fault]
    if lost and len(seats) - len(lost) < seats_needed(reservation):
        return _Verdict(FAILED, lost[0].reason, f"{_together(lost)}; {sum_up}")
    return None


def _life(reservation: Reservation, seats: Sequence[SeatObservation], facts: ReservationObservation, total: int) -> _Verdict | None:
    """How it goes on."""
    old, needed = reservation.status.state, seats_needed(reservation)
    held = [one for one in seats if not one.is_lost]
    if len(held) < needed:
        if facts.refusal is not None:
            return _Verdict(PENDING, Reason.UNSCHEDULABLE, facts.refusal)
        if old.phase == PENDING and not has_undecided_change(reservation):
            return _Verdict(PENDING, old.reason or "", old.message or "")
        counted = f"{len(held)} of the {needed} seats that are needed are held"
        message = counted if needed > 1 else "the seat that is needed is not held"
        return _Verdict(PENDING, Reason.SEATS_MISSING, message) if old.phase else None
    ready = [one for one in held if one.is_ready]
    troubled = [one.fault for one in held if not one.is_ready and one.fault]
    if len(ready) < needed:
        return _Verdict(WAITING, troubled[0].reason, _together(troubled))
    message = f"{len(held)} of {total} seats are held or taken{_told_amounts(reservation, held)}"
    more = [facts.refusal] if facts.refusal and len(held) < total else []
    more += [_together(troubled)] if troubled else []
    more += [] if reservation.spec.owners else ["spec.owners is empty, so nobody may take one"]
    return _Verdict(AVAILABLE, Reason.RESERVED, "; ".join([message, *more, *_asking_for_nothing(reservation)]))


def _told_amounts(reservation: Reservation, seats: Iterable[SeatObservation]) -> str:
    """What seats ask for together, unless that is too much to tell."""
    asked = {
        name: amount for name, amount in total_requests(reservation, (one.placement for one in seats)).items() if amount
    }
    if not 0 < len(asked) <= MOST_AMOUNTS:
        return ""
    return f": {', '.join(f'{name} {amount}' for name, amount in quantities(asked).items())}"


def _asking_for_nothing(reservation: Reservation) -> list[str]:
    """That tasks ask for nothing, which somebody may have meant to write elsewhere."""
    each = requests_per_task(reservation)
    paths = [
        f"spec.tasks[{number}].template"
        for number, task in enumerate(reservation.spec.tasks or ())
        if seat_count(task) and not any(each[task.name].values())
    ]
    if not paths:
        return []
    ask, whose = ("asks", "its") if len(paths) == 1 else ("ask", "their")
    return [f"{', '.join(paths)} {ask} for no resources, so {whose} seats hold nothing but a pod's place"]


def _together(troubled: Iterable[SeatFault]) -> str:
    """Each cause once, with how many seats it concerns."""
    counted = Counter(one.message for one in troubled)
    return "; ".join(f"{message} ({count} seat{'s' * (count > 1)})" for message, count in counted.items())


# --- how it is written ------------------------------------------------------------------------------------------------


def _state(old: ReservationState, verdict: _Verdict, now: float) -> ReservationState:
    same = old.phase == verdict.phase
    since = (old.last_transition_time if same else None) or format_time(now)
    return ReservationState(
        phase=verdict.phase.value,
        reason=str(verdict.reason) or None,
        message=verdict.message or None,
        last_transition_time=since,
    )


def _conditions(old: Iterable[ReservationCondition], state: ReservationState) -> list[ReservationCondition]:
    """One per phase that it has been in, in the order in which it first was."""
    conditions = {one.status: one for one in old}
    phase = state.phase or ""
    conditions[phase] = ReservationCondition(
        status=phase, reason=state.reason, message=state.message, last_transition_time=state.last_transition_time
    )
    return list(conditions.values())


def _owners(old: Iterable[ObjectReference], seats: Iterable[SeatObservation]) -> list[ObjectReference]:
    """For whom seats were taken, in the order in which they came: the first of them, if they are too many to tell."""
    owners = {_identity(one): one for one in [*old, *(seat.owner for seat in seats if seat.owner is not None)]}
    return list(owners.values())[:MOST_OWNERS]


def _takers(reservation: Reservation, facts: ReservationObservation) -> list[ReservationOwner]:
    """Who may have taken a seat that this status does not mark: its owners, and as long as pods are on their way, those
    that it had before."""
    owners = list(reservation.spec.owners or ())
    before = reservation.status.observed_owners or () if facts.has_pods_on_the_way else ()
    return owners + [one for one in before if one not in owners]


def _identity(reference: ObjectReference) -> tuple[str | None, ...]:
    return reference.api_version, reference.kind, reference.namespace, reference.name, reference.uid


def _counts(reservation: Reservation, seats: Sequence[SeatObservation], phase: ReservationPhase) -> dict[str, object]:
    wants = seats_per_task(reservation)
    tasks = {task: Counter({PENDING: count}) for task, count in wants.items()}
    for one in seats:
        if one.is_in_spec(wants):
            count = tasks[one.placement.task]
            count[_phase(one)] += 1
            count[PENDING] -= 1
    if phase is FAILED:
        for count in tasks.values():
            count[FAILED] = count[PENDING] + count[WAITING] + count[AVAILABLE]
            count[PENDING] = count[WAITING] = count[AVAILABLE] = 0
    total: Counter[ReservationPhase] = sum(tasks.values(), Counter())
    return {
        "task_status_count": {
            task: TaskState(phase={str(one.value): count[one] for one in ReservationPhase if count[one]})
            for task, count in tasks.items()
        }
        or None,
        "pending": total[PENDING] + total[WAITING],
        "available": total[AVAILABLE],
        "succeeded": total[SUCCEEDED],
        "failed": total[FAILED],
    }


def _phase(seat: SeatObservation) -> ReservationPhase:
    if seat.is_consumed:
        return SUCCEEDED
    return AVAILABLE if seat.is_ready else WAITING


def _amounts(reservation: Reservation, seats: Sequence[SeatObservation], phase: ReservationPhase) -> dict[str, object]:
    """What the seats hold or held, what was taken of it, and what each of them was given."""
    taken = total_requests(reservation, (one.placement for one in seats if one.is_consumed))
    held = taken if phase is FAILED else total_requests(reservation, (one.placement for one in seats))
    each = {task: quantities(request) for task, request in requests_per_task(reservation).items()}
    return {
        "allocatable": quantities(held) or None,
        "allocated": quantities(taken) or None,
        "observed_requests": each or None,
    }
