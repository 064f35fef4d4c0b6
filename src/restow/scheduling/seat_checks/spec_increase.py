"""Spec increase: the seats that a changed reservation may not have, because they exceed a limit.

Goes in: a reservation with an undecided change, what its status says it was granted, and the limits of its queue and
its namespace. Comes out: the open seats that exceed a limit, each with the limit. The last seats are given up first,
except those that would make no difference. What was granted before is not checked again: a limit that was lowered since
costs no seat. Of several reservations with undecided changes the older one comes first; newer ones count as they were.
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
from restow.model.resources import PODS, Vector, add_vectors, parse_amounts, subtract_vectors
from restow.model.snapshot import Snapshot
from restow.scheduling.pod_group_cache import PodGroupCache, requests_of
from restow.scheduling.queue_shares import NamespaceShare, QueueShares, credit_of_migrating_pod


class _Increase(msgspec.Struct, frozen=True):
    """An undecided change, in amounts."""

    namespace: str
    queue: str
    changes_queue: bool
    """Whether the change charges the reservation to another queue."""
    seats: list[Seat]
    """The open seats that it keeps, in order."""
    held: Vector
    """What its open seats hold now, also those that it does not keep."""
    granted: Vector
    """What the status says that they were granted."""
    more: Vector
    """What the seats that it keeps request beyond that."""

    @property
    def granted_by_queue(self) -> Vector:
        """What its present queue granted: nothing, if the change moves it there."""
        return {} if self.changes_queue else self.granted


def seats_beyond_limits(
    snapshot: Snapshot,
    pod_groups: PodGroupCache,
    reservation: Reservation,
    namespace_share: int,
    lost: Container[SeatName] = (),
) -> dict[SeatName, SeatFault]:
    """The open seats of a changed reservation that exceed a limit, besides those that are `lost` anyway."""
    increase = _increase_of(snapshot, reservation, lost)
    if increase is None:
        return {}
    newer = [
        newer_increase
        for other in _newer_changes(snapshot, reservation)
        if (newer_increase := _increase_of(snapshot, other)) is not None
    ]
    limits = _Limits(snapshot, pod_groups, reservation, increase, newer, namespace_share)
    why = limits.refusal(increase.more)
    return {name: SeatFault(FaultReason.LIMIT_EXCEEDED, why) for name in _excess(increase, limits)} if why else {}


def _excess(increase: _Increase, limits: _Limits) -> list[SeatName]:
    """The last seats, until the limits allow the rest; of those, only the ones that the limits do not allow beside
    the rest."""
    more, given_up = increase.more, list[Seat]()
    for seat in reversed(increase.seats):
        if limits.refusal(more) is None:
            break
        given_up.append(seat)
        more = subtract_vectors(more, requests_of(seat.reserved_pod))
    excess = list[SeatName]()
    for seat in reversed(given_up):
        with_seat = add_vectors(more, requests_of(seat.reserved_pod))
        if limits.refusal(with_seat) is None:  # it requests other resources, or little
            more = with_seat
        else:
            excess.append(seat.name)
    return excess


class _Limits:
    """What a reservation may have beyond what it was granted."""

    def __init__(
        self,
        snapshot: Snapshot,
        pod_groups: PodGroupCache,
        own: Reservation,
        increase: _Increase,
        newer: list[_Increase],
        namespace_share: int,
    ) -> None:
        self._increase = increase
        self._queues = QueueShares(pod_groups, snapshot)
        self._namespace = NamespaceShare(snapshot, increase.namespace, namespace_share)
        # The snapshot counts changed seats in their new size. Here they count as granted, also those of newer changes.
        self._queues.discharge(increase.queue, credit_of_migrating_pod(snapshot, pod_groups, own, increase.queue))
        for change in (increase, *newer):
            self._queues.discharge(change.queue, subtract_vectors(change.held, change.granted_by_queue))
            if change.namespace == increase.namespace:
                self._namespace.release(subtract_vectors(change.held, change.granted))

    def refusal(self, more: Vector) -> str | None:
        """Why the reservation may not have so much beyond what it was granted; None if it may."""
        of_queue = add_vectors(more, self._increase.granted) if self._increase.changes_queue else more
        why = self._namespace.why_exceeded(more)
        if why is None and any(amount > 0 for amount in of_queue.values()):
            why = self._queues.why_exceeded(self._increase.queue, of_queue)
        return why


def _increase_of(snapshot: Snapshot, reservation: Reservation, lost: Container[SeatName] = ()) -> _Increase | None:
    """The undecided change of a reservation; None without one, or if observedRequests are unreadable."""
    if is_ended(reservation) or not has_undecided_change(reservation):
        return None
    status, index, wanted = reservation.status, snapshot.reservations, seats_per_task(reservation)
    key, observed, granted = key_of(reservation), status.observed_requests or {}, dict[str, int]()
    shown = {SeatName.of(key, placement) for placement in status.placements or () if placement.pod_ref is None}
    try:
        for name in sorted(shown):
            if index.consumers.occupant_of(name) is None:  # else the pod in the seat, or on its way, is charged itself
                granted = add_vectors(granted, {**parse_amounts(observed.get(name.task)), PODS: 1})
    except QuantityError:
        return None
    held, kept_requests, kept = dict[str, int](), dict[str, int](), list[Seat]()
    for seat in index.seats(*key):
        name, requests = seat.name, requests_of(seat.reserved_pod)
        if name not in index.reserved_pods or name not in shown:
            continue
        held = add_vectors(held, requests)
        if name.index < wanted.get(name.task, 0) and name not in lost:
            kept.append(seat)
            kept_requests = add_vectors(kept_requests, requests)
    queue, queue_before = reservation.spec.queue or DEFAULT_QUEUE, status.observed_queue or DEFAULT_QUEUE
    return _Increase(
        key[0], queue, queue != queue_before, kept, held, granted, subtract_vectors(kept_requests, granted)
    )


def _newer_changes(snapshot: Snapshot, reservation: Reservation) -> list[Reservation]:
    """The reservations with undecided changes that are newer than this one."""
    index = snapshot.reservations
    known = (index.get(*key) for key in index.names())
    changed = (other for other in known if other is not None and has_undecided_change(other))
    return [other for other in changed if _age(other) > _age(reservation)]


def _age(reservation: Reservation) -> tuple[str, str, str]:
    meta = reservation.metadata
    return meta.creation_timestamp or "", meta.namespace or "", meta.name
