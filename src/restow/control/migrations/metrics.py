"""What the migration controller counts and measures."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

EVICTED, REFUSED, UNKNOWN, DRY_RUN = "evicted", "refused", "unknown", "dry-run"
_SECONDS = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)


class MigrationMetrics:
    """Without a registry they are counted and not exported."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._ended = Counter(
            "restow_migration_jobs_ended",
            "Number of jobs that ended, by how and why.",
            ("phase", "reason"),
            registry=registry,
        )
        self._durations = Histogram(
            "restow_migration_job_duration_seconds",
            "How long jobs took from admission to the end, pauses left out.",
            ("phase",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._evictions = Counter(
            "restow_migration_evictions",
            "Number of evictions asked for, by the answer.",
            ("result",),
            registry=registry,
        )
        self._swept = Counter(
            "restow_migration_reservations_swept", "Number of reservations whose job was deleted.", registry=registry
        )
        self._jobs = Gauge("restow_migration_jobs", "Number of jobs, by their phase.", ("phase",), registry=registry)
        self._stopped = Gauge(
            "restow_migration_stopped", "Whether the stop switch keeps pods from being evicted.", registry=registry
        )

    def job_ended(self, phase: str, reason: str, seconds: float) -> None:
        self._ended.labels(phase, reason).inc()
        self._durations.labels(phase).observe(seconds)

    def eviction(self, result: str) -> None:
        self._evictions.labels(result).inc()

    def reservation_deleted(self) -> None:
        self._swept.inc()

    def observe_jobs(self, phase: str, count: Callable[[], float]) -> None:
        """The number of jobs is counted when the metrics are scraped."""
        self._jobs.labels(phase).set_function(count)

    def observe_stop_switch(self, is_stopped: Callable[[], float]) -> None:
        self._stopped.set_function(is_stopped)
