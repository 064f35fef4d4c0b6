"""A plan that was saved: carried out wave after wave, continued after an interruption, stopped when it does not fit."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from msgspec.structs import replace

from restow.control.descheduler import AnotherPlanActive, ApplyProgress, ClusterChanged
from restow.model import kinds
from restow.planning.plan import Move, Plan
from tests.control.descheduler.descheduler_fixture import (
    defragmentation_section,
    descheduler,
    plan_in_two_waves,
    plan_runner,
    scattered_cluster,
)
from tests.control.scheduler_cluster import assert_nothing_overcommitted
from tests.sim.simulated_cluster import on_virtual_time, pass_time, pod, running_component


@on_virtual_time
async def test_plan_is_carried_out_wave_after_wave() -> None:
    async with scattered_cluster() as it:
        plan, told = await plan_in_two_waves(it), list[ApplyProgress]()
        done = await plan_runner(it, report_progress=told.append).apply(plan)
        assert (done.succeeded, done.failed) == (4, 0)
        assert await it.occupied_nodes() == {"n1"}
        assert [one.wave for one in told] == sorted(one.wave for one in told)
        assert max(len(one.jobs) for one in told if one.wave == 1) == 2
        await assert_nothing_overcommitted(it)


@pytest.mark.parametrize("seconds", [0.0, 1.0, 5.0, 12.0], ids=lambda seconds: f"after {seconds:g} s")
@on_virtual_time
async def test_interrupted_apply_continues_the_same_plan(seconds: float) -> None:
    async with scattered_cluster() as it:
        plan = await plan_in_two_waves(it)
        begun = asyncio.create_task(plan_runner(it).apply(plan))
        await pass_time(seconds)
        begun.cancel()
        with suppress(asyncio.CancelledError):
            await begun
        done = await plan_runner(it).apply(plan)
        assert done.succeeded == 4
        assert len(await it.jobs()) == 4 and await it.occupied_nodes() == {"n1"}


@on_virtual_time
async def test_finished_plan_has_nothing_left_to_do() -> None:
    async with scattered_cluster() as it:
        plan = await plan_in_two_waves(it)
        await plan_runner(it).apply(plan)
        jobs = await it.jobs()
        assert (await plan_runner(it).apply(plan)).succeeded == 4
        assert await it.jobs() == jobs


@on_virtual_time
async def test_strict_apply_begins_nothing_on_a_changed_cluster() -> None:
    async with scattered_cluster() as it:
        plan = await plan_in_two_waves(it)
        await it.create(kinds.POD, pod("guest", "600m", nodeName="n1"))
        await pass_time(1)
        with pytest.raises(
            ClusterChanged, match=r"the cluster has changed, wave 1 does not begin: move 3 of .* cannot go to n1"
        ):
            await plan_runner(it, strict=True).apply(plan)
        assert await it.jobs() == []


@on_virtual_time
async def test_move_that_does_not_fit_any_more_is_dropped_and_reported() -> None:
    async with scattered_cluster() as it:
        plan = await plan_in_two_waves(it)
        await it.create(kinds.POD, pod("guest", "600m", nodeName="n1"))
        await pass_time(1)
        done = await plan_runner(it).apply(plan)
        assert (done.succeeded, done.failed) == (2, 0)
        assert [one.split(" of ")[0] for one in done.repairs] == ["move 3", "move 4"]
        assert all("is left out: cannot go to n1: insufficient cpu" in one for one in done.repairs)
        await assert_nothing_overcommitted(it)


@on_virtual_time
async def test_apply_begins_nothing_if_no_move_is_possible() -> None:
    async with scattered_cluster() as it:
        plan = await plan_in_two_waves(it)
        await it.create(kinds.POD, pod("guest", "1", nodeName="n1"))
        await pass_time(1)
        with pytest.raises(ClusterChanged, match=r"wave 1 does not begin: move 1 of .* is left out: cannot go to n1"):
            await plan_runner(it).apply(plan)
        assert await it.jobs() == []


@on_virtual_time
async def test_strict_apply_stops_at_a_change_between_two_waves() -> None:
    async with scattered_cluster() as it:
        plan = await plan_in_two_waves(it)
        begun = asyncio.create_task(plan_runner(it, strict=True).apply(plan))
        await pass_time(1)
        gone = plan.moves[3]
        await it.delete(kinds.POD, gone.pod)
        with pytest.raises(ClusterChanged, match=f"wave 2 does not begin: move 4 of default/{gone.pod} may not move"):
            await begun
        assert len(await it.jobs()) == 2


@on_virtual_time
async def test_pod_deleted_between_two_waves_does_not_stop_the_others() -> None:
    async with scattered_cluster() as it:
        plan = await plan_in_two_waves(it)
        begun = asyncio.create_task(plan_runner(it).apply(plan))
        await pass_time(1)
        await it.delete(kinds.POD, plan.moves[3].pod)
        done = await begun
        assert (done.succeeded, sorted(done.jobs)) == (3, [1, 2, 3])
        assert [one.startswith(f"move 4 of default/{plan.moves[3].pod} is left out") for one in done.repairs] == [True]


@on_virtual_time
async def test_plan_with_an_objective_gets_another_target() -> None:
    """n1 has no room any more for the last of three pods; n2, which is not to be emptied, has."""
    async with scattered_cluster() as it:
        plan = replace(await plan_in_two_waves(it), objective="free-nodes")
        moves = tuple(move for move in plan.moves if move.source != "n2")
        await it.create(kinds.POD, pod("guest", "600m", nodeName="n1"))
        await pass_time(1)
        done = await plan_runner(it).apply(replace(plan, moves=moves))
        assert done.succeeded == 3 and await it.occupied_nodes() == {"n1", "n2"}
        assert [" goes to n2 instead of n1: " in one for one in done.repairs] == [True]


@on_virtual_time
async def test_second_move_of_a_pod_moves_its_successor() -> None:
    async with scattered_cluster() as it:
        first = (await plan_in_two_waves(it)).moves[0]
        away = next(name for name in ("n2", "n3") if name != first.source)
        stop = replace(first, target=away)
        then = replace(first, order=2, wave=2, source=away)
        done = await plan_runner(it).apply(Plan(strategy="by-hand", moves=(stop, then)))
        assert done.succeeded == 2
        [second] = [job for job in await it.jobs() if job.metadata.name == done.jobs[2].metadata.name]
        assert second.spec.pod_ref.name != first.pod and second.status.node_name == "n1"


@on_virtual_time
async def test_plan_without_uids_moves_the_pods_of_these_names() -> None:
    async with scattered_cluster() as it:
        plan = await plan_in_two_waves(it)
        bare: tuple[Move, ...] = tuple(replace(move, uid="") for move in plan.moves)
        assert (await plan_runner(it).apply(replace(plan, moves=bare))).succeeded == 4


@on_virtual_time
async def test_apply_is_refused_while_another_plan_is_under_way() -> None:
    async with scattered_cluster(migrating=False) as it:
        plan = await plan_in_two_waves(it)
        async with running_component(descheduler(it, defragmentation_section())) as controller:
            await controller.trigger()
        with pytest.raises(AnotherPlanActive, match="is under way: 4 of its 4 jobs have not ended"):
            await plan_runner(it).apply(plan)
