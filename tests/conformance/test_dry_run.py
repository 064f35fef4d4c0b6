"""dryRun=All: everything happens except the write."""

from __future__ import annotations

import pytest

from restow.ports import MERGE_PATCH, AlreadyExists, Conflict, Invalid, NotFound
from tests.conformance.documents import config_map, pod
from tests.conformance.server import Server

DRY = {"dryRun": "All"}


async def test_create_shows_the_result_and_keeps_nothing(server: Server) -> None:
    shown = await server.create("pods", pod("a"), **DRY)
    assert shown["metadata"]["uid"]
    assert shown["spec"]["dnsPolicy"] == "ClusterFirst"
    assert "resourceVersion" not in shown["metadata"]
    with pytest.raises(NotFound):
        await server.get("pods", "a")


async def test_dry_run_create_still_validates(server: Server) -> None:
    await server.create("pods", pod("a"))
    with pytest.raises(AlreadyExists):
        await server.create("pods", pod("a"), **DRY)
    with pytest.raises(Invalid):
        await server.create("pods", pod("b", spec={"containers": []}), **DRY)


async def test_replace_and_patch_keep_nothing(server: Server) -> None:
    created = await server.create("configmaps", config_map("a"))
    replaced = await server.replace("configmaps", config_map("a", {"b": "2"}), **DRY)
    patched = await server.patch("configmaps", "a", MERGE_PATCH, {"data": {"c": "3"}}, **DRY)
    assert replaced["data"] == {"b": "2"}
    assert patched["data"] == {"a": "1", "c": "3"}
    assert await server.get("configmaps", "a") == created


async def test_a_stale_version_still_conflicts(server: Server) -> None:
    stale = await server.create("configmaps", config_map("a"))
    await server.patch("configmaps", "a", MERGE_PATCH, {"data": {"b": "2"}})
    with pytest.raises(Conflict):
        await server.replace("configmaps", {**stale, "data": {"c": "3"}}, **DRY)


async def test_dry_run_delete_keeps_the_object(server: Server) -> None:
    await server.create("configmaps", config_map("a"))
    await server.delete("configmaps", "a", dryRun="All")
    await server.delete("configmaps", "a", {"dryRun": ["All"]})
    await server.call("deletecollection", "configmaps", **DRY)
    assert (await server.get("configmaps", "a"))["data"] == {"a": "1"}


async def test_dry_run_writes_are_not_watched(server: Server) -> None:
    start = (await server.list("pods"))["metadata"]["resourceVersion"]
    async with server.watch("pods", resourceVersion=start) as events:
        await server.create("pods", pod("a"), **DRY)
        assert await events.silent()
