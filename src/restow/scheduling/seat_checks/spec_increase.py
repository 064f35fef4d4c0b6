"""Growing: what a reservation that is changed may not have.

Goes in: a reservation whose spec is not the one that was decided about, what its status says it was given, and what its
queue and its namespace have. Comes out: the open seats without which it asks for no more than those may have, each with
the limit; the last ones go, except those that would make no difference. What it was given is not asked for again: a
limit that was lowered since costs no seat. Of several that are changed at once the older one comes first; those behind
it count as they were.
"""

from __future__ import annotations

from collections.abc import Container

import msgspec

from restow.model.object_key import key_of
from restow.model.objects import Reservation
from restow.model.quantity import QuantityError
from restow.model.queues import DEFAULT_QUEUE
from restow.model.reservations.observed_spec import has_undecided_change, is_ended
from restow.model.reservations.seat import Seat
from restow.model.reservations.seat_fault import FaultReason, SeatFault
from restow.model.reservations.seat_name import SeatName
from restow.model.reservations.spec import seats_per_task
from restow.model.resources import PODS, Vector, add, amounts, subtract
from restow.model.snapshot import Snapshot
from restow.scheduling.pod_group_cache import PodGroupCache, requests_of
from restow.scheduling.queue_shares import NamespaceShare, QueueShares, credit_of_migrating_pod


class _Growth(msgspec.Struct, frozen=True):
    """A change, in amounts."""

    namespace: str
    queue: str
    moves: bool
    """Whether it was charged to another queue."""
    seats: list[Seat]
    """Those that it keeps, in order."""
    held: Vector
    """What is held for it now, also in seats that it does not keep."""
    before: Vector
    """What it was given."""
    more: Vector
    """What it asks for beyond that."""

    @property
    def given_by_queue(self) -> Vector:
        return {} if self.moves else self.before


def seats_beyond_limits(
    snapshot: Snapshot, roster: PodGroupCache, reservation: Reservation, namespace_share: int, lost: Container[SeatName] = ()
) -> dict[SeatName, SeatFault]:
    """The seats that a reservation may not have any more, because of what it was changed to; besides those that are
    gone anyway."""
    growth = _growth(snapshot, reservation, lost)
    if growth is None:
        return {}
    behind = [one for other in _behind(snapshot, reservation) if (one := _growth(snapshot, other)) is not None]
    limits = _Limits(snapshot, roster, reservation, growth, behind, namespace_share)
    why = limits.refusal(growth.more)
    return {name: SeatFault(FaultReason.LIMIT_EXCEEDED, why) for name in _in_the_way(growth, limits)} if why else {}


def _in_the_way(growth: _Growth, limits: _Limits) -> list[SeatName]:
    """The last seats, until the rest may be had; of those, only the ones that could not be had beside the rest."""
    more, given_up = growth.more, list[Seat]()
    for seat in reversed(growth.seats):
        if limits.refusal(more) is None:
            break
        given_up.append(seat)
        more = subtract(more, requests_of(seat.reserved_pod))
    lost = list[SeatName]()
    for seat in reversed(given_up):
        with_it = add(more, requests_of(seat.reserved_pod))
        if limits.refusal(with_it) is None:  # it asks for something else, or for little
            more = with_it
        else:
            lost.append(seat.name)
    return lost


class _Limits:
    """What there is beside what was given."""

    def __init__(
        self,
        snapshot: Snapshot,
        roster: PodGroupCache,
        own: Reservation,
        growth: _Growth,
        behind: list[_Growth],
        namespace_share: int,
    ) -> None:
        self._growth = growth
        self._shares = QueueShares(roster, snapshot)
        self._share = NamespaceShare(snapshot, growth.namespace, namespace_share)
        self._shares.discharge(growth.queue, credit_of_migrating_pod(snapshot, roster, own, growth.queue))
        for one in (growth, *behind):
            self._shares.discharge(one.queue, subtract(one.held, one.given_by_queue))
            if one.namespace == growth.namespace:
                self._share.release(subtract(one.held, one.before))

    def refusal(self, more: Vector) -> str | None:
        """Why a reservation may not have so much beyond what it was given."""
        of_queue = add(more, self._growth.before) if self._growth.moves else more
        why = self._share.why_exceeded(more)
        if why is None and any(amount > 0 for amount in of_queue.values()):
            why = self._shares.why_exceeded(self._growth.queue, of_queue)
        return why


def _growth(snapshot: Snapshot, reservation: Reservation, gone: Container[SeatName] = ()) -> _Growth | None:
    """How a reservation was changed; None if it was not, or if nobody can tell, which makes it invalid."""
    if is_ended(reservation) or not has_undecided_change(reservation):
        return None
    status, book, wants = reservation.status, snapshot.reservations, seats_per_task(reservation)
    key, given, before = key_of(reservation), status.observed_requests or {}, dict[str, int]()
    shown = {SeatName.of(key, one) for one in status.placements or () if one.pod_ref is None}
    try:
        for name in sorted(shown):
            if book.consumers.occupant_of(name) is None:  # else a pod has it, or is on its way there, and counts itself
                before = add(before, {**amounts(given.get(name.task)), PODS: 1})
    except QuantityError:
        return None
    held, now, kept = dict[str, int](), dict[str, int](), list[Seat]()
    for seat in book.seats(*key):
        name, asked = seat.name, requests_of(seat.reserved_pod)
        if name not in book.reserved_pods or name not in shown:
            continue
        held = add(held, asked)
        if name.index < wants.get(name.task, 0) and name not in gone:
            kept.append(seat)
            now = add(now, asked)
    queue, was = reservation.spec.queue or DEFAULT_QUEUE, status.observed_queue or DEFAULT_QUEUE
    return _Growth(key[0], queue, queue != was, kept, held, before, subtract(now, before))


def _behind(snapshot: Snapshot, reservation: Reservation) -> list[Reservation]:
    """The changed ones that are newer."""
    book = snapshot.reservations
    known = (book.get(*key) for key in book.names())
    changed = (one for one in known if one is not None and has_undecided_change(one))
    return [one for one in changed if _age(one) > _age(reservation)]


def _age(reservation: Reservation) -> tuple[str, str, str]:
    meta = reservation.metadata
    return meta.creation_timestamp or "", meta.namespace or "", meta.name
