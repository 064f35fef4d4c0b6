"""Limit usage: how much of each limit is used, by jobs under way and by those admitted since.

Goes in: jobs and the cluster around them; then candidates, one by one. Comes out: the first limit that has no room for
one more, with its numbers. Counts are kept, never recounted: a question costs the same however many jobs there are.

A pod that is Running, Ready, not terminating and not migrating is available. A replica without such a pod is
unavailable, so moving a pod that is not available takes nothing from the limit. A finished pod is no replica any more,
and takes nothing from the limits that count replicas.

Whether too many replicas are unavailable is asked again before each eviction (`unavailability_limit_reached`), because
others may have been lost since the admission.
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
from restow.migration.history import MigrationHistory, eviction_intended_at, find_pod
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
    """When it has room again, if nothing else happens until then."""


class LimitUsage:
    def __init__(
        self,
        jobs: Iterable[PodMigrationJob],
        context: ClusterContext,
        history: MigrationHistory,
        limits: MigrationLimits,
    ) -> None:
        self._context = context
        self._limits = limits
        self._total = 0
        self._by_node: Counter[str] = Counter()
        self._by_namespace: Counter[str] = Counter()
        self._by_workload: Counter[str] = Counter()
        self._budget_charges: Counter[tuple[str, str, str]] = Counter()
        self._moving_job: dict[str, str] = {}
        """The name of the job that moves a pod, by the UID of the pod."""
        self._available: dict[str, int] = {}
        """How many pods of a workload are available, by its UID; counted when it is asked for."""
        windows = (limits.workload_window, limits.namespace_window)
        self._oldest = context.now - max((window.seconds for window in windows if window is not None), default=0.0)
        self._workload_window = _WindowUsage(limits.workload_window, context.now)
        self._namespace_window = _WindowUsage(limits.namespace_window, context.now)
        for job in jobs:
            self._count_job(job, history)

    def migrating_pods(self, workload: str) -> int:
        """How many pods of the workload with this UID are migrating."""
        return self._by_workload[workload]

    def first_limit_reached(self, candidate: MigrationCandidate) -> LimitReached | None:
        """The first limit that has no room for a candidate now."""
        checks: tuple[Callable[[MigrationCandidate], LimitReached | None], ...] = (
            self._same_pod_limit,
            self._count_limits,
            self._workload_limit,
            self._unavailability_limit,
            self._budget_limit,
            self._window_limits,
        )
        return next((limit for check in checks if (limit := check(candidate)) is not None), None)

    def admit(self, candidate: MigrationCandidate) -> None:
        """From now on the candidate's pod is migrating."""
        workload = _workload_of_replica(candidate)
        uid = workload.uid if workload else None
        if workload is not None and is_available(candidate.pod):
            self._available[workload.uid] = self._count_available(workload) - 1
        self._count_migrating_pod(candidate.job, uid, candidate.pod)
        self._charge_budgets(candidate.pod, candidate.budgets)
        self._workload_window.expect_eviction(uid)
        self._namespace_window.expect_eviction(candidate.pod.metadata.namespace)

    # --- counting -----------------------------------------------------------------------------------------------------

    def _count_job(self, job: PodMigrationJob, history: MigrationHistory) -> None:
        """Count what a job uses now, or has used within the windows. Most jobs ended long ago, and cost a look at the
        time only."""
        is_running, evicted = is_job_running(job), eviction_intended_at(job)
        pod = find_pod(self._context.pods, job.spec.pod_ref) if is_running else None
        if pod is not None and not is_terminating(pod):
            evicted = None  # an eviction that was sent and has not taken effect is sent again, and counts then
        if not is_running and (evicted is None or evicted <= self._oldest):
            return
        workload, namespace = history.workload_uid(job), job.spec.pod_ref.namespace
        # A pod that finished by itself is no replica any more. One that finishes because it is being evicted is.
        stays = pod is not None and not is_terminating(pod) and not is_evicting(job.status)
        if stays and pod is not None and is_finished(pod):
            workload = None
        if evicted is not None:
            self._workload_window.record_eviction(workload, evicted)
            self._namespace_window.record_eviction(namespace, evicted)
        if not is_running:
            return
        self._count_migrating_pod(job, workload, pod)
        if evicted is None:
            self._workload_window.expect_eviction(workload)
            self._namespace_window.expect_eviction(namespace)
        if pod is not None:
            self._charge_budgets(pod, migration_candidate(job, pod, self._context).budgets)

    def _count_migrating_pod(self, job: PodMigrationJob, workload: str | None, pod: Pod | None) -> None:
        """One more pod is migrating; it counts for its node only as long as it exists."""
        self._total += 1
        self._by_namespace[job.spec.pod_ref.namespace or ""] += 1
        self._moving_job[job.spec.pod_ref.uid or ""] = job.metadata.name
        if workload is not None:
            self._by_workload[workload] += 1
        if pod is not None and pod.spec.node_name:
            self._by_node[pod.spec.node_name] += 1

    def _charge_budgets(self, pod: Pod, budgets: Iterable[Budget]) -> None:
        """The pod will be evicted, and the status of its budgets does not show it yet."""
        for budget in budgets:
            self._budget_charges[budget.key] += budget.is_charged_for(pod)

    def _count_available(self, workload: Workload) -> int:
        available = self._available.get(workload.uid)
        if available is None:
            pods = self._context.workloads.pods_of(workload.uid)
            available = sum(is_available(pod) and pod.metadata.uid not in self._moving_job for pod in pods)
            self._available[workload.uid] = available
        return available

    # --- the limits ---------------------------------------------------------------------------------------------------

    def _same_pod_limit(self, candidate: MigrationCandidate) -> LimitReached | None:
        other = self._moving_job.get(candidate.pod.metadata.uid)
        return LimitReached("the other job of its pod", f"job {other} moves it already") if other else None

    def _count_limits(self, candidate: MigrationCandidate) -> LimitReached | None:
        namespace, node = candidate.pod.metadata.namespace or "", candidate.pod.spec.node_name or ""
        limits = self._limits
        for name, most, used, where in (
            ("maxMigratingGlobally", limits.globally, self._total, ""),
            ("maxMigratingPerNode", limits.per_node, self._by_node[node], f" on node {node}"),
            (
                "maxMigratingPerNamespace",
                limits.per_namespace,
                self._by_namespace[namespace],
                f" of namespace {namespace}",
            ),
        ):
            if most and used >= most:
                are = "is" if used == 1 else "are"
                return LimitReached(name, f"{counted_noun(used, 'pod')}{where} {are} migrating, at most {most} may")
        return None

    def _workload_limit(self, candidate: MigrationCandidate) -> LimitReached | None:
        most = _limit_for(candidate, self._limits.per_workload) if self._limits.check_per_workload else None
        workload = _workload_of_replica(candidate)
        if workload is None or most is None:
            return None
        used = self._by_workload[workload.uid]
        if used < most:
            return None
        numbers = f"{used} of {workload.replicas} pods of {workload} are migrating, at most {most} may"
        return LimitReached("maxMigratingPerWorkload", numbers)

    def _unavailability_limit(self, candidate: MigrationCandidate) -> LimitReached | None:
        return _too_many_unavailable(candidate, self._count_available, self._limits)

    def _budget_limit(self, candidate: MigrationCandidate) -> LimitReached | None:
        for budget in candidate.budgets:
            charges = self._budget_charges[budget.key]
            if budget.is_charged_for(candidate.pod) and budget.left - charges < 1:
                return LimitReached("its budget", budget.shortage(charges))
        return None

    def _window_limits(self, candidate: MigrationCandidate) -> LimitReached | None:
        limits, namespace = self._limits, candidate.pod.metadata.namespace or ""
        workload = _workload_of_replica(candidate)
        if workload is not None and limits.workload_window is not None:
            most = max_evicted_in_window(workload.replicas, limits.workload_window, limits)
            limit = self._workload_window.limit_reached(workload.uid, most)
            if limit is not None:
                numbers = f"{limit.numbers} of {workload}, at most {most} may"
                return LimitReached("objectLimiters.workload", numbers, limit.retry_at)
        window = limits.namespace_window
        if window is not None and isinstance(window.max_evictions, int) and window.max_evictions:
            limit = self._namespace_window.limit_reached(namespace, window.max_evictions)
            if limit is not None:
                numbers = f"{limit.numbers} of namespace {namespace}, at most {window.max_evictions} may"
                return LimitReached("objectLimiters.namespace", numbers, limit.retry_at)
        return None


def unavailability_limit_reached(
    candidate: MigrationCandidate,
    context: ClusterContext,
    limits: MigrationLimits,
    may_be_leaving: Callable[[Pod], bool],
) -> LimitReached | None:
    """Why the pod of an admitted job must not be evicted now: too many other replicas of its workload are unavailable,
    or are being evicted. The pods of other admitted jobs that are still there count as available: those jobs may be
    held back themselves, and each would wait for the others."""
    uid = candidate.pod.metadata.uid

    def count_available(workload: Workload) -> int:
        others = (pod for pod in context.workloads.pods_of(workload.uid) if pod.metadata.uid != uid)
        return sum(is_available(pod) and not may_be_leaving(pod) for pod in others) + is_available(candidate.pod)

    return _too_many_unavailable(candidate, count_available, limits)


def _too_many_unavailable(
    candidate: MigrationCandidate, count_available: Callable[[Workload], int], limits: MigrationLimits
) -> LimitReached | None:
    most = _limit_for(candidate, limits.unavailable_per_workload) if limits.check_unavailable else None
    workload = _workload_of_replica(candidate)
    if workload is None or most is None:
        return None
    unavailable = workload.replicas - count_available(workload)
    if unavailable + is_available(candidate.pod) <= most:
        return None
    count = f"{max(0, unavailable)} of {workload.replicas} pods of {workload} are unavailable"
    return LimitReached("maxUnavailablePerWorkload", f"{count}, at most {most} may be")


def _limit_for(candidate: MigrationCandidate, configured: int | str | None) -> int | None:
    """The limit for the workload of a candidate. What is configured always holds; the default only where no budget
    says how many pods may be unavailable."""
    if candidate.workload is None or (configured is None and candidate.budgets):
        return None
    return max_unavailable(candidate.workload.replicas, configured)


def _workload_of_replica(candidate: MigrationCandidate) -> Workload | None:
    return None if is_finished(candidate.pod) else candidate.workload


class _WindowUsage:
    """Evictions within a window of time, by the UID or name that they are counted for. Evictions that are still to come
    count too, whenever they come."""

    def __init__(self, window: EvictionWindow | None, now: float) -> None:
        self._window = window
        self._now = now
        self._times: dict[str, list[float]] = {}
        self._expected: Counter[str] = Counter()

    def record_eviction(self, key: str | None, at: float) -> None:
        if key is not None and self._window is not None and at > self._now - self._window.seconds:
            insort(self._times.setdefault(key, []), at)

    def expect_eviction(self, key: str | None) -> None:
        self._expected[key or ""] += 1

    def limit_reached(self, key: str, most: int) -> LimitReached | None:
        """The limit, without its name, if one more eviction would be more than `most`."""
        times, expected = self._times.get(key, []), self._expected[key]
        surplus = len(times) + expected - most + 1
        if surplus <= 0 or self._window is None:
            return None
        # The window has room when the oldest surplus evictions have left it; expected ones never do by time alone.
        retry_at = times[surplus - 1] + self._window.seconds if surplus <= len(times) else None
        evicted = f"{counted_noun(len(times), 'pod', 'were')} evicted within {format_duration(self._window.seconds)}"
        return LimitReached("", f"{evicted} and {expected} {'is' if expected == 1 else 'are'} about to be", retry_at)
