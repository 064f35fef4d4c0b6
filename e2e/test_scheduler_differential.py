"""Our scheduling and the real kube-scheduler, asked about the same pods on the same nodes.

Random clusters of `e2e.random_clusters` are built in the real API server; one pending pod after the other is decided
by us, from the objects that the server returns, and then let go to kube-scheduler with a nominated node, which it tries
alone and with all of its filters before it looks at others. So a pod that we place is sent to the node that we chose,
to another one that we call feasible, or to one that we do not: it must be bound there, there, and elsewhere where we
call it feasible. A pod that we call unschedulable must be so for kube-scheduler, too, for the same counted reasons.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from random import Random
from typing import Any

import msgspec
import pytest

from e2e.cluster import eventually, following, namespace_document, together
from e2e.random_clusters import NAMESPACES, PRIORITIES, RandomCluster, random_cluster
from restow.client.informer import Informer
from restow.client.verbs import Client
from restow.model.inventory import Inventory
from restow.model.kinds import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    PRIORITY_CLASS,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
    Kind,
)
from restow.model.objects import Condition, Pod
from restow.offline import Cluster
from restow.ports import AlreadyExists, NotFound
from restow.scheduling.decisions import Assign
from restow.scheduling.framework import Cycle
from restow.scheduling.registry import Profile, read_profile
from restow.scheduling.session import Session

SAMPLE = 15
ALL = 300
SEEN_SECONDS = 0.3  # until kube-scheduler has seen a new cluster, at the least; what is late it tries again
SECOND_THOUGHT_SECONDS = 6.0
SELECTED_NODE = "volume.kubernetes.io/selected-node"
READ: tuple[Kind[Any], ...] = (
    NAMESPACE,
    NODE,
    POD,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    CSI_NODE,
    CSI_DRIVER,
    CSI_STORAGE_CAPACITY,
    VOLUME_ATTACHMENT,
)


class Answer(msgspec.Struct, frozen=True):
    """What we say to a pod."""

    node: str | None
    feasible: tuple[str, ...]
    message: str


class Arena:
    """The real cluster with a random one in it."""

    def __init__(self, client: Client, pods: Informer[Pod]) -> None:
        self.client = client
        self.pods = pods

    async def clear(self) -> None:
        """Without nodes and pods, whoever made them."""
        client = self.client
        await together(self._remove(pod) for pod in (await client.list(POD)).items)
        kinds: tuple[Kind[Any], ...] = (NODE, PERSISTENT_VOLUME_CLAIM, PERSISTENT_VOLUME, STORAGE_CLASS, CSI_NODE)
        for kind in kinds:
            items = (await client.list(kind)).items
            await together(self._delete(kind, item.metadata.name, item.metadata.namespace) for item in items)
        await eventually(lambda: len(self.pods) == 0, "no pod is left")

    async def build(self, cluster: RandomCluster) -> None:
        client = self.client
        for name, labels in cluster.namespaces.items():
            await client.patch(NAMESPACE, name, {"metadata": {"labels": labels}})
        await together(client.create(STORAGE_CLASS, one) for one in cluster.classes)
        await together(client.create(PERSISTENT_VOLUME, one) for one in cluster.volumes)
        await together(client.create(PERSISTENT_VOLUME_CLAIM, one) for one in cluster.claims)
        await together(client.create(CSI_NODE, one) for one in cluster.csi_nodes)
        await together(self._add_node(one) for one in cluster.nodes)
        await together(self._place(pod, node, terminating=ends) for pod, node, ends in cluster.placed)
        await together(client.create(POD, pod) for pod in cluster.pending)
        await self._settled(cluster)
        await asyncio.sleep(SEEN_SECONDS)

    async def read(self) -> Cluster:
        lists = await asyncio.gather(*(self.client.list(kind) for kind in READ))
        return Cluster(Inventory({kind: one.items for kind, one in zip(READ, lists, strict=True)}, {}))

    async def release(self, pod: Pod, nominated: str | None) -> None:
        """Let kube-scheduler have the pod."""
        name, namespace = pod.metadata.name, pod.metadata.namespace
        if nominated is not None:
            status = {"status": {"nominatedNodeName": nominated}}
            await self.client.patch(POD, name, status, namespace, subresource="status")
        await self.client.patch(POD, name, {"spec": {"schedulingGates": None}}, namespace)

    def latest(self, pod: Pod) -> Pod:
        found = self.pods.get(pod.metadata.name, pod.metadata.namespace)
        assert found is not None, f"{pod.metadata.name} is gone"
        return found

    async def judged(self, pod: Pod) -> Pod:
        """The pod, once it is bound or refused."""
        what = f"kube-scheduler speaks about {pod.metadata.name}"
        await eventually(lambda: bool(self.latest(pod).spec.node_name) or _refused(self.latest(pod)) is not None, what)
        return self.latest(pod)

    async def bound(self, pod: Pod) -> Pod:
        """The pod, bound; or refused even after a second thought, because kube-scheduler may have seen a node late."""
        judged = await self.judged(pod)
        if not judged.spec.node_name:
            with suppress(AssertionError):
                await eventually(lambda: bool(self.latest(pod).spec.node_name), "bound", SECOND_THOUGHT_SECONDS)
        return self.latest(pod)

    async def selected(self, pod: Pod) -> str | None:
        """The node for which kube-scheduler wants a pod's volume to be made."""
        for _ in range(100):
            for claim in await self.claims(pod):
                node: str | None = (claim.metadata.annotations or {}).get(SELECTED_NODE)
                if node:
                    return node
            await asyncio.sleep(0.05)
        return None

    async def claims(self, pod: Pod) -> list[Any]:
        names = [
            one.persistent_volume_claim.claim_name for one in pod.spec.volumes or () if one.persistent_volume_claim
        ]
        namespace = pod.metadata.namespace
        return [await self.client.get(PERSISTENT_VOLUME_CLAIM, name, namespace) for name in names]

    async def claims_bound(self, pod: Pod) -> None:
        for _ in range(200):
            if all(claim.status.phase == "Bound" for claim in await self.claims(pod)):
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"the claims of {pod.metadata.name} stay unbound")

    async def withdraw(self, pod: Pod) -> None:
        await self._remove(pod)
        await eventually(lambda: self.pods.get(pod.metadata.name, pod.metadata.namespace) is None, "the pod is gone")

    # ------------------------------------------------------------------------------------------------------------------

    async def _add_node(self, node: dict[str, Any]) -> None:
        """The server taints new nodes as not ready; what keeps conditions would take its time to see that they are."""
        await self.client.create(NODE, node)
        await self.client.patch(NODE, node["metadata"]["name"], {"spec": {"taints": node["spec"]["taints"]}})

    async def _place(self, pod: dict[str, Any], node: str, *, terminating: bool) -> None:
        made = await self.client.create(POD, pod | {"spec": pod["spec"] | {"schedulerName": "nobody"}})
        name, namespace = made.metadata.name, made.metadata.namespace or ""
        await self.client.bind(namespace, name, uid=made.metadata.uid, node=node)
        if terminating:
            await self.client.delete(POD, name, namespace, grace_seconds=0)

    async def _settled(self, cluster: RandomCluster) -> None:
        """Until controllers have bound the claims that name a volume, and left the taints as they are meant."""
        bound = {claim["metadata"]["name"] for claim in cluster.claims if "volumeName" in claim["spec"]}
        wanted = {node["metadata"]["name"]: len(node["spec"]["taints"]) for node in cluster.nodes}
        for _ in range(400):
            claims = (await self.client.list(PERSISTENT_VOLUME_CLAIM)).items
            volumes = (await self.client.list(PERSISTENT_VOLUME)).items
            nodes = (await self.client.list(NODE)).items
            if (
                bound <= {claim.metadata.name for claim in claims if claim.status.phase == "Bound"}
                and all(volume.status.phase in ("Available", "Bound") for volume in volumes)
                and wanted == {node.metadata.name: len(node.spec.taints or ()) for node in nodes}
            ):
                return
            await asyncio.sleep(0.05)
        raise AssertionError("the cluster does not settle")

    async def _remove(self, pod: Pod) -> None:
        name, namespace = pod.metadata.name, pod.metadata.namespace
        with suppress(NotFound):
            if pod.metadata.finalizers:
                await self.client.patch(POD, name, {"metadata": {"finalizers": None}}, namespace)
            await self.client.delete(POD, name, namespace, grace_seconds=0)

    async def _delete(self, kind: Kind[Any], name: str, namespace: str | None) -> None:
        with suppress(NotFound):
            await self.client.delete(kind, name, namespace)


@pytest.fixture
async def arena(client: Client) -> AsyncIterator[Arena]:
    for name in NAMESPACES:
        with suppress(AlreadyExists):
            await client.create(NAMESPACE, namespace_document(name))
    for name, value in PRIORITIES.items():
        with suppress(AlreadyExists):
            priority = {"metadata": {"name": name}, "value": value, "preemptionPolicy": "Never"}
            await client.create(PRIORITY_CLASS, priority)
    async with following(Informer(client, POD, rng=Random(1))) as pods:
        arena = Arena(client, pods)
        await arena.clear()
        yield arena
        await arena.clear()


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.full] * (seed >= SAMPLE)) for seed in range(ALL)]
)
async def test_both_schedulers_agree(arena: Arena, seed: int) -> None:
    random = random_cluster(seed)
    await arena.build(random)
    rng, profile = Random(seed), read_profile({})
    cluster, differences = await arena.read(), []
    for document in random.pending:
        pod = arena.latest(_named(cluster, document))
        answer = decided(cluster, profile, pod)
        told = await difference(arena, pod, answer, rng)
        if told:
            differences.append(f"{pod.metadata.name}: {told}")
        cluster = await after(arena, cluster, pod)
    assert not differences, "\n".join(differences)


def decided(cluster: Cluster, profile: Profile, pod: Pod) -> Answer:
    """Our answer; the cluster stays as it is."""
    snapshot, free = cluster.snapshot, _without_gates(pod)
    survey = profile.engine.survey(Cycle(free, snapshot, 0.0))
    mark = snapshot.mark()
    session = Session(snapshot, profile.engine, cluster.roster, now=0.0, pods=[free])
    assigned = [one.node for one in session.run(profile.actions) if isinstance(one, Assign)]
    snapshot.undo_to(mark)
    cluster.roster.forget(free)
    return Answer(assigned[0] if assigned else None, survey.feasible, survey.message)


async def difference(arena: Arena, pod: Pod, answer: Answer, rng: Random) -> str:
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
    if "on-demand" in "".join(claim.spec.storage_class_name or "" for claim in await _existing_claims(arena, pod)):
        node = await arena.selected(pod)
    else:
        node = (await arena.bound(pod)).spec.node_name
    if node in wanted:
        return ""
    condition = _refused(arena.latest(pod))
    return f"nominated to {nominated}, not on any of {wanted}: {node or (condition and condition.message)}"


async def _refusal_difference(arena: Arena, pod: Pod, answer: Answer) -> str:
    await arena.release(pod, None)
    judged = await arena.judged(pod)
    condition = _refused(judged)
    if condition is None:
        return f"we refuse it: {answer.message!r}; it is bound to {judged.spec.node_name}"
    if condition.reason != "Unschedulable":
        return f"we refuse it: {answer.message!r}; {condition.reason}: {condition.message}"
    theirs = condition.message or ""
    agreed = theirs == answer.message or theirs.startswith(f"{answer.message} ")  # then comes what PostFilter says
    return "" if agreed else f"we say {answer.message!r}, it says {theirs!r}"


async def after(arena: Arena, cluster: Cluster, pod: Pod) -> Cluster:
    """The cluster with what became of the pod: a refused one is withdrawn, so that it is not tried again."""
    latest = arena.latest(pod)
    if not latest.spec.node_name:
        await arena.withdraw(latest)
        return cluster
    if latest.spec.volumes:
        await arena.claims_bound(latest)
        return await arena.read()
    cluster.snapshot.apply_pod(latest)
    cluster.roster.apply_pod(latest)
    return cluster


async def _existing_claims(arena: Arena, pod: Pod) -> list[Any]:
    try:
        return await arena.claims(pod)
    except NotFound:
        return []


def _refused(pod: Pod) -> Condition | None:
    """Why kube-scheduler refused the pod, if it did."""
    conditions = [one for one in pod.status.conditions or () if one.type == "PodScheduled" and one.status == "False"]
    return next((one for one in conditions if one.reason != "SchedulingGated"), None)


def _named(cluster: Cluster, document: dict[str, Any]) -> Pod:
    return next(pod for pod in cluster.pods if pod.metadata.name == document["metadata"]["name"])


def _without_gates(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, scheduling_gates=None))
