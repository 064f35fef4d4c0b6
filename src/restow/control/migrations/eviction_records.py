"""Eviction records: which evictions this process recorded as intended, and whether it sent them.

Goes in: what an eviction attempt did. Comes out: whether an eviction that stands in a job's status may still take
effect. This is not the truth, only more than the status says: the next leader has no records, so it takes every
recorded eviction for one that was sent.
"""

from __future__ import annotations

from restow.control.migrations.migration_cache import MigrationCache
from restow.migration.conditions import EVICTION_SETTLES_AFTER
from restow.migration.facts import Facts
from restow.migration.history import eviction_intended_at
from restow.model.objects import Pod, PodMigrationJob
from restow.ports import Clock


class EvictionRecords:
    def __init__(self, cache: MigrationCache, clock: Clock) -> None:
        self._cache = cache
        self._clock = clock
        self._sent: dict[str, bool] = {}
        """By UID of a job: whether the eviction that this process recorded in its status was sent."""

    def note_intent(self, job: PodMigrationJob) -> None:
        """An eviction is being recorded and not sent yet; one that was sent before may still take effect."""
        if self._is_known(job):
            self._sent.setdefault(job.metadata.uid, False)

    def note_sent(self, job: PodMigrationJob) -> None:
        """The request goes out now. Whatever is answered, or not, it cannot be said any more that none was sent."""
        if self._is_known(job):
            self._sent[job.metadata.uid] = True

    def note_refused(self, job: PodMigrationJob, *, earlier_may_take_effect: bool) -> None:
        """The API server refused the eviction, so it is as if it had not been sent, unless one was sent before."""
        if self._is_known(job):
            self._sent[job.metadata.uid] = earlier_may_take_effect

    def forget(self, uid: str) -> None:
        """The job with this UID is deleted."""
        self._sent.pop(uid, None)

    def is_unsent(self, job: PodMigrationJob) -> bool:
        """Whether the recorded eviction of a job was certainly not sent. Of another leader's that is never certain."""
        return self._sent.get(job.metadata.uid) is False

    def may_have_been_sent(self, facts: Facts) -> bool:
        """Whether an eviction for a job may take effect already, even if a user has overwritten the job's status."""
        return self._sent.get(facts.job.metadata.uid, False) or (facts.is_evicting and not facts.eviction_unsent)

    def may_be_leaving(self, pod: Pod) -> bool:
        """Whether an eviction of a pod by any job may still take effect, though the pod shows nothing of it yet."""
        meta, since = pod.metadata, self._clock.now() - EVICTION_SETTLES_AFTER
        return any(
            (at := eviction_intended_at(job)) is not None and at > since and not self.is_unsent(job)
            for job in self._cache.written_jobs.find("pod", f"{meta.namespace}/{meta.name}")
            if job.spec.pod_ref.uid == meta.uid
        )

    def _is_known(self, job: PodMigrationJob) -> bool:
        """Records are dropped when the watch shows that the job is deleted, so none is kept of a job that is gone."""
        return self._cache.job_by_uid(job.metadata.uid) is not None
