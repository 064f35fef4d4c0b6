"""The garbage collector: deletes reservations whose job is gone or uses another one, and jobs that ended long ago.

A reservation without a job is deleted only while its migrating pod is where it was: once that leaves, the seat is its
successor's. And only if it was without a job for a whole period, in which every request that was sent before has ended.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from restow.control.migrations.dependencies import MigrationDependencies
from restow.control.migrations.migration_cache import MigrationCache
from restow.migration.conditions import job_ended_at
from restow.migration.reservation import job_uid_of_reservation, reservation_key
from restow.model.kinds import POD, POD_MIGRATION_JOB, RESERVATION
from restow.model.objects import Document, PodMigrationJob, Reservation
from restow.model.pods import is_terminating
from restow.model.reservations.observed_spec import is_being_deleted, is_ended
from restow.model.reservations.reservation_annotations import migrating_pod
from restow.model.wire import WireError
from restow.ports import ApiError, Conflict, NotFound

log = logging.getLogger(__name__)


class MigrationGarbageCollector:
    def __init__(self, dependencies: MigrationDependencies, cache: MigrationCache) -> None:
        self._client = dependencies.client
        self._clock = dependencies.clock
        self._period = dependencies.settings.garbage_collection_period
        self._arguments = dependencies.arguments
        self._metrics = dependencies.metrics
        self._cache = cache
        self._orphans_before: set[str] = set()
        """UIDs of reservations that had no job the last time."""

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._period)
            if not self._arguments.value.enabled:
                continue
            for collect in (self._delete_orphaned_reservations, self._delete_old_jobs):
                try:
                    await collect()
                except (ApiError, WireError) as error:
                    log.info("garbage collection interrupted", extra={"err": str(error)})

    # --- reservations -------------------------------------------------------------------------------------------------

    async def _delete_orphaned_reservations(self) -> None:
        # 1. Which had no job the last time, and have none now, as the informers show it?
        orphans = [reservation for reservation in self._cache.reservations if self._is_orphan(reservation)]
        old = [reservation for reservation in orphans if reservation.metadata.uid in self._orphans_before]
        self._orphans_before = {reservation.metadata.uid for reservation in orphans}
        if not old:
            return
        # 2. Have they no job in the API server either, and does the pod stay?
        listed = await self._client.list(POD_MIGRATION_JOB.whole)
        jobs = {document["metadata"]["uid"]: document for document in listed.items}
        for reservation in old:
            job = jobs.get(job_uid_of_reservation(reservation) or "")
            if not (job and _may_be_used_by(reservation, job)) and await self._stays(migrating_pod(reservation)):
                await self._delete_reservation(reservation)

    def _is_orphan(self, reservation: Reservation) -> bool:
        uid = job_uid_of_reservation(reservation)
        if uid is None or is_ended(reservation) or is_being_deleted(reservation):
            return False
        return not _is_used_by(reservation, self._cache.job_by_uid(uid))

    async def _stays(self, uid: str | None) -> bool:
        """Whether the pod with a UID exists and is not terminating, as the API server has it."""
        known = self._cache.pod_by_uid(uid) if uid else None
        if known is None:
            return False
        try:
            pod = await self._client.get(POD, known.metadata.name, known.metadata.namespace)
        except NotFound:
            return False
        return pod.metadata.uid == uid and not is_terminating(pod)

    async def _delete_reservation(self, reservation: Reservation) -> None:
        meta = reservation.metadata
        try:
            await self._client.delete(
                RESERVATION, meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version
            )
        except (NotFound, Conflict):
            return
        log.info("reservation without a job deleted", extra={"reservation": f"{meta.namespace}/{meta.name}"})
        self._metrics.reservation_deleted()

    # --- jobs ---------------------------------------------------------------------------------------------------------

    async def _delete_old_jobs(self) -> None:
        """Delete jobs that ended longer ago than finishedJobTTL: until then they are the history that limits read."""
        oldest = self._clock.now() - self._arguments.value.finished_ttl
        for job in list(self._cache.jobs()):
            end = job_ended_at(job)
            if end is not None and end < oldest:
                meta = job.metadata
                try:
                    await self._client.delete(
                        POD_MIGRATION_JOB, meta.name, uid=meta.uid, resource_version=meta.resource_version
                    )
                except (NotFound, Conflict):
                    continue


def _is_used_by(reservation: Reservation, job: PodMigrationJob | None) -> bool:
    """Whether the job that a reservation was created for exists and still uses this one."""
    meta = reservation.metadata
    return job is not None and reservation_key(job) == (meta.namespace or "", meta.name)


def _may_be_used_by(reservation: Reservation, job: Document) -> bool:
    """The same of a job as the API server has it; one that cannot be decoded may use any reservation."""
    try:
        return _is_used_by(reservation, msgspec.convert(job, PodMigrationJob))
    except msgspec.ValidationError:
        return True
