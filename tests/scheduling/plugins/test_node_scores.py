"""The scores a node earns by itself or by who is on it, by hand and against plain definitions."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.model.objects import (
    Affinity,
    Container,
    ContainerImage,
    Node,
    NodeAffinity,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    PreferredSchedulingTerm,
    SelectorRequirement,
    Taint,
    Toleration,
)
from restow.scheduling.framework import Code, Cycle, ScorePlugin
from restow.scheduling.plugins import allocation, node_affinity
from restow.scheduling.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from restow.scheduling.plugins.bin_packing import BinPacking
from restow.scheduling.plugins.few_rows import FEW
from restow.scheduling.plugins.image_locality import ImageLocality
from restow.scheduling.plugins.node_resources_fit import NodeResourcesFit
from restow.scheduling.plugins.taint_toleration import TaintToleration
from tests.model.cluster.builders import node, pod
from tests.scheduling.plugins.plugin_answers import cycle, scores

GI = 2**30
FOUR = {"cpu": "4", "memory": "8Gi", "pods": "10"}
GPU = {**FOUR, "example.com/gpu": "8"}


def fit(type: str, resources: dict[str, int] | None = None, shape: list[tuple[int, int]] | None = None) -> ScorePlugin:
    weights = [{"name": name, "weight": weight} for name, weight in (resources or {"cpu": 1, "memory": 1}).items()]
    strategy: dict[str, Any] = {"type": type, "resources": weights}
    if shape:
        points = [{"utilization": at, "score": score} for at, score in shape]
        strategy["requestedToCapacityRatio"] = {"shape": points}
    return NodeResourcesFit({"scoringStrategy": strategy})


OLD_BALANCE = NodeResourcesBalancedAllocation({"formula": "Balance"})
RATIO = "RequestedToCapacityRatio"


@pytest.mark.parametrize(
    ("plugin", "requests", "expected"),
    [
        pytest.param(NodeResourcesFit(), {"cpu": "1", "memory": "2Gi"}, 62, id="least: cpu 50, memory 75"),
        pytest.param(fit("MostAllocated"), {"cpu": "1", "memory": "2Gi"}, 37, id="most: cpu 50, memory 25"),
        pytest.param(fit("LeastAllocated", {"cpu": 3, "memory": 1}), {"cpu": "1", "memory": "2Gi"}, 56, id="weights"),
        pytest.param(NodeResourcesFit(), {}, 84, id="nothing asked counts as 100m and 200Mi"),
        pytest.param(NodeResourcesFit(), {"cpu": "0", "memory": "0"}, 87, id="zero asked is zero"),
        pytest.param(fit("LeastAllocated", {"cpu": 1, "example.com/gpu": 1}), {"cpu": "1"}, 50, id="gpu not asked for"),
        pytest.param(
            fit("MostAllocated", {"cpu": 1, "example.com/gpu": 1}),
            {"cpu": "1", "example.com/gpu": "8"},
            75,
            id="gpu asked for",
        ),
        pytest.param(
            fit(RATIO, shape=[(0, 0), (100, 10)]), {"cpu": "1", "memory": "2Gi"}, 38, id="rising line, rounded"
        ),
        pytest.param(fit(RATIO, shape=[(0, 10), (100, 0)]), {"cpu": "1", "memory": "2Gi"}, 63, id="falling line"),
        pytest.param(
            fit(RATIO, shape=[(50, 0), (100, 10)]), {"cpu": "3", "memory": "2Gi"}, 100, id="no zeroes counted"
        ),
        pytest.param(BinPacking(), {"cpu": "1", "memory": "2Gi"}, 37, id="packing: what is asked for"),
        pytest.param(BinPacking(), {"cpu": "1"}, 50, id="packing: nothing else"),
        pytest.param(BinPacking(), {"cpu": "1", "example.com/gpu": "8"}, 75, id="packing: gpus alike"),
        pytest.param(
            BinPacking({"weights": {"example.com/gpu": 4}}), {"cpu": "1", "example.com/gpu": "8"}, 90, id="more"
        ),
        pytest.param(BinPacking({"weights": {"cpu": 0}}), {"cpu": "1", "example.com/gpu": "2"}, 25, id="without cpu"),
        pytest.param(NodeResourcesBalancedAllocation(), {"cpu": "1", "memory": "4Gi"}, 81, id="becomes balanced"),
        pytest.param(NodeResourcesBalancedAllocation(), {"cpu": "2"}, 62, id="becomes one-sided"),
        pytest.param(OLD_BALANCE, {"cpu": "1", "memory": "4Gi"}, 100, id="before 1.36: is balanced"),
    ],
)
def test_score_strategies_of_a_node_with_a_quarter_of_its_cpu_taken(
    plugin: ScorePlugin, requests: dict[str, str], expected: int
) -> None:
    asked = cycle(pod("new", requests), [node("a", GPU)], [pod("p", {"cpu": "1", "memory": "0"}, on="a")])
    assert scores(plugin, asked) == {"a": expected}


@pytest.mark.parametrize("plugin", [NodeResourcesBalancedAllocation(), BinPacking()])
def test_allocation_scores_skip_pods_without_requests(plugin: ScorePlugin) -> None:
    assert scores(plugin, cycle(pod("new", {}), [node("a")])) is None


def test_resource_that_no_object_names_is_left_out_of_the_score() -> None:
    plugin = fit("LeastAllocated", {"cpu": 1, "ephemeral-storage": 1})
    assert scores(plugin, cycle(pod("new", {"cpu": "2"}), [node("a", FOUR)])) == {"a": 50}


def test_node_that_offers_nothing_scores_nothing() -> None:
    asked = cycle(pod("new", {"cpu": "2"}), [node("a", {"pods": "1"})])
    assert scores(NodeResourcesFit(), asked) == {"a": 0}


def test_amounts_beyond_an_int64_hundredfold_are_scored_exactly() -> None:
    offers = {"cpu": "4", "memory": "1Ei", "pods": "10"}
    nodes = [node(f"n{number:02}", offers) for number in range(2 * FEW)]
    asked = cycle(pod("new", {"cpu": "1", "memory": "512Pi"}), nodes)
    assert set((scores(fit("MostAllocated"), asked) or {}).values()) == {(25 + 50) // 2}


def preferring(*weights: int) -> dict[str, Any]:
    """Prefers nodes labelled 0 by the first weight, 1 by the second, and so on."""
    terms = [
        PreferredSchedulingTerm(
            weight=weight,
            preference=NodeSelectorTerm(
                match_expressions=[SelectorRequirement(key="n", operator="In", values=[str(number)])]
            ),
        )
        for number, weight in enumerate(weights)
    ]
    return {"affinity": Affinity(node_affinity=NodeAffinity(preferred=terms))}


def test_preferred_node_affinity_scores_in_proportion_to_the_best() -> None:
    asked = cycle(pod("new", **preferring(3, 2)), [node(str(number), labels={"n": str(number)}) for number in range(3)])
    assert scores(node_affinity.NodeAffinity(), asked) == {"0": 100, "1": 66, "2": 0}


def test_preferred_node_affinity_that_no_node_meets_scores_nothing() -> None:
    asked = cycle(pod("new", **preferring(3)), [node("a"), node("b")])
    assert scores(node_affinity.NodeAffinity(), asked) == {"a": 0, "b": 0}


def test_unreadable_preferred_node_affinity_is_an_error() -> None:
    bad = NodeSelectorTerm(match_expressions=[SelectorRequirement(key="n", operator="Gt", values=["x"])])
    preferred = [PreferredSchedulingTerm(weight=1, preference=bad)]
    asked = cycle(pod("new", affinity=Affinity(node_affinity=NodeAffinity(preferred=preferred))), [node("a")])
    assert node_affinity.NodeAffinity().pre_score(asked).code is Code.ERROR


def soft(*keys: str) -> list[Taint]:
    return [Taint(key=key, effect="PreferNoSchedule") for key in keys]


def test_soft_taints_score_in_inverse_proportion() -> None:
    nodes = [node("a"), node("b", taints=soft("x")), node("c", taints=soft("x", "y", "z"))]
    assert scores(TaintToleration(), cycle(pod("new"), nodes)) == {"a": 100, "b": 67, "c": 0}


def test_tolerated_soft_taints_do_not_count() -> None:
    tolerant = pod(
        "new", tolerations=[Toleration(key="x", operator="Exists"), Toleration(key="y", effect="NoSchedule")]
    )
    nodes = [node("a", taints=soft("x")), node("b", taints=soft("x", "y"))]
    assert scores(TaintToleration(), cycle(tolerant, nodes)) == {"a": 100, "b": 0}


@pytest.mark.parametrize("plugin", [TaintToleration(), node_affinity.NodeAffinity(), ImageLocality()])
def test_scores_skip_a_plain_pod_in_a_plain_cluster(plugin: ScorePlugin) -> None:
    assert plugin.pre_score(cycle(pod("new"), [node("a"), node("b")])).code is Code.SKIP


def holding(name: str, **images: int) -> Node:
    """A node with images of these sizes in MiB."""
    bare = node(name)
    kept = [ContainerImage(names=[f"{image}:latest"], size_bytes=size * 2**20) for image, size in images.items()]
    return msgspec.structs.replace(bare, status=msgspec.structs.replace(bare.status, images=kept))


def running(*images: str) -> Pod:
    return Pod(spec=PodSpec(containers=[Container(name=image, image=image) for image in images]))


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        pytest.param(["web"], {"a": 48, "b": 0}, id="half of the nodes, half of its size: (500 - 23) / (1000 - 23)"),
        pytest.param(["web:latest"], {"a": 48, "b": 0}, id="the tag may be left out"),
        pytest.param(["web:2"], None, id="another tag is another image"),
        pytest.param(["tiny"], None, id="small images do not matter"),
        pytest.param(["web", "web"], {"a": 49, "b": 0}, id="each container counts"),
        pytest.param(["web", "db"], {"a": 24, "b": 12}, id="a share of each"),
    ],
)
def test_image_locality_scores_by_size_and_spread_of_images(images: list[str], expected: dict[str, int] | None) -> None:
    asked = cycle(running(*images), [holding("a", web=1000, tiny=20), holding("b", db=550, tiny=20)])
    assert scores(ImageLocality(), asked) == expected


def test_image_locality_follows_images_that_come_and_go() -> None:
    plugin, asked = ImageLocality(), cycle(running("web"), [holding("a", web=1000), holding("b")])
    assert scores(plugin, asked) == {"a": 48, "b": 0}
    asked.snapshot.apply_node(holding("b", web=1000))
    assert scores(plugin, asked) is None, "all nodes have it"
    asked.snapshot.apply_node(holding("a"))
    assert scores(plugin, asked) == {"a": 0, "b": 48}
    asked.snapshot.remove_node(holding("b"))
    assert scores(plugin, asked) is None


# --- plain definitions ------------------------------------------------------------------------------------------------

AMOUNT = st.integers(0, 5)
NODE = st.fixed_dictionaries({"cpu": AMOUNT, "memory": AMOUNT, "example.com/gpu": AMOUNT})
NAMES = ["cpu", "memory", "example.com/gpu"]
LINE = [(10, 100), (40, 30), (90, 70)]


def least(requested: int, offered: int) -> int:
    return 0 if requested > offered else (offered - requested) * 100 // offered


def most(requested: int, offered: int) -> int:
    return min(requested, offered) * 100 // offered


def on_line(requested: int, offered: int) -> int:
    percent = most(requested, offered)
    if percent <= 10:
        return 100
    if percent <= 40:
        return 100 - 70 * (percent - 10) // 30
    return 30 + 40 * (percent - 40) // 50 if percent <= 90 else 70


def balance(shares: list[Fraction]) -> int | None:
    """100 * (1 - deviation) towards zero, by exact arithmetic; None too near to a whole number for floats to agree."""
    if len(shares) < 2:
        return 100
    mean = sum(shares, Fraction()) / len(shares)
    variance = sum(((share - mean) * (share - mean) for share in shares), Fraction()) / len(shares)
    scaled = variance * 10**28
    deviation = Fraction(isqrt(scaled.numerator // scaled.denominator), 10**14)
    exact = 100 * (1 - deviation)
    return None if abs(exact - round(exact)) < Fraction(1, 10**9) else int(exact)


def placed(nodes: list[dict[str, int]], used: list[dict[str, int]], asks: dict[str, int]) -> Cycle:
    def text(amounts: dict[str, int]) -> dict[str, str]:
        return {name: str(amount) for name, amount in amounts.items()}

    offers = [node(f"n{number:03}", {**text(one), "pods": "9"}) for number, one in enumerate(nodes)]
    pods = [pod(f"p{number}", text(one), on=f"n{number:03}") for number, one in enumerate(used[: len(nodes)])]
    return cycle(pod("new", text(asks)), offers, pods)


def amounts(name: str, offered: dict[str, int], used: dict[str, int], asks: dict[str, int]) -> tuple[int, int]:
    unit = 1000 if name == "cpu" else 1
    return (used[name] + asks[name]) * unit, offered[name] * unit


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(NODE, NODE), min_size=1, max_size=2 * FEW), NODE, st.lists(st.integers(1, 9), min_size=3))
def test_allocation_strategies_are_weighted_means(
    nodes: list[tuple[dict[str, int], dict[str, int]]], asks: dict[str, int], weights: list[int]
) -> None:
    asked = placed([offered for offered, _ in nodes], [used for _, used in nodes], asks)
    for plugin, of_resource in (
        (fit("LeastAllocated", dict(zip(NAMES, weights, strict=False))), least),
        (fit("MostAllocated", dict(zip(NAMES, weights, strict=False))), most),
        (BinPacking({"weights": dict(zip(NAMES, weights, strict=False))}), most),
    ):
        counted = NAMES[:2] + (NAMES[2:] if asks[NAMES[2]] else [])
        if isinstance(plugin, BinPacking):
            counted = [name for name in NAMES if asks[name]]
        expected = {}
        for number, (offered, used) in enumerate(nodes):
            parts = [
                (weights[NAMES.index(name)], amounts(name, offered, used, asks)) for name in counted if offered[name]
            ]
            total = sum(weight * of_resource(*both) for weight, both in parts)
            expected[f"n{number:03}"] = total // sum(weight for weight, _ in parts) if parts else 0
        assert scores(plugin, asked) == (expected if counted else None)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(NODE, NODE), min_size=1, max_size=2 * FEW), NODE)
def test_capacity_ratio_counts_only_resources_that_score(
    nodes: list[tuple[dict[str, int], dict[str, int]]], asks: dict[str, int]
) -> None:
    asked = placed([offered for offered, _ in nodes], [used for _, used in nodes], asks)
    expected = {}
    for number, (offered, used) in enumerate(nodes):
        parts = [on_line(*amounts(name, offered, used, asks)) for name in NAMES[:2] if offered[name]]
        expected[f"n{number:03}"] = int(Fraction(sum(parts), len(parts)) + Fraction(1, 2)) if parts else 0
    plugin = fit(RATIO, {"cpu": 1, "memory": 1}, [(at, score // 10) for at, score in LINE])
    assert scores(plugin, asked) == expected


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(NODE, NODE), min_size=1, max_size=2 * FEW), NODE)
def test_balanced_allocation_is_the_deviation_of_shares(
    nodes: list[tuple[dict[str, int], dict[str, int]]], asks: dict[str, int]
) -> None:
    asked = placed([offered for offered, _ in nodes], [used for _, used in nodes], asks)
    plugin = NodeResourcesBalancedAllocation({"resources": [{"name": name} for name in NAMES]})
    found = scores(plugin, asked)
    counted = NAMES[:2] + (NAMES[2:] if asks[NAMES[2]] else [])
    assert (found is None) is not any(asks[name] for name in NAMES)
    for number, (offered, used) in enumerate(nodes if found else []):
        have = [name for name in counted if offered[name]]
        before = balance([min(Fraction(1), Fraction(used[name], offered[name])) for name in have])
        after = balance([min(Fraction(1), Fraction(used[name] + asks[name], offered[name])) for name in have])
        if before is not None and after is not None and found is not None:
            assert found[f"n{number:03}"] == 50 + (50 + after - before) // 2


def test_scores_of_many_rows_and_of_few_rows_are_the_same() -> None:
    """Guards the comparisons above: with fewer rows both would go the same way."""
    asked = placed([{"cpu": 1, "memory": 1, "example.com/gpu": 1}] * (2 * FEW), [], {"cpu": 1, "memory": 1})
    rows = np.arange(2 * FEW)
    for plugin in (NodeResourcesFit(), BinPacking(), NodeResourcesBalancedAllocation()):
        assert plugin.score(asked, rows).tolist() == [int(plugin.score(asked, rows[:1])[0])] * len(rows)


@given(st.integers(1, allocation._EXACT), st.data())
def test_floating_point_quotients_are_exact(whole: int, data: st.DataObject) -> None:
    """Also where the true value misses a whole number by as little as can be."""
    near = data.draw(st.integers(0, 100)) * whole // 100 + data.draw(st.integers(-1, 1))
    part = min(max(near, 0), whole)
    found = allocation._quotient(np.array([part * 100]), np.array([whole]))
    assert found.tolist() == [part * 100 // whole]
