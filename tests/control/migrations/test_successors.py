"""A successor need not be like the pod: no pod is evicted for a seat that its successor could not take, and no other
pod passes for the successor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from restow.model import kinds
from restow.model.objects import Document, Pod
from tests.control.migrations.migration_cluster import (
    MigrationCluster,
    cluster_with_scheduler,
    migration_arguments,
    pod_stays,
    running_controller,
)
from tests.control.migrations.test_given_seats import GIVEN, give
from tests.control.reservations.test_undecided_edits import Slow
from tests.sim.simulated_cluster import is_pod_ready, node, on_virtual_time, pass_time, pod, template, workload

ON_DELETE = {"type": "OnDelete"}
HELD_BACK = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}


def near(disk: str) -> Document:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": [disk]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


async def one_of_a_set(it: MigrationCluster, before: Document, after: Document, strategy: Document) -> Pod:
    """The only pod of a StatefulSet that says something else since."""
    made = workload("db", 1, pods=template("500m", app="db", **before), updateStrategy=strategy)
    await it.create(kinds.STATEFUL_SET, made)
    await pass_time(5)
    [old] = await it.pods()
    await it.patch(kinds.STATEFUL_SET, "db", {"spec": {"template": {"spec": after}}})
    await pass_time(5)
    assert await pod_stays(it, old)
    return old


# --- what it is made from ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({"nodeSelector": {"disk": "slow"}}, {"nodeSelector": {"disk": "fast"}}, id="a selector"),
        pytest.param({}, {"tolerations": [{"key": "k", "operator": "Exists"}]}, id="a toleration"),
        pytest.param({"affinity": near("slow")}, {"affinity": near("fast")}, id="affinity"),
    ],
)
@on_virtual_time
async def test_below_a_partition_pods_are_recreated_from_the_old_revision(before: Document, after: Document) -> None:
    async with cluster_with_scheduler(nodes=3) as it, running_controller(it.api, it.clock):
        for name, disk in (("n1", "slow"), ("n2", "slow"), ("n3", "fast")):
            await it.patch(kinds.NODE, name, {"metadata": {"labels": {"disk": disk}}})
        await it.patch(kinds.NODE, "n3", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})
        old = await one_of_a_set(it, before, after, HELD_BACK)
        await it.move(old)
        await pass_time(60)
        [new] = await it.pods()
        assert (await it.told())[0] == "Succeed" and is_pod_ready(new)
        assert new.spec.node_name in {"n1", "n2"} - {old.spec.node_name}


@pytest.mark.parametrize(
    ("after", "why"),
    [
        pytest.param({"schedulerName": "other"}, "would have schedulerName other", id="another scheduler's"),
        pytest.param(
            {"schedulingGates": [{"name": "example.com/wait"}]},
            "would wait for scheduling gates (example.com/wait)",
            id="gated",
        ),
    ],
)
@on_virtual_time
async def test_a_pod_whose_successor_would_not_be_scheduled_stays(after: Document, why: str) -> None:
    async with cluster_with_scheduler(nodes=3) as it, running_controller(it.api, it.clock):
        old = await one_of_a_set(it, {}, after, ON_DELETE)
        await it.move(old)
        await pass_time(60)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Failed", "ForbiddenMigratePod") and why in (message or "")
        assert await pod_stays(it, old)


@on_virtual_time
async def test_a_pod_whose_scheduler_a_webhook_changed_moves() -> None:
    """Its template names another scheduler, as it did at the creation: the webhook that changed it will do so again."""
    async with cluster_with_scheduler(nodes=3) as it, running_controller(it.api, it.clock):
        made = workload("web", 1, pods=template("500m", app="web"))
        await it.create(kinds.DEPLOYMENT, made)
        await pass_time(5)
        [old] = await it.pods()
        [owner] = old.metadata.owner_references or []
        await it.patch(kinds.REPLICA_SET, owner.name, {"spec": {"template": {"spec": {"schedulerName": "other"}}}})
        await it.move(old)
        for _ in range(100):
            await asyncio.sleep(0.1)
            if not await pod_stays(it, old):
                return
        raise AssertionError(await it.told())


@on_virtual_time
async def test_a_seat_has_room_for_a_new_sidecar_container() -> None:
    """Where the pod may go there is room for what it was, and not for what it becomes."""
    first = {"name": "init", "image": "i", "resources": {"requests": {"cpu": "400m"}}}
    async with cluster_with_scheduler(nodes=2) as it, running_controller(it.api, it.clock):
        after = {"initContainers": [first | {"restartPolicy": "Always"}]}
        old = await one_of_a_set(it, {"initContainers": [first]}, after, ON_DELETE)
        other = "n2" if old.spec.node_name == "n1" else "n1"
        await it.create(kinds.POD, pod("filler", "3400m", app="other", nodeName=other))
        await pass_time(3)
        await it.move(old)
        await pass_time(60)
        assert await pod_stays(it, old)
        assert "Insufficient cpu" in ((await it.told())[2] or "")


# --- owners of the seat -----------------------------------------------------------------------------------------------


@asynccontextmanager
async def leaving(it: MigrationCluster, one: Pod) -> AsyncIterator[None]:
    """Until the pod is on its way."""
    async with running_controller(it.api, it.clock):
        await it.move(one)
        while await pod_stays(it, one):
            await asyncio.sleep(0.02)
        yield


SLOWLY: dict[str, Any] = {"terminationGracePeriodSeconds": 60, "annotations": {"sim.restow.sh/stop-seconds": "20"}}


@on_virtual_time
async def test_another_pod_of_the_stateful_set_does_not_take_the_seat() -> None:
    async with cluster_with_scheduler(nodes=2) as it:
        pods = template("3", app="db", **SLOWLY)
        await it.create(kinds.STATEFUL_SET, workload("db", 2, pods=pods, podManagementPolicy="Parallel"))
        await pass_time(10)
        first, second = await it.pods()
        await it.create(kinds.NODE, node("n3"))
        for name in ("n1", "n2"):
            await it.patch(kinds.NODE, name, {"spec": {"unschedulable": True}})
        async with leaving(it, second):
            await it.delete(kinds.POD, first.metadata.name, grace_seconds=0)
            await pass_time(60)
            assert (await it.told())[0] == "Succeed"
            where = {one.metadata.name: one.spec.node_name for one in await it.pods()}
            assert where == {"db-0": None, "db-1": "n3"}


@on_virtual_time
async def test_a_pod_of_another_set_of_the_same_custom_resource_does_not_take_the_seat() -> None:
    """Two sets of one custom resource: the pod of the other one is made anew while ours leaves."""
    above = {"apiVersion": "example.org/v1", "kind": "Cluster", "name": "c", "uid": "c" * 8, "controller": True}
    async with cluster_with_scheduler(nodes=2) as it:
        for name in ("queue", "index"):
            made = workload(name, 1, pods=template("3", app=name, **SLOWLY))
            made["metadata"]["ownerReferences"] = [above]
            await it.create(kinds.STATEFUL_SET, made)
        await pass_time(10)
        other, ours = await it.pods()
        await it.create(kinds.NODE, node("n3"))
        for name in ("n1", "n2"):
            await it.patch(kinds.NODE, name, {"spec": {"unschedulable": True}})
        async with leaving(it, ours):
            await it.delete(kinds.POD, other.metadata.name, grace_seconds=0)
            await pass_time(60)
            assert (await it.told())[0] == "Succeed"
            where = {one.metadata.name: one.spec.node_name for one in await it.pods()}
            assert where == {"index-0": None, "queue-0": "n3"}


@pytest.mark.parametrize("label", ["by-hand", "controller-revision-hash"])
@on_virtual_time
async def test_a_given_reservation_matching_a_label_of_this_pod_alone_fails_the_job(label: str) -> None:
    async with cluster_with_scheduler(nodes=2) as it, running_controller(it.api, it.clock):
        await it.patch(kinds.NODE, "n2", {"spec": {"unschedulable": True}})
        old = await one_of_a_set(it, {}, {"terminationGracePeriodSeconds": 7}, ON_DELETE)
        await it.patch(kinds.NODE, "n2", {"spec": {"unschedulable": None}})
        await it.patch(kinds.POD, old.metadata.name, {"metadata": {"labels": {"by-hand": "yes"}}})
        text = {**(old.metadata.labels or {}), "by-hand": "yes"}[label]
        await give(it, owners=[{"labelSelector": {"matchLabels": {label: text}}}], on="n2")
        await it.move(old, reservationOptions=GIVEN)
        await pass_time(60)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Failed", "ForbiddenMigratePod"), message
        assert "do not include its successor" in (message or "") and await pod_stays(it, old)


# --- the successor ----------------------------------------------------------------------------------------------------


class Ahead:
    """A clock that is ahead of the API server's."""

    def __init__(self, clock: Any, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds

    def now(self) -> float:
        return float(self._clock.now() + self._seconds)

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


@pytest.mark.parametrize("seconds", [0.2, 0.7, 8.0, -8.0])
@on_virtual_time
async def test_a_successor_is_recognised_with_a_clock_that_is_ahead(seconds: float) -> None:
    async with cluster_with_scheduler(nodes=3) as it:
        old = (await it.start(2))[0]
        await give(it, on="n3")
        async with running_controller(it.api, Ahead(it.clock, seconds)):
            await it.move(old, reservationOptions=GIVEN)
            await pass_time(60)
            assert (await it.told())[0] == "Succeed"


@on_virtual_time
async def test_a_consumer_just_before_the_eviction_is_no_successor() -> None:
    """The Deployment grows, and the new pod takes a seat that was given to a job, a moment before that evicts."""
    async with cluster_with_scheduler(nodes=3) as it:
        old = (await it.start(1))[0]
        await give(it, seats=2, on="n3" if old.spec.node_name != "n3" else "n2")
        await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"replicas": 2}})
        await pass_time(3)
        [sibling] = [one for one in await it.pods() if one.metadata.uid != old.metadata.uid]
        async with running_controller(it.api, it.clock):
            await it.move(old, reservationOptions=GIVEN)
            await pass_time(60)
            phase, _, message = await it.told()
            assert phase == "Succeed" and sibling.metadata.name not in (message or ""), message


@on_virtual_time
async def test_a_consumer_between_an_unsent_eviction_and_the_next_is_no_successor() -> None:
    async with cluster_with_scheduler(nodes=3) as it, running_controller(it.api, it.clock) as made:
        old = (await it.start(1))[0]
        await it.stop()
        await give(it, seats=2, on="n3" if old.spec.node_name != "n3" else "n2")
        await it.move(old, reservationOptions=GIVEN)
        await pass_time(3)
        job, conflicts = await it.job(), made._conflicts
        with conflicts.recording_eviction(made._cached_facts.read(job, migration_arguments()), again=False):
            pass
        await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"replicas": 2}})
        await pass_time(3)
        [sibling] = [one for one in await it.pods() if one.metadata.uid != old.metadata.uid]
        for again, counts in ((True, False), (False, True)):
            facts = made._cached_facts.read(job, migration_arguments())
            with conflicts.recording_eviction(facts, again=again):
                assert (sibling.metadata.uid in conflicts.foreign_consumers(facts)) is counts


@pytest.mark.parametrize("kept", [False, True], ids=["gone at once", "kept by a finalizer"])
@on_virtual_time
async def test_a_job_succeeds_though_its_reservation_is_deleted_before_consumption_is_recorded(kept: bool) -> None:
    slow = Slow(0.0)
    async with cluster_with_scheduler(nodes=3, around=lambda it: slow.around(it.api)) as it:
        await it.create(kinds.STATEFUL_SET, workload("db", 1, pods=template("500m", app="db", **SLOWLY)))
        await pass_time(10)
        [old] = await it.pods()
        async with leaving(it, old):
            slow.seconds = 5.0
            [made] = await it.reservations()
            if kept:
                keep = {"metadata": {"finalizers": ["example.org/keep"]}}
                await it.patch(kinds.RESERVATION, made.metadata.name, keep)
            while not [one for one in await it.pods() if one.metadata.uid != old.metadata.uid and one.spec.node_name]:
                await asyncio.sleep(0.005)
            await it.delete(kinds.RESERVATION, made.metadata.name)
            await pass_time(60)
            assert (await it.told())[0] == "Succeed"
