"""Plugins end to end: what they plan is carried out by the migrations, and then there is nothing left to do."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model import kinds
from tests.control.descheduler.stage import Scattered, descheduler, running, scattered
from tests.control.stage import check_room
from tests.sim.stage import Document, job, pass_time, ready, template, virtual, workload


def profiles(**plugins: tuple[str, dict[str, Any]]) -> Document:
    """A section with a profile for each plugin, all on an interval."""
    made = []
    for name, (point, arguments) in plugins.items():
        config = [{"name": name, "args": arguments}] if arguments else []
        enabled = {point: {"enabled": [name]}}
        made.append({"name": name.lower(), "interval": "30s", "plugins": enabled, "pluginConfig": config})
    return {"profiles": made}


async def settle(it: Scattered, section: Document, seconds: float = 300) -> dict[str, str | None]:
    """Let a descheduler run; nothing may change any more in ten cycles after that."""
    async with running(descheduler(it, section)):
        await pass_time(seconds)
        places, jobs = await it.places(), await it.jobs()
        await pass_time(300)
        assert (await it.places(), await it.jobs()) == (places, jobs)
    assert {one.status.phase for one in jobs} <= {"Succeed"}, [(one.status.reason, one.status.message) for one in jobs]
    assert all(map(ready, await it.pods()))
    await check_room(it)
    return places


@virtual
async def test_pods_leave_a_tainted_node_for_good() -> None:
    async with scattered() as it:
        taint = {"spec": {"taints": [{"key": "gone", "effect": "NoSchedule"}]}}
        await it.patch(kinds.NODE, "n2", taint)
        places = await settle(it, profiles(RemovePodsViolatingNodeTaints=("deschedule", {})))
        assert "n2" not in places.values() and len(await it.jobs()) == 1


@virtual
async def test_zones_become_even_and_stay_so() -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "db"}},
    }
    async with scattered(pods=0) as it:
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


@virtual
async def test_profiles_that_pull_in_different_directions_come_to_rest() -> None:
    """One packs, the other balances cpu against memory: what was moved lately rests, and rates only fall."""
    async with scattered() as it:
        cool = {"coolDownTime": 120}
        section = profiles(Defragmentation=("balance", cool), NodeResourceBalance=("balance", cool))
        await settle(it, section, 900)


@pytest.mark.parametrize("kind", ["Job", "ReplicaSet"], ids=["of a kind that is left out", "of another kind"])
@virtual
async def test_failed_pods_are_taken_away(kind: str) -> None:
    async with scattered(pods=0) as it:
        await it.create(kinds.JOB, job("bad", run=1, exit_code=1, backoffLimit=0))
        await pass_time(20)
        assert "Failed" in {one.status.phase for one in await it.pods()}
        async with running(descheduler(it, profiles(RemoveFailedPods=("deschedule", {"excludeOwnerKinds": [kind]})))):
            await pass_time(120)
        left = {one.status.phase for one in await it.pods()}
        assert ("Failed" in left) is (kind == "Job"), [
            (one.status.phase, one.status.message) for one in await it.jobs()
        ]
