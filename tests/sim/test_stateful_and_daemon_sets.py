"""StatefulSets and DaemonSets: which pods start and stop, and in which order."""

from __future__ import annotations

from restow.model import kinds
from restow.sim.world import Settings
from tests.sim.simulated_cluster import (
    is_pod_ready,
    new_claim,
    on_virtual_time,
    pass_time,
    simulated_cluster,
    storage_class,
    workload,
)
from tests.sim.status_readers import names, status


@on_virtual_time
async def test_ordered_stateful_set_starts_and_stops_pods_one_by_one() -> None:
    async with simulated_cluster(settings=Settings(start=2)) as it:
        await it.create(kinds.STATEFUL_SET, workload("db", 3, serviceName="db"))
        grown = []
        for _ in range(3):
            await pass_time(2.5)
            grown.append(len(await it.pods()))
        await pass_time(10)
        assert grown[0] < 3
        assert names(await it.pods()) == ["db-0", "db-1", "db-2"]
        await it.patch(kinds.STATEFUL_SET, "db", {"spec": {"replicas": 1}})
        await pass_time(1)
        assert [each.metadata.deletion_timestamp is not None for each in await it.pods()] == [False, False, True]
        await pass_time(10)
        assert names(await it.pods()) == ["db-0"]


@on_virtual_time
async def test_a_parallel_stateful_set_does_not_wait() -> None:
    async with simulated_cluster(settings=Settings(start=5)) as it:
        await it.create(kinds.STATEFUL_SET, workload("db", 3, serviceName="db", podManagementPolicy="Parallel"))
        await pass_time(1)
        assert len(await it.pods()) == 3


@on_virtual_time
async def test_an_evicted_stateful_pod_returns_under_its_name_with_its_claim() -> None:
    async with simulated_cluster() as it:
        await it.create(kinds.STORAGE_CLASS, storage_class("fast", "WaitForFirstConsumer"))
        await it.create(
            kinds.STATEFUL_SET, workload("db", 2, serviceName="db", volumeClaimTemplates=[new_claim("data")])
        )
        await pass_time(30)
        [before, _] = await it.pods()
        claim = await it.document(kinds.PERSISTENT_VOLUME_CLAIM, "data-db-0")
        await it.client.evict("default", "db-0", uid=before.metadata.uid)
        await pass_time(30)
        [after, _] = await it.pods()
        assert after.metadata.name == "db-0"
        assert after.metadata.uid != before.metadata.uid
        assert is_pod_ready(after)
        again = await it.document(kinds.PERSISTENT_VOLUME_CLAIM, "data-db-0")
        assert again["spec"]["volumeName"] == claim["spec"]["volumeName"]


@on_virtual_time
async def test_stateful_set_partition_holds_back_lower_ordinals() -> None:
    async with simulated_cluster() as it:
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
        await it.create(kinds.STATEFUL_SET, workload("db", 3, serviceName="db", updateStrategy=rolling))
        await pass_time(30)
        await it.patch(kinds.STATEFUL_SET, "db", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        await pass_time(30)
        await it.delete(kinds.POD, "db-0")
        await pass_time(30)
        assert [(each.metadata.labels or {}).get("v") for each in await it.pods()] == [None, None, "2"]
        opened = {"rollingUpdate": {"partition": 0}}
        await it.patch(kinds.STATEFUL_SET, "db", {"spec": {"updateStrategy": opened}})
        await pass_time(60)
        assert [(each.metadata.labels or {}).get("v") for each in await it.pods()] == ["2"] * 3
        shown = await status(it, kinds.STATEFUL_SET, "db")
        assert shown["currentRevision"] == shown["updateRevision"]


# ---- DaemonSet


@on_virtual_time
async def test_a_daemon_set_runs_on_every_node_that_fits() -> None:
    async with simulated_cluster(nodes=3) as it:
        taint = {"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}}
        await it.patch(kinds.NODE, "n3", taint)
        await it.create(kinds.DAEMON_SET, workload("agent", None))
        await pass_time(10)
        assert sorted(each.spec.node_name or "" for each in await it.pods()) == ["n1", "n2"]
        shown = await status(it, kinds.DAEMON_SET, "agent")
        assert (shown["desiredNumberScheduled"], shown["numberReady"]) == (2, 2)
        await it.patch(kinds.NODE, "n3", {"spec": {"taints": None}})
        await it.patch(kinds.NODE, "n1", {"spec": {"unschedulable": True}})
        await pass_time(10)
        assert sorted(each.spec.node_name or "" for each in await it.pods()) == ["n1", "n2", "n3"]


@on_virtual_time
async def test_daemon_set_update_replaces_one_node_at_a_time() -> None:
    async with simulated_cluster(nodes=3, settings=Settings(start=5)) as it:
        await it.create(kinds.DAEMON_SET, workload("agent", None))
        await pass_time(20)
        await it.patch(kinds.DAEMON_SET, "agent", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        fewest = 3
        for _ in range(60):
            await pass_time(1)
            fewest = min(fewest, sum(map(is_pod_ready, await it.pods())))
        assert fewest == 2
        assert [(each.metadata.labels or {}).get("v") for each in await it.pods()] == ["2"] * 3
