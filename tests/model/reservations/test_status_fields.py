"""How the status of a reservation is written: counts, owners, conditions; and that it is stable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from restow.model.objects import ObjectReference
from restow.model.reservations.status import MOST_OWNERS, ReservationObservation, SeatObservation, next_status
from restow.model.reservations.validation import spec_problems
from restow.model.times import format_time, parse_time
from tests.model.reservations.status_fixture import (
    CREATED,
    GONE,
    HELD,
    LEAVING,
    NOW,
    TAKEN,
    UNFIT,
    next_status_of,
    reservation,
    seat_observation,
)


def test_status_counts_seats_requests_and_owners() -> None:
    status = next_status_of(
        reservation(replicas=4, minAvailable=2),
        seat_observation(0, "a"),
        seat_observation(1),
        seat_observation(2, fault=UNFIT),
    )
    assert (status.min_available, next_status_of(reservation(replicas=3), refusal="no cpu").min_available) == (2, 3)
    assert (status.pending, status.available, status.succeeded, status.failed) == (2, 1, 1, 0)
    phases = {"Pending": 1, "Waiting": 1, "Available": 1, "Succeeded": 1}
    assert {task: count.phase for task, count in (status.task_status_count or {}).items()} == {"web": phases}
    assert status.allocatable == {"cpu": "1500m", "memory": "3Gi"}
    assert status.observed_requests == {"web": {"cpu": "500m", "memory": "1Gi"}}
    assert status.allocated == {"cpu": "500m", "memory": "1Gi"}
    assert status.current_owner == ObjectReference(kind="Job", name="etl")
    assert status.current_owners == [status.current_owner]
    assert status.observed_generation == 1


def test_first_consumer_is_the_current_owner_and_all_are_listed() -> None:
    one = reservation("Available", status={"currentOwners": [{"kind": "Job", "name": "earlier"}]})
    status = next_status_of(one, seat_observation(0, "a"))
    assert [owner.name for owner in status.current_owners or ()] == ["earlier", "etl"]
    assert status.current_owner == ObjectReference(kind="Job", name="earlier")


def test_owners_of_the_same_name_are_told_apart_by_uid() -> None:
    jobs = [ObjectReference(kind="Job", name="etl", uid=uid) for uid in ("monday", "tuesday")]
    seats = [replace(seat_observation(index, f"p{index}"), owner=job) for index, job in enumerate(jobs)]
    assert next_status_of(reservation("Available", replicas=3), *seats).current_owners == jobs


def test_current_owners_are_limited() -> None:
    pods = [
        replace(seat_observation(index, f"p{index}"), owner=ObjectReference(kind="Pod", name=f"p{index}"))
        for index in range(300)
    ]
    one = reservation("Available", replicas=400)
    one = replace(one, status=next_status_of(one, *pods[:60]))
    owners = next_status_of(one, *pods).current_owners or ()
    assert [owner.name for owner in owners] == [f"p{index}" for index in range(MOST_OWNERS)]


@pytest.mark.parametrize(
    ("coming", "named"),
    [
        pytest.param(False, ["new"], id="all are recorded"),
        pytest.param(True, ["new", "old"], id="pods are on their way"),
    ],
)
def test_observed_owners_keep_former_owners_while_pods_are_on_the_way(coming: bool, named: list[str]) -> None:
    old, new = ({"object": {"kind": "Job", "name": name}} for name in ("old", "new"))
    one = reservation("Available", status={"observedOwners": [old]}, owners=[new])
    status = next_status(one, ReservationObservation(seats=HELD, has_pods_on_the_way=coming), NOW)
    assert [each.object and each.object.name for each in (status and status.observed_owners) or ()] == named


def test_one_condition_per_phase_is_updated_in_place() -> None:
    one = reservation()
    for refusal, seats, at in (("no cpu", (), 0), ("no memory", (), 5), (None, HELD, 9), (None, HELD[:1], 20)):
        one = replace(one, status=next_status_of(one, *seats, refusal=refusal, at=NOW + at))
    conditions = one.status.conditions or []
    assert [(each.status, each.reason, each.last_transition_time) for each in conditions] == [
        ("Pending", "SeatsMissing", format_time(NOW + 20)),
        ("Available", "Reserved", format_time(NOW + 9)),
    ]
    assert (one.status.state.last_transition_time, one.status.state.message) == (
        format_time(NOW + 20),
        "1 of 2 required seats are held",
    )


def test_another_reason_for_the_same_phase_is_no_transition() -> None:
    one = reservation()
    for refusal, at in (("no cpu", 0), ("no memory", 5)):
        one = replace(one, status=next_status_of(one, refusal=refusal, at=NOW + at))
    state = one.status.state
    assert (state.message, state.last_transition_time) == ("no memory", format_time(NOW))


troubles = st.sampled_from([None, UNFIT, LEAVING, TAKEN, GONE])
found = st.lists(
    st.builds(seat_observation, st.integers(0, 5), st.sampled_from(["", "a"]), troubles),
    unique_by=lambda one: one.placement.index,
    max_size=5,
)
phases = st.sampled_from(["", "Pending", "Waiting", "Available", "Succeeded", "Failed"])


@given(phases, found, st.integers(0, 4), st.integers(1, 4), st.none() | st.just("no room"), st.integers(0, 120))
def test_status_is_stable_after_one_step(
    phase: str, seats: list[SeatObservation], replicas: int, needed: int, refusal: str | None, at: int
) -> None:
    """What a step leaves, observed again, changes nothing; no consumed seat is ever dropped; the sums add up."""
    one = reservation(phase, replicas=replicas, minAvailable=needed, ttl="60s")
    begun = parse_time(CREATED) + at
    once = next_status_of(one, *seats, refusal=refusal, at=begun)
    kept = {(each.task, each.index) for each in once.placements or ()}
    again = [each for each in seats if (each.placement.task, each.placement.index) in kept]
    facts = ReservationObservation(seats=again, problems=spec_problems(one), refusal=refusal)
    if once is not one.status:
        assert next_status(replace(one, status=once), facts, begun + 0.5) is None
        assert {each.placement.index for each in seats if each.is_consumed} <= {index for _, index in kept}
        assert (once.pending or 0) + (once.available or 0) + (once.succeeded or 0) + (once.failed or 0) == replicas
