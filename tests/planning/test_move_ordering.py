"""Ordering of moves in waves: the target of every move is reserved before its pod leaves the old node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from restow.model.objects import (
    Affinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    SelectorSpec,
    TopologySpreadConstraint,
)
from restow.model.snapshot import Snapshot
from restow.planning.move_ordering import DesiredMove, OrderedMoves, order_moves
from restow.planning.plan import Plan
from restow.planning.plan_request import PlanRequest
from restow.planning.replay import replay_plan
from tests.planning.clusters import app, budget, move_triples, node_of_ten, plan_request, snapshot_of

APART = Affinity(
    pod_anti_affinity=PodAffinity(
        required=[
            PodAffinityTerm(
                topology_key="kubernetes.io/hostname", label_selector=SelectorSpec(match_labels={"app": "db"})
            )
        ]
    )
)


def desired_moves(**targets: str) -> list[DesiredMove]:
    return [DesiredMove(f"uid-{name}", target) for name, target in targets.items()]


def pods_by_wave(found: OrderedMoves) -> list[list[str]]:
    """The names of the pods that move, wave by wave."""
    count = max((move.wave for move in found.moves), default=0)
    return [[move.pod for move in found.moves if move.wave == wave] for wave in range(1, count + 1)]


def checked_order(
    snapshot: Snapshot, asked: PlanRequest, who: Iterable[DesiredMove], most: int | None = None
) -> OrderedMoves:
    """The sequence, which must survive a replay."""
    ordered = order_moves(snapshot, asked, who, max_moves=most)
    assert replay_plan(snapshot, Plan(strategy="s", moves=ordered.moves), asked).defects == ()
    return ordered


def host_labels(name: str, **labels: str) -> dict[str, str]:
    return {"kubernetes.io/hostname": name, **labels}


@pytest.mark.parametrize(
    ("pods", "targets", "expected"),
    [
        pytest.param([app("p", "6", on="a"), app("q", "6", on="b")], {"p": "c"}, [["p"]], id="target has room"),
        pytest.param([app("p", "6", on="a"), app("q", "6", on="b")], {"p": "b", "q": "c"}, [["q"], ["p"]], id="chain"),
        pytest.param(
            [app("p", "6", on="a"), app("q", "6", on="b"), app("r", "6", on="c")],
            {"p": "b", "q": "c", "r": "d"},
            [["r"], ["q"], ["p"]],
            id="long chain in reverse order",
        ),
        pytest.param([app("p", "4", on="a"), app("q", "4", on="b")], {"p": "b", "q": "a"}, [["p", "q"]], id="swap"),
        pytest.param([], {}, [], id="no moves"),
    ],
)
def test_moves_wait_for_the_room_that_others_leave(
    pods: Sequence[Pod], targets: dict[str, str], expected: list[list[str]]
) -> None:
    snapshot = snapshot_of([node_of_ten(name) for name in "abcd"], pods)
    ordered = checked_order(snapshot, plan_request(snapshot), desired_moves(**targets))
    assert (pods_by_wave(ordered), ordered.dropped) == (expected, ())


def test_swap_of_full_nodes_stops_at_a_third_node() -> None:
    snapshot = snapshot_of(
        [node_of_ten("a"), node_of_ten("b"), node_of_ten("c")], [app("p", "9", on="a"), app("q", "9", on="b")]
    )
    ordered = checked_order(snapshot, plan_request(snapshot), desired_moves(p="b", q="a"))
    assert move_triples(ordered.moves) == [("p", "a", "c"), ("q", "b", "a"), ("p", "c", "b")]
    assert [move.wave for move in ordered.moves] == [1, 2, 3]


@pytest.mark.parametrize(
    ("nodes", "most", "reason"),
    [
        pytest.param("ab", None, "insufficient cpu (requested 9, available 1)", id="no third place"),
        pytest.param("abc", 2, "insufficient cpu (requested 9, available 1)", id="no move to spare"),
    ],
)
def test_ring_without_a_third_node_is_dropped_with_the_reason(nodes: str, most: int | None, reason: str) -> None:
    snapshot = snapshot_of([node_of_ten(name) for name in nodes], [app("p", "9", on="a"), app("q", "9", on="b")])
    ordered = checked_order(snapshot, plan_request(snapshot), desired_moves(p="b", q="a"), most)
    assert ordered.moves == ()
    assert {refusal.pod for refusal in ordered.dropped} == {"p", "q"}
    assert reason in ordered.dropped[0].reason


def test_stop_is_not_made_if_the_pod_cannot_reach_its_target() -> None:
    pods = [app("p", "9", on="a"), app("q", "9", on="b"), app("stays", "9", on="d")]
    snapshot = snapshot_of([node_of_ten(name) for name in "abcd"], pods)
    ordered = checked_order(snapshot, plan_request(snapshot), desired_moves(p="d", q="a"), most=9)
    assert move_triples(ordered.moves) == []
    assert {refusal.pod for refusal in ordered.dropped} == {"p", "q"}


def test_given_order_is_kept_where_starting_early_would_drop_moves() -> None:
    pods = [app("p", "5", on="a"), app("q", "5", on="b"), app("full", "5", on="b"), app("r", "4", on="c")]
    snapshot = snapshot_of([node_of_ten(name) for name in "abc"], pods)
    ordered = checked_order(snapshot, plan_request(snapshot), desired_moves(p="c", q="a"))
    assert ordered.dropped == ()


def test_budget_makes_more_waves_and_drops_no_move() -> None:
    pods = [app(name, on="a", labels={"app": "web"}) for name in ("p", "q", "r")]
    snapshot = snapshot_of([node_of_ten("a"), node_of_ten("b")], pods)
    request = plan_request(snapshot, budgets=[budget("web", 2, "web")])
    assert pods_by_wave(checked_order(snapshot, request, desired_moves(p="b", q="b", r="b"))) == [["p", "q"], ["r"]]


def test_workload_limit_makes_more_waves_and_drops_no_move() -> None:
    pods = [app(name, on="a", of="web") for name in ("p", "q")] + [app("other", on="a", of="other")]
    snapshot = snapshot_of([node_of_ten("a"), node_of_ten("b")], pods)
    request = plan_request(snapshot, limit=lambda replicas, has_budget: 1)
    assert pods_by_wave(checked_order(snapshot, request, desired_moves(p="b", q="b", other="b"))) == [
        ["p", "other"],
        ["q"],
    ]


def test_pod_waits_until_a_pod_with_anti_affinity_has_left() -> None:
    nodes = [node_of_ten(name, labels=host_labels(name)) for name in "abc"]
    pods = [
        app("p", on="a", labels={"app": "db"}, affinity=APART),
        app("q", on="b", labels={"app": "db"}, affinity=APART),
    ]
    snapshot = snapshot_of(nodes, pods)
    ordered = checked_order(snapshot, plan_request(snapshot), desired_moves(p="c", q="a"))
    assert pods_by_wave(ordered) == [["p"], ["q"]]


def test_pod_is_not_kept_away_by_its_own_anti_affinity() -> None:
    zone = {"topology.kubernetes.io/zone": "z"}
    term = PodAffinityTerm(
        topology_key="topology.kubernetes.io/zone", label_selector=SelectorSpec(match_labels={"app": "db"})
    )
    alone = Affinity(pod_anti_affinity=PodAffinity(required=[term]))
    snapshot = snapshot_of(
        [node_of_ten("a", labels=zone), node_of_ten("b", labels=zone)],
        [app("p", on="a", labels={"app": "db"}, affinity=alone)],
    )
    assert move_triples(checked_order(snapshot, plan_request(snapshot), desired_moves(p="b")).moves) == [
        ("p", "a", "b")
    ]


def test_room_of_a_moving_pod_stays_taken_until_the_wave_ends() -> None:
    snapshot = snapshot_of([node_of_ten("a"), node_of_ten("b")], [app("p", "6", on="a"), app("q", "6", on="b")])
    ordered = order_moves(snapshot, plan_request(snapshot), desired_moves(p="b", q="a"))
    assert ordered.moves == ()


def test_ordering_moves_leaves_the_snapshot_as_it_was() -> None:
    snapshot = snapshot_of([node_of_ten("a"), node_of_ten("b")], [app("p", "6", on="a")])
    before = snapshot.room.free.copy()
    order_moves(snapshot, plan_request(snapshot), desired_moves(p="b"))
    assert (snapshot.room.free == before).all()
    assert [occupant.key for occupant in snapshot.occupants("a")] == ["uid-p"]


def test_orders_are_unique_and_count_from_one() -> None:
    snapshot = snapshot_of([node_of_ten("a"), node_of_ten("b")], [app(f"p{number}", on="a") for number in range(5)])
    ordered = checked_order(
        snapshot, plan_request(snapshot), [DesiredMove(f"uid-p{number}", "b") for number in range(5)]
    )
    assert [move.order for move in ordered.moves] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("move", "reason"),
    [
        pytest.param(DesiredMove("uid-nobody", "b"), "is on no node", id="an unknown pod"),
        pytest.param(DesiredMove("uid-p", "a"), "is on a already", id="target is its present node"),
        pytest.param(DesiredMove("uid-p", "nowhere"), "there is no such node", id="an unknown node"),
    ],
)
def test_moves_of_unknown_pods_or_to_unknown_nodes_are_dropped(move: DesiredMove, reason: str) -> None:
    snapshot = snapshot_of([node_of_ten("a"), node_of_ten("b")], [app("p", on="a")])
    (dropped,) = order_moves(snapshot, plan_request(snapshot), [move]).dropped
    assert reason in dropped.reason


def test_target_has_to_keep_the_spread_once_the_pods_of_the_wave_have_left() -> None:
    """While p is still in zone 1, moving q there to zone 2 looks even; once p has left, it is not."""
    even = TopologySpreadConstraint(
        max_skew=1,
        topology_key="zone",
        when_unsatisfiable="DoNotSchedule",
        label_selector=SelectorSpec(match_labels={"app": "db"}),
    )
    fields: dict[str, Any] = {"labels": {"app": "db"}, "topology_spread_constraints": [even]}
    nodes = [
        node_of_ten("a", labels={"zone": "1"}),
        node_of_ten("b", labels={"zone": "2"}),
        node_of_ten("c", labels={"zone": "2"}),
    ]
    snapshot = snapshot_of(nodes, [app("p", on="a", **fields), app("q", on="a", **fields), app("r", on="b", **fields)])
    ordered = checked_order(snapshot, plan_request(snapshot), desired_moves(p="c", q="c"))
    assert move_triples(ordered.moves) == [("p", "a", "c")]
    assert "topology spread" in ordered.dropped[0].reason


class LateAfter:
    """A deadline that is reached after so many checks."""

    def __init__(self, allowed: int) -> None:
        self._left = allowed

    def __call__(self) -> bool:
        self._left -= 1
        return self._left < 0


CHAIN = (
    [app("p", "6", on="a"), app("q", "6", on="b"), app("r", "6", on="c")],
    {"p": "b", "q": "c", "r": "d"},
)
FULL_SWAP = ([app("p", "6", on="a"), app("q", "6", on="b"), app("r", "1", on="c")], {"p": "b", "q": "a", "r": "d"})


@pytest.mark.parametrize(("pods", "targets"), [CHAIN, FULL_SWAP], ids=["a chain", "a swap by way of a third place"])
@pytest.mark.parametrize("looks", range(12))
def test_moves_ordered_before_the_deadline_are_valid(pods: Sequence[Pod], targets: dict[str, str], looks: int) -> None:
    snapshot = snapshot_of([node_of_ten(name) for name in "abcd"], pods)
    asked, wish = plan_request(snapshot), desired_moves(**targets)
    ordered = order_moves(snapshot, asked, wish, is_late=LateAfter(looks))
    assert replay_plan(snapshot, Plan(strategy="s", moves=ordered.moves), asked).defects == ()
    ends = {move.pod: move.target for move in ordered.moves}
    assert ends == {pod: target for pod, target in targets.items() if pod in ends}
    assert {refusal.pod for refusal in ordered.dropped} == targets.keys() - ends.keys()


def test_more_time_orders_more_moves() -> None:
    snapshot = snapshot_of([node_of_ten(name) for name in "abcd"], CHAIN[0])
    found = [
        order_moves(snapshot, plan_request(snapshot), desired_moves(**CHAIN[1]), is_late=LateAfter(looks))
        for looks in (0, 6, 99)
    ]
    assert [len(one.moves) for one in found] == [0, 1, 3]
    assert found[0].dropped[0].reason == "cannot move to b in any order of moves: the time limit was reached"
