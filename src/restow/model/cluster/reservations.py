"""Reservations: which of their seats hold room now.

    open seat                        holds, unless a pod that may take it is there already
    consumed, its pod not yet seen   holds: the pod is on the node, only our view of pods is behind
    consumed, its pod seen or over   holds nothing, for good
    open seat of an ended one        holds nothing

A pod is believed to take an open seat when we assumed it there, or when it is bound on the seat's node, its annotation
names the seat, and the reservation's owners match it. So a seat and the pod in it never count twice, and nobody frees a
seat by writing an annotation. Binding comes before marking, so a consumer that is not here although pods were seen up
to the version in which the reservation first named it is over.

Placements may be assumed before the reservation's status shows them, as pods are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from restow.model.cluster.occupancy import Occupancy, Occupant
from restow.model.cluster.owners import Kinship, may_consume
from restow.model.cluster.pods import Pods
from restow.model.cluster.seat import Seat, SeatName, is_ended, seats_of
from restow.model.cluster.shapes import Shapes
from restow.model.cluster.undo import UndoLog
from restow.model.cluster.versions import Versions, version_number
from restow.model.objects import Placement, Reservation
from restow.model.quantity import QuantityError

Key = tuple[str, str]
K = TypeVar("K")
M = TypeVar("M")


class AssumedPlacements(msgspec.Struct, frozen=True):
    """Placements that were decided and not yet shown in a reservation's status."""

    placements: tuple[Placement, ...]
    at: float


class Reservations:
    """The reservations of the cluster and the seats they hold."""

    def __init__(self, log: UndoLog, occupancy: Occupancy, shapes: Shapes, pods: Pods, kinship: Kinship) -> None:
        self._log = log
        self._occupancy = occupancy
        self._shapes = shapes
        self._pods = pods
        self._kinship = kinship
        self._versions = Versions(log)
        self._known: dict[Key, Reservation] = {}
        self._assumed: dict[Key, AssumedPlacements] = {}
        self._seats: dict[SeatName, Seat] = {}
        self._seats_of: dict[Key, tuple[SeatName, ...]] = {}
        self._held: dict[SeatName, Occupant] = {}
        self._claims: dict[SeatName, frozenset[str]] = {}
        self._consumed: dict[str, frozenset[SeatName]] = {}
        self._unseen: dict[SeatName, None] = {}

    # --- reading ------------------------------------------------------------------------------------------------------

    def get(self, namespace: str, name: str) -> Reservation | None:
        return self._known.get((namespace, name))

    def names(self) -> list[Key]:
        """(namespace, name) of every reservation, sorted."""
        return sorted(self._known)

    def seat(self, name: SeatName) -> Seat | None:
        return self._seats.get(name)

    def seats(self, namespace: str, name: str) -> list[Seat]:
        """The seats of a reservation, by task and index."""
        return [self._seats[seat] for seat in self._seats_of.get((namespace, name), ())]

    def holds(self, name: SeatName) -> bool:
        """Whether a seat takes room on its node now."""
        return name in self._held

    def held(self) -> list[SeatName]:
        """Every seat that takes room now, sorted."""
        return sorted(self._held)

    def assumed(self, now: float) -> Iterator[tuple[Reservation, float]]:
        """Reservations whose assumed placements the API has not shown yet, and for how long, oldest first."""
        for key, assumed in sorted(self._assumed.items(), key=lambda item: (item[1].at, item[0])):
            yield self._known[key], now - assumed.at

    # --- what happens to reservations ---------------------------------------------------------------------------------

    def apply(self, reservation: Reservation) -> None:
        """An event shows a reservation."""
        if not self._is_news(reservation, gone=False):
            return
        key = _key(reservation)
        self._log.put(self._known, key, reservation)
        assumed = self._assumed.get(key)
        if assumed is not None:
            left = () if is_ended(reservation) else _not_shown(reservation, assumed.placements)
            self._set_assumed(key, AssumedPlacements(left, assumed.at))
        self._reseat(key)

    def remove(self, reservation: Reservation) -> None:
        """An event says a reservation was deleted."""
        if self._is_news(reservation, gone=True):
            self._log.drop(self._known, _key(reservation))
            self._log.drop(self._assumed, _key(reservation))
            self._reseat(_key(reservation))

    def assume(self, namespace: str, name: str, placements: Iterable[Placement], at: float) -> None:
        """Hold more placements before the status shows them. Raises LookupError if there is no such reservation."""
        key = (namespace, name)
        if key not in self._known:
            raise LookupError(f"reservation {namespace}/{name} is not known")
        old = self._assumed.get(key, AssumedPlacements((), at))
        placed = _not_shown(self._known[key], (*old.placements, *placements))
        self._set_assumed(key, AssumedPlacements(placed, old.at))
        self._reseat(key)

    def forget(self, namespace: str, name: str) -> bool:
        """Take assumed placements back; False if there are none (any more)."""
        if (namespace, name) not in self._assumed:
            return False
        self._log.drop(self._assumed, (namespace, name))
        self._reseat((namespace, name))
        return True

    # --- what happens around them -------------------------------------------------------------------------------------

    def pod_changed(self, uid: str, before: Occupant | None) -> None:
        """A pod came, changed or went: the seat it takes, or took, may have to be held or let go."""
        after = self._pods.known.get(uid)
        left, taken = before.seat if before else None, after.seat if after else None
        if left is None and taken is None and uid not in self._consumed:
            return
        if left and left != taken:
            self._set_members(self._claims, left, self._claims[left] - {uid})
        if taken and left != taken:
            self._set_members(self._claims, taken, self._claims.get(taken, frozenset()) | {uid})
        self._settle({seat for seat in (left, taken) if seat} | self._consumed.get(uid, frozenset()))

    def pods_seen(self) -> None:
        """Pods have been seen up to a newer version."""
        if self._unseen:
            self._settle(self._unseen)

    def kinship_changed(self) -> None:
        """Owners that did not match may match now, or the other way round."""
        claimed = self._seats.keys() & self._claims.keys()
        self._settle(name for name in claimed if self._seats[name].open)

    # --- deciding -----------------------------------------------------------------------------------------------------

    def _reseat(self, key: Key) -> None:
        """Replace the seats of a reservation by what its status shows and what we assumed beyond it."""
        old = self._seats_of.get(key, ())
        seats = {seat.name: self._carried_over(seat) for seat in self._placed(key)}
        for name in old:
            self._set_seat(name, seats.get(name))
        for name in seats.keys() - set(old):
            self._set_seat(name, seats[name])
        if seats:
            self._log.put(self._seats_of, key, tuple(sorted(seats)))
        else:
            self._log.drop(self._seats_of, key)
        self._settle({*old, *seats})

    def _set_assumed(self, key: Key, assumed: AssumedPlacements) -> None:
        if assumed.placements:
            self._log.put(self._assumed, key, assumed)
        else:
            self._log.drop(self._assumed, key)

    def _placed(self, key: Key) -> Iterator[Seat]:
        reservation, assumed = self._known.get(key), self._assumed.get(key)
        if reservation is not None:
            placements = (*(reservation.status.placements or ()), *(assumed.placements if assumed else ()))
            yield from filter(self._is_readable, seats_of(reservation, placements))

    def _is_readable(self, seat: Seat) -> bool:
        """The API server does not check quantities inside a template; what nobody can place holds nothing."""
        try:
            self._shapes.of(seat.stand_in)
        except QuantityError:
            return False
        return True

    def _carried_over(self, seat: Seat) -> Seat:
        """Later versions of the reservation say nothing new about when a consumer was named."""
        old = self._seats.get(seat.name)
        named_before = old is not None and old.consumer == seat.consumer
        return replace(seat, version=old.version) if old and named_before else seat

    def _set_seat(self, name: SeatName, seat: Seat | None) -> None:
        old = self._seats.get(name)
        if old and old.consumer is not None:
            self._set_members(self._consumed, old.consumer, self._consumed[old.consumer] - {name})
        if seat is None:
            self._log.drop(self._seats, name)
            return
        self._log.put(self._seats, name, seat)
        if seat.consumer is not None:
            self._set_members(self._consumed, seat.consumer, self._consumed.get(seat.consumer, frozenset()) | {name})

    def _settle(self, names: Iterable[SeatName]) -> None:
        """Make each of these seats hold room, or not, as the table above says."""
        for name in sorted(names):
            seat = self._seats.get(name)
            old = self._held.get(name)
            new = self._stand_in(seat) if seat and self._should_hold(seat) else None
            if new and seat and seat.consumer is not None:
                self._log.put(self._unseen, name, None)
            else:
                self._log.drop(self._unseen, name)
            if old and new:
                self._occupancy.replace(old, new)
            elif old:
                self._occupancy.remove(old)
            elif new:
                self._occupancy.add(new)
            if new:
                self._log.put(self._held, name, new)
            else:
                self._log.drop(self._held, name)

    def _should_hold(self, seat: Seat) -> bool:
        if seat.consumer is not None:
            return not self._pods.was_seen(seat.consumer, seat.version)
        takers = (self._pods.known[uid] for uid in self._claims.get(seat.name, ()))
        return seat.open and not any(self._may_take(seat, pod) for pod in takers)

    def _may_take(self, seat: Seat, occupant: Occupant) -> bool:
        if occupant.node != seat.node or occupant.pod.metadata.namespace != seat.name.namespace:
            return False
        return occupant.assumed_at is not None or may_consume(seat.owners, occupant.pod, self._kinship)

    def _stand_in(self, seat: Seat) -> Occupant:
        shape = self._shapes.of(seat.stand_in)
        return Occupant(key=str(seat.name), pod=seat.stand_in, node=seat.node, shape=shape, book="reserved")

    def _set_members(self, table: dict[K, frozenset[M]], key: K, members: frozenset[M]) -> None:
        if members:
            self._log.put(table, key, members)
        else:
            self._log.drop(table, key)

    def _is_news(self, reservation: Reservation, *, gone: bool) -> bool:
        key = "/".join(_key(reservation))
        return self._versions.is_news(key, version_number(reservation.metadata.resource_version), gone=gone)


def _key(reservation: Reservation) -> Key:
    return reservation.metadata.namespace or "", reservation.metadata.name


def _not_shown(reservation: Reservation, assumed: Iterable[Placement]) -> tuple[Placement, ...]:
    """The placements that the status does not show, each seat once, the latest."""
    shown = {(one.task, one.index) for one in reservation.status.placements or ()}
    seats = {(one.task, one.index): one for one in assumed}
    return tuple(one for seat, one in seats.items() if seat not in shown)
