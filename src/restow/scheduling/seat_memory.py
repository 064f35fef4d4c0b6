"""What a session remembers of its search for seats, so that the next pod of a class need not try the same again."""

from __future__ import annotations

from collections.abc import Collection

from restow.model.cluster import PodClass
from restow.model.reservations.seat_name import SeatName
from restow.model.reservations.task_sizes import TaskSizes

_NO_SEATS: frozenset[SeatName] = frozenset()


class SeatMemory:
    def __init__(self) -> None:
        self.sizes = TaskSizes()
        self.refusal_count = 0
        """How many seats have refused a pod."""
        self._refusing: dict[PodClass, set[SeatName]] = {}

    def note_refusal(self, pod_class: PodClass, seat: SeatName) -> None:
        """A seat refused a pod of this class."""
        self._refusing.setdefault(pod_class, set()).add(seat)
        self.refusal_count += 1

    def refusing_seats(self, pod_class: PodClass) -> Collection[SeatName]:
        """The seats that have refused a pod of this class; empty if none has."""
        return self._refusing.get(pod_class, _NO_SEATS)
