"""Events expire some time after their last write, if that is configured."""

from __future__ import annotations

from typing import Any

from restow.adapters.memory import ServerSettings
from restow.ports import MERGE_PATCH
from tests.memory.cluster import Cluster


def event(name: str) -> dict[str, Any]:
    about = {"kind": "Pod", "namespace": "default", "name": "a"}
    return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": about}


async def test_events_expire_after_their_last_write() -> None:
    cluster = Cluster(ServerSettings(event_seconds=3600))
    for name in ("old", "repeated"):
        await cluster.create("events", event(name))
    cluster.clock.seconds += 1800
    await cluster.call("patch", "events", "repeated", {"count": 2}, content_type=MERGE_PATCH)
    cluster.clock.seconds += 1800
    await cluster.create("events", event("new"))
    assert await cluster.names("events") == ["new", "repeated"]


async def test_events_stay_unless_their_end_is_asked_for(cluster: Cluster) -> None:
    await cluster.create("events", event("old"))
    cluster.clock.seconds += 86_400
    await cluster.create("events", event("new"))
    assert await cluster.names("events") == ["new", "old"]
