"""The search: from a first solution to the best one that the budget allows. There is a feasible solution at any moment.

    1  greedy          patterns by their gain per move                                 milliseconds
       everywhere      the same over all nodes, if step 1 looked at a part of them     a second
    2  patterns        column generation: a choice among patterns of all nodes         a second
    3  flow            the exact model over all nodes, if it is small enough           often proves the optimum
    4  neighbourhoods  large-neighbourhood search with the exact model                 until the budget is spent

Goes in: a problem and a budget. Comes out: the best solution (the incumbent) and an upper bound. Each method begins
with the incumbent of the methods before. The search ends as soon as the incumbent reaches the bound: then it is
optimal.
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

_MAX_DEPARTURES, _MORE_DEPARTURES = 2, 3
"""Departing pods per node of which all combinations are tried: for the first patterns, and in the second round."""
_BOUND_DEPARTURES, _BOUND_DEPARTURES_OF_MANY = 4, 1
"""The same for the bound; the second where there are many nodes."""
_BOUND_SECONDS_PER_NODE = 0.0001
_FLOW_NODES = 2_000
_FLOW_COLUMNS, _PART_COLUMNS = 20_000, 6_000
"""The largest programs over all nodes, and over a neighbourhood."""
_FLOW_COLUMNS_PER_STEP, _PART_COLUMNS_PER_STEP = 4_000, 1_000
"""The same where steps are counted and have no time limit of their own."""
_NEIGHBOURHOOD_SECONDS = 0.6
_MAX_FIRST_PATTERNS = 6000
_PRICING_ROUNDS = 12
_SHARE_FOR_CHOICE = 0.6
"""The share of the seconds that is kept for choosing whole patterns."""
_REPORT_SECONDS = 0.5
"""Progress is reported at least this often."""
_MAX_IDLE_STEPS = 60
"""Neighbourhoods without a better solution, after which the search gives up."""


class SearchResult(msgspec.Struct, frozen=True):
    solution: Solution
    bound: float
    """An upper bound on the value of every solution; infinite if none is known."""
    steps_taken: int
    """How many programs were solved."""
    method: str
    """The method that found the solution."""
    solver_failed: bool = False
    """Whether the solver was called and never answered, although a better solution may exist."""


ReportProgress = Callable[[str, Solution, float], None]
"""Called with the phase, the incumbent and the bound, whenever one of them has changed."""


def search(
    problem: PackingProblem,
    budget: SearchBudget,
    rng: np.random.Generator,
    report_progress: ReportProgress = lambda phase, incumbent, bound: None,
    start: Solution = UNCHANGED,
) -> SearchResult:
    """Look for the best solution, beginning with `start`."""
    return _SolutionSearch(problem, budget, rng, report_progress, start).run()


class _SolutionSearch:
    def __init__(
        self,
        problem: PackingProblem,
        budget: SearchBudget,
        rng: np.random.Generator,
        report_progress: ReportProgress,
        start: Solution,
    ) -> None:
        self._problem = problem
        self._budget = budget
        self._is_late = budget.is_late
        self._rng = rng
        self._report_progress = report_progress
        self._incumbent = start
        self._method = "nothing"
        self._bound = UNBOUNDED
        self._patterns: Sequence[NodePattern] = ()
        self._lagrangian: LagrangianBound | None = None
        self._solver_answered = False
        self._phase = "greedy"
        self._reported_at = budget.seconds_left

    def run(self) -> SearchResult:
        # 1. A first solution and a first bound, even if the budget is spent already.
        self._tighten_bound(volume_bound(self._problem))
        self._run_greedy()
        self._compute_bound()
        # 2. The methods that need time, as long as there is some and the incumbent is not proven optimal.
        methods = {
            "everywhere": self._run_greedy_everywhere,
            "patterns": self._run_column_generation,
            "flow": self._run_flow_model,
            "neighbourhoods": self._run_neighbourhoods,
        }
        for phase, method in methods.items():
            if not self._is_done:
                self._phase = phase
                self._report()
                method()
        solver_failed = self._budget.steps_taken > 0 and not self._solver_answered and not self._is_optimal
        return SearchResult(self._incumbent, self._bound, self._budget.steps_taken, self._method, solver_failed)

    @property
    def _is_done(self) -> bool:
        return self._budget.is_over or self._is_optimal

    @property
    def _is_optimal(self) -> bool:
        return solution_value(self._problem, self._incumbent) >= self._bound

    # --- the methods --------------------------------------------------------------------------------------------------

    def _run_greedy(self) -> None:
        # The seconds to keep are for this method: there has to be a solution, even where time is short.
        is_late = self._budget.are_kept_seconds_spent
        self._subproblem = Subproblem.select(self._problem, self._rng, is_late)
        part = self._subproblem.problem
        max_departures = 0 if part.counts_empty_nodes else _MAX_DEPARTURES
        departures = enumerate_departures(part, max_departures, is_late=is_late)
        self._placeable_departures = placeable_departures(part, departures)
        candidates = initial_patterns(part, self._placeable_departures, is_late)[:_MAX_FIRST_PATTERNS]
        solution, applied = greedy_solution(part, candidates)
        self._patterns = [*candidates, *applied]
        self._accept(self._subproblem.to_full_solution(solution), "greedy")

    def _compute_bound(self) -> None:
        """A bound before any price is known: places for departing pods are free."""
        if self._is_optimal:
            return
        problem, budget = self._problem, self._budget
        if problem.counts_empty_nodes:
            self._tighten_bound(emptying_bound(problem, self._next_step(0.2, 1.0)))
        elif problem.demands and budget.has_seconds_with_kept(_BOUND_SECONDS_PER_NODE * problem.node_count):
            is_large = problem.node_count > _FLOW_NODES
            max_departures = _BOUND_DEPARTURES_OF_MANY if is_large else _BOUND_DEPARTURES
            # Only the relaxation gives a bound for every plan.
            relaxation = problem.relaxation
            departures = enumerate_departures(relaxation, max_departures, is_late=budget.are_kept_seconds_spent)
            self._lagrangian = LagrangianBound(relaxation, departures)
            self._tighten_bound(self._lagrangian.bound(zero_prices(problem)))

    def _run_greedy_everywhere(self) -> None:
        """Greedy over all nodes, if it looked at a part of them and moves are left."""
        if self._subproblem.is_whole_problem or self._problem.counts_empty_nodes:
            return
        if self._incumbent.move_count >= self._problem.max_moves:
            return
        departures = enumerate_departures(self._problem, 1, is_late=self._is_late)
        candidates = initial_patterns(self._problem, placeable_departures(self._problem, departures), self._is_late)
        self._accept(greedy_solution(self._problem, candidates, self._incumbent, self._is_late)[0], "greedy")

    def _run_column_generation(self) -> None:
        """First with departing pods that fit elsewhere already, then with any: those need chains of moves."""
        part = self._subproblem.problem
        master = MasterProblem(part, self._patterns, self._is_late)
        if master.patterns and not self._is_done:
            self._generate_columns(master, self._placeable_departures)
        if master.patterns and not self._is_done:
            max_departures = 1 if part.counts_empty_nodes else _MORE_DEPARTURES
            self._generate_columns(master, enumerate_departures(part, max_departures, is_late=self._is_late))
        self._patterns = master.patterns

    def _generate_columns(self, master: MasterProblem, departures: DepartureSets) -> None:
        # 1. Solve the linear relaxation and add patterns with positive reduced cost, until there are none.
        knapsacks, prices = LagrangianBound(self._subproblem.problem, departures), None
        seconds = self._budget.seconds_left
        for _ in range(_PRICING_ROUNDS):
            if self._budget.is_over or not self._budget.has_seconds(_SHARE_FOR_CHOICE * seconds):
                break
            self._report_if_due()
            newest = master.dual_prices(self._next_step(0.5))
            prices = newest or prices
            if newest is None or not self._add_priced_patterns(master, departures, knapsacks, newest):
                break
        # 2. The last prices give a better Lagrangian bound.
        if prices is not None and self._lagrangian is not None:
            self._tighten_bound(self._lagrangian.bound(prices))
        # 3. Choose whole patterns.
        if not self._is_done:
            outside = solution_value(self._problem, self._subproblem.outside)
            min_value = solution_value(self._problem, self._incumbent) - outside
            solution = master.best_solution(self._next_step(0.5), prices, min_value)
            if solution is not None:
                self._accept(self._subproblem.to_full_solution(solution), "patterns")

    def _add_priced_patterns(
        self, master: MasterProblem, departures: DepartureSets, knapsacks: LagrangianBound, prices: DualPrices
    ) -> bool:
        """Add patterns with positive reduced cost; False if none was found. The knapsack tables are faster, the
        enumeration of fillings finds more."""
        if master.add_patterns(knapsacks.patterns(prices)):
            return True
        priced = best_patterns(self._subproblem.problem, departures, prices, is_late=self._is_late)
        return master.add_patterns(each.pattern for each in priced) > 0

    def _run_flow_model(self) -> None:
        """The exact model over all nodes, for a solution and a bound."""
        problem = self._problem
        if problem.node_count > _FLOW_NODES:
            return
        nodes = range(problem.node_count)
        max_columns = _FLOW_COLUMNS_PER_STEP if self._budget.counts_steps else _FLOW_COLUMNS
        model = FlowModel(problem, UNCHANGED, nodes, max_columns, is_late=self._is_late)
        if not model.is_complete:
            return
        result = model.solve(self._next_step(0.6), start=self._incumbent)
        if result.solution is not None:
            self._accept(result.solution, "flow")
        if problem.is_static:
            self._tighten_bound(result.bound)
        elif not self._is_done:
            # Allowed nodes may change as pods move, so the bound of this model is none for plans: the relaxation's is.
            model = FlowModel(problem.relaxation, UNCHANGED, nodes, is_late=self._is_late)
            if model.is_complete:
                self._tighten_bound(model.solve(self._next_step(0.4), start=self._incumbent).bound)

    def _run_neighbourhoods(self) -> None:
        weights = np.zeros(self._problem.node_count)
        weights[self._subproblem.nodes] = opportunity_costs(self._subproblem.problem, self._patterns) ** 2
        max_columns = _PART_COLUMNS_PER_STEP if self._budget.counts_steps else _PART_COLUMNS
        neighbourhoods = LargeNeighbourhoodSearch(self._problem, weights, self._rng, max_columns)
        idle_steps = 0
        while idle_steps < _MAX_IDLE_STEPS and not self._is_done:
            self._report_if_due()
            solution = neighbourhoods.improved(self._incumbent, self._next_step(0.5, _NEIGHBOURHOOD_SECONDS))
            idle_steps = 0 if solution is not None else idle_steps + 1
            if solution is not None:
                self._accept(solution, "neighbourhoods")

    # ------------------------------------------------------------------------------------------------------------------

    def _accept(self, solution: Solution, method: str) -> None:
        """Make a solution the incumbent if it is better and feasible."""
        solution = undo_useless_moves(self._problem, solution)
        if is_better(self._problem, solution, self._incumbent) and not solution_defects(self._problem, solution):
            self._incumbent, self._method = minimise_moves(self._problem, solution), method
            self._report()

    def _tighten_bound(self, bound: float) -> None:
        if bound < self._bound:
            self._bound = bound
            self._report()

    def _next_step(self, share: float, max_seconds: float = UNBOUNDED) -> SolverLimits:
        limits = self._budget.next_step(share, max_seconds)
        return replace(limits, on_progress=self._report_if_due, on_answer=self._note_answer)

    def _note_answer(self) -> None:
        self._solver_answered = True

    def _report_if_due(self) -> None:
        if self._reported_at - self._budget.seconds_left >= _REPORT_SECONDS:
            self._report()

    def _report(self) -> None:
        self._reported_at = self._budget.seconds_left
        self._report_progress(self._phase, self._incumbent, self._bound)
