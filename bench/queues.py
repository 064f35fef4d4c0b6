"""Locking nodes for 200 queues with guarantees on 5,000 nodes of which no two are equally idle.

Measured twice: the first time, when nothing is locked, and again, as every few seconds, when everything is. The gap is
what is not proven of a choice: how much less the best possible set might cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.measure import measured
from bench.report import Claim, Report, Row
from restow.model.objects import Guarantee, GuaranteePercentage, ObjectMeta, Queue, QueueSpec
from restow.queues.fleet import Fleet, Use
from restow.queues.locking import Lock, relock

NODES, QUEUES = 5_000, 200
SECONDS, MEAN_GAP = 1.0, 0.05


def fleet() -> Fleet:
    """Nodes of nine sizes, filled at random; every queue runs on twenty of them."""
    random = np.random.default_rng(7)
    offered = np.vstack(
        [random.choice([16, 32, 64], NODES) * 1000, random.choice([64, 128, 256], NODES) * 2**30]
    ).astype(np.int64)
    idle = (offered * random.random((2, NODES))).astype(np.int64)
    used = {}
    for number in range(QUEUES):
        nodes = np.sort(random.choice(NODES, 20, replace=False))
        used[_name(number)] = Use(nodes, ((offered - idle)[:, nodes] * random.random(20) / 2).astype(np.int64))
    return Fleet(
        names=tuple(f"n{number:05}" for number in range(NODES)),
        resources=("cpu", "memory"),
        offered=offered,
        idle=idle,
        staying=np.zeros_like(offered),
        schedulable=np.ones(NODES, np.bool_),
        used=used,
    )


def queues() -> list[Queue]:
    """Every tenth asks for a share of the nodes, the others for amounts."""
    random = np.random.default_rng(11)
    found = []
    for number in range(QUEUES):
        cores, gibibytes = random.integers(20, 400), random.integers(80, 1500)
        if number % 10 == 9:
            guarantee = Guarantee(percentage=GuaranteePercentage(value=0.002))
        else:
            guarantee = Guarantee(resource={"cpu": str(cores), "memory": f"{gibibytes}Gi"})
        found.append(Queue(metadata=ObjectMeta(name=_name(number)), spec=QueueSpec(guarantee=guarantee)))
    return found


def locking(when: str) -> Callable[[], Any]:
    nodes, asking = fleet(), queues()
    present = {} if when == "first" else {name: lock.nodes for name, lock in relock(nodes, asking, {}).items()}

    def run() -> dict[str, float]:
        locks = relock(nodes, asking, present)
        changed = sum(lock.nodes != tuple(present.get(name, ())) for name, lock in locks.items())
        return {
            "mean_gap": _mean_gap(locks),
            "largest_gap": max(lock.gap for lock in locks.values()),
            "queues": len(locks),
            "changed": changed,
        }

    return run


def run() -> Report:
    costs = {when: measured(f"bench.queues:locking:{when}", runs=3) for when in ("first", "again")}
    rows = [Row(what=f"locked {when}", figures={"cpu_s": cost.cpu, **cost.value}) for when, cost in costs.items()]
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


def _mean_gap(locks: dict[str, Lock]) -> float:
    return sum(lock.gap for lock in locks.values()) / len(locks)
