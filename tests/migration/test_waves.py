from __future__ import annotations

import pytest

from restow.migration.waves import PlanWaves
from tests.migration.job_fixture import job

ENDED = job("a", phase="Succeed", plan="p", wave=1)
FAILED = job("b", phase="Failed", plan="p", wave=1)
ABORTED = job("c", phase="Aborted", plan="p", wave=1)
OPEN = job("d", phase="Running", plan="p", wave=1)
LATER = job("e", plan="p", wave=2)


def test_a_wave_waits_for_the_one_before_it() -> None:
    assert (
        PlanWaves([ENDED, OPEN, LATER]).earlier_wave(LATER)
        == "wave 1 of plan p comes first, and 1 of its jobs has not ended"
    )


def test_a_wave_begins_when_earlier_waves_have_ended_in_any_way() -> None:
    assert PlanWaves([ENDED, FAILED, ABORTED, LATER]).earlier_wave(LATER) is None


def test_jobs_of_one_wave_do_not_wait_for_each_other() -> None:
    assert PlanWaves([OPEN, job("d2", plan="p", wave=1)]).earlier_wave(OPEN) is None


def test_plans_and_jobs_without_a_plan_do_not_wait_for_other_plans() -> None:
    waves = PlanWaves([OPEN, LATER, other := job("x", plan="q", wave=2), lone := job("y")])
    assert waves.earlier_wave(other) is None
    assert waves.earlier_wave(lone) is None


def test_failures_of_earlier_waves_put_later_ones_in_doubt() -> None:
    waves = PlanWaves([ENDED, FAILED, ABORTED, LATER, job("f", phase="Failed", plan="p", wave=2)])
    assert waves.failed_moves_before(LATER) == ["b", "c"]
    assert waves.failed_moves_before(OPEN) == []


def test_a_job_without_an_integer_wave_is_in_the_first_wave() -> None:
    odd = job("z", plan="p", annotations={"restow.sh/wave": "second"})
    assert PlanWaves([odd, LATER]).earlier_wave(LATER) is not None


@pytest.mark.parametrize("number", [999_999_999, 1_700_000_000, 2**63 - 1], ids=["nine digits", "ten", "64 bits"])
def test_a_wave_may_be_any_integer(number: int) -> None:
    last = job("z", plan="p", wave=number)
    assert PlanWaves([OPEN, last]).earlier_wave(last) == "wave 1 of plan p comes first, and 1 of its jobs has not ended"
    first = job("0", plan="p", wave=-number)
    assert (
        PlanWaves([first, OPEN]).earlier_wave(OPEN)
        == f"wave -{number} of plan p comes first, and 1 of its jobs has not ended"
    )
