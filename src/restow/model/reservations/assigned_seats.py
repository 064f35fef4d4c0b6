"""Promises: which pods were given which seats, and which of them are still on their way there.

Goes in: pods as they are assumed in seats, shown there, and gone. Comes out: whether a seat was given to a pod by this
very reservation, and not by an earlier one of the same name; and whether more pods of a reservation are coming.

A promise outlasts the arrival of the pod: who took a seat that was its own has taken it, even if the reservation names
other owners by the time that is written down.
"""

from __future__ import annotations

from restow.model.reservations.seat import Seat
from restow.model.cluster.undo import UndoLog


class AssignedSeats:
    __slots__ = ("_coming", "_count", "_lives", "_log")

    def __init__(self, log: UndoLog) -> None:
        self._log = log
        self._lives: dict[str, str] = {}
        """By the UID of a pod: which life of the reservation promised it a seat."""
        self._coming: dict[str, str] = {}
        """The same of those that are not there yet."""
        self._count: dict[str, int] = {}
        """How many are not, by the life of their reservation."""

    def allows(self, seat: Seat, uid: str) -> bool:
        """Whether a pod that is assumed in a seat was given this one, as far as anything is known of that."""
        return self._lives.get(uid, seat.reservation_uid) == seat.reservation_uid

    def gave(self, life: str, uid: str) -> bool:
        """Whether a pod is known to have been given a seat of this very reservation."""
        return self._lives.get(uid) == life

    def any_coming(self, life: str) -> bool:
        """Whether pods are on their way into seats of a reservation."""
        return life in self._count

    def give(self, uid: str, life: str) -> None:
        """A pod is assumed in a seat."""
        self._log.put(self._lives, uid, life)
        self._log.put(self._coming, uid, life)
        self._log.put(self._count, life, self._count.get(life, 0) + 1)

    def arrive(self, uid: str) -> None:
        """The API shows a pod in its seat."""
        life = self._coming.get(uid)
        if life is None:
            return
        self._log.drop(self._coming, uid)
        if self._count[life] > 1:
            self._log.put(self._count, life, self._count[life] - 1)
        else:
            self._log.drop(self._count, life)

    def end(self, uid: str) -> None:
        """A pod does not come, is gone, or everybody can read which seat it took."""
        self.arrive(uid)
        self._log.drop(self._lives, uid)
