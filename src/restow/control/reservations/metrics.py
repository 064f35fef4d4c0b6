"""Metrics of reservations, counted whenever they are scraped."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge


class ReservationMetrics:
    """Without a registry they are counted and not exposed."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._reservations = Gauge(
            "restow_reservations", "Number of reservations, by their phase.", ("phase",), registry=registry
        )
        self._seats = Gauge(
            "restow_reservation_seats",
            "Number of seats of reservations that have not ended: pending, available or taken (consumed).",
            ("state",),
            registry=registry,
        )
        self._collected = Counter(
            "restow_reservations_collected", "Number of ended reservations that were deleted.", registry=registry
        )

    def set_reservation_count(self, phase: str, count: Callable[[], float]) -> None:
        self._reservations.labels(phase).set_function(count)

    def set_seat_count(self, state: str, count: Callable[[], float]) -> None:
        self._seats.labels(state).set_function(count)

    def record_collected(self) -> None:
        self._collected.inc()
