"""Which nodes are locked for one request.

Goes in: the capacity of all nodes, the queue, its request, the nodes it may have, and those it has. Comes out: the
nodes to lock, whether they are enough, and how far from the best set they may be.

A set of nodes is enough if what is idle on it, plus what the queue itself uses there, is no less than the request, for
every resource. Of all sets that are enough, the one with the highest score is selected:

    score(S) =   0.40 · (1 - mean over d of (offered_d(S) - request_d) / all_d)     small overshoot
               + 0.35 · mean over d of used_d(S) / all_d                            much used by the queue already
               + 0.15 · (1 - |S| / nodes)                                           few nodes
               + 0.10 · mean over d of idle_d(S) / all_d                            much idle

d are the resources of the request, all_d is what all schedulable nodes offer of d, and `nodes` is their number, so
every term is in 0..1. The score is a constant less a cost per node,

    cost(i) = 0.15 / nodes + mean over d of (0.40 · offered_d - 0.35 · used_d - 0.10 · idle_d) / all_d

which is positive, because used and idle together are at most what is offered: a node that is not needed never improves
a set. So the best set is a minimum-cost cover (`min_cost_cover`), which can be found and proven without listing all
sets.

Nodes that the queue has already cost less by `margin`: the present set stays unless a replacement for a part of it is
better by more than that. Equal nodes are taken in the order of their names.

If no set is enough now, nodes are locked that will be enough when the pods of other queues have left, the cheapest by
the same costs. A request for a number of nodes gets the cheapest nodes, ties by name.

Nodes with taints that keep pods off, such as those of a control plane, are selected only if all other nodes could never
be enough, or if the queue has pods there: whether its future pods tolerate the taints is not known.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from restow.model.cluster import Mask, RowIndex
from restow.model.guarantees import GuaranteeRequest
from restow.model.resources import CPU, MEMORY
from restow.queues.min_cost_cover import find_cover
from restow.queues.node_capacity import CapacityOfNodes, ResourceMatrix

OVERSHOOT_WEIGHT, USED_WEIGHT, NODE_COUNT_WEIGHT, IDLE_WEIGHT = 0.40, 0.35, 0.15, 0.10
RELOCK_MARGIN = 0.10
SEARCH_STEPS = 20_000

_UNIT = 10**12
"""Costs are integers in this fraction of the score, so that sums do not depend on their order."""


class NodeSelection(msgspec.Struct, frozen=True):
    nodes: tuple[int, ...]
    """Node indices of the capacity, ascending."""
    is_enough: bool
    gap: float = 0.0
    """The largest part of the cost that may be too much; 0 if the set is proven to be the best."""


class LockRequest(msgspec.Struct, frozen=True):
    """What is to be locked for a queue, and where."""

    queue: str
    guarantee: GuaranteeRequest
    candidates: Mask
    locked: RowIndex
    """The candidates that are locked for the queue now."""
    max_nodes: int


class NodeCosts:
    """What the nodes cost, in units of 10⁻¹² of the score. What is the same for all queues is computed once."""

    def __init__(self, capacity: CapacityOfNodes) -> None:
        self.capacity = capacity
        self._without_usage: dict[tuple[int, ...], tuple[NDArray[np.float64], NDArray[np.float64]]] = {}

    def for_queue(self, queue: str, resource_indices: list[int]) -> NDArray[np.int64]:
        """For a queue, in the resources with these indices."""
        cost, weights = self._costs_without_usage(tuple(resource_indices))
        usage = self.capacity.usage.get(queue)
        if usage is not None:
            cost = cost.copy()
            used = self.capacity.usage_where_used(usage, resource_indices)
            cost[usage.nodes] -= USED_WEIGHT * (used * weights).mean(axis=0)
        # A schedulable node costs at most 0.55. The cost of other nodes does not matter, but must not overflow.
        costs: NDArray[np.int64] = np.rint(np.clip(cost, 1 / _UNIT, 1.0) * _UNIT).astype(np.int64)
        return costs

    def _costs_without_usage(
        self, resource_indices: tuple[int, ...]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The costs for a queue that uses nothing, and by resource what one unit of it counts."""
        if resource_indices not in self._without_usage:
            capacity, selected = self.capacity, list(resource_indices)
            totals = capacity.allocatable[selected][:, capacity.schedulable].sum(axis=1)
            weights = 1 / np.maximum(totals, 1)[:, None]
            weighed = OVERSHOOT_WEIGHT * capacity.allocatable[selected] - IDLE_WEIGHT * capacity.idle[selected]
            per_node = NODE_COUNT_WEIGHT / max(int(np.count_nonzero(capacity.schedulable)), 1)
            self._without_usage[resource_indices] = (weighed * weights).mean(axis=0) + per_node, weights
        return self._without_usage[resource_indices]


def select_nodes(
    costs: NodeCosts, request: LockRequest, *, margin: float = RELOCK_MARGIN, effort: int = SEARCH_STEPS
) -> NodeSelection:
    """The nodes to lock for a request. `effort` bounds the steps of the exact search."""
    capacity, guarantee = costs.capacity, request.guarantee
    if guarantee.nodes is not None:
        return _cheapest_nodes(costs, request, guarantee.nodes, margin)
    resources = tuple(guarantee.amounts)
    if not resources:
        return NodeSelection((), True)
    resource_indices = capacity.resource_indices(resources)
    node_costs = _with_margin(costs.for_queue(request.queue, resource_indices), request.locked, margin)
    demand = np.array([guarantee.amounts[name] for name in resources], np.int64)
    is_locked = np.zeros(len(node_costs), np.bool_)
    is_locked[request.locked] = True
    # Untainted nodes that are enough now, untainted nodes that will be, then the same with tainted nodes.
    for pool in _pools(capacity, request):
        known_cover = np.flatnonzero(is_locked[pool])
        for is_enough, available in ((True, _available_now), (False, _available_later)):
            supply = available(capacity, request.queue, resource_indices)[:, pool]
            cover = find_cover(
                node_costs[pool], supply, demand, max_items=request.max_nodes, effort=effort, known_cover=known_cover
            )
            if cover is not None:
                return NodeSelection(tuple(pool[list(cover.items)].tolist()), is_enough, cover.gap)
    # No set will ever be enough: the queue keeps what it has and gets no more.
    return NodeSelection(tuple(request.locked[: request.max_nodes].tolist()), False)


def _pools(capacity: CapacityOfNodes, request: LockRequest) -> list[RowIndex]:
    """The candidates to select from: those that pods of the queue may go to for all that is known, then all."""
    preferred = request.candidates & _without_repelling_taints(capacity, request.queue)
    has_all = bool((preferred == request.candidates).all())
    return [np.flatnonzero(mask) for mask in ([preferred] if has_all else [preferred, request.candidates])]


def _without_repelling_taints(capacity: CapacityOfNodes, queue: str) -> Mask:
    """The untainted nodes, and the nodes where the queue has pods: those tolerate the taints."""
    mask, usage = capacity.untainted.copy(), capacity.usage.get(queue)
    if usage is not None:
        mask[usage.nodes] = True
    return mask


def _available_now(capacity: CapacityOfNodes, queue: str, resource_indices: list[int]) -> ResourceMatrix:
    """What is idle, and what the queue uses itself."""
    available, usage = capacity.idle[resource_indices], capacity.usage.get(queue)
    if usage is not None:
        available[:, usage.nodes] += capacity.usage_where_used(usage, resource_indices)
    return available


def _available_later(capacity: CapacityOfNodes, queue: str, resource_indices: list[int]) -> ResourceMatrix:
    """What would be available without the pods of other queues."""
    without_others = capacity.allocatable[resource_indices] - capacity.pinned[resource_indices]
    available: ResourceMatrix = np.maximum(without_others, _available_now(capacity, queue, resource_indices))
    return available


def _cheapest_nodes(costs: NodeCosts, request: LockRequest, number: int, margin: float) -> NodeSelection:
    """A number of nodes, compared by the resources that the guarantee names, else by cpu and memory."""
    capacity = costs.capacity
    compared = request.guarantee.dimensions or tuple(name for name in (CPU, MEMORY) if name in capacity.resources)
    resource_indices = capacity.resource_indices(compared) or list(range(len(capacity.resources)))
    node_costs = _with_margin(costs.for_queue(request.queue, resource_indices), request.locked, margin)
    nodes = np.flatnonzero(request.candidates)
    order = np.lexsort((node_costs[nodes], ~_without_repelling_taints(capacity, request.queue)[nodes]))
    selected = nodes[order][: min(number, request.max_nodes)]
    return NodeSelection(tuple(np.sort(selected).tolist()), len(selected) == number)


def _with_margin(costs: NDArray[np.int64], locked: RowIndex, margin: float) -> NDArray[np.int64]:
    """The costs, lowered for nodes that are locked now."""
    costs[locked] = np.maximum(np.rint(costs[locked] * (1 - margin)), 1)
    return costs
