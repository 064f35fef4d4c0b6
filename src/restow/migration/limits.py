"""Limits: how many pods may migrate at once, and how many replicas of a workload may be unavailable.

Goes in: what is configured, and how many replicas there are. Comes out: the largest number that is allowed. The default
ladder is Koordinator's GetMaxUnavailable and GetMaxMigrating.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from restow.model.int_or_percent import scaled_int_or_percent

FEW: Final = 4
"""From so many replicas on, two may be unavailable by default."""
MANY: Final = 10
"""Above so many replicas, a share of them may be."""
SHARE: Final = "10%"


class EvictionWindow(msgspec.Struct, frozen=True):
    """At most `max_evictions` within any `seconds`; None for as many as may migrate at once."""

    seconds: float
    max_evictions: int | str | None = None


class MigrationLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What is configured. None for no limit of one's own; for the counts of pods 0 is no limit either, as upstream."""

    globally: int | None = None
    per_node: int | None = 2
    per_namespace: int | None = None
    per_workload: int | str | None = None
    """Pods of one workload that may migrate at once."""
    unavailable_per_workload: int | str | None = None
    """Replicas of one workload that may be unavailable, for any reason."""
    check_per_workload: bool = True
    check_unavailable: bool = True
    refuse_small_workloads: bool = False
    """Refuse workloads all of whose replicas could migrate, or be unavailable, at once."""
    workload_window: EvictionWindow | None = None
    namespace_window: EvictionWindow | None = None


def max_unavailable(replicas: int, configured: int | str | None) -> int:
    """How many of so many replicas may be unavailable: what is configured, rounded up, else the default ladder."""
    if configured is not None:
        return scaled_int_or_percent(configured, replicas, up=True)
    if replicas > MANY:
        return scaled_int_or_percent(SHARE, replicas, up=True)
    return 2 if replicas >= FEW else 1


def workload_limit(limits: MigrationLimits) -> Callable[[int, bool], int | None]:
    """A function from the replicas of a workload, and whether a budget covers it, to how many of its pods may migrate
    at once; None for any number. The default ladder applies only where there is no budget."""
    checked = [limits.per_workload] if limits.check_per_workload else []
    checked += [limits.unavailable_per_workload] if limits.check_unavailable else []

    def most_at_once(replicas: int, has_budget: bool) -> int | None:
        applied = (configured for configured in checked if configured is not None or not has_budget)
        return min((max_unavailable(replicas, configured) for configured in applied), default=None)

    return most_at_once


def max_evicted_in_window(replicas: int, window: EvictionWindow, limits: MigrationLimits) -> int:
    """How many of so many replicas may be evicted within a window; a configured 0 counts as not configured."""
    return max_unavailable(
        replicas, window.max_evictions if window.max_evictions not in (None, 0, "0%") else limits.per_workload
    )


def too_few_replicas(replicas: int, limits: MigrationLimits) -> str | None:
    """Why a workload is too small to be moved, if small workloads are refused."""
    if not limits.refuse_small_workloads:
        return None
    if replicas == 1:
        return "its workload has a single replica"
    for name, configured in (
        ("maxMigratingPerWorkload", limits.per_workload),
        ("maxUnavailablePerWorkload", limits.unavailable_per_workload),
    ):
        most = max_unavailable(replicas, configured)
        if most >= replicas:
            return f"all {replicas} replicas of its workload could be unavailable at once: {name} allows {most}"
    return None
