"""After the end: what is held for nobody is let go, and nothing else."""

from __future__ import annotations

from typing import Any

from restow.migration.facts import Facts
from restow.migration.instructions import Abort, Release, Wait
from tests.migration.moves import facts, job, pod, reservation, said, seat
from tests.migration.steps.rows import EVICTING, GONE, REFUSED, USERS, Row, check, table

COMPLETE = said("Complete", "False", "Timeout")
OVER = said("Complete", "False", "Aborted")


def over(phase: str = "Failed", *conditions: Any, **changes: Any) -> Facts:
    return facts(job(*(conditions or (COMPLETE,)), phase=phase), **changes)


ROWS: list[Row] = [
    ("aborted", facts(job(phase="Aborted")), Abort, "Aborted", "aborted by a user"),
    ("aborted, told", over("Aborted", OVER), Release, None, ""),
    ("failed before the eviction", over(), Release, None, ""),
    ("failed after a refused eviction", over("Failed", COMPLETE, REFUSED), Release, None, ""),
    ("aborted after the eviction", over("Aborted", OVER, GONE, pod=None), Wait, None, ""),
    ("aborted while it may be evicted", over("Aborted", OVER, EVICTING), Wait, None, ""),
    ("another hand deletes the pod", over(pod=pod(leaving=True)), Wait, None, ""),
    ("deleted, and no seat was ready", over(pod=None, reservation=reservation(phase="Pending")), Release, None, ""),
    (
        "a given one is kept",
        facts(job(COMPLETE, phase="Failed", ref=USERS), reservation=reservation(name=USERS)),
        Wait,
        None,
        "",
    ),
    ("nothing was reserved", over(reservation=None), Wait, None, ""),
    ("it ended by itself", over(reservation=reservation(phase="Failed", reason="Expired")), Wait, None, ""),
    (
        "succeeded",
        over("Succeed", said("Complete"), GONE, pod=None, reservation=reservation(seat(by="new"), phase="Succeeded")),
        Wait,
        None,
        "",
    ),
    ("failed and paused", facts(job(COMPLETE, phase="Failed", spec={"paused": True})), Release, None, ""),
]


@table(ROWS)
def test_the_next_step(row: Row) -> None:
    check(row)
