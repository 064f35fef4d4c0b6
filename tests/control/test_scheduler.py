"""The scheduler in a cluster: from pending to Ready, and what it says where that cannot be."""

from __future__ import annotations

from restow.model import kinds
from tests.control.stage import check_room, condition, events, group, member, places, stage
from tests.sim.stage import node, pass_time, pod, ready, virtual, workload


@virtual
async def test_pods_become_ready() -> None:
    async with stage() as it:
        await it.create(kinds.DEPLOYMENT, workload("web", 6))
        await pass_time(10)
        pods = await it.pods()
        assert len(pods) == 6
        assert all(map(ready, pods))
        assert sorted(await events(it, "Scheduled")) == sorted(
            (one.metadata.name, f"Successfully assigned default/{one.metadata.name} to {one.spec.node_name}")
            for one in pods
        )
        await check_room(it)


@virtual
async def test_a_pod_that_fits_nowhere_is_told_why_and_woken_by_a_new_node() -> None:
    async with stage(nodes=2) as it:
        await it.create(kinds.POD, pod("big", "6"))
        await pass_time(5)
        why = "0/2 nodes are available: 2 Insufficient cpu."
        assert await condition(it, "big") == ("False", "Unschedulable", why)
        assert await events(it, "FailedScheduling") == [("big", why)]
        await it.create(kinds.NODE, node("large", cpu="8"))
        await pass_time(12)
        assert await places(it) == {"big": "large"}
        assert (await condition(it, "big"))[0] == "True"


@virtual
async def test_a_gang_waits_until_it_is_whole() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.POD_GROUP, group("train", 3))
        for number in (1, 2):
            await it.create(kinds.POD, member(f"w{number}", "train"))
        await pass_time(5)
        assert await places(it) == {"w1": None, "w2": None}
        status, _, message = await condition(it, "w1")
        assert (status, message) == ("False", "pod group default/train needs 3 pods, 2 exist")
        await it.create(kinds.POD, member("w3", "train"))
        await pass_time(15)
        assert await places(it) == {"w1": "n1", "w2": "n1", "w3": "n1"}
        status = (await it.document(kinds.POD_GROUP, "train"))["status"]
        assert (status["phase"], status["running"]) == ("Running", 3)
        assert [(one["type"], one["status"]) for one in status["conditions"]] == [
            ("Unschedulable", "False"),
            ("Scheduled", "True"),
        ]
