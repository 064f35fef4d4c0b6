"""Precedence: of which reservation a pod's successor takes a seat, where several are for it.

Goes in: the reservation that was given to a job, all others, and whom their nodes would take. Comes out: one that the
scheduler would look at first, by its own order, and of which it would give the successor a seat. Then the seat that was
given would stay empty.
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

NodeTakesSuccessor = Callable[[Reservation, Sequence[Placement]], bool]
"""Whether the node of one of these seats would take the successor in it."""


def earlier_reservation(facts: SeatFacts, others: Iterable[Reservation], takes: NodeTakesSuccessor) -> str | None:
    """The name of the reservation of which the successor takes a seat before it takes one of that which was given."""
    given = facts.reservation
    before = (
        one
        for one in others
        if one.metadata.namespace == given.metadata.namespace
        and try_order(one) < try_order(given)
        and one.status.state.phase == ReservationPhase.AVAILABLE
        and not is_being_deleted(one)
        and any(
            not why_reservation_excludes_successor(
                one, like, facts.owner_chain, facts.options.scheduler_names, facts.successor_group
            )
            for like in (facts.pod, facts.certain_successor)
        )
    )
    for one in sorted(before, key=try_order):
        seats = _seats_tried_by_scheduler(one, facts.possible_successors)
        if seats and takes(one, seats):
            return one.metadata.name
    return None


def _seats_tried_by_scheduler(reservation: Reservation, likely: Sequence[Pod]) -> list[Placement]:
    """The free seats that the scheduler would try for the successor, whichever it is like: under policy Fits also those
    that are too small for it, because there may be room beside them."""
    free = free_seats(reservation)
    if reservation.spec.match_policy == MatchPolicy.FITS:
        return free
    return seats_of_suitable_tasks(free, lambda one: seat_suits_any(reservation, one, likely))
