"""Reading what a decision depends on: all at once, and if one read fails, the others end with it."""

from __future__ import annotations

import asyncio
import random

from restow.control.migrations import MigrationController
from restow.model import kinds
from restow.ports import ApiError, Request, Response
from restow.sim.faults import FaultyApi
from tests.control.migrations.migration_cluster import cluster_with_stub_scheduler, running_controller
from tests.sim.simulated_cluster import on_virtual_time, pass_time


class Uneven(FaultyApi):
    """Reads of reservations take a minute, and those of pods fail after a second, while it has trouble."""

    trouble = True
    begun = ended = 0

    async def call(self, request: Request) -> Response:
        if self.trouble and request.verb == "get" and request.resource.plural == kinds.POD.plural:
            await asyncio.sleep(1)
            raise ApiError.because(500, "InternalError", "etcd is away")
        if self.trouble and request.verb == "get" and request.resource.plural == kinds.RESERVATION.plural:
            self.begun += 1
            await asyncio.sleep(60)
            self.ended += 1
        return await super().call(request)


@on_virtual_time
async def test_a_failed_read_cancels_the_reads_beside_it() -> None:
    async with cluster_with_stub_scheduler() as it:
        api = Uneven(it.api, random.Random(1))
        async with running_controller(api, it.clock):
            await it.move((await it.start(2))[0])
            await pass_time(70)
            assert api.begun > 1 and api.ended == 0
            api.trouble = False
            await pass_time(60)
            assert (await it.told())[0] == "Succeed"


class Abrupt(FaultyApi):
    """Reads that are under way when the controller stops fail, as on a closed connection."""

    async def call(self, request: Request) -> Response:
        try:
            await asyncio.sleep(0.5)
        except asyncio.CancelledError:
            raise ApiError.because(500, "InternalError", "the connection was closed") from None
        return await super().call(request)


@on_virtual_time
async def test_a_controller_cancelled_during_reads_stops_though_a_read_fails() -> None:
    async with cluster_with_stub_scheduler() as it:
        await it.start(2)
        api = Abrupt(it.api, random.Random(1))
        made = MigrationController(api, it.clock, random.Random(1))
        running = asyncio.create_task(made.run())
        await made.ready()
        for one in await it.pods():
            await it.move(one, f"move-{one.metadata.name}")
        await pass_time(2.25)  # in the middle of a read
        running.cancel()
        await asyncio.wait((running,), timeout=30)
        assert running.done()
