"""The metrics of the queue controller."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from restow.control.queues.foreign_pods import ForeignPods
from restow.queues.node_locks import GuaranteeDecision, GuaranteeState

_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class QueueMetrics:
    """Without a registry, nothing is exported."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._nodes = Gauge(
            "restow_queue_locked_nodes", "Number of nodes that are locked for a queue.", ("queue",), registry=registry
        )
        self._satisfied = Gauge(
            "restow_queue_guarantee_satisfied",
            "Whether the locked nodes of a queue satisfy its guarantee.",
            ("queue",),
            registry=registry,
        )
        self._gap = Gauge(
            "restow_queue_lock_gap_ratio",
            "Upper bound of the excess cost of a queue's locked nodes over the best choice, as a part of the cost.",
            ("queue",),
            registry=registry,
        )
        self._foreign_pods = Gauge(
            "restow_queue_foreign_pods",
            "Number of pods of other queues on the locked nodes of a Guaranteed queue, by what becomes of them.",
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
            "How long it took to decide which nodes are locked for which queue.",
            buckets=_SECONDS,
            registry=registry,
        )

    def pass_decided(
        self, locks: Mapping[str, GuaranteeDecision], foreign_pods: Mapping[str, ForeignPods], seconds: float
    ) -> None:
        """Show what a pass has decided. Queues that are gone are not shown any more."""
        for gauge in (self._nodes, self._satisfied, self._gap, self._foreign_pods):
            gauge.clear()
        for queue, lock in locks.items():
            self._nodes.labels(queue).set(len(lock.nodes))
            self._satisfied.labels(queue).set(lock.state is GuaranteeState.SATISFIED)
            self._gap.labels(queue).set(lock.gap)
        for queue, pods in foreign_pods.items():
            for state, number in pods.counts.items():
                self._foreign_pods.labels(queue, state).set(number)
        self._seconds.observe(seconds)

    def job_created(self) -> None:
        self._jobs.labels("created").inc()

    def job_aborted(self) -> None:
        self._jobs.labels("aborted").inc()
