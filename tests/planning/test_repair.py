"""Repair of a plan after the cluster has changed: possible moves are kept, and every change is reported."""

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
from tests.planning.clusters import app, budget, free_nodes, move_triples, node_of_ten, plan_request, snapshot_of
from tests.planning.random_clusters import property_settings, random_snapshots


def move(order: int, name: str, source: str, target: str, wave: int = 1) -> Move:
    return Move(order=order, wave=wave, namespace="default", pod=name, uid=f"uid-{name}", source=source, target=target)


EMPTY_A = (move(1, "p", "a", "b"), move(2, "q", "a", "b"))
"""Node a is emptied; b takes both."""


def base_cluster(*more: Pod, without: Iterable[str] = ()) -> Snapshot:
    """a and b have two small pods each, c has one, d none."""
    pods = [app(name, "2", on=node, labels={"app": name}) for name, node in zip("pqrst", "aabbc", strict=True)]
    kept = [pod for pod in pods if pod.metadata.name not in without]
    return snapshot_of([node_of_ten(name) for name in "abcd"], [*kept, *more])


def repaired_plan(snapshot: Snapshot, *moved: Move, objective: str = "free-nodes", **asked: Any) -> RepairedPlan:
    places = asked.pop("places", ())
    shape = {"cpu": 8000} if objective == "slots" else {}
    plan = Plan(strategy="optimal", objective=objective, moves=moved, places=places, shape=shape)
    before = snapshot.room.free.copy()
    found = repair_plan(snapshot, plan, plan_request(snapshot, **asked))
    assert (snapshot.room.free == before).all()
    return found


def change_reasons(found: RepairedPlan) -> list[str]:
    return [change.reason for change in found.changes]


def test_valid_plan_is_not_changed() -> None:
    plan = repaired_plan(base_cluster(), *EMPTY_A)
    assert (move_triples(plan.plan), plan.changes, plan.is_worthwhile) == (move_triples(EMPTY_A), (), True)


CASES: dict[str, tuple[Snapshot, list[tuple[str, str, str]], list[str]]] = {
    "a pod that is gone needs not move": (
        base_cluster(without="p"),
        [("q", "a", "b")],
        ["is left out: there is no such pod on any node"],
    ),
    "a target that is full is replaced by the fullest other one that is no free node": (
        base_cluster(app("guest", "4", on="b")),
        [("p", "a", "b"), ("q", "a", "c")],
        ["goes to c instead of b: cannot go to b: insufficient cpu (requested 2, available 0)"],
    ),
    "without another target the node cannot be emptied and nobody leaves it": (
        base_cluster(app("guest", "4", on="b"), app("big", "7", on="c")),
        [],
        [
            "is left out: it gains nothing without the other moves",
            "is left out: cannot go to b: insufficient cpu (requested 2, available 0)",
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_moves_are_left_out_or_get_other_targets(case: str) -> None:
    snapshot, left, said = CASES[case]
    plan = repaired_plan(snapshot, *EMPTY_A)
    assert (sorted(move_triples(plan.plan)), change_reasons(plan)) == (left, said)
    assert plan.is_worthwhile is bool(left)


def test_plan_without_objective_gets_no_other_targets() -> None:
    plan = repaired_plan(base_cluster(app("guest", "4", on="b")), *EMPTY_A, objective="")
    assert move_triples(plan.plan) == [("p", "a", "b")] and plan.is_worthwhile


def test_pod_stays_if_it_needs_the_room_of_a_pod_that_stays() -> None:
    """r was to make room on b for p, but has lost its controller: it would not be created again."""
    pods = [app("p", "4", on="a"), pod("r", {"cpu": "8"}, on="b")]
    snapshot = snapshot_of([node_of_ten("a"), node_of_ten("b"), node_of_ten("c")], pods)
    plan = repaired_plan(snapshot, move(1, "r", "b", "c"), move(2, "p", "a", "b", wave=2), objective="")
    assert (plan.plan.moves, plan.is_worthwhile) == ((), False)
    assert [one.split(":")[1] for one in change_reasons(plan)] == [" may not move", " cannot go to b"]


def test_budget_that_allows_fewer_pods_makes_more_waves() -> None:
    both = [app(name, "2", on="a", labels={"app": "web"}) for name in "pq"]
    snapshot = snapshot_of([node_of_ten("a"), node_of_ten("b")], [*both, app("r", "2", on="b")])
    plan = repaired_plan(snapshot, *EMPTY_A, budgets=[budget("web", 1, "web")])
    assert [(move.order, move.wave) for move in plan.plan.moves] == [(1, 1), (2, 2)]
    [said] = change_reasons(plan)
    assert "allows 1 at once" in said


def test_other_target_is_the_one_that_costs_no_slot() -> None:
    """b is full; c would lose a slot of 8 by taking the pod, e would not."""
    pods = [app("p", "3", on="a"), app("full", "9", on="b"), app("r", "1", on="c"), app("s", "5", on="e")]
    snapshot = snapshot_of([node_of_ten(name) for name in "abce"], pods)
    plan = repaired_plan(snapshot, move(1, "p", "a", "b"), objective="slots")
    assert move_triples(plan.plan) == [("p", "a", "e")] and plan.is_worthwhile


WAITS = (pod("waits", {"cpu": "9"}), pod("late", {"cpu": "9"}))
PLACES = (Place(namespace="default", pod="waits", node="a"),)


def test_places_move_to_nodes_with_room() -> None:
    plan = repaired_plan(
        base_cluster(app("guest", "5", on="a")), *EMPTY_A, objective="pending", pending=WAITS, places=PLACES
    )
    assert [place.node for place in plan.plan.places] == ["d"]
    assert not plan.is_worthwhile  # d is empty: no pod has to move for that


def test_pod_that_is_not_pending_any_more_needs_no_room() -> None:
    plan = repaired_plan(base_cluster(), *EMPTY_A, objective="pending", pending=WAITS[1:], places=PLACES)
    assert (plan.plan.places, plan.is_worthwhile) == ((), False)
    assert change_reasons(plan)[-1] == "gets no place: there is no such pending pod"


def test_repaired_moves_keep_their_orders() -> None:
    plan = repaired_plan(base_cluster(without="p"), *EMPTY_A)
    assert [(move.order, move.pod) for move in plan.plan.moves] == [(2, "q")]


@property_settings
@given(st.data())
def test_repaired_plan_is_valid_and_gains_something(data: st.DataObject) -> None:
    """Churn: some pods go, others come; the repaired plan is valid, moves no other pods, and gains something."""
    snapshot = data.draw(random_snapshots())
    plan = make_plan("optimal", snapshot, plan_request(snapshot, time_limit=60.0, work_limit=20, max_moves=8))
    for uid in data.draw(st.lists(st.sampled_from(sorted(snapshot.pods.known) or [""]), unique=True, max_size=4)):
        if uid:
            snapshot.remove_pod(snapshot.pods.known[uid].pod)
    for number in range(data.draw(st.integers(0, 3))):
        name = data.draw(st.sampled_from(snapshot.rows.names()))
        if (snapshot.room.free[:2, snapshot.rows.find_row(name)] >= 2000).all():
            snapshot.apply_pod(app(f"new{number}", "2", "100Mi", on=name))
    request = plan_request(snapshot)
    found = repair_plan(snapshot, plan, request)
    ordered = tuple(replace(one, order=number) for number, one in enumerate(found.plan.moves, start=1))
    assert replay_plan(snapshot, replace(plan, moves=ordered), request).defects == ()
    assert {one.uid for one in ordered} <= {move.uid for move in plan.moves}
    if found.is_worthwhile and found.changes:
        later = measures_after(snapshot, request, found.plan.moves, lambda one: {"free": free_nodes(one)})
        assert later["free"] > free_nodes(snapshot)
