"""The scale subresource."""

from __future__ import annotations

import pytest

from restow.ports import MERGE_PATCH, Conflict, Invalid, NotFound
from tests.conformance.documents import workload
from tests.conformance.server import Server

PLURALS = {"Deployment": "deployments", "ReplicaSet": "replicasets", "StatefulSet": "statefulsets"}


@pytest.mark.parametrize("kind", PLURALS)
async def test_scale_is_a_view_of_its_own_kind(server: Server, kind: str) -> None:
    created = await server.create(PLURALS[kind], workload(kind, "web"))
    scale = await server.get(PLURALS[kind], "web", sub="scale")
    assert (scale["apiVersion"], scale["kind"]) == ("autoscaling/v1", "Scale")
    assert scale["metadata"]["uid"] == created["metadata"]["uid"]
    assert scale["spec"] == {}
    assert scale["status"] == {"replicas": 0, "selector": "app=web"}


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet"])
async def test_scale_subresource_can_be_replaced(server: Server, kind: str) -> None:
    plural = PLURALS[kind]
    await server.create(plural, workload(kind, "web"))
    scale = await server.get(plural, "web", sub="scale")
    scale["spec"]["replicas"] = 1
    del scale["metadata"]["resourceVersion"]  # a controller may just have written the status
    replaced = await server.replace(plural, scale, sub="scale")
    assert replaced["spec"]["replicas"] == 1
    assert (await server.get(plural, "web"))["spec"]["replicas"] == 1


async def test_scale_subresource_can_be_patched(server: Server) -> None:
    await server.create("deployments", workload("Deployment", "web"))
    patched = await server.patch("deployments", "web", MERGE_PATCH, {"spec": {"replicas": 2}}, sub="scale")
    assert patched["kind"] == "Scale"
    stored = await server.get("deployments", "web")
    assert stored["spec"]["replicas"] == 2
    assert stored["metadata"]["generation"] == 2


async def test_stale_scale_update_conflicts(server: Server) -> None:
    await server.create("deployments", workload("Deployment", "web"))
    scale = await server.get("deployments", "web", sub="scale")
    scale["metadata"]["resourceVersion"] = "1"
    with pytest.raises(Conflict):
        await server.replace("deployments", scale, sub="scale")


async def test_a_negative_scale_is_invalid(server: Server) -> None:
    await server.create("deployments", workload("Deployment", "web"))
    with pytest.raises(Invalid, match=r"spec\.replicas: Invalid value: -1"):
        await server.patch("deployments", "web", MERGE_PATCH, {"spec": {"replicas": -1}}, sub="scale")


async def test_kinds_without_replicas_have_no_scale(server: Server) -> None:
    await server.create("daemonsets", workload("DaemonSet", "agent"))
    with pytest.raises(NotFound):
        await server.get("daemonsets", "agent", sub="scale")
