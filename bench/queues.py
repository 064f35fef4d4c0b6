"""Locking nodes for 200 queues with guarantees on 5,000 nodes of which no two are equally idle.

Measured twice: the first time, when nothing is locked, and again, as every few seconds, when everything is. The gap is
what is not proven of a choice: how much less the best possible set might cost. Beside it, what a pass of the controller
does before: the usage of each queue per node from 50,000 pods, and the counts of jobs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec.structs import replace

from bench.measure import measured
from bench.report import Claim, Report, Row
from bench.workloads import nodes, pods
from restow.model.objects import Guarantee, GuaranteePercentage, ObjectMeta, Queue, QueueSpec
from restow.model.queues import QUEUE_ANNOTATION
from restow.model.snapshot import Snapshot
from restow.queues.job_counts import count_jobs
from restow.queues.node_capacity import CapacityOfNodes, QueueUsage, read_node_capacity
from restow.queues.node_locks import GuaranteeDecision, decide_locks
from restow.scheduling.pod_group_cache import PodGroupCache

NODES, QUEUES, PODS = 5_000, 200, 50_000
SECONDS, MEAN_GAP = 1.0, 0.05


def node_capacity() -> CapacityOfNodes:
    """Nodes of nine sizes, filled at random; every queue runs on twenty of them."""
    random = np.random.default_rng(7)
    offered = np.vstack(
        [random.choice([16, 32, 64], NODES) * 1000, random.choice([64, 128, 256], NODES) * 2**30]
    ).astype(np.int64)
    idle = (offered * random.random((2, NODES))).astype(np.int64)
    used = {}
    for number in range(QUEUES):
        where = np.sort(random.choice(NODES, 20, replace=False))
        used[_name(number)] = QueueUsage(where, ((offered - idle)[:, where] * random.random(20) / 2).astype(np.int64))
    return CapacityOfNodes(
        names=tuple(f"n{number:05}" for number in range(NODES)),
        resources=("cpu", "memory"),
        allocatable=offered,
        idle=idle,
        pinned=np.zeros_like(offered),
        schedulable=np.ones(NODES, np.bool_),
        untainted=np.ones(NODES, np.bool_),
        usage=used,
    )


def queues() -> list[Queue]:
    """Every tenth asks for a share of the nodes, the others for amounts."""
    random = np.random.default_rng(11)
    rates = []
    for number in range(QUEUES):
        cores, gibibytes = random.integers(20, 400), random.integers(80, 1500)
        if number % 10 == 9:
            guarantee = Guarantee(percentage=GuaranteePercentage(value=0.002))
        else:
            guarantee = Guarantee(resource={"cpu": str(cores), "memory": f"{gibibytes}Gi"})
        rates.append(Queue(metadata=ObjectMeta(name=_name(number)), spec=QueueSpec(guarantee=guarantee)))
    return rates


def locking(when: str) -> Callable[[], Any]:
    cluster, asking = node_capacity(), queues()
    present = {} if when == "first" else {name: lock.nodes for name, lock in decide_locks(cluster, asking, {}).items()}

    def run() -> dict[str, float]:
        locks = decide_locks(cluster, asking, present)
        changed = sum(lock.nodes != tuple(present.get(name, ())) for name, lock in locks.items())
        return {
            "mean_gap": _mean_gap(locks),
            "largest_gap": max(lock.gap for lock in locks.values()),
            "queues": len(locks),
            "changed": changed,
        }

    return run


def reading() -> Callable[[], Any]:
    """What is read off the cluster in a pass."""
    random = np.random.default_rng(13)
    snapshot, pod_groups = Snapshot(), PodGroupCache()
    for node in nodes(NODES):
        snapshot.apply_node(node)
    names, rates = snapshot.rows.names(), []
    for number, one in enumerate(pods("plain", PODS, 100)):
        spec = replace(one.spec, node_name=names[random.integers(NODES)])
        annotations = {QUEUE_ANNOTATION: _name(number % QUEUES)}
        pod = replace(one, spec=spec, metadata=replace(one.metadata, annotations=annotations))
        rates.append(pod)
        snapshot.apply_pod(pod)
        pod_groups.apply_pod(pod)

    def run() -> dict[str, float]:
        return {
            "queues": len(read_node_capacity(snapshot, pod_groups).usage),
            "counted": len(count_jobs(rates, pod_groups)),
        }

    return run


def run() -> Report:
    costs = {when: measured(f"bench.queues:locking:{when}", runs=3) for when in ("first", "again")}
    rows = [Row(what=f"locked {when}", figures={"cpu_s": cost.cpu, **cost.value}) for when, cost in costs.items()]
    before = measured("bench.queues:reading", runs=3)
    rows.append(Row(what=f"read before, {PODS} pods", figures={"cpu_s": before.cpu, **before.value}))
    claims = [
        Claim(
            what=f"CPU seconds to re-lock {QUEUES} queues on {NODES} nodes",
            measured=costs["again"].cpu,
            wanted=SECONDS,
            at_least=False,
        ),
        Claim(
            what="mean gap to the best possible set",
            measured=costs["first"].value["mean_gap"],
            wanted=MEAN_GAP,
            at_least=False,
        ),
    ]
    return Report(name="queues", rows=rows, claims=claims)


def _name(number: int) -> str:
    return f"q{number:03}"


def _mean_gap(locks: dict[str, GuaranteeDecision]) -> float:
    return sum(lock.gap for lock in locks.values()) / len(locks)
