"""Pods with volumes, from pending to Ready: local disks, volumes made for them, claims for one pod, drivers' limits."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from restow.model import kinds
from restow.model.objects import Document
from restow.ports import Api, Conflict, Request, Response
from restow.sim.faults import FaultPlan, FaultyApi, run_until_crash
from restow.sim.loop import run_virtual
from tests.control.scheduler_cluster import condition_of_pod, nodes_by_pod, scheduled_cluster, unscheduled_cluster
from tests.control.volume_objects import LOCAL_STORAGE_CLASS, local_volume, pod_with_claims, volume_claim
from tests.sim.simulated_cluster import SimulatedCluster, is_pod_ready, on_virtual_time, pass_time, running_scheduler

DRIVER = "disk.example.com"
MADE = {"metadata": {"name": "made"}, "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}


async def bound(it: SimulatedCluster) -> dict[str, str | None]:
    """The volume of every claim."""
    found = (await it.client.list(kinds.PERSISTENT_VOLUME_CLAIM)).items
    return {one.metadata.name: one.spec.volume_name for one in found}


async def setting(it: SimulatedCluster, *disks: Document, claims: int = 3) -> None:
    await it.create(kinds.STORAGE_CLASS, LOCAL_STORAGE_CLASS)
    for one in disks:
        await it.create(kinds.PERSISTENT_VOLUME, one)
    for number in range(1, claims + 1):
        await it.create(kinds.PERSISTENT_VOLUME_CLAIM, volume_claim(f"c{number}"))
    await pass_time(2)


@on_virtual_time
async def test_each_pod_gets_a_local_volume_and_the_node_of_it() -> None:
    async with scheduled_cluster() as it:
        await setting(it, local_volume("d1", "n1"), local_volume("d2", "n2"))
        for number in (1, 2, 3):
            await it.create(kinds.POD, pod_with_claims(f"p{number}", f"c{number}"))
        await pass_time(10)
        taken, where = await bound(it), await nodes_by_pod(it)
        assert sorted(name for name in taken.values() if name) == ["d1", "d2"]
        assert all(where[f"p{n}"] == f"n{(taken[f'c{n}'] or ' ')[1]}" for n in (1, 2, 3) if taken[f"c{n}"])
        [left] = [name for name, on in where.items() if on is None]
        why = "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind."
        assert (await condition_of_pod(it, left))[2] == why
        await it.create(kinds.PERSISTENT_VOLUME, local_volume("d3", "n3"))
        await pass_time(15)
        assert (await nodes_by_pod(it))[left] == "n3"
        assert all(map(is_pod_ready, await it.pods()))


@on_virtual_time
async def test_two_claims_of_a_pod_need_two_local_volumes_of_one_node() -> None:
    async with scheduled_cluster() as it:
        await setting(it, local_volume("d1", "n1"), local_volume("d2", "n2", "5Gi"), local_volume("d3", "n2"), claims=2)
        await it.create(kinds.POD, pod_with_claims("p", "c1", "c2"))
        await pass_time(10)
        assert await nodes_by_pod(it) == {"p": "n2"}
        assert sorted((await bound(it)).values(), key=str) == ["d2", "d3"]


@on_virtual_time
async def test_pod_waits_for_a_read_write_once_pod_claim_until_the_other_pod_is_gone() -> None:
    async with scheduled_cluster() as it:
        await it.create(kinds.STORAGE_CLASS, MADE)
        await it.create(kinds.PERSISTENT_VOLUME_CLAIM, volume_claim("c", "made", "ReadWriteOncePod"))
        await it.create(kinds.POD, pod_with_claims("first", "c"))
        await pass_time(10)
        await it.create(kinds.POD, pod_with_claims("second", "c"))
        await pass_time(5)
        assert "ReadWriteOncePod access mode already in-use" in ((await condition_of_pod(it, "second"))[2] or "")
        await it.delete(kinds.POD, "first")
        await pass_time(60)
        assert list(await nodes_by_pod(it)) == ["second"]
        assert all(map(is_pod_ready, await it.pods()))


@on_virtual_time
async def test_node_gets_no_more_volumes_than_its_csi_driver_attaches() -> None:
    async with scheduled_cluster(nodes=1) as it:
        await it.create(kinds.STORAGE_CLASS, MADE)
        limit = {"name": DRIVER, "nodeID": "n1", "topologyKeys": None, "allocatable": {"count": 1}}
        await it.create(kinds.CSI_NODE, {"metadata": {"name": "n1"}, "spec": {"drivers": [limit]}})
        for name in ("c1", "c2"):
            await it.create(kinds.PERSISTENT_VOLUME_CLAIM, volume_claim(name, "made"))
            await it.create(kinds.POD, pod_with_claims(f"uses-{name}", name))
            await pass_time(10)
        assert await nodes_by_pod(it) == {"uses-c1": "n1", "uses-c2": None}
        assert (await condition_of_pod(it, "uses-c2"))[
            2
        ] == "0/1 nodes are available: 1 node(s) exceed max volume count."


class Withholding:
    """An Api with a watch of volume claims that runs late."""

    def __init__(self, api: Api, late: float) -> None:
        self.conflicts = 0
        self._api = api
        self._late = late

    async def call(self, request: Request) -> Response:
        try:
            return await self._api.call(request)
        except Conflict:
            self.conflicts += 1
            raise

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        async for event in self._api.watch(request):
            if request.resource.plural == "persistentvolumeclaims" and b"selected-node" in event:
                await asyncio.sleep(self._late)
            yield event


@on_virtual_time
async def test_pre_bind_writes_are_known_before_the_watch_shows_them() -> None:
    made: list[Withholding] = []

    def around(api: Api) -> Api:
        made.append(Withholding(api, late=10.0))
        return made[0]

    async with scheduled_cluster(around=around, provision=30.0) as it:
        await it.create(kinds.STORAGE_CLASS, MADE)
        await it.create(kinds.PERSISTENT_VOLUME_CLAIM, volume_claim("c", "made"))
        await it.create(kinds.POD, pod_with_claims("first", "c"))
        await pass_time(3)
        await it.create(kinds.POD, pod_with_claims("second", "c"))
        await pass_time(3)
        nominated = [
            (await it.document(kinds.POD, name))["status"]["nominatedNodeName"] for name in ("first", "second")
        ]
        assert nominated[0] == nominated[1]
        await pass_time(60)
        assert made[0].conflicts == 0
        assert all(map(is_pod_ready, await it.pods()))


class Garbling:
    """An Api with a watch of volumes that shows an unreadable size."""

    def __init__(self, api: Api) -> None:
        self.call = api.call
        self.size = b'"storage":"unspeakable"'
        self._api = api

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        async for event in self._api.watch(request):
            yield event.replace(b'"storage":"13Gi"', self.size)


@on_virtual_time
async def test_volume_of_unreadable_size_is_unused_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    made: list[Garbling] = []

    def around(api: Api) -> Api:
        made.append(Garbling(api))
        return made[0]

    async with scheduled_cluster(around=around) as it:
        await setting(it, local_volume("odd", "n1", "13Gi"), claims=1)
        for number in range(3):
            await it.patch(kinds.PERSISTENT_VOLUME, "odd", {"metadata": {"labels": {"again": str(number)}}})
        await it.create(kinds.POD, pod_with_claims("p", "c1"))
        await pass_time(5)
        why = "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind."
        assert (await condition_of_pod(it, "p"))[2] == why
        told = [one for one in caplog.records if one.message == "object cannot be read"]
        assert [one.__dict__["object"] for one in told] == ["odd"]
        made[0].size = b'"storage":"13Gi"'
        await it.patch(kinds.PERSISTENT_VOLUME, "odd", {"metadata": {"labels": {"again": "readably"}}})
        await pass_time(15)
        assert await nodes_by_pod(it) == {"p": "n1"}


async def _two_lives(crash_after: int) -> None:
    """A scheduler dies after its nth write; its successor must end with every pod on its own disk."""
    async with unscheduled_cluster(nodes=2) as it:
        mortal = FaultyApi(it.api, random.Random(3), FaultPlan(crash_after=crash_after))

        async def first() -> None:
            async with running_scheduler(mortal, it.clock):
                await asyncio.sleep(20)

        await setting(it, local_volume("d1", "n1"), local_volume("d2", "n1", "5Gi"), local_volume("d3", "n2"))
        for number in (1, 2):
            await it.create(kinds.POD, pod_with_claims(f"p{number}", f"c{number}"))
        await run_until_crash(mortal, first())
        async with running_scheduler(it.api, it.clock, seed=2):
            await pass_time(60)
            taken = await bound(it)
            assert len({taken["c1"], taken["c2"]} - {None}) == 2
            assert all(map(is_pod_ready, await it.pods()))
            homes = {"d1": "n1", "d2": "n1", "d3": "n2"}
            assert await nodes_by_pod(it) == {f"p{n}": homes[taken[f"c{n}"] or ""] for n in (1, 2)}


@pytest.mark.parametrize("write", range(1, 9))
def test_new_leader_continues_volume_binding_after_any_write(write: int) -> None:
    run_virtual(_two_lives(write))
