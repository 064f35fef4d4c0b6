"""Removes moves from a solution that do not contribute to its value.

Goes in: a problem and a solution. Comes out: a solution with no more moves and no lower value.

    undo_useless_moves   pods that can as well stay on their nodes, while nothing else changes, stay
    minimise_moves       so do pods that can stay if pending pods are placed differently on the two nodes of the move
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from restow.planning.optimal.packing_problem import Ints, PackingProblem, Solution, free_after, movable_pod_counts
from restow.planning.optimal.remaining_demand import RemainingDemand


def undo_useless_moves(problem: PackingProblem, solution: Solution) -> Solution:
    """The same placements without moves that can be undone one by one."""
    reducer = _MoveReducer(problem, solution)
    reducer.undo_useless_moves()
    return reducer.solution


def minimise_moves(problem: PackingProblem, solution: Solution) -> Solution:
    """A solution of the same value from which no single move can be removed."""
    reducer = _MoveReducer(problem, solution)
    reducer.undo_useless_moves()
    while not problem.counts_empty_nodes and reducer.undo_move_and_place_anew():
        reducer.undo_useless_moves()
    return reducer.solution


class _MoveReducer:
    def __init__(self, problem: PackingProblem, solution: Solution) -> None:
        self._problem = problem
        self._free = free_after(problem, solution)
        self._pod_changes = {cell: number for cell, number in solution.pod_changes.items() if number}
        self._placements: dict[int, dict[int, int]] = {}
        """By node and demand."""
        for (demand, node), number in sorted(solution.placements.items()):
            self._placements.setdefault(node, {})[demand] = number
        self._pod_counts = movable_pod_counts(problem, solution)
        self._remaining = RemainingDemand(problem, solution)
        demands = problem.demands
        self._single_by_value = sorted(
            (index for index, demand in enumerate(demands) if demand.gang is None),
            key=lambda index: (-demands[index].value, index),
        )

    @property
    def solution(self) -> Solution:
        placements = {
            (demand, node): number
            for node, here in self._placements.items()
            for demand, number in here.items()
            if number
        }
        return Solution(dict(self._pod_changes), placements)

    def undo_useless_moves(self) -> None:
        """Undo moves of pods that still fit on their old node, unless that node is empty now and is to stay so."""
        changed = True
        while changed:
            changed = False
            for class_index, sources, targets in self._moved_classes():
                for source in sources:
                    is_source = self._pod_changes.get((class_index, source), 0) < 0
                    if is_source and self._may_stay(class_index, source, targets[-1]):
                        self._undo_move(class_index, source, targets[-1])
                        changed = True
                        break

    def undo_move_and_place_anew(self) -> bool:
        """Undo one move, if its source loses no more value by that than its target gains; False if there is none."""
        for class_index, sources, targets in self._moved_classes():
            losses = [(self._value_change(class_index, source, 1), source) for source in sources]
            gains = [(self._value_change(class_index, target, -1), target) for target in targets]
            loss, source = max((each for each in losses if each[0] is not None), default=(None, 0))
            gain, target = max((each for each in gains if each[0] is not None), default=(None, 0))
            # The two nodes were looked at one by one; together they may compete for the same pending pods.
            if (
                loss is not None
                and gain is not None
                and loss + gain >= 0
                and self._try_undo_and_place(class_index, source, target)
            ):
                return True
        return False

    # ------------------------------------------------------------------------------------------------------------------

    def _moved_classes(self) -> Iterator[tuple[int, list[int], list[int]]]:
        """By class: the nodes that its pods left, and those that they came to."""
        by_class: dict[int, tuple[list[int], list[int]]] = {}
        for (class_index, node), number in sorted(self._pod_changes.items()):
            by_class.setdefault(class_index, ([], []))[number > 0].append(node)
        for class_index, (sources, targets) in by_class.items():
            yield class_index, sources, targets

    def _may_stay(self, class_index: int, source: int, target: int) -> bool:
        if not self._is_feasible(source, self._free[source] - self._problem.class_sizes[class_index]):
            return False
        counts_empty_nodes = self._problem.counts_empty_nodes
        # An empty node may be given up only for another one: the target, if this pod is its only one.
        return not (counts_empty_nodes and self._is_empty(source, 0)) or self._is_empty(target, 1)

    def _is_feasible(self, node: int, free: Ints) -> bool:
        """Whether a node may have these free amounts: no pod that came requests a resource that is over-committed."""
        over = free < 0
        if not over.any():
            return True
        arrived = [
            self._problem.class_sizes[class_index]
            for (class_index, where), number in self._pod_changes.items()
            if where == node and number > 0
        ]
        placed = self._placements.get(node, {}).items()
        arrived += [self._problem.demands[demand].size for demand, number in placed if number]
        return not any((size[over] > 0).any() for size in arrived)

    def _is_empty(self, node: int, without: int) -> bool:
        """Whether a node counts as empty, or would without so many of its pods."""
        return not self._problem.cannot_empty[node] and bool(self._pod_counts[node] == without)

    def _undo_move(self, class_index: int, source: int, target: int) -> None:
        for node, sign in ((source, 1), (target, -1)):
            cell = class_index, node
            self._pod_changes[cell] = self._pod_changes.get(cell, 0) + sign
            if not self._pod_changes[cell]:
                del self._pod_changes[cell]
            self._free[node] -= sign * self._problem.class_sizes[class_index]
            self._pod_counts[node] += sign

    def _try_undo_and_place(self, class_index: int, source: int, target: int) -> bool:
        """Undo a move and place pending pods anew on both nodes; if the value is lower then, nothing changes."""
        before = {node: self._unplace(node) for node in (source, target)}
        self._undo_move(class_index, source, target)
        for node in before:
            self._place_most_valuable(node)
        if sum(map(self._node_value, before)) >= sum(self._value_of(placed) for placed in before.values()):
            return True
        for node in before:
            self._unplace(node)
        self._undo_move(class_index, target, source)
        for node, placed in before.items():
            self._place_all(node, placed)
        return False

    def _value_change(self, class_index: int, node: int, sign: int) -> int | None:
        """The change in the value of a node with one more pod of a class (sign 1), or with one less (sign -1). None if
        the pod does not fit."""
        before, size = self._unplace(node), self._problem.class_sizes[class_index]
        self._free[node] -= sign * size
        change = None
        if self._is_feasible(node, self._free[node]):
            self._place_most_valuable(node)
            change = self._node_value(node) - self._value_of(before)
            self._unplace(node)
        self._free[node] += sign * size
        self._place_all(node, before)
        return change

    # --- pending pods without a gang on one node --------------------------------------------------------------------

    def _place_most_valuable(self, node: int) -> None:
        here = self._placements.get(node, {})
        for index in self._single_by_value:
            demand = self._problem.demands[index]
            pending = self._remaining.max_placeable(index) if demand.allowed_nodes[node] else 0
            if pending > 0:
                requested = demand.size > 0
                fitting = int((self._free[node][requested] // demand.size[requested]).min())
                self._place(node, index, max(min(fitting, pending, demand.max_per_node - here.get(index, 0)), 0))

    def _unplace(self, node: int) -> dict[int, int]:
        """Remove the placed pods without a gang; returns them."""
        demands = self._problem.demands
        placed = {
            demand: number for demand, number in self._placements.get(node, {}).items() if demands[demand].gang is None
        }
        for demand, number in placed.items():
            self._place(node, demand, -number)
        return placed

    def _place_all(self, node: int, placed: Mapping[int, int]) -> None:
        for demand, number in placed.items():
            self._place(node, demand, number)

    def _place(self, node: int, demand: int, number: int) -> None:
        if number:
            here = self._placements.setdefault(node, {})
            here[demand] = here.get(demand, 0) + number
            if not here[demand]:
                del here[demand]
            self._remaining.subtract([(demand, number)])
            self._free[node] -= number * self._problem.demands[demand].size
            self._pod_counts[node] += number

    def _node_value(self, node: int) -> int:
        here, demands = self._placements.get(node, {}), self._problem.demands
        return self._value_of({demand: number for demand, number in here.items() if demands[demand].gang is None})

    def _value_of(self, placed: Mapping[int, int]) -> int:
        return sum(self._problem.demands[demand].value * number for demand, number in placed.items())
