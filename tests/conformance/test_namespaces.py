"""The life of a namespace, and what may happen in it meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from restow.ports import MERGE_PATCH, Conflict, Forbidden, Invalid, NotFound
from tests.conformance.documents import config_map
from tests.conformance.server import Server, eventually


@pytest.fixture
async def held(server: Server) -> AsyncIterator[Server]:
    """A terminating namespace that an object with a finalizer keeps from going."""
    await server.create("configmaps", config_map("held", finalizers=["example.com/hold"]))
    await server.delete("namespaces", server.namespace)
    yield server
    await server.patch("configmaps", "held", MERGE_PATCH, {"metadata": {"finalizers": None}})


async def test_a_new_namespace_is_active_and_labelled(server: Server) -> None:
    namespace = await server.get("namespaces", server.namespace)
    assert namespace["status"] == {"phase": "Active"}
    assert namespace["spec"] == {"finalizers": ["kubernetes"]}
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": server.namespace}


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public", "kube-node-lease"])
async def test_the_system_namespaces_are_there(server: Server, name: str) -> None:
    assert (await server.get("namespaces", name))["status"]["phase"] == "Active"


async def test_nothing_is_made_in_a_missing_namespace(server: Server) -> None:
    with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
        await server.create("configmaps", config_map("a"), namespace="nowhere")


async def test_a_missing_namespace_lists_empty(server: Server) -> None:
    assert await server.names("configmaps", namespace="nowhere") == []


async def test_nothing_is_made_in_a_terminating_namespace(held: Server) -> None:
    async def refused() -> bool:
        try:
            await held.create("configmaps", config_map("new"))
        except Forbidden as error:
            details = error.status.details
            assert "because it is being terminated" in error.status.message
            assert details is not None
            assert [cause.reason for cause in details.causes or []] == ["NamespaceTerminating"]
            return True
        return False

    await eventually(refused, "creation is refused")


async def test_objects_in_a_terminating_namespace_can_be_updated(held: Server) -> None:
    patched = await held.patch("configmaps", "held", MERGE_PATCH, {"data": {"b": "2"}})
    assert patched["data"]["b"] == "2"


async def test_terminating_namespace_refuses_creation_with_its_cause(held: Server) -> None:
    namespace = await held.get("namespaces", held.namespace)
    assert namespace["status"]["phase"] == "Terminating"
    assert namespace["metadata"]["deletionTimestamp"]


async def test_namespace_is_removed_when_it_is_empty(server: Server) -> None:
    await server.create("configmaps", config_map("a"))
    await server.delete("namespaces", server.namespace)

    async def gone() -> bool:
        try:
            await server.get("namespaces", server.namespace)
        except NotFound:
            return True
        return False

    await eventually(gone, "the namespace is gone")
    assert await server.names("configmaps") == []


async def test_the_default_namespace_stays(server: Server) -> None:
    with pytest.raises(Forbidden, match="this namespace may not be deleted"):
        await server.delete("namespaces", "default")


async def test_deleting_twice_changes_nothing(held: Server) -> None:
    before = await held.get("namespaces", held.namespace)
    with suppress(Conflict):  # a real server says so only until its controller has begun
        await held.delete("namespaces", held.namespace)
    after = await held.get("namespaces", held.namespace)
    assert after["metadata"]["deletionTimestamp"] == before["metadata"]["deletionTimestamp"]


async def test_a_namespace_name_is_a_label(server: Server) -> None:
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "with.dots"}}
    with pytest.raises(Invalid, match=r"metadata\.name: Invalid value: \"with\.dots\": "):
        await server.create("namespaces", document)
