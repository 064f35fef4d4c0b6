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
from restow.planning.lateness import Late, never
from restow.planning.optimal.greedy import greedy
from restow.planning.optimal.openings import Opening
from restow.planning.optimal.pricing import Prices
from restow.planning.optimal.problem import STAY, Ints, Problem, Shift, charged, fits, flaws
from restow.planning.optimal.solver import UNBOUNDED, Effort, Floats, Program

_COLUMNS = 3000
"""Openings that whole ones are chosen among, the most promising ones."""
_PLACES, _FEWEST = 40_000, 6
"""Pairs of class and node that are looked at; of each class at least a few."""
_ROOMY = 6
"""Leavers that one node takes at most, beside those that openings bring."""


class Kind(msgspec.Struct, frozen=True, eq=False):
    """Nodes that can take the same classes."""

    classes: tuple[int, ...]
    places: dict[int, int]
    """By node, how many pods it takes, whichever of the classes they are."""


class Patterns:
    """Openings found so far, and the program over them."""

    def __init__(self, problem: Problem, openings: Iterable[Opening], late: Late = never) -> None:
        self.problem = problem
        self._late = late
        self.openings = list(dict.fromkeys(openings))
        self._known: dict[Opening, tuple[Ints, Floats] | None] = dict.fromkeys(self.openings)
        """Every opening there ever was, with its terms once they were needed."""
        self._kinds: list[Kind] = []
        self._kind_of: dict[int, tuple[int, Kind]] = {}
        self._classes: frozenset[int] = frozenset()
        self._quota_rows: list[int] = []
        self._price = 0.49 / (problem.limit + 1)

    def add(self, openings: Iterable[Opening]) -> int:
        """Add openings that are new, and tell how many."""
        fresh = [one for one in dict.fromkeys(openings) if one not in self._known]
        self.openings += fresh
        self._known.update(dict.fromkeys(fresh))
        return len(fresh)

    def prices(self, effort: Effort) -> Prices | None:
        """What everything is worth while fractions of openings are allowed."""
        program = self._program()
        answer = program.solve(effort, whole=False) if not self._late() else None
        if answer is None or answer.prices is None:
            return None
        return self._read_prices(np.maximum(answer.prices, 0.0), answer.bound)

    def best(self, effort: Effort, prices: Prices | None = None, least: float = 0.0) -> Shift | None:
        """The best answer that is made of whole openings; None if the solver has none. Given prices, openings are left
        out with which nothing can be worth more than `least`."""
        if prices is not None:
            self.openings = self._worthwhile(prices, least / self.problem.unit)
        if not self.openings:
            return None
        answer = self._program().solve(effort)
        if answer is None or answer.values is None:
            return None
        return self._read(np.rint(answer.values).astype(np.int64))

    def _worthwhile(self, prices: Prices, least: float) -> list[Opening]:
        surplus = np.array([self._surplus(one, prices) for one in self.openings])
        most = max(prices.worth - least, 0.0) + 0.5
        order = np.argsort(-surplus, kind="stable")[:_COLUMNS]
        return [self.openings[number] for number in np.sort(order[surplus[order] >= -most]).tolist()]

    def _surplus(self, one: Opening, prices: Prices) -> float:
        """What an opening brings beyond the prices of what it uses."""
        gain = one.worth / self.problem.unit - prices.move * one.moves - prices.nodes[one.node]
        gain -= sum(prices.places[which] for which in one.leavers)
        gain += sum(prices.places[which] * number for which, number in one.comers)
        return float(gain - sum(prices.demands[which] * number for which, number in one.puts))

    # --- building -----------------------------------------------------------------------------------------------------
    # rows: the limit, then one per class, per demand, per node, per kind, then those of gangs and quotas

    def _program(self) -> Program:
        problem, program = self.problem, Program()
        self._sort_nodes()
        program.add_rows(problem.limit)
        program.add_rows(np.zeros(problem.classes))
        program.add_rows([demand.supply for demand in problem.demands])
        program.add_rows(np.ones(problem.nodes))
        program.add_rows([sum(kind.places.values()) for kind in self._kinds])
        worths = [one.worth / problem.unit - self._price * one.moves for one in self.openings]
        program.add_columns(worths, np.full(len(worths), UNBOUNDED))
        each = [self._terms(one) for one in self.openings]
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
        return 1 + self.problem.classes

    @property
    def _first_node(self) -> int:
        return self._first_demand + len(self.problem.demands)

    @property
    def _first_kind(self) -> int:
        return self._first_node + self.problem.nodes

    def _terms(self, one: Opening) -> tuple[Ints, Floats]:
        """Rows and factors of an opening, those of kinds apart, which may change."""
        known = self._known.get(one)
        if known is None:
            balance = Counter(one.leavers)
            for which, number in one.comers:
                balance[which] -= number
            terms = [(0, one.moves), (self._first_node + one.node, 1)]
            terms += [(1 + which, number) for which, number in balance.items()]
            terms += [(self._first_demand + which, number) for which, number in one.puts]
            known = np.array([row for row, _ in terms]), np.array([factor for _, factor in terms], np.float64)
            self._known[one] = known
        return known

    def _add_kinds_of_nodes(self, program: Program) -> None:
        """A node that is opened takes nobody, unless the opening says so."""
        columns = [column for column, one in enumerate(self.openings) if one.node in self._kind_of]
        nodes = [self.openings[column].node for column in columns]
        rows = [self._first_kind + self._kind_of[node][0] for node in nodes]
        program.add_terms(rows, columns, [self._kind_of[node][1].places[node] for node in nodes])

    def _add_places(self, program: Program) -> None:
        self._taken: dict[tuple[int, int], int] = {}
        for number, kind in enumerate(self._kinds):
            total = sum(kind.places.values())
            most = [len(kind.places) if self.problem.alone[which] else total for which in kind.classes]
            first = program.add_columns(0.0, most)
            columns = range(first, first + len(most))
            program.add_terms(self._first_kind + number, columns, 1.0)
            program.add_terms([1 + which for which in kind.classes], columns, -1.0)
            self._taken.update(((which, number), column) for which, column in zip(kind.classes, columns, strict=True))

    def _add_gangs(self, program: Program) -> None:
        demands = self.problem.demands
        placed: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for column, one in enumerate(self.openings):
            for which, number in one.puts:
                gang = demands[which].gang
                if gang is not None:
                    placed[gang].append((column, number))
        for gang, terms in sorted(placed.items()):
            starts, most = program.add_columns(0.0, 1), sum(one.supply for one in demands if one.gang == gang)
            enough, nobody = program.add_rows(UNBOUNDED, 0.0), program.add_rows(0.0)
            for row, least in ((enough, self.problem.least[gang]), (nobody, most)):
                program.add_terms(row, [column for column, _ in terms], [number for _, number in terms])
                program.add_terms(row, starts, -least)

    def _add_quotas(self, program: Program) -> None:
        self._quota_rows = [program.add_rows(quota.most) for quota in self.problem.quotas]
        for first, quota in zip(self._quota_rows, self.problem.quotas, strict=True):
            for column, one in enumerate(self.openings):
                asked = charged(quota, dict(one.puts))
                for resource in np.flatnonzero(asked).tolist():
                    program.add_terms(first + resource, column, asked[resource])

    def _sort_nodes(self) -> None:
        """Find the kinds of nodes once more, if there are other classes of leavers than before."""
        classes = frozenset(which for one in self.openings for which in one.leavers)
        if classes <= self._classes:
            return
        self._classes = classes
        self._kinds = kinds(self.problem, sorted(classes), self._late)
        self._kind_of = {node: (number, kind) for number, kind in enumerate(self._kinds) for node in kind.places}

    # --- reading ------------------------------------------------------------------------------------------------------

    def _read_prices(self, prices: Floats, worth: float) -> Prices:
        nodes = prices[self._first_node : self._first_kind].copy()
        for node, (number, kind) in self._kind_of.items():
            nodes[node] += prices[self._first_kind + number] * kind.places[node]
        demands = prices[self._first_demand : self._first_node].copy()
        for first, quota in zip(self._quota_rows, self.problem.quotas, strict=True):
            for which, asked in quota.asked.items():
                demands[which] += float(asked @ prices[first : first + len(asked)])
        return Prices(
            move=float(prices[0]) + self._price,
            places=prices[1 : self._first_demand],
            demands=demands,
            nodes=nodes,
            worth=worth,
        )

    def _read(self, values: Ints) -> Shift:
        """Make the chosen openings, and then whatever else is still possible."""
        problem = self.problem
        chosen = [one for column, one in enumerate(self.openings) if values[column] > 0]
        net: Counter[tuple[int, int]] = Counter()
        puts: Counter[tuple[int, int]] = Counter()
        for one in chosen:
            for which in one.leavers:
                net[which, one.node] -= 1
            for which, number in one.puts:
                puts[which, one.node] += number
        coming, leaving = self._coming(values, chosen), Counter(which for one in chosen for which in one.leavers)
        for which in sorted(leaving):
            for node in coming[which][: leaving[which]]:
                net[which, node] += 1
        shift = Shift({cell: number for cell, number in net.items() if number}, dict(puts))
        return self._completed(shift, chosen) if not flaws(problem, shift) else self._completed(STAY, ())

    def _coming(self, values: Ints, chosen: Sequence[Opening]) -> dict[int, list[int]]:
        """By class, the nodes that take its leavers: where openings want them first."""
        coming: dict[int, list[int]] = defaultdict(list)
        opened = {one.node for one in chosen}
        for one in chosen:
            for which, number in one.comers:
                coming[which] += [one.node] * number
        for number, kind in enumerate(self._kinds):
            free = [node for turn in range(_ROOMY) for node, places in kind.places.items() if turn < places]
            free = [node for node in free if node not in opened]
            for which in kind.classes:
                some = free[: int(values[self._taken[which, number]])]
                coming[which] += dict.fromkeys(some) if self.problem.alone[which] else some
                free = free[len(some) :]
        return coming

    def _completed(self, shift: Shift, chosen: Sequence[Opening]) -> Shift:
        opened = {one.node for one in chosen}
        rest = [one for one in self.openings if not one.comers and one.node not in opened]
        return greedy(self.problem, rest, shift)[0]


def kinds(problem: Problem, classes: Sequence[int], late: Late = never) -> list[Kind]:
    """Nodes by the set of classes of which they can take one pod; once it is late, none takes those not asked about."""
    if not classes:
        return []
    able = np.zeros((len(classes), problem.nodes), np.bool_)
    for row, which in zip(able, takewhile(lambda _: not late(), classes), strict=False):
        row[:] = fits(problem.free, problem.sizes[which]) & problem.suits(which)
    if problem.empties:
        able &= problem.stuck | np.array([bool(held) for held in problem.held])
    _thin_out(able)
    patterns, kind_of = np.unique(able, axis=1, return_inverse=True)
    found = []
    for number in range(patterns.shape[1]):
        taken = tuple(which for which, can in zip(classes, patterns[:, number].tolist(), strict=True) if can)
        if taken:
            nodes = np.flatnonzero(kind_of.reshape(-1) == number)
            found.append(Kind(taken, _places_of(problem, nodes.tolist(), taken)))
    return found


def _thin_out(able: Mask) -> None:
    """Keep some nodes for each class where there are many classes and nodes, not the same ones for all."""
    most = max(_PLACES // len(able), _FEWEST)
    for number, row in enumerate(able):
        nodes = np.flatnonzero(row)
        if len(nodes) > most:
            row[:] = False
            row[nodes[(number + np.arange(most) * len(nodes) // most) % len(nodes)]] = True


def _places_of(problem: Problem, nodes: Sequence[int], classes: Sequence[int]) -> dict[int, int]:
    largest = problem.sizes[list(classes)].max(axis=0)
    asked = largest > 0
    most = (problem.free[list(nodes)][:, asked] // largest[asked]).min(axis=1, initial=_ROOMY)
    return dict(zip(nodes, np.maximum(most, 1).tolist(), strict=True))
