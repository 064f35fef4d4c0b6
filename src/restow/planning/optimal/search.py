"""The search, from the first answer to the best that time allows. At any moment there is an answer.

    1  greedy          openings by what they bring per move                       milliseconds
    2  patterns        all openings at once, new ones found by their prices       a second
    3  flow            the exact model over all nodes, if it is small enough      proves the optimum, mostly
    4  neighbourhoods  the exact model over a few dozen nodes at a time           until time or steps are over

Each begins with what the one before has found. It ends as soon as an answer is as good as the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from restow.planning.optimal.bounds import drain_bound, part_bound, price_bound, volume_bound
from restow.planning.optimal.budget import Budget
from restow.planning.optimal.flow import Flow
from restow.planning.optimal.focus import Focus
from restow.planning.optimal.greedy import dearness, first_openings, greedy
from restow.planning.optimal.neighbourhood import Neighbourhoods
from restow.planning.optimal.openings import Lines, Opening, easy, lines
from restow.planning.optimal.patterns import Patterns
from restow.planning.optimal.pricing import Prices, surplus
from restow.planning.optimal.problem import STAY, Problem, Shift, better, flaws, value
from restow.planning.optimal.solver import UNBOUNDED
from restow.planning.optimal.stage import pruned

_TOGETHER = 2
"""Leavers of one node that are tried in all combinations while looking for openings."""
_MORE_TOGETHER = 3
_FLOW_NODES = 2_000
_FLOW_COLUMNS, _PART_COLUMNS = 20_000, 6_000
"""Up to which size all nodes, and a few of them, are decided at once."""
_FLOW_STEP, _PART_STEP = 4_000, 1_000
"""The same where steps are counted, so that none takes long."""
_STEP = 0.6
"""Seconds that one neighbourhood may take."""
_BOUND_SECONDS, _PART_BOUND_SECONDS = 0.0008, 0.0003
"""What the bounds of prices take per node, about."""
_CANDIDATES = 6000
_ROUNDS = 12
_FOR_CHOOSING = 0.6
"""The share of the seconds that are kept for choosing among openings."""
_IDLE = 60
"""Steps without gain after which the search gives up."""


class Found(msgspec.Struct, frozen=True):
    shift: Shift
    bound: float
    """What no answer is worth more than; infinite where nothing is known."""
    steps: int
    """Programs that were solved."""
    by: str
    """The method that found the answer."""
    failed: bool = False
    """Whether the solver was of no help at all."""


Tell = Callable[[int, float], None]
"""Told the best worth so far, and the bound, whenever one of them improves."""


def search(
    problem: Problem,
    budget: Budget,
    rng: np.random.Generator,
    tell: Tell = lambda worth, bound: None,
    start: Shift = STAY,
) -> Found:
    """Look for the best answer, beginning with `start`."""
    return _Search(problem, budget, rng, tell, start).run()


class _Search:
    def __init__(self, problem: Problem, budget: Budget, rng: np.random.Generator, tell: Tell, start: Shift) -> None:
        self._problem = problem
        self._budget = budget
        self._late = budget.late
        self._rng = rng
        self._tell = tell
        self._best = start
        self._by = "nothing"
        self._bound = UNBOUNDED
        self._openings: Sequence[Opening] = ()
        self._helped = False

    def run(self) -> Found:
        self._narrow(volume_bound(self._problem))
        self._greedy()
        for method in (self._patterns, self._flow, self._neighbourhoods):
            if not self._done:
                method()
        failed = self._budget.steps > 0 and not self._helped and not self._done
        return Found(self._best, self._bound, self._budget.steps, self._by, failed)

    @property
    def _done(self) -> bool:
        return self._budget.over or value(self._problem, self._best) >= self._bound

    # --- the methods --------------------------------------------------------------------------------------------------

    def _greedy(self) -> None:
        self._focus = Focus.of(self._problem, self._rng, self._late)
        part = self._focus.problem
        self._easy = easy(part, lines(part, 0 if part.empties else _TOGETHER, late=self._late))
        candidates = first_openings(part, self._easy, self._late)[:_CANDIDATES]
        shift, made = greedy(part, candidates)
        self._openings = [*candidates, *made]
        self._take(self._focus.whole(shift), "greedy")

    def _patterns(self) -> None:
        """Look for openings whose leavers have a place already, then for any."""
        if self._problem.empties:
            self._narrow(drain_bound(self._problem, self._budget.step(0.2, 1.0)))
        if not self._openings:
            return
        part, prices = self._focus.problem, None
        patterns = Patterns(part, self._openings)
        for some in (self._easy, None):
            if not self._done:
                some = some or lines(part, 1 if part.empties else _MORE_TOGETHER, late=self._late)
                prices = self._choose(patterns, some) or prices
        self._openings = patterns.openings
        bound, seconds = (price_bound, _BOUND_SECONDS) if self._focus.everything else (part_bound, _PART_BOUND_SECONDS)
        in_time = self._budget.seconds > seconds * self._problem.nodes
        if prices is not None and in_time and not self._problem.empties and not self._done:
            self._narrow(bound(self._problem.relaxed, prices, late=self._late))

    def _choose(self, patterns: Patterns, some: Lines) -> Prices | None:
        """Find openings until there are no better ones, then choose the best of them."""
        part, prices = self._focus.problem, None
        began = self._budget.seconds
        for _ in range(_ROUNDS):
            if self._budget.over or self._budget.seconds < _FOR_CHOOSING * began:
                break
            newest = patterns.prices(self._budget.step(0.5))
            prices = newest or prices
            if newest is None or not patterns.add(one.opening for one in surplus(part, some, newest, late=self._late)):
                break
        if not self._budget.over:
            rest = value(self._problem, self._focus.rest)
            least = value(self._problem, self._best) - rest
            shift = patterns.best(self._budget.step(0.35), prices, least)
            if shift is not None:
                self._take(self._focus.whole(shift), "patterns")
        return prices

    def _flow(self) -> None:
        """All nodes at once."""
        if self._problem.nodes > _FLOW_NODES:
            return
        every = range(self._problem.nodes)
        columns = _FLOW_STEP if self._budget.limited else _FLOW_COLUMNS
        flow = Flow(self._problem, STAY, every, columns, late=self._late)
        if not flow.complete:
            return
        solved = flow.solve(self._budget.step(0.6), start=self._best)
        if solved.shift is not None:
            self._take(solved.shift, "flow")
        if not self._problem.settled and not self._done:
            flow = Flow(self._problem.relaxed, STAY, every, late=self._late)
            if flow.complete:
                self._narrow(flow.solve(self._budget.step(0.4), start=self._best).bound)
        elif self._problem.settled:
            self._narrow(solved.bound)

    def _neighbourhoods(self) -> None:
        appeal = np.zeros(self._problem.nodes)
        appeal[self._focus.nodes] = dearness(self._focus.problem, self._openings) ** 2
        columns = _PART_STEP if self._budget.limited else _PART_COLUMNS
        neighbourhoods = Neighbourhoods(self._problem, appeal, self._rng, columns)
        idle = 0
        while idle < _IDLE and not self._done:
            shift = neighbourhoods.improved(self._best, self._budget.step(0.5, _STEP))
            idle = 0 if shift is not None else idle + 1
            if shift is not None:
                self._take(shift, "neighbourhoods")

    # ------------------------------------------------------------------------------------------------------------------

    def _take(self, shift: Shift, by: str) -> None:
        """Keep an answer if it is better than the best so far, and right."""
        shift = pruned(self._problem, shift)
        self._helped = self._helped or by != "greedy"
        if better(self._problem, shift, self._best) and not flaws(self._problem, shift):
            self._best, self._by = shift, by
            self._tell(value(self._problem, shift), self._bound)

    def _narrow(self, bound: float) -> None:
        if bound < self._bound:
            self._bound = bound
            self._tell(value(self._problem, self._best), bound)
