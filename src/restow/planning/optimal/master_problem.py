"""The master problem of column generation: which pattern each node uses, with a place for each departing pod.

Goes in: a problem and patterns. Comes out: a solution. First the linear relaxation is solved, in which fractions of
patterns are allowed. Its dual values are prices for moves, pending pods and places, at which `pricing` finds more
patterns with positive reduced cost; that is repeated until there are none or the time is up. Then whole patterns are
chosen among all that were found.

    row              constraint
    moves            at most `max_moves` pods depart
    per class        each departing pod has a place: on an opened node that takes it in, or in a node group
    per demand       no more pods are placed than are pending
    per node         at most one pattern (set packing)
    per node group   no more pods come than fit; a node with a pattern gives up its capacity in the group
    per gang         enough pods are placed, or none
    per quota        no more is placed than the queue may take

A node group is all nodes that can take the same classes. So the program has a column per class and group, where the
flow model has one per class and node. It is less exact: the capacity of a group counts pods, not amounts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import takewhile

import msgspec
import numpy as np

from restow.model.cluster import Mask
from restow.planning.deadline import DeadlineCheck, no_deadline
from restow.planning.optimal.greedy import greedy_solution
from restow.planning.optimal.node_patterns import NodePattern
from restow.planning.optimal.packing_problem import (
    UNCHANGED,
    Ints,
    PackingProblem,
    Solution,
    has_room,
    quota_charge,
    solution_defects,
)
from restow.planning.optimal.pricing import DualPrices
from restow.planning.optimal.solver import UNBOUNDED, Floats, IntegerProgram, SolverLimits

_MAX_COLUMNS = 3000
"""How many patterns whole ones are chosen among: those with the highest reduced costs."""
_MAX_PAIRS, _FEWEST_NODES = 40_000, 6
"""Pairs of class and node that places are offered for, at most; but for each class at least a few nodes."""
_MAX_CAPACITY = 6
"""How many departing pods a node can take at most, beside those that patterns take in."""


class NodeGroup(msgspec.Struct, frozen=True, eq=False):
    """Nodes that can take pods of the same classes."""

    classes: tuple[int, ...]
    capacities: dict[int, int]
    """By node: how many pods it can take, of whichever of the classes."""


class MasterProblem:
    """The patterns found so far, and the program over them."""

    def __init__(
        self, problem: PackingProblem, patterns: Iterable[NodePattern], is_late: DeadlineCheck = no_deadline
    ) -> None:
        self.problem = problem
        self._is_late = is_late
        self.patterns = list(dict.fromkeys(patterns))
        self._terms_of: dict[NodePattern, tuple[Ints, Floats] | None] = dict.fromkeys(self.patterns)
        """Every pattern there ever was, with its terms in the program once they were needed."""
        self._groups: list[NodeGroup] = []
        self._group_of: dict[int, tuple[int, NodeGroup]] = {}
        self._grouped_classes: frozenset[int] = frozenset()
        self._quota_rows: list[int] = []
        self._move_cost = 0.49 / (problem.max_moves + 1)
        """All moves together cost less than half a unit of value: moves only break ties."""

    def add_patterns(self, patterns: Iterable[NodePattern]) -> int:
        """Add the patterns that are new; returns how many."""
        new = [pattern for pattern in dict.fromkeys(patterns) if pattern not in self._terms_of]
        self.patterns += new
        self._terms_of.update(dict.fromkeys(new))
        return len(new)

    def dual_prices(self, limits: SolverLimits) -> DualPrices | None:
        """Solve the linear relaxation; returns its dual prices, or None if it was not solved."""
        program = self._program()
        result = program.solve(limits, whole=False) if not self._is_late() else None
        if result is None or result.dual_values is None:
            return None
        return self._read_prices(np.maximum(result.dual_values, 0.0), result.bound)

    def best_solution(
        self, limits: SolverLimits, prices: DualPrices | None = None, min_value: float = 0.0
    ) -> Solution | None:
        """The best solution of whole patterns; None if the solver has none. With prices, patterns are left out with
        which no solution can have more than `min_value`."""
        if prices is not None:
            self.patterns = self._promising_patterns(prices, min_value / self.problem.unit)
        if not self.patterns:
            return None
        result = self._program().solve(limits)
        if result is None or result.values is None:
            return None
        return self._read_solution(np.rint(result.values).astype(np.int64))

    def _promising_patterns(self, prices: DualPrices, min_value: float) -> list[NodePattern]:
        """Reduced-cost fixing: a solution with a pattern of reduced cost r < 0 is worth at most the value of the linear
        relaxation + r. Half a unit makes up for rounding."""
        reduced_costs = np.array([self._reduced_cost(pattern, prices) for pattern in self.patterns])
        slack = max(prices.total - min_value, 0.0) + 0.5
        order = np.argsort(-reduced_costs, kind="stable")[:_MAX_COLUMNS]
        return [self.patterns[number] for number in np.sort(order[reduced_costs[order] >= -slack]).tolist()]

    def _reduced_cost(self, pattern: NodePattern, prices: DualPrices) -> float:
        """The value of a pattern less the prices of what it uses, plus those of the places that it offers."""
        gain = pattern.value / self.problem.unit - prices.move * pattern.move_count - prices.nodes[pattern.node]
        gain -= sum(prices.class_places[class_index] for class_index in pattern.departing_classes)
        gain += sum(prices.class_places[class_index] * number for class_index, number in pattern.arrivals)
        return float(gain - sum(prices.demands[demand] * number for demand, number in pattern.placements))

    # --- building -----------------------------------------------------------------------------------------------------
    # rows: moves, then one per class, per demand, per node and per node group, then those of gangs and quotas

    def _program(self) -> IntegerProgram:
        problem, program = self.problem, IntegerProgram()
        self._update_groups()
        program.add_rows(problem.max_moves)
        program.add_rows(np.zeros(problem.class_count))
        program.add_rows([demand.count for demand in problem.demands])
        program.add_rows(np.ones(problem.node_count))
        program.add_rows([sum(group.capacities.values()) for group in self._groups])
        values = [pattern.value / problem.unit - self._move_cost * pattern.move_count for pattern in self.patterns]
        program.add_columns(values, np.full(len(values), UNBOUNDED))
        terms = [self._terms(pattern) for pattern in self.patterns]
        columns = np.repeat(np.arange(len(terms)), [len(rows) for rows, _ in terms])
        program.add_terms(
            np.concatenate([rows for rows, _ in terms]), columns, np.concatenate([factors for _, factors in terms])
        )
        self._add_lost_capacities(program)
        self._add_places(program)
        self._add_gangs(program)
        self._add_quotas(program)
        return program

    @property
    def _first_demand_row(self) -> int:
        return 1 + self.problem.class_count

    @property
    def _first_node_row(self) -> int:
        return self._first_demand_row + len(self.problem.demands)

    @property
    def _first_group_row(self) -> int:
        return self._first_node_row + self.problem.node_count

    def _terms(self, pattern: NodePattern) -> tuple[Ints, Floats]:
        """Rows and factors of a pattern, without those of node groups, which may change."""
        known = self._terms_of.get(pattern)
        if known is None:
            departures = Counter(pattern.departing_classes)
            for class_index, number in pattern.arrivals:
                departures[class_index] -= number
            terms = [(0, pattern.move_count), (self._first_node_row + pattern.node, 1)]
            terms += [(1 + class_index, number) for class_index, number in departures.items()]
            terms += [(self._first_demand_row + demand, number) for demand, number in pattern.placements]
            known = np.array([row for row, _ in terms]), np.array([factor for _, factor in terms], np.float64)
            self._terms_of[pattern] = known
        return known

    def _add_lost_capacities(self, program: IntegerProgram) -> None:
        """A node with a pattern takes in only the pods that the pattern says."""
        columns = [column for column, pattern in enumerate(self.patterns) if pattern.node in self._group_of]
        nodes = [self.patterns[column].node for column in columns]
        rows = [self._first_group_row + self._group_of[node][0] for node in nodes]
        program.add_terms(rows, columns, [self._group_of[node][1].capacities[node] for node in nodes])

    def _add_places(self, program: IntegerProgram) -> None:
        """Columns for the pods of each class that move to each node group."""
        self._place_columns: dict[tuple[int, int], int] = {}
        for number, group in enumerate(self._groups):
            capacity = sum(group.capacities.values())
            limits = [
                len(group.capacities) if self.problem.one_per_node[class_index] else capacity
                for class_index in group.classes
            ]
            first = program.add_columns(0.0, limits)
            columns = range(first, first + len(limits))
            program.add_terms(self._first_group_row + number, columns, 1.0)
            program.add_terms([1 + class_index for class_index in group.classes], columns, -1.0)
            self._place_columns.update(
                ((class_index, number), column) for class_index, column in zip(group.classes, columns, strict=True)
            )

    def _add_gangs(self, program: IntegerProgram) -> None:
        """A binary column per gang: 1 if the gang starts. Then at least its minimum is placed, else nothing."""
        demands = self.problem.demands
        placed: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for column, pattern in enumerate(self.patterns):
            for demand, number in pattern.placements:
                gang = demands[demand].gang
                if gang is not None:
                    placed[gang].append((column, number))
        for gang, terms in sorted(placed.items()):
            starts = program.add_columns(0.0, 1)
            everything = sum(demand.count for demand in demands if demand.gang == gang)
            enough, nothing = program.add_rows(UNBOUNDED, 0.0), program.add_rows(0.0)
            for row, factor in ((enough, self.problem.gang_minimums[gang]), (nothing, everything)):
                program.add_terms(row, [column for column, _ in terms], [number for _, number in terms])
                program.add_terms(row, starts, -factor)

    def _add_quotas(self, program: IntegerProgram) -> None:
        self._quota_rows = [program.add_rows(quota.limits) for quota in self.problem.quotas]
        for first, quota in zip(self._quota_rows, self.problem.quotas, strict=True):
            for column, pattern in enumerate(self.patterns):
                charge = quota_charge(quota, dict(pattern.placements))
                for resource in np.flatnonzero(charge).tolist():
                    program.add_terms(first + resource, column, charge[resource])

    def _update_groups(self) -> None:
        """Group the nodes again if the patterns have departing pods of more classes than before."""
        classes = frozenset(class_index for pattern in self.patterns for class_index in pattern.departing_classes)
        if classes <= self._grouped_classes:
            return
        self._grouped_classes = classes
        self._groups = group_nodes(self.problem, sorted(classes), self._is_late)
        self._group_of = {
            node: (number, group) for number, group in enumerate(self._groups) for node in group.capacities
        }

    # --- reading ------------------------------------------------------------------------------------------------------

    def _read_prices(self, dual_values: Floats, total: float) -> DualPrices:
        nodes = dual_values[self._first_node_row : self._first_group_row].copy()
        # A pattern also costs the capacity that its node loses in the group.
        for node, (number, group) in self._group_of.items():
            nodes[node] += dual_values[self._first_group_row + number] * group.capacities[node]
        # A placed pod also costs what it takes of the quota of its queue.
        demands = dual_values[self._first_demand_row : self._first_node_row].copy()
        for first, quota in zip(self._quota_rows, self.problem.quotas, strict=True):
            for demand, requests in quota.requests.items():
                demands[demand] += float(requests @ dual_values[first : first + len(requests)])
        return DualPrices(
            move=float(dual_values[0]) + self._move_cost,
            class_places=dual_values[1 : self._first_demand_row],
            demands=demands,
            nodes=nodes,
            total=total,
        )

    def _read_solution(self, values: Ints) -> Solution:
        """Apply the chosen patterns, and then whatever else is possible. Pods move to single nodes here; where they do
        not fit (groups count pods, not amounts), greedy starts from nothing instead."""
        problem = self.problem
        chosen = [pattern for column, pattern in enumerate(self.patterns) if values[column] > 0]
        changes: Counter[tuple[int, int]] = Counter()
        placements: Counter[tuple[int, int]] = Counter()
        for pattern in chosen:
            for class_index in pattern.departing_classes:
                changes[class_index, pattern.node] -= 1
            for demand, number in pattern.placements:
                placements[demand, pattern.node] += number
        targets = self._targets(values, chosen)
        departures = Counter(class_index for pattern in chosen for class_index in pattern.departing_classes)
        for class_index in sorted(departures):
            for node in targets[class_index][: departures[class_index]]:
                changes[class_index, node] += 1
        solution = Solution({cell: number for cell, number in changes.items() if number}, dict(placements))
        if solution_defects(problem, solution):
            return self._completed(UNCHANGED, ())
        return self._completed(solution, chosen)

    def _targets(self, values: Ints, chosen: Sequence[NodePattern]) -> dict[int, list[int]]:
        """By class: the nodes that take its departing pods, those of patterns first."""
        targets: dict[int, list[int]] = defaultdict(list)
        opened = {pattern.node for pattern in chosen}
        for pattern in chosen:
            for class_index, number in pattern.arrivals:
                targets[class_index] += [pattern.node] * number
        for number, group in enumerate(self._groups):
            # One pod per node and turn, so that the pods are spread over the group.
            free = [
                node for turn in range(_MAX_CAPACITY) for node, capacity in group.capacities.items() if turn < capacity
            ]
            free = [node for node in free if node not in opened]
            for class_index in group.classes:
                taken = free[: int(values[self._place_columns[class_index, number]])]
                targets[class_index] += dict.fromkeys(taken) if self.problem.one_per_node[class_index] else taken
                free = free[len(taken) :]
        return targets

    def _completed(self, solution: Solution, chosen: Sequence[NodePattern]) -> Solution:
        opened = {pattern.node for pattern in chosen}
        rest = [pattern for pattern in self.patterns if not pattern.arrivals and pattern.node not in opened]
        return greedy_solution(self.problem, rest, solution)[0]


def group_nodes(
    problem: PackingProblem, classes: Sequence[int], is_late: DeadlineCheck = no_deadline
) -> list[NodeGroup]:
    """The nodes grouped by the classes of which they can take a pod. Once it is late, no node takes the classes that
    were not looked at yet."""
    if not classes:
        return []
    takes = np.zeros((len(classes), problem.node_count), np.bool_)
    for row, class_index in zip(takes, takewhile(lambda _: not is_late(), classes), strict=False):
        row[:] = has_room(problem.free, problem.class_sizes[class_index]) & problem.allowed_nodes(class_index)
    if problem.counts_empty_nodes:  # no pod moves to a node that is empty already
        takes &= problem.cannot_empty | np.array([bool(pods) for pods in problem.movable_pods])
    _keep_some_nodes(takes)
    combinations, group_of = np.unique(takes, axis=1, return_inverse=True)
    groups = []
    for number in range(combinations.shape[1]):
        taken = tuple(
            class_index for class_index, can in zip(classes, combinations[:, number].tolist(), strict=True) if can
        )
        if taken:
            nodes = np.flatnonzero(group_of.reshape(-1) == number)
            groups.append(NodeGroup(taken, _capacities(problem, nodes.tolist(), taken)))
    return groups


def _keep_some_nodes(takes: Mask) -> None:
    """If there are many classes and nodes, keep only some nodes for each class; different ones for each, so that the
    classes do not compete for the same nodes."""
    limit = max(_MAX_PAIRS // len(takes), _FEWEST_NODES)
    for number, row in enumerate(takes):
        nodes = np.flatnonzero(row)
        if len(nodes) > limit:
            row[:] = False
            row[nodes[(number + np.arange(limit) * len(nodes) // limit) % len(nodes)]] = True


def _capacities(problem: PackingProblem, nodes: Sequence[int], classes: Sequence[int]) -> dict[int, int]:
    """How many pods as large as the largest class in each resource fit on each node; at least one, at most a few."""
    largest = problem.class_sizes[list(classes)].max(axis=0)
    requested = largest > 0
    fitting = (problem.free[list(nodes)][:, requested] // largest[requested]).min(axis=1, initial=_MAX_CAPACITY)
    return dict(zip(nodes, np.maximum(fitting, 1).tolist(), strict=True))
