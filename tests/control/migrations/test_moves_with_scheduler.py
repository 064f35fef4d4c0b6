"""The migration controller and the scheduler together: they meet only through the API."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model import kinds
from restow.model.objects import Document
from restow.model.reservations.spec import expires_at
from restow.model.times import format_time
from tests.control.migrations.migration_cluster import cluster_with_scheduler, running_controller
from tests.control.scheduler_cluster import assert_nothing_overcommitted
from tests.control.volume_objects import STORAGE_CLASS
from tests.sim.simulated_cluster import is_pod_ready, job, node, on_virtual_time, pass_time, pod, template, workload


@pytest.mark.parametrize("kind", [kinds.DEPLOYMENT, kinds.REPLICA_SET, kinds.STATEFUL_SET], ids=lambda kind: kind.kind)
@on_virtual_time
async def test_a_pod_moves_into_its_seat(kind: Any) -> None:
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock):
        old = (await it.start(2, kind))[0]
        await it.move(old)
        await pass_time(60)
        assert (await it.told())[0] == "Succeed", await it.told()
        job = await it.job()
        assert job.status.pod_ref is not None
        new = await it.client.get(kinds.POD, job.status.pod_ref.name or "", "default")
        assert new.metadata.uid != old.metadata.uid and new.spec.node_name != old.spec.node_name
        notes = new.metadata.annotations or {}
        assert notes["restow.sh/moved-from"] == old.spec.node_name
        [made] = await it.reservations()
        assert notes["restow.sh/reservation"] == f"default/{made.metadata.name}/pod/0"
        assert made.status.state.phase == "Succeeded"
        assert all(map(is_pod_ready, await it.pods()))
        await assert_nothing_overcommitted(it)


WHY = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) excluded by name."


@on_virtual_time
async def test_a_job_without_a_seat_names_its_target_node() -> None:
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock):
        [old] = await it.start(1)
        target = next(name for name in ("n1", "n2") if name != old.spec.node_name)
        await it.create(kinds.POD, pod("filler", "3800m", nodeName=target))
        await it.move(old, annotations={"restow.sh/target-node": target})
        await pass_time(10)
        why = "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) other than the one asked for by name."
        assert await it.told() == ("Running", "Unschedulable", f"no seat on its target node {target}: {why}")


@on_virtual_time
async def test_a_job_waits_for_a_target_node_that_does_not_exist_yet() -> None:
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock):
        [old] = await it.start(1)
        await it.move(old, annotations={"restow.sh/target-node": "late"})
        await pass_time(60)
        why = "0/3 nodes are available: 3 node(s) other than the one asked for by name."
        assert await it.told() == ("Running", "Unschedulable", f"no seat on its target node late: {why}")
        await it.create(kinds.NODE, node("late"))
        await pass_time(60)
        assert ((await it.told())[0], (await it.job()).status.node_name) == ("Succeed", "late")


@on_virtual_time
async def test_a_pod_that_fits_no_other_node_stays_until_it_does() -> None:
    async with cluster_with_scheduler(nodes=2) as it, running_controller(it.api, it.clock):
        [old] = await it.start(1)
        other = "n2" if old.spec.node_name == "n1" else "n1"
        await it.create(kinds.POD, pod("filler", "3800m", nodeName=other))
        await it.move(old)
        await pass_time(60)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Running", "Unschedulable")
        assert message == f"no seat outside its own node {old.spec.node_name}: {WHY}"
        await it.delete(kinds.POD, "filler")
        await pass_time(60)
        assert (await it.told())[0] == "Succeed"
        await assert_nothing_overcommitted(it)


@on_virtual_time
async def test_a_pod_with_a_volume_keeps_it_at_its_new_node() -> None:
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock):
        await it.create(kinds.STORAGE_CLASS, STORAGE_CLASS)
        claim = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "1Gi"}},
        }
        claims = [{"metadata": {"name": "data"}, "spec": claim}]
        await it.create(kinds.STATEFUL_SET, workload("web", 2, pods=template(app="web"), volumeClaimTemplates=claims))
        await pass_time(20)
        old = (await it.pods())[0]
        await it.move(old)
        await pass_time(60)
        assert (await it.told())[0] == "Succeed", await it.told()


ZONE = "topology.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("near", "far", "phase"), [(["n1", "n2"], ["n3"], "Succeed"), (["n1"], ["n2", "n3"], "Failed")]
)
@on_virtual_time
async def test_a_pod_stays_in_the_zone_of_its_volume(near: list[str], far: list[str], phase: str) -> None:
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock, defaultJobTTL="60s"):
        for zone, names in (("a", near), ("b", far)):
            for name in names:
                await it.patch(kinds.NODE, name, {"metadata": {"labels": {ZONE: zone}}})
        for document in zonal_disk("a"):
            await it.create(*document)
        disk = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
        [old] = await it.start(1, volumes=disk)
        assert old.spec.node_name in near
        await it.move(old)
        await pass_time(90)
        told = await it.told()
        assert told[0] == phase, told
        [now] = await it.pods()
        assert now.spec.node_name in near and (now.metadata.uid == old.metadata.uid) is (phase == "Failed")
        if phase == "Failed":
            assert "didn't match PersistentVolume's node affinity" in (told[2] or "")
        assert [one for one in await it.reservations() if one.status.state.phase not in ("Succeeded", "Failed")] == []


def zonal_disk(zone: str) -> list[tuple[Any, Document]]:
    """A volume of one zone, and the claim that has it."""
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    size = {"storage": "1Gi"}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    volume = {
        "capacity": size,
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        "claimRef": {"namespace": "default", "name": "data"},
        "csi": {"driver": "sim/disk", "volumeHandle": "disk"},
    }
    claim = {"volumeName": "disk", "resources": {"requests": size}}
    return [
        (kinds.PERSISTENT_VOLUME, {"metadata": {"name": "disk"}, "spec": {**spec, **volume}}),
        (
            kinds.PERSISTENT_VOLUME_CLAIM,
            {"metadata": {"name": "data", "namespace": "default"}, "spec": {**spec, **claim}},
        ),
    ]


@on_virtual_time
async def test_a_pod_with_a_read_write_once_pod_volume_stays() -> None:
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock):
        await it.create(kinds.STORAGE_CLASS, STORAGE_CLASS)
        claim = {
            "accessModes": ["ReadWriteOncePod"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "1Gi"}},
        }
        claims = [{"metadata": {"name": "data"}, "spec": claim}]
        await it.create(kinds.STATEFUL_SET, workload("web", 1, pods=template(app="web"), volumeClaimTemplates=claims))
        await pass_time(20)
        await it.move((await it.pods())[0])
        await pass_time(10)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Failed", "ForbiddenMigratePod") and "ReadWriteOncePod" in (message or "")


@on_virtual_time
async def test_a_pod_of_a_batch_job_is_recreated_in_its_seat() -> None:
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock):
        await it.create(kinds.JOB, job("etl", run=500))
        await pass_time(10)
        old = (await it.pods())[0]
        await it.move(old)
        await pass_time(60)
        assert (await it.told())[0] == "Succeed", await it.told()


@pytest.mark.parametrize("ends", ["ttl", "expires", "ttl expires"])
@on_virtual_time
async def test_a_seat_that_would_expire_too_early_is_extended(ends: str) -> None:
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock):
        old = (await it.start())[0]
        soon = {"ttl": "30s", "expires": format_time(it.clock.now() + 30)}
        await it.move(old, reservationOptions={"template": {"spec": {end: soon[end] for end in ends.split()}}})
        await pass_time(60)
        assert (await it.told())[0] == "Succeed", await it.told()
        [seat] = await it.reservations()
        assert (expires_at(seat) or 0.0) > it.clock.now() + 60


@on_virtual_time
async def test_the_migrating_pod_does_not_count_for_its_own_topology_spread() -> None:
    """The pod that moves is ignored for its own spread: two pods, one per node, and a third node to go to."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    async with cluster_with_scheduler(nodes=3) as it, running_controller(it.api, it.clock):
        old = (await it.start(2, topologySpreadConstraints=[spread]))[0]
        await it.move(old)
        await pass_time(60)
        assert (await it.told())[0] == "Succeed", await it.told()
        assert len({one.spec.node_name for one in await it.pods()}) == 2


@on_virtual_time
async def test_a_rolling_update_after_the_successor_was_ready_changes_nothing() -> None:
    async with cluster_with_scheduler(stop=10.0) as it, running_controller(it.api, it.clock):
        old = (await it.start(2))[0]
        await it.move(old)
        await pass_time(3)
        await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"template": template("400m", app="web")}})
        await pass_time(90)
        assert (await it.told())[0] == "Succeed", await it.told()
        assert all(map(is_pod_ready, await it.pods()))
        live = [one for one in await it.reservations() if one.status.state.phase not in ("Succeeded", "Failed")]
        assert live == []


@on_virtual_time
async def test_two_jobs_sharing_a_reservation_have_a_successor_each() -> None:
    async with cluster_with_scheduler(nodes=4) as it, running_controller(it.api, it.clock):
        pods = await it.start(2)
        task = {"name": "pod", "replicas": 2, "template": template("500m", app="web")}
        spec = {"tasks": [task], "owners": [{"labelSelector": {"matchLabels": {"app": "web"}}}], "matchPolicy": "Fits"}
        await it.create(kinds.RESERVATION, {"metadata": {"name": "spare", "namespace": "default"}, "spec": spec})
        await pass_time(5)
        for old in pods:
            await it.move(old, old.metadata.name, reservationOptions={"reservationRef": {"name": "spare"}})
        await pass_time(60)
        ended = [(await it.job(old.metadata.name)).status for old in pods]
        assert [one.phase for one in ended] == ["Succeed", "Succeed"], ended
        assert len({one.pod_ref.uid for one in ended if one.pod_ref}) == 2
