"""Event handlers: which jobs are looked at again after an event.

Goes in: changes of jobs, pods, reservations, budgets and the stop switch. Comes out: calls of `requeue` with the names
of the jobs that the change may matter to. Subscribed after the migration cache, which is up to date when these run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from restow.client.cache import Change
from restow.client.subscriptions import Subscriptions
from restow.control.migrations.conflicting_jobs import ConflictingJobs
from restow.control.migrations.eviction_records import EvictionRecords
from restow.control.migrations.indexes import by_seat, pod_index_key
from restow.control.migrations.migration_cache import MigrationCache
from restow.control.view import StopSwitch
from restow.migration.conditions import find_condition, is_job_ended
from restow.migration.reservation import job_uid_of_reservation
from restow.model import kinds
from restow.model.objects import ConfigMap, JobConditionType, JobReason, Pod, PodMigrationJob, Reservation


class MigrationEventHandlers:
    def __init__(
        self,
        subscriptions: Subscriptions,
        namespace: str,
        cache: MigrationCache,
        conflicts: ConflictingJobs,
        records: EvictionRecords,
        requeue: Callable[[str], None],
    ) -> None:
        self._cache = cache
        self._conflicts = conflicts
        self._records = records
        self._requeue = requeue
        StopSwitch(subscriptions, namespace, self._stop_switch_changed)
        for kind in kinds.BUDGETS:
            subscriptions.subscribe(kind, self._budget_changed)
        subscriptions.subscribe(kinds.POD, self._pod_changed)
        subscriptions.subscribe(kinds.RESERVATION, self._reservation_changed)
        subscriptions.subscribe(kinds.POD_MIGRATION_JOB, self._job_changed)

    def _job_changed(self, change: Change[PodMigrationJob]) -> None:
        job, is_deleted = change.object, change.type == "DELETED"
        self._requeue(job.metadata.name)
        if is_deleted:
            self._records.forget(job.metadata.uid)
        if is_deleted or is_job_ended(job):
            self._conflicts.forget(job)
        # Jobs that move the same pod, or the pod that took its place, waited for this one.
        if is_deleted or (is_job_ended(job) and change.old and not is_job_ended(change.old)):
            self._requeue_all(self._cache.seen_jobs.find("pod", pod_index_key(job.spec.pod_ref)))

    def _pod_changed(self, change: Change[Pod]) -> None:
        pod = change.object
        jobs = self._cache.seen_jobs
        self._requeue_unended(jobs.find("pod", f"{pod.metadata.namespace}/{pod.metadata.name}"))
        for seat in by_seat(pod):
            self._requeue_unended(jobs.find("reservation", seat))

    def _reservation_changed(self, change: Change[Reservation]) -> None:
        reservation = change.object
        meta, job_uid = reservation.metadata, job_uid_of_reservation(reservation)
        # The job that the reservation was created for is looked at even after its end: it may have to release it.
        self._requeue_all(self._cache.seen_jobs.find("uid", job_uid) if job_uid is not None else ())
        self._requeue_unended(self._cache.seen_jobs.find("reservation", f"{meta.namespace}/{meta.name}"))

    def _stop_switch_changed(self, change: Change[ConfigMap]) -> None:
        self._requeue_unended(self._cache.seen_jobs)

    def _budget_changed(self, change: Change[Any]) -> None:
        """Jobs whose eviction was refused may be allowed to evict now."""
        namespace = change.object.metadata.namespace
        in_namespace = (job for job in self._cache.seen_jobs if job.spec.pod_ref.namespace == namespace)
        self._requeue_unended(job for job in in_namespace if _is_eviction_refused(job))

    def _requeue_all(self, jobs: Iterable[PodMigrationJob]) -> None:
        for job in jobs:
            self._requeue(job.metadata.name)

    def _requeue_unended(self, jobs: Iterable[PodMigrationJob]) -> None:
        self._requeue_all(job for job in jobs if not is_job_ended(job))


def _is_eviction_refused(job: PodMigrationJob) -> bool:
    condition = find_condition(job.status, JobConditionType.EVICTION)
    return condition is not None and condition.reason == JobReason.FAILED_EVICT
