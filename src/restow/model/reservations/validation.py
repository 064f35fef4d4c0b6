"""Validation of the spec of a reservation.

Goes in: a Reservation as a user wrote it. Comes out: every problem of its spec, with the path of the field. The schema
of the CRD checks what a schema can; quantities inside templates, duplicate names and sums are checked only here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import get_args

import msgspec

from restow.model.names import dns_label_problems
from restow.model.objects import (
    MatchPolicy,
    ObjectReference,
    PodSpec,
    Reservation,
    ReservationOwner,
    ReservationSpec,
)
from restow.model.problems import Problem, find_problems
from restow.model.reservations.spec import seat_count
from restow.model.resources import is_scheduled
from restow.model.selectors import Operator, SelectorError, label_selector
from restow.model.taints import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE
from restow.model.times import TimeError, parse_duration

_NODE_OPERATORS: tuple[str, ...] = get_args(Operator)
_TOLERATIONS = (None, "", "Exists", "Equal", "Gt", "Lt")
_EFFECTS = (None, "", NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)
_API_VERSIONS: dict[str, str] = {
    **dict.fromkeys(("Pod", "ReplicationController"), "v1"),
    **dict.fromkeys(("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"), "apps/v1"),
    **dict.fromkeys(("CronJob", "Job"), "batch/v1"),
}
"""The apiVersion of built-in kinds; other groups may have kinds of the same names."""
MOST_SEATS = 5000
"""More placements than this make an object that is too large for an API server."""


def spec_problems(reservation: Reservation) -> list[Problem]:
    """Everything that is wrong with the spec, sorted by path."""
    spec = reservation.spec
    problems = find_problems(ReservationSpec, msgspec.to_builtins(spec), check_formats=True)
    problems += [
        *_task_problems(spec),
        *_template_problems(spec),
        *_seat_count_problems(spec),
        *_owner_problems(reservation),
        *_policy_and_time_problems(spec),
    ]
    return sorted(Problem(f"spec.{problem.path}", problem.message) for problem in problems)


def _task_problems(spec: ReservationSpec) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for number, task in enumerate(spec.tasks or ()):
        path = f"tasks[{number}]"
        if not task.name:
            yield Problem(f"{path}.name", "is required")
        else:
            if task.name in first:
                yield Problem(f"{path}.name", f"duplicate name {task.name!r}: tasks[{first[task.name]}] has it too")
            first.setdefault(task.name, number)
            yield from (Problem(f"{path}.name", problem) for problem in dns_label_problems(task.name))
        if (task.replicas or 0) < 0:
            yield Problem(f"{path}.replicas", f"{task.replicas} is negative")


def _template_problems(spec: ReservationSpec) -> Iterator[Problem]:
    """What an API server refuses in every pod, so that no pod could match the template, and fields that a seat ignores,
    so that it would not hold what the user meant."""
    for number, task in enumerate(spec.tasks or ()):
        path, pod = f"tasks[{number}].template.spec", task.template.spec
        if not pod.containers:
            yield Problem(f"{path}.containers", "at least one container is required")
        if pod.node_name:
            message = "must be empty: reservationNodeNames prefers nodes, a required node affinity restricts them"
            yield Problem(f"{path}.nodeName", message)
        yield from _resource_problems(pod, path)
        for which, toleration in enumerate(pod.tolerations or ()):
            if toleration.operator not in _TOLERATIONS:
                yield Problem(f"{path}.tolerations[{which}].operator", _none_of(toleration.operator, _TOLERATIONS[2:]))
            if toleration.effect not in _EFFECTS:
                yield Problem(f"{path}.tolerations[{which}].effect", _none_of(toleration.effect, _EFFECTS[2:]))
        affinity = pod.affinity.node_affinity if pod.affinity else None
        required = affinity.required if affinity else None
        path = f"{path}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        for which, term in enumerate((required.node_selector_terms if required else None) or ()):
            for place, expression in enumerate(term.match_expressions or ()):
                if expression.operator not in _NODE_OPERATORS:
                    message = _none_of(expression.operator, _NODE_OPERATORS)
                    yield Problem(f"{path}[{which}].matchExpressions[{place}].operator", message)


def _resource_problems(pod: PodSpec, path: str) -> Iterator[Problem]:
    """Resource names that no node can offer, so that a seat would hold nothing of them."""
    asking = {f"{path}.resources": pod.resources}
    for field, containers in (("containers", pod.containers), ("initContainers", pod.init_containers)):
        asking |= {
            f"{path}.{field}[{which}].resources": container.resources
            for which, container in enumerate(containers or ())
        }
    for where, resources in asking.items():
        written = {"requests": resources.requests, "limits": resources.limits} if resources is not None else {}
        for field, named in written.items():
            for name in sorted(named or ()):
                if not is_scheduled(name):
                    message = "unknown resource: cpu, memory, ephemeral-storage, hugepages-… or a name with a slash"
                    yield Problem(f"{where}.{field}[{name}]", message)


def _none_of(word: str | None, words: Iterable[str | None]) -> str:
    return f"{word!r} is not one of {', '.join(map(str, words))}"


def _seat_count_problems(spec: ReservationSpec) -> Iterator[Problem]:
    seats = sum(seat_count(task) for task in spec.tasks or ())
    if not seats:
        yield Problem("tasks", "at least one seat is required")
    if seats > MOST_SEATS:
        yield Problem("tasks", f"at most {MOST_SEATS} seats are allowed, not {seats}")
    asked = spec.min_available or 0
    if asked < 0:
        yield Problem("minAvailable", f"{asked} is negative")
    if asked > seats:
        yield Problem("minAvailable", f"{asked} is more than the number of seats, {seats}")


def _owner_problems(reservation: Reservation) -> Iterator[Problem]:
    for number, owner in enumerate(reservation.spec.owners or ()):
        path = f"owners[{number}]"
        if owner == ReservationOwner():
            yield Problem(path, "object, controller or labelSelector is required")
        if owner.object is not None:
            yield from _reference_problems(owner.object, f"{path}.object", reservation.metadata.namespace)
        if owner.controller is not None:
            yield from _reference_problems(owner.controller, f"{path}.controller", reservation.metadata.namespace)
        try:
            label_selector(owner.label_selector)
        except SelectorError as error:
            yield Problem(f"{path}.labelSelector", str(error))


def _reference_problems(reference: ObjectReference, path: str, namespace: str | None) -> Iterator[Problem]:
    if not (reference.name or reference.uid):
        yield Problem(path, "name or uid is required")
    # A reference with a UID was copied from an object, so its kind and apiVersion are right.
    if reference.kind and reference.kind[0].islower() and not reference.uid:
        yield Problem(f"{path}.kind", f"{reference.kind!r} is not a kind: kinds begin with a capital letter")
    expected = _api_version_of_built_in(reference)
    if expected is not None:
        message = f"{reference.api_version} has no kind {reference.kind}, which is in {expected}"
        yield Problem(f"{path}.apiVersion", message)
    if reference.namespace not in (None, "", namespace):
        message = f"must be {namespace}, the namespace of the reservation, not {reference.namespace}"
        yield Problem(f"{path}.namespace", message)


def _api_version_of_built_in(owner: ObjectReference) -> str | None:
    """The apiVersion of a built-in kind, if the reference has another built-in apiVersion; else None."""
    expected, version = _API_VERSIONS.get(owner.kind or ""), owner.api_version or ""
    is_built_in = "." not in version.partition("/")[0]  # all other API groups are domain names
    return (
        expected if expected is not None and version not in ("", expected) and is_built_in and not owner.uid else None
    )


def _policy_and_time_problems(spec: ReservationSpec) -> Iterator[Problem]:
    if spec.match_policy is not None and spec.match_policy not in set(MatchPolicy):
        yield Problem("matchPolicy", _none_of(spec.match_policy, MatchPolicy))
    if spec.ttl and _seconds(spec.ttl) < 0:
        yield Problem("ttl", f"{spec.ttl} is negative")


def _seconds(ttl: str) -> float:
    try:
        return parse_duration(ttl)
    except TimeError:  # reported by find_problems
        return 0.0
