"""Reservations that are changed: which seats they may not have any more, by what was given and what is asked for."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import ObjectMeta, Placement, Queue, QueueSpec, Reservation
from restow.model.reservations.observed_spec import has_undecided_increase
from restow.scheduling.seat_checks.spec_increase import seats_beyond_limits
from tests.model.cluster.builders import Amounts, pod
from tests.scheduling.reservations.stage import Stage, booking, rooms, task


def grown(name: str, replicas: int, cpu: str, given: str, beside: Amounts | None = None, **fields: Any) -> Reservation:
    """One with two seats that were given so much each; its spec was changed to so many, of this size. If it has another
    task beside that one, that has one seat, and is as it was."""
    tasks = [task(replicas, {"cpu": cpu}), *([task(1, beside, name="u")] if beside else [])]
    one = booking(name, *tasks, at={0: "n1", 1: "n2"}, queue="q", **fields)
    status = replace(
        one.status,
        observed_generation=1,
        observed_queue="q",
        observed_requests={"t": {"cpu": given}, "u": dict(beside or {})},
        placements=[
            *(one.status.placements or ()),
            *(Placement(task=each.name, index=0, node_name="n1") for each in tasks[1:]),
        ],
    )
    return replace(one, metadata=replace(one.metadata, generation=2), status=status)


def lost(one: Reservation, *others: Any, share: int = 100) -> list[int]:
    """The seats that it loses where its queue may have 4 cpu, by index."""
    limited = Queue(metadata=ObjectMeta(name="q"), spec=QueueSpec(capability={"cpu": "4"}))
    stage = Stage(*rooms("n1", "n2"), limited, *others, one)
    return sorted(name.index for name in seats_beyond_limits(stage.snapshot, stage.roster, one, share))


@pytest.mark.parametrize(
    ("cpu", "taken", "more"),
    [
        pytest.param("2", (), True, id="its seats ask for more than they were given"),
        pytest.param("2", (0,), True, id="one of them is taken, the other is not"),
        pytest.param("2", (0, 1), False, id="all of them are taken, and ask for nothing any more"),
        pytest.param("1", (), False, id="for as much"),
    ],
)
def test_a_reservation_has_grown_by_what_nobody_took(cpu: str, taken: tuple[int, ...], more: bool) -> None:
    one = grown("r", 2, cpu, "1", taken={index: f"uid-{index}" for index in taken})
    assert has_undecided_increase(one) is more


@pytest.mark.parametrize(
    ("replicas", "cpu", "given", "expected"),
    [
        pytest.param(2, "2", "1", [], id="as much as there may be"),
        pytest.param(2, "3", "1", [1], id="the last one goes, the other is within the limit"),
        pytest.param(2, "5", "1", [0, 1], id="none is"),
        pytest.param(1, "3", "1", [], id="a seat that is not asked for any more is not counted"),
        pytest.param(2, "3", "3", [], id="it was given all that, before the limit was lowered"),
    ],
)
def test_seats_are_lost_until_the_rest_is_within_the_limit(
    replicas: int, cpu: str, given: str, expected: list[int]
) -> None:
    assert lost(grown("r", replicas, cpu, given)) == expected


@pytest.mark.parametrize(
    ("beside", "expected"),
    [
        pytest.param({"memory": "1Gi"}, [1], id="it asks for nothing that is over"),
        pytest.param({"cpu": "500m"}, [1], id="there is room beside the seat that stays"),
        pytest.param({"cpu": "1500m"}, [0, 1], id="there is not"),
    ],
)
def test_a_seat_behind_the_one_that_is_lost_stays_if_it_is_not_in_the_way(beside: Amounts, expected: list[int]) -> None:
    assert lost(grown("r", 2, "3", "1", beside)) == expected


def test_a_pod_that_is_to_move_gives_back_what_it_has() -> None:
    mover = pod("web", {"cpu": "2"}, on="n1")
    mover = replace(mover, metadata=replace(mover.metadata, annotations={"scheduling.volcano.sh/queue-name": "q"}))
    assert lost(grown("r", 2, "2", "1"), mover) == [1]
    assert lost(grown("r", 2, "2", "1", migrating=mover.metadata.uid), mover) == []


def test_seats_that_were_taken_are_not_asked_for() -> None:
    taker = pod("web", on="n2")
    one = grown("r", 2, "4", "1", taken={1: taker.metadata.uid})
    assert lost(one, taker) == []


def test_the_newer_of_two_counts_as_it_was() -> None:
    older, newer = grown("older", 2, "1500m", "1"), grown("newer", 2, "1", "500m")
    newer = replace(newer, metadata=replace(newer.metadata, creation_timestamp="2026-01-02T00:00:00Z"))
    assert (lost(older, newer), lost(newer, older)) == ([], [1])


def test_a_seat_that_was_taken_and_is_not_marked_makes_up_for_no_other() -> None:
    """What it was given is its pod's, which counts itself; the other seat was given no more than its own share."""
    one = grown("r", 2, "3", "2")
    taker = pod("web", {"cpu": "2"}, on="n2", labels={"app": "web"}, seat="default/r/t/1")
    said = {"restow.sh/reservation-uid": one.metadata.uid, "scheduling.volcano.sh/queue-name": "q"}
    taker = replace(taker, metadata=replace(taker.metadata, annotations={**(taker.metadata.annotations or {}), **said}))
    assert lost(one, taker) == [0]
