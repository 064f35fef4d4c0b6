"""Conflicting jobs: other jobs that move the same pod, or use the same reservation.

Goes in: all jobs, as last seen or written, and pods. Comes out: which job comes first, and which consumers of a shared
reservation cannot be a job's successor. What is being written at this moment counts here before any watch shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from restow.control.migrations.indexes import pod_index_key
from restow.control.migrations.migration_cache import MigrationCache
from restow.migration.conditions import EVICTION_SETTLES_AFTER, is_evicting, is_job_ended, is_job_running, job_ended_at
from restow.migration.facts import Facts
from restow.migration.history import WORKLOAD_ANNOTATION
from restow.migration.reservation import reservation_key
from restow.model.objects import PodMigrationJob, PodMigrationJobStatus
from restow.model.pods import is_terminating
from restow.ports import Clock


class ConflictingJobs:
    def __init__(self, cache: MigrationCache, clock: Clock) -> None:
        self._cache = cache
        self._jobs = cache.written_jobs
        self._clock = clock
        self._evictions_being_recorded: set[str] = set()
        """UIDs of jobs."""
        self._successors_being_recorded: dict[str, str] = {}
        """UIDs of pods, by the UIDs of the jobs whose status is being written."""
        self._consumers_before: dict[str, frozenset[str]] = {}
        """UIDs of pods that had consumed seats before the eviction of a job was sent, by the UIDs of jobs."""

    # --- the same pod -------------------------------------------------------------------------------------------------

    def job_moving_same_pod(self, job: PodMigrationJob) -> str | None:
        """The job that moves the same pod and comes first: admitted jobs come before others, then older ones."""
        reference = job.spec.pod_ref
        conflicting = [
            other
            for other in self._jobs.find("pod", pod_index_key(reference))
            if other.metadata.uid != job.metadata.uid
            and _is_active(other)
            and other.spec.pod_ref.name == reference.name
            # A job that was not pinned to a UID yet means whichever pod has the name.
            and (other.spec.pod_ref.uid or reference.uid) == (reference.uid or other.spec.pod_ref.uid)
        ]
        first = min(conflicting, key=_job_order, default=None)
        return first.metadata.name if first is not None and _job_order(first) < _job_order(job) else None

    # --- the same reservation -----------------------------------------------------------------------------------------

    def jobs_ahead(self, job: PodMigrationJob) -> tuple[str, ...]:
        """The jobs whose successors take seats of the same reservation before this job's. Even a job that has ended
        counts, as long as the pod exists that it may have evicted."""
        others = self._jobs.find("reservation", "/".join(reservation_key(job)))
        order, uid = self._seat_order(job), job.metadata.uid
        return tuple(
            other.metadata.name
            for other in others
            if other.metadata.uid != uid and self._needs_a_seat(other) and self._seat_order(other) < order
        )

    def _needs_a_seat(self, job: PodMigrationJob) -> bool:
        is_leaving = is_evicting(job.status) and self._is_pod_leaving(job)
        return (is_job_running(job) or is_leaving) and job.status.pod_ref is None

    def _is_pod_leaving(self, job: PodMigrationJob) -> bool:
        """Whether the pod of a job exists, and is terminating or may be evicted by a request of the job."""
        pod, ended = self._cache.pod_by_uid(job.spec.pod_ref.uid or ""), job_ended_at(job)
        may_be_evicted = ended is not None and self._clock.now() - ended < EVICTION_SETTLES_AFTER
        return pod is not None and (is_terminating(pod) or may_be_evicted)

    def _seat_order(self, job: PodMigrationJob) -> tuple[bool, tuple[bool, str, str]]:
        """Jobs that may have evicted their pod come first: their successors may be created at any moment."""
        may_have_evicted = is_evicting(job.status) or job.metadata.uid in self._evictions_being_recorded
        return not may_have_evicted, _job_order(job)

    def foreign_consumers(self, facts: Facts) -> frozenset[str]:
        """UIDs of pods that are not a job's successor: they are the successors of other jobs, belong to other
        workloads, or had consumed a seat before the eviction."""
        before = self._consumers_before.get(facts.job.metadata.uid, frozenset())
        return frozenset((*self._successors_of_other_jobs(facts.job), *self._pods_of_other_workloads(facts), *before))

    def _successors_of_other_jobs(self, job: PodMigrationJob) -> Iterator[str]:
        uid = job.metadata.uid
        yield from (successor for other, successor in self._successors_being_recorded.items() if other != uid)
        for other in self._jobs:
            if other.metadata.uid != uid and other.status.pod_ref is not None:
                yield other.status.pod_ref.uid or ""

    def _pods_of_other_workloads(self, facts: Facts) -> Iterator[str]:
        own = (facts.job.metadata.annotations or {}).get(WORKLOAD_ANNOTATION)
        for pod in facts.consumers:
            workload = self._cache.workloads.workload_of(pod)
            if own and workload is not None and workload.uid != own:
                yield pod.metadata.uid

    # --- what is being written ----------------------------------------------------------------------------------------

    @contextmanager
    def recording_eviction(self, facts: Facts, *, again: bool) -> Iterator[None]:
        """While a job's eviction is being recorded, the job already comes before others that share its reservation.

        Pods that have consumed a seat by now are not its successor. Only if an eviction may have been sent before, and
        this is done `again`, one of them may be.
        """
        uid = facts.job.metadata.uid
        self._evictions_being_recorded.add(uid)
        if facts.reservation is not None and not again and self._jobs.find("uid", uid):
            consumers = (seat.pod_ref for seat in facts.reservation.status.placements or () if seat.pod_ref is not None)
            self._consumers_before[uid] = frozenset(consumer.uid or "" for consumer in consumers)
        try:
            yield
        finally:
            self._evictions_being_recorded.discard(uid)

    @contextmanager
    def recording_successor(self, job: PodMigrationJob, status: PodMigrationJobStatus) -> Iterator[None]:
        """While a job's successor is being recorded, other jobs do not take the same pod for theirs."""
        if status.pod_ref is not None:
            self._successors_being_recorded[job.metadata.uid] = status.pod_ref.uid or ""
        try:
            yield
        finally:
            self._successors_being_recorded.pop(job.metadata.uid, None)

    def forget(self, job: PodMigrationJob) -> None:
        """The job has ended, or is deleted."""
        self._consumers_before.pop(job.metadata.uid, None)


def _is_active(job: PodMigrationJob) -> bool:
    """Whether a job moves its pod, or is about to."""
    return not is_job_ended(job) and (is_job_running(job) or not job.spec.paused)


def _job_order(job: PodMigrationJob) -> tuple[bool, str, str]:
    return not is_job_running(job), job.metadata.creation_timestamp or "", job.metadata.name
