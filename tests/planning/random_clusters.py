"""Hypothesis strategies for random clusters, and functions that apply plans to them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from restow.model.cluster.storage import StorageObject
from restow.model.objects import (
    Affinity,
    ClaimVolume,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    SelectorSpec,
    TopologySpreadConstraint,
    Volume,
)
from restow.model.snapshot import Snapshot
from restow.planning.plan import Plan
from tests.planning.clusters import app, budget, node_of_ten, snapshot_of
from tests.planning.reference_checks import ZONE, claim_names
from tests.scheduling.plugins.volume_builders import claim, csi_node, csi_volume, on_label, volume

HOST = "kubernetes.io/hostname"
EXAMPLES = int(os.environ.get("RESTOW_EXAMPLES", "25"))
property_settings = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
random_budgets = st.lists(st.builds(budget, st.just("b"), st.integers(1, 3), st.sampled_from("xyz")), max_size=1)


def app_selector(name: str) -> SelectorSpec:
    return SelectorSpec(match_labels={"app": name})


def constraint_fields(kind: str, name: str) -> dict[str, Any]:
    term = PodAffinityTerm(topology_key=HOST, label_selector=app_selector(name))
    even = TopologySpreadConstraint(
        max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule", label_selector=app_selector(name)
    )
    by_kind: dict[str, dict[str, Any]] = {
        "none": {},
        "apart": {"affinity": Affinity(pod_anti_affinity=PodAffinity(required=[term]))},
        "even": {"topology_spread_constraints": [even]},
        "disks": {},
    }
    return by_kind[kind]


def with_disk(pod: Pod, zone: str) -> Pod:
    """The pod with a volume of its own, which one zone has."""
    used = Volume(name="disk", persistent_volume_claim=ClaimVolume(claim_name=f"{zone}-{pod.metadata.name}"))
    return replace(pod, spec=replace(pod.spec, volumes=[used]))


def volume_objects(pods: Iterable[Pod], limits: Mapping[str, int]) -> Iterator[StorageObject]:
    """The volumes of such pods, and how many nodes can attach."""
    for name in (name for pod in pods for name in claim_names(pod)):
        at = on_label(ZONE, name.partition("-")[0])
        yield volume(name, of="", at=at, claim=name, claim_uid=f"uid-{name}", phase="Bound", csi=csi_volume(name))
        yield claim(name, of="", to=name, phase="Bound")
    for name, limit in limits.items():
        yield csi_node(name, limit)


@st.composite
def random_snapshots(draw: st.DrawFn) -> Snapshot:
    """A few nodes of ten, filled at will but not above, with workloads that want to be apart or even or have disks."""
    names = [f"n{number}" for number in range(draw(st.integers(2, 6)))]
    free = {name: [10_000, 10_240] for name in names}
    kinds = {name: draw(st.sampled_from(["none", "none", "apart", "even", "disks"])) for name in "xyz"}
    zones = {name: f"z{number % 2}" for number, name in enumerate(names)}
    pods: list[Pod] = []
    for number in range(draw(st.integers(0, 20))):
        where, of = draw(st.sampled_from(names)), draw(st.sampled_from("xyz"))
        cpu, memory = draw(st.integers(0, 40)) * 100, draw(st.integers(0, 40)) * 100
        if cpu > free[where][0] or memory > free[where][1]:
            continue
        free[where][0] -= cpu
        free[where][1] -= memory
        fields = {"labels": {"app": of}, "of": of, **constraint_fields(kinds[of], of)}
        one = app(f"p{number:02d}", f"{cpu}m", f"{memory}Mi", on=where, **fields)
        pods.append(with_disk(one, zones[where]) if kinds[of] == "disks" else one)
    attached = Counter(pod.spec.node_name for pod in pods if claim_names(pod))
    limits = {name: attached[name] + draw(st.integers(0, 2)) for name in names if draw(st.booleans())}
    nodes = [node_of_ten(name, labels={HOST: name, ZONE: zones[name]}) for name in names]
    return snapshot_of(nodes, pods, volume_objects(pods, limits))


def apply_moves(snapshot: Snapshot, plan: Plan) -> None:
    for move in sorted(plan.moves, key=lambda one: one.order):
        moved = snapshot.pods.known[move.uid].pod
        snapshot.apply_pod(replace(moved, spec=replace(moved.spec, node_name=move.target)))
