"""Plans of the optimiser on small clusters: all are replayed, and none lowers a figure."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import (
    Affinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    SelectorSpec,
)
from restow.model.snapshot import Snapshot
from restow.model.wire import WireError
from restow.planning.optimal import solver
from restow.planning.optimal.strategy import gap_percent
from tests.planning.clusters import app, budget, move_triples, node_of_ten, refusal_reasons, snapshot_of
from tests.planning.optimal.optimal_plans import checked_plan, gang_members, pending_pod, scattered_cluster

APART = Affinity(
    pod_anti_affinity=PodAffinity(
        required=[
            PodAffinityTerm(
                topology_key="kubernetes.io/hostname", label_selector=SelectorSpec(match_labels={"app": "db"})
            )
        ]
    )
)


def test_node_with_the_fewest_pods_is_emptied() -> None:
    plan = checked_plan(scattered_cluster())
    assert [(pod, source) for pod, source, _ in move_triples(plan)] == [("c1", "c")]
    assert (plan.before["freeNodes"], plan.after["freeNodes"], plan.bound) == (0, 1, 1)


def test_slot_is_gathered_with_the_fewest_moves() -> None:
    plan = checked_plan(scattered_cluster(), objective="slots", shape={"cpu": 10_000})
    assert (plan.before["slots"], plan.after["slots"], plan.bound, len(plan.moves)) == (0, 1, 1, 1)


def test_pending_pod_gets_the_room_of_moved_pods() -> None:
    plan = checked_plan(scattered_cluster(), objective="pending", pending=(pending_pod("large", "9"),))
    assert [(place.pod, place.node) for place in plan.places] == [("large", "c")]
    assert (plan.before["placedPods"], plan.after["placedPods"], plan.after["placed.cpu"]) == (0, 1, 9.0)
    assert plan.bound == 9.0


def test_pending_pod_that_fits_needs_no_move() -> None:
    plan = checked_plan(scattered_cluster(), objective="pending", pending=(pending_pod("small", "5"),))
    assert (plan.moves, len(plan.places)) == ((), 1)


def test_pod_of_higher_priority_outweighs_more_pods() -> None:
    important = pending_pod("important", "6")
    important = replace(important, spec=replace(important.spec, priority=10))
    pods = [app("a1", "4", on="a")]
    plan = checked_plan(
        snapshot_of([node_of_ten("a")], pods),
        objective="pending",
        pending=(pending_pod("one", "3"), pending_pod("two", "3"), important),
    )
    assert [place.pod for place in plan.places] == ["important"]


def test_pods_of_several_priorities_are_counted_by_figure_and_bound() -> None:
    pods = [pending_pod(f"p{number}", "6") for number in range(4)]
    pods = [replace(one, spec=replace(one.spec, priority=number % 2)) for number, one in enumerate(pods)]
    plan = checked_plan(scattered_cluster(), objective="pending", pending=tuple(pods))
    assert (plan.before["placedPods"], plan.after["placedPods"]) == (1, 2)
    assert (plan.bound, plan.after["gap"]) == (2, 0.0)


@pytest.mark.parametrize(
    ("reached", "most", "percent"),
    [
        pytest.param(3, 3, 0.0, id="proven optimal"),
        pytest.param(0, 0, 0.0, id="nothing to reach"),
        pytest.param(3, 4, 25.0, id="a quarter"),
        pytest.param(2, 3, 33.34, id="rounded up"),
        pytest.param(99_999, 100_000, 0.01, id="never 0 by rounding"),
    ],
)
def test_gap_is_0_only_for_proven_optima(reached: float, most: float, percent: float) -> None:
    assert gap_percent(reached, most) == percent


def test_amounts_without_common_divisor_are_reported_exactly() -> None:
    odd = {"large": "7Gi", "odd": "123456789"}
    pods = tuple(replace(pending_pod(name, "0"), spec=app(name, "0", memory).spec) for name, memory in odd.items())
    full = [app("a1", "0", "2Gi", on="a"), app("b1", "0", "4Gi", on="b")]
    plan = checked_plan(snapshot_of([node_of_ten("a"), node_of_ten("b")], full), objective="pending", pending=pods)
    assert (plan.after["placed.memory"], plan.bound) == (7 * 2**30 + 123456789, 7 * 2**30 + 123456789)


def test_gang_is_placed_as_a_whole() -> None:
    members, pod_groups = gang_members(pending_pod("g1", "6"), pending_pod("g2", "6"), least=2)
    plan = checked_plan(scattered_cluster(), objective="pending", pending=members, pod_groups=pod_groups)
    assert sorted(place.pod for place in plan.places) == ["g1", "g2"]


def test_gang_that_fits_needs_no_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "highspy", None)
    members, pod_groups = gang_members(pending_pod("g1", "5"), pending_pod("g2", "5"), pending_pod("g3", "6"), least=3)
    plan = checked_plan(scattered_cluster(), objective="pending", pending=members, pod_groups=pod_groups)
    assert (plan.before["placedPods"], len(plan.places), plan.moves) == (3, 3, ())


def test_gang_that_cannot_be_complete_gets_no_place() -> None:
    members, pod_groups = gang_members(pending_pod("g1", "6"), pending_pod("g2", "6"), pending_pod("g3", "6"), least=3)
    plan = checked_plan(scattered_cluster(), objective="pending", pending=members, pod_groups=pod_groups)
    assert (plan.moves, plan.places) == ((), ())


def test_pods_with_anti_affinity_stay_apart() -> None:
    def db(name: str, on: str) -> Pod:
        return app(name, "1", on=on, of="db", labels={"app": "db"}, affinity=APART)

    nodes = [node_of_ten(name, labels={"kubernetes.io/hostname": name}) for name in "abc"]
    plan = checked_plan(snapshot_of(nodes, [db("db-1", "a"), db("db-2", "b"), app("web", "2", on="c")]))
    assert (plan.after["freeNodes"], len(plan.moves)) == (1, 1)


def test_bound_assumes_that_pods_in_the_way_may_move() -> None:
    nodes = [node_of_ten(name, labels={"kubernetes.io/hostname": name}) for name in "ab"]
    snapshot = snapshot_of(nodes, [app("db", "1", on="a", labels={"app": "db"}), app("web", "5", on="b")])
    plan = checked_plan(snapshot, objective="pending", pending=(pending_pod("large", "9", affinity=APART),))
    assert plan.bound == 9.0


def test_exhausted_budget_keeps_its_pods_with_a_reason() -> None:
    snapshot = snapshot_of(
        [node_of_ten("a"), node_of_ten("b")], [app("web", "2", on="a", labels={"app": "web"}), app("b1", "9", on="b")]
    )
    plan = checked_plan(snapshot, budgets=[budget("web", 0, "web")])
    assert plan.moves == ()
    assert "web" in refusal_reasons(plan)


def test_same_snapshot_seed_and_work_limit_give_the_same_plan() -> None:
    plans = [checked_plan(scattered_cluster(), objective="slots", shape={"cpu": 5_000}, seed=3) for _ in range(2)]
    assert plans[0] == plans[1]


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        pytest.param({"objective": "slots"}, "shape", id="slots need a shape"),
        pytest.param({"objective": "slots", "shape": {"cpu": 0}}, "shape.cpu", id="shape with zero amounts"),
        pytest.param({"max_moves": -1}, "maxMoves", id="negative move limit"),
        pytest.param({"time_limit": 0.0}, "timeLimit", id="time limit of zero"),
        pytest.param({"work_limit": -1}, "workLimit", id="negative work limit"),
        pytest.param({"seed": -1}, "seed", id="a seed below zero"),
        pytest.param({"objective": "beauty"}, "objective", id="unknown objective"),
    ],
)
def test_senseless_request_is_refused_with_its_path(asked: dict[str, Any], path: str) -> None:
    with pytest.raises(WireError, match=path):
        checked_plan(scattered_cluster(), **asked)


@pytest.mark.parametrize("objective", ["free-nodes", "slots", "pending"])
@pytest.mark.parametrize(
    "snapshot",
    [
        pytest.param(snapshot_of([], []), id="no nodes"),
        pytest.param(snapshot_of([node_of_ten("a")], []), id="no pods"),
        pytest.param(snapshot_of([node_of_ten("a")], [app("lost", on="nowhere")]), id="a pod on an unknown node"),
        pytest.param(
            snapshot_of([node_of_ten("a"), node_of_ten("b")], [app("big", "15", on="a"), app("b1", on="b")]),
            id="over-committed",
        ),
    ],
)
@pytest.mark.parametrize("limit", [0, 5])
def test_odd_clusters_get_a_plan_that_lowers_no_figure(snapshot: Snapshot, objective: str, limit: int) -> None:
    plan = checked_plan(
        snapshot, objective=objective, shape={"cpu": 1_000}, pending=(pending_pod("new", "3"),), max_moves=limit
    )
    figure = {"free-nodes": "freeNodes", "slots": "slots", "pending": "placedPods"}[objective]
    assert plan.after[figure] >= plan.before[figure]


def test_shape_larger_than_every_node_is_reported() -> None:
    plan = checked_plan(scattered_cluster(), objective="slots", shape={"cpu": 64_000})
    assert plan.moves == ()
    assert "none of 3 nodes offers cpu=64, even when empty" in refusal_reasons(plan)[""]
