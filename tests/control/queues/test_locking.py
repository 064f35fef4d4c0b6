"""Locks as the API shows them: enabled, changed and disabled on a running system, node by node."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from restow.control.queues import QueueControllerConfiguration
from restow.model import kinds
from restow.queues.arguments import read_queue_arguments
from restow.sim.faults import FaultPlan, FaultyApi, run_until_crash
from tests.control.migrations.migration_cluster import SCHEDULERS
from tests.control.queues.queue_controller_fixture import (
    LostAnswerApi,
    QueueCluster,
    StatusConflictApi,
    queue_annotation,
    queue_controller,
    queue_controller_alone,
    queue_document,
)
from tests.control.scheduler_cluster import events_with_reason, unscheduled_cluster
from tests.sim.simulated_cluster import node, on_virtual_time, pass_time, pod, running_component, workload

CPU4: dict[str, Any] = {"resource": {"cpu": "4"}}
T = TypeVar("T")


@on_virtual_time
async def test_queue_with_a_guarantee_gets_nodes_at_once() -> None:
    async with queue_controller_alone() as it:
        await it.create_guarantee(**CPU4)
        one = await it.read_queue()
        assert one.status.state == "Open"
        assert one.status.reservation is not None and one.status.reservation.nodes == ["n1"]
        assert one.status.reservation.resource == {"cpu": "4", "memory": "16Gi"}
        told = "1 node locked; cpu (asked 4, idle 4, used by the queue 0)"
        assert await it.condition_of() == ("True", "Satisfied", told)
        assert (await it.condition_of(kind="Rejected"))[:2] == ("False", "Accepted")
        assert await events_with_reason(it, "NodesLocked") == [("q1", "locked n1; 1 node is locked")]
        assert await events_with_reason(it, "GuaranteeSatisfied") == [("q1", told)]


@on_virtual_time
async def test_guarantee_is_enabled_changed_and_disabled_without_a_restart() -> None:
    async with queue_controller_alone() as it:
        await it.create(kinds.QUEUE, queue_document("q1", weight=1))
        await pass_time(1)
        assert (await it.locked_nodes(), (await it.read_queue()).status.conditions) == ("", None)
        await it.change_queue(guarantee=CPU4)
        assert await it.locked_nodes() == "n1"
        await it.change_queue(guarantee={"resource": {"cpu": "8"}})
        assert await it.locked_nodes() == "n1 n2"
        await it.change_queue(guarantee=None)
        one = await it.read_queue()
        assert (one.status.reservation, one.status.conditions) == (None, None)
        assert await events_with_reason(it, "NodesReleased") == [("q1", "released n1, n2; 0 nodes are locked")]


@on_virtual_time
async def test_deleted_queue_gives_its_nodes_to_the_next_at_once() -> None:
    async with queue_controller_alone(nodes=2) as it:
        await it.create_guarantee("q1", **CPU4)
        await it.create_guarantee("q2", **CPU4)
        assert (await it.locked_nodes("q1"), await it.locked_nodes("q2")) == ("n1", "")
        await it.delete(kinds.QUEUE, "q1")
        await pass_time(1)
        assert await it.locked_nodes("q2") == "n1"


@on_virtual_time
async def test_queue_that_is_being_deleted_shows_no_nodes() -> None:
    async with queue_controller_alone() as it:
        made = queue_document(guarantee=CPU4)
        made["metadata"]["finalizers"] = ["example.org/wait"]
        await it.create(kinds.QUEUE, made)
        await pass_time(1)
        await it.delete(kinds.QUEUE, "q1")
        await pass_time(1)
        assert (await it.read_queue()).metadata.deletion_timestamp and await it.locked_nodes() == ""


@on_virtual_time
async def test_node_is_not_locked_for_a_queue_before_its_old_queue_shows_it_free() -> None:
    async with unscheduled_cluster(nodes=2) as base:
        it = QueueCluster(base.api, base.world, base.clock)
        async with running_component(queue_controller(it.api, it.clock)):
            await it.create_guarantee("q2", **CPU4)
        deaf = StatusConflictApi(it.api, "q2")
        async with running_component(queue_controller(deaf, it.clock)):
            await it.change_queue("q2", guarantee=None)
            await it.create_guarantee("q1", **CPU4)
            await pass_time(30)
            assert (await it.locked_nodes("q1"), await it.locked_nodes("q2")) == ("", "n1")
            deaf.name = None
            await pass_time(6)
            assert (await it.locked_nodes("q1"), await it.locked_nodes("q2")) == ("n1", "")


@on_virtual_time
async def test_patch_without_an_answer_is_read_back_before_the_next_decision() -> None:
    async with unscheduled_cluster(nodes=3) as base:
        it = QueueCluster(base.api, base.world, base.clock)
        lossy = LostAnswerApi(it.api, "patch", "queues", b'"n1"')
        async with running_component(queue_controller(lossy, it.clock)):
            await it.create_guarantee("q1", **CPU4)
            await it.create(kinds.QUEUE, queue_document("q2", priority=10, guarantee=CPU4))
            await pass_time(30)
            assert (await it.locked_nodes("q1"), await it.locked_nodes("q2")) == ("n1", "n2")


@on_virtual_time
async def test_two_leaders_at_once_come_to_rest() -> None:
    async with unscheduled_cluster(nodes=5) as base:
        it = QueueCluster(base.api, base.world, base.clock)
        async with (
            running_component(queue_controller(it.api, it.clock, seed=1)),
            running_component(queue_controller(it.api, it.clock, seed=2)),
        ):
            for name in ("q1", "q2"):
                await it.create(kinds.QUEUE, queue_document(name, guarantee=CPU4))
            await it.change_queue("q1", guarantee={"resource": {"cpu": "8"}})
            await it.change_queue("q2", guarantee={"policy": "Guaranteed"}, priority=1)
            await pass_time(6)
            assert (await it.locked_nodes("q1"), await it.locked_nodes("q2")) == ("n1 n2", "n3")
            before = await versions(it)
            await pass_time(30)
            assert await versions(it) == before


@pytest.mark.parametrize("writes", range(1, 7))
@on_virtual_time
async def test_restart_after_a_crash_continues_handing_nodes_over(writes: int) -> None:
    async with unscheduled_cluster(nodes=3) as base:
        it = QueueCluster(base.api, base.world, base.clock)
        async with running_component(queue_controller(it.api, it.clock)):
            await it.create_guarantee("q1", resource={"cpu": "8"})
        await it.patch(kinds.QUEUE, "q1", {"spec": {"guarantee": CPU4}})
        await it.create(kinds.QUEUE, queue_document("q2", weight=9, guarantee=CPU4))
        mortal = FaultyApi(it.api, random.Random(1), FaultPlan(crash_after=writes))
        dying = asyncio.create_task(run_until_crash(mortal, queue_controller(mortal, it.clock).run()))
        await pass_time(12)
        dying.cancel()
        await asyncio.gather(dying, return_exceptions=True)
        assert {*(await it.locked_nodes("q1")).split()}.isdisjoint((await it.locked_nodes("q2")).split())
        async with running_component(queue_controller(it.api, it.clock, seed=2)):
            await pass_time(6)
            assert (await it.locked_nodes("q1"), await it.locked_nodes("q2")) == ("n1", "n2")


async def versions(it: QueueCluster) -> list[str]:
    return [one.metadata.resource_version for one in (await it.client.list(kinds.QUEUE)).items]


@on_virtual_time
async def test_edit_during_a_pass_is_kept() -> None:
    async def slowly(work: Callable[[], T], /) -> T:
        done = work()
        await pass_time(3)
        return done

    async with unscheduled_cluster(nodes=3) as base:
        it = QueueCluster(base.api, base.world, base.clock)
        async with running_component(queue_controller(it.api, it.clock, executor=slowly)):
            await pass_time(4)
            await it.create_guarantee("q1", **CPU4)
            await it.client.patch(kinds.QUEUE, "q1", {"status": {"state": "Closed"}}, subresource="status")
            await pass_time(12)
            assert ((await it.read_queue()).status.state, await it.locked_nodes()) == ("Closed", "")


async def _added(it: Any) -> None:
    await it.create(kinds.NODE, node("n0"))


async def _removed(it: Any) -> None:
    await it.delete(kinds.NODE, "n1")


async def _cordoned(it: Any) -> None:
    await it.patch(kinds.NODE, "n1", {"spec": {"unschedulable": True}})


async def _resized(it: Any) -> None:
    small = {"cpu": "2", "memory": "16Gi", "pods": "110"}
    await it.client.patch(kinds.NODE, "n1", {"status": {"allocatable": small}}, subresource="status")


async def _filled(it: Any) -> None:
    await it.create(kinds.POD, pod("other", "3", nodeName="n1"))


@pytest.mark.parametrize(
    ("happens", "expected"),
    [
        pytest.param(_added, "n1", id="a node as good as the locked one is added: nothing flaps"),
        pytest.param(_removed, "n2", id="the node is removed"),
        pytest.param(_cordoned, "n2", id="the node is cordoned"),
        pytest.param(_resized, "n2", id="the node became too small"),
        pytest.param(_filled, "n2", id="another pod took the room"),
    ],
)
@on_virtual_time
async def test_locks_follow_changes_of_nodes(happens: Any, expected: str) -> None:
    async with queue_controller_alone() as it:
        await it.create_guarantee(**CPU4)
        await happens(it)
        await pass_time(6)
        assert await it.locked_nodes() == expected


@on_virtual_time
async def test_lock_stays_where_the_queue_has_pods() -> None:
    async with queue_controller_alone() as it:
        await it.create_guarantee(**CPU4)
        await it.create(kinds.POD, pod("own", "3", annotations=queue_annotation("q1"), nodeName="n1"))
        await pass_time(6)
        reservation = (await it.read_queue()).status.reservation
        assert reservation and reservation.resource == {"cpu": "1", "memory": "16320Mi"}
        assert await it.condition_of() == (
            "True",
            "Satisfied",
            "1 node locked; cpu (asked 4, idle 1, used by the queue 3)",
        )


@on_virtual_time
async def test_unsatisfied_guarantee_message_has_numbers() -> None:
    async with queue_controller_alone(nodes=2) as it:
        for name in ("n1", "n2"):
            await it.create(kinds.POD, pod(f"on-{name}", "3", nodeName=name))
        await it.create_guarantee(**CPU4)
        assert await it.condition_of() == (
            "False",
            "Unsatisfied",
            "1 node locked; cpu (asked 4, idle 1, used by the queue 0)",
        )
        assert len(await events_with_reason(it, "GuaranteeUnsatisfied")) == 1


@pytest.mark.parametrize(
    ("spec", "section", "reason"),
    [
        pytest.param({"guarantee": {"resource": {"cpu": "17"}}}, {}, "AboveClusterTotal", id="more than there is"),
        pytest.param(
            {"guarantee": CPU4, "capability": {"cpu": "2"}}, {}, "AboveCapability", id="more than its capability"
        ),
        pytest.param({"guarantee": CPU4}, {"maxGuaranteedPerQueue": 10}, "AboveQueueCeiling", id="its own ceiling"),
        pytest.param(
            {"guarantee": CPU4}, {"maxGuaranteedOf": {"q1": {"cpu": 10}}}, "AboveQueueCeiling", id="one for it alone"
        ),
        pytest.param(
            {"guarantee": CPU4}, {"maxGuaranteed": {"cpu": 10}}, "AboveClusterCeiling", id="that of the cluster"
        ),
    ],
)
@on_virtual_time
async def test_guarantee_above_a_limit_is_rejected_with_a_reason(
    spec: dict[str, Any], section: dict[str, Any], reason: str
) -> None:
    async with queue_controller_alone(**section) as it:
        await it.create(kinds.QUEUE, queue_document(**spec))
        await pass_time(1)
        status, told, message = await it.condition_of(kind="Rejected")
        assert (status, told) == ("True", reason) and "asked" in (message or "")
        assert (await it.locked_nodes(), (await it.condition_of())[:2]) == ("", ("False", "Rejected"))
        assert await events_with_reason(it, reason) == [("q1", message)]


@on_virtual_time
async def test_new_arguments_hold_after_configure() -> None:
    async with unscheduled_cluster(nodes=4) as base:
        it = QueueCluster(base.api, base.world, base.clock)
        async with running_component(queue_controller(it.api, it.clock)) as made:
            await it.create_guarantee(**CPU4)
            assert await it.locked_nodes() == "n1"
            made.configure(
                QueueControllerConfiguration(
                    scheduler_names=SCHEDULERS, arguments=read_queue_arguments({"maxGuaranteed": 0})
                )
            )
            await pass_time(1)
            assert (await it.locked_nodes(), (await it.condition_of(kind="Rejected"))[1]) == ("", "AboveClusterCeiling")


@on_virtual_time
async def test_queue_status_counts_jobs_and_their_usage() -> None:
    async with queue_controller_alone() as it:
        await it.create(kinds.QUEUE, queue_document())
        made = {"minMember": 1, "queue": "q1"}
        await it.create(kinds.POD_GROUP, {"metadata": {"name": "gang", "namespace": "default"}, "spec": made})
        await it.create(kinds.POD, pod("a", "500m", annotations=queue_annotation("q1"), nodeName="n1"))
        await it.create(kinds.POD, pod("b", "500m", annotations=queue_annotation("q1")))
        await pass_time(6)
        status = (await it.read_queue()).status
        assert (status.pending, status.running, status.inqueue, status.completed) == (2, 1, 0, 0)
        assert status.allocated == {"cpu": "500m", "memory": "64Mi", "pods": "1"}


@on_virtual_time
async def test_closed_queue_is_closing_until_its_jobs_are_over() -> None:
    async with queue_controller_alone() as it:
        await it.create_guarantee(**CPU4)
        await it.create(kinds.POD, pod("own", annotations=queue_annotation("q1"), nodeName="n1"))
        await it.client.patch(kinds.QUEUE, "q1", {"status": {"state": "Closed"}}, subresource="status")
        await pass_time(6)
        assert ((await it.read_queue()).status.state, await it.locked_nodes()) == ("Closing", "")
        await it.delete(kinds.POD, "own", grace_seconds=0)
        await pass_time(6)
        assert (await it.read_queue()).status.state == "Closed"


@on_virtual_time
async def test_conditions_of_other_controllers_stay() -> None:
    async with queue_controller_alone() as it:
        await it.create(kinds.QUEUE, queue_document())
        theirs = {"type": "Audited", "status": "True", "reason": "Yes", "message": "by hand"}
        await it.client.patch(
            kinds.QUEUE, "q1", {"status": {"conditions": [theirs], "note": "kept"}}, subresource="status"
        )
        await it.change_queue(guarantee=CPU4)
        await it.change_queue(guarantee=None)
        status = (await it.document(kinds.QUEUE, "q1"))["status"]
        assert ([one["type"] for one in status["conditions"]], status["note"]) == (["Audited"], "kept")


@on_virtual_time
async def test_queue_controller_writes_nothing_while_nothing_changes() -> None:
    async with queue_controller_alone() as it:
        await it.create_guarantee(**CPU4)
        await it.create(kinds.DEPLOYMENT, workload("web", 0))
        await pass_time(12)
        before = (await it.read_queue()).metadata.resource_version
        await pass_time(120)
        assert (await it.read_queue()).metadata.resource_version == before
