"""What a reservation asks for, and every path of what is wrong with it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from restow.model.objects import Reservation
from restow.scheduling.reservations.validity import MOST_SEATS, least, problems, wanted


def reservation(**spec: Any) -> Reservation:
    return msgspec.convert({"metadata": {"name": "r", "namespace": "default"}, "spec": spec}, Reservation)


def task(name: str = "web", replicas: int | None = 2, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    counted = {} if replicas is None else {"replicas": replicas}
    return {"name": name, **counted, "template": {"spec": {"containers": [container], **spec}}}


@pytest.mark.parametrize(
    ("spec", "seats", "at_once"),
    [
        pytest.param({"tasks": [task()]}, {"web": 2}, 2, id="all of them where it does not say"),
        pytest.param({"tasks": [task()], "minAvailable": 1}, {"web": 2}, 1, id="as many as it says"),
        pytest.param({"tasks": [task()], "minAvailable": 0}, {"web": 2}, 2, id="0 is left out in Go"),
        pytest.param({"tasks": [task(replicas=None)]}, {"web": 1}, 1, id="one seat where it does not say"),
        pytest.param({"tasks": [task("a"), task("b", 1)]}, {"a": 2, "b": 1}, 3, id="the sum of tasks"),
    ],
)
def test_what_it_asks_for(spec: dict[str, Any], seats: dict[str, int], at_once: int) -> None:
    asked = reservation(**spec)
    assert (wanted(asked), least(asked), problems(asked)) == (seats, at_once, [])


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        pytest.param({}, ["spec.tasks: there is no seat to hold"], id="no task"),
        pytest.param({"tasks": [task(replicas=0)]}, ["spec.tasks: there is no seat to hold"], id="no replica"),
        pytest.param(
            {"tasks": [task(replicas=MOST_SEATS), task("b", 1)]},
            ["spec.tasks: 5001 seats are more than 5000"],
            id="more than an object holds",
        ),
        pytest.param(
            {"tasks": [task("a"), task("b"), task("a")]},
            ["spec.tasks[2].name: 'a' is the name of tasks[0], too"],
            id="a name twice",
        ),
        pytest.param(
            {"tasks": [task("a/b")]},
            ["spec.tasks[0].name: must be lower case letters, digits or '-', and start and end with a letter or digit"],
            id="a name that cannot be part of a seat's",
        ),
        pytest.param(
            {"tasks": [task(), task("b", -1)]}, ["spec.tasks[1].replicas: -1 is negative"], id="negative replicas"
        ),
        pytest.param(
            {"tasks": [task()], "minAvailable": 3},
            ["spec.minAvailable: 3 is more than the 2 seats there are"],
            id="more at once than there are",
        ),
        pytest.param(
            {"tasks": [task()], "minAvailable": -1}, ["spec.minAvailable: -1 is negative"], id="negative minAvailable"
        ),
        pytest.param({"tasks": [task()], "ttl": "-5s"}, ["spec.ttl: -5s is negative"], id="negative ttl"),
        pytest.param(
            {"tasks": [task()], "ttl": "soon"},
            [
                "spec.ttl: duration 'soon': expected numbers with units (ns us ms s m h), such as 600s or 1h30m",
            ],
            id="no duration",
        ),
        pytest.param(
            {"tasks": [task()], "expires": "tomorrow"},
            ["spec.expires: time 'tomorrow': expected RFC 3339, such as 2026-01-31T12:00:00Z"],
            id="no time",
        ),
        pytest.param(
            {"tasks": [task()], "matchPolicy": "Same"},
            ["spec.matchPolicy: 'Same' is neither Template nor Fits"],
            id="an unknown policy",
        ),
        pytest.param(
            {"tasks": [task(cpu="-4", overhead={"memory": "-1Gi"})]},
            [
                "spec.tasks[0].template.spec.containers[0].resources.requests.cpu: quantity '-4': must not be negative",
                "spec.tasks[0].template.spec.overhead.memory: quantity '-1Gi': must not be negative",
            ],
            id="seats that would give room away",
        ),
    ],
)
def test_every_problem_with_its_path(spec: dict[str, Any], told: list[str]) -> None:
    assert [str(one) for one in problems(reservation(**spec))] == told


def test_a_selector_and_a_quantity_nobody_can_read_are_told_together() -> None:
    selector = {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["web"]}]}
    asked = reservation(tasks=[task(cpu="2c")], owners=[{}, {"labelSelector": selector}])
    assert [one.path for one in problems(asked)] == [
        "spec.owners[1].labelSelector",
        "spec.tasks[0].template.spec.containers[0].resources.requests.cpu",
    ]
