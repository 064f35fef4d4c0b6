"""How many jobs each queue has, by phase.

Goes in: the pods of our schedulers, and the PodGroup cache. Comes out: counts for each queue. A PodGroup counts once,
by its phase. A pod without a PodGroup is a job of its own: Pending until it has a node, then Running, then Completed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

import msgspec

from restow.model.objects import Pod, PodGroupPhase
from restow.model.pods import is_finished
from restow.model.queues import DEFAULT_QUEUE
from restow.scheduling.pod_group_cache import PodGroupCache


class JobCounts(msgspec.Struct, frozen=True):
    """The jobs of a queue by phase."""

    pending: int = 0
    inqueue: int = 0
    running: int = 0
    unknown: int = 0
    completed: int = 0

    @property
    def unfinished(self) -> int:
        return self.pending + self.inqueue + self.running + self.unknown


def count_jobs(pods: Iterable[Pod], pod_groups: PodGroupCache) -> dict[str, JobCounts]:
    """The counts of every queue that has jobs."""
    phases: dict[str, Counter[str]] = defaultdict(Counter)
    for group in pod_groups.groups():
        phases[group.spec.queue or DEFAULT_QUEUE][group.status.phase or PodGroupPhase.PENDING] += 1
    for pod in pods:
        if pod_groups.gang_of(pod) is None:
            phases[pod_groups.queue_of(pod)][_phase_of_pod(pod)] += 1
    return {queue: _job_counts(counter) for queue, counter in phases.items()}


def _phase_of_pod(pod: Pod) -> PodGroupPhase:
    if is_finished(pod):
        return PodGroupPhase.COMPLETED
    return PodGroupPhase.RUNNING if pod.spec.node_name else PodGroupPhase.PENDING


def _job_counts(phases: Counter[str]) -> JobCounts:
    known = {phase: phases[phase] for phase in PodGroupPhase}
    return JobCounts(
        pending=known[PodGroupPhase.PENDING],
        inqueue=known[PodGroupPhase.INQUEUE],
        running=known[PodGroupPhase.RUNNING],
        completed=known[PodGroupPhase.COMPLETED],
        # A phase that another controller has invented counts as Unknown, too.
        unknown=phases.total() - sum(known.values()) + known[PodGroupPhase.UNKNOWN],
    )
