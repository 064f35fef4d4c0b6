"""Several seats, jobs and reservations: no pod is evicted for a seat of another, or taken for a successor."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest

from restow.model import kinds
from restow.model.objects import Pod
from tests.control.migrations.migration_cluster import (
    MigrationCluster,
    cluster_with_scheduler,
    pod_stays,
    running_controller,
)
from tests.control.migrations.test_given_seats import GIVEN, PORT, WEB, give
from tests.control.scheduler_cluster import pod_group
from tests.sim.simulated_cluster import on_virtual_time, pass_time, pod, template, workload

SLOW: dict[str, Any] = {"annotations": {"sim.restow.sh/stop-seconds": "100"}, "terminationGracePeriodSeconds": 120}


async def cordon(it: MigrationCluster, *names: str | None, back: bool = False) -> None:
    for name in names:
        await it.patch(kinds.NODE, name or "", {"spec": {"unschedulable": None if back else True}})


async def admit(it: MigrationCluster, old: Pod, name: str = "move", **spec: Any) -> None:
    """A job begins, with a given seat, and evictions are stopped."""
    await it.move(old, name, reservationOptions=GIVEN, paused=True, **spec)
    await pass_time(1)
    await it.patch(kinds.POD_MIGRATION_JOB, name, {"spec": {"paused": False}})
    while (await it.job(name)).status.phase != "Running":
        await asyncio.sleep(0)
    await it.stop()


async def seats_of(it: MigrationCluster) -> list[str]:
    [given] = await it.reservations()
    return [one.node_name for one in given.status.placements or ()]


@on_virtual_time
async def test_of_two_jobs_none_evicts_for_a_seat_on_an_unfit_node() -> None:
    async with cluster_with_scheduler(nodes=4) as it, running_controller(it.api, it.clock, maxConcurrentReconciles=4):
        await cordon(it, "n3", "n4")
        first, second = await it.start(2)
        await cordon(it, "n1", "n2")
        await cordon(it, "n3", "n4", back=True)
        await give(it, seats=2, cpu="3", minAvailable=1)
        await cordon(it, (await seats_of(it))[1])
        await pass_time(30)
        await it.stop()
        for name, one in (("a", first), ("b", second)):
            await it.move(one, name, reservationOptions=GIVEN)
        await pass_time(10)
        await it.go()
        await pass_time(60)
        assert [await pod_stays(it, first), await pod_stays(it, second)].count(False) == 1


@on_virtual_time
async def test_several_pods_move_together_or_not_at_all() -> None:
    """One reservation has the seats of all: it is Available once there is room for each, or fails as a whole."""
    limits: dict[str, Any] = {"maxMigratingPerWorkload": "100%", "maxUnavailablePerWorkload": "100%"}
    async with (
        cluster_with_scheduler(nodes=6) as it,
        running_controller(it.api, it.clock, maxConcurrentReconciles=4, **limits),
    ):
        await cordon(it, "n4", "n5", "n6")
        pods = await it.start(3)
        await cordon(it, "n1", "n2", "n3")
        await cordon(it, "n4", "n5", back=True)
        await give(it, seats=3, cpu="3")
        for one in pods:
            await it.move(one, one.metadata.name, reservationOptions=GIVEN)
        await pass_time(60)
        assert [await pod_stays(it, one) for one in pods] == [True] * 3
        told = [await it.told(one.metadata.name) for one in pods]
        assert {(phase, reason) for phase, reason, _ in told} == {("Running", "Unschedulable")}, told
        await cordon(it, "n6", back=True)
        await pass_time(120)
        assert [(await it.told(one.metadata.name))[0] for one in pods] == ["Succeed"] * 3
        assert {one.spec.node_name for one in await it.pods()} == {"n4", "n5", "n6"}


@pytest.mark.parametrize("cleared_away", [False, True])
@on_virtual_time
async def test_every_migrating_pod_has_a_successor_of_its_own(cleared_away: bool) -> None:
    """They come at once, and every job hears of all of them; also if the reservation is gone by then."""
    async with cluster_with_scheduler(nodes=6) as it, AsyncExitStack() as at_work:
        await at_work.enter_async_context(running_controller(it.api, it.clock, maxConcurrentReconciles=8))
        await cordon(it, "n4", "n5", "n6")
        pods = await it.start(6)
        await cordon(it, "n1", "n2", "n3")
        await cordon(it, "n4", "n5", "n6", back=True)
        await give(it, seats=6, cpu="1")
        await it.stop()
        for one in pods:
            await it.move(one, one.metadata.name, reservationOptions=GIVEN)
        await pass_time(5)
        await it.go()
        if cleared_away:
            while any([await pod_stays(it, one) for one in pods]):
                await asyncio.sleep(0)
            await at_work.aclose()
            await pass_time(30)
            await it.delete(kinds.RESERVATION, "given")
            await at_work.enter_async_context(running_controller(it.api, it.clock, maxConcurrentReconciles=8))
        await pass_time(60)
        jobs = [await it.job(one.metadata.name) for one in pods]
        assert [one.status.phase for one in jobs] == ["Succeed"] * 6
        assert len({one.status.pod_ref.uid for one in jobs if one.status.pod_ref is not None}) == 6


@on_virtual_time
async def test_several_pods_stay_where_they_are_if_their_seats_fail() -> None:
    async with cluster_with_scheduler(nodes=2) as it, running_controller(it.api, it.clock, maxConcurrentReconciles=4):
        pods = await it.start(2)
        await give(it, seats=2, cpu="3", ttl="3m")
        for one in pods:
            await it.move(one, one.metadata.name, reservationOptions=GIVEN)
        await pass_time(300)
        assert [(await it.told(one.metadata.name))[:2] for one in pods] == [("Failed", "ReservationExpired")] * 2
        assert [await pod_stays(it, one) for one in pods] == [True] * 2


@on_virtual_time
async def test_a_fit_seat_behind_an_unfit_one_is_found() -> None:
    async with cluster_with_scheduler(nodes=3) as it, running_controller(it.api, it.clock):
        [old] = await it.start(1)
        await cordon(it, old.spec.node_name)
        await give(it, seats=2, cpu="3", minAvailable=1)
        await cordon(it, (await seats_of(it))[0])
        await pass_time(10)
        await it.move(old, reservationOptions=GIVEN)
        await pass_time(60)
        assert (await it.told())[0] == "Succeed", await it.told()


async def spoil(it: MigrationCluster, name: str) -> None:
    """A pod has the host port of the pods to come."""
    await it.create(kinds.POD, pod("loud", "100m", app="loud", nodeName=name, containers=PORT))


@on_virtual_time
async def test_a_seat_behind_a_spoiled_one_is_found() -> None:
    async with cluster_with_scheduler(nodes=3) as it, running_controller(it.api, it.clock):
        [old] = await it.start(1, containers=PORT)
        await cordon(it, old.spec.node_name)
        await give(it, seats=2, cpu="2500m")
        first, second = await seats_of(it)
        await spoil(it, first)
        await it.move(old, reservationOptions=GIVEN)
        await pass_time(60)
        assert (await it.told())[0] == "Succeed", await it.told()
        assert second in {one.spec.node_name for one in await it.pods()}


@on_virtual_time
async def test_a_seat_behind_one_that_is_being_vacated_is_found() -> None:
    async with cluster_with_scheduler(nodes=3) as it, running_controller(it.api, it.clock):
        [old] = await it.start(1)
        await cordon(it, old.spec.node_name)
        await give(it, seats=2, cpu="2500m", minAvailable=1)
        await it.create(kinds.POD, pod("other", "2", nodeName=(await seats_of(it))[0], schedulerName="x", **SLOW))
        await it.delete(kinds.POD, "other", "default")
        await pass_time(2)
        await it.move(old, reservationOptions=GIVEN)
        await pass_time(30)
        assert (await it.told())[0] == "Succeed", await it.told()


@on_virtual_time
async def test_no_pod_is_evicted_for_a_spoiled_seat_while_another_takes_the_good_one() -> None:
    limits: dict[str, Any] = {"maxMigratingPerWorkload": "100%", "maxUnavailablePerWorkload": "100%"}
    async with (
        cluster_with_scheduler(nodes=4) as it,
        running_controller(it.api, it.clock, maxConcurrentReconciles=4, **limits),
    ):
        await cordon(it, "n3", "n4")
        pods = await it.start(2, kind=kinds.STATEFUL_SET, containers=PORT, **SLOW)
        await cordon(it, "n1", "n2")
        await cordon(it, "n3", "n4", back=True)
        await give(it, seats=2, cpu="2500m", owners=[{"controller": {"kind": "StatefulSet", "name": "web"}}])
        await spoil(it, (await seats_of(it))[0])
        for one in pods:
            await it.move(one, one.metadata.name, reservationOptions=GIVEN, ttl="20m")
        await pass_time(180)
        assert sorted([await pod_stays(it, one) for one in pods]) == [False, True]
        assert {(await it.told(one.metadata.name))[0] for one in pods} == {"Succeed", "Running"}
        await it.delete(kinds.POD, "loud", "default")
        await pass_time(180)
        assert {(await it.told(one.metadata.name))[0] for one in pods} == {"Succeed"}


APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}


@pytest.mark.parametrize("spec", [{"containers": PORT}, {"affinity": APART}], ids=["ports", "company"])
@on_virtual_time
async def test_no_pod_is_evicted_for_a_seat_beside_one_with_anti_affinity(spec: Any) -> None:
    """The reservation asks for room alone, and has it on one node."""
    async with cluster_with_scheduler(nodes=3) as it, running_controller(it.api, it.clock, maxConcurrentReconciles=4):
        await cordon(it, "n3")
        pods = await it.start(2, **spec)
        await cordon(it, "n1", "n2")
        await cordon(it, "n3", back=True)
        room = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}}]}}
        await give(it, tasks=[{"name": "web", "replicas": 2, "template": room}])
        await it.stop()
        for one, name in zip(pods, "ab", strict=True):
            await it.move(one, name, reservationOptions=GIVEN)
        await pass_time(5)
        await it.go()
        await pass_time(60)
        assert [(await it.told(name))[:2] for name in "ab"] == [("Succeed", None), ("Running", "Waiting")]
        assert await pod_stays(it, pods[1]) and all(one.spec.node_name for one in await it.pods())


@on_virtual_time
async def test_no_pod_is_evicted_for_room_that_is_not_vacated_yet() -> None:
    """The reservation is Available by a seat that was taken, and the one that is left is being left."""
    async with cluster_with_scheduler(nodes=3) as it, running_controller(it.api, it.clock):
        await cordon(it, "n2", "n3")
        [old] = await it.start(1)
        await cordon(it, "n2", "n3", back=True)
        await cordon(it, "n1")
        long = {"annotations": {"sim.restow.sh/stop-seconds": "3600"}, "terminationGracePeriodSeconds": 3600}
        await it.create(kinds.POD, pod("long", "3", app="long", nodeName="n2", schedulerName="other", **long))
        await pass_time(3)
        await it.delete(kinds.POD, "long", grace_seconds=3600)
        await give(it, seats=2, cpu="3", minAvailable=1)
        await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"replicas": 2}})
        await pass_time(10)
        await it.move(old, reservationOptions=GIVEN)
        await pass_time(60)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Running", "Waiting") and "have not left node n2" in (message or ""), message
        assert await pod_stays(it, old)


@pytest.mark.parametrize("how", ["goes on", "is aborted", "times out"])
@on_virtual_time
async def test_a_seat_is_counted_for_one_job_even_after_that_job_ended(how: str) -> None:
    async with cluster_with_scheduler(nodes=3) as it, running_controller(it.api, it.clock):
        made = workload("web", 2, pods=template("500m", app="web", **SLOW), podManagementPolicy="Parallel")
        await it.create(kinds.STATEFUL_SET, made)
        await pass_time(10)
        second, first = await it.pods()
        await cordon(it, first.spec.node_name, second.spec.node_name)
        await give(it, owners=[{"labelSelector": {"matchLabels": {"app": "web"}}}])
        await it.move(first, "a", reservationOptions=GIVEN, ttl="20s" if how == "times out" else "10m")
        await pass_time(5)
        if how == "is aborted":
            await it.set_status("a", phase="Aborted")
        await pass_time(20)
        await it.move(second, "b", reservationOptions=GIVEN)
        await pass_time(10)
        phase, reason, message = await it.told("b")
        assert (phase, reason) == ("Running", "Waiting") and "and for jobs before it: a" in (message or ""), message
        assert await pod_stays(it, second) and not await pod_stays(it, first)


@pytest.mark.parametrize("first", ["given", "other"])
@on_virtual_time
async def test_no_pod_is_evicted_if_another_reservation_comes_first(first: str) -> None:
    async with cluster_with_scheduler(nodes=4) as it, running_controller(it.api, it.clock):
        [old] = await it.start(1)
        await cordon(it, old.spec.node_name)
        for name in sorted(("given", "other"), key=lambda name: name != first):
            task = {"name": "web", "template": template("3", app="web")}
            spec = {"schedulerName": "default-scheduler", "matchPolicy": "Fits", "owners": [WEB], "tasks": [task]}
            await it.create(kinds.RESERVATION, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
            await pass_time(3)
        await it.move(old, reservationOptions=GIVEN)
        await pass_time(60)
        phase, _, message = await it.told()
        assert phase == ("Succeed" if first == "given" else "Failed"), message
        assert await pod_stays(it, old) is (first == "other")


@on_virtual_time
async def test_only_a_pod_of_the_same_workload_is_the_successor() -> None:
    async with cluster_with_scheduler(nodes=3) as it, running_controller(it.api, it.clock):
        await it.create(kinds.STATEFUL_SET, workload("web", 1, pods=template("500m", app="web", **SLOW)))
        await it.create(kinds.DEPLOYMENT, workload("db", 0, pods=template("500m", app="db")))
        await pass_time(5)
        [old] = await it.pods()
        await cordon(it, old.spec.node_name)
        both = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}
        await give(it, seats=2, owners=[{"labelSelector": both}])
        await it.move(old, reservationOptions=GIVEN)
        await pass_time(5)
        await it.patch(kinds.DEPLOYMENT, "db", {"spec": {"replicas": 1}})
        await pass_time(150)
        pod_ref = (await it.job()).status.pod_ref
        assert (await it.told())[0] == "Succeed" and pod_ref is not None and pod_ref.name == "web-0"


@on_virtual_time
async def test_a_pod_created_before_the_eviction_is_no_successor() -> None:
    """It is held up while its workload grows, and the new pod takes one of two seats."""
    async with cluster_with_scheduler(nodes=3) as it, running_controller(it.api, it.clock):
        [old] = await it.start(1)
        await cordon(it, old.spec.node_name)
        await give(it, seats=2)
        await admit(it, old, ttl="1h")
        await pass_time(60)
        await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"replicas": 2}})
        await pass_time(30)
        there = {one.metadata.uid for one in await it.pods()}
        await it.go()
        await pass_time(30)
        pod_ref = (await it.job()).status.pod_ref
        assert pod_ref is not None and pod_ref.uid not in there


@on_virtual_time
async def test_a_seat_may_be_for_the_labels_of_a_gang() -> None:
    async with cluster_with_scheduler(nodes=4) as it, running_controller(it.api, it.clock):
        made = pod_group("g", 2)
        made["metadata"]["labels"] = {"team": "a"}
        await it.create(kinds.POD_GROUP, made)
        pods = template("500m", app="web", annotations={"scheduling.k8s.io/group-name": "g"})
        await it.create(kinds.DEPLOYMENT, workload("web", 2, pods=pods))
        await pass_time(10)
        old = (await it.pods())[0]
        await cordon(it, old.spec.node_name)
        await give(it, owners=[{"labelSelector": {"matchLabels": {"team": "a"}}}])
        await it.move(old, reservationOptions=GIVEN)
        await pass_time(60)
        assert (await it.told())[0] == "Succeed", await it.told()


@on_virtual_time
async def test_a_pod_that_was_never_evicted_may_be_moved_again() -> None:
    """Its first job ended, with an eviction that may have been on its way for a while."""
    async with cluster_with_scheduler(nodes=3) as it, running_controller(it.api, it.clock):
        [old] = await it.start(1)
        await cordon(it, old.spec.node_name)
        await give(it)
        await admit(it, old, "a", ttl="5s")
        gone = {"type": "Eviction", "status": "False", "reason": "Evicting"}
        await it.set_status("a", conditions=[*msgspec.to_builtins((await it.job("a")).status.conditions or []), gone])
        await pass_time(200)
        assert (await it.told("a"))[0] == "Failed"
        await it.go()
        await it.move(old, "b", reservationOptions=GIVEN)
        await pass_time(60)
        assert (await it.told("b"))[0] == "Succeed", await it.told("b")


@on_virtual_time
async def test_a_successor_is_recognised_though_another_client_deleted_the_pod() -> None:
    """And though we hear of that only when the successor is there."""
    async with cluster_with_scheduler(nodes=3) as it:
        [old] = await it.start(1, terminationGracePeriodSeconds=60, annotations={"sim.restow.sh/stop-seconds": "40"})
        await cordon(it, old.spec.node_name)
        await give(it)
        async with running_controller(it.api, it.clock):
            await admit(it, old, ttl="10m")
            await pass_time(5)
        await it.delete(kinds.POD, old.metadata.name)
        await pass_time(5)
        async with running_controller(it.api, it.clock):
            await pass_time(90)
            assert (await it.told())[0] == "Succeed", await it.told()
