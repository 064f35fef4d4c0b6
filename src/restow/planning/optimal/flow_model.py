"""The flow model: an exact integer program of the packing problem over some nodes.

Goes in: a problem, a solution so far, and the nodes to decide anew. What the solution says of all other nodes stays.
Comes out: a better solution, or none; and if all nodes are decided, an upper bound.

    columns                  per class and node: how many pods leave, and how many come; per demand and node: how many
                             are placed; binary ones for empty nodes, gangs that start, and resources that stay
                             over-committed
    per node and resource    what comes and is placed, less what leaves, fits into the free amount
    per class                as many pods come as leave (flow conservation), with those of the other nodes
    moves                    at most `max_moves` pods come
    demands, gangs, quotas   as in the master problem
    an empty node            uses up all of its room, so that no pod fits, and all its movable pods leave

Over all nodes it is the whole problem, so the bound of the solver is a bound of the problem. Over a few nodes it is the
subproblem of the large-neighbourhood search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np

from restow.model.cluster import RowIndex
from restow.planning.deadline import DeadlineCheck, no_deadline
from restow.planning.optimal.packing_problem import (
    UNLIMITED,
    Cell,
    Ints,
    PackingProblem,
    QueueQuota,
    Solution,
    free_after,
    max_free,
    movable_pod_counts,
    quota_charge,
    round_down_value,
    solution_defects,
)
from restow.planning.optimal.solver import UNBOUNDED, IntegerProgram, SolverLimits, SolverResult


class FlowResult(msgspec.Struct, frozen=True):
    solution: Solution | None
    """The best solution found."""
    bound: float
    """An upper bound on the value, if all nodes were decided; else infinite."""
    is_proven: bool = False
    """Whether no solution that differs on these nodes only is better."""


class _ColumnBlock(msgspec.Struct, frozen=True, eq=False):
    """Columns for the number of pods of one class, or of one demand, on each of some nodes."""

    index: int
    """Of the class or the demand."""
    nodes: RowIndex
    first: int

    @property
    def columns(self) -> RowIndex:
        return np.arange(self.first, self.first + len(self.nodes))

    def columns_of(self, node: int) -> list[int]:
        """The column of a node; empty if it has none."""
        return [self.first + place for place in np.flatnonzero(self.nodes == node).tolist()]


class FlowModel:
    def __init__(
        self,
        problem: PackingProblem,
        base: Solution,
        nodes: Iterable[int],
        max_columns: int = UNLIMITED,
        *,
        is_late: DeadlineCheck = no_deadline,
    ) -> None:
        self.problem = problem
        self.is_complete = True
        """Whether the program was built to the end: it did not become too large or too late."""
        self._nodes: RowIndex = np.array(sorted(nodes), np.intp)
        self._fixed = _solution_outside(base, frozenset(self._nodes.tolist()))
        """The part of the solution that stays."""
        self._moves_left = max(problem.max_moves - self._fixed.move_count, 0)
        self._unit = problem.unit
        self._move_cost = 0.5 / (problem.max_moves + 1)
        """All moves together cost less than one unit of value: moves only break ties."""
        self._max_free = max_free(problem, self._nodes)
        self._leaving: list[_ColumnBlock] = []
        self._coming: list[_ColumnBlock] = []
        self._placing: list[_ColumnBlock] = []
        self._emptying: list[_ColumnBlock] = []
        self._gang_columns: list[tuple[int, int]] = []
        """(column, gang)."""
        self._overcommit_columns: list[tuple[int, int, int]] = []
        """(column, node, resource)."""
        self._program = IntegerProgram()
        self._room_row = self._program.add_rows(problem.free[self._nodes].ravel())
        self._build(max_columns, is_late)

    def solve(self, limits: SolverLimits, start: Solution | None = None) -> FlowResult:
        """Look for the best solution, beginning with `start` if it is given."""
        initial = None if start is None else self._column_values(start)
        return self._read_result(self._program.solve(limits, start=initial))

    # --- building -----------------------------------------------------------------------------------------------------

    def _build(self, max_columns: int, is_late: DeadlineCheck) -> None:
        moves_row = self._program.add_rows(self._moves_left)
        sources = self._sources()
        for class_index in sorted({*sources, *(index for index, _ in self._fixed.pod_changes)}):
            self._add_class(class_index, sources.get(class_index, []), moves_row)
            if self._is_given_up(max_columns, is_late):
                return
        for demand_index in range(len(self.problem.demands)):
            self._add_demand(demand_index)
            if self._is_given_up(max_columns, is_late):
                return
        for gang in sorted(self.problem.gang_minimums):
            self._add_gang(gang)
        for quota in self.problem.quotas:
            self._add_quota(quota)
        if self.problem.counts_empty_nodes:
            self._add_empty_nodes()
        self._add_overcommitment()

    def _is_given_up(self, max_columns: int, is_late: DeadlineCheck) -> bool:
        self.is_complete = self._program.column_count <= max_columns and not is_late()
        return not self.is_complete

    def _sources(self) -> dict[int, list[tuple[int, int]]]:
        """By class: the nodes that pods can leave, and how many."""
        sources: dict[int, list[tuple[int, int]]] = {}
        for node in self._nodes.tolist():
            for class_index, count in self.problem.movable_pods[node].items():
                sources.setdefault(class_index, []).append((node, count))
        return sources

    def _add_class(self, class_index: int, sources: Sequence[tuple[int, int]], moves_row: int) -> None:
        """Pods of one class leave some nodes and come to others."""
        problem, program = self.problem, self._program
        size = problem.class_sizes[class_index]
        balance = -sum(number for (index, _), number in self._fixed.pod_changes.items() if index == class_index)
        row = program.add_rows(balance, balance)
        if sources:
            nodes, counts = (np.array(part, np.intp) for part in zip(*sources, strict=True))
            leaving = _ColumnBlock(class_index, nodes, program.add_columns(0.0, counts))
            self._leaving.append(leaving)
            self._add_room_terms(leaving, -size)
            program.add_terms(row, leaving.columns, -1.0)
        limits = np.minimum(self._max_fitting(size), 1 if problem.one_per_node[class_index] else self._moves_left)
        limits[~problem.allowed_nodes(class_index)[self._nodes]] = 0
        first = program.add_columns(-self._move_cost, limits[limits > 0])
        coming = _ColumnBlock(class_index, self._nodes[limits > 0], first)
        self._coming.append(coming)
        self._add_room_terms(coming, size)
        program.add_terms(row, coming.columns, 1.0)
        program.add_terms(moves_row, coming.columns, 1.0)

    def _add_demand(self, demand_index: int) -> None:
        """Pods of one demand are placed."""
        program, demand = self._program, self.problem.demands[demand_index]
        fixed = sum(number for (index, _), number in self._fixed.placements.items() if index == demand_index)
        pending = demand.count - fixed
        limits = np.minimum(self._max_fitting(demand.size), 1 if demand.one_per_node else max(pending, 0))
        limits[~demand.allowed_nodes[self._nodes]] = 0
        first = program.add_columns(demand.value / self._unit, limits[limits > 0])
        placing = _ColumnBlock(demand_index, self._nodes[limits > 0], first)
        self._placing.append(placing)
        self._add_room_terms(placing, demand.size)
        program.add_terms(program.add_rows(pending), placing.columns, 1.0)

    def _add_gang(self, gang: int) -> None:
        """A binary column: 1 if the gang starts. Then at least its minimum is placed, else nothing."""
        demands, program = self.problem.demands, self._program
        fixed = sum(number for (index, _), number in self._fixed.placements.items() if demands[index].gang == gang)
        starts = program.add_columns(0.0, 1)
        self._gang_columns.append((starts, gang))
        enough, nothing = program.add_rows(UNBOUNDED, -fixed), program.add_rows(-fixed)
        program.add_terms(enough, starts, -self.problem.gang_minimums[gang])
        program.add_terms(nothing, starts, -sum(demand.count for demand in demands if demand.gang == gang))
        for block in self._placing:
            if demands[block.index].gang == gang:
                program.add_terms(enough, block.columns, 1.0)
                program.add_terms(nothing, block.columns, 1.0)

    def _add_quota(self, quota: QueueQuota) -> None:
        """A queue takes no more than its quota."""
        fixed: Counter[int] = Counter()
        for (demand_index, _), number in self._fixed.placements.items():
            fixed[demand_index] += number
        rows = self._program.add_rows(quota.limits - quota_charge(quota, fixed))
        for block in self._placing:
            requests = quota.requests.get(block.index, np.zeros_like(quota.limits))
            for resource in np.flatnonzero(requests).tolist():
                self._program.add_terms(rows + resource, block.columns, requests[resource])

    def _add_empty_nodes(self) -> None:
        """A binary column per node: 1 if the node is empty. Then it uses up all room, no pod comes, all pods leave."""
        problem, program = self.problem, self._program
        nodes = self._nodes[~problem.cannot_empty[self._nodes]]
        empty = _ColumnBlock(0, nodes, program.add_columns(1.0, np.ones(len(nodes))))
        self._emptying.append(empty)
        place, column_of = self._places(nodes), dict(zip(nodes.tolist(), empty.columns.tolist(), strict=True))
        room = self._room_row + place[:, None] * problem.free.shape[1] + np.arange(problem.free.shape[1])
        program.add_terms(room, empty.columns[:, None], np.maximum(self._max_free[place], 0))
        # No pod comes: coming + moves_left * empty <= moves_left.
        no_arrivals = program.add_rows(np.full(len(self._nodes), self._moves_left))
        program.add_terms(no_arrivals + place, empty.columns, self._moves_left)
        for block in self._coming:
            program.add_terms(no_arrivals + self._places(block.nodes), block.columns, 1.0)
        # All pods of each class leave: leaving - count * empty >= 0.
        for block in self._leaving:
            for node, column in zip(block.nodes.tolist(), block.columns.tolist(), strict=True):
                if node in column_of:
                    row = program.add_rows(UNBOUNDED, 0.0)
                    count = problem.movable_pods[node][block.index]
                    program.add_terms(row, [column, column_of[node]], [1.0, -count])

    def _add_overcommitment(self) -> None:
        """Where a node is over-committed: either no pod comes that requests the resource, or so many leave that all
        fit.

        The row of the resource cannot be satisfied at first, because its right side is negative. A binary column
        relaxes it by the missing amount; while the column is 1, a second row allows no arrivals that request the
        resource.
        """
        problem, program = self.problem, self._program
        for place, resource in np.argwhere(problem.free[self._nodes] < 0).tolist():
            node = int(self._nodes[place])
            arrivals = [
                column for size, block in self._arrivals() if size[resource] for column in block.columns_of(node)
            ]
            stays_overcommitted = program.add_columns(0.0, 1)
            self._overcommit_columns.append((stays_overcommitted, node, resource))
            row = self._room_row + place * problem.free.shape[1] + resource
            program.add_terms(row, stays_overcommitted, problem.free[node, resource])
            limit = self._moves_left + max(int(self._max_free[place, resource]), 0)
            columns, factors = [*arrivals, stays_overcommitted], [*(1.0 for _ in arrivals), limit]
            program.add_terms(program.add_rows(limit), columns, factors)

    def _arrivals(self) -> Iterator[tuple[Ints, _ColumnBlock]]:
        """The columns of pods that come or are placed, with the requests of one pod."""
        yield from ((self.problem.class_sizes[block.index], block) for block in self._coming)
        yield from ((self.problem.demands[block.index].size, block) for block in self._placing)

    def _add_room_terms(self, block: _ColumnBlock, size: Ints) -> None:
        """Each pod of a block takes this size of its node's room."""
        rows = self._room_row + self._places(block.nodes) * len(size)
        for resource, amount in enumerate(size.tolist()):
            if amount:
                self._program.add_terms(rows + resource, block.columns, amount)

    def _places(self, nodes: RowIndex) -> RowIndex:
        """The positions of nodes among the nodes of the model."""
        return np.searchsorted(self._nodes, nodes)

    def _max_fitting(self, size: Ints) -> Ints:
        """How many pods of a size fit on each node if all movable pods leave."""
        requested = size > 0
        room = np.maximum(self._max_free[:, requested], 0)
        fitting: Ints = (room // size[requested]).min(axis=1, initial=UNLIMITED)
        return fitting

    # --- reading ------------------------------------------------------------------------------------------------------

    def _read_result(self, result: SolverResult | None) -> FlowResult:
        if result is None:
            return FlowResult(None, UNBOUNDED)
        bound = self._value_bound(result.bound)
        if result.values is None:
            return FlowResult(None, bound)
        solution = self._read_solution(np.rint(result.values).astype(np.int64))
        # The solver works with floating-point numbers and tolerances: what it calls feasible is checked exactly.
        return FlowResult(solution if not solution_defects(self.problem, solution) else None, bound, result.is_proven)

    def _value_bound(self, bound: float) -> float:
        """The bound on the value, from the bound of the program: its objective also has the costs of moves."""
        if len(self._nodes) < self.problem.node_count or bound == UNBOUNDED:
            return UNBOUNDED
        return round_down_value(self.problem, bound + self._move_cost * self.problem.max_moves)

    def _read_solution(self, values: Ints) -> Solution:
        changes, placements = dict(self._fixed.pod_changes), dict(self._fixed.placements)
        for cells, sign, blocks in (
            (changes, 1, self._coming),
            (changes, -1, self._leaving),
            (placements, 1, self._placing),
        ):
            for block in blocks:
                numbers = values[block.columns]
                for place in np.flatnonzero(numbers).tolist():
                    cell = (block.index, int(block.nodes[place]))
                    cells[cell] = cells.get(cell, 0) + sign * int(numbers[place])
        return Solution({cell: number for cell, number in changes.items() if number}, placements)

    def _column_values(self, solution: Solution) -> dict[int, float]:
        """A solution as values of the columns, those that are 0 left out."""
        values: dict[int, float] = {}
        for blocks, cells, sign in (
            (self._coming, solution.pod_changes, 1),
            (self._leaving, solution.pod_changes, -1),
            (self._placing, solution.placements, 1),
        ):
            for block in blocks:
                for node, column in zip(block.nodes.tolist(), block.columns.tolist(), strict=True):
                    number = sign * cells.get((block.index, node), 0)
                    if number > 0:
                        values[column] = number
        return {**values, **dict.fromkeys(self._true_columns(solution), 1.0)}

    def _true_columns(self, solution: Solution) -> Iterator[int]:
        """The binary columns that are 1: empty nodes, gangs that start, and resources that stay over-committed."""
        problem = self.problem
        counts, free = movable_pod_counts(problem, solution), free_after(problem, solution)
        for block in self._emptying:
            yield from block.columns[counts[block.nodes] == 0].tolist()
        placed = {problem.demands[index].gang for (index, _), number in solution.placements.items() if number}
        yield from (column for column, gang in self._gang_columns if gang in placed)
        yield from (column for column, node, resource in self._overcommit_columns if free[node, resource] < 0)


def _solution_outside(solution: Solution, inside: frozenset[int]) -> Solution:
    """The part of a solution on all other nodes."""

    def kept(cells: Iterable[tuple[Cell, int]]) -> dict[Cell, int]:
        return {cell: number for cell, number in cells if cell[1] not in inside}

    return Solution(kept(solution.pod_changes.items()), kept(solution.placements.items()))
