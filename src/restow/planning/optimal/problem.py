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

PLENTY = 1 << 30
"""A supply that does not run out."""


class Demand(msgspec.Struct, frozen=True, eq=False):
    """Pods that wait for room and are alike; or the shape of which as many as possible should fit."""

    size: Ints
    """What one of them asks for, over resources."""
    suits: Mask
    """The nodes it may go to."""
    worth: int
    """What it is worth to place one."""
    supply: int = PLENTY
    """How many wait."""
    gang: int | None = None
    """Which gang they belong to: see `Problem.least`."""
    alone: bool = False
    """Whether a node takes at most one of them."""
    could: Mask | None = None
    """Where `suits` may change as pods move: the nodes it could go to at all."""

    @property
    def most(self) -> int:
        """How many of them one node could take, room aside."""
        return min(self.supply, 1) if self.alone else self.supply


class Quota(msgspec.Struct, frozen=True, eq=False):
    """What a queue may still take of what is limited for it."""

    most: Ints
    asked: Mapping[int, Ints]
    """By demand of its own, what one of them counts for."""


class Problem(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    free: Ints
    """[node, resource]; negative where a node is over-committed: nobody who asks for that resource may come there
    before enough has left."""
    sizes: Ints
    """[class, resource]: what one pod asks for."""
    held: Sequence[Mapping[int, int]]
    """Per node, how many pods that may move it has of which class."""
    suits: Callable[[int], Mask]
    """The nodes that pods of a class may go to, room aside; asked only for classes that are looked at."""
    alone: Mask
    """Classes of which at most one pod comes to a node: others of its kind keep it away."""
    limit: int
    """How many moves there may be."""
    stuck: Mask
    """Nodes that cannot become empty, because somebody there may not move."""
    empties: bool = False
    """Whether empty nodes are wanted; otherwise room for the demands is."""
    demands: Sequence[Demand] = ()
    least: Mapping[int, int] = {}
    """How many pods of a gang have to be placed, if any is."""
    quotas: Sequence[Quota] = ()
    """A demand belongs to one queue, and is in one quota at most."""
    unit: int = 1
    """The difference in worth that matters most; solvers look for the best answer to the nearest unit."""
    could: Callable[[int], Mask] | None = None
    """Where `suits` and `alone` may change as pods move: the nodes that pods of a class could go to at all."""

    @property
    def nodes(self) -> int:
        return len(self.free)

    @property
    def settled(self) -> bool:
        """Whether `suits` and `alone` hold whatever moves."""
        return self.could is None

    @property
    def relaxed(self) -> Problem:
        """The problem with nothing but what holds whatever moves: its bounds hold for every plan."""
        if self.could is None:
            return self
        demands = [
            msgspec.structs.replace(demand, alone=False, suits=demand.suits if demand.could is None else demand.could)
            for demand in self.demands
        ]
        alone = np.zeros_like(self.alone)
        return msgspec.structs.replace(self, suits=self.could, could=None, alone=alone, demands=demands)

    @property
    def classes(self) -> int:
        return len(self.sizes)

    @property
    def whole(self) -> bool:
        """Whether every worth is a whole number of units."""
        return all(demand.worth % self.unit == 0 for demand in self.demands)


class Shift(msgspec.Struct, frozen=True, eq=False):
    """An answer: what is different afterwards."""

    net: Mapping[Cell, int] = {}
    """(class, node) to how many more pods are there, or fewer; every class sums up to zero."""
    puts: Mapping[Cell, int] = {}
    """(demand, node) to how many waiting pods go there."""

    @property
    def moves(self) -> int:
        return sum(number for number in self.net.values() if number > 0)


STAY = Shift()


def scaled(free: Ints, *asked: Ints) -> tuple[Ints, list[Ints]]:
    """Free room and amounts in the largest units that leave every amount whole. [.., resource] each."""
    everything = np.concatenate(asked)
    unit = np.maximum(np.gcd.reduce(everything, axis=0), 1) if len(everything) else np.ones(free.shape[1], np.int64)
    return free // unit, [part // unit for part in asked]


def fits(left: Ints, size: Ints) -> Mask:
    """Where there is room for a size: what it does not ask for may be over-committed."""
    able: Mask = np.all(np.maximum(left, 0) >= size, axis=-1)
    return able


def left_over(problem: Problem, shift: Shift) -> Ints:
    """[node, resource]: what is free afterwards."""
    left = problem.free.copy()
    _take(left, shift.net.items(), problem.sizes)
    if shift.puts:
        _take(left, shift.puts.items(), np.stack([demand.size for demand in problem.demands]))
    return left


def _take(left: Ints, cells: Iterable[tuple[Cell, int]], sizes: Ints) -> None:
    for (which, node), number in cells:
        left[node] -= number * sizes[which]


def all_room(problem: Problem, nodes: RowIndex | None = None) -> Ints:
    """[node, resource]: what would be free if everyone who may left; of some nodes, or of all."""
    some = np.arange(problem.nodes) if nodes is None else nodes
    room = problem.free[some].copy()
    held = [
        (place, which, count) for place, node in enumerate(some.tolist()) for which, count in problem.held[node].items()
    ]
    if held:
        place, which, count = np.array(held, np.int64).T
        np.add.at(room, place, count[:, None] * problem.sizes[which])
    return room


def newly_asked(problem: Problem, shift: Shift) -> Mask:
    """[node, resource]: what somebody who comes asks for."""
    asked = np.zeros(problem.free.shape, np.bool_)
    for (which, node), number in shift.net.items():
        if number > 0:
            asked[node] |= problem.sizes[which] > 0
    for (which, node), number in shift.puts.items():
        if number:
            asked[node] |= problem.demands[which].size > 0
    return asked


def value(problem: Problem, shift: Shift) -> int:
    """What an answer is worth: the number of empty nodes, or the worth of everything placed."""
    if problem.empties:
        return int(np.count_nonzero(~problem.stuck & (guests(problem, shift) == 0)))
    return sum(problem.demands[which].worth * number for (which, _), number in shift.puts.items())


def guests(problem: Problem, shift: Shift = STAY) -> Ints:
    """How many pods that may move each node has afterwards."""
    counts = np.array([sum(held.values()) for held in problem.held], np.int64)
    for (_, node), number in shift.net.items():
        counts[node] += number
    for (_, node), number in shift.puts.items():
        counts[node] += number
    return counts


def rounded(problem: Problem, units: float) -> int:
    """The largest worth there can be that is not more than so many units."""
    tolerance = 1e-6
    return floor(units + tolerance) * problem.unit if problem.whole else floor((units + tolerance) * problem.unit)


def better(problem: Problem, one: Shift, other: Shift) -> bool:
    """Whether one answer is worth more than another, or as much with fewer moves."""
    return (value(problem, one), -one.moves) > (value(problem, other), -other.moves)


def flaws(problem: Problem, shift: Shift) -> list[str]:
    """Everything that is wrong with an answer, in words for a programmer; none for a good one."""
    found: list[str] = []
    if shift.moves > problem.limit:
        found.append(f"{shift.moves} moves are more than {problem.limit}")
    over = (left_over(problem, shift) < 0) & newly_asked(problem, shift)
    found += [f"node {node} is over-committed" for node in np.flatnonzero(over.any(axis=1)).tolist()]
    sums: dict[int, int] = {}
    for (which, node), number in sorted(shift.net.items()):
        sums[which] = sums.get(which, 0) + number
        if number < -problem.held[node].get(which, 0):
            found.append(f"{-number} of class {which} leave node {node}, more than are there")
        if number > 0 and not problem.suits(which)[node]:
            found.append(f"class {which} may not go to node {node}")
        if number > 1 and problem.alone[which]:
            found.append(f"{number} of class {which} come to node {node}")
    found += [f"class {which} sums up to {total}" for which, total in sums.items() if total]
    return found + list(_demand_flaws(problem, shift))


def _demand_flaws(problem: Problem, shift: Shift) -> Iterable[str]:
    placed: dict[int, int] = {}
    in_gang: dict[int, int] = {}
    for (which, node), number in sorted(shift.puts.items()):
        demand = problem.demands[which]
        placed[which] = placed.get(which, 0) + number
        if demand.gang is not None:
            in_gang[demand.gang] = in_gang.get(demand.gang, 0) + number
        if number and not demand.suits[node]:
            yield f"demand {which} may not go to node {node}"
        if number < 0 or (number > 1 and demand.alone):
            yield f"{number} of demand {which} on node {node}"
    for which, number in placed.items():
        if number > problem.demands[which].supply:
            yield f"{number} of demand {which} are more than wait"
    for gang, number in in_gang.items():
        if 0 < number < problem.least[gang]:
            yield f"gang {gang} is placed in part"
    for quota in problem.quotas:
        if (charged(quota, placed) > quota.most).any():
            yield f"{charged(quota, placed)} are more than a quota of {quota.most}"


def charged(quota: Quota, placed: Mapping[int, int]) -> Ints:
    """What so many of each demand count for."""
    nothing = np.zeros_like(quota.most)
    return sum((placed.get(which, 0) * asked for which, asked in quota.asked.items()), nothing)
