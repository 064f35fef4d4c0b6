"""Rankings: whatever changes in the cluster, the choice is the one that a look at every node makes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.model.cluster import Which, row_states
from restow.model.objects import Taint
from restow.scheduling.accelerated import RoomOnly
from restow.scheduling.engine import Engine
from restow.scheduling.framework import Cycle, Plugin, Reach, ScorePlugin, Scores
from restow.scheduling.ranking import key_blocks, rankings, topology_buckets
from restow.scheduling.schedule_result import NodeFound
from tests.model.cluster.builders import node, pod
from tests.scheduling.core.sample_plugins import (
    NodeEligible,
    OnePodPerNode,
    RoomFit,
    ScoresLabelNumber,
    cluster,
    cycle,
    node_of,
)


class Crowded(ScorePlugin):
    """The fewer pods on a node the better, compared with all others."""

    name: ClassVar[str] = "Crowded"
    reach: ClassVar[Reach] = Reach.CLUSTER

    def score(self, cycle: Cycle, rows: Which) -> Scores:
        names = [cycle.snapshot.rows.name(row) for row in cycle.snapshot.rows.numbers(rows)]
        return np.array([len(cycle.snapshot.occupants(name)) if name else 0 for name in names], np.int64)

    def normalize_score(self, cycle: Cycle, raw: Scores) -> Scores:
        return 100 - raw * 100 // max(1, int(raw.max()))


def naive(engine: Engine, cycle_of_pod: Cycle) -> str | None:
    """The best by asking every filter and score about every node."""
    snapshot = cycle_of_pod.snapshot
    rows = np.array([snapshot.rows.find_row(name) for name in snapshot.rows.names() if snapshot.node(name)], np.intp)
    for plugin in engine.plugins:
        if hasattr(plugin, "filter") and len(rows):
            rows = rows[plugin.filter(cycle_of_pod, rows)]
    if len(rows) == 0:
        return None
    total = np.zeros(len(rows), np.int64)
    for plugin, weight in engine.scores:
        total += weight * plugin.normalize_score(cycle_of_pod, plugin.score(cycle_of_pod, rows))
    return min((-score, snapshot.rows.name(row)) for score, row in zip(total.tolist(), rows.tolist(), strict=True))[1]


class FitByRoom(RoomFit, RoomOnly):
    """The same, asked about one row of all that have the same room."""

    name: ClassVar[str] = "FitByRoom"


NAMES = st.sampled_from([f"n{number}" for number in range(12)])
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("node"), NAMES, st.integers(1, 6), st.booleans()),
        st.tuples(st.just("gone"), NAMES),
        st.tuples(st.just("pod"), NAMES, st.integers(0, 20)),
        st.tuples(st.just("over"), st.integers(0, 20)),
        st.tuples(st.just("place"), st.integers(1, 2), st.booleans(), st.integers(1, 6)),
        st.tuples(st.just("try"), NAMES),
    ),
    max_size=40,
)
PLUGINS = {
    "rows only": [NodeEligible, RoomFit],
    "rooms only": [NodeEligible, FitByRoom],
    "rooms and rows": [FitByRoom, NodeEligible, RoomFit],
    "asked of the cluster": [NodeEligible, RoomFit, OnePodPerNode],
    "compared by node": [NodeEligible, RoomFit, ScoresLabelNumber],
    "compared in the cluster": [NodeEligible, RoomFit, OnePodPerNode, ScoresLabelNumber, Crowded],
}


@pytest.fixture(autouse=True, params=[1, 100], ids=["in buckets", "all at once"])
def _small_blocks(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Blocks of four, so that a few nodes already fill several."""
    monkeypatch.setattr(key_blocks, "BLOCK", 4)
    monkeypatch.setattr(rankings, "BLOCK", 4)
    monkeypatch.setattr(topology_buckets, "_ROWS_PER_BUCKET", request.param)
    monkeypatch.setattr(row_states, "_SPARE", 8 * request.param)  # rows share states now and then, or always


@pytest.mark.parametrize("kinds", PLUGINS.values(), ids=PLUGINS)
@settings(max_examples=80, deadline=None)
@given(events=EVENTS)
def test_ranking_chooses_like_a_look_at_every_node(kinds: list[type[Plugin]], events: list[tuple[Any, ...]]) -> None:
    engine = Engine([kind() for kind in kinds], {"Numbered": 2})
    snapshot = cluster(*(node(f"n{number}", {"cpu": "5", "pods": "9"}, labels={"n": "2"}) for number in range(3)))
    placed = 0
    for event in events:
        match event:
            case ("node", name, cpu, tainted):
                taints = [Taint(key="k", effect="NoSchedule")] if tainted else None
                snapshot.apply_node(
                    node(name, {"cpu": str(cpu), "pods": "9"}, labels={"n": str(cpu % 3)}, taints=taints)
                )
            case ("gone", name):
                snapshot.remove_node(node(name))
            case ("pod", name, number):
                snapshot.apply_pod(pod(f"old{number}", on=name, labels={"app": "x"}))
            case ("over", number):
                snapshot.remove_pod(pod(f"old{number}"))
            case ("try", name):
                mark = snapshot.mark()
                snapshot.apply_node(node(name, {"cpu": "9", "pods": "9"}))
                engine.find_node(cycle(snapshot))
                snapshot.undo_to(mark)
            case ("place", cpu, apart, times):
                for _ in range(times):
                    placed += 1
                    one = pod(f"new{placed}", {"cpu": str(cpu)}, labels={"app": "x"} if apart else None)
                    cycle_of_pod = cycle(snapshot, one)
                    found = engine.find_node(cycle_of_pod)
                    assert (found.node if isinstance(found, NodeFound) else None) == naive(engine, cycle_of_pod)
                    if isinstance(found, NodeFound):
                        snapshot.assume(one, found.node, at=0.0)


def test_better_row_of_another_block_is_found_behind_a_refused_one() -> None:
    cpus = {"n0": ("100", "1"), "n1": ("10", "5"), "n2": ("10", "5"), "n3": ("10", "5"), "n4": ("10", "1")}
    there = [node(name, {"cpu": cpu, "pods": "9"}) for name, (cpu, _) in cpus.items()]
    old = [pod(f"on-{name}", {"cpu": used}, on=name, labels={"app": name}) for name, (_, used) in cpus.items()]
    engine, snapshot = Engine([RoomFit(), OnePodPerNode()]), cluster(*there, pods=old)
    assert node_of(engine.find_node(cycle(snapshot, pod("p", labels={"app": "n0"})))) == "n4"


def test_ranking_sees_rows_beyond_the_first_arrays() -> None:
    engine, snapshot = Engine([RoomFit(), ScoresLabelNumber()]), cluster(node("a", {"cpu": "1", "pods": "9"}))
    assert node_of(engine.find_node(cycle(snapshot))) == "a"
    for number in range(200):
        snapshot.apply_pod(pod(f"lost{number}", on=f"unknown{number}"))
        assert node_of(engine.find_node(cycle(snapshot))) == "a"
    snapshot.apply_node(node("b", {"cpu": "2", "pods": "9"}))
    assert node_of(engine.find_node(cycle(snapshot, pod("p", {"cpu": "2"})))) == "b"
