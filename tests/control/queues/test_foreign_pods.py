"""Pods of other queues on locked nodes: which of them leave, how, and the reasons of those that stay."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from restow.control.queues import QueueControllerSettings, QueueMetrics
from restow.control.queues.foreign_pods import PodToMove, migration_job_document
from restow.migration.conditions import is_job_ended
from restow.model import kinds
from restow.sim.faults import FaultPlan, FaultyApi, run_until_crash
from tests.control.queues.queue_controller_fixture import (
    LostAnswerApi,
    QueueCluster,
    SilentApi,
    StatusConflictApi,
    cluster_with_queue_controller,
    cluster_without_queue_controller,
    queue_annotation,
    queue_controller,
    queue_document,
)
from tests.sim.simulated_cluster import (
    is_pod_ready,
    on_virtual_time,
    pass_time,
    pod,
    running_component,
    template,
    workload,
)

ONE_NODE: dict[str, Any] = {"resource": {"cpu": "4"}}
GUARANTEED: dict[str, Any] = {"policy": "Guaranteed", **ONE_NODE}


async def furnish(it: QueueCluster) -> None:
    """Of two nodes, one has a pod that could go to the other."""
    await it.create(kinds.POD, pod("big", "2", nodeName="n2"))
    await it.create_deployment(1, "1")


@on_virtual_time
async def test_guaranteed_queue_moves_foreign_pods_away_seat_first() -> None:
    async with cluster_with_queue_controller(nodes=2) as it:
        await furnish(it)
        await it.create_guarantee(**GUARANTEED)
        assert (await it.condition_of())[0] == "False"
        await pass_time(60)
        jobs = await it.jobs()
        assert [job.status.phase for job in jobs] == ["Succeed"]
        assert jobs[0].metadata.labels == {"restow.sh/queue": "q1"} and jobs[0].spec.mode == "ReservationFirst"
        assert (await it.locked_nodes(), await it.pods_on("n1"), all(map(is_pod_ready, await it.pods()))) == (
            "n1",
            [],
            True,
        )
        assert await it.condition_of() == (
            "True",
            "Satisfied",
            "1 node locked; cpu (asked 4, idle 4, used by the queue 0)",
        )


@on_virtual_time
async def test_successor_of_a_foreign_pod_does_not_come_back() -> None:
    async with cluster_with_queue_controller(nodes=2) as it:
        await furnish(it)
        await it.create_guarantee(**GUARANTEED)
        await pass_time(600)
        assert len(await it.jobs()) == 1 and await it.pods_on(await it.locked_nodes()) == []


@on_virtual_time
async def test_foreign_pods_are_not_moved_before_the_lock_is_shown() -> None:
    async with cluster_without_queue_controller(nodes=2) as it:
        await furnish(it)
        deaf = StatusConflictApi(it.api, "q1")
        async with running_component(queue_controller(deaf, it.clock)):
            await it.create_guarantee(**GUARANTEED)
            await pass_time(30)
            assert await it.jobs() == []
            deaf.name = None
            await pass_time(60)
            assert [job.status.phase for job in await it.jobs()] == ["Succeed"]


@pytest.mark.parametrize("lossy", [LostAnswerApi, SilentApi])
@on_virtual_time
async def test_foreign_pod_with_a_job_in_doubt_gets_no_second_job(lossy: type[LostAnswerApi]) -> None:
    async with cluster_without_queue_controller(nodes=2) as it:
        await furnish(it)
        await it.stop()
        api = lossy(it.api, "create", "podmigrationjobs", b"restow.sh/queue")
        async with running_component(queue_controller(api, it.clock)):
            await it.create_guarantee("q1", **GUARANTEED)
            await pass_time(6)
            await it.delete(kinds.QUEUE, "q1")
            await it.create_guarantee("q2", **GUARANTEED)
            await pass_time(20)
            others = [job for job in await it.jobs() if job.status.phase != "Aborted"]
            assert (await it.locked_nodes("q2"), len(others)) == ("n1", 1)


@on_virtual_time
async def test_best_effort_queue_moves_no_foreign_pods() -> None:
    async with cluster_with_queue_controller(nodes=2) as it:
        await furnish(it)
        await it.create_guarantee(**ONE_NODE)
        await pass_time(60)
        assert (await it.jobs(), len(await it.pods_on(await it.locked_nodes()))) == ([], 1)
        assert (await it.condition_of())[:2] == ("False", "Unsatisfied")


@on_virtual_time
async def test_own_daemon_set_and_static_pods_stay_on_locked_nodes() -> None:
    async with cluster_with_queue_controller(nodes=2) as it:
        await it.create(kinds.DAEMON_SET, workload("agent", None, pods=template("500m", app="agent")))
        await it.create(kinds.POD, pod("own", "1", annotations=queue_annotation("q1"), nodeName="n1"))
        static = pod("static", "250m", annotations={"kubernetes.io/config.mirror": "x"}, nodeName="n1")
        await it.create(kinds.POD, static)
        await pass_time(5)
        await it.create_guarantee(policy="Guaranteed", resource={"cpu": "3250m"})
        await pass_time(30)
        told = "1 node locked; cpu (asked 3250m, idle 2250m, used by the queue 1)"
        assert (await it.locked_nodes(), await it.jobs(), await it.condition_of()) == (
            "n1",
            [],
            ("True", "Satisfied", told),
        )


@on_virtual_time
async def test_condition_counts_the_foreign_pods_that_it_waits_for() -> None:
    async with cluster_with_queue_controller(nodes=2) as it:
        await it.create(kinds.POD, pod("big", "3", nodeName="n2"))
        await it.create(kinds.POD, pod("bare", "500m", nodeName="n1"))
        await it.create_deployment(1, "500m")
        await it.stop()
        await it.create_guarantee(**GUARANTEED)
        await pass_time(12)
        message = (await it.condition_of())[2] or ""
        assert await it.locked_nodes() == "n1"
        assert message.startswith("1 node locked; cpu (asked 4, idle ")
        expected = (
            "waits for 2 pods of other queues to leave: 1 moved by jobs (1: evictions are stopped: maintenance; "
            "run restow resume to continue), 1 stays (1: no controller would recreate it)"
        )
        assert message.partition("; waits")[2] == expected.removeprefix("waits")


async def _lose(it: QueueCluster) -> None:
    await it.delete(kinds.QUEUE, "theirs")


async def _shut(it: QueueCluster) -> None:
    await it.client.patch(kinds.QUEUE, "theirs", {"status": {"state": "Closed"}}, subresource="status")


@pytest.mark.parametrize(
    ("happens", "told"),
    [
        pytest.param(_lose, "its queue theirs does not exist", id="deleted, or renamed"),
        pytest.param(_shut, "its queue theirs is Closing", id="closed"),
    ],
)
@on_virtual_time
async def test_foreign_pods_stay_if_their_queue_would_not_let_successors_in(happens: Any, told: str) -> None:
    async with cluster_with_queue_controller(nodes=2) as it:
        await it.create(kinds.POD, pod("big", "2", nodeName="n2"))
        await it.create(kinds.QUEUE, queue_document("theirs"))
        await it.create(
            kinds.DEPLOYMENT, workload("web", 1, pods=template("1", annotations=queue_annotation("theirs")))
        )
        await pass_time(5)
        await happens(it)
        await it.create_guarantee(**GUARANTEED)
        await pass_time(30)
        assert (await it.locked_nodes(), await it.jobs()) == ("n1", [])
        assert f"waits for 1 pod of other queues to leave: 1 stays (1: {told})" in ((await it.condition_of())[2] or "")


@pytest.mark.parametrize("happens", [_lose, _shut])
@on_virtual_time
async def test_successor_takes_its_seat_although_its_queue_was_closed(happens: Any) -> None:
    async with cluster_with_queue_controller(nodes=2) as it:
        await it.create(kinds.POD, pod("big", "2", nodeName="n2"))
        await it.create(kinds.QUEUE, queue_document("theirs"))
        spec = template("1", annotations=queue_annotation("theirs"), terminationGracePeriodSeconds=60)
        await it.create(kinds.STATEFUL_SET, workload("web", 1, pods=spec))
        await pass_time(5)
        await it.create_guarantee(**GUARANTEED)
        while not any(one.metadata.deletion_timestamp for one in await it.pods()):
            await pass_time(0.05)
        await happens(it)
        await pass_time(120)
        assert [job.status.phase for job in await it.jobs()] == ["Succeed"] and len(await it.pods_on("n2")) == 2


@on_virtual_time
async def test_unreadable_limit_of_a_queue_does_not_stop_the_controller() -> None:
    async with cluster_with_queue_controller(nodes=2) as it:
        await it.create(kinds.POD, pod("big", "2", nodeName="n2"))
        await it.create(kinds.QUEUE, queue_document("odd", capability={"cpu": f"0.{'9' * 999}"}))
        spec = template("1", annotations=queue_annotation("odd"), nodeName="n1")
        await it.create(kinds.STATEFUL_SET, workload("web", 1, pods=spec, updateStrategy={"type": "OnDelete"}))
        await pass_time(5)
        await it.patch(kinds.STATEFUL_SET, "web", {"spec": {"template": {"spec": {"nodeName": None}}}})
        await it.create_guarantee(**GUARANTEED)
        await pass_time(30)
        told = "1 stays (1: its queue odd has limits that cannot be read: spec.capability.cpu: quantity "
        assert f"waits for 1 pod of other queues to leave: {told}" in ((await it.condition_of())[2] or "")


@on_virtual_time
async def test_condition_says_why_a_job_is_blocked() -> None:
    async with cluster_with_queue_controller(nodes=2) as it:
        await it.create(kinds.POD, pod("big", "3500m", nodeName="n2"))
        await it.create_deployment(1, "1")
        await it.create_guarantee(**GUARANTEED)
        await pass_time(12)
        _, held_up, told = ((await it.condition_of())[2] or "").partition("1 moved by jobs (1: ")
        assert held_up and "0/2 nodes are available: 1 Insufficient cpu" in told


@on_virtual_time
async def test_failed_job_is_tried_again_later() -> None:
    async with cluster_with_queue_controller(nodes=2, settings=QueueControllerSettings(retry_failed_after=100.0)) as it:
        await it.create(kinds.POD, pod("big", "3", nodeName="n2"))
        await it.create(kinds.POD, pod("small", "900m", nodeName="n2"))
        await it.create_deployment(1, "500m")
        await it.create_guarantee(**GUARANTEED)
        await pass_time(320)
        assert [job.status.phase for job in await it.jobs()] == ["Failed"]
        assert "1 stays (1: could not be moved by a job (Timeout))" in ((await it.condition_of())[2] or "")
        await it.delete(kinds.POD, "small", grace_seconds=0)
        await pass_time(150)
        assert sorted(str(job.status.phase) for job in await it.jobs()) == ["Failed", "Succeed"]
        assert await it.pods_on("n1") == []


async def _delete(it: QueueCluster) -> None:
    await it.delete(kinds.QUEUE, "q1")


async def _disable(it: QueueCluster) -> None:
    await it.change_queue(guarantee=None)


async def _no_longer_guaranteed(it: QueueCluster) -> None:
    await it.change_queue(guarantee={"policy": "Best-Effort"})


async def _close(it: QueueCluster) -> None:
    await it.client.patch(kinds.QUEUE, "q1", {"status": {"state": "Closed"}}, subresource="status")


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(_delete, id="the queue is deleted"),
        pytest.param(_disable, id="the guarantee is taken back"),
        pytest.param(_no_longer_guaranteed, id="it is Best-Effort from now on"),
        pytest.param(_close, id="the queue is closed"),
    ],
)
@on_virtual_time
async def test_job_is_aborted_with_its_lock_if_it_has_not_evicted(happens: Any) -> None:
    async with cluster_with_queue_controller(nodes=2) as it:
        await furnish(it)
        await it.stop()
        await it.create_guarantee(**GUARANTEED)
        await pass_time(12)
        assert [is_job_ended(job) for job in await it.jobs()] == [False]
        before = {one.metadata.uid for one in await it.pods()}
        await happens(it)
        await pass_time(3)
        job = (await it.jobs())[0]
        told = "the node of its pod is no longer locked for queue q1"
        assert (job.status.phase, job.status.reason, job.status.message) == ("Aborted", "LockReleased", told)
        await it.go()
        await pass_time(60)
        assert {one.metadata.uid for one in await it.pods()} == before
        held = [one for one in await it.reservations() if one.status.state.phase not in ("Succeeded", "Failed")]
        assert held == []


@pytest.mark.parametrize("happens", [_delete, _disable, _no_longer_guaranteed, _close])
@on_virtual_time
async def test_job_that_has_evicted_succeeds_although_the_lock_is_released(happens: Any) -> None:
    async with cluster_with_queue_controller(nodes=2) as it:
        await it.create(kinds.POD, pod("big", "2", nodeName="n2"))
        await it.create_deployment(1, "1", terminationGracePeriodSeconds=60)
        await it.create_guarantee(**GUARANTEED)
        while not any(one.metadata.deletion_timestamp for one in await it.pods()):
            await pass_time(0.05)
        await happens(it)
        await pass_time(120)
        assert [(job.status.phase, job.status.node_name) for job in await it.jobs()] == [("Succeed", "n2")]
        assert all(map(is_pod_ready, await it.pods())) and len(await it.pods_on("n2")) == 2


@on_virtual_time
async def test_lock_that_comes_back_moves_the_foreign_pod() -> None:
    async with cluster_with_queue_controller(nodes=2) as it:
        await furnish(it)
        await it.stop()
        await it.create_guarantee(**GUARANTEED)
        await pass_time(12)
        await it.change_queue(guarantee=None)
        await it.go()
        await it.change_queue(guarantee=GUARANTEED)
        await pass_time(60)
        assert sorted(str(job.status.phase) for job in await it.jobs()) == ["Aborted", "Succeed"]


@on_virtual_time
async def test_queue_controller_creates_no_more_jobs_at_once_than_allowed() -> None:
    async with cluster_with_queue_controller(nodes=3, settings=QueueControllerSettings(max_jobs=2)) as it:
        for name in ("n2", "n3"):
            await it.create(kinds.POD, pod(f"on-{name}", "3", nodeName=name))
        await it.create_deployment(8, "300m", nodeSelector={"kubernetes.io/hostname": "n1"})
        await it.stop()
        await it.create_guarantee(policy="Guaranteed", resource={"cpu": "3500m"})
        await pass_time(30)
        assert len(await it.jobs()) == 2
        assert "2 moved by jobs (2: evictions are stopped" in ((await it.condition_of())[2] or "")
        assert ", 6 to be moved" in ((await it.condition_of())[2] or "")


@pytest.mark.parametrize("writes", range(1, 6))
@on_virtual_time
async def test_restarted_queue_controller_never_creates_two_jobs_for_a_pod(writes: int) -> None:
    async with cluster_without_queue_controller(nodes=2) as it:
        await furnish(it)
        await it.stop()
        mortal = FaultyApi(it.api, random.Random(1), FaultPlan(crash_after=writes))
        dying = asyncio.create_task(run_until_crash(mortal, queue_controller(mortal, it.clock).run()))
        await it.create_guarantee(**GUARANTEED)
        await pass_time(15)
        dying.cancel()
        await asyncio.gather(dying, return_exceptions=True)
        async with running_component(queue_controller(it.api, it.clock, seed=2)):
            await pass_time(15)
            pods = [job.spec.pod_ref.uid for job in await it.jobs()]
            assert len(pods) == len(set(pods)) == 1


@on_virtual_time
async def test_metrics_count_locks_foreign_pods_and_jobs() -> None:
    registry = CollectorRegistry()
    async with cluster_with_queue_controller(nodes=2, metrics=QueueMetrics(registry)) as it:
        await furnish(it)
        await it.stop()
        await it.create_guarantee(**GUARANTEED)
        await pass_time(12)
        told = generate_latest(registry).decode()
        assert 'restow_queue_locked_nodes{queue="q1"} 1.0' in told
        assert 'restow_queue_guarantee_satisfied{queue="q1"} 0.0' in told
        assert 'restow_queue_lock_gap_ratio{queue="q1"} 0.0' in told
        assert 'restow_queue_foreign_pods{queue="q1",state="moving"} 1.0' in told
        await it.delete(kinds.QUEUE, "q1")
        await pass_time(1)
        assert "restow_queue_locked_nodes{" not in generate_latest(registry).decode()


@on_virtual_time
async def test_job_of_a_previous_leader_is_used_and_not_counted_as_created() -> None:
    registry = CollectorRegistry()
    async with cluster_without_queue_controller(nodes=2) as it:
        await furnish(it)
        await it.stop()
        unseeing = LostAnswerApi(it.api, "never", "podmigrationjobs", b"restow.sh/queue")
        async with running_component(queue_controller(unseeing, it.clock, metrics=QueueMetrics(registry))):
            [old] = [one for one in await it.pods_on("n1") if one.metadata.owner_references]
            await it.create(kinds.POD_MIGRATION_JOB, migration_job_document("q1", PodToMove(old, 0), "default"))
            await it.create_guarantee(**GUARANTEED)
            await pass_time(12)
            assert 'result="created"' not in generate_latest(registry).decode()
            assert len(await it.jobs()) == 1 and "1 moved by jobs" in ((await it.condition_of())[2] or "")
