"""Properties of every optimal plan on difficult clusters: see `difficult_clusters`.

RESTOW_OPTIMISER_CLUSTERS says how many of them are tried.
"""

from __future__ import annotations

import os
from collections import defaultdict
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from restow.model.inventory import Inventory, read_inventory
from restow.model.objects import Pod
from restow.model.snapshot import Snapshot
from restow.planning.measures import cluster_overview, count_slots
from restow.planning.move_ordering import DesiredMove, order_moves
from restow.planning.optimal.pending_values import value_pending_pods
from restow.planning.plan import Measures, Plan
from restow.planning.plan_effect import measures_after
from restow.planning.plan_request import PlanProgress, PlanRequest
from restow.planning.replay import replay_plan
from restow.planning.strategies import make_plan
from restow.running.configuration import Configuration
from restow.scheduling.jobs import jobs_of_pods
from restow.scheduling.pod_group_cache import requests_of
from restow.scheduling.queue_shares import QueueShares
from restow.scheduling.registry import read_profile
from restow.snapshots.offline import OfflineCluster, PlanOptions, offline_plan_request, schedule_offline
from tests.planning.optimal.difficult_clusters import difficult_cluster
from tests.planning.optimal.optimal_plans import CutShortClock

CLUSTERS = int(os.environ.get("RESTOW_OPTIMISER_CLUSTERS", "6"))
FIGURES = {"free-nodes": "freeNodes", "slots": "slots", "pending": "placedPods"}
SHAPES = ({"cpu": 1_000}, {"cpu": 4_000, "memory": 4 << 30}, {"nvidia.com/gpu": 2}, {"memory": 1 << 30})
MOVES = (50, 5, 1, 10, 2, 0)
NOW = 1_800_000_000.0
PROFILE = read_profile({})


@cache
def inventory(seed: int) -> Inventory:
    document = difficult_cluster(seed, wild=seed % 2 == 1)
    return read_inventory(msgspec.json.encode(document), f"nasty {seed}")


def cluster_and_request(seed: int, objective: str) -> tuple[OfflineCluster, PlanRequest]:
    cluster = OfflineCluster(inventory(seed))
    wish = PlanOptions(
        strategy="optimal",
        objective=objective,
        shape=SHAPES[seed % len(SHAPES)] if objective == "slots" else {},
        max_moves=MOVES[seed % len(MOVES)],
        time_limit=600.0,
        work_limit=12,
        seed=seed,
    )
    return cluster, offline_plan_request(cluster, PROFILE, Configuration(), wish, lambda: NOW)


TOLD: defaultdict[tuple[int, str], list[PlanProgress]] = defaultdict(list)
"""By seed and objective: the progress that was reported during planning."""


@cache
def cached_plan(seed: int, objective: str) -> tuple[OfflineCluster, PlanRequest, Plan]:
    cluster, request = cluster_and_request(seed, objective)
    request = replace(request, report_progress=TOLD[seed, objective].append)
    return cluster, request, make_plan("optimal", cluster.snapshot, request)


def measure(request: PlanRequest) -> Any:
    def figures(snapshot: Snapshot) -> Measures:
        return {"freeNodes": cluster_overview(snapshot, ())["freeNodes"], "slots": count_slots(snapshot, request.shape)}

    return figures


def placed_pods(request: PlanRequest, plan: Plan) -> list[Pod]:
    """The pods that a plan places."""
    pending = {(pod.metadata.namespace or "", pod.metadata.name): pod for pod in request.pending}
    return [pending[place.namespace, place.pod] for place in plan.places]


EVERY = pytest.mark.parametrize("seed", range(CLUSTERS))
OBJECTIVES = pytest.mark.parametrize("objective", FIGURES)


@EVERY
@OBJECTIVES
def test_plan_is_valid_and_lowers_no_figure(seed: int, objective: str) -> None:
    cluster, request, plan = cached_plan(seed, objective)
    assert replay_plan(cluster.snapshot, plan, request).defects == ()
    assert len(plan.moves) <= request.max_moves
    assert plan.before[FIGURES[objective]] <= plan.after[FIGURES[objective]] or objective == "pending"
    assert all(plan.after[name] >= plan.before[name] for name in plan.after if name.startswith("placed."))


@EVERY
@OBJECTIVES
def test_measures_of_a_plan_come_true_and_no_bound_is_below_them(seed: int, objective: str) -> None:
    cluster, request, plan = cached_plan(seed, objective)
    if objective == "pending":
        assert plan.after["placedPods"] == len(plan.places)
        reached = [plan.after[name] for name in plan.after if name.startswith("placed.")] or [len(plan.places)]
    else:
        reached = [measures_after(cluster.snapshot, request, plan.moves, measure(request))[FIGURES[objective]]]
        assert reached == [plan.after[FIGURES[objective]]]
    assert plan.bound is not None and "gap" in plan.after
    bounds = [stand.bound for stand in TOLD[seed, objective] if stand.bound is not None]
    assert bounds and min(bounds) >= max(reached)


def useless_moves(cluster: OfflineCluster, request: PlanRequest, plan: Plan) -> list[str]:
    """Pods with moves that could be left out, with all moves that need them, without loss."""
    ends = {move.uid: move.target for move in plan.moves}
    return [uid for uid in ends if not _is_needed(uid, ends, cluster, request, plan)]


def _is_needed(uid: str, ends: dict[str, str], cluster: OfflineCluster, request: PlanRequest, plan: Plan) -> bool:
    rest = [DesiredMove(one, target) for one, target in ends.items() if one != uid]
    left = order_moves(cluster.snapshot, request, rest, max_moves=request.max_moves)
    if request.objective == "pending":
        return not replay_plan(cluster.snapshot, replace(plan, moves=left.moves), request).valid
    figure = FIGURES[request.objective]
    reached = measures_after(cluster.snapshot, request, left.moves, measure(request))[figure]
    return bool(reached < plan.after[figure])


@EVERY
@OBJECTIVES
def test_each_move_of_a_plan_is_needed(seed: int, objective: str) -> None:
    assert useless_moves(*cached_plan(seed, objective)) == []


@pytest.mark.parametrize(("seed", "looks"), [(26, 15), *((seed, 5 + 7 * seed) for seed in range(CLUSTERS))])
@OBJECTIVES
def test_plan_that_was_cut_short_is_valid_and_has_no_useless_moves(seed: int, looks: int, objective: str) -> None:
    cluster, request = cluster_and_request(seed, objective)
    clock = CutShortClock(0.05, looks, 3_600.0)
    request = replace(request, clock=clock, started_at=None, time_limit=3_600.0, work_limit=None, max_moves=20)
    plan = make_plan("optimal", cluster.snapshot, request)  # raises where a replay finds a defect
    assert useless_moves(cluster, request, plan) == []
    assert plan.after.get(FIGURES[objective], 0) >= plan.before.get(FIGURES[objective], 0) or objective == "pending"


@EVERY
@OBJECTIVES
def test_same_cluster_gets_the_same_plan_and_stays_as_it_was(seed: int, objective: str) -> None:
    cluster, request = cluster_and_request(seed, objective)
    rows, before = cluster.snapshot.room.free.shape[0], cluster.snapshot.room.free.copy()
    plan = make_plan("optimal", cluster.snapshot, request)
    assert plan == cached_plan(seed, objective)[2]
    assert np.array_equal(cluster.snapshot.room.free[:rows], before)


@EVERY
def test_plan_places_whole_gangs_within_the_limits_of_queues(seed: int) -> None:
    cluster, request, plan = cached_plan(seed, "pending")
    shares, placed = QueueShares(cluster.pod_groups, cluster.snapshot), placed_pods(request, plan)
    for pod in placed:
        queue = cluster.pod_groups.queue_of(pod)
        assert shares.why_exceeded(queue, requests_of(pod)) is None
        shares.charge(queue, requests_of(pod))
    for job in jobs_of_pods(request.pending, cluster.pod_groups, cluster.snapshot):
        some = [pod for pod in placed if pod in job.pods]
        assert not some or job.may_place(some)


@EVERY
def test_plan_counts_the_pending_pods_of_the_scheduler_and_places_no_less_value(seed: int) -> None:
    cluster, request, plan = cached_plan(seed, "pending")
    decided = schedule_offline(OfflineCluster(inventory(seed)), PROFILE, NOW)
    refused = sum(1 for refusal in decided.unschedulable if refusal.pod)
    assert plan.after["pendingPods"] == len(decided.placements) + refused
    groups = value_pending_pods(cluster.snapshot, request).groups
    worth = {(pod.metadata.namespace, pod.metadata.name): group.value for group in groups for pod in group.pods}
    placed, scheduled = (
        sum(worth.get((one.namespace, one.pod), 0) for one in some) for some in (plan.places, decided.placements)
    )
    assert placed >= scheduled
