"""Seats that are lost to foreign pods, or because a node is deleted, shrinks or is unfit."""

from __future__ import annotations

from typing import Any

import pytest

from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from tests.control.reservations.reservation_cluster import (
    THEIRS,
    new_reservation,
    pass_time_and_check_room,
    phase_and_reason,
    seats_by_index,
    status_message,
)
from tests.control.scheduler_cluster import nodes_by_pod, scheduled_cluster
from tests.sim.simulated_cluster import on_virtual_time, pass_time, pod


@on_virtual_time
async def test_newest_reservation_on_the_node_loses_its_seat_to_a_foreign_pod() -> None:
    async with scheduled_cluster(nodes=1, cpu="8") as it:
        for name in ("old", "newer", "newest"):
            await it.create(kinds.RESERVATION, new_reservation(name, replicas=1, cpu="1"))
            await pass_time(2)
        await it.create(kinds.POD, pod("foreign", "6500m", app="other", nodeName="n1", **THEIRS))
        await pass_time_and_check_room(it)
        assert [(await phase_and_reason(it, name))[1] for name in ("old", "newer", "newest")] == [
            "Reserved",
            "RoomTaken",
            "RoomTaken",
        ]
        assert await status_message(it, "newest") == (
            "node n1 is over-committed by 1500m cpu (1 seat); 0 of 1 seats are consumed"
        )


@on_virtual_time
async def test_seats_on_a_deleted_node_are_lost() -> None:
    async with scheduled_cluster(nodes=2) as it:
        await it.create(kinds.RESERVATION, new_reservation())
        await it.create(kinds.RESERVATION, new_reservation("spare", minAvailable=1))
        await pass_time_and_check_room(it)
        await it.delete(kinds.NODE, "n1")
        await pass_time(5)
        assert await phase_and_reason(it) == ("Failed", "NodeGone")
        assert await status_message(it) == "node n1 is gone (1 seat); 0 of 2 seats are consumed"
        assert (await phase_and_reason(it, "spare"))[0] == "Available"
        assert {where for where, _ in (await seats_by_index(it, "spare")).values()} == {"n2"}


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
async def test_reservation_on_an_unfit_node_waits_until_the_node_is_fit(change: Any, back: Any, why: str) -> None:
    async with scheduled_cluster(nodes=1) as it:
        await it.create(kinds.RESERVATION, new_reservation())
        await pass_time_and_check_room(it)
        await it.patch(kinds.NODE, "n1", change)
        await pass_time_and_check_room(it)
        assert (await phase_and_reason(it), await status_message(it)) == (("Waiting", "NodeUnfit"), why)
        await it.create(kinds.POD, pod("big", "3", app="other"))
        await it.patch(kinds.NODE, "n1", back)
        await pass_time(5)
        assert await phase_and_reason(it) == ("Available", "Reserved")
        assert (await nodes_by_pod(it))["big"] is None


@on_virtual_time
async def test_seat_on_an_unfit_node_is_kept_when_enough_other_seats_are_ready() -> None:
    async with scheduled_cluster(nodes=2, settings=SchedulerSettings(namespace_share=100)) as it:
        await it.create(kinds.RESERVATION, new_reservation(minAvailable=1, cpu="3"))
        await pass_time_and_check_room(it)
        for name in ("n1", "n2"):
            await it.patch(kinds.NODE, name, CORDON)
        await pass_time_and_check_room(it)
        assert (await phase_and_reason(it))[0] == "Waiting"
        await it.patch(kinds.NODE, "n1", {"spec": {"unschedulable": None}})
        await pass_time_and_check_room(it)
        assert (await phase_and_reason(it))[0] == "Available"
        assert {where for where, _ in (await seats_by_index(it)).values()} == {"n1", "n2"}


@on_virtual_time
async def test_newest_reservation_loses_its_seat_on_a_node_that_shrinks() -> None:
    async with scheduled_cluster(nodes=1, cpu="8") as it:
        for name in ("old", "new"):
            await it.create(kinds.RESERVATION, new_reservation(name, replicas=1, cpu="2"))
            await pass_time(2)
        less = {"status": {"allocatable": {"cpu": "3", "memory": "16Gi", "pods": "110"}}}
        await it.client.patch(kinds.NODE, "n1", less, subresource="status")
        await pass_time_and_check_room(it)
        assert [(await phase_and_reason(it, name))[1] for name in ("old", "new")] == ["Reserved", "RoomTaken"]
