"""The job reporter: events, log lines and metrics about jobs and the pods that they evict."""

from __future__ import annotations

import logging

from restow.client.event_recorder import EventRecorder, about
from restow.control.migrations.metrics import DRY_RUN, MigrationMetrics
from restow.migration.conditions import is_job_ended, job_seconds_used
from restow.model.kinds import POD, POD_MIGRATION_JOB
from restow.model.objects import JobPhase, JobReason, Pod, PodMigrationJob
from restow.ports import Clock

log = logging.getLogger(__name__)

INTERRUPTED = "Interrupted"
"""The reason of the event that a job gets when errors of the API server keep it from going on."""
MIGRATING = "Migrating"
"""The reason of the event that an evicted pod gets."""
_WARNINGS = frozenset({JobReason.FAILED_EVICT, JobReason.FAILED_CREATE_RESERVATION, JobReason.UNSCHEDULABLE})
_REPORTED_DELAY = 5.0
"""Seconds until the next try from which on an error is reported: shorter trouble passes by itself."""


class JobReporter:
    def __init__(self, recorder: EventRecorder, clock: Clock, metrics: MigrationMetrics) -> None:
        self._recorder = recorder
        self._clock = clock
        self._metrics = metrics

    def status_written(self, before: PodMigrationJob, after: PodMigrationJob) -> None:
        """One event for what became of a job, with the same sentence as its status."""
        old, new = before.status, after.status
        if (old.phase, old.status, old.reason, old.message) == (new.phase, new.status, new.reason, new.message):
            return
        is_bad = new.phase == JobPhase.FAILED or new.reason in _WARNINGS
        self._recorder.record(
            about(POD_MIGRATION_JOB, after.metadata),
            new.reason or new.status or MIGRATING,
            new.message or "",
            type="Warning" if is_bad else "Normal",
        )
        details = {"job": after.metadata.name, "phase": new.phase, "reason": new.reason, "text": new.message}
        log.info("job status written", extra=details)
        if is_job_ended(after) and not is_job_ended(before):
            self._metrics.job_ended(new.phase or "", new.reason or "", job_seconds_used(after, self._clock.now()))
            if new.reason == JobReason.DRY_RUN:
                self._metrics.eviction(DRY_RUN)

    def interrupted(self, job: PodMigrationJob, error: Exception, delay: float) -> None:
        """An error keeps a job from going on."""
        if delay >= _REPORTED_DELAY:
            message = f"interrupted, next try in {delay:.0f} s: {error}"
            self._recorder.record(about(POD_MIGRATION_JOB, job.metadata), INTERRUPTED, message, type="Warning")

    def pod_evicted(self, job: PodMigrationJob, pod: Pod) -> None:
        """The pod's own event says why it leaves and where its successor goes."""
        node = job.status.node_name
        seat = f"to its seat on node {node}" if node else "without a seat of its own"
        message = f"evicted from node {pod.spec.node_name} by PodMigrationJob {job.metadata.name}: it moves {seat}"
        self._recorder.record(about(POD, pod.metadata), MIGRATING, message)
