"""The default profile in whole sessions: no hard constraint is ever violated, judged node by node and naively."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from restow.model.objects import (
    Affinity,
    ContainerPort,
    Node,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    SelectorSpec,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from restow.scheduling.decisions import Assign, RefusePod
from restow.scheduling.pod_group_cache import PodGroupCache
from restow.scheduling.registry import read_profile
from restow.scheduling.session import PendingWork, Session
from tests.model.cluster.builders import node, pod
from tests.narrowing import present
from tests.scheduling.core.sample_plugins import cluster

WEB = SelectorSpec(match_labels={"app": "web"})
ZONE, HOST = "zone", "kubernetes.io/hostname"
SELDOM = st.sampled_from([False, False, False, True])
NODES = st.lists(st.tuples(st.integers(1, 6), st.sampled_from("ab"), SELDOM, SELDOM), min_size=1, max_size=6)
PODS = st.lists(
    st.fixed_dictionaries(
        {
            "cpu": st.integers(1, 4),
            "zone": st.sampled_from([None, None, "a", "b"]),
            "tolerates": st.booleans(),
            "port": st.sampled_from([None, None, 80, 81]),
            "apart": SELDOM,
            "spread": SELDOM,
        }
    ),
    min_size=2,
    max_size=14,
)


def nodes_of(drawn: Sequence[tuple[int, str, bool, bool]]) -> list[Node]:
    return [
        node(
            f"n{number}",
            {"cpu": str(cpu), "pods": "9"},
            labels={ZONE: zone, HOST: f"n{number}"},
            taints=[Taint(key="k", effect="NoSchedule")] if tainted else None,
            unschedulable=cordoned or None,
        )
        for number, (cpu, zone, tainted, cordoned) in enumerate(drawn)
    ]


def pods_of(drawn: Sequence[dict[str, Any]]) -> list[Pod]:
    return [pod_of(f"p{number}", **wishes) for number, wishes in enumerate(drawn)]


def pod_of(name: str, cpu: int, zone: str | None, tolerates: bool, port: int | None, apart: bool, spread: bool) -> Pod:
    term = PodAffinityTerm(topology_key=HOST, label_selector=WEB)
    skew = TopologySpreadConstraint(
        max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule", label_selector=WEB
    )
    one = pod(
        name,
        {"cpu": str(cpu)},
        labels={"app": "web"} if apart or spread else None,
        node_selector={ZONE: zone} if zone else None,
        tolerations=[Toleration(key="k", operator="Exists")] if tolerates else None,
        affinity=Affinity(pod_anti_affinity=PodAffinity(required=[term])) if apart else None,
        topology_spread_constraints=[skew] if spread else None,
    )
    (container,) = present(one.spec.containers)
    ports = [ContainerPort(container_port=port, host_port=port)] if port else None
    return replace(one, spec=replace(one.spec, containers=[replace(container, ports=ports)]))


def zone_of(one: Node) -> str:
    return present(one.metadata.labels)[ZONE]


def cpu_of(one: Pod) -> int:
    return int(present(present(one.spec.containers)[0].resources.requests)["cpu"])


@settings(max_examples=120, deadline=None)
@given(NODES, PODS)
def test_default_profile_violates_no_hard_constraint(
    nodes: list[tuple[int, str, bool, bool]], pods: list[dict[str, Any]]
) -> None:
    there, waiting = {one.metadata.name: one for one in nodes_of(nodes)}, pods_of(pods)
    profile = read_profile({})
    decisions = Session(cluster(*there.values()), profile.engine, PodGroupCache(), PendingWork(waiting), now=0.0).run(
        profile.actions
    )
    on: dict[str, list[Pod]] = {name: [] for name in there}
    web = Counter({zone_of(one): 0 for one in there.values()})
    for step in decisions:
        if isinstance(step, Assign):
            check_one(step.pod, there[step.node], on[step.node], web)
            on[step.node].append(step.pod)
            web[zone_of(there[step.node])] += bool(step.pod.metadata.labels)
    assert {one.pod.metadata.uid for one in decisions if isinstance(one, Assign | RefusePod)} == {
        one.metadata.uid for one in waiting
    }


def check_one(one: Pod, where: Node, others: Sequence[Pod], web: Counter[str]) -> None:
    """As the pod joined: the constraints of both sides hold on this node."""
    cpus = [cpu_of(each) for each in (*others, one)]
    assert sum(cpus) <= int(present(where.status.allocatable)["cpu"])
    assert not where.spec.unschedulable
    assert not where.spec.taints or one.spec.tolerations
    assert (one.spec.node_selector or {}).items() <= present(where.metadata.labels).items()
    ports = [port.host_port for each in (*others, one) for port in present(each.spec.containers)[0].ports or ()]
    assert len(ports) == len(set(ports))
    if one.metadata.labels:
        labelled = [each for each in others if each.metadata.labels]
        assert not labelled or not (one.spec.affinity or any(each.spec.affinity for each in labelled))
    if one.spec.topology_spread_constraints:
        zone = zone_of(where)
        eligible = [zone] if one.spec.node_selector else list(web)
        assert web[zone] + 1 - min(web[each] for each in eligible) <= 1
