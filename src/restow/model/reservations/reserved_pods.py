"""Held: what seats take of their nodes.

Goes in: seats that are to hold room, seats that are not, and pods that come to sit in them. Comes out: an occupant per
seat that holds room, among the pods of its node; what is set aside beside a pod that is smaller than its seat; and how
much all of it is, by namespace and queue.
"""

from __future__ import annotations

from collections.abc import Mapping

from restow.model.reservations.reserved_usage import Holder, ReservedUsage
from restow.model.cluster.listing import Amounts, Resources
from restow.model.cluster.occupancy import Occupancy, Occupant
from restow.model.reservations.seat import Seat
from restow.model.cluster.shapes import Shape
from restow.model.cluster.undo import UndoLog
from restow.model.reservations.seat_name import SeatName


class ReservedPods:
    def __init__(
        self, log: UndoLog, occupancy: Occupancy, resources: Resources, shapes: Mapping[SeatName, Shape]
    ) -> None:
        self._log = log
        self._occupancy = occupancy
        self._shapes = shapes
        self._held: dict[SeatName, Occupant] = {}
        self._accounted: dict[SeatName, tuple[Holder, Amounts]] = {}
        self.holdings = ReservedUsage(log, resources)

    def __contains__(self, name: object) -> bool:
        return name in self._held

    def names(self) -> list[SeatName]:
        """Every seat that takes room now, sorted."""
        return sorted(self._held)

    def exchangeable(self, name: SeatName, shape: Shape) -> Occupant | None:
        """What a seat holds, if a pod of this shape takes just that."""
        held = self._held.get(name)
        return held if held is not None and self._occupancy.is_exchangeable(held, shape) else None

    def is_filled(self, name: SeatName, taker: Occupant) -> bool:
        """Whether a pod takes what its seat held and nothing is set aside: by far the usual case."""
        return taker.shape is self._shapes[name] and not self._occupancy.aside(name)

    def aside(self, name: SeatName) -> Amounts:
        """What a seat holds beyond the pod in it."""
        return self._occupancy.aside(name)

    # --- changing -----------------------------------------------------------------------------------------------------

    def hold(self, seat: Seat) -> None:
        """Let a seat take its room, where it is now and as large as it is now."""
        name, old = seat.name, self._held.get(seat.name)
        new = self._stand_in(seat, old)
        if new is not old:
            if old is not None:
                self._occupancy.replace(old, new)
            else:
                self._occupancy.add(new)
            self._log.put(self._held, name, new)
        self._account(name, ((name.namespace, seat.queue), new.shape.amounts))

    def let_go(self, name: SeatName) -> None:
        """The inverse of `hold`; harmless for a seat that holds nothing."""
        self.lift(name)
        self._account(name, None)

    def lift(self, name: SeatName) -> bool:
        """Take what a seat holds off its node for a moment: it is still accounted for. False if it holds nothing."""
        held = self._held.get(name)
        if held is None:
            return False
        self._occupancy.remove(held)
        self._log.drop(self._held, name)
        return True

    def exchanged(self, name: SeatName) -> None:
        """A pod is there instead of what a seat held."""
        self._log.drop(self._held, name)
        self._account(name, None)

    def set_aside(self, name: SeatName, seat: Seat | None, taker: Occupant | None) -> None:
        """What a seat holds beyond the pod that is believed in it stays held until the seat is marked: if the pod does
        not come, or is gone before anybody wrote down that it had, the seat is there again, whole."""
        more: Amounts = ()
        if taker is not None and self.is_filled(name, taker):
            return
        if taker is not None:
            taken = dict(taker.shape.amounts)
            beyond = ((column, amount - taken.get(column, 0)) for column, amount in self._shapes[name].amounts)
            more = tuple((column, amount) for column, amount in beyond if amount > 0)
        self._occupancy.set_aside(name, seat.node if seat is not None else "", more)

    def _account(self, name: SeatName, new: tuple[Holder, Amounts] | None) -> None:
        """Count what a seat holds for its namespace and queue."""
        old = self._accounted.get(name)
        if old == new:
            return
        if old is not None:
            self.holdings.remove(*old)
            self._log.drop(self._accounted, name)
        if new is not None:
            self.holdings.add(*new)
            self._log.put(self._accounted, name, new)

    def _stand_in(self, seat: Seat, held: Occupant | None) -> Occupant:
        if held is not None and held.pod is seat.reserved_pod and held.node == seat.node:
            return held
        shape, name = self._shapes[seat.name], str(seat.name)
        return Occupant(key=name, pod=seat.reserved_pod, node=seat.node, shape=shape, ledger="reserved")
