"""Which nodes are chosen: the proposal's sentences one by one, and the whole against trying every combination."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.model.cluster import RowIndex
from restow.model.guarantees import GuaranteeRequest
from restow.model.objects import GuaranteePolicy
from restow.queues.node_capacity import CapacityOfNodes, ResourceMatrix
from restow.queues.node_selection import (
    IDLE_WEIGHT,
    NODE_COUNT_WEIGHT,
    OVERSHOOT_WEIGHT,
    USED_WEIGHT,
    LockRequest,
    NodeCosts,
    select_nodes,
)
from tests.queues.node_capacity_fixture import node_capacity, node_spec, vector


def amounts(**written: str) -> GuaranteeRequest:
    return GuaranteeRequest(GuaranteePolicy.BEST_EFFORT, vector(**written), None, tuple(sorted(written)))


def number(nodes: int, *dimensions: str) -> GuaranteeRequest:
    return GuaranteeRequest(GuaranteePolicy.BEST_EFFORT, {}, nodes, dimensions)


def wish(node_capacity: CapacityOfNodes, asked: GuaranteeRequest, present: str = "", most: int = 99) -> LockRequest:
    places = [node_capacity.names.index(name) for name in present.split()]
    return LockRequest("q1", asked, node_capacity.schedulable.copy(), np.array(places, np.intp), most)


def chosen(nodes: dict[str, Any], asked: GuaranteeRequest, present: str = "", most: int = 99) -> str:
    cluster = node_capacity(nodes)
    choice = select_nodes(NodeCosts(cluster), wish(cluster, asked, present, most))
    return " ".join(cluster.names[column] for column in choice.nodes) + ("" if choice.is_enough else " not enough")


SENTENCES = [
    pytest.param(
        {"a": node_spec(), "b": node_spec(), "c": node_spec()},
        amounts(cpu="12"),
        "",
        "a b",
        id="no less than the request, by name",
    ),
    pytest.param(
        {"a": node_spec(8, 8), "b": node_spec(8, 64)},
        amounts(cpu="6", memory="32Gi"),
        "",
        "b",
        id="enough in every dimension",
    ),
    pytest.param(
        {"a": node_spec(64, 256), "b": node_spec(16, 64), "c": node_spec(8, 32)},
        amounts(cpu="7"),
        "",
        "c",
        id="not much more than the request",
    ),
    pytest.param(
        {"a": node_spec(), "b": node_spec(taken=1), "c": node_spec(own={"q1": 4})},
        amounts(cpu="7"),
        "",
        "c",
        id="rather nodes the queue uses already",
    ),
    pytest.param(
        {"a": node_spec(4, 16), "b": node_spec(4, 16), "c": node_spec(8, 32)},
        amounts(cpu="8"),
        "",
        "c",
        id="rather one node than two of half the size",
    ),
    pytest.param(
        {"a": node_spec(taken=4), "b": node_spec(taken=1), "c": node_spec(taken=2)},
        amounts(cpu="3"),
        "",
        "b",
        id="rather idle nodes",
    ),
    pytest.param(
        {"a": node_spec(), "b": node_spec(), "c": node_spec()},
        amounts(cpu="8"),
        "c",
        "c",
        id="equal alternatives do not flap",
    ),
    pytest.param(
        {"a": node_spec(), "b": node_spec(taken=1), "c": node_spec()},
        amounts(cpu="7"),
        "b",
        "b",
        id="nor ones that are little better",
    ),
    pytest.param(
        {"a": node_spec(8, 32), "b": node_spec(64, 256)},
        amounts(cpu="7"),
        "b",
        "a",
        id="a much better set replaces the present",
    ),
    pytest.param(
        {"a": node_spec(), "b": node_spec(), "c": node_spec()},
        amounts(cpu="8"),
        "b c",
        "b",
        id="what is no longer needed is given up",
    ),
    pytest.param(
        {"a": node_spec(), "b": node_spec(), "c": node_spec()},
        amounts(cpu="12"),
        "c",
        "a c",
        id="what is missing is added to the rest",
    ),
    pytest.param(
        {"a": node_spec(taken=6), "b": node_spec(taken=4)},
        amounts(cpu="7"),
        "",
        "b not enough",
        id="nothing is enough now: what will be once others have left",
    ),
    pytest.param(
        {"a": node_spec(), "b": node_spec()}, amounts(cpu="40"), "b", "b not enough", id="never enough: what there is"
    ),
    pytest.param(
        {"a": node_spec(), "b": node_spec(cordoned=True)}, amounts(cpu="12"), "", " not enough", id="not cordoned ones"
    ),
    pytest.param(
        {"a": node_spec(6, 24, tainted=True), "b": node_spec()},
        amounts(cpu="6"),
        "",
        "b",
        id="rather nodes without taints, even if others fit better",
    ),
    pytest.param(
        {"a": node_spec(tainted=True), "b": node_spec(taken=5)},
        amounts(cpu="6"),
        "a",
        "b not enough",
        id="also if others have to leave first",
    ),
    pytest.param(
        {"a": node_spec(tainted=True), "b": node_spec(4, 16)},
        amounts(cpu="6"),
        "",
        "a",
        id="tainted ones if no others would do",
    ),
    pytest.param(
        {"a": node_spec(tainted=True, own={"q1": 1}), "b": node_spec(taken=1)},
        amounts(cpu="7"),
        "",
        "a",
        id="a tainted node that the queue's pods are on is as good as any",
    ),
    pytest.param(
        {"a": node_spec(tainted=True), "b": node_spec(taken=7), "c": node_spec(taken=7)},
        number(2),
        "",
        "b c",
        id="a number likewise",
    ),
    pytest.param(
        {"a": node_spec(tainted=True), "b": node_spec()}, number(2), "", "a b", id="a number, tainted ones last"
    ),
    pytest.param({"a": node_spec(), "b": node_spec()}, amounts(), "a b", "", id="nothing is asked for"),
    pytest.param(
        {"a": node_spec(8, 0), "b": node_spec()}, amounts(memory="8Gi"), "", "b", id="a node that has none of it"
    ),
    pytest.param(
        {"b": node_spec(), "a": node_spec(), "c": node_spec()}, number(2), "", "a b", id="a number of nodes, by name"
    ),
    pytest.param(
        {"a": node_spec(), "b": node_spec(own={"q1": 2}), "c": node_spec(taken=7)},
        number(2),
        "",
        "a b",
        id="a number, by score",
    ),
    pytest.param(
        {"a": node_spec(), "b": node_spec(), "c": node_spec()}, number(2), "b c", "b c", id="a number does not flap"
    ),
    pytest.param(
        {"a": node_spec(), "b": node_spec()}, number(3), "", "a b not enough", id="fewer nodes than asked for"
    ),
    pytest.param(
        {"a": node_spec(8, 64), "b": node_spec(8, 32), "c": node_spec(16, 16)},
        number(1, "memory"),
        "",
        "c",
        id="as compared by memory",
    ),
]


@pytest.mark.parametrize(("nodes", "asked", "present", "expected"), SENTENCES)
def test_node_selection_prefers(nodes: dict[str, Any], asked: GuaranteeRequest, present: str, expected: str) -> None:
    assert chosen(nodes, asked, present) == expected


def test_node_selection_keeps_to_the_maximum_of_nodes() -> None:
    nodes = {"a": node_spec(4, 16), "b": node_spec(4, 16), "c": node_spec(64, 256)}
    assert [chosen(nodes, amounts(cpu="6"), most=most) for most in (2, 1, 0)] == ["a b", "c", " not enough"]


def score(node_capacity: CapacityOfNodes, queue: str, asked: GuaranteeRequest, nodes: RowIndex) -> float:
    """The score of a set of nodes, term by term as `choosing` says it."""
    lines = node_capacity.resource_indices(tuple(asked.amounts))
    everything = np.maximum(node_capacity.allocatable[lines][:, node_capacity.schedulable].sum(axis=1), 1)
    request = np.array(list(asked.amounts.values()), np.int64)

    def part(cells: ResourceMatrix) -> Any:
        return cells[:, nodes].sum(axis=1) / everything

    too_much = (part(node_capacity.allocatable[lines]) - request / everything).mean()
    few = len(nodes) / max(int(node_capacity.schedulable.sum()), 1)
    used, idle = part(node_capacity.usage_per_node(queue, lines)).mean(), part(node_capacity.idle[lines]).mean()
    return float(
        OVERSHOOT_WEIGHT * (1 - too_much) + USED_WEIGHT * used + NODE_COUNT_WEIGHT * (1 - few) + IDLE_WEIGHT * idle
    )


def test_node_selection_finds_a_perfect_fit() -> None:
    cluster = node_capacity({"a": node_spec(), "b": node_spec()})
    assert score(cluster, "q1", amounts(cpu="8"), np.array([0])) == pytest.approx(0.4 + 0.15 / 2 + 0.1 / 2)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[CapacityOfNodes, GuaranteeRequest]:
    sizes = st.sampled_from([(4, 16), (8, 32), (8, 64), (16, 32)])
    drawn = draw(st.lists(st.tuples(sizes, st.integers(0, 4), st.integers(0, 3)), min_size=2, max_size=7))
    cores, gigabytes = draw(st.integers(1, 30)), draw(st.integers(1, 120))
    nodes = {
        f"n{place}": node_spec(*size, taken=taken, own={"q1": own}) for place, (size, taken, own) in enumerate(drawn)
    }
    return node_capacity(nodes), amounts(cpu=str(cores), memory=f"{gigabytes}Gi")


def best_score(cluster: CapacityOfNodes, asked: GuaranteeRequest) -> float | None:
    """By trying every combination."""
    lines = cluster.resource_indices(tuple(asked.amounts))
    there = cluster.idle[lines] + cluster.usage_per_node("q1", lines)
    needs = np.array(list(asked.amounts.values()))
    every = range(len(cluster.names))
    sets = (one for size in range(1, len(every) + 1) for one in combinations(every, size))
    scores = [score(cluster, "q1", asked, np.array(one)) for one in sets if (there[:, one].sum(axis=1) >= needs).all()]
    return max(scores, default=None)


@settings(max_examples=60, deadline=None)
@given(clusters())
def test_node_selection_has_the_highest_score_of_all_combinations(
    drawn: tuple[CapacityOfNodes, GuaranteeRequest],
) -> None:
    cluster, asked = drawn
    choice, best = select_nodes(NodeCosts(cluster), wish(cluster, asked)), best_score(cluster, asked)
    assert choice.is_enough == (best is not None)
    assert best is None or score(cluster, "q1", asked, np.array(choice.nodes)) == pytest.approx(best, abs=1e-9)
    assert best is None or choice.gap == 0


@settings(max_examples=30, deadline=None)
@given(clusters())
def test_node_selection_keeps_locked_nodes(drawn: tuple[CapacityOfNodes, GuaranteeRequest]) -> None:
    cluster, asked = drawn
    first = select_nodes(NodeCosts(cluster), wish(cluster, asked))
    names = " ".join(cluster.names[column] for column in first.nodes)
    assert select_nodes(NodeCosts(cluster), wish(cluster, asked, names)).nodes == first.nodes


@settings(max_examples=30, deadline=None)
@given(clusters())
def test_score_of_every_selection_is_between_0_and_1(drawn: tuple[CapacityOfNodes, GuaranteeRequest]) -> None:
    cluster, asked = drawn
    choice = select_nodes(NodeCosts(cluster), wish(cluster, asked))
    assert not choice.is_enough or 0 <= score(cluster, "q1", asked, np.array(choice.nodes)) <= 1
