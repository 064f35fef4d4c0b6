"""QueueNodeLock: pods of other queues stay off locked nodes, and the refusal names the queues."""

from __future__ import annotations

import pytest

from restow.model.objects import OwnerReference, Pod, Queue
from restow.model.snapshot import Snapshot
from restow.model.wire import WireError
from restow.scheduling.framework import Cycle
from restow.scheduling.plugins.queue_node_lock import QueueNodeLock
from restow.scheduling.registry import read_profile
from tests.model.cluster.builders import node, of_queue, pod, queue
from tests.scheduling.core.sample_plugins import node_of, refused
from tests.scheduling.plugins.plugin_answers import reasons

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
        pytest.param(pod("p"), {"n1": FOR_Q, "n2": FOR_R}, id="a queue without locks: only unlocked nodes"),
        pytest.param(of_queue(pod("p", owner=DAEMONS), "s"), {}, id="of a DaemonSet: all"),
    ],
)
def test_queue_node_lock_leaves_the_nodes_of_the_pods_own_queue_and_unlocked_nodes(
    one: Pod, refused: dict[str, str]
) -> None:
    snapshot = cluster(queue("q", "n1"), queue("r", "n2"))
    expected = {name: [refused[name]] if name in refused else [] for name in ("n1", "n2", "n3")}
    assert reasons(QueueNodeLock(), Cycle(one, snapshot, 0.0)) == expected


def test_node_that_two_queues_show_as_locked_is_refused_to_both() -> None:
    snapshot = cluster(queue("q", "n1"), queue("r", "n1"))
    by_node = reasons(QueueNodeLock(), Cycle(of_queue(pod("p"), "q"), snapshot, 0.0))
    assert by_node["n1"] == ["node(s) were locked for queues q and r!"]


def test_queue_node_lock_refuses_no_node_while_no_queue_has_locks() -> None:
    assert reasons(QueueNodeLock(), Cycle(of_queue(pod("p"), "q"), cluster(queue("q")), 0.0)) == {
        "n1": [],
        "n2": [],
        "n3": [],
    }


def message(one: Pod, snapshot: Snapshot) -> str:
    return refused(read_profile({}).engine.find_node(Cycle(one, snapshot, 0.0))).message


def test_queue_node_lock_refusal_is_one_counted_sentence() -> None:
    snapshot = cluster(queue("q1", "n1", "n2", "n3"))
    assert message(pod("p"), snapshot) == "0/3 nodes are available: 3 node(s) were locked for queue q1."


def test_queue_node_lock_refusal_names_the_five_queues_with_most_nodes() -> None:
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
def test_cached_masks_follow_the_locks_of_queues(again: bool) -> None:
    snapshot, engine = cluster(names=("n1", "n2")), read_profile({}).engine

    def where() -> str:
        return node_of(engine.find_node(Cycle(pod("p"), snapshot, 0.0)))

    assert where() == "n1"
    mark = snapshot.mark()
    snapshot.apply_queue(queue("q", "n1"))
    assert where() == "n2"
    if again:
        snapshot.apply_queue(queue("q"))
    else:
        snapshot.undo_to(mark)
    assert where() == "n1"


@pytest.mark.parametrize("name", ["NodeReservation", "QueueNodeLock"])
def test_queue_node_lock_runs_by_default_and_can_be_switched_off_by_either_name(name: str) -> None:
    off = read_profile({"tiers": [{"plugins": [{"name": name, "enabled": False}]}]}).engine
    cycle = Cycle(pod("p"), cluster(queue("q", "n1"), names=("n1",)), 0.0)
    assert node_of(off.find_node(cycle)) == "n1"


def test_queue_node_lock_listed_under_both_names_is_refused() -> None:
    both = [{"name": "NodeReservation"}, {"name": "QueueNodeLock"}]
    with pytest.raises(WireError, match="QueueNodeLock is listed twice"):
        read_profile({"tiers": [{"plugins": both}]})


def test_cached_masks_follow_a_lock_that_moves_to_another_node() -> None:
    snapshot, engine = cluster(queue("q", "n1"), names=("n1", "n2")), read_profile({}).engine
    assert node_of(engine.find_node(Cycle(pod("p"), snapshot, 0.0))) == "n2"
    snapshot.apply_queue(queue("q", "n2"))
    assert node_of(engine.find_node(Cycle(pod("p"), snapshot, 0.0))) == "n1"
