"""Informer: start, follow, fallbacks and recovery; on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from restow.client.cache import Change, by_node
from restow.client.informer import Informer
from restow.client.informer_settings import InformerSettings
from restow.client.reflector import STALE_LISTS
from restow.client.verbs import Client
from restow.model.kinds import POD
from restow.model.objects import Pod
from restow.ports import Forbidden, Gone, Invalid, OutcomeUnknown, Request, StatusDetails, TooManyRequests
from restow.sim.loop import run_virtual
from tests.client.scripted_api import OPEN, ScriptedApi, bookmark, error, event, page, pod
from tests.narrowing import present

UNAVAILABLE = OutcomeUnknown.because(503, "ServiceUnavailable", "connection refused")
GONE = Gone.because(410, "Expired", "too old")
NO_WATCH_LIST = Invalid.because(422, "Invalid", "sendInitialEvents is forbidden")


@asynccontextmanager
async def running(informer: Informer[Any]) -> AsyncIterator[None]:
    task = asyncio.create_task(informer.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def follow(
    api: ScriptedApi, *, seconds: float = 30.0, **options: Any
) -> tuple[Informer[Pod], list[tuple[str, str, str]]]:
    """Run an informer for a while of virtual time; the informer and what its handler was told."""
    seen: list[tuple[str, str, str]] = []

    async def story() -> Informer[Pod]:
        informer = Informer(Client(api), POD, rng=Random(1), **options)
        informer.subscribe(lambda c: seen.append((c.type, c.object.metadata.name, c.object.metadata.resource_version)))
        async with running(informer):
            await asyncio.sleep(seconds)
        return informer

    return run_virtual(story()), seen


def names(informer: Informer[Pod]) -> list[str]:
    return sorted(item.metadata.name for item in informer)


def versions_asked(api: ScriptedApi) -> list[tuple[str, str | None]]:
    return [(request.verb, request.query.get("resourceVersion")) for request in api.requests]


def test_watch_list_reads_the_state_and_follows_the_same_stream() -> None:
    stream = [event("ADDED", pod("a", 3)), bookmark(7, initial_end=True), event("ADDED", pod("b", 8)), OPEN]
    api = ScriptedApi(streams=[stream])
    informer, seen = follow(api)
    assert (seen, informer.version, informer.is_synced) == ([("ADDED", "a", "3"), ("ADDED", "b", "8")], "8", True)
    query = api.requests[0].query
    assert (query["sendInitialEvents"], query["resourceVersionMatch"]) == ("true", "NotOlderThan")
    assert "resourceVersion" not in query
    assert 300 <= int(query["timeoutSeconds"]) <= 600


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param([NO_WATCH_LIST], id="refused with 422"),
        pytest.param([Invalid.because(400, "BadRequest", "unknown parameter")], id="refused with 400"),
        pytest.param([error(422, "Invalid")], id="refused in the stream"),
        pytest.param([event("ADDED", pod("a", 3)), OPEN], id="ignored: no end of the initial events"),
        pytest.param([event("ADDED", pod("a", 3))], id="ignored: the stream just ends"),
    ],
)
def test_server_without_watch_list_is_listed_in_pages(stream: list[Any]) -> None:
    api = ScriptedApi(page(pod("a", 3), version=9, token="t"), page(pod("b", 4), version=9), streams=[stream, [OPEN]])
    informer, seen = follow(api, settings=InformerSettings(page_size=1))
    assert (names(informer), [s[0] for s in seen]) == (["a", "b"], ["ADDED", "ADDED"])
    assert versions_asked(api) == [("watch", None), ("list", None), ("list", None), ("watch", "9")]
    assert api.requests[1].query == {"limit": "1"}


@pytest.mark.parametrize(
    ("refusal", "watch_lists"),
    [
        pytest.param([NO_WATCH_LIST], 1, id="one refusal"),
        pytest.param([event("ADDED", pod("a", 3))], 2, id="two streams without an end of the initial events"),
        pytest.param([error(500, "InternalError")], 2, id="two internal errors, as with an old etcd"),
    ],
)
def test_watch_list_is_no_longer_tried_after(
    refusal: list[Invalid | dict[str, dict[str, Any] | str]], watch_lists: int
) -> None:
    class Forgetful(ScriptedApi):
        async def watch(self, request: Request) -> AsyncIterator[bytes]:
            if "sendInitialEvents" not in request.query:
                self.requests.append(request)
                raise GONE
            async for line in super().watch(request):
                yield line

    api = Forgetful(*[page(pod("a", 3), version=9)] * 50, streams=[refusal] * 50)
    follow(api, seconds=60)
    assert sum("sendInitialEvents" in request.query for request in api.requests) == watch_lists


START = [event("ADDED", pod("a", 3)), event("ADDED", pod("b", 4)), bookmark(5, initial_end=True)]


@pytest.mark.parametrize(
    ("end", "resumed_from"),
    [
        pytest.param([], "5", id="the server ends the stream"),
        pytest.param([UNAVAILABLE], "5", id="the connection breaks"),
        pytest.param([error(500, "InternalError")], "5", id="an error event"),
        pytest.param([bookmark(50)], "50", id="after a bookmark"),
        pytest.param([event("MODIFIED", pod("a", 8))], "8", id="after an event"),
        pytest.param(
            [bookmark(50), event("MODIFIED", pod("a", 8))], "50", id="an older event does not move the version back"
        ),
    ],
)
def test_interrupted_watch_resumes_from_the_last_version(
    end: list[OutcomeUnknown | dict[str, dict[str, Any] | str]], resumed_from: str
) -> None:
    api = ScriptedApi(streams=[START + end, [event("MODIFIED", pod("b", 60)), OPEN]])
    informer, seen = follow(api)
    assert versions_asked(api) == [("watch", None), ("watch", resumed_from)]
    assert (informer.version, seen[-1]) == ("60", ("MODIFIED", "b", "60"))


@pytest.mark.parametrize(
    "gone", [pytest.param([error(410, "Expired")], id="as an event"), pytest.param([GONE], id="as a refusal")]
)
def test_410_lists_again_and_announces_deleted_objects(
    gone: list[Gone | dict[str, dict[str, int | str] | str]],
) -> None:
    again = [event("ADDED", pod("b", 9)), event("ADDED", pod("c", 10)), bookmark(20, initial_end=True), OPEN]
    api = ScriptedApi(streams=[START, gone, again])
    informer, seen = follow(api)
    assert seen[2:] == [("MODIFIED", "b", "9"), ("ADDED", "c", "10"), ("DELETED", "a", "3")]
    assert (names(informer), versions_asked(api)[-1]) == (["b", "c"], ("watch", None))


def test_expired_list_is_read_again_without_pages() -> None:
    first, whole = page(pod("a", 1), version=5, token="t"), page(pod("a", 1), pod("b", 2), version=9)
    api = ScriptedApi(UNAVAILABLE, first, GONE, whole, streams=[[NO_WATCH_LIST], [OPEN]])
    informer, _ = follow(api, settings=InformerSettings(page_size=1))
    limits = [request.query.get("limit") for request in api.requests[1:5]]
    assert (names(informer), limits) == (["a", "b"], ["1", "1", "1", None])


def test_idle_watch_is_resumed() -> None:
    api = ScriptedApi(streams=[[*START, OPEN], [OPEN]])
    follow(api, settings=InformerSettings(idle_timeout=60), seconds=100)
    assert versions_asked(api) == [("watch", None), ("watch", "5")]


def test_silent_watches_cause_a_list() -> None:
    again = [event("ADDED", pod("a", 3)), bookmark(9, initial_end=True), OPEN]
    api = ScriptedApi(streams=[START, [OPEN], [OPEN], again])
    informer, _ = follow(api, settings=InformerSettings(idle_timeout=60), seconds=150)
    assert (names(informer), versions_asked(api)) == (["a"], [("watch", None), *[("watch", "5")] * 2, ("watch", None)])


@pytest.mark.parametrize("line", [b"{not json", b'{"type":"ADDED"}', b"[]"])
def test_invalid_event_is_survived(line: bytes) -> None:
    api = ScriptedApi(streams=[[*START, line], [event("ADDED", pod("c", 8)), OPEN]])
    informer, _ = follow(api)
    assert names(informer) == ["a", "b", "c"]


def test_unreachable_server_is_retried_with_backoff() -> None:
    api = ScriptedApi(streams=[[UNAVAILABLE] for _ in range(1000)])
    informer, _ = follow(api, seconds=3600)
    assert 3600 / 30 < len(api.requests) < 3600 / 30 * 2.5
    assert (informer.is_synced, informer.failure) == (False, UNAVAILABLE)


def test_watches_that_end_at_once_are_retried_with_backoff() -> None:
    api = ScriptedApi(streams=[START] + [[] for _ in range(1000)])
    follow(api, seconds=600)
    assert len(api.requests) < 100


@pytest.mark.parametrize("old", [event("ADDED", pod("a", 2)), bookmark(5)], ids=["an event", "a bookmark"])
def test_watches_that_repeat_old_events_are_retried_with_backoff(
    old: dict[str, dict[str, dict[str, str] | str] | str],
) -> None:
    api = ScriptedApi(streams=[START] + [[old] for _ in range(1000)])
    follow(api, seconds=600)
    assert len(api.requests) < 100


def test_very_long_version_is_survived() -> None:
    odd = pod("c", 8)
    odd["metadata"]["resourceVersion"] = "9" * 5000
    api = ScriptedApi(streams=[START, [event("ADDED", odd), event("ADDED", pod("d", 9)), OPEN]])
    informer, _ = follow(api)
    assert names(informer) == ["a", "b", "c", "d"]


def test_repeated_410_is_retried_with_backoff() -> None:
    api = ScriptedApi(streams=[START, [GONE]] * 500)
    follow(api, seconds=600)
    assert len(api.requests) < 200


def test_retry_after_is_honoured() -> None:
    details = StatusDetails(retry_after_seconds=20)
    busy = TooManyRequests.because(429, "TooManyRequests", "later", details)
    api = ScriptedApi(streams=[[busy], [OPEN]])
    follow(api, seconds=19)
    assert len(api.requests) == 1


FORBIDDEN = Forbidden.because(403, "Forbidden", "pods is forbidden")


@pytest.mark.parametrize(
    ("streams", "failure"),
    [
        pytest.param([[FORBIDDEN]] * 50, FORBIDDEN, id="forbidden"),
        pytest.param([[FORBIDDEN], [*START, OPEN]], None, id="cleared by a list"),
        pytest.param([[*START, FORBIDDEN], [bookmark(6), OPEN]], None, id="cleared by an event"),
        pytest.param([START, *[[FORBIDDEN]] * 50], FORBIDDEN, id="watch forbidden after the list"),
    ],
)
def test_failure_is_set_while_it_lasts(streams: list[list[Any]], failure: Forbidden | None) -> None:
    informer, _ = follow(ScriptedApi(streams=streams), seconds=5)
    assert informer.failure is failure


def stale_start(version: int) -> list[Any]:
    return [event("ADDED", pod("a", 2)), bookmark(version, initial_end=True)]


def test_stale_lists_are_ignored() -> None:
    streams = [[*START, event("DELETED", pod("a", 9))], [GONE], stale_start(4), [*stale_start(8), OPEN]]
    fresh = [event("ADDED", pod("b", 4)), bookmark(12, initial_end=True), OPEN]
    informer, seen = follow(ScriptedApi(streams=[*streams, fresh]))
    assert (names(informer), seen[-1]) == (["b"], ("DELETED", "a", "9"))


def test_older_history_is_accepted_after_repeated_stale_lists() -> None:
    streams = [START, [GONE]] + [stale_start(3)] * STALE_LISTS
    informer, seen = follow(ScriptedApi(streams=streams), seconds=300)
    assert (names(informer), informer.version) == (["a"], "3")
    assert seen[-1][0] == "DELETED"


def test_unreadable_object_does_not_stop_the_others() -> None:
    odd = {"metadata": {"name": "odd", "namespace": "shop"}, "spec": 3}
    stream = [*START, event("MODIFIED", odd), event("ADDED", pod("c", 8)), OPEN]
    informer, _ = follow(ScriptedApi(streams=[stream]))
    assert (names(informer), list(informer.unreadable)) == (["a", "b", "c"], [("shop", "odd")])


def test_relist_interval_heals_lost_events() -> None:
    again = [event("ADDED", pod("a", 3)), bookmark(9, initial_end=True), OPEN]
    api = ScriptedApi(streams=[START, [OPEN], [OPEN], again])
    informer, seen = follow(api, settings=InformerSettings(idle_timeout=50, relist_interval=100), seconds=200)
    assert (names(informer), seen[-1]) == (["a"], ("DELETED", "b", "4"))


def test_unchanged_objects_are_kept_and_equal_parts_shared() -> None:
    async def play(informer: Informer[Pod]) -> None:
        await informer.synced()
        first = present(informer.get("a", "shop"))
        await asyncio.sleep(10)
        assert informer.version == "9"
        assert informer.get("a", "shop") is first
        assert present(informer.get("b", "shop")).metadata.labels is first.metadata.labels

    pods = [pod("a", 3), pod("b", 4)]
    for item in pods:
        item["metadata"]["labels"] = {"app": "web"}
    added = [event("ADDED", item) for item in pods]
    story(play, [*added, bookmark(5, initial_end=True)], [GONE], [*added, bookmark(9, initial_end=True), OPEN])


def story(play: Callable[[Informer[Pod]], Awaitable[Any]], *streams: list[Any]) -> Any:
    async def whole() -> Any:
        informer = Informer(Client(ScriptedApi(streams=list(streams))), POD, rng=Random(1), indexes={"node": by_node})
        async with running(informer):
            return await play(informer)

    return run_virtual(whole())


def test_late_subscriber_gets_existing_objects() -> None:
    async def play(informer: Informer[Pod]) -> list[str]:
        await informer.synced()
        seen: list[str] = []
        unsubscribe = informer.subscribe(lambda change: seen.append(change.object.metadata.name))
        unsubscribe()
        return seen

    assert story(play, [*START, OPEN]) == ["a", "b"]


def test_get_and_find() -> None:
    async def play(informer: Informer[Pod]) -> None:
        await informer.synced()
        assert present(informer.get("a", "shop")).spec.node_name == "n1"
        assert informer.get("a") is None
        assert [pod.metadata.name for pod in informer.find("node", "n1")] == ["a"]

    story(play, [event("ADDED", pod("a", 3, node="n1")), bookmark(5, initial_end=True), OPEN])


def divide_by_zero(change: Change[Pod]) -> None:
    raise ZeroDivisionError


def test_failing_handler_ends_the_run() -> None:
    async def play() -> None:
        informer = Informer(Client(ScriptedApi(streams=[START])), POD, rng=Random(1))
        informer.subscribe(divide_by_zero)
        await informer.run()

    with pytest.raises(ZeroDivisionError):
        run_virtual(play())
