"""What the scheduler counts and measures, under the names that kube-scheduler's dashboards know."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"
_BUCKETS = tuple(0.0001 * 2**power for power in range(16))


class SchedulerMetrics:
    """Without a registry nobody sees them."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._attempts = Counter(
            "scheduler_schedule_attempts",
            "Number of attempts to schedule pods, by the result.",
            ("result", "profile"),
            registry=registry,
        )
        self._durations = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "How long deciding about a pod took, its part of its session.",
            ("result", "profile"),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._pending = Gauge(
            "scheduler_pending_pods", "Number of pods that wait, by where they wait.", ("queue",), registry=registry
        )

    def attempt(self, result: str, profile: str, seconds: float) -> None:
        """A pod was decided about."""
        self._attempts.labels(result, profile).inc()
        self._durations.labels(result, profile).observe(seconds)

    def pending(self, queue: str, count: Callable[[], float]) -> None:
        """How many pods wait in a place is asked for when somebody looks."""
        self._pending.labels(queue).set_function(count)
