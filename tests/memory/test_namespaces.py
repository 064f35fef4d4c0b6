"""Namespaces: what a new one looks like, how it ends, and what it refuses meanwhile."""

from __future__ import annotations

import pytest

from restow.adapters.memory import ServerSettings
from restow.ports import MERGE_PATCH, Conflict, Forbidden, NotFound
from tests.memory.cluster import Cluster, config_map, namespace, pod


async def test_a_fresh_cluster_has_its_namespaces_and_priorities(cluster: Cluster) -> None:
    assert await cluster.names("namespaces") == ["default", "kube-node-lease", "kube-public", "kube-system"]
    assert await cluster.names("priorityclasses") == ["system-cluster-critical", "system-node-critical"]


async def test_new_namespace_is_active_labelled_and_has_its_finalizer(cluster: Cluster) -> None:
    created = await cluster.create("namespaces", namespace("team"))
    assert created["status"] == {"phase": "Active"}
    assert created["spec"] == {"finalizers": ["kubernetes"]}
    assert created["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}


async def test_empty_namespace_is_removed(cluster: Cluster) -> None:
    await cluster.create("namespaces", namespace("team"))
    deleting = await cluster.delete("namespaces", "team")
    assert deleting["status"]["phase"] == "Terminating"
    assert "team" not in await cluster.names("namespaces")


async def test_namespace_is_removed_after_its_content(cluster: Cluster) -> None:
    await cluster.create("namespaces", namespace("team"))
    held = config_map("held", finalizers=["example.com/hold"])
    for body in (held, config_map("free")):
        await cluster.create("configmaps", body, namespace="team")
    await cluster.delete("namespaces", "team")
    assert await cluster.names("configmaps", namespace="team") == ["held"]
    assert "team" in await cluster.names("namespaces")
    free = {"metadata": {"finalizers": None}}
    await cluster.call("patch", "configmaps", "held", free, content_type=MERGE_PATCH, namespace="team")
    assert "team" not in await cluster.names("namespaces")


async def test_terminating_namespace_refuses_new_objects(cluster: Cluster) -> None:
    await cluster.create("namespaces", namespace("team"))
    await cluster.create("configmaps", config_map(finalizers=["example.com/hold"]), namespace="team")
    await cluster.delete("namespaces", "team")
    with pytest.raises(Forbidden, match=r'pods "a" is forbidden: unable to create new content') as refused:
        await cluster.create("pods", pod(), namespace="team")
    details = refused.value.status.details
    assert details is not None and details.causes is not None
    assert (details.causes[0].reason, details.causes[0].field) == ("NamespaceTerminating", "metadata.namespace")
    with pytest.raises(Conflict, match="ensuring all content is removed"):
        await cluster.delete("namespaces", "team")


async def test_object_in_a_missing_namespace_is_refused(cluster: Cluster) -> None:
    with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
        await cluster.create("pods", pod(), namespace="nowhere")


@pytest.mark.parametrize("name", ["default", "kube-public", "kube-system"])
async def test_system_namespaces_cannot_be_deleted(cluster: Cluster, name: str) -> None:
    with pytest.raises(Forbidden, match="this namespace may not be deleted"):
        await cluster.delete("namespaces", name)


async def test_namespace_can_be_finalized_by_a_client() -> None:
    cluster = Cluster(ServerSettings(end_namespaces=False))
    await cluster.create("namespaces", namespace("team"))
    await cluster.create("configmaps", config_map(), namespace="team")
    deleting = await cluster.delete("namespaces", "team")
    assert await cluster.names("configmaps", namespace="team") == ["a"]
    await cluster.call("replace", "namespaces", "team", {**deleting, "spec": {}}, sub="finalize")
    assert "team" not in await cluster.names("namespaces")
