"""The next status of a reservation: phases, messages, counts, owners and conditions."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import Reservation
from restow.model.reservations.status import SeatObservation
from restow.model.times import format_time, parse_time
from tests.model.reservations.status_fixture import (
    CREATED,
    GONE,
    HELD,
    LEAVING,
    TAKEN,
    UNFIT,
    next_status_of,
    phase_reason_message,
    reservation,
    seat_observation,
)

# --- phases -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "seats", "refusal", "expected"),
    [
        pytest.param(
            reservation(),
            (),
            "0/2 nodes are available: 2 Insufficient cpu.",
            ("Pending", "Unschedulable", "0/2 nodes are available: 2 Insufficient cpu."),
            id="no room: Pending, and why",
        ),
        pytest.param(
            reservation(),
            HELD,
            None,
            ("Available", "Reserved", "2 of 2 seats are held or consumed: cpu 1, memory 2Gi"),
            id="placed",
        ),
        pytest.param(
            reservation(owners=[]),
            HELD,
            None,
            (
                "Available",
                "Reserved",
                "2 of 2 seats are held or consumed: cpu 1, memory 2Gi; "
                "spec.owners is empty, so no pod may consume a seat",
            ),
            id="placed, without owners",
        ),
        pytest.param(
            reservation("Pending"),
            HELD,
            None,
            ("Available", "Reserved", "2 of 2 seats are held or consumed: cpu 1, memory 2Gi"),
            id="later",
        ),
        pytest.param(
            reservation(minAvailable=1),
            (seat_observation(0),),
            None,
            ("Available", "Reserved", "1 of 2 seats are held or consumed: cpu 500m, memory 1Gi"),
            id="minAvailable of it placed: Available",
        ),
        pytest.param(
            reservation(minAvailable=1),
            (seat_observation(0),),
            "no more room",
            ("Available", "Reserved", "1 of 2 seats are held or consumed: cpu 500m, memory 1Gi; no more room"),
            id="Available, and why there is not more",
        ),
        pytest.param(
            reservation(),
            (seat_observation(0), seat_observation(1, fault=LEAVING)),
            None,
            (
                "Waiting",
                "RoomBeingLeft",
                "terminating pods have not left node n1 yet: 1 cpu is missing (1 seat)",
            ),
            id="placed onto room that is still being left: Waiting",
        ),
        pytest.param(
            reservation("Waiting"),
            HELD,
            None,
            ("Available", "Reserved", "2 of 2 seats are held or consumed: cpu 1, memory 2Gi"),
            id="left",
        ),
        pytest.param(
            reservation("Available"),
            (seat_observation(0, fault=UNFIT), seat_observation(1, fault=UNFIT)),
            None,
            ("Waiting", "NodeUnfit", "node n1 is cordoned (2 seats)"),
            id="a node that is unfit for now: not to be relied on, yet held",
        ),
        pytest.param(
            reservation("Available", minAvailable=1),
            (seat_observation(0), seat_observation(1, fault=UNFIT)),
            None,
            (
                "Available",
                "Reserved",
                "2 of 2 seats are held or consumed: cpu 1, memory 2Gi; node n1 is cordoned (1 seat)",
            ),
            id="enough of it on fit nodes: Available",
        ),
        pytest.param(
            reservation("Available"),
            (seat_observation(0, "a"), seat_observation(1)),
            None,
            ("Available", "Reserved", "2 of 2 seats are held or consumed: cpu 1, memory 2Gi"),
            id="one taken: still Available",
        ),
        pytest.param(
            reservation("Available"),
            (seat_observation(0, "a"), seat_observation(1, "b")),
            None,
            ("Succeeded", "Consumed", "all 2 seats are consumed"),
            id="all taken: Succeeded",
        ),
        pytest.param(
            reservation("Available", replicas=1),
            (seat_observation(0, "a"),),
            None,
            ("Succeeded", "Consumed", "its seat is consumed"),
            id="the only one taken",
        ),
        pytest.param(
            reservation("Waiting"),
            (seat_observation(0, "a", UNFIT), seat_observation(1, "b", UNFIT)),
            None,
            ("Succeeded", "Consumed", "all 2 seats are consumed"),
            id="what was taken stays taken, whatever its node does",
        ),
        pytest.param(
            reservation("Available"),
            (seat_observation(0), seat_observation(1, fault=TAKEN)),
            None,
            ("Failed", "RoomTaken", "node n1 is over-committed by 500m cpu (1 seat); 0 of 2 seats are consumed"),
            id="others took its room",
        ),
        pytest.param(
            reservation("Waiting"),
            (seat_observation(0, "a"), seat_observation(1, fault=GONE)),
            None,
            ("Failed", "NodeGone", "node n1 is gone (1 seat); 1 of 2 seats are consumed"),
            id="its node is gone",
        ),
        pytest.param(
            reservation("Available", minAvailable=1),
            (seat_observation(0), seat_observation(1, fault=GONE)),
            None,
            ("Available", "Reserved", "1 of 2 seats are held or consumed: cpu 500m, memory 1Gi"),
            id="a seat is lost and enough are left: it goes on",
        ),
        pytest.param(
            reservation("Available", replicas=3),
            HELD,
            None,
            ("Pending", "SeatsMissing", "2 of 3 required seats are held"),
            id="it was given more replicas: Pending until they are placed, too",
        ),
        pytest.param(
            reservation("Pending"), (), None, ("Pending", "Before", "as it was"), id="nothing new about one that waits"
        ),
        pytest.param(
            reservation("Pending", status={"observedGeneration": 7}),
            (),
            None,
            ("Pending", "SeatsMissing", "0 of 2 required seats are held"),
            id="of one that was changed meanwhile only what is so",
        ),
        pytest.param(reservation(), (), None, (None, None, None), id="nothing is said before something is decided"),
    ],
)
def test_next_phase(
    before: Reservation, seats: tuple[SeatObservation, ...], refusal: str | None, expected: tuple[str, ...]
) -> None:
    assert phase_reason_message(next_status_of(before, *seats, refusal=refusal)) == expected


@pytest.mark.parametrize(
    ("other", "notes", "kept"),
    [
        pytest.param(seat_observation(1, fault=LEAVING), {}, [0], id="a seat with room being left is released"),
        pytest.param(
            seat_observation(1, fault=LEAVING),
            {"restow.sh/awaits": "uid-x"},
            [0, 1],
            id="not if the room is made for it",
        ),
        pytest.param(seat_observation(1, "a", LEAVING), {}, [0, 1], id="nor if a pod consumed it"),
        pytest.param(seat_observation(1, fault=UNFIT), {}, [0, 1], id="nor if only its node is unfit"),
    ],
)
def test_seat_with_a_fault_is_kept_or_released_when_enough_are_ready(
    other: SeatObservation, notes: dict[str, str], kept: list[int]
) -> None:
    waiting = reservation("Waiting", minAvailable=1)
    waiting = replace(waiting, metadata=replace(waiting.metadata, annotations=notes))
    status = next_status_of(waiting, seat_observation(0), other)
    assert (status.state.phase, [one.index for one in status.placements or ()]) == ("Available", kept)


@pytest.mark.parametrize("phase", ["", "Pending", "Waiting", "Available"])
def test_invalid_spec_fails_with_every_path(phase: str) -> None:
    broken = reservation(phase, ttl="soon", minAvailable=9)
    assert phase_reason_message(next_status_of(broken, *HELD))[:2] == ("Failed", "Invalid")
    assert [part.split(":")[0] for part in (next_status_of(broken).state.message or "").split("; ")] == [
        "spec.minAvailable",
        "spec.ttl",
        "this is final",
    ]


# --- its time ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "end"),
    [
        pytest.param({}, None, id="neither: never"),
        pytest.param({"ttl": "600s"}, 600, id="ttl counts from creation"),
        pytest.param({"expires": "2026-01-01T00:05:00Z"}, 300, id="expires"),
        pytest.param({"ttl": "600s", "expires": "2026-01-01T00:05:00Z"}, 300, id="the earlier is expires"),
        pytest.param({"ttl": "60s", "expires": "2026-01-01T00:05:00Z"}, 60, id="the earlier is ttl"),
        pytest.param({"ttl": "0s"}, None, id="ttl 0: never"),
        pytest.param({"ttl": "0s", "expires": "2026-01-01T00:05:00Z"}, None, id="ttl 0: never, whatever expires says"),
    ],
)
@pytest.mark.parametrize("phase", ["", "Pending", "Waiting", "Available"])
def test_reservation_expires(terms: dict[str, Any], end: int | None, phase: str) -> None:
    one, begun = reservation(phase, **terms), parse_time(CREATED)
    seats = HELD if phase == "Available" else ()
    if end is None:
        assert next_status_of(one, *seats, at=begun + 10**9).state.phase != "Failed"
        return
    assert next_status_of(one, *seats, at=begun + end - 0.1).state.phase != "Failed"
    status = next_status_of(one, *seats, at=begun + end)
    assert phase_reason_message(status)[:2] == ("Failed", "Expired")
    assert status.state.message == f"it expired at {format_time(begun + end)}; 0 of 2 seats are consumed"


def test_consumed_seat_stays_consumed_when_the_reservation_expires() -> None:
    status = next_status_of(reservation("Available", ttl="30s"), seat_observation(0, "a"), seat_observation(1))
    assert phase_reason_message(status) == (
        "Failed",
        "Expired",
        "it expired at 2026-01-01T00:00:30Z; 1 of 2 seats are consumed",
    )
    assert (status.succeeded, status.failed, status.available, status.pending) == (1, 1, 0, 0)
    assert status.allocated == status.allocatable == {"cpu": "500m", "memory": "1Gi"}
    assert [one.pod_ref and one.pod_ref.name for one in status.placements or ()] == ["a", None]


def test_last_seat_consumed_in_time_counts_when_seen_late() -> None:
    assert (
        phase_reason_message(
            next_status_of(reservation("Available", ttl="30s"), seat_observation(0, "a"), seat_observation(1, "b"))
        )[0]
        == "Succeeded"
    )


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_end_is_final_but_an_earlier_consumption_is_recorded(phase: str) -> None:
    one = reservation(phase, ttl="30s", status={"placements": [{"task": "web", "index": 0, "nodeName": "n1"}]})
    status = next_status_of(one, seat_observation(0, "a"))
    assert phase_reason_message(status) == (phase, "Before", "as it was")
    assert status.succeeded == 1
    assert [one.pod_ref and one.pod_ref.name for one in status.placements or ()] == ["a"]


# --- changes ----------------------------------------------------------------------------------------------------------


def test_observed_queue_is_recorded() -> None:
    assert next_status_of(reservation("Available", queue="q"), *HELD).observed_queue == "q"


def test_fewer_replicas_release_open_seats_and_keep_consumed_ones() -> None:
    one = reservation("Available", replicas=1)
    status = next_status_of(
        one,
        seat_observation(0),
        seat_observation(1),
        seat_observation(2, "a"),
        seat_observation(0, task="gone"),
        seat_observation(1, "b", task="gone"),
    )
    assert [(each.task, each.index) for each in status.placements or ()] == [("gone", 1), ("web", 0), ("web", 2)]
    assert (status.state.phase, status.available, status.succeeded) == ("Available", 1, 0)


def test_reservation_goes_on_without_a_lost_seat() -> None:
    status = next_status_of(
        reservation("Available", minAvailable=1), seat_observation(0, fault=TAKEN), seat_observation(1)
    )
    assert [one.index for one in status.placements or ()] == [1]
    assert (status.available, status.pending, status.failed) == (1, 1, 0)
