"""What becomes of a plan when the cluster has changed: what still works is done, and every difference is told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from restow.model.objects import Pod
from restow.model.snapshot import Snapshot
from restow.planning.plan import Move, Place, Plan
from restow.planning.plan_effect import measures_after
from restow.planning.repair import RepairedPlan, repair_plan
from restow.planning.replay import replay_plan
from restow.planning.strategies import make_plan
from tests.model.cluster.builders import pod
from tests.planning.clusters import app, budget, cluster, free_nodes, moves, request, ten
from tests.planning.random_clusters import snapshots, tried


def move(order: int, name: str, source: str, target: str, wave: int = 1) -> Move:
    return Move(order=order, wave=wave, namespace="default", pod=name, uid=f"uid-{name}", source=source, target=target)


EMPTY_A = (move(1, "p", "a", "b"), move(2, "q", "a", "b"))
"""Node a is emptied; b takes both."""


def base(*more: Pod, without: Iterable[str] = ()) -> Snapshot:
    """a and b have two small pods each, c has one, d none."""
    pods = [app(name, "2", on=node, labels={"app": name}) for name, node in zip("pqrst", "aabbc", strict=True)]
    kept = [one for one in pods if one.metadata.name not in without]
    return cluster([ten(name) for name in "abcd"], [*kept, *more])


def repaired(snapshot: Snapshot, *moved: Move, objective: str = "free-nodes", **asked: Any) -> RepairedPlan:
    places = asked.pop("places", ())
    shape = {"cpu": 8000} if objective == "slots" else {}
    plan = Plan(strategy="optimal", objective=objective, moves=moved, places=places, shape=shape)
    before = snapshot.room.free.copy()
    found = repair_plan(snapshot, plan, request(snapshot, **asked))
    assert (snapshot.room.free == before).all()
    return found


def told(found: RepairedPlan) -> list[str]:
    return [one.reason for one in found.changes]


def test_a_plan_that_is_still_valid_is_not_touched() -> None:
    found = repaired(base(), *EMPTY_A)
    assert (moves(found.plan), found.changes, found.is_worthwhile) == (moves(EMPTY_A), (), True)


CASES: dict[str, tuple[Snapshot, list[tuple[str, str, str]], list[str]]] = {
    "a pod that is gone needs not move": (
        base(without="p"),
        [("q", "a", "b")],
        ["is left out: there is no such pod on any node"],
    ),
    "a target that is full is replaced by the fullest other one that is no free node": (
        base(app("guest", "4", on="b")),
        [("p", "a", "b"), ("q", "a", "c")],
        ["goes to c instead of b: cannot go to b: insufficient cpu (requested 2, available 0)"],
    ),
    "without another target the node cannot be emptied and nobody leaves it": (
        base(app("guest", "4", on="b"), app("big", "7", on="c")),
        [],
        [
            "is left out: it gains nothing without the other moves",
            "is left out: cannot go to b: insufficient cpu (requested 2, available 0)",
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_moves_are_left_out_or_go_elsewhere(case: str) -> None:
    snapshot, left, said = CASES[case]
    found = repaired(snapshot, *EMPTY_A)
    assert (sorted(moves(found.plan)), told(found)) == (left, said)
    assert found.is_worthwhile is bool(left)


def test_whoever_plans_by_rules_has_chosen_the_targets() -> None:
    found = repaired(base(app("guest", "4", on="b")), *EMPTY_A, objective="")
    assert moves(found.plan) == [("p", "a", "b")] and found.is_worthwhile


def test_whoever_counted_on_the_room_of_a_pod_that_stays_stays_too() -> None:
    """r was to make room on b for p, and has become nobody's: it would not come back."""
    pods = [app("p", "4", on="a"), pod("r", {"cpu": "8"}, on="b")]
    snapshot = cluster([ten("a"), ten("b"), ten("c")], pods)
    found = repaired(snapshot, move(1, "r", "b", "c"), move(2, "p", "a", "b", wave=2), objective="")
    assert (found.plan.moves, found.is_worthwhile) == ((), False)
    assert [one.split(":")[1] for one in told(found)] == [" may not move", " cannot go to b"]


def test_a_budget_that_lets_fewer_go_makes_more_waves() -> None:
    both = [app(name, "2", on="a", labels={"app": "web"}) for name in "pq"]
    snapshot = cluster([ten("a"), ten("b")], [*both, app("r", "2", on="b")])
    found = repaired(snapshot, *EMPTY_A, budgets=[budget("web", 1, "web")])
    assert [(one.order, one.wave) for one in found.plan.moves] == [(1, 1), (2, 2)]
    [said] = told(found)
    assert "allows 1 at once" in said


def test_slots_are_lost_where_they_cost_least() -> None:
    """b is full; c would lose a slot of 8 by taking the pod, e would not."""
    pods = [app("p", "3", on="a"), app("full", "9", on="b"), app("r", "1", on="c"), app("s", "5", on="e")]
    snapshot = cluster([ten(name) for name in "abce"], pods)
    found = repaired(snapshot, move(1, "p", "a", "b"), objective="slots")
    assert moves(found.plan) == [("p", "a", "e")] and found.is_worthwhile


WAITS = (pod("waits", {"cpu": "9"}), pod("late", {"cpu": "9"}))
PLACES = (Place(namespace="default", pod="waits", node="a"),)


def test_places_go_where_there_is_room_now() -> None:
    found = repaired(base(app("guest", "5", on="a")), *EMPTY_A, objective="pending", pending=WAITS, places=PLACES)
    assert [one.node for one in found.plan.places] == ["d"]
    assert not found.is_worthwhile  # d is empty: nobody has to move for that


def test_a_pod_that_does_not_wait_any_more_needs_no_room() -> None:
    found = repaired(base(), *EMPTY_A, objective="pending", pending=WAITS[1:], places=PLACES)
    assert (found.plan.places, found.is_worthwhile) == ((), False)
    assert told(found)[-1] == "gets no place: there is no such pending pod"


def test_orders_stay_because_jobs_are_known_by_them() -> None:
    found = repaired(base(without="p"), *EMPTY_A)
    assert [(one.order, one.pod) for one in found.plan.moves] == [(2, "q")]


@tried
@given(st.data())
def test_a_repaired_plan_keeps_every_promise(data: st.DataObject) -> None:
    """Churn: some pods go, others come; what is left of the plan is valid, moves nobody else, and gains something."""
    snapshot = data.draw(snapshots())
    plan = make_plan("optimal", snapshot, request(snapshot, time_limit=60.0, work_limit=20, max_moves=8))
    for uid in data.draw(st.lists(st.sampled_from(sorted(snapshot.pods.known) or [""]), unique=True, max_size=4)):
        if uid:
            snapshot.remove_pod(snapshot.pods.known[uid].pod)
    for number in range(data.draw(st.integers(0, 3))):
        name = data.draw(st.sampled_from(snapshot.rows.names()))
        if (snapshot.room.free[:2, snapshot.rows.find_row(name)] >= 2000).all():
            snapshot.apply_pod(app(f"new{number}", "2", "100Mi", on=name))
    asked = request(snapshot)
    found = repair_plan(snapshot, plan, asked)
    ordered = tuple(replace(one, order=number) for number, one in enumerate(found.plan.moves, start=1))
    assert replay_plan(snapshot, replace(plan, moves=ordered), asked).defects == ()
    assert {one.uid for one in ordered} <= {one.uid for one in plan.moves}
    if found.is_worthwhile and found.changes:
        later = measures_after(snapshot, asked, found.plan.moves, lambda one: {"free": free_nodes(one)})
        assert later["free"] > free_nodes(snapshot)
