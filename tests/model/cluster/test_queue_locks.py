"""Queue locks: the queues of a node, the lock class of a pod, and what changes with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import ObjectMeta, OwnerReference, PodGroup, PodGroupSpec
from restow.model.snapshot import Snapshot
from tests.model.cluster.builders import node, of_queue, pod, queue, reservation
from tests.narrowing import present

DAEMONS = OwnerReference(kind="DaemonSet", name="d", uid="d", controller=True)
GANG = PodGroup(metadata=ObjectMeta(name="g", namespace="default"), spec=PodGroupSpec(queue="q"))


def snapshot_of(*queues: Any) -> Snapshot:
    snapshot = Snapshot()
    for name in ("n1", "n2", "n3"):
        snapshot.apply_node(node(name, version=1))
    for one in queues:
        snapshot.apply_queue(one)
    return snapshot


def locked_nodes(snapshot: Snapshot) -> dict[str, tuple[str, ...]]:
    """Every locked node that exists, with the queues it is locked for."""
    locks, rows = snapshot.locks, snapshot.rows
    found = {name: locks.holders[locks.of_row[rows.find_row(name)]] for name in rows.names()}
    return {name: holders for name, holders in found.items() if holders}


def member(name: str) -> Any:
    one = pod("p")
    return replace(one, metadata=replace(one.metadata, annotations={"scheduling.k8s.io/group-name": name}))


@pytest.mark.parametrize(
    ("after", "holders"),
    [
        pytest.param(lambda s: None, {"n1": ("q",)}, id="as shown"),
        pytest.param(
            lambda s: s.apply_queue(queue("q", "n2", "n3", version=5)), {"n2": ("q",), "n3": ("q",)}, id="moved"
        ),
        pytest.param(lambda s: s.apply_queue(queue("q", "n2", version=1)), {"n1": ("q",)}, id="a late event"),
        pytest.param(lambda s: s.apply_queue(queue("r", "n1")), {"n1": ("q", "r")}, id="claimed by two"),
        pytest.param(lambda s: s.remove_queue(queue("q", version=5)), {}, id="queue gone"),
        pytest.param(lambda s: s.remove_node(node("n1", version=5)), {}, id="node gone"),
        pytest.param(lambda s: s.apply_node(node("n1", unschedulable=True, version=5)), {"n1": ("q",)}, id="cordoned"),
        pytest.param(lambda s: s.apply_node(node("n4")), {"n1": ("q",), "n4": ("q",)}, id="a node that was awaited"),
    ],
)
def test_node_is_locked_for_the_queues_that_show_it(
    after: Callable[[Snapshot], Any], holders: dict[str, tuple[str, ...]]
) -> None:
    snapshot = snapshot_of(queue("q", "n1", "n4", version=2))
    after(snapshot)
    assert locked_nodes(snapshot) == holders


def test_queue_being_deleted_locks_no_node() -> None:
    going = queue("q", "n1")
    going = replace(going, metadata=replace(going.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    assert locked_nodes(snapshot_of(going)) == {}


def test_reused_row_does_not_keep_the_lock_of_the_node_before() -> None:
    snapshot = snapshot_of(queue("q", "n1"))
    snapshot.remove_node(node("n1", version=5))
    snapshot.apply_node(node("other"))
    assert (snapshot.rows.find_row("other"), locked_nodes(snapshot)) == (0, {})


@pytest.mark.parametrize(
    ("one", "lock_class"),
    [
        pytest.param(of_queue(pod("p"), "q"), "q", id="of the queue, by annotation"),
        pytest.param(member("g"), "q", id="of the queue, by its gang"),
        pytest.param(of_queue(member("g"), "r"), "q", id="the gang's queue counts, not the annotation"),
        pytest.param(pod("p"), "", id="of the default queue, which has no locks"),
        pytest.param(of_queue(pod("p"), "r"), "", id="of another queue without locks"),
        pytest.param(of_queue(pod("p", owner=DAEMONS), "r"), None, id="of a DaemonSet"),
    ],
)
def test_lock_class_of_a_pod(one: Any, lock_class: str | None) -> None:
    snapshot = snapshot_of(queue("q", "n1"), queue("r"))
    snapshot.apply_group(GANG)
    assert snapshot.class_of(one).queue_lock_class == lock_class
    assert snapshot_of(queue("q")).class_of(one).queue_lock_class is None


def test_pods_of_different_queues_have_different_classes_only_while_nodes_are_locked() -> None:
    snapshot = snapshot_of(queue("q", version=1), queue("r"))
    ours, theirs, others = (of_queue(pod(name), name) for name in ("q", "r", "s"))
    assert snapshot.class_of(ours) is snapshot.class_of(theirs)
    version = snapshot.classes.version
    snapshot.apply_queue(queue("q", "n1", version=2))
    assert snapshot.classes.version != version
    assert snapshot.class_of(ours) is not snapshot.class_of(theirs)
    assert snapshot.class_of(theirs) is snapshot.class_of(others)
    snapshot.apply_queue(queue("q", version=3))
    assert snapshot.class_of(ours) is snapshot.class_of(theirs)


def test_unused_sets_of_queues_are_dropped() -> None:
    snapshot = snapshot_of(queue("q", "n1", version=1))
    for number in range(1, 1000):
        snapshot.apply_queue(queue(f"q{number}", "n1", "n2", version=2 * number))
        snapshot.remove_queue(queue(f"q{number}", version=2 * number + 1))
    snapshot.apply_queue(queue("r", "n1", "n3"))
    assert len(snapshot.locks.holders) < 600
    assert locked_nodes(snapshot) == {"n1": ("q", "r"), "n3": ("r",)}
    assert snapshot.locks.rows_of("r").tolist() == [snapshot.rows.find_row("n3")]


def test_undo_restores_locks_beyond_the_limit_of_sets() -> None:
    snapshot = snapshot_of(queue("q", "n1", version=1))
    mark = snapshot.mark()
    for number in range(1, 600):
        snapshot.apply_queue(queue(f"q{number}", "n1", "n2", version=2 * number))
        snapshot.remove_queue(queue(f"q{number}", version=2 * number + 1))
    snapshot.undo_to(mark)
    assert locked_nodes(snapshot) == {"n1": ("q",)}


def test_lock_touches_only_the_rows_of_its_nodes() -> None:
    snapshot = snapshot_of(queue("q", "n1", version=1))
    seen = snapshot.nodes.changes.generation
    snapshot.apply_queue(queue("q", "n1", "n3", version=2))
    snapshot.apply_queue(queue("q", "n1", "n3", version=3))
    assert snapshot.nodes.changes.since(seen).tolist() == [snapshot.rows.find_row("n3")]


@pytest.mark.parametrize("written", ["q", ""], ids=["a queue", "none, so the default one"])
def test_reserved_pod_has_the_lock_class_of_the_reservation_queue(written: str) -> None:
    snapshot = snapshot_of(queue(written or "default", "n1"))
    held = reservation("r", {0: "n2"})
    (only,) = present(held.spec.tasks)
    template = replace(only.template, metadata=member("g").metadata)
    asked = replace(held.spec, queue=written, tasks=[replace(only, template=template)])
    snapshot.apply_reservation(replace(held, spec=asked))
    (seat,) = snapshot.reservations.seats("default", "r")
    assert snapshot.class_of(seat.reserved_pod).queue_lock_class == (written or "default")
