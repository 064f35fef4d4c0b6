"""Turns: in a cluster one run is under way, or one plan applied, whichever processes want to."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from itertools import count
from typing import Any, TypeVar

import pytest

from restow.control.descheduler import AnotherPlanActive, ApplyProgress, Descheduler, DeschedulerSettings, RunRefused
from restow.model import kinds
from restow.model.wire import WireError
from restow.ports import Api, ApiError, OutcomeUnknown, Request, Response
from restow.sim.faults import FaultPlan, FaultyApi
from restow.sim.loop import run_virtual
from tests.control.descheduler.descheduler_fixture import (
    ScatteredCluster,
    defragmentation_section,
    descheduler,
    plan_in_two_waves,
    plan_runner,
    scattered_cluster,
)
from tests.control.scheduler_cluster import FixedErrorApi
from tests.sim.simulated_cluster import on_virtual_time, pass_time, running_component

T = TypeVar("T")
LAPTOP = DeschedulerSettings(identity="restow deschedule on laptop")
UNDER_WAY = r"a run is under way: restow deschedule on laptop \(\w+\) has the Lease restow-system/restow-cycle"


async def _briefly(work: Callable[[], T]) -> T:
    await asyncio.sleep(3)
    return work()


async def _slowly(work: Callable[[], T]) -> T:
    """Planning takes half a minute."""
    await asyncio.sleep(30)
    return work()


def command(it: ScatteredCluster, seed: int, **more: Any) -> Descheduler:
    """What `restow deschedule --now` is, in a process of its own."""
    return descheduler(it, defragmentation_section(), seed=seed, settings=LAPTOP, **more)


class Severed:
    """An Api that does not answer while it is cut off, or not for one kind; its watches say nothing of jobs
    if they are to be late, and it takes so many seconds to create one."""

    def __init__(self, api: Api, *, kind: str = "", late: bool = False, slow: float = 0.0) -> None:
        self.cut = False
        self._kind = kind
        self._slow = slow
        self._api = api
        self._late = late

    async def call(self, request: Request) -> Response:
        if self.cut and self._kind in ("", request.resource.plural):
            raise OutcomeUnknown.because(503, "ServiceUnavailable", "cut off")
        if request.verb == "create" and request.resource.plural == "podmigrationjobs":
            await asyncio.sleep(self._slow)
        return await self._api.call(request)

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        if self._late and request.resource.plural == "podmigrationjobs":
            await asyncio.Event().wait()
        async for event in self._api.watch(request):
            yield event


@on_virtual_time
async def test_controller_run_is_refused_while_a_command_plans() -> None:
    async with (
        scattered_cluster(migrating=False) as it,
        running_component(descheduler(it, defragmentation_section())) as controller,
    ):
        asked = asyncio.create_task(command(it, 2, executor=_slowly).run_once())
        await pass_time(10)
        with pytest.raises(RunRefused, match=UNDER_WAY):
            await controller.trigger()
        assert len((await controller.trigger(dry_run=True)).outcome.plan.moves) == 4
        assert len((await asked).jobs) == len(await it.jobs()) == 4


@on_virtual_time
async def test_command_run_is_refused_while_the_controller_plans() -> None:
    async with (
        scattered_cluster(migrating=False) as it,
        running_component(descheduler(it, defragmentation_section(), executor=_slowly)) as controller,
    ):
        asked = asyncio.create_task(controller.trigger())
        await pass_time(10)
        with pytest.raises(RunRefused, match=r"a run is under way: a descheduler \(\w+\) has the Lease"):
            await command(it, 2).run_once()
        assert len((await asked).jobs) == len(await it.jobs()) == 4


@pytest.mark.parametrize("apart", [0.0, 0.1, 2.0, 29.0], ids=lambda seconds: f"{seconds:g} s apart")
@on_virtual_time
async def test_one_of_two_concurrent_commands_runs(apart: float) -> None:
    async with scattered_cluster(migrating=False) as it:
        first = asyncio.create_task(command(it, 2, executor=_slowly).run_once())
        await pass_time(apart)
        second = asyncio.create_task(command(it, 3, executor=_slowly).run_once())
        found = await asyncio.gather(first, second, return_exceptions=True)
        assert sorted(isinstance(one, RunRefused) for one in found) == [False, True], found
        assert len(await it.jobs()) == 4


@on_virtual_time
async def test_jobs_of_the_previous_lease_holder_are_seen_although_the_watch_is_late() -> None:
    async with scattered_cluster(migrating=False) as it:
        late = descheduler(it, defragmentation_section(), api=Severed(it.api, late=True), seed=2)
        async with running_component(late):
            await command(it, 3).run_once()
            with pytest.raises(RunRefused, match="is under way: 4 of its 4 jobs have not ended"):
                await late.trigger()
        assert len(await it.jobs()) == 4


@on_virtual_time
async def test_dead_lease_holder_blocks_others_for_the_lease_duration_only() -> None:
    async with scattered_cluster() as it:
        dying = Severed(it.api)
        asked = asyncio.create_task(command(it, 2, api=dying, executor=_slowly).run_once())
        await pass_time(10)
        dying.cut = True
        asked.cancel()
        await asyncio.wait((asked,))
        began = asyncio.get_running_loop().time()
        assert len((await command(it, 3).run_once()).jobs) == 4
        assert 10 < asyncio.get_running_loop().time() - began < 25


@on_virtual_time
async def test_planner_that_is_cut_off_while_it_plans_creates_nothing() -> None:
    async with scattered_cluster(migrating=False) as it:
        severed = Severed(it.api)
        asked = asyncio.create_task(command(it, 2, api=severed, executor=_slowly).run_once())
        await pass_time(10)
        severed.cut = True
        with pytest.raises(RunRefused, match="the Lease restow-system/restow-cycle was lost"):
            await asked
        assert await it.jobs() == []


@on_virtual_time
async def test_planner_that_may_lose_the_lease_creates_nothing() -> None:
    """The Lease was not renewed for six seconds: it is not lost yet, but could be before a job is there."""
    async with scattered_cluster(migrating=False) as it:
        severed = Severed(it.api, kind="leases")

        async def plan(work: Callable[[], T]) -> T:
            severed.cut = True
            await asyncio.sleep(8)
            return work()

        with pytest.raises(RunRefused, match="the Lease restow-system/restow-cycle was lost"):
            await command(it, 2, api=severed, executor=plan).run_once()
        assert await it.jobs() == []


@on_virtual_time
async def test_unreadable_job_does_not_block_the_lease() -> None:
    """With a CRD of another project, which accepts any content."""
    async with scattered_cluster(migrating=False) as it:
        await it.allow_any_field(kinds.POD_MIGRATION_JOB, "spec")
        with suppress(WireError):  # it is created, but the answer cannot be read either
            await it.create(kinds.POD_MIGRATION_JOB, {"metadata": {"name": "odd"}, "spec": {"podRef": "a pod"}})
        assert len((await command(it, 2).run_once()).jobs) == 4


@on_virtual_time
async def test_scheduled_run_waits_for_the_lease_and_is_not_skipped() -> None:
    async with scattered_cluster() as it, running_component(descheduler(it, defragmentation_section(cron="0 * * * *"))):
        await pass_time(3590 - it.clock.now() % 3600)
        asked = asyncio.create_task(command(it, 2, executor=_slowly).run_once())
        await pass_time(15)
        asked.cancel()
        await pass_time(30)
        assert len(await it.jobs()) == 4


@pytest.mark.parametrize(
    ("seconds", "jobs"), [(100, 4), (1000, 0)], ids=["for a while", "for too long to be still on time"]
)
@on_virtual_time
async def test_scheduled_run_is_retried_while_the_api_server_is_away(seconds: float, jobs: int) -> None:
    async with scattered_cluster() as it:
        severed = Severed(it.api)
        async with running_component(descheduler(it, defragmentation_section(cron="0 * * * *"), api=severed)):
            await pass_time(3590 - it.clock.now() % 3600)
            severed.cut = True
            await pass_time(seconds)
            severed.cut = False
            await pass_time(200)
            assert len(await it.jobs()) == jobs


@on_virtual_time
async def test_no_cycle_runs_between_two_waves_of_an_applied_plan() -> None:
    async with (
        scattered_cluster() as it,
        running_component(descheduler(it, defragmentation_section(interval="1s"))) as controller,
    ):
        await it.stop()
        plan = await plan_in_two_waves(it)
        await pass_time(10)
        applied = asyncio.create_task(
            plan_runner(it, settings=DeschedulerSettings(identity="restow apply on laptop")).apply(plan)
        )
        await pass_time(10)
        await it.go()
        with pytest.raises(RunRefused, match="is under way"):
            await controller.trigger()
        assert (await applied).succeeded == 4
        assert {(job.metadata.annotations or {}).get("restow.sh/profile") for job in await it.jobs()} == {None}


@on_virtual_time
async def test_apply_is_refused_while_a_run_is_under_way() -> None:
    async with scattered_cluster(migrating=False) as it:
        plan = await plan_in_two_waves(it)
        asked = asyncio.create_task(command(it, 2, executor=_slowly).run_once())
        await pass_time(10)
        with pytest.raises(AnotherPlanActive, match=UNDER_WAY):
            await plan_runner(it).apply(plan)
        await asked
        assert len(await it.jobs()) == 4


@on_virtual_time
async def test_apply_that_is_cut_off_continues_later() -> None:
    async with scattered_cluster() as it:
        plan, severed = await plan_in_two_waves(it), Severed(it.api)
        await it.stop()
        applied = asyncio.create_task(plan_runner(it, api=severed).apply(plan))
        await pass_time(10)
        severed.cut = True
        await pass_time(30)
        severed.cut = False
        await it.go()
        assert (await applied).succeeded == 4


@pytest.mark.parametrize("kind", ["podmigrationjobs", ""], ids=["jobs cannot be created", "no request is answered"])
@on_virtual_time
async def test_apply_that_cannot_begin_a_wave_waits_and_reports_why(kind: str) -> None:
    async with scattered_cluster() as it:
        plan, severed, told = await plan_in_two_waves(it), Severed(it.api, kind=kind), list[ApplyProgress]()

        def tell(progress: ApplyProgress) -> None:
            told.append(progress)
            severed.cut = severed.cut or (progress.succeeded == 2 and not cured.is_set())

        cured = asyncio.Event()
        applied = asyncio.create_task(plan_runner(it, api=severed, report_progress=tell).apply(plan))
        await pass_time(100)
        cured.set()
        severed.cut = False
        assert (await applied).succeeded == 4 and len(await it.jobs()) == 4
        troubles = [one.interruption for one in told]
        began = next(number for number, trouble in enumerate(troubles) if trouble)
        over = troubles.index(None, began)
        assert troubles[over:] == [None] * len(troubles[over:]), "it is told until it is over"
        assert any("cut off" in (one or "") for one in troubles)


@on_virtual_time
async def test_apply_reports_no_interruption_once_the_cluster_answers() -> None:
    async with scattered_cluster() as it:
        plan, told, creations = await plan_in_two_waves(it), list[ApplyProgress](), count(1)

        def creates_another(request: Request) -> bool:
            created = (request.verb, request.resource.plural) == ("create", "podmigrationjobs")
            return created and next(creations) > 1

        api = FixedErrorApi(it.api, creates_another, OutcomeUnknown.because(503, "ServiceUnavailable", "cut off"))

        def tell(progress: ApplyProgress) -> None:
            told.append(progress)
            if progress.interruption:
                api.error = None

        await it.stop()
        applied = asyncio.create_task(plan_runner(it, api=api, report_progress=tell).apply(plan))
        await pass_time(30)
        assert any(one.interruption for one in told)
        assert (told[-1].interruption, len(told[-1].jobs), told[-1].succeeded) == (None, 1, 0)
        await it.go()
        assert (await applied).succeeded == 4


@on_virtual_time
async def test_apply_that_may_lose_the_lease_continues_later() -> None:
    async with scattered_cluster() as it:
        plan, severed = await plan_in_two_waves(it), Severed(it.api, kind="leases")
        troubles = iter([True])

        async def repair(work: Callable[[], T]) -> T:
            severed.cut = next(troubles, False)
            await asyncio.sleep(8 if severed.cut else 0)
            return work()

        applied = asyncio.create_task(plan_runner(it, api=severed, executor=repair).apply(plan))
        await pass_time(30)
        assert await it.jobs() == []
        severed.cut = False
        assert (await applied).succeeded == 4


class Thread:
    """An executor that takes half a minute, and goes on although its caller is cancelled."""

    def __init__(self) -> None:
        self.begun: list[asyncio.Task[Any]] = []
        self.at_once = 0
        """The most that there were at the same time."""

    async def __call__(self, work: Callable[[], T], /) -> T:
        task = asyncio.create_task(_slowly(work))
        self.begun.append(task)
        self.at_once = max(self.at_once, sum(not one.done() for one in self.begun))
        return await asyncio.shield(task)


async def _apply(it: ScatteredCluster, api: Api, thread: Thread) -> None:
    await plan_runner(it, api=api, executor=thread).apply(await plan_in_two_waves(it))


async def _run(it: ScatteredCluster, api: Api, thread: Thread) -> None:
    async with running_component(descheduler(it, defragmentation_section(interval="1s"), api=api, executor=thread)):
        await pass_time(100)


@pytest.mark.parametrize("work", [_apply, _run], ids=["a plan is applied", "on an interval"])
@on_virtual_time
async def test_computation_that_outlives_the_lease_ends_before_the_next_begins(work: Callable[..., Any]) -> None:
    async with scattered_cluster() as it:
        severed, thread = Severed(it.api), Thread()
        working = asyncio.create_task(work(it, severed, thread))
        await pass_time(5)
        severed.cut = True
        await pass_time(12)
        severed.cut = False
        await working
        assert len(thread.begun) > 1 and thread.at_once == 1
        assert {job.status.phase for job in await it.jobs()} == {"Succeed"}


TROUBLE = FaultPlan(late=0.05, stale=0.1, conflict=0.1, busy=0.1, refused=0.1, unknown=0.15, slow=0.2)
RUNS = int(os.environ.get("RESTOW_FAULT_RUNS", "2"))


async def _contending(seed: int) -> int:
    """Four commands that all want to run, again and again, behind faults of every kind."""
    async with scattered_cluster(migrating=False) as it:

        async def insist(number: int) -> None:
            rng = random.Random(seed * 10 + number)
            for attempt in range(4):
                await pass_time(rng.uniform(0, 1))
                shaky = FaultyApi(Severed(it.api, slow=4.0), random.Random(rng.random()), TROUBLE)
                with suppress(RunRefused, ApiError, TimeoutError):
                    async with asyncio.timeout(60):
                        await command(it, rng.getrandbits(32) + attempt, api=shaky, executor=_briefly).run_once()

        await asyncio.gather(*map(insist, range(4)))
        jobs = await it.jobs()
        assert len({job.metadata.annotations["restow.sh/plan"] for job in jobs if job.metadata.annotations}) <= 1
        assert len({job.spec.pod_ref.uid for job in jobs}) == len(jobs)
        return len(jobs)


@pytest.mark.parametrize("seed", range(RUNS))
def test_one_plan_at_a_time_is_under_way_under_faults(seed: int) -> None:
    assert run_virtual(_contending(seed)) > 0
