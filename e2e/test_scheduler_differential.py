"""Our scheduling and the real kube-scheduler, asked about the same pods on the same nodes.

Random clusters of `e2e.random_clusters` are built in the real API server; one pending pod after the other is decided
by us, from the objects that the server returns, and then let go to kube-scheduler with a nominated node, which it tries
alone and with all of its filters before it looks at others. So a pod that we place is sent to the node that we chose,
to another one that we call feasible, or to one that we do not: it must be bound there, there, and elsewhere where we
call it feasible. A pod that we call unschedulable must be so for kube-scheduler, too, for the same counted reasons.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import suppress
from random import Random
from typing import Any

import msgspec
import pytest

from e2e.cluster import following, namespace_document
from e2e.kube_scheduler_cluster import KubeSchedulerCluster, refused
from e2e.random_clusters import NAMESPACES, PRIORITIES, random_cluster
from restow.client.informer import Informer
from restow.client.verbs import Client
from restow.model.kinds import NAMESPACE, NODE, POD, PRIORITY_CLASS
from restow.model.objects import Pod
from restow.ports import AlreadyExists
from restow.scheduling.decisions import Assign
from restow.scheduling.framework import Cycle
from restow.scheduling.registry import Profile, read_profile
from restow.scheduling.session import PendingWork, Session
from restow.snapshots.offline import OfflineCluster

SAMPLE = 15
FIRST, ALL = (int(number) for number in os.environ.get("RESTOW_DIFFERENTIAL", "0:300").split(":"))
"""Which clusters: the seeds from the first one on, up to this one."""


class Answer(msgspec.Struct, frozen=True):
    """What we say to a pod."""

    node: str | None
    feasible: tuple[str, ...]
    message: str


@pytest.fixture
async def arena(client: Client) -> AsyncIterator[KubeSchedulerCluster]:
    for name in NAMESPACES:
        with suppress(AlreadyExists):
            await client.create(NAMESPACE, namespace_document(name))
    for name, value in PRIORITIES.items():
        with suppress(AlreadyExists):
            priority = {"metadata": {"name": name}, "value": value, "preemptionPolicy": "Never"}
            await client.create(PRIORITY_CLASS, priority)
    async with following(Informer(client, POD, rng=Random(1))) as pods:
        arena = KubeSchedulerCluster(client, pods)
        await arena.clear()
        yield arena
        await arena.clear()


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.full] * (seed >= FIRST + SAMPLE)) for seed in range(FIRST, ALL)]
)
async def test_our_scheduler_and_kube_scheduler_agree(arena: KubeSchedulerCluster, seed: int) -> None:
    random = random_cluster(seed)
    await arena.build(random)
    rng, profile = Random(seed), read_profile({})
    cluster, differences = await arena.read(), []
    for document in random.pending:
        pod = arena.latest(_named(cluster, document))
        answer = decided(cluster, profile, pod)
        reason = await difference(arena, pod, answer, rng)
        if reason:
            differences.append(f"{pod.metadata.name}: {reason}")
        cluster = await after(arena, cluster, pod)
    assert not differences, "\n".join(differences)


def decided(cluster: OfflineCluster, profile: Profile, pod: Pod) -> Answer:
    """Our answer; the cluster stays as it is."""
    snapshot, free = cluster.snapshot, _without_gates(pod)
    survey = profile.engine.diagnose(Cycle(free, snapshot, 0.0))
    mark = snapshot.mark()
    session = Session(snapshot, profile.engine, cluster.pod_groups, PendingWork(pods=[free]), now=0.0)
    assigned = [decision.node for decision in session.run(profile.actions) if isinstance(decision, Assign)]
    snapshot.undo_to(mark)
    cluster.pod_groups.forget(free)
    return Answer(assigned[0] if assigned else None, survey.feasible, survey.message)


async def difference(arena: KubeSchedulerCluster, pod: Pod, answer: Answer, rng: Random) -> str:
    """What kube-scheduler does that we do not expect; nothing if all is well."""
    if (answer.node is not None) != bool(answer.feasible) or answer.node not in (None, *answer.feasible):
        return f"we choose {answer.node} of {answer.feasible}"
    if answer.node is None:
        return await _refusal_difference(arena, pod, answer)
    nodes = {node.metadata.name for node in (await arena.client.list(NODE)).items}
    others, infeasible = sorted(set(answer.feasible) - {answer.node}), sorted(nodes - set(answer.feasible))
    nominated = rng.choice([answer.node, rng.choice(others or [answer.node]), rng.choice(infeasible or [answer.node])])
    wanted = [nominated] if nominated in answer.feasible else list(answer.feasible)
    await arena.release(pod, nominated)
    if "on-demand" in "".join(claim.spec.storage_class_name or "" for claim in await arena.claims(pod)):
        node = await arena.selected(pod)
    else:
        node = (await arena.bound(pod)).spec.node_name
    if node in wanted:
        return ""
    condition = refused(arena.latest(pod))
    return f"nominated to {nominated}, not on any of {wanted}: {node or (condition and condition.message)}"


async def _refusal_difference(arena: KubeSchedulerCluster, pod: Pod, answer: Answer) -> str:
    await arena.release(pod, None)
    judged = await arena.judged(pod)
    condition = refused(judged)
    if condition is None:
        return f"we refuse it: {answer.message!r}; it is bound to {judged.spec.node_name}"
    if condition.reason != "Unschedulable":
        return f"we refuse it: {answer.message!r}; {condition.reason}: {condition.message}"
    theirs = condition.message or ""
    agreed = theirs == answer.message or theirs.startswith(f"{answer.message} ")  # then comes what PostFilter says
    return "" if agreed else f"we say {answer.message!r}, it says {theirs!r}"


async def after(arena: KubeSchedulerCluster, cluster: OfflineCluster, pod: Pod) -> OfflineCluster:
    """The cluster with what became of the pod: a refused one is withdrawn, so that it is not tried again."""
    latest = arena.latest(pod)
    if not latest.spec.node_name:
        await arena.withdraw(latest)
        return cluster
    if latest.spec.volumes:
        await arena.claims_bound(latest)
        return await arena.read()
    cluster.snapshot.apply_pod(latest)
    cluster.pod_groups.apply_pod(latest)
    return cluster


def _named(cluster: OfflineCluster, document: dict[str, Any]) -> Pod:
    return next(pod for pod in cluster.pods if pod.metadata.name == document["metadata"]["name"])


def _without_gates(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, scheduling_gates=None))
