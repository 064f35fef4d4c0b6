"""Pods on their way to a seat while something happens to it: they are bound as what they are by then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from restow.model import kinds
from tests.control.reservations.stage import Barrier, over_committed, read, reservation, seats, take_away
from tests.control.stage import events, places, stage
from tests.sim.stage import Stage, node, pass_time, pod, virtual


async def nothing(it: Stage) -> None:
    """The usual case."""


async def delete(it: Stage) -> None:
    await it.delete(kinds.RESERVATION, "r")


async def move(it: Stage) -> None:
    """The seat is taken away, and found again on another node."""
    await take_away(it)
    await it.patch(kinds.NODE, "n1", {"spec": {"unschedulable": True}})
    await it.create(kinds.NODE, node("n2"))
    await pass_time(3)
    await take_away(it, instead="web")


async def make_anew(it: Stage) -> None:
    await it.delete(kinds.RESERVATION, "r")
    await it.create(kinds.RESERVATION, reservation(replicas=1))


@pytest.mark.parametrize(
    ("happens", "named"),
    [
        pytest.param(nothing, True, id="nothing happens"),
        pytest.param(delete, False, id="the reservation is deleted"),
        pytest.param(take_away, False, id="the seat is taken away"),
        pytest.param(move, False, id="the seat is elsewhere now"),
        pytest.param(make_anew, False, id="another of the same name is made"),
    ],
)
@virtual
async def test_a_seat_that_was_released_is_not_named(happens: Callable[[Stage], Awaitable[Any]], named: bool) -> None:
    barrier = Barrier()
    async with stage(barrier, nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation(replicas=1))
        await pass_time(3)
        await it.create(kinds.POD, pod("a"))
        await pass_time(3)
        assert await places(it) == {"a": None}
        await happens(it)
        await pass_time(3)
        barrier.lifted = True
        await pass_time(15)
        assert await places(it) == {"a": "n1"}
        [one] = await it.pods()
        assert ("restow.sh/reservation" in (one.metadata.annotations or {})) is named
        [(_, told)] = await events(it, "Scheduled")
        assert ("in the seat default/r/web/0" in told) is named
        assert await over_committed(it.client) == []
        if happens in (make_anew, move):
            assert (await read(it)).status.state.phase == "Available"
            assert [name for _, name in (await seats(it)).values()] == [None]
