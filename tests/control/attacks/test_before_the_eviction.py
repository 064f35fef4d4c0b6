"""What makes a seat useless to the pod's successor keeps the pod where it is, however late it comes."""

from __future__ import annotations

from contextlib import AsyncExitStack
from random import Random
from typing import Any

import numpy as np
import pytest

from restow.control.migrations import MigrationConfiguration, MigrationController
from restow.model import kinds
from restow.model.cluster import Mask, Which
from restow.model.objects import Document, Pod, Reservation
from restow.ports import STRATEGIC_PATCH
from restow.scheduling.framework import Cycle, FilterPlugin, Refusal
from tests.control.attacks.stopped_move import held_up, node_of
from tests.control.migrations.migration_cluster import (
    SYSTEM,
    MigrationCluster,
    cluster_with_scheduler,
    migration_arguments,
    pod_stays,
    running_controller,
)
from tests.control.scheduler_cluster import pod_group, unscheduled_cluster
from tests.sim.simulated_cluster import (
    default_profile,
    job,
    on_virtual_time,
    pass_time,
    pod,
    running_component,
    running_scheduler,
    template,
    workload,
)

HOST = "kubernetes.io/hostname"
FOREIGN: dict[str, Any] = {"schedulerName": "other"}


def apart_from(app: str) -> Document:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


TERM = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"kind": "web"}}}


def serving(port: int) -> list[Document]:
    ports = [{"containerPort": port, "hostPort": port}]
    return [{"name": "main", "image": "app:1", "ports": ports, "resources": {"requests": {"cpu": "500m"}}}]


@pytest.mark.parametrize(
    ("mine", "theirs", "why"),
    [
        pytest.param(
            {"containers": serving(80)}, {"containers": serving(80)}, "free ports", id="a pod with its host port"
        ),
        pytest.param({"affinity": apart_from("noisy")}, {}, "anti-affinity", id="a pod that it must not be near"),
        pytest.param({}, {"affinity": apart_from("web")}, "anti-affinity", id="a pod that must not be near it"),
    ],
)
@on_virtual_time
async def test_a_foreign_pod_on_the_node_of_the_seat_holds_the_eviction_back(
    mine: Document, theirs: Document, why: str
) -> None:
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock):
        [old] = await it.start(1, **mine)
        async with held_up(it, old) as seat:
            thief = pod("thief", "100m", app="noisy", nodeName=node_of(seat), **FOREIGN, **theirs)
            await it.create(kinds.POD, thief)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Running", "Waiting") and why in (message or ""), message
        assert await pod_stays(it, old)
        await it.delete(kinds.POD, "thief", grace_seconds=0)
        await pass_time(30)
        assert (await it.told())[0] == "Succeed"


@on_virtual_time
async def test_a_relabelled_pod_with_anti_affinity_holds_the_eviction_back() -> None:
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock):
        [old] = await it.start(1, affinity=apart_from("noisy"))
        for name in ("n1", "n2", "n3"):
            await it.create(kinds.POD, pod(f"quiet-{name}", "100m", app="quiet", nodeName=name))
        async with held_up(it, old) as seat:
            await it.patch(kinds.POD, f"quiet-{node_of(seat)}", {"metadata": {"labels": {"app": "noisy"}}})
        assert (await it.told())[:2] == ("Running", "Waiting") and await pod_stays(it, old)


@on_virtual_time
async def test_a_pod_that_asks_for_a_reservation_by_name_is_not_moved_to_another_seat() -> None:
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock):
        await reserve(it, "first")
        made = template("500m", app="web", annotations={"restow.sh/use-reservation": "first"})
        await it.create(kinds.DEPLOYMENT, workload("web", 1, pods=made))
        await pass_time(10)
        [old] = await it.pods()
        await it.move(old)
        await pass_time(60)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Failed", "ForbiddenMigratePod") and "reservation first by name" in (message or "")
        assert await pod_stays(it, old)


@on_virtual_time
async def test_a_recreated_reservation_of_the_same_name_is_not_used() -> None:
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock):
        old = (await it.start(2))[0]
        given = await reserve(it, "spare")
        reference = {"name": "spare", "uid": given.metadata.uid}
        await it.delete(kinds.RESERVATION, "spare")
        await reserve(it, "spare")
        await it.move(old, reservationOptions={"reservationRef": reference})
        await pass_time(30)
        assert (await it.told())[:2] == ("Failed", "MissingReservation") and await pod_stays(it, old)
        assert [one.status.state.phase for one in await it.reservations()] == ["Available"]


async def reserve(it: MigrationCluster, name: str, cpu: str = "500m", **spec: Any) -> Reservation:
    """A seat for pods of web."""
    task = {"name": "web", "replicas": 1, "template": template(cpu, app="web")}
    owners = [{"labelSelector": {"matchLabels": {"app": "web"}}}]
    spec = {"matchPolicy": "Fits", "owners": owners, "tasks": [task], **spec}
    made: Reservation = await it.create(
        kinds.RESERVATION, {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
    )
    await pass_time(5)
    return made


async def resized(it: MigrationCluster) -> Pod:
    """A pod that was resized to less while it runs; its successor requests as much as before."""
    [old] = await it.start(1)
    less = [{"name": "main", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]
    changes: Any = {"spec": {"containers": less}}
    await it.client.patch(kinds.POD, old.metadata.name, changes, "default", subresource="resize", type=STRATEGIC_PATCH)
    return old


async def outdated(it: MigrationCluster) -> Pod:
    """A pod of an earlier revision, which its set makes anew only once it is gone."""
    made = workload("web", 1, pods=template("100m", app="web"), updateStrategy={"type": "OnDelete"})
    await it.create(kinds.STATEFUL_SET, made)
    await pass_time(5)
    await it.patch(kinds.STATEFUL_SET, "web", {"spec": {"template": template("500m", app="web")}})
    return (await it.pods())[0]


@pytest.mark.parametrize("pod_that_shrank", [resized, outdated], ids=lambda one: one.__name__)
@on_virtual_time
async def test_a_seat_is_large_enough_for_the_recreated_pod(pod_that_shrank: Any) -> None:
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock):
        old = await pod_that_shrank(it)
        await fill_node(it, old)
        await it.move(old)
        await pass_time(60)
        assert (await it.told())[:2] == ("Running", "Unschedulable") and await pod_stays(it, old)


async def fill_node(it: MigrationCluster, old: Pod) -> None:
    """Elsewhere there is just room for a pod of the old size."""
    for name in {"n1", "n2", "n3"} - {old.spec.node_name}:
        await it.create(kinds.POD, pod(f"filler-{name}", "3800m", app="other", nodeName=name))


@pytest.mark.parametrize("policy", ["Fits", "Template"])
@pytest.mark.parametrize("pod_that_shrank", [resized, outdated], ids=lambda one: one.__name__)
@on_virtual_time
async def test_a_given_seat_must_suit_the_recreated_pod(pod_that_shrank: Any, policy: str) -> None:
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock):
        old = await pod_that_shrank(it)
        await fill_node(it, old)
        await it.patch(kinds.NODE, old.spec.node_name or "", {"spec": {"unschedulable": True}})
        await reserve(it, "spare", "100m", matchPolicy=policy)
        await it.move(old, reservationOptions={"reservationRef": {"name": "spare"}})
        await pass_time(60)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Failed", "ForbiddenMigratePod") and await pod_stays(it, old), message
        assert ("too small" if policy == "Fits" else "differs") in (message or "")


@on_virtual_time
async def test_a_template_that_grows_while_the_seat_is_kept_holds_the_eviction_back() -> None:
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock):
        made = workload("web", 1, pods=template("100m", app="web"), updateStrategy={"type": "OnDelete"})
        await it.create(kinds.STATEFUL_SET, made)
        await pass_time(5)
        [old] = await it.pods()
        await fill_node(it, old)
        async with held_up(it, old):
            await it.patch(kinds.STATEFUL_SET, "web", {"spec": {"template": template("500m", app="web")}})
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Failed", "ForbiddenMigratePod") and "too small" in (message or ""), message
        assert await pod_stays(it, old) and await it.reservations() == []


@pytest.mark.parametrize("before", [{}, {"nodeSelector": {"disk": "slow"}}], ids=["anywhere", "elsewhere"])
@on_virtual_time
async def test_a_seat_is_on_a_node_that_the_recreated_pod_may_use(before: Document) -> None:
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock):
        for name in ("n1", "n2", "n3"):
            await it.patch(kinds.NODE, name, {"metadata": {"labels": {"disk": "slow"}}})
        made = workload("web", 1, pods=template("100m", app="web", **before), updateStrategy={"type": "OnDelete"})
        await it.create(kinds.STATEFUL_SET, made)
        await pass_time(5)
        [old] = await it.pods()
        target = max({"n1", "n2", "n3"} - {old.spec.node_name})
        await it.patch(kinds.NODE, target, {"metadata": {"labels": {"disk": "fast"}}})
        chosen = template("100m", app="web", nodeSelector={"disk": "fast"})
        await it.patch(kinds.STATEFUL_SET, "web", {"spec": {"template": chosen}})
        await it.move(old)
        await pass_time(60)
        assert (await it.told())[0] == "Succeed"
        assert [one.spec.node_name for one in await it.pods()] == [target]


NOWHERE = {"maxSkew": 1, "topologyKey": "no-such-key", "whenUnsatisfiable": "DoNotSchedule"}


@pytest.mark.parametrize(
    "anew",
    [
        pytest.param({"nodeName": "n1"}, id="its node"),
        pytest.param({"containers": serving(80)}, id="a host port"),
        pytest.param({"topologySpreadConstraints": [NOWHERE]}, id="to be spread"),
        pytest.param({"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "none"}}]}, id="a claim"),
        pytest.param({"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}, id="a device"),
        pytest.param({"app": "web", "labels": {"kind": "web"}}, id="labels that others keep away from"),
        pytest.param({"annotations": {"restow.sh/use-reservation": "other"}}, id="a reservation"),
        pytest.param({"annotations": {"scheduling.k8s.io/group-name": "none"}}, id="a gang that is not there"),
    ],
)
@on_virtual_time
async def test_a_pod_stays_if_the_recreated_pod_requires(anew: Document) -> None:
    """What its set makes pods from has changed since, and nowhere is a place for that."""
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock):
        labels = anew.pop("labels", {})
        made = workload("web", 1, pods=template("500m", app="web"), updateStrategy={"type": "OnDelete"})
        await it.create(kinds.STATEFUL_SET, made)
        await pass_time(5)
        [old] = await it.pods()
        far: dict[str, Any] = {
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}
        }
        for name in ("n1", "n2", "n3"):
            there = pod(f"noisy-{name}", app="noisy", nodeName=name, **FOREIGN, **far)
            there["spec"]["containers"] = serving(80)
            await it.create(kinds.POD, there)
        changed = template("500m", **anew)
        changed["metadata"]["labels"] |= labels
        await it.patch(kinds.STATEFUL_SET, "web", {"spec": {"template": changed}})
        await pass_time(1)
        await it.move(old)
        await pass_time(60)
        assert await pod_stays(it, old), await it.told()


@pytest.mark.parametrize(
    ("limit", "phase"), [pytest.param(0, "Failed", id="none"), pytest.param(1, "Succeed", id="one more")]
)
@on_virtual_time
async def test_a_pod_stays_if_its_job_would_exceed_the_backoff_limit(limit: int, phase: str) -> None:
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock):
        await it.create(kinds.JOB, job("etl", run=500, backoffLimit=limit))
        await pass_time(5)
        await it.move((await it.pods())[0])
        await pass_time(60)
        assert (await it.told())[0] == phase, await it.told()
        assert not (await it.document(kinds.JOB, "etl"))["status"].get("conditions")


@pytest.mark.parametrize(
    ("interference", "why"),
    [
        pytest.param(lambda it: it.delete(kinds.POD_GROUP, "g"), "does not exist", id="is gone"),
        pytest.param(
            lambda it: it.patch(kinds.POD_GROUP, "g", {"spec": {"minMember": 5}}), "needs 5 pods, 2 exist", id="grows"
        ),
    ],
)
@on_virtual_time
async def test_a_pod_stays_if_its_gang(interference: Any, why: str) -> None:
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock):
        await it.create(kinds.POD_GROUP, pod_group("g", 2))
        made = template("500m", app="web", annotations={"scheduling.k8s.io/group-name": "g"})
        await it.create(kinds.DEPLOYMENT, workload("web", 2, pods=made))
        await pass_time(10)
        old = (await it.pods())[0]
        async with held_up(it, old):
            await interference(it)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Running", "Gang") and why in (message or ""), message
        await pass_time(600)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Failed", "Timeout") and why in (message or ""), message
        assert await pod_stays(it, old) and await it.reservations() == []


@on_virtual_time
async def test_pods_of_a_gang_move_one_after_the_other() -> None:
    """While the first is on its way there are fewer of them than must be, and that is waited for."""
    async with cluster_with_scheduler(nodes=4) as it, running_controller(it.api, it.clock):
        await it.create(kinds.POD_GROUP, pod_group("g", 2))
        slow = {"sim.restow.sh/stop-seconds": "20", "scheduling.k8s.io/group-name": "g"}
        pods = template("500m", app="web", annotations=slow)
        await it.create(kinds.STATEFUL_SET, workload("web", 2, pods=pods, podManagementPolicy="Parallel"))
        await pass_time(10)
        for name, one in zip("ab", await it.pods(), strict=True):
            await it.move(one, name)
            await pass_time(2)
        await pass_time(120)
        assert [(await it.told(name))[0] for name in "ab"] == ["Succeed", "Succeed"]


@on_virtual_time
async def test_a_finished_pod_still_counts_for_its_gang() -> None:
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock):
        await it.create(kinds.POD_GROUP, pod_group("g", 3))
        of_gang = {"scheduling.k8s.io/group-name": "g"}
        await it.create(kinds.DEPLOYMENT, workload("web", 2, pods=template("500m", app="web", annotations=of_gang)))
        first = job("first", run=5)
        first["spec"]["template"]["metadata"]["annotations"] |= of_gang
        await it.create(kinds.JOB, first)
        await pass_time(30)
        pods = {one.metadata.name: one.status.phase for one in await it.pods()}
        assert sorted(map(str, pods.values())) == ["Running", "Running", "Succeeded"]
        old = next(one for one in await it.pods() if one.status.phase == "Running")
        await it.move(old)
        await pass_time(60)
        assert (await it.told())[0] == "Succeed", await it.told()


@on_virtual_time
async def test_a_consumed_seat_is_not_reported_as_kept_after_the_timeout() -> None:
    """A finalizer keeps the pod that has left."""
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock, defaultJobTTL="60s"):
        old = (await it.start(2))[0]
        await it.patch(kinds.POD, old.metadata.name, {"metadata": {"finalizers": ["example.com/audit"]}})
        await it.move(old)
        await pass_time(90)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Failed", "Timeout") and (message or "").endswith("has not left yet"), message
        assert [one.status.state.phase for one in await it.reservations()] == ["Succeeded"]


@on_virtual_time
async def test_an_impossible_ttl_fails_the_job() -> None:
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock):
        old = (await it.start(2))[0]
        await it.move(old, ttl="-5s")
        await pass_time(10)
        assert await it.told() == ("Failed", "InvalidSpec", "spec.ttl: -5s is negative")


@on_virtual_time
async def test_no_pod_is_evicted_for_room_taken_while_no_scheduler_runs() -> None:
    async with unscheduled_cluster(nodes=2) as base:
        it = MigrationCluster(base.api, base.world, base.clock)
        await it.create(kinds.NAMESPACE, {"metadata": {"name": SYSTEM}})
        async with running_controller(it.api, it.clock), AsyncExitStack() as until_then:
            await until_then.enter_async_context(running_scheduler(it.api, it.clock))
            [old] = await it.start(1)
            async with held_up(it, old) as seat:
                await until_then.aclose()
                await it.create(kinds.POD, pod("thief", "3700m", app="other", nodeName=node_of(seat), **FOREIGN))
                await pass_time(5)
            phase, reason, message = await it.told()
            assert (phase, reason) == ("Running", "Waiting"), message
            assert "does not fit its successor: Insufficient cpu" in (message or "")
            assert await pod_stays(it, old)


class Broken(FilterPlugin):
    name = "Broken"
    is_broken = True

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        if self.is_broken:
            raise RuntimeError("no idea")
        return np.ones_like(cycle.snapshot.nodes.present[rows])

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        return []


@on_virtual_time
async def test_no_pod_is_evicted_while_a_plugin_fails_and_the_failure_is_reported() -> None:
    plugin = Broken()
    async with cluster_with_scheduler() as it:
        made = MigrationController(
            it.api, it.clock, Random(1), MigrationConfiguration(migration_arguments(), default_profile(plugin))
        )
        async with running_component(made):
            [old] = await it.start(1)
            await it.move(old)
            await pass_time(30)
            phase, reason, message = await it.told()
            assert (phase, reason) == ("Running", "Waiting") and "Broken: RuntimeError: no idea" in (message or "")
            assert await pod_stays(it, old)
            plugin.is_broken = False
            await pass_time(30)
            assert (await it.told())[0] == "Succeed", await it.told()
