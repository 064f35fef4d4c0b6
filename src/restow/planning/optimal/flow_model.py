"""The flow model: exact over the nodes it is given, whole numbers of pods of each class that leave and come.

Goes in: a problem, an answer to it so far, and the nodes that may be decided anew; what the answer says of all other
nodes stays. Comes out: a better answer, or none, and over all nodes a bound that no answer exceeds.

    per node and resource    what comes and is placed, less what leaves, fits into what is free
    per class                as many come as leave, the other nodes counted
    at most                  `limit` moves; as many placed as wait, and as queues may take; gangs as a whole
    an empty node            takes with it all of its room: everyone leaves and nobody comes
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
    """The best answer found."""
    bound: float
    """Where all nodes were decided: what no answer is worth more than."""
    is_proven: bool = False
    """Whether no answer over these nodes is worth more."""


class _Block(msgspec.Struct, frozen=True, eq=False):
    """Columns that say how many of one class, or demand, there are on each of some nodes."""

    which: int
    nodes: RowIndex
    first: int

    @property
    def columns(self) -> RowIndex:
        return np.arange(self.first, self.first + len(self.nodes))

    def on(self, node: int) -> list[int]:
        """The column of a node, if it has one."""
        return [self.first + place for place in np.flatnonzero(self.nodes == node).tolist()]


class FlowModel:
    """The program over some nodes, of so many columns at most."""

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
        """Whether all of it was put together: it did not get too large, or too late."""
        self._nodes: RowIndex = np.array(sorted(nodes), np.intp)
        self._outer = _outside(base, frozenset(self._nodes.tolist()))
        self._spare = max(problem.max_moves - self._outer.move_count, 0)
        self._unit = problem.unit
        self._price = 0.5 / (problem.max_moves + 1)  # of a move: all of them together are not worth one unit
        self._all_room = max_free(problem, self._nodes)
        self._out: list[_Block] = []
        self._in: list[_Block] = []
        self._put: list[_Block] = []
        self._empty: list[_Block] = []
        self._starts: list[tuple[int, int]] = []
        """(column, gang)."""
        self._owes: list[tuple[int, int, int]] = []
        """(column, node, resource)."""
        self._program = IntegerProgram()
        self._room = self._program.add_rows(problem.free[self._nodes].ravel())
        self._build(max_columns, is_late)

    def solve(self, limits: SolverLimits, start: Solution | None = None) -> FlowResult:
        """Look for the best answer, beginning with `start` if one is given."""
        known = None if start is None else self._columns_of(start)
        return self._read(self._program.solve(limits, start=known))

    # --- building -----------------------------------------------------------------------------------------------------

    def _build(self, most: int, late: DeadlineCheck) -> None:
        moving = self._program.add_rows(self._spare)
        leavers = self._leavers()
        for which in sorted({*leavers, *(which for which, _ in self._outer.pod_changes)}):
            self._flow(which, leavers.get(which, []), moving)
            if self._stops(most, late):
                return
        for which in range(len(self.problem.demands)):
            self._placed(which)
            if self._stops(most, late):
                return
        for gang in sorted(self.problem.gang_minimums):
            self._gang(gang)
        for quota in self.problem.quotas:
            self._within(quota)
        if self.problem.counts_empty_nodes:
            self._emptied()
        self._in_debt()

    def _stops(self, most: int, late: DeadlineCheck) -> bool:
        self.is_complete = self._program.column_count <= most and not late()
        return not self.is_complete

    def _leavers(self) -> dict[int, list[tuple[int, int]]]:
        """By class, the nodes that pods can leave, and how many."""
        found: dict[int, list[tuple[int, int]]] = {}
        for node in self._nodes.tolist():
            for which, count in self.problem.movable_pods[node].items():
                found.setdefault(which, []).append((node, count))
        return found

    def _flow(self, which: int, leavers: Sequence[tuple[int, int]], moving: int) -> None:
        """Pods of one class leave some nodes and come to others."""
        problem, program = self.problem, self._program
        size = problem.class_sizes[which]
        balance = -sum(number for (one, _), number in self._outer.pod_changes.items() if one == which)
        row = program.add_rows(balance, balance)
        if leavers:
            nodes, counts = (np.array(part, np.intp) for part in zip(*leavers, strict=True))
            out = _Block(which, nodes, program.add_columns(0.0, counts))
            self._out.append(out)
            self._uses(out, -size)
            program.add_terms(row, out.columns, -1.0)
        fits = np.minimum(self._most_that_fit(size), 1 if problem.one_per_node[which] else self._spare)
        fits[~problem.allowed_nodes(which)[self._nodes]] = 0
        comers = _Block(which, self._nodes[fits > 0], program.add_columns(-self._price, fits[fits > 0]))
        self._in.append(comers)
        self._uses(comers, size)
        program.add_terms(row, comers.columns, 1.0)
        program.add_terms(moving, comers.columns, 1.0)

    def _placed(self, which: int) -> None:
        """Waiting pods that are alike are placed."""
        program, demand = self._program, self.problem.demands[which]
        supply = demand.count - sum(number for (one, _), number in self._outer.placements.items() if one == which)
        fits = np.minimum(self._most_that_fit(demand.size), 1 if demand.one_per_node else max(supply, 0))
        fits[~demand.allowed_nodes[self._nodes]] = 0
        placed = _Block(which, self._nodes[fits > 0], program.add_columns(demand.value / self._unit, fits[fits > 0]))
        self._put.append(placed)
        self._uses(placed, demand.size)
        program.add_terms(program.add_rows(supply), placed.columns, 1.0)

    def _gang(self, gang: int) -> None:
        """Of a gang, either so many are placed as must be, or nobody."""
        demands, program = self.problem.demands, self._program
        gone = sum(number for (which, _), number in self._outer.placements.items() if demands[which].gang == gang)
        starts = program.add_columns(0.0, 1)
        self._starts.append((starts, gang))
        enough, nobody_else = program.add_rows(UNBOUNDED, -gone), program.add_rows(-gone)
        program.add_terms(enough, starts, -self.problem.gang_minimums[gang])
        program.add_terms(nobody_else, starts, -sum(demand.count for demand in demands if demand.gang == gang))
        for block in self._put:
            if demands[block.which].gang == gang:
                program.add_terms(enough, block.columns, 1.0)
                program.add_terms(nobody_else, block.columns, 1.0)

    def _within(self, quota: QueueQuota) -> None:
        """A queue takes no more than it may."""
        gone: Counter[int] = Counter()
        for (which, _), number in self._outer.placements.items():
            gone[which] += number
        rows = self._program.add_rows(quota.limits - quota_charge(quota, gone))
        for block in self._put:
            asked = quota.requests.get(block.which, np.zeros_like(quota.limits))
            for resource in np.flatnonzero(asked).tolist():
                self._program.add_terms(rows + resource, block.columns, asked[resource])

    def _emptied(self) -> None:
        """An empty node takes all of its room, and everyone has left."""
        problem, program = self.problem, self._program
        nodes = self._nodes[~problem.cannot_empty[self._nodes]]
        empty = _Block(0, nodes, program.add_columns(1.0, np.ones(len(nodes))))
        self._empty.append(empty)
        place, column_of = self._places(nodes), dict(zip(nodes.tolist(), empty.columns.tolist(), strict=True))
        room = self._room + place[:, None] * problem.free.shape[1] + np.arange(problem.free.shape[1])
        program.add_terms(room, empty.columns[:, None], np.maximum(self._all_room[place], 0))
        nobody = program.add_rows(np.full(len(self._nodes), self._spare))
        program.add_terms(nobody + place, empty.columns, self._spare)
        for block in self._in:
            program.add_terms(nobody + self._places(block.nodes), block.columns, 1.0)
        for block in self._out:
            for node, column in zip(block.nodes.tolist(), block.columns.tolist(), strict=True):
                if node in column_of:
                    row = program.add_rows(UNBOUNDED, 0.0)
                    count = problem.movable_pods[node][block.which]
                    program.add_terms(row, [column, column_of[node]], [1.0, -count])

    def _in_debt(self) -> None:
        """Where a node is over-committed, either nobody comes who asks for that resource, or so many leave that
        everything fits."""
        problem, program = self.problem, self._program
        for place, resource in np.argwhere(problem.free[self._nodes] < 0).tolist():
            node = int(self._nodes[place])
            comers = [column for size, block in self._takers() if size[resource] for column in block.on(node)]
            owes = program.add_columns(0.0, 1)
            self._owes.append((owes, node, resource))
            row = self._room + place * problem.free.shape[1] + resource
            program.add_terms(row, owes, problem.free[node, resource])
            most = self._spare + max(int(self._all_room[place, resource]), 0)
            program.add_terms(program.add_rows(most), [*comers, owes], [*(1.0 for _ in comers), most])

    def _takers(self) -> Iterator[tuple[Ints, _Block]]:
        """Who comes or is placed, with what one of them asks for."""
        yield from ((self.problem.class_sizes[block.which], block) for block in self._in)
        yield from ((self.problem.demands[block.which].size, block) for block in self._put)

    def _uses(self, block: _Block, size: Ints) -> None:
        """Each column of a block takes this much of its node's room."""
        rows = self._room + self._places(block.nodes) * len(size)
        for resource, amount in enumerate(size.tolist()):
            if amount:
                self._program.add_terms(rows + resource, block.columns, amount)

    def _places(self, nodes: RowIndex) -> RowIndex:
        return np.searchsorted(self._nodes, nodes)

    def _most_that_fit(self, size: Ints) -> Ints:
        """How many of a size each node could take if everyone who may left."""
        asked = size > 0
        most: Ints = (np.maximum(self._all_room[:, asked], 0) // size[asked]).min(axis=1, initial=UNLIMITED)
        return most

    # --- reading ------------------------------------------------------------------------------------------------------

    def _read(self, answer: SolverResult | None) -> FlowResult:
        if answer is None:
            return FlowResult(None, UNBOUNDED)
        bound = self._bound(answer.bound)
        if answer.values is None:
            return FlowResult(None, bound)
        shift = self._shift(np.rint(answer.values).astype(np.int64))
        return FlowResult(shift if not solution_defects(self.problem, shift) else None, bound, answer.is_proven)

    def _bound(self, bound: float) -> float:
        """Moves made the program's worth a little smaller than the answer's, which is a whole number of units."""
        if len(self._nodes) < self.problem.node_count or bound == UNBOUNDED:
            return UNBOUNDED
        return round_down_value(self.problem, bound + self._price * self.problem.max_moves)

    def _shift(self, values: Ints) -> Solution:
        net, puts = dict(self._outer.pod_changes), dict(self._outer.placements)
        for cells, sign, blocks in ((net, 1, self._in), (net, -1, self._out), (puts, 1, self._put)):
            for block in blocks:
                numbers = values[block.columns]
                for place in np.flatnonzero(numbers).tolist():
                    cell = (block.which, int(block.nodes[place]))
                    cells[cell] = cells.get(cell, 0) + sign * int(numbers[place])
        return Solution({cell: number for cell, number in net.items() if number}, puts)

    def _columns_of(self, shift: Solution) -> dict[int, float]:
        """The solution that a shift is here."""
        values: dict[int, float] = {}
        for blocks, numbers in (
            (self._in, shift.pod_changes),
            (self._out, shift.pod_changes),
            (self._put, shift.placements),
        ):
            sign = -1 if blocks is self._out else 1
            for block in blocks:
                for node, column in zip(block.nodes.tolist(), block.columns.tolist(), strict=True):
                    number = sign * numbers.get((block.which, node), 0)
                    if number > 0:
                        values[column] = number
        return {**values, **dict.fromkeys(self._switched_on(shift), 1.0)}

    def _switched_on(self, shift: Solution) -> Iterator[int]:
        """The columns that say something is so: nodes are empty, gangs placed, and nodes still over-committed."""
        problem = self.problem
        counts, left = movable_pod_counts(problem, shift), free_after(problem, shift)
        for block in self._empty:
            yield from block.columns[counts[block.nodes] == 0].tolist()
        placed = {problem.demands[which].gang for (which, _), number in shift.placements.items() if number}
        yield from (column for column, gang in self._starts if gang in placed)
        yield from (column for column, node, resource in self._owes if left[node, resource] < 0)


def _outside(base: Solution, inside: frozenset[int]) -> Solution:
    def kept(cells: Iterable[tuple[Cell, int]]) -> dict[Cell, int]:
        return {cell: number for cell, number in cells if cell[1] not in inside}

    return Solution(kept(base.pod_changes.items()), kept(base.placements.items()))
