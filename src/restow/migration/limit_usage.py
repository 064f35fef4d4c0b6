"""Occupation: how much of each limit is taken, by jobs under way and by those admitted since.

Goes in: jobs and the cluster around them; then candidates, one by one. Comes out: the first limit that has no room for
one more, with its numbers. Counts are kept, never recounted: a question costs the same however many jobs there are.

A pod that is Running, Ready, not terminating and not migrating is available. Replicas of a workload for which there is
no such pod are unavailable, so one that is not available anyway takes nothing by moving. One that is over is nobody's
replica, and takes nothing of what is limited by how many there are.

How many are unavailable is asked again before each eviction (`scarcity`): others may have been lost since.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from restow.eviction.budgets import Budget
from restow.eviction.workloads import Workload
from restow.migration.cluster_context import ClusterContext, MigrationCandidate, migration_candidate
from restow.migration.conditions import is_evicting, is_job_running
from restow.migration.history import MigrationHistory, evicted_at, find_pod
from restow.migration.limits import EvictionWindow, MigrationLimits, max_evicted_in_window, max_unavailable
from restow.model.counted_nouns import counted_noun
from restow.model.objects import Pod, PodMigrationJob
from restow.model.pods import is_available, is_finished, is_terminating
from restow.model.times import format_duration


class LimitReached(msgspec.Struct, frozen=True):
    """A limit without room for one more."""

    limit: str
    numbers: str
    retry_at: float | None = None
    """When it will have room, if nothing else happens until then."""


class LimitUsage:
    def __init__(
        self, jobs: Iterable[PodMigrationJob], scene: ClusterContext, history: MigrationHistory, limits: MigrationLimits
    ) -> None:
        self._scene = scene
        self._limits = limits
        self._total = 0
        self._nodes: Counter[str] = Counter()
        self._namespaces: Counter[str] = Counter()
        self._workloads: Counter[str] = Counter()
        self._charges: Counter[tuple[str, str, str]] = Counter()
        self._movers: dict[str, str] = {}
        self._available: dict[str, int] = {}
        windows = (limits.workload_window, limits.namespace_window)
        self._since = scene.now - max((one.seconds for one in windows if one is not None), default=0.0)
        self._workload_past = _WindowUsage(limits.workload_window, scene.now)
        self._namespace_past = _WindowUsage(limits.namespace_window, scene.now)
        for job in jobs:
            self._note(job, history)

    def migrating_pods(self, workload: str) -> int:
        """How many pods of a workload are on their way."""
        return self._workloads[workload]

    def first_limit_reached(self, one: MigrationCandidate) -> LimitReached | None:
        """The first limit that does not allow this one now."""
        checks: tuple[Callable[[MigrationCandidate], LimitReached | None], ...] = (
            self._rival,
            self._counts,
            self._migrating,
            self._unavailable,
            self._budgets,
            self._windows,
        )
        return next((full for check in checks if (full := check(one)) is not None), None)

    def admit(self, one: MigrationCandidate) -> None:
        """From now on this one is on its way."""
        workload = _replica_of(one)
        uid = workload.uid if workload else None
        if workload is not None and is_available(one.pod):
            self._available[workload.uid] = self._available_of(workload) - 1
        self._take(one.job, uid, one.pod)
        self._charge(one.pod, one.budgets)
        self._workload_past.expect(uid)
        self._namespace_past.expect(one.pod.metadata.namespace)

    # --- keeping count ------------------------------------------------------------------------------------------------

    def _note(self, job: PodMigrationJob, history: MigrationHistory) -> None:
        """Count what a job takes, or has taken lately; most jobs have long ended, and cost a look at the time."""
        running, left = is_job_running(job), evicted_at(job)
        pod = find_pod(self._scene.pods, job.spec.pod_ref) if running else None
        if pod is not None and not is_terminating(pod):
            left = None  # an eviction that was asked for may have been in vain, and is asked for again
        if not running and (left is None or left <= self._since):
            return
        workload, namespace = history.workload_uid(job), job.spec.pod_ref.namespace
        stays = pod is not None and not is_terminating(pod) and not is_evicting(job.status)
        if stays and pod is not None and is_finished(pod):  # else it is over because it leaves
            workload = None
        if left is not None:
            self._workload_past.remember(workload, left)
            self._namespace_past.remember(namespace, left)
        if not running:
            return
        self._take(job, workload, pod)
        if left is None:
            self._workload_past.expect(workload)
            self._namespace_past.expect(namespace)
        if pod is not None:
            self._charge(pod, migration_candidate(job, pod, self._scene).budgets)

    def _take(self, job: PodMigrationJob, workload: str | None, pod: Pod | None) -> None:
        """One more is on its way; it is on its node only as long as it is there."""
        self._total += 1
        self._namespaces[job.spec.pod_ref.namespace or ""] += 1
        self._movers[job.spec.pod_ref.uid or ""] = job.metadata.name
        if workload is not None:
            self._workloads[workload] += 1
        if pod is not None and pod.spec.node_name:
            self._nodes[pod.spec.node_name] += 1

    def _charge(self, pod: Pod, budgets: Iterable[Budget]) -> None:
        """It will be evicted, and its budgets do not know yet."""
        for budget in budgets:
            self._charges[budget.key] += budget.is_charged_for(pod)

    def _available_of(self, workload: Workload) -> int:
        found = self._available.get(workload.uid)
        if found is None:
            pods = self._scene.workloads.pods_of(workload.uid)
            found = sum(is_available(pod) and pod.metadata.uid not in self._movers for pod in pods)
            self._available[workload.uid] = found
        return found

    # --- the limits ---------------------------------------------------------------------------------------------------

    def _rival(self, one: MigrationCandidate) -> LimitReached | None:
        other = self._movers.get(one.pod.metadata.uid)
        return LimitReached("the other job of its pod", f"job {other} moves it already") if other else None

    def _counts(self, one: MigrationCandidate) -> LimitReached | None:
        namespace, node = one.pod.metadata.namespace or "", one.pod.spec.node_name or ""
        limits = self._limits
        for name, most, taken, where in (
            ("maxMigratingGlobally", limits.globally, self._total, ""),
            ("maxMigratingPerNode", limits.per_node, self._nodes[node], f" on node {node}"),
            (
                "maxMigratingPerNamespace",
                limits.per_namespace,
                self._namespaces[namespace],
                f" of namespace {namespace}",
            ),
        ):
            if most and taken >= most:
                are = "is" if taken == 1 else "are"
                return LimitReached(name, f"{counted_noun(taken, 'pod')}{where} {are} migrating, {most} may")
        return None

    def _migrating(self, one: MigrationCandidate) -> LimitReached | None:
        most = _most(one, self._limits.per_workload) if self._limits.check_per_workload else None
        workload = _replica_of(one)
        if workload is None or most is None:
            return None
        taken = self._workloads[workload.uid]
        if taken < most:
            return None
        told = f"{taken} of {workload.replicas} pods of {workload} are migrating, {most} may"
        return LimitReached("maxMigratingPerWorkload", told)

    def _unavailable(self, one: MigrationCandidate) -> LimitReached | None:
        return _too_few(one, self._available_of, self._limits)

    def _budgets(self, one: MigrationCandidate) -> LimitReached | None:
        for budget in one.budgets:
            charges = self._charges[budget.key]
            if budget.is_charged_for(one.pod) and budget.left - charges < 1:
                return LimitReached("its budget", budget.shortage(charges))
        return None

    def _windows(self, one: MigrationCandidate) -> LimitReached | None:
        limits, namespace, workload = self._limits, one.pod.metadata.namespace or "", _replica_of(one)
        if workload is not None and limits.workload_window is not None:
            most = max_evicted_in_window(workload.replicas, limits.workload_window, limits)
            full = self._workload_past.full(workload.uid, most)
            if full is not None:
                return LimitReached(
                    "objectLimiters.workload", f"{full.numbers} of {workload}, {most} may", full.retry_at
                )
        window = limits.namespace_window
        if window is not None and isinstance(window.max_evictions, int) and window.max_evictions:
            full = self._namespace_past.full(namespace, window.max_evictions)
            if full is not None:
                told = f"{full.numbers} of namespace {namespace}, {window.max_evictions} may"
                return LimitReached("objectLimiters.namespace", told, full.retry_at)
        return None


def unavailability_limit_reached(
    one: MigrationCandidate, scene: ClusterContext, limits: MigrationLimits, is_leaving: Callable[[Pod], bool]
) -> LimitReached | None:
    """Why the pod of a job that was admitted may not leave now: so many others of its workload are missing, or on their
    way out. Who was admitted and is still there may be one that stays."""
    uid = one.pod.metadata.uid

    def available(workload: Workload) -> int:
        others = (pod for pod in scene.workloads.pods_of(workload.uid) if pod.metadata.uid != uid)
        return sum(is_available(pod) and not is_leaving(pod) for pod in others) + is_available(one.pod)

    return _too_few(one, available, limits)


def _too_few(
    one: MigrationCandidate, available: Callable[[Workload], int], limits: MigrationLimits
) -> LimitReached | None:
    most, workload = _most(one, limits.unavailable_per_workload) if limits.check_unavailable else None, _replica_of(one)
    if workload is None or most is None:
        return None
    missing = workload.replicas - available(workload)
    if missing + is_available(one.pod) <= most:
        return None
    told = f"{max(0, missing)} of {workload.replicas} pods of {workload} are unavailable, {most} may be"
    return LimitReached("maxUnavailablePerWorkload", told)


def _most(one: MigrationCandidate, configured: int | str | None) -> int | None:
    """What is configured holds always; the default only where no budget says how many may be missing."""
    if one.workload is None or (configured is None and one.budgets):
        return None
    return max_unavailable(one.workload.replicas, configured)


def _replica_of(one: MigrationCandidate) -> Workload | None:
    return None if is_finished(one.pod) else one.workload


class _WindowUsage:
    """Evictions within a window of time, by whom they are counted for; those to come count too, whenever they come."""

    def __init__(self, window: EvictionWindow | None, now: float) -> None:
        self._window = window
        self._now = now
        self._times: dict[str, list[float]] = {}
        self._coming: Counter[str] = Counter()

    def remember(self, key: str | None, at: float) -> None:
        if key is not None and self._window is not None and at > self._now - self._window.seconds:
            insort(self._times.setdefault(key, []), at)

    def expect(self, key: str | None) -> None:
        self._coming[key or ""] += 1

    def full(self, key: str, most: int) -> LimitReached | None:
        times, coming = self._times.get(key, []), self._coming[key]
        surplus = len(times) + coming - most + 1
        if surplus <= 0 or self._window is None:
            return None
        again = times[surplus - 1] + self._window.seconds if surplus <= len(times) else None
        span = format_duration(self._window.seconds)
        evicted = f"{counted_noun(len(times), 'pod', 'were')} evicted within {span}"
        return LimitReached("", f"{evicted} and {coming} {'is' if coming == 1 else 'are'} about to be", again)
