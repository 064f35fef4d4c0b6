"""Jobs: how they end, and what they count."""

from __future__ import annotations

import pytest

from restow.model import kinds
from restow.model.objects import Document
from tests.sim.simulated_cluster import job, on_virtual_time, pass_time, simulated_cluster
from tests.sim.status_readers import conditions, status


@pytest.mark.parametrize(
    ("spec", "exit_code", "end", "succeeded", "failed"),
    [
        pytest.param({}, 0, "Complete", 1, 0, id="one pod"),
        pytest.param({"completions": 5, "parallelism": 2}, 0, "Complete", 5, 0, id="five, two at a time"),
        pytest.param(
            {"completions": 4, "parallelism": 4, "completionMode": "Indexed"}, 0, "Complete", 4, 0, id="indexed"
        ),
        pytest.param({"backoffLimit": 2}, 1, "Failed", 0, 3, id="fails once more than it may"),
    ],
)
def test_job_ends_with_its_condition(spec: Document, exit_code: int, end: str, succeeded: int, failed: int) -> None:
    @on_virtual_time
    async def story() -> None:
        async with simulated_cluster() as it:
            await it.create(kinds.JOB, job("etl", exit_code=exit_code, **spec))
            await pass_time(200)
            shown = await status(it, kinds.JOB, "etl")
            assert conditions(shown)[end][0] == "True"
            assert (shown.get("succeeded", 0), shown.get("failed", 0)) == (succeeded, failed)
            assert not shown.get("active")
            assert not any(each.metadata.finalizers for each in await it.pods())

    story()


@on_virtual_time
async def test_job_replaces_an_evicted_pod_and_counts_it_as_failed() -> None:
    async with simulated_cluster() as it:
        await it.create(kinds.JOB, job("etl", run=60))
        await pass_time(10)
        [first] = await it.pods()
        await it.client.evict("default", first.metadata.name, uid=first.metadata.uid)
        await pass_time(120)
        shown = await status(it, kinds.JOB, "etl")
        assert conditions(shown)["Complete"][0] == "True"
        assert (shown["succeeded"], shown["failed"]) == (1, 1)


@on_virtual_time
async def test_a_job_over_its_deadline_fails_and_stops_its_pods() -> None:
    async with simulated_cluster() as it:
        await it.create(kinds.JOB, job("etl", run=1000, activeDeadlineSeconds=30))
        await pass_time(60)
        assert conditions(await status(it, kinds.JOB, "etl"))["Failed"] == ("True", "DeadlineExceeded")
        assert not [each for each in await it.pods() if each.status.phase == "Running"]


@on_virtual_time
async def test_a_finished_job_goes_when_its_time_to_live_is_over() -> None:
    async with simulated_cluster() as it:
        await it.create(kinds.JOB, job("etl", ttlSecondsAfterFinished=100))
        await pass_time(60)
        assert len((await it.client.list(kinds.JOB, "default")).items) == 1
        await pass_time(100)
        assert (await it.client.list(kinds.JOB, "default")).items == []
        assert await it.pods() == []
