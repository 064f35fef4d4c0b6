"""What holds for every cycle, whatever the cluster and whichever plugins: the promises of a plan, and that it ends."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from restow.model.snapshot import Snapshot
from restow.planning.descheduling.profile_cycle import CycleOutcome
from restow.planning.replay import replay_plan
from tests.planning.clusters import plan_request
from tests.planning.descheduling.plugin_requests import run_profile
from tests.planning.random_clusters import apply_moves, property_settings, random_snapshots
from tests.planning.reference_checks import placement_violations, spread_violations

ARGUMENTS: dict[str, Any] = {"lowThresholds": {"cpu": 50}, "defragmentThresholds": {"cpu": 50}}
EVENING = ("RemovePodsViolatingInterPodAntiAffinity", "RemovePodsViolatingTopologySpreadConstraint", "RemoveDuplicates")
LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "maxNoOfPodsToEvictPerNode": st.integers(0, 3),
        "maxNoOfPodsToEvictPerNamespace": st.integers(0, 6),
        "maxNoOfPodsToEvictTotal": st.integers(0, 6),
    },
)


def cycle(snapshot: Snapshot, *names: str, **limits: Any) -> CycleOutcome:
    arguments = ARGUMENTS if names[0] == "Defragmentation" else None
    return run_profile(snapshot, *names, arguments=arguments, **limits)


@property_settings
@given(random_snapshots(), st.permutations(["Defragmentation", "NodeResourceBalance", *EVENING]), LIMITS)
def test_cycle_never_overcommits_or_breaks_a_limit(
    snapshot: Snapshot, names: list[str], limits: dict[str, int]
) -> None:
    free = snapshot.room.free.copy()
    found = cycle(snapshot, *names, **limits)
    assert found.failures == {}
    assert found.plan == cycle(snapshot, *names, **limits).plan
    assert (snapshot.room.free == free).all()
    assert replay_plan(snapshot, found.plan, plan_request(snapshot)).valid
    assert [*placement_violations(snapshot, found.plan), *spread_violations(snapshot, found.plan)] == []
    moved = [move.uid for move in found.plan.moves]
    assert len(moved) == len(set(moved)) <= limits.get("maxNoOfPodsToEvictTotal", 50)
    assert len(moved) <= limits.get("maxNoOfPodsToEvictPerNamespace", 50)
    by_node = [sum(move.source == name for move in found.plan.moves) for name in snapshot.rows.names()]
    assert max(by_node, default=0) <= limits.get("maxNoOfPodsToEvictPerNode", 50)


@property_settings
@given(random_snapshots(), st.sampled_from(EVENING))
def test_repeated_cycles_come_to_rest(snapshot: Snapshot, name: str) -> None:
    apply_moves(snapshot, cycle(snapshot, name).plan)
    for _ in range(3):
        again = cycle(snapshot, name).plan
        apply_moves(snapshot, again)
    assert cycle(snapshot, name).plan.moves == ()
