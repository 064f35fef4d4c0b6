"""What there is to optimise, as arrays: pods of one class are interchangeable, so only their numbers matter.

Goes in: free room per node, what a pod of each class asks for, how many movable pods of each class are on each node,
where a class may go, and what is wanted: empty nodes, or room for waiting pods. Comes out: a `Problem`, and `Shift`s,
which are answers to it: how many of which class more or fewer on a node, and which waiting pods go where.

Amounts are exact integers. Each resource is divided by the greatest amount that divides everything asked of it, with
free room rounded down: that changes no answer, and keeps numbers small for a solver.
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
"""(class or demand, node)."""

UNLIMITED = 1 << 30
"""A supply that does not run out."""


class Demand(msgspec.Struct, frozen=True, eq=False):
    """Pods that wait for room and are alike; or the shape of which as many as possible should fit."""

    size: Ints
    """What one of them asks for, over resources."""
    allowed_nodes: Mask
    """The nodes it may go to."""
    value: int
    """What it is worth to place one."""
    count: int = UNLIMITED
    """How many wait."""
    gang: int | None = None
    """Which gang they belong to: see `Problem.least`."""
    one_per_node: bool = False
    """Whether a node takes at most one of them."""
    potential_nodes: Mask | None = None
    """Where `suits` may change as pods move: the nodes it could go to at all."""

    @property
    def max_per_node(self) -> int:
        """How many of them one node could take, room aside."""
        return min(self.count, 1) if self.one_per_node else self.count


class QueueQuota(msgspec.Struct, frozen=True, eq=False):
    """What a queue may still take of what is limited for it."""

    limits: Ints
    requests: Mapping[int, Ints]
    """By demand of its own, what one of them counts for."""


class PackingProblem(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    free: Ints
    """[node, resource]; negative where a node is over-committed: nobody who asks for that resource may come there
    before enough has left."""
    class_sizes: Ints
    """[class, resource]: what one pod asks for."""
    movable_pods: Sequence[Mapping[int, int]]
    """Per node, how many pods that may move it has of which class."""
    allowed_nodes: Callable[[int], Mask]
    """The nodes that pods of a class may go to, room aside; asked only for classes that are looked at."""
    one_per_node: Mask
    """Classes of which at most one pod comes to a node: others of its kind keep it away."""
    max_moves: int
    """How many moves there may be."""
    cannot_empty: Mask
    """Nodes that cannot become empty, because somebody there may not move."""
    counts_empty_nodes: bool = False
    """Whether empty nodes are wanted; otherwise room for the demands is."""
    demands: Sequence[Demand] = ()
    gang_minimums: Mapping[int, int] = {}
    """How many pods of a gang have to be placed, if any is."""
    quotas: Sequence[QueueQuota] = ()
    """A demand belongs to one queue, and is in one quota at most."""
    unit: int = 1
    """The difference in worth that matters most; solvers look for the best answer to the nearest unit."""
    potential_nodes: Callable[[int], Mask] | None = None
    """Where `suits` and `alone` may change as pods move: the nodes that pods of a class could go to at all."""

    @property
    def node_count(self) -> int:
        return len(self.free)

    @property
    def is_static(self) -> bool:
        """Whether `suits` and `alone` hold whatever moves."""
        return self.potential_nodes is None

    @property
    def relaxation(self) -> PackingProblem:
        """The problem with nothing but what holds whatever moves: its bounds hold for every plan."""
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
        alone = np.zeros_like(self.one_per_node)
        return msgspec.structs.replace(
            self, allowed_nodes=self.potential_nodes, potential_nodes=None, one_per_node=alone, demands=demands
        )

    @property
    def class_count(self) -> int:
        return len(self.class_sizes)

    @property
    def has_whole_values(self) -> bool:
        """Whether every worth is a whole number of units."""
        return all(demand.value % self.unit == 0 for demand in self.demands)


class Solution(msgspec.Struct, frozen=True, eq=False):
    """An answer: what is different afterwards."""

    pod_changes: Mapping[Cell, int] = {}
    """(class, node) to how many more pods are there, or fewer; every class sums up to zero."""
    placements: Mapping[Cell, int] = {}
    """(demand, node) to how many waiting pods go there."""

    @property
    def move_count(self) -> int:
        return sum(number for number in self.pod_changes.values() if number > 0)


UNCHANGED = Solution()


def scale_amounts(free: Ints, *asked: Ints) -> tuple[Ints, list[Ints]]:
    """Free room and amounts in the largest units that leave every amount whole. [.., resource] each."""
    everything = np.concatenate(asked)
    unit = np.maximum(np.gcd.reduce(everything, axis=0), 1) if len(everything) else np.ones(free.shape[1], np.int64)
    return free // unit, [part // unit for part in asked]


def has_room(left: Ints, size: Ints) -> Mask:
    """Where there is room for a size: what it does not ask for may be over-committed."""
    able: Mask = np.all(np.maximum(left, 0) >= size, axis=-1)
    return able


def free_after(problem: PackingProblem, shift: Solution) -> Ints:
    """[node, resource]: what is free afterwards."""
    left = problem.free.copy()
    _take(left, shift.pod_changes.items(), problem.class_sizes)
    if shift.placements:
        _take(left, shift.placements.items(), np.stack([demand.size for demand in problem.demands]))
    return left


def _take(left: Ints, cells: Iterable[tuple[Cell, int]], sizes: Ints) -> None:
    for (which, node), number in cells:
        left[node] -= number * sizes[which]


def max_free(problem: PackingProblem, nodes: RowIndex | None = None) -> Ints:
    """[node, resource]: what would be free if everyone who may left; of some nodes, or of all."""
    some = np.arange(problem.node_count) if nodes is None else nodes
    room = problem.free[some].copy()
    held = [
        (place, which, count)
        for place, node in enumerate(some.tolist())
        for which, count in problem.movable_pods[node].items()
    ]
    if held:
        place, which, count = np.array(held, np.int64).T
        np.add.at(room, place, count[:, None] * problem.class_sizes[which])
    return room


def requested_by_arrivals(problem: PackingProblem, shift: Solution) -> Mask:
    """[node, resource]: what somebody who comes asks for."""
    asked = np.zeros(problem.free.shape, np.bool_)
    for (which, node), number in shift.pod_changes.items():
        if number > 0:
            asked[node] |= problem.class_sizes[which] > 0
    for (which, node), number in shift.placements.items():
        if number:
            asked[node] |= problem.demands[which].size > 0
    return asked


def solution_value(problem: PackingProblem, shift: Solution) -> int:
    """What an answer is worth: the number of empty nodes, or the worth of everything placed."""
    if problem.counts_empty_nodes:
        return int(np.count_nonzero(~problem.cannot_empty & (movable_pod_counts(problem, shift) == 0)))
    return sum(problem.demands[which].value * number for (which, _), number in shift.placements.items())


def movable_pod_counts(problem: PackingProblem, shift: Solution = UNCHANGED) -> Ints:
    """How many pods that may move each node has afterwards."""
    counts = np.array([sum(held.values()) for held in problem.movable_pods], np.int64)
    for (_, node), number in shift.pod_changes.items():
        counts[node] += number
    for (_, node), number in shift.placements.items():
        counts[node] += number
    return counts


def round_down_value(problem: PackingProblem, units: float) -> int:
    """The largest worth there can be that is not more than so many units."""
    tolerance = 1e-6
    return (
        floor(units + tolerance) * problem.unit
        if problem.has_whole_values
        else floor((units + tolerance) * problem.unit)
    )


def is_better(problem: PackingProblem, one: Solution, other: Solution) -> bool:
    """Whether one answer is worth more than another, or as much with fewer moves."""
    return (solution_value(problem, one), -one.move_count) > (solution_value(problem, other), -other.move_count)


def solution_defects(problem: PackingProblem, shift: Solution) -> list[str]:
    """Everything that is wrong with an answer, in words for a programmer; none for a good one."""
    found: list[str] = []
    if shift.move_count > problem.max_moves:
        found.append(f"{shift.move_count} moves are more than {problem.max_moves}")
    over = (free_after(problem, shift) < 0) & requested_by_arrivals(problem, shift)
    found += [f"node {node} is over-committed" for node in np.flatnonzero(over.any(axis=1)).tolist()]
    sums: dict[int, int] = {}
    for (which, node), number in sorted(shift.pod_changes.items()):
        sums[which] = sums.get(which, 0) + number
        if number < -problem.movable_pods[node].get(which, 0):
            found.append(f"{-number} of class {which} leave node {node}, more than are there")
        if number > 0 and not problem.allowed_nodes(which)[node]:
            found.append(f"class {which} may not go to node {node}")
        if number > 1 and problem.one_per_node[which]:
            found.append(f"{number} of class {which} come to node {node}")
    found += [f"class {which} sums up to {total}" for which, total in sums.items() if total]
    return found + list(_demand_flaws(problem, shift))


def _demand_flaws(problem: PackingProblem, shift: Solution) -> Iterable[str]:
    placed: dict[int, int] = {}
    in_gang: dict[int, int] = {}
    for (which, node), number in sorted(shift.placements.items()):
        demand = problem.demands[which]
        placed[which] = placed.get(which, 0) + number
        if demand.gang is not None:
            in_gang[demand.gang] = in_gang.get(demand.gang, 0) + number
        if number and not demand.allowed_nodes[node]:
            yield f"demand {which} may not go to node {node}"
        if number < 0 or (number > 1 and demand.one_per_node):
            yield f"{number} of demand {which} on node {node}"
    for which, number in placed.items():
        if number > problem.demands[which].count:
            yield f"{number} of demand {which} are more than wait"
    for gang, number in in_gang.items():
        if 0 < number < problem.gang_minimums[gang]:
            yield f"gang {gang} is placed in part"
    for quota in problem.quotas:
        if (quota_charge(quota, placed) > quota.limits).any():
            yield f"{quota_charge(quota, placed)} are more than a quota of {quota.limits}"


def quota_charge(quota: QueueQuota, placed: Mapping[int, int]) -> Ints:
    """What so many of each demand count for."""
    nothing = np.zeros_like(quota.limits)
    return sum((placed.get(which, 0) * asked for which, asked in quota.requests.items()), nothing)
