"""The controller switched off and on, limits and waves that open by themselves, and arbitration that fails once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from restow.control.migrations import MigrationConfiguration, arbitrator
from restow.migration import arbitration
from restow.model import kinds
from restow.sim.loop import run_virtual
from tests.control.migrations.migration_cluster import (
    cluster_with_controller,
    cluster_with_stub_scheduler,
    migration_arguments,
    pod_stays,
    running_controller,
)
from tests.sim.simulated_cluster import on_virtual_time, pass_time


@on_virtual_time
async def test_a_disabled_controller_does_nothing_until_it_is_enabled_again() -> None:
    async with cluster_with_stub_scheduler() as it, running_controller(it.api, it.clock) as made:
        first, second, third = await it.start(3)
        it.seats.refusing = "no room"
        for pod, name in ((first, "a"), (second, "b")):
            await it.move(pod, name)
        await pass_time(5)
        made.configure(MigrationConfiguration(migration_arguments(enabled=False)))
        it.seats.refusing = None
        await it.delete(kinds.POD_MIGRATION_JOB, "b")
        await it.move(third, "late")
        await pass_time(120)
        assert [await pod_stays(it, pod) for pod in (first, second, third)] == [True, True, True]
        assert len(await it.reservations()) == 2 and (await it.job("late")).spec.mode is None
        made.configure(MigrationConfiguration(migration_arguments()))
        await pass_time(120)
        assert [(await it.told(name))[0] for name in ("a", "late")] == ["Succeed", "Succeed"]
        assert {one.status.state.phase for one in await it.reservations()} == {"Succeeded"}


@on_virtual_time
async def test_more_workers_begin_without_a_restart() -> None:
    async with cluster_with_stub_scheduler() as it, running_controller(it.api, it.clock) as made:
        made.configure(MigrationConfiguration(migration_arguments(maxConcurrentReconciles=3)))
        await pass_time(1)
        assert sum(task.get_name().startswith("migrations worker") for task in asyncio.all_tasks()) == 3


@on_virtual_time
async def test_a_job_is_admitted_when_its_eviction_window_has_passed() -> None:
    async with cluster_with_controller(objectLimiters={"workload": {"duration": "5m", "maxMigrating": 1}}) as it:
        first, second = await it.start(2)
        await it.move(first, "a")
        await pass_time(30)
        await it.move(second, "b")
        await pass_time(200)
        assert ((await it.told("a"))[0], (await it.told("b"))[1]) == ("Succeed", "ObjectLimitersWorkload")
        await pass_time(100)
        assert (await it.told("b"))[0] == "Succeed"


@pytest.mark.parametrize(("phase", "end"), [("Failed", "Failed"), ("Succeed", "Running")])
@on_virtual_time
async def test_a_wave_after_a_failed_one_is_admitted_in_doubt(phase: str, end: str) -> None:
    """After a failure it does not wait for a seat that is not there."""
    async with cluster_with_controller() as it:
        first, second = await it.start(2)
        plan = {"restow.sh/plan": "p"}
        await it.move(first, "a", annotations={**plan, "restow.sh/wave": "1"}, paused=True)
        await it.move(second, "b", annotations={**plan, "restow.sh/wave": "2"})
        await pass_time(5)
        assert (await it.told("b"))[1] == "Waves"
        it.seats.refusing = "no room"
        await it.set_status("a", phase=phase)
        await pass_time(10)
        assert (await it.told("b"))[:2] == (end, "Unschedulable")
        assert await pod_stays(it, second)


def test_a_failed_arbitration_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[int]()

    def fail_once(*given: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("an odd object")
        return arbitrate(*given)

    async def move() -> None:
        async with cluster_with_controller() as it:
            await it.move((await it.start())[0])
            await pass_time(40)
            assert (await it.told())[0] == "Succeed"

    arbitrate = arbitration.arbitrate
    monkeypatch.setattr(arbitrator, "arbitrate", fail_once)
    run_virtual(move())
    assert len(calls) > 1


def workers() -> int:
    return sum(task.get_name().startswith("migrations worker") for task in asyncio.all_tasks())


@on_virtual_time
async def test_the_number_of_workers_follows_the_configuration() -> None:
    async with (
        cluster_with_stub_scheduler() as it,
        running_controller(it.api, it.clock, maxConcurrentReconciles=4) as made,
    ):
        for name, one in zip("ab", await it.start(2), strict=True):
            await it.move(one, name, paused=True)
        await pass_time(5)
        assert workers() == 4
        for number in (1, 2):
            made.configure(MigrationConfiguration(migration_arguments(maxConcurrentReconciles=number)))
            await pass_time(5)
        for paused in (False, True, False, True, False):
            for name in "ab":
                await it.patch(kinds.POD_MIGRATION_JOB, name, {"spec": {"paused": paused}})
            await pass_time(1)
        await pass_time(60)
        assert workers() == 2
