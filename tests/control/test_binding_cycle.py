"""The binding cycle under interference: responses that are lost, and nodes that change."""

from __future__ import annotations

import pytest

from restow.model import kinds
from restow.ports import ApiError
from restow.scheduling.framework import wait
from tests.control.interfering_api import (
    BUSY,
    CONFLICT,
    FORBIDDEN,
    MISSING,
    UNKNOWN,
    BlindWatchApi,
    RecordingPlugin,
    interfering_api,
)
from tests.control.scheduler_cluster import (
    assert_nothing_overcommitted,
    condition_of_pod,
    events_with_reason,
    nodes_by_pod,
    scheduled_cluster,
)
from tests.sim.simulated_cluster import is_pod_ready, node, on_virtual_time, pass_time, pod

# --- answers to a binding ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("story", "bindings"),
    [
        pytest.param({"after": [UNKNOWN]}, 1, id="timed-out binding that took effect"),
        pytest.param({"before": [UNKNOWN]}, 2, id="timed-out binding that did not take effect"),
        pytest.param({"before": [UNKNOWN, BUSY, UNKNOWN]}, 4, id="several failures in a row"),
        pytest.param({"before": [UNKNOWN] * 5}, 6, id="more failures than one binding cycle retries"),
        pytest.param({"before": [FORBIDDEN]}, 2, id="forbidden, until the next attempt"),
        pytest.param({"before": [CONFLICT]}, 2, id="conflict, until the next attempt"),
        pytest.param({"before": [MISSING]}, 2, id="false NotFound"),
    ],
)
def test_pod_is_bound_after_failed_binding_requests(story: dict[str, list[ApiError]], bindings: int) -> None:
    @on_virtual_time
    async def run() -> None:
        keeper = RecordingPlugin()
        made, around = interfering_api(**{key: list(errors) for key, errors in story.items()})
        async with scheduled_cluster(keeper, around=around) as it:
            await it.create(kinds.POD, pod("a"))
            await pass_time(60)
            assert all(map(is_pod_ready, await it.pods()))
            assert made[0].bindings == bindings
            assert keeper.journal[-3:] == ["reserve", "pre-bind", "post-bind"]
            assert keeper.journal.count("unreserve") == keeper.journal.count("reserve") - 1
            assert [name for name, _ in await events_with_reason(it, "Scheduled")] == ["a"]

    run()


@on_virtual_time
async def test_binding_that_timed_out_and_took_effect_is_found_by_a_read() -> None:
    made, around = interfering_api(after=[UNKNOWN])
    async with scheduled_cluster(around=lambda api: around(BlindWatchApi(api, "a"))) as it:
        await it.create(kinds.POD, pod("a"))
        await pass_time(20)
        assert made[0].bindings == 1
        assert await events_with_reason(it, "FailedScheduling") == []
        assert [name for name, _ in await events_with_reason(it, "Scheduled")] == ["a"]


@on_virtual_time
async def test_pod_deleted_during_its_binding_gives_back_its_room() -> None:
    made, around = interfering_api()
    keeper = RecordingPlugin()
    async with scheduled_cluster(keeper, around=around, nodes=1) as it:

        async def vanish() -> None:
            await it.delete(kinds.POD, "a", grace_seconds=0)

        made[0].first = vanish
        await it.create(kinds.POD, pod("a", "4"))
        await pass_time(3)
        assert keeper.journal == ["reserve", "pre-bind", "unreserve"]
        await it.create(kinds.POD, pod("b", "4"))
        await pass_time(5)
        assert await nodes_by_pod(it) == {"b": "n1"}
        assert await events_with_reason(it, "FailedScheduling") == []


@on_virtual_time
async def test_pod_bound_by_another_component_first_is_accepted() -> None:
    made, around = interfering_api()
    async with scheduled_cluster(around=around, nodes=2) as it:

        async def steal() -> None:
            uid = (await it.document(kinds.POD, "a"))["metadata"]["uid"]
            await it.client.bind("default", "a", uid=uid, node="n2")

        made[0].first = steal
        await it.create(kinds.POD, pod("a", "4"))
        await pass_time(5)
        await it.create(kinds.POD, pod("b", "4"))
        await it.create(kinds.POD, pod("c", "4"))
        await pass_time(5)
        assert {**await nodes_by_pod(it), "b": None, "c": None} == {"a": "n2", "b": None, "c": None}
        assert "a" not in dict(await events_with_reason(it, "FailedScheduling"))
        await assert_nothing_overcommitted(it)


# --- the place changes ------------------------------------------------------------------------------------------------


@on_virtual_time
async def test_room_taken_by_a_foreign_pod_before_bind_requeues_the_pod() -> None:
    keeper = RecordingPlugin()
    keeper.settles = [wait("a moment")] * 2  # the second one when the pod shows where it is expected
    async with scheduled_cluster(keeper, nodes=1) as it:
        await it.create(kinds.POD, pod("ours", "3"))
        await pass_time(1)
        await it.create(kinds.POD, pod("theirs", "2", schedulerName="other", nodeName="n1"))
        await pass_time(20)
        assert await nodes_by_pod(it) == {"ours": None, "theirs": "n1"}
        assert (await condition_of_pod(it, "ours"))[2] == "0/1 nodes are available: 1 Insufficient cpu."
        told = [message for _, message in await events_with_reason(it, "FailedScheduling")]
        assert told == [
            "another pod took the room on node n1 first",
            "0/1 nodes are available: 1 Insufficient cpu.",
        ]
        assert keeper.journal.count("reserve") == keeper.journal.count("unreserve") == 1
        await it.create(kinds.NODE, node("n2"))
        await pass_time(20)
        assert await nodes_by_pod(it) == {"ours": "n2", "theirs": "n1"}


@on_virtual_time
async def test_node_deleted_before_bind_requeues_the_pod() -> None:
    keeper = RecordingPlugin()
    keeper.settles = [wait("a moment")] * 2  # the second one when the pod shows where it is expected
    async with scheduled_cluster(keeper, nodes=1) as it:
        await it.create(kinds.POD, pod("a"))
        await pass_time(1)
        await it.delete(kinds.NODE, "n1")
        await pass_time(3)
        assert await nodes_by_pod(it) == {"a": None}
        await it.create(kinds.NODE, node("n2"))
        await pass_time(20)
        assert await nodes_by_pod(it) == {"a": "n2"}
