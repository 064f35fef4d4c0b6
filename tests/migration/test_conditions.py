"""What a job's status says: conditions by type, since when, and how long it was paused."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from restow.migration.conditions import (
    REWRITE_AFTER,
    ConditionUpdate,
    admitted_status,
    ended_status,
    eviction_repeated_status,
    eviction_withdrawn_status,
    is_condition_true,
    is_in_doubt,
    is_job_running,
    job_ended_at,
    job_seconds_used,
    paused_seconds,
    paused_status,
    resumed_status,
    waiting_status,
    with_conditions,
)
from restow.model.objects import JobConditionType, JobPhase, JobReason, PodMigrationJobStatus
from restow.model.times import format_time
from tests.migration.move_facts import NOW, job, pending, said
from tests.narrowing import present

READY = JobConditionType.BOUND_POD_READY
NEW = PodMigrationJobStatus()


def shown(status: PodMigrationJobStatus, type: str) -> tuple[Any, ...]:
    """A condition as people see it, and its age."""
    [one] = [one for one in status.conditions or () if one.type == type]
    return str(one.status), one.reason, one.message, one.last_transition_time


def test_the_last_changed_condition_gives_the_status_its_message() -> None:
    status = with_conditions(NEW, ConditionUpdate(READY, False, "Slow", "not yet"), now=NOW)
    assert shown(status, READY) == ("False", "Slow", "not yet", format_time(NOW))
    assert (status.status, status.reason, status.message) == (READY, "Slow", "not yet")


def test_the_transition_time_changes_with_the_condition_status_alone() -> None:
    status = with_conditions(NEW, ConditionUpdate(READY, False, "Slow", "not yet"), now=NOW)
    other = with_conditions(status, ConditionUpdate(READY, False, "Slow", "still not"), now=NOW + 9)
    assert shown(other, READY) == ("False", "Slow", "still not", format_time(NOW))
    assert shown(with_conditions(other, ConditionUpdate(READY, True, "", ""), now=NOW + 9), READY)[3] == format_time(
        NOW + 9
    )
    assert with_conditions(other, ConditionUpdate(READY, False, "Slow", "still not"), now=NOW + 99) == other


def test_an_eviction_counts_from_when_it_was_sent_last() -> None:
    said = ConditionUpdate(JobConditionType.EVICTION, False, JobReason.EVICTING, "it leaves")
    heard = with_conditions(NEW, said, now=NOW - 5)  # another client may have deleted the pod
    assert [one.last_probe_time for one in heard.conditions or ()] == [None]
    status = eviction_repeated_status(heard, now=NOW)
    assert eviction_repeated_status(status, now=NOW + REWRITE_AFTER) == status
    [again] = present(eviction_repeated_status(status, now=NOW + REWRITE_AFTER + 1).conditions)
    assert (again.last_probe_time, again.last_transition_time) == (
        format_time(NOW + REWRITE_AFTER + 1),
        format_time(NOW - 5),
    )
    assert eviction_repeated_status(status, now=NOW - 1) != status, "its clock was set back"
    assert eviction_repeated_status(NEW, now=NOW) == NEW


def test_admission_sets_the_phase_and_ends_earlier_pauses() -> None:
    waits = waiting_status(paused_status(NEW, now=NOW - 50), "Budget", "waits for its budget", now=NOW)
    assert (waits.phase, shown(waits, "Admitted")) == (
        JobPhase.PENDING,
        ("False", "Budget", "waits for its budget", format_time(NOW)),
    )
    runs = admitted_status(waits, "within all limits", now=NOW + 5)
    assert (runs.phase, shown(runs, "Admitted")) == (
        JobPhase.RUNNING,
        ("True", None, "within all limits", format_time(NOW + 5)),
    )
    assert [one.type for one in runs.conditions or ()] == ["Admitted"], "pauses before do not count"
    assert (
        not is_in_doubt(runs) and is_in_doubt(admitted_status(waits, "", doubt=True, now=NOW)) and not is_in_doubt(NEW)
    )


@pytest.mark.parametrize(
    ("phase", "conditions", "runs"),
    [
        pytest.param("Running", [said("Admitted")], True, id="admitted"),
        pytest.param("Pending", [said("Admitted")], False, id="its phase is another"),
        pytest.param("Running", [said("Admitted", "False")], False, id="it was refused"),
        pytest.param("Running", [], False, id="only its phase says so"),
    ],
)
def test_a_job_runs_only_with_phase_and_condition(phase: str, conditions: list[Any], runs: bool) -> None:
    made = pending(*conditions)
    assert is_job_running(replace(made, status=replace(made.status, phase=phase))) is runs


@pytest.mark.parametrize("phase", [JobPhase.SUCCEED, JobPhase.FAILED, JobPhase.ABORTED])
def test_an_ended_status_has_its_phase_and_the_complete_condition(phase: JobPhase) -> None:
    status = ended_status(NEW, phase, "Why", "told", now=NOW)
    success = "True" if phase is JobPhase.SUCCEED else "False"
    assert (status.phase, shown(status, "Complete")) == (phase, (success, "Why", "told", format_time(NOW)))


def test_a_job_ended_at_the_transition_of_complete() -> None:
    assert job_ended_at(job(said("Complete", age=60.0), phase="Failed")) == NOW - 60
    assert job_ended_at(job(said("Complete", age=60.0))) is None and job_ended_at(job(phase="Failed")) is None


def test_a_pause_and_its_end_are_conditions_of_the_job() -> None:
    begun = paused_status(NEW, now=NOW)
    assert shown(begun, "Paused")[:2] == ("True", "Paused") and begun.reason == "Paused"
    assert paused_status(begun, now=NOW + 10) == begun and paused_seconds(begun, NOW + 10) == 10
    over = resumed_status(begun, now=NOW + 20)
    assert shown(over, "Paused") == (
        "False",
        None,
        "the job continues; it was paused for 20 s in total",
        format_time(NOW + 20),
    )
    assert (over.status, over.reason, over.message) == (
        "Paused",
        None,
        "the job continues; it was paused for 20 s in total",
    )
    assert resumed_status(over, now=NOW + 30) == over and resumed_status(NEW, now=NOW) == NEW
    assert paused_seconds(paused_status(over, now=NOW + 100), NOW + 105) == 25 and paused_seconds(over, NOW + 999) == 20
    assert paused_seconds(pending({"type": "Paused", "status": "True"}).status, NOW) == 0, "its begin is not known"


def test_job_time_counts_from_admission_or_else_from_creation() -> None:
    assert (job_seconds_used(job(age=60), NOW), job_seconds_used(pending(), NOW)) == (60, 120)
    assert job_seconds_used(pending(said("Admitted", "False", age=10.0)), NOW) == 120, "what was refused has not begun"
    assert job_seconds_used(pending(metadata={"creationTimestamp": None}), NOW) == 0
    assert job_seconds_used(job(age=60), NOW - 100) == 0, "clocks may be set back"


def test_a_missing_condition_is_not_true() -> None:
    assert is_condition_true(with_conditions(NEW, ConditionUpdate(READY, True, "", ""), now=NOW), READY)
    assert not is_condition_true(
        with_conditions(NEW, ConditionUpdate(READY, False, "", ""), now=NOW), READY
    ) and not is_condition_true(NEW, READY)


EVICTION = JobConditionType.EVICTION


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        pytest.param([said("Eviction", "False", "Evicting")], "Withdrawn", id="one that was written down"),
        pytest.param([said("Eviction", "False", "FailedEvict")], "FailedEvict", id="one that was refused"),
        pytest.param([said("Eviction", "True", "EvictComplete")], "EvictComplete", id="one that came true"),
    ],
)
def test_an_eviction_that_was_not_sent_is_withdrawn(conditions: list[Any], reason: str) -> None:
    status = eviction_withdrawn_status(job(*conditions).status, now=NOW)
    assert shown(status, EVICTION)[1] == reason


def test_withdrawing_an_eviction_keeps_the_reason_of_an_ended_job() -> None:
    over = job(
        said("Eviction", "False", "Evicting"), phase="Aborted", reason="LockReleased", message="the queue is gone"
    )
    status = eviction_withdrawn_status(over.status, now=NOW)
    assert shown(status, EVICTION)[:2] == ("False", "Withdrawn")
    assert (status.reason, status.message) == ("LockReleased", "the queue is gone")
