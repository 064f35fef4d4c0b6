"""Planning a cluster of 5,000 nodes and 50,000 pods: both rule-by-rule strategies, as many moves as they find.

A plan counts with everything around it: what may move, the sequence in waves, the replay through the scheduler's own
filters. Reading the snapshot file is measured on its own, against the reading of the same bytes as plain JSON.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import msgspec

from bench.measure import Cost, measured, resident_mb
from bench.report import Claim, Report, Row
from restow.model.inventory import Inventory, read_inventory
from restow.running.configuration import Configuration
from restow.scheduling.registry import read_profile
from restow.sim.scenarios import Scenario, generate_snapshot
from restow.snapshots.offline import OfflineCluster, PlanOptions, plan_offline

NODES, PODS = 5_000, 50_000
ALL = 10**6
USUAL = 50
SECONDS, MEGABYTES = 5.0, 1_500.0


def file() -> bytes:
    """A generated cluster, unevenly filled, with budgets, spread, anti-affinity, DaemonSets."""
    return msgspec.json.encode(generate_snapshot(Scenario(nodes=NODES, pods=PODS, skew=1.0)))


def read() -> Inventory:
    """The cluster read from its file, with the collector off as the command line has it."""
    gc.disable()
    return read_inventory(file(), "bench")


def reading() -> Callable[[], Any]:
    data = file()
    gc.disable()
    return lambda: len(list(read_inventory(data, "bench").kinds))


def plain_json() -> Callable[[], Any]:
    data = file()
    gc.disable()
    return lambda: len(msgspec.json.decode(data))


def planning(strategy: str, moves: str) -> Callable[[], Any]:
    cluster, profile = OfflineCluster(read()), read_profile({})
    asked = PlanOptions(strategy=strategy, max_moves=int(moves))

    def run() -> dict[str, float]:
        plan = plan_offline(cluster, profile, Configuration(), asked, time.time)
        return {"moves": len(plan.moves), "resident_mb": resident_mb()}

    return run


def run() -> Report:
    costs: dict[str, Cost] = {}
    for strategy in ("defragmentation", "balance"):
        for moves in (USUAL, ALL):
            limit = f"at most {moves} moves" if moves == USUAL else "all it finds"
            costs[f"{strategy}, {limit}"] = measured(f"bench.planning:planning:{strategy}:{moves}")
    rows = [
        Row(what=what, figures={"wall_s": cost.wall, "cpu_s": cost.cpu, **cost.value}) for what, cost in costs.items()
    ]
    plain, typed = measured("bench.planning:plain_json"), measured("bench.planning:reading")
    for what, cost in (("the file as plain JSON", plain), ("the file as typed objects", typed)):
        figures = {"wall_s": cost.wall, "cpu_s": cost.cpu, "grown_mb": cost.grown_mb}
        rows.append(Row(what=what, figures=figures, ratio=cost.cpu / plain.cpu))
    claims = [
        Claim(what=f"{what}: CPU seconds", wanted=SECONDS, measured=cost.cpu, at_least=False)
        for what, cost in costs.items()
    ]
    most = max(cost.value["resident_mb"] for cost in costs.values())
    claims.append(Claim(what="megabytes, the whole process", wanted=MEGABYTES, measured=most, at_least=False))
    return Report(name=f"plan {NODES:,} nodes and {PODS:,} pods", rows=rows, claims=claims)
