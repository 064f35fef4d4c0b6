"""Migration history: how often pods were moved, by the jobs that moved them; it is stored nowhere else.

Goes in: jobs, ended ones too, and the pods as they are. Comes out: how many jobs failed for a pod, how often a workload
was moved, and when pods of it were evicted. A job's pod is gone once it was evicted, so the UID of its workload is
recorded on the job (WORKLOAD_ANNOTATION) before its admission; without that, the successor's workload counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from restow.eviction.workloads import Workloads
from restow.migration.conditions import find_condition, is_evicting, is_job_ended
from restow.migration.reservation import reservation_key
from restow.model.object_key import Key
from restow.model.objects import JobConditionType, JobPhase, ObjectReference, Pod, PodMigrationJob
from restow.model.pods import is_terminating
from restow.model.reservations.reservation_annotations import MOVED_AT_ANNOTATION, named_seat
from restow.model.times import time_of

WORKLOAD_ANNOTATION = "restow.sh/workload"
"""On a job: the UID of the workload that its pod is a replica of."""


def eviction_intended_at(job: PodMigrationJob) -> float | None:
    """When a job's eviction was sent, as recorded, or, if another client deleted the pod, when that was seen; None if
    the pod was not evicted."""
    condition = find_condition(job.status, JobConditionType.EVICTION)
    if condition is None or not is_evicting(job.status):
        return None
    return time_of(condition.last_probe_time) or time_of(condition.last_transition_time)


class PodLookup(Protocol):
    """The live pods by namespace and name."""

    def get(self, key: tuple[str, str], /) -> Pod | None: ...


def find_pod(pods: PodLookup, reference: ObjectReference | None) -> Pod | None:
    """The pod with the UID of a reference, while it exists."""
    if reference is None or not reference.uid:
        return None
    pod = pods.get((reference.namespace or "", reference.name or ""))
    return pod if pod is not None and pod.metadata.uid == reference.uid else None


class MigrationHistory:
    def __init__(self, jobs: Iterable[PodMigrationJob], pods: PodLookup, workloads: Workloads) -> None:
        self._pods = pods
        self._workloads = workloads
        self._failures: Counter[str] = Counter()
        self._moves: Counter[str] = Counter()
        self._successors: set[str] = set()
        self._expected: Counter[Key] = Counter()
        """How many jobs have a successor that is not known, by the reservation of which it may have taken a seat."""
        self._total: dict[str, int] = {}
        for job in jobs:
            if job.status.phase == JobPhase.FAILED:
                self._failures[job.spec.pod_ref.uid or ""] += 1
            if job.status.phase == JobPhase.SUCCEED or (is_job_ended(job) and self._has_left(job)):
                self._count_move(job)

    def _has_left(self, job: PodMigrationJob) -> bool:
        """Whether a job's pod was evicted, whether it has a successor or not."""
        if eviction_intended_at(job) is None:
            return False
        pod = find_pod(self._pods, job.spec.pod_ref)
        return pod is None or is_terminating(pod)

    def _count_move(self, job: PodMigrationJob) -> None:
        workload = self.workload_uid(job)
        if workload is None:
            return
        self._moves[workload] += 1
        if job.status.pod_ref is not None:
            self._successors.add(job.status.pod_ref.uid or "")
        else:
            self._expected[reservation_key(job)] += 1

    def workload_uid(self, job: PodMigrationJob) -> str | None:
        """The UID of the workload that a job's pod is, or was, a replica of."""
        written = (job.metadata.annotations or {}).get(WORKLOAD_ANNOTATION)
        if written:
            return written
        for reference in (job.spec.pod_ref, job.status.pod_ref):
            pod = find_pod(self._pods, reference)
            workload = self._workloads.workload_of(pod) if pod else None
            if workload is not None:
                return workload.uid
        return None

    def failed_jobs(self, pod: Pod) -> int:
        """How many jobs for the pod with this UID failed."""
        return self._failures[pod.metadata.uid]

    def times_moved(self, workload: str) -> int:
        """How often pods of a workload were moved: by the jobs that exist and, for jobs that are deleted, by the
        annotations of its pods. A pod that was evicted and has no successor yet was moved as well."""
        total = self._total.get(workload)
        if total is None:
            annotated = Counter(
                (seat.namespace, seat.reservation) if (seat := named_seat(pod)) is not None else ("", "")
                for pod in self._workloads.pods_of(workload)
                if MOVED_AT_ANNOTATION in (pod.metadata.annotations or {}) and pod.metadata.uid not in self._successors
            )
            # A pod that says it was moved may be the successor of a job that does not name one: that is one move.
            total = self._total[workload] = self._moves[workload] + (annotated - self._expected).total()
        return total
