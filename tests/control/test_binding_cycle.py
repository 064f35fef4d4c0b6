"""The binding cycle when something comes in between: answers that leave open what happened, and places that change."""

from __future__ import annotations

import pytest

from restow.model import kinds
from restow.ports import ApiError
from restow.scheduling.framework import wait
from tests.control.interfering_api import BUSY, CONFLICT, FORBIDDEN, MISSING, UNKNOWN, Blind, Keeper, interfered
from tests.control.scheduler_cluster import check_room, condition, events, places, stage
from tests.sim.simulated_cluster import is_pod_ready, node, on_virtual_time, pass_time, pod

# --- answers to a binding ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("story", "bindings"),
    [
        pytest.param({"after": [UNKNOWN]}, 1, id="a time-out that took effect is not tried again"),
        pytest.param({"before": [UNKNOWN]}, 2, id="a time-out that took none is"),
        pytest.param({"before": [UNKNOWN, BUSY, UNKNOWN]}, 4, id="several failures in a row"),
        pytest.param({"before": [UNKNOWN] * 5}, 6, id="more than a binding cycle has patience for"),
        pytest.param({"before": [FORBIDDEN]}, 2, id="a refusal is tried again later, as a new attempt"),
        pytest.param({"before": [CONFLICT]}, 2, id="and so is a conflict"),
        pytest.param({"before": [MISSING]}, 2, id="and a pod that is said to be gone and is not"),
    ],
)
def test_a_binding_that_fails_gets_there_in_the_end(story: dict[str, list[ApiError]], bindings: int) -> None:
    @on_virtual_time
    async def run() -> None:
        keeper = Keeper()
        made, around = interfered(**{key: list(errors) for key, errors in story.items()})
        async with stage(keeper, around=around) as it:
            await it.create(kinds.POD, pod("a"))
            await pass_time(60)
            assert all(map(is_pod_ready, await it.pods()))
            assert made[0].bindings == bindings
            assert keeper.journal[-3:] == ["reserve", "pre-bind", "post-bind"]
            assert keeper.journal.count("unreserve") == keeper.journal.count("reserve") - 1
            assert [name for name, _ in await events(it, "Scheduled")] == ["a"]

    run()


@on_virtual_time
async def test_a_time_out_that_took_effect_is_found_out_even_if_no_event_says_so() -> None:
    made, around = interfered(after=[UNKNOWN])
    async with stage(around=lambda api: around(Blind(api, "a"))) as it:
        await it.create(kinds.POD, pod("a"))
        await pass_time(20)
        assert made[0].bindings == 1
        assert await events(it, "FailedScheduling") == []
        assert [name for name, _ in await events(it, "Scheduled")] == ["a"]


@on_virtual_time
async def test_a_pod_that_goes_away_while_it_is_bound_leaves_nothing_behind() -> None:
    made, around = interfered()
    keeper = Keeper()
    async with stage(keeper, around=around, nodes=1) as it:

        async def vanish() -> None:
            await it.delete(kinds.POD, "a", grace_seconds=0)

        made[0].first = vanish
        await it.create(kinds.POD, pod("a", "4"))
        await pass_time(3)
        assert keeper.journal == ["reserve", "pre-bind", "unreserve"]
        await it.create(kinds.POD, pod("b", "4"))
        await pass_time(5)
        assert await places(it) == {"b": "n1"}
        assert await events(it, "FailedScheduling") == []


@on_virtual_time
async def test_somebody_else_binds_the_pod_first() -> None:
    made, around = interfered()
    async with stage(around=around, nodes=2) as it:

        async def steal() -> None:
            uid = (await it.document(kinds.POD, "a"))["metadata"]["uid"]
            await it.client.bind("default", "a", uid=uid, node="n2")

        made[0].first = steal
        await it.create(kinds.POD, pod("a", "4"))
        await pass_time(5)
        await it.create(kinds.POD, pod("b", "4"))
        await it.create(kinds.POD, pod("c", "4"))
        await pass_time(5)
        assert {**await places(it), "b": None, "c": None} == {"a": "n2", "b": None, "c": None}
        assert "a" not in dict(await events(it, "FailedScheduling"))
        await check_room(it)


# --- the place changes ------------------------------------------------------------------------------------------------


@on_virtual_time
async def test_a_foreign_pod_takes_the_room_before_binding() -> None:
    keeper = Keeper()
    keeper.settles = [wait("a moment")] * 2  # the second one when the pod shows where it is expected
    async with stage(keeper, nodes=1) as it:
        await it.create(kinds.POD, pod("ours", "3"))
        await pass_time(1)
        await it.create(kinds.POD, pod("theirs", "2", schedulerName="other", nodeName="n1"))
        await pass_time(20)
        assert await places(it) == {"ours": None, "theirs": "n1"}
        assert (await condition(it, "ours"))[2] == "0/1 nodes are available: 1 Insufficient cpu."
        told = [message for _, message in await events(it, "FailedScheduling")]
        assert told == [
            "another pod took the room on node n1 first",
            "0/1 nodes are available: 1 Insufficient cpu.",
        ]
        assert keeper.journal.count("reserve") == keeper.journal.count("unreserve") == 1
        await it.create(kinds.NODE, node("n2"))
        await pass_time(20)
        assert await places(it) == {"ours": "n2", "theirs": "n1"}


@on_virtual_time
async def test_the_node_is_deleted_before_binding() -> None:
    keeper = Keeper()
    keeper.settles = [wait("a moment")] * 2  # the second one when the pod shows where it is expected
    async with stage(keeper, nodes=1) as it:
        await it.create(kinds.POD, pod("a"))
        await pass_time(1)
        await it.delete(kinds.NODE, "n1")
        await pass_time(3)
        assert await places(it) == {"a": None}
        await it.create(kinds.NODE, node("n2"))
        await pass_time(20)
        assert await places(it) == {"a": "n2"}
