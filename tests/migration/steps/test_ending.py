"""After the end: a seat that no pod will take is released, and nothing else."""

from __future__ import annotations

from typing import Any

from restow.migration.facts import Facts
from restow.migration.steps import Abort, ReadLive, Release, Wait
from tests.migration.move_facts import facts, job, pod, reservation, said, seat
from tests.migration.steps.step_rows import EVICTING, GONE, REFUSED, USERS, Row, check, left, table

COMPLETE = said("Complete", "False", "Timeout")
LEAVING = {"deletionTimestamp": "2027-01-01T00:00:00Z"}
OVER = said("Complete", "False", "Aborted")
OVER_BEFORE = said("Complete", "False", "Aborted", age=120.0)
OVER_ONCE = {"type": "Complete", "status": "False"}


def over(phase: str = "Failed", *conditions: Any, **changes: Any) -> Facts:
    return facts(job(*(conditions or (COMPLETE,)), phase=phase), **changes)


ROWS: list[Row] = [
    ("aborted", facts(job(phase="Aborted")), Abort, "Aborted", "aborted by a user"),
    (
        "aborted after the eviction",
        left(of=job(EVICTING, phase="Aborted")),
        Abort,
        "Aborted",
        "the job was aborted by a user; its seat is kept until 2027-01-15T08:09:00Z",
    ),
    ("being deleted", facts(job(metadata=LEAVING)), Abort, "Aborted", "is being deleted"),
    ("being deleted after the eviction", facts(job(EVICTING, metadata=LEAVING), pod=None), Abort, "Aborted", "deleted"),
    ("being deleted while paused", facts(job(metadata=LEAVING, spec={"paused": True})), Abort, "Aborted", "deleted"),
    ("aborted, told", over("Aborted", OVER), Release, None, ""),
    ("failed before the eviction", over(), Release, None, ""),
    ("failed after a refused eviction", over("Failed", COMPLETE, REFUSED), Release, None, ""),
    ("aborted after the eviction", over("Aborted", OVER, GONE, pod=None), Wait, None, ""),
    ("aborted after the eviction, a while ago", over("Aborted", OVER_BEFORE, GONE, pod=None), Wait, None, ""),
    (
        "failed after the eviction, a while ago, and it has no seat any more",
        over("Failed", OVER_BEFORE, GONE, pod=None, reservation=reservation(phase="Pending")),
        Wait,
        None,
        "",
    ),
    ("aborted while it may be evicted", over("Aborted", OVER, EVICTING), Wait, None, ""),
    (
        "aborted while it was not evicted after all",
        over("Aborted", OVER, EVICTING, eviction_unsent=True),
        Release,
        None,
        "",
    ),
    ("aborted while it may be evicted, a while ago", over("Aborted", OVER_BEFORE, EVICTING), Release, None, ""),
    ("aborted while it may be evicted, at an unknown time", over("Aborted", OVER_ONCE, EVICTING), Wait, None, ""),
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
    ("ended by a user", facts(job(phase="Failed")), Abort, "", "ended by a user"),
    ("ended by a user, with a reason", facts(job(phase="Failed", reason="Mood")), Abort, "Mood", "by a user"),
    (
        "its lock was given up",
        facts(job(phase="Aborted", reason="LockReleased", message="queue q wants it no more")),
        Abort,
        "LockReleased",
        "queue q wants it no more",
    ),
    (
        "its lock was given up, without a word",
        facts(job(phase="Aborted", reason="LockReleased")),
        Abort,
        "LockReleased",
        "aborted by a user",
    ),
    ("it is being deleted", over(reservation=reservation(metadata=LEAVING)), Wait, None, ""),
    ("replaced, and its seat was ready", over(pod=pod(uid="new")), Wait, None, ""),
    ("it forgot which pod it was", facts(job(COMPLETE, phase="Failed", pod_ref={"uid": ""})), Release, None, ""),
    (
        "it names another pod since",
        facts(job(COMPLETE, phase="Failed", pod_ref={"uid": "x"}), pod=pod(uid="x")),
        Release,
        None,
        "",
    ),
    ("failed, by the caches", over(is_fresh=False), ReadLive, None, ""),
    ("over, by the caches", over(reservation=None, is_fresh=False), Wait, None, ""),
]


@table(ROWS)
def test_next_step_after_the_end(row: Row) -> None:
    check(row)
