"""No strategy moves or places a pod on a node that is locked for another queue."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest

from restow.model.snapshot import Snapshot
from restow.planning.plan_request import PlanRequest
from restow.planning.replay import replay_plan
from restow.planning.strategies import make_plan
from restow.scheduling.pod_group_cache import PodGroupCache
from tests.model.cluster.builders import of_queue, pod, queue
from tests.narrowing import present
from tests.planning.clusters import app, node_of_ten, plan_request, snapshot_of

SEEDS = range(int(os.environ.get("RESTOW_SEEDS", "8")))
QUEUES = ("default", "a", "b")
NAMES = [f"n{number}" for number in range(7)]


def locked_cluster(strategy: str, seed: int) -> tuple[Snapshot, dict[str, str], PlanRequest]:
    """A cluster of half-empty nodes, some of them locked, the queue of each node, and a plan request."""
    random = Random(seed)
    pods = [
        of_queue(app(f"p{n}", f"{random.randint(5, 25)}00m", on=random.choice(NAMES)), random.choice(QUEUES))
        for n in range(14)
    ]
    snapshot = snapshot_of([node_of_ten(name) for name in NAMES], pods)
    holders = {name: random.choice((*QUEUES, "")) for name in NAMES[1:]}
    cache = PodGroupCache()
    for name in QUEUES:
        one = queue(name, *(node for node in NAMES[1:] if holders[node] == name))
        snapshot.apply_queue(one)
        cache.queues.apply(one)
    waiting = [of_queue(pod(f"w{n}", {"cpu": "6"}), random.choice(QUEUES)) for n in range(2)]
    pending = {"pending": tuple(waiting), "objective": "pending"} if strategy == "pending" else {}
    fields: dict[str, Any] = {"work_limit": 2000, "pod_groups": cache, **pending}
    return snapshot, holders, plan_request(snapshot, **fields)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("strategy", ["defragmentation", "balance", "optimal", "pending"])
def test_plans_keep_pods_off_nodes_locked_for_other_queues(strategy: str, seed: int) -> None:
    snapshot, holders, about = locked_cluster(strategy, seed)
    plan = make_plan("optimal" if strategy == "pending" else strategy, snapshot, about)
    pod_groups = present(about.pod_groups)
    whose = {one.pod.metadata.uid: pod_groups.queue_of(one.pod) for one in snapshot.pods.known.values()}
    assert all(holders.get(move.target, "") in ("", whose[move.uid]) for move in plan.moves)
    waiting = {pod.metadata.name: pod_groups.queue_of(pod) for pod in about.pending}
    assert all(holders.get(place.node, "") in ("", waiting[place.pod]) for place in plan.places)
    assert replay_plan(snapshot, plan, about).valid


def test_locks_change_some_plans() -> None:
    changed = 0
    for seed in SEEDS:
        snapshot, _, about = locked_cluster("optimal", seed)
        locked = make_plan("optimal", snapshot, about)
        for name in QUEUES:
            snapshot.remove_queue(queue(name))
        changed += locked.moves != make_plan("optimal", snapshot, about).moves
    assert changed
