"""The pattern model: which openings to make, all at once, with a place for every leaver.

Goes in: a problem and some openings. Comes out: an answer. First fractions of openings are allowed; that gives prices
for moves, waiting pods and places, at which `pricing` finds better openings, until there are none or time is up. Then
whole openings are chosen among all that were found.

    per node        at most one opening
    per kind        places for leavers, less those of nodes that are opened
    per class       a place for everyone who leaves
    per demand      as many placed as wait; gangs as a whole
    per quota       as much placed as a queue may take
    at most         `limit` moves

A kind is all nodes that can take the same classes, one pod each: the program has a column per class and kind, where the
flow model has one per class and node.
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

_COLUMNS = 3000
"""Openings that whole ones are chosen among, the most promising ones."""
_PLACES, _FEWEST = 40_000, 6
"""Pairs of class and node that are looked at; of each class at least a few."""
_ROOMY = 6
"""Leavers that one node takes at most, beside those that openings bring."""


class NodeGroup(msgspec.Struct, frozen=True, eq=False):
    """Nodes that can take the same classes."""

    classes: tuple[int, ...]
    capacities: dict[int, int]
    """By node, how many pods it takes, whichever of the classes they are."""


class MasterProblem:
    """Openings found so far, and the program over them."""

    def __init__(
        self, problem: PackingProblem, openings: Iterable[NodePattern], late: DeadlineCheck = no_deadline
    ) -> None:
        self.problem = problem
        self._late = late
        self.patterns = list(dict.fromkeys(openings))
        self._known: dict[NodePattern, tuple[Ints, Floats] | None] = dict.fromkeys(self.patterns)
        """Every opening there ever was, with its terms once they were needed."""
        self._kinds: list[NodeGroup] = []
        self._kind_of: dict[int, tuple[int, NodeGroup]] = {}
        self._classes: frozenset[int] = frozenset()
        self._quota_rows: list[int] = []
        self._price = 0.49 / (problem.max_moves + 1)

    def add(self, openings: Iterable[NodePattern]) -> int:
        """Add openings that are new, and tell how many."""
        fresh = [one for one in dict.fromkeys(openings) if one not in self._known]
        self.patterns += fresh
        self._known.update(dict.fromkeys(fresh))
        return len(fresh)

    def prices(self, effort: SolverLimits) -> DualPrices | None:
        """What everything is worth while fractions of openings are allowed."""
        program = self._program()
        answer = program.solve(effort, whole=False) if not self._late() else None
        if answer is None or answer.dual_values is None:
            return None
        return self._read_prices(np.maximum(answer.dual_values, 0.0), answer.bound)

    def best(self, effort: SolverLimits, prices: DualPrices | None = None, least: float = 0.0) -> Solution | None:
        """The best answer that is made of whole openings; None if the solver has none. Given prices, openings are left
        out with which nothing can be worth more than `least`."""
        if prices is not None:
            self.patterns = self._worthwhile(prices, least / self.problem.unit)
        if not self.patterns:
            return None
        answer = self._program().solve(effort)
        if answer is None or answer.values is None:
            return None
        return self._read(np.rint(answer.values).astype(np.int64))

    def _worthwhile(self, prices: DualPrices, least: float) -> list[NodePattern]:
        surplus = np.array([self._surplus(one, prices) for one in self.patterns])
        most = max(prices.total - least, 0.0) + 0.5
        order = np.argsort(-surplus, kind="stable")[:_COLUMNS]
        return [self.patterns[number] for number in np.sort(order[surplus[order] >= -most]).tolist()]

    def _surplus(self, one: NodePattern, prices: DualPrices) -> float:
        """What an opening brings beyond the prices of what it uses."""
        gain = one.value / self.problem.unit - prices.move * one.move_count - prices.nodes[one.node]
        gain -= sum(prices.class_places[which] for which in one.departing_classes)
        gain += sum(prices.class_places[which] * number for which, number in one.arrivals)
        return float(gain - sum(prices.demands[which] * number for which, number in one.placements))

    # --- building -----------------------------------------------------------------------------------------------------
    # rows: the limit, then one per class, per demand, per node, per kind, then those of gangs and quotas

    def _program(self) -> IntegerProgram:
        problem, program = self.problem, IntegerProgram()
        self._sort_nodes()
        program.add_rows(problem.max_moves)
        program.add_rows(np.zeros(problem.class_count))
        program.add_rows([demand.count for demand in problem.demands])
        program.add_rows(np.ones(problem.node_count))
        program.add_rows([sum(kind.capacities.values()) for kind in self._kinds])
        worths = [one.value / problem.unit - self._price * one.move_count for one in self.patterns]
        program.add_columns(worths, np.full(len(worths), UNBOUNDED))
        each = [self._terms(one) for one in self.patterns]
        columns = np.repeat(np.arange(len(each)), [len(rows) for rows, _ in each])
        program.add_terms(
            np.concatenate([rows for rows, _ in each]), columns, np.concatenate([some for _, some in each])
        )
        self._add_kinds_of_nodes(program)
        self._add_places(program)
        self._add_gangs(program)
        self._add_quotas(program)
        return program

    @property
    def _first_demand(self) -> int:
        return 1 + self.problem.class_count

    @property
    def _first_node(self) -> int:
        return self._first_demand + len(self.problem.demands)

    @property
    def _first_kind(self) -> int:
        return self._first_node + self.problem.node_count

    def _terms(self, one: NodePattern) -> tuple[Ints, Floats]:
        """Rows and factors of an opening, those of kinds apart, which may change."""
        known = self._known.get(one)
        if known is None:
            balance = Counter(one.departing_classes)
            for which, number in one.arrivals:
                balance[which] -= number
            terms = [(0, one.move_count), (self._first_node + one.node, 1)]
            terms += [(1 + which, number) for which, number in balance.items()]
            terms += [(self._first_demand + which, number) for which, number in one.placements]
            known = np.array([row for row, _ in terms]), np.array([factor for _, factor in terms], np.float64)
            self._known[one] = known
        return known

    def _add_kinds_of_nodes(self, program: IntegerProgram) -> None:
        """A node that is opened takes nobody, unless the opening says so."""
        columns = [column for column, one in enumerate(self.patterns) if one.node in self._kind_of]
        nodes = [self.patterns[column].node for column in columns]
        rows = [self._first_kind + self._kind_of[node][0] for node in nodes]
        program.add_terms(rows, columns, [self._kind_of[node][1].capacities[node] for node in nodes])

    def _add_places(self, program: IntegerProgram) -> None:
        self._taken: dict[tuple[int, int], int] = {}
        for number, kind in enumerate(self._kinds):
            total = sum(kind.capacities.values())
            most = [len(kind.capacities) if self.problem.one_per_node[which] else total for which in kind.classes]
            first = program.add_columns(0.0, most)
            columns = range(first, first + len(most))
            program.add_terms(self._first_kind + number, columns, 1.0)
            program.add_terms([1 + which for which in kind.classes], columns, -1.0)
            self._taken.update(((which, number), column) for which, column in zip(kind.classes, columns, strict=True))

    def _add_gangs(self, program: IntegerProgram) -> None:
        demands = self.problem.demands
        placed: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for column, one in enumerate(self.patterns):
            for which, number in one.placements:
                gang = demands[which].gang
                if gang is not None:
                    placed[gang].append((column, number))
        for gang, terms in sorted(placed.items()):
            starts, most = program.add_columns(0.0, 1), sum(one.count for one in demands if one.gang == gang)
            enough, nobody = program.add_rows(UNBOUNDED, 0.0), program.add_rows(0.0)
            for row, least in ((enough, self.problem.gang_minimums[gang]), (nobody, most)):
                program.add_terms(row, [column for column, _ in terms], [number for _, number in terms])
                program.add_terms(row, starts, -least)

    def _add_quotas(self, program: IntegerProgram) -> None:
        self._quota_rows = [program.add_rows(quota.limits) for quota in self.problem.quotas]
        for first, quota in zip(self._quota_rows, self.problem.quotas, strict=True):
            for column, one in enumerate(self.patterns):
                asked = quota_charge(quota, dict(one.placements))
                for resource in np.flatnonzero(asked).tolist():
                    program.add_terms(first + resource, column, asked[resource])

    def _sort_nodes(self) -> None:
        """Find the kinds of nodes once more, if there are other classes of leavers than before."""
        classes = frozenset(which for one in self.patterns for which in one.departing_classes)
        if classes <= self._classes:
            return
        self._classes = classes
        self._kinds = group_nodes(self.problem, sorted(classes), self._late)
        self._kind_of = {node: (number, kind) for number, kind in enumerate(self._kinds) for node in kind.capacities}

    # --- reading ------------------------------------------------------------------------------------------------------

    def _read_prices(self, prices: Floats, worth: float) -> DualPrices:
        nodes = prices[self._first_node : self._first_kind].copy()
        for node, (number, kind) in self._kind_of.items():
            nodes[node] += prices[self._first_kind + number] * kind.capacities[node]
        demands = prices[self._first_demand : self._first_node].copy()
        for first, quota in zip(self._quota_rows, self.problem.quotas, strict=True):
            for which, asked in quota.requests.items():
                demands[which] += float(asked @ prices[first : first + len(asked)])
        return DualPrices(
            move=float(prices[0]) + self._price,
            class_places=prices[1 : self._first_demand],
            demands=demands,
            nodes=nodes,
            total=worth,
        )

    def _read(self, values: Ints) -> Solution:
        """Make the chosen openings, and then whatever else is still possible."""
        problem = self.problem
        chosen = [one for column, one in enumerate(self.patterns) if values[column] > 0]
        net: Counter[tuple[int, int]] = Counter()
        puts: Counter[tuple[int, int]] = Counter()
        for one in chosen:
            for which in one.departing_classes:
                net[which, one.node] -= 1
            for which, number in one.placements:
                puts[which, one.node] += number
        coming, leaving = (
            self._coming(values, chosen),
            Counter(which for one in chosen for which in one.departing_classes),
        )
        for which in sorted(leaving):
            for node in coming[which][: leaving[which]]:
                net[which, node] += 1
        shift = Solution({cell: number for cell, number in net.items() if number}, dict(puts))
        return (
            self._completed(shift, chosen) if not solution_defects(problem, shift) else self._completed(UNCHANGED, ())
        )

    def _coming(self, values: Ints, chosen: Sequence[NodePattern]) -> dict[int, list[int]]:
        """By class, the nodes that take its leavers: where openings want them first."""
        coming: dict[int, list[int]] = defaultdict(list)
        opened = {one.node for one in chosen}
        for one in chosen:
            for which, number in one.arrivals:
                coming[which] += [one.node] * number
        for number, kind in enumerate(self._kinds):
            free = [node for turn in range(_ROOMY) for node, places in kind.capacities.items() if turn < places]
            free = [node for node in free if node not in opened]
            for which in kind.classes:
                some = free[: int(values[self._taken[which, number]])]
                coming[which] += dict.fromkeys(some) if self.problem.one_per_node[which] else some
                free = free[len(some) :]
        return coming

    def _completed(self, shift: Solution, chosen: Sequence[NodePattern]) -> Solution:
        opened = {one.node for one in chosen}
        rest = [one for one in self.patterns if not one.arrivals and one.node not in opened]
        return greedy_solution(self.problem, rest, shift)[0]


def group_nodes(
    problem: PackingProblem, classes: Sequence[int], is_late: DeadlineCheck = no_deadline
) -> list[NodeGroup]:
    """Nodes by the set of classes of which they can take one pod; once it is late, none takes those not asked about."""
    if not classes:
        return []
    able = np.zeros((len(classes), problem.node_count), np.bool_)
    for row, which in zip(able, takewhile(lambda _: not is_late(), classes), strict=False):
        row[:] = has_room(problem.free, problem.class_sizes[which]) & problem.allowed_nodes(which)
    if problem.counts_empty_nodes:
        able &= problem.cannot_empty | np.array([bool(held) for held in problem.movable_pods])
    _thin_out(able)
    patterns, kind_of = np.unique(able, axis=1, return_inverse=True)
    found = []
    for number in range(patterns.shape[1]):
        taken = tuple(which for which, can in zip(classes, patterns[:, number].tolist(), strict=True) if can)
        if taken:
            nodes = np.flatnonzero(kind_of.reshape(-1) == number)
            found.append(NodeGroup(taken, _places_of(problem, nodes.tolist(), taken)))
    return found


def _thin_out(able: Mask) -> None:
    """Keep some nodes for each class where there are many classes and nodes, not the same ones for all."""
    most = max(_PLACES // len(able), _FEWEST)
    for number, row in enumerate(able):
        nodes = np.flatnonzero(row)
        if len(nodes) > most:
            row[:] = False
            row[nodes[(number + np.arange(most) * len(nodes) // most) % len(nodes)]] = True


def _places_of(problem: PackingProblem, nodes: Sequence[int], classes: Sequence[int]) -> dict[int, int]:
    largest = problem.class_sizes[list(classes)].max(axis=0)
    asked = largest > 0
    most = (problem.free[list(nodes)][:, asked] // largest[asked]).min(axis=1, initial=_ROOMY)
    return dict(zip(nodes, np.maximum(most, 1).tolist(), strict=True))
