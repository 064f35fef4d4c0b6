"""Reservations that name a scheduler: only that scheduler assigns their seats."""

from __future__ import annotations

from typing import Any

import pytest

from tests.model.cluster.builders import node
from tests.model.reservations.builders import FITS_POLICY, task, web_pod, web_reservation
from tests.scheduling.reservations.session_cluster import SessionCluster

OURS = frozenset({"restow", "volcano"})
BATCH = task(scheduler_name="batch")


@pytest.mark.parametrize(
    ("theirs", "seated"),
    [
        pytest.param({"scheduler_name": None}, True, id="it names none"),
        pytest.param({"scheduler_name": "restow"}, True, id="the pod's"),
        pytest.param({"scheduler_name": "volcano"}, True, id="another that is played here"),
        pytest.param({"scheduler_name": "batch"}, False, id="another scheduler"),
        pytest.param({"tasks": [BATCH]}, False, id="another scheduler in a template"),
    ],
)
def test_seat_is_assigned_only_by_the_scheduler_of_the_reservation(theirs: dict[str, Any], seated: bool) -> None:
    outcome = SessionCluster(node("n1"), web_reservation("r", at={0: "n1"}, **FITS_POLICY, **theirs)).session(
        web_pod("p"), scheduler_names=OURS
    )
    assert bool(outcome.seats) is seated
    assert outcome.nodes == {"p": "n1"}
    assert not outcome.events


@pytest.mark.parametrize(
    ("theirs", "says"),
    [
        pytest.param([task()], "it is for pods of scheduler batch", id="one"),
        pytest.param([task(scheduler_name="alone")], "it is for pods of schedulers alone and batch", id="two"),
    ],
)
def test_requested_reservation_of_another_scheduler_is_refused_with_its_name(theirs: Any, says: str) -> None:
    held = web_reservation("r", *theirs, at={0: "n1"}, **FITS_POLICY, scheduler_name="batch")
    outcome = SessionCluster(node("n1"), held).session(web_pod("p", uses="r"), scheduler_names=OURS)
    message = f"reservation default/r is not available: {says}"
    assert outcome.events == {"p": ("InvalidReservation", message)}
    assert outcome.refused_pods == {"p": message}
