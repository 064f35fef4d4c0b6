"""How a plan is carried out, as people see it."""

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
    notes = {"restow.sh/target-node": target}
    return PodMigrationJob(
        metadata=ObjectMeta(name=f"j{order}", annotations=notes),
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


def test_the_view_has_all_of_it() -> None:
    console = Console(file=io.StringIO(), width=160)
    with console.capture() as captured:
        console.print(apply_progress.view(PLAN, NOW))
    text = captured.get()
    for told in (
        "plan apply-1: 2 of 3 moves, wave 1, 0 of 1 places taken",
        "evictions are stopped: lunch",
        "waits for the cluster: no answer",
        f"repaired: {REPAIR}",
    ):
        assert told in text
    rows = [line.split() for line in text.splitlines() if line.startswith(("1 ", "2 ", "3 "))]
    assert [row[3:6] for row in rows] == [["a", "b", "Succeed"], ["a", "c", "Failed"], ["a", "b", "waits"]]


def test_programs_are_told_of_each_move_as_a_printed_plan_has_it_and_what_became_of_it() -> None:
    told = msgspec.json.decode(msgspec.json.encode(apply_progress.carried(PLAN, replace(NOW, taken=1))))
    pods: list[dict[str, Any]] = [
        {"order": order, "wave": 1, "namespace": "default", "pod": f"p{order}", "from": "a"} for order in (1, 2, 3)
    ]
    became: list[dict[str, str | None]] = [
        {"to": "b", "job": "j1", "phase": "Succeed", "message": ""},
        {"to": "c", "job": "j2", "phase": "Failed", "message": "no room"},
        {"to": "b", "job": None, "phase": None, "message": ""},
    ]
    moves = [{**pod, **end} for pod, end in zip(pods, became, strict=True)]
    assert told == {"plan": "apply-1", "moves": moves, "repairs": [REPAIR], "places": 1, "taken": 1}


def told_by(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines on stderr, each of which begins like all that the program tells there."""
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("restow: ") for line in lines)
    return [line.removeprefix("restow: ") for line in lines]


def test_without_a_terminal_there_is_a_line_for_each_change(capsys: pytest.CaptureFixture[str]) -> None:
    with apply_progress.shown(PLAN) as shown:
        shown.update(NOW)
        shown.update(NOW)
        shown.update(replace(NOW, stopped=None, trouble=None, taken=1))
    assert told_by(capsys) == [
        f"repaired: {REPAIR}",
        "move 1 default/p1 from a to b Succeed",
        "move 2 default/p2 from a to c Failed: no room",
        "evictions are stopped: lunch",
        "waits for the cluster: no answer",
        "evictions go on",
        "the cluster answers again",
        "1 of 1 places taken",
    ]


def test_what_a_move_waits_for_is_told_without_a_terminal_too(capsys: pytest.CaptureFixture[str]) -> None:
    waits = "waits for objectLimiters.workload: 3 of 3 pods of Deployment default/web were evicted within 5m"
    with apply_progress.shown(PLAN) as shown:
        for message in ("", waits, waits):
            shown.update(ApplyProgress(plan="apply-1", wave=1, jobs={1: job(1, "Pending", message)}))
    move = "move 1 default/p1 from a to b Pending"
    assert told_by(capsys) == [move, f"{move}: {waits}"]


def test_jobs_that_nobody_takes_up_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter((0.0, 9.0, 10.0, 11.0, 11.0))
    begun = replace(NOW, jobs={1: job(1, ""), 2: job(2, "Running")}, stopped=None, trouble=None, repairs=())
    with apply_progress.shown(PLAN, clock=lambda: next(times)) as shown:
        for _ in range(4):
            shown.update(begun)
        shown.update(replace(begun, jobs={1: job(1, "Running"), 2: job(2, "Running")}))
    told = [line for line in told_by(capsys) if not line.startswith("move")]
    assert told == [
        "nobody takes up 1 job; does the component migrations run? See restow run and restow install",
        "all jobs are taken up",
    ]
