"""Reservations and observations of their seats, for tests of the status."""

from __future__ import annotations

from typing import Any

import msgspec

from restow.model.objects import ObjectReference, Placement, Reservation, ReservationStatus
from restow.model.reservations.seat_fault import FaultReason, SeatFault
from restow.model.reservations.status import ReservationObservation, SeatObservation, next_status
from restow.model.reservations.validation import spec_problems
from restow.model.times import parse_time

CREATED = "2026-01-01T00:00:00Z"
NOW = parse_time(CREATED) + 60
UNFIT = SeatFault(FaultReason.NODE_UNFIT, "node n1 is cordoned")
LEAVING = SeatFault(FaultReason.ROOM_BEING_LEFT, "terminating pods have not left node n1 yet: 1 cpu is missing")
TAKEN = SeatFault(FaultReason.ROOM_TAKEN, "node n1 is over-committed by 500m cpu")
GONE = SeatFault(FaultReason.NODE_GONE, "node n1 is gone")


OWNERS = [{"labelSelector": {"matchLabels": {"app": "web"}}}]


def reservation(phase: str = "", replicas: int = 2, status: dict[str, Any] | None = None, **spec: Any) -> Reservation:
    container = {"name": "main", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    task = {"name": "web", "replicas": replicas, "template": {"spec": {"containers": [container]}}}
    state = {"phase": phase, "reason": "Before", "message": "as it was", "lastTransitionTime": CREATED} if phase else {}
    document = {
        "metadata": {"name": "r", "namespace": "default", "creationTimestamp": CREATED, "generation": 1},
        "spec": {"owners": OWNERS, "tasks": [task], **spec},
        "status": {"state": state, **(status or {})},
    }
    return msgspec.convert(document, Reservation)


def seat_observation(index: int, pod: str = "", fault: SeatFault | None = None, task: str = "web") -> SeatObservation:
    taken = ObjectReference(kind="Pod", name=pod, uid=f"uid-{pod}") if pod else None
    owner = ObjectReference(kind="Job", name="etl") if pod else None
    return SeatObservation(Placement(task=task, index=index, node_name="n1", pod_ref=taken), fault, owner)


def next_status_of(
    one: Reservation, *seats: SeatObservation, refusal: str | None = None, at: float = NOW
) -> ReservationStatus:
    """The status it has then, whether that is a new one or not."""
    facts = ReservationObservation(seats=seats, problems=spec_problems(one), refusal=refusal)
    return next_status(one, facts, at) or one.status


def phase_reason_message(status: ReservationStatus) -> tuple[str | None, str | None, str | None]:
    return status.state.phase, status.state.reason, status.state.message


HELD = (seat_observation(0), seat_observation(1))
