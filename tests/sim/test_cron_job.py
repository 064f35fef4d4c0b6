"""Cron schedules, and the jobs that CronJobs make of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.model import kinds
from restow.model.cron import CronError, parse_schedule
from restow.model.objects import Document
from restow.model.times import format_time, parse_time
from restow.sim.world.raw_objects import CRON_JOB
from tests.sim.simulated_cluster import SimulatedCluster, job, on_virtual_time, pass_time, simulated_cluster

START = "2026-01-31T12:34:56Z"  # a Saturday


@pytest.mark.parametrize(
    ("text", "zone", "after"),
    [
        pytest.param("* * * * *", None, "2026-01-31T12:35:00Z", id="every minute"),
        pytest.param("*/15 * * * *", None, "2026-01-31T12:45:00Z", id="steps"),
        pytest.param("5/20 * * * *", None, "2026-01-31T12:45:00Z", id="steps from a number on"),
        pytest.param("0-30/10 13 * * *", None, "2026-01-31T13:00:00Z", id="a range with steps"),
        pytest.param("1,40,50 * * * *", None, "2026-01-31T12:40:00Z", id="a list"),
        pytest.param("0 9 * * mon-FRI", None, "2026-02-02T09:00:00Z", id="names"),
        pytest.param("0 0 ? feb *", None, "2026-02-01T00:00:00Z", id="a month by name"),
        pytest.param("0 0 13 * 5", None, "2026-02-06T00:00:00Z", id="either day is enough"),
        pytest.param("0 0 13 * *", None, "2026-02-13T00:00:00Z", id="both days when one is a star"),
        pytest.param("0 0 29 2 *", None, "2028-02-29T00:00:00Z", id="29 February"),
        pytest.param("0 0 30 2 *", None, None, id="never"),
        pytest.param("@hourly", None, "2026-01-31T13:00:00Z", id="hourly"),
        pytest.param("@weekly", None, "2026-02-01T00:00:00Z", id="weekly"),
        pytest.param("0 14 * * *", "Europe/Berlin", "2026-01-31T13:00:00Z", id="elsewhere"),
    ],
)
def test_cron_schedule_next_time(text: str, zone: str | None, after: str | None) -> None:
    moment = parse_schedule(text, zone).after(parse_time(START))
    assert (moment and format_time(moment)) == after


@pytest.mark.parametrize(
    ("text", "zone", "after", "times"),
    [
        pytest.param(
            "30 2 * * *", "America/New_York", "2026-03-07T12:00", ["09T06:30", "10T06:30"], id="a time that is skipped"
        ),
        pytest.param(
            "0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00", ["05T02:00", "06T02:00"], id="a midnight that is"
        ),
        pytest.param(
            "*/30 1-3 * * *",
            "America/New_York",
            "2026-03-08T05:45",
            ["08T06:00", "08T06:30", "08T07:00", "08T07:30", "09T05:00"],
            id="times around an hour that is skipped",
        ),
        pytest.param(
            "20,30 2 * * *", "Australia/Lord_Howe", "2026-10-03T10:00", ["03T15:30", "04T15:20"], id="half an hour is"
        ),
        pytest.param(
            "30 1 * * *",
            "America/New_York",
            "2026-10-31T12:00",
            ["01T05:30", "01T06:30", "02T06:30"],
            id="a time that comes twice",
        ),
        pytest.param(
            "0 * * * *",
            "America/New_York",
            "2026-11-01T03:30",
            ["01T04:00", "01T05:00", "01T06:00", "01T07:00"],
            id="every hour of a day with 25",
        ),
    ],
)
def test_when_clocks_are_put_forward_and_back(text: str, zone: str, after: str, times: list[str]) -> None:
    """The times are those of Kubernetes' own CronJobs."""
    schedule, moment, moments = parse_schedule(text, zone), parse_time(f"{after}:00Z"), []
    for _ in times:
        moment = schedule.after(moment) or 0.0
        assert schedule.until(moment) == moment
        moments.append(format_time(moment)[8:16])
    assert moments == times


@pytest.mark.parametrize(
    ("text", "zone", "message"),
    [
        ("* * * *", None, "schedule '\\* \\* \\* \\*': expected five fields or one of @yearly"),
        ("@every 1h", None, "expected five fields"),
        ("60 * * * *", None, "'60': expected numbers from 0 to 59"),
        ("* * 0 * *", None, "'0': expected numbers from 1 to 31"),
        ("5-3 * * * *", None, "'5-3': expected numbers"),
        ("*/0 * * * *", None, "'\\*/0': expected numbers"),
        ("*/-1 * * * *", None, "'\\*/-1': expected numbers"),
        ("1,,2 * * * *", None, "'1,,2': expected numbers"),
        ("* * * foo *", None, "'foo': expected numbers from 1 to 12"),
        ("* * * * *", "Mars/Olympus", "time zone 'Mars/Olympus' is not known"),
    ],
)
def test_malformed_cron_schedule_is_refused(text: str, zone: str | None, message: str) -> None:
    with pytest.raises(CronError, match=message):
        parse_schedule(text, zone)


@given(
    st.sampled_from(["*/7 * * * *", "3 */5 * * *", "0 0 1,15 * 3", "30 6 * 2-4 *", "@monthly"]),
    st.integers(1_700_000_000, 1_900_000_000),
)
def test_times_before_and_after_agree(text: str, moment: int) -> None:
    schedule = parse_schedule(text)
    before, after = schedule.until(moment), schedule.after(moment)
    assert before is not None
    assert after is not None
    assert before <= moment < after
    assert schedule.after(before) == after
    assert schedule.until(after) == after
    assert datetime.fromtimestamp(after, UTC).second == 0


def cron(schedule: str = "*/10 * * * *", *, run: float = 30, exit_code: int = 0, **spec: Any) -> Document:
    made = job("x", run=run, exit_code=exit_code, backoffLimit=0)
    own = {"schedule": schedule, "jobTemplate": {"spec": made["spec"]}, **spec}
    return {"metadata": {"name": "tick", "namespace": "default"}, "spec": own}


async def jobs(it: SimulatedCluster) -> list[Document]:
    jobs = (await it.client.list(kinds.JOB.whole, "default")).items
    return sorted(jobs, key=lambda each: str(each["metadata"]["name"]))


def ended(jobs: list[Document]) -> list[str]:
    return [each["type"] for job in jobs for each in job["status"].get("conditions", ()) if each["type"] in ENDS]


ENDS = ("Complete", "Failed")


@on_virtual_time
async def test_cron_job_creates_a_job_at_every_time_and_names_it_by_the_time() -> None:
    async with simulated_cluster() as it:
        await it.create(CRON_JOB, cron())
        await pass_time(1500)
        made = await jobs(it)
        status = (await it.document(CRON_JOB, "tick"))["status"]
        assert len(made) in (2, 3)
        assert ended(made) == ["Complete"] * len(made)
        assert made[-1]["metadata"]["name"] == f"tick-{int(parse_time(status['lastScheduleTime'])) // 60}"
        assert parse_time(status["lastScheduleTime"]) % 600 == 0
        assert parse_time(status["lastSuccessfulTime"]) > parse_time(status["lastScheduleTime"])
        assert not status.get("active")


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        pytest.param({}, ["Complete"] * 3, id="three successful ones"),
        pytest.param({"successfulJobsHistoryLimit": 1}, ["Complete"], id="as many as the limit says"),
        pytest.param({"exit_code": 1}, ["Failed"], id="one that failed"),
    ],
)
def test_cron_job_keeps_finished_jobs_up_to_the_limits(spec: Document, kept: list[str]) -> None:
    @on_virtual_time
    async def story() -> None:
        async with simulated_cluster() as it:
            await it.create(CRON_JOB, cron(**spec))
            await pass_time(2 * 3600 + 300)
            assert ended(await jobs(it)) == kept

    story()


@pytest.mark.parametrize(
    ("policy", "active"),
    [
        pytest.param("Allow", 6, id="all at once"),
        pytest.param("Forbid", 1, id="only the first"),
        pytest.param("Replace", 1, id="only the last"),
    ],
)
def test_jobs_that_take_longer_than_the_schedule(policy: str, active: int) -> None:
    @on_virtual_time
    async def story() -> None:
        async with simulated_cluster() as it:
            await it.create(CRON_JOB, cron(run=100_000, concurrencyPolicy=policy))
            await pass_time(3660)
            made = await jobs(it)
            status = (await it.document(CRON_JOB, "tick"))["status"]
            assert [each["name"] for each in status["active"]] == [each["metadata"]["name"] for each in made]
            assert len(made) == active
            latest = it.clock.now() - parse_time(status["lastScheduleTime"]) <= 600
            assert latest == (policy != "Forbid")

    story()


@on_virtual_time
async def test_suspended_cron_job_catches_up_on_at_most_one_time() -> None:
    async with simulated_cluster() as it:
        await it.create(CRON_JOB, cron(suspend=True))
        await pass_time(3600)
        assert await jobs(it) == []
        await it.patch(CRON_JOB, "tick", {"spec": {"suspend": False}})
        await pass_time(1)
        assert len(await jobs(it)) == 1


@on_virtual_time
async def test_cron_time_after_its_starting_deadline_is_skipped() -> None:
    async with simulated_cluster() as it:
        await it.create(CRON_JOB, cron(suspend=True, startingDeadlineSeconds=20))
        now = it.clock.now()
        await pass_time(1200 - now % 600 + 60)
        await it.patch(CRON_JOB, "tick", {"spec": {"suspend": False}})
        await pass_time(1)
        assert await jobs(it) == []
        await pass_time(600)
        assert len(await jobs(it)) == 1


@on_virtual_time
async def test_unreadable_cron_schedule_is_reported() -> None:
    async with simulated_cluster() as it:
        await it.create(CRON_JOB, cron("61 * * * *"))
        await pass_time(3600)
        [event] = [each for each in (await it.client.list(kinds.EVENT)).items if each.reason == "BadSchedule"]
        assert event.message == "'61': expected numbers from 0 to 59, ranges, steps"


@on_virtual_time
async def test_a_deleted_cron_job_takes_its_jobs_along() -> None:
    async with simulated_cluster() as it:
        await it.create(CRON_JOB, cron())
        await pass_time(1500)
        await it.delete(CRON_JOB, "tick")
        await pass_time(30)
        assert await jobs(it) == []
        assert await it.pods() == []
