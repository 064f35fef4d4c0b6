"""Reservations that name a scheduler: only whoever plays it gives their seats away."""

from __future__ import annotations

from typing import Any

import pytest

from tests.model.cluster.builders import node
from tests.scheduling.reservations.stage import FITS, Stage, booking, task, user

OURS = frozenset({"restow", "volcano"})
BATCH = task(scheduler_name="batch")


@pytest.mark.parametrize(
    ("theirs", "seated"),
    [
        pytest.param({"scheduler_name": None}, True, id="it names none"),
        pytest.param({"scheduler_name": "restow"}, True, id="the pod's"),
        pytest.param({"scheduler_name": "volcano"}, True, id="another that is played here"),
        pytest.param({"scheduler_name": "batch"}, False, id="somebody else's"),
        pytest.param({"tasks": [BATCH]}, False, id="somebody else's, by a template"),
    ],
)
def test_a_seat_is_given_away_by_whoever_looks_after_it(theirs: dict[str, Any], seated: bool) -> None:
    outcome = Stage(node("n1"), booking("r", at={0: "n1"}, **FITS, **theirs)).session(user("p"), scheduler_names=OURS)
    assert bool(outcome.seats) is seated
    assert outcome.nodes == {"p": "n1"}
    assert not outcome.told


@pytest.mark.parametrize(
    ("theirs", "says"),
    [
        pytest.param([task()], "it is for pods of scheduler batch", id="one"),
        pytest.param([task(scheduler_name="alone")], "it is for pods of schedulers alone and batch", id="two"),
    ],
)
def test_who_asks_for_another_schedulers_by_name_hears_whose_it_is(theirs: Any, says: str) -> None:
    held = booking("r", *theirs, at={0: "n1"}, **FITS, scheduler_name="batch")
    outcome = Stage(node("n1"), held).session(user("p", uses="r"), scheduler_names=OURS)
    told = f"reservation default/r is not available: {says}"
    assert outcome.told == {"p": ("InvalidReservation", told)}
    assert outcome.refused == {"p": told}
