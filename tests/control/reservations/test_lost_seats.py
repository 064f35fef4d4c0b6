"""What reservations lose by their nodes: to foreign pods, or because a node goes, shrinks or is unfit."""

from __future__ import annotations

from typing import Any

import pytest

from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from tests.control.reservations.reservation_cluster import THEIRS, message, phase, reservation, seats, settled
from tests.control.scheduler_cluster import places, stage
from tests.sim.simulated_cluster import on_virtual_time, pass_time, pod


@on_virtual_time
async def test_foreign_pods_cost_the_newest_reservation_there() -> None:
    async with stage(nodes=1, cpu="8") as it:
        for name in ("old", "newer", "newest"):
            await it.create(kinds.RESERVATION, reservation(name, replicas=1, cpu="1"))
            await pass_time(2)
        await it.create(kinds.POD, pod("thief", "6500m", app="other", nodeName="n1", **THEIRS))
        await settled(it)
        assert [(await phase(it, name))[1] for name in ("old", "newer", "newest")] == [
            "Reserved",
            "RoomTaken",
            "RoomTaken",
        ]
        assert await message(it, "newest") == (
            "node n1 is over-committed by 1500m cpu (1 seat); 0 of 1 seats are consumed"
        )


@on_virtual_time
async def test_a_node_that_goes_takes_its_seats_along() -> None:
    async with stage(nodes=2) as it:
        await it.create(kinds.RESERVATION, reservation())
        await it.create(kinds.RESERVATION, reservation("spare", minAvailable=1))
        await settled(it)
        await it.delete(kinds.NODE, "n1")
        await pass_time(5)
        assert await phase(it) == ("Failed", "NodeGone")
        assert await message(it) == "node n1 is gone (1 seat); 0 of 2 seats are consumed"
        assert (await phase(it, "spare"))[0] == "Available"
        assert {where for where, _ in (await seats(it, "spare")).values()} == {"n2"}


CORDON = {"spec": {"unschedulable": True}}
TAINT = {"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}}


@pytest.mark.parametrize(
    ("change", "back", "why"),
    [
        pytest.param(CORDON, {"spec": {"unschedulable": False}}, "node n1 is cordoned (2 seats)", id="cordoned"),
        pytest.param(
            TAINT,
            {"spec": {"taints": None}},
            "node n1 has the taint gpu=yes:NoSchedule, which the task does not tolerate (2 seats)",
            id="tainted",
        ),
    ],
)
@on_virtual_time
async def test_an_unfit_node_makes_it_wait_until_it_is_fit_again(change: Any, back: Any, why: str) -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation())
        await settled(it)
        await it.patch(kinds.NODE, "n1", change)
        await settled(it)
        assert (await phase(it), await message(it)) == (("Waiting", "NodeUnfit"), why)
        await it.create(kinds.POD, pod("big", "3", app="other"))
        await it.patch(kinds.NODE, "n1", back)
        await pass_time(5)
        assert await phase(it) == ("Available", "Reserved")
        assert (await places(it))["big"] is None


@on_virtual_time
async def test_a_seat_on_an_unfit_node_stays_when_enough_others_can_be_relied_on_again() -> None:
    async with stage(nodes=2, settings=SchedulerSettings(namespace_share=100)) as it:
        await it.create(kinds.RESERVATION, reservation(minAvailable=1, cpu="3"))
        await settled(it)
        for name in ("n1", "n2"):
            await it.patch(kinds.NODE, name, CORDON)
        await settled(it)
        assert (await phase(it))[0] == "Waiting"
        await it.patch(kinds.NODE, "n1", {"spec": {"unschedulable": None}})
        await settled(it)
        assert (await phase(it))[0] == "Available"
        assert {where for where, _ in (await seats(it)).values()} == {"n1", "n2"}


@on_virtual_time
async def test_a_node_that_shrinks_costs_the_newest() -> None:
    async with stage(nodes=1, cpu="8") as it:
        for name in ("old", "new"):
            await it.create(kinds.RESERVATION, reservation(name, replicas=1, cpu="2"))
            await pass_time(2)
        less = {"status": {"allocatable": {"cpu": "3", "memory": "16Gi", "pods": "110"}}}
        await it.client.patch(kinds.NODE, "n1", less, subresource="status")
        await settled(it)
        assert [(await phase(it, name))[1] for name in ("old", "new")] == ["Reserved", "RoomTaken"]
