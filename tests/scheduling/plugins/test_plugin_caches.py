"""A plugin that saw any changes, kept or undone, answers like a new one."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.model.objects import (
    Container,
    ContainerImage,
    Node,
    ObjectMeta,
    Pod,
    PodSpec,
    ResourceRequirements,
    Taint,
    Toleration,
)
from restow.model.snapshot import Snapshot
from restow.scheduling.framework import Cycle, FilterPlugin, Plugin, ScorePlugin
from restow.scheduling.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from restow.scheduling.plugins.bin_packing import BinPacking
from restow.scheduling.plugins.image_locality import ImageLocality
from restow.scheduling.plugins.node_affinity import NodeAffinity
from restow.scheduling.plugins.node_resources_fit import NodeResourcesFit
from restow.scheduling.plugins.node_unschedulable import NodeUnschedulable
from restow.scheduling.plugins.taint_toleration import TaintToleration
from tests.model.cluster.builders import node, pod

MADE: list[Callable[[], Plugin]] = [
    TaintToleration,
    ImageLocality,
    NodeAffinity,
    NodeUnschedulable,
    NodeResourcesFit,
    BinPacking,
    NodeResourcesBalancedAllocation,
]
ASKED = Pod(
    metadata=ObjectMeta(name="new", uid="new"),
    spec=PodSpec(
        containers=[Container(image="web", resources=ResourceRequirements(requests={"cpu": "1"}))],
        node_selector={"zone": "a"},
        tolerations=[Toleration(key="k", value="1")],
    ),
)
EFFECTS = st.sampled_from(["NoSchedule", "PreferNoSchedule"])
TAINTS = st.lists(st.builds(Taint, key=st.just("k"), value=st.sampled_from(["1", "2"]), effect=EFFECTS), max_size=2)
NAME = st.sampled_from(["a", "b", "c", "d"])


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    made = node(
        draw(NAME),
        draw(st.sampled_from([None, {"cpu": "2", "pods": "4"}, {"pods": "1", "example.com/gpu": "1"}])),
        labels=draw(st.sampled_from([None, {"zone": "a"}, {"zone": "b"}])),
        taints=draw(TAINTS),
        unschedulable=draw(st.booleans()),
    )
    images = [ContainerImage(names=["web:latest"], size_bytes=draw(st.sampled_from([10, 500, 2000])) * 2**20)]
    return msgspec.structs.replace(
        made, status=msgspec.structs.replace(made.status, images=images if draw(st.booleans()) else None)
    )


CHANGES = st.one_of(
    st.tuples(st.just("node"), nodes()),
    st.tuples(st.just("gone"), nodes()),
    st.tuples(st.just("pod"), st.builds(lambda number, name: pod(f"p{number}", on=name), st.integers(0, 3), NAME)),
)


def carry_out(snapshot: Snapshot, what: str, value: Node | Pod) -> None:
    if isinstance(value, Pod):
        known = snapshot.pods.known.get(value.metadata.uid)
        (snapshot.remove_pod if known else snapshot.apply_pod)(known.pod if known else value)
    else:
        (snapshot.apply_node if what == "node" else snapshot.remove_node)(value)


def answers_of(plugin: Plugin, cycle: Cycle) -> list[object]:
    """Everything it says of nodes that exist."""
    rows = np.flatnonzero(cycle.snapshot.nodes.present[: cycle.snapshot.rows.size])
    answers: list[object] = []
    if isinstance(plugin, FilterPlugin):
        answers += [plugin.pre_filter(cycle).code, plugin.filter(cycle, rows).tolist()]
    if isinstance(plugin, ScorePlugin):
        answers += [plugin.pre_score(cycle).code, plugin.score(cycle, rows).tolist()]
    return answers


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(CHANGES, st.booleans()), min_size=1, max_size=10))
def test_plugin_with_caches_answers_like_a_new_one(steps: list[tuple[tuple[str, Node | Pod], bool]]) -> None:
    snapshot, kept = Snapshot(), [make() for make in MADE]
    for (what, value), tried in steps:
        mark = snapshot.mark()
        carry_out(snapshot, what, value)
        for plugin in kept:
            answers_of(plugin, Cycle(ASKED, snapshot, 0.0))
        if tried:
            snapshot.undo_to(mark)
        else:
            snapshot.keep(mark)
        cycle = Cycle(ASKED, snapshot, 0.0)
        assert [answers_of(plugin, cycle) for plugin in kept] == [answers_of(make(), cycle) for make in MADE]
