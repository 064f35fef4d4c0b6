"""NodeReservation: pods of other queues stay off locked nodes, and are told whose they are."""

from __future__ import annotations

import pytest

from restow.model.objects import OwnerReference, Pod, Queue
from restow.model.snapshot import Snapshot
from restow.scheduling.framework import Cycle
from restow.scheduling.plugins.queue_node_lock import NodeReservation
from restow.scheduling.registry import read_profile
from tests.model.cluster.builders import node, of_queue, pod, queue
from tests.scheduling.core.doubles import node_of, refused
from tests.scheduling.plugins.asking import reasons

DAEMONS = OwnerReference(kind="DaemonSet", name="d", uid="d", controller=True)


def cluster(*queues: Queue, names: tuple[str, ...] = ("n1", "n2", "n3")) -> Snapshot:
    snapshot = Snapshot()
    for name in names:
        snapshot.apply_node(node(name))
    for one in queues:
        snapshot.apply_queue(one)
    return snapshot


FOR_Q, FOR_R = "node(s) were locked for queue q!", "node(s) were locked for queue r!"


@pytest.mark.parametrize(
    ("one", "refused"),
    [
        pytest.param(of_queue(pod("p"), "q"), {"n2": FOR_R}, id="its own and unlocked ones are left"),
        pytest.param(pod("p"), {"n1": FOR_Q, "n2": FOR_R}, id="whose queue has no locks: only unlocked ones"),
        pytest.param(of_queue(pod("p", owner=DAEMONS), "s"), {}, id="of a DaemonSet: all"),
    ],
)
def test_which_nodes_are_left(one: Pod, refused: dict[str, str]) -> None:
    snapshot = cluster(queue("q", "n1"), queue("r", "n2"))
    expected = {name: [refused[name]] if name in refused else [] for name in ("n1", "n2", "n3")}
    assert reasons(NodeReservation(), Cycle(one, snapshot, 0.0)) == expected


def test_a_node_that_two_queues_show_is_nobodys() -> None:
    snapshot = cluster(queue("q", "n1"), queue("r", "n1"))
    told = reasons(NodeReservation(), Cycle(of_queue(pod("p"), "q"), snapshot, 0.0))
    assert told["n1"] == ["node(s) were locked for queues q and r!"]


def test_without_locks_the_plugin_has_no_say() -> None:
    assert reasons(NodeReservation(), Cycle(of_queue(pod("p"), "q"), cluster(queue("q")), 0.0)) == {
        "n1": [],
        "n2": [],
        "n3": [],
    }


def message(one: Pod, snapshot: Snapshot) -> str:
    return refused(read_profile({}).engine.place(Cycle(one, snapshot, 0.0))).message


def test_the_refusal_is_one_counted_sentence() -> None:
    snapshot = cluster(queue("q1", "n1", "n2", "n3"))
    assert message(pod("p"), snapshot) == "0/3 nodes are available: 3 node(s) were locked for queue q1."


def test_of_many_queues_those_with_most_nodes_are_named() -> None:
    names = tuple(f"n{number}" for number in range(9))
    snapshot = cluster(
        *(queue(f"q{number}", f"n{number}") for number in range(8)), queue("q0", "n0", "n8"), names=names
    )
    assert message(pod("p"), snapshot) == (
        "0/9 nodes are available: 1 node(s) were locked for queue q1, 1 node(s) were locked for queue q2, "
        "1 node(s) were locked for queue q3, 1 node(s) were locked for queue q4, 2 node(s) were locked for queue q0, "
        "3 node(s) were locked for 3 other queues."
    )


@pytest.mark.parametrize("again", [False, True], ids=["undone", "unlocked by the queue"])
def test_what_an_engine_remembers_follows_the_locks(again: bool) -> None:
    snapshot, engine = cluster(names=("n1", "n2")), read_profile({}).engine

    def where() -> str:
        return node_of(engine.place(Cycle(pod("p"), snapshot, 0.0)))

    assert where() == "n1"
    mark = snapshot.mark()
    snapshot.apply_queue(queue("q", "n1"))
    assert where() == "n2"
    if again:
        snapshot.apply_queue(queue("q"))
    else:
        snapshot.undo_to(mark)
    assert where() == "n1"


def test_it_runs_by_default_and_can_be_switched_off() -> None:
    off = read_profile({"tiers": [{"plugins": [{"name": "NodeReservation", "enabled": False}]}]}).engine
    cycle = Cycle(pod("p"), cluster(queue("q", "n1"), names=("n1",)), 0.0)
    assert node_of(off.place(cycle)) == "n1"


def test_what_an_engine_remembers_follows_a_lock_that_moves() -> None:
    snapshot, engine = cluster(queue("q", "n1"), names=("n1", "n2")), read_profile({}).engine
    assert node_of(engine.place(Cycle(pod("p"), snapshot, 0.0))) == "n2"
    snapshot.apply_queue(queue("q", "n2"))
    assert node_of(engine.place(Cycle(pod("p"), snapshot, 0.0))) == "n1"
