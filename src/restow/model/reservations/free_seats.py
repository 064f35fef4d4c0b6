"""Vacancies: the seats that a pod could take, and whose they are.

Goes in: seats as they become vacant and stop being so. Comes out: the vacant seats of a reservation by task and index,
and a directory of the reservations that have any.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable
from operator import attrgetter

from restow.model.reservations.owner_index import OwnerIndex
from restow.model.object_key import Key, key_of
from restow.model.cluster.undo import UndoLog
from restow.model.objects import Reservation
from restow.model.reservations.owners import Owners
from restow.model.reservations.seat_name import SeatName

_TASK = attrgetter("task")


class FreeSeats:
    __slots__ = ("_log", "_seats", "owner_index")

    def __init__(self, log: UndoLog) -> None:
        self._log = log
        self._seats: dict[Key, tuple[SeatName, ...]] = {}
        self.owner_index = OwnerIndex(log)

    def seats(self, namespace: str, name: str) -> tuple[SeatName, ...]:
        """The vacant seats of a reservation, by task and index."""
        return self._seats.get((namespace, name), ())

    def seats_of(self, namespace: str, name: str, task: str) -> tuple[SeatName, ...]:
        """Those of one task, by index."""
        seats = self.seats(namespace, name)
        first = bisect_left(seats, task, key=_TASK)
        return seats[first : bisect_right(seats, task, lo=first, key=_TASK)]

    def open(self, names: Iterable[SeatName], reservation: Reservation, owners: Owners) -> None:
        """These seats of a reservation are vacant now; harmless for those that were."""
        key = key_of(reservation)
        seats = self._seats.get(key, ())
        more = [name for name in names if _place(seats, name) is None]
        if not more:
            return
        if not seats:
            self.owner_index.put(reservation, owners)
        self._log.put(self._seats, key, tuple(sorted((*seats, *more))))

    def close(self, name: SeatName) -> None:
        """A seat is not vacant any more; harmless for one that was not."""
        key = (name.namespace, name.reservation)
        seats = self._seats.get(key, ())
        if seats and seats[0] == name:  # most are taken in order
            self._leave(key, seats[1:])
        elif (place := _place(seats, name)) is not None:
            self._leave(key, seats[:place] + seats[place + 1 :])

    def close_all(self, key: Key, names: Collection[SeatName]) -> None:
        """The same of several seats of a reservation."""
        if len(names) == 1:
            self.close(*names)
            return
        seats, gone = self._seats.get(key, ()), set(names)
        if not gone.isdisjoint(seats):
            self._leave(key, tuple(name for name in seats if name not in gone))

    def _leave(self, key: Key, left: tuple[SeatName, ...]) -> None:
        if left:
            self._log.put(self._seats, key, left)
        else:
            self._log.drop(self._seats, key)
            self.owner_index.drop(key)


def _place(seats: tuple[SeatName, ...], name: SeatName) -> int | None:
    """Where a seat is among these, which are sorted; None if it is not."""
    place = bisect_left(seats, name)
    return place if place < len(seats) and seats[place] == name else None
