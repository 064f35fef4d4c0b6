"""Ceilings: how much of the cluster guarantees may take, whatever they ask for (see `model.guarantees`).

Goes in: what a guarantee asks for, what the cluster has, what the guarantees accepted before it took. Comes out: a
`Rejection` with its numbers where that is above the ceiling of its queue, or of the cluster; nothing is clamped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from restow.model.guarantees import (
    ClusterCapacity,
    GuaranteeRejection,
    GuaranteeRequest,
    RejectionReason,
    rejection_above,
)
from restow.model.resources import Vector

DEFAULT_CEILING: Final = 50
_EMPTY: Mapping[str, int] = {}

Ceiling = int | Mapping[str, int]
"""In percent of what the cluster has: of every dimension, or by dimension, where others have the default."""


class GuaranteeCeilings(msgspec.Struct, frozen=True):
    """How much of the cluster guarantees may take."""

    all_queues: Ceiling = DEFAULT_CEILING
    """All queues together."""
    any_queue: Ceiling = DEFAULT_CEILING
    """One queue, unless it is named below."""
    by_queue: Mapping[str, Ceiling] = msgspec.field(default_factory=dict)

    def ceiling_of(self, name: str) -> Ceiling:
        """The ceiling of one queue."""
        return self.by_queue.get(name, self.any_queue)


def ceiling_percent(ceiling: Ceiling, dimension: str) -> int:
    return ceiling if isinstance(ceiling, int) else ceiling.get(dimension, DEFAULT_CEILING)


def lowest_percent(ceiling: Ceiling) -> int:
    """What a share of everything may be at most: no dimension is above its ceiling then."""
    return ceiling if isinstance(ceiling, int) else min((DEFAULT_CEILING, *ceiling.values()))


def ceiling_rejection(
    name: str, asked: GuaranteeRequest, cluster: ClusterCapacity, ceilings: GuaranteeCeilings, taken: Vector = _EMPTY
) -> GuaranteeRejection | None:
    """Why a request is above its queue's ceiling, or above the cluster's with what is `taken` already."""
    own, all_of_them = ceilings.ceiling_of(name), ceilings.all_queues
    return rejection_above(
        RejectionReason.ABOVE_QUEUE_CEILING,
        f"is above the ceiling of {_written(own)} of the cluster for queue {name}",
        asked.amounts,
        ceiling_amounts(own, cluster),
        "limit",
    ) or rejection_above(
        RejectionReason.ABOVE_CLUSTER_CEILING,
        f"is above the ceiling of {_written(all_of_them)} of the cluster for all guarantees",
        asked.amounts,
        ceiling_amounts(all_of_them, cluster),
        "limit",
        taken,
    )


def ceiling_amounts(ceiling: Ceiling, cluster: ClusterCapacity) -> Vector:
    """What a ceiling comes to in a cluster."""
    return {each: total * ceiling_percent(ceiling, each) // 100 for each, total in cluster.totals.items()}


def _written(ceiling: Ceiling) -> str:
    if isinstance(ceiling, int):
        return f"{ceiling}%"
    named = [f"{ceiling[each]}% {each}" for each in sorted(ceiling)]
    return ", ".join([*named, f"{DEFAULT_CEILING}% of anything else"])
