"""The packing problem as arrays. Pods of one class are interchangeable, so only their numbers matter.

Goes in: the free amounts of each node, the requests of a pod of each class, how many movable pods of each class are on
each node, the nodes that a class may use, and the objective: empty nodes, or values for placed pods. Comes out: a
`PackingProblem`. A `Solution` is an answer to it: the changes in the number of pods by class and node, and the pending
pods that are placed on each node.

In the words of the literature it is a vector bin-packing problem with relocation: nodes are bins, resources are the
dimensions, demands are items with values (a multiple knapsack problem), and at most `max_moves` items that are packed
already may be packed elsewhere.

Amounts are exact integers. Each resource is divided by the greatest common divisor of everything that is requested of
it, and the free amounts are rounded down. That changes no answer, and keeps the numbers small for a solver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import floor

import msgspec
import numpy as np
from numpy.typing import NDArray

from restow.model.cluster import Mask, RowIndex

Ints = NDArray[np.int64]
Cell = tuple[int, int]
"""(index of a class or of a demand, index of a node)."""

UNLIMITED = 1 << 30
"""The count of a demand that does not run out."""


class Demand(msgspec.Struct, frozen=True, eq=False):
    """Equal pending pods; or the shape of the objective `slots`, of which as many as possible should fit."""

    size: Ints
    """The requests of one pod, over resources."""
    allowed_nodes: Mask
    """The nodes that it may use, resources aside."""
    value: int
    """The value of placing one pod."""
    count: int = UNLIMITED
    """How many pods are pending."""
    gang: int | None = None
    """The index of their gang: see `PackingProblem.gang_minimums`."""
    one_per_node: bool = False
    """Whether a node can take at most one of them."""
    potential_nodes: Mask | None = None
    """If `allowed_nodes` may change as pods move: the nodes that it could ever use."""

    @property
    def max_per_node(self) -> int:
        """How many of them one node can take, resources aside."""
        return min(self.count, 1) if self.one_per_node else self.count


class QueueQuota(msgspec.Struct, frozen=True, eq=False):
    """What a queue may still take, for the resources that are limited for it."""

    limits: Ints
    requests: Mapping[int, Ints]
    """By demand of the queue: what one pod counts for."""


class PackingProblem(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    free: Ints
    """[node, resource]; negative where a node is over-committed. Then no pod that requests the resource may come before
    enough pods have left."""
    class_sizes: Ints
    """[class, resource]: the requests of one pod."""
    movable_pods: Sequence[Mapping[int, int]]
    """Per node: class to number of movable pods."""
    allowed_nodes: Callable[[int], Mask]
    """By class: the nodes that its pods may use, resources aside. Computed when it is first read."""
    one_per_node: Mask
    """Classes of which at most one pod can come to a node, because pods of the class keep each other away."""
    max_moves: int
    cannot_empty: Mask
    """Nodes with a pod that may not move."""
    counts_empty_nodes: bool = False
    """The objective: the number of empty nodes if True, else the total value of the placed demands."""
    demands: Sequence[Demand] = ()
    gang_minimums: Mapping[int, int] = {}
    """By gang: how many of its pods have to be placed, if any is."""
    quotas: Sequence[QueueQuota] = ()
    """A demand belongs to one queue, so it is in at most one quota."""
    unit: int = 1
    """Values are multiples of the unit, or nearly so. Solvers find the best solution to the nearest unit."""
    potential_nodes: Callable[[int], Mask] | None = None
    """If `allowed_nodes` and `one_per_node` may change as pods move (affinity, spread, host ports): by class, the nodes
    that its pods could ever use."""

    @property
    def node_count(self) -> int:
        return len(self.free)

    @property
    def is_static(self) -> bool:
        """Whether `allowed_nodes` and `one_per_node` hold whatever moves."""
        return self.potential_nodes is None

    @property
    def relaxation(self) -> PackingProblem:
        """The problem with only those constraints that hold whatever moves. Every plan is a solution of it, so an upper
        bound on its objective is one for every plan."""
        if self.potential_nodes is None:
            return self
        demands = [
            msgspec.structs.replace(
                demand,
                one_per_node=False,
                allowed_nodes=demand.allowed_nodes if demand.potential_nodes is None else demand.potential_nodes,
            )
            for demand in self.demands
        ]
        return msgspec.structs.replace(
            self,
            allowed_nodes=self.potential_nodes,
            potential_nodes=None,
            one_per_node=np.zeros_like(self.one_per_node),
            demands=demands,
        )

    @property
    def class_count(self) -> int:
        return len(self.class_sizes)

    @property
    def has_whole_values(self) -> bool:
        """Whether every value is a multiple of the unit."""
        return all(demand.value % self.unit == 0 for demand in self.demands)


class Solution(msgspec.Struct, frozen=True, eq=False):
    """An answer to a packing problem: the difference to the present state."""

    pod_changes: Mapping[Cell, int] = {}
    """(class, node) to how many more pods are there, or fewer. The sum over all nodes is 0 for each class."""
    placements: Mapping[Cell, int] = {}
    """(demand, node) to how many pending pods are placed there."""

    @property
    def move_count(self) -> int:
        return sum(number for number in self.pod_changes.values() if number > 0)


UNCHANGED = Solution()


def scale_amounts(free: Ints, *requested: Ints) -> tuple[Ints, list[Ints]]:
    """Free amounts and requests, divided per resource by the greatest common divisor of all requests. [..,
    resource]."""
    everything = np.concatenate(requested)
    unit = np.maximum(np.gcd.reduce(everything, axis=0), 1) if len(everything) else np.ones(free.shape[1], np.int64)
    return free // unit, [part // unit for part in requested]


def has_room(free: Ints, size: Ints) -> Mask:
    """Where a pod of this size fits. A resource that it does not request may be over-committed."""
    fits: Mask = np.all(np.maximum(free, 0) >= size, axis=-1)
    return fits


def free_after(problem: PackingProblem, solution: Solution) -> Ints:
    """[node, resource]: the free amounts after a solution."""
    free = problem.free.copy()
    _subtract(free, solution.pod_changes.items(), problem.class_sizes)
    if solution.placements:
        _subtract(free, solution.placements.items(), np.stack([demand.size for demand in problem.demands]))
    return free


def _subtract(free: Ints, cells: Iterable[tuple[Cell, int]], sizes: Ints) -> None:
    for (index, node), number in cells:
        free[node] -= number * sizes[index]


def max_free(problem: PackingProblem, nodes: RowIndex | None = None) -> Ints:
    """[node, resource]: the free amounts if all movable pods left; of some nodes, or of all."""
    chosen = np.arange(problem.node_count) if nodes is None else nodes
    room = problem.free[chosen].copy()
    movable = [
        (place, class_index, count)
        for place, node in enumerate(chosen.tolist())
        for class_index, count in problem.movable_pods[node].items()
    ]
    if movable:
        place, class_index, count = np.array(movable, np.int64).T
        np.add.at(room, place, count[:, None] * problem.class_sizes[class_index])
    return room


def requested_by_arrivals(problem: PackingProblem, solution: Solution) -> Mask:
    """[node, resource]: whether some pod that comes to the node requests the resource."""
    requested = np.zeros(problem.free.shape, np.bool_)
    for (class_index, node), number in solution.pod_changes.items():
        if number > 0:
            requested[node] |= problem.class_sizes[class_index] > 0
    for (demand_index, node), number in solution.placements.items():
        if number:
            requested[node] |= problem.demands[demand_index].size > 0
    return requested


def solution_value(problem: PackingProblem, solution: Solution) -> int:
    """The objective: the number of empty nodes, or the total value of the placed pods."""
    if problem.counts_empty_nodes:
        return int(np.count_nonzero(~problem.cannot_empty & (movable_pod_counts(problem, solution) == 0)))
    return sum(problem.demands[index].value * number for (index, _), number in solution.placements.items())


def movable_pod_counts(problem: PackingProblem, solution: Solution = UNCHANGED) -> Ints:
    """How many movable and placed pods each node has after a solution."""
    counts = np.array([sum(pods.values()) for pods in problem.movable_pods], np.int64)
    for (_, node), number in solution.pod_changes.items():
        counts[node] += number
    for (_, node), number in solution.placements.items():
        counts[node] += number
    return counts


def round_down_value(problem: PackingProblem, units: float) -> int:
    """The largest value that a solution can have and that is not more than so many units. A bound may be rounded down
    to it; the tolerance makes up for rounding errors of the solver."""
    tolerance = 1e-6
    if problem.has_whole_values:
        return floor(units + tolerance) * problem.unit
    return floor((units + tolerance) * problem.unit)


def is_better(problem: PackingProblem, solution: Solution, other: Solution) -> bool:
    """Whether a solution has a higher value than another, or the same value with fewer moves."""
    value, other_value = solution_value(problem, solution), solution_value(problem, other)
    return (value, -solution.move_count) > (other_value, -other.move_count)


def solution_defects(problem: PackingProblem, solution: Solution) -> list[str]:
    """Every constraint that a solution violates, in words for a programmer; none for a feasible solution."""
    defects: list[str] = []
    if solution.move_count > problem.max_moves:
        defects.append(f"{solution.move_count} moves are more than {problem.max_moves}")
    over = (free_after(problem, solution) < 0) & requested_by_arrivals(problem, solution)
    defects += [f"node {node} is over-committed" for node in np.flatnonzero(over.any(axis=1)).tolist()]
    sums: dict[int, int] = {}
    for (index, node), number in sorted(solution.pod_changes.items()):
        sums[index] = sums.get(index, 0) + number
        if number < -problem.movable_pods[node].get(index, 0):
            defects.append(f"{-number} of class {index} leave node {node}, more than are there")
        if number > 0 and not problem.allowed_nodes(index)[node]:
            defects.append(f"class {index} may not go to node {node}")
        if number > 1 and problem.one_per_node[index]:
            defects.append(f"{number} of class {index} come to node {node}")
    defects += [f"class {index} sums up to {total}" for index, total in sums.items() if total]
    return defects + list(_placement_defects(problem, solution))


def _placement_defects(problem: PackingProblem, solution: Solution) -> Iterable[str]:
    placed: dict[int, int] = {}
    placed_of_gang: dict[int, int] = {}
    for (index, node), number in sorted(solution.placements.items()):
        demand = problem.demands[index]
        placed[index] = placed.get(index, 0) + number
        if demand.gang is not None:
            placed_of_gang[demand.gang] = placed_of_gang.get(demand.gang, 0) + number
        if number and not demand.allowed_nodes[node]:
            yield f"demand {index} may not go to node {node}"
        if number < 0 or (number > 1 and demand.one_per_node):
            yield f"{number} of demand {index} on node {node}"
    for index, number in placed.items():
        if number > problem.demands[index].count:
            yield f"{number} of demand {index} are more than are pending"
    for gang, number in placed_of_gang.items():
        if 0 < number < problem.gang_minimums[gang]:
            yield f"gang {gang} is placed in part"
    for quota in problem.quotas:
        charge = quota_charge(quota, placed)
        if (charge > quota.limits).any():
            yield f"{charge} are more than a quota of {quota.limits}"


def quota_charge(quota: QueueQuota, placed: Mapping[int, int]) -> Ints:
    """What so many placed pods of each demand count for together."""
    nothing = np.zeros_like(quota.limits)
    return sum((placed.get(index, 0) * requests for index, requests in quota.requests.items()), nothing)
