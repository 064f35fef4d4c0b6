"""Profiles as they run: a scattered cluster is packed, once, and nothing goes to and fro."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from restow.control.descheduler import Descheduler, DeschedulerConfiguration, RunRefused
from restow.model import kinds
from restow.planning.descheduling.policy_section import read_policy
from restow.planning.descheduling.registry import descheduler_plugins
from restow.ports import Clock, Request, Response
from tests.control.descheduler.descheduler_fixture import (
    ScatteredCluster,
    cluster_with_descheduler,
    defragmentation_section,
    descheduler,
    scattered_cluster,
)
from tests.control.migrations.migration_cluster import migration_arguments
from tests.control.scheduler_cluster import assert_nothing_overcommitted, events_with_reason
from tests.sim.simulated_cluster import default_profile, is_pod_ready, on_virtual_time, pass_time, running_component

T = TypeVar("T")


@on_virtual_time
async def test_interval_profile_packs_the_cluster_and_keeps_it_packed_over_ten_cycles() -> None:
    async with cluster_with_descheduler(defragmentation_section(interval="60s")) as it:
        assert len(await it.occupied_nodes()) == 5
        await pass_time(300)
        packed = await it.nodes_of_pods()
        assert set(packed.values()) == {"n1"}
        jobs = await it.jobs()
        assert [job.status.phase for job in jobs] == ["Succeed"] * 4
        await pass_time(600)
        assert (await it.nodes_of_pods(), await it.jobs()) == (packed, jobs)
        assert all(map(is_pod_ready, await it.pods()))
        await assert_nothing_overcommitted(it)


@on_virtual_time
async def test_every_move_has_a_job_that_names_its_plan() -> None:
    async with cluster_with_descheduler(defragmentation_section(interval="60s")) as it:
        before = await it.nodes_of_pods()
        await pass_time(1)
        jobs = await it.jobs()
        notes = [job.metadata.annotations or {} for job in jobs]
        assert len({one["restow.sh/plan"] for one in notes}) == 1
        assert {one["restow.sh/target-node"] for one in notes} == {"n1"}
        assert sorted(one["restow.sh/migration-priority"] for one in notes) == ["0", "1", "2", "3"]
        for job, one in zip(jobs, notes, strict=True):
            assert one["restow.sh/moved-from"] == before[job.spec.pod_ref.name or ""]
            assert (one["restow.sh/wave"], one["restow.sh/profile"]) == ("1", "pack")
        await pass_time(60)
        planned = await events_with_reason(it, "MovePlanned")
        assert len(planned) == 4 and "to n1 (Defragmentation)" in planned[0][1]


@pytest.mark.parametrize(
    ("when", "jobs"),
    [
        pytest.param({}, 0, id="neither: nothing happens by itself"),
        pytest.param({"cron": "0 0 29 2 *"}, 0, id="cron: not today"),
        pytest.param({"cron": "0 0 29 2 *", "interval": "60s"}, 4, id="both: the interval wins"),
    ],
)
@on_virtual_time
async def test_profile_runs_when_its_trigger_says(when: dict[str, str], jobs: int) -> None:
    async with cluster_with_descheduler(defragmentation_section(**when)) as it:
        await pass_time(300)
        assert len(await it.jobs()) == jobs


@on_virtual_time
async def test_cron_profile_runs_when_the_expression_says() -> None:
    async with cluster_with_descheduler(defragmentation_section(cron="*/10 * * * *")) as it:
        now = it.clock.now()
        await pass_time(590 - now % 600)
        assert await it.jobs() == []
        await pass_time(20)
        assert len(await it.jobs()) == 4


class Jumping:
    """A clock that can be set."""

    def __init__(self, clock: Clock) -> None:
        self.ahead = 0.0
        self._clock = clock

    def now(self) -> float:
        return self._clock.now() + self.ahead


YEAR = 366 * 86400.0


@pytest.mark.parametrize(
    ("cron", "before", "after"),
    [
        pytest.param("0 0 1 1 *", 0.0, YEAR, id="it was behind"),
        pytest.param("* * 1 1 *", YEAR, 0.0, id="it was ahead"),
    ],
)
@on_virtual_time
async def test_schedule_follows_the_clock_after_the_clock_was_set(cron: str, before: float, after: float) -> None:
    async with scattered_cluster() as it:
        clock = Jumping(it.clock)
        clock.ahead = before
        controller = Descheduler(
            it.api,
            clock,
            random.Random(1),
            DeschedulerConfiguration(
                policy=read_policy(defragmentation_section(cron=cron), descheduler_plugins()),
                scheduler=default_profile(),
                migration=migration_arguments(),
            ),
        )
        async with running_component(controller):
            await pass_time(30)
            assert await it.jobs() == []
            clock.ahead = after
            await pass_time(190)
            assert len(await it.jobs()) == 4


@on_virtual_time
async def test_run_is_refused_while_a_plan_is_under_way() -> None:
    async with (
        scattered_cluster(migrating=False) as it,
        running_component(descheduler(it, defragmentation_section())) as controller,
    ):
        run = await controller.trigger()
        assert len(run.jobs) == 4
        with pytest.raises(RunRefused, match=f"plan {run.plan} is under way: 4 of its 4 jobs have not ended"):
            await controller.trigger("pack")
        assert len(await it.jobs()) == 4


@on_virtual_time
async def test_dry_run_returns_the_plan_and_creates_no_jobs() -> None:
    async with scattered_cluster() as it, running_component(descheduler(it, defragmentation_section())) as controller:
        run = await controller.trigger(dry_run=True)
        assert len(run.outcome.plan.moves) == 4 and run.jobs == ()
        assert await it.jobs() == []


@on_virtual_time
async def test_stop_switch_blocks_runs_until_it_is_off() -> None:
    async with scattered_cluster() as it:
        await it.stop()
        async with running_component(descheduler(it, defragmentation_section(interval="60s"))) as controller:
            with pytest.raises(RunRefused, match="evictions are stopped: maintenance; run restow resume to continue"):
                await controller.trigger()
            await pass_time(200)
            assert await it.jobs() == []
            await it.go()
            await pass_time(30)
            assert len(await it.jobs()) == 4


async def _slowly(work: Callable[[], T]) -> T:
    """Planning takes ten seconds."""
    await asyncio.sleep(10)
    return work()


async def _stop(it: ScatteredCluster) -> None:
    await it.stop()


async def _begin(it: ScatteredCluster) -> None:
    """Somebody begins a plan by hand."""
    first = next(one for one in await it.pods() if one.metadata.name.startswith("web"))
    await it.move(first, annotations={"restow.sh/plan": "by-hand", "restow.sh/wave": "1"})


@pytest.mark.parametrize(
    ("happens", "told"),
    [
        pytest.param(_stop, "evictions are stopped: maintenance", id="the stop switch is turned"),
        pytest.param(_begin, "plan by-hand is under way: 1 of its 1 job has not ended", id="another plan begins"),
    ],
)
@on_virtual_time
async def test_run_is_refused_if_it_becomes_blocked_while_planning(
    happens: Callable[[ScatteredCluster], Awaitable[None]], told: str
) -> None:
    async with (
        scattered_cluster(migrating=False) as it,
        running_component(descheduler(it, defragmentation_section(), executor=_slowly)) as controller,
    ):
        asked = asyncio.create_task(controller.trigger())
        await pass_time(5)
        await happens(it)
        there = len(await it.jobs())
        with pytest.raises(RunRefused, match=told):
            await asked
        assert len(await it.jobs()) == there


@on_virtual_time
async def test_one_of_many_concurrent_triggers_runs() -> None:
    async with (
        scattered_cluster(migrating=False) as it,
        running_component(descheduler(it, defragmentation_section(), executor=_slowly)) as controller,
    ):
        asked = [asyncio.create_task(controller.trigger(dry_run=dry)) for dry in (True, False, False, True, False)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [isinstance(one, RunRefused) for one in found] == [False, False, True, False, True], found
        assert len(await it.jobs()) == 4


@on_virtual_time
async def test_triggered_run_goes_on_after_its_caller_is_cancelled() -> None:
    async with (
        scattered_cluster(migrating=False) as it,
        running_component(descheduler(it, defragmentation_section(), executor=_slowly)) as controller,
    ):
        asked = asyncio.create_task(controller.trigger())
        await pass_time(1)
        asked.cancel()
        await pass_time(20)
        assert asked.cancelled() and len(await it.jobs()) == 4


@on_virtual_time
async def test_unknown_profile_error_names_the_existing_profiles() -> None:
    async with scattered_cluster() as it, running_component(descheduler(it, defragmentation_section())) as controller:
        with pytest.raises(LookupError, match="no profile is called 'spread'; there are pack"):
            await controller.trigger("spread")


@pytest.mark.parametrize(
    ("limits", "moves"),
    [
        pytest.param({"maxNoOfPodsToEvictTotal": 3}, 3, id="in all"),
        pytest.param({"maxNoOfPodsToEvictPerNamespace": 2}, 2, id="of a namespace"),
        pytest.param({"maxNoOfPodsToEvictPerNode": 1}, 4, id="of a node"),
        pytest.param({"nodeSelector": "kubernetes.io/hostname in (n2, n3)"}, 2, id="of selected nodes"),
    ],
)
@on_virtual_time
async def test_cycle_keeps_its_limits(limits: dict[str, int], moves: int) -> None:
    async with (
        scattered_cluster() as it,
        running_component(descheduler(it, defragmentation_section() | limits)) as controller,
    ):
        assert len((await controller.trigger(dry_run=True)).outcome.plan.moves) == moves


@on_virtual_time
async def test_pods_with_a_job_of_another_plan_are_left_alone() -> None:
    async with (
        scattered_cluster(migrating=False) as it,
        running_component(descheduler(it, defragmentation_section())) as controller,
    ):
        mine = next(one for one in await it.pods() if one.metadata.name.startswith("web"))
        await it.move(mine, "by-hand")
        await pass_time(1)
        plan = (await controller.trigger(dry_run=True)).outcome.plan
        assert len(plan.moves) == 3
        assert "job by-hand moves it already" in [one.reason for one in plan.refusals]


@on_virtual_time
async def test_nodes_rest_after_a_migration_for_the_cool_down() -> None:
    args = {"coolDownTime": 600, "protectionThresholds": {"cpu": 100}}
    resting = {"pluginConfig": [{"name": "Defragmentation", "args": args}]}
    async with cluster_with_descheduler(defragmentation_section(interval="60s", **resting)) as it:
        await pass_time(120)
        assert len(await it.jobs()) == 4
        await it.client.patch(kinds.DEPLOYMENT, "web", {"spec": {"replicas": 8}}, "default")
        await pass_time(300)
        assert len(await it.jobs()) == 4
        await pass_time(600)
        assert len(await it.jobs()) > 4


class Breaking:
    """An Api at which the client crashes with the n-th creation of a job."""

    def __init__(self, it: ScatteredCluster, number: int) -> None:
        self.watch = it.api.watch
        self._api = it.api
        self._left = number

    async def call(self, request: Request) -> Response:
        response = await self._api.call(request)
        if request.verb == "create" and request.resource.plural == "podmigrationjobs":
            self._left -= 1
            if not self._left:
                raise RuntimeError("crashed after the write")
        return response


@pytest.mark.parametrize("number", [1, 2, 4], ids=lambda number: f"after write {number}")
@on_virtual_time
async def test_restart_after_a_crash_never_creates_two_jobs_for_a_pod(number: int) -> None:
    async with scattered_cluster() as it:
        async with running_component(
            descheduler(it, defragmentation_section(), api=Breaking(it, number))
        ) as controller:
            with pytest.raises(RuntimeError):
                await controller.trigger()
        async with running_component(descheduler(it, defragmentation_section(interval="30s"), seed=2)):
            await pass_time(300)
        assert await it.occupied_nodes() == {"n1"}
        uids = [job.spec.pod_ref.uid for job in await it.jobs()]
        assert len(uids) == len(set(uids)) == 4
        await assert_nothing_overcommitted(it)
