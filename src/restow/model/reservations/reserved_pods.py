"""The reserved pods that take room on nodes, and what stays reserved beside a pod that is smaller than its seat.

Goes in: seats that are to take room, seats that are not, and pods that come into them. Comes out: an occupant per
reserved pod among the pods of its node, the remainder of seats beside the pods in them, and the sum of what seats
reserve by namespace and queue.
"""

from __future__ import annotations

from collections.abc import Mapping

from restow.model.cluster.occupancy import Occupancy, Occupant
from restow.model.cluster.pod_shapes import Shape
from restow.model.cluster.resource_columns import Amounts, ResourceColumns
from restow.model.cluster.undo_log import UndoLog
from restow.model.reservations.reserved_usage import ChargedTo, ReservedUsage
from restow.model.reservations.seat import Seat
from restow.model.reservations.seat_name import SeatName


class ReservedPods:
    def __init__(
        self, log: UndoLog, occupancy: Occupancy, resources: ResourceColumns, shapes: Mapping[SeatName, Shape]
    ) -> None:
        self._log = log
        self._occupancy = occupancy
        self._shapes = shapes
        self._on_nodes: dict[SeatName, Occupant] = {}
        self._charged: dict[SeatName, tuple[ChargedTo, Amounts]] = {}
        self.usage = ReservedUsage(log, resources)

    # --- reading ------------------------------------------------------------------------------------------------------

    def __contains__(self, name: object) -> bool:
        """Whether the reserved pod of a seat takes room on its node."""
        return name in self._on_nodes

    def names(self) -> list[SeatName]:
        """The seats that take room by their reserved pods, sorted."""
        return sorted(self._on_nodes)

    def remainder(self, name: SeatName) -> Amounts:
        """What a seat reserves beside the pod in it."""
        return self._occupancy.remainder(name)

    def exchangeable(self, name: SeatName, shape: Shape) -> Occupant | None:
        """The reserved pod of a seat, if a pod of this shape takes exactly its room; else None."""
        occupant = self._on_nodes.get(name)
        return occupant if occupant is not None and self._occupancy.is_exchangeable(occupant, shape) else None

    def is_filled_by(self, name: SeatName, pod: Occupant) -> bool:
        """Whether a pod takes exactly the room of the seat and nothing is reserved beside it: by far the usual case."""
        return pod.shape is self._shapes[name] and not self._occupancy.remainder(name)

    # --- changing -----------------------------------------------------------------------------------------------------

    def put(self, seat: Seat) -> None:
        """Let the reserved pod of a seat take its room, on the node and in the size that the seat has now."""
        name, old = seat.name, self._on_nodes.get(seat.name)
        new = self._occupant(seat, old)
        if new is not old:
            if old is not None:
                self._occupancy.replace(old, new)
            else:
                self._occupancy.add(new)
            self._log.put(self._on_nodes, name, new)
        self._charge(name, ((name.namespace, seat.queue), new.shape.amounts))

    def remove(self, name: SeatName) -> None:
        """The inverse of `put`; harmless for a seat that takes no room."""
        self.lift(name)
        self._charge(name, None)

    def lift(self, name: SeatName) -> bool:
        """Take a reserved pod off its node for a try: the seat stays charged to its queue. False if there is none."""
        occupant = self._on_nodes.get(name)
        if occupant is None:
            return False
        self._occupancy.remove(occupant)
        self._log.drop(self._on_nodes, name)
        return True

    def exchanged(self, name: SeatName) -> None:
        """A pod was put on the node in exchange for the reserved pod of a seat."""
        self._log.drop(self._on_nodes, name)
        self._charge(name, None)

    def keep_remainder(self, name: SeatName, seat: Seat | None, pod: Occupant | None) -> None:
        """Keep what a seat reserves beyond the pod in it, until its consumption is recorded.

        If the pod does not come, or is gone before it is recorded, the seat is there again, whole.
        """
        more: Amounts = ()
        if pod is not None and self.is_filled_by(name, pod):
            return
        if pod is not None:
            used = dict(pod.shape.amounts)
            beyond = ((column, amount - used.get(column, 0)) for column, amount in self._shapes[name].amounts)
            more = tuple((column, amount) for column, amount in beyond if amount > 0)
        self._occupancy.set_remainder(name, seat.node if seat is not None else "", more)

    def _charge(self, name: SeatName, new: tuple[ChargedTo, Amounts] | None) -> None:
        """Count what a seat reserves for its namespace and queue."""
        old = self._charged.get(name)
        if old == new:
            return
        if old is not None:
            self.usage.remove(*old)
            self._log.drop(self._charged, name)
        if new is not None:
            self.usage.add(*new)
            self._log.put(self._charged, name, new)

    def _occupant(self, seat: Seat, old: Occupant | None) -> Occupant:
        if old is not None and old.pod is seat.reserved_pod and old.node == seat.node:
            return old
        shape, name = self._shapes[seat.name], str(seat.name)
        return Occupant(key=name, pod=seat.reserved_pod, node=seat.node, shape=shape, ledger="reserved")
