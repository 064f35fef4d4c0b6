"""The figures of a plan, as people read them."""

from __future__ import annotations

import pytest

from restow.planning.plan import Measures, Plan
from restow.showing.figures import Row, rows, verdict


def plan(objective: str, before: Measures, after: Measures, bound: float | None) -> Plan:
    return Plan(strategy="optimal", objective=objective, before=before, after=after, bound=bound)


FREE = plan(
    "free-nodes", {"freeNodes": 1, "utilisation.cpu": 40.0}, {"freeNodes": 3, "utilisation.cpu": 60, "gap": 0}, 3
)
SLOTS = plan("slots", {"slots": 17}, {"slots": 35, "gap": 5.4}, 37)
PENDING = plan(
    "pending",
    {"placedPods": 0, "pendingPods": 4, "placed.nvidia.com/gpu": 0},
    {"placedPods": 2, "pendingPods": 4, "placed.nvidia.com/gpu": 8, "gap": 0.0},
    8,
)


def test_every_figure_has_a_name_for_people() -> None:
    assert rows(FREE) == [
        Row("free nodes", "1", "3"),
        Row("cpu requested on nodes that are not free, %", "40", "60"),
    ]


def test_those_who_wait_are_the_whole_of_those_who_have_a_place() -> None:
    assert rows(PENDING) == [
        Row("waiting pods with a place", "0 of 4", "2 of 4"),
        Row("nvidia.com/gpu for waiting pods", "0", "8"),
    ]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        pytest.param(FREE, "3 free nodes: proven best, no plan of so many moves reaches more", id="proven"),
        pytest.param(
            SLOTS,
            "35 pods of the shape that fit: at most 5.4 % short of the best, "
            "no plan of so many moves reaches more than 37",
            id="a gap",
        ),
        pytest.param(
            PENDING, "8 nvidia.com/gpu for waiting pods: proven best, no plan of so many moves reaches more", id="gpus"
        ),
        pytest.param(plan("pending", {"placedPods": 0}, {"placedPods": 1}, None), "", id="no bound"),
        pytest.param(plan("", {"nodes": 3}, {"nodes": 3}, None), "", id="no objective"),
    ],
)
def test_how_good_a_plan_is(found: Plan, said: str) -> None:
    assert verdict(found) == said
