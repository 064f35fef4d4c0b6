"""A move that is held up at the last moment, with the scheduler itself: what an attack can do to it before the pod is
evicted, and what the pod's successor finds afterwards.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from restow.model import kinds
from restow.model.objects import Pod, Reservation
from tests.control.migrations.migration_cluster import MigrationCluster
from tests.narrowing import present
from tests.sim.simulated_cluster import pass_time


@asynccontextmanager
async def held_up(it: MigrationCluster, old: Pod, **job: Any) -> AsyncIterator[Reservation]:
    """The pod's seat is ready, and evictions are stopped until the block ends."""
    nodes = [one.metadata.name for one in (await it.client.list(kinds.NODE)).items]
    for name in nodes:
        await it.patch(kinds.NODE, name, {"spec": {"unschedulable": True}})
    await it.move(old, **job)
    await pass_time(5)
    await it.stop()
    for name in nodes:
        await it.patch(kinds.NODE, name, {"spec": {"unschedulable": None}})
    await pass_time(10)
    [seat] = await it.reservations()
    assert seat.status.state.phase == "Available", seat.status.state
    yield seat
    await it.go()
    await pass_time(60)


def node_of(seat: Reservation) -> str:
    """Where the one seat is."""
    [placement] = present(seat.status.placements)
    return placement.node_name
