"""How the informer starts, follows, falls back and recovers; time is virtual."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from restow.client.cache import Change, by_node
from restow.client.informer import STALE_LISTS, Informer, Pace
from restow.client.verbs import Client
from restow.model.kinds import POD
from restow.model.objects import Pod
from restow.ports import Forbidden, Gone, Invalid, OutcomeUnknown, Request, StatusDetails, TooManyRequests
from restow.sim.loop import run_virtual
from tests.client.script import OPEN, ScriptedApi, bookmark, error, event, page, pod
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
def test_servers_without_watch_list_are_listed_in_pages(stream: list[Any]) -> None:
    api = ScriptedApi(page(pod("a", 3), version=9, token="t"), page(pod("b", 4), version=9), streams=[stream, [OPEN]])
    informer, seen = follow(api, page_size=1)
    assert (names(informer), [s[0] for s in seen]) == (["a", "b"], ["ADDED", "ADDED"])
    assert versions_asked(api) == [("watch", None), ("list", None), ("list", None), ("watch", "9")]
    assert api.requests[1].query == {"limit": "1"}


@pytest.mark.parametrize(
    ("refusal", "watch_lists"),
    [
        pytest.param([NO_WATCH_LIST], 1, id="a refusal is for good"),
        pytest.param([event("ADDED", pod("a", 3))], 2, id="an unmarked end might have been an accident, once"),
        pytest.param([error(500, "InternalError")], 2, id="an internal error, too; an old etcd makes it last"),
    ],
)
def test_watch_list_is_given_up(refusal: list[Invalid | dict[str, dict[str, Any] | str]], watch_lists: int) -> None:
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
        pytest.param([bookmark(50)], "50", id="bookmarks move the version"),
        pytest.param([event("MODIFIED", pod("a", 8))], "8", id="so do events"),
        pytest.param([bookmark(50), event("MODIFIED", pod("a", 8))], "50", id="never backwards"),
    ],
)
def test_a_broken_watch_resumes_from_the_last_version(
    end: list[OutcomeUnknown | dict[str, dict[str, Any] | str]], resumed_from: str
) -> None:
    api = ScriptedApi(streams=[START + end, [event("MODIFIED", pod("b", 60)), OPEN]])
    informer, seen = follow(api)
    assert versions_asked(api) == [("watch", None), ("watch", resumed_from)]
    assert (informer.version, seen[-1]) == ("60", ("MODIFIED", "b", "60"))


@pytest.mark.parametrize(
    "gone", [pytest.param([error(410, "Expired")], id="as an event"), pytest.param([GONE], id="as a refusal")]
)
def test_410_lists_again_and_announces_what_vanished(gone: list[Gone | dict[str, dict[str, int | str] | str]]) -> None:
    again = [event("ADDED", pod("b", 9)), event("ADDED", pod("c", 10)), bookmark(20, initial_end=True), OPEN]
    api = ScriptedApi(streams=[START, gone, again])
    informer, seen = follow(api)
    assert seen[2:] == [("MODIFIED", "b", "9"), ("ADDED", "c", "10"), ("DELETED", "a", "3")]
    assert (names(informer), versions_asked(api)[-1]) == (["b", "c"], ("watch", None))


def test_a_paged_list_that_expires_is_read_again_in_one() -> None:
    first, whole = page(pod("a", 1), version=5, token="t"), page(pod("a", 1), pod("b", 2), version=9)
    api = ScriptedApi(UNAVAILABLE, first, GONE, whole, streams=[[NO_WATCH_LIST], [OPEN]])
    informer, _ = follow(api, page_size=1)
    limits = [request.query.get("limit") for request in api.requests[1:5]]
    assert (names(informer), limits) == (["a", "b"], ["1", "1", "1", None])


def test_the_idle_watch_is_given_up_and_resumed() -> None:
    api = ScriptedApi(streams=[[*START, OPEN], [OPEN]])
    follow(api, pace=Pace(idle=60), seconds=100)
    assert versions_asked(api) == [("watch", None), ("watch", "5")]


def test_watches_that_stay_silent_make_it_look_again() -> None:
    again = [event("ADDED", pod("a", 3)), bookmark(9, initial_end=True), OPEN]
    api = ScriptedApi(streams=[START, [OPEN], [OPEN], again])
    informer, _ = follow(api, pace=Pace(idle=60), seconds=150)
    assert (names(informer), versions_asked(api)) == (["a"], [("watch", None), *[("watch", "5")] * 2, ("watch", None)])


@pytest.mark.parametrize("line", [b"{not json", b'{"type":"ADDED"}', b"[]"])
def test_nonsense_on_the_line_is_survived(line: bytes) -> None:
    api = ScriptedApi(streams=[[*START, line], [event("ADDED", pod("c", 8)), OPEN]])
    informer, _ = follow(api)
    assert names(informer) == ["a", "b", "c"]


def test_an_unreachable_server_is_asked_less_and_less() -> None:
    api = ScriptedApi(streams=[[UNAVAILABLE] for _ in range(1000)])
    informer, _ = follow(api, seconds=3600)
    assert 3600 / 30 < len(api.requests) < 3600 / 30 * 2.5
    assert (informer.is_synced, informer.failure) == (False, UNAVAILABLE)


def test_a_server_that_ends_every_watch_at_once_is_not_hammered() -> None:
    api = ScriptedApi(streams=[START] + [[] for _ in range(1000)])
    follow(api, seconds=600)
    assert len(api.requests) < 100


@pytest.mark.parametrize("old", [event("ADDED", pod("a", 2)), bookmark(5)], ids=["an event", "a bookmark"])
def test_a_server_that_repeats_itself_and_ends_is_not_hammered(
    old: dict[str, dict[str, dict[str, str] | str] | str],
) -> None:
    api = ScriptedApi(streams=[START] + [[old] for _ in range(1000)])
    follow(api, seconds=600)
    assert len(api.requests) < 100


def test_a_version_of_thousands_of_digits_is_survived() -> None:
    odd = pod("c", 8)
    odd["metadata"]["resourceVersion"] = "9" * 5000
    api = ScriptedApi(streams=[START, [event("ADDED", odd), event("ADDED", pod("d", 9)), OPEN]])
    informer, _ = follow(api)
    assert names(informer) == ["a", "b", "c", "d"]


def test_a_server_that_forgets_at_once_is_not_hammered() -> None:
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
        pytest.param([[FORBIDDEN]] * 50, FORBIDDEN, id="told"),
        pytest.param([[FORBIDDEN], [*START, OPEN]], None, id="forgotten once a list is in"),
        pytest.param([[*START, FORBIDDEN], [bookmark(6), OPEN]], None, id="forgotten once there is news"),
        pytest.param([START, *[[FORBIDDEN]] * 50], FORBIDDEN, id="told of a watch that cannot go on from the list"),
    ],
)
def test_failure_is_told_and_forgotten_when_things_go_well(streams: list[list[Any]], failure: Forbidden | None) -> None:
    informer, _ = follow(ScriptedApi(streams=streams), seconds=5)
    assert informer.failure is failure


def stale_start(version: int) -> list[Any]:
    return [event("ADDED", pod("a", 2)), bookmark(version, initial_end=True)]


def test_stale_lists_are_not_believed() -> None:
    streams = [[*START, event("DELETED", pod("a", 9))], [GONE], stale_start(4), [*stale_start(8), OPEN]]
    fresh = [event("ADDED", pod("b", 4)), bookmark(12, initial_end=True), OPEN]
    informer, seen = follow(ScriptedApi(streams=[*streams, fresh]))
    assert (names(informer), seen[-1]) == (["b"], ("DELETED", "a", "9"))


def test_a_server_whose_history_was_reset_is_believed_in_the_end() -> None:
    streams = [START, [GONE]] + [stale_start(3)] * STALE_LISTS
    informer, seen = follow(ScriptedApi(streams=streams), seconds=300)
    assert (names(informer), informer.version) == (["a"], "3")
    assert seen[-1][0] == "DELETED"


def test_one_unreadable_object_does_not_stop_the_others() -> None:
    odd = {"metadata": {"name": "odd", "namespace": "shop"}, "spec": 3}
    stream = [*START, event("MODIFIED", odd), event("ADDED", pod("c", 8)), OPEN]
    informer, _ = follow(ScriptedApi(streams=[stream]))
    assert (names(informer), list(informer.unreadable)) == (["a", "b", "c"], [("shop", "odd")])


def test_relisting_on_a_schedule_heals_lost_events() -> None:
    again = [event("ADDED", pod("a", 3)), bookmark(9, initial_end=True), OPEN]
    api = ScriptedApi(streams=[START, [OPEN], [OPEN], again])
    informer, seen = follow(api, pace=Pace(idle=50, relist=100), seconds=200)
    assert (names(informer), seen[-1]) == (["a"], ("DELETED", "b", "4"))


def test_unchanged_objects_are_not_replaced_and_equal_parts_are_shared() -> None:
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


def test_late_subscribers_are_told_what_is_there() -> None:
    async def play(informer: Informer[Pod]) -> list[str]:
        await informer.synced()
        seen: list[str] = []
        unsubscribe = informer.subscribe(lambda change: seen.append(change.object.metadata.name))
        unsubscribe()
        return seen

    assert story(play, [*START, OPEN]) == ["a", "b"]


def test_reading_by_name_and_by_index() -> None:
    async def play(informer: Informer[Pod]) -> None:
        await informer.synced()
        assert present(informer.get("a", "shop")).spec.node_name == "n1"
        assert informer.get("a") is None
        assert [pod.metadata.name for pod in informer.find("node", "n1")] == ["a"]

    story(play, [event("ADDED", pod("a", 3, node="n1")), bookmark(5, initial_end=True), OPEN])


def divide_by_zero(change: Change[Pod]) -> None:
    raise ZeroDivisionError


def test_a_handler_that_raises_ends_the_run() -> None:
    async def play() -> None:
        informer = Informer(Client(ScriptedApi(streams=[START])), POD, rng=Random(1))
        informer.subscribe(divide_by_zero)
        await informer.run()

    with pytest.raises(ZeroDivisionError):
        run_virtual(play())
