"""Reservation order: which reservation the scheduler gives a successor a seat of, if several match it.

Goes in: the reservation that a user gave to a job, all others, and what the filters say about their nodes. Comes out: a
reservation that the scheduler would try first, by its own order, and of which it would give the successor a seat. Then
the seat of the given reservation would stay empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from restow.migration.facts_before import SeatFacts
from restow.migration.successor_seats import (
    free_seats,
    seat_suits_any,
    seats_of_suitable_tasks,
    why_reservation_excludes_successor,
)
from restow.model.objects import MatchPolicy, Placement, Pod, Reservation, ReservationPhase
from restow.model.reservations.observed_spec import is_being_deleted
from restow.model.reservations.owner_index import try_order

FitsSomeSeat = Callable[[Reservation, Sequence[Placement]], bool]
"""Whether the filters would let the successor into one of these seats of a reservation."""


def earlier_reservation(facts: SeatFacts, others: Iterable[Reservation], fits_some_seat: FitsSomeSeat) -> str | None:
    """The name of a reservation of which the successor would be given a seat before one of the given reservation."""
    given = facts.reservation
    tried_first = (
        other
        for other in others
        if other.metadata.namespace == given.metadata.namespace
        and try_order(other) < try_order(given)
        and other.status.state.phase == ReservationPhase.AVAILABLE
        and not is_being_deleted(other)
        and any(
            not why_reservation_excludes_successor(
                other, successor, facts.owner_chain, facts.options.scheduler_names, facts.successor_group
            )
            for successor in (facts.pod, facts.certain_successor)
        )
    )
    for other in sorted(tried_first, key=try_order):
        seats = _seats_tried_by_scheduler(other, facts.possible_successors)
        if seats and fits_some_seat(other, seats):
            return other.metadata.name
    return None


def _seats_tried_by_scheduler(reservation: Reservation, successors: Sequence[Pod]) -> list[Placement]:
    """The free seats that the scheduler would try for one of the possible successors. With matchPolicy Fits it tries
    even seats that are too small, because the node may have more room beside them."""
    free = free_seats(reservation)
    if reservation.spec.match_policy == MatchPolicy.FITS:
        return free
    return seats_of_suitable_tasks(free, lambda seat: seat_suits_any(reservation, seat, successors))
