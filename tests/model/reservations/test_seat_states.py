"""The state of a seat after each transition of its diagram."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from restow.model.reservations.seat import SeatState
from restow.model.reservations.seat_name import SeatName
from restow.model.snapshot import Snapshot
from tests.model.cluster.builders import node, pod, reservation

SEAT = SeatName("default", "r", "t", 0)
UID = "uid-r"
Step = Callable[[Snapshot], Any]


def shown(phase: str = "Available", version: int = 10, **fields: Any) -> Step:
    return lambda s: s.apply_reservation(reservation("r", {0: "n1"}, phase=phase, version=version, **fields))


def assume(s: Snapshot) -> None:
    s.assume(consumer(), "n1", at=0.0, seat=SEAT)


def consumer(on: str | None = None, **fields: Any) -> Any:
    return pod("p", on=on, labels={"app": "web"}, seat=str(SEAT) if on else None, **fields)


def close_after_deletion(s: Snapshot) -> None:
    """What the scheduler does when a pod is deleted that had consumed a seat."""
    gone = consumer(on="n1", version=12)
    s.remove_pod(gone)
    s.reservations.consumers.pod_gone(gone)
    s.reservations.states.close_if_consumed(SEAT)


AVAILABLE, WAITING = shown(), shown("Waiting")
BOUND: Step = lambda s: s.apply_pod(consumer(on="n1", version=11))  # noqa: E731
RECORDED = shown(version=20, consumed={0: "uid-p"})
VACATE: Step = lambda s: s.reservations.states.vacate(SEAT)  # noqa: E731


@pytest.mark.parametrize(
    ("steps", "state", "takes_room"),
    [
        pytest.param([], None, False, id="there is no such seat"),
        pytest.param([WAITING], SeatState.HELD, True, id="placed by a reservation that waits"),
        pytest.param([shown(owners=[])], SeatState.FREE, True, id="Available without owners"),
        pytest.param([AVAILABLE], SeatState.FREE, True, id="Available"),
        pytest.param([AVAILABLE, shown("Waiting", 11)], SeatState.HELD, True, id="Available, then waiting again"),
        pytest.param([AVAILABLE, VACATE], SeatState.LIFTED, False, id="vacated for a try"),
        pytest.param(
            [AVAILABLE, VACATE, lambda s: s.reservations.states.hold_again(SEAT)],
            SeatState.FREE,
            True,
            id="vacated and held again",
        ),
        pytest.param([AVAILABLE, VACATE, assume], SeatState.ASSIGNED, False, id="a pod is assumed in it"),
        pytest.param(
            [AVAILABLE, VACATE, assume, lambda s: s.forget(consumer())],
            SeatState.FREE,
            True,
            id="the assumed pod is forgotten",
        ),
        pytest.param([AVAILABLE, VACATE, assume, BOUND], SeatState.OCCUPIED, False, id="the pod is shown bound"),
        pytest.param([AVAILABLE, BOUND], SeatState.OCCUPIED, False, id="another process assigned the seat"),
        pytest.param([AVAILABLE, BOUND, close_after_deletion], SeatState.CLOSED, True, id="its consumer is deleted"),
        pytest.param(
            [AVAILABLE, BOUND, lambda s: s.remove_pod(consumer(on="n1", version=12))],
            SeatState.FREE,
            True,
            id="its consumer is deleted where no departed pods are remembered",
        ),
        pytest.param([AVAILABLE, BOUND, RECORDED], SeatState.CONSUMED, False, id="recorded while the pod is there"),
        pytest.param([RECORDED], SeatState.RECORDED, True, id="recorded before the pod is seen"),
        pytest.param(
            [RECORDED, lambda s: s.pods_seen_through("20")],
            SeatState.CONSUMED,
            False,
            id="recorded, and pods were seen up to that version",
        ),
        pytest.param(
            [AVAILABLE, BOUND, close_after_deletion, RECORDED],
            SeatState.CONSUMED,
            False,
            id="recorded after its consumer was deleted",
        ),
        pytest.param([AVAILABLE, shown("Failed", 11)], SeatState.RELEASED, False, id="its reservation failed"),
    ],
)
def test_state_of_a_seat_after_transitions(steps: list[Step], state: SeatState | None, takes_room: bool) -> None:
    snapshot = Snapshot()
    snapshot.apply_node(node("n1"))
    for step in steps:
        step(snapshot)
    reservations = snapshot.reservations
    assert reservations.states.of(SEAT) is state
    assert (SEAT in reservations.reserved_pods, state is not None and state.takes_room) == (takes_room, takes_room)
    # A try takes no seat off the list of free ones: the assignment at its end does.
    assert (SEAT in reservations.free) is (state in (SeatState.FREE, SeatState.LIFTED))


def test_consumed_seat_never_opens_again() -> None:
    snapshot = Snapshot()
    snapshot.apply_node(node("n1"))
    for step in (AVAILABLE, BOUND, RECORDED, lambda s: s.remove_pod(consumer(on="n1", version=21))):
        step(snapshot)
    assert snapshot.reservations.states.of(SEAT) is SeatState.CONSUMED
