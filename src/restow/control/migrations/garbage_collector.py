"""Sweeping: what nobody needs any more. Reservations whose job was deleted or told to use another one, and jobs that
ended long ago.

A reservation without a job is deleted only while the pod that was to move is where it was: once it leaves, its seat is
its successor's. It must have been without a job for a whole period, in which whatever was sent before has ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from restow.client.verbs import Client
from restow.control.migrations.event_handlers import Feed
from restow.control.migrations.metrics import MigrationMetrics
from restow.migration.arguments import MigrationArguments
from restow.migration.conditions import job_ended_at
from restow.migration.reservation import job_uid_of_reservation, reservation_key
from restow.model.kinds import POD, POD_MIGRATION_JOB, RESERVATION
from restow.model.objects import Document, PodMigrationJob, Reservation
from restow.model.pods import is_terminating
from restow.model.reservations.observed_spec import is_being_deleted, is_ended
from restow.model.reservations.reservation_annotations import migrating_pod
from restow.model.wire import WireError
from restow.ports import ApiError, Clock, Conflict, NotFound

log = logging.getLogger(__name__)


class MigrationGarbageCollector:
    def __init__(
        self,
        client: Client,
        clock: Clock,
        feed: Feed,
        arguments: Callable[[], MigrationArguments],
        metrics: MigrationMetrics,
    ) -> None:
        self._client = client
        self._clock = clock
        self._feed = feed
        self._arguments = arguments
        self._metrics = metrics
        self._suspects: set[str] = set()
        """UIDs of reservations that had no job the last time."""

    async def run(self, period: float) -> None:
        while True:
            await asyncio.sleep(period)
            for part in (self._orphans, self._history) if self._arguments().enabled else ():
                try:
                    await part()
                except (ApiError, WireError) as error:
                    log.info("sweep interrupted", extra={"err": str(error)})

    async def _orphans(self) -> None:
        orphans = [one for one in self._feed.reservations() if self._is_orphan(one)]
        old = [one for one in orphans if one.metadata.uid in self._suspects]
        self._suspects = {one.metadata.uid for one in orphans}
        if not old:
            return
        listed = await self._client.list(POD_MIGRATION_JOB.whole)
        jobs = {one["metadata"]["uid"]: one for one in listed.items}
        for reservation in old:
            job = jobs.get(job_uid_of_reservation(reservation) or "")
            if not (job and _may_use(reservation, job)) and await self._stays(migrating_pod(reservation)):
                await self._delete(reservation)

    def _is_orphan(self, reservation: Reservation) -> bool:
        uid = job_uid_of_reservation(reservation)
        if uid is None or is_ended(reservation) or is_being_deleted(reservation):
            return False
        return not _is_used(reservation, self._feed.job_by_uid(uid))

    async def _stays(self, uid: str | None) -> bool:
        """Whether a pod is there and not leaving, by the API server's word."""
        known = self._feed.pod_by_uid(uid) if uid else None
        if known is None:
            return False
        try:
            pod = await self._client.get(POD, known.metadata.name, known.metadata.namespace)
        except NotFound:
            return False
        return pod.metadata.uid == uid and not is_terminating(pod)

    async def _delete(self, reservation: Reservation) -> None:
        meta = reservation.metadata
        try:
            await self._client.delete(
                RESERVATION, meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version
            )
        except (NotFound, Conflict):
            return
        log.info("reservation without a job deleted", extra={"reservation": f"{meta.namespace}/{meta.name}"})
        self._metrics.swept()

    async def _history(self) -> None:
        """Ended jobs are kept as long as somebody may ask what happened."""
        before = self._clock.now() - self._arguments().finished_ttl
        for job in list(self._feed.jobs()):
            end = job_ended_at(job)
            if end is not None and end < before:
                meta = job.metadata
                try:
                    await self._client.delete(
                        POD_MIGRATION_JOB, meta.name, uid=meta.uid, resource_version=meta.resource_version
                    )
                except (NotFound, Conflict):
                    continue


def _is_used(reservation: Reservation, job: PodMigrationJob | None) -> bool:
    """Whether the job that a reservation was made for is there, and means this one."""
    meta = reservation.metadata
    return job is not None and reservation_key(job) == (meta.namespace or "", meta.name)


def _may_use(reservation: Reservation, job: Document) -> bool:
    """The same of a job as the API server has it; one that cannot be read may mean anything."""
    try:
        return _is_used(reservation, msgspec.convert(job, PodMigrationJob))
    except msgspec.ValidationError:
        return True
