"""An auditor inside the API server: it sees every write as it takes effect, of any client, and whether or not
the writer learns of it. Promise 6: do limits, windows, the rate of evictions and budgets hold?

When a job is admitted:
- no more jobs are under way than may be, in all, in its namespace, of its workload, and from its node: those that were
  admitted and have not ended, by what the API server has; for a node, the jobs with a pod that is still there
- no other job under way moves the same pod
- no more pods of its workload are unavailable than may be, those under way counted
- its budget has room for it beside the jobs that were admitted and have not evicted their pods

When an eviction is accepted, of a pod that was not leaving yet:
- there were no more within any span than the rate allows: burst + rate x span; nor of its workload within any window
- no more pods of its workload are unavailable than may be, this one counted, and all that were evicted
- a budget's pods that are Ready are no fewer than it demands

What a controller may not know, and is not blamed for:

- Jobs are its own to admit, so it knows the jobs under way, even if the answer to a write was lost. Pods, budgets and
  replicas are others'. A watch may be broken for half a minute before that is noticed, and be late after that; what
  was true at any time within the last MINUTE may be what it knows.
- Two that lead at once know nothing of each other: limits, windows and rate are promised for one leader.
- Windows are worked out from jobs, by the clock: nothing is known of deleted jobs, also if the eviction was on its way
  just then, nor when anything was by a clock that was set since. Of its own evictions a leader knows without either,
  so the rate holds in its own life; that of those before it is known as windows are.
- Windows count evictions from when they were written down, in whole seconds. What was written down is sent within five
  seconds, or else tried again, and after half a minute of that written down anew.
- A budget is kept by its controller, which sees a loss a moment later. A loss at the very instant of an eviction cannot
  have been seen.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from typing import Any

import msgspec

from restow.adapters.memory import MemoryApi
from restow.adapters.memory.store import Change, Collection
from restow.migration.arguments import MigrationArguments
from restow.migration.conditions import is_evicting, is_job_running
from restow.migration.history import eviction_intended_at
from restow.migration.limits import max_evicted_in_window, max_unavailable
from restow.model import kinds
from restow.model.objects import (
    Deployment,
    Pod,
    PodDisruptionBudget,
    PodMigrationJob,
    ReplicaSet,
    SelectorSpec,
    StatefulSet,
)
from restow.model.pods import controller_of, find_condition, is_available, is_ready, is_terminating
from restow.model.selectors import label_selector
from restow.sim.loop import VirtualLoop

MINUTE = 60.0
SENT = 6.0
"""Seconds after which an eviction that was written down is sent, if nothing comes in between."""
ROUNDING = 0.001
"""Seconds: clocks are large numbers."""
TRIED = 36.0
"""The same, if something does."""
_KINDS: dict[str, Any] = {
    kind.qualified_name: kind.type
    for kind in (
        kinds.POD,
        kinds.POD_MIGRATION_JOB,
        kinds.POD_DISRUPTION_BUDGET,
        kinds.DEPLOYMENT,
        kinds.REPLICA_SET,
        kinds.STATEFUL_SET,
    )
}


class _Eviction(msgspec.Struct):
    """`at` in seconds that no clock can change; `remembered`, whether any job says of it, by the clock as it is."""

    at: float
    written: float
    pod: str
    workload: str
    life: int
    remembered: bool = True


class _Past(msgspec.Struct):
    """A number, and those that it was before, oldest first, each with the time until which it was so."""

    now: int
    until: deque[tuple[float, int]] = msgspec.field(default_factory=deque)

    def put(self, number: int, time: float) -> None:
        if number != self.now:
            self.until.append((time, self.now))
            self.now = number

    def lately(self, time: float) -> list[int]:
        """Every number that was true within the last minute."""
        while self.until and self.until[0][0] < time - MINUTE:
            self.until.popleft()
        return [self.now, *(number for _, number in self.until)]


class LimitAuditor:
    """`life` says which controller leads; `alone`, whether one does at a time."""

    def __init__(self, api: MemoryApi, arguments: MigrationArguments, *, alone: bool = True) -> None:
        self.faults: list[str] = []
        self.life = 0
        self.admissions = self.evictions = 0
        self._arguments = arguments
        self._alone = alone
        self._pods: dict[str, Pod] = {}
        self._jobs: dict[str, PodMigrationJob] = {}
        self._budgets: dict[str, PodDisruptionBudget] = {}
        self._allowed: dict[str, _Past] = {}
        """How many disruptions each budget allowed, by its UID."""
        self._above: dict[str, str] = {}
        """The Deployment of a ReplicaSet, by their UIDs."""
        self._workload_of: dict[str, str] = {}
        """By the UID of a pod, though it be gone."""
        self._replicas: dict[str, _Past] = {}
        self._available: dict[str, dict[str, float | None]] = {}
        """The pods of a workload that were available, by UID, and when that ended."""
        self._since: dict[str, float] = {}
        """Since when pods have been available, by UID."""
        self._lost: dict[str, float] = {}
        """When pods that were Ready were lost, by another hand than ours, by UID."""
        self._evicted: list[_Eviction] = []
        self._started = _loop().start
        self._set = -math.inf
        """When the clock was seen to have been set."""
        store = api._state.store
        for name, collection in store.collections.items():
            for stored in collection:
                self._hear_of(name, stored.data, removed=False)
        store.observers.append(self._observe)

    # --- hearing ------------------------------------------------------------------------------------------------------

    def _observe(self, collection: Collection, change: Change) -> None:
        if collection.name in _KINDS:
            self._hear_of(collection.name, change.new.data, removed=change.removed)

    def _hear_of(self, name: str, data: bytes, *, removed: bool) -> None:
        if name not in _KINDS:
            return
        one = msgspec.json.decode(data, type=_KINDS[name])
        match one:
            case Pod():
                self._pod(one, removed)
            case PodMigrationJob():
                self._job(one, removed)
            case PodDisruptionBudget():
                self._budget(one, removed)
            case ReplicaSet() | Deployment() | StatefulSet():
                self._owner(one)

    def _owner(self, one: ReplicaSet | Deployment | StatefulSet) -> None:
        above = controller_of(one)
        if above is not None:
            self._above[one.metadata.uid] = above.uid
        replicas = one.spec.replicas or 0
        self._replicas.setdefault(one.metadata.uid, _Past(replicas)).put(replicas, _time())

    def _budget(self, one: PodDisruptionBudget, removed: bool) -> None:
        uid, allowed = one.metadata.uid, one.status.disruptions_allowed
        self._budgets[uid] = one
        self._allowed.setdefault(uid, _Past(allowed)).put(allowed, _time())
        if removed:
            del self._budgets[uid]

    def _pod(self, pod: Pod, removed: bool) -> None:
        uid, before = pod.metadata.uid, self._pods.get(pod.metadata.uid)
        owner = controller_of(pod)
        workload = self._workload_of[uid] = self._above.get(owner.uid, owner.uid) if owner else ""
        self._pods[uid] = pod
        if removed:
            del self._pods[uid]
        available = self._available.setdefault(workload, {})
        if is_available(pod) and not removed:
            available[uid] = None
            self._since.setdefault(uid, _time())
        elif available.get(uid, 0.0) is None:
            available[uid] = _time()
            del self._since[uid]
        leaves = removed or is_terminating(pod)
        if before is None or is_terminating(before):
            return
        if leaves and _is_evicted(pod):
            self._eviction(before)
        elif is_ready(before) and (leaves or not is_ready(pod)):
            self._lost[uid] = _time()

    def _job(self, job: PodMigrationJob, removed: bool) -> None:
        uid, before = job.metadata.uid, self._jobs.get(job.metadata.uid)
        self._jobs[uid] = job
        if removed:
            del self._jobs[uid]
            for one in self._evicted:
                one.remembered &= one.pod != job.spec.pod_ref.uid
        elif is_job_running(job) and not (before and is_job_running(before)):
            self.admissions += 1
            if self._alone:
                self._admission(job)

    def _blame(self, what: str) -> None:
        self.faults.append(f"at {_loop().start + _time():.2f} {what}")

    # --- admissions ---------------------------------------------------------------------------------------------------

    def _admission(self, job: PodMigrationJob) -> None:
        limits, uid = self._arguments.limits, job.spec.pod_ref.uid or ""
        under_way = [one for one in self._jobs.values() if is_job_running(one)]
        migrating = [one.spec.pod_ref.uid or "" for one in under_way]
        pod, workload = self._pods.get(uid), self._workload_of.get(uid, "")
        there = [one for one in map(self._pods.get, migrating) if one is not None]
        counts: list[tuple[str, int | None, int]] = [
            ("in all", limits.globally or None, len(under_way)),
            ("of its namespace", limits.per_namespace or None, _namespaces(under_way)[job.spec.pod_ref.namespace]),
            ("of its pod", 1, migrating.count(uid)),
        ]
        if pod is not None:
            from_here = sum(one.spec.node_name == pod.spec.node_name for one in there)
            counts.append(("from its node", limits.per_node or None, from_here))
        if pod is not None and workload in self._replicas:
            alike = sum(self._workload_of.get(one) == workload for one in migrating)
            counts.append(("of its workload", self._most(limits.per_workload, pod), alike))
        for what, most, taken in counts:
            if most is not None and taken > most:
                self._blame(f"admit {job.metadata.name}: {taken} {what} are under way, {most} may be")
        if pod is not None:
            self._unavailability(f"admit {job.metadata.name}", pod, {*migrating})
            self._charges(job, pod, [one for one in under_way if not is_evicting(one.status)])

    def _most(self, configured: int | str | None, pod: Pod) -> int | None:
        """What is configured holds always, the default only without a budget; by the most replicas there were."""
        workload = self._workload_of[pod.metadata.uid]
        if workload not in self._replicas or (configured is None and self._covering(pod)):
            return None
        return max_unavailable(max(self._replicas[workload].lately(_time())), configured)

    def _unavailability(self, what: str, pod: Pod, migrating: set[str]) -> None:
        """Replicas for which there is no pod that is available and stays; at the least, by what may be known."""
        workload, most = (
            self._workload_of[pod.metadata.uid],
            self._most(self._arguments.limits.unavailable_per_workload, pod),
        )
        if most is None:
            return
        known = {uid for uid, end in self._available[workload].items() if end is None or end > _time() - MINUTE}
        evicted = {one.pod for one in self._evicted}  # by its own hand, or by jobs that it read
        missing = min(self._replicas[workload].lately(_time())) - len(known - migrating - evicted)
        if is_available(pod) and missing > most:
            self._blame(f"{what}: {missing} of its workload are unavailable then, {most} may be")

    def _is_known_available(self, pod: Pod) -> bool:
        """Whether a controller must have heard that a pod is available: one that is not takes nothing of its budget."""
        return is_available(pod) and self._since[pod.metadata.uid] <= _time() - MINUTE

    def _charges(self, job: PodMigrationJob, pod: Pod, coming: list[PodMigrationJob]) -> None:
        for budget in self._covering(pod):
            migrating = [self._pods.get(one.spec.pod_ref.uid or "") for one in coming]
            charged = sum(
                one is not None and self._is_known_available(one) and _covers(budget, one) for one in migrating
            )
            most = max(self._allowed[budget.metadata.uid].lately(_time()))
            if is_available(pod) and charged > most:
                self._blame(f"admit {job.metadata.name}: {charged} of {budget.metadata.name} are to go, {most} may")

    # --- evictions ----------------------------------------------------------------------------------------------------

    def _eviction(self, pod: Pod) -> None:
        self.evictions += 1
        self._look_at_the_clock()
        uid = pod.metadata.uid
        written = self._written(uid)
        if written < _time() - TRIED and self._set < written:
            self._blame(f"evict {pod.metadata.name}: that was written down {_time() - written:.3f} s before")
        known = any(one.spec.pod_ref.uid == uid for one in self._jobs.values())  # or its job was deleted on the way
        self._evicted.append(_Eviction(_time(), written, uid, self._workload_of[uid], self.life, remembered=known))
        if self._alone:
            self._pace(pod)
            self._window(pod)
            self._unavailability(f"evict {pod.metadata.name}", pod, set())
        for budget in self._covering(pod) if is_ready(pod) else ():
            self._healthy(pod, budget)

    def _look_at_the_clock(self) -> None:
        if _loop().start != self._started:
            self._started, self._set = _loop().start, _time()
            for one in self._evicted:
                one.remembered = False

    def _written(self, uid: str) -> float:
        """When the eviction of a pod was written down; now, if its job was ended in this very moment."""
        asking = [one for one in self._jobs.values() if one.spec.pod_ref.uid == uid and is_evicting(one.status)]
        times = [time for one in asking if (time := eviction_intended_at(one)) is not None]
        return min(max(times) - _loop().start, _time()) if times else _time()

    def _pace(self, pod: Pod) -> None:
        rate, burst = self._arguments.evictions_per_second, self._arguments.eviction_burst
        known = [
            one for one in self._evicted if one.life == self.life or (one.remembered and one.at - one.written < SENT)
        ]
        for number, first in enumerate(known):
            span, count = _time() - first.at, len(known) - number
            if count > burst + rate * span + 1e-4:
                self._blame(f"evict {pod.metadata.name}: {count} within {span:.3f} s at {rate:g} per second")
                return

    def _window(self, pod: Pod) -> None:
        limits, workload = self._arguments.limits, self._workload_of[pod.metadata.uid]
        window = limits.workload_window
        if window is None or workload not in self._replicas:
            return
        most = max_evicted_in_window(max(self._replicas[workload].lately(_time())), window, limits)
        since = _time() - window.seconds + ROUNDING
        alike = [one for one in self._evicted if one.remembered and one.workload == workload]
        times = [one.at for one in alike if one.written > since]
        if len(times) > most:
            told = f"{len(times)} of its workload within {window.seconds:g} s, {most} may: {times}"
            self._blame(f"evict {pod.metadata.name}: {told}")

    def _healthy(self, pod: Pod, budget: PodDisruptionBudget) -> None:
        least = budget.spec.min_available
        if not isinstance(least, int):
            return
        pods = [one for one in self._pods.values() if _covers(budget, one)]
        healthy = sum(is_ready(one) and not is_terminating(one) for one in pods)
        unobserved = sum(self._lost.get(one.metadata.uid) == _time() for one in pods)
        if healthy + unobserved < least:
            self._blame(f"evict {pod.metadata.name}: {healthy} of {budget.metadata.name} are Ready, {least} have to be")

    def _covering(self, pod: Pod) -> list[PodDisruptionBudget]:
        return [one for one in self._budgets.values() if _covers(one, pod)]


def _namespaces(jobs: list[PodMigrationJob]) -> Counter[str | None]:
    return Counter(one.spec.pod_ref.namespace for one in jobs)


def _covers(budget: PodDisruptionBudget, pod: Pod) -> bool:
    selector: SelectorSpec | None = budget.spec.selector
    same = budget.metadata.namespace == pod.metadata.namespace
    return same and label_selector(selector).matches(pod.metadata.labels)


def _is_evicted(pod: Pod) -> bool:
    """Whether the eviction API let it go; others delete."""
    found = find_condition(pod.status.conditions, "DisruptionTarget")
    return found is not None and found.reason == "EvictionByEvictionAPI"


def _loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


def _time() -> float:
    return _loop().time()
