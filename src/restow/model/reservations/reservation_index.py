"""Reservations: which of their seats hold room now.

    open seat                        holds; once a pod that may take it is there, what it is larger than that
    consumed, its pod not yet seen   holds: the pod is on the node, only our view of pods is behind
    consumed, its pod seen or over   holds nothing, for good
    open seat of an ended one        holds nothing

Binding comes before marking, so a consumer that is not here although pods were seen up to the version in which the
reservation first named it is over.

Here it is decided what follows for a seat from whatever happens. Which seats there are is a matter of `placements`, who
is believed to have taken one of `claims`, what they take of their nodes of `held`, who may come for one of `vacancies`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter

from restow.model.reservations.seat_consumers import SeatConsumers
from restow.model.cluster.classes import Classes
from restow.model.reservations.owner_index import OwnerIndex
from restow.model.reservations.reserved_pods import ReservedPods
from restow.model.cluster.listing import Amounts
from restow.model.object_key import Key, key_of
from restow.model.cluster.occupancy import Occupancy, Occupant, sits_the_same
from restow.model.cluster.owner_chains import OwnerChains
from restow.model.reservations.placements import Placements
from restow.model.cluster.pods import Pods
from restow.model.reservations.seat import UNKNOWN_VERSION, Seat
from restow.model.cluster.shapes import Shape
from restow.model.cluster.undo import UndoLog
from restow.model.reservations.free_seats import FreeSeats
from restow.model.objects import Placement, Pod, Reservation
from restow.model.reservations.observed import assignable_seats, is_available, is_being_deleted, is_ended, status_names_all_owners
from restow.model.reservations.owners import Owners
from restow.model.reservations.seat_name import SeatName


class ReservationIndex:
    """The reservations of the cluster and the seats they hold."""

    def __init__(self, log: UndoLog, occupancy: Occupancy, classes: Classes, pods: Pods, owner_chains: OwnerChains) -> None:
        self._log = log
        self._pods = pods
        self.owner_chains = owner_chains
        self._placements = Placements(log, classes)
        self._known = self._placements.known
        self._seats = self._placements.seats
        self._unseen: dict[SeatName, None] = {}
        self._vacated: dict[SeatName, None] = {}
        self._claims = SeatConsumers(log, self._placements, pods, owner_chains)
        self.assigned = self._claims.assigned
        self._held = ReservedPods(log, occupancy, classes.shapes.resources, self._placements.shapes)
        self.reserved_usage = self._held.holdings
        self.free = FreeSeats(log)
        self.live = OwnerIndex(log)
        """The reservations that have not ended, whether they have a seat for anybody or not."""

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
        return [self._seats[seat] for seat in sorted(self._placements.of.get((namespace, name), ()))]

    def holds(self, name: SeatName) -> bool:
        """Whether a seat takes room on its node now."""
        return name in self._held

    def has_remainder(self, name: SeatName) -> bool:
        """Whether a seat takes room beside the pod in it, because nothing says yet that it was taken."""
        return bool(self._held.aside(name))

    def unrecorded_remainder(self, occupant: Occupant) -> Amounts:
        """What is kept of a seat beside the pod that is there, until that is written down. It is for nobody: room that
        was promised is had before it."""
        if occupant.seat is None or occupant.assumed_at is not None:
            return ()
        kept = self._held.aside(occupant.seat)
        return kept if kept and self.occupant_of(occupant.seat) is occupant else ()

    def held(self) -> list[SeatName]:
        """Every seat that takes room now, sorted."""
        return self._held.names()

    def is_unguaranteed(self, name: SeatName) -> bool:
        """Whether a seat takes room that is promised to nobody yet."""
        return name in self._held and not self._is_promised(name)

    def with_free_seat(self, pod: Pod) -> Iterator[tuple[Reservation, Seat]]:
        """Available reservations of a pod's owner, in the order in which it tries them, each with its first vacant
        seat."""
        namespace = pod.metadata.namespace or ""
        for name in self.free.owner_index.find(pod, self.owner_chains):
            seat = self._seats[self.free.seats(namespace, name)[0]]
            if seat.owners.match(pod, self.owner_chains):
                yield self._known[namespace, name], seat

    def live_reservations(self, pod: Pod) -> Iterator[Reservation]:
        """The reservations of a pod's owner that have not ended, in the same order."""
        namespace = pod.metadata.namespace or ""
        for name in self.live.find(pod, self.owner_chains):
            reservation = self._known[namespace, name]
            if Owners.of(reservation.spec.owners or ()).match(pod, self.owner_chains):
                yield reservation

    def free_seats(self, namespace: str, name: str, task: str | None = None) -> Iterator[Seat]:
        """The seats of a reservation, or of one task of it, that a pod may take now, by task and index."""
        vacant = self.free
        names = vacant.seats(namespace, name) if task is None else vacant.seats_of(namespace, name, task)
        return map(self._seats.__getitem__, names)

    def occupant_of(self, name: SeatName) -> Occupant | None:
        """The pod that is believed to sit in a seat that is not marked as consumed yet."""
        return self._claims.occupant_of(name)

    def is_given(self, name: SeatName) -> bool:
        """Whether a seat cannot be placed, once more: it is there, or a pod was given it or has taken it, and nothing
        says so yet."""
        return self._claims.is_given(name)

    def believes(self, pod: Pod, name: SeatName, *, given: bool = False) -> bool:
        """Whether a bound pod that names a seat has taken it: it speaks of this very reservation, and was given the
        seat or may have been. Where the API says where the seat is, the pod must be there."""
        return self._claims.has_consumed(pod, name, given=given)

    def is_assigned(self, name: SeatName) -> bool:
        """Whether a pod is on its way into a seat. It and what is set aside beside it take the room of the seat."""
        taker = self.occupant_of(name)
        return taker is not None and taker.assumed_at is not None

    def made_to_move(self, uid: str) -> list[Reservation]:
        """The reservations that were made to move a pod, by namespace and name."""
        return [self._known[key] for key in sorted(self._placements.movers.get(uid, ()))]

    def has_migrating_pod_left(self, seat: Seat, uid: str) -> bool:
        """Whether the pod that a seat's reservation was made to move is leaving, or gone: not merely unknown, because
        our view of pods may be older than the reservation."""
        mover = self._pods.known.get(uid)
        if mover is not None:
            return mover.leaving
        return seat.version == UNKNOWN_VERSION or self._pods.was_seen(uid, seat.version)

    def assumed(self, now: float) -> Iterator[tuple[Reservation, float]]:
        """Reservations whose assumed placements the API has not shown yet, and for how long, oldest first."""
        return self._placements.assumed(now)

    def is_late(self, reservation: Reservation) -> bool:
        """Whether something newer was seen of a reservation, or of one of its name, or its end."""
        return self._placements.is_late(reservation)

    # --- what happens to reservations ---------------------------------------------------------------------------------

    def apply(self, reservation: Reservation) -> None:
        """An event shows a reservation. One that is being deleted is gone, whatever others have to do before it is."""
        if is_being_deleted(reservation):
            self.remove(reservation)
            return
        known = self._known.get(key_of(reservation))
        self._review(self._placements.show(reservation))
        self._list(key_of(reservation))
        if known is not None and known.metadata.uid != reservation.metadata.uid:
            self._claims.forget(known)

    def remove(self, reservation: Reservation) -> None:
        """An event says a reservation was deleted."""
        self._review(self._placements.hide(reservation))
        self._list(key_of(reservation))
        if key_of(reservation) not in self._known:
            self._claims.forget(reservation)

    def assume(self, namespace: str, name: str, placements: Iterable[Placement], at: float) -> None:
        """Hold more placements before the status shows them. Raises LookupError if there is no such reservation."""
        self._review(self._placements.assume((namespace, name), placements, at))

    def forget(self, namespace: str, name: str) -> bool:
        """Take assumed placements back; False if there are none (any more)."""
        changed = self._placements.forget((namespace, name))
        self._review(changed or ())
        return changed is not None

    def vacate(self, name: SeatName) -> None:
        """Let go what a seat holds, for the pod that is to take it; the inverse is `hold_again`."""
        if self._held.lift(name):
            self._log.put(self._vacated, name, None)

    def exchangeable(self, name: SeatName, shape: Shape) -> Occupant | None:
        """What a seat holds, if a pod of this shape takes just that, and nobody else says that it is there."""
        if self._claims.count(name):
            return None
        held = self._held.exchangeable(name, shape)
        return held if held is not None and self._seats[name].is_open else None

    def exchanged(self, name: SeatName, uid: str) -> None:
        """A pod that is assumed in a seat was exchanged for what that held. Once it is forgotten, the seat is held
        again, as after any other."""
        self._claims.give(name, uid)
        self._held.exchanged(name)
        self.free.close(name)

    def hold_again(self, name: SeatName) -> None:
        """Hold a seat that was vacated, unless somebody took it."""
        self._log.drop(self._vacated, name)
        self._settle_one(name)

    def spend(self, name: SeatName) -> None:
        """Whoever took this seat has left before that was written down: it is held until it is, for nobody."""
        self._claims.spend(name)
        self.free.close(name)

    def _list(self, key: Key) -> None:
        """List a reservation among the living, or not."""
        reservation = self._known.get(key)
        if reservation is None or is_ended(reservation):
            self.live.drop(key)
        else:
            self.live.put(reservation, Owners.of(reservation.spec.owners or ()))

    # --- what happens around them -------------------------------------------------------------------------------------

    def pod_changed(self, uid: str, before: Occupant | None) -> None:
        """A pod came, changed or went: the seat it takes, or took, may have to be held or let go."""
        after = self._pods.known.get(uid)
        if uid in self._placements.movers and _stays(before) != _stays(after):
            self._mover_changed(uid)
        left, taken = before.seat if before else None, after.seat if after else None
        if left is None and taken is None and uid not in self._placements.consumed:
            return
        self._claims.pod_changed(uid, before, after)
        if left == taken and before is not None and after is not None and sits_the_same(before, after):
            return
        consumed = self._placements.consumed.get(uid)
        if consumed is None and taken is not None and left in (None, taken):
            if taken in self._vacated and after is not None and after.assumed_at is not None:
                self._hand_over(taken, after)
            elif left is None or after is None or not self._still_sits(taken, after):
                self._settle_one(taken)
        else:
            self._settle({seat for seat in (left, taken) if seat} | (consumed or frozenset()))

    def _mover_changed(self, uid: str) -> None:
        """Whoever says that it took the seat of a move may be believed now, or not any more."""
        keys = self._placements.movers[uid]
        seats = (name for key in keys for name in self._placements.of.get(key, ()))
        self._settle(name for name in seats if self._claims.count(name))

    def pods_seen(self) -> None:
        """Pods have been seen up to a newer version."""
        if self._unseen:
            self._settle(self._unseen)

    def owners_changed(self) -> None:
        """Owners that did not match may match now, or the other way round."""
        self._settle(name for name in self._claims.named() if self._seats[name].is_open)

    # --- deciding -----------------------------------------------------------------------------------------------------

    def _review(self, names: Iterable[SeatName]) -> None:
        """Seats have come, changed or gone; what is vacant is listed anew, since its turn may be another."""
        for key, own in _by_reservation(names):
            self.free.close_all(key, own)
        for name in names:
            seat = self._seats.get(name)
            if seat is not None:
                self._claims.written(seat)
        self._settle(names)

    def _settle(self, names: Iterable[SeatName]) -> None:
        """Make each of these seats hold room, or not, as the table above says."""
        settled = sorted(names)
        for name in settled:
            self._hold_or_not(name)
        self._advertise(settled)

    def _settle_one(self, name: SeatName) -> None:
        self._hold_or_not(name)
        self._advertise((name,))

    def _hold_or_not(self, name: SeatName) -> None:
        seat, taker = self._seats.get(name), self._claims.occupant_of(name)
        if seat is not None and self._should_hold(seat, taker):
            self._held.hold(seat)
        else:
            self._held.let_go(name)
        if seat is not None and seat.recorded_consumer is not None and name in self._held:
            self._log.put(self._unseen, name, None)
        else:
            self._log.drop(self._unseen, name)
        self._held.set_aside(name, seat, taker)

    def _should_hold(self, seat: Seat, taker: Occupant | None) -> bool:
        if seat.recorded_consumer is not None:
            return not self._pods.was_seen(seat.recorded_consumer, seat.version)
        return seat.is_open and taker is None

    def _hand_over(self, name: SeatName, taker: Occupant) -> None:
        """`_settle_one` of a seat that was vacated for this very pod."""
        self._log.drop(self._vacated, name)
        seat = self._seats[name]
        if not self._claims.may_occupy(seat, taker):
            self._settle_one(name)
            return
        self._held.let_go(name)
        self._held.set_aside(name, seat, taker)
        self.free.close(name)

    def _still_sits(self, name: SeatName, taker: Occupant) -> bool:
        """Whether a pod sits where it sat and nothing is to be settled, as when the API shows what was assumed."""
        seat = self._seats.get(name)
        return (
            seat is not None
            and seat.is_open
            and name not in self._held
            and self._claims.count(name) == 1
            and self._held.is_filled(name, taker)
            and self._claims.may_occupy(seat, taker)
        )

    def _advertise(self, names: Iterable[SeatName]) -> None:
        """List seats as vacant, or not: those that are held, open and promised, if their reservation itself says for
        whom, and they are as they were decided about."""
        for key, own in _by_reservation(names):
            reservation = self._known.get(key)
            says = reservation is not None and status_names_all_owners(reservation)
            vacant = [name for name in own if self._is_vacant(name)] if says else []
            if reservation is not None and vacant and not _is_as_decided(reservation):
                given = assignable_seats(reservation)
                vacant = [name for name in vacant if name.index < given.get(name.task, 0)]
            if len(vacant) < len(own):
                self.free.close_all(key, set(own).difference(vacant))
            if reservation is not None and vacant:
                self.free.open(vacant, reservation, self._seats[vacant[0]].owners)

    def _is_vacant(self, name: SeatName) -> bool:
        is_free = name in self._held and self._seats[name].is_open and not self._claims.is_spent(name)
        return is_free and self._is_promised(name)

    def _is_promised(self, name: SeatName) -> bool:
        """Whether a status says that a seat can be relied on. Of one that is only assumed nobody else knows: whoever
        came next could give it away once more."""
        reservation = self.get(name.namespace, name.reservation)
        return reservation is not None and is_available(reservation) and not self._placements.is_assumed(name)


def _stays(pod: Occupant | None) -> bool:
    return pod is not None and not pod.leaving


def _is_as_decided(reservation: Reservation) -> bool:
    """Whether its status was worked out from its spec as it is."""
    return reservation.status.observed_generation == reservation.metadata.generation


def _by_reservation(names: Iterable[SeatName]) -> Iterator[tuple[Key, list[SeatName]]]:
    """Seats by the reservation that they are of; as they come, where those of one follow each other."""
    for key, own in groupby(names, key=attrgetter("namespace", "reservation")):
        yield key, list(own)
