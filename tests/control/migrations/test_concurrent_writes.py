"""What others do to a seat while a write of ours is on its way: it holds only for what we looked at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from restow.model import kinds
from restow.ports import Api, Request, Response
from tests.control.migrations.migration_cluster import (
    cluster_with_controller,
    cluster_with_stub_scheduler,
    pod_stays,
    running_controller,
)
from tests.sim.simulated_cluster import on_virtual_time, pass_time


class Meanwhile:
    """An Api on which something happens once, before the first of some writes arrives."""

    def __init__(self, api: Api, verb: str, plural: str, interfere: Callable[[], Awaitable[Any]]) -> None:
        self.watch = api.watch
        self._api = api
        self._about = verb, plural, None
        self._interfere: Callable[[], Awaitable[Any]] | None = interfere

    async def call(self, request: Request) -> Response:
        if (request.verb, request.resource.plural, request.subresource) == self._about:
            interfere, self._interfere = self._interfere, None
            if interfere is not None:
                await interfere()
        return await self._api.call(request)


@on_virtual_time
async def test_a_seat_consumed_while_it_is_released_is_kept() -> None:
    async with cluster_with_stub_scheduler() as it:
        old = (await it.start(2))[0]
        it.seats.binding = False

        async def be_taken() -> None:
            it.seats.binding = True
            await it.client.delete(kinds.POD, old.metadata.name, "default", grace_seconds=0)
            await pass_time(5)

        async with running_controller(Meanwhile(it.api, "delete", "reservations", be_taken), it.clock):
            it.seats.refusing = "no room"
            await it.move(old)
            await pass_time(5)
            await it.stop()
            it.seats.refusing = None
            await pass_time(5)
            await it.set_status("move", phase="Aborted")
            await pass_time(20)
            assert [one.status.state.phase for one in await it.reservations()] == ["Succeeded"]


@on_virtual_time
async def test_a_seat_extended_by_another_client_keeps_that_expiry() -> None:
    async with cluster_with_stub_scheduler() as it:
        old = (await it.start(2))[0]

        async def extend() -> None:
            [made] = await it.reservations()
            await it.patch(kinds.RESERVATION, made.metadata.name, {"spec": {"ttl": "5h"}})

        async with running_controller(Meanwhile(it.api, "patch", "reservations", extend), it.clock):
            await it.move(old, reservationOptions={"template": {"spec": {"ttl": "30s"}}})
            await pass_time(30)
            assert (await it.told())[0] == "Succeed"
            assert [one.spec.ttl for one in await it.reservations()] == ["5h"]


@on_virtual_time
async def test_a_deleted_job_leaves_its_seat_to_the_successor_of_a_slowly_terminating_pod() -> None:
    async with cluster_with_controller(world_settings={"stop": 200.0}) as it:
        old = (await it.start(terminationGracePeriodSeconds=300))[0]
        it.seats.binding = False
        await it.move(old)
        await pass_time(10)
        await it.delete(kinds.POD_MIGRATION_JOB, "move")
        await pass_time(120)
        assert not await pod_stays(it, old) and old.metadata.uid in {one.metadata.uid for one in await it.pods()}
        assert len(await it.reservations()) == 1
