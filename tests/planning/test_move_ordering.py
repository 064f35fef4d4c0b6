"""Moves in waves: every pod has its new seat before it leaves the old one, whatever the order needed for that."""

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
from tests.planning.clusters import app, budget, cluster, moves, request, ten

APART = Affinity(
    pod_anti_affinity=PodAffinity(
        required=[
            PodAffinityTerm(
                topology_key="kubernetes.io/hostname", label_selector=SelectorSpec(match_labels={"app": "db"})
            )
        ]
    )
)


def wanted(**targets: str) -> list[DesiredMove]:
    return [DesiredMove(f"uid-{name}", target) for name, target in targets.items()]


def waves(found: OrderedMoves) -> list[list[str]]:
    """The names of the pods that move, wave by wave."""
    count = max((move.wave for move in found.moves), default=0)
    return [[move.pod for move in found.moves if move.wave == wave] for wave in range(1, count + 1)]


def ordered(
    snapshot: Snapshot, asked: PlanRequest, who: Iterable[DesiredMove], most: int | None = None
) -> OrderedMoves:
    """The sequence, which must survive a replay."""
    found = order_moves(snapshot, asked, who, max_moves=most)
    assert replay_plan(snapshot, Plan(strategy="s", moves=found.moves), asked).defects == ()
    return found


def named(name: str, **labels: str) -> dict[str, str]:
    return {"kubernetes.io/hostname": name, **labels}


@pytest.mark.parametrize(
    ("pods", "targets", "expected"),
    [
        pytest.param([app("p", "6", on="a"), app("q", "6", on="b")], {"p": "c"}, [["p"]], id="room enough"),
        pytest.param(
            [app("p", "6", on="a"), app("q", "6", on="b")], {"p": "b", "q": "c"}, [["q"], ["p"]], id="a chain"
        ),
        pytest.param(
            [app("p", "6", on="a"), app("q", "6", on="b"), app("r", "6", on="c")],
            {"p": "b", "q": "c", "r": "d"},
            [["r"], ["q"], ["p"]],
            id="a long chain, told from its wrong end",
        ),
        pytest.param([app("p", "4", on="a"), app("q", "4", on="b")], {"p": "b", "q": "a"}, [["p", "q"]], id="a swap"),
        pytest.param([], {}, [], id="nothing"),
    ],
)
def test_moves_wait_for_the_room_that_others_leave(
    pods: Sequence[Pod], targets: dict[str, str], expected: list[list[str]]
) -> None:
    snapshot = cluster([ten(name) for name in "abcd"], pods)
    found = ordered(snapshot, request(snapshot), wanted(**targets))
    assert (waves(found), found.dropped) == (expected, ())


def test_a_swap_of_full_nodes_stops_at_a_third_place() -> None:
    snapshot = cluster([ten("a"), ten("b"), ten("c")], [app("p", "9", on="a"), app("q", "9", on="b")])
    found = ordered(snapshot, request(snapshot), wanted(p="b", q="a"))
    assert moves(found.moves) == [("p", "a", "c"), ("q", "b", "a"), ("p", "c", "b")]
    assert [move.wave for move in found.moves] == [1, 2, 3]


@pytest.mark.parametrize(
    ("nodes", "most", "reason"),
    [
        pytest.param("ab", None, "insufficient cpu (requested 9, available 1)", id="no third place"),
        pytest.param("abc", 2, "insufficient cpu (requested 9, available 1)", id="no move to spare"),
    ],
)
def test_a_ring_without_a_way_out_is_dropped_with_the_reason(nodes: str, most: int | None, reason: str) -> None:
    snapshot = cluster([ten(name) for name in nodes], [app("p", "9", on="a"), app("q", "9", on="b")])
    found = ordered(snapshot, request(snapshot), wanted(p="b", q="a"), most)
    assert found.moves == ()
    assert {one.pod for one in found.dropped} == {"p", "q"}
    assert reason in found.dropped[0].reason


def test_a_stop_that_leads_nowhere_is_not_made() -> None:
    pods = [app("p", "9", on="a"), app("q", "9", on="b"), app("stays", "9", on="d")]
    snapshot = cluster([ten(name) for name in "abcd"], pods)
    found = ordered(snapshot, request(snapshot), wanted(p="d", q="a"), most=9)
    assert moves(found.moves) == []
    assert {one.pod for one in found.dropped} == {"p", "q"}


def test_the_order_given_is_kept_where_a_hasty_one_drops_moves() -> None:
    pods = [app("p", "5", on="a"), app("q", "5", on="b"), app("full", "5", on="b"), app("r", "4", on="c")]
    snapshot = cluster([ten(name) for name in "abc"], pods)
    found = ordered(snapshot, request(snapshot), wanted(p="c", q="a"))
    assert found.dropped == ()


def test_a_budget_shapes_waves_and_drops_nothing() -> None:
    pods = [app(name, on="a", labels={"app": "web"}) for name in ("p", "q", "r")]
    snapshot = cluster([ten("a"), ten("b")], pods)
    asked = request(snapshot, budgets=[budget("web", 2, "web")])
    assert waves(ordered(snapshot, asked, wanted(p="b", q="b", r="b"))) == [["p", "q"], ["r"]]


def test_so_does_the_limit_of_a_workload() -> None:
    pods = [app(name, on="a", of="web") for name in ("p", "q")] + [app("other", on="a", of="other")]
    snapshot = cluster([ten("a"), ten("b")], pods)
    asked = request(snapshot, limit=lambda replicas, has_budget: 1)
    assert waves(ordered(snapshot, asked, wanted(p="b", q="b", other="b"))) == [["p", "other"], ["q"]]


def test_who_keeps_others_away_must_have_left_before_they_come() -> None:
    nodes = [ten(name, labels=named(name)) for name in "abc"]
    pods = [
        app("p", on="a", labels={"app": "db"}, affinity=APART),
        app("q", on="b", labels={"app": "db"}, affinity=APART),
    ]
    snapshot = cluster(nodes, pods)
    found = ordered(snapshot, request(snapshot), wanted(p="c", q="a"))
    assert waves(found) == [["p"], ["q"]]


def test_a_pod_does_not_keep_itself_away() -> None:
    zone = {"topology.kubernetes.io/zone": "z"}
    term = PodAffinityTerm(
        topology_key="topology.kubernetes.io/zone", label_selector=SelectorSpec(match_labels={"app": "db"})
    )
    alone = Affinity(pod_anti_affinity=PodAffinity(required=[term]))
    snapshot = cluster(
        [ten("a", labels=zone), ten("b", labels=zone)], [app("p", on="a", labels={"app": "db"}, affinity=alone)]
    )
    assert moves(ordered(snapshot, request(snapshot), wanted(p="b")).moves) == [("p", "a", "b")]


def test_its_room_stays_taken_while_it_is_still_there() -> None:
    snapshot = cluster([ten("a"), ten("b")], [app("p", "6", on="a"), app("q", "6", on="b")])
    found = order_moves(snapshot, request(snapshot), wanted(p="b", q="a"))
    assert found.moves == ()


def test_the_snapshot_is_left_as_it_was() -> None:
    snapshot = cluster([ten("a"), ten("b")], [app("p", "6", on="a")])
    before = snapshot.room.free.copy()
    order_moves(snapshot, request(snapshot), wanted(p="b"))
    assert (snapshot.room.free == before).all()
    assert [one.key for one in snapshot.occupants("a")] == ["uid-p"]


def test_orders_are_unique_and_count_from_one() -> None:
    snapshot = cluster([ten("a"), ten("b")], [app(f"p{number}", on="a") for number in range(5)])
    found = ordered(snapshot, request(snapshot), [DesiredMove(f"uid-p{number}", "b") for number in range(5)])
    assert [move.order for move in found.moves] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("move", "reason"),
    [
        pytest.param(DesiredMove("uid-nobody", "b"), "is on no node", id="an unknown pod"),
        pytest.param(DesiredMove("uid-p", "a"), "is on a already", id="where it is"),
        pytest.param(DesiredMove("uid-p", "nowhere"), "there is no such node", id="an unknown node"),
    ],
)
def test_what_cannot_be_meant_is_dropped(move: DesiredMove, reason: str) -> None:
    snapshot = cluster([ten("a"), ten("b")], [app("p", on="a")])
    (dropped,) = order_moves(snapshot, request(snapshot), [move]).dropped
    assert reason in dropped.reason


def test_a_place_must_suit_once_those_who_leave_are_gone() -> None:
    """While p is still in zone 1, moving q there to zone 2 looks even; once p has left, it is not."""
    even = TopologySpreadConstraint(
        max_skew=1,
        topology_key="zone",
        when_unsatisfiable="DoNotSchedule",
        label_selector=SelectorSpec(match_labels={"app": "db"}),
    )
    fields: dict[str, Any] = {"labels": {"app": "db"}, "topology_spread_constraints": [even]}
    nodes = [ten("a", labels={"zone": "1"}), ten("b", labels={"zone": "2"}), ten("c", labels={"zone": "2"})]
    snapshot = cluster(nodes, [app("p", on="a", **fields), app("q", on="a", **fields), app("r", on="b", **fields)])
    found = ordered(snapshot, request(snapshot), wanted(p="c", q="c"))
    assert moves(found.moves) == [("p", "a", "c")]
    assert "topology spread" in found.dropped[0].reason


class Looks:
    """It is late once somebody has looked so many times."""

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
def test_when_time_is_up_what_is_in_order_stands(pods: Sequence[Pod], targets: dict[str, str], looks: int) -> None:
    snapshot = cluster([ten(name) for name in "abcd"], pods)
    asked, wish = request(snapshot), wanted(**targets)
    found = order_moves(snapshot, asked, wish, is_late=Looks(looks))
    assert replay_plan(snapshot, Plan(strategy="s", moves=found.moves), asked).defects == ()
    ends = {move.pod: move.target for move in found.moves}
    assert ends == {pod: target for pod, target in targets.items() if pod in ends}
    assert {one.pod for one in found.dropped} == targets.keys() - ends.keys()


def test_the_more_time_there_is_the_more_is_in_order() -> None:
    snapshot = cluster([ten(name) for name in "abcd"], CHAIN[0])
    found = [order_moves(snapshot, request(snapshot), wanted(**CHAIN[1]), is_late=Looks(looks)) for looks in (0, 6, 99)]
    assert [len(one.moves) for one in found] == [0, 1, 3]
    assert found[0].dropped[0].reason == "cannot move to b in any order of moves: the time limit was reached"
