"""A dry run says what would come of a move: where the seat would be, by the scheduler's own filters, or why nowhere."""

from __future__ import annotations

from random import Random

import pytest

from restow.control.migrations import MigrationConfiguration, MigrationController
from restow.model import kinds
from tests.control.attacks.test_before_the_eviction import Broken
from tests.control.migrations.migration_cluster import (
    cluster_with_scheduler,
    migration_arguments,
    pod_stays,
    running_controller,
)
from tests.sim.simulated_cluster import default_profile, on_virtual_time, pass_time, pod, running_component

NOTHING = "dry run, nothing was changed: reservation default/restow-{uid} would be created, "
SEATED = NOTHING + "on node {node} as of now; then pod default/{pod} would be evicted"
NOWHERE = NOTHING + "and no node fits it now: {why}"
FULL = "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) excluded by name, 1 node(s) were unschedulable."
ELSEWHERE = "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) other than the one asked for by name."


@pytest.mark.parametrize(
    ("target", "filled", "cordoned", "expected"),
    [
        (None, (), (), SEATED),
        ("n3", (), (), SEATED),
        (None, ("n2",), (), SEATED),
        (None, ("n2",), ("n3",), NOWHERE.replace("{why}", FULL)),
        ("n2", ("n2",), (), NOWHERE.replace("{why}", ELSEWHERE)),
    ],
    ids=["anywhere", "where it is to go", "one is full", "nowhere", "not where it is to go"],
)
@on_virtual_time
async def test_a_dry_run_reports_the_node_of_the_seat(
    target: str | None, filled: tuple[str, ...], cordoned: tuple[str, ...], expected: str
) -> None:
    async with cluster_with_scheduler() as it, running_controller(it.api, it.clock, dryRun=True):
        for name in ("n2", "n3"):
            await it.patch(kinds.NODE, name, {"spec": {"unschedulable": True}})
        [old] = await it.start(1)
        for name in {"n2", "n3"} - {*cordoned}:
            await it.patch(kinds.NODE, name, {"spec": {"unschedulable": None}})
        for name in filled:
            await it.create(kinds.POD, pod("filler", "3800m", nodeName=name))
        await pass_time(2)
        await it.move(old, annotations={"restow.sh/target-node": target} if target else None)
        await pass_time(10)
        node = target or ("n3" if filled else "n2")
        told = expected.format(uid=(await it.job()).metadata.uid, node=node, pod=old.metadata.name)
        assert await it.told() == ("Aborted", "DryRun", told)
        assert await pod_stays(it, old) and await it.reservations() == []


@on_virtual_time
async def test_a_dry_run_reports_a_failing_plugin() -> None:
    async with cluster_with_scheduler() as it:
        section = migration_arguments(dryRun=True)
        async with running_component(
            MigrationController(it.api, it.clock, Random(1), MigrationConfiguration(section, default_profile(Broken())))
        ):
            [old] = await it.start(1)
            await it.move(old)
            await pass_time(10)
            why = "Broken: RuntimeError: no idea"
            assert await it.told() == (
                "Aborted",
                "DryRun",
                NOWHERE.format(uid=(await it.job()).metadata.uid, why=why),
            )
