"""Rivals: who else moves the pod of a job, or takes the seat that was given to it.

Goes in: all jobs, as last seen or written, and pods. Comes out: which job comes first, and whose successor is whose.
What is being written down at this moment is known here before anybody has shown it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from restow.client.informer import Informer
from restow.client.mutation_cache import MutationCache
from restow.control.migrations.indexes import pod_index_key
from restow.eviction.workloads import Workloads
from restow.migration.conditions import EVICTION_SETTLES_AFTER, is_evicting, is_job_ended, is_job_running, job_ended_at
from restow.migration.facts import Facts
from restow.migration.history import WORKLOAD_ANNOTATION
from restow.migration.reservation import reservation_key
from restow.model.objects import Pod, PodMigrationJob, PodMigrationJobStatus
from restow.model.pods import is_terminating
from restow.ports import Clock


class ConflictingJobs:
    def __init__(
        self, jobs: MutationCache[PodMigrationJob], pods: Informer[Pod], workloads: Workloads, clock: Clock
    ) -> None:
        self._jobs = jobs
        self._pods = pods
        self._workloads = workloads
        self._clock = clock
        self._evicting: set[str] = set()
        self._taking: dict[str, str] = {}
        """The successors that are being written down, by the UIDs of jobs."""
        self._seated: dict[str, frozenset[str]] = {}
        """UIDs of pods that had taken seats before the pod of a job was evicted, by the UIDs of jobs."""

    def job_moving_same_pod(self, job: PodMigrationJob) -> str | None:
        """The job that moves the same pod and comes first: admitted ones do, then older ones."""
        reference = job.spec.pod_ref
        same = [
            other
            for other in self._jobs.find("pod", pod_index_key(reference))
            if other.metadata.uid != job.metadata.uid
            and _is_active(other)
            and other.spec.pod_ref.name == reference.name
            and (other.spec.pod_ref.uid or reference.uid) == (reference.uid or other.spec.pod_ref.uid)
        ]
        first = min(same, key=_job_order, default=None)
        return first.metadata.name if first is not None and _job_order(first) < _job_order(job) else None

    def foreign_consumers(self, facts: Facts) -> frozenset[str]:
        """UIDs of pods that are the successors of other jobs, or of other workloads, or sat there before."""
        before = self._seated.get(facts.job.metadata.uid, frozenset())
        return frozenset((*self._successors(facts.job), *self._strangers(facts), *before))

    def _successors(self, job: PodMigrationJob) -> Iterator[str]:
        yield from (taker for other, taker in self._taking.items() if other != job.metadata.uid)
        for other in self._jobs:
            if other.metadata.uid != job.metadata.uid and other.status.pod_ref is not None:
                yield other.status.pod_ref.uid or ""

    def _strangers(self, facts: Facts) -> Iterator[str]:
        """Who has taken a seat of what was given to a job, and is of another workload than its pod."""
        its = (facts.job.metadata.annotations or {}).get(WORKLOAD_ANNOTATION)
        for pod in facts.consumers:
            workload = self._workloads.workload_of(pod)
            if its and workload is not None and workload.uid != its:
                yield pod.metadata.uid

    def jobs_ahead(self, job: PodMigrationJob) -> tuple[str, ...]:
        """The jobs whose successors will take seats of the same reservation before this one's: also one that has ended,
        as long as the pod is there that it has evicted."""
        others = self._jobs.find("reservation", "/".join(reservation_key(job)))
        turn, uid = self._turn(job), job.metadata.uid
        return tuple(
            other.metadata.name
            for other in others
            if other.metadata.uid != uid and self._wants_a_seat(other) and self._turn(other) < turn
        )

    def _wants_a_seat(self, job: PodMigrationJob) -> bool:
        leaving = is_evicting(job.status) and self._is_leaving(job)
        return (is_job_running(job) or leaving) and job.status.pod_ref is None

    def _is_leaving(self, job: PodMigrationJob) -> bool:
        """Whether the pod is there that a job has evicted, as far as it is on its way, or may be."""
        pod, ended = next(iter(self._pods.find("uid", job.spec.pod_ref.uid or "")), None), job_ended_at(job)
        may_be_on_its_way = ended is not None and self._clock.now() - ended < EVICTION_SETTLES_AFTER
        return pod is not None and (is_terminating(pod) or may_be_on_its_way)

    def _turn(self, job: PodMigrationJob) -> tuple[bool, tuple[bool, str, str]]:
        """Whoever may have evicted its pod comes first."""
        evicts = is_evicting(job.status) or job.metadata.uid in self._evicting
        return not evicts, _job_order(job)

    @contextmanager
    def recording_eviction(self, facts: Facts, *, again: bool) -> Iterator[None]:
        """While it is being written down that a job evicts its pod, its rivals for a seat know. Whoever has taken a
        seat by then is not its successor, unless an eviction may have been sent before, and this is done `again`."""
        job = facts.job
        self._evicting.add(job.metadata.uid)
        if facts.reservation is not None and not again and self._jobs.find("uid", job.metadata.uid):
            taken = (one.pod_ref for one in facts.reservation.status.placements or () if one.pod_ref is not None)
            self._seated[job.metadata.uid] = frozenset(one.uid or "" for one in taken)
        try:
            yield
        finally:
            self._evicting.discard(job.metadata.uid)

    def forget(self, job: PodMigrationJob) -> None:
        """A job that is over, or gone."""
        self._seated.pop(job.metadata.uid, None)

    @contextmanager
    def recording_successor(self, job: PodMigrationJob, status: PodMigrationJobStatus) -> Iterator[None]:
        """While it is being written down who took a pod's place, other jobs do not take that one for their own."""
        if status.pod_ref is not None:
            self._taking[job.metadata.uid] = status.pod_ref.uid or ""
        try:
            yield
        finally:
            self._taking.pop(job.metadata.uid, None)


def _is_active(job: PodMigrationJob) -> bool:
    """Whether it moves its pod, or is about to."""
    return not is_job_ended(job) and (is_job_running(job) or not job.spec.paused)


def _job_order(job: PodMigrationJob) -> tuple[bool, str, str]:
    return not is_job_running(job), job.metadata.creation_timestamp or "", job.metadata.name
