"""Facts before the eviction: the migrating pod exists and stays; then also the reservation for its successor exists.

Goes in: facts as they were read. Comes out: the same facts without the None of a missing pod or reservation, and the
questions that only have an answer then: what the successor may be like, and which seat is kept for it.
"""

from __future__ import annotations

from restow.migration.conditions import job_seconds_used
from restow.migration.facts import Facts, narrow_facts
from restow.migration.successor_seats import (
    count_unreliable_seats,
    is_node_newer,
    may_be_taken_first,
    seat_key,
    seats_on_current_node,
    usable_seats,
    why_node_unfit,
)
from restow.migration.successor_spec import possible_successors, successor_with_certain_labels
from restow.model.objects import Placement, Pod, Reservation

SEAT_OUTLIVES_POD_BY = 120.0
"""Seconds that a seat must outlive the pod's grace period by."""
LIFETIME_WITHOUT_TTL = 3600.0
"""Seconds that the reservation of a job without a time limit lives for, before it is extended."""


class FactsBeforeEviction(Facts, frozen=True, kw_only=True):
    """The migrating pod exists and is not terminating."""

    pod: Pod

    @classmethod
    def of(cls, facts: Facts) -> FactsBeforeEviction | None:
        """The facts about a pod that stays; None once it is terminating or gone."""
        return None if facts.has_left else narrow_facts(facts, FactsBeforeEviction, pod=facts.migrating_pod)

    def with_reservation(self, reservation: Reservation) -> SeatFacts:
        return narrow_facts(self, SeatFacts, reservation=reservation)

    @property
    def grace_period(self) -> float:
        """The seconds that the pod may take to stop."""
        return self.options.grace_period_of(self.pod)

    @property
    def reservation_lifetime(self) -> float:
        """The seconds that a reservation created now should live: as long as the job may take, and the pod to stop."""
        limit = self.options.ttl
        left = limit - job_seconds_used(self.job, self.now) if limit > 0 else LIFETIME_WITHOUT_TTL
        return left + self.grace_period + SEAT_OUTLIVES_POD_BY

    @property
    def possible_successors(self) -> tuple[Pod, ...]:
        """What the successor may be like; the first is the pod itself, the last what its controller creates now."""
        return possible_successors(self.pod, self.successor_template)

    @property
    def certain_successor(self) -> Pod:
        """The successor, with only those labels that it certainly has."""
        return successor_with_certain_labels(self.pod, self.successor_template)


class SeatFacts(FactsBeforeEviction, frozen=True, kw_only=True):
    """The migrating pod stays, and the reservation for its successor exists."""

    reservation: Reservation

    @property
    def usable_seats(self) -> list[Placement]:
        """The free seats that suit the successor and are not on the pod's own node; their nodes may be unfit."""
        return usable_seats(self.reservation, self.possible_successors)

    @property
    def seats_on_fit_nodes(self) -> list[Placement]:
        """The usable seats on nodes that are fit, or were not read."""
        usable, pod = self.usable_seats, self.possible_successors[-1]
        fit = {name for name in {seat.node_name for seat in usable} if self._why_unfit(name, pod) is None}
        return [seat for seat in usable if seat.node_name in fit]

    @property
    def seats_open_to_successor(self) -> list[Placement]:
        """The seats on fit nodes that the filters would give to the successor now, as far as they were asked."""
        return [seat for seat in self.seats_on_fit_nodes if seat_key(seat) not in self.rejected_seats]

    @property
    def seat(self) -> Placement | None:
        """The seat that is kept for the successor: the first one after those for the jobs ahead.

        Of the seats that cannot be relied on yet the reservation's status only says how many they are, not which. So
        that many open seats are left out, less the usable seats that are closed anyway and may be among them.
        """
        usable, seats, place = self.usable_seats, self.seats_open_to_successor, len(self.jobs_ahead)
        unreliable = max(count_unreliable_seats(self.reservation, usable) - (len(usable) - len(seats)), 0)
        return seats[place] if len(seats) - unreliable > place else None

    def seat_on_current_node(self, seat: Placement) -> Placement | None:
        """A seat on the pod's own node that its successor may be given before the one that is kept for it."""
        seats = seats_on_current_node(self.reservation, self.possible_successors)
        here = (other for other in seats if seat_key(other) not in self.rejected_seats)
        return next((other for other in here if may_be_taken_first(self.reservation, other, seat)), None)

    def why_unfit(self, node: str) -> str | None:
        """Why a seat on a node is of no use; None if it is of use, or if the node was not read."""
        return self._why_unfit(node, self.possible_successors[-1])

    def _why_unfit(self, name: str, pod: Pod) -> str | None:
        if name not in self.nodes:
            return None
        node = self.nodes[name]
        if node is None:
            return f"node {name} is gone"
        # Only of our own single seat is it known since when it is kept: seats of a user's reservation may have been
        # placed one after the other, and the status has only one time.
        if self.owns_reservation and is_node_newer(node, self.reservation):
            return f"node {name} is another one, made after the seat was kept"
        return why_node_unfit(node, pod)
