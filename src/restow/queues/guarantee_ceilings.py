"""Ceilings: how much of the cluster guarantees may take, whatever they ask for.

Goes in: what a guarantee asks for, what the cluster has, and what accepted guarantees take already. Comes out: a
rejection with its numbers if the request is above the ceiling of its queue or of all queues; a request is never cut
down to a ceiling.
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
_NOTHING: Mapping[str, int] = {}

Ceiling = int | Mapping[str, int]
"""In percent of what the cluster has: of every resource, or by resource, with the default for all others."""


class GuaranteeCeilings(msgspec.Struct, frozen=True):
    """How much of the cluster guarantees may take."""

    all_queues: Ceiling = DEFAULT_CEILING
    """All queues together."""
    any_queue: Ceiling = DEFAULT_CEILING
    """One queue, unless it has a ceiling of its own."""
    by_queue: Mapping[str, Ceiling] = msgspec.field(default_factory=dict)

    def ceiling_of(self, queue: str) -> Ceiling:
        return self.by_queue.get(queue, self.any_queue)


def ceiling_percent(ceiling: Ceiling, resource: str) -> int:
    return ceiling if isinstance(ceiling, int) else ceiling.get(resource, DEFAULT_CEILING)


def lowest_percent(ceiling: Ceiling) -> int:
    """The largest share of all resources that is above the ceiling of none."""
    return ceiling if isinstance(ceiling, int) else min((DEFAULT_CEILING, *ceiling.values()))


def ceiling_rejection(
    queue: str,
    request: GuaranteeRequest,
    cluster: ClusterCapacity,
    ceilings: GuaranteeCeilings,
    taken: Vector = _NOTHING,
) -> GuaranteeRejection | None:
    """Why a request is above the ceiling of its queue, or, together with what is `taken` by others, above the ceiling
    of all queues. None if it is within both."""
    own, all_queues = ceilings.ceiling_of(queue), ceilings.all_queues
    return rejection_above(
        RejectionReason.ABOVE_QUEUE_CEILING,
        f"is above the ceiling of {_in_words(own)} of the cluster for queue {queue}",
        request.amounts,
        ceiling_amounts(own, cluster),
        "limit",
    ) or rejection_above(
        RejectionReason.ABOVE_CLUSTER_CEILING,
        f"is above the ceiling of {_in_words(all_queues)} of the cluster for all guarantees",
        request.amounts,
        ceiling_amounts(all_queues, cluster),
        "limit",
        taken,
    )


def ceiling_amounts(ceiling: Ceiling, cluster: ClusterCapacity) -> Vector:
    """A ceiling as amounts, rounded down."""
    return {resource: total * ceiling_percent(ceiling, resource) // 100 for resource, total in cluster.totals.items()}


def _in_words(ceiling: Ceiling) -> str:
    if isinstance(ceiling, int):
        return f"{ceiling}%"
    parts = [f"{ceiling[resource]}% {resource}" for resource in sorted(ceiling)]
    return ", ".join([*parts, f"{DEFAULT_CEILING}% of anything else"])
