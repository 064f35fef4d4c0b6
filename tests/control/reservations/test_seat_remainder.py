"""What a pod leaves of its seat, or of the share of its seat's queue: kept until it is written down that it took the
seat, and then told to those who wait."""

from __future__ import annotations

import pytest

from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from restow.model.objects import Document
from tests.control.reservations.reservation_cluster import THEIRS, over_committed, phase, reservation, seats
from tests.control.reservations.test_undecided_edits import IN_Q, Slow, in_q, tasks
from tests.control.scheduler_cluster import condition, places, stage, world
from tests.sim.simulated_cluster import SimulatedCluster, on_virtual_time, pass_time, pod, running_scheduler

ALL = SchedulerSettings(namespace_share=100)


async def bound(it: SimulatedCluster, name: str) -> None:
    for _ in range(100):
        if (await places(it))[name]:
            return
        await pass_time(0.005)
    raise AssertionError(f"{name} is not bound")


@on_virtual_time
async def test_it_is_nobodys_before_the_seat_is_marked() -> None:
    async with world(nodes=1) as it:
        slow = Slow(0.0)
        async with running_scheduler(slow.around(it.api), it.clock, settings=ALL):
            await it.create(kinds.RESERVATION, reservation(cpu="2"))
            await pass_time(3)
            slow.seconds = 5.0
            await it.create(kinds.POD, pod("web", "500m"))
            await bound(it, "web")
            await it.create(kinds.POD, pod("other", "1500m", app="other"))
            await pass_time(1)
            assert (await seats(it), (await places(it))["other"]) == ({0: ("n1", None), 1: ("n1", None)}, None)
        await it.delete(kinds.POD, "web", grace_seconds=0)
        assert await over_committed(it.client) == []
        async with running_scheduler(it.api, it.clock, seed=2, settings=ALL):
            await pass_time(5)
            assert (await phase(it), await places(it)) == (("Available", "Reserved"), {"other": None})


@on_virtual_time
async def test_whoever_takes_over_keeps_it_until_the_seat_is_marked() -> None:
    async with world(nodes=1) as it:
        slow = Slow(0.0)
        async with running_scheduler(slow.around(it.api), it.clock, settings=ALL):
            await it.create(kinds.RESERVATION, reservation(cpu="2"))
            await pass_time(3)
            slow.seconds = 5.0
            await it.create(kinds.POD, pod("web", "500m"))
            await bound(it, "web")
        await it.create(kinds.POD, pod("other", "1500m", app="other"))
        async with running_scheduler(slow.around(it.api), it.clock, seed=2, settings=ALL):
            await pass_time(1)
            assert ((await seats(it))[0], (await places(it))["other"]) == (("n1", None), None)
            await pass_time(6)
            assert ((await seats(it))[0], (await places(it))["other"]) == (("n1", "web"), "n1")


@on_virtual_time
async def test_who_waits_for_it_is_told() -> None:
    async with stage(nodes=1, settings=ALL) as it:
        await it.create(kinds.RESERVATION, reservation(cpu="2"))
        await pass_time(3)
        await it.create(kinds.POD, pod("other", "1500m", app="other"))
        await pass_time(30)
        await it.create(kinds.POD, pod("web", "500m"))
        await pass_time(2)
        assert await places(it) == {"other": "n1", "web": "n1"}


@pytest.mark.parametrize(
    "comer", [pytest.param(in_q("web", "1"), id="less of it"), pytest.param(pod("web", "2"), id="for another queue")]
)
@on_virtual_time
async def test_who_waits_for_the_share_of_its_queue_is_told(comer: Document) -> None:
    async with stage(nodes=2, settings=ALL) as it:
        await it.create(kinds.QUEUE, {"metadata": {"name": "q"}, "spec": {"capability": {"cpu": "2"}}})
        await it.create(kinds.RESERVATION, reservation(replicas=1, cpu="2", queue="q"))
        await pass_time(3)
        other = pod("other", "1", app="other")
        other["metadata"]["annotations"] = IN_Q
        await it.create(kinds.POD, other)
        await pass_time(60)
        assert "would exceed its capability" in ((await condition(it, "other"))[2] or "")
        await it.create(kinds.POD, comer)
        await pass_time(2)
        assert (await places(it))["other"] is not None


@on_virtual_time
async def test_nobody_loses_a_seat_or_its_turn_to_it() -> None:
    """Somebody else's pod takes what is kept: all that was promised is still there."""
    owners = [{"labelSelector": {"matchLabels": {"app": "db"}}}]
    async with world(nodes=1) as it:
        slow = Slow(0.0)
        async with running_scheduler(slow.around(it.api), it.clock, settings=ALL):
            await it.create(kinds.RESERVATION, reservation("r", 1, "2"))
            await it.create(kinds.RESERVATION, reservation("newer", 2, "1", owners=owners))
            await pass_time(3)
            slow.seconds = 5.0
            await it.create(kinds.POD, pod("web", "500m"))
            await bound(it, "web")
            foreign = pod("foreign", "1500m", app="other", **THEIRS)
            foreign["spec"]["nodeName"] = "n1"
            await it.create(kinds.POD, foreign)
            await pass_time(0.5)
            await it.create(kinds.POD, pod("db", "1", app="db"))
            await pass_time(1)
            assert ((await seats(it))[0], (await places(it))["db"]) == (("n1", None), "n1")
            await pass_time(15)
            assert (await phase(it), await phase(it, "newer")) == (("Succeeded", "Consumed"), ("Available", "Reserved"))
            assert (await seats(it, "newer"))[0] == ("n1", "db")


@on_virtual_time
async def test_who_was_refused_before_a_change_was_decided_is_tried_again() -> None:
    async with world(nodes=1, cpu="4") as it:
        slow = Slow(0.0)
        async with running_scheduler(slow.around(it.api), it.clock, settings=ALL):
            await it.create(kinds.RESERVATION, reservation("r", 1, "1"))
            await pass_time(3)
            slow.seconds = 5.0
            await it.patch(kinds.RESERVATION, "r", {"spec": tasks(1, "3")})
            await pass_time(1)
            await it.create(kinds.POD, pod("web", "3"))
            await pass_time(1)
            assert await places(it) == {"web": None}
            await pass_time(10)
            assert await places(it) == {"web": "n1"}
