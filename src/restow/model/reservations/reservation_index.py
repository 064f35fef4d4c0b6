"""The reservations of a snapshot and their seats.

Goes in: reservations as the API shows them, placements that are assumed ahead of it, and pods as they change. Comes
out: which reservations and free seats there are for a pod, and what each seat takes of its node. Start reading at the
diagram of `seat.SeatState`. The parts, each with one question:

    placements      which seats are there?
    consumers       which pod consumed a seat, or is on its way to it?
    states          in which state is a seat, and what follows when that changes?
    reserved_pods   what does a seat take of its node? `reserved_pods.usage`: of its namespace and queue?
    free            which seats may be assigned to a pod now?
    live            which reservations have not ended, whether they have a free seat or not?
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from restow.model.cluster.known_pods import KnownPods
from restow.model.cluster.occupancy import Occupancy, Occupant, is_consumption_unchanged
from restow.model.cluster.owner_chains import OwnerChains
from restow.model.cluster.pod_classes import PodClasses
from restow.model.cluster.resource_columns import Amounts
from restow.model.cluster.undo_log import UndoLog
from restow.model.object_key import Key, key_of
from restow.model.objects import Placement, Pod, Reservation
from restow.model.reservations.free_seats import FreeSeats
from restow.model.reservations.observed_spec import is_being_deleted, is_ended
from restow.model.reservations.owner_index import OwnerIndex
from restow.model.reservations.owners import Owners
from restow.model.reservations.placements import Placements
from restow.model.reservations.reserved_pods import ReservedPods
from restow.model.reservations.seat import UNKNOWN_VERSION, Seat
from restow.model.reservations.seat_consumers import SeatConsumers
from restow.model.reservations.seat_name import SeatName
from restow.model.reservations.seat_states import SeatStates


class ReservationIndex:
    def __init__(
        self, log: UndoLog, occupancy: Occupancy, classes: PodClasses, pods: KnownPods, owner_chains: OwnerChains
    ) -> None:
        self._pods = pods
        self.owner_chains = owner_chains
        self.placements = Placements(log, classes)
        self._known = self.placements.known
        self._seats = self.placements.seats
        self.consumers = SeatConsumers(log, self.placements, pods, owner_chains)
        self.reserved_pods = ReservedPods(log, occupancy, classes.shapes.resources, self.placements.shapes)
        self.free = FreeSeats(log)
        self.states = SeatStates(log, self.placements, pods, self.consumers, self.reserved_pods, self.free)
        self.live = OwnerIndex(log)

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
        return [self._seats[seat] for seat in sorted(self.placements.of.get((namespace, name), ()))]

    def free_seats(self, namespace: str, name: str, task: str | None = None) -> Iterator[Seat]:
        """The free seats of a reservation, or of one task of it, by task and index."""
        free = self.free
        names = free.names(namespace, name) if task is None else free.names_of_task(namespace, name, task)
        return map(self._seats.__getitem__, names)

    def with_free_seat(self, pod: Pod) -> Iterator[tuple[Reservation, Seat]]:
        """The reservations of a pod's owner that have a free seat, in the order to try them, each with its first."""
        namespace = pod.metadata.namespace or ""
        for name in self.free.owner_index.find(pod, self.owner_chains):
            seat = self._seats[self.free.names(namespace, name)[0]]
            if seat.owners.matches(pod, self.owner_chains):
                yield self._known[namespace, name], seat

    def live_reservations(self, pod: Pod) -> Iterator[Reservation]:
        """The reservations of a pod's owner that have not ended, in the same order."""
        namespace = pod.metadata.namespace or ""
        for name in self.live.find(pod, self.owner_chains):
            reservation = self._known[namespace, name]
            if Owners.of(reservation.spec.owners or ()).matches(pod, self.owner_chains):
                yield reservation

    def unrecorded_remainder(self, occupant: Occupant) -> Amounts:
        """What a seat reserves beside the pod in it until its consumption is recorded. It is for no pod, and comes
        after room that a status guarantees."""
        if occupant.seat is None or occupant.assumed_at is not None:
            return ()
        remainder = self.reserved_pods.remainder(occupant.seat)
        return remainder if remainder and self.consumers.occupant_of(occupant.seat) is occupant else ()

    def has_migrating_pod_left(self, seat: Seat, uid: str) -> bool:
        """Whether the pod that the reservation of a seat was made to migrate is terminating, or gone.

        A pod that is merely unknown does not count as gone: pods may have been seen up to an older version than the
        reservation.
        """
        pod = self._pods.known.get(uid)
        if pod is not None:
            return pod.leaving
        return seat.version == UNKNOWN_VERSION or self._pods.was_seen(uid, seat.version)

    # --- what happens to reservations ---------------------------------------------------------------------------------

    def apply(self, reservation: Reservation) -> None:
        """An event shows a reservation. One that is being deleted counts as deleted, whatever finalizers it has."""
        if is_being_deleted(reservation):
            self.remove(reservation)
            return
        known = self._known.get(key_of(reservation))
        self.states.settle_changed(self.placements.show(reservation))
        self._list_live(key_of(reservation))
        if known is not None and known.metadata.uid != reservation.metadata.uid:
            self.consumers.reservation_replaced(known)

    def remove(self, reservation: Reservation) -> None:
        """An event says that a reservation was deleted."""
        self.states.settle_changed(self.placements.hide(reservation))
        self._list_live(key_of(reservation))
        if key_of(reservation) not in self._known:
            self.consumers.reservation_replaced(reservation)

    def assume(self, namespace: str, name: str, placements: Iterable[Placement], at: float) -> None:
        """Hold more seats before the status shows them. Raises LookupError if there is no such reservation."""
        self.states.settle_changed(self.placements.assume((namespace, name), placements, at))

    def forget(self, namespace: str, name: str) -> bool:
        """Take assumed placements back; False if there are none (any more)."""
        changed = self.placements.forget((namespace, name))
        self.states.settle_changed(changed or ())
        return changed is not None

    def _list_live(self, key: Key) -> None:
        reservation = self._known.get(key)
        if reservation is None or is_ended(reservation):
            self.live.drop(key)
        else:
            self.live.put(reservation, Owners.of(reservation.spec.owners or ()))

    # --- what happens around them -------------------------------------------------------------------------------------

    def pod_changed(self, uid: str, before: Occupant | None) -> None:
        """A pod came to a node, changed or went: the seat that it enters, or leaves, may take room or cease to."""
        after = self._pods.known.get(uid)
        if uid in self.placements.migrating and _is_staying(before) != _is_staying(after):
            self._migrating_pod_changed(uid)
        left, entered = before.seat if before else None, after.seat if after else None
        recorded = self.placements.recorded.get(uid)
        if left is None and entered is None and recorded is None:
            return  # by far most pods: they have nothing to do with reservations
        # The consumers first: the states below are worked out from them.
        self.consumers.pod_changed(uid, before, after)
        if left == entered and before is not None and after is not None and is_consumption_unchanged(before, after):
            return
        # Usually a pod concerns one seat, which it enters or is in. Otherwise all seats that it left, entered or is
        # recorded as the consumer of are settled.
        if recorded is not None or entered is None or after is None or left not in (None, entered):
            self.states.settle({seat for seat in (left, entered) if seat} | (recorded or frozenset()))
        else:
            self.states.pod_changed(entered, after, is_new=left is None)

    def _migrating_pod_changed(self, uid: str) -> None:
        """A pod began to terminate, or was shown again: pods that name a seat of its migration may be believed now,
        or not any more."""
        keys = self.placements.migrating[uid]
        seats = (name for key in keys for name in self.placements.of.get(key, ()))
        self.states.settle(name for name in seats if self.consumers.naming.get(name))

    def owners_changed(self) -> None:
        """Owner chains or PodGroups changed: owners that did not match may match now, or the other way round."""
        named = self._seats.keys() & self.consumers.naming.keys()
        self.states.settle(name for name in named if self._seats[name].is_open)


def _is_staying(pod: Occupant | None) -> bool:
    return pod is not None and not pod.leaving
