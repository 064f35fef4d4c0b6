"""Nodes locked for queues, in whole sessions: in whatever order pods come, only pods of the queue get there."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from restow.model.cluster import Mask, Which
from restow.model.objects import OwnerReference
from restow.model.snapshot import Snapshot
from restow.scheduling.decisions import Assign, HoldSeats
from restow.scheduling.engine import Engine
from restow.scheduling.framework import Cycle, FilterPlugin, Reach, Refusal
from restow.scheduling.registry import read_profile
from tests.model.cluster.builders import node, of_queue, pod, queue
from tests.model.cluster.snapshot_values import all_values
from tests.model.reservations.builders import pod_group, task, web_pod, web_reservation
from tests.scheduling.core.sample_plugins import cluster
from tests.scheduling.reservations.session_cluster import SessionCluster, named_nodes

SEEDS = range(int(os.environ.get("RESTOW_SEEDS", "12")))
DAEMONS = OwnerReference(kind="DaemonSet", name="d", uid="d", controller=True)
LOCKED = "node(s) were locked for queue q"


def member(name: str, group: str) -> Any:
    return web_pod(name, group=group, labels={})


@pytest.mark.parametrize(
    ("one", "where"),
    [
        pytest.param(of_queue(pod("p"), "q"), "n1", id="of the queue: the emptier node, which is its own"),
        pytest.param(pod("p"), "n2", id="of another queue: what is left"),
        pytest.param(pod("p", owner=DAEMONS), "n1", id="of a DaemonSet: anywhere"),
        pytest.param(member("p", "g"), "n1", id="of a gang of the queue"),
    ],
)
def test_pod_goes_to_nodes_that_are_not_locked_for_other_queues(one: Any, where: str) -> None:
    of_gang = replace(pod_group("g", 1), spec=replace(pod_group("g", 1).spec, queue="q"))
    cluster_of_session = SessionCluster(*named_nodes("n1", "n2"), pod("r", on="n2"), queue("q", "n1"), of_gang)
    assert cluster_of_session.session(one).nodes == {"p": where}


def test_pod_on_a_node_stays_when_the_node_is_locked() -> None:
    cluster_of_session = SessionCluster(*named_nodes("n1"), pod("r", on="n1"), queue("q", "n1"))
    assert [one.key for one in cluster_of_session.snapshot.occupants("n1")] == ["uid-r"]
    assert cluster_of_session.session(pod("p")).refused_pods == {"p": f"0/1 nodes are available: 1 {LOCKED}."}


# --- seats ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("whose", "held"),
    [pytest.param("q", ["n1"], id="of the queue"), pytest.param("r", ["n2"], id="of another"), (None, ["n2"])],
)
def test_reservation_goes_where_pods_of_its_queue_may(whose: str | None, held: list[str]) -> None:
    cluster_of_session = SessionCluster(*named_nodes("n1", "n2"), pod("x", on="n2"), queue("q", "n1"), queue("r"))
    assert cluster_of_session.session(web_reservation("seat", queue=whose)).held == {"seat": held}


def test_seat_of_a_migration_keeps_off_nodes_locked_for_other_queues() -> None:
    cluster_of_session = SessionCluster(*named_nodes("n1", "n2"), web_pod("m", on="n2"), queue("q", "n1"))
    outcome = cluster_of_session.session(
        web_reservation("pinned", migrating="uid-m", tasks=[task(requests={"cpu": "4"})])
    ).refused_reservations
    assert outcome["pinned"] == f"0/2 nodes are available: 1 Insufficient cpu, 1 {LOCKED}."


def test_move_inside_a_full_queue_is_not_refused_by_its_capability() -> None:
    full = queue("q", capability={"cpu": "1"})
    moving, seat = of_queue(web_pod("m", on="n2"), "q"), web_reservation("seat", migrating="uid-m", queue="q")
    assert SessionCluster(*named_nodes("n1", "n2"), full, moving).session(seat).held == {"seat": ["n1"]}


@pytest.mark.parametrize(
    ("pods_queue", "outcome"),
    [
        pytest.param(None, {"p": "seat/t/0"}, id="held before, so it stays"),
        pytest.param("r", {}, id="not for pods of a third queue"),
    ],
)
def test_seat_on_a_node_locked_since_refuses_pods_of_other_queues(
    pods_queue: str | None, outcome: dict[str, str]
) -> None:
    cluster_of_session = SessionCluster(
        *named_nodes("n1"), web_reservation("seat", at={0: "n1"}), queue("q", "n1"), queue("r")
    )
    assert cluster_of_session.session(of_queue(web_pod("p"), pods_queue)).seats == outcome


def test_seat_on_a_locked_node_is_no_way_in_for_other_queues() -> None:
    cluster_of_session = SessionCluster(
        *named_nodes("n1"), queue("q", "n1"), web_reservation("seat", at={0: "n1"}, queue="q")
    )
    found = cluster_of_session.session(web_pod("p"))
    assert found.seats == {}
    assert LOCKED in found.refused_pods["p"]


# --- whatever happens -------------------------------------------------------------------------------------------------

QUEUES = ("default", "a", "b", "c")
NODES = tuple(f"n{number}" for number in range(6))
names = st.sampled_from(QUEUES)
locks = st.dictionaries(st.sampled_from(NODES), names, max_size=5)
pods_of = st.lists(st.tuples(names, st.sampled_from(["1", "2"]), st.booleans()), max_size=14)


def shown(locked: dict[str, str], version: int) -> list[Any]:
    return [queue(name, *sorted(one for one in locked if locked[one] == name), version=version) for name in QUEUES]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(locks, pods_of), min_size=1, max_size=3))
def test_no_pod_of_another_queue_is_placed_on_a_locked_node(rounds: list[Any]) -> None:
    cluster_of_session = SessionCluster(*named_nodes(*NODES, labels={"zone": "a"}))
    for number, (locked, asked) in enumerate(rounds, 1):
        for one in shown(locked, number):
            cluster_of_session.show(one)
        pods, seats = [], []
        for place, (whose, cpu, as_seat) in enumerate(asked):
            name = f"p{number}-{place}"
            if as_seat:
                seats.append(web_reservation(name, task(requests={"cpu": cpu}), queue=whose))
            else:
                pods.append(of_queue(pod(name, {"cpu": cpu}), whose))
        before, mark = all_values(cluster_of_session.snapshot), cluster_of_session.snapshot.mark()
        cluster_of_session.session(*pods, *seats)
        cluster_of_session.snapshot.undo_to(mark)
        assert all_values(cluster_of_session.snapshot) == before
        for decision in cluster_of_session.session(*pods, *seats).decisions:
            if isinstance(decision, Assign):
                assert locked.get(decision.node) in (None, cluster_of_session.pod_groups.queue_of(decision.pod))
            elif isinstance(decision, HoldSeats):
                whose = decision.reservation.spec.queue
                assert all(locked.get(one.node_name) in (None, whose) for one in decision.placements)


class Anything(FilterPlugin):
    """Has nothing against any node, but must be asked about all: nothing can be shared or cut short."""

    name = "Anything"
    reach = Reach.CLUSTER

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        return np.ones(len(cycle.snapshot.rows.numbers(rows)), np.bool_)

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        return []


def random_locks(random: Random, version: int) -> list[Any]:
    free = [f"n{number:02}" for number in range(30)]
    random.shuffle(free)
    return [queue(name, *(free.pop() for _ in range(random.randint(0, 5))), version=version) for name in QUEUES]


@pytest.mark.parametrize("seed", SEEDS)
def test_queue_ranking_changes_no_placement(seed: int) -> None:
    random, engine = Random(seed), read_profile({}).engine
    slow = Engine([*engine.plugins, Anything()], {one.name: weight for one, weight in engine.scores})
    snapshot: Snapshot = cluster(*(node(f"n{number:02}", {"cpu": "8", "pods": "9"}) for number in range(30)))
    placed: list[Any] = []
    for number in range(120):
        if number % 30 == 0:
            for one in random_locks(random, number + 1):
                snapshot.apply_queue(one)
        one = of_queue(pod(f"p{number}", {"cpu": random.choice(["1", "2", "3"])}), random.choice(QUEUES))
        found, other = (each.find_node(Cycle(one, snapshot, 0.0), explain=False) for each in (engine, slow))
        assert (getattr(found, "node", None), getattr(found, "score", None)) == (
            getattr(other, "node", None),
            getattr(other, "score", None),
        )
        if hasattr(found, "node"):
            snapshot.assume(one, found.node, at=0.0)
            placed.append(one)
        if placed and random.random() < 0.2:
            snapshot.forget(placed.pop(random.randrange(len(placed))))
