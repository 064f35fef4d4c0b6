"""What the scheduler counts and measures, under the names that kube-scheduler's dashboards know."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"
_BUCKETS = tuple(0.0001 * 2**power for power in range(16))


class SchedulerMetrics:
    """Without a registry they are counted and not exposed."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._attempts = Counter(
            "scheduler_schedule_attempts",
            "Number of attempts to schedule pods, by the result.",
            ("result", "profile"),
            registry=registry,
        )
        self._durations = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Duration of a scheduling attempt: the share of one pod in its session.",
            ("result", "profile"),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._pending = Gauge(
            "scheduler_pending_pods",
            "Number of pending pods, by the part of the scheduling queue.",
            ("queue",),
            registry=registry,
        )

    def record_attempt(self, result: str, profile: str, seconds: float) -> None:
        """An attempt to schedule a pod has ended; `seconds` is its share of the session."""
        self._attempts.labels(result, profile).inc()
        self._durations.labels(result, profile).observe(seconds)

    def set_pending_pods(self, queue: str, count: Callable[[], float]) -> None:
        """Let `count` give the number of pods in a part of the scheduling queue whenever the metrics are scraped."""
        self._pending.labels(queue).set_function(count)
