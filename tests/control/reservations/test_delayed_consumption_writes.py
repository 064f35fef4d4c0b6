"""Marks are put off while pods wait to be bound; not for ever, and not where anything depends on them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from tests.control.reservations.reservation_cluster import phase, reservation, seats
from tests.control.reservations.test_recording_consumption import Slow
from tests.control.scheduler_cluster import places, stage
from tests.sim.simulated_cluster import SimulatedCluster, on_virtual_time, pass_time, pod

GONE: dict[str, Any] = {"restow.sh/migrating": "the uid of one that is gone"}
WAITING = {"x": 20.0, "y": 20.0}
"""How long the bindings of other pods take, one after the other."""


@asynccontextmanager
async def pressed(patience: float = 300.0, cpu: str = "1", **annotations: str) -> AsyncIterator[SimulatedCluster]:
    """Pod a took one of two seats, all of it or less, and others wait to be bound: there is one who binds."""
    settings = SchedulerSettings(namespace_share=100, binding_writers=1, consumption_patience=patience)
    async with stage(nodes=1, around=Slow(WAITING).around, settings=settings) as it:
        made = reservation()
        made["metadata"]["annotations"] = annotations
        await it.create(kinds.RESERVATION, made)
        await pass_time(3)
        await it.create(kinds.POD, pod("a", cpu))
        for name in WAITING:
            await it.create(kinds.POD, pod(name, app="other"))
        await pass_time(5)
        assert (await places(it))["a"] == "n1"
        yield it


async def taken(it: SimulatedCluster) -> str | None:
    return (await seats(it))[0][1]


@on_virtual_time
async def test_bindings_that_wait_go_first() -> None:
    async with pressed() as it:
        assert (await taken(it), await places(it)) == (None, {"a": "n1", "x": None, "y": None})
        await pass_time(45)
        assert (await taken(it), await places(it)) == ("a", {"a": "n1", "x": "n1", "y": "n1"})


@pytest.mark.parametrize(
    ("after", "marked"), [pytest.param(2, None, id="not yet"), pytest.param(6, "a", id="now, though others wait")]
)
@on_virtual_time
async def test_a_mark_is_put_off_for_as_long_as_it_may_be(after: float, marked: str | None) -> None:
    async with pressed(patience=10.0) as it:
        await pass_time(after)
        assert (await taken(it), (await places(it))["y"]) == (marked, None)


@pytest.mark.parametrize("grace", [pytest.param(0, id="gone"), pytest.param(30, id="leaving")])
@on_virtual_time
async def test_who_is_about_to_go_is_marked_at_once(grace: int) -> None:
    async with pressed() as it:
        await it.delete(kinds.POD, "a", grace_seconds=grace)
        await pass_time(0.5)
        assert await taken(it) == "a"


@on_virtual_time
async def test_who_took_the_seat_of_a_move_is_marked_at_once() -> None:
    async with pressed(**GONE) as it:
        assert (await taken(it), (await places(it))["y"]) == ("a", None)


@on_virtual_time
async def test_who_leaves_some_of_its_seat_is_marked_at_once() -> None:
    async with pressed(cpu="100m") as it:
        assert (await taken(it), (await places(it))["y"]) == ("a", None)
        await it.create(kinds.RESERVATION, reservation("another"))
        await pass_time(1)
        assert await phase(it, "another") == ("Available", "Reserved")


@on_virtual_time
async def test_nobody_else_waits_with_a_mark() -> None:
    async with pressed() as it:
        await it.create(kinds.RESERVATION, reservation("another", 1))
        await pass_time(1)
        assert (await phase(it, "another"), await taken(it)) == (("Available", "Reserved"), None)


@on_virtual_time
async def test_a_mark_that_was_put_off_is_written_with_whatever_else_is() -> None:
    async with pressed() as it:
        change: dict[str, Any] = {"spec": {"ttl": "1s"}}
        await it.patch(kinds.RESERVATION, "r", change)
        await pass_time(2)
        assert (await taken(it), await phase(it)) == ("a", ("Failed", "Expired"))
