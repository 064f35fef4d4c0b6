"""The progress of `restow apply`: the table on terminals, lines elsewhere, and the JSON result."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from rich.console import Console

from restow.control.descheduler import ApplyProgress
from restow.model.objects import (
    ObjectMeta,
    ObjectReference,
    PodMigrationJob,
    PodMigrationJobSpec,
    PodMigrationJobStatus,
)
from restow.output import apply_progress
from restow.planning.plan import Move, Place, Plan

MOVES = tuple(
    Move(order=order, wave=1, namespace="default", pod=f"p{order}", source="a", target="b") for order in (1, 2, 3)
)
PLAN = Plan(strategy="optimal", moves=MOVES, places=(Place(namespace="default", pod="waits", node="a"),))
REPAIR = "move 3 of default/p3 is left out: there is no such pod on any node"


def job(order: int, phase: str, message: str = "", target: str = "b") -> PodMigrationJob:
    annotations = {"restow.sh/target-node": target}
    return PodMigrationJob(
        metadata=ObjectMeta(name=f"j{order}", annotations=annotations),
        spec=PodMigrationJobSpec(pod_ref=ObjectReference(namespace="default", name=f"p{order}")),
        status=PodMigrationJobStatus(phase=phase, message=message or None),
    )


NOW = ApplyProgress(
    plan="apply-1",
    wave=1,
    jobs={1: job(1, "Succeed"), 2: job(2, "Failed", "no room", target="c")},
    stop_reason="evictions are stopped: lunch",
    interruption="no answer",
    repairs=(REPAIR,),
)


def test_table_has_moves_warnings_and_repairs() -> None:
    console = Console(file=io.StringIO(), width=160)
    with console.capture() as captured:
        console.print(apply_progress.progress_table(PLAN, NOW))
    text = captured.get()
    for message in (
        "plan apply-1: 2 of 3 moves, wave 1, 0 of 1 places taken",
        "evictions are stopped: lunch",
        "waiting for the API server: no answer",
        f"repaired: {REPAIR}",
    ):
        assert message in text
    rows = [line.split() for line in text.splitlines() if line.startswith(("1 ", "2 ", "3 "))]
    assert [row[3:6] for row in rows] == [["a", "b", "Succeed"], ["a", "c", "Failed"], ["a", "b", "waiting"]]


def test_json_result_has_each_move_with_its_job() -> None:
    result = msgspec.json.decode(msgspec.json.encode(apply_progress.apply_result(PLAN, replace(NOW, filled_places=1))))
    pods: list[dict[str, Any]] = [
        {"order": order, "wave": 1, "namespace": "default", "pod": f"p{order}", "from": "a"} for order in (1, 2, 3)
    ]
    end_states: list[dict[str, str | None]] = [
        {"to": "b", "job": "j1", "phase": "Succeed", "message": ""},
        {"to": "c", "job": "j2", "phase": "Failed", "message": "no room"},
        {"to": "b", "job": None, "phase": None, "message": ""},
    ]
    moves = [{**pod, **end} for pod, end in zip(pods, end_states, strict=True)]
    assert result == {"plan": "apply-1", "moves": moves, "repairs": [REPAIR], "places": 1, "taken": 1}


def printed_lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines on stderr, without the name of the program."""
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("restow: ") for line in lines)
    return [line.removeprefix("restow: ") for line in lines]


def test_each_change_is_one_line_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with apply_progress.progress_display(PLAN) as display:
        display.update(NOW)
        display.update(NOW)
        display.update(replace(NOW, stop_reason=None, interruption=None, filled_places=1))
    assert printed_lines(capsys) == [
        f"repaired: {REPAIR}",
        "move 1 default/p1 from a to b Succeed",
        "move 2 default/p2 from a to c Failed: no room",
        "evictions are stopped: lunch",
        "waiting for the API server: no answer",
        "not paused",
        "the API server answers again",
        "1 of 1 places taken",
    ]


def test_message_of_a_pending_job_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    waits = "waits for objectLimiters.workload: 3 of 3 pods of Deployment default/web were evicted within 5m"
    with apply_progress.progress_display(PLAN) as display:
        for message in ("", waits, waits):
            display.update(ApplyProgress(plan="apply-1", wave=1, jobs={1: job(1, "Pending", message)}))
    move = "move 1 default/p1 from a to b Pending"
    assert printed_lines(capsys) == [move, f"{move}: {waits}"]


def test_job_that_no_controller_picks_up_gets_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter((0.0, 9.0, 10.0, 11.0, 11.0))
    begun = replace(NOW, jobs={1: job(1, ""), 2: job(2, "Running")}, stop_reason=None, interruption=None, repairs=())
    with apply_progress.progress_display(PLAN, clock=lambda: next(times)) as display:
        for _ in range(4):
            display.update(begun)
        display.update(replace(begun, jobs={1: job(1, "Running"), 2: job(2, "Running")}))
    hints = [line for line in printed_lines(capsys) if not line.startswith("move")]
    assert hints == [
        "no controller has picked up 1 job; is the migrations component running? See restow run and restow install",
        "all jobs have been picked up",
    ]
