"""An earlier failure puts a job in doubt: it does not wait for room that may never be free."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from restow.migration.conditions import admitted_status, is_in_doubt, is_job_running
from restow.migration.state_machine import next_step
from restow.migration.steps import Fail, Wait
from restow.model.objects import PodMigrationJob
from tests.migration.move_facts import NOW, facts, job, reservation

NO_ROOM = "0/3 nodes are available: 3 Insufficient cpu."


def in_doubt(doubt: bool) -> PodMigrationJob:
    one = job()
    return replace(one, status=admitted_status(one.status, "within all limits", doubt=doubt, now=NOW))


@pytest.mark.parametrize(("doubt", "step"), [(True, Fail), (False, Wait)], ids=["in doubt", "as planned"])
def test_a_job_in_doubt_fails_without_a_seat_and_another_waits(doubt: bool, step: type[Fail | Wait]) -> None:
    found = next_step(facts(in_doubt(doubt), reservation=reservation(phase="Pending", message=NO_ROOM)))
    assert isinstance(found, step)
    assert NO_ROOM in (found.status.message or "")


def test_a_job_in_doubt_waits_until_the_scheduler_has_looked() -> None:
    assert isinstance(next_step(facts(in_doubt(True), reservation=reservation(phase="Pending"))), Wait)


def test_a_job_in_doubt_is_admitted_and_recorded_as_in_doubt() -> None:
    one = in_doubt(True)
    assert is_in_doubt(one.status) and is_job_running(one)
    assert not is_in_doubt(job().status)
