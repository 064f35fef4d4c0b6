"""The caches of the engine change no placement: sessions end as with an engine that caches nothing."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest

from restow.model.objects import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    SelectorRequirement,
    SelectorSpec,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from restow.scheduling.decisions import Assign, RefusePod
from restow.scheduling.engine import Engine
from restow.scheduling.framework import Cycle
from restow.scheduling.pod_group_cache import PodGroupCache
from restow.scheduling.registry import read_profile
from restow.scheduling.schedule_result import NodeFound, NoNodeFound
from restow.scheduling.session import PendingWork, Session
from tests.model.cluster.builders import node, pod
from tests.scheduling.core.sample_plugins import cluster

SEEDS = range(int(os.environ.get("RESTOW_SEEDS", "12")))
NODES, CLASSES, SESSIONS, PODS = 40, 6, 4, 30
HOST = "kubernetes.io/hostname"


class Forgetful(Engine):
    """Works everything out anew, about all nodes at once, for every pod."""

    def find_node(self, cycle: Cycle, **options: Any) -> NodeFound | NoNodeFound:
        return read_profile({}).engine.find_node(cycle, **options)


def nodes_of(random: Random) -> list[Node]:
    return [
        node(
            f"n{number:02}",
            {"cpu": str(random.randint(2, 12)), "memory": f"{random.randint(4, 24)}Gi", "pods": "8"},
            labels={HOST: f"n{number:02}", "zone": random.choice("abc"), "disk": random.choice(["ssd", "hdd"])},
            taints=[Taint(key="k", effect="PreferNoSchedule")] if random.random() < 0.2 else None,
            unschedulable=random.random() < 0.1 or None,
        )
        for number in range(NODES)
    ]


def constraint_of(random: Random, app: str) -> dict[str, Any]:
    alike = SelectorSpec(match_labels={"app": app})
    term = PodAffinityTerm(topology_key=random.choice([HOST, "zone"]), label_selector=alike)
    liked = [WeightedPodAffinityTerm(weight=random.randint(1, 100), pod_affinity_term=term)]
    on_ssd = NodeSelectorTerm(match_expressions=[SelectorRequirement(key="disk", operator="In", values=["ssd"])])
    preferred = NodeAffinity(preferred=[PreferredSchedulingTerm(weight=random.randint(1, 100), preference=on_ssd)])
    skew = TopologySpreadConstraint(
        max_skew=random.randint(1, 2),
        topology_key=random.choice([HOST, "zone"]),
        when_unsatisfiable=random.choice(["DoNotSchedule", "ScheduleAnyway"]),
        label_selector=alike,
    )
    kinds: list[dict[str, Any]] = [
        {},
        {"node_selector": {"zone": random.choice("abc")}},
        {"tolerations": [Toleration(key="k", operator="Exists")]},
        {"topology_spread_constraints": [skew]},
        {"affinity": Affinity(node_affinity=preferred)},
        {"affinity": Affinity(pod_affinity=PodAffinity(required=[term]))},
        {"affinity": Affinity(pod_anti_affinity=PodAffinity(required=[term]))},
        {"affinity": Affinity(pod_affinity=PodAffinity(preferred=liked))},
        {"affinity": Affinity(pod_anti_affinity=PodAffinity(preferred=liked))},
    ]
    return random.choice(kinds)


def name_of(session: int, index: int, own: int) -> str:
    """By which pods of a session are in runs of one class, or classes take turns."""
    return f"p{own}-{session}-{index:02}" if session % 2 else f"p-{session}-{index:02}"


def outcome(engine: Engine, seed: int) -> list[tuple[str, str]]:
    """What happens to every pod of several sessions, between which pods end and nodes change."""
    random, profile, pod_groups = Random(seed), read_profile({}), PodGroupCache()
    snapshot, results = cluster(*nodes_of(random)), []
    requests = [
        {"cpu": f"{random.randint(1, 20)}00m", "memory": f"{random.randint(1, 30)}00Mi"} for _ in range(CLASSES)
    ]
    shapes = [(asked, constraint_of(random, f"app{own}")) for own, asked in enumerate(requests)]
    for number in range(SESSIONS):
        chosen = [random.randrange(CLASSES) for _ in range(PODS)]
        waiting = [
            pod(name_of(number, index, own), shapes[own][0], labels={"app": f"app{own}"}, **shapes[own][1])
            for index, own in enumerate(chosen)
        ]
        decisions = Session(snapshot, engine, pod_groups, PendingWork(waiting), now=0.0).run(profile.actions)
        results += [(one.pod.metadata.name, one.node) for one in decisions if isinstance(one, Assign)]
        results += [(one.pod.metadata.name, one.message) for one in decisions if isinstance(one, RefusePod)]
        for name, _ in random.sample(results, 5):
            snapshot.remove_pod(pod(name))
        snapshot.apply_node(node("n00", {"cpu": str(random.randint(1, 20)), "memory": "9Gi", "pods": "9"}))
    return results


@pytest.mark.parametrize("seed", SEEDS)
def test_engine_with_caches_places_like_one_without(seed: int) -> None:
    engine = read_profile({}).engine
    assert outcome(engine, seed) == outcome(Forgetful(engine.plugins), seed)
