"""Garbage collection of reservations. Start reading at `collector`."""

from restow.control.reservations.collector import Collector
from restow.control.reservations.metrics import Metrics

__all__ = ["Collector", "Metrics"]
