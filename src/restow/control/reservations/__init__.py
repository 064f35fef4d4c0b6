"""Garbage collection of reservations. Start reading at `garbage_collector`."""

from restow.control.reservations.garbage_collector import ReservationGarbageCollector
from restow.control.reservations.metrics import ReservationMetrics

__all__ = ["ReservationGarbageCollector", "ReservationMetrics"]
