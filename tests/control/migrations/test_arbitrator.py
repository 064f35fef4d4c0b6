"""Jobs that wait for admission: how often they are arbitrated, and how often their status is written."""

from __future__ import annotations

from restow.model import kinds
from tests.control.migrations.migration_cluster import cluster_with_controller
from tests.sim.simulated_cluster import on_virtual_time, pass_time


@on_virtual_time
async def test_arbitration_runs_no_more_often_than_configured() -> None:
    async with cluster_with_controller(arbitrationArgs={"interval": "10s"}) as it:
        first, second = await it.start(2)
        await it.move(first, "first")
        await pass_time(1)
        assert (await it.told("first"))[0] == "Running"
        await it.move(second, "second")
        await pass_time(8)
        assert (await it.told("second"))[0] in (None, "Pending")
        await pass_time(3)
        assert (await it.told("second"))[0] == "Running"


@on_virtual_time
async def test_changing_numbers_of_a_limit_are_written_from_time_to_time() -> None:
    async with cluster_with_controller() as it:
        old = (await it.start(2))[0]
        await it.budget(9)
        await it.move(old)
        said = []
        for replicas in (2, 3, 4):
            await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"replicas": replicas}})
            await pass_time(4)
            said.append((await it.told())[2] or "")
        assert "2 of 9 desired pods are healthy" in said[0]
        assert said[0] == said[1] != said[2]


@on_virtual_time
async def test_the_last_numbers_of_a_limit_are_written_without_another_event() -> None:
    async with cluster_with_controller() as it:
        old = (await it.start(2))[0]
        await it.budget(9)
        await it.move(old)
        await pass_time(3)
        await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"replicas": 4}})
        await pass_time(30)
        assert "4 of 9 desired pods are healthy" in ((await it.told())[2] or "")
