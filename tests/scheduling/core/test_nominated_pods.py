"""Nominated pods count for resources and anti-affinity, but do not satisfy the affinity of other pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import (
    Affinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodStatus,
    SelectorSpec,
    TopologySpreadConstraint,
)
from restow.scheduling.actions.allocate import allocate
from restow.scheduling.decisions import Assign, RefusePod
from restow.scheduling.pod_group_cache import PodGroupCache
from restow.scheduling.registry import read_profile
from restow.scheduling.session import PendingWork, Session
from tests.model.cluster.builders import node, pod
from tests.scheduling.core.sample_plugins import cluster

HOST = "kubernetes.io/hostname"
X = SelectorSpec(match_labels={"app": "x"})


def outcome(asking: Pod, *, promised: Sequence[str], running: Sequence[Pod] = ()) -> str:
    """The node of a pod, or its refusal, while room on nodes is kept for more important pods."""
    there = [node(name, labels={HOST: name}) for name in ("n1", "n2", "n3")]
    snapshot = cluster(*there, pods=running)
    waiting = [
        replace(pod(f"w{number}", labels={"app": "x"}, priority=9), status=PodStatus(nominated_node_name=where))
        for number, where in enumerate(promised)
    ]
    session = Session(
        snapshot, read_profile({}).engine, PodGroupCache(), PendingWork([asking], nominated=waiting), now=0.0
    )
    (decision,) = [one for one in session.run([allocate]) if isinstance(one, (Assign, RefusePod))]
    return decision.node if isinstance(decision, Assign) else decision.message


def near(**fields: Any) -> Pod:
    term = PodAffinityTerm(topology_key=HOST, label_selector=X)
    return pod("p", {"cpu": "1"}, affinity=Affinity(pod_affinity=PodAffinity(required=[term])), **fields)


def spread(skew: int) -> Pod:
    constraint = TopologySpreadConstraint(
        max_skew=skew, topology_key=HOST, when_unsatisfiable="DoNotSchedule", label_selector=X
    )
    return pod("p", {"cpu": "1"}, labels={"app": "x"}, topology_spread_constraints=[constraint])


def away() -> Pod:
    term = PodAffinityTerm(topology_key=HOST, label_selector=X)
    return pod("p", {"cpu": "1"}, affinity=Affinity(pod_anti_affinity=PodAffinity(required=[term])))


def running(*where: str) -> list[Pod]:
    return [pod(f"r{number}", labels={"app": "x"}, on=on) for number, on in enumerate(where)]


NO_AFFINITY = "3 node(s) didn't match pod affinity rules"
NO_SPREAD = "3 node(s) didn't match pod topology spread constraints"


@pytest.mark.parametrize(
    ("asking", "promised", "there", "result"),
    [
        pytest.param(near(), ["n1"], [], NO_AFFINITY, id="no pod is near yet"),
        pytest.param(near(), ["n1"], ["n2"], "n2", id="the running pod counts"),
        pytest.param(
            near(labels={"app": "x"}), ["n1"], [], "n1", id="a pod that may be the first may also be the second"
        ),
        pytest.param(spread(1), ["n1"], ["n2", "n3"], "n1", id="the only place that is good without the other"),
        pytest.param(spread(1), ["n1", "n1"], ["n2", "n3"], NO_SPREAD, id="no place is good either way"),
        pytest.param(spread(1), ["n1"], ["n2"], "n3", id="a node without nominated pods"),
        pytest.param(away(), ["n1"], ["n2"], "n3", id="nominated pods count for anti-affinity"),
    ],
)
def test_placed_node_suits_the_pod_with_and_without_nominated_pods(
    asking: Pod, promised: list[str], there: list[str], result: str
) -> None:
    result_of_pod = outcome(asking, promised=promised, running=running(*there))
    assert result_of_pod == result or result_of_pod == f"0/3 nodes are available: {result}."
