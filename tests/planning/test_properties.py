"""Properties of every plan on random clusters: no node over-committed, no pod lost, a better measure, always the same
plan.

RESTOW_EXAMPLES says how many clusters are tried (by default few enough for every run of the tests).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace

from restow.model.objects import (
    PodDisruptionBudget,
)
from restow.model.resources import pod_requests
from restow.model.snapshot import Snapshot
from restow.planning.balance import imbalance_rates
from restow.planning.measures import utilisation_percent
from restow.planning.move_ordering import DesiredMove, order_moves
from restow.planning.plan import Move, Plan
from restow.planning.plan_request import PlanRequest
from restow.planning.replay import replay_plan
from restow.planning.strategies import make_plan
from restow.planning.usage_samples import UsageSample, UsageSamples
from tests.planning.clusters import NOW, free_nodes, plan_request
from tests.planning.random_clusters import apply_moves, property_settings, random_budgets, random_snapshots
from tests.planning.reference_checks import placement_violations, spread_violations, volume_violations

ARGUMENTS: dict[str, list[dict[str, Any]]] = {
    "defragmentation": [
        {"lowThresholds": {"cpu": 50}, "defragmentThresholds": {"cpu": 50}},
        {"lowThresholds": {"cpu": 50}, "defragmentThresholds": {"cpu": 50}, "onlyIfEmptied": True},
        {"resourceType": "memory", "lowThresholds": {"memory": 60}, "protectionThresholds": {"memory": 100, "cpu": 90}},
    ],
    "balance": [{}, {"maxThreshold": 0.05}, {"resources": ["cpu", "memory", "pods"], "maxThreshold": 0.1}],
}
BOTH = pytest.mark.parametrize("strategy", sorted(ARGUMENTS))


def packing_measure(snapshot: Snapshot, resource: str) -> float:
    """The fuller the full nodes are, and the emptier the empty ones, the larger."""
    return float((utilisation_percent(snapshot, resource) ** 2).sum())


@BOTH
@property_settings
@given(st.data())
def test_plans_by_requests_are_valid_and_improve_their_measure(strategy: str, data: st.DataObject) -> None:
    snapshot = data.draw(random_snapshots())
    budgets: list[PodDisruptionBudget] = data.draw(random_budgets)
    arguments = data.draw(st.sampled_from(ARGUMENTS[strategy]))
    most = data.draw(st.integers(0, 12))
    request = plan_request(snapshot, arguments, budgets=budgets, limit=lambda replicas, has_budget: 2, max_moves=most)
    free, count = snapshot.room.free.copy(), len(snapshot.pods.known)
    uneven, emptied = imbalance_rates(snapshot, ["cpu", "memory"]).sum(), free_nodes(snapshot)
    resource = arguments.get("resourceType", "cpu")
    packed = packing_measure(snapshot, resource)

    plan = make_plan(strategy, snapshot, request)  # raises where a replay finds a defect

    assert plan == replace(make_plan(strategy, snapshot, request), seconds=plan.seconds)
    assert len(plan.moves) <= most
    assert [
        *placement_violations(snapshot, plan),
        *spread_violations(snapshot, plan),
        *volume_violations(snapshot, plan),
    ] == []
    assert (snapshot.room.free == free).all()
    apply_moves(snapshot, plan)
    assert (snapshot.room.free >= 0).all()
    assert len(snapshot.pods.known) == count
    if strategy == "balance" and arguments.get("resources") is None and plan.moves:
        assert imbalance_rates(snapshot, ["cpu", "memory"]).sum() < uneven
    if strategy == "defragmentation":
        assert free_nodes(snapshot) >= emptied
        asks = any(pod_requests(snapshot.pods.known[move.uid].pod).get(resource) for move in plan.moves)
        assert (
            packing_measure(snapshot, resource) > packed
            if asks
            else packing_measure(snapshot, resource) == pytest.approx(packed)
        )
        protected = arguments.get("protectionThresholds", {"cpu": 95})
        for resource, percent in protected.items():
            rows = [row for move in plan.moves if (row := snapshot.rows.find_row(move.target)) is not None]
            assert (utilisation_percent(snapshot, resource)[rows] <= percent + 1e-9).all()


def random_usage(snapshot: Snapshot, data: st.DataObject) -> UsageSamples:
    """Pods use some of what a node has, or are not measured; nodes use what their pods do, and some more."""
    pods, nodes = {}, {name: data.draw(st.integers(0, 3)) * 1000 for name in snapshot.rows.names()}
    for one in snapshot.pods.known.values():
        used = data.draw(st.integers(0, 40)) * 100
        nodes[one.node] += used
        if data.draw(st.integers(0, 4)):
            pods["default", one.pod.metadata.name] = UsageSample(NOW, {"cpu": used})
    return UsageSamples({name: UsageSample(NOW, {"cpu": used}) for name, used in nodes.items()}, pods)


def excess_load(use: UsageSamples, busy: int) -> int:
    return sum(max(sample.amounts["cpu"] - busy, 0) for sample in use.nodes.values())


@property_settings
@given(random_snapshots(), st.data())
def test_plans_by_measured_usage_are_valid_and_reduce_excess_load(snapshot: Snapshot, data: st.DataObject) -> None:
    use, most = random_usage(snapshot, data), data.draw(st.integers(0, 12))
    budgets: list[PodDisruptionBudget] = data.draw(random_budgets)
    arguments = {"thresholds": {"cpu": 40}, "targetThresholds": {"cpu": 60}}
    request = plan_request(snapshot, arguments, budgets=budgets, max_moves=most, measured_usage=use)
    free, count = snapshot.room.free.copy(), len(snapshot.pods.known)

    plan = make_plan("load-aware", snapshot, request)

    assert plan == replace(make_plan("load-aware", snapshot, request), seconds=plan.seconds)
    assert len(plan.moves) <= most
    assert [
        *placement_violations(snapshot, plan),
        *spread_violations(snapshot, plan),
        *volume_violations(snapshot, plan),
    ] == []
    assert (snapshot.room.free == free).all()
    assert all((move.namespace, move.pod) in use.pods for move in plan.moves), "not measured"
    after = use.after_moves(plan.moves)
    assert excess_load(after, 6000) < excess_load(use, 6000) if plan.moves else after == use
    assert {name for name, one in after.nodes.items() if one.amounts["cpu"] > 6000} <= {
        name for name, one in use.nodes.items() if one.amounts["cpu"] > 6000
    }
    apply_moves(snapshot, plan)
    assert (snapshot.room.free >= 0).all() and len(snapshot.pods.known) == count


@property_settings
@given(random_snapshots(), st.data())
def test_arbitrary_moves_are_ordered_or_dropped(snapshot: Snapshot, data: st.DataObject) -> None:
    uids = sorted(snapshot.pods.known)
    chosen = data.draw(st.lists(st.sampled_from(uids), unique=True, max_size=8)) if uids else []
    names = snapshot.rows.names()
    wanted = [DesiredMove(uid, data.draw(st.sampled_from(names))) for uid in chosen]
    request = plan_request(snapshot, limit=lambda replicas, has_budget: 1)
    ordered = order_moves(snapshot, request, wanted)
    plan = Plan(strategy="s", moves=ordered.moves)
    assert replay_plan(snapshot, plan, request).defects == ()
    assert [
        *placement_violations(snapshot, plan),
        *spread_violations(snapshot, plan),
        *volume_violations(snapshot, plan),
    ] == []
    arrived = {move.uid: move.target for move in sorted(ordered.moves, key=lambda one: one.order)}
    dropped = {refusal.pod for refusal in ordered.dropped}
    for one in wanted:
        name = snapshot.pods.known[one.uid].pod.metadata.name
        assert (arrived.get(one.uid) == one.target) is not (name in dropped)
    assert order_moves(snapshot, request, wanted) == ordered


def plan_with_defect(plan: Plan, snapshot: Snapshot, data: st.DataObject) -> Plan | None:
    """The plan with one thing wrong."""
    if not plan.moves:
        return None
    index = data.draw(st.integers(0, len(plan.moves) - 1))
    move = plan.moves[index]
    changed: Move = data.draw(
        st.sampled_from(
            [
                replace(move, pod="nobody"),
                replace(move, uid="another"),
                replace(move, source=f"{move.source}x"),
                replace(move, target=f"{move.target}x"),
                replace(move, target=move.source),
                replace(move, order=0),
                replace(move, order=move.order + 1 if index + 1 < len(plan.moves) else 0),
                replace(move, wave=0),
            ]
        )
    )
    return replace(plan, moves=(*plan.moves[:index], changed, *plan.moves[index + 1 :]))


@property_settings
@given(random_snapshots(), st.data())
def test_replay_finds_planted_defects(snapshot: Snapshot, data: st.DataObject) -> None:
    asked: PlanRequest = plan_request(snapshot, data.draw(st.sampled_from(ARGUMENTS["defragmentation"])))
    spoilt = plan_with_defect(make_plan("defragmentation", snapshot, asked), snapshot, data)
    if spoilt is not None:
        assert not replay_plan(snapshot, spoilt, asked).valid


def disturbed_plan(plan: Plan, snapshot: Snapshot, data: st.DataObject) -> Plan:
    """The plan with moves that go elsewhere, are left out, come too early, or were not planned."""
    names, moves = snapshot.rows.names(), list(plan.moves)
    moving = {move.uid for move in moves}
    for uid, one in sorted(snapshot.pods.known.items()):
        if uid not in moving and data.draw(st.integers(0, 3)) == 0:
            target, meta = data.draw(st.sampled_from(names)), one.pod.metadata
            wave = moves[-1].wave if moves else 1
            moves.append(
                Move(order=0, wave=wave, namespace="default", pod=meta.name, uid=uid, source=one.node, target=target)
            )
    for index in range(len(moves)):
        change = data.draw(st.sampled_from(["none", "none", "none", "elsewhere"]))
        if change == "elsewhere":
            moves[index] = replace(moves[index], target=data.draw(st.sampled_from(names)))
    kept = [move for move in moves if data.draw(st.integers(0, 5))]
    early = data.draw(st.booleans())
    return replace(
        plan, moves=tuple(replace(move, order=n, wave=1 if early else move.wave) for n, move in enumerate(kept, 1))
    )


def budget_violations(plan: Plan, snapshot: Snapshot, budgets: Iterable[PodDisruptionBudget]) -> Iterator[str]:
    """Waves that take more pods than a budget lets go."""
    for one in budgets:
        chosen = one.spec.selector.match_labels if one.spec.selector else None
        for wave, moves in plan.waves():
            labels = [snapshot.pods.known[move.uid].pod.metadata.labels for move in moves]
            if labels.count(chosen) > one.status.disruptions_allowed:
                yield f"wave {wave}"


@BOTH
@property_settings
@given(st.data())
def test_replay_finds_violations_counted_by_hand(strategy: str, data: st.DataObject) -> None:
    snapshot = data.draw(random_snapshots())
    budgets: list[PodDisruptionBudget] = data.draw(random_budgets)
    asked: PlanRequest = plan_request(snapshot, data.draw(st.sampled_from(ARGUMENTS[strategy])), budgets=budgets)
    plan = disturbed_plan(make_plan(strategy, snapshot, asked), snapshot, data)
    seen = *placement_violations(snapshot, plan), *spread_violations(snapshot, plan), *volume_violations(snapshot, plan)
    wrong = [*seen, *budget_violations(plan, snapshot, budgets)]
    event("wrong" if wrong else "fine")
    assert not (wrong and replay_plan(snapshot, plan, asked).valid), wrong


@property_settings
@given(random_snapshots())
def test_imbalance_rates_are_standard_deviations(snapshot: Snapshot) -> None:
    taken = [utilisation_percent(snapshot, name) / 100 for name in ("cpu", "memory")]
    assert imbalance_rates(snapshot, ["cpu", "memory"]) == pytest.approx(np.std(np.stack(taken), axis=0))
