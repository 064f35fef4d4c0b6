"""Finds plugins of others through entry points."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from restow.planning.descheduling.framework import Plugin
from restow.planning.descheduling.registry import ENTRY_POINTS as OF_THE_DESCHEDULER
from restow.planning.descheduling.registry import plugins
from restow.scheduling.registry import ENTRY_POINTS as OF_THE_SCHEDULER


def scheduling_plugins() -> dict[str, EntryPoint]:
    """By name; none is loaded yet."""
    return {point.name: point for point in entry_points(group=OF_THE_SCHEDULER)}


def descheduling_plugins() -> dict[str, Plugin]:
    """Every plugin by name, the built-in ones as well. Raises WireError for one that cannot be used."""
    return plugins(entry_points(group=OF_THE_DESCHEDULER))
