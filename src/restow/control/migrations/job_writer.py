"""Effects: what a step writes. At most one write besides the job's status, each safe to repeat after a crash.

Pin, Refer, Extend    a patch that holds only for the version it was decided on
Reserve               a create under a name that no other job has
Evict                 the status first, so that nobody overlooks it; then the pod, by UID
Release               a delete by UID and version
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from restow.client.verbs import Client
from restow.control.migrations.event_handlers import Feed
from restow.control.migrations.eviction_requests import refusal_in, send_eviction, should_delete
from restow.control.migrations.metrics import EVICTED, REFUSED, UNKNOWN, MigrationMetrics
from restow.migration.facts import Facts, Permission
from restow.migration.history import WORKLOAD_ANNOTATION
from restow.migration.steps import Act, Evict, Extend, PinPod, RecordReservation, Release, Reserve
from restow.model.kinds import POD_MIGRATION_JOB, RESERVATION
from restow.model.objects import Document, PodMigrationJob, PodMigrationJobStatus, Reservation
from restow.model.reservations.reservation_annotations import MOVED_FROM_ANNOTATION
from restow.model.reservations.spec import ttl_until
from restow.model.times import format_time
from restow.ports import AlreadyExists, ApiError, Forbidden, Invalid, NotFound

log = logging.getLogger(__name__)

_STATUS = ("phase", "status", "reason", "message", "conditions", "nodeName", "podRef")


class JobWriter:
    """Each returns what the API server answered, if that asks for another decision."""

    def __init__(self, client: Client, feed: Feed, metrics: MigrationMetrics) -> None:
        self._client = client
        self._feed = feed
        self._metrics = metrics

    async def carry_out(self, facts: Facts, step: Act) -> tuple[Facts, Permission | None]:
        """Do what a step says, but for an eviction, and record its status; the facts are those of the job then."""
        job = facts.job
        match step:
            case PinPod():
                job = await self._pin(job, step)
            case RecordReservation():
                job = await self._refer(job, step)
            case Reserve():
                made = await self._reserve(step)
                if isinstance(made, Permission):
                    return facts, made
                facts = replace(facts, reservation=made)
            case Extend():
                await self._extend(step)
            case Release():
                await self._release(step)
        return replace(facts, job=await self.record(job, step.status)), None

    async def record(self, job: PodMigrationJob, status: PodMigrationJobStatus) -> PodMigrationJob:
        """Write a job's status, if it is another; a Conflict if the job has moved on."""
        if status == job.status:
            return job
        changes = {"status": dict.fromkeys(_STATUS) | msgspec.to_builtins(status)}
        return await self._patch(job, changes, subresource="status")

    async def learn(self, name: str) -> None:
        """What became of a job, as the API server has it."""
        with suppress(NotFound):
            self._feed.note(await self._client.get(POD_MIGRATION_JOB, name))

    async def _patch(self, job: PodMigrationJob, changes: Document, **options: Any) -> PodMigrationJob:
        meta = job.metadata
        written = await self._client.patch(
            POD_MIGRATION_JOB, meta.name, changes, resource_version=meta.resource_version, **options
        )
        self._feed.note(written)
        return written

    async def _pin(self, job: PodMigrationJob, step: PinPod) -> PodMigrationJob:
        told = {WORKLOAD_ANNOTATION: step.workload, MOVED_FROM_ANNOTATION: step.source}
        notes = {note: value for note, value in told.items() if value is not None}
        spec = {"podRef": {"uid": step.uid}, "mode": step.mode}
        return await self._patch(job, {"metadata": {"annotations": notes}, "spec": spec})

    async def _refer(self, job: PodMigrationJob, step: RecordReservation) -> PodMigrationJob:
        reference = msgspec.to_builtins(step.reference)
        return await self._patch(job, {"spec": {"reservationOptions": {"reservationRef": reference}}})

    async def _reserve(self, step: Reserve) -> Reservation | Permission | None:
        """What was made; None if one is there already, which has to be looked at."""
        try:
            made = await self._client.create(RESERVATION, msgspec.to_builtins(step.reservation))
        except AlreadyExists:
            return None
        except (Invalid, NotFound) as error:  # never accepted as it is: a bad template, a namespace on its way out
            return Permission(False, str(error), is_final=True)
        except Forbidden as error:
            return Permission(False, str(error))
        self._feed.note_made(made)
        return made

    async def _extend(self, step: Extend) -> None:
        meta, spec = step.reservation.metadata, step.reservation.spec
        changes: Document = {"ttl": ttl_until(step.reservation, step.until)}
        if spec.expires is not None:
            changes["expires"] = format_time(step.until)
        await self._client.patch(
            RESERVATION, meta.name, {"spec": changes}, meta.namespace, resource_version=meta.resource_version
        )

    async def _release(self, step: Release) -> None:
        meta = step.reservation.metadata
        try:
            await self._client.delete(
                RESERVATION, meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version
            )
        except NotFound:
            return

    async def is_deleted(self, facts: Facts, step: Evict) -> bool:
        """Whether the pod that is to leave is deleted, and not evicted."""
        return await should_delete(self._client, step.pod, facts.options)

    async def evict(self, facts: Facts, step: Evict, *, delete: bool) -> Permission | None:
        """Send the eviction, once it is recorded; None if the pod was gone already. An answer that leaves open what
        happened is an error: look again."""
        meta = step.pod.metadata
        about = {
            "job": facts.job.metadata.name,
            "pod": f"{meta.namespace}/{meta.name}",
            "node": step.pod.spec.node_name,
        }
        try:
            await send_eviction(self._client, step.pod, facts.options, delete=delete)
        except NotFound:
            return None  # gone already
        except ApiError as error:
            answer = refusal_in(error)
            self._metrics.eviction(REFUSED if answer else UNKNOWN)
            if answer is None:
                raise
            log.info("eviction refused", extra=about | {"err": str(error)})
            return answer
        self._metrics.eviction(EVICTED)
        log.info("evicted", extra=about)
        return Permission(True)
