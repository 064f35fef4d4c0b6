"""Watches: every change, once, in order, from the version asked for."""

from __future__ import annotations

import asyncio

import pytest

from restow.model.objects import Document
from restow.ports import MERGE_PATCH, ApiError, Gone, Invalid, NotFound, Request, Resource
from tests.conformance.conftest import Forget
from tests.conformance.documents import config_map, lease, pod
from tests.conformance.server import Server

END = "k8s.io/initial-events-end"
LIST_IN_WATCH = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}


def brief(event: Document) -> str:
    return f"{event['type']} {event['object']['metadata'].get('name', '')}".strip()


def marks_the_end(event: Document) -> bool:
    annotations = event["object"]["metadata"].get("annotations") or {}
    return event["type"] == "BOOKMARK" and annotations.get(END) == "true"


async def now(server: Server) -> str:
    return str((await server.list("pods"))["metadata"]["resourceVersion"])


async def test_watch_shows_create_update_and_delete(server: Server) -> None:
    mine = {"resourceVersion": await now(server), "fieldSelector": "metadata.name=a"}
    async with server.watch("configmaps", **mine) as events:
        await server.create("configmaps", config_map("a"))
        await server.patch("configmaps", "a", MERGE_PATCH, {"data": {"b": "2"}})
        await server.delete("configmaps", "a")
        assert [brief(await events.next()) for _ in range(3)] == ["ADDED a", "MODIFIED a", "DELETED a"]


async def test_events_carry_the_whole_object(server: Server) -> None:
    start = await now(server)
    created = await server.create("pods", pod("a"))
    async with server.watch("pods", resourceVersion=start) as events:
        assert (await events.next())["object"] == created


async def test_a_deletion_carries_a_newer_version(server: Server) -> None:
    created = await server.create("leases", lease("a"))
    async with server.watch("leases", resourceVersion=created["metadata"]["resourceVersion"]) as events:
        await server.delete("leases", "a")
        event = await events.next()
    assert event["type"] == "DELETED"
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])


async def test_a_pod_that_goes_at_once_is_marked_first(server: Server) -> None:
    created = await server.create("pods", pod("a"))
    async with server.watch("pods", resourceVersion=created["metadata"]["resourceVersion"]) as events:
        await server.delete("pods", "a", {"gracePeriodSeconds": 0})
        marked, gone = await events.next(), await events.next()
    assert (marked["type"], gone["type"]) == ("MODIFIED", "DELETED")
    assert marked["object"]["metadata"]["deletionGracePeriodSeconds"] == 0


async def test_a_write_that_changes_nothing_is_silent(server: Server) -> None:
    created = await server.create("pods", pod("a"))
    async with server.watch("pods", resourceVersion=created["metadata"]["resourceVersion"]) as events:
        await server.patch("pods", "a", MERGE_PATCH, {"spec": {"schedulerName": created["spec"]["schedulerName"]}})
        assert await events.silent()


async def test_other_namespaces_are_silent(server: Server) -> None:
    async with server.watch("pods", resourceVersion=await now(server), namespace="kube-system") as events:
        await server.create("pods", pod("a"))
        assert await events.silent()


@pytest.mark.parametrize("start", [{}, {"resourceVersion": "0"}], ids=["from nowhere", "from zero"])
async def test_without_a_version_the_present_comes_first(server: Server, start: dict[str, str]) -> None:
    for name in ("a", "b"):
        await server.create("pods", pod(name))
    await server.delete("pods", "a", {"gracePeriodSeconds": 0})
    async with server.watch("pods", **start) as events:
        if not start:
            assert brief(await events.next()) == "ADDED b"
        else:  # zero may show an older state and then catch up
            await events.until(lambda event: brief(event) == "ADDED b")
        await server.create("pods", pod("c"))
        await events.until(lambda event: brief(event) == "ADDED c")


async def test_a_watch_resumes_exactly_once(server: Server) -> None:
    start = await now(server)
    for name in "abcd":
        await server.create("pods", pod(name))
    seen: list[str] = []
    for _ in range(4):  # a new watch for every single event
        async with server.watch("pods", resourceVersion=start) as events:
            event = await events.next()
        seen.append(brief(event))
        start = event["object"]["metadata"]["resourceVersion"]
    assert seen == ["ADDED a", "ADDED b", "ADDED c", "ADDED d"]


async def test_two_watches_see_the_same_events(server: Server) -> None:
    start = await now(server)
    async with server.watch("pods", resourceVersion=start) as one, server.watch("pods", resourceVersion=start) as two:
        for name in "abc":
            await server.create("pods", pod(name))
        assert [await one.next() for _ in range(3)] == [await two.next() for _ in range(3)]


async def test_a_label_selector_turns_changes_into_arrivals_and_departures(server: Server) -> None:
    async with server.watch("configmaps", resourceVersion=await now(server), labelSelector="in=yes") as events:
        await server.create("configmaps", config_map("a"))
        await server.create("configmaps", config_map("b", labels={"in": "yes"}))
        for label in ("yes", "no"):
            await server.patch("configmaps", "a", MERGE_PATCH, {"metadata": {"labels": {"in": label}}})
        await server.delete("configmaps", "a")
        await server.delete("configmaps", "b")
        seen = await events.until(lambda event: brief(event) == "DELETED b")
    assert [brief(event) for event in seen] == ["ADDED b", "ADDED a", "DELETED a", "DELETED b"]
    departure = seen[2]["object"]
    assert departure["metadata"]["labels"] == {"in": "yes"}  # as it last was inside, with the version of the change


async def test_a_field_selector_does_the_same(server: Server) -> None:
    async with server.watch("pods", resourceVersion=await now(server), fieldSelector="status.phase=Pending") as events:
        await server.create("pods", pod("a"))
        await server.patch("pods", "a", MERGE_PATCH, {"status": {"phase": "Running"}}, sub="status")
        assert [brief(await events.next()) for _ in range(2)] == ["ADDED a", "DELETED a"]


async def test_watch_of_a_single_name_sends_its_events(server: Server) -> None:
    async with server.watch("pods", resourceVersion=await now(server), fieldSelector="metadata.name=b") as events:
        for name in "abc":
            await server.create("pods", pod(name))
        assert brief(await events.next()) == "ADDED b"
        assert await events.silent()


async def test_initial_events_end_with_a_marked_bookmark(server: Server) -> None:
    for name in "ab":
        await server.create("pods", pod(name))
    async with server.watch("pods", **LIST_IN_WATCH) as events:
        seen = await events.until(marks_the_end)
        assert sorted(brief(event) for event in seen[:-1]) == ["ADDED a", "ADDED b"]
        await server.create("pods", pod("c"))
        assert brief(await events.next()) == "ADDED c"


async def test_the_bookmark_has_kind_and_version_alone(server: Server) -> None:
    await server.create("pods", pod("a"))
    async with server.watch("pods", **LIST_IN_WATCH) as events:
        mark = (await events.until(marks_the_end))[-1]["object"]
    assert (mark["apiVersion"], mark["kind"]) == ("v1", "Pod")
    assert int(mark["metadata"]["resourceVersion"]) > 0
    assert "name" not in mark["metadata"]


async def test_initial_events_can_be_left_out(server: Server) -> None:
    await server.create("pods", pod("a"))
    query = {**LIST_IN_WATCH, "sendInitialEvents": "false", "resourceVersion": await now(server)}
    async with server.watch("pods", **query) as events:
        await server.create("pods", pod("b"))
        arrived = await events.until(lambda event: event["type"] != "BOOKMARK")
        assert brief(arrived[-1]) == "ADDED b"


@pytest.mark.parametrize(
    "query",
    [
        {"sendInitialEvents": "true"},
        {"sendInitialEvents": "true", "resourceVersionMatch": "Exact", "allowWatchBookmarks": "true"},
        {"resourceVersionMatch": "NotOlderThan"},
    ],
    ids=["without a match", "with an exact match", "a match without initial events"],
)
async def test_senseless_initial_events_are_invalid(server: Server, query: dict[str, str]) -> None:
    async with server.watch("pods", **query) as events:
        with pytest.raises(Invalid) as refused:
            await events.next()
    assert refused.value.status.code == 422


async def test_watch_timeout_ends_the_stream(server: Server) -> None:
    async with server.watch("pods", resourceVersion=await now(server), timeoutSeconds="1") as events:
        await server.create("pods", pod("a"))
        assert [brief(event) for event in await events.ended(5)] == ["ADDED a"]


async def test_a_version_that_is_not_a_number_is_refused(server: Server) -> None:
    async with server.watch("pods", resourceVersion="nonsense") as events:
        with pytest.raises(ApiError, match="nonsense"):
            await events.next()


async def test_a_bad_selector_is_refused_before_the_stream(server: Server) -> None:
    async with server.watch("pods", labelSelector="a b") as events:
        with pytest.raises(Invalid):
            await events.next()


async def test_a_watch_of_nothing_known_is_not_found(server: Server) -> None:
    stream = server.api.watch(Request(verb="watch", resource=Resource("", "v1", "nonsenses"), namespace="default"))
    with pytest.raises(NotFound):
        await anext(aiter(stream))


async def test_watch_from_a_compacted_version_is_gone(server: Server, forget: Forget) -> None:
    """Either refused at once or told in the first event, as the server likes; a client must take both."""
    await server.create("pods", pod("a"))
    await forget()
    async with server.watch("pods", resourceVersion="1") as events:
        try:
            event = await events.next()
        except Gone as gone:
            status = {"code": gone.status.code, "reason": gone.status.reason}
        else:
            assert event["type"] == "ERROR"
            status = event["object"]
    assert (status["code"], status["reason"]) == (410, "Expired")


async def test_many_writers_are_seen_in_the_order_of_versions(server: Server) -> None:
    async with server.watch("configmaps", resourceVersion=await now(server), labelSelector="mine") as events:
        writes = (server.create("configmaps", config_map(f"m{i}", labels={"mine": ""})) for i in range(30))
        await asyncio.gather(*writes)
        versions = [int((await events.next())["object"]["metadata"]["resourceVersion"]) for _ in range(30)]
    assert versions == sorted(set(versions))
