"""Plugins end to end: what they plan is carried out by the migrations, and then there is nothing left to do."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model import kinds
from restow.model.objects import Document
from tests.control.descheduler.descheduler_fixture import MeteringApi, ScatteredCluster, descheduler, scattered_cluster
from tests.control.scheduler_cluster import assert_nothing_overcommitted
from tests.sim.simulated_cluster import (
    is_pod_ready,
    job,
    on_virtual_time,
    pass_time,
    running_component,
    template,
    workload,
)


def profiles(**plugins: tuple[str, dict[str, Any]]) -> Document:
    """A section with a profile for each plugin, all on an interval."""
    profiles_made = []
    for name, (point, arguments) in plugins.items():
        config = [{"name": name, "args": arguments}] if arguments else []
        enabled = {point: {"enabled": [name]}}
        profiles_made.append({"name": name.lower(), "interval": "30s", "plugins": enabled, "pluginConfig": config})
    return {"profiles": profiles_made}


async def settle(it: ScatteredCluster, section: Document, seconds: float = 300) -> dict[str, str | None]:
    """Let a descheduler run; nothing may change any more in ten cycles after that."""
    async with running_component(descheduler(it, section)):
        await pass_time(seconds)
        places, jobs = await it.nodes_of_pods(), await it.jobs()
        await pass_time(300)
        assert (await it.nodes_of_pods(), await it.jobs()) == (places, jobs)
    assert {one.status.phase for one in jobs} <= {"Succeed"}, [(one.status.reason, one.status.message) for one in jobs]
    assert all(map(is_pod_ready, await it.pods()))
    await assert_nothing_overcommitted(it)
    return places


@on_virtual_time
async def test_node_taints_plugin_moves_pods_off_a_tainted_node_for_good() -> None:
    async with scattered_cluster() as it:
        taint = {"spec": {"taints": [{"key": "gone", "effect": "NoSchedule"}]}}
        await it.patch(kinds.NODE, "n2", taint)
        places = await settle(it, profiles(RemovePodsViolatingNodeTaints=("deschedule", {})))
        assert "n2" not in places.values() and len(await it.jobs()) == 1


@on_virtual_time
async def test_topology_spread_plugin_evens_out_zones_for_good() -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "db"}},
    }
    async with scattered_cluster(pods=0) as it:
        for name in ("n3", "n4", "n5"):
            await it.patch(kinds.NODE, name, {"spec": {"unschedulable": True}})
        await it.create(
            kinds.DEPLOYMENT, workload("db", 4, pods=template("100m", app="db", topologySpreadConstraints=[spread]))
        )
        await pass_time(5)
        for name in ("n3", "n4", "n5"):
            await it.patch(kinds.NODE, name, {"spec": {"unschedulable": None}})
        section = profiles(RemovePodsViolatingTopologySpreadConstraint=("balance", {}))
        places = await settle(it, section)
        on = [node for name, node in places.items() if name.startswith("db")]
        assert max(map(on.count, on)) == 1, on


@on_virtual_time
async def test_plugins_with_different_aims_come_to_rest() -> None:
    """One packs, the other balances cpu against memory: what was moved lately rests, and rates only fall."""
    async with scattered_cluster() as it:
        cool = {"coolDownTime": 120}
        section = profiles(Defragmentation=("balance", cool), NodeResourceBalance=("balance", cool))
        await settle(it, section, 900)


@pytest.mark.parametrize("kind", ["Job", "ReplicaSet"], ids=["of a kind that is left out", "of another kind"])
@on_virtual_time
async def test_failed_pods_are_removed_and_replaced(kind: str) -> None:
    async with scattered_cluster(pods=0) as it:
        await it.create(kinds.JOB, job("bad", run=1, exit_code=1, backoffLimit=0))
        await pass_time(20)
        assert "Failed" in {one.status.phase for one in await it.pods()}
        async with running_component(
            descheduler(it, profiles(RemoveFailedPods=("deschedule", {"excludeOwnerKinds": [kind]})))
        ):
            await pass_time(120)
        left = {one.status.phase for one in await it.pods()}
        assert ("Failed" in left) is (kind == "Job"), [
            (one.status.phase, one.status.message) for one in await it.jobs()
        ]


@on_virtual_time
async def test_load_aware_moves_pods_off_busy_nodes() -> None:
    async with scattered_cluster(pods=0) as it:
        for name in ("n3", "n4", "n5"):
            await it.patch(kinds.NODE, name, {"spec": {"unschedulable": True}})
        await it.create(kinds.DEPLOYMENT, workload("api", 3, pods=template("100m", app="api")))
        await pass_time(5)
        for name in ("n3", "n4", "n5"):
            await it.patch(kinds.NODE, name, {"spec": {"unschedulable": None}})
        arguments = {"thresholds": {"cpu": 40}, "targetThresholds": {"cpu": 60}, "coolDownTime": 60}
        async with running_component(descheduler(it, profiles(LoadAware=("balance", arguments)), api=MeteringApi(it))):
            await pass_time(600)
            places, jobs = await it.nodes_of_pods(), await it.jobs()
            await pass_time(600)
            assert (await it.nodes_of_pods(), await it.jobs()) == (places, jobs)
        assert len(set(places.values())) == len(places), places


@pytest.mark.parametrize(
    ("cores", "moves"),
    [
        pytest.param(0.1, 4, id="idle pods, which are packed onto one node"),
        pytest.param(0.8, 2, id="pods of which a node takes three"),
        pytest.param(2.0, 0, id="busy pods, each of which stays alone"),
    ],
)
@on_virtual_time
async def test_defragmentation_and_load_aware_do_not_undo_each_other(cores: float, moves: int) -> None:
    """Both on an interval, without any cool-down; n1 is nearly full by requests, and each pod uses so many cores."""
    cool = {"thresholds": {"cpu": 40}, "targetThresholds": {"cpu": 60}}
    section = profiles(Defragmentation=("balance", {}), LoadAware=("balance", cool))
    async with scattered_cluster() as it, running_component(descheduler(it, section, api=MeteringApi(it, cores))):
        await pass_time(300)
        jobs = await it.jobs()
        await pass_time(300)
        assert await it.jobs() == jobs
        ways = (
            [(job.metadata.annotations or {})["restow.sh/moved-from"] for job in jobs],
            [job.status.node_name for job in jobs],
        )
        assert len(jobs) == moves, ways
        assert set(ways[0]).isdisjoint(ways[1]), ways


@pytest.mark.parametrize("cores", [0.8, 2.0])
@on_virtual_time
async def test_defragmentation_and_load_aware_do_not_undo_each_other_when_metrics_come_and_go(cores: float) -> None:
    cool = {"thresholds": {"cpu": 40}, "targetThresholds": {"cpu": 60}}
    section = profiles(Defragmentation=("balance", {}), LoadAware=("balance", cool))
    async with scattered_cluster() as it:
        measuring = MeteringApi(it, cores)
        async with running_component(descheduler(it, section, api=measuring)):
            await pass_time(120)
            jobs = await it.jobs()
            for silent in (True, False, True, False):
                measuring.silent = silent
                await pass_time(120)
            assert await it.jobs() == jobs
