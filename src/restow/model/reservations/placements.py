"""Which seats there are: those that the status of each reservation places, and those that were decided ahead of it.

Goes in: reservations as the API shows them, and placements that are assumed before the status shows them, as pods are.
Comes out: every seat with the shape of its reserved pod, the seats that the status records as consumed by a pod, and
the reservations made to migrate a pod. Every change returns the names of the seats that it concerns; what follows for
them, `seat_states` decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from restow.model.cluster.pod_classes import PodClasses
from restow.model.cluster.pod_shapes import Shape
from restow.model.cluster.seen_versions import SeenVersions, version_number
from restow.model.cluster.undo_log import UndoLog
from restow.model.object_key import Key, key_of
from restow.model.objects import Placement, Reservation
from restow.model.quantity import QuantityError
from restow.model.reservations.observed_spec import is_ended
from restow.model.reservations.owner_index import try_order
from restow.model.reservations.reservation_annotations import migrating_pod
from restow.model.reservations.seat import Seat, seats_of
from restow.model.reservations.seat_name import SeatName
from restow.model.reservations.spec import seats_per_task


class Placements:
    def __init__(self, log: UndoLog, classes: PodClasses) -> None:
        self._log = log
        self._classes = classes
        self._versions = SeenVersions(log)
        self._known: dict[Key, Reservation] = {}
        self._assumed: dict[Key, dict[SeatName, Placement]] = {}
        """Placements that were decided and that the status does not show yet."""
        self._assumed_at: dict[Key, float] = {}
        """When the oldest of them was decided."""
        self._seats: dict[SeatName, Seat] = {}
        self.known: Mapping[Key, Reservation] = self._known
        self.seats: Mapping[SeatName, Seat] = self._seats
        self.of: dict[Key, dict[SeatName, None]] = {}
        """The names of the seats of each reservation."""
        self.shapes: dict[SeatName, Shape] = {}
        self.recorded: dict[str, frozenset[SeatName]] = {}
        """The seats that reservations record as consumed by a pod: by its UID, or lacking that its name."""
        self.migrating: dict[str, frozenset[Key]] = {}
        """The reservations that were made to migrate a pod, by its UID."""

    # --- reading ------------------------------------------------------------------------------------------------------

    def is_assumed(self, name: SeatName) -> bool:
        """Whether a seat was decided here and no status shows it yet."""
        return name in self._assumed.get((name.namespace, name.reservation), ())

    def assumed(self, now: float) -> Iterator[tuple[Reservation, float]]:
        """The reservations with assumed placements that no status shows yet, oldest first, each with their age."""
        for at, key in sorted((at, key) for key, at in self._assumed_at.items()):
            yield self._known[key], now - at

    def made_to_migrate(self, uid: str) -> list[Reservation]:
        """The reservations that were made to migrate a pod, by namespace and name."""
        return [self._known[key] for key in sorted(self.migrating.get(uid, ()))]

    def is_late(self, reservation: Reservation) -> bool:
        """Whether a newer version of a reservation, or of one of the same name, or its deletion, was seen before."""
        return self._versions.is_late(*_version(reservation))

    # --- changing; each returns the seats that are concerned ----------------------------------------------------------

    def show(self, reservation: Reservation) -> Iterable[SeatName]:
        """An event shows a reservation."""
        if not self._is_news(reservation, gone=False):
            return ()
        key = key_of(reservation)
        old = self._known.get(key)
        self._set_migrating(key, old, reservation)
        self._log.put(self._known, key, reservation)
        assumed = self._assumed.get(key)
        if assumed is not None:  # shown by now, or never to be
            self._set_assumed(key, {} if is_ended(reservation) else _still_in_spec(reservation, assumed))
        is_same = old is not None and assumed is None and _asks_the_same(old, reservation)
        return self._replace_seats(key, like=old if is_same else None)

    def hide(self, reservation: Reservation) -> Iterable[SeatName]:
        """An event says that a reservation was deleted."""
        if not self._is_news(reservation, gone=True):
            return ()
        key = key_of(reservation)
        self._set_migrating(key, self._known.get(key), None)
        self._log.drop(self._known, key)
        self._set_assumed(key, {})
        return self._replace_seats(key)

    def assume(self, key: Key, placements: Iterable[Placement], at: float) -> Iterable[SeatName]:
        """Add placements before the status shows them. Raises LookupError if there is no such reservation."""
        if key not in self._known:
            raise LookupError(f"reservation {'/'.join(key)} is not known")
        more = {SeatName.of(key, placement): placement for placement in placements}
        if not more:
            return ()
        if key not in self._assumed:
            self._log.put(self._assumed, key, {})
            self._log.put(self._assumed_at, key, at)
        if any(name in self._seats for name in more):  # shown by a status that overtook the decision
            self._set_assumed(key, _not_shown(self._known[key], {**self._assumed[key], **more}))
            return self._replace_seats(key)
        for name, placement in more.items():
            self._log.put(self._assumed[key], name, placement)
        return self._add_seats(key, more.values())

    def forget(self, key: Key) -> Iterable[SeatName] | None:
        """Take assumed placements back; None if there are none (any more)."""
        if key not in self._assumed:
            return None
        self._set_assumed(key, {})
        return self._replace_seats(key)

    # ------------------------------------------------------------------------------------------------------------------

    def _replace_seats(self, key: Key, like: Reservation | None = None) -> Iterable[SeatName]:
        """Replace the seats of a reservation by those that its status shows and those assumed beyond it.

        `like` is an earlier version with an equal spec: its seats are used again, and those that stay the same are not
        returned. A reservation of thousands of seats is written once per pod that consumes one, so this is the usual
        case, and must not cost every seat.
        """
        old = {name: self._seats[name] for name in self.of.get(key, ())}
        seats = {seat.name: self._carried_over(seat) for seat in self._placed(key, old if like is not None else {})}
        changed = [name for name in {**old, **seats} if seats.get(name) is not old.get(name)]
        for name in changed:
            self._set_seat(name, seats.get(name))
        if seats.keys() != old.keys():
            self._log.put(self.of, key, dict.fromkeys(seats))
        if not seats:
            self._log.drop(self.of, key)
        is_decided_alike = like is not None and _decision(like) == _decision(self._known[key])
        return changed if is_decided_alike else {**old, **seats}

    def _add_seats(self, key: Key, placements: Iterable[Placement]) -> Iterable[SeatName]:
        """`_replace_seats` where all placements are new: the seats that stay cost nothing, however many they are."""
        seats = [seat for seat in seats_of(self._known[key], placements) if self._read_shape(seat)]
        if seats and key not in self.of:
            self._log.put(self.of, key, {})
        for seat in seats:
            self._log.put(self.of[key], seat.name, None)
            self._set_seat(seat.name, seat)
        return [seat.name for seat in seats]

    def _set_assumed(self, key: Key, assumed: dict[SeatName, Placement]) -> None:
        """Replace the assumed placements of a reservation; their age stays."""
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
                if seat.name in known or self._read_shape(seat):
                    yield seat

    def _read_shape(self, seat: Seat) -> bool:
        """Work out the shape of the reserved pod; False if it has none, and then there is no such seat.

        The API server does not validate quantities inside a template: an unreadable or negative request holds nothing.
        """
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
        """The seat with the version that first named its consumer: later versions say nothing new about that. A seat
        of which nothing else changed, either, stays the same object."""
        old = self._seats.get(seat.name)
        if old is None:
            return seat
        if (old.reservation_uid, old.recorded_consumer) != (seat.reservation_uid, seat.recorded_consumer):
            return seat
        is_same = old.reserved_pod is seat.reserved_pod and old.node == seat.node and old.is_open == seat.is_open
        return old if is_same else replace(seat, version=old.version)

    def _set_seat(self, name: SeatName, seat: Seat | None) -> None:
        old = self._seats.get(name)
        if old and old.recorded_consumer is not None:
            others = self.recorded[old.recorded_consumer] - {name}
            if others:
                self._log.put(self.recorded, old.recorded_consumer, others)
            else:
                self._log.drop(self.recorded, old.recorded_consumer)
        if seat is None:
            self._log.drop(self._seats, name)
            self._log.drop(self.shapes, name)
            return
        self._log.put(self._seats, name, seat)
        uid = seat.recorded_consumer
        if uid is not None:
            self._log.put(self.recorded, uid, self.recorded.get(uid, frozenset()) | {name})

    def _set_migrating(self, key: Key, old: Reservation | None, new: Reservation | None) -> None:
        """Keep the table of the pods that reservations were made to migrate."""
        before = migrating_pod(old) if old is not None else None
        after = migrating_pod(new) if new is not None else None
        if before == after:
            return
        if before is not None:
            others = self.migrating[before] - {key}
            if others:
                self._log.put(self.migrating, before, others)
            else:
                self._log.drop(self.migrating, before)
        if after is not None:
            self._log.put(self.migrating, after, self.migrating.get(after, frozenset()) | {key})

    def _is_news(self, reservation: Reservation, *, gone: bool) -> bool:
        return self._versions.is_news(*_version(reservation), gone=gone)


def _version(reservation: Reservation) -> tuple[str, int | None]:
    return "/".join(key_of(reservation)), version_number(reservation.metadata.resource_version)


def _not_shown(reservation: Reservation, assumed: Mapping[SeatName, Placement]) -> dict[SeatName, Placement]:
    """The assumed placements that the status does not show."""
    key = key_of(reservation)
    shown = {SeatName.of(key, placement) for placement in reservation.status.placements or ()}
    return {name: placement for name, placement in assumed.items() if name not in shown}


def _still_in_spec(reservation: Reservation, assumed: Mapping[SeatName, Placement]) -> dict[SeatName, Placement]:
    """Those of them that the spec (still) has: no status would ever show the others, and no pass release them."""
    wanted, left = seats_per_task(reservation), _not_shown(reservation, assumed)
    return {name: placement for name, placement in left.items() if name.index < wanted.get(name.task, 0)}


def _decision(reservation: Reservation) -> tuple[str | None, int | None]:
    """What the status says of all seats: the phase, and which spec it was worked out from."""
    return reservation.status.state.phase, reservation.status.observed_generation


def _asks_the_same(old: Reservation, new: Reservation) -> bool:
    """Whether two versions differ in nothing that is read here but their placements and phase."""
    has_same_owners = old.status.observed_owners == new.status.observed_owners
    is_same_object = old.metadata.uid == new.metadata.uid and try_order(old) == try_order(new)
    return has_same_owners and is_same_object and old.spec == new.spec
