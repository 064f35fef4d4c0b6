"""What watches have not shown: before an eviction everything is read again, so no pod is evicted on what was true."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from restow.model import kinds
from restow.model.objects import Pod
from restow.ports import Api, Request
from tests.control.migrations.migration_cluster import (
    MigrationCluster,
    cluster_with_stub_scheduler,
    pod_stays,
    running_controller,
)
from tests.control.migrations.test_changes_before_eviction import cordon, delete_node, remove_seat, take_room
from tests.control.migrations.test_changes_during_eviction import Slow, about_to_leave
from tests.sim.simulated_cluster import on_virtual_time, pass_time

Interference = Callable[[MigrationCluster, Pod], Awaitable[Any]]


class Blind:
    """An Api with watches that show nothing any more once `blind` is set; or nothing of one kind."""

    def __init__(self, api: Api, plural: str = "") -> None:
        self.blind = False
        self._plural = plural
        self.call = api.call
        self._api = api

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        async for event in self._api.watch(request):
            if self.blind and self._plural in ("", request.resource.plural):
                await asyncio.Event().wait()
            yield event


async def stop(it: MigrationCluster, old: Pod) -> None:
    await it.stop()


async def pause(it: MigrationCluster, old: Pod) -> None:
    await it.patch(kinds.POD_MIGRATION_JOB, "move", {"spec": {"paused": True}})


async def abort(it: MigrationCluster, old: Pod) -> None:
    await it.set_status("move", phase="Aborted")


async def delete_job(it: MigrationCluster, old: Pod) -> None:
    await it.delete(kinds.POD_MIGRATION_JOB, "move")


async def ask_again(it: MigrationCluster, old: Pod) -> None:
    """Under the same name: nothing is known of the new job yet."""
    await delete_job(it, old)
    await it.move(old)


async def change_seat(it: MigrationCluster, old: Pod) -> None:
    """And the scheduler does not look at it."""
    it.seats.looking = False
    [made] = await it.reservations()
    await it.patch(kinds.RESERVATION, made.metadata.name, {"spec": {"minAvailable": 0}})


async def refer_elsewhere(it: MigrationCluster, old: Pod) -> None:
    reference = {"namespace": "default", "name": "another"}
    changed = {"spec": {"reservationOptions": {"reservationRef": {**reference, "uid": None}}}}
    await it.patch(kinds.POD_MIGRATION_JOB, "move", changed)


@pytest.mark.parametrize(
    ("interfere", "told"),
    [
        pytest.param(stop, ("Running", "Stopped"), id="evictions are stopped"),
        pytest.param(cordon, ("Failed", "Unschedulable"), id="the target is cordoned"),
        pytest.param(delete_node, ("Failed", "Unschedulable"), id="the target is gone"),
        pytest.param(remove_seat, ("Failed", "MissingReservation"), id="the reservation is gone"),
        pytest.param(take_room, ("Failed", "RoomTaken"), id="its room was taken"),
        pytest.param(change_seat, ("Running", "Pending"), id="it was changed"),
        pytest.param(pause, ("Running", "Paused"), id="the job is paused"),
        pytest.param(abort, ("Aborted", "Aborted"), id="the job is aborted"),
        pytest.param(delete_job, None, id="the job is gone"),
        pytest.param(ask_again, (None, None), id="the job is another one"),
        pytest.param(refer_elsewhere, ("Failed", "MissingReservation"), id="the job speaks of another reservation"),
    ],
)
@on_virtual_time
async def test_no_pod_is_evicted_on_outdated_caches(interfere: Interference, told: Any) -> None:
    async with cluster_with_stub_scheduler(nodes=4) as it:
        api = Blind(it.api)
        async with running_controller(api, it.clock):
            async with about_to_leave(it) as old:
                api.blind = True
                await interfere(it, old)
            assert await pod_stays(it, old)
            assert told is None or (await it.told())[:2] == told


class SlowAndBlind(Slow):
    """An Api that takes long to record an intent, with watches that show nothing of what is done meanwhile."""

    def __init__(self, api: Api, seconds: float, meanwhile: Callable[[], Awaitable[Any]], plural: str = "") -> None:
        blind = Blind(api, plural)

        async def unseen() -> None:
            blind.blind = True
            await meanwhile()

        super().__init__(api, seconds, unseen)
        self.watch = blind.watch


@pytest.mark.parametrize(
    ("interfere", "told"),
    [
        pytest.param(stop, ("Running", "Stopped"), id="evictions are stopped"),
        pytest.param(cordon, ("Failed", "Unschedulable"), id="the target is cordoned"),
        pytest.param(pause, ("Running", "Paused"), id="the job is paused"),
    ],
)
@on_virtual_time
async def test_a_slowly_recorded_intent_is_followed_by_new_reads_without_watches(
    interfere: Interference, told: tuple[str, str]
) -> None:
    async with cluster_with_stub_scheduler(nodes=4) as it:
        old = (await it.start(2))[0]
        async with running_controller(SlowAndBlind(it.api, 20, lambda: interfere(it, old)), it.clock):
            await it.move(old)
            await pass_time(60)
            assert await pod_stays(it, old)
            assert (await it.told())[:2] == told


async def lose_target(it: MigrationCluster) -> None:
    await it.delete(kinds.NODE, it.seats.places or "")


@pytest.mark.parametrize(
    ("interfere", "plural"),
    [
        pytest.param(lose_target, "nodes", id="the target is gone"),
        pytest.param(MigrationCluster.stop, "configmaps", id="evictions are stopped"),
    ],
)
@on_virtual_time
async def test_reads_for_one_job_hold_back_the_eviction_of_another_without_watches(interfere: Any, plural: str) -> None:
    async with cluster_with_stub_scheduler(nodes=4) as it:
        first, second, third = await it.start(3)
        it.seats.places = min({"n1", "n2", "n3", "n4"} - {one.spec.node_name for one in (first, second, third)})

        async def meanwhile() -> None:
            await interfere(it)
            await it.move(second, "b")

        api = SlowAndBlind(it.api, 3, meanwhile, plural)
        async with running_controller(api, it.clock, maxConcurrentReconciles=4):
            await it.move(first, "a")
            await pass_time(20)
            assert await pod_stays(it, first) and await pod_stays(it, second)


@on_virtual_time
async def test_a_reservation_whose_job_the_watch_has_not_shown_is_not_collected() -> None:
    async with cluster_with_stub_scheduler() as it:
        api = Blind(it.api, "podmigrationjobs")
        api.blind = True
        async with running_controller(api, it.clock, seed=2), running_controller(it.api, it.clock):
            it.seats.refusing = "no room"
            await it.move((await it.start())[0])
            await pass_time(120)
            assert len(await it.reservations()) == 1


@on_virtual_time
async def test_a_job_waits_for_a_claim_that_is_not_known_yet() -> None:
    """That nothing is known of a claim is no answer: an ended job stays so."""
    async with cluster_with_stub_scheduler() as it:
        api = Blind(it.api, "persistentvolumeclaims")
        async with running_controller(api, it.clock):
            api.blind = True
            claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
            await it.create(
                kinds.PERSISTENT_VOLUME_CLAIM, {"metadata": {"name": "data", "namespace": "default"}, "spec": claim}
            )
            volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
            old = (await it.start(1, volumes=volumes))[0]
            await it.move(old)
            await pass_time(60)
            assert await it.told() == (
                "Pending",
                "News",
                "waits for information: its PersistentVolumeClaims are not known: data",
            )
        async with running_controller(it.api, it.clock):
            await pass_time(60)
            assert (await it.job()).status.phase != "Pending"
