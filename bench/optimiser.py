"""Planning by `optimal`: how good its plans are within seconds, beside its own greedy answer and its own bound.

Snapshots of real clusters are read from ../shared/data, or from the folder that RESTOW_DATA names; without them their
rows are left out. A large cluster comes from the scenario generator. Every plan is replayed. Staleness is what is left
of a plan when some pods have come and gone meanwhile and it is put in order again, beside a plan made afresh.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np

from bench.measure import Cost, measured
from bench.report import Claim, Report, Row
from restow.model.inventory import Inventory, read_inventory
from restow.model.kinds import POD
from restow.model.objects import Pod
from restow.planning.measures import count_slots
from restow.planning.move_ordering import DesiredMove, order_moves
from restow.planning.plan import Move, Plan
from restow.planning.plan_effect import measures_after
from restow.planning.plan_request import PlanRequest
from restow.planning.repair import repair_plan
from restow.planning.replay import replay_plan
from restow.planning.strategies import make_plan
from restow.running.configuration import Configuration
from restow.scheduling.framework import Cycle
from restow.scheduling.registry import read_profile
from restow.sim.scenarios import Scenario, generate_snapshot
from restow.snapshots.offline import OfflineCluster, PlanOptions, offline_plan_request

DATA = Path(os.environ.get("RESTOW_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
SLOTS = {25: 22, 50: 35, 100: 60}  # proven to be the most, by an independent model
GPUS = {50: 111, 100: 177, 200: 340}  # what a plain greedy reaches
CHURN = (1, 5, 10)  # percent of pods
SHAPE = {"cpu": 16_000}
FIGURES = {"free-nodes": "freeNodes", "slots": "slots", "pending": "placed.nvidia.com/gpu"}
LARGE, LARGE_MOVES = 5_000, 200
QUICK, LONGER, LONG = 5.0, 20.0, 60.0  # seconds
NO_SEARCH = 0
MOST_MB, MOST_GAP = 2_000, 3.0


def _asked(inventory: Inventory, asked: PlanOptions) -> tuple[OfflineCluster, PlanRequest]:
    cluster = OfflineCluster(inventory)
    return cluster, offline_plan_request(cluster, read_profile({}), Configuration(), asked, time.time)


def _checked(cluster: OfflineCluster, request: PlanRequest) -> Plan:
    plan = make_plan("optimal", cluster.snapshot, request)
    if not replay_plan(cluster.snapshot, plan, request).valid:
        raise RuntimeError("a plan does not survive its replay")
    return plan


def _read(name: str) -> Inventory:
    return read_inventory((DATA / name).read_bytes(), name)


def planning(name: str, objective: str, moves: str, seconds: str) -> Callable[[], dict[str, float]]:
    """Plan for a snapshot file."""
    shape = SHAPE if objective == "slots" else {}
    asked = PlanOptions(
        strategy="optimal", objective=objective, max_moves=int(moves), time_limit=float(seconds), shape=shape
    )
    cluster, request = _asked(_read(name), asked)

    def work() -> dict[str, float]:
        return _figures(_checked(cluster, request), FIGURES[objective])

    return work


def large(objective: str, seconds: str, steps: str = "") -> Callable[[], dict[str, float]]:
    """Empty nodes, or slots, of a generated cluster."""
    document = generate_snapshot(Scenario(seed=1, nodes=LARGE, pods=10 * LARGE))
    inventory = read_inventory(msgspec.json.encode(document), "generated")
    del document
    asked = PlanOptions(
        strategy="optimal",
        objective=objective,
        shape=SHAPE if objective == "slots" else {},
        max_moves=LARGE_MOVES,
        time_limit=float(seconds),
        work_limit=int(steps) if steps else None,
    )
    cluster, request = _asked(inventory, asked)
    figure = FIGURES[objective]

    def work() -> dict[str, float]:
        plan = _checked(cluster, request)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        return {**_figures(plan, figure), "peak_mb": peak, "before": plan.before[figure]}

    return work


def _figures(plan: Plan, figure: str) -> dict[str, float]:
    """What a plan reaches, what no plan exceeds, how many percent are between, and how long it took with its replay."""
    bound, gap = plan.bound or 0.0, plan.after.get("gap", 100.0)
    return {
        "value": plan.after[figure],
        "bound": bound,
        "gap": gap,
        "moves": len(plan.moves),
        "planned_in": plan.seconds,
    }


def stale(percent: str) -> Callable[[], dict[str, float]]:
    """A plan of fifty moves for vmr-medium, repaired as `restow apply` does after some pods were replaced by others
    elsewhere; beside it what is left without other targets, what there is without any move, and a fresh plan."""
    asked = PlanOptions(strategy="optimal", objective="slots", max_moves=50, time_limit=10.0, shape=SHAPE)
    inventory = _read("vmr-medium.json.gz")
    cluster, request = _asked(inventory, asked)
    old = _checked(cluster, request)
    later, wish = _asked(_churned(inventory, float(percent) / 100), asked)

    def work() -> dict[str, float]:
        known = later.snapshot.pods.known
        wanted = [DesiredMove(move.uid, move.target) for move in old.moves if move.uid in known]
        repaired = repair_plan(later.snapshot, old, wish).plan.moves
        kept = order_moves(later.snapshot, wish, wanted, max_moves=50).moves
        fresh = _checked(later, wish)
        return {
            "value": _slots_after(later, wish, repaired),
            "moves": len(repaired),
            "without_repair": _slots_after(later, wish, kept),
            "without_moves": count_slots(later.snapshot, SHAPE),
            "fresh": fresh.after["slots"],
        }

    return work


def _slots_after(cluster: OfflineCluster, request: PlanRequest, moves: Sequence[Move]) -> int | float:
    return measures_after(cluster.snapshot, request, moves, lambda after: {"slots": count_slots(after, SHAPE)})["slots"]


def _churned(inventory: Inventory, share: float) -> Inventory:
    """The cluster with a share of its pods gone, and as many of the same kinds somewhere else."""
    rng, cluster = np.random.default_rng(1), OfflineCluster(inventory)
    engine, pods = read_profile({}).engine, list(cluster.pods)
    chosen = sorted(rng.choice(len(pods), int(share * len(pods)), replace=False).tolist())
    for number in chosen:
        cluster.snapshot.remove_pod(pods[number])
    for number in chosen:
        pod = pods[number]
        metadata = msgspec.structs.replace(pod.metadata, name=f"{pod.metadata.name}-new", uid=f"{pod.metadata.uid}-new")
        spec = msgspec.structs.replace(pod.spec, node_name=None)
        new = msgspec.structs.replace(pod, metadata=metadata, spec=spec)
        rows = engine.feasible_rows(Cycle(new, cluster.snapshot, 0.0))
        if len(rows):
            node = cluster.snapshot.rows.name(int(rng.choice(rows)))
            pods[number] = _bound(new, node or "")
            cluster.snapshot.apply_pod(pods[number])
    objects = {kind: inventory.of(kind) for kind in inventory.kinds}
    return Inventory({**objects, POD: pods}, inventory.left_out)


def _bound(pod: Pod, node: str) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))


# ----------------------------------------------------------------------------------------------------------------------


def run() -> Report:
    rows, claims = [], []
    for row, more in (*_real(), *_generated()):
        rows.append(row)
        claims += more
    return Report(name="plans by the optimiser, 5 s each unless said otherwise", rows=rows, claims=claims)


def _real() -> Iterator[tuple[Row, list[Claim]]]:
    if not DATA.is_dir():
        return
    for moves, most in SLOTS.items():
        cost = measured(f"bench.optimiser:planning:vmr-medium.json.gz:slots:{moves}:5")
        what = f"vmr-medium, slots of 16 cpu, {moves} moves"
        yield _row(what, cost), [Claim(what=what, wanted=most, measured=cost.value["value"])]
    for moves, greedy in GPUS.items():
        cost = measured(f"bench.optimiser:planning:openb-gpu.json.gz:pending:{moves}:5")
        what = f"openb-gpu, pending GPUs placed, {moves} moves"
        yield _row(what, cost), [Claim(what=what, wanted=greedy + 1, measured=cost.value["value"])]
        longer = measured(f"bench.optimiser:planning:openb-gpu.json.gz:pending:{moves}:{LONGER:g}")
        yield _row(f"{what}, {LONGER:g} s", longer), []
    for percent in CHURN:
        cost = measured(f"bench.optimiser:stale:{percent}")
        yield _row(f"vmr-medium, slots of a plan that {percent} % churn made stale", cost), []


def _generated() -> Iterator[tuple[Row, list[Claim]]]:
    for objective, of in (("free-nodes", "free nodes"), ("slots", "slots of 16 cpu")):
        what = f"{LARGE:,} nodes, {10 * LARGE:,} pods, {LARGE_MOVES} moves, {of}"
        greedy = measured(f"bench.optimiser:large:{objective}:{LONG}:{NO_SEARCH}")
        quick, long = (measured(f"bench.optimiser:large:{objective}:{seconds}") for seconds in (QUICK, LONG))
        yield _row(f"{what}, greedy", greedy), []
        least = greedy.value["value"]
        yield (
            _row(what, quick),
            [
                Claim(what=what, wanted=least, measured=quick.value["value"]),
                Claim(what=f"{what}: seconds", wanted=QUICK, measured=quick.value["planned_in"], at_least=False),
            ],
        )
        better = least if greedy.value["bound"] <= least else least + 1
        yield (
            _row(f"{what}, {LONG:g} s", long),
            [
                Claim(what=f"{what}, {LONG:g} s", wanted=better, measured=long.value["value"]),
                Claim(what=f"{what}, {LONG:g} s: gap", wanted=MOST_GAP, measured=long.value["gap"], at_least=False),
                Claim(what=f"{what}, {LONG:g} s: MB", wanted=MOST_MB, measured=long.value["peak_mb"], at_least=False),
            ],
        )


def _row(what: str, cost: Cost) -> Row:
    return Row(what=what, figures={"seconds": cost.wall, "cpu_s": cost.cpu, **cost.value})
