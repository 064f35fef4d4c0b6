"""The free seats: those that may be assigned to a pod of an owner now, and an index of their reservations by owner.

Goes in: seats as they become free and cease to be. Comes out: the free seats of a reservation by task and index, and
for a pod the reservations with a free seat that may be for it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable
from operator import attrgetter

from restow.model.cluster.undo_log import UndoLog
from restow.model.object_key import Key, key_of
from restow.model.objects import Reservation
from restow.model.reservations.owner_index import OwnerIndex
from restow.model.reservations.owners import Owners
from restow.model.reservations.seat_name import SeatName

_TASK = attrgetter("task")


class FreeSeats:
    __slots__ = ("_log", "_seats", "owner_index")

    def __init__(self, log: UndoLog) -> None:
        self._log = log
        self._seats: dict[Key, tuple[SeatName, ...]] = {}
        self.owner_index = OwnerIndex(log)
        """The reservations that have a free seat."""

    def __contains__(self, name: SeatName) -> bool:
        return _position(self.names(name.namespace, name.reservation), name) is not None

    def names(self, namespace: str, reservation: str) -> tuple[SeatName, ...]:
        """The free seats of a reservation, by task and index."""
        return self._seats.get((namespace, reservation), ())

    def names_of_task(self, namespace: str, reservation: str, task: str) -> tuple[SeatName, ...]:
        """The free seats of one task, by index."""
        seats = self.names(namespace, reservation)
        first = bisect_left(seats, task, key=_TASK)
        return seats[first : bisect_right(seats, task, lo=first, key=_TASK)]

    def add(self, names: Iterable[SeatName], reservation: Reservation, owners: Owners) -> None:
        """These seats of a reservation are free now; harmless for those that were."""
        key = key_of(reservation)
        seats = self._seats.get(key, ())
        more = [name for name in names if _position(seats, name) is None]
        if not more:
            return
        if not seats:
            self.owner_index.put(reservation, owners)
        self._log.put(self._seats, key, tuple(sorted((*seats, *more))))

    def discard(self, name: SeatName) -> None:
        """A seat is not free any more; harmless for one that was not."""
        key = (name.namespace, name.reservation)
        seats = self._seats.get(key, ())
        if seats and seats[0] == name:  # seats are mostly assigned in order, and then no search is needed
            self._set(key, seats[1:])
        elif (position := _position(seats, name)) is not None:
            self._set(key, seats[:position] + seats[position + 1 :])

    def discard_all(self, key: Key, names: Collection[SeatName]) -> None:
        """`discard` for several seats of one reservation."""
        if len(names) == 1:
            self.discard(*names)
            return
        seats, gone = self._seats.get(key, ()), set(names)
        if not gone.isdisjoint(seats):
            self._set(key, tuple(name for name in seats if name not in gone))

    def _set(self, key: Key, seats: tuple[SeatName, ...]) -> None:
        if seats:
            self._log.put(self._seats, key, seats)
        else:
            self._log.drop(self._seats, key)
            self.owner_index.drop(key)


def _position(seats: tuple[SeatName, ...], name: SeatName) -> int | None:
    """The position of a seat among sorted seats; None if it is not one of them."""
    position = bisect_left(seats, name)
    return position if position < len(seats) and seats[position] == name else None
