"""The rules by which a pod is believed to have consumed a seat.

Goes in: a pod that is assumed in a seat, or names one in its annotation. Comes out: whether it is believed.

Any user can write the annotation, so it is not enough. A bound pod has consumed the seat that it names if

    1. it is in the namespace of the reservation, on the node of the seat where the API shows that node,
    2. its annotation names the UID of this very reservation, and
    3. this scheduler assigned it the seat; or else it belongs to a possible consumer, and the seat may have been
       assigned: never while the pod that the reservation migrates is known to stay.

An assumed pod occupies the seat that it was assigned. So a seat and the pod in it never count twice, and writing an
annotation frees no seat.
"""

from __future__ import annotations

from restow.model.cluster.known_pods import KnownPods
from restow.model.cluster.occupancy import Occupant
from restow.model.cluster.owner_chains import OwnerChains
from restow.model.objects import Pod, Reservation
from restow.model.reservations.assigned_seats import AssignedSeats
from restow.model.reservations.observed_spec import possible_consumers
from restow.model.reservations.placements import Placements
from restow.model.reservations.reservation_annotations import migrating_pod, named_reservation_uid
from restow.model.reservations.seat import Seat
from restow.model.reservations.seat_name import SeatName


class ConsumerRules:
    def __init__(
        self, placements: Placements, pods: KnownPods, owner_chains: OwnerChains, assigned: AssignedSeats
    ) -> None:
        self._placements = placements
        self._pods = pods
        self._owner_chains = owner_chains
        self._assigned = assigned

    def may_occupy(self, seat: Seat, occupant: Occupant) -> bool:
        """Whether a pod on a node, which is assumed in a seat or names it, takes the room of that seat."""
        if occupant.node != seat.node or occupant.pod.metadata.namespace != seat.name.namespace:
            return False
        if occupant.assumed_at is not None:
            return self._assigned.may_be_assigned(seat, occupant.key)
        return self.has_consumed(occupant.pod, seat.name)

    def has_consumed(self, pod: Pod, name: SeatName, *, was_bound_here: bool = False) -> bool:
        """Whether a bound pod has consumed the seat that it names; `was_bound_here`: this scheduler bound it there."""
        reservation = self._reservation_of(name)
        if reservation is None or pod.metadata.namespace != name.namespace:
            return False
        uid, shown = reservation.metadata.uid, self._placements.seats.get(name)
        if self._placements.is_assumed(name):
            shown = None  # the pod may have consumed an earlier seat of this name, on another node
        if named_reservation_uid(pod) != uid or (shown is not None and shown.node != pod.spec.node_name):
            return False
        if was_bound_here or self._assigned.was_assigned(uid, pod.metadata.uid):
            return True
        consumers = shown.possible_consumers if shown is not None else possible_consumers(reservation)
        return not self._does_migrating_pod_stay(reservation) and consumers.matches(pod, self._owner_chains)

    def keeps_seat(self, occupant: Occupant, name: SeatName) -> bool:
        """Whether a pod has, or was assigned, a seat of this name: another one of that name must not be placed."""
        if occupant.assumed_at is None:
            return self.has_consumed(occupant.pod, name)
        reservation = self._reservation_of(name)
        return reservation is not None and self._assigned.was_assigned(reservation.metadata.uid, occupant.key)

    def _does_migrating_pod_stay(self, reservation: Reservation) -> bool:
        """Whether the pod that a reservation migrates is known to be where it was, so that no seat was assigned yet."""
        migrating = self._pods.known.get(migrating_pod(reservation) or "")
        return migrating is not None and not migrating.leaving

    def _reservation_of(self, name: SeatName) -> Reservation | None:
        return self._placements.known.get((name.namespace, name.reservation))
