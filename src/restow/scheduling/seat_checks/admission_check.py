"""Admission check: would a pod that comes now be admitted to a seat?

Goes in: seats, the pod that would come, and the pods that come before it, each with the pod that it replaces. Comes
out: why the filters refuse it. They are asked as the scheduler asks them when the pod is there: about the node without
what the seat holds, and as if the replaced pods counted for nothing but the room that they take where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from restow.model.objects import Pod, PodStatus
from restow.model.queues import DEFAULT_QUEUE
from restow.model.reservations.seat import Seat
from restow.model.reservations.seat_name import SeatName
from restow.model.resources import enlarged_vector, template_requests
from restow.model.snapshot import Snapshot
from restow.scheduling.engine import Engine
from restow.scheduling.framework import Cycle
from restow.scheduling.statement import why_not_seated


class IncomingPod(msgspec.Struct, frozen=True):
    """A pod that does not exist yet, such as the successor of a migrating pod."""

    pod: Pod
    """As its controller will create it."""
    queue: str
    replaces: str
    """The UID of the pod that it replaces."""


def why_not_admitted(
    snapshot: Snapshot,
    engine: Engine,
    seats: Iterable[Seat],
    pod: IncomingPod,
    pods_before: Sequence[IncomingPod] = (),
    *,
    spare_seats: int = 0,
    now: float,
) -> dict[SeatName, str]:
    """Why a pod is not admitted to these seats, which must exist; empty strings for those that admit it.

    The seats are asked in order, and those before it take seats on the way, until there is one for each pod and
    `spare_seats` more; seats beyond that are not in the answer.
    """
    answers: dict[SeatName, str] = {}
    waiting, needed = list(pods_before), len(pods_before) + spare_seats + 1
    replaced = dict.fromkeys(incoming.replaces for incoming in (pod, *pods_before))
    with snapshot.counting_only_room_of(*replaced):  # a try: every change below is taken back at its end
        for seat in seats:
            answers[seat.name] = _why_refused(snapshot, engine, seat, pod, now)
            needed -= not answers[seat.name]
            if not needed:
                break
            if not answers[seat.name]:
                _seat_first_admitted(snapshot, engine, seat, waiting, now)
    return answers


def seat_cycle(cycle: Cycle, seat: Seat, queue_of: Callable[[Pod], str]) -> Cycle:
    """The cycle of a pod that is tried in a seat. A node that was locked for another queue since does not refuse the
    pods of the seat's own queue."""
    if cycle.pod_class.queue_lock_class is None or queue_of(cycle.pod) != (seat.queue or DEFAULT_QUEUE):
        return cycle
    return Cycle(cycle.pod, cycle.snapshot, cycle.now, cycle.pod_class.unlocked)


def _seat_first_admitted(
    snapshot: Snapshot, engine: Engine, seat: Seat, waiting: list[IncomingPod], now: float
) -> None:
    """Let the first of the waiting pods that a seat admits take it."""
    admitted = next((incoming for incoming in waiting if not _why_refused(snapshot, engine, seat, incoming, now)), None)
    if admitted is not None:
        waiting.remove(admitted)
        snapshot.reservations.states.vacate(seat.name)
        snapshot.assume(_as_created(admitted.pod, seat), seat.node, at=now)


def _why_refused(snapshot: Snapshot, engine: Engine, seat: Seat, incoming: IncomingPod, now: float) -> str:
    occupant = snapshot.reservations.consumers.occupant_of(seat.name)
    if occupant is not None:
        return f"pod {occupant.pod.metadata.namespace}/{occupant.pod.metadata.name} has consumed it"
    mark = snapshot.mark()
    try:
        snapshot.reservations.states.vacate(seat.name)
        cycle = Cycle(_as_created(incoming.pod, seat), snapshot, now)
        return why_not_seated(engine, seat_cycle(cycle, seat, lambda _: incoming.queue), seat)
    finally:
        snapshot.undo_to(mark)


def _as_created(pod: Pod, seat: Seat) -> Pod:
    """A pod as its controller will create it, on no node yet. It requests at least as much as the seat: whether a
    remainder that other pods use lasts until it comes is not known."""
    spec = enlarged_vector(replace(pod.spec, node_name=None), template_requests(seat.reserved_pod.spec))
    return replace(pod, metadata=replace(pod.metadata, uid=str(seat.name)), spec=spec, status=PodStatus())
