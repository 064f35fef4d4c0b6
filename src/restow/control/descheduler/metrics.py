"""The metrics of the descheduler; the names that start with descheduler_ are upstream's."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class DeschedulerMetrics:
    """Without a registry, nothing is exported."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._evicted = Counter(
            "descheduler_pods_evicted",
            "Number of pods that jobs of plans have evicted, or failed to evict.",
            ("result", "strategy", "profile", "namespace", "node"),
            registry=registry,
        )
        self._loops = Histogram(
            "descheduler_loop_duration_seconds",
            "How long a cycle took until its jobs were created.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._strategies = Histogram(
            "descheduler_strategy_duration_seconds",
            "How long a plugin took to plan.",
            ("strategy", "profile"),
            buckets=_SECONDS,
            registry=registry,
        )
        self._planned = Counter(
            "restow_descheduler_moves_planned",
            "Number of moves that jobs were created for.",
            ("strategy", "profile"),
            registry=registry,
        )
        self._cycles = Counter(
            "restow_descheduler_cycles",
            "Number of cycles, by how they ended.",
            ("profile", "result"),
            registry=registry,
        )
        self._readings = Counter(
            "restow_descheduler_use_readings",
            "Number of readings of usage, by source and by whether the samples were fresh, stale in part, or missing.",
            ("source", "result"),
            registry=registry,
        )

    def pod_evicted(self, result: str, strategy: str, profile: str, namespace: str, node: str) -> None:
        self._evicted.labels(result, strategy, profile, namespace, node).inc()

    def cycle_duration(self, seconds: float) -> None:
        self._loops.observe(seconds)

    def plugin_duration(self, strategy: str, profile: str, seconds: float) -> None:
        self._strategies.labels(strategy, profile).observe(seconds)

    def move_planned(self, strategy: str, profile: str) -> None:
        self._planned.labels(strategy, profile).inc()

    def cycle_ended(self, profile: str, result: str) -> None:
        self._cycles.labels(profile, result).inc()

    def usage_reading(self, source: str, result: str) -> None:
        self._readings.labels(source, result).inc()
