"""Validation of the spec of a reservation: every problem with its path."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from restow.model.objects import Reservation
from restow.model.reservations.spec import is_for_scheduler, seats_needed, seats_per_task
from restow.model.reservations.validation import MOST_SEATS, spec_problems

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TEMPLATE = "spec.tasks[0].template.spec"
NO_RESOURCE = "unknown resource: cpu, memory, ephemeral-storage, hugepages-… or a name with a slash"
ODD = {"matchExpressions": [{"key": "zone", "operator": "Exists"}, {"key": "zone", "operator": "Eq", "values": ["a"]}]}


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
def test_seats_per_task_and_seats_needed(spec: dict[str, Any], seats: dict[str, int], at_once: int) -> None:
    asked = reservation(**spec)
    assert (seats_per_task(asked), seats_needed(asked), spec_problems(asked)) == (seats, at_once, [])


@pytest.mark.parametrize(
    ("spec", "ours"),
    [
        pytest.param({"tasks": [task()]}, True, id="it names none"),
        pytest.param({"tasks": [task()], "schedulerName": "restow"}, True, id="it names us"),
        pytest.param({"tasks": [task()], "schedulerName": "other"}, False, id="it names another"),
        pytest.param({"tasks": [task(), task("b", schedulerName="other")]}, False, id="a template names another"),
    ],
)
def test_scheduler_of_a_reservation(spec: dict[str, Any], ours: bool) -> None:
    assert is_for_scheduler(reservation(**spec), frozenset({"restow", "volcano"})) is ours


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        pytest.param({}, ["spec.tasks: at least one seat is required"], id="no task"),
        pytest.param({"tasks": [task(replicas=0)]}, ["spec.tasks: at least one seat is required"], id="no replica"),
        pytest.param(
            {"tasks": [task(replicas=MOST_SEATS), task("b", 1)]},
            ["spec.tasks: at most 5000 seats are allowed, not 5001"],
            id="more than an object holds",
        ),
        pytest.param(
            {"tasks": [{"name": "web", "template": {"container": [{"name": "main"}]}}]},
            [f"{TEMPLATE}.containers: at least one container is required"],
            id="a template of nothing, as a slip makes it",
        ),
        pytest.param(
            {"tasks": [task(nodeName="n1")]},
            [
                f"{TEMPLATE}.nodeName: must be empty: reservationNodeNames prefers nodes, a required node affinity "
                "restricts them"
            ],
            id="a node of its own choice",
        ),
        pytest.param(
            {"tasks": [task("a"), task("b"), task("a")]},
            ["spec.tasks[2].name: duplicate name 'a': tasks[0] has it too"],
            id="a name twice",
        ),
        pytest.param(
            {"tasks": [task("a/b")]},
            ["spec.tasks[0].name: must be lower case letters, digits or '-', and start and end with a letter or digit"],
            id="a name that cannot be part of a seat's",
        ),
        pytest.param(
            {"tasks": [{**task(), "name": ""}, {**task(), "name": ""}]},
            ["spec.tasks[0].name: is required", "spec.tasks[1].name: is required"],
            id="no names",
        ),
        pytest.param(
            {
                "tasks": [task()],
                "owners": [
                    {"controller": {"kind": "deployment", "name": "web"}},
                    {"object": {"kind": "pod", "name": "p"}},
                ],
            },
            [
                "spec.owners[0].controller.kind: 'deployment' is not a kind: kinds begin with a capital letter",
                "spec.owners[1].object.kind: 'pod' is not a kind: kinds begin with a capital letter",
            ],
            id="owners of no kind",
        ),
        pytest.param(
            {
                "tasks": [task()],
                "owners": [
                    {"controller": {"apiVersion": "v1", "kind": "Deployment", "name": "web"}},
                    {"object": {"apiVersion": "batch/v1beta1", "kind": "Job", "name": "j"}},
                    {"controller": {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j"}},
                    {"controller": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "s"}},
                ],
            },
            [
                "spec.owners[0].controller.apiVersion: v1 has no kind Deployment, which is in apps/v1",
                "spec.owners[1].object.apiVersion: batch/v1beta1 has no kind Job, which is in batch/v1",
            ],
            id="owners where there are none",
        ),
        pytest.param(
            {"tasks": [task(initContainers=[{"name": "i", "resources": {"limits": {"gpu": "1", "a.b/c": "1"}}}])]},
            [f"{TEMPLATE}.initContainers[0].resources.limits[gpu]: {NO_RESOURCE}"],
            id="resources that there are not",
        ),
        pytest.param(
            {"tasks": [task(), task("b", -1)]}, ["spec.tasks[1].replicas: -1 is negative"], id="negative replicas"
        ),
        pytest.param(
            {"tasks": [task()], "minAvailable": 3},
            ["spec.minAvailable: 3 is more than the number of seats, 2"],
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
            {
                "tasks": [
                    task(tolerations=[{"operator": "Exists"}, {"operator": "Exist", "effect": "No"}]),
                    task("b", affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [ODD]}}}),
                ]
            },
            [
                "spec.tasks[0].template.spec.tolerations[1].effect: 'No' is not one of NoSchedule, PreferNoSchedule, "
                "NoExecute",
                "spec.tasks[0].template.spec.tolerations[1].operator: 'Exist' is not one of Exists, Equal, Gt, Lt",
                f"spec.tasks[1].template.spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[1]"
                ".operator: 'Eq' is not one of In, NotIn, Exists, DoesNotExist, Gt, Lt",
            ],
            id="words that no pod may have",
        ),
        pytest.param(
            {"tasks": [task()], "owners": [{}, {"object": {"kind": "Pod"}}, {"controller": {"name": ""}}]},
            [
                "spec.owners[0]: object, controller or labelSelector is required",
                "spec.owners[1].object: name or uid is required",
                "spec.owners[2].controller: name or uid is required",
            ],
            id="owners without a reference",
        ),
        pytest.param(
            {"tasks": [task()], "owners": [{"controller": {"name": "web", "namespace": "elsewhere"}}]},
            ["spec.owners[0].controller.namespace: must be default, the namespace of the reservation, not elsewhere"],
            id="owners that are elsewhere",
        ),
        pytest.param(
            {"tasks": [task()], "matchPolicy": "Same"},
            ["spec.matchPolicy: 'Same' is not one of Template, Fits"],
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
def test_every_problem_of_a_spec_has_its_path(spec: dict[str, Any], told: list[str]) -> None:
    assert [str(one) for one in spec_problems(reservation(**spec))] == told


def test_invalid_selector_and_quantity_are_reported_together() -> None:
    selector = {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["web"]}]}
    asked = reservation(tasks=[task(cpu="2c")], owners=[{"object": {"name": "web-0"}}, {"labelSelector": selector}])
    assert [one.path for one in spec_problems(asked)] == [
        "spec.owners[1].labelSelector",
        "spec.tasks[0].template.spec.containers[0].resources.requests.cpu",
    ]
