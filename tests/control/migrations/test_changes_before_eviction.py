"""The cluster changes under a move: what becomes of the job, of the pod, and of the seat."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model import kinds
from restow.model.objects import Pod
from tests.control.migrations.migration_cluster import MigrationCluster, cluster_with_controller, pod_stays
from tests.sim.simulated_cluster import on_virtual_time, pass_time, template


async def cordon(it: MigrationCluster, old: Pod) -> None:
    [made] = await it.reservations()
    await it.patch(kinds.NODE, (made.status.placements or [])[0].node_name, {"spec": {"unschedulable": True}})


async def remove_seat(it: MigrationCluster, old: Pod) -> None:
    [made] = await it.reservations()
    await it.delete(kinds.RESERVATION, made.metadata.name)


async def expire(it: MigrationCluster, old: Pod) -> None:
    [made] = await it.reservations()
    await it.seats.write(made, phase="Failed", reason="Expired")


async def take_room(it: MigrationCluster, old: Pod) -> None:
    [made] = await it.reservations()
    await it.seats.write(made, phase="Failed", reason="RoomTaken")


async def delete_node(it: MigrationCluster, old: Pod) -> None:
    [made] = await it.reservations()
    await it.delete(kinds.NODE, (made.status.placements or [])[0].node_name)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (cordon, "Unschedulable"),
        (delete_node, "Unschedulable"),
        (remove_seat, "MissingReservation"),
        (expire, "ReservationExpired"),
        (take_room, "RoomTaken"),
    ],
)
@on_virtual_time
async def test_a_pod_stays_if_its_seat_is_lost(change: Any, reason: str) -> None:
    async with cluster_with_controller(nodes=4) as it:
        old = await it.seek()
        await it.stop()
        it.seats.refusing = None
        await pass_time(3)
        await change(it, old)
        await it.go()
        await pass_time(30)
        assert (await it.told())[:2] == ("Failed", reason)
        assert await pod_stays(it, old)
        assert [one for one in await it.reservations() if one.status.state.phase != "Failed"] == []


@on_virtual_time
async def test_the_successor_of_a_pod_deleted_by_another_client_takes_the_seat() -> None:
    async with cluster_with_controller() as it:
        old = await it.seek()
        await it.stop()
        it.seats.refusing = None
        await pass_time(3)
        await it.delete(kinds.POD, old.metadata.name)
        await pass_time(20)
        assert (await it.told())[0] == "Succeed"


@on_virtual_time
async def test_a_job_for_a_pod_that_is_gone_fails() -> None:
    async with cluster_with_controller() as it:
        old = (await it.start())[0]
        await it.delete(kinds.POD, old.metadata.name)
        await pass_time(10)
        await it.move(old)
        await pass_time(5)
        assert (await it.told())[:2] == ("Failed", "MissingPod")


@on_virtual_time
async def test_a_new_pod_of_the_same_name_is_not_evicted() -> None:
    async with cluster_with_controller() as it:
        old = (await it.start(2, kinds.STATEFUL_SET))[0]
        it.seats.refusing = "no room"
        await it.move(old)
        await pass_time(3)
        await it.delete(kinds.POD, old.metadata.name)
        await pass_time(10)
        it.seats.refusing = None
        [new] = [one for one in await it.pods() if one.metadata.name == old.metadata.name]
        await pass_time(30)
        assert (await it.told())[:2] == ("Failed", "MissingPod")
        assert await pod_stays(it, new) and await it.reservations() == []


@on_virtual_time
async def test_a_pod_of_an_upgraded_workload_still_takes_the_seat() -> None:
    async with cluster_with_controller() as it:
        await it.leave()
        await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"template": template("400m", app="web")}})
        await pass_time(2)
        it.seats.binding = True
        await pass_time(60)
        assert (await it.told())[0] == "Succeed"


@on_virtual_time
async def test_the_seat_of_a_deleted_workload_expires() -> None:
    async with cluster_with_controller() as it:
        await it.leave(ttl="60s")
        await it.delete(kinds.DEPLOYMENT, "web")
        await pass_time(70)
        assert (await it.told())[:2] == ("Failed", "Timeout")
        await pass_time(200)
        assert [one.status.state.phase for one in await it.reservations()] == ["Failed"]


@on_virtual_time
async def test_a_job_fails_if_its_workload_is_scaled_down_before_the_eviction() -> None:
    async with cluster_with_controller() as it:
        await it.seek()
        await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"replicas": 0}})
        await pass_time(20)
        assert (await it.told())[:2] == ("Failed", "MissingPod")
        assert await it.reservations() == []


@pytest.mark.parametrize(
    ("kind", "spec", "why"),
    [
        pytest.param(kinds.DAEMON_SET, {}, "would put it back on the same node", id="of a DaemonSet"),
        pytest.param(
            kinds.DEPLOYMENT,
            {"volumes": [{"name": "tmp", "emptyDir": {}}]},
            "local storage: tmp",
            id="with local storage",
        ),
        pytest.param(kinds.DEPLOYMENT, {"schedulerName": "other"}, "its scheduler is other", id="of another scheduler"),
    ],
)
@on_virtual_time
async def test_a_job_for_a_protected_pod_fails_with_the_reason(kind: Any, spec: Any, why: str) -> None:
    async with cluster_with_controller() as it:
        old = (await it.start(None if kind is kinds.DAEMON_SET else 2, kind, **spec))[0]
        await it.move(old)
        await pass_time(10)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Failed", "ForbiddenMigratePod") and why in (message or "")
        assert await pod_stays(it, old) and await it.reservations() == []
