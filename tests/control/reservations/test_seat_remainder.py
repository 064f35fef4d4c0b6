"""The seat remainder, what a pod leaves of its seat or of the share of its queue: kept until the consumption is
recorded, and then reported to the pods that wait."""

from __future__ import annotations

import pytest

from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from restow.model.objects import Document
from tests.control.reservations.reservation_cluster import (
    THEIRS,
    new_reservation,
    overcommitted_nodes,
    phase_and_reason,
    seats_by_index,
)
from tests.control.reservations.test_undecided_edits import IN_Q, Slow, in_q, tasks
from tests.control.scheduler_cluster import condition_of_pod, nodes_by_pod, scheduled_cluster, unscheduled_cluster
from tests.sim.simulated_cluster import SimulatedCluster, on_virtual_time, pass_time, pod, running_scheduler

ALL = SchedulerSettings(namespace_share=100)


async def bound(it: SimulatedCluster, name: str) -> None:
    for _ in range(100):
        if (await nodes_by_pod(it))[name]:
            return
        await pass_time(0.005)
    raise AssertionError(f"{name} is not bound")


@on_virtual_time
async def test_seat_remainder_is_kept_until_the_consumption_is_recorded() -> None:
    async with unscheduled_cluster(nodes=1) as it:
        slow = Slow(0.0)
        async with running_scheduler(slow.around(it.api), it.clock, settings=ALL):
            await it.create(kinds.RESERVATION, new_reservation(cpu="2"))
            await pass_time(3)
            slow.seconds = 5.0
            await it.create(kinds.POD, pod("web", "500m"))
            await bound(it, "web")
            await it.create(kinds.POD, pod("other", "1500m", app="other"))
            await pass_time(1)
            assert (await seats_by_index(it), (await nodes_by_pod(it))["other"]) == (
                {0: ("n1", None), 1: ("n1", None)},
                None,
            )
        await it.delete(kinds.POD, "web", grace_seconds=0)
        assert await overcommitted_nodes(it.client) == []
        async with running_scheduler(it.api, it.clock, seed=2, settings=ALL):
            await pass_time(5)
            assert (await phase_and_reason(it), await nodes_by_pod(it)) == (("Available", "Reserved"), {"other": None})


@on_virtual_time
async def test_new_leader_keeps_the_seat_remainder_until_the_consumption_is_recorded() -> None:
    async with unscheduled_cluster(nodes=1) as it:
        slow = Slow(0.0)
        async with running_scheduler(slow.around(it.api), it.clock, settings=ALL):
            await it.create(kinds.RESERVATION, new_reservation(cpu="2"))
            await pass_time(3)
            slow.seconds = 5.0
            await it.create(kinds.POD, pod("web", "500m"))
            await bound(it, "web")
        await it.create(kinds.POD, pod("other", "1500m", app="other"))
        async with running_scheduler(slow.around(it.api), it.clock, seed=2, settings=ALL):
            await pass_time(1)
            assert ((await seats_by_index(it))[0], (await nodes_by_pod(it))["other"]) == (("n1", None), None)
            await pass_time(6)
            assert ((await seats_by_index(it))[0], (await nodes_by_pod(it))["other"]) == (("n1", "web"), "n1")


@on_virtual_time
async def test_pods_waiting_for_the_seat_remainder_are_requeued() -> None:
    async with scheduled_cluster(nodes=1, settings=ALL) as it:
        await it.create(kinds.RESERVATION, new_reservation(cpu="2"))
        await pass_time(3)
        await it.create(kinds.POD, pod("other", "1500m", app="other"))
        await pass_time(30)
        await it.create(kinds.POD, pod("web", "500m"))
        await pass_time(2)
        assert await nodes_by_pod(it) == {"other": "n1", "web": "n1"}


@pytest.mark.parametrize(
    "comer", [pytest.param(in_q("web", "1"), id="less of it"), pytest.param(pod("web", "2"), id="for another queue")]
)
@on_virtual_time
async def test_pods_waiting_for_the_share_of_their_queue_are_requeued(comer: Document) -> None:
    async with scheduled_cluster(nodes=2, settings=ALL) as it:
        await it.create(kinds.QUEUE, {"metadata": {"name": "q"}, "spec": {"capability": {"cpu": "2"}}})
        await it.create(kinds.RESERVATION, new_reservation(replicas=1, cpu="2", queue="q"))
        await pass_time(3)
        other = pod("other", "1", app="other")
        other["metadata"]["annotations"] = IN_Q
        await it.create(kinds.POD, other)
        await pass_time(60)
        assert "would exceed its capability" in ((await condition_of_pod(it, "other"))[2] or "")
        await it.create(kinds.POD, comer)
        await pass_time(2)
        assert (await nodes_by_pod(it))["other"] is not None


@on_virtual_time
async def test_seat_remainder_costs_no_seat_and_no_turn() -> None:
    """A foreign pod takes what is kept: all that was promised is still there."""
    owners = [{"labelSelector": {"matchLabels": {"app": "db"}}}]
    async with unscheduled_cluster(nodes=1) as it:
        slow = Slow(0.0)
        async with running_scheduler(slow.around(it.api), it.clock, settings=ALL):
            await it.create(kinds.RESERVATION, new_reservation("r", 1, "2"))
            await it.create(kinds.RESERVATION, new_reservation("newer", 2, "1", owners=owners))
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
            assert ((await seats_by_index(it))[0], (await nodes_by_pod(it))["db"]) == (("n1", None), "n1")
            await pass_time(15)
            assert (await phase_and_reason(it), await phase_and_reason(it, "newer")) == (
                ("Succeeded", "Consumed"),
                ("Available", "Reserved"),
            )
            assert (await seats_by_index(it, "newer"))[0] == ("n1", "db")


@on_virtual_time
async def test_pods_refused_before_an_edit_was_decided_are_requeued() -> None:
    async with unscheduled_cluster(nodes=1, cpu="4") as it:
        slow = Slow(0.0)
        async with running_scheduler(slow.around(it.api), it.clock, settings=ALL):
            await it.create(kinds.RESERVATION, new_reservation("r", 1, "1"))
            await pass_time(3)
            slow.seconds = 5.0
            await it.patch(kinds.RESERVATION, "r", {"spec": tasks(1, "3")})
            await pass_time(1)
            await it.create(kinds.POD, pod("web", "3"))
            await pass_time(1)
            assert await nodes_by_pod(it) == {"web": None}
            await pass_time(10)
            assert await nodes_by_pod(it) == {"web": "n1"}
