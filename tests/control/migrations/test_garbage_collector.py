"""Orphaned reservations and old jobs are deleted, unless they have changed by then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from restow.model import kinds
from restow.ports import Api, Request, Response
from tests.control.migrations.migration_cluster import MigrationCluster, cluster_with_stub_scheduler, running_controller
from tests.sim.simulated_cluster import on_virtual_time, pass_time


class Overtaken:
    """An Api in which something is done right before the first of these is deleted."""

    def __init__(self, api: Api, plural: str, interfere: Callable[[], Awaitable[Any]]) -> None:
        self.watch = api.watch
        self._api = api
        self._plural = plural
        self._interfere: Callable[[], Awaitable[Any]] | None = interfere

    async def call(self, request: Request) -> Response:
        interfere = self._interfere
        if (request.verb, request.resource.plural) == ("delete", self._plural) and interfere is not None:
            self._interfere = None
            await interfere()
        return await self._api.call(request)

    @property
    def was_overtaken(self) -> bool:
        return self._interfere is None


async def take_seat(it: MigrationCluster) -> None:
    """As the scheduler does when a pod of the owner comes."""
    [made] = await it.reservations()
    pod_ref = {"namespace": "default", "name": "web", "uid": "uid-web"}
    task = (made.spec.tasks or [])[0].name
    await it.seats.write(made, [{"task": task, "index": 0, "nodeName": "n1", "podRef": pod_ref}], phase="Succeeded")


@on_virtual_time
async def test_an_orphaned_reservation_consumed_meanwhile_is_not_collected() -> None:
    async with cluster_with_stub_scheduler() as it:
        api = Overtaken(it.api, "reservations", lambda: take_seat(it))
        async with running_controller(api, it.clock):
            await it.seek()
            await it.delete(kinds.POD_MIGRATION_JOB, "move")
            await pass_time(120)
        assert api.was_overtaken
        assert [one.status.state.phase for one in await it.reservations()] == ["Succeeded"]


@on_virtual_time
async def test_a_recreated_job_is_not_collected_in_place_of_the_old_one() -> None:
    async with cluster_with_stub_scheduler() as it:
        first, second = await it.start(2)

        async def ask_again() -> None:
            await it.delete(kinds.POD_MIGRATION_JOB, "move")
            await it.move(second)

        api = Overtaken(it.api, "podmigrationjobs", ask_again)
        async with running_controller(api, it.clock, finishedJobTTL="10m"):
            await it.move(first)
            await pass_time(660)
            assert api.was_overtaken
            job = await it.job()
            assert (job.spec.pod_ref.uid, job.status.phase) == (second.metadata.uid, "Succeed")


@on_virtual_time
async def test_a_reservation_kept_by_a_finalizer_is_deleted_once() -> None:
    async with cluster_with_stub_scheduler() as it:
        api = Counted(it.api)
        async with running_controller(api, it.clock):
            await it.seek()
            [made] = await it.reservations()
            await it.patch(kinds.RESERVATION, made.metadata.name, {"metadata": {"finalizers": ["example.org/keep"]}})
            await it.delete(kinds.POD_MIGRATION_JOB, "move")
            await pass_time(600)
        assert api.deletions == 1


class Counted:
    """An Api that counts deletions of reservations."""

    def __init__(self, api: Api) -> None:
        self.watch = api.watch
        self.deletions = 0
        self._api = api

    async def call(self, request: Request) -> Response:
        self.deletions += (request.verb, request.resource.plural) == ("delete", "reservations")
        return await self._api.call(request)
