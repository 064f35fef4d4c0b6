"""Reservations that ended are deleted after the configured time, and no others."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import pytest
from prometheus_client import CollectorRegistry

from restow.control.reservations import ReservationMetrics
from restow.model import kinds
from restow.model.objects import ReservationPhase
from restow.ports import Request, Response
from restow.sim.faults import FaultPlan, FaultyApi
from tests.control.reservations.reservation_cluster import new_reservation, running_garbage_collector
from tests.control.scheduler_cluster import scheduled_cluster, unscheduled_cluster
from tests.sim.simulated_cluster import SimulatedCluster, on_virtual_time, pass_time, pod


async def names(it: SimulatedCluster) -> list[str]:
    return sorted(one.metadata.name for one in (await it.client.list(kinds.RESERVATION)).items)


@on_virtual_time
async def test_ended_reservation_is_deleted_after_the_gc_duration() -> None:
    async with scheduled_cluster(nodes=1) as it, running_garbage_collector(it, gcDuration="30s"):
        await it.create(kinds.RESERVATION, new_reservation("used", replicas=1))
        await it.create(kinds.RESERVATION, new_reservation("expires", replicas=1, ttl="20s", owners=[]))
        await it.create(kinds.RESERVATION, new_reservation("lives", replicas=1, owners=[]))
        await it.create(kinds.RESERVATION, new_reservation("waits", replicas=9))
        await pass_time(5)
        await it.create(kinds.POD, pod("a"))
        await pass_time(20)
        assert await names(it) == ["expires", "lives", "used", "waits"]
        await pass_time(20)
        assert await names(it) == ["expires", "lives", "waits"]
        await pass_time(20)
        assert await names(it) == ["lives", "waits"]
        assert [one.spec.node_name for one in await it.pods()] == ["n1"]


@on_virtual_time
async def test_reservations_and_seats_are_counted() -> None:
    registry = CollectorRegistry()
    async with (
        scheduled_cluster(nodes=1) as it,
        running_garbage_collector(it, metrics=ReservationMetrics(registry), gcDuration="30s"),
    ):
        await it.create(kinds.RESERVATION, new_reservation("half", replicas=2))
        await it.create(kinds.RESERVATION, new_reservation("waits", replicas=9))
        await it.create(kinds.RESERVATION, new_reservation("expires", replicas=1, ttl="10s", owners=[]))
        await pass_time(5)
        await it.create(kinds.POD, pod("a"))
        await pass_time(20)
        phases = {one: registry.get_sample_value("restow_reservations", {"phase": one}) for one in ReservationPhase}
        assert {one: count for one, count in phases.items() if count} == {"Pending": 1, "Available": 1, "Failed": 1}
        states = ("pending", "available", "taken")
        seats = [registry.get_sample_value("restow_reservation_seats", {"state": one}) for one in states]
        assert seats == [9, 1, 1]
        await pass_time(30)
        assert registry.get_sample_value("restow_reservations_collected_total") == 1


@on_virtual_time
async def test_only_our_reservations_are_counted_as_pending_without_a_phase() -> None:
    registry = CollectorRegistry()
    async with unscheduled_cluster(nodes=1) as it, running_garbage_collector(it, metrics=ReservationMetrics(registry)):
        await it.create(kinds.RESERVATION, new_reservation("new"))
        await it.create(kinds.RESERVATION, new_reservation("theirs", schedulerName="other"))
        available = {"status": {"state": {"phase": "Available"}, "available": 2}}
        await it.client.patch(kinds.RESERVATION, "theirs", available, "default", subresource="status")
        await pass_time(5)
        phases = {one: registry.get_sample_value("restow_reservations", {"phase": one}) for one in ReservationPhase}
        assert {one: count for one, count in phases.items() if count} == {"Pending": 1}
        assert registry.get_sample_value("restow_reservation_seats", {"state": "available"}) == 0


class Overtaken:
    """An Api that has something happen just before the first deletion is carried out."""

    def __init__(self, it: SimulatedCluster, happens: Callable[[SimulatedCluster], Awaitable[None]]) -> None:
        self.watch = it.api.watch
        self._it = it
        self._happens: Callable[[SimulatedCluster], Awaitable[None]] | None = happens

    async def call(self, request: Request) -> Response:
        if request.verb == "delete" and self._happens is not None:
            happens, self._happens = self._happens, None
            await happens(self._it)
        return await self._it.api.call(request)


async def renew(it: SimulatedCluster) -> None:
    await it.delete(kinds.RESERVATION, "r")
    await it.create(kinds.RESERVATION, new_reservation(replicas=1))


async def touch(it: SimulatedCluster) -> None:
    await it.patch(kinds.RESERVATION, "r", {"metadata": {"labels": {"keep": "it"}}})


@pytest.mark.parametrize("happens", [renew, touch], ids=["recreated", "changed since"])
@on_virtual_time
async def test_reservation_replaced_or_changed_since_is_not_deleted(
    happens: Callable[[SimulatedCluster], Awaitable[None]],
) -> None:
    async with (
        scheduled_cluster(nodes=1) as it,
        running_garbage_collector(it, Overtaken(it, happens), gcPeriod="20s", gcDuration="0s"),
    ):
        await it.create(kinds.RESERVATION, new_reservation(replicas=1, ttl="2s"))
        await pass_time(30)
        assert await names(it) == ["r"]


@on_virtual_time
async def test_reservation_of_another_scheduler_is_not_deleted() -> None:
    async with unscheduled_cluster(nodes=1) as it, running_garbage_collector(it, gcDuration="0s"):
        await it.create(kinds.RESERVATION, new_reservation(schedulerName="other"))
        failed = {"status": {"state": {"phase": "Failed", "lastTransitionTime": "2026-01-01T00:00:00Z"}}}
        await it.client.patch(kinds.RESERVATION, "r", failed, "default", subresource="status")
        await pass_time(60)
        assert await names(it) == ["r"]


@on_virtual_time
async def test_ended_reservation_with_an_unreadable_time_counts_from_its_creation() -> None:
    """Under a CRD of another project, any value may be written."""
    async with unscheduled_cluster(nodes=1) as it, running_garbage_collector(it, gcDuration="30s"):
        await it.allow_any_field(kinds.RESERVATION, "status")
        for name in ("a", "b"):
            await it.create(kinds.RESERVATION, new_reservation(name))
        failed = {"status": {"state": {"phase": "Failed", "lastTransitionTime": "at noon"}}}
        await it.client.patch(kinds.RESERVATION, "a", failed, "default", subresource="status")
        await pass_time(20)
        assert await names(it) == ["a", "b"]
        await pass_time(20)
        assert await names(it) == ["b"]


@on_virtual_time
async def test_reservation_is_deleted_despite_faults() -> None:
    plan = FaultPlan(conflict=0.3, busy=0.2, refused=0.3, unknown=0.3, dropped=0.1, late=0.1)
    async with (
        scheduled_cluster(nodes=1) as it,
        running_garbage_collector(it, FaultyApi(it.api, random.Random(7), plan), gcDuration="0s"),
    ):
        for number in range(4):
            await it.create(kinds.RESERVATION, new_reservation(f"r{number}", replicas=1, ttl="2s"))
        await pass_time(120)
        assert await names(it) == []
