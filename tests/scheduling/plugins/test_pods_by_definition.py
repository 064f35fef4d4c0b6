"""Affinity and spread against their definitions, while pods and nodes come, change and go, and changes are undone."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from msgspec.structs import replace

from restow.model.cluster import Mark, Snapshot
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
from restow.scheduling.framework import Code, Cycle, FilterPlugin, ScorePlugin
from restow.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from restow.scheduling.plugins.topology_spread import PodTopologySpread
from tests.model.cluster.builders import node, pod
from tests.scheduling.plugins import by_definition
from tests.scheduling.plugins.by_definition import HOST_NAME, World

NODES = [f"n{number}" for number in range(6)]


def _expression(key: str, operator: str, *values: str) -> SelectorSpec:
    return SelectorSpec(
        match_expressions=[SelectorRequirement(key=key, operator=operator, values=list(values) or None)]
    )


node_labels = st.fixed_dictionaries(
    {},
    optional={
        "zone": st.sampled_from("ab"),
        "rack": st.sampled_from(["1", "2", ""]),
        HOST_NAME: st.sampled_from(NODES),
    },
)
taints = st.sampled_from([None, [Taint(key="gpu", effect="NoSchedule")], [Taint(key="x", effect="PreferNoSchedule")]])
pod_labels = st.fixed_dictionaries(
    {}, optional={"app": st.sampled_from(["web", "db"]), "hash": st.sampled_from("12"), "index": st.sampled_from("012")}
)
namespaces = st.sampled_from(["east", "west", "north"])
selectors = st.sampled_from(
    [
        None,
        SelectorSpec(),
        SelectorSpec(match_labels={"app": "web"}),
        SelectorSpec(match_labels={"app": "db"}),
        _expression("app", "In", "web", "db"),
        _expression("app", "NotIn", "web"),
        _expression("hash", "Exists"),
        _expression("hash", "DoesNotExist"),
    ]
)
keys = st.sampled_from(["zone", "zone", "rack", HOST_NAME])
terms = st.builds(
    PodAffinityTerm,
    topology_key=keys,
    label_selector=selectors,
    namespaces=st.sampled_from([None, None, ["east"], ["east", "west"]]),
    namespace_selector=st.sampled_from(
        [None, None, SelectorSpec(), SelectorSpec(match_labels={"team": "a"}), _expression("team", "NotIn", "a")]
    ),
    match_label_keys=st.sampled_from([None, None, ["hash"]]),
    mismatch_label_keys=st.sampled_from([None, None, ["app"]]),
)
weighted = st.builds(WeightedPodAffinityTerm, weight=st.integers(1, 100), pod_affinity_term=terms)
sides = st.none() | st.builds(
    PodAffinity, required=st.lists(terms, max_size=2), preferred=st.lists(weighted, max_size=2)
)
affinities = st.none() | st.builds(Affinity, pod_affinity=sides, pod_anti_affinity=sides)
constraints = st.builds(
    TopologySpreadConstraint,
    max_skew=st.integers(1, 3),
    topology_key=keys,
    when_unsatisfiable=st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    label_selector=selectors,
    min_domains=st.sampled_from([None, None, 1, 2, 3]),
    node_affinity_policy=st.sampled_from([None, "Honor", "Ignore"]),
    node_taints_policy=st.sampled_from([None, "Honor", "Ignore"]),
    match_label_keys=st.sampled_from([None, None, ["hash"], ["index", "app"]]),
)
pods = st.builds(
    pod,
    st.just("pod"),
    st.just({}),
    namespace=namespaces,
    labels=pod_labels,
    affinity=affinities,
    topology_spread_constraints=st.none() | st.lists(constraints, max_size=3),
    node_selector=st.sampled_from([None, None, {"zone": "a"}]),
    tolerations=st.sampled_from([None, [Toleration(key="gpu", operator="Exists")]]),
)


class PodsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.snapshot = Snapshot()
        self.world = World()
        self.marks: list[tuple[Mark, World]] = []
        self.affinity = InterPodAffinity()
        self.spread = PodTopologySpread()
        self.created = 0
        self.probes: list[Pod] = []

    # --- what happens -------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NODES), labels=node_labels, taints=taints)
    def show_node(self, name: str, labels: dict[str, str], taints: Any) -> None:
        self.world.nodes[name] = node(name, labels=labels, taints=taints)
        self.snapshot.apply_node(self.world.nodes[name])

    @precondition(lambda self: self.world.nodes)
    @rule(data=st.data())
    def remove_node(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.world.nodes)))
        self.snapshot.remove_node(self.world.nodes.pop(name))

    @rule(one=pods, where=st.sampled_from(NODES), again=st.integers(1, 3))
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
    @rule(data=st.data(), change=st.sampled_from(["leave", "relabel", "remove", "remove"]), labels=pod_labels)
    def change_pod(self, data: st.DataObject, change: str, labels: dict[str, str]) -> None:
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

    @rule(name=namespaces, labels=st.sampled_from([None, {}, {"team": "a"}, {"team": "b"}]))
    def label_namespace(self, name: str, labels: dict[str, str] | None) -> None:
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
    @rule(one=pods)
    def ask(self, one: Pod) -> None:
        self.probes = [*self.probes[-3:], one]
        self._check(one)

    @precondition(lambda self: self.world.nodes and self.probes)
    @rule()
    def ask_again(self) -> None:
        for one in self.probes:
            self._check(one)

    def _check(self, one: Pod) -> None:
        self._check_filter(self.affinity, one, by_definition.affinity_refusal)
        self._check_filter(self.spread, one, by_definition.spread_refusal)
        self._check_scores(self.affinity, one, by_definition.affinity_scores)
        self._check_scores(self.spread, one, by_definition.spread_scores)

    def _check_filter(self, plugin: FilterPlugin, one: Pod, definition: Any) -> None:
        cycle = Cycle(one, self.snapshot, 0.0)
        expected = {name: definition(self.world, one, shown) for name, shown in self.world.nodes.items()}
        if plugin.pre_filter(cycle).code is Code.SKIP:
            assert not any(expected.values())
            return
        every = plugin.filter(cycle, self.snapshot.rows.every)
        for name, reason in expected.items():
            row = self.snapshot.rows.find(name)
            assert row is not None
            only = np.array([row])
            assert bool(every[row]) == bool(plugin.filter(cycle, only)[0]) == (reason is None), (name, reason)
            assert [refusal.reason for refusal in plugin.refusals(cycle, only)] == ([reason] if reason else [])

    def _check_scores(self, plugin: ScorePlugin, one: Pod, definition: Any) -> None:
        cycle = Cycle(one, self.snapshot, 0.0)
        names = sorted(self.world.nodes)[: 1 + self.created % len(self.world.nodes)]
        rows = np.array([self.snapshot.rows.find(name) for name in names])
        if plugin.pre_score(cycle).code is Code.SKIP:
            self._check_alike(one, definition)
            return
        scores = plugin.normalize(cycle, plugin.score(cycle, rows))
        assert dict(zip(names, scores.tolist(), strict=True)) == definition(self.world, one, names)

    def _check_alike(self, one: Pod, definition: Any) -> None:
        """Who has nothing to say would have rated all feasible nodes the same."""
        nodes = self.world.nodes.items()
        feasible = [name for name, shown in nodes if not by_definition.affinity_refusal(self.world, one, shown)]
        assert not feasible or len(set(definition(self.world, one, feasible).values())) == 1


PodsMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestPods = PodsMachine.TestCase
