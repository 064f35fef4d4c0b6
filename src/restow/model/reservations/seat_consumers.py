"""Claims: who is believed to sit in which seat.

Goes in: pods that are assumed in a seat or name one, and those that have left before anybody wrote down that they had
taken it. Comes out: who took a seat that is not marked as consumed yet, and whether a seat was given to anybody.

A pod is believed to take an open seat when we assumed it there, or when it is bound on the seat's node, its annotations
name the seat and this very reservation, and we gave it the seat or it is one of those whom the seat is for, or was when
that was last written down; not while nobody may come yet, because the pod that moves has not left. So a seat and the
pod in it never count twice, and nobody frees a seat by writing an annotation.

A seat may be taken away while a pod is on its way there, and be asked for again. The pod then has what it was given,
wherever that is, and there is no other one of that name.
"""

from __future__ import annotations

from restow.model.object_key import key_of
from restow.model.cluster.occupancy import Occupant
from restow.model.cluster.owner_chains import OwnerChains
from restow.model.reservations.placements import Placements
from restow.model.cluster.pods import Pods
from restow.model.reservations.assigned_seats import AssignedSeats
from restow.model.reservations.seat import Seat
from restow.model.cluster.undo import UndoLog
from restow.model.objects import Pod, Reservation
from restow.model.reservations.reservation_annotations import migrating_pod, named_reservation_uid
from restow.model.reservations.observed import possible_consumers
from restow.model.reservations.seat_name import SeatName


class SeatConsumers:
    def __init__(self, log: UndoLog, placements: Placements, pods: Pods, kinship: OwnerChains) -> None:
        self._log = log
        self._placements = placements
        self._known = placements.known
        self._seats = placements.seats
        self._pods = pods
        self._kinship = kinship
        self._namers: dict[SeatName, frozenset[str]] = {}
        """The UIDs of pods that are assumed in a seat, or say that they took it."""
        self._spent: dict[SeatName, None] = {}
        """Taken by pods that are over or gone, which is not written down yet; whether the seats are there or not."""
        self.assigned = AssignedSeats(log)

    # --- reading ------------------------------------------------------------------------------------------------------

    def occupant_of(self, name: SeatName) -> Occupant | None:
        """The pod that is believed to sit in a seat that is not marked as consumed yet."""
        seat = self._seats.get(name)
        if seat is None or not seat.is_open:
            return None
        for uid in sorted(self._namers.get(name, ())):
            if self.may_occupy(seat, self._pods.known[uid]):
                return self._pods.known[uid]
        return None

    def may_occupy(self, seat: Seat, occupant: Occupant) -> bool:
        """Whether a pod that is assumed in a seat, or names it, is believed to sit there."""
        if occupant.node != seat.node or occupant.pod.metadata.namespace != seat.name.namespace:
            return False
        if occupant.assumed_at is not None:
            return self.assigned.allows(seat, occupant.key)
        return self.has_consumed(occupant.pod, seat.name)

    def has_consumed(self, pod: Pod, name: SeatName, *, given: bool = False) -> bool:
        """Whether a bound pod that names a seat has taken it: it speaks of this very reservation, and was given the
        seat or may have been. Where the API says where the seat is, the pod must be there."""
        reservation = self._reservation(name)
        if reservation is None or pod.metadata.namespace != name.namespace:
            return False
        life, shown = reservation.metadata.uid, self._seats.get(name)
        if self._placements.is_assumed(name):
            shown = None
        if named_reservation_uid(pod) != life or (shown is not None and shown.node != pod.spec.node_name):
            return False
        if given or self.assigned.gave(life, pod.metadata.uid):
            return True
        takers = shown.possible_consumers if shown is not None else possible_consumers(reservation)
        return not self._is_shut(reservation) and takers.match(pod, self._kinship)

    def is_given(self, name: SeatName) -> bool:
        """Whether a seat cannot be placed, once more: it is there, or a pod was given it or has taken it, and nothing
        says so yet."""
        if name in self._seats or name in self._spent:
            return True
        return any(self._has_claim(self._pods.known[uid], name) for uid in self._namers.get(name, ()))

    def is_spent(self, name: SeatName) -> bool:
        """Whether whoever took a seat has left before that was written down."""
        return name in self._spent

    def named(self) -> set[SeatName]:
        """The seats that pods are assumed in or name, as far as they exist."""
        return self._seats.keys() & self._namers.keys()

    def count(self, name: SeatName) -> int:
        """How many pods are assumed in a seat or name it, rightly or not."""
        return len(self._namers.get(name, ()))

    def _has_claim(self, occupant: Occupant, name: SeatName) -> bool:
        if occupant.assumed_at is None:
            return self.has_consumed(occupant.pod, name)
        reservation = self._reservation(name)
        return reservation is not None and self.assigned.gave(reservation.metadata.uid, occupant.key)

    def _is_shut(self, reservation: Reservation) -> bool:
        """Whether nobody can have been given a seat: the pod that it moves is known to be where it was."""
        mover = self._pods.known.get(migrating_pod(reservation) or "")
        return mover is not None and not mover.leaving

    def _reservation(self, name: SeatName) -> Reservation | None:
        return self._known.get((name.namespace, name.reservation))

    # --- changing -----------------------------------------------------------------------------------------------------

    def pod_changed(self, uid: str, before: Occupant | None, after: Occupant | None) -> None:
        """A pod came, changed or went: it may be on its way to a seat, have arrived, or name another."""
        self._promise(uid, before, after)
        left, taken = before.seat if before else None, after.seat if after else None
        if left == taken:
            return
        if left:
            self._drop_namer(left, uid)
        if taken:
            self._log.put(self._namers, taken, self._namers.get(taken, frozenset()) | {uid})

    def give(self, name: SeatName, uid: str) -> None:
        """A pod is assumed in a seat that nobody names."""
        self.assigned.give(uid, self._seats[name].reservation_uid)
        self._log.put(self._namers, name, frozenset((uid,)))

    def spend(self, name: SeatName) -> None:
        """Whoever took this seat has left before that was written down."""
        self._log.put(self._spent, name, None)

    def written(self, seat: Seat) -> None:
        """Everybody can read who took a seat, if anybody did."""
        if seat.recorded_consumer is not None:
            self._log.drop(self._spent, seat.name)
            self.assigned.end(seat.recorded_consumer)

    def forget(self, reservation: Reservation) -> None:
        """A reservation is gone, and so is what was taken of it."""
        key = key_of(reservation)
        for name in [one for one in self._spent if (one.namespace, one.reservation) == key]:
            self._log.drop(self._spent, name)

    def _drop_namer(self, name: SeatName, uid: str) -> None:
        others = self._namers[name] - {uid}
        if others:
            self._log.put(self._namers, name, others)
        else:
            self._log.drop(self._namers, name)

    def _promise(self, uid: str, before: Occupant | None, after: Occupant | None) -> None:
        """Remember whose seat a pod is on its way to: another reservation may get the name meanwhile."""
        if after is not None and after.assumed_at is not None:
            if before is None and after.seat is not None and after.seat in self._seats:
                self.assigned.give(uid, self._seats[after.seat].reservation_uid)
        elif after is not None and before is not None and after.seat == before.seat and after.node == before.node:
            self.assigned.arrive(uid)
        else:
            self.assigned.end(uid)
