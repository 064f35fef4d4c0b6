"""Pods of one node that share a volume which only one node may use: none of them leaves the others."""

from __future__ import annotations

from restow.model import kinds
from tests.control.migrations.migration_cluster import cluster_with_scheduler, pod_stays, running_controller
from tests.sim.simulated_cluster import new_claim, on_virtual_time, pass_time, storage_class

SHARED = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


@on_virtual_time
async def test_no_pod_is_evicted_whose_volume_another_pod_on_its_node_uses() -> None:
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock):
        await it.create(kinds.STORAGE_CLASS, storage_class("fast", "Immediate"))
        await it.create(kinds.PERSISTENT_VOLUME_CLAIM, new_claim("data"))
        for name in ("n2", "n3"):
            await it.patch(kinds.NODE, name, {"spec": {"unschedulable": True}})
        one, other = await it.start(2, volumes=SHARED)
        for name in ("n2", "n3"):
            await it.patch(kinds.NODE, name, {"spec": {"unschedulable": None}})
        await it.move(one, "first")
        await pass_time(30)
        phase, reason, message = await it.told("first")
        assert (phase, reason) == ("Failed", "ForbiddenMigratePod")
        assert f"cannot be moved: pod {other.metadata.name} on its node uses data as well" in (message or "")
        assert await pod_stays(it, one)
        await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"replicas": 1}})
        await pass_time(20)
        [left] = await it.pods()
        await it.move(left, "alone")
        await pass_time(60)
        assert (await it.told("alone"))[0] == "Succeed"
