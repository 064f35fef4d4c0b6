"""What a reservation asks for, and whether it asks for something that can be.

Goes in: a Reservation as somebody wrote it. Comes out: how many seats of each task it wants, how many of them it cannot
do without, whether they ask for more than they were given, and every problem of its spec with the path of the field.
The API server checks the same where it knows how to; it knows nothing of quantities inside templates, of names that
occur twice, or of sums.
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

_NODES: tuple[str, ...] = get_args(Operator)
_TOLERATIONS = (None, "", "Exists", "Equal", "Gt", "Lt")
_EFFECTS = (None, "", NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)
_HOMES: dict[str, str] = {
    **dict.fromkeys(("Pod", "ReplicationController"), "v1"),
    **dict.fromkeys(("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"), "apps/v1"),
    **dict.fromkeys(("CronJob", "Job"), "batch/v1"),
}
"""Kinds of Kubernetes' own, which those of others may have the names of."""
MOST_SEATS = 5000
"""More placements than this make an object that no API server stores."""


def spec_problems(reservation: Reservation) -> list[Problem]:
    """Everything that is wrong with the spec, by path."""
    spec = reservation.spec
    found = find_problems(ReservationSpec, msgspec.to_builtins(spec), marks=True)
    found += [*_of_tasks(spec), *_of_templates(spec), *_of_sums(spec), *_of_owners(reservation), *_of_terms(spec)]
    return sorted(Problem(f"spec.{one.path}", one.message) for one in found)


def _of_tasks(spec: ReservationSpec) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for number, task in enumerate(spec.tasks or ()):
        path = f"tasks[{number}]"
        if not task.name:
            yield Problem(f"{path}.name", "it is missing")
        else:
            if task.name in first:
                yield Problem(f"{path}.name", f"{task.name!r} is the name of tasks[{first[task.name]}], too")
            first.setdefault(task.name, number)
            yield from (Problem(f"{path}.name", problem) for problem in dns_label_problems(task.name))
        if (task.replicas or 0) < 0:
            yield Problem(f"{path}.replicas", f"{task.replicas} is negative")


def _of_templates(spec: ReservationSpec) -> Iterator[Problem]:
    """What an API server takes from no pod, so that no pod could come for the seat, and what a seat makes nothing of;
    here it would only never match, or hold nothing."""
    for number, task in enumerate(spec.tasks or ()):
        path, pod = f"tasks[{number}].template.spec", task.template.spec
        if not pod.containers:
            yield Problem(f"{path}.containers", "there is none, so the seat would hold nothing; every pod has one")
        if pod.node_name:
            told = (
                "the scheduler finds the node; reservationNodeNames says where to look first, a required node affinity"
            )
            yield Problem(f"{path}.nodeName", f"{told} where it must be")
        yield from _of_resources(pod, path)
        for which, one in enumerate(pod.tolerations or ()):
            if one.operator not in _TOLERATIONS:
                yield Problem(f"{path}.tolerations[{which}].operator", _none_of(one.operator, _TOLERATIONS[2:]))
            if one.effect not in _EFFECTS:
                yield Problem(f"{path}.tolerations[{which}].effect", _none_of(one.effect, _EFFECTS[2:]))
        affinity = pod.affinity.node_affinity if pod.affinity else None
        required = affinity.required if affinity else None
        path = f"{path}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        for which, term in enumerate((required.node_selector_terms if required else None) or ()):
            for place, expression in enumerate(term.match_expressions or ()):
                if expression.operator not in _NODES:
                    told = _none_of(expression.operator, _NODES)
                    yield Problem(f"{path}[{which}].matchExpressions[{place}].operator", told)


def _of_resources(pod: PodSpec, path: str) -> Iterator[Problem]:
    """Names of which a seat would hold nothing."""
    asking = {f"{path}.resources": pod.resources}
    for field, containers in (("containers", pod.containers), ("initContainers", pod.init_containers)):
        asking |= {f"{path}.{field}[{which}].resources": one.resources for which, one in enumerate(containers or ())}
    for where, resources in asking.items():
        written = {"requests": resources.requests, "limits": resources.limits} if resources is not None else {}
        for field, named in written.items():
            for name in sorted(named or ()):
                if not is_scheduled(name):
                    told = "no node has it; a resource is cpu, memory, ephemeral-storage, hugepages-… or has a slash"
                    yield Problem(f"{where}.{field}[{name}]", told)


def _none_of(word: str | None, words: Iterable[str | None]) -> str:
    return f"{word!r} is not one of {', '.join(map(str, words))}"


def _of_sums(spec: ReservationSpec) -> Iterator[Problem]:
    seats = sum(seat_count(task) for task in spec.tasks or ())
    if not seats:
        yield Problem("tasks", "there is no seat to hold")
    if seats > MOST_SEATS:
        yield Problem("tasks", f"{seats} seats are more than {MOST_SEATS}")
    asked = spec.min_available or 0
    if asked < 0:
        yield Problem("minAvailable", f"{asked} is negative")
    if asked > seats:
        yield Problem("minAvailable", f"{asked} is more than the number of seats, {seats}")


def _of_owners(reservation: Reservation) -> Iterator[Problem]:
    namespace = reservation.metadata.namespace
    for number, owner in enumerate(reservation.spec.owners or ()):
        path, named = f"owners[{number}]", {"object": owner.object, "controller": owner.controller}
        if owner == ReservationOwner():
            yield Problem(path, "it speaks of nobody; object, controller or labelSelector is needed")
        for field, one in named.items():
            if one is not None and not (one.name or one.uid):
                yield Problem(f"{path}.{field}", "it speaks of nobody; a name or a uid is needed")
            if one is not None and one.kind and one.kind[0].islower() and not one.uid:  # else it was read somewhere
                yield Problem(f"{path}.{field}.kind", f"{one.kind!r} is no kind; they begin with a capital letter")
            if one is not None and (home := _home_of(one)) is not None:
                told = f"there is no {one.kind} in {one.api_version}; it is in {home}"
                yield Problem(f"{path}.{field}.apiVersion", told)
            if one is not None and one.namespace not in (None, "", namespace):
                told = f"{one.namespace} is not {namespace}, the namespace of the reservation"
                yield Problem(f"{path}.{field}.namespace", told)
        try:
            label_selector(owner.label_selector)
        except SelectorError as error:
            yield Problem(f"{path}.labelSelector", str(error))


def _home_of(owner: ObjectReference) -> str | None:
    """Where a kind of Kubernetes' own is, if it is looked for elsewhere among those."""
    home, version = _HOMES.get(owner.kind or ""), owner.api_version or ""
    is_its_own = "." not in version.partition("/")[0]  # groups of others have domains
    return home if home is not None and version not in ("", home) and is_its_own and not owner.uid else None


def _of_terms(spec: ReservationSpec) -> Iterator[Problem]:
    if spec.match_policy is not None and spec.match_policy not in set(MatchPolicy):
        yield Problem("matchPolicy", f"{spec.match_policy!r} is neither {' nor '.join(MatchPolicy)}")
    if spec.ttl and _seconds(spec.ttl) < 0:
        yield Problem("ttl", f"{spec.ttl} is negative")


def _seconds(ttl: str) -> float:
    try:
        return parse_duration(ttl)
    except TimeError:  # said already
        return 0.0
