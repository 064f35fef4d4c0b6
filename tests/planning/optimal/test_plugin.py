"""The descheduler plugin Optimal: its arguments, and its plans in a cycle."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model.wire import WireError
from restow.planning.optimal.plugin import read_optimal, run_optimal_plugin
from restow.planning.plan import Plan
from tests.planning.clusters import NOW, app, move_triples, node_of_ten, plan_request, refusal_reasons, snapshot_of
from tests.planning.descheduling.plugin_requests import run_profile

STEPS = {"workLimit": 200}
PODS = [app("p", "2", on="a"), app("q", "3", on="b"), app("r", "4", on="c", namespace="shop")]


def plugin_plan(**arguments: Any) -> Plan:
    snapshot = snapshot_of([node_of_ten(name) for name in "abc"], PODS)
    fields = {"last_migrations": arguments.pop("last_migrations", {}), "max_moves": arguments.pop("most", 50)}
    return run_optimal_plugin(snapshot, plan_request(snapshot, {**STEPS, **arguments}, **fields))


def test_optimal_plugin_frees_nodes_in_a_cycle() -> None:
    found = run_profile(snapshot_of([node_of_ten(name) for name in "abc"], PODS), "Optimal", arguments=STEPS)
    assert found.planner_of.keys() >= {"uid-p"} and set(found.planner_of.values()) == {"Optimal"}
    assert (found.plan.before["freeNodes"], found.plan.after["freeNodes"]) == (0, 2)


def test_optimal_plugin_makes_slots_for_a_shape() -> None:
    plan = plugin_plan(objective="slots", shape={"cpu": "9"})
    assert (plan.before["slots"], plan.after["slots"]) == (0, 2)


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        pytest.param({"maxMoves": 1}, 1, id="limit of the plugin"),
        pytest.param({"maxMoves": 10, "most": 1}, 1, id="limit of the cycle"),
        pytest.param({"maxMoves": 0}, 0, id="none"),
    ],
)
def test_smaller_limit_of_moves_holds(arguments: dict[str, Any], number: int) -> None:
    assert len(plugin_plan(**arguments).moves) == number


def test_pods_left_out_by_arguments_stay() -> None:
    plan = plugin_plan(evictableNamespaces={"exclude": ["default"]})
    assert {move.pod for move in plan.moves} <= {"r"}
    assert "evictableNamespaces leaves out namespace default" in refusal_reasons(plan)["p"]


def test_nodes_in_their_cool_down_are_neither_sources_nor_targets() -> None:
    plan = plugin_plan(coolDownTime=600, last_migrations={"a": NOW - 100})
    assert all("a" not in (move.source, move.target) for move in plan.moves) and plan.moves
    assert "a rests after a migration less than 600s ago" in refusal_reasons(plan)["p"]


def test_same_arguments_give_the_same_plan() -> None:
    assert move_triples(plugin_plan(seed=7)) == move_triples(plugin_plan(seed=7))


def test_wrong_optimal_arguments_are_refused_with_their_paths() -> None:
    wrong = {
        "objective": "beauty",
        "shape": {"cpu": "many", "memory": "0"},
        "maxMoves": -1,
        "timeLimit": "0s",
        "workLimit": -1,
        "seed": -1,
        "coolDownTime": -1,
    }
    with pytest.raises(WireError) as error:
        read_optimal(wrong)
    paths = {problem.path for problem in error.value.problems}
    assert paths == {"objective", "shape.cpu", "shape.memory", *wrong.keys() - {"shape"}}
