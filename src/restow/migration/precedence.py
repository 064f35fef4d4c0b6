"""Precedence: of which reservation a pod's successor takes a seat, where several are for it.

Goes in: the reservation that was given to a job, and all others. Comes out: one that the scheduler would look at first,
by its own order, and that has a seat for such a pod. Then the seat that was given would stay empty.
"""

from __future__ import annotations

from collections.abc import Iterable

from restow.migration.facts import Facts
from restow.migration.seats import free_seats, unlike, why_not_for_successor
from restow.model.cluster.directory import turn_of
from restow.model.objects import Reservation, ReservationPhase


def sooner(facts: Facts, others: Iterable[Reservation]) -> str | None:
    """The name of the reservation of which the successor takes a seat before it takes one of that which was given."""
    given, pod = facts.reservation, facts.mover
    assert given is not None and pod is not None, "asked only then"
    before = (
        one
        for one in others
        if one.metadata.namespace == given.metadata.namespace
        and turn_of(one) < turn_of(given)
        and _has_seat(one, facts)
        and not why_not_for_successor(one, pod, facts.owners, facts.terms.schedulers, facts.group)
    )
    first = min(before, key=turn_of, default=None)
    return first.metadata.name if first is not None else None


def _has_seat(reservation: Reservation, facts: Facts) -> bool:
    available = reservation.status.state.phase == ReservationPhase.AVAILABLE
    return available and any(not unlike(reservation, one, facts.likely) for one in free_seats(reservation))
