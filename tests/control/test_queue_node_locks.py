"""Nodes locked for a queue in a running cluster: pods of other queues stay off, and are requeued when they are free."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model import kinds
from tests.control.migrations.migration_cluster import cluster_with_scheduler, running_controller
from tests.control.scheduler_cluster import condition_of_pod, gang_member, nodes_by_pod, pod_group, scheduled_cluster
from tests.sim.simulated_cluster import SimulatedCluster, on_virtual_time, pass_time, pod, template, workload

WHY = "0/2 nodes are available: 2 node(s) were locked for queue q."


async def lock(it: SimulatedCluster, *nodes: str, queue: str = "q") -> None:
    """The queue controller's part: what a queue's status shows."""
    shown = {"reservation": {"nodes": list(nodes)}}
    await it.client.patch(kinds.QUEUE, queue, {"status": shown}, subresource="status")


def of_queue(name: str, queue: str = "q", **fields: Any) -> Any:
    return pod(name, annotations={"scheduling.volcano.sh/queue-name": queue}, **fields)


async def queues(it: SimulatedCluster, *names: str) -> None:
    for name in names:
        await it.create(kinds.QUEUE, {"metadata": {"name": name}})


@pytest.mark.parametrize("how", ["released", "deleted", "disabled for one node"])
@on_virtual_time
async def test_pod_refused_by_queue_locks_is_placed_once_a_node_is_unlocked(how: str) -> None:
    async with scheduled_cluster(nodes=2) as it:
        await queues(it, "q")
        await lock(it, "n1", "n2")
        await it.create(kinds.POD, pod("other"))
        await it.create(kinds.POD, of_queue("ours"))
        await pass_time(5)
        assert await condition_of_pod(it, "other") == ("False", "Unschedulable", WHY)
        assert (await nodes_by_pod(it))["ours"] is not None
        if how == "deleted":
            await it.delete(kinds.QUEUE, "q")
        else:
            await lock(it, *(["n1"] if how == "disabled for one node" else []))
        await pass_time(12)
        free = ["n2"] if how == "disabled for one node" else ["n1", "n2"]
        assert (await nodes_by_pod(it))["other"] in free


@on_virtual_time
async def test_lock_for_its_own_queue_requeues_a_gang() -> None:
    async with scheduled_cluster(nodes=2) as it:
        await queues(it, "q", "r")
        await lock(it, "n1", "n2", queue="r")
        await it.create(kinds.POD_GROUP, pod_group("g", 1, queue="q"))
        await it.create(kinds.POD, gang_member("m", "g"))
        await pass_time(5)
        assert await nodes_by_pod(it) == {"m": None}
        await lock(it, "n1", queue="r")
        await lock(it, "n2")
        await pass_time(12)
        assert await nodes_by_pod(it) == {"m": "n2"}


@pytest.mark.parametrize(
    ("gang", "target"),
    [
        pytest.param(None, "n3", id="pod of another queue"),
        pytest.param("g", "n2", id="pod of the queue"),
    ],
)
@on_virtual_time
async def test_migrating_pod_gets_no_seat_on_nodes_locked_for_other_queues(gang: str | None, target: str) -> None:
    async with cluster_with_scheduler(nodes=3) as it, running_controller(it.api, it.clock):
        await queues(it, "q")
        await it.create(kinds.POD_GROUP, pod_group("g", 1, queue="q"))
        marks = {"scheduling.k8s.io/group-name": gang} if gang else None
        await it.create(kinds.DEPLOYMENT, workload("web", 1, pods=template(app="web", annotations=marks)))
        await pass_time(10)
        [old] = await it.pods()
        here, there, elsewhere = old.spec.node_name or "", *sorted({"n1", "n2", "n3"} - {old.spec.node_name})
        names = {"n1": here, "n2": there, "n3": elsewhere}
        await it.create(kinds.POD, pod("filler", "1", nodeName=names["n3"]))
        await lock(it, names["n2"])
        await it.move(old)
        await pass_time(60)
        assert (await it.told())[0] == "Succeed", await it.told()
        assert [one.spec.queue for one in await it.reservations()] == ["q" if gang else "default"]
        assert [one.spec.node_name for one in await it.pods() if one.metadata.name != "filler"] == [names[target]]
