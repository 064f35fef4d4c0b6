"""Affinity and spread against their definitions, while pods and nodes come, change and go, and changes are undone."""

from __future__ import annotations

import copy
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from restow.model.cluster import Mark, affinity_index, topology_domains
from restow.model.objects import (
    Affinity,
    Namespace,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    SelectorRequirement,
    SelectorSpec,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from restow.model.snapshot import Snapshot
from restow.scheduling.framework import Code, Cycle, FilterPlugin, ScorePlugin
from restow.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from restow.scheduling.plugins.topology_spread import PodTopologySpread
from restow.scheduling.ranking import class_state
from tests.model.cluster.builders import node, pod
from tests.scheduling.plugins import pods_by_definition
from tests.scheduling.plugins.pods_by_definition import HOST_NAME, World

NODES = [f"n{number}" for number in range(6)]
Labels = dict[str, str]


def _expression(key: str, operator: str, *values: str) -> SelectorSpec:
    return SelectorSpec(
        match_expressions=[SelectorRequirement(key=key, operator=operator, values=list(values) or None)]
    )


ZONES: list[Labels] = [{}, {"zone": "a"}, {"zone": "a"}, {"zone": "b"}, {"zone": "b"}, {"zone": "c"}]
RACKS: list[Labels] = [{}, {"rack": "1"}, {"rack": "1"}, {"rack": ""}]
TAINTS = [None, None, [Taint(key="gpu", effect="NoSchedule")], [Taint(key="x", effect="PreferNoSchedule")]]
NAMESPACES = ["east", "west"]
POD_LABELS = [{}, *({"app": app, **more} for app in ("web", "db") for more in ({}, {"hash": "1"}, {"hash": "2"}))]
SELECTORS = [
    None,
    SelectorSpec(),
    SelectorSpec(match_labels={"app": "web"}),
    SelectorSpec(match_labels={"app": "db"}),
    _expression("app", "In", "web", "db"),
    _expression("app", "NotIn", "web"),
    _expression("hash", "Exists"),
    _expression("hash", "DoesNotExist"),
]
KEYS = ["zone", "zone", "rack", HOST_NAME]


def _term(rng: Random) -> PodAffinityTerm:
    return PodAffinityTerm(
        topology_key=rng.choice(KEYS),
        label_selector=rng.choice(SELECTORS),
        namespaces=rng.choice([None, None, None, ["east"], ["east", "west"]]),
        namespace_selector=rng.choice(
            [
                None,
                None,
                None,
                SelectorSpec(),
                SelectorSpec(match_labels={"team": "a"}),
                _expression("team", "NotIn", "a"),
            ]
        ),
        match_label_keys=rng.choice([None, None, ["hash"]]),
        mismatch_label_keys=rng.choice([None, None, None, ["app"]]),
    )


def _side(rng: Random) -> PodAffinity | None:
    return PodAffinity(
        required=[_term(rng) for _ in range(rng.choice([0, 0, 1, 1, 2]))],
        preferred=[
            WeightedPodAffinityTerm(weight=rng.randint(1, 100), pod_affinity_term=_term(rng))
            for _ in range(rng.choice([0, 0, 1, 2]))
        ],
    )


def _constraint(rng: Random) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=rng.randint(1, 2),
        topology_key=rng.choice(KEYS),
        when_unsatisfiable=rng.choice(["DoNotSchedule", "ScheduleAnyway"]),
        label_selector=rng.choice(SELECTORS),
        min_domains=rng.choice([None, None, 1, 2, 3]),
        node_affinity_policy=rng.choice([None, "Honor", "Ignore"]),
        node_taints_policy=rng.choice([None, "Honor", "Ignore"]),
        match_label_keys=rng.choice([None, None, ["hash"], ["hash", "app"]]),
    )


def _pod(rng: Random) -> Pod:
    return pod(
        "pod",
        {},
        namespace=rng.choice(NAMESPACES),
        labels=rng.choice(POD_LABELS),
        affinity=rng.choice([None, Affinity(pod_affinity=_side(rng)), Affinity(pod_anti_affinity=_side(rng))]),
        topology_spread_constraints=[_constraint(rng) for _ in range(rng.choice([0, 1, 1, 2, 3]))],
        node_selector=rng.choice([None, None, {"zone": "a"}]),
        tolerations=rng.choice([None, [Toleration(key="gpu", operator="Exists")]]),
    )


def _plain(rng: Random) -> Pod:
    return pod("pod", {}, namespace=rng.choice(NAMESPACES), labels=rng.choice(POD_LABELS))


# Drawn from pools, because an example of many big draws would be cut short before anything meets anything.
PROBES = [_pod(Random(seed)) for seed in range(400)]
PODS = [*PROBES[:200], *(_plain(Random(seed)) for seed in range(200))]


class PodsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.snapshot = Snapshot()
        self.world = World()
        self.marks: list[tuple[Mark, World]] = []
        self.affinity = InterPodAffinity()
        self.spread = PodTopologySpread()
        self.created = 0
        self.asked = 0
        self.seed = 0

    # --- what happens -------------------------------------------------------------------------------------------------

    @initialize(seed=st.integers(0, 400), placed=st.lists(st.sampled_from(PODS), max_size=12))
    def start(self, seed: int, placed: list[Pod]) -> None:
        self.seed = seed
        for name, zone in zip(NODES, ZONES, strict=True):
            self.show_node(name, zone, {"rack": "1"}, None, {HOST_NAME: name})
        for number, one in enumerate(placed):
            self.place(one, NODES[number % len(NODES)], 1)

    @rule(
        name=st.sampled_from(NODES),
        zone=st.sampled_from(ZONES),
        rack=st.sampled_from(RACKS),
        taints=st.sampled_from(TAINTS),
        host=st.sampled_from([{}, {HOST_NAME: "n0"}, {HOST_NAME: "n5"}]),
    )
    def show_node(self, name: str, zone: Labels, rack: Labels, taints: list[Taint] | None, host: Labels) -> None:
        self.world.nodes[name] = node(name, labels={**zone, **rack, **host}, taints=taints)
        self.snapshot.apply_node(self.world.nodes[name])

    @precondition(lambda self: self.world.nodes)
    @rule(data=st.data())
    def remove_node(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.world.nodes)))
        self.snapshot.remove_node(self.world.nodes.pop(name))

    @rule(one=st.sampled_from(PODS), where=st.sampled_from(NODES), again=st.integers(1, 3))
    def place(self, one: Pod, where: str, again: int) -> None:
        for _ in range(again):
            self.created += 1
            name = f"p{self.created}"
            metadata = replace(one.metadata, name=name, uid=name)
            placed = replace(one, metadata=metadata, spec=replace(one.spec, node_name=where))
            self.world.placed.append((placed, where))
            if where in self.world.nodes and self.created % 2:
                self.snapshot.assume(replace(one, metadata=metadata), where, at=0.0)
            else:
                self.snapshot.apply_pod(placed)

    @precondition(lambda self: self.world.placed)
    @rule(
        data=st.data(),
        change=st.sampled_from(["leave", "relabel", "remove", "remove"]),
        labels=st.sampled_from(POD_LABELS),
    )
    def change_pod(self, data: st.DataObject, change: str, labels: Labels) -> None:
        position = data.draw(st.integers(0, len(self.world.placed) - 1))
        one, where = self.world.placed.pop(position)
        if change == "remove":
            self.snapshot.remove_pod(one)
            return
        metadata = {
            "leave": replace(one.metadata, deletion_timestamp="2026-01-01T00:00:00Z"),
            "relabel": replace(one.metadata, labels=labels),
        }[change]
        changed = replace(one, metadata=metadata)
        self.world.placed.append((changed, where))
        self.snapshot.apply_pod(changed)

    @rule(name=st.sampled_from(NAMESPACES), labels=st.sampled_from([None, {}, {"team": "a"}, {"team": "b"}]))
    def label_namespace(self, name: str, labels: Labels | None) -> None:
        shown = Namespace(metadata=ObjectMeta(name=name, labels=labels))
        if labels is None:
            self.world.namespaces.pop(name, None)
            self.snapshot.remove_namespace(shown)
        else:
            self.world.namespaces[name] = labels
            self.snapshot.apply_namespace(shown)

    @rule()
    def mark(self) -> None:
        self.marks.append((self.snapshot.mark(), copy.deepcopy(self.world)))

    @precondition(lambda self: self.marks)
    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        position = data.draw(st.integers(0, len(self.marks) - 1))
        mark, self.world = self.marks[position]
        del self.marks[position:]
        self.snapshot.undo_to(mark)

    # --- what must hold -----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.world.nodes)
    @invariant()
    def answers_are_as_defined(self) -> None:
        """One pod is new each time, and two are asked about again and again."""
        self.asked += 1
        for number in (self.seed, self.seed + 1, self.seed + 2 + self.asked):
            self._check(PROBES[number * 7 % len(PROBES)])

    def _check(self, one: Pod) -> None:
        self._check_filter(self.affinity, one, pods_by_definition.affinity_refusal)
        self._check_filter(self.spread, one, pods_by_definition.spread_refusal)
        self._check_scores(self.affinity, one, pods_by_definition.affinity_scores)
        self._check_scores(self.spread, one, pods_by_definition.spread_scores)

    def _check_filter(self, plugin: FilterPlugin, one: Pod, definition: Any) -> None:
        cycle = Cycle(one, self.snapshot, 0.0)
        expected = {name: definition(self.world, one, shown) for name, shown in self.world.nodes.items()}
        if plugin.pre_filter(cycle).code is Code.SKIP:
            assert not any(expected.values())
            return
        every = plugin.filter(cycle, self.snapshot.rows.every)
        for name, reason in expected.items():
            row = self.snapshot.rows.find_row(name)
            assert row is not None
            only = np.array([row])
            assert bool(every[row]) == bool(plugin.filter(cycle, only)[0]) == (reason is None), (name, reason)
            assert [refusal.reason for refusal in plugin.refusals(cycle, only)] == ([reason] if reason else [])

    def _check_scores(self, plugin: ScorePlugin, one: Pod, definition: Any) -> None:
        cycle = Cycle(one, self.snapshot, 0.0)
        names = sorted(self.world.nodes)[: 1 + self.created % len(self.world.nodes)]
        rows = np.array([self.snapshot.rows.find_row(name) for name in names])
        if plugin.pre_score(cycle).code is Code.SKIP:
            self._check_alike(one, definition)
            return
        scores = plugin.normalize_score(cycle, plugin.score(cycle, rows))
        assert dict(zip(names, scores.tolist(), strict=True)) == definition(self.world, one, names)

    def _check_alike(self, one: Pod, definition: Any) -> None:
        """Who has nothing to say would have rated all feasible nodes the same."""
        nodes = self.world.nodes.items()
        feasible = [name for name, shown in nodes if not pods_by_definition.affinity_refusal(self.world, one, shown)]
        assert not feasible or len(set(definition(self.world, one, feasible).values())) == 1


class CrampedPodsMachine(PodsMachine):
    """The same while hardly anything is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = [
            patch.object(affinity_index, "_MAX_POD_COUNTS", 8),
            patch.object(affinity_index, "_MAX_IDLE_GROUPS", 1),
            patch.object(topology_domains, "_JOURNAL_LIMIT", 2),
            patch.object(class_state, "_MOST_CLASSES", 2),
        ]
        for limit in self.limits:
            limit.start()

    def teardown(self) -> None:
        for limit in self.limits:
            limit.stop()


SETTINGS = settings(max_examples=20, stateful_step_count=20, deadline=None)
PodsMachine.TestCase.settings = SETTINGS
CrampedPodsMachine.TestCase.settings = SETTINGS
TestPods = PodsMachine.TestCase
TestPodsCramped = CrampedPodsMachine.TestCase
