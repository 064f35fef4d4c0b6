"""Rows of the migration's state machine: facts, and the step that follows from them; with what several parts need."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from restow.migration.effective_options import EffectiveOptions
from restow.migration.facts import Facts
from restow.migration.state_machine import next_step
from restow.migration.steps import Act, Done, Fail, ReadLive, Wait
from tests.migration.move_facts import NO, facts, job, reservation, said

Row = tuple[str, Facts, type, str | None, str]
"""Its name, the facts, the step, and, unless it is of no interest, the reason and something of what is told."""

DIRECT = EffectiveOptions(mode="EvictDirectly", ttl=300.0)
DRY = EffectiveOptions(ttl=300.0, dry_run=True)
EVICTING = said("Eviction", "False", "Evicting")
REFUSED = said("Eviction", "False", "FailedEvict", NO.message)
GONE = said("Eviction", "True", "EvictComplete")
USERS = "spare-room"


def given(*seats: Any, **more: Any) -> dict[str, Any]:
    """A reservation that was given to the job, with its job."""
    return {"of": job(ref=USERS), "reservation": reservation(*seats, name=USERS, **more)}


def left(*conditions: Any, **changes: Any) -> Facts:
    """The pod is gone after its eviction."""
    of = changes.pop("of", None) or job(*(conditions or (EVICTING,)))
    return facts(of, **{"pod": None, "owner_chain": (), **changes})


def table(rows: Iterable[Row]) -> pytest.MarkDecorator:
    """One test for each row."""
    return pytest.mark.parametrize("row", [pytest.param(row, id=row[0]) for row in rows])


def check(row: Row) -> None:
    _, of, step, reason, told = row
    found = next_step(of)
    assert type(found) is step, found
    if isinstance(found, ReadLive):
        return
    _check_told(of, found)
    if reason is None:
        return
    assert (found.status.reason or "") == reason or (isinstance(found, Wait) and _reason(found) == reason), found.status
    assert told in (found.status.message or "") and "None" not in (found.status.message or ""), found.status
    if isinstance(found, Wait) and reason not in ("", "Paused") and found.status.reason == reason:
        waiting = [one for one in found.status.conditions or () if one.type == found.status.status]
        assert [str(one.status) for one in waiting] == ["False"], "what is waited for is not so yet"


def _check_told(of: Facts, step: Act) -> None:
    """The phase is that of the end; what is told first is what the last condition says, and since when that is so."""
    phase = {Fail: "Failed", Done: "Succeed"}.get(type(step))
    assert phase is None or step.status.phase == phase
    if step.status != of.job.status and step.status.status:
        [told] = [one for one in step.status.conditions or () if one.type == step.status.status]
        assert (told.reason, told.message) == (step.status.reason, step.status.message)
        assert told.last_transition_time is not None


def _reason(step: Wait) -> str:
    """What a job that only goes on waiting said before."""
    return next((one.reason or "" for one in step.status.conditions or () if one.type == "Eviction"), "")
