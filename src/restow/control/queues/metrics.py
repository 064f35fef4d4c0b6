"""What the queue controller counts and measures."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from restow.control.queues.foreign_pods import ForeignPods
from restow.queues.node_locks import GuaranteeState, QueueLock

_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class QueueMetrics:
    """Without a registry nobody sees them."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._nodes = Gauge(
            "restow_queue_locked_nodes", "Number of nodes that are locked for a queue.", ("queue",), registry=registry
        )
        self._satisfied = Gauge(
            "restow_queue_guarantee_satisfied",
            "Whether what is locked for a queue is enough for its guarantee.",
            ("queue",),
            registry=registry,
        )
        self._gap = Gauge(
            "restow_queue_lock_gap_ratio",
            "How much of the cost of what is locked for a queue may be more than the best choice would cost, at most.",
            ("queue",),
            registry=registry,
        )
        self._foreign = Gauge(
            "restow_queue_foreign_pods",
            "Number of pods of other queues on nodes that are locked for a Guaranteed queue, by what becomes of them.",
            ("queue", "state"),
            registry=registry,
        )
        self._jobs = Counter(
            "restow_queue_jobs",
            "Number of jobs that were created, or aborted, for a queue.",
            ("result",),
            registry=registry,
        )
        self._seconds = Histogram(
            "restow_queue_relock_duration_seconds",
            "How long it took to decide what is locked for whom.",
            buckets=_SECONDS,
            registry=registry,
        )

    def pass_decided(
        self, locks: Mapping[str, QueueLock], clearings: Mapping[str, ForeignPods], seconds: float
    ) -> None:
        """What a pass decided; queues that are gone are no longer shown."""
        for gauge in (self._nodes, self._satisfied, self._gap, self._foreign):
            gauge.clear()
        for queue, lock in locks.items():
            self._nodes.labels(queue).set(len(lock.nodes))
            self._satisfied.labels(queue).set(lock.state is GuaranteeState.SATISFIED)
            self._gap.labels(queue).set(lock.gap)
        for queue, clearing in clearings.items():
            for state, number in clearing.counts.items():
                self._foreign.labels(queue, state).set(number)
        self._seconds.observe(seconds)

    def job_changed(self, result: str) -> None:
        self._jobs.labels(result).inc()
