"""Optimal, the plugin: its arguments, and the optimiser asked with them in a cycle."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model.wire import WireError
from restow.planning.optimal.plugin import plan_optimal_by_arguments, read_optimal
from restow.planning.plan import Plan
from tests.planning.clusters import NOW, app, cluster, moves, reasons, request, ten
from tests.planning.descheduling.plugin_requests import ask

STEPS = {"workLimit": 200}
PODS = [app("p", "2", on="a"), app("q", "3", on="b"), app("r", "4", on="c", namespace="shop")]


def planned(**arguments: Any) -> Plan:
    snapshot = cluster([ten(name) for name in "abc"], PODS)
    fields = {"last_migrations": arguments.pop("last_migrations", {}), "max_moves": arguments.pop("most", 50)}
    return plan_optimal_by_arguments(snapshot, request(snapshot, {**STEPS, **arguments}, **fields))


def test_it_frees_nodes_in_a_cycle() -> None:
    found = ask(cluster([ten(name) for name in "abc"], PODS), "Optimal", arguments=STEPS)
    assert found.planner_of.keys() >= {"uid-p"} and set(found.planner_of.values()) == {"Optimal"}
    assert (found.plan.before["freeNodes"], found.plan.after["freeNodes"]) == (0, 2)


def test_room_for_a_shape() -> None:
    found = planned(objective="slots", shape={"cpu": "9"})
    assert (found.before["slots"], found.after["slots"]) == (0, 2)


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        pytest.param({"maxMoves": 1}, 1, id="its own limit"),
        pytest.param({"maxMoves": 10, "most": 1}, 1, id="the limit of the cycle"),
        pytest.param({"maxMoves": 0}, 0, id="none"),
    ],
)
def test_the_smaller_limit_of_moves_holds(arguments: dict[str, Any], number: int) -> None:
    assert len(planned(**arguments).moves) == number


def test_pods_that_are_left_out_stay() -> None:
    found = planned(evictableNamespaces={"exclude": ["default"]})
    assert {move.pod for move in found.moves} <= {"r"}
    assert "evictableNamespaces leaves out namespace default" in reasons(found)["p"]


def test_nodes_that_rest_neither_give_nor_take() -> None:
    found = planned(coolDownTime=600, last_migrations={"a": NOW - 100})
    assert all("a" not in (move.source, move.target) for move in found.moves) and found.moves
    assert "a rests after a migration less than 600s ago" in reasons(found)["p"]


def test_the_same_arguments_give_the_same_plan() -> None:
    assert moves(planned(seed=7)) == moves(planned(seed=7))


def test_every_mistake_is_told_with_its_path() -> None:
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
    paths = {one.path for one in error.value.problems}
    assert paths == {"objective", "shape.cpu", "shape.memory", *wrong.keys() - {"shape"}}
