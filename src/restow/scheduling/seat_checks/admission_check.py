"""Arriving: would a pod that comes now get into a seat?

Goes in: seats, a pod as it may come, and those that come before it, each with whom it comes instead of. Comes out: what
the filters say against it, asked as the scheduler asks them when the pod is there: about the node without what the seat
holds, and as if whoever is to move counted for nothing but the room that it takes where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from restow.model.objects import Pod, PodStatus
from restow.model.queues import DEFAULT_QUEUE
from restow.model.reservations.seat import Seat
from restow.model.reservations.seat_name import SeatName
from restow.model.resources import enlarged, template_requests
from restow.model.snapshot import Snapshot
from restow.scheduling.engine import Engine
from restow.scheduling.framework import Cycle
from restow.scheduling.statement import why_not_seated


class IncomingPod(msgspec.Struct, frozen=True):
    pod: Pod
    """As it will be made."""
    queue: str
    replaces: str
    """The UID of the pod whose place it takes."""


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
    """What keeps the last one from seats, all of which must be there; empty if nothing does. They are asked in order,
    while those that come before it sit down, until there is one for each and so many to `spare`."""
    answers: dict[SeatName, str] = {}
    standing, needed = list(pods_before), len(pods_before) + spare_seats + 1
    with snapshot.counting_only_room_of(*dict.fromkeys(one.replaces for one in (pod, *pods_before))):  # which takes all of it back
        for seat in seats:
            answers[seat.name] = _why_not(snapshot, engine, seat, pod, now)
            needed -= not answers[seat.name]
            if not needed:
                break
            if not answers[seat.name]:
                _seat_one_of(snapshot, engine, seat, standing, now)
    return answers


def _seat_one_of(snapshot: Snapshot, engine: Engine, seat: Seat, standing: list[IncomingPod], now: float) -> None:
    """Let the first of these sit down that may."""
    sits = next((one for one in standing if not _why_not(snapshot, engine, seat, one, now)), None)
    if sits is not None:
        standing.remove(sits)
        snapshot.reservations.states.vacate(seat.name)
        snapshot.assume(_arriving(sits.pod, seat), seat.node, at=now)


def _why_not(snapshot: Snapshot, engine: Engine, seat: Seat, comes: IncomingPod, now: float) -> str:
    taker = snapshot.reservations.consumers.occupant_of(seat.name)
    if taker is not None:
        return f"pod {taker.pod.metadata.namespace}/{taker.pod.metadata.name} has taken it"
    mark = snapshot.mark()
    try:
        snapshot.reservations.states.vacate(seat.name)
        cycle = seat_cycle(Cycle(_arriving(comes.pod, seat), snapshot, now), seat, lambda _: comes.queue)
        return why_not_seated(engine, cycle, seat)
    finally:
        snapshot.undo_to(mark)


def seat_cycle(cycle: Cycle, seat: Seat, queue_of: Callable[[Pod], str]) -> Cycle:
    """The attempt of a pod to sit down. A seat held for its own queue stays its own on a node that was locked since."""
    if cycle.pod_class.queue_lock_class is None or queue_of(cycle.pod) != (seat.queue or DEFAULT_QUEUE):
        return cycle
    return Cycle(cycle.pod, cycle.snapshot, cycle.now, cycle.pod_class.unlocked)


def _arriving(pod: Pod, seat: Seat) -> Pod:
    """A pod as it will be once it was made anew, on no node yet. It asks for as much as the seat holds: of a seat that
    others took a part of nobody knows whether it lasts."""
    spec = enlarged(replace(pod.spec, node_name=None), template_requests(seat.reserved_pod.spec))
    return replace(pod, metadata=replace(pod.metadata, uid=str(seat.name)), spec=spec, status=PodStatus())
