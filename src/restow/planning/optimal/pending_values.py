"""Gives each pending pod a value, so that the solution with the highest total value is the best plan for them.

Goes in: the pending pods, and what is free. Comes out: groups of equal pods, each with its value: one number in which
the following rules are nested, the first one first.

    1. priority           one pod of a higher priority outweighs all pods of lower priorities together
    2. scarcest resource  within a priority, the amount of the scarcest resource that is placed; extended resources
                          before others
    3. number of pods     then the number of placed pods

Equal pods are placed in the order of their creation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd

import msgspec
import numpy as np

from restow.model.cluster import PodClass
from restow.model.cluster.resource_columns import Amounts
from restow.model.objects import Pod
from restow.model.resources import PODS, is_extended
from restow.model.snapshot import Snapshot
from restow.planning.optimal.packing_problem import Ints
from restow.planning.optimal.schedulable_jobs import SchedulableJobs, schedulable_jobs
from restow.planning.plan import PlanRefusal
from restow.planning.plan_request import PlanRequest
from restow.scheduling.jobs import Job
from restow.scheduling.queue_shares import QueueShares

_MAX_UNITS = 10**6
"""Units that one pod is worth at most: a solver with floating-point numbers does not see smaller differences."""


class PendingGroup(msgspec.Struct, frozen=True, eq=False):
    """Equal pending pods, the oldest first."""

    pods: tuple[Pod, ...]
    pod_class: PodClass
    value: int
    gang: int | None
    queue: str


class PendingPods(msgspec.Struct, frozen=True, eq=False):
    groups: tuple[PendingGroup, ...]
    gang_minimums: dict[int, int]
    """By gang: how many of its pods have to be placed, if any is."""
    unit: int
    """The difference in value that the solver has to see."""
    unit_value: int
    """The value of the smallest amount of the scarcest resource, at the lowest priority."""
    scarcest: str
    """The scarcest resource, at the highest priority."""
    unit_amount: int
    """The amount of it that has that value. 0 where pods of several priorities are pending: then values of different
    resources are added up, and cannot be turned back into an amount."""
    shares: QueueShares
    """What the queues may still take."""
    refusals: tuple[PlanRefusal, ...]
    pod_count: int
    """How many pods are pending, with those that are refused."""
    seated_count: int
    """How many of them have the seat of a reservation."""


class _ClassPods(msgspec.Struct, eq=False):
    """Equal pods, before they have a value."""

    priority: int
    pod_class: PodClass
    gang: int | None
    queue: str
    pods: list[Pod] = []


def value_pending_pods(snapshot: Snapshot, request: PlanRequest) -> PendingPods:
    groups: dict[tuple[int, PodClass, int | None, str], _ClassPods] = {}
    gang_minimums: dict[int, int] = {}
    schedulable = schedulable_jobs(snapshot, request)
    for number, job in enumerate(schedulable.jobs):
        gang, pods = _gang_and_pods(job, number)
        if gang is not None:
            gang_minimums[gang] = job.min_available
        for pod in pods:
            key = (job.priority, snapshot.class_of(pod), gang, job.queue)
            groups.setdefault(key, _ClassPods(*key)).pods.append(pod)
    return _with_values(snapshot, list(groups.values()), gang_minimums, schedulable)


def _gang_and_pods(job: Job, number: int) -> tuple[int | None, Sequence[Pod]]:
    """The gang that the pods of a job have to be placed with, if any, and the pods. Of a gang with minimums per role
    only the pods that it starts with count. A gang that has pods on nodes already is completed pod by pod."""
    if job.placed or not job.is_gang:
        return None, job.pods
    return number, job.pods[: job.min_available] if job.min_by_role else job.pods


# --- values -----------------------------------------------------------------------------------------------------------


def _with_values(
    snapshot: Snapshot, classes: list[_ClassPods], gang_minimums: dict[int, int], schedulable: SchedulableJobs
) -> PendingPods:
    """The values, from the lowest priority to the highest.

    A pod's value is `steps * step_value + lower_total + 1`, where
    - `lower_total` is the value of all pods of lower priorities together, so that one pod outweighs them (rule 1);
    - a step is the greatest common divisor of the requests for the scarcest resource, and `step_value` is more than all
      pods of the priority count by themselves, so that one step outweighs any number of pods (rule 2);
    - the rest counts pods (rule 3).
    """
    groups: list[PendingGroup] = []
    lower_total, unit_value, scarcest, unit_amount = 0, 1, "", 0
    for priority in sorted({each.priority for each in classes}):
        level = [each for each in classes if each.priority == priority]
        scarcest, column = _scarcest_resource(snapshot, level)
        requests = [dict(each.pod_class.shape.amounts).get(column, 0) for each in level]
        step = gcd(*requests) or 1
        pod_count = sum(len(each.pods) for each in level)
        step_value = (pod_count + 1) * (lower_total + 1)
        unit_value, unit_amount = (unit_value, 0) if lower_total else (step_value, step)
        for each, amount in zip(level, requests, strict=True):
            value = amount // step * step_value + lower_total + 1
            oldest_first = tuple(sorted(each.pods, key=_age))
            groups.append(PendingGroup(oldest_first, each.pod_class, value, each.gang, each.queue))
        lower_total = sum(group.value * len(group.pods) for group in groups)
    highest = max((group.value for group in groups), default=1)
    return PendingPods(
        groups=tuple(sorted(groups, key=lambda group: (-group.value, _age(group.pods[0])))),
        gang_minimums=gang_minimums,
        unit=max(unit_value, highest // _MAX_UNITS),
        unit_value=unit_value,
        scarcest=scarcest,
        unit_amount=unit_amount,
        shares=schedulable.shares,
        refusals=schedulable.refusals,
        pod_count=schedulable.pending_count,
        seated_count=schedulable.seated_count,
    )


def _scarcest_resource(snapshot: Snapshot, classes: Iterable[_ClassPods]) -> tuple[str, int]:
    """The resource of which most is requested in proportion to what is free, and its column. Extended resources come
    before others, and the number of pods last."""
    room, present = snapshot.room, np.flatnonzero(snapshot.nodes.present[snapshot.rows.every])
    requested: dict[int, int] = {}
    for each in classes:
        _add_amounts(requested, each.pod_class.shape.amounts, len(each.pods))
    names = {column: room.resources.name(column) for column in requested}
    columns = [column for column in requested if names[column] != PODS]
    if not columns:
        return PODS, room.resources.column(PODS)
    free = {column: sum(np.maximum(free_amounts(snapshot, column)[present], 0).tolist()) for column in columns}

    def scarcity(column: int) -> tuple[bool, float, str]:
        return is_extended(names[column]), requested[column] / max(free[column], 0.5), names[column]

    scarcest = max(columns, key=scarcity)
    return names[scarcest], scarcest


def free_amounts(snapshot: Snapshot, column: int) -> Ints:
    """What is free of a resource on each row; 0 for a resource that only pending pods name."""
    room = snapshot.room
    return room.free[column] if column < len(room.free) else np.zeros(snapshot.rows.capacity, np.int64)


def _add_amounts(total: dict[int, int], amounts: Amounts, times: int) -> None:
    for column, amount in amounts:
        total[column] = total.get(column, 0) + times * amount


def _age(pod: Pod) -> tuple[str, str, str]:
    return pod.metadata.creation_timestamp or "", pod.metadata.namespace or "", pod.metadata.name
