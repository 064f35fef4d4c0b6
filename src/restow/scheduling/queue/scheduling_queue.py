"""The scheduling queue: which pod is tried next, and when a pod that failed is tried again.

Goes in: pods as they come, change and go, cluster events, and how attempts ended; time is always an argument. Comes
out: pods to try, most important first.

             add                          pop
    (new) ---------> ACTIVE ----------------------------> IN FLIGHT --- delete ---> (gone)
      |                ^  ^                                   |
      | PreEnqueue     |  +--- it is time ---- BACKOFF <------+ an error, or an event came in meanwhile
      | refuses        |                          ^           |
      v                |                          |           v
    GATED -- admitted -+                          |           | refused
                       +-- event or 5 minutes -- UNSCHEDULABLE (after back-off, if some of it is left)

Events that come while a pod is in flight are kept and looked at when it comes back, so that none is missed: what the
pod was refused for may have changed after the attempt had looked at it.

The parts: `ActiveQueue` and `BackoffQueue` are heaps, `UnschedulablePods` knows which pods wait for which events,
`InFlightPods` keeps the events since each attempt began, `QueueAdmission` runs PreEnqueue and QueueSort.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from restow.model.objects import Pod
from restow.scheduling.cluster_events import ClusterEvent, QueueingHints
from restow.scheduling.framework import PreEnqueuePlugin, Verdict
from restow.scheduling.queue.active_queue import ActiveQueue, BackoffQueue, QueueName
from restow.scheduling.queue.in_flight_pods import InFlightPods
from restow.scheduling.queue.queue_sort import Order, QueueAdmission, priority_order
from restow.scheduling.queue.queued_pod import QueuedPod, QueueState
from restow.scheduling.queue.unschedulable_pods import UnschedulablePods

MAX_IN_UNSCHEDULABLE = 300.0
"""Seconds in UNSCHEDULABLE after which a pod is tried again without any event."""


class SchedulingQueue:
    def __init__(
        self,
        *,
        hints: QueueingHints | None = None,
        pre_enqueue: Sequence[PreEnqueuePlugin] = (),
        order: Order = priority_order,
        queue_of: Callable[[Pod], QueueName] = lambda pod: "",
        report_gated: Callable[[Pod, Verdict], None] = lambda pod, verdict: None,
    ) -> None:
        """`queue_of` gives the queue of a pod. `report_gated` is called with a pod and the verdict of the PreEnqueue
        plugin that gates it, once per verdict."""
        self._hints = hints or QueueingHints()
        self._report_gated = report_gated
        self._entries: dict[str, QueuedPod] = {}
        self._admission = QueueAdmission(pre_enqueue, order)
        self._active = ActiveQueue(self._entries, queue_of)
        self._backoff = BackoffQueue(self._entries)
        self._unschedulable = UnschedulablePods(self._entries, self._hints)
        self._in_flight = InFlightPods()

    def __len__(self) -> int:
        return len(self._entries)

    def state_of(self, uid: str) -> QueueState | None:
        entry = self._entries.get(uid)
        return entry.state if entry else None

    def pods(self, state: QueueState) -> list[Pod]:
        """The pods in one state, in the order they would be tried."""
        entries = [entry for entry in self._entries.values() if entry.state is state]
        return [entry.pod for entry in sorted(entries, key=lambda entry: entry.position)]

    # --- pods come, change and go -------------------------------------------------------------------------------------

    def add(self, pod: Pod, now: float) -> None:
        """A pending pod is to be scheduled; one that is known already is updated."""
        if pod.metadata.uid in self._entries:
            self.update(pod, now)
            return
        entry = self._entries[pod.metadata.uid] = QueuedPod(pod, now)
        self._enqueue(entry, now)

    def update(self, pod: Pod, now: float) -> None:
        """A pending pod changed: what it was refused or gated for may be over."""
        entry = self._entries.get(pod.metadata.uid)
        if entry is None:
            self.add(pod, now)
            return
        changed = _may_matter(entry.pod, pod)
        entry.pod = pod
        if entry.state is QueueState.IN_FLIGHT:
            entry.is_updated = entry.is_updated or changed
        elif entry.state is QueueState.GATED or (changed and entry.state is QueueState.UNSCHEDULABLE):
            self._enqueue(entry, now)
        elif entry.state is QueueState.ACTIVE:
            # Its priority may be another now. The new row has a newer ticket, so the old one in the heap is stale.
            self._admission.set_position(entry)
            self._active.put(entry)

    def delete(self, uid: str) -> None:
        """A pod is gone, or is bound."""
        entry = self._entries.pop(uid, None)
        if entry is not None:
            self._leave_state(entry)

    # --- attempts -----------------------------------------------------------------------------------------------------

    def queues_with_pods(self, now: float) -> list[QueueName]:
        """The queues with a pod that is ready, by name."""
        self._end_backoffs(now)
        return self._active.queues_with_pods()

    def ready_count(self, now: float) -> int:
        """How many pods are ready to be tried, at the most."""
        self._end_backoffs(now)
        return len(self._active)

    def pop(self, now: float, queue: QueueName | None = None) -> Pod | None:
        """The next pod to try, of one queue or of all; it is in flight until it is deleted or requeued."""
        self._end_backoffs(now)
        entry = self._active.pop(queue)
        return None if entry is None else self._begin_attempt(entry)

    def take_pod(self, uid: str) -> Pod | None:
        """Take one pod out of turn, unless it is in flight or gated: the rest of a gang whose first pod was popped."""
        entry = self._entries.get(uid)
        if entry is None or entry.state in (QueueState.IN_FLIGHT, QueueState.GATED):
            return None
        return self._begin_attempt(entry)

    def is_requeued(self, uid: str) -> bool:
        """Whether a pod is ready to be tried, or would be but for its back-off, because an event requeued it."""
        entry = self._entries.get(uid)
        if entry is None:
            return False
        return entry.state is QueueState.ACTIVE or (entry.state is QueueState.BACKOFF and entry.is_requeued)

    def stop_tracking_events(self, uid: str) -> None:
        """An attempt found a node. If the binding fails, the pod waits for time, not for events: none is kept for it,
        however long the binding takes."""
        self._in_flight.end(uid)

    def requeue_postponed(self, uid: str) -> None:
        """The session did not get to the pod: it stands where it stood."""
        entry = self._end_attempt(uid)
        if entry is not None:
            self._active.put(entry)

    def requeue_refused(self, uid: str, plugins: Iterable[str], now: float) -> None:
        """An attempt ended without a node. The pod waits for events that may help with these plugins."""
        missed = self._in_flight.events_since(uid)  # before the attempt ends: its events are dropped then
        entry = self._end_attempt(uid)
        if entry is None:
            return
        entry.refused_by = frozenset(plugins)
        entry.refusals += 1
        entry.errors = 0
        entry.failed_with_error = False
        entry.queued_at = now
        entry.is_requeued = (
            entry.is_updated
            or missed is None  # after `stop_tracking_events` it is not known what happened meanwhile
            or any(self._hints.is_worth_requeuing(entry.pod, entry.refused_by, event) for event in missed)
        )
        if entry.is_requeued or not entry.refused_by:
            self._enqueue(entry, now)
        else:
            self._unschedulable.put(entry, QueueState.UNSCHEDULABLE)

    def requeue_failed(self, uid: str, now: float) -> None:
        """An attempt ended with an error: nothing is wrong with the pod, so it waits for time only."""
        entry = self._end_attempt(uid)
        if entry is None:
            return
        entry.refused_by = frozenset()
        entry.errors += 1
        entry.failed_with_error = True
        entry.queued_at = now
        self._enqueue(entry, now)

    # --- events and time ----------------------------------------------------------------------------------------------

    def handle_event(self, event: ClusterEvent, now: float) -> list[str]:
        """Something happened in the cluster; returns the UIDs of unschedulable pods that are tried again for it."""
        self._in_flight.record(event)
        helped = self._unschedulable.helped_by(event)  # a list: enqueuing changes what is waiting
        requeued = [entry.uid for entry in helped if entry.state is QueueState.UNSCHEDULABLE]
        for entry in helped:
            entry.is_requeued = True
            self._enqueue(entry, now)
        return requeued

    def activate(self, uids: Iterable[str], now: float) -> None:
        """Try these pods at once, whatever they were refused for and whatever back-off is left. Gated ones stay."""
        for uid in uids:
            entry = self._entries.get(uid)
            if entry is None:
                continue
            if entry.state is QueueState.IN_FLIGHT:
                entry.is_updated = True  # if this attempt fails, the pod is tried again at once
            elif entry.state in (QueueState.UNSCHEDULABLE, QueueState.BACKOFF) and self._admission.admit(entry):
                self._leave_state(entry)
                self._active.put(entry)

    def flush_unschedulable(self, now: float) -> None:
        """Try again the pods that have waited too long without an event."""
        while (oldest := self._unschedulable.oldest()) is not None:
            if now - oldest.queued_at < MAX_IN_UNSCHEDULABLE:
                return
            self._enqueue(oldest, now)

    def next_due(self, now: float) -> float | None:
        """When something will become due by itself: `now` if there is a pod to try, None if nothing will."""
        self._end_backoffs(now)
        if self._active.has_pods():
            return now
        oldest = self._unschedulable.oldest()
        due = [self._backoff.next_ready_at(), None if oldest is None else oldest.queued_at + MAX_IN_UNSCHEDULABLE]
        return min((at for at in due if at is not None), default=None)

    # ------------------------------------------------------------------------------------------------------------------

    def _enqueue(self, entry: QueuedPod, now: float) -> None:
        """To ACTIVE, or BACKOFF while some is left, or GATED if PreEnqueue refuses."""
        self._leave_state(entry)
        before = entry.gated_by
        if not self._admission.admit(entry):
            self._unschedulable.put(entry, QueueState.GATED)
            if entry.gated_by is not None and entry.gated_by != before:
                self._report_gated(entry.pod, entry.gated_by)
        elif entry.ready_at > now:
            self._backoff.put(entry)
        else:
            self._active.put(entry)

    def _end_backoffs(self, now: float) -> None:
        while (entry := self._backoff.pop_ready(now)) is not None:
            self._active.put(entry)

    def _begin_attempt(self, entry: QueuedPod) -> Pod:
        self._leave_state(entry)
        entry.state = QueueState.IN_FLIGHT
        entry.is_updated = entry.is_requeued = False
        self._in_flight.begin(entry.uid)
        return entry.pod

    def _end_attempt(self, uid: str) -> QueuedPod | None:
        """The pod of an attempt that ended; None if it went away meanwhile."""
        entry = self._entries.get(uid)
        if entry is None or entry.state is not QueueState.IN_FLIGHT:
            return None
        self._in_flight.end(uid)
        return entry

    def _leave_state(self, entry: QueuedPod) -> None:
        """Remove a pod from where it is listed; its rows in the heaps become stale."""
        self._unschedulable.remove(entry)
        self._in_flight.end(entry.uid)


def _may_matter(old: Pod, new: Pod) -> bool:
    """Whether an update can change what scheduling decides about a pod; an update of its status alone cannot."""
    return (
        old.spec != new.spec
        or old.metadata.labels != new.metadata.labels
        or old.metadata.annotations != new.metadata.annotations
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
    )
