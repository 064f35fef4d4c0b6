"""The replay finds every defect that is planted into a valid plan, and reports it in a sentence."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import (
    Affinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    SelectorSpec,
    Taint,
    TopologySpreadConstraint,
)
from restow.model.snapshot import Snapshot
from restow.planning.plan import Move, Place, Plan
from restow.planning.replay import PlanDefect, replay_plan
from tests.model.cluster.builders import pod
from tests.planning.clusters import app, budget, node_of_ten, plan_request, snapshot_of

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
DB = SelectorSpec(match_labels={"app": "db"})
APART = Affinity(pod_anti_affinity=PodAffinity(required=[PodAffinityTerm(topology_key=HOST, label_selector=DB)]))
NEAR = Affinity(pod_affinity=PodAffinity(required=[PodAffinityTerm(topology_key=HOST, label_selector=DB)]))


def base_cluster() -> Snapshot:
    nodes = [node_of_ten(name, labels={HOST: name, ZONE: zone}) for name, zone in (("a", "1"), ("b", "1"), ("c", "2"))]
    nodes.append(node_of_ten("tainted", labels={HOST: "tainted"}, taints=[Taint(key="gpu", effect="NoSchedule")]))
    pods = [
        app("p", "4", on="a", labels={"app": "web"}),
        app("q", "4", on="a", labels={"app": "web"}),
        app("r", "4", on="b"),
        app("db-0", "1", on="b", labels={"app": "db"}, affinity=APART),
        app("db-1", "1", on="a", labels={"app": "db"}, affinity=APART),
        app("near", "1", on="b", affinity=NEAR),
        app("agent", "1", on="a", of="agents", kind="DaemonSet"),
        pod("bare", {"cpu": "1"}, on="a"),
    ]
    return snapshot_of(nodes, pods)


PENDING = (pod("waits", {"cpu": "5"}), pod("huge", {"cpu": "50"}))


def move(order: int, name: str, source: str, target: str, wave: int = 1, **fields: Any) -> Move:
    return Move(order=order, wave=wave, namespace="default", pod=name, source=source, target=target, **fields)


GOOD = (move(1, "p", "a", "b"), move(2, "q", "a", "c", uid="uid-q"), move(3, "r", "b", "c", wave=2))


def defect_reasons(*moves: Move, places: tuple[Place, ...] = (), **asked: Any) -> list[str]:
    snapshot = base_cluster()
    plan = Plan(strategy="s", moves=moves, places=places)
    found = replay_plan(snapshot, plan, plan_request(snapshot, pending=PENDING, **asked))
    assert found.valid is not bool(found.defects)
    return [defect.reason for defect in found.defects]


def test_valid_plan_has_no_defects() -> None:
    assert defect_reasons(*GOOD, places=(Place(namespace="default", pod="waits", node="a"),)) == []


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        pytest.param({"pod": "nobody"}, "there is no such pod on any node", id="an unknown pod"),
        pytest.param({"namespace": "other"}, "there is no such pod on any node", id="another namespace"),
        pytest.param(
            {"uid": "uid-old"}, "has the UID uid-p, the plan was made for uid-old", id="another pod under the same name"
        ),
        pytest.param({"source": "c"}, "is on a, not on c", id="a wrong source"),
        pytest.param({"target": "z"}, "cannot go to z: there is no such node", id="an unknown target"),
        pytest.param({"target": "a"}, "is on a already", id="target is the source"),
        pytest.param(
            {"target": "tainted"},
            "cannot go to tainted: node(s) had untolerated taint(s)",
            id="untolerated taint",
        ),
        pytest.param({"pod": "agent"}, "may not move: DaemonSet agents would put it back", id="a pod of a DaemonSet"),
        pytest.param({"pod": "bare"}, "may not move: no controller would recreate it", id="bare pod"),
        pytest.param({"pod": "db-1"}, "cannot go to b: node(s) didn't match pod anti-affinity", id="anti-affinity"),
        pytest.param({"pod": "near", "source": "b", "target": "c"}, "didn't match pod affinity rules", id="affinity"),
        pytest.param({"order": 0}, "order and wave count from 1, here they are 0 and 1", id="order 0"),
        pytest.param({"order": 2}, "has the order 2, as default/", id="same order twice"),
        pytest.param({"wave": 0}, "order and wave count from 1, here they are 1 and 0", id="wave 0"),
        pytest.param({"wave": 3}, "comes before move 3, which is in wave 2", id="order against the waves"),
    ],
)
def test_planted_defect_is_found(changed: dict[str, Any], reason: str) -> None:
    defects = defect_reasons(replace(GOOD[0], **changed), *GOOD[1:])
    assert any(reason in defect for defect in defects), defects


def test_over_commitment_is_a_defect_with_numbers() -> None:
    both = [move(1, "p", "a", "b"), move(2, "q", "a", "b")]
    assert defect_reasons(*both) == ["cannot go to b: insufficient cpu (requested 4, available 0)"]


def test_room_that_is_freed_in_the_same_wave_does_not_count() -> None:
    chain = [move(1, "r", "b", "c"), move(2, "p", "a", "b"), move(3, "q", "a", "b")]
    assert defect_reasons(*chain) == ["cannot go to b: insufficient cpu (requested 4, available 0)"]
    assert defect_reasons(chain[0], chain[1], replace(chain[2], wave=2)) == []


def test_pod_that_moves_twice_in_one_wave_is_a_defect() -> None:
    assert defect_reasons(move(1, "p", "a", "b"), move(2, "p", "b", "c")) == ["moves twice in one wave"]
    assert defect_reasons(move(1, "p", "a", "b"), move(2, "p", "b", "c", wave=2)) == []


def test_wave_with_more_pods_than_a_budget_allows_is_a_defect() -> None:
    defects = defect_reasons(*GOOD, budgets=[budget("web", 1, "web")])
    assert defects == ["wave 1 moves 2 pods of PodDisruptionBudget default/web, which allows 1 at once"]


def test_budget_that_allows_no_disruption_protects_its_pods() -> None:
    defects = defect_reasons(*GOOD[:1], budgets=[budget("web", 0, "web")])
    assert len(defects) == 1 and defects[0].startswith("may not move: PodDisruptionBudget default/web: ")


@pytest.mark.parametrize(
    ("pods", "reasons"),
    [
        pytest.param(["waits", "waits"], ["is placed twice"], id="pod is placed twice"),
        pytest.param(["nobody"], ["there is no such pending pod"], id="unknown argument"),
        pytest.param(["q"], ["is on c, not pending"], id="not pending"),
        pytest.param(
            ["huge"], ["cannot be placed on a: insufficient cpu (requested 50, available 7)"], id="pod is too large"
        ),
    ],
)
def test_places_are_checked_after_all_moves(pods: list[str], reasons: list[str]) -> None:
    places = tuple(Place(namespace="default", pod=name, node="a") for name in pods)
    assert defect_reasons(*GOOD, places=places) == reasons


def test_emptied_nodes_stay_domains_of_a_topology_spread() -> None:
    """With the emptied zone forgotten, zone 1 would be the only one and any number of pods could be there."""
    even = TopologySpreadConstraint(
        max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule", label_selector=DB
    )

    def db(name: str, on: str) -> Pod:
        return app(name, on=on, labels={"app": "db"}, topology_spread_constraints=[even])

    nodes = [node_of_ten(name, labels={ZONE: zone}) for name, zone in (("a", "1"), ("b", "1"), ("c", "2"))]
    snapshot = snapshot_of(nodes, [db("x", "a"), db("y", "c")])
    plan = Plan(strategy="s", moves=(move(1, "y", "c", "b"),))
    (found,) = replay_plan(snapshot, plan, plan_request(snapshot)).defects
    assert "topology spread" in found.reason


def test_defect_names_its_move() -> None:
    snapshot = base_cluster()
    (found,) = replay_plan(
        snapshot, Plan(strategy="s", moves=(move(7, "p", "c", "b", 2),)), plan_request(snapshot)
    ).defects
    assert (found.order, found.wave, found.namespace, found.pod) == (7, 2, "default", "p")


def test_replay_leaves_the_snapshot_as_it_was() -> None:
    snapshot = base_cluster()
    before = snapshot.room.free.copy()
    replay_plan(snapshot, Plan(strategy="s", moves=GOOD), plan_request(snapshot, pending=PENDING))
    assert (snapshot.room.free == before).all()


@pytest.mark.parametrize(
    ("defect", "told"),
    [
        pytest.param(PlanDefect(3, 1, "shop", "web", "is on b"), "move 3 of shop/web is on b", id="defect of a move"),
        pytest.param(
            PlanDefect(0, 0, "shop", "big", "is placed twice"), "shop/big is placed twice", id="defect of a place"
        ),
        pytest.param(PlanDefect(0, 2, "", "", "wave 2 moves too many"), "wave 2 moves too many", id="defect of a wave"),
    ],
)
def test_defect_is_a_sentence_about_its_move_pod_or_wave(defect: PlanDefect, told: str) -> None:
    assert str(defect) == told
