"""resourceVersion, generation and the status subresource: which write changes which number."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model.objects import Document
from restow.ports import MERGE_PATCH, Conflict, Gone, Invalid, OutcomeUnknown
from tests.conformance.documents import config_map, deployment, pod
from tests.conformance.server import Server


def version(document: Document) -> int:
    return int(document["metadata"]["resourceVersion"])


async def test_every_write_moves_the_version_forward(server: Server) -> None:
    first = await server.create("configmaps", config_map("a"))
    other = await server.create("configmaps", config_map("b"))
    second = await server.replace("configmaps", config_map("a", {"b": "2"}))
    assert version(first) < version(other) < version(second)


async def test_an_update_that_changes_nothing_writes_nothing(server: Server) -> None:
    created = await server.create("configmaps", config_map("a"))
    replaced = await server.replace("configmaps", created)
    patched = await server.patch("configmaps", "a", MERGE_PATCH, {"data": {"a": "1"}})
    assert version(created) == version(replaced) == version(patched)


async def test_a_patch_with_a_stale_version_conflicts(server: Server) -> None:
    created = await server.create("configmaps", config_map("a"))
    await server.patch("configmaps", "a", MERGE_PATCH, {"data": {"b": "2"}})
    stale = {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}, "data": {"c": "3"}}
    with pytest.raises(Conflict):
        await server.patch("configmaps", "a", MERGE_PATCH, stale)


async def test_generation_follows_spec_alone(server: Server) -> None:
    created = await server.create("deployments", deployment("web"))
    labelled = await server.patch("deployments", "web", MERGE_PATCH, {"metadata": {"labels": {"x": "1"}}})
    paused = await server.patch("deployments", "web", MERGE_PATCH, {"spec": {"paused": True}})
    status = {"status": {"replicas": 0, "observedGeneration": 2}}
    reported = await server.patch("deployments", "web", MERGE_PATCH, status, sub="status")
    generations = [doc["metadata"]["generation"] for doc in (created, labelled, paused, reported)]
    assert generations == [1, 1, 2, 2]


async def test_a_main_write_does_not_touch_status(server: Server) -> None:
    created = await server.create("pods", {**pod("a"), "status": {"phase": "Running"}})
    assert created["status"]["phase"] == "Pending"
    patched = await server.patch("pods", "a", MERGE_PATCH, {"status": {"phase": "Failed"}})
    assert patched["status"]["phase"] == "Pending"
    assert version(patched) == version(created)


async def test_a_status_write_touches_status_alone(server: Server) -> None:
    created = await server.create("pods", pod("a", labels={"x": "1"}))
    change: dict[str, Any] = {
        "metadata": {"labels": {"x": "2"}},
        "spec": {"activeDeadlineSeconds": 5},
        "status": {"phase": "Running", "podIP": "10.0.0.1"},
    }
    patched = await server.patch("pods", "a", MERGE_PATCH, change, sub="status")
    assert patched["status"]["phase"] == "Running"
    assert patched["status"]["podIPs"] == [{"ip": "10.0.0.1"}]
    assert "activeDeadlineSeconds" not in patched["spec"]
    assert version(patched) > version(created)


async def test_status_can_be_read_and_replaced(server: Server) -> None:
    created = await server.create("pods", pod("a"))
    assert await server.get("pods", "a", sub="status") == created
    created["status"]["phase"] = "Running"
    replaced = await server.replace("pods", created, sub="status")
    assert replaced["status"]["phase"] == "Running"


async def test_a_stale_status_write_conflicts(server: Server) -> None:
    stale = await server.create("pods", pod("a"))
    await server.patch("pods", "a", MERGE_PATCH, {"metadata": {"labels": {"x": "1"}}})
    with pytest.raises(Conflict):
        await server.replace("pods", stale, sub="status")


async def test_zero_and_current_versions_can_be_read(server: Server) -> None:
    created = await server.create("configmaps", config_map("a"))
    at_least = created["metadata"]["resourceVersion"]
    for query in ({"resourceVersion": "0"}, {"resourceVersion": at_least}, {}):
        assert (await server.get("configmaps", "a", **query))["metadata"]["name"] == "a"
        assert "a" in await server.names("configmaps", **query)


async def test_a_version_that_is_not_a_number_is_refused(server: Server) -> None:
    with pytest.raises(Invalid, match="nonsense"):
        await server.list("configmaps", resourceVersion="nonsense")


async def test_an_exact_version_shows_the_past(server: Server) -> None:
    first = await server.create("pods", pod("a"))
    await server.create("pods", pod("b"))
    then = first["metadata"]["resourceVersion"]
    listed = await server.list("pods", resourceVersion=then, resourceVersionMatch="Exact")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a"]
    assert listed["metadata"]["resourceVersion"] == then


async def test_a_version_from_the_future_does_not_hang(server: Server) -> None:
    created = await server.create("configmaps", config_map("a"))
    future = str(version(created) + 1_000_000)
    with pytest.raises((OutcomeUnknown, Gone, Invalid)) as refused:
        await server.list("configmaps", resourceVersion=future, resourceVersionMatch="NotOlderThan")
    assert "Too large resource version" in refused.value.status.message


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ({"resourceVersionMatch": "Exact"}, "resourceVersionMatch"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, "resourceVersionMatch"),
        ({"resourceVersionMatch": "Sometimes", "resourceVersion": "1"}, "resourceVersionMatch"),
    ],
    ids=["match without a version", "exactly zero", "an unknown match"],
)
async def test_senseless_version_queries_are_refused(server: Server, query: dict[str, str], path: str) -> None:
    with pytest.raises(Invalid, match=path):
        await server.list("configmaps", **query)
