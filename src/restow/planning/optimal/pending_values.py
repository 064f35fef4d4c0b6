"""What it is worth to place waiting pods: by priority; within one priority the most of the scarcest resource they ask
for, extended resources before others, then the most pods; the oldest of those that are alike.

Goes in: the pods that wait, and what is free. Comes out: groups of pods that are alike, each with its worth: one number
made so that no number of less important pods outweighs a more important one.
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
from restow.planning.plan import Refusal
from restow.planning.plan_request import PlanRequest
from restow.scheduling.jobs import Job
from restow.scheduling.queue_shares import QueueShares

_LARGEST = 10**6
"""Units that one pod is worth at most: a solver cannot tell smaller differences from nothing."""


class PendingGroup(msgspec.Struct, frozen=True, eq=False):
    """Pods that wait and are alike, the oldest first."""

    pods: tuple[Pod, ...]
    pod_class: PodClass
    value: int
    gang: int | None
    queue: str


class PendingPods(msgspec.Struct, frozen=True, eq=False):
    """Everybody who waits."""

    groups: tuple[PendingGroup, ...]
    gang_minimums: dict[int, int]
    """By gang, how many of its pods have to be placed, if any is."""
    unit: int
    """The difference in worth that a solver is to tell from nothing."""
    unit_value: int
    """What the smallest amount of the scarcest resource is worth, at the lowest priority."""
    scarcest: str
    """The resource that counts first at the highest priority."""
    unit_amount: int
    """How much of it has that weight; 0 where pods of several priorities wait, so that weights are of different
    things."""
    shares: QueueShares
    """What queues may still take."""
    refusals: tuple[Refusal, ...]
    pod_count: int
    """How many pods wait, those included that are refused."""
    seated_count: int
    """How many of them have the seat of a reservation."""


class _Group(msgspec.Struct, eq=False):
    priority: int
    pod_class: PodClass
    gang: int | None
    queue: str
    pods: list[Pod] = []


def value_pending_pods(snapshot: Snapshot, request: PlanRequest) -> PendingPods:
    groups: dict[tuple[int, PodClass, int | None, str], _Group] = {}
    least: dict[int, int] = {}
    found = schedulable_jobs(snapshot, request)
    for number, job in enumerate(found.jobs):
        gang, pods = _members(job, number)
        if gang is not None:
            least[gang] = job.min_available
        for pod in pods:
            key = (job.priority, snapshot.class_of(pod), gang, job.queue)
            groups.setdefault(key, _Group(*key)).pods.append(pod)
    return _weighed(snapshot, list(groups.values()), least, found)


def _members(job: Job, number: int) -> tuple[int | None, Sequence[Pod]]:
    """Which gang a job's pods are bound by, if any, and the pods: of a gang with roles only those it starts with. One
    that has pods on nodes already is completed pod by pod."""
    if job.placed or not job.is_gang:
        return None, job.pods
    return number, job.pods[: job.min_available] if job.min_by_role else job.pods


# --- worth ------------------------------------------------------------------------------------------------------------


def _weighed(snapshot: Snapshot, groups: list[_Group], least: dict[int, int], who: SchedulableJobs) -> PendingPods:
    found: list[PendingGroup] = []
    below, weight, scarcest, amount = 0, 1, "", 0
    for priority in sorted({group.priority for group in groups}):
        level = [group for group in groups if group.priority == priority]
        scarcest, column = _scarcest(snapshot, level)
        asked = [dict(group.pod_class.shape.amounts).get(column, 0) for group in level]
        step = gcd(*asked) or 1
        pods = sum(len(group.pods) for group in level)
        each_step = (pods + 1) * (below + 1)
        weight, amount = (weight, 0) if below else (each_step, step)
        for group, each in zip(level, asked, strict=True):
            worth = each // step * each_step + below + 1
            found.append(
                PendingGroup(tuple(sorted(group.pods, key=_age)), group.pod_class, worth, group.gang, group.queue)
            )
        below = sum(one.value * len(one.pods) for one in found)
    most = max((one.value for one in found), default=1)
    ordered = sorted(found, key=lambda one: (-one.value, _age(one.pods[0])))
    return PendingPods(
        groups=tuple(ordered),
        gang_minimums=least,
        unit=max(weight, most // _LARGEST),
        unit_value=weight,
        scarcest=scarcest,
        unit_amount=amount,
        shares=who.shares,
        refusals=who.refusals,
        pod_count=who.pending_count,
        seated_count=who.seated_count,
    )


def _scarcest(snapshot: Snapshot, groups: Iterable[_Group]) -> tuple[str, int]:
    """The resource of which most is asked for compared with what is free, extended ones before others."""
    room, present = snapshot.room, np.flatnonzero(snapshot.nodes.present[snapshot.rows.every])
    asked: dict[int, int] = {}
    for group in groups:
        _count(asked, group.pod_class.shape.amounts, len(group.pods))
    named = {column: room.resources.name(column) for column in asked}
    others = [column for column in asked if named[column] != PODS]
    if not others:
        return PODS, room.resources.column(PODS)
    free = {column: sum(np.maximum(free_amounts(snapshot, column)[present], 0).tolist()) for column in others}

    def scarcity(column: int) -> tuple[bool, float, str]:
        return is_extended(named[column]), asked[column] / max(free[column], 0.5), named[column]

    best = max(others, key=scarcity)
    return named[best], best


def free_amounts(snapshot: Snapshot, column: int) -> Ints:
    """What rows have left of a resource; nothing of one that only waiting pods have heard of."""
    room = snapshot.room
    return room.free[column] if column < len(room.free) else np.zeros(snapshot.rows.capacity, np.int64)


def _count(total: dict[int, int], amounts: Amounts, times: int) -> None:
    for column, amount in amounts:
        total[column] = total.get(column, 0) + times * amount


def _age(pod: Pod) -> tuple[str, str, str]:
    return pod.metadata.creation_timestamp or "", pod.metadata.namespace or "", pod.metadata.name
