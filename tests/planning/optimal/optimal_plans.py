"""Replayed plans of the optimiser, and the clusters, gangs and clocks that they are made with."""

from __future__ import annotations

from typing import Any

import numpy as np

from restow.model.objects import (
    ObjectMeta,
    Pod,
    PodGroup,
    PodGroupPhase,
    PodGroupSpec,
    PodGroupStatus,
)
from restow.model.snapshot import Snapshot
from restow.planning.optimal.packing_problem import Demand, PackingProblem
from restow.planning.optimal.pricing import DualPrices
from restow.planning.optimal.strategy import plan_optimal
from restow.planning.plan import Plan
from restow.planning.replay import replay_plan
from restow.scheduling.pod_group_cache import PodGroupCache
from tests.planning.clusters import app, node_of_ten, plan_request, snapshot_of, with_annotations


def checked_plan(snapshot: Snapshot, **asked: Any) -> Plan:
    """A plan that was replayed, with as many steps as such a cluster needs."""
    request = plan_request(snapshot, **{"work_limit": 30, "time_limit": 60.0, **asked})
    plan = plan_optimal(snapshot, request)
    assert replay_plan(snapshot, plan, request).defects == ()
    assert len(plan.moves) <= request.max_moves
    return plan


def pending_pod(name: str, cpu: str, **fields: Any) -> Pod:
    return app(name, cpu, phase="Pending", **fields)


def scattered_cluster() -> Snapshot:
    """Three nodes, each half full: one can be emptied with two moves, or with one if it is the last."""
    pods = [app("a1", "3", on="a"), app("a2", "2", on="a"), app("b1", "3", on="b"), app("b2", "2", on="b")]
    return snapshot_of([node_of_ten("a"), node_of_ten("b"), node_of_ten("c")], [*pods, app("c1", "4", on="c")])


def gang_members(*pods: Pod, least: int) -> tuple[tuple[Pod, ...], PodGroupCache]:
    group = PodGroup(
        metadata=ObjectMeta(name="ring", namespace="default"),
        spec=PodGroupSpec(min_member=least),
        status=PodGroupStatus(phase=PodGroupPhase.INQUEUE),
    )
    members = tuple(with_annotations(pod, {"scheduling.k8s.io/group-name": "ring"}) for pod in pods)
    pod_groups = PodGroupCache()
    pod_groups.apply_group(group)
    for member in members:
        pod_groups.apply_pod(member)
    return members, pod_groups


class TickingClock:
    """Goes on by a tick whenever it is looked at."""

    def __init__(self, tick: float) -> None:
        self.reads = 0
        self._tick = tick

    def __call__(self) -> float:
        self.reads += 1
        return 1e9 + self.reads * self._tick


class CutShortClock(TickingClock):
    """A clock that jumps past the time limit, as the one of `restow plan` does after Ctrl-C."""

    def __init__(self, tick: float, at: int, by: float) -> None:
        super().__init__(tick)
        self._at, self._by = at, by

    def cut_short(self) -> None:
        self._at = self.reads

    def __call__(self) -> float:
        return super().__call__() + (self._by if self.reads > self._at else 0.0)


def crowded_problem(demands: int = 12) -> tuple[PackingProblem, DualPrices]:
    """A large node and waiting pods of very different sizes."""
    sizes = [np.array([7 + 3 * number, 90 - 5 * number], np.int64) for number in range(demands)]
    everywhere = np.ones(2, np.bool_)
    problem = PackingProblem(
        free=np.array([[900, 900], [40, 900]], np.int64),
        class_sizes=np.array([[5, 5]], np.int64),
        movable_pods=[{0: 3}, {0: 2}],
        allowed_nodes=lambda which: everywhere,
        one_per_node=np.zeros(1, np.bool_),
        max_moves=4,
        cannot_empty=np.zeros(2, np.bool_),
        demands=[Demand(size=size, allowed_nodes=everywhere, value=int(size.sum()), count=9) for size in sizes],
    )
    return problem, DualPrices(1.0, np.zeros(demands), np.zeros(1), np.zeros(2), 0.0)
