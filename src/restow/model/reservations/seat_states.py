"""The states of seats, and every transition between them: see the diagram at `SeatState`.

Goes in: seats with another placement, consumer or pod than before. Comes out: what follows for each of them: its
reserved pod takes room on the node or does not, a remainder is kept beside the pod in it or is not, and it is listed as
free or is not. A state is worked out anew each time from the placement and the consumer, so that a repeated or late
event changes nothing.

Binding comes before recording. So a recorded consumer that is not here, although pods were seen up to the version in
which the reservation first named it, is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter

from restow.model.cluster.known_pods import KnownPods
from restow.model.cluster.occupancy import Occupant
from restow.model.cluster.pod_shapes import Shape
from restow.model.cluster.undo_log import UndoLog
from restow.model.object_key import Key
from restow.model.objects import Reservation
from restow.model.reservations.free_seats import FreeSeats
from restow.model.reservations.observed_spec import assignable_seats, is_available, status_names_all_owners
from restow.model.reservations.placements import Placements
from restow.model.reservations.reserved_pods import ReservedPods
from restow.model.reservations.seat import Seat, SeatState
from restow.model.reservations.seat_consumers import SeatConsumers
from restow.model.reservations.seat_name import SeatName


class SeatStates:
    def __init__(
        self,
        log: UndoLog,
        placements: Placements,
        pods: KnownPods,
        consumers: SeatConsumers,
        reserved_pods: ReservedPods,
        free: FreeSeats,
    ) -> None:
        self._log = log
        self._placements = placements
        self._seats = placements.seats
        self._pods = pods
        self._consumers = consumers
        self._reserved_pods = reserved_pods
        self._free = free
        self._awaiting_pods: dict[SeatName, None] = {}
        """Seats that are RECORDED: they change once pods were seen up to a newer version."""
        self._lifted: dict[SeatName, None] = {}

    # --- reading ------------------------------------------------------------------------------------------------------

    def of(self, name: SeatName) -> SeatState | None:
        """The state of a seat; None if there is no such seat."""
        seat = self._seats.get(name)
        if seat is None:
            return None
        state = self._state(seat, self._consumers.occupant_of(name))
        if state is not SeatState.HELD:
            return state
        if name not in self._reserved_pods:
            return SeatState.LIFTED
        if name in self._consumers.closed:
            return SeatState.CLOSED
        return SeatState.FREE if name in self._free else SeatState.HELD

    def is_unguaranteed(self, name: SeatName) -> bool:
        """Whether a seat takes room that no status guarantees yet: room that others may have before it."""
        return name in self._reserved_pods and not self._is_guaranteed(name)

    # --- settling: from what is known to what follows -----------------------------------------------------------------

    def settle_changed(self, names: Iterable[SeatName]) -> None:
        """Seats have come, changed or gone. The free ones are listed anew, since the order in which pods try their
        reservation may be another."""
        for key, own in _by_reservation(names):
            self._free.discard_all(key, own)
        # Before room is settled: a record ends the memory that keeps a seat CLOSED.
        for name in names:
            seat = self._seats.get(name)
            if seat is not None:
                self._consumers.seat_shown(seat)
        self.settle(names)

    def settle(self, names: Iterable[SeatName]) -> None:
        """Let what follows from the state of each of these seats happen."""
        in_order = sorted(names)
        for name in in_order:
            self._settle_room(name)
        self._list_free(in_order)

    def settle_seat(self, name: SeatName) -> None:
        """`settle` for a single seat."""
        self._settle_room(name)
        self._list_free((name,))

    def pods_seen(self) -> None:
        """Pods have been seen up to a newer version: RECORDED seats may be CONSUMED now."""
        if self._awaiting_pods:
            self.settle(self._awaiting_pods)

    # --- trying a pod in a seat ---------------------------------------------------------------------------------------

    def vacate(self, name: SeatName) -> None:
        """FREE -> LIFTED: take the reserved pod off the node, for a pod that is tried there."""
        if self._reserved_pods.lift(name):
            self._log.put(self._lifted, name, None)

    def hold_again(self, name: SeatName) -> None:
        """LIFTED -> FREE: the inverse of `vacate`, unless a pod was assumed in the seat meanwhile."""
        self._log.drop(self._lifted, name)
        self.settle_seat(name)

    def exchangeable(self, name: SeatName, shape: Shape) -> Occupant | None:
        """The reserved pod of an open seat, if a pod of this shape takes exactly its room and no other pod names the
        seat. Such a pod may be exchanged for it, which costs less than to lift and assume."""
        if self._consumers.naming.get(name):
            return None
        occupant = self._reserved_pods.exchangeable(name, shape)
        return occupant if occupant is not None and self._seats[name].is_open else None

    def exchanged(self, name: SeatName, uid: str) -> None:
        """FREE -> ASSIGNED: a pod is assumed in a seat, in exchange for its reserved pod. `forget` of the pod holds
        the seat again, as after any other."""
        self._consumers.assign(name, uid)
        self._reserved_pods.exchanged(name)
        self._free.discard(name)

    # --- pods that come into seats, and leave them --------------------------------------------------------------------

    def pod_changed(self, name: SeatName, pod: Occupant, *, is_new: bool) -> None:
        """A pod was assumed in a seat or shown in it, which `is_new` to the seat or was there before."""
        if name in self._lifted and pod.assumed_at is not None:
            self._assign_lifted(name, pod)
        elif is_new or not self._is_still_filled(name, pod):
            self.settle_seat(name)

    def close_if_consumed(self, name: SeatName) -> None:
        """OCCUPIED -> CLOSED: the consumer of a seat is gone before that was recorded. The seat is held until it is,
        for no pod: a consumed seat never opens again."""
        if self._consumers.is_recorded(name) or self._consumers.occupant_of(name) is not None:
            return
        if self._consumers.consumer_of(name) is not None:
            self.close(name)

    def close(self, name: SeatName) -> None:
        """Hold a seat for no pod, until the status records its consumer."""
        self._consumers.close(name)
        self._free.discard(name)

    # ------------------------------------------------------------------------------------------------------------------

    def _state(self, seat: Seat, occupant: Occupant | None) -> SeatState:
        """The state of a seat, as far as it decides about room: FREE, LIFTED and CLOSED seats are HELD here."""
        if seat.recorded_consumer is not None:
            # The node must never look free between the record and the pod event, in whichever order the two watches
            # deliver them. Pods were bound before they were recorded, so once pods were seen up to that version, a
            # consumer that is not here is over.
            was_seen = self._pods.was_seen(seat.recorded_consumer, seat.version)
            return SeatState.CONSUMED if was_seen else SeatState.RECORDED
        if not seat.is_open:
            return SeatState.RELEASED
        if occupant is None:
            return SeatState.HELD
        return SeatState.OCCUPIED if occupant.assumed_at is None else SeatState.ASSIGNED

    def _settle_room(self, name: SeatName) -> None:
        seat, occupant = self._seats.get(name), self._consumers.occupant_of(name)
        state = self._state(seat, occupant) if seat is not None else None
        if seat is not None and state is not None and state.takes_room:
            self._reserved_pods.put(seat)
        else:
            self._reserved_pods.remove(name)
        if state is SeatState.RECORDED:
            self._log.put(self._awaiting_pods, name, None)
        else:
            self._log.drop(self._awaiting_pods, name)
        self._reserved_pods.keep_remainder(name, seat, occupant)

    def _assign_lifted(self, name: SeatName, pod: Occupant) -> None:
        """LIFTED -> ASSIGNED: `settle_seat` where the seat was lifted for this very pod, so little is to be done."""
        self._log.drop(self._lifted, name)
        seat = self._seats[name]
        # The seat may have been replaced by that of another reservation of the same name since it was lifted.
        if not self._consumers.rules.may_occupy(seat, pod):
            self.settle_seat(name)
            return
        self._reserved_pods.remove(name)
        self._reserved_pods.keep_remainder(name, seat, pod)
        self._free.discard(name)

    def _is_still_filled(self, name: SeatName, pod: Occupant) -> bool:
        """Whether a pod fills its seat as before and no other names it: then there is nothing to settle. This is the
        usual case when the API shows what was assumed."""
        seat = self._seats.get(name)
        return (
            seat is not None
            and seat.is_open
            and name not in self._reserved_pods
            and len(self._consumers.naming.get(name, ())) == 1
            and self._reserved_pods.is_filled_by(name, pod)
            and self._consumers.rules.may_occupy(seat, pod)
        )

    def _list_free(self, names: Iterable[SeatName]) -> None:
        """List seats as free, or no longer: HELD <-> FREE.

        Free are those that are held and guaranteed, if the status names all owners of the reservation, and if the seat
        is as the status last decided about it.
        """
        for key, own in _by_reservation(names):
            reservation = self._placements.known.get(key)
            may_assign = reservation is not None and status_names_all_owners(reservation)
            held = (name for name in own if name in self._reserved_pods and name not in self._consumers.closed)
            free = (
                [name for name in held if self._seats[name].is_open and self._is_guaranteed(name)] if may_assign else []
            )
            if reservation is not None and free and not _is_as_decided(reservation):
                assignable = assignable_seats(reservation)
                free = [name for name in free if name.index < assignable.get(name.task, 0)]
            if len(free) < len(own):
                self._free.discard_all(key, set(own).difference(free))
            if reservation is not None and free:
                self._free.add(free, reservation, self._seats[free[0]].owners)

    def _is_guaranteed(self, name: SeatName) -> bool:
        """Whether a status says that a seat can be relied on. An assumed one is known to no other process: the next
        leader would assign it once more."""
        reservation = self._placements.known.get((name.namespace, name.reservation))
        return reservation is not None and is_available(reservation) and not self._placements.is_assumed(name)


def _is_as_decided(reservation: Reservation) -> bool:
    """Whether the status was worked out from the spec as it is."""
    return reservation.status.observed_generation == reservation.metadata.generation


def _by_reservation(names: Iterable[SeatName]) -> Iterator[tuple[Key, list[SeatName]]]:
    """Runs of seats that follow each other and are of one reservation."""
    for key, own in groupby(names, key=attrgetter("namespace", "reservation")):
        yield key, list(own)
