"""Assigned seats: which pods were given a seat of which reservation, and which of them are still on their way there.

Goes in: pods as they are assumed in seats, shown there, and gone. Comes out: whether a pod was given a seat by this
very reservation, and not by an earlier one of the same name; and whether more pods of a reservation are on their way.

An assignment outlasts the arrival of the pod: a pod has consumed the seat that it was given, even if the reservation
names other owners by the time its consumption is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping

from restow.model.cluster.occupancy import Occupant
from restow.model.cluster.undo_log import UndoLog
from restow.model.reservations.seat import Seat
from restow.model.reservations.seat_name import SeatName


class AssignedSeats:
    __slots__ = ("_count", "_log", "_on_the_way", "_reservation_of")

    def __init__(self, log: UndoLog) -> None:
        self._log = log
        self._reservation_of: dict[str, str] = {}
        """The UID of the reservation that gave a pod its seat, by the UID of the pod."""
        self._on_the_way: dict[str, str] = {}
        """The same of pods that no event has shown in their seat yet."""
        self._count: dict[str, int] = {}
        """How many pods are on their way, by the UID of the reservation."""

    # --- reading ------------------------------------------------------------------------------------------------------

    def may_be_assigned(self, seat: Seat, uid: str) -> bool:
        """Whether a pod that is assumed in a seat was given this one; where nothing is known, it was."""
        return self._reservation_of.get(uid, seat.reservation_uid) == seat.reservation_uid

    def was_assigned(self, reservation_uid: str, uid: str) -> bool:
        """Whether a pod is known to have been given a seat of this very reservation."""
        return self._reservation_of.get(uid) == reservation_uid

    def has_pods_on_the_way(self, reservation_uid: str) -> bool:
        """Whether pods are on their way into seats of a reservation."""
        return reservation_uid in self._count

    # --- changing -----------------------------------------------------------------------------------------------------

    def pod_changed(
        self, uid: str, before: Occupant | None, after: Occupant | None, seats: Mapping[SeatName, Seat]
    ) -> None:
        """A pod was assumed in a seat, was shown there, or left it."""
        if after is not None and after.assumed_at is not None:
            # The UID of the reservation is kept, because another reservation may get its name before the pod arrives.
            if before is None and after.seat is not None and after.seat in seats:
                self.assign(uid, seats[after.seat].reservation_uid)
        elif after is not None and before is not None and after.seat == before.seat and after.node == before.node:
            self.arrived(uid)
        else:
            self.end(uid)

    def assign(self, uid: str, reservation_uid: str) -> None:
        """A pod is assumed in a seat."""
        self._log.put(self._reservation_of, uid, reservation_uid)
        self._log.put(self._on_the_way, uid, reservation_uid)
        self._log.put(self._count, reservation_uid, self._count.get(reservation_uid, 0) + 1)

    def arrived(self, uid: str) -> None:
        """The API shows a pod in its seat; harmless for a pod that is not on its way."""
        reservation_uid = self._on_the_way.get(uid)
        if reservation_uid is None:
            return
        self._log.drop(self._on_the_way, uid)
        if self._count[reservation_uid] > 1:
            self._log.put(self._count, reservation_uid, self._count[reservation_uid] - 1)
        else:
            self._log.drop(self._count, reservation_uid)

    def end(self, uid: str) -> None:
        """A pod does not come, is gone, or the status records which seat it consumed."""
        self.arrived(uid)
        self._log.drop(self._reservation_of, uid)
