"""Properties of every optimal plan on random clusters: pods that keep apart, spread over zones, share a zone with
their volume or wait as a gang. Nobody else is asked than the sequence of moves, the replay and a count by hand.

RESTOW_OPTIMISER_EXAMPLES says how many clusters are tried.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from restow.model.objects import Pod
from restow.model.snapshot import Snapshot
from restow.planning.measures import count_slots
from restow.planning.move_ordering import DesiredMove, order_moves
from restow.planning.plan import Measures, Plan
from restow.planning.plan_effect import measures_after
from restow.planning.plan_request import PlanRequest
from restow.planning.replay import replay_plan
from restow.planning.strategies import make_plan
from tests.planning.clusters import app, free_nodes, node_of_ten, plan_request, snapshot_of
from tests.planning.optimal.optimal_plans import gang_members, pending_pod
from tests.planning.random_clusters import HOST, constraint_fields, random_budgets, random_snapshots
from tests.planning.reference_checks import ZONE, placement_violations, spread_violations, volume_violations

EXAMPLES = int(os.environ.get("RESTOW_OPTIMISER_EXAMPLES", "8"))
tried = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SHAPE = {"cpu": 5_000, "memory": 4 << 30}
FIGURES = {"free-nodes": "freeNodes", "slots": "slots"}


def measure(snapshot: Snapshot) -> Measures:
    return {"freeNodes": free_nodes(snapshot), "slots": count_slots(snapshot, SHAPE)}


def optimal_request(snapshot: Snapshot, objective: str, **fields: Any) -> PlanRequest:
    limits = {"work_limit": 12, "time_limit": 600.0, "max_moves": 8, "limit": lambda replicas, has_budget: 2}
    return plan_request(snapshot, objective=objective, shape=SHAPE, **{**limits, **fields})


@st.composite
def random_pending(draw: st.DrawFn) -> dict[str, Any]:
    """Some pods that wait, and a gang of two or three of them; some keep apart or want to be even."""
    kinds = st.sampled_from(["none", "none", "apart", "even"])
    single = [_pod(draw, f"w{number}", draw(kinds)) for number in range(draw(st.integers(0, 3)))]
    members, pod_groups = gang_members(
        *(_pod(draw, f"g{number}", draw(kinds)) for number in range(3)), least=draw(st.integers(2, 3))
    )
    return {"pending": (*single, *members), "pod_groups": pod_groups}


def _pod(draw: st.DrawFn, name: str, kind: str) -> Pod:
    of = draw(st.sampled_from("xyz"))
    cpu, memory = draw(st.integers(10, 80)) * 100, draw(st.integers(1, 60)) * 100
    one = pending_pod(name, f"{cpu}m", of=of, labels={"app": of}, **constraint_fields(kind, of))
    return replace(one, spec=app(name, f"{cpu}m", f"{memory}Mi", **constraint_fields(kind, of)).spec)


@pytest.mark.parametrize("objective", ["free-nodes", "slots", "pending"])
@tried
@given(st.data())
def test_optimal_plan_is_valid_by_replay_and_by_hand(objective: str, data: st.DataObject) -> None:
    snapshot, budgets = data.draw(random_snapshots()), data.draw(random_budgets)
    more = data.draw(random_pending()) if objective == "pending" else {}
    request = optimal_request(snapshot, objective, budgets=budgets, **more)
    plan = make_plan("optimal", snapshot, request)
    assert replay_plan(snapshot, plan, request).defects == ()
    assert [
        *placement_violations(snapshot, plan),
        *spread_violations(snapshot, plan),
        *volume_violations(snapshot, plan),
    ] == []
    assert len(plan.moves) <= request.max_moves
    placed = sum(place.pod.startswith("g") for place in plan.places)
    assert placed == 0 or request.pod_groups is None or placed >= 2
    if objective in FIGURES:
        reached = plan.after[FIGURES[objective]]
        assert plan.before[FIGURES[objective]] <= reached <= (plan.bound or 0)


@pytest.mark.parametrize("objective", sorted(FIGURES))
@tried
@given(random_snapshots())
def test_each_move_of_an_optimal_plan_is_needed(objective: str, snapshot: Snapshot) -> None:
    request = optimal_request(snapshot, objective)
    plan = make_plan("optimal", snapshot, request)
    ends = {move.uid: move.target for move in plan.moves}
    for dropped in ends:
        rest = [DesiredMove(uid, target) for uid, target in ends.items() if uid != dropped]
        left = order_moves(snapshot, request, rest, max_moves=request.max_moves)
        assert (
            measures_after(snapshot, request, left.moves, measure)[FIGURES[objective]] < plan.after[FIGURES[objective]]
        )


@st.composite
def tiny_snapshots(draw: st.DrawFn) -> Snapshot:
    """Three nodes, up to five pods, every way to put them can be tried."""
    kinds = {name: draw(st.sampled_from(["none", "apart", "even"])) for name in "xy"}
    free, pods = dict.fromkeys("abc", 10_000), []
    for number in range(draw(st.integers(1, 5))):
        where, of, cpu = draw(st.sampled_from("abc")), draw(st.sampled_from("xy")), draw(st.integers(1, 12)) * 500
        if cpu <= free[where]:
            free[where] -= cpu
            fields = {"labels": {"app": of}, "of": of, **constraint_fields(kinds[of], of)}
            pods.append(app(f"p{number}", f"{cpu}m", on=where, **fields))
    labels = {name: {HOST: name, ZONE: f"z{number % 2}"} for number, name in enumerate("abc")}
    return snapshot_of([node_of_ten(name, labels=labels[name]) for name in "abc"], pods)


def measures_of_all_plans(snapshot: Snapshot, wish: PlanRequest) -> Iterator[Measures]:
    """What is reached by every way to move pods that some order makes possible."""
    known = sorted(snapshot.pods.known.items())
    for ends in product("abc", repeat=len(known)):
        wanted = [DesiredMove(uid, end) for (uid, one), end in zip(known, ends, strict=True) if one.node != end]
        ordered = order_moves(snapshot, wish, wanted, max_moves=wish.max_moves)
        if not ordered.dropped and len(ordered.moves) <= wish.max_moves:
            yield measures_after(snapshot, wish, ordered.moves, measure)


@pytest.mark.parametrize("objective", sorted(FIGURES))
@settings(tried, max_examples=max(EXAMPLES // 2, 3))
@given(tiny_snapshots(), st.integers(0, 4))
def test_no_plan_exceeds_the_bound_and_proven_plans_are_optimal(objective: str, snapshot: Snapshot, most: int) -> None:
    request = optimal_request(snapshot, objective, max_moves=most)
    plan: Plan = make_plan("optimal", snapshot, request)
    best = max(found[FIGURES[objective]] for found in measures_of_all_plans(snapshot, request))
    assert plan.bound is not None and plan.bound >= best
    assert plan.after["gap"] > 0 or plan.after[FIGURES[objective]] == best
