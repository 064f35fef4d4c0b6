"""Remembers the seat that the pod before took, for the next pod that is alike.

The pods of a workload come one after the other and are alike in everything that decides about seats. If one of them
took the first seat that it tried, the next one may take the next free seat of the same reservation without a search.
"""

from __future__ import annotations

from restow.model.objects import Pod
from restow.model.reservations.seat import Seat
from restow.scheduling.framework import Cycle
from restow.scheduling.session import Session


class LastSeat:
    __slots__ = ("_cycle", "_memory", "_seat", "_snapshot", "_version")

    def __init__(self, session: Session) -> None:
        self._snapshot = session.snapshot
        self._memory = session.seat_memory
        self._cycle: Cycle | None = None
        self._seat: Seat | None = None
        self._version = -1

    def remember(self, cycle: Cycle, seat: Seat) -> None:
        """The pod of this cycle took the very first seat that it tried."""
        self._cycle, self._seat, self._version = cycle, seat, self._snapshot.classes.version

    def next_seat(self, pod: Pod) -> Seat | None:
        """The seat that a pod would try first, if that is known without a search."""
        last, index = self._seat, self._snapshot.reservations
        if last is None or self._cycle is None or not _are_alike(pod, self._cycle.pod):
            return None
        if index.free.owner_index.names_pod(pod):  # a reservation names this very pod, and is tried first
            return None
        name = last.name
        seat = next(index.free_seats(name.namespace, name.reservation), None)
        if seat is not None and seat.name.task != name.task:
            seat = next(index.free_seats(name.namespace, name.reservation, name.task), None)
        if seat is None:
            return None
        if seat.owners.has_pod_reference and not seat.owners.matches(pod, self._snapshot.owner_chains):
            return None  # the pod before may have been named as an owner itself
        return None if seat.name in self._memory.refusing_seats(self._cycle.pod_class) else seat

    def next_cycle(self, pod: Pod) -> Cycle:
        """The cycle of a pod that is like the one before; of the same class, unless the class depends on its name."""
        before = self._cycle
        assert before is not None, "a seat is known"
        same = pod.status == before.pod.status and self._version == self._snapshot.classes.version
        reads_name = before.pod_class.shape.fields.pod_name is not None
        return Cycle(pod, self._snapshot, before.now, before.pod_class if same and not reads_name else None)


def _are_alike(pod: Pod, other: Pod) -> bool:
    """Whether the same reservations are tried for two pods, in the same order and with the same result."""
    mine, others = pod.metadata, other.metadata
    return (
        mine.labels == others.labels
        and mine.namespace == others.namespace
        and mine.owner_references == others.owner_references
        and mine.annotations == others.annotations
        and pod.spec == other.spec
    )
