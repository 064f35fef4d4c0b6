"""Seats that were given to a job, or tampered with: no pod is evicted for a seat that its successor will not take."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model import kinds
from tests.control.migrations.migration_cluster import (
    MigrationCluster,
    cluster_with_controller,
    cluster_with_scheduler,
    cluster_with_stub_scheduler,
    pod_stays,
    running_controller,
)
from tests.sim.simulated_cluster import on_virtual_time, pass_time, pod, template

WEB = {"controller": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
HOST = "kubernetes.io/hostname"
GIVEN = {"reservationRef": {"namespace": "default", "name": "given"}}


async def give(
    it: MigrationCluster, cpu: str = "500m", seats: int = 1, name: str = "given", on: str | None = None, **spec: Any
) -> None:
    """A reservation of a user for pods of web."""
    where = {"nodeSelector": {HOST: on}} if on else {}
    task = {"name": "web", "replicas": seats, "template": template(cpu, app="web", **where)}
    made = {"schedulerName": "default-scheduler", "matchPolicy": "Fits", "owners": [WEB], "tasks": [task], **spec}
    await it.create(kinds.RESERVATION, {"metadata": {"name": name, "namespace": "default"}, "spec": made})
    await pass_time(3)


@on_virtual_time
async def test_one_given_seat_is_used_by_one_job() -> None:
    async with cluster_with_controller(nodes=4, maxConcurrentReconciles=4) as it:
        first, second, third = await it.start(3)
        await it.stop()
        taken = {one.spec.node_name for one in (first, second, third)}
        it.seats.places = min({"n1", "n2", "n3", "n4"} - taken)
        await give(it)
        for name, one in (("a", first), ("b", second), ("c", third)):
            await it.move(one, name, reservationOptions=GIVEN)
        it.seats.binding = False
        await pass_time(3)
        await it.go()
        await pass_time(3)
        assert [await pod_stays(it, one) for one in (first, second, third)].count(False) == 1
        told = str([await it.told(name) for name in "bc"])
        assert "reservation given has 1 free seat for it and for jobs before it: a" in told
        it.seats.binding = True
        await pass_time(60)
        statuses = [await it.told(name) for name in "abc"]
        assert [one[0] for one in statuses] == ["Succeed", "Failed", "Failed"], statuses
        assert "its seat is consumed by" in str(statuses)


@pytest.mark.parametrize("target", [None, "n2"], ids=["anywhere", "where it is to go"])
@on_virtual_time
async def test_no_pod_is_evicted_if_its_successor_would_return_to_its_node(target: str | None) -> None:
    """The reservation has a seat elsewhere, and one on the pod's own node that its successor would take first."""
    async with cluster_with_scheduler(nodes=2) as it, running_controller(it.api, it.clock):
        await it.patch(kinds.NODE, "n2", {"spec": {"unschedulable": True}})
        [old] = await it.start(1)
        await it.patch(kinds.NODE, "n2", {"spec": {"unschedulable": None}})
        rooms = {"a": template("500m", nodeSelector={HOST: "n1"}), "b": template("500m", nodeSelector={HOST: "n2"})}
        await give(it, tasks=[{"name": name, "replicas": 1, "template": room} for name, room in rooms.items()])
        annotations = {"restow.sh/target-node": target} if target else None
        await it.move(old, annotations=annotations, reservationOptions=GIVEN)
        await pass_time(30)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Failed", "ForbiddenMigratePod"), message
        assert "its successor may take the seat on node n1, where it already is" in (message or "")
        assert await pod_stays(it, old)


@pytest.mark.parametrize("busy", [False, True], ids=["with room beside it", "with no room beside it"])
@on_virtual_time
async def test_an_older_reservation_with_a_small_seat_comes_first(busy: bool) -> None:
    """The scheduler tries it all the same: a successor takes it if there is room beside it."""
    async with cluster_with_scheduler(nodes=3) as it, running_controller(it.api, it.clock):
        for name in ("n2", "n3"):
            await it.patch(kinds.NODE, name, {"spec": {"unschedulable": True}})
        [old] = await it.start(1)
        for name in ("n2", "n3"):
            await it.patch(kinds.NODE, name, {"spec": {"unschedulable": None}})
        await give(it, "100m", name="older", on="n3")
        await give(it, on="n2")
        if busy:
            await it.create(kinds.POD, pod("large", "3600m", nodeSelector={HOST: "n3"}, app="other"))
            await pass_time(3)
        await it.move(old, annotations={"restow.sh/target-node": "n2"}, reservationOptions=GIVEN)
        await pass_time(60)
        phase, reason, message = await it.told()
        if busy:
            assert (phase, await pod_stays(it, old)) == ("Succeed", False), message
        else:
            assert (phase, reason) == ("Failed", "ForbiddenMigratePod"), message
            assert "reservation older is for the same pods and comes before given" in (message or "")
            assert await pod_stays(it, old)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        pytest.param({"cpu": "100m"}, "insufficient cpu (requested 500m, available 100m)", id="a small seat"),
        pytest.param(
            {"matchPolicy": "Template", "cpu": "600m"}, "differs from task web in containers", id="of another template"
        ),
    ],
)
@on_virtual_time
async def test_a_given_seat_that_does_not_suit_the_successor_fails_the_job(spec: Any, why: str) -> None:
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock):
        old = (await it.start(2))[0]
        await give(it, **spec)
        await it.move(old, reservationOptions=GIVEN)
        await pass_time(20)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Failed", "ForbiddenMigratePod") and why in (message or ""), message
        assert await pod_stays(it, old)


ALONE = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "loud"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}
PORT = [{"name": "main", "image": "web", "ports": [{"containerPort": 80, "hostPort": 80}]}]


@pytest.mark.parametrize(
    ("web", "other", "why"),
    [
        pytest.param({"containers": PORT}, {"containers": PORT}, "didn't have free ports", id="a host port"),
        pytest.param({"affinity": ALONE}, {}, "didn't match pod anti-affinity rules", id="company"),
    ],
)
@on_virtual_time
async def test_a_given_seat_on_a_node_that_rejects_the_successor_is_waited_for(web: Any, other: Any, why: str) -> None:
    """The reservation asks for room alone, and a pod is there that its pods must not meet."""
    async with cluster_with_scheduler(nodes=3) as it, running_controller(it.api, it.clock):
        old, another = await it.start(2, **web)
        free = min({"n1", "n2", "n3"} - {old.spec.node_name, another.spec.node_name})
        await it.create(kinds.POD, pod("loud", "100m", app="loud", nodeName=free, **other))
        room = template("500m", nodeSelector={HOST: free})
        await give(it, tasks=[{"name": "web", "replicas": 1, "template": room}])
        await it.move(old, reservationOptions=GIVEN)
        await pass_time(60)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Running", "Waiting"), message
        assert f"node {free} does not fit its successor" in (message or "") and why in (message or ""), message
        assert await pod_stays(it, old)
        await it.delete(kinds.POD, "loud", "default")
        await pass_time(60)
        assert (await it.told())[0] == "Succeed", await it.told()


@on_virtual_time
async def test_a_given_seat_with_the_same_template_is_used() -> None:
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock):
        old = (await it.start(2))[0]
        await give(it, matchPolicy="Template")
        await it.move(old, reservationOptions=GIVEN)
        await pass_time(60)
        assert (await it.told())[0] == "Succeed", await it.told()


@on_virtual_time
async def test_the_seat_of_another_move_is_not_used() -> None:
    async with cluster_with_controller() as it:
        first, second = await it.start(2)
        it.seats.refusing = "no room"
        await it.move(first, "a")
        await pass_time(3)
        await it.stop()
        it.seats.refusing = None
        [made] = await it.reservations()
        await it.move(second, "b", reservationOptions={"reservationRef": {"name": made.metadata.name}})
        await pass_time(3)
        await it.go()
        await pass_time(30)
        assert (await it.told("a"))[0] == "Succeed"
        phase, reason, message = await it.told("b")
        assert (phase, reason) == ("Failed", "ForbiddenMigratePod"), message
        assert await pod_stays(it, second)


@on_virtual_time
async def test_a_late_successor_is_recognised_by_the_given_seat() -> None:
    """The old pod was long gone when its successor was bound."""
    async with cluster_with_controller() as it:
        old = (await it.start())[0]
        it.seats.places = min({"n1", "n2", "n3"} - {old.spec.node_name})
        await give(it)
        it.seats.binding = False
        await it.move(old, reservationOptions=GIVEN)
        await pass_time(60)
        it.seats.binding = True
        await pass_time(30)
        assert (await it.told())[0] == "Succeed", await it.told()


@on_virtual_time
async def test_a_consumed_reservation_that_was_collected_is_not_missed() -> None:
    """Collected before the controller looked: the pod itself says which seat it consumed."""
    async with cluster_with_stub_scheduler() as it:
        async with running_controller(it.api, it.clock):
            await it.leave()
        it.seats.binding = True
        await pass_time(10)
        [used] = await it.reservations()
        assert used.status.state.phase == "Succeeded"
        await it.delete(kinds.RESERVATION, used.metadata.name)
        async with running_controller(it.api, it.clock):
            await pass_time(10)
            assert (await it.told())[0] == "Succeed", await it.told()


@on_virtual_time
async def test_a_job_redirected_to_a_given_seat_leaves_no_reservation_behind() -> None:
    async with cluster_with_controller() as it:
        old = (await it.start())[0]
        it.seats.refusing = "no room"
        await give(it)
        await it.move(old)
        await pass_time(3)
        assert len(await it.reservations()) == 2
        await it.patch(kinds.POD_MIGRATION_JOB, "move", {"spec": {"reservationOptions": GIVEN}})
        await pass_time(100)
        assert [one.metadata.name for one in await it.reservations()] == ["given"]
        assert await pod_stays(it, old)
