"""Watches: what they send, where they resume, when they end, and what a slow one costs."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.adapters.memory import MemoryApi, ServerSettings
from restow.ports import MERGE_PATCH, Invalid, OutcomeUnknown, Request
from restow.sim.loop import VirtualClock, run_virtual
from tests.memory.cluster import RESOURCES, Cluster, collect, config_map, pod, told

NEWEST = {"resourceVersionMatch": "NotOlderThan"}


async def test_watch_without_a_version_starts_with_the_present_objects(cluster: Cluster) -> None:
    for name in ("b", "a"):
        await cluster.create("configmaps", config_map(name))
    assert told(await collect(cluster.events("configmaps"), 2)) == [("ADDED", "a"), ("ADDED", "b")]


async def test_watch_from_a_version_sends_later_events(cluster: Cluster) -> None:
    version = (await cluster.create("configmaps", config_map("a")))["metadata"]["resourceVersion"]
    await cluster.create("configmaps", config_map("b"))
    await cluster.delete("configmaps", "a")
    events = await collect(cluster.events("configmaps", resourceVersion=version), 2)
    assert told(events) == [("ADDED", "b"), ("DELETED", "a")]
    assert int(events[1]["object"]["metadata"]["resourceVersion"]) == cluster.api.version


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        ("app=web", [{"app": "web"}, {"app": "web", "x": "1"}], ["ADDED", "MODIFIED"]),
        ("app=web", [{"app": "db"}, {"app": "web"}], ["ADDED"]),
        ("app=web", [{"app": "web"}, {"app": "db"}], ["ADDED", "DELETED"]),
        ("app=web", [{"app": "web"}, {"app": "db"}, {"app": "web"}], ["ADDED", "DELETED", "ADDED"]),
        ("app=web", [{"app": "db"}, {"app": "none"}], []),
    ],
    ids=["stays", "enters", "leaves", "comes back", "never there"],
)
async def test_a_selection_is_entered_and_left(
    cluster: Cluster, selector: str, labels: list[dict[str, str]], expected: list[str]
) -> None:
    version = str(cluster.api.version)
    await cluster.create("configmaps", config_map(labels=labels[0]))
    for each in labels[1:]:
        change = {"metadata": {"labels": {"app": None, "x": None, **each}}}
        await cluster.call("patch", "configmaps", "a", change, content_type=MERGE_PATCH)
    await cluster.create("configmaps", config_map("end", labels={"app": "web"}))
    stream = cluster.events("configmaps", labelSelector=selector, resourceVersion=version)
    events = await collect(stream, len(expected) + 1)
    assert [event["type"] for event in events] == [*expected, "ADDED"]


async def test_object_that_leaves_the_selection_is_sent_as_deleted_at_the_new_version(cluster: Cluster) -> None:
    created = await cluster.create("configmaps", config_map(labels={"app": "web"}))
    change = {"metadata": {"labels": {"app": "db"}}}
    moved = await cluster.call("patch", "configmaps", "a", change, content_type=MERGE_PATCH)
    version = created["metadata"]["resourceVersion"]
    (event,) = await collect(cluster.events("configmaps", labelSelector="app=web", resourceVersion=version), 1)
    assert event["object"]["metadata"]["labels"] == {"app": "web"}
    assert event["object"]["metadata"]["resourceVersion"] == moved["metadata"]["resourceVersion"]


async def test_initial_events_end_with_a_bookmark(cluster: Cluster) -> None:
    await cluster.create("configmaps", config_map())
    query = {"sendInitialEvents": "true", "allowWatchBookmarks": "true", **NEWEST}
    added, mark = await collect(cluster.events("configmaps", **query), 2)
    assert (added["type"], mark["type"]) == ("ADDED", "BOOKMARK")
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert mark["object"]["metadata"]["resourceVersion"] == str(cluster.api.version)


@pytest.mark.parametrize(
    ("query", "error", "words"),
    [
        ({"sendInitialEvents": "true"}, Invalid, "sendInitialEvents requires setting resourceVersionMatch"),
        (NEWEST, Invalid, "resourceVersionMatch is forbidden for watch unless sendInitialEvents"),
        ({"resourceVersion": "x"}, Invalid, "resourceVersion"),
        ({"labelSelector": "a in"}, Invalid, "invalid selector"),
        ({"sendInitialEvents": "true", "resourceVersion": "999", **NEWEST}, OutcomeUnknown, "Too large resource"),
    ],
    ids=["initial without match", "match without initial", "not a version", "bad selector", "from the future"],
)
async def test_bad_watch_options_are_refused(cluster: Cluster, query: dict[str, str], error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        await collect(cluster.events("configmaps", **query), 1)


async def test_a_forgotten_version_is_gone(cluster: Cluster) -> None:
    version = str(cluster.api.version)
    cluster.api.compact()
    (event,) = [each async for each in cluster.events("configmaps", resourceVersion=version)]
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert event["object"]["message"].startswith(f"too old resource version: {version} (")


async def test_a_watcher_too_far_behind_is_gone() -> None:
    cluster = Cluster(ServerSettings(history=4))
    stream = cluster.events("configmaps", resourceVersion=str(cluster.api.version))
    await cluster.create("configmaps", config_map("first"))
    assert told([await anext(stream)]) == [("ADDED", "first")]
    for number in range(20):
        await cluster.create("configmaps", config_map(f"c{number}"))
    rest = [event async for event in stream]
    assert [event["type"] for event in rest] == ["ERROR"]


async def test_watch_from_a_future_version_sends_later_events(cluster: Cluster) -> None:
    stream = cluster.events("configmaps", resourceVersion=str(cluster.api.version + 1))
    waiting = asyncio.ensure_future(collect(stream, 1))
    await asyncio.sleep(0)
    for name in ("a", "b"):
        await cluster.create("configmaps", config_map(name))
    assert told(await waiting) == [("ADDED", "b")]


async def test_watchers_share_encoded_events(cluster: Cluster) -> None:
    request = cluster.request("watch", "configmaps", resourceVersion=str(cluster.api.version))
    streams: list[Any] = [cluster.api.watch(request) for _ in range(50)]
    waiting = [asyncio.ensure_future(anext(stream)) for stream in streams]
    await asyncio.sleep(0)
    await cluster.create("configmaps", config_map())
    frames = await asyncio.gather(*waiting)
    assert len({id(frame) for frame in frames}) == 1
    for stream in streams:
        await stream.aclose()


async def test_watch_of_a_single_object_by_name(cluster: Cluster) -> None:
    version = str(cluster.api.version)
    for name in ("a", "b"):
        await cluster.create("configmaps", config_map(name))
    events = await collect(cluster.events("configmaps", name="b", resourceVersion=version), 1)
    assert told(events) == [("ADDED", "b")]


def test_watch_sends_bookmarks_and_ends_after_its_timeout() -> None:
    async def story() -> list[tuple[float, str]]:
        loop = asyncio.get_running_loop()
        api = MemoryApi(VirtualClock(), random.Random(1), ServerSettings(bookmark_seconds=60))
        query = {"resourceVersion": "1", "timeoutSeconds": "150", "allowWatchBookmarks": "true"}
        request = Request(verb="watch", resource=RESOURCES["pods"], query=query)
        seen = [(loop.time(), json.loads(frame)["type"]) async for frame in api.watch(request)]
        return [*seen, (loop.time(), "end")]

    assert run_virtual(story()) == [(60, "BOOKMARK"), (120, "BOOKMARK"), (150, "end")]


def test_a_closed_watch_leaves_no_timer_behind() -> None:
    async def story() -> float:
        api = MemoryApi(VirtualClock(), random.Random(1))
        query = {"timeoutSeconds": "1000", "allowWatchBookmarks": "true"}
        waiting = asyncio.ensure_future(
            anext(api.watch(Request(verb="watch", resource=RESOURCES["pods"], query=query)))
        )
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return asyncio.get_running_loop().time()

    assert run_virtual(story()) == 1


LABELS = st.sampled_from([{}, {"app": "web"}, {"app": "db"}])
STEPS = st.lists(st.tuples(st.sampled_from(["write", "delete"]), st.sampled_from("abc"), LABELS), max_size=25)


@given(steps=STEPS, start=st.integers(0, 25), selector=st.sampled_from(["", "app=web", "app!=web", "!app"]))
@settings(max_examples=60, deadline=None)
def test_a_watch_from_any_version_arrives_at_the_list(steps: Any, start: int, selector: str) -> None:
    async def story() -> None:
        cluster = Cluster()
        view: dict[str, str] = {}
        version = str(cluster.api.version)
        for number, step in enumerate(steps):
            if number == start:
                view, version = await _listed(cluster, selector)
            await _take(cluster, *step)
        await cluster.create("configmaps", config_map("end", labels={"app": "web"} if selector == "app=web" else {}))
        async for event in cluster.events("configmaps", labelSelector=selector, resourceVersion=version):
            metadata = event["object"]["metadata"]
            assert (metadata["name"] in view) == (event["type"] != "ADDED")
            view[metadata["name"]] = metadata["resourceVersion"]
            if event["type"] == "DELETED":
                del view[metadata["name"]]
            if metadata["name"] == "end":
                break
        assert view == (await _listed(cluster, selector))[0]

    asyncio.run(story())


async def _take(cluster: Cluster, act: str, name: str, labels: dict[str, str]) -> None:
    exists = name in await cluster.names("configmaps")
    if act == "delete" and exists:
        await cluster.delete("configmaps", name)
    elif act == "write" and exists:
        await cluster.call("replace", "configmaps", name, config_map(name, labels=labels))
    elif act == "write":
        await cluster.create("configmaps", config_map(name, labels=labels))


async def _listed(cluster: Cluster, selector: str) -> tuple[dict[str, str], str]:
    listed = await cluster.call("list", "configmaps", labelSelector=selector)
    view = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in listed["items"]}
    return view, listed["metadata"]["resourceVersion"]


async def test_watch_with_field_selector_follows_pods_of_a_node(cluster: Cluster) -> None:
    version = str(cluster.api.version)
    await cluster.create("pods", pod("a"))
    await cluster.bind("a", "n1")
    events = await collect(cluster.events("pods", fieldSelector="spec.nodeName=n1", resourceVersion=version), 1)
    assert told(events) == [("ADDED", "a")]


async def test_the_history_is_bounded_in_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("restow.adapters.memory.store.LOG_BYTES", 50_000)
    cluster = Cluster()
    start = str(cluster.api.version)
    for number in range(100):
        await cluster.create("configmaps", config_map(f"c{number}", annotations={"a": "x" * 1000}))
    (event,) = await collect(cluster.events("configmaps", resourceVersion=start), 1)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    log = cluster.api._state.store.collections["configmaps"].log
    assert 10 < log.end - log.first < 50
