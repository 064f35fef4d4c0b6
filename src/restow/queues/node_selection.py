"""Which nodes are locked for a request.

Goes in: the fleet, a queue, what it asks for, the nodes it may have, and those it has. Comes out: the nodes to lock,
whether they are enough, the score, and how far from the best the choice may be.

Enough: what is idle on the nodes and what the queue uses there itself is no less than the request, in every dimension.
Of all sets that are enough, the one with the highest score:

    score(S) =   0.40 · (1 - mean over d of (offered_d(S) - request_d) / all_d)     as little too much as possible
               + 0.35 · mean over d of used_d(S) / all_d                            already used by the queue
               + 0.15 · (1 - |S| / nodes)                                           few nodes
               + 0.10 · mean over d of idle_d(S) / all_d                            idle

d are the dimensions of the request, all_d what all schedulable nodes offer of d, `nodes` their number: every term lies
in 0..1. The score is a constant less a cost per node,

    cost(i) = 0.15 / nodes + mean over d of (0.40 · offered_d - 0.35 · used_d - 0.10 · idle_d) / all_d

which is positive, because used and idle together are at most what is offered: a node that is not needed never makes a
set better. So the best set is a cheapest cover (`covering`), which can be found, and proven, without listing all sets.

Nodes the queue has already are cheaper by `margin`: the present set stays unless what would replace a part of it is
better by more than that. Equal nodes are taken in the order of their names.

Where nothing is enough now, nodes are locked that will be once others' pods have left, the cheapest by the same costs.
A number of nodes is chosen by the same costs, ties by name.

Nodes with taints that keep pods off, such as those of a control plane, are taken only where all others could never be
enough, or where the queue has pods already: nobody knows whether its pods tolerate them.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from restow.model.cluster import Mask, RowIndex
from restow.model.guarantees import GuaranteeRequest
from restow.model.resources import CPU, MEMORY
from restow.queues.min_cost_cover import find_cover
from restow.queues.node_capacity import Cells, NodeCapacity

OVERSHOOT_WEIGHT, USED_WEIGHT, NODE_COUNT_WEIGHT, IDLE_WEIGHT = 0.40, 0.35, 0.15, 0.10
RELOCK_MARGIN = 0.10
SEARCH_STEPS = 20_000

_UNIT = 10**12
"""Costs are integers in this fraction of the score, so that sums do not depend on their order."""


class NodeSelection(msgspec.Struct, frozen=True):
    nodes: tuple[int, ...]
    """Columns of the fleet, ascending."""
    is_enough: bool
    gap: float = 0.0
    """The part of the cost that may be too much; 0 when the choice is proven to be the best."""


class LockRequest(msgspec.Struct, frozen=True):
    """Who asks, what for, and from where."""

    queue: str
    guarantee: GuaranteeRequest
    candidates: Mask
    locked: RowIndex
    """Those of the candidates that the queue has now."""
    max_nodes: int
    """How many nodes it may lock."""


class NodeCosts:
    """What the nodes of a fleet cost, each in parts of 10¹² of the score; what is the same for all queues, once."""

    def __init__(self, fleet: NodeCapacity) -> None:
        self.capacity = fleet
        self._bases: dict[tuple[int, ...], tuple[NDArray[np.float64], NDArray[np.float64]]] = {}

    def for_queue(self, queue: str, lines: list[int]) -> NDArray[np.int64]:
        """For a queue, in the dimensions of these lines."""
        cost, parts = self._base(tuple(lines))
        use = self.capacity.usage.get(queue)
        if use is not None:
            cost = cost.copy()
            cost[use.nodes] -= USED_WEIGHT * (self.capacity.usage_where_used(use, lines) * parts).mean(axis=0)
        # A schedulable node costs at most 0.55; what others would cost does not matter, but must not overflow.
        costs: NDArray[np.int64] = np.rint(np.clip(cost, 1 / _UNIT, 1.0) * _UNIT).astype(np.int64)
        return costs

    def _base(self, lines: tuple[int, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The costs to a queue that uses nothing, and by which a unit of each dimension is multiplied."""
        if lines not in self._bases:
            fleet, which = self.capacity, list(lines)
            parts = 1 / np.maximum(fleet.allocatable[which][:, fleet.schedulable].sum(axis=1), 1)[:, None]
            weighed = OVERSHOOT_WEIGHT * fleet.allocatable[which] - IDLE_WEIGHT * fleet.idle[which]
            self._bases[lines] = (weighed * parts).mean(axis=0) + NODE_COUNT_WEIGHT / _number(fleet.schedulable), parts
        return self._bases[lines]


def select_nodes(
    appraisal: NodeCosts, wish: LockRequest, *, margin: float = RELOCK_MARGIN, effort: int = SEARCH_STEPS
) -> NodeSelection:
    """The nodes to lock for a wish."""
    fleet = appraisal.capacity
    if wish.guarantee.nodes is not None:
        return _by_number(appraisal, wish, wish.guarantee.nodes, margin)
    dimensions = tuple(wish.guarantee.amounts)
    if not dimensions:
        return NodeSelection((), True)
    lines = fleet.resource_rows(dimensions)
    costs = _kept_cheaper(appraisal.for_queue(wish.queue, lines), wish.locked, margin)
    needs = np.array([wish.guarantee.amounts[name] for name in dimensions], np.int64)
    has = np.zeros(len(costs), np.bool_)
    has[wish.locked] = True
    for places in _pools(fleet, wish):
        known = np.flatnonzero(has[places])
        for enough, gives in ((True, _there_now), (False, _there_later)):
            there = gives(fleet, wish.queue, lines)[:, places]
            found = find_cover(costs[places], there, needs, most=wish.max_nodes, effort=effort, known=known)
            if found is not None:
                return NodeSelection(tuple(places[list(found.items)].tolist()), enough, found.gap)
    return NodeSelection(tuple(wish.locked[: wish.max_nodes].tolist()), False)


def _pools(fleet: NodeCapacity, wish: LockRequest) -> list[RowIndex]:
    """The candidates to choose from: without those that taints keep pods off, then all."""
    inviting = wish.candidates & _inviting(fleet, wish.queue)
    every = [inviting] if (inviting == wish.candidates).all() else [inviting, wish.candidates]
    return [np.flatnonzero(mask) for mask in every]


def _inviting(fleet: NodeCapacity, queue: str) -> Mask:
    """Nodes that no taint keeps the pods of a queue off, as far as anybody knows."""
    inviting, use = fleet.untainted.copy(), fleet.usage.get(queue)
    if use is not None:
        inviting[use.nodes] = True
    return inviting


def _there_now(fleet: NodeCapacity, queue: str, lines: list[int]) -> Cells:
    """What is idle, and what the queue uses itself."""
    there, use = fleet.idle[lines], fleet.usage.get(queue)
    if use is not None:
        there[:, use.nodes] += fleet.usage_where_used(use, lines)
    return there


def _there_later(fleet: NodeCapacity, queue: str, lines: list[int]) -> Cells:
    """What would be there without pods of others."""
    there: Cells = np.maximum(fleet.allocatable[lines] - fleet.pinned[lines], _there_now(fleet, queue, lines))
    return there


def _number(nodes: Mask) -> int:
    return max(int(np.count_nonzero(nodes)), 1)


def _by_number(appraisal: NodeCosts, wish: LockRequest, number: int, margin: float) -> NodeSelection:
    fleet = appraisal.capacity
    compared = wish.guarantee.dimensions or tuple(name for name in (CPU, MEMORY) if name in fleet.resources)
    lines = fleet.resource_rows(compared) or list(range(len(fleet.resources)))
    costs = _kept_cheaper(appraisal.for_queue(wish.queue, lines), wish.locked, margin)
    places = np.flatnonzero(wish.candidates)
    order = np.lexsort((costs[places], ~_inviting(fleet, wish.queue)[places]))
    cheapest = places[order][: min(number, wish.max_nodes)]
    return NodeSelection(tuple(np.sort(cheapest).tolist()), len(cheapest) == number)


def _kept_cheaper(costs: NDArray[np.int64], present: RowIndex, margin: float) -> NDArray[np.int64]:
    costs[present] = np.maximum(np.rint(costs[present] * (1 - margin)), 1)
    return costs
