"""Stories of pods on nodes: starting, stopping, exiting, and nodes that fall silent."""

from __future__ import annotations

import asyncio
import random

import pytest

from restow.adapters.clock import SystemClock
from restow.adapters.memory import MemoryApi
from restow.client.verbs import Client
from restow.model import kinds
from restow.model.times import format_time
from restow.ports import NotFound
from restow.sim.world import Settings, World
from tests.sim.simulated_cluster import (
    condition_message,
    is_pod_ready,
    node,
    on_virtual_time,
    pass_time,
    pod,
    running_scheduler,
    simulated_cluster,
    template,
    workload,
)


@on_virtual_time
async def test_a_bound_pod_runs_after_its_delay_and_then_serves() -> None:
    async with simulated_cluster(settings=Settings(start=5, ready=3)) as it:
        await it.create(kinds.POD, pod("a"))
        seen = []
        for wait in (4, 2, 3):
            await pass_time(wait)
            [a] = await it.pods()
            seen.append((a.spec.node_name, a.status.phase, is_pod_ready(a)))
        assert seen == [("n1", "Pending", False), ("n1", "Running", False), ("n1", "Running", True)]
        status = (await it.document(kinds.POD, "a"))["status"]
        assert status["podIP"].startswith("10.")
        assert status["startTime"] == format_time(it.clock.now() - 4)
        assert status["containerStatuses"][0]["state"] == {"running": {"startedAt": status["startTime"]}}


@pytest.mark.parametrize(
    ("grace", "annotations", "seconds"),
    [
        pytest.param(30, {}, 2, id="the world's limit, when the pod would take longer"),
        pytest.param(1, {}, 1, id="the pod's own grace, when that is shorter"),
        pytest.param(30, {"sim.restow.sh/stop-seconds": "20"}, 20, id="as slow as its annotation says"),
        pytest.param(0, {}, 0, id="at once without grace"),
    ],
)
def test_kubelet_removes_a_deleted_pod_after_its_grace_period(
    grace: int, annotations: dict[str, str], seconds: float
) -> None:
    @on_virtual_time
    async def story() -> None:
        async with simulated_cluster(settings=Settings(stop=2)) as it:
            await it.create(kinds.POD, pod("a", annotations=annotations, terminationGracePeriodSeconds=grace))
            await pass_time(10)
            await it.delete(kinds.POD, "a")
            before = it.clock.now()
            await it.world.until(lambda view: view.get(kinds.POD, ("default", "a")) is None)
            assert it.clock.now() - before == pytest.approx(seconds, abs=0.1)
            with pytest.raises(NotFound):
                await it.document(kinds.POD, "a")

    story()


@pytest.mark.parametrize(
    ("policy", "exit_code", "phase", "restarts"),
    [
        pytest.param("Never", 0, "Succeeded", 0, id="never restarted, exit 0: succeeded"),
        pytest.param("Never", 3, "Failed", 0, id="never restarted, exit 3: failed"),
        pytest.param("OnFailure", 0, "Succeeded", 0, id="restarted on failure, exit 0: succeeded"),
        pytest.param("OnFailure", 3, "Running", 3, id="restarted on failure, exit 3: again and again"),
        pytest.param("Always", 0, "Running", 3, id="always restarted"),
    ],
)
def test_exited_containers_restart_or_finish_the_pod(policy: str, exit_code: int, phase: str, restarts: int) -> None:
    @on_virtual_time
    async def story() -> None:
        annotations = {"sim.restow.sh/run-seconds": "10", "sim.restow.sh/exit-code": str(exit_code)}
        async with simulated_cluster() as it:
            await it.create(kinds.POD, pod("a", annotations=annotations, restartPolicy=policy))
            await pass_time(35)
            [a] = await it.pods()
            [container] = a.status.container_statuses or []
            assert (a.status.phase, container.restart_count) == (phase, restarts)

    story()


@on_virtual_time
async def test_a_pod_that_exits_at_once_is_restarted_at_a_measured_pace() -> None:
    async with simulated_cluster() as it:
        await it.create(kinds.POD, pod("a", annotations={"sim.restow.sh/run-seconds": "0"}))
        await pass_time(10)
        [container] = (await it.pods())[0].status.container_statuses or []
        assert 5 < (container.restart_count or 0) <= 10


@on_virtual_time
async def test_a_pod_is_failed_when_its_deadline_is_over() -> None:
    async with simulated_cluster() as it:
        await it.create(kinds.POD, pod("a", activeDeadlineSeconds=60))
        await pass_time(59)
        assert (await it.pods())[0].status.phase == "Running"
        await pass_time(5)
        [a] = await it.pods()
        assert (a.status.phase, a.status.reason) == ("Failed", "DeadlineExceeded")


@on_virtual_time
async def test_containers_for_debugging_end_at_once_and_say_why() -> None:
    async with simulated_cluster() as it:
        await it.create(kinds.POD, pod("a"))
        await pass_time(5)
        for names in (["look"], ["look", "again"]):
            added = {"spec": {"ephemeralContainers": [{"name": name, "image": "tools"} for name in names]}}
            await it.client.patch(kinds.POD, "a", added, "default", subresource="ephemeralcontainers")
            await pass_time(1)
            statuses = (await it.document(kinds.POD, "a"))["status"]["ephemeralContainerStatuses"]
            ends = {each["name"]: each["state"]["terminated"]["reason"] for each in statuses}
            assert ends == dict.fromkeys(names, "ContainersDoNotRun")
        assert is_pod_ready((await it.pods())[0])


@on_virtual_time
async def test_a_kubelet_refuses_a_pod_that_does_not_fit() -> None:
    async with simulated_cluster(nodes=1) as it:
        await it.create(kinds.POD, pod("a", cpu="3", nodeName="n1"))
        await it.create(kinds.POD, pod("b", cpu="3", nodeName="n1"))
        await pass_time(5)
        outcomes = {(each.status.phase, each.status.reason) for each in await it.pods()}
        assert outcomes == {("Failed", "OutOfcpu"), ("Running", None)}


@on_virtual_time
async def test_kubelet_admits_pods_in_order_of_their_binding() -> None:
    """Whenever they were made, and in whichever order their names or UIDs are."""
    async with simulated_cluster(nodes=1) as it:
        for number in range(6):
            old, new = f"bound-{number}", f"made-{number}"
            made = await it.create(kinds.POD, pod(old, cpu="3", schedulerName="missing"))
            await it.client.bind("default", old, uid=made.metadata.uid, node="n1")
            await it.create(kinds.POD, pod(new, cpu="3", nodeName="n1"))
            await pass_time(3)
            phases = {pod.metadata.name: pod.status.phase for pod in await it.pods()}
            assert (phases[old], phases[new]) == ("Running", "Failed")
            await it.delete(kinds.POD, old, grace_seconds=0)


@on_virtual_time
async def test_refused_pods_are_replaced_at_a_measured_pace() -> None:
    async with simulated_cluster(nodes=1, settings=Settings(start=0)) as it:
        await it.create(kinds.REPLICA_SET, workload("web", 1, pods=template("64", app="web", nodeName="n1")))
        await pass_time(20)
        assert len(await it.pods()) == 5  # after 0, 1, 3, 7 and 15 seconds


@on_virtual_time
async def test_a_silent_node_is_tainted_its_pods_stop_serving_and_are_evicted_after_five_minutes() -> None:
    async with simulated_cluster(nodes=2) as it:
        await it.create(kinds.POD, pod("a"))
        await pass_time(10)
        await it.world.silence("n1")
        await pass_time(45)
        taints = (await it.document(kinds.NODE, "n1"))["spec"]["taints"]
        assert {(each["key"], each["effect"]) for each in taints} == {
            ("node.kubernetes.io/unreachable", "NoSchedule"),
            ("node.kubernetes.io/unreachable", "NoExecute"),
        }
        [a] = await it.pods()
        assert not is_pod_ready(a)
        assert a.metadata.deletion_timestamp is None
        await pass_time(300)
        [a] = await it.pods()
        assert a.metadata.deletion_timestamp is not None
        assert condition_message(a, "DisruptionTarget") == "Taint manager: deleting due to NoExecute taint"


@on_virtual_time
async def test_a_node_that_reports_itself_not_ready_keeps_its_pods_from_serving() -> None:
    async with simulated_cluster(nodes=1) as it:
        await it.create(kinds.POD, pod("a"))
        await pass_time(10)
        for status, key in (("False", "node.kubernetes.io/not-ready"), ("True", None)):
            report = {"status": {"conditions": [{"type": "Ready", "status": status}]}}
            await it.client.patch(kinds.NODE, "n1", report, subresource="status")
            await pass_time(30)
            taints = (await it.document(kinds.NODE, "n1"))["spec"].get("taints", ())
            assert {each["key"] for each in taints} == ({key} if key else set())
            assert is_pod_ready((await it.pods())[0]) == (status == "True")


@on_virtual_time
async def test_a_node_that_speaks_again_is_forgiven() -> None:
    async with simulated_cluster(nodes=1) as it:
        await it.create(kinds.POD, pod("a"))
        await pass_time(10)
        await it.world.silence("n1")
        await pass_time(60)
        await it.world.revive("n1")
        await pass_time(10)
        assert "taints" not in (await it.document(kinds.NODE, "n1"))["spec"]
        assert is_pod_ready((await it.pods())[0])


@on_virtual_time
async def test_pods_of_a_deleted_node_are_collected() -> None:
    async with simulated_cluster(nodes=2) as it:
        await it.create(kinds.POD, pod("a"))
        await pass_time(10)
        await it.delete(kinds.NODE, "n1")
        await pass_time(30)
        assert [each.metadata.name for each in await it.pods()] == ["a"]
        await pass_time(15)
        assert await it.pods() == []


@on_virtual_time
async def test_cordon_and_conditions_become_taints() -> None:
    async with simulated_cluster(nodes=1) as it:
        await it.patch(kinds.NODE, "n1", {"spec": {"unschedulable": True}})
        await pass_time(1)
        [taint] = (await it.document(kinds.NODE, "n1"))["spec"]["taints"]
        assert (taint["key"], taint["effect"]) == ("node.kubernetes.io/unschedulable", "NoSchedule")
        await it.patch(kinds.NODE, "n1", {"spec": {"unschedulable": None}})
        pressure = [{"type": "MemoryPressure", "status": "True"}, {"type": "Ready", "status": "True"}]
        await it.client.patch(kinds.NODE, "n1", {"status": {"conditions": pressure}}, subresource="status")
        await pass_time(1)
        [taint] = (await it.document(kinds.NODE, "n1"))["spec"]["taints"]
        assert taint["key"] == "node.kubernetes.io/memory-pressure"


@on_virtual_time
async def test_node_heartbeats_renew_leases() -> None:
    async with simulated_cluster(nodes=2, settings=Settings(heartbeat=10)) as it:
        await pass_time(60)
        leases = (await it.client.list(kinds.LEASE, "kube-node-lease")).items
        assert [lease.metadata.name for lease in leases] == ["n1", "n2"]
        assert all(
            lease.spec.renew_time and lease.spec.renew_time > format_time(it.clock.now() - 11) for lease in leases
        )


async def test_in_real_time_pods_are_ready_and_gone_within_a_second() -> None:
    settings = Settings(start=0.2, stop=0.2)
    clock = SystemClock()
    api = MemoryApi(clock, random.Random(1))
    client = Client(api)
    await client.create(kinds.NODE, node("n1"))
    async with (
        World(api, clock, random.Random(2), settings=settings) as world,
        running_scheduler(api, clock),
        asyncio.timeout(10),
    ):
        await client.create(kinds.POD, pod("a"))
        started = clock.now()
        await world.until(lambda view: (a := view.get(kinds.POD, ("default", "a"))) and is_pod_ready(a))
        assert clock.now() - started <= 1.0
        await client.delete(kinds.POD, "a", "default")
        deleted = clock.now()
        await world.until(lambda view: view.get(kinds.POD, ("default", "a")) is None)
        assert clock.now() - deleted <= 1.0
