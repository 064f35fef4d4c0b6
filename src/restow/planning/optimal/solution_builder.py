"""A stage on which an answer is made step by step: what is free now, who came and left, which pods still wait.

Goes in: a problem, and openings to make. Comes out: a `Shift` that is right at every moment. An opening is made as a
whole, with a place for every leaver, or not at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from restow.model.cluster import Mask, RowIndex
from restow.planning.optimal.node_patterns import NodePattern
from restow.planning.optimal.packing_problem import (
    UNCHANGED,
    UNLIMITED,
    Ints,
    PackingProblem,
    Solution,
    free_after,
    has_room,
    movable_pod_counts,
)
from restow.planning.optimal.remaining_demand import RemainingDemand


class SolutionBuilder:
    def __init__(self, problem: PackingProblem, shift: Solution = UNCHANGED) -> None:
        self.problem = problem
        self.free = free_after(problem, shift)
        self._net = Counter(shift.pod_changes)
        self._puts = Counter(shift.placements)
        self._guests = movable_pod_counts(problem, shift)
        self.move_count = shift.move_count
        self.closed_to_departures: Mask = np.zeros(problem.node_count, np.bool_)
        """Nodes that no leaver may come to: they were opened for somebody else, or are to stay empty."""
        self.closed_to_pending: Mask = np.zeros(problem.node_count, np.bool_)
        """Nodes that no waiting pod may come to unless an opening brings it."""
        if problem.counts_empty_nodes:
            self.closed_to_departures |= ~problem.cannot_empty & (self._guests == 0)
        self._supply = RemainingDemand(problem, shift)
        self._by_worth = sorted(range(len(problem.demands)), key=lambda one: (-problem.demands[one].value, one))
        self._rank = {which: place for place, which in enumerate(self._by_worth)}
        nothing, nowhere = np.zeros((0, problem.free.shape[1]), np.int64), np.zeros((0, problem.node_count), np.bool_)
        self._demanded = np.vstack([nothing, *(demand.size for demand in problem.demands)])
        self._single = np.vstack(
            [nowhere, *(demand.allowed_nodes & (demand.gang is None) for demand in problem.demands)]
        )
        """[demand, node]: where pods that are in no gang may go."""
        self._asked = [
            [(resource, amount) for resource, amount in enumerate(demand.size.tolist()) if amount]
            for demand in problem.demands
        ]
        self._scale = np.maximum(problem.free.max(axis=0, initial=0), 1).astype(np.float64)

    @property
    def solution(self) -> Solution:
        net = {cell: number for cell, number in self._net.items() if number}
        return Solution(net, {cell: number for cell, number in self._puts.items() if number})

    def apply_pattern(self, opening: NodePattern, dear: NDArray[np.float64]) -> bool:
        """Make an opening if all of it is possible. Leavers keep away from nodes that are `dear`, if they can."""
        if (
            self.closed_to_departures[opening.node]
            or self.move_count + opening.move_count > self.problem.max_moves
            or not self._has(opening)
        ):
            return False
        if not self._supply.allows(opening.placements):
            return False
        self.closed_to_departures[opening.node] = True
        gone: list[tuple[int, int]] = []
        for which in sorted(
            opening.departures, key=lambda one: (self.problem.class_sizes[one].tolist(), one), reverse=True
        ):
            target = self.best_target(which, dear)
            if target is None:
                break
            self._go(which, opening.node, target)
            gone.append((which, target))
        if len(gone) == opening.move_count and self._put(opening.node, opening.placements):
            return True
        for which, target in gone:
            self._go(which, target, opening.node)
        self.closed_to_departures[opening.node] = False
        return False

    def with_current_demand(self, opening: NodePattern) -> NodePattern:
        """The opening with such waiting pods as there still are."""
        if self._supply.allows(opening.placements):
            return opening
        room = self.free[opening.node] + self.problem.class_sizes[list(opening.departures)].sum(axis=0)
        puts = self._takes(opening.node, room)
        return replace(opening, placements=puts, value=self._worth(puts))

    def value_without_departures(self, node: int) -> int:
        """What a node is worth if nobody leaves it."""
        return self._worth(self._takes(node, self.free[node]))

    def _takes(self, node: int, room: Ints) -> tuple[tuple[int, int], ...]:
        """Waiting pods that so much room on a node takes, most worth first."""
        counts = list[tuple[int, int]]()
        fitting = np.flatnonzero(has_room(room, self._demanded) & self._single[:, node])
        left, supply = room.tolist(), self._supply.copy() if self.problem.quotas else self._supply
        for which in sorted(fitting.tolist(), key=self._rank.__getitem__):
            number = max_fitting(
                left, self._asked[which], min(supply.max_placeable(which), self.problem.demands[which].max_per_node)
            )
            if number:
                counts.append((which, number))
                if supply is not self._supply:
                    supply.take([(which, number)])
                for resource, amount in self._asked[which]:
                    left[resource] -= number * amount
        return tuple(counts)

    def _worth(self, puts: Iterable[tuple[int, int]]) -> int:
        return sum(self.problem.demands[which].value * number for which, number in puts)

    def best_target(self, which: int, dear: NDArray[np.float64]) -> int | None:
        """The node where a pod of a class spoils no room for the shape that is wanted and leaves least of it behind,
        dear ones last."""
        size = self.problem.class_sizes[which]
        able = has_room(self.free, size) & ~self.closed_to_departures & self.problem.allowed_nodes(which)
        nodes = np.flatnonzero(able)
        if self.problem.one_per_node[which]:
            nodes = nodes[[self._net[which, node] < 1 for node in nodes.tolist()]]
        if not len(nodes):
            return None
        waste = ((self.free[nodes] - size) / self._scale).sum(axis=1)
        return int(nodes[(self._spoilt(nodes, size) + dear[nodes] + waste / (1.0 + waste)).argmin()])

    def _spoilt(self, nodes: RowIndex, size: Ints) -> Ints:
        """How many fewer of a demand that does not run out each node could take beside a pod of this size."""
        lost = np.zeros(len(nodes), np.int64)
        for demand in self.problem.demands:
            if demand.count >= UNLIMITED:
                asked, left = demand.size > 0, self.free[nodes]
                before, after = (np.min(some[:, asked] // demand.size[asked], axis=1) for some in (left, left - size))
                lost += demand.allowed_nodes[nodes] * (np.maximum(before, 0) - np.maximum(after, 0))
        return lost

    def place_pending_pods(self) -> None:
        """Place waiting pods and whole gangs wherever they fit by now, most worth first."""
        members: dict[int | None, list[int]] = {}
        for which in self._by_worth:
            members.setdefault(self.problem.demands[which].gang, []).append(which)
        for which in self._by_worth:
            gang = self.problem.demands[which].gang
            if gang is None:
                self._fill_with(which)
            elif which == members[gang][0]:
                self._fill_with_gang(members[gang], self.problem.gang_minimums[gang])

    def _fill_with_gang(self, members: Sequence[int], least: int) -> None:
        """Place a gang, if all that have to be placed together fit."""
        kept = self.free.copy(), self._puts.copy(), self._supply.copy(), self._guests.copy()
        before = sum(number for (which, _), number in self._puts.items() if which in members)
        if before + sum(self._fill_with(which) for which in members) < least:
            self.free, self._puts, self._supply, self._guests = kept

    def _fill_with(self, which: int) -> int:
        """Place waiting pods that are alike wherever they fit: how many do."""
        demand, placed = self.problem.demands[which], 0
        able = has_room(self.free, demand.size) & demand.allowed_nodes & ~self.closed_to_pending
        for node in np.flatnonzero(able).tolist():
            left = self._supply.max_placeable(which)
            if not left:
                break
            most = min(left, demand.max_per_node - self._puts[which, node])
            number = max_fitting(self.free[node].tolist(), self._asked[which], most)
            if number and self._put(node, ((which, number),)):
                placed += number
        return placed

    # ------------------------------------------------------------------------------------------------------------------

    def _has(self, opening: NodePattern) -> bool:
        """Whether the leavers still are on the node."""
        held = self.problem.movable_pods[opening.node]
        return all(
            held.get(which, 0) + min(self._net[which, opening.node], 0) >= number
            for which, number in Counter(opening.departures).items()
        )

    def _go(self, which: int, source: int, target: int) -> None:
        for node, sign in ((source, -1), (target, 1)):
            before = self._net[which, node]
            self._net[which, node] += sign
            self.move_count += max(before + sign, 0) - max(before, 0)
            self._guests[node] += sign
            self.free[node] -= sign * self.problem.class_sizes[which]

    def _put(self, node: int, puts: Sequence[tuple[int, int]]) -> bool:
        """Place waiting pods on a node; False, and nothing changes, if they do not all fit."""
        demands, after = self.problem.demands, self.free[node].copy()
        asked = np.zeros(len(after), np.bool_)
        for which, number in puts:
            after -= number * demands[which].size
            asked |= demands[which].size > 0
            alone = demands[which].one_per_node and self._puts[which, node] + number > 1
            if not demands[which].allowed_nodes[node] or alone:
                return False
        if not self._supply.allows(puts):
            return False
        if (after[asked] < 0).any():
            return False
        self.free[node] = after
        self._supply.take(puts)
        for which, number in puts:
            self._puts[which, node] += number
            self._guests[node] += number
        return True


def max_fitting(room: Sequence[int], asked: Iterable[tuple[int, int]], most: int) -> int:
    """How many that ask for (resource, amount) fit, up to `most`."""
    for resource, amount in asked:
        most = min(most, room[resource] // amount)
    return max(most, 0)
