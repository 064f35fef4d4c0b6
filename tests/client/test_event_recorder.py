"""Recorded Events: repeated ones are counted, similar ones combined, floods dropped, failures survived."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from restow.adapters.memory.server import MemoryApi
from restow.client.event_recorder import BURST, MAX_REMEMBERED, EventRecorder
from restow.client.verbs import Client
from restow.model.kinds import EVENT
from restow.model.objects import ObjectReference
from restow.sim.faults import FaultPlan, FaultyApi
from restow.sim.loop import VirtualClock
from tests.client.virtual_server import run_with_server

WEB = ObjectReference(api_version="v1", kind="Pod", namespace="shop", name="web", uid="u1")
NODE = ObjectReference(api_version="v1", kind="Node", name="n1", uid="u2")


def record(
    tell: Callable[[EventRecorder, MemoryApi], Awaitable[None]], plan: FaultPlan | None = None
) -> tuple[list[dict[str, Any]], EventRecorder]:
    """Run a recorder while `tell(recorder)` uses it; the events that are there afterwards, as documents."""

    async def story(api: MemoryApi, clock: VirtualClock) -> tuple[list[dict[str, Any]], EventRecorder]:
        recorder = EventRecorder(Client(FaultyApi(api, Random(3), plan), manager="r-0"), clock, Random(1))
        task = asyncio.create_task(recorder.run())
        await tell(recorder, api)
        await asyncio.sleep(60)
        recorder.close()
        await task
        return (await Client(api).list(EVENT.whole)).items, recorder

    return run_with_server(story)


def test_event_has_object_message_and_times() -> None:
    async def tell(recorder: EventRecorder, api: MemoryApi) -> None:
        recorder.record(WEB, "Evicted", "moved to n2", type="Warning")

    (event,), _ = record(tell)
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "shop",
        "name": "web",
        "uid": "u1",
    }
    assert (event["type"], event["reason"], event["message"], event["count"]) == (
        "Warning",
        "Evicted",
        "moved to n2",
        1,
    )
    assert (event["source"], event["reportingInstance"]) == ({"component": "restow"}, "r-0")
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-01-01T00:00:00Z"


def test_event_of_a_cluster_scoped_object_is_in_default() -> None:
    async def tell(recorder: EventRecorder, api: MemoryApi) -> None:
        recorder.record(NODE, "Drained", "empty")

    (event,), _ = record(tell)
    assert (event["metadata"]["namespace"], event["metadata"]["name"][:3]) == ("default", "n1.")


def test_events_of_the_same_second_are_listed_in_order() -> None:
    async def tell(recorder: EventRecorder, api: MemoryApi) -> None:
        for number in range(9):
            recorder.record(WEB, f"Step{number}", "done")

    events, _ = record(tell)
    assert [event["reason"] for event in events] == [f"Step{number}" for number in range(9)]


def test_repeated_event_increases_count() -> None:
    async def tell(recorder: EventRecorder, api: MemoryApi) -> None:
        for _ in range(3):
            recorder.record(WEB, "Waiting", "no room")
        await asyncio.sleep(10)
        recorder.record(WEB, "Waiting", "no room")

    (event,), _ = record(tell)
    assert (event["count"], event["lastTimestamp"]) == (4, "2026-01-01T00:00:10Z")


def test_repetitions_before_the_write_cause_no_more_writes() -> None:
    async def tell(recorder: EventRecorder, api: MemoryApi) -> None:
        for _ in range(BURST + 15):
            recorder.record(WEB, "Waiting", "no room")
        for number in range(BURST - 1):
            recorder.record(WEB, f"Reason{number}", "the rest of the writes is still there")

    events, recorder = record(tell)
    assert (len(events), max(event["count"] for event in events), recorder.dropped) == (BURST, BURST + 15, 0)


def test_too_many_messages_are_combined() -> None:
    async def tell(recorder: EventRecorder, api: MemoryApi) -> None:
        for number in range(14):
            recorder.record(WEB, "Waiting", f"no room on n{number}")

    events, _ = record(tell)
    combined = [event for event in events if event["message"].startswith("(combined from similar events): ")]
    assert (len(events), [event["count"] for event in combined]) == (11, [4])
    assert combined[0]["message"].endswith("no room on n13")


def test_events_of_one_object_are_rate_limited() -> None:
    async def tell(recorder: EventRecorder, api: MemoryApi) -> None:
        for number in range(BURST + 5):
            recorder.record(WEB, f"Reason{number}", "x")
        recorder.record(NODE, "Drained", "others are not held up")

    events, recorder = record(tell)
    assert (len(events), recorder.dropped) == (BURST + 1, 5)


def test_expired_event_is_created_again() -> None:
    async def tell(recorder: EventRecorder, api: MemoryApi) -> None:
        recorder.record(WEB, "Waiting", "no room")
        await asyncio.sleep(1)
        (event,) = (await Client(api).list(EVENT)).items
        await Client(api).delete(EVENT, event.metadata.name, "shop")
        recorder.record(WEB, "Waiting", "no room")

    (event,), _ = record(tell)
    assert event["count"] == 2


@pytest.mark.parametrize(
    "plan", [FaultPlan(refused=1.0), FaultPlan(busy=1.0)], ids=["a broken server", "a busy server"]
)
def test_failing_writes_lose_only_events(plan: FaultPlan) -> None:
    async def tell(recorder: EventRecorder, api: MemoryApi) -> None:
        recorder.record(WEB, "Waiting", "no room")

    events, recorder = record(tell, plan)
    assert (events, recorder.dropped) == ([], 1)


def test_unknown_outcome_creates_no_second_event() -> None:
    async def tell(recorder: EventRecorder, api: MemoryApi) -> None:
        recorder.record(WEB, "Waiting", "no room")

    events, _ = record(tell, FaultPlan(unknown=1.0))
    assert len(events) == 1


def test_events_of_many_objects_at_once_are_all_written() -> None:
    async def tell(recorder: EventRecorder, api: MemoryApi) -> None:
        for number in range(MAX_REMEMBERED + 100):
            about = ObjectReference(api_version="v1", kind="Pod", namespace="shop", name=f"p{number}", uid=f"u{number}")
            recorder.record(about, "FailedScheduling", "0/3 nodes are available")

    events, recorder = record(tell)
    assert (len(events), recorder.dropped) == (MAX_REMEMBERED + 100, 0)


def test_events_beyond_the_queue_limit_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("restow.client.event_recorder.MAX_WAITING", 2)

    async def tell(recorder: EventRecorder, api: MemoryApi) -> None:
        for number in range(5):
            recorder.record(WEB, "Evicted", f"reason {number}")

    events, recorder = record(tell)
    assert (len(events), recorder.dropped) == (2, 3)
