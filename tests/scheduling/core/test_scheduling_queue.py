"""The queue: order, back-off, gates, and that no wake-up is ever lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from restow.model.objects import Node, ObjectMeta, Pod, PodGroup, SchedulingGate
from restow.scheduling.cluster_events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHints,
)
from restow.scheduling.framework import SUCCESS, PreEnqueuePlugin, Verdict, unresolvable, unschedulable
from restow.scheduling.queue.queued_pod import QueueState
from restow.scheduling.queue.scheduling_queue import MAX_IN_UNSCHEDULABLE, SchedulingQueue
from tests.model.cluster.builders import node, pod
from tests.narrowing import present

POD_LEFT = ClusterEvent(EventResource.POD, ActionType.DELETED)
NODE_CAME = ClusterEvent(EventResource.NODE, ActionType.ADDED)
CLASS_CAME = ClusterEvent(EventResource.STORAGE_CLASS, ActionType.ADDED)


def popped(queue: SchedulingQueue, now: float = 0.0) -> list[str]:
    names = []
    while (found := queue.pop(now)) is not None:
        names.append(found.metadata.name)
    return names


def refused_at(now: float, *plugins: str, times: int = 1) -> SchedulingQueue:
    """A queue whose only pod was tried and refused `times` times, the last time at `now`."""
    queue = SchedulingQueue()
    queue.add(pod("p"), 0.0)
    for _ in range(times):
        queue.activate(["uid-p"], now)
        assert queue.pop(now)
        queue.requeue_refused("uid-p", plugins or ["NodeResourcesFit"], now)
    return queue


def test_pods_are_popped_by_priority_then_age_then_name() -> None:
    queue = SchedulingQueue()
    for name, priority, at in [("late", 0, 2.0), ("b", 0, 1.0), ("a", 0, 1.0), ("vip", 7, 3.0)]:
        queue.add(pod(name, priority=priority), at)
    assert popped(queue, 3.0) == ["vip", "a", "b", "late"]


def with_queues(**priorities: Any) -> SchedulingQueue:
    """A scheduling queue with these pods, in this order; the first letter of a pod's name is the name of its queue."""
    queue = SchedulingQueue(queue_of=lambda one: one.metadata.name[0])
    for name, priority in priorities.items():
        queue.add(pod(name, priority=priority), 0.0)
    return queue


def test_queues_are_popped_in_order_each_and_together() -> None:
    queue = with_queues(a1=1, a2=3, b1=2)
    assert queue.queues_with_pods(0.0) == ["a", "b"]
    assert [present(queue.pop(0.0, "a")).metadata.name, *popped(queue)] == ["a2", "b1", "a1"]
    assert queue.queues_with_pods(0.0) == []
    assert queue.pop(0.0, "a") is None


def test_postponed_pod_keeps_its_position() -> None:
    queue = with_queues(a1=0, a2=0, a3=0)
    first, _ = present(queue.pop(0.0)), queue.pop(0.0)
    queue.requeue_postponed(first.metadata.uid)
    queue.delete("uid-a2")
    queue.requeue_postponed("uid-a2")
    assert popped(queue) == ["a1", "a3"]


@pytest.mark.parametrize(
    ("end", "called"),
    [
        pytest.param(lambda queue: queue.requeue_postponed("uid-p"), True, id="ready"),
        pytest.param(lambda queue: queue.requeue_failed("uid-p", 0.0), False, id="an error is waited out"),
        pytest.param(
            lambda queue: queue.requeue_refused("uid-p", ["NodeResourcesFit"], 0.0), False, id="refused, no event"
        ),
        pytest.param(
            lambda queue: queue.requeue_refused("uid-p", [], 0.0), False, id="refused for no particular reason"
        ),
        pytest.param(lambda queue: queue.delete("uid-p"), False, id="gone"),
    ],
)
def test_event_requeues_a_pod_whatever_back_off_is_left(end: Callable[[SchedulingQueue], None], called: bool) -> None:
    queue = SchedulingQueue()
    queue.add(pod("p"), 0.0)
    queue.pop(0.0)
    end(queue)
    assert queue.is_requeued("uid-p") is called
    waits = queue.state_of("uid-p") is QueueState.UNSCHEDULABLE
    queue.handle_event(POD_LEFT, 0.0)
    assert queue.is_requeued("uid-p") is (called or waits)


@pytest.mark.parametrize(("tries", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (40, 10)])
def test_back_off_doubles_up_to_ten_seconds(tries: int, seconds: int) -> None:
    queue = refused_at(100.0, times=tries)
    queue.handle_event(POD_LEFT, 100.0)
    assert queue.next_due(100.0) == 100.0 + seconds
    assert popped(queue, 100.0 + seconds - 0.01) == []
    assert popped(queue, 100.0 + seconds) == ["p"]


def test_errors_back_off_by_their_own_count() -> None:
    queue = refused_at(100.0, times=5)
    queue.activate(["uid-p"], 100.0)
    queue.pop(100.0)
    queue.requeue_failed("uid-p", 100.0)
    assert queue.next_due(100.0) == 101.0


def test_pod_past_its_back_off_is_active_at_once() -> None:
    queue = refused_at(0.0)
    queue.handle_event(POD_LEFT, 60.0)
    assert queue.state_of("uid-p") is QueueState.ACTIVE


@pytest.mark.parametrize(
    ("plugins", "event", "requeued"),
    [
        pytest.param(["NodeResourcesFit"], POD_LEFT, True, id="room became free"),
        pytest.param(["TaintToleration"], POD_LEFT, False, id="a taint does not leave with a pod"),
        pytest.param(["TaintToleration"], NODE_CAME, True, id="a new node has other taints"),
        pytest.param(["TaintToleration", "NodeResourcesFit"], POD_LEFT, True, id="one of two is enough"),
        pytest.param(["SomebodyElses"], CLASS_CAME, True, id="a plugin without rules hears everything"),
        pytest.param(
            ["SchedulingGates"],
            ClusterEvent(EventResource.WILDCARD),
            True,
            id="a wildcard event requeues all",
        ),
    ],
)
def test_event_requeues_pods_that_a_concerned_plugin_refused(
    plugins: list[str], event: ClusterEvent, requeued: bool
) -> None:
    queue = refused_at(0.0, *plugins)
    assert queue.handle_event(event, 60.0) == (["uid-p"] if requeued else [])


@pytest.mark.parametrize(
    ("old", "new", "requeued"),
    [
        pytest.param(node("n", version=1), node("n", version=2), False, id="a heartbeat"),
        pytest.param(node("n"), node("n", {"cpu": "9"}), True, id="a larger node"),
        pytest.param(node("n", unschedulable=True), node("n"), True, id="no longer cordoned"),
    ],
)
def test_node_update_requeues_only_if_scheduling_reads_the_change(old: Node, new: Node, requeued: bool) -> None:
    assert (
        bool(refused_at(0.0).handle_event(ClusterEvent(EventResource.NODE, ActionType.UPDATED, old, new), 60.0))
        is requeued
    )


@pytest.mark.parametrize(("name", "requeued"), [("g", True), ("other", False)])
def test_gang_is_requeued_by_events_of_its_own_pods(name: str, requeued: bool) -> None:
    member = replace(pod("p"), metadata=replace(pod("p").metadata, annotations={"scheduling.k8s.io/group-name": "g"}))
    group = PodGroup(metadata=ObjectMeta(name=name, namespace="default"))
    assert (
        QueueingHints().is_worth_requeuing(
            member, ["Gang"], ClusterEvent(EventResource.POD_GROUP, ActionType.UPDATED, group, group)
        )
        is requeued
    )


def test_queueing_hint_decides_and_one_that_raises_requeues() -> None:
    rules = {
        "Picky": [ClusterEventWithHint(EventResource.NODE, ActionType.ANY, lambda pod, event: False)],
        "Broken": [ClusterEventWithHint(EventResource.NODE, ActionType.ANY, lambda pod, event: 1 / 0 > 0)],
    }
    assert not QueueingHints(rules).is_worth_requeuing(pod("p"), ["Picky"], NODE_CAME)
    assert QueueingHints(rules).is_worth_requeuing(pod("p"), ["Broken"], NODE_CAME)


def test_events_during_an_attempt_requeue_the_pod() -> None:
    queue = SchedulingQueue()
    queue.add(pod("p"), 0.0)
    queue.pop(0.0)
    queue.handle_event(POD_LEFT, 0.1)
    queue.requeue_refused("uid-p", ["NodeResourcesFit"], 0.2)
    assert queue.state_of("uid-p") is QueueState.BACKOFF


def test_no_events_are_kept_for_a_pod_that_is_being_bound() -> None:
    queue = SchedulingQueue()
    queue.add(pod("p"), 0.0)
    assert queue.pop(0.0)
    queue.stop_tracking_events("uid-p")
    queue.handle_event(POD_LEFT, 0.0)
    assert not queue._in_flight._events
    queue.requeue_failed("uid-p", 0.0)
    assert queue.state_of("uid-p") is QueueState.BACKOFF


def test_events_from_before_an_attempt_do_not_requeue_the_pod() -> None:
    queue = SchedulingQueue()
    queue.add(pod("first"), 0.0)
    queue.add(pod("second"), 1.0)
    queue.pop(1.0)
    queue.handle_event(POD_LEFT, 1.0)
    queue.pop(1.0)
    queue.requeue_refused("uid-second", ["NodeResourcesFit"], 1.0)
    assert queue.state_of("uid-second") is QueueState.UNSCHEDULABLE


def test_update_during_an_attempt_requeues_the_pod() -> None:
    queue = SchedulingQueue()
    queue.add(pod("p"), 0.0)
    queue.pop(0.0)
    queue.update(pod("p", labels={"new": "label"}), 0.0)
    queue.requeue_refused("uid-p", ["TaintToleration"], 0.0)
    assert queue.state_of("uid-p") is QueueState.BACKOFF


@pytest.mark.parametrize(
    ("newer", "where"),
    [(pod("p", phase="Pending"), QueueState.UNSCHEDULABLE), (pod("p", {"cpu": "2"}), QueueState.ACTIVE)],
    ids=["status only", "another spec"],
)
def test_pod_update_that_may_matter_requeues_the_pod(newer: Pod, where: QueueState) -> None:
    queue = refused_at(0.0, "TaintToleration")
    queue.update(newer, 60.0)
    assert queue.state_of("uid-p") is where


def test_refusal_without_a_plugin_is_tried_again_after_back_off() -> None:
    queue = SchedulingQueue()
    queue.add(pod("p"), 0.0)
    queue.pop(0.0)
    queue.requeue_refused("uid-p", [], 0.0)
    assert queue.next_due(0.0) == 1.0


def test_unschedulable_pod_is_tried_again_after_five_minutes_without_events() -> None:
    queue = refused_at(0.0)
    assert queue.next_due(1.0) == MAX_IN_UNSCHEDULABLE
    queue.flush_unschedulable(MAX_IN_UNSCHEDULABLE - 1)
    assert queue.state_of("uid-p") is QueueState.UNSCHEDULABLE
    queue.flush_unschedulable(MAX_IN_UNSCHEDULABLE)
    assert queue.state_of("uid-p") is QueueState.ACTIVE


@pytest.mark.parametrize(
    "where", [QueueState.ACTIVE, QueueState.IN_FLIGHT, QueueState.UNSCHEDULABLE, QueueState.BACKOFF]
)
def test_deleted_pod_is_gone_from_every_state(where: QueueState) -> None:
    queue = SchedulingQueue()
    queue.add(pod("p"), 0.0)
    if where is not QueueState.ACTIVE:
        queue.pop(0.0)
    if where is QueueState.UNSCHEDULABLE:
        queue.requeue_refused("uid-p", ["NodeName"], 0.0)
    if where is QueueState.BACKOFF:
        queue.requeue_failed("uid-p", 0.0)
    assert queue.state_of("uid-p") is where
    queue.delete("uid-p")
    queue.requeue_refused("uid-p", [], 0.0)
    queue.handle_event(ClusterEvent(EventResource.WILDCARD), 99.0)
    assert (len(queue), queue.pop(99.0), queue.next_due(99.0)) == (0, None, None)


class Gate(PreEnqueuePlugin):
    name: ClassVar[str] = "SchedulingGates"

    def pre_enqueue(self, pod: Pod) -> Verdict:
        return unresolvable("gated") if pod.spec.scheduling_gates else SUCCESS


def test_gated_pod_waits_until_its_gate_is_removed() -> None:
    queue = SchedulingQueue(pre_enqueue=[Gate()])
    queue.add(pod("p", scheduling_gates=[SchedulingGate(name="hold")]), 0.0)
    queue.handle_event(NODE_CAME, 1.0)
    queue.activate(["uid-p"], 1.0)
    assert queue.state_of("uid-p") is QueueState.GATED
    queue.update(pod("p"), 2.0)
    assert popped(queue, 2.0) == ["p"]


class BreaksOnce(PreEnqueuePlugin):
    name: ClassVar[str] = "BreaksOnce"
    broke = False

    def pre_enqueue(self, pod: Pod) -> Verdict:
        if not self.broke:
            self.broke = True
            raise RuntimeError("oh")
        return SUCCESS


class Curfew(PreEnqueuePlugin):
    name = "Curfew"

    def pre_enqueue(self, pod: Pod) -> Verdict:
        return unschedulable("it is late")


def test_gating_verdict_is_reported_once() -> None:
    reported = []

    def report_gated(pod: Pod, verdict: Verdict) -> None:
        reported.append((pod.metadata.name, verdict.plugin, verdict.reasons))

    queue = SchedulingQueue(pre_enqueue=[Curfew()], report_gated=report_gated)
    queue.add(pod("p"), 0.0)
    for number in range(3):
        queue.handle_event(POD_LEFT, float(number))
    assert reported == [("p", "Curfew", ("it is late",))]


def test_refusal_after_untracked_events_is_tried_again() -> None:
    queue = SchedulingQueue()
    queue.add(pod("p"), 0.0)
    queue.pop(0.0)
    queue.stop_tracking_events("uid-p")
    queue.handle_event(POD_LEFT, 0.0)
    queue.requeue_refused("uid-p", ["NodeName"], 0.0)
    assert queue.state_of("uid-p") is QueueState.BACKOFF


def test_pre_enqueue_that_raises_gates_the_pod_until_an_event() -> None:
    reported = []
    queue = SchedulingQueue(
        pre_enqueue=[BreaksOnce()], report_gated=lambda pod, verdict: reported.append(verdict.reasons)
    )
    queue.add(pod("p"), 0.0)
    assert reported == [("RuntimeError: oh",)]
    queue.handle_event(POD_LEFT, 1.0)
    assert popped(queue, 1.0) == ["p"]


def test_rest_of_a_gang_is_taken_out_of_turn() -> None:
    queue = refused_at(0.0)
    assert present(queue.take_pod("uid-p")).metadata.name == "p"
    assert queue.take_pod("uid-p") is None
    queue.delete("uid-p")
    assert len(queue) == 0


class NoWakeupIsLost(RuleBasedStateMachine):
    """A pod that waits for events has missed none since its last attempt began."""

    uids = st.sampled_from([f"uid-{name}" for name in "abc"])
    plugins = st.sets(st.sampled_from(["NodeResourcesFit", "TaintToleration", "SchedulingGates"]), min_size=1)
    event = st.sampled_from([POD_LEFT, NODE_CAME, CLASS_CAME])

    def __init__(self) -> None:
        super().__init__()
        self.queue = SchedulingQueue()
        self.now = 0.0
        self.since: dict[str, list[ClusterEvent]] = {}
        self.refused_by: dict[str, set[str]] = {}

    @rule(name=st.sampled_from("abc"))
    def add(self, name: str) -> None:
        self.queue.add(pod(name), self.now)

    @rule()
    def pop(self) -> None:
        found = self.queue.pop(self.now)
        if found:
            self.since[found.metadata.uid] = []

    @rule(uid=uids, plugins=plugins)
    def refuse(self, uid: str, plugins: set[str]) -> None:
        if self.queue.state_of(uid) is QueueState.IN_FLIGHT:
            self.refused_by[uid] = plugins
        self.queue.requeue_refused(uid, plugins, self.now)

    @rule(uid=uids)
    def fail(self, uid: str) -> None:
        self.queue.requeue_failed(uid, self.now)

    @rule(event=event)
    def tell(self, event: ClusterEvent) -> None:
        self.queue.handle_event(event, self.now)
        for heard in self.since.values():
            heard.append(event)

    @rule(uid=uids)
    def take(self, uid: str) -> None:
        if self.queue.take_pod(uid):
            self.since[uid] = []

    @rule(uid=uids)
    def delete(self, uid: str) -> None:
        self.queue.delete(uid)

    @rule(uids=st.sets(uids))
    def activate(self, uids: set[str]) -> None:
        self.queue.activate(uids, self.now)

    @rule(seconds=st.sampled_from([0.5, 3.0, 11.0, 400.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.queue.flush_unschedulable(self.now)

    @invariant()
    def no_pod_misses_an_event(self) -> None:
        for one in self.queue.pods(QueueState.UNSCHEDULABLE):
            uid = one.metadata.uid
            assert not any(
                QueueingHints().is_worth_requeuing(one, self.refused_by[uid], event) for event in self.since[uid]
            )

    @precondition(lambda self: len(self.queue) > 0)
    @invariant()
    def no_pod_is_forgotten(self) -> None:
        places = [one for where in QueueState for one in self.queue.pods(where)]
        flying = self.queue.pods(QueueState.IN_FLIGHT)
        assert len(places) == len(self.queue)
        assert self.queue.next_due(self.now) is not None or len(flying) == len(self.queue)


TestNoWakeupIsLost = NoWakeupIsLost.TestCase
TestNoWakeupIsLost.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
