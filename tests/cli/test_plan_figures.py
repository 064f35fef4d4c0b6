"""The figures of a plan as rows of a table and as one sentence."""

from __future__ import annotations

import pytest

from restow.output.plan_figures import FigureRow, figure_rows, verdict
from restow.planning.plan import Measures, Plan


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


def test_figures_have_readable_names() -> None:
    assert figure_rows(FREE) == [
        FigureRow("free nodes", "1", "3"),
        FigureRow("cpu requested on occupied nodes, %", "40", "60"),
    ]


def test_placed_pods_are_shown_as_a_part_of_pending_pods() -> None:
    assert figure_rows(PENDING) == [
        FigureRow("pending pods with a place", "0 of 4", "2 of 4"),
        FigureRow("nvidia.com/gpu for pending pods", "0", "8"),
    ]


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        pytest.param(FREE, "3 free nodes; optimal: no plan within the move limit frees more nodes", id="proven"),
        pytest.param(
            SLOTS,
            "35 pods of the shape that fit; at most 5.4 % below the optimum: "
            "no plan within the move limit reaches more than 37",
            id="a gap",
        ),
        pytest.param(
            PENDING,
            "8 nvidia.com/gpu for pending pods; optimal: no plan within the move limit places more of them",
            id="gpus",
        ),
        pytest.param(plan("pending", {"placedPods": 0}, {"placedPods": 1}, None), "", id="no bound"),
        pytest.param(plan("", {"nodes": 3}, {"nodes": 3}, None), "", id="no objective"),
    ],
)
def test_verdict_names_the_distance_to_the_optimum(plan: Plan, sentence: str) -> None:
    assert verdict(plan) == sentence
