"""Creates the jobs that move foreign pods off locked nodes, and aborts those that have become obsolete.

Goes in: the foreign pods of a queue; an obsolete job. Comes out: PodMigrationJobs, which the migration controller
carries out within budgets and limits.
"""

from __future__ import annotations

import logging

from restow.client.create_once import create_once
from restow.client.mutation_cache import MutationCache
from restow.client.verbs import Client
from restow.control.queues.foreign_pods import ForeignPods, migration_job_document, queue_label_of
from restow.control.queues.metrics import QueueMetrics
from restow.migration.conditions import is_job_ended
from restow.model.kinds import POD_MIGRATION_JOB
from restow.model.objects import Document, JobPhase, JobReason, PodMigrationJob
from restow.model.wire import WireError, convert_document
from restow.ports import AlreadyExists, ApiError, NotFound, OutcomeUnknown
from restow.scheduling.pod_group_cache import PodGroupCache

log = logging.getLogger(__name__)


class QueueJobs:
    def __init__(
        self,
        client: Client,
        jobs: MutationCache[PodMigrationJob],
        pod_groups: PodGroupCache,
        metrics: QueueMetrics,
        max_jobs: int,
    ) -> None:
        self._client = client
        self._jobs = jobs
        self._pod_groups = pod_groups
        self._metrics = metrics
        self._max_jobs = max_jobs

    async def create_jobs(self, foreign_pods: ForeignPods) -> bool:
        """Create jobs for the pods of a queue's nodes, as many as the limit allows. Returns False if that should be
        tried again soon."""
        live = sum(queue_label_of(job) is not None and not is_job_ended(job) for job in self._jobs)
        to_move = foreign_pods.to_move[: max(self._max_jobs - live, 0)]
        documents = [
            migration_job_document(foreign_pods.queue, pod, self._pod_groups.queue_of(pod.pod)) for pod in to_move
        ]
        return all([await self._create_job(foreign_pods.queue, document) for document in documents])

    async def _create_job(self, queue: str, document: Document) -> bool:
        name: str = document["metadata"]["name"]
        try:
            job, is_new = await self._find_or_create(name, document)
        except OutcomeUnknown:
            # The job may exist. It counts as existing, so that the pod gets no second one; the watch, or the end of
            # the cache's patience, decides.
            self._jobs.record_write(convert_document(PodMigrationJob, document))
            return False
        except (ApiError, WireError) as error:
            log.info("job not created", extra={"queue": queue, "job": name, "err": str(error)})
            return False
        self._jobs.record_write(job)
        if is_new:
            self._metrics.job_created()
            log.info("job created", extra={"queue": queue, "job": name, "pod": document["spec"]["podRef"]["name"]})
        # A job of this attempt that has ended moves the pod no more: the next pass makes the next attempt.
        return not is_job_ended(job)

    async def _find_or_create(self, name: str, document: Document) -> tuple[PodMigrationJob, bool]:
        """The job of this name, and whether it is new. A previous leader may have created it, unseen by the watch."""
        try:
            return await create_once(self._client, POD_MIGRATION_JOB, document, adopt=False), True
        except AlreadyExists:
            return await self._client.get(POD_MIGRATION_JOB, name), False

    async def abort_job(self, job: PodMigrationJob) -> bool:
        """End a job before it evicts. Returns False if that should be tried again soon."""
        meta = job.metadata
        message = f"the node of its pod is no longer locked for queue {queue_label_of(job)}"
        changes = {"phase": JobPhase.ABORTED.value, "reason": JobReason.LOCK_RELEASED.value, "message": message}
        try:
            # With the resourceVersion that was read: if the job has begun to evict meanwhile, its status has another
            # version, the patch fails with a conflict, and the job goes on.
            aborted = await self._client.patch(
                POD_MIGRATION_JOB,
                meta.name,
                {"status": changes},
                subresource="status",
                resource_version=meta.resource_version,
            )
        except NotFound:
            return True
        except (ApiError, WireError) as error:
            log.info("job not aborted", extra={"job": meta.name, "err": str(error)})
            return False
        self._jobs.record_write(aborted)
        self._metrics.job_aborted()
        log.info("job aborted", extra={"job": meta.name, "reason": message})
        return True
