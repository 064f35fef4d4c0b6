"""The scheduler behind a faulty API server, and after a crash at any moment."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.client.verbs import Client
from restow.model import kinds
from restow.ports import Api
from restow.sim.faults import FaultPlan, FaultyApi, run_until_crash
from restow.sim.loop import run_virtual
from tests.control.scheduler_cluster import (
    OvercommitAuditApi,
    assert_nothing_overcommitted,
    events_with_reason,
    gang_member,
    nodes_by_pod,
    pod_group,
    scheduled_cluster,
    unscheduled_cluster,
)
from tests.control.volume_objects import POD_VOLUMES, STORAGE_CLASS, VOLUME_CLAIM
from tests.sim.fault_plans import PHASES, plans
from tests.sim.simulated_cluster import (
    SimulatedCluster,
    is_pod_ready,
    node,
    on_virtual_time,
    pass_time,
    pod,
    running_scheduler,
    workload,
)


async def _everything(it: SimulatedCluster) -> None:
    """A bit of everything: a gang, a volume, a workload, and a pod that fits only where a node comes later."""
    await it.create(kinds.STORAGE_CLASS, STORAGE_CLASS)
    await it.create(kinds.PERSISTENT_VOLUME_CLAIM, VOLUME_CLAIM)
    await it.create(kinds.POD_GROUP, pod_group("train", 2))
    await it.create(kinds.POD, pod("db", "1", volumes=POD_VOLUMES))
    for name in ("w1", "w2"):
        await it.create(kinds.POD, gang_member(name, "train", "2"))
    await it.create(kinds.REPLICA_SET, workload("shop", 2))
    await it.create(kinds.POD, pod("big", "6"))


async def _is_settled(it: SimulatedCluster) -> None:
    pods = await it.pods()
    assert {one.metadata.name for one in pods} >= {"db", "w1", "w2", "big"}
    assert len(pods) == 6
    assert all(map(is_pod_ready, pods)), await nodes_by_pod(it)
    assert (await it.document(kinds.POD_GROUP, "train"))["status"]["phase"] == "Running"
    await assert_nothing_overcommitted(it)


# --- dying ------------------------------------------------------------------------------------------------------------


async def _live(plan: FaultPlan) -> FaultyApi:
    """One life of the scheduler, perhaps cut short; then its successor has time to put everything right."""
    async with unscheduled_cluster(nodes=2) as it:
        mortal = FaultyApi(it.api, random.Random(3), plan)

        async def first() -> None:
            async with running_scheduler(mortal, it.clock):
                await asyncio.sleep(20)

        await _everything(it)
        await run_until_crash(mortal, first())
        await it.create(kinds.NODE, node("large", cpu="8"))
        async with running_scheduler(it.api, it.clock, seed=2):
            await asyncio.sleep(30)
            await _is_settled(it)
    return mortal


def test_pods_are_bound_after_a_crash_of_the_scheduler_after_any_write() -> None:
    whole = run_virtual(_live(FaultPlan()))
    names = whole.writes.names
    assert {name.split()[0] for name in names} == {"bind", "patch", "create"}
    assert sum(name.startswith("bind") for name in names) == 5
    for name in names:
        died = run_virtual(_live(FaultPlan(crash_after=name)))
        assert died.crashed.is_set(), name


# --- faults of every kind ---------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32), plans)
@settings(max_examples=15, deadline=None, phases=PHASES)
def test_pods_are_bound_behind_faults_of_every_kind(seed: int, plan: FaultPlan) -> None:
    async def story() -> None:
        async with scheduled_cluster(
            nodes=2, seed=seed, around=lambda api: FaultyApi(api, random.Random(seed), plan)
        ) as it:
            await _everything(it)
            # Long enough for the gang under many faults: else it takes the room of the large node from the large pod.
            await pass_time(120)
            await assert_nothing_overcommitted(it)
            await it.create(kinds.NODE, node("large", cpu="8"))
            await pass_time(900)
            await _is_settled(it)
            assert len(await events_with_reason(it, "Scheduled", "Pod")) <= 6

    run_virtual(story())


@pytest.mark.parametrize("seed", range(6))
def test_no_node_is_overcommitted_while_pods_come_and_go(seed: int) -> None:
    async def story() -> None:
        rng = random.Random(seed)
        plan = FaultPlan(dropped=0.05, repeated=0.1, late=0.1, conflict=0.1, busy=0.1, refused=0.1, unknown=0.2)
        async with scheduled_cluster(nodes=3, seed=seed, around=lambda api: FaultyApi(api, rng, plan)) as it:
            for step in range(40):
                await it.create(kinds.POD, pod(f"p{step}", rng.choice(("500m", "1", "2", "3"))))
                victims = [one for one in await it.pods() if one.spec.node_name and not one.metadata.deletion_timestamp]
                if victims and rng.random() < 0.6:
                    await it.delete(kinds.POD, rng.choice(victims).metadata.name)
                await pass_time(rng.uniform(0, 3))
                await assert_nothing_overcommitted(it)

    run_virtual(story())


@pytest.mark.parametrize("seed", range(4))
def test_pods_are_bound_while_foreign_pods_keep_taking_room(seed: int) -> None:
    """Between deciding and binding, too: what is seen to be taken is not given away once more."""

    async def story() -> None:
        rng = random.Random(seed)
        plan = FaultPlan(conflict=0.1, busy=0.1, refused=0.1, unknown=0.2, slow=0.2, delay=1.0)
        audits: list[OvercommitAuditApi] = []

        def around(api: Api) -> Api:
            audits.append(OvercommitAuditApi(api))
            return FaultyApi(audits[0], rng, plan)

        async with scheduled_cluster(nodes=3, seed=seed, around=around) as it:
            await it.create(kinds.REPLICA_SET, workload("shop", 6))
            for step in range(20):
                await it.create(kinds.POD, pod(f"ours{step}", "500m"))
                await pass_time(rng.uniform(0, 0.5))
                where = rng.choice(("n1", "n2", "n3"))
                await it.create(kinds.POD, pod(f"theirs{step}", "300m", schedulerName="other", nodeName=where))
                await pass_time(rng.uniform(0, 0.5))
            for step in range(20):
                await it.delete(kinds.POD, f"theirs{step}", grace_seconds=0)
            await pass_time(120)
            assert [name for name, where in (await nodes_by_pod(it)).items() if where is None] == []
            assert audits[0].faults == []

    run_virtual(story())


@pytest.mark.parametrize("seed", range(3))
def test_gangs_become_whole_despite_crashes_faults_and_foreign_pods(seed: int) -> None:
    """Three that fill the cluster, a scheduler that is replaced now and then, pods of others that come and go."""

    async def story() -> None:
        rng = random.Random(seed)
        plan = FaultPlan(conflict=0.1, busy=0.1, refused=0.2, unknown=0.2, slow=0.2, delay=1.0)
        async with unscheduled_cluster(nodes=3, seed=seed) as it:
            for gang in ("a", "b", "c"):
                await it.create(kinds.POD_GROUP, pod_group(gang, 4))
                for number in range(4):
                    await it.create(kinds.POD, gang_member(f"{gang}{number}", gang, "1"))
            for life in range(6):
                async with running_scheduler(FaultyApi(it.api, rng, plan), it.clock, seed=life):
                    for step in range(3):
                        name, where = f"theirs{life}-{step}", rng.choice(("n1", "n2", "n3"))
                        await it.create(kinds.POD, pod(name, "1", schedulerName="other", nodeName=where))
                        await it.create(kinds.POD, pod(f"rival{life}-{step}", "500m"))
                        await pass_time(rng.uniform(0, 2))
                        await it.delete(kinds.POD, name, grace_seconds=0)
            async with running_scheduler(it.api, it.clock, seed=9):
                await pass_time(30)
                for one in await it.pods():
                    if one.metadata.name.startswith("rival"):
                        await it.delete(kinds.POD, one.metadata.name, grace_seconds=0)
                await pass_time(120)
                assert [name for name, where in (await nodes_by_pod(it)).items() if where is None] == []

    run_virtual(story())


# --- taking over ------------------------------------------------------------------------------------------------------


@on_virtual_time
async def test_new_leader_completes_a_broken_gang_before_other_pods() -> None:
    async with unscheduled_cluster(nodes=1) as it:
        await it.create(kinds.POD_GROUP, pod_group("train", 2))
        for name in ("w1", "w2"):
            await it.create(kinds.POD, gang_member(name, "train", "2"))
        uid = (await it.document(kinds.POD, "w1"))["metadata"]["uid"]
        await Client(it.api).bind("default", "w1", uid=uid, node="n1")
        await it.create(kinds.PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 1000})
        await it.create(kinds.POD, pod("rival", "2", priorityClassName="high"))
        async with running_scheduler(it.api, it.clock):
            await pass_time(10)
            assert await nodes_by_pod(it) == {"w1": "n1", "w2": "n1", "rival": None}
