"""The real cluster for the differential test: a random cluster is built in it, and kube-scheduler gets one pod after
the other.

Goes in: a `RandomCluster`. Comes out: what the API server then holds, as a `restow.snapshots.offline.Cluster`, and what
kube-scheduler does with each pod. Nodes have no kubelet; pods stay where they are bound, and pending.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from e2e.cluster import eventually, together
from e2e.random_clusters import RandomCluster
from restow.client.informer import Informer
from restow.client.verbs import Client
from restow.model.inventory import Inventory
from restow.model.kinds import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    STORAGE,
    STORAGE_CLASS,
    Kind,
)
from restow.model.objects import Condition, PersistentVolumeClaim, Pod
from restow.ports import NotFound
from restow.snapshots.offline import OfflineCluster

SEEN_SECONDS = 0.3  # until kube-scheduler has seen a new cluster, at the least; what is late it tries again
SECOND_THOUGHT_SECONDS = 6.0
SELECTED_NODE = "volume.kubernetes.io/selected-node"
READ: tuple[Kind[Any], ...] = (NAMESPACE, NODE, POD, *STORAGE)
EMPTIED: tuple[Kind[Any], ...] = (
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    PERSISTENT_VOLUME,
    STORAGE_CLASS,
    CSI_NODE,
    CSI_DRIVER,
    CSI_STORAGE_CAPACITY,
)
MAKERS: tuple[Kind[Any], ...] = (DAEMON_SET, DEPLOYMENT, REPLICA_SET, STATEFUL_SET, JOB, REPLICATION_CONTROLLER)
"""The controllers that would create pods again."""


class KubeSchedulerCluster:
    """The real cluster with a random one in it."""

    def __init__(self, client: Client, pods: Informer[Pod]) -> None:
        self.client = client
        self.pods = pods

    async def clear(self) -> None:
        """Delete all nodes and pods, whatever created them."""
        client = self.client
        for kind in MAKERS:
            await self._delete_all(kind)

        async def emptied() -> bool:  # asked again: a controller may make another pod, a binding may come late
            pods = (await client.list(POD)).items
            await together(self._remove(pod) for pod in pods)
            return not pods

        await _until(emptied, "the server has no pod left")
        for kind in EMPTIED:
            await self._delete_all(kind)
        await eventually(lambda: [pod.metadata.name for pod in self.pods] == [], "the informer has no pod left")

    async def build(self, cluster: RandomCluster) -> None:
        client = self.client
        for name, labels in cluster.namespaces.items():
            await client.patch(NAMESPACE, name, {"metadata": {"labels": labels}})
        await together(client.create(STORAGE_CLASS, storage_class) for storage_class in cluster.classes)
        await together(client.create(CSI_DRIVER, csi_driver) for csi_driver in cluster.csi_drivers)
        await together(client.create(CSI_STORAGE_CAPACITY, capacity) for capacity in cluster.capacities)
        await together(client.create(PERSISTENT_VOLUME, volume) for volume in cluster.volumes)
        await together(self._add_node(node) for node in cluster.nodes)
        await self._volumes_known()
        await together(client.create(PERSISTENT_VOLUME_CLAIM, claim) for claim in cluster.claims)
        await together(client.create(CSI_NODE, csi_node) for csi_node in cluster.csi_nodes)
        await together(self._place(pod, node, terminating=ends) for pod, node, ends in cluster.placed)
        await together(client.create(POD, pod) for pod in cluster.pending)
        await self._settled(cluster)
        await asyncio.sleep(SEEN_SECONDS)

    async def read(self) -> OfflineCluster:
        lists = await asyncio.gather(*(self.client.list(kind) for kind in READ))
        return OfflineCluster(Inventory({kind: listed.items for kind, listed in zip(READ, lists, strict=True)}, {}))

    async def release(self, pod: Pod, nominated: str | None) -> None:
        """Let kube-scheduler have the pod."""
        name, namespace = pod.metadata.name, pod.metadata.namespace
        if nominated is not None:
            status = {"status": {"nominatedNodeName": nominated}}
            await self.client.patch(POD, name, status, namespace, subresource="status")
        await self.client.patch(POD, name, {"spec": {"schedulingGates": None}}, namespace)

    def latest(self, pod: Pod) -> Pod:
        seen = self.pods.get(pod.metadata.name, pod.metadata.namespace)
        assert seen is not None, f"{pod.metadata.name} is gone"
        return seen

    async def judged(self, pod: Pod) -> Pod:
        """The pod, once it is bound or refused."""
        condition_name = f"kube-scheduler speaks about {pod.metadata.name}"
        await eventually(
            lambda: bool(self.latest(pod).spec.node_name) or refused(self.latest(pod)) is not None, condition_name
        )
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
        selected: list[str] = []

        async def chosen() -> bool:
            annotations = [claim.metadata.annotations or {} for claim in await self.claims(pod)]
            selected.extend(annotation[SELECTED_NODE] for annotation in annotations if SELECTED_NODE in annotation)
            return bool(selected)

        with suppress(AssertionError):
            await _until(chosen, "a node is selected", SECOND_THOUGHT_SECONDS)
        return selected[0] if selected else None

    async def claims(self, pod: Pod) -> list[PersistentVolumeClaim]:
        """Those that exist."""
        sources = [volume.persistent_volume_claim for volume in pod.spec.volumes or ()]
        names = {source.claim_name for source in sources if source is not None}
        claims = (await self.client.list(PERSISTENT_VOLUME_CLAIM, pod.metadata.namespace)).items
        return [claim for claim in claims if claim.metadata.name in names]

    async def claims_bound(self, pod: Pod) -> None:
        async def bound() -> bool:
            return all(claim.status.phase == "Bound" for claim in await self.claims(pod))

        await _until(bound, f"the claims of {pod.metadata.name} are bound")

    async def withdraw(self, pod: Pod) -> None:
        await self._remove(pod)
        await eventually(lambda: self.pods.get(pod.metadata.name, pod.metadata.namespace) is None, "the pod is gone")

    # ------------------------------------------------------------------------------------------------------------------

    async def _add_node(self, node: dict[str, Any]) -> None:
        """The server taints new nodes as not ready; what keeps conditions would take its time to see that they are."""
        await self.client.create(NODE, node)
        await self.client.patch(NODE, node["metadata"]["name"], {"spec": {"taints": node["spec"]["taints"]}})

    async def _place(self, pod: dict[str, Any], node: str, *, terminating: bool) -> None:
        made = await self.client.create(POD, pod | {"spec": pod["spec"] | {"schedulerName": "missing"}})
        name, namespace = made.metadata.name, made.metadata.namespace or ""
        await self.client.bind(namespace, name, uid=made.metadata.uid, node=node)
        if terminating:
            await self.client.delete(POD, name, namespace, grace_seconds=0)

    async def _volumes_known(self) -> None:
        """A claim whose volume is known is bound at once; else it would have to wait for the next round."""

        async def known() -> bool:
            volumes = (await self.client.list(PERSISTENT_VOLUME)).items
            return all(volume.status.phase in ("Available", "Bound", "Released") for volume in volumes)

        await _until(known, "volumes are known")

    async def _settled(self, cluster: RandomCluster) -> None:
        """Until controllers have bound the claims that name a volume, and left the taints as they are meant."""
        named = {claim["metadata"]["name"] for claim in cluster.claims if "volumeName" in claim["spec"]}
        wanted = {node["metadata"]["name"]: len(node["spec"]["taints"]) for node in cluster.nodes}

        async def settled() -> bool:
            claims = (await self.client.list(PERSISTENT_VOLUME_CLAIM)).items
            nodes = (await self.client.list(NODE)).items
            bound = {claim.metadata.name for claim in claims if claim.status.phase == "Bound"}
            return named <= bound and wanted == {node.metadata.name: len(node.spec.taints or ()) for node in nodes}

        await _until(settled, "the cluster has settled")

    async def _remove(self, pod: Pod) -> None:
        name, namespace = pod.metadata.name, pod.metadata.namespace
        with suppress(NotFound):
            if pod.metadata.finalizers:
                await self.client.patch(POD, name, {"metadata": {"finalizers": None}}, namespace)
            await self.client.delete(POD, name, namespace, grace_seconds=0)

    async def _delete_all(self, kind: Kind[Any]) -> None:
        items = (await self.client.list(kind)).items
        await together(self._delete(kind, item.metadata.name, item.metadata.namespace) for item in items)

    async def _delete(self, kind: Kind[Any], name: str, namespace: str | None) -> None:
        with suppress(NotFound):
            await self.client.delete(kind, name, namespace)


def refused(pod: Pod) -> Condition | None:
    """Why kube-scheduler refused the pod, if it did."""
    conditions = [
        condition
        for condition in pod.status.conditions or ()
        if condition.type == "PodScheduled" and condition.status == "False"
    ]
    return next((condition for condition in conditions if condition.reason != "SchedulingGated"), None)


async def _until(holds: Callable[[], Awaitable[bool]], what: str, seconds: float = 30) -> None:
    """Ask again and again until it holds."""
    try:
        async with asyncio.timeout(seconds):
            while not await holds():
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"not after {seconds:.0f} s: {what}") from None
