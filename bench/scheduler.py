"""Placing pods without an API server: sessions over a snapshot of 5,000 and of 20,000 nodes, all default plugins on.

What is timed is the whole path of a pod that waits: jobs, queue order, engine, assume, decision. Rates are pods per
second of CPU; latencies are from one decision to the next. Each class of pods has been seen once before the clock
starts. Pods are in the order of a queue: by age, those of a second by name, so mostly by workload; where classes take
turns instead, each has to catch up with what all others did since. Preferences, for which all feasible nodes have to be
compared, are reported without a claim. Pods of many queues take turns by queue; half of the nodes are locked for the
queues then, or none are; what locks leave of the speed is claimed for one class and for many. The peer is what one
would write first: a loop over all nodes for each pod.

All that is measured takes turns, each in a fresh process, and what is compared stands side by side, since the machine's
pace changes by a quarter from minute to minute. Reported is the cheapest turn of each, for both sides of a ratio: what
it costs without disturbance by other programs, and nothing about how frequent those are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from msgspec.structs import replace

from bench.measure import Cost, measured_in_turns
from bench.report import Claim, Report, Row
from bench.workloads import KINDS, PREFERENCES, nodes, pods
from restow.control.scheduler import SchedulerSettings
from restow.model.objects import Node, ObjectMeta, Pod, Queue, QueueReservation, QueueStatus
from restow.model.queues import QUEUE_ANNOTATION
from restow.model.resources import PODS, parse_amounts, pod_requests
from restow.model.snapshot import Snapshot
from restow.model.taints import untolerated_taint
from restow.scheduling.decisions import Assign
from restow.scheduling.jobs import Job
from restow.scheduling.pod_group_cache import PodGroupCache
from restow.scheduling.registry import read_profile
from restow.scheduling.session import PendingWork, Session
from restow.scheduling.session_decisions import SessionDecisions

NODES, MORE_NODES = 5_000, 20_000
CLASSES = (1, 20, 100)
KNOWN = 20  # classes, where numbers of nodes are compared
COUNT = 4_000  # a node takes one pod at most of a class that keeps apart
PLAIN_COUNT = 20_000
QUEUED_COUNT = 10_000
NAIVE_COUNT = 20
PER_SESSION = SchedulerSettings().max_session_pods  # as many as the running scheduler takes at once
IN_TURNS = "in turns"
QUEUES, LOCKED = 200, NODES // 2
QUEUED_CLASSES = (1, 20)
NAIVE = f"bench.scheduler:naive:{NODES}"
LEAST_PLAIN, LEAST_CONSTRAINED, MOST_GROWTH = 20_000, 5_000, 1.5
LEAST_LOCKED = 0.9
TURNS = 4


class _TimedDecisions(SessionDecisions):
    """Decisions of a session that look at the clock at each assignment."""

    def __init__(self, session: Session, times: list[float]) -> None:
        super().__init__(session.snapshot, session.pod_groups, session.shares, session.kept_room, session.now)
        self._times = times

    def assign_single(self, job: Job, assigned: Assign) -> None:
        super().assign_single(job, assigned)
        self._times.append(time.perf_counter())


def placing(kind: str, classes: str, count: str, order: str = "") -> Callable[[], dict[str, float]]:
    """Place pods of a kind on this many nodes."""
    snapshot, pod_groups, profile = Snapshot(), PodGroupCache(), read_profile({})
    for node in nodes(int(count)):
        snapshot.apply_node(node)
    total = int(classes) + (PLAIN_COUNT if kind == "plain" else COUNT)
    waiting = pods(kind, total, int(classes), in_turns=order == IN_TURNS)
    known, rest = waiting[: int(classes)], sorted(waiting[int(classes) :], key=_age)

    def place(some: list[Pod], times: list[float]) -> int:
        session = Session(snapshot, profile.engine, pod_groups, PendingWork(some), now=0.0)
        session.decisions = _TimedDecisions(session, times)
        return sum(isinstance(decision, Assign) for decision in session.run(profile.actions))

    place(known, [])

    def work() -> dict[str, float]:
        placed, waits = 0, [np.zeros(0)]
        for start in range(0, len(rest), PER_SESSION):
            times: list[float] = []
            placed += place(rest[start : start + PER_SESSION], times)
            waits.append(np.diff(times))
        p50, p99 = np.percentile(np.concatenate(waits), (50, 99)).tolist()
        return {"placed": placed, "p50_us": p50 * 1e6, "p99_us": p99 * 1e6}

    return work


def queued(classes: str, locked: str) -> Callable[[], dict[str, float]]:
    """Place plain pods of many queues, for which this many nodes are locked."""
    snapshot, pod_groups, profile = Snapshot(), PodGroupCache(), read_profile({})
    for node in nodes(NODES):
        snapshot.apply_node(node)
    for queue in _queues(snapshot.rows.names()[: int(locked)]):
        snapshot.apply_queue(queue)
        pod_groups.queues.apply(queue)
    known = int(classes) * QUEUES
    waiting = [_in_queue(pod, number) for number, pod in enumerate(pods("plain", known + QUEUED_COUNT, int(classes)))]

    def place(some: list[Pod]) -> int:
        session = Session(snapshot, profile.engine, pod_groups, PendingWork(some), now=0.0)
        return sum(isinstance(decision, Assign) for decision in session.run(profile.actions))

    place(waiting[:known])
    rest = sorted(waiting[known:], key=_age)
    return lambda: {
        "placed": sum(place(rest[start : start + PER_SESSION]) for start in range(0, len(rest), PER_SESSION))
    }


def _queues(locked: list[str]) -> Iterator[Queue]:
    each = len(locked) // QUEUES
    for number in range(QUEUES):
        shown = QueueReservation(nodes=locked[number * each : (number + 1) * each])
        yield Queue(metadata=ObjectMeta(name=f"queue-{number}"), status=QueueStatus(reservation=shown))


def _in_queue(pod: Pod, number: int) -> Pod:
    annotations = {QUEUE_ANNOTATION: f"queue-{number % QUEUES}"}
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations))


def _age(pod: Pod) -> tuple[str, str]:
    """The order of a queue, whatever part of it a session takes."""
    return pod.metadata.creation_timestamp or "", pod.metadata.name


def naive(count: str) -> Callable[[], dict[str, float]]:
    """The loop over nodes: fits, tolerates, and the emptiest wins."""
    places = [(node, dict(parse_amounts(node.status.allocatable))) for node in nodes(int(count))]
    waiting = pods("plain", NAIVE_COUNT, 1)

    def place(pod: Pod) -> int:
        requests = {**pod_requests(pod), PODS: 1}
        fitting = [free for node, free in places if _fits(pod, node, free, requests)]
        if not fitting:
            return 0
        best = max(fitting, key=lambda free: _left_over(free, requests))
        for name, amount in requests.items():
            best[name] -= amount
        return 1

    return lambda: {"placed": sum(map(place, waiting))}


def _fits(pod: Pod, node: Node, free: dict[str, int], requests: dict[str, int]) -> bool:
    labels = node.metadata.labels or {}
    return (
        not node.spec.unschedulable
        and all(free.get(name, 0) >= amount for name, amount in requests.items())
        and all(labels.get(key) == value for key, value in (pod.spec.node_selector or {}).items())
        and not any(untolerated_taint(node.spec.taints or (), pod.spec.tolerations or ()))
    )


def _left_over(free: dict[str, int], requests: dict[str, int]) -> float:
    return sum((free[name] - amount) / free[name] for name, amount in requests.items() if free[name])


def run() -> Report:
    wanted = dict(_subjects())
    costs = measured_in_turns(list(wanted), turns=TURNS)
    for subject, cost in costs.items():
        if cost.value["placed"] != wanted[subject]:
            raise RuntimeError(f"{subject}: {cost.value['placed']:.0f} of {wanted[subject]} pods were placed")
    return Report(
        name=f"placing pods on {NODES:,} nodes, no API server", rows=list(_rows(costs)), claims=list(_claims(costs))
    )


Costs = Mapping[str, Cost]
"""By subject."""


def _subjects() -> Iterator[tuple[str, int]]:
    """What is measured, and how many pods are to be placed; what is compared comes one after the other."""
    for kind in KINDS:
        pods = PLAIN_COUNT if kind == "plain" else COUNT
        yield from ((_placing(kind, classes), pods) for classes in CLASSES)
        yield _placing(kind, KNOWN, MORE_NODES), pods
        yield _placing(kind, CLASSES[-1], order=IN_TURNS), pods
    for kind in PREFERENCES:
        yield from ((_placing(kind, KNOWN, count), COUNT) for count in (NODES, MORE_NODES))
    for classes in QUEUED_CLASSES:
        yield from ((_queued(classes, locked), QUEUED_COUNT) for locked in (0, LOCKED))
    yield NAIVE, NAIVE_COUNT


def _placing(kind: str, classes: int, count: int = NODES, order: str = "") -> str:
    return f"bench.scheduler:placing:{kind}:{classes}:{count}:{order}"


def _queued(classes: int, locked: int) -> str:
    return f"bench.scheduler:queued:{classes}:{locked}"


def _rows(costs: Costs) -> Iterator[Row]:
    for kind, what in KINDS.items():
        for classes in CLASSES:
            yield _row(f"{what}, classes: {classes}", costs, _placing(kind, classes))
    for kind, what in KINDS.items():
        label = f"{what}, classes: {KNOWN}, {MORE_NODES:,} nodes"
        yield _row(label, costs, _placing(kind, KNOWN, MORE_NODES), compared=False)
    for kind, what in KINDS.items():
        label = f"{what}, classes: {CLASSES[-1]}, which take turns"
        yield _row(label, costs, _placing(kind, CLASSES[-1], order=IN_TURNS))
    for kind, what in PREFERENCES.items():
        for count in (NODES, MORE_NODES):
            label = f"{what}, {count:,} nodes"
            yield _row(label, costs, _placing(kind, KNOWN, count), compared=count == NODES)
    for classes in QUEUED_CLASSES:
        for locked in (0, LOCKED):
            label = f"plain, {QUEUES} queues, {locked:,} nodes locked, classes: {classes}"
            yield _row(label, costs, _queued(classes, locked))
    yield _row("a loop over nodes, plain", costs, NAIVE)


def _row(what: str, costs: Costs, subject: str, *, compared: bool = True) -> Row:
    """`compared` with the loop over nodes, where that has as many of them."""
    cost = costs[subject]
    latencies = {name: cost.value[name] for name in ("p50_us", "p99_us") if name in cost.value}
    ratio = _per_pod(costs[NAIVE]) / _per_pod(cost) if compared else None
    return Row(what=what, figures={"pods_per_s": 1 / _per_pod(cost), **latencies}, ratio=ratio)


def _claims(costs: Costs) -> Iterator[Claim]:
    for kind, what in KINDS.items():
        slowest = max(_per_pod(costs[_placing(kind, classes)]) for classes in CLASSES)
        least = LEAST_PLAIN if kind == "plain" else LEAST_CONSTRAINED
        yield Claim(what=f"{what}: pods/s, up to {CLASSES[-1]} classes", wanted=least, measured=1 / slowest)
    for kind, what in KINDS.items():
        growth = _per_pod(costs[_placing(kind, KNOWN, MORE_NODES)]) / _per_pod(costs[_placing(kind, KNOWN)])
        label = f"{what}: times the cost per pod on {MORE_NODES:,} nodes"
        yield Claim(what=label, wanted=MOST_GROWTH, measured=growth, at_least=False)
    left = min(
        _per_pod(costs[_queued(classes, 0)]) / _per_pod(costs[_queued(classes, LOCKED)]) for classes in QUEUED_CLASSES
    )
    yield Claim(what=f"{QUEUES} queues: speed with locks to that without", wanted=LEAST_LOCKED, measured=left)


def _per_pod(cost: Cost) -> float:
    return cost.cpu / float(cost.value["placed"])
