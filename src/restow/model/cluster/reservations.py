"""Reservations: which of their seats hold room now.

    open seat                        holds, unless a pod that may take it is there already
    consumed, its pod not yet seen   holds: the pod is on the node, only our view of pods is behind
    consumed, its pod seen or over   holds nothing, for good
    open seat of an ended one        holds nothing

A pod is believed to take an open seat when we assumed it there, or when it is bound on the seat's node, its annotation
names the seat, and we gave it the seat or the reservation's owners match it. So a seat and the pod in it never count
twice, and nobody frees a seat by writing an annotation. Binding comes before marking, so a consumer that is not here
although pods were seen up to the version in which the reservation first named it is over.

Placements may be assumed before the reservation's status shows them, as pods are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from msgspec.structs import replace

from restow.model.cluster.classes import Classes
from restow.model.cluster.holdings import Holder, Holdings
from restow.model.cluster.listing import Amounts
from restow.model.cluster.occupancy import Occupancy, Occupant, claims_the_same
from restow.model.cluster.owners import Kinship
from restow.model.cluster.placements import AssumedPlacements, not_shown
from restow.model.cluster.pods import Pods
from restow.model.cluster.promises import Promises
from restow.model.cluster.seat import UNKNOWN_VERSION, Seat, SeatName, is_ended, is_in_life, seats_of
from restow.model.cluster.shapes import Shape
from restow.model.cluster.undo import UndoLog
from restow.model.cluster.vacancies import Vacancies, turn_of
from restow.model.cluster.versions import Versions, version_number
from restow.model.objects import Placement, Pod, Reservation, ReservationPhase
from restow.model.quantity import QuantityError

Key = tuple[str, str]
K = TypeVar("K")
M = TypeVar("M")


class Reservations:
    """The reservations of the cluster and the seats they hold."""

    def __init__(self, log: UndoLog, occupancy: Occupancy, classes: Classes, pods: Pods, kinship: Kinship) -> None:
        self._log = log
        self._occupancy = occupancy
        self._classes = classes
        self._pods = pods
        self._kinship = kinship
        self._versions = Versions(log)
        self._known: dict[Key, Reservation] = {}
        self._assumed: dict[Key, AssumedPlacements] = {}
        self._seats: dict[SeatName, Seat] = {}
        self._seats_of: dict[Key, tuple[SeatName, ...]] = {}
        self._shape_of: dict[SeatName, Shape] = {}
        self._held: dict[SeatName, Occupant] = {}
        self._claims: dict[SeatName, frozenset[str]] = {}
        self._consumed: dict[str, frozenset[SeatName]] = {}
        self._unseen: dict[SeatName, None] = {}
        self._vacated: dict[SeatName, None] = {}
        self._spent: dict[SeatName, None] = {}
        """Taken by pods that are over or gone, which is not written down yet."""
        self.promises = Promises(log)
        self._accounted: dict[SeatName, tuple[Holder, Amounts]] = {}
        self.vacancies = Vacancies(log)
        self.holdings = Holdings(log, classes.shapes.resources)

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
        return [self._seats[seat] for seat in sorted(self._seats_of.get((namespace, name), ()))]

    def holds(self, name: SeatName) -> bool:
        """Whether a seat takes room on its node now."""
        return name in self._held

    def held(self) -> list[SeatName]:
        """Every seat that takes room now, sorted."""
        return sorted(self._held)

    def candidates(self, pod: Pod) -> Iterator[tuple[Reservation, Seat]]:
        """Available reservations of a pod's owner, in the order in which it tries them, each with its first vacant
        seat."""
        namespace = pod.metadata.namespace or ""
        for name in self.vacancies.candidates(pod, self._kinship):
            seat = self._seats[self.vacancies.seats(namespace, name)[0]]
            if seat.owners.match(pod, self._kinship):
                yield self._known[namespace, name], seat

    def vacant(self, namespace: str, name: str) -> Iterator[Seat]:
        """The seats of a reservation that a pod may take now, by task and index."""
        return map(self._seats.__getitem__, self.vacancies.seats(namespace, name))

    def taker(self, name: SeatName) -> Occupant | None:
        """The pod that is believed to sit in a seat that is not marked as consumed yet."""
        seat = self._seats.get(name)
        if seat is None or not seat.open:
            return None
        for uid in sorted(self._claims.get(name, ())):
            if self._may_take(seat, self._pods.known[uid]):
                return self._pods.known[uid]
        return None

    def is_mover_gone(self, seat: Seat, uid: str) -> bool:
        """Whether the pod that a seat's reservation was made to move is leaving, or gone: not merely unknown, because
        our view of pods may be older than the reservation."""
        mover = self._pods.known.get(uid)
        if mover is not None:
            return mover.leaving
        return seat.version == UNKNOWN_VERSION or self._pods.was_seen(uid, seat.version)

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
        old = self._known.get(key)
        self._log.put(self._known, key, reservation)
        assumed = self._assumed.get(key)
        if assumed is not None:
            left = () if is_ended(reservation) else not_shown(reservation, assumed.placements)
            self._set_assumed(key, AssumedPlacements(left, assumed.at))
        same = old is not None and assumed is None and _asks_the_same(old, reservation)
        self._reseat(key, like=old if same else None)

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
        old, more = self._assumed.get(key, AssumedPlacements((), at)), tuple(placements)
        if any(SeatName(namespace, name, one.task, one.index) in self._seats for one in more):
            placed = not_shown(self._known[key], (*old.placements, *more))
            self._set_assumed(key, AssumedPlacements(placed, old.at))
            self._reseat(key)
        else:
            self._set_assumed(key, AssumedPlacements(old.placements + more, old.at))
            self._seat(key, more)

    def forget(self, namespace: str, name: str) -> bool:
        """Take assumed placements back; False if there are none (any more)."""
        if (namespace, name) not in self._assumed:
            return False
        self._log.drop(self._assumed, (namespace, name))
        self._reseat((namespace, name))
        return True

    def vacate(self, name: SeatName) -> None:
        """Let go what a seat holds, for the pod that is to take it; the inverse is `hold_again`."""
        held = self._held.get(name)
        if held is not None:
            self._release(name, held)
            self._log.put(self._vacated, name, None)

    def hold_again(self, name: SeatName) -> None:
        """Hold a seat that was vacated, unless somebody took it."""
        self._log.drop(self._vacated, name)
        self._settle_one(name)

    def spend(self, name: SeatName) -> None:
        """Whoever took this seat has left before that was written down: it is held until it is, for nobody."""
        if name in self._seats:
            self._log.put(self._spent, name, None)
            self.vacancies.close(name)

    # --- what happens around them -------------------------------------------------------------------------------------

    def pod_changed(self, uid: str, before: Occupant | None) -> None:
        """A pod came, changed or went: the seat it takes, or took, may have to be held or let go."""
        after = self._pods.known.get(uid)
        left, taken = before.seat if before else None, after.seat if after else None
        if left is None and taken is None and uid not in self._consumed:
            return
        self._promise(uid, before, after)
        if left == taken and before is not None and after is not None and claims_the_same(before, after):
            return
        if left and left != taken:
            self._set_members(self._claims, left, self._claims[left] - {uid})
        if taken and left != taken:
            self._set_members(self._claims, taken, self._claims.get(taken, frozenset()) | {uid})
        consumed = self._consumed.get(uid)
        if consumed is None and taken is not None and left in (None, taken):
            if taken in self._vacated and after is not None and after.assumed_at is not None:
                self._hand_over(taken, after)
            elif left is None or after is None or not self._still_sits(taken, after):
                self._settle_one(taken)
        else:
            self._settle({seat for seat in (left, taken) if seat} | (consumed or frozenset()))

    def _promise(self, uid: str, before: Occupant | None, after: Occupant | None) -> None:
        """Remember whose seat a pod is on its way to: another reservation may get the name meanwhile."""
        if after is not None and after.assumed_at is not None:
            if before is None and after.seat is not None and after.seat in self._seats:
                self.promises.give(uid, self._seats[after.seat].life)
        elif after is not None and before is not None and after.seat == before.seat and after.node == before.node:
            self.promises.arrive(uid)
        else:
            self.promises.end(uid)

    def pods_seen(self) -> None:
        """Pods have been seen up to a newer version."""
        if self._unseen:
            self._settle(self._unseen)

    def kinship_changed(self) -> None:
        """Owners that did not match may match now, or the other way round."""
        claimed = self._seats.keys() & self._claims.keys()
        self._settle(name for name in claimed if self._seats[name].open)

    # --- deciding -----------------------------------------------------------------------------------------------------

    def _reseat(self, key: Key, like: Reservation | None = None) -> None:
        """Replace the seats of a reservation by what its status shows and what we assumed beyond it. `like` is an
        earlier view of it that asked for the same: what was read then is kept, and seats that stay are passed over."""
        old = {name: self._seats[name] for name in self._seats_of.get(key, ())}
        seats = {seat.name: self._carried_over(seat) for seat in self._placed(key, old if like is not None else {})}
        if like is None:
            for name in old:
                self.vacancies.close(name)
        for name in {**old, **seats}:
            if seats.get(name) is not old.get(name):
                self._set_seat(name, seats.get(name))
        if seats.keys() != old.keys():
            self._log.put(self._seats_of, key, tuple(seats))
        if not seats:
            self._log.drop(self._seats_of, key)
        alike = like is not None and like.status.state.phase == self._known[key].status.state.phase
        self._settle(name for name in {**old, **seats} if not alike or seats.get(name) is not old.get(name))

    def _seat(self, key: Key, placements: Iterable[Placement]) -> None:
        """`_reseat` where there are only new seats: those that stay cost nothing, however many they are."""
        seats = [seat for seat in seats_of(self._known[key], placements) if self._read(seat)]
        if seats:
            self._log.put(self._seats_of, key, (*self._seats_of.get(key, ()), *(seat.name for seat in seats)))
        for seat in seats:
            self._set_seat(seat.name, seat)
            self._settle_one(seat.name)

    def _set_assumed(self, key: Key, assumed: AssumedPlacements) -> None:
        if assumed.placements:
            self._log.put(self._assumed, key, assumed)
        else:
            self._log.drop(self._assumed, key)

    def _placed(self, key: Key, known: Mapping[SeatName, Seat]) -> Iterator[Seat]:
        reservation, assumed = self._known.get(key), self._assumed.get(key)
        if reservation is not None:
            placements = (*(reservation.status.placements or ()), *(assumed.placements if assumed else ()))
            for seat in seats_of(reservation, placements, known):
                if seat.name in known or self._read(seat):
                    yield seat

    def _read(self, seat: Seat) -> bool:
        """Work out the shape of a seat; False if it has none. The API server does not check quantities inside a
        template: what nobody can read, or is less than nothing, holds nothing."""
        try:
            shape = self._classes.shapes.of(seat.stand_in)
        except QuantityError:
            return False
        if any(amount <= 0 for _, amount in shape.amounts):
            return False
        self._log.put(self._shape_of, seat.name, shape)
        self._classes.note(shape, seat.name.namespace)
        return True

    def _carried_over(self, seat: Seat) -> Seat:
        """Later versions of the reservation say nothing new about when a consumer was named. A seat of which nothing
        else is new, either, stays the very same."""
        old = self._seats.get(seat.name)
        if old is None or old.consumer != seat.consumer:
            return seat
        same = old.stand_in is seat.stand_in and old.node == seat.node and old.open == seat.open
        return old if same else replace(seat, version=old.version)

    def _set_seat(self, name: SeatName, seat: Seat | None) -> None:
        old = self._seats.get(name)
        if old and old.consumer is not None:
            self._set_members(self._consumed, old.consumer, self._consumed[old.consumer] - {name})
        if seat is None or seat.consumer is not None:
            self._log.drop(self._spent, name)
        if seat is None:
            self._log.drop(self._seats, name)
            self._log.drop(self._shape_of, name)
            return
        self._log.put(self._seats, name, seat)
        if seat.consumer is not None:
            self.promises.end(seat.consumer)
            self._set_members(self._consumed, seat.consumer, self._consumed.get(seat.consumer, frozenset()) | {name})

    def _settle(self, names: Iterable[SeatName]) -> None:
        """Make each of these seats hold room, or not, as the table above says."""
        for name in sorted(names):
            self._settle_one(name)

    def _settle_one(self, name: SeatName) -> None:
        seat = self._seats.get(name)
        old, taker = self._held.get(name), self.taker(name)
        new = self._stand_in(seat, old) if seat and self._should_hold(seat, taker) else None
        if new and seat and seat.consumer is not None:
            self._log.put(self._unseen, name, None)
        else:
            self._log.drop(self._unseen, name)
        if old is not None and new is not None:
            if new is not old:
                self._occupancy.replace(old, new)
                self._log.put(self._held, name, new)
        elif old is not None:
            self._release(name, old)
        elif new is not None:
            self._occupancy.add(new)
            self._log.put(self._held, name, new)
        self._set_aside(name, seat, taker)
        self._account(name, seat, new)
        self._advertise(name, seat if new else None)

    def _hand_over(self, name: SeatName, taker: Occupant) -> None:
        """`_settle_one` of a seat that was vacated for this very pod."""
        self._log.drop(self._vacated, name)
        seat = self._seats[name]
        if not self._may_take(seat, taker):
            self._settle_one(name)
            return
        self._set_aside(name, seat, taker)
        self._account(name, seat, None)
        self.vacancies.close(name)

    def _still_sits(self, name: SeatName, taker: Occupant) -> bool:
        """Whether a pod sits where it sat and nothing is to be settled, as when the API shows what was assumed."""
        seat = self._seats.get(name)
        return (
            seat is not None
            and seat.open
            and name not in self._held
            and len(self._claims[name]) == 1
            and taker.shape is self._shape_of[name]
            and not self._occupancy.any_aside
            and self._may_take(seat, taker)
        )

    def _set_aside(self, name: SeatName, seat: Seat | None, taker: Occupant | None) -> None:
        """What a seat holds beyond the pod that is assumed in it stays held until the API has confirmed the pod: if it
        does not come, the seat is there again, whole."""
        more: Amounts = ()
        if taker is not None and taker.shape is self._shape_of[name] and not self._occupancy.any_aside:
            return  # by far the usual case
        if taker is not None and taker.assumed_at is not None:
            taken = dict(taker.shape.amounts)
            beyond = ((column, amount - taken.get(column, 0)) for column, amount in self._shape_of[name].amounts)
            more = tuple((column, amount) for column, amount in beyond if amount > 0)
        self._occupancy.set_aside(str(name), seat.node if seat is not None else "", more)

    def _release(self, name: SeatName, held: Occupant) -> None:
        self._occupancy.remove(held)
        self._log.drop(self._held, name)

    def _should_hold(self, seat: Seat, taker: Occupant | None) -> bool:
        if seat.consumer is not None:
            return not self._pods.was_seen(seat.consumer, seat.version)
        return seat.open and taker is None

    def _may_take(self, seat: Seat, occupant: Occupant) -> bool:
        if occupant.node != seat.node or occupant.pod.metadata.namespace != seat.name.namespace:
            return False
        if occupant.assumed_at is not None:
            return self.promises.allows(seat, occupant.key)
        return is_in_life(occupant.pod, seat) and (
            self.promises.gave(seat, occupant.key) or seat.owners.match(occupant.pod, self._kinship)
        )

    def _account(self, name: SeatName, seat: Seat | None, held: Occupant | None) -> None:
        """Count what a seat holds for its namespace and queue."""
        old = self._accounted.get(name)
        new = ((name.namespace, seat.queue), held.shape.amounts) if seat is not None and held is not None else None
        if old == new:
            return
        if old is not None:
            self.holdings.remove(*old)
            self._log.drop(self._accounted, name)
        if new is not None:
            self.holdings.add(*new)
            self._log.put(self._accounted, name, new)

    def _advertise(self, name: SeatName, held: Seat | None) -> None:
        """List a seat as vacant, or not: it is held, open, and its reservation available and says so itself. Of a seat
        that is only assumed nobody else knows: whoever came next could give it away once more."""
        reservation = self._known.get((name.namespace, name.reservation))
        available = reservation is not None and reservation.status.state.phase == ReservationPhase.AVAILABLE
        is_spoken_for = name in self._spent or self._is_assumed(name)
        if reservation is not None and held is not None and held.open and available and not is_spoken_for:
            self.vacancies.open(name, reservation, held.owners)
        else:
            self.vacancies.close(name)

    def _is_assumed(self, name: SeatName) -> bool:
        assumed = self._assumed.get((name.namespace, name.reservation))
        return assumed is not None and any(
            (one.task, one.index) == (name.task, name.index) for one in assumed.placements
        )

    def _stand_in(self, seat: Seat, held: Occupant | None) -> Occupant:
        if held is not None and held.pod is seat.stand_in and held.node == seat.node:
            return held
        shape, name = self._shape_of[seat.name], str(seat.name)
        return Occupant(key=name, pod=seat.stand_in, node=seat.node, shape=shape, book="reserved")

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


def _asks_the_same(old: Reservation, new: Reservation) -> bool:
    """Whether nothing but the status changed, of all that is read here."""
    return old.metadata.uid == new.metadata.uid and old.spec == new.spec and turn_of(old) == turn_of(new)
