"""Statements: every step has its inverse, discard restores exactly, commit tells what was decided in order."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.model.cluster import AlreadyPlaced, Mask, Which
from restow.model.reservations.seat_name import SeatName
from restow.model.snapshot import Snapshot, UnknownNode
from restow.scheduling.decisions import Assign, HoldSeats, Nominate
from restow.scheduling.engine import Engine
from restow.scheduling.expected_ends import terminating_pods
from restow.scheduling.framework import SUCCESS, Cycle, Plugin, error, unschedulable, wait
from restow.scheduling.schedule_result import NoNodeFound
from restow.scheduling.statement import Statement
from tests.model.cluster.builders import node, placements_of, pod, reservation
from tests.model.cluster.snapshot_values import Fitting, all_values, free_amounts
from tests.narrowing import present
from tests.scheduling.core.sample_plugins import RecordsCalls, RoomFit, cluster, cycle, nodes


def engine_with(*plugins: Plugin) -> Engine:
    return Engine([RoomFit(), *plugins])


def test_commit_returns_the_decisions_in_order() -> None:
    snapshot = cluster(*nodes(2), pods=[pod("old", on="n0")])
    snapshot.apply_reservation(reservation("r"))
    statement = Statement(snapshot, engine_with(), 5.0)
    first, second = cycle(snapshot, pod("a")), cycle(snapshot, pod("b"))
    assert statement.allocate(first, "n1") is SUCCESS
    statement.pipeline(second, "n0")
    statement.reserve(reservation("r"), placements_of({0: "n1"}))
    kinds = [type(step) for step in statement.commit()]
    assert kinds == [Assign, Nominate, HoldSeats]
    assert [one.pod.metadata.name for one in snapshot.occupants("n0")] == ["b", "old"]
    assert free_amounts(snapshot, "n1")["cpu"] == 2000


def test_allocate_runs_reserve_and_unallocate_runs_unreserve() -> None:
    journal: list[str] = []
    snapshot = cluster(*nodes(1))
    statement = Statement(snapshot, engine_with(RecordsCalls(journal, name="a"), RecordsCalls(journal, name="b")), 0.0)
    statement.allocate(cycle(snapshot), "n0")
    statement.unallocate(pod("p"))
    assert journal == ["reserve a p", "reserve b p", "unreserve b p", "unreserve a p"]
    assert statement.commit() == []
    assert free_amounts(snapshot, "n0")["cpu"] == 4000


@pytest.mark.parametrize(
    "keeps",
    [
        pytest.param({"reserve": unschedulable("no")}, id="Reserve refuses"),
        pytest.param({"reserve": error("broke")}, id="Reserve fails"),
        pytest.param({"permit": (unschedulable("no"), 0)}, id="Permit refuses"),
    ],
)
def test_failed_allocate_leaves_nothing_assumed(keeps: dict[str, Any]) -> None:
    journal: list[str] = []
    snapshot = cluster(*nodes(1))
    before = all_values(snapshot)
    statement = Statement(snapshot, engine_with(RecordsCalls(journal, **keeps)), 0.0)
    verdict = statement.allocate(cycle(snapshot), "n0")
    assert (verdict.code, verdict.plugin) == ((keeps.get("reserve") or keeps["permit"][0]).code, "a")
    assert journal[-1] == "unreserve a p"
    assert statement.steps == ()
    statement.discard()
    assert all_values(snapshot) == before


class Breaks(RecordsCalls):
    """Keeps what it took, with an exception."""

    def unreserve(self, cycle: Cycle, node: str) -> None:
        super().unreserve(cycle, node)
        raise RuntimeError("kept")


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda statement, story: statement.allocate(story, "n0"), id="an allocation that is refused"),
        pytest.param(lambda statement, story: statement.unallocate(pod("first")), id="one that is taken back"),
        pytest.param(lambda statement, story: statement.discard(), id="a statement that is discarded"),
    ],
)
def test_unreserve_that_raises_keeps_no_room_and_stops_no_other_unreserve(
    end: Callable[[Statement, Cycle], object],
) -> None:
    journal: list[str] = []
    snapshot = cluster(*nodes(1))
    before = all_values(snapshot)
    others = RecordsCalls(journal, name="others")
    statement = Statement(snapshot, engine_with(others, Breaks(journal, name="broken")), 0.0)
    statement.allocate(cycle(snapshot, pod("first")), "n0")
    others.answers = unschedulable("no"), (SUCCESS, 0)
    with pytest.raises(RuntimeError, match="kept"), statement:
        end(statement, cycle(snapshot))
    assert all_values(snapshot) == before
    assert "unreserve others first" in journal


def test_allocate_returns_the_waits_of_permit() -> None:
    snapshot = cluster(*nodes(1))
    statement = Statement(snapshot, engine_with(RecordsCalls([], permit=(wait("gang"), 30))), 0.0)
    statement.allocate(cycle(snapshot), "n0")
    (step,) = statement.commit()
    assert isinstance(step, Assign)
    assert step.waits == {"a": 30}


@pytest.mark.parametrize(("where", "mistake"), [("nowhere", UnknownNode), ("n0", AlreadyPlaced)])
def test_allocate_of_a_pod_that_cannot_be_assumed_raises(
    where: str, mistake: type[AlreadyPlaced] | type[UnknownNode]
) -> None:
    snapshot = cluster(*nodes(1), pods=[pod("p", on="n0")])
    with pytest.raises(mistake), Statement(snapshot, engine_with(), 0.0) as statement:
        statement.allocate(cycle(snapshot), where)


def test_open_statement_is_discarded_whatever_ends_it() -> None:
    snapshot = cluster(*nodes(1))
    before = all_values(snapshot)
    with pytest.raises(ZeroDivisionError), Statement(snapshot, engine_with(), 0.0) as statement:
        statement.allocate(cycle(snapshot), "n0")
        _ = 1 / 0
    assert all_values(snapshot) == before


def test_statement_ends_only_once() -> None:
    statement = Statement(cluster(), engine_with(), 0.0)
    statement.commit()
    with pytest.raises(RuntimeError):
        statement.discard()


def test_unallocate_of_a_pod_that_was_not_placed_raises() -> None:
    with pytest.raises(KeyError):
        Statement(cluster(), engine_with(), 0.0).unallocate(pod("x"))


def test_release_takes_back_the_seats_that_the_statement_reserved() -> None:
    asked = reservation("r", phase="Pending")
    snapshot = cluster(*nodes(1))
    snapshot.apply_reservation(asked)
    statement = Statement(snapshot, engine_with(), 0.0)
    statement.reserve(asked, placements_of({0: "n0"}))
    statement.release(asked)
    assert (statement.commit(), free_amounts(snapshot, "n0")["cpu"]) == ([], 4000)


def test_seats_reserved_one_after_the_other_are_one_decision() -> None:
    asked = reservation("r", phase="Pending")
    snapshot = cluster(*nodes(2))
    snapshot.apply_reservation(asked)
    statement = Statement(snapshot, engine_with(), 0.0)
    statement.reserve(asked, placements_of({0: "n0"}))
    statement.reserve(asked, placements_of({1: "n1"}), waiting=True)
    statement.allocate(cycle(snapshot), "n0")
    statement.reserve(asked, placements_of({2: "n1"}))
    assert statement.steps[0] == HoldSeats(asked, tuple(placements_of({0: "n0", 1: "n1", 2: "n1"})), waiting=True)
    assert [type(step) for step in statement.commit()] == [HoldSeats, Assign]


def calls_to_reserve(seats: int) -> int:
    asked = reservation("r")
    snapshot = cluster(node("n0", {"cpu": "1000", "pods": "1000"}))
    snapshot.apply_reservation(asked)
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += 1

    with Statement(snapshot, engine_with(), 0.0) as statement:
        sys.setprofile(count)
        for index in range(seats):
            statement.reserve(asked, placements_of({index: "n0"}))
        sys.setprofile(None)
    return calls


def test_last_of_many_seats_costs_no_more_than_the_first() -> None:
    calls_to_reserve(1)  # what is worked out once
    assert calls_to_reserve(200) <= 10.5 * calls_to_reserve(20)


class Looks(RoomFit):
    """Fits, and remembers what was free when it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        self.seen.append(free_amounts(cycle.snapshot, "n0").get("cpu", 0))
        return super().filter(cycle, rows)


def test_room_of_a_seat_is_lent_to_its_pod_only() -> None:
    looks = Looks()
    engine, snapshot = Engine([looks]), cluster(node("n0", {"cpu": "1", "pods": "1"}))
    snapshot.apply_reservation(reservation("r", {0: "n0"}))
    fitting, other = Fitting(snapshot), cycle(snapshot, pod("other"))
    consumer = cycle(snapshot, pod("taker", labels={"app": "web"}))
    assert isinstance(engine.find_node(other), NoNodeFound) and not fitting.of(other.pod_class.shape).any()
    looks.seen.clear()
    seat = present(snapshot.reservations.seat(SeatName("default", "r", "t", 0)))
    with Statement(snapshot, engine, 0.0) as statement:
        assert statement.occupy(consumer, seat) is SUCCESS
        assert (looks.seen, free_amounts(snapshot, "n0").get("cpu", 0)) == ([1000], 0)
        assert isinstance(engine.find_node(other), NoNodeFound) and not fitting.of(other.pod_class.shape).any()


def test_release_of_a_reservation_that_was_not_reserved_raises() -> None:
    with pytest.raises(KeyError):
        Statement(cluster(), engine_with(), 0.0).release(reservation("r"))


@pytest.mark.parametrize(
    "suppose",
    [
        pytest.param(lambda trial, snapshot: trial.evict(terminating_pods(snapshot, 0.0)), id="pods gone"),
        pytest.param(lambda trial, snapshot: trial.vacate(SeatName("default", "r", "t", 0)), id="seats free"),
    ],
)
def test_statement_with_suppositions_is_never_committed(
    suppose: Callable[[Statement, Snapshot], object],
) -> None:
    snapshot = cluster(*nodes(1), pods=[pod("old", {"cpu": "1"}, on="n0", leaving=True, version=7)])
    snapshot.apply_reservation(reservation("r", {0: "n0"}))
    before = all_values(snapshot)
    with pytest.raises(RuntimeError, match="supposed"), Statement(snapshot, engine_with(), 0.0) as trial:
        suppose(trial, snapshot)
        assert free_amounts(snapshot, "n0")["cpu"] == 3000
        trial.commit()
    assert all_values(snapshot) == before


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["allocate", "pipeline", "unallocate", "evict", "reserve", "release", "vacate"]),
        st.integers(0, 5),
        st.integers(0, 2),
    ),
    max_size=25,
)


ASKED = (reservation("res0"), reservation("res1", {0: "n1"}))
SEAT = SeatName("default", "res1", "t", 0)


def play(statement: Statement, snapshot: Snapshot, steps: Sequence[tuple[str, int, int]]) -> None:
    for kind, which, where in steps:
        one = pod(f"p{which}", labels={"app": "web"})
        placed = {step.pod.metadata.uid for step in statement.steps if isinstance(step, Assign | Nominate)}
        asked = ASKED[which % 2]
        match kind:
            case "allocate" | "pipeline" if one.metadata.uid not in placed:
                getattr(statement, kind)(cycle(snapshot, one), f"n{where}")
            case "unallocate" if one.metadata.uid in placed:
                statement.unallocate(one)
            case "evict":
                statement.evict(one for one in snapshot.occupants(f"n{where}") if one.key == f"uid-r{which}")
            case "vacate" if SEAT in snapshot.reservations.reserved_pods:
                statement.vacate(SEAT)
            case "reserve":
                statement.reserve(asked, placements_of({where: f"n{where}"}))
            case "release" if any(
                isinstance(step, HoldSeats) and step.reservation is asked for step in statement.steps
            ):
                statement.release(asked)


def busy_cluster() -> Snapshot:
    running = [pod(f"r{number}", on=f"n{number % 3}", version=number + 1) for number in range(6)]
    snapshot = cluster(*(node(f"n{number}", {"cpu": "6", "pods": "20"}) for number in range(3)), pods=running)
    for asked in ASKED:
        snapshot.apply_reservation(asked)
    return snapshot


@settings(max_examples=150, deadline=None)
@given(STEPS, STEPS)
def test_discard_restores_the_snapshot_bit_for_bit(
    before_it: list[tuple[str, int, int]], steps: list[tuple[str, int, int]]
) -> None:
    snapshot = busy_cluster()
    outer = Statement(snapshot, engine_with(RecordsCalls([])), 0.0)
    play(outer, snapshot, before_it)
    picture = all_values(snapshot)
    arrays = [
        cells.copy() for cells in (snapshot.room.free, snapshot.room.nonzero.cells, snapshot.room.releasing.cells)
    ]
    inner = Statement(snapshot, engine_with(RecordsCalls([])), 0.0)
    placed = {step.pod.metadata.uid for step in outer.steps if isinstance(step, Assign | Nominate)}
    play(inner, snapshot, [step for step in steps if f"uid-p{step[1]}" not in placed])
    inner.discard()
    assert all_values(snapshot) == picture
    after = (snapshot.room.free, snapshot.room.nonzero.cells, snapshot.room.releasing.cells)
    assert all((old == new).all() for old, new in zip(arrays, after, strict=True))
