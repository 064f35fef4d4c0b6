"""Pods that are assumed in a seat while something happens to it: they are bound into it only if they still may."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from tests.control.reservations.reservation_cluster import (
    PermitBarrier,
    new_reservation,
    overcommitted_nodes,
    read_reservation,
    replace_task,
    seats_by_index,
)
from tests.control.scheduler_cluster import events_with_reason, nodes_by_pod, scheduled_cluster
from tests.sim.simulated_cluster import SimulatedCluster, node, on_virtual_time, pass_time, pod


async def nothing(it: SimulatedCluster) -> None:
    """The usual case."""


async def delete(it: SimulatedCluster) -> None:
    await it.delete(kinds.RESERVATION, "r")


async def move(it: SimulatedCluster) -> None:
    """The seat is taken away, and found again on another node."""
    await replace_task(it)
    await it.patch(kinds.NODE, "n1", {"spec": {"unschedulable": True}})
    await it.create(kinds.NODE, node("n2"))
    await pass_time(3)
    await replace_task(it, instead="web")


async def make_anew(it: SimulatedCluster) -> None:
    await it.delete(kinds.RESERVATION, "r")
    await it.create(kinds.RESERVATION, new_reservation(replicas=1))


@pytest.mark.parametrize(
    ("happens", "named"),
    [
        pytest.param(nothing, True, id="nothing happens"),
        pytest.param(delete, False, id="the reservation is deleted"),
        pytest.param(replace_task, False, id="the seat is removed by an edit"),
        pytest.param(move, False, id="the seat is on another node"),
        pytest.param(make_anew, False, id="the reservation is recreated"),
    ],
)
@on_virtual_time
async def test_binding_names_only_a_seat_that_was_not_released(
    happens: Callable[[SimulatedCluster], Awaitable[Any]], named: bool
) -> None:
    barrier = PermitBarrier()
    async with scheduled_cluster(barrier, nodes=1) as it:
        await it.create(kinds.RESERVATION, new_reservation(replicas=1))
        await pass_time(3)
        await it.create(kinds.POD, pod("a"))
        await pass_time(3)
        assert await nodes_by_pod(it) == {"a": None}
        await happens(it)
        await pass_time(3)
        barrier.is_lifted = True
        await pass_time(15)
        assert await nodes_by_pod(it) == {"a": "n1"}
        [one] = await it.pods()
        assert ("restow.sh/reservation" in (one.metadata.annotations or {})) is named
        [(_, told)] = await events_with_reason(it, "Scheduled")
        assert ("in reserved seat default/r/web/0" in told) is named
        assert await overcommitted_nodes(it.client) == []
        if happens in (make_anew, move):
            assert (await read_reservation(it)).status.state.phase == "Available"
            assert [name for _, name in (await seats_by_index(it)).values()] == [None]


@on_virtual_time
async def test_pod_smaller_than_its_seat_is_bound_before_all_of_its_room_is_left() -> None:
    async with scheduled_cluster(nodes=2, settings=SchedulerSettings(namespace_share=100), stop=600.0) as it:
        theirs = {"nodeName": "n2", "schedulerName": "other", "terminationGracePeriodSeconds": 600}
        await it.create(kinds.POD, pod("old", "3", app="other", **theirs))
        await pass_time(3)
        await it.delete(kinds.POD, "old")
        await it.create(kinds.RESERVATION, new_reservation(cpu="3", minAvailable=1))
        await pass_time(5)
        for name in ("a", "b"):
            await it.create(kinds.POD, pod(name, "500m"))
        await pass_time(10)
        assert await seats_by_index(it) == {0: ("n1", "a"), 1: ("n2", "b")}
        assert not await overcommitted_nodes(it.client)


@on_virtual_time
async def test_pod_that_finds_its_room_taken_is_requeued_and_costs_no_seat() -> None:
    """On a node of 4 cores two seats of half a core are held, and a pod of 2 is on its way into one of them, when a
    stranger takes 2: there is room for the stranger and the seats, not for all that the pod asks for beyond its own."""
    barrier = PermitBarrier()
    async with scheduled_cluster(barrier, nodes=1) as it:
        await it.create(kinds.RESERVATION, new_reservation(cpu="500m"))
        await pass_time(3)
        await it.create(kinds.POD, pod("a", "2"))
        await pass_time(3)
        await it.create(kinds.POD, pod("stranger", "2", app="other", nodeName="n1", schedulerName="other"))
        await pass_time(3)
        assert (await read_reservation(it)).status.state.phase == "Available"
        barrier.is_lifted = True
        await pass_time(15)
        assert await nodes_by_pod(it) == {"a": None, "stranger": "n1"}
        assert await seats_by_index(it) == {0: ("n1", None), 1: ("n1", None)}
        assert (await read_reservation(it)).status.state.phase == "Available"
        await it.delete(kinds.POD, "stranger", grace_seconds=0)
        await pass_time(15)
        assert (await seats_by_index(it), await overcommitted_nodes(it.client)) == (
            {0: ("n1", "a"), 1: ("n1", None)},
            [],
        )
