"""Builds a solution step by step, and keeps what is free, which pods have left and come, and which pods are still
pending.

Goes in: a problem, a solution to begin with, and patterns to apply. Comes out: a `Solution` that is feasible at every
moment. A pattern is applied as a whole, with a target for each departing pod, or not at all.
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
    def __init__(self, problem: PackingProblem, solution: Solution = UNCHANGED) -> None:
        self.problem = problem
        self.free = free_after(problem, solution)
        self._pod_changes = Counter(solution.pod_changes)
        self._placements = Counter(solution.placements)
        self._pod_counts = movable_pod_counts(problem, solution)
        self.move_count = solution.move_count
        self.closed_to_arrivals: Mask = np.zeros(problem.node_count, np.bool_)
        """Nodes that no departing pod may go to: a pattern has made room there for other pods, or they are to stay
        empty."""
        self.closed_to_pending: Mask = np.zeros(problem.node_count, np.bool_)
        """Nodes that pending pods may go to only as part of a pattern."""
        if problem.counts_empty_nodes:
            self.closed_to_arrivals |= ~problem.cannot_empty & (self._pod_counts == 0)
        self._remaining = RemainingDemand(problem, solution)
        demands = problem.demands
        self._by_value = sorted(range(len(demands)), key=lambda demand: (-demands[demand].value, demand))
        self._rank = {demand: rank for rank, demand in enumerate(self._by_value)}
        nothing, nowhere = np.zeros((0, problem.free.shape[1]), np.int64), np.zeros((0, problem.node_count), np.bool_)
        self._demand_sizes = np.vstack([nothing, *(demand.size for demand in demands)])
        self._allowed_single = np.vstack(
            [nowhere, *(demand.allowed_nodes & (demand.gang is None) for demand in demands)]
        )
        """[demand, node]: the nodes that pods without a gang may use."""
        self._requests = [
            [(resource, amount) for resource, amount in enumerate(demand.size.tolist()) if amount] for demand in demands
        ]
        self._scale = np.maximum(problem.free.max(axis=0, initial=0), 1).astype(np.float64)

    @property
    def solution(self) -> Solution:
        changes = {cell: number for cell, number in self._pod_changes.items() if number}
        return Solution(changes, {cell: number for cell, number in self._placements.items() if number})

    def apply_pattern(self, pattern: NodePattern, node_costs: NDArray[np.float64]) -> bool:
        """Apply a pattern if all of it is possible. Departing pods avoid nodes with high costs, if they can."""
        # 1. Is the pattern still possible on its node?
        if self.closed_to_arrivals[pattern.node] or not self._has_pods(pattern):
            return False
        if self.move_count + pattern.move_count > self.problem.max_moves:
            return False
        if not self._remaining.allows(pattern.placements):
            return False
        # 2. A target for each departing pod, the largest pods first: they have the fewest targets.
        self.closed_to_arrivals[pattern.node] = True
        moved: list[tuple[int, int]] = []
        sizes = self.problem.class_sizes
        for class_index in sorted(
            pattern.departing_classes, key=lambda each: (sizes[each].tolist(), each), reverse=True
        ):
            target = self.best_target(class_index, node_costs)
            if target is None:
                break
            self._move_pod(class_index, pattern.node, target)
            moved.append((class_index, target))
        # 3. The pending pods. If anything is impossible, undo all of it.
        if len(moved) == pattern.move_count and self._place(pattern.node, pattern.placements):
            return True
        for class_index, target in moved:
            self._move_pod(class_index, target, pattern.node)
        self.closed_to_arrivals[pattern.node] = False
        return False

    def with_current_demand(self, pattern: NodePattern) -> NodePattern:
        """The pattern with pods that are still pending: other nodes may have taken those that it was made for."""
        if self._remaining.allows(pattern.placements):
            return pattern
        room = self.free[pattern.node] + self.problem.class_sizes[list(pattern.departing_classes)].sum(axis=0)
        placements = self._placements_in(pattern.node, room)
        return replace(pattern, placements=placements, value=self._value(placements))

    def value_without_departures(self, node: int) -> int:
        """The value of the pending pods that fit on a node as it is."""
        return self._value(self._placements_in(node, self.free[node]))

    def _placements_in(self, node: int, room: Ints) -> tuple[tuple[int, int], ...]:
        """Pending pods that fit into so much room on a node, the most valuable first."""
        placements = list[tuple[int, int]]()
        fitting = np.flatnonzero(has_room(room, self._demand_sizes) & self._allowed_single[:, node])
        left, remaining = room.tolist(), self._remaining.copy() if self.problem.quotas else self._remaining
        for demand in sorted(fitting.tolist(), key=self._rank.__getitem__):
            pending = min(remaining.max_placeable(demand), self.problem.demands[demand].max_per_node)
            number = max_fitting(left, self._requests[demand], pending)
            if number:
                placements.append((demand, number))
                # Demands of one queue share its quota; without quotas each demand is looked at once only.
                if remaining is not self._remaining:
                    remaining.subtract([(demand, number)])
                for resource, amount in self._requests[demand]:
                    left[resource] -= number * amount
        return tuple(placements)

    def _value(self, placements: Iterable[tuple[int, int]]) -> int:
        return sum(self.problem.demands[demand].value * number for demand, number in placements)

    def best_target(self, class_index: int, node_costs: NDArray[np.float64]) -> int | None:
        """The node where a pod of a class costs least: whole slots first, then the cost of the node, then the amounts
        that are left over on it (best fit)."""
        size = self.problem.class_sizes[class_index]
        fits = has_room(self.free, size) & ~self.closed_to_arrivals & self.problem.allowed_nodes(class_index)
        nodes = np.flatnonzero(fits)
        if self.problem.one_per_node[class_index]:
            nodes = nodes[[self._pod_changes[class_index, node] < 1 for node in nodes.tolist()]]
        if not len(nodes):
            return None
        # An over-committed resource has nothing left over, and the pod does not request it.
        waste = (np.maximum(self.free[nodes] - size, 0) / self._scale).sum(axis=1)
        # A lost slot counts 1, the cost of a node is from 0 to 1, and waste / (1 + waste) is from 0 to 1, too.
        return int(nodes[(self._lost_slots(nodes, size) + node_costs[nodes] + waste / (1.0 + waste)).argmin()])

    def _lost_slots(self, nodes: RowIndex, size: Ints) -> Ints:
        """How many slots of the wanted shape each node loses to a pod of this size."""
        lost = np.zeros(len(nodes), np.int64)
        for demand in self.problem.demands:
            if demand.count >= UNLIMITED:
                requested, free = demand.size > 0, self.free[nodes]
                before, after = (
                    np.min(amounts[:, requested] // demand.size[requested], axis=1) for amounts in (free, free - size)
                )
                lost += demand.allowed_nodes[nodes] * (np.maximum(before, 0) - np.maximum(after, 0))
        return lost

    def place_pending_pods(self) -> None:
        """Place pending pods and whole gangs wherever they fit now, the most valuable first."""
        members: dict[int | None, list[int]] = {}
        for demand in self._by_value:
            members.setdefault(self.problem.demands[demand].gang, []).append(demand)
        for demand in self._by_value:
            gang = self.problem.demands[demand].gang
            if gang is None:
                self._place_everywhere(demand)
            elif demand == members[gang][0]:
                self._place_gang(members[gang], self.problem.gang_minimums[gang])

    def _place_gang(self, members: Sequence[int], minimum: int) -> None:
        """Place the demands of a gang, if enough of its pods fit; else place none."""
        before = self.free.copy(), self._placements.copy(), self._remaining.copy(), self._pod_counts.copy()
        placed = sum(number for (demand, _), number in self._placements.items() if demand in members)
        if placed + sum(self._place_everywhere(demand) for demand in members) < minimum:
            self.free, self._placements, self._remaining, self._pod_counts = before

    def _place_everywhere(self, demand_index: int) -> int:
        """Place pods of a demand wherever they fit; returns how many."""
        demand, placed = self.problem.demands[demand_index], 0
        fits = has_room(self.free, demand.size) & demand.allowed_nodes & ~self.closed_to_pending
        for node in np.flatnonzero(fits).tolist():
            pending = self._remaining.max_placeable(demand_index)
            if not pending:
                break
            limit = min(pending, demand.max_per_node - self._placements[demand_index, node])
            number = max_fitting(self.free[node].tolist(), self._requests[demand_index], limit)
            if number and self._place(node, ((demand_index, number),)):
                placed += number
        return placed

    # ------------------------------------------------------------------------------------------------------------------

    def _has_pods(self, pattern: NodePattern) -> bool:
        """Whether the departing pods of a pattern are still on its node."""
        pods = self.problem.movable_pods[pattern.node]
        return all(
            pods.get(class_index, 0) + min(self._pod_changes[class_index, pattern.node], 0) >= number
            for class_index, number in Counter(pattern.departing_classes).items()
        )

    def _move_pod(self, class_index: int, source: int, target: int) -> None:
        for node, sign in ((source, -1), (target, 1)):
            before = self._pod_changes[class_index, node]
            self._pod_changes[class_index, node] += sign
            # Moves are counted by arrivals: only positive changes count.
            self.move_count += max(before + sign, 0) - max(before, 0)
            self._pod_counts[node] += sign
            self.free[node] -= sign * self.problem.class_sizes[class_index]

    def _place(self, node: int, placements: Sequence[tuple[int, int]]) -> bool:
        """Place pending pods on a node; False, and nothing changes, if they do not all fit."""
        demands, after = self.problem.demands, self.free[node].copy()
        requested = np.zeros(len(after), np.bool_)
        for demand, number in placements:
            after -= number * demands[demand].size
            requested |= demands[demand].size > 0
            too_many = demands[demand].one_per_node and self._placements[demand, node] + number > 1
            if not demands[demand].allowed_nodes[node] or too_many:
                return False
        if not self._remaining.allows(placements):
            return False
        if (after[requested] < 0).any():
            return False
        self.free[node] = after
        self._remaining.subtract(placements)
        for demand, number in placements:
            self._placements[demand, node] += number
            self._pod_counts[node] += number
        return True


def max_fitting(room: Sequence[int], requests: Iterable[tuple[int, int]], limit: int) -> int:
    """How many pods with these (resource, amount) fit, up to a limit."""
    for resource, amount in requests:
        limit = min(limit, room[resource] // amount)
    return max(limit, 0)
