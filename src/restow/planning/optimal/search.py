"""The search, from the first answer to the best that time allows. At any moment there is an answer.

    1  greedy          openings by what they bring per move                       milliseconds
       everywhere      the same once more over all nodes, if there are many       a second
    2  patterns        all openings at once, new ones found by their prices       a second
    3  flow            the exact model over all nodes, if it is small enough      proves the optimum, mostly
    4  neighbourhoods  the exact model over a few dozen nodes at a time           until time or steps are over

Each begins with what the one before has found. It ends as soon as an answer is as good as the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from restow.planning.optimal.bounds import emptying_bound, volume_bound
from restow.planning.optimal.flow_model import FlowModel
from restow.planning.optimal.greedy import greedy_solution, initial_patterns, opportunity_costs
from restow.planning.optimal.lagrangian_bound import LagrangianBound
from restow.planning.optimal.large_neighbourhood_search import LargeNeighbourhoodSearch
from restow.planning.optimal.master_problem import MasterProblem
from restow.planning.optimal.move_reduction import minimise_moves, undo_useless_moves
from restow.planning.optimal.node_patterns import DepartureSets, NodePattern, enumerate_departures, placeable_departures
from restow.planning.optimal.packing_problem import (
    UNCHANGED,
    PackingProblem,
    Solution,
    is_better,
    solution_defects,
    solution_value,
)
from restow.planning.optimal.pricing import DualPrices, best_patterns, zero_prices
from restow.planning.optimal.search_budget import SearchBudget
from restow.planning.optimal.solver import UNBOUNDED, SolverLimits
from restow.planning.optimal.subproblem import Subproblem

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
_EVERY, _EVERY_OF_MANY = 4, 1
"""Leavers of one node that are looked at in all combinations for a bound; the second where there are many nodes."""
_BOUND_SECONDS = 0.0001
"""What that takes per node, about."""
_CANDIDATES = 6000
_ROUNDS = 12
_FOR_CHOOSING = 0.6
"""The share of the seconds that are kept for choosing among openings."""
_BEAT = 0.5
"""Seconds after which something is said even if nothing is new."""
_IDLE = 60
"""Steps without gain after which the search gives up."""


class SearchResult(msgspec.Struct, frozen=True):
    solution: Solution
    bound: float
    """What no answer is worth more than; infinite where nothing is known."""
    steps: int
    """Programs that were solved."""
    method: str
    """The method that found the answer."""
    solver_failed: bool = False
    """Whether the solver was asked, never answered, and could have helped."""


ReportProgress = Callable[[str, Solution, float], None]
"""Told what is being done, the best answer so far and the bound, whenever one of them is new."""


def search(
    problem: PackingProblem,
    budget: SearchBudget,
    rng: np.random.Generator,
    tell: ReportProgress = lambda phase, best, bound: None,
    start: Solution = UNCHANGED,
) -> SearchResult:
    """Look for the best answer, beginning with `start`."""
    return _SolutionSearch(problem, budget, rng, tell, start).run()


class _SolutionSearch:
    def __init__(
        self,
        problem: PackingProblem,
        budget: SearchBudget,
        rng: np.random.Generator,
        tell: ReportProgress,
        start: Solution,
    ) -> None:
        self._problem = problem
        self._budget = budget
        self._late = budget.is_late
        self._rng = rng
        self._tell = tell
        self._best = start
        self._by = "nothing"
        self._bound = UNBOUNDED
        self._openings: Sequence[NodePattern] = ()
        self._market: LagrangianBound | None = None
        self._helped = False
        self._phase = "greedy"
        self._said = budget.seconds_left

    def run(self) -> SearchResult:
        self._narrow(volume_bound(self._problem))
        self._greedy()
        self._limit()
        methods = {
            "everywhere": self._everywhere,
            "patterns": self._patterns,
            "flow": self._flow,
            "neighbourhoods": self._neighbourhoods,
        }
        for phase, method in methods.items():
            if not self._done:
                self._phase = phase
                self._say()
                method()
        failed = self._budget.steps_taken > 0 and not self._helped and not self._reached
        return SearchResult(self._best, self._bound, self._budget.steps_taken, self._by, failed)

    @property
    def _done(self) -> bool:
        return self._budget.is_over or self._reached

    @property
    def _reached(self) -> bool:
        """Whether there is no better answer."""
        return solution_value(self._problem, self._best) >= self._bound

    # --- the methods --------------------------------------------------------------------------------------------------

    def _greedy(self) -> None:
        too_late = self._budget.is_reserve_spent
        self._focus = Subproblem.select(self._problem, self._rng, too_late)
        part = self._focus.problem
        self._easy = placeable_departures(
            part, enumerate_departures(part, 0 if part.counts_empty_nodes else _TOGETHER, is_late=too_late)
        )
        candidates = initial_patterns(part, self._easy, too_late)[:_CANDIDATES]
        shift, made = greedy_solution(part, candidates)
        self._openings = [*candidates, *made]
        self._take(self._focus.to_full_solution(shift), "greedy")

    def _limit(self) -> None:
        """What no answer exceeds if places for leavers are to be had for nothing."""
        if self._reached:
            return
        if self._problem.counts_empty_nodes:
            self._narrow(emptying_bound(self._problem, self._step(0.2, 1.0)))
        elif self._problem.demands and self._budget.has_seconds_with_reserve(_BOUND_SECONDS * self._problem.node_count):
            every = _EVERY if self._problem.node_count <= _FLOW_NODES else _EVERY_OF_MANY
            relaxed = self._problem.relaxation
            self._market = LagrangianBound(
                relaxed, enumerate_departures(relaxed, every, is_late=self._budget.is_reserve_spent)
            )
            self._narrow(self._market.bound(zero_prices(self._problem)))

    def _everywhere(self) -> None:
        """If only a part was looked at, and not every move is needed for it: openings of all nodes."""
        if (
            self._focus.is_whole_problem
            or self._problem.counts_empty_nodes
            or self._best.move_count >= self._problem.max_moves
        ):
            return
        some = placeable_departures(self._problem, enumerate_departures(self._problem, 1, is_late=self._late))
        candidates = initial_patterns(self._problem, some, self._late)
        self._take(greedy_solution(self._problem, candidates, self._best, self._late)[0], "greedy")

    def _patterns(self) -> None:
        """Look for openings whose leavers have a place already, then for any."""
        part = self._focus.problem
        patterns = MasterProblem(part, self._openings, self._late)
        if patterns.patterns and not self._done:
            self._choose(patterns, self._easy)
        if patterns.patterns and not self._done:
            self._choose(
                patterns,
                enumerate_departures(part, 1 if part.counts_empty_nodes else _MORE_TOGETHER, is_late=self._late),
            )
        self._openings = patterns.patterns

    def _choose(self, patterns: MasterProblem, some: DepartureSets) -> None:
        """Find openings until there are no better ones, then choose the best of them."""
        market, prices, began = LagrangianBound(self._focus.problem, some), None, self._budget.seconds_left
        for _ in range(_ROUNDS):
            if self._budget.is_over or not self._budget.has_seconds(_FOR_CHOOSING * began):
                break
            self._beat()
            newest = patterns.dual_prices(self._step(0.5))
            prices = newest or prices
            if newest is None or not self._find(patterns, some, market, newest):
                break
        if prices is not None and self._market is not None:
            self._narrow(self._market.bound(prices))
        if not self._done:
            rest = solution_value(self._problem, self._focus.outside)
            least = solution_value(self._problem, self._best) - rest
            shift = patterns.best_solution(self._step(0.5), prices, least)
            if shift is not None:
                self._take(self._focus.to_full_solution(shift), "patterns")

    def _find(self, patterns: MasterProblem, some: DepartureSets, market: LagrangianBound, prices: DualPrices) -> bool:
        """Whether there are openings that are better at these prices; they are added."""
        if patterns.add_patterns(market.patterns(prices)):
            return True
        found = best_patterns(self._focus.problem, some, prices, is_late=self._late)
        return patterns.add_patterns(one.pattern for one in found) > 0

    def _flow(self) -> None:
        """All nodes at once."""
        if self._problem.node_count > _FLOW_NODES:
            return
        every = range(self._problem.node_count)
        columns = _FLOW_STEP if self._budget.counts_steps else _FLOW_COLUMNS
        flow = FlowModel(self._problem, UNCHANGED, every, columns, is_late=self._late)
        if not flow.is_complete:
            return
        solved = flow.solve(self._step(0.6), start=self._best)
        if solved.solution is not None:
            self._take(solved.solution, "flow")
        if not self._problem.is_static and not self._done:
            flow = FlowModel(self._problem.relaxation, UNCHANGED, every, is_late=self._late)
            if flow.is_complete:
                self._narrow(flow.solve(self._step(0.4), start=self._best).bound)
        elif self._problem.is_static:
            self._narrow(solved.bound)

    def _neighbourhoods(self) -> None:
        appeal = np.zeros(self._problem.node_count)
        appeal[self._focus.nodes] = opportunity_costs(self._focus.problem, self._openings) ** 2
        columns = _PART_STEP if self._budget.counts_steps else _PART_COLUMNS
        neighbourhoods = LargeNeighbourhoodSearch(self._problem, appeal, self._rng, columns)
        idle = 0
        while idle < _IDLE and not self._done:
            self._beat()
            shift = neighbourhoods.improved(self._best, self._step(0.5, _STEP))
            idle = 0 if shift is not None else idle + 1
            if shift is not None:
                self._take(shift, "neighbourhoods")

    # ------------------------------------------------------------------------------------------------------------------

    def _take(self, shift: Solution, by: str) -> None:
        """Keep an answer if it is better than the best so far, and right."""
        shift = undo_useless_moves(self._problem, shift)
        if is_better(self._problem, shift, self._best) and not solution_defects(self._problem, shift):
            self._best, self._by = minimise_moves(self._problem, shift), by
            self._say()

    def _narrow(self, bound: float) -> None:
        if bound < self._bound:
            self._bound = bound
            self._say()

    def _step(self, share: float, most: float = UNBOUNDED) -> SolverLimits:
        return replace(self._budget.next_step(share, most), on_progress=self._beat, on_answer=self._heard)

    def _heard(self) -> None:
        self._helped = True

    def _beat(self) -> None:
        """Say something, unless that was done lately."""
        if self._said - self._budget.seconds_left >= _BEAT:
            self._say()

    def _say(self) -> None:
        self._said = self._budget.seconds_left
        self._tell(self._phase, self._best, self._bound)
