"""The pods of other queues on the nodes that are locked for a Guaranteed queue: which of them leave, by which jobs.

Goes in: the nodes, the pods on them, the jobs that exist, and the rules of eviction. Comes out, for a queue: the
foreign pods that need a job, those that are moved already, and those that stay, with the reason; and the jobs that are
obsolete. For a Best-Effort queue no pod is moved.

Pods that belong to their node (DaemonSet and static pods) stay and are not counted. The name of a job is a digest of
the queue, the pod's UID and the number of the attempt, so that creating it twice creates it once. After a
job has failed, the pod gets another one after a while.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

import msgspec

from restow.migration.conditions import is_evicting, is_job_ended, job_ended_at
from restow.model.counted_nouns import counted_noun
from restow.model.kinds import POD_MIGRATION_JOB
from restow.model.names import name_stem, short_digest
from restow.model.objects import Document, JobMode, JobPhase, JobReason, Pod, PodMigrationJob
from restow.model.pods import stays_with_node
from restow.model.reservations.reservation_annotations import MOVED_FROM_ANNOTATION
from restow.model.snapshot import Snapshot
from restow.queues.node_capacity import occupant_queue
from restow.scheduling.pod_group_cache import PodGroupCache

QUEUE_LABEL: Final = "restow.sh/queue"
"""On a job: the queue that it makes room for; shortened if it is too long for a label."""
ATTEMPT_ANNOTATION: Final = "restow.sh/attempt"
_ATTEMPT = re.compile(r"[0-9]{1,9}", re.ASCII)
_MAX_LABEL_LENGTH = 63
_MAX_REASONS = 5
"""How many different reasons one sentence shows."""
_BLOCKED_REASONS = frozenset(
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
"""The reasons of a job that cannot go on by itself."""

RefusalReason = Callable[[Pod], str | None]
"""Why a pod may never be moved; None if it may."""


class PodToMove(msgspec.Struct, frozen=True):
    """A pod that has to leave, and the number of the attempt to move it, from 0."""

    pod: Pod
    attempt: int


class ForeignPods(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of other queues on the locked nodes of a queue."""

    queue: str
    to_move: tuple[PodToMove, ...] = ()
    """They have no job yet."""
    moving: int = 0
    blocked_reasons: tuple[str, ...] = ()
    """Why a job is blocked, for each of the moving pods with a blocked job."""
    leaving: int = 0
    reserved_seats: int = 0
    """Seats that reservations of other queues hold."""
    staying_reasons: tuple[str, ...] = ()
    """For each pod that stays: why."""

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of pods and seats, by what becomes of them."""
        return {
            "waiting": len(self.to_move),
            "moving": self.moving,
            "leaving": self.leaving,
            "held": self.reserved_seats,
            "staying": len(self.staying_reasons),
        }

    def __str__(self) -> str:
        """One counted sentence; empty if no foreign pod or seat is there."""
        staying = len(self.staying_reasons)
        total = len(self.to_move) + self.moving + self.leaving + staying
        seats = f"{counted_noun(self.reserved_seats, 'seat', 'are')} held there by reservations of other queues"
        if not total:
            return seats if self.reserved_seats else ""
        blocked = f" ({_count_reasons(self.blocked_reasons)})" if self.blocked_reasons else ""
        counts = (
            (self.moving, f"moved by jobs{blocked}"),
            (len(self.to_move), "to be moved"),
            (self.leaving, "leaving"),
            (staying, f"stay{'s' if staying == 1 else ''} ({_count_reasons(self.staying_reasons)})"),
        )
        parts = ", ".join(f"{number} {outcome}" for number, outcome in counts if number)
        sentence = f"waits for {counted_noun(total, 'pod')} of other queues to leave: {parts}"
        return f"{sentence}; {seats}" if self.reserved_seats else sentence


def _count_reasons(reasons: Sequence[str]) -> str:
    """Each reason with its number, the most frequent first."""
    counts = sorted(Counter(reasons).items(), key=lambda counted: (-counted[1], counted[0]))
    parts = [f"{number}: {reason}" for reason, number in counts[:_MAX_REASONS]]
    others = sum(number for _, number in counts[_MAX_REASONS:])
    return ", ".join([*parts, f"{others}: other reasons"] if others else parts)


def queue_label(queue: str) -> str:
    """A queue as the value of a label: a long name is cut, and a digest tells it apart."""
    if len(queue) <= _MAX_LABEL_LENGTH:
        return queue
    suffix = short_digest(queue)
    return f"{queue[: _MAX_LABEL_LENGTH - len(suffix) - 1].rstrip('-.')}-{suffix}"


class JobsByPod:
    """The jobs that exist, by the UID of their pod."""

    def __init__(self, jobs: Iterable[PodMigrationJob], now: float, retry_failed_after: float) -> None:
        self._now = now
        self._retry_failed_after = retry_failed_after
        self._jobs: dict[str, list[PodMigrationJob]] = {}
        for job in jobs:
            self._jobs.setdefault(job.spec.pod_ref.uid or "", []).append(job)

    def _jobs_of(self, pod: Pod) -> Sequence[PodMigrationJob]:
        return self._jobs.get(pod.metadata.uid, ())

    def is_moving(self, pod: Pod) -> bool:
        return any(not is_job_ended(job) for job in self._jobs_of(pod))

    def blocked_reason(self, pod: Pod) -> str | None:
        """Why the job that moves a pod is blocked; None if it is not."""
        live = [job.status for job in self._jobs_of(pod) if not is_job_ended(job)]
        return next((status.message or status.reason for status in live if status.reason in _BLOCKED_REASONS), None)

    def next_attempt(self, pod: Pod, queue: str) -> int:
        """The number of the next attempt to move a pod for a queue."""
        earlier = [job for job in self._jobs_of(pod) if queue_label_of(job) == queue_label(queue)]
        return max((_attempt_of(job) + 1 for job in earlier), default=0)

    def recent_failure(self, pod: Pod) -> str | None:
        """Why a job that ended a short time ago did not move the pod; None if there is no such job."""
        for job in self._jobs_of(pod):
            ended_at = job_ended_at(job)
            has_failed = job.status.phase != JobPhase.SUCCEED and job.status.reason != JobReason.LOCK_RELEASED
            if has_failed and ended_at is not None and self._now - ended_at < self._retry_failed_after:
                return f"could not be moved by a job ({job.status.reason or job.status.phase})"
        return None


def find_foreign_pods(
    queue: str,
    nodes: Sequence[str],
    snapshot: Snapshot,
    pod_groups: PodGroupCache,
    jobs: JobsByPod,
    refusal_reason: RefusalReason,
) -> ForeignPods:
    """What becomes of the pods of other queues on these nodes."""
    to_move: list[PodToMove] = []
    staying_reasons: list[str] = []
    blocked_reasons: list[str] = []
    moving = leaving = reserved_seats = 0
    for pod, state in _foreign_occupants(queue, nodes, snapshot, pod_groups):
        if state == "seat":
            reserved_seats += 1
        elif state == "leaving":
            leaving += 1
        elif jobs.is_moving(pod):
            moving += 1
            blocked_reasons += filter(None, [jobs.blocked_reason(pod)])
        elif reason := jobs.recent_failure(pod) or refusal_reason(pod):
            staying_reasons.append(reason)
        else:
            to_move.append(PodToMove(pod, jobs.next_attempt(pod, queue)))
    return ForeignPods(
        queue=queue,
        to_move=tuple(to_move),
        moving=moving,
        blocked_reasons=tuple(blocked_reasons),
        leaving=leaving,
        reserved_seats=reserved_seats,
        staying_reasons=tuple(staying_reasons),
    )


def _foreign_occupants(
    queue: str, nodes: Sequence[str], snapshot: Snapshot, pod_groups: PodGroupCache
) -> Iterator[tuple[Pod, Literal["seat", "leaving", "running"]]]:
    for node in nodes:
        for occupant in snapshot.occupants(node):
            if stays_with_node(occupant.pod) or occupant_queue(occupant, snapshot, pod_groups) == queue:
                continue
            if occupant.ledger == "reserved":
                yield occupant.pod, "seat"
            else:
                yield occupant.pod, "leaving" if occupant.leaving else "running"


def obsolete_jobs(jobs: Iterable[PodMigrationJob], cleared_nodes: Mapping[str, Sequence[str]]) -> list[PodMigrationJob]:
    """The jobs of this controller for pods on nodes that are not to be cleared any more, if they have not begun to
    evict. `cleared_nodes` are the nodes by queue."""
    nodes_by_label = {queue_label(queue): frozenset(nodes) for queue, nodes in cleared_nodes.items()}
    obsolete = []
    for job in sorted(jobs, key=lambda job: job.metadata.name):
        label = queue_label_of(job)
        if label is None or is_job_ended(job) or is_evicting(job.status):
            continue
        if not job.metadata.resource_version:  # noted after a create without an answer: it may not exist
            continue
        if (job.metadata.annotations or {}).get(MOVED_FROM_ANNOTATION) not in nodes_by_label.get(label, ()):
            obsolete.append(job)
    return obsolete


def queue_label_of(job: PodMigrationJob) -> str | None:
    """The label of the queue that a job makes room for; None for jobs of others."""
    return (job.metadata.labels or {}).get(QUEUE_LABEL)


def migration_job_document(queue: str, to_move: PodToMove, queue_of_pod: str) -> Document:
    """The job that moves a pod away. The pod's seat elsewhere is charged to the pod's own queue."""
    meta, source = to_move.pod.metadata, to_move.pod.spec.node_name or ""
    return {
        "apiVersion": POD_MIGRATION_JOB.api_version,
        "kind": POD_MIGRATION_JOB.kind,
        "metadata": {
            "name": f"{name_stem(queue, 'queue')}-{short_digest(f'{queue}/{meta.uid}/{to_move.attempt}')}",
            "labels": {QUEUE_LABEL: queue_label(queue)},
            "annotations": {MOVED_FROM_ANNOTATION: source, ATTEMPT_ANNOTATION: str(to_move.attempt)},
        },
        "spec": {
            "podRef": {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid},
            "mode": JobMode.RESERVATION_FIRST.value,
            "reservationOptions": {"template": {"spec": {"queue": queue_of_pod}}},
        },
    }


def _attempt_of(job: PodMigrationJob) -> int:
    text = (job.metadata.annotations or {}).get(ATTEMPT_ANNOTATION, "")
    return int(text) if _ATTEMPT.fullmatch(text) else 0
