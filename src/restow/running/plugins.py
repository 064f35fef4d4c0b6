"""Finds the plugins that installed packages register through entry points."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from restow.planning.descheduling.framework import Plugin
from restow.planning.descheduling.registry import ENTRY_POINTS as DESCHEDULER_GROUP
from restow.planning.descheduling.registry import descheduler_plugins
from restow.scheduling.registry import ENTRY_POINTS as SCHEDULER_GROUP


def scheduling_plugins() -> dict[str, EntryPoint]:
    """The entry points of scheduling plugins by name; none is loaded yet."""
    return {point.name: point for point in entry_points(group=SCHEDULER_GROUP)}


def descheduling_plugins() -> dict[str, Plugin]:
    """All descheduling plugins by name, including the built-in ones. Raises WireError for a plugin that cannot be
    used."""
    return descheduler_plugins(entry_points(group=DESCHEDULER_GROUP))
