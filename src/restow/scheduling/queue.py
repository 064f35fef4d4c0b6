"""The scheduling queue: which pod is tried next, and when a pod that failed is tried again.

Goes in: pods as they come, change and go, news of the cluster, and how attempts ended; time is always an argument.
Comes out: pods to try, most important first.

             add                          pop
    (new) ---------> ACTIVE ----------------------------> IN FLIGHT ---- done ----> (gone)
      |                ^  ^                                   |
      | held back      |  +---- it is time ---- BACKOFF <-----+ failed with an error, or news came in meanwhile
      v                |                           ^          |
    GATED -- let go ---+                           |          v
                       +------ news, 5 min ---- UNSCHEDULABLE (after back-off, if some of it is left)

News that arrive while a pod is in flight are kept and looked at when it comes back, so no wake-up is lost: what it was
refused for may have changed after the attempt had looked at it.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from restow.model.objects import Pod
from restow.scheduling.cluster_events import ClusterEvent, QueueingHints
from restow.scheduling.explain import describe_exception, failing_plugin
from restow.scheduling.framework import Code, PreEnqueuePlugin, QueueSortPlugin, Verdict
from restow.scheduling.in_flight_pods import InFlightPods

FIRST_BACKOFF = 1.0
LONGEST_BACKOFF = 10.0
LONGEST_STAY = 300.0
"""After so long in UNSCHEDULABLE a pod is tried again without any news."""

Order = Callable[[Pod, float], Any]
"""QueueSort: the smaller, the sooner; from the pod and when it was queued."""
Lane = str
"""Pods that are ready to be tried stand in lanes, one per queue that competes for the cluster."""


class Where(enum.Enum):
    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in flight"


def by_priority(pod: Pod, queued: float) -> tuple[int, float, str, str, str]:
    """kube-scheduler's PrioritySort, with names so that there is only one order."""
    metadata = pod.metadata
    return -(pod.spec.priority or 0), queued, metadata.namespace or "", metadata.name, metadata.uid


def order_by(plugin: QueueSortPlugin | None) -> Order:
    """The order of a plugin, with age and names so that there is only one; by priority where there is none."""
    if plugin is None:
        return by_priority

    def order(pod: Pod, queued: float) -> Any:
        metadata = pod.metadata
        return plugin.sort_key(pod), queued, metadata.namespace or "", metadata.name, metadata.uid

    return order


class _Entry:
    __slots__ = (
        "errors",
        "failed_with_error",
        "gate",
        "plugins",
        "pod",
        "queued",
        "refusals",
        "ticket",
        "turn",
        "updated",
        "waits_for",
        "where",
        "woken",
    )

    def __init__(self, pod: Pod, now: float) -> None:
        self.pod = pod
        self.where = Where.ACTIVE
        self.queued = now
        self.refusals = 0
        self.errors = 0
        self.failed_with_error = False
        self.plugins: frozenset[str] = frozenset()
        self.gate: Verdict | None = None
        self.updated = False
        self.ticket = 0
        self.turn: Any = ()
        """Its place in the order, as last told."""
        self.waits_for: frozenset[str] | None = None
        self.woken = False

    @property
    def backoff(self) -> float:
        """1 s, doubled with every failure of the last kind, up to 10 s."""
        failures = self.errors if self.failed_with_error else self.refusals
        if failures == 0:
            return 0.0
        return float(min(FIRST_BACKOFF * 2 ** min(failures - 1, 30), LONGEST_BACKOFF))

    @property
    def ready_at(self) -> float:
        return self.queued + self.backoff


class SchedulingQueue:
    def __init__(
        self,
        *,
        wakeups: QueueingHints | None = None,
        gates: Sequence[PreEnqueuePlugin] = (),
        order: Order = by_priority,
        lane_of: Callable[[Pod], Lane] = lambda pod: "",
        report_gated: Callable[[Pod, Verdict], None] = lambda pod, verdict: None,
    ) -> None:
        """`lane_of` gives the lane of a pod. `report_gated` is called with a pod and the verdict of the PreEnqueue
        plugin that gates it, once per verdict."""
        self._lane_of = lane_of
        self._report_gated = report_gated
        self._wakeups = wakeups or QueueingHints()
        self._gates = tuple(gates)
        self._order = order
        self._some_turn: Any = ()
        self._entries: dict[str, _Entry] = {}
        self._active: dict[Lane, list[tuple[Any, int, str]]] = {}
        self._backoff: list[tuple[float, Any, int, str]] = []
        self._unschedulable: dict[str, None] = {}
        self._waiting: dict[frozenset[str], dict[str, None]] = {}  # unschedulable and gated, by who refused them
        self._flights = InFlightPods()
        self._tickets = 0

    def __len__(self) -> int:
        return len(self._entries)

    def where(self, uid: str) -> Where | None:
        entry = self._entries.get(uid)
        return entry.where if entry else None

    def pods(self, where: Where) -> list[Pod]:
        """The pods in one place, in the order they would be tried."""
        found = [entry for entry in self._entries.values() if entry.where is where]
        return [entry.pod for entry in sorted(found, key=lambda one: one.turn)]

    # --- pods come, change and go -------------------------------------------------------------------------------------

    def add(self, pod: Pod, now: float) -> None:
        """A pending pod is to be scheduled; one that is known already is updated."""
        if pod.metadata.uid in self._entries:
            self.update(pod, now)
            return
        entry = self._entries[pod.metadata.uid] = _Entry(pod, now)
        self._admit(entry, now)

    def update(self, pod: Pod, now: float) -> None:
        """A pending pod changed: what it was refused or held back for may be over."""
        entry = self._entries.get(pod.metadata.uid)
        if entry is None:
            self.add(pod, now)
            return
        changed = _means_more(entry.pod, pod)
        entry.pod = pod
        if entry.where is Where.IN_FLIGHT:
            entry.updated = entry.updated or changed
        elif entry.where is Where.GATED or (changed and entry.where is Where.UNSCHEDULABLE):
            self._admit(entry, now)
        elif entry.where is Where.ACTIVE:
            self._take_turn(entry)
            self._put_active(entry)

    def delete(self, uid: str) -> None:
        """A pod is gone, or somebody bound it."""
        entry = self._entries.pop(uid, None)
        if entry is not None:
            self._leave(entry)

    # --- attempts -----------------------------------------------------------------------------------------------------

    def lanes(self, now: float) -> list[Lane]:
        """The lanes in which somebody stands, by name."""
        self._advance(now)
        return [lane for lane in sorted(self._active) if self._line_up(lane)]

    def ready(self, now: float) -> int:
        """How many pods are ready to be tried, at the most."""
        self._advance(now)
        return sum(map(len, self._active.values()))

    def pop(self, now: float, lane: Lane | None = None) -> Pod | None:
        """The next pod to try, of one lane or of all; it is in flight until `done` or one of the failures."""
        self._advance(now)
        waiting = [one for one in (list(self._active) if lane is None else [lane]) if self._line_up(one)]
        if not waiting:
            return None
        first = waiting[0] if len(waiting) == 1 else min(waiting, key=lambda one: self._active[one][0])
        _, _, uid = heapq.heappop(self._active[first])
        return self._fly(self._entries[uid])

    def take(self, uid: str) -> Pod | None:
        """Take one pod out of turn, unless it is in flight or gated: the rest of a gang whose first one was popped."""
        entry = self._entries.get(uid)
        if entry is None or entry.where in (Where.IN_FLIGHT, Where.GATED):
            return None
        return self._fly(entry)

    def is_called(self, uid: str) -> bool:
        """Whether a pod is ready to be tried, or would be but for its back-off, because news woke it."""
        entry = self._entries.get(uid)
        return entry is not None and (entry.where is Where.ACTIVE or (entry.where is Where.BACKOFF and entry.woken))

    def decided(self, uid: str) -> None:
        """An attempt found a node. What may still fail is the binding, and that waits for time, not for news: none is
        kept for it, however long it takes."""
        self._flights.end(uid)

    def done(self, uid: str) -> None:
        """An attempt succeeded, the pod is bound."""
        self.delete(uid)

    def postponed(self, uid: str) -> None:
        """Nobody came to try it: it stands where it stood."""
        entry = self._land(uid)
        if entry is not None:
            self._put_active(entry)

    def refused(self, uid: str, plugins: Iterable[str], now: float) -> None:
        """An attempt ended without a node. The pod waits for news that these plugins care about."""
        missed = self._flights.missed(uid)
        entry = self._land(uid)
        if entry is None:
            return
        entry.plugins = frozenset(plugins)
        entry.refusals += 1
        entry.errors = 0
        entry.failed_with_error = False
        entry.queued = now
        entry.woken = (
            entry.updated
            or missed is None  # after `decided`, what happened meanwhile was not kept
            or any(self._wakeups.is_worth_requeuing(entry.pod, entry.plugins, news) for news in missed)
        )
        if entry.woken or not entry.plugins:
            self._admit(entry, now)
        else:
            entry.where = Where.UNSCHEDULABLE
            self._unschedulable[uid] = None
            self._wait(entry)

    def failed(self, uid: str, now: float) -> None:
        """An attempt ended with an error: nothing is wrong with the pod, so only time is waited for."""
        entry = self._land(uid)
        if entry is None:
            return
        entry.plugins = frozenset()
        entry.errors += 1
        entry.failed_with_error = True
        entry.queued = now
        self._admit(entry, now)

    # --- news ---------------------------------------------------------------------------------------------------------

    def tell(self, news: ClusterEvent, now: float) -> list[str]:
        """Something happened: returns the UIDs of pods that are tried again because of it."""
        self._flights.tell(news)
        concerned = [uids for plugins, uids in self._waiting.items() if self._wakeups.may_help_any(plugins, news)]
        found = [self._entries[uid] for uids in concerned for uid in uids if self._is_woken(uid, news)]
        woken = [entry.pod.metadata.uid for entry in found if entry.where is Where.UNSCHEDULABLE]
        for entry in found:
            entry.woken = True
            self._admit(entry, now)
        return woken

    def activate(self, uids: Iterable[str], now: float) -> None:
        """Try these at once, whatever they were refused for and whatever back-off is left. Gated ones stay."""
        for uid in uids:
            entry = self._entries.get(uid)
            if entry is not None and entry.where in (Where.UNSCHEDULABLE, Where.BACKOFF) and self._is_let_in(entry):
                self._leave(entry)
                self._put_active(entry)
            elif entry is not None and entry.where is Where.IN_FLIGHT:
                entry.updated = True

    def flush(self, now: float) -> None:
        """Try again what has waited too long without news."""
        while self._unschedulable:
            longest = self._entries[next(iter(self._unschedulable))]  # they are in the order in which they came
            if now - longest.queued < LONGEST_STAY:
                return
            self._admit(longest, now)

    def next_at(self, now: float) -> float | None:
        """When something will become due by itself: `now` if there is a pod to try, None if nothing will."""
        self._advance(now)
        if any(self._line_up(lane) for lane in list(self._active)):
            return now
        due = [at for at, *_ in self._backoff[:1]]
        due += [self._entries[uid].queued + LONGEST_STAY for uid in islice(self._unschedulable, 1)]
        return min(due) if due else None

    # ------------------------------------------------------------------------------------------------------------------

    def _admit(self, entry: _Entry, now: float) -> None:
        """To ACTIVE, or BACKOFF while some is left, or GATED if a plugin holds it back."""
        self._leave(entry)
        before = entry.gate
        if not self._is_let_in(entry):
            entry.where = Where.GATED
            self._wait(entry)
            if entry.gate is not None and entry.gate != before:
                self._report_gated(entry.pod, entry.gate)
        elif entry.ready_at > now:
            entry.where = Where.BACKOFF
            entry.ticket = self._ticket()
            heapq.heappush(self._backoff, (entry.ready_at, entry.turn, entry.ticket, entry.pod.metadata.uid))
        else:
            self._put_active(entry)

    def _is_let_in(self, entry: _Entry) -> bool:
        entry.gate = self._held_back(entry.pod) or self._take_turn(entry)
        if entry.gate is not None:
            entry.plugins = frozenset([entry.gate.plugin])
        return entry.gate is None

    def _held_back(self, pod: Pod) -> Verdict | None:
        """By which plugin. What one raises must not stop the news of all others."""
        for plugin in self._gates:
            try:
                verdict = plugin.pre_enqueue(pod)
                if verdict.code is not Code.SUCCESS:
                    return Verdict(verdict.code, verdict.reasons, plugin.name)
            except Exception as broken:
                return Verdict(Code.ERROR, (describe_exception(broken),), plugin.name)
        return None

    def _take_turn(self, entry: _Entry) -> Verdict | None:
        """Find out when it is a pod's turn; or why that cannot be told, or not be compared with that of another."""
        try:
            turn = self._order(entry.pod, entry.queued)
            self._some_turn = self._some_turn or turn
            sorted((turn, self._some_turn))
        except Exception as broken:
            return Verdict(Code.ERROR, (describe_exception(broken),), failing_plugin(broken) or "QueueSort")
        entry.turn = turn
        return None

    def _put_active(self, entry: _Entry) -> None:
        entry.where = Where.ACTIVE
        entry.ticket = self._ticket()
        line = self._active.setdefault(self._lane_of(entry.pod), [])
        heapq.heappush(line, (entry.turn, entry.ticket, entry.pod.metadata.uid))

    def _line_up(self, lane: Lane) -> bool:
        """Drop who has left a lane from its head; whether somebody stands there now."""
        line = self._active.get(lane)
        while line:
            _, ticket, uid = line[0]
            if self._is_current(uid, ticket, Where.ACTIVE):
                return True
            heapq.heappop(line)
        if line is not None:
            del self._active[lane]
        return False

    def _advance(self, now: float) -> None:
        while self._backoff:
            at, _, ticket, uid = self._backoff[0]
            current = self._is_current(uid, ticket, Where.BACKOFF)
            if current and at > now:
                return
            heapq.heappop(self._backoff)
            if current:
                self._put_active(self._entries[uid])

    def _fly(self, entry: _Entry) -> Pod:
        self._leave(entry)
        entry.where = Where.IN_FLIGHT
        entry.updated = entry.woken = False
        self._flights.begin(entry.pod.metadata.uid)
        return entry.pod

    def _land(self, uid: str) -> _Entry | None:
        """A pod is back; None if it went away meanwhile."""
        entry = self._entries.get(uid)
        if entry is None or entry.where is not Where.IN_FLIGHT:
            return None
        self._flights.end(uid)
        return entry

    def _leave(self, entry: _Entry) -> None:
        """Out of the sets; the heaps find out by the ticket."""
        uid = entry.pod.metadata.uid
        self._unschedulable.pop(uid, None)
        if entry.waits_for is not None:
            alike = self._waiting[entry.waits_for]
            del alike[uid]
            if not alike:
                del self._waiting[entry.waits_for]
            entry.waits_for = None
        self._flights.end(uid)

    def _wait(self, entry: _Entry) -> None:
        entry.waits_for = entry.plugins
        self._waiting.setdefault(entry.plugins, {})[entry.pod.metadata.uid] = None

    def _is_woken(self, uid: str, news: ClusterEvent) -> bool:
        entry = self._entries[uid]
        return self._wakeups.is_worth_requeuing(entry.pod, entry.plugins, news)

    def _is_current(self, uid: str, ticket: int, where: Where) -> bool:
        entry = self._entries.get(uid)
        return entry is not None and entry.where is where and entry.ticket == ticket

    def _ticket(self) -> int:
        self._tickets += 1
        return self._tickets


def _means_more(old: Pod, new: Pod) -> bool:
    """Whether an update can change what scheduling thinks of a pod; that of its status alone cannot."""
    return (
        old.spec != new.spec
        or old.metadata.labels != new.metadata.labels
        or old.metadata.annotations != new.metadata.annotations
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
    )
