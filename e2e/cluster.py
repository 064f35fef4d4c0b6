"""What the end-to-end tests put into a cluster, and how they wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from e2e.controlplane import FAKE_NODE
from restow.client.informer import Informer
from restow.client.verbs import Client
from restow.model.kinds import DEPLOYMENT, NAMESPACE, NODE, POD_MIGRATION_JOB, QUEUE, Kind
from restow.model.objects import Document, MetadataOnly, Node, Object, Pod, PodMigrationJob
from restow.ports import NotFound

T = TypeVar("T", bound=Object)

AT_ONCE = 32
_RBAC: dict[str, Any] = {"group": "rbac.authorization.k8s.io", "namespaced": False, "type": MetadataOnly}
CLUSTER_WIDE: tuple[Kind[Any], ...] = (
    POD_MIGRATION_JOB,
    QUEUE,
    NAMESPACE,
    NODE,
    Kind(kind="ClusterRoleBinding", plural="clusterrolebindings", **_RBAC),
    Kind(kind="ClusterRole", plural="clusterroles", **_RBAC),
)


def namespace_document(name: str) -> Document:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def fake_node(name: str, **labels: str) -> Document:
    room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "type": "kwok", **labels}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": FAKE_NODE},
        "status": {"capacity": room, "allocatable": room},
    }


def deployment(name: str, namespace: str, replicas: int, *, cpu: str = "100m") -> Document:
    container = {
        "name": "main",
        "image": "registry.invalid/app:1",
        "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
    }
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
            },
        },
    }


async def clear(client: Client, namespace: str) -> None:
    """Delete a namespace, and what is in none and has its name, or moves its pods."""

    async def delete(kind: Kind[Any], name: str) -> None:
        with suppress(NotFound):
            await client.delete(kind, name)

    for kind in CLUSTER_WIDE:
        with suppress(NotFound):  # which may not be installed
            items = (await client.list(kind)).items
            await together(delete(kind, one.metadata.name) for one in items if _is_of(namespace, one))


def _is_of(namespace: str, one: Object) -> bool:
    if isinstance(one, PodMigrationJob):
        return one.spec.pod_ref.namespace == namespace
    return namespace in one.metadata.name


async def add_nodes(client: Client, count: int) -> list[str]:
    """Fake nodes `kwok-0000` and so on; those that exist stay as they are."""
    names = [f"kwok-{number:04d}" for number in range(count)]
    existing = {node.metadata.name for node in (await client.list(NODE)).items}
    await together(client.create(NODE, fake_node(name)) for name in names if name not in existing)
    return names


async def deploy(client: Client, namespace: str, replicas: int, name: str = "web") -> None:
    await client.create(DEPLOYMENT, deployment(name, namespace, replicas))


async def together(work: Iterable[Awaitable[Any]], *, at_once: int = AT_ONCE) -> None:
    """Await everything, a bounded number at a time."""
    slots = asyncio.Semaphore(at_once)

    async def one(item: Awaitable[Any]) -> None:
        async with slots:
            await item

    await asyncio.gather(*(one(item) for item in work))


def is_ready(item: Node | Pod) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in item.status.conditions or ())


def is_running(pod: Pod) -> bool:
    return pod.status.phase == "Running" and is_ready(pod) and pod.metadata.deletion_timestamp is None


def running(pods: Informer[Pod]) -> int:
    return sum(map(is_running, pods))


async def eventually(check: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Wait until `check` holds; it reads what an informer keeps true."""
    await reaches(check, True, what, seconds)


async def reaches(observe: Callable[[], object], wanted: object, what: str, seconds: float = 60) -> None:
    """Wait until what is observed equals what is wanted."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                if observe() == wanted:
                    return
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"after {seconds:.0f} s, {what}: {observe()}, not {wanted}") from None


@asynccontextmanager
async def following(informer: Informer[T]) -> AsyncIterator[Informer[T]]:
    """Run an informer for the length of a block, synced from the start."""
    task = asyncio.create_task(informer.run())
    try:
        await asyncio.wait_for(informer.synced(), 60)
        yield informer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
