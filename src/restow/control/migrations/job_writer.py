"""The job writer: what each step writes, except for an eviction (`eviction_attempt`).

Goes in: a step. Comes out: at most one write besides the job's status, each safe to repeat after a crash.

PinPod, RecordReservation, Extend    a patch that holds only for the version that was decided on
Reserve                              a create under a name that no other job has
Release                              a delete by UID and version
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from restow.client.verbs import Client
from restow.control.migrations.migration_cache import MigrationCache
from restow.migration.facts import Facts, WriteAnswer
from restow.migration.history import WORKLOAD_ANNOTATION
from restow.migration.steps import Act, Extend, PinPod, RecordReservation, Release, Reserve
from restow.model.kinds import POD_MIGRATION_JOB, RESERVATION
from restow.model.objects import Document, PodMigrationJob, PodMigrationJobStatus, Reservation
from restow.model.reservations.reservation_annotations import MOVED_FROM_ANNOTATION
from restow.model.reservations.spec import ttl_until
from restow.model.times import format_time
from restow.ports import AlreadyExists, Forbidden, Invalid, NotFound

_STATUS_FIELDS = ("phase", "status", "reason", "message", "conditions", "nodeName", "podRef")


class JobWriter:
    def __init__(self, client: Client, cache: MigrationCache) -> None:
        self._client = client
        self._cache = cache

    async def carry_out(self, facts: Facts, step: Act) -> tuple[Facts, WriteAnswer | None]:
        """Do what a step says and record its status. Comes out: the facts with the job as it was written, and the API
        server's refusal, if it asks for another decision; then the status is not recorded."""
        job = facts.job
        match step:
            case PinPod():
                job = await self._pin_pod(job, step)
            case RecordReservation():
                job = await self._record_reservation(job, step)
            case Reserve():
                created = await self._create_reservation(step)
                if isinstance(created, WriteAnswer):
                    return facts, created
                facts = replace(facts, reservation=created)
            case Extend():
                await self._extend_reservation(step)
            case Release():
                await self._delete_reservation(step)
        return replace(facts, job=await self.write_status(job, step.status)), None

    async def write_status(self, job: PodMigrationJob, status: PodMigrationJobStatus) -> PodMigrationJob:
        """Write a job's status, if it is another one; raises Conflict if the job has changed since it was read."""
        if status == job.status:
            return job
        changes = {"status": dict.fromkeys(_STATUS_FIELDS) | msgspec.to_builtins(status)}
        return await self._patch_job(job, changes, subresource="status")

    async def reread_job(self, name: str) -> None:
        """Take a job into the cache as the API server has it now."""
        with suppress(NotFound):
            self._cache.record_job_write(await self._client.get(POD_MIGRATION_JOB, name))

    async def _patch_job(self, job: PodMigrationJob, changes: Document, **options: Any) -> PodMigrationJob:
        meta = job.metadata
        written = await self._client.patch(
            POD_MIGRATION_JOB, meta.name, changes, resource_version=meta.resource_version, **options
        )
        self._cache.record_job_write(written)
        return written

    async def _pin_pod(self, job: PodMigrationJob, step: PinPod) -> PodMigrationJob:
        known = {WORKLOAD_ANNOTATION: step.workload, MOVED_FROM_ANNOTATION: step.source}
        annotations = {annotation: value for annotation, value in known.items() if value is not None}
        spec = {"podRef": {"uid": step.uid}, "mode": step.mode}
        return await self._patch_job(job, {"metadata": {"annotations": annotations}, "spec": spec})

    async def _record_reservation(self, job: PodMigrationJob, step: RecordReservation) -> PodMigrationJob:
        reference = msgspec.to_builtins(step.reference)
        return await self._patch_job(job, {"spec": {"reservationOptions": {"reservationRef": reference}}})

    async def _create_reservation(self, step: Reserve) -> Reservation | WriteAnswer | None:
        """The reservation that was created; None if there is one already, which has to be read first."""
        try:
            created = await self._client.create(RESERVATION, msgspec.to_builtins(step.reservation))
        except AlreadyExists:
            return None
        except (Invalid, NotFound) as error:  # never accepted: a bad template, or a namespace that is being deleted
            return WriteAnswer(False, str(error), is_final=True)
        except Forbidden as error:
            return WriteAnswer(False, str(error))
        self._cache.record_reservation_write(created)
        return created

    async def _extend_reservation(self, step: Extend) -> None:
        meta, spec = step.reservation.metadata, step.reservation.spec
        changes: Document = {"ttl": ttl_until(step.reservation, step.until)}
        if spec.expires is not None:
            changes["expires"] = format_time(step.until)
        await self._client.patch(
            RESERVATION, meta.name, {"spec": changes}, meta.namespace, resource_version=meta.resource_version
        )

    async def _delete_reservation(self, step: Release) -> None:
        meta = step.reservation.metadata
        with suppress(NotFound):
            await self._client.delete(
                RESERVATION, meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version
            )
