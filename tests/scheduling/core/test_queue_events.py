"""Queue events that requeue pods: locks that go, locks that come, limits that change; not the counts in the status."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import Condition, ObjectMeta, Pod, PodGroup, Queue
from restow.scheduling.cluster_events import QUEUE, ActionType, ClusterEvent, EventResource, QueueingHints
from tests.model.cluster.builders import node, of_queue, queue
from tests.scheduling.core.session_fixture import task

LOCKED = "NodeReservation"
OURS, THEIRS, MEMBER = of_queue(task("p"), "q"), of_queue(task("p"), "r"), task("p", "g")


def changed(old: Queue, new: Queue) -> ClusterEvent:
    return ClusterEvent(EventResource.QUEUE, ActionType.UPDATED, old=old, new=new)


def with_status(**fields: Any) -> Queue:
    return replace(queue("q"), status=replace(queue("q").status, **fields))


REJECTED = with_status(conditions=[Condition(type="Rejected", status="True")])
MOVED = changed(queue("q", "n1"), queue("q", "n2"))
MORE = changed(queue("q", "n1"), queue("q", "n1", "n2"))
SAME = changed(queue("q", "n1"), queue("q", "n1", weight=3))
GONE = ClusterEvent(EventResource.QUEUE, ActionType.DELETED, old=queue("q", "n1"))


@pytest.mark.parametrize(
    ("event", "pod", "requeued"),
    [
        pytest.param(GONE, THEIRS, True, id="a queue with locks is deleted"),
        pytest.param(
            ClusterEvent(EventResource.QUEUE, ActionType.DELETED, old=queue("q")),
            THEIRS,
            False,
            id="one without locks is deleted",
        ),
        pytest.param(MOVED, THEIRS, True, id="a lock moves: the old node is free"),
        pytest.param(MORE, THEIRS, False, id="a node is locked for another queue"),
        pytest.param(MORE, OURS, True, id="a node is locked for the pod's own queue"),
        pytest.param(MORE, MEMBER, True, id="a node is locked for what may be the gang's queue"),
        pytest.param(SAME, THEIRS, False, id="the locks are the same"),
        pytest.param(
            ClusterEvent(EventResource.NODE, ActionType.ADDED, new=node("n9")), THEIRS, True, id="a node comes"
        ),
        pytest.param(
            ClusterEvent(EventResource.POD, ActionType.DELETED, old=task("x")), THEIRS, False, id="a pod leaves"
        ),
        pytest.param(
            ClusterEvent(EventResource.POD_GROUP, new=PodGroup(metadata=ObjectMeta(name="g", namespace="default"))),
            MEMBER,
            True,
            id="the gang's queue may be another now",
        ),
    ],
)
def test_queue_event_requeues_pods_that_node_locks_refused(event: ClusterEvent, pod: Pod, requeued: bool) -> None:
    assert QueueingHints().is_worth_requeuing(pod, [LOCKED], event) is requeued


@pytest.mark.parametrize(
    ("event", "requeued"),
    [
        pytest.param(changed(queue("q"), queue("q", capability={"cpu": "9"})), True, id="limits change"),
        pytest.param(changed(queue("q", state="Closed"), queue("q", state="Open")), True, id="it opens"),
        pytest.param(changed(queue("q"), REJECTED), True, id="a guarantee is rejected: others may have that"),
        pytest.param(changed(queue("q"), with_status(allocated={"cpu": "3"})), False, id="what it uses is counted"),
        pytest.param(changed(queue("q"), queue("q", "n1")), False, id="nodes are locked"),
        pytest.param(ClusterEvent(EventResource.QUEUE, ActionType.ADDED, new=queue("q")), True, id="it is created"),
    ],
)
def test_queue_event_requeues_pods_that_a_queue_refused(event: ClusterEvent, requeued: bool) -> None:
    assert QueueingHints().is_worth_requeuing(OURS, [QUEUE], event) is requeued
