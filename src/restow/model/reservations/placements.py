"""Placements: which seats there are.

Goes in: reservations as the API shows them, and placements that were decided before their status shows them, as pods
are assumed. Comes out: every seat with the room that it asks for, and which pods are said to have consumed which; and
of every change the seats that it concerns, for whoever knows what follows from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from restow.model.cluster.classes import Classes
from restow.model.reservations.owner_index import turn_of
from restow.model.object_key import Key, key_of
from restow.model.reservations.seat import Seat, seats_of
from restow.model.cluster.shapes import Shape
from restow.model.cluster.undo import UndoLog
from restow.model.cluster.versions import Versions, version_number
from restow.model.objects import Placement, Reservation
from restow.model.quantity import QuantityError
from restow.model.reservations.reservation_annotations import migrating_pod
from restow.model.reservations.observed import is_ended
from restow.model.reservations.seat_name import SeatName
from restow.model.reservations.spec import seats_per_task


class Placements:
    def __init__(self, log: UndoLog, classes: Classes) -> None:
        self._log = log
        self._classes = classes
        self._versions = Versions(log)
        self._known: dict[Key, Reservation] = {}
        self._assumed: dict[Key, dict[SeatName, Placement]] = {}
        """What was decided and is not shown yet."""
        self._assumed_at: dict[Key, float] = {}
        """Since when."""
        self._seats: dict[SeatName, Seat] = {}
        self.known: Mapping[Key, Reservation] = self._known
        self.seats: Mapping[SeatName, Seat] = self._seats
        self.of: dict[Key, dict[SeatName, None]] = {}
        """The seats of each reservation."""
        self.shapes: dict[SeatName, Shape] = {}
        self.consumed: dict[str, frozenset[SeatName]] = {}
        """The seats that a pod has consumed, according to the reservations: by its UID, or lacking that its name."""
        self.movers: dict[str, frozenset[Key]] = {}
        """The reservations that were made to move a pod, by its UID."""

    # --- reading ------------------------------------------------------------------------------------------------------

    def is_assumed(self, name: SeatName) -> bool:
        """Whether nobody but us knows of a seat."""
        return name in self._assumed.get((name.namespace, name.reservation), ())

    def assumed(self, now: float) -> Iterator[tuple[Reservation, float]]:
        """Reservations whose assumed placements the API has not shown yet, and for how long, oldest first."""
        for at, key in sorted((at, key) for key, at in self._assumed_at.items()):
            yield self._known[key], now - at

    def is_late(self, reservation: Reservation) -> bool:
        """Whether something newer was seen of a reservation, or of one of its name, or its end."""
        return self._versions.is_late(*_version(reservation))

    # --- changing; each returns the seats that are concerned ----------------------------------------------------------

    def show(self, reservation: Reservation) -> Iterable[SeatName]:
        """An event shows a reservation."""
        if not self._is_news(reservation, gone=False):
            return ()
        key = key_of(reservation)
        old = self._known.get(key)
        self._note_mover(key, old, reservation)
        self._log.put(self._known, key, reservation)
        assumed = self._assumed.get(key)
        if assumed is not None:
            self._set_assumed(key, {} if is_ended(reservation) else _still_wanted(reservation, assumed))
        same = old is not None and assumed is None and _asks_the_same(old, reservation)
        return self._reseat(key, like=old if same else None)

    def hide(self, reservation: Reservation) -> Iterable[SeatName]:
        """An event says a reservation was deleted."""
        if not self._is_news(reservation, gone=True):
            return ()
        key = key_of(reservation)
        self._note_mover(key, self._known.get(key), None)
        self._log.drop(self._known, key)
        self._set_assumed(key, {})
        return self._reseat(key)

    def assume(self, key: Key, placements: Iterable[Placement], at: float) -> Iterable[SeatName]:
        """Hold more placements before the status shows them. Raises LookupError if there is no such reservation."""
        if key not in self._known:
            raise LookupError(f"reservation {'/'.join(key)} is not known")
        more = {SeatName.of(key, one): one for one in placements}
        if not more:
            return ()
        if key not in self._assumed:
            self._log.put(self._assumed, key, {})
            self._log.put(self._assumed_at, key, at)
        if any(name in self._seats for name in more):
            self._set_assumed(key, _not_shown(self._known[key], {**self._assumed[key], **more}))
            return self._reseat(key)
        for name, one in more.items():
            self._log.put(self._assumed[key], name, one)
        return self._seat(key, more.values())

    def forget(self, key: Key) -> Iterable[SeatName] | None:
        """Take assumed placements back; None if there are none (any more)."""
        if key not in self._assumed:
            return None
        self._set_assumed(key, {})
        return self._reseat(key)

    # ------------------------------------------------------------------------------------------------------------------

    def _reseat(self, key: Key, like: Reservation | None = None) -> Iterable[SeatName]:
        """Replace the seats of a reservation by what its status shows and what we assumed beyond it. `like` is an
        earlier view of it that asked for the same: what was read then is kept, and seats that stay are passed over."""
        old = {name: self._seats[name] for name in self.of.get(key, ())}
        seats = {seat.name: self._carried_over(seat) for seat in self._placed(key, old if like is not None else {})}
        changed = [name for name in {**old, **seats} if seats.get(name) is not old.get(name)]
        for name in changed:
            self._set_seat(name, seats.get(name))
        if seats.keys() != old.keys():
            self._log.put(self.of, key, dict.fromkeys(seats))
        if not seats:
            self._log.drop(self.of, key)
        alike = like is not None and _decided(like) == _decided(self._known[key])
        return changed if alike else {**old, **seats}

    def _seat(self, key: Key, placements: Iterable[Placement]) -> Iterable[SeatName]:
        """`_reseat` where there are only new seats: those that stay cost nothing, however many they are."""
        seats = [seat for seat in seats_of(self._known[key], placements) if self._read(seat)]
        if seats and key not in self.of:
            self._log.put(self.of, key, {})
        for seat in seats:
            self._log.put(self.of[key], seat.name, None)
            self._set_seat(seat.name, seat)
        return [seat.name for seat in seats]

    def _set_assumed(self, key: Key, assumed: dict[SeatName, Placement]) -> None:
        """Replace what is assumed of a reservation; it is since the same time."""
        if assumed:
            self._log.put(self._assumed, key, assumed)
        else:
            self._log.drop(self._assumed, key)
            self._log.drop(self._assumed_at, key)

    def _placed(self, key: Key, known: Mapping[SeatName, Seat]) -> Iterator[Seat]:
        reservation, assumed = self._known.get(key), self._assumed.get(key)
        if reservation is not None:
            placements = (*(reservation.status.placements or ()), *(assumed.values() if assumed else ()))
            for seat in seats_of(reservation, placements, known):
                if seat.name in known or self._read(seat):
                    yield seat

    def _read(self, seat: Seat) -> bool:
        """Work out the shape of a seat; False if it has none. The API server does not check quantities inside a
        template: what nobody can read, or is less than nothing, holds nothing."""
        try:
            shape = self._classes.shapes.of(seat.reserved_pod)
        except QuantityError:
            return False
        if any(amount <= 0 for _, amount in shape.amounts):
            return False
        self._log.put(self.shapes, seat.name, shape)
        self._classes.note(shape, seat.name.namespace)
        return True

    def _carried_over(self, seat: Seat) -> Seat:
        """Later versions of the reservation say nothing new about when a consumer was named. A seat of which nothing
        else is new, either, stays the very same."""
        old = self._seats.get(seat.name)
        if old is None or (old.reservation_uid, old.recorded_consumer) != (seat.reservation_uid, seat.recorded_consumer):
            return seat
        same = old.reserved_pod is seat.reserved_pod and old.node == seat.node and old.is_open == seat.is_open
        return old if same else replace(seat, version=old.version)

    def _set_seat(self, name: SeatName, seat: Seat | None) -> None:
        old = self._seats.get(name)
        if old and old.recorded_consumer is not None:
            left = self.consumed[old.recorded_consumer] - {name}
            if left:
                self._log.put(self.consumed, old.recorded_consumer, left)
            else:
                self._log.drop(self.consumed, old.recorded_consumer)
        if seat is None:
            self._log.drop(self._seats, name)
            self._log.drop(self.shapes, name)
            return
        self._log.put(self._seats, name, seat)
        if seat.recorded_consumer is not None:
            self._log.put(self.consumed, seat.recorded_consumer, self.consumed.get(seat.recorded_consumer, frozenset()) | {name})

    def _note_mover(self, key: Key, old: Reservation | None, new: Reservation | None) -> None:
        left = migrating_pod(old) if old is not None else None
        now = migrating_pod(new) if new is not None else None
        if left == now:
            return
        if left is not None:
            others = self.movers[left] - {key}
            if others:
                self._log.put(self.movers, left, others)
            else:
                self._log.drop(self.movers, left)
        if now is not None:
            self._log.put(self.movers, now, self.movers.get(now, frozenset()) | {key})

    def _is_news(self, reservation: Reservation, *, gone: bool) -> bool:
        return self._versions.is_news(*_version(reservation), gone=gone)


def _version(reservation: Reservation) -> tuple[str, int | None]:
    return "/".join(key_of(reservation)), version_number(reservation.metadata.resource_version)


def _not_shown(reservation: Reservation, assumed: Mapping[SeatName, Placement]) -> dict[SeatName, Placement]:
    """The placements that the status does not show."""
    key = key_of(reservation)
    shown = {SeatName.of(key, one) for one in reservation.status.placements or ()}
    return {name: one for name, one in assumed.items() if name not in shown}


def _still_wanted(reservation: Reservation, assumed: Mapping[SeatName, Placement]) -> dict[SeatName, Placement]:
    """Those of them that the spec (still) has: nobody would write the others down, or give them back."""
    wants, left = seats_per_task(reservation), _not_shown(reservation, assumed)
    return {name: one for name, one in left.items() if name.index < wants.get(name.task, 0)}


def _decided(reservation: Reservation) -> tuple[str | None, int | None]:
    """What is said of all of its seats: the phase, and which spec it was worked out from."""
    return reservation.status.state.phase, reservation.status.observed_generation


def _asks_the_same(old: Reservation, new: Reservation) -> bool:
    """Whether nothing of all that is read here changed, apart from placements and the phase."""
    written = old.status.observed_owners == new.status.observed_owners
    return written and old.metadata.uid == new.metadata.uid and old.spec == new.spec and turn_of(old) == turn_of(new)
