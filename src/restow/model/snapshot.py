"""The snapshot: the cluster as scheduling sees it, which is what the API shows and what the scheduler assumes.

`ObservedCluster` follows the watch events. On top of it, here: assumptions about pods and seats that the API does not
show yet, questions, and tries. Anything may be tried: `mark()`, change at will, then `undo_to(mark)` restores every
value exactly, or `keep(mark)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from restow.model.cluster.known_pods import Assumption
from restow.model.cluster.occupancy import Occupant
from restow.model.cluster.pod_classes import PodClass
from restow.model.cluster.pod_shapes import Shape
from restow.model.cluster.undo_log import Mark
from restow.model.object_key import key_of
from restow.model.objects import Node, Placement, Pod, Reservation
from restow.model.observed_cluster import ObservedCluster
from restow.model.reservations.seat_name import SeatName


class UnknownNode(LookupError):
    """There is no such node, or no more."""


class Snapshot(ObservedCluster):
    # --- what the scheduler assumes, ahead of the API -----------------------------------------------------------------

    def assume(
        self,
        pod: Pod,
        node: str,
        *,
        at: float,
        seat: SeatName | None = None,
        shape: Shape | None = None,
        instead: Occupant | None = None,
    ) -> None:
        """Count a pod on a node, in a reservation's seat if one is given. Raises UnknownNode, AlreadyPlaced.

        `shape` is the pod's, where the caller has it at hand; `instead` is the reserved pod of the seat, if the pod may
        be exchanged for it (`SeatStates.exchangeable`).
        """
        if self.node(node) is None:
            raise UnknownNode(f"node {node} is not known")
        shape = shape or self.shapes.of(pod)
        self.pods.assume(pod, node, shape, seat, at, instead=instead)
        if instead is not None:
            assert seat is not None, "only the reserved pod of a seat can be exchanged"
            self.reservations.states.exchanged(seat, pod.metadata.uid)
            return
        if shape.selector_scopes:
            self.classes.note(shape, pod.metadata.namespace or "")
        self.reservations.pod_changed(pod.metadata.uid, None)

    def forget(self, pod: Pod) -> bool:
        """Take an assumption back; False, and nothing changes, if there is none or the API has confirmed it."""
        before = self.pods.known.get(pod.metadata.uid)
        forgotten = self.pods.forget(pod.metadata.uid)
        if forgotten:
            self._pod_changed(pod, before)
        return forgotten

    def assumed(self, now: float) -> list[Assumption]:
        """Pods assumed and not yet shown by the API, oldest first. One that stays is a leak: ask the API about it."""
        return list(self.pods.assumed(now))

    def assume_placements(self, reservation: Reservation, placements: Iterable[Placement], *, at: float) -> None:
        """Hold seats before the reservation's status shows them. Raises LookupError for an unknown reservation."""
        self.reservations.assume(*key_of(reservation), placements, at)

    def forget_placements(self, reservation: Reservation) -> bool:
        """Take assumed placements back; False if there are none or the status shows some."""
        return self.reservations.forget(*key_of(reservation))

    # --- tries --------------------------------------------------------------------------------------------------------

    def mark(self) -> Mark:
        return self._log.mark()

    def undo_to(self, mark: Mark) -> None:
        self._log.undo_to(mark)

    def keep(self, mark: Mark) -> None:
        self._log.keep(mark)

    @contextmanager
    def counting_only_room_of(self, *uids: str) -> Iterator[None]:
        """A try in which migrating pods count for nothing but the room they take: not for host ports, affinity, spread
        or volumes. Whatever is changed within is taken back at its end."""
        mark = self.mark()
        try:
            for uid in uids:
                occupant = self.pods.known.get(uid)
                if occupant is not None:
                    self.occupancy.count_only_room(occupant)
            yield
        finally:
            self.undo_to(mark)

    @contextmanager
    def without_unguaranteed_seats(self, node: str, taken: SeatName | None = None) -> Iterator[bool]:
        """A try in which unguaranteed seats take no room on a node; yields whether that, or a remainder below, freed
        any. Whatever is changed within is taken back at its end.

        While a pod is tried in a seat, which is `taken`, its remainder takes no room either, nor do the remainders of
        other seats whose pods are there.
        """
        occupants = self.occupants(node)
        names = (SeatName.parse(occupant.key) for occupant in occupants if occupant.ledger == "reserved")
        states = self.reservations.states
        unguaranteed = [name for name in names if name is not None and states.is_unguaranteed(name)]
        seated = occupants if taken is not None else ()
        remainders = [
            occupant.seat
            for occupant in seated
            if occupant.seat is not None and self.reservations.unrecorded_remainder(occupant)
        ]
        mark = self.mark()
        try:
            for name in unguaranteed:
                states.vacate(name)
            for name in remainders if taken is None else [*remainders, taken]:
                self.occupancy.set_remainder(name, node, ())
            yield bool(unguaranteed or remainders)
        finally:
            self.undo_to(mark)

    # --- questions ----------------------------------------------------------------------------------------------------

    def node(self, name: str) -> Node | None:
        row = self.rows.find_row(name)
        return None if row is None else self.nodes.get(row)

    def occupants(self, node: str) -> list[Occupant]:
        """The pods and reserved pods on a node, by key."""
        return self.occupancy.occupants(node)

    def class_of(self, pod: Pod, shape: Shape | None = None) -> PodClass:
        """The class of a pod; `shape` is the pod's, where the caller has it at hand."""
        return self.classes.of(pod, shape)
