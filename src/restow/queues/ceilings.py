"""Ceilings: how much of the cluster guarantees may take, whatever they ask for (see `model.guarantees`).

Goes in: what a guarantee asks for, what the cluster has, what the guarantees accepted before it took. Comes out: a
`Rejection` with its numbers where that is above the ceiling of its queue, or of the cluster; nothing is clamped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from restow.model.guarantees import Asked, Cluster, Reason, Rejection, above
from restow.model.resources import Vector

DEFAULT_CEILING: Final = 50
_EMPTY: Mapping[str, int] = {}

Ceiling = int | Mapping[str, int]
"""In percent of what the cluster has: of every dimension, or by dimension, where others have the default."""


class Ceilings(msgspec.Struct, frozen=True):
    """How much of the cluster guarantees may take."""

    cluster: Ceiling = DEFAULT_CEILING
    """All queues together."""
    queue: Ceiling = DEFAULT_CEILING
    """One queue, unless it is named below."""
    queues: Mapping[str, Ceiling] = msgspec.field(default_factory=dict)

    def of(self, name: str) -> Ceiling:
        """The ceiling of one queue."""
        return self.queues.get(name, self.queue)


def percent(ceiling: Ceiling, dimension: str) -> int:
    return ceiling if isinstance(ceiling, int) else ceiling.get(dimension, DEFAULT_CEILING)


def lowest(ceiling: Ceiling) -> int:
    """What a share of everything may be at most: no dimension is above its ceiling then."""
    return ceiling if isinstance(ceiling, int) else min((DEFAULT_CEILING, *ceiling.values()))


def over_ceiling(
    name: str, asked: Asked, cluster: Cluster, ceilings: Ceilings, taken: Vector = _EMPTY
) -> Rejection | None:
    """Why a request is above its queue's ceiling, or above the cluster's with what is `taken` already."""
    own, all_of_them = ceilings.of(name), ceilings.cluster
    return above(
        Reason.ABOVE_QUEUE_CEILING,
        f"is above the ceiling of {_written(own)} of the cluster for queue {name}",
        asked.amounts,
        limits_of(own, cluster),
        "limit",
    ) or above(
        Reason.ABOVE_CLUSTER_CEILING,
        f"is above the ceiling of {_written(all_of_them)} of the cluster for all guarantees",
        asked.amounts,
        limits_of(all_of_them, cluster),
        "limit",
        taken,
    )


def limits_of(ceiling: Ceiling, cluster: Cluster) -> Vector:
    """What a ceiling comes to in a cluster."""
    return {each: total * percent(ceiling, each) // 100 for each, total in cluster.totals.items()}


def _written(ceiling: Ceiling) -> str:
    if isinstance(ceiling, int):
        return f"{ceiling}%"
    named = [f"{ceiling[each]}% {each}" for each in sorted(ceiling)]
    return ", ".join([*named, f"{DEFAULT_CEILING}% of anything else"])
