"""A gang that is bound in part is completed before other pods are scheduled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from restow.client.verbs import Client
from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from restow.model.quantity import parse_amount
from restow.ports import Api, Request, Response
from tests.control.interfering_api import FORBIDDEN, UNKNOWN, ForbiddenBindApi, interfering_api
from tests.control.scheduler_cluster import (
    assert_nothing_overcommitted,
    events_with_reason,
    gang_member,
    nodes_by_pod,
    pod_group,
    scheduled_cluster,
    unscheduled_cluster,
)
from tests.sim.simulated_cluster import SimulatedCluster, on_virtual_time, pass_time, pod, running_scheduler


@on_virtual_time
async def test_gang_bound_in_part_is_completed_first_and_records_an_event() -> None:
    made, around = interfering_api()
    async with scheduled_cluster(around=around, nodes=1) as it:

        async def create_competing_pod() -> None:
            made[0].before = [FORBIDDEN]
            await it.create(kinds.POD, pod("rival", "2"))

        made[0].first = create_competing_pod
        await it.create(kinds.POD_GROUP, pod_group("train", 2))
        for name in ("w1", "w2"):
            await it.create(kinds.POD, gang_member(name, "train", "2"))
        await pass_time(20)
        assert await nodes_by_pod(it) == {"w1": "n1", "w2": "n1", "rival": None}
        [(name, message)] = await events_with_reason(it, "Completing")
        assert name == "train"
        assert message.endswith("the gang is completed before anything else")


@on_virtual_time
async def test_broken_gang_that_cannot_be_completed_backs_off() -> None:
    made: list[ForbiddenBindApi] = []

    def around(api: Api) -> Api:
        made.append(ForbiddenBindApi(api, "w2"))
        return made[0]

    async with scheduled_cluster(around=around, cpu="64") as it:
        await it.create(kinds.POD_GROUP, pod_group("train", 2))
        for name in ("w1", "w2"):
            await it.create(kinds.POD, gang_member(name, "train"))
        for number in range(60):
            await it.create(kinds.POD, pod(f"other{number}", "100m"))
            await pass_time(0.1)
        assert made[0].times_asked == 3  # at once, after one second and after two more
        assert None not in [where for name, where in (await nodes_by_pod(it)).items() if name != "w2"]


@on_virtual_time
async def test_freed_room_goes_to_a_broken_gang_despite_its_backoff() -> None:
    made, around = interfering_api()
    async with scheduled_cluster(around=around, nodes=1) as it:

        async def create_competing_pod() -> None:
            made[0].before = [FORBIDDEN]
            await it.create(kinds.POD, pod("foreign", "2", schedulerName="other", nodeName="n1"))

        made[0].first = create_competing_pod
        await it.create(kinds.PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 1000})
        await it.create(kinds.POD_GROUP, pod_group("train", 2))
        for name in ("w1", "w2"):
            await it.create(kinds.POD, gang_member(name, "train", "2"))
        await pass_time(4)
        for number in range(8):
            await it.create(kinds.POD, pod(f"rival{number}", "1", priorityClassName="high"))
            await pass_time(0.1)
        await it.delete(kinds.POD, "foreign", grace_seconds=0)
        await pass_time(3)
        assert (await nodes_by_pod(it))["w2"] == "n1"


@on_virtual_time
async def test_deleted_member_of_a_bound_gang_is_replaced_before_other_pods() -> None:
    made, around = interfering_api()
    async with scheduled_cluster(around=around, nodes=1) as it:

        async def vanish() -> None:
            await it.delete(kinds.POD, "w1", grace_seconds=0)

        made[0].first = vanish
        await it.create(kinds.POD_GROUP, pod_group("train", 2))
        for name in ("w1", "w2"):
            await it.create(kinds.POD, gang_member(name, "train", "2"))
        await pass_time(3)
        assert [message.split(";")[0] for _, message in await events_with_reason(it, "Completing")] == [
            "pod w1 was not bound: it is gone"
        ]
        await it.create(kinds.PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 1000})
        await it.create(kinds.POD, pod("rival", "3", priorityClassName="high"))
        await it.create(kinds.POD, gang_member("w3", "train", "2"))
        await pass_time(3)
        assert await nodes_by_pod(it) == {"rival": None, "w2": "n1", "w3": "n1"}


# --- the rest does not fit --------------------------------------------------------------------------------------------


async def _half_bound(it: SimulatedCluster, cpu: str) -> None:
    """A gang of four, of which the first two are bound by a scheduler that died then."""
    await it.create(kinds.POD_GROUP, pod_group("train", 4))
    for name in ("w1", "w2", "w3", "w4"):
        await it.create(kinds.POD, gang_member(name, "train", cpu))
    for one in (await it.pods())[-4:-2]:
        await Client(it.api).bind("default", one.metadata.name, uid=one.metadata.uid, node="n1")


@pytest.mark.parametrize(
    ("old", "competing_pod"),
    [
        pytest.param("2", "2", id="room for one pod at a time"),
        pytest.param("1", "1", id="room in pieces that other pods would take"),
        pytest.param("500m", "500m", id="room in small pieces"),
    ],
)
def test_missing_pods_of_a_gang_are_placed_first_however_room_becomes_free(old: str, competing_pod: str) -> None:
    @on_virtual_time
    async def story() -> None:
        async with unscheduled_cluster(nodes=3) as it:
            count = int(4000 / parse_amount("cpu", old))
            for where in ("n2", "n3"):
                for number in range(count):
                    await it.create(kinds.POD, pod(f"old-{where}-{number}", old, schedulerName="x", nodeName=where))
            await _half_bound(it, "2")
            await it.create(kinds.PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 1000})
            for number in range(12):
                await it.create(kinds.POD, pod(f"rival{number}", competing_pod, priorityClassName="high"))
            async with running_scheduler(it.api, it.clock):
                await pass_time(5)
                for number in range(count):
                    assert await _placed_competing_pods(it) == 0
                    await it.delete(kinds.POD, f"old-n2-{number}", grace_seconds=0)
                    await pass_time(3)
                assert {(await nodes_by_pod(it))[name] for name in ("w3", "w4")} == {"n2"}
                await pass_time(20)
                await it.delete(kinds.POD, "old-n3-0", grace_seconds=0)
                await pass_time(20)
                assert await _placed_competing_pods(it) == 1
                await assert_nothing_overcommitted(it)

    story()


async def _placed_competing_pods(it: SimulatedCluster) -> int:
    return sum(name.startswith("rival") and where is not None for name, where in (await nodes_by_pod(it)).items())


@on_virtual_time
async def test_new_leader_keeps_the_room_for_missing_pods_of_a_gang() -> None:
    async with unscheduled_cluster(nodes=2) as it:
        for number in range(4):
            await it.create(kinds.POD, pod(f"old{number}", "1", schedulerName="x", nodeName="n2"))
        await _half_bound(it, "2")
        for number in range(4):
            await it.create(kinds.POD, pod(f"rival{number}", "1"))
        for number in range(4):
            async with running_scheduler(it.api, it.clock, seed=number):
                await pass_time(3)
                await it.delete(kinds.POD, f"old{number}", grace_seconds=0)
                await pass_time(0.5)
                assert await _placed_competing_pods(it) == 0
        async with running_scheduler(it.api, it.clock, seed=9):
            await pass_time(20)
            assert {(await nodes_by_pod(it))[name] for name in ("w3", "w4")} == {"n2"}


@on_virtual_time
async def test_gang_without_a_role_is_broken_for_a_new_leader() -> None:
    async with unscheduled_cluster(nodes=1) as it:
        await it.create(kinds.POD_GROUP, pod_group("train", 2, minTaskMember={"chief": 1, "worker": 1}))
        for name, role in (("chief", "chief"), ("w1", "worker"), ("w2", "worker")):
            document = gang_member(name, "train", "1")
            document["metadata"]["annotations"]["volcano.sh/task-spec"] = role
            await it.create(kinds.POD, document)
        for one in (await it.pods())[1:]:
            await Client(it.api).bind("default", one.metadata.name, uid=one.metadata.uid, node="n1")
        await it.create(kinds.PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 1000})
        await it.create(kinds.POD, pod("rival", "2", priorityClassName="high"))
        async with running_scheduler(it.api, it.clock):
            await pass_time(10)
            assert await nodes_by_pod(it) == {"chief": "n1", "w1": "n1", "w2": "n1", "rival": None}


async def _take_room(it: SimulatedCluster, node: str) -> None:
    await it.create(kinds.POD, pod("theirs", "2", schedulerName="other", nodeName=node))


async def _take_node(it: SimulatedCluster, node: str) -> None:
    await it.delete(kinds.NODE, node)


class Displacing:
    """An Api that lets something happen to the other one of two nodes when the first pod is bound."""

    def __init__(self, api: Api) -> None:
        self.happens: Callable[[str], Awaitable[None]] | None = None
        self.watch = api.watch
        self._api = api

    async def call(self, request: Request) -> Response:
        happens = self.happens
        if request.subresource == "binding" and happens is not None:
            self.happens = None
            await happens("n1" if b"n2" in (request.body or b"") else "n2")
            await pass_time(0.1)
        return await self._api.call(request)


@pytest.mark.parametrize(
    "happens", [pytest.param(_take_room, id="room is taken"), pytest.param(_take_node, id="node is gone")]
)
def test_member_displaced_while_another_is_bound_goes_elsewhere_at_once(
    happens: Callable[[SimulatedCluster, str], Awaitable[None]],
) -> None:
    """... when another is bound goes elsewhere at once, whatever back-off it would have."""

    @on_virtual_time
    async def story() -> None:
        async with unscheduled_cluster(nodes=3) as it:
            api = Displacing(it.api)
            api.happens = partial(happens, it)
            async with running_scheduler(api, it.clock, settings=SchedulerSettings(binding_writers=1)):
                await it.create(kinds.POD_GROUP, pod_group("train", 2))
                for name in ("w1", "w2"):
                    await it.create(kinds.POD, gang_member(name, "train", "3"))
                await pass_time(0.8)
                found = await nodes_by_pod(it)
                assert "n3" in (found["w1"], found["w2"])
                assert None not in (found["w1"], found["w2"])

    story()


class Losing:
    """An Api that loses the first Bindings of a pod, before they take effect; notes when each was requested."""

    def __init__(self, api: Api, name: str, times: int) -> None:
        self.asked: list[float] = []
        self.watch = api.watch
        self._api = api
        self._name = name
        self._times = times

    async def call(self, request: Request) -> Response:
        if request.subresource == "binding" and request.name == self._name:
            self.asked.append(asyncio.get_running_loop().time())
            if len(self.asked) <= self._times:
                raise UNKNOWN
        return await self._api.call(request)


@on_virtual_time
async def test_member_is_scheduled_anew_at_once_after_its_bind_retries() -> None:
    async with unscheduled_cluster(nodes=1) as it:
        api = Losing(it.api, "w2", 5)
        async with running_scheduler(api, it.clock):
            await it.create(kinds.POD_GROUP, pod_group("train", 2))
            for name in ("w1", "w2"):
                await it.create(kinds.POD, gang_member(name, "train"))
            await pass_time(30)
            assert await nodes_by_pod(it) == {"w1": "n1", "w2": "n1"}
            assert api.asked[5] - api.asked[4] < 0.9  # the first back-off would be a second
