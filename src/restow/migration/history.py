"""History: what jobs tell about the past, which nobody else remembers.

Goes in: jobs, ended ones too, and the pods as they are. Comes out: how often moving a pod has failed, how often a
workload was moved, and when pods of it were evicted. A job's pod is gone once it was evicted, so who it belonged to is
written on the job (WORKLOAD_ANNOTATION) when it is admitted; without that, the successor tells.
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


def evicted_at(job: PodMigrationJob) -> float | None:
    """When a job's pod was evicted, or, if that was by another hand, when we heard of it; None while it was not."""
    found = find_condition(job.status, JobConditionType.EVICTION)
    if found is None or not is_evicting(job.status):
        return None
    return time_of(found.last_probe_time) or time_of(found.last_transition_time)


class PodLookup(Protocol):
    """The live pods by namespace and name."""

    def get(self, key: tuple[str, str], /) -> Pod | None: ...


def find_pod(pods: PodLookup, reference: ObjectReference | None) -> Pod | None:
    """The very pod that is meant, while it exists."""
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
        """Of how many jobs the successors are not known, by the reservations whose seats they may have taken."""
        self._total: dict[str, int] = {}
        for job in jobs:
            if job.status.phase == JobPhase.FAILED:
                self._failures[job.spec.pod_ref.uid or ""] += 1
            if job.status.phase == JobPhase.SUCCEED or (is_job_ended(job) and self._has_left(job)):
                self._note_move(job)

    def _has_left(self, job: PodMigrationJob) -> bool:
        """Whether a job's pod was evicted, though nobody may have come in its place."""
        if evicted_at(job) is None:
            return False
        pod = find_pod(self._pods, job.spec.pod_ref)
        return pod is None or is_terminating(pod)

    def _note_move(self, job: PodMigrationJob) -> None:
        workload = self.workload_uid(job)
        if workload is None:
            return
        self._moves[workload] += 1
        if job.status.pod_ref is not None:
            self._successors.add(job.status.pod_ref.uid or "")
        else:
            self._expected[reservation_key(job)] += 1

    def workload_uid(self, job: PodMigrationJob) -> str | None:
        """The UID of the workload whose pod a job moves, or moved."""
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
        """How many jobs for this very pod failed."""
        return self._failures[pod.metadata.uid]

    def times_moved(self, workload: str) -> int:
        """How often pods of a workload were moved: by the jobs there are, and by what its pods say of themselves. One
        that was evicted and has not arrived was moved as well."""
        found = self._total.get(workload)
        if found is None:
            told = Counter(
                (seat.namespace, seat.reservation) if (seat := named_seat(pod)) is not None else ("", "")
                for pod in self._workloads.pods_of(workload)
                if MOVED_AT_ANNOTATION in (pod.metadata.annotations or {}) and pod.metadata.uid not in self._successors
            )
            found = self._total[workload] = self._moves[workload] + (told - self._expected).total()
        return found
