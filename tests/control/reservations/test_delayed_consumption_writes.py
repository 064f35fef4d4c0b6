"""Consumption writes are delayed while pods wait to be bound; not for ever, and not where anything depends on them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from tests.control.reservations.reservation_cluster import new_reservation, phase_and_reason, seats_by_index
from tests.control.reservations.test_recording_consumption import Slow
from tests.control.scheduler_cluster import nodes_by_pod, scheduled_cluster
from tests.sim.simulated_cluster import SimulatedCluster, on_virtual_time, pass_time, pod

GONE: dict[str, Any] = {"restow.sh/migrating": "the uid of one that is gone"}
WAITING = {"x": 20.0, "y": 20.0}
"""How long the bindings of other pods take, one after the other."""


@asynccontextmanager
async def pressed(patience: float = 300.0, cpu: str = "1", **annotations: str) -> AsyncIterator[SimulatedCluster]:
    """Pod a has consumed one of two seats, all of it or less, and other pods wait for the only binding writer."""
    settings = SchedulerSettings(namespace_share=100, binding_writers=1, consumption_patience=patience)
    async with scheduled_cluster(nodes=1, around=Slow(WAITING).around, settings=settings) as it:
        made = new_reservation()
        made["metadata"]["annotations"] = annotations
        await it.create(kinds.RESERVATION, made)
        await pass_time(3)
        await it.create(kinds.POD, pod("a", cpu))
        for name in WAITING:
            await it.create(kinds.POD, pod(name, app="other"))
        await pass_time(5)
        assert (await nodes_by_pod(it))["a"] == "n1"
        yield it


async def taken(it: SimulatedCluster) -> str | None:
    return (await seats_by_index(it))[0][1]


@on_virtual_time
async def test_waiting_bindings_go_before_consumption_writes() -> None:
    async with pressed() as it:
        assert (await taken(it), await nodes_by_pod(it)) == (None, {"a": "n1", "x": None, "y": None})
        await pass_time(45)
        assert (await taken(it), await nodes_by_pod(it)) == ("a", {"a": "n1", "x": "n1", "y": "n1"})


@pytest.mark.parametrize(
    ("after", "recorded"), [pytest.param(2, None, id="not yet"), pytest.param(6, "a", id="now, though others wait")]
)
@on_virtual_time
async def test_consumption_write_is_delayed_no_longer_than_its_patience(after: float, recorded: str | None) -> None:
    async with pressed(patience=10.0) as it:
        await pass_time(after)
        assert (await taken(it), (await nodes_by_pod(it))["y"]) == (recorded, None)


@pytest.mark.parametrize("grace", [pytest.param(0, id="gone"), pytest.param(30, id="leaving")])
@on_virtual_time
async def test_consumption_of_a_terminating_pod_is_recorded_at_once(grace: int) -> None:
    async with pressed() as it:
        await it.delete(kinds.POD, "a", grace_seconds=grace)
        await pass_time(0.5)
        assert await taken(it) == "a"


@on_virtual_time
async def test_consumption_of_a_migration_seat_is_recorded_at_once() -> None:
    async with pressed(**GONE) as it:
        assert (await taken(it), (await nodes_by_pod(it))["y"]) == ("a", None)


@on_virtual_time
async def test_consumption_by_a_smaller_pod_is_recorded_at_once() -> None:
    async with pressed(cpu="100m") as it:
        assert (await taken(it), (await nodes_by_pod(it))["y"]) == ("a", None)
        await it.create(kinds.RESERVATION, new_reservation("another"))
        await pass_time(1)
        assert await phase_and_reason(it, "another") == ("Available", "Reserved")


@on_virtual_time
async def test_delayed_consumption_write_delays_no_other_write() -> None:
    async with pressed() as it:
        await it.create(kinds.RESERVATION, new_reservation("another", 1))
        await pass_time(1)
        assert (await phase_and_reason(it, "another"), await taken(it)) == (("Available", "Reserved"), None)


@on_virtual_time
async def test_delayed_consumption_is_recorded_by_the_next_status_write() -> None:
    async with pressed() as it:
        change: dict[str, Any] = {"spec": {"ttl": "1s"}}
        await it.patch(kinds.RESERVATION, "r", change)
        await pass_time(2)
        assert (await taken(it), await phase_and_reason(it)) == ("a", ("Failed", "Expired"))
