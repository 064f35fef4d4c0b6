"""Clearing: which pods leave the nodes that are locked for a Guaranteed queue, by which jobs.

Goes in: the nodes, the pods on them, the jobs there are, and the rules of eviction. Comes out, for a queue: the pods of
other queues that need a job, those that are on their way, those that stay and why; and the jobs that have lost their
purpose. A Best-Effort queue has nothing cleared.

Pods that belong to their node stay and are not counted. A job's name derives from the queue, the pod's UID and how
often it was tried, so that whoever writes it twice writes it once. One that failed is tried again, after a while.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from restow.migration.conditions import is_evicting, is_job_ended, job_ended_at
from restow.model.kinds import POD_MIGRATION_JOB
from restow.model.names import digest, stem
from restow.model.objects import Document, JobMode, JobPhase, JobReason, Pod, PodMigrationJob
from restow.model.pods import stays_with_node
from restow.model.reservations.reservation_annotations import MOVED_FROM_ANNOTATION
from restow.model.snapshot import Snapshot
from restow.model.words import number_of
from restow.queues.node_capacity import occupant_queue
from restow.scheduling.pod_group_cache import PodGroupCache

QUEUE_LABEL: Final = "restow.sh/queue"
"""On a job: the queue that it makes room for; shortened where it is too long for a label."""
ATTEMPT_ANNOTATION: Final = "restow.sh/attempt"
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
_LONGEST_LABEL = 63
_REASONS = 5
"""How many different reasons are told."""
_HELD_UP = frozenset(
    {
        JobReason.FAILED_CREATE_RESERVATION,
        JobReason.FAILED_EVICT,
        JobReason.FORBIDDEN_MIGRATE_POD,
        JobReason.IN_DOUBT,
        JobReason.PAUSED,
        JobReason.STOPPED,
        JobReason.UNSCHEDULABLE,
    }
)
"""Reasons of a job that waits for somebody else."""

WhyNot = Callable[[Pod], str | None]
"""Why a pod may not be moved at all."""


class PodToMove(msgspec.Struct, frozen=True):
    """A pod that is to leave, and for how many times that was tried."""

    pod: Pod
    attempt: int


class ForeignPods(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of the pods of others on a queue's nodes."""

    queue: str
    to_move: tuple[PodToMove, ...] = ()
    """No job moves them yet."""
    moving: int = 0
    blocked_reasons: tuple[str, ...] = ()
    """What those of the moving ones wait for that wait for something."""
    leaving: int = 0
    reserved_seats: int = 0
    """Seats of reservations."""
    staying_reasons: tuple[str, ...] = ()
    """Why the others stay, for each of them."""

    @property
    def counts(self) -> dict[str, int]:
        """By what becomes of them."""
        return {
            "waiting": len(self.to_move),
            "moving": self.moving,
            "leaving": self.leaving,
            "held": self.reserved_seats,
            "staying": len(self.staying_reasons),
        }

    def __str__(self) -> str:
        """One counted sentence; empty if nobody is there."""
        total = len(self.to_move) + self.moving + self.leaving + len(self.staying_reasons)
        seats = (
            f"{number_of(self.reserved_seats, 'seat', 'are')} held there by reservations of other queues"
            if self.reserved_seats
            else ""
        )
        if not total:
            return seats
        counts = (
            (self.moving, "moved by jobs" + (f" ({_counted(self.blocked_reasons)})" if self.blocked_reasons else "")),
            (len(self.to_move), "to be moved"),
            (self.leaving, "leaving"),
        )
        parts = [f"{number} {what}" for number, what in counts if number]
        if self.staying_reasons:
            parts.append(
                f"{len(self.staying_reasons)} stay{'s' if len(self.staying_reasons) == 1 else ''} ({_counted(self.staying_reasons)})"
            )
        said = f"waits for {number_of(total, 'pod')} of other queues to leave: {', '.join(parts)}"
        return "; ".join(filter(None, (said, seats)))


def _counted(reasons: Sequence[str]) -> str:
    """Each with how often, the most frequent first."""
    counts = sorted(Counter(reasons).items(), key=lambda each: (-each[1], each[0]))
    told = [f"{number}: {reason}" for reason, number in counts[:_REASONS]]
    others = sum(number for _, number in counts[_REASONS:])
    return ", ".join([*told, f"{others}: other reasons"] if others else told)


def queue_label(queue: str) -> str:
    if len(queue) <= _LONGEST_LABEL:
        return queue
    told_apart = digest(queue)
    return f"{queue[: _LONGEST_LABEL - len(told_apart) - 1].rstrip('-.')}-{told_apart}"


class JobsByPod:
    """What the jobs there are tell about pods."""

    def __init__(self, jobs: Iterable[PodMigrationJob], now: float, after_failure: float) -> None:
        self._now = now
        self._after_failure = after_failure
        self._of: dict[str, list[PodMigrationJob]] = {}
        for job in jobs:
            self._of.setdefault(job.spec.pod_ref.uid or "", []).append(job)

    def is_moving(self, pod: Pod) -> bool:
        return any(not is_job_ended(job) for job in self._of.get(pod.metadata.uid, ()))

    def blocked_reason(self, pod: Pod) -> str | None:
        """What the job waits for that moves a pod."""
        waiting = [job.status for job in self._of.get(pod.metadata.uid, ()) if not is_job_ended(job)]
        return next((one.message or one.reason for one in waiting if one.reason in _HELD_UP), None)

    def next_attempt(self, pod: Pod, queue: str) -> int:
        """The number of the next try to move a pod for a queue."""
        mine = [job for job in self._of.get(pod.metadata.uid, ()) if queue_label_of(job) == queue_label(queue)]
        return max((_attempt(job) + 1 for job in mine), default=0)

    def recent_failure(self, pod: Pod) -> str | None:
        """What became of a try that ended a short time ago without moving the pod."""
        for job in self._of.get(pod.metadata.uid, ()):
            when = job_ended_at(job)
            in_vain = job.status.phase != JobPhase.SUCCEED and job.status.reason != JobReason.LOCK_RELEASED
            if in_vain and when is not None and self._now - when < self._after_failure:
                return f"could not be moved by a job ({job.status.reason or job.status.phase})"
        return None


def find_foreign_pods(
    queue: str, nodes: Sequence[str], snapshot: Snapshot, roster: PodGroupCache, journal: JobsByPod, why_not: WhyNot
) -> ForeignPods:
    """What becomes of the pods of other queues on these nodes."""
    wanted: list[PodToMove] = []
    staying: list[str] = []
    held_up: list[str] = []
    moving = leaving = held = 0
    for pod, kind in _others(queue, nodes, snapshot, roster):
        if kind == "seat":
            held += 1
        elif kind == "leaving":
            leaving += 1
        elif journal.is_moving(pod):
            moving += 1
            held_up += filter(None, [journal.blocked_reason(pod)])
        elif reason := journal.recent_failure(pod) or why_not(pod):
            staying.append(reason)
        else:
            wanted.append(PodToMove(pod, journal.next_attempt(pod, queue)))
    return ForeignPods(
        queue=queue,
        to_move=tuple(wanted),
        moving=moving,
        blocked_reasons=tuple(held_up),
        leaving=leaving,
        reserved_seats=held,
        staying_reasons=tuple(staying),
    )


def _others(queue: str, nodes: Sequence[str], snapshot: Snapshot, roster: PodGroupCache) -> Iterator[tuple[Pod, str]]:
    for node in nodes:
        for one in snapshot.occupants(node):
            if stays_with_node(one.pod) or occupant_queue(one, snapshot, roster) == queue:
                continue
            yield one.pod, "seat" if one.ledger == "reserved" else "leaving" if one.leaving else "pod"


def obsolete_jobs(jobs: Iterable[PodMigrationJob], cleared: Mapping[str, Sequence[str]]) -> list[PodMigrationJob]:
    """The jobs, made for queues, of pods on nodes that are not to be cleared for them any more: those that have not
    begun to evict. `cleared` are the nodes by queue."""
    labels = {queue_label(queue): frozenset(nodes) for queue, nodes in cleared.items()}
    found = []
    for job in sorted(jobs, key=lambda one: one.metadata.name):
        label = queue_label_of(job)
        if label is None or is_job_ended(job) or is_evicting(job.status) or not job.metadata.resource_version:
            continue  # the last: nobody knows whether it exists
        if (job.metadata.annotations or {}).get(MOVED_FROM_ANNOTATION) not in labels.get(label, ()):
            found.append(job)
    return found


def queue_label_of(job: PodMigrationJob) -> str | None:
    """The label of the queue that a job makes room for."""
    return (job.metadata.labels or {}).get(QUEUE_LABEL)


def migration_job_document(queue: str, wanted: PodToMove, pods_queue: str) -> Document:
    """The job that moves a pod away; its seat is its own queue's."""
    meta, source = wanted.pod.metadata, wanted.pod.spec.node_name or ""
    return {
        "apiVersion": POD_MIGRATION_JOB.api_version,
        "kind": POD_MIGRATION_JOB.kind,
        "metadata": {
            "name": f"{stem(queue, 'queue')}-{digest(f'{queue}/{meta.uid}/{wanted.attempt}')}",
            "labels": {QUEUE_LABEL: queue_label(queue)},
            "annotations": {MOVED_FROM_ANNOTATION: source, ATTEMPT_ANNOTATION: str(wanted.attempt)},
        },
        "spec": {
            "podRef": {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid},
            "mode": JobMode.RESERVATION_FIRST.value,
            "reservationOptions": {"template": {"spec": {"queue": pods_queue}}},
        },
    }


def _attempt(job: PodMigrationJob) -> int:
    text = (job.metadata.annotations or {}).get(ATTEMPT_ANNOTATION, "")
    return int(text) if _NUMBER.fullmatch(text) else 0
