"""Garbage collection of reservations. Start reading at `collector`."""

from restow.control.reservations.collector import Collector

__all__ = ["Collector"]
