"""The strategy `optimal`: makes the best plan that it can find in the time limit, with an upper bound on all plans.

Goes in: a snapshot and a request. Comes out: a plan.

    free-nodes   as many nodes as possible without pods, static and DaemonSet pods aside
    slots        room for as many pods of the shape as possible
    pending      as many pending pods and whole gangs as possible: see `pending_values`

The bound holds for every plan with at most `max_moves` moves. If nothing better than the present state is found, the
plan is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from math import ceil, inf

import msgspec
import numpy as np
from msgspec.structs import replace

from restow.model.cluster import Mask
from restow.model.problems import Problem as Mistake
from restow.model.quantity import quantity_of
from restow.model.resources import format_quantities
from restow.model.snapshot import Snapshot
from restow.model.wire import WireError
from restow.planning.eviction_rules import general_refusal
from restow.planning.measures import allocatable_amounts, cluster_overview, count_slots
from restow.planning.optimal.objective_figures import ObjectiveFigures
from restow.planning.optimal.packing_problem import UNCHANGED, Demand, PackingProblem, Solution, is_better
from restow.planning.optimal.problem_instance import ProblemInstance, build_instance
from restow.planning.optimal.queue_quotas import unplaced_refusals
from restow.planning.optimal.realisation import Realisation, realise_solution
from restow.planning.optimal.search import SearchResult, search
from restow.planning.optimal.search_budget import SearchBudget
from restow.planning.optimal.solution_builder import SolutionBuilder
from restow.planning.plan import Measures, Plan, PlanRefusal
from restow.planning.plan_effect import measures_after, object_versions
from restow.planning.plan_request import PlanProgress, PlanRequest

OBJECTIVES = ("free-nodes", "slots", "pending")
_MAX_SEARCHES = 4
"""How often the search runs, each time without what the filters refused before."""
_REALISATION_SHARE, _MAX_REALISATION_SECONDS = 0.06, 3.0
"""The share of the time limit that is kept for turning the solution into moves, and its limit."""
_MIN_REALISATION_SECONDS = 0.5
"""What that may take even if no time is left."""
_FINAL_MEASURES = 2.0
"""The time to measure the cluster afterwards and to replay the plan, as a multiple of the time to measure it before."""
_MIN_SEARCH_SHARE, _MAX_MIN_SEARCH_SECONDS = 0.5, 2.0
"""What the search gets even if no time is left, as a multiple of the time to read the snapshot, and its limit: enough
for the greedy solution."""
_REPAIR_SHARE = 0.3
"""The share of the seconds that a search leaves for another one, where filters may refuse something."""


def plan_optimal(snapshot: Snapshot, request: PlanRequest) -> Plan:
    """Plan for the objective. Raises WireError for a request that makes no sense."""
    _check(request)
    # 1. Read the snapshot into a packing problem, and measure it.
    started_at = request.clock() if request.started_at is None else request.started_at
    request.report_progress(PlanProgress("reading"))
    instance, read_at = build_instance(snapshot, request), request.clock()
    measure = _measure_function(request)
    before = measure(snapshot)
    figures = ObjectiveFigures(instance, request.objective)
    measured_at = request.clock()
    # 2. Search for a solution, and realise it as moves and places, within the time that the other steps leave.
    realisation_seconds = min(_REALISATION_SHARE * request.time_limit, _MAX_REALISATION_SECONDS)
    min_search_seconds = min(_MIN_SEARCH_SHARE * (read_at - started_at), _MAX_MIN_SEARCH_SECONDS)
    final_seconds = realisation_seconds + _FINAL_MEASURES * (measured_at - read_at)
    search_ends = max(started_at + request.time_limit - final_seconds, measured_at + min_search_seconds)
    searched = _search_and_realise(
        snapshot, request, instance, figures, lambda: search_ends - request.clock(), realisation_seconds
    )
    realised = searched.best
    # 3. Measure the cluster as it will be, and how far the plan is from the bound.
    after = measures_after(snapshot, request, realised.moves, measure, realised.places)
    after |= figures.placement_figures(realised.solution)
    reached = after[figures.figure]
    bound = figures.bound_figure(searched.first.bound, reached)
    if bound is not None:
        after["gap"] = gap_percent(reached, bound)
    remarks = _remarks(snapshot, request, instance, realised, searched.first, bound)
    return Plan(
        strategy="optimal",
        objective=request.objective,
        moves=realised.moves,
        places=realised.places,
        before=before | figures.placement_figures(searched.without_moves),
        after=after,
        bound=bound,
        refusals=(*instance.refusals, *realised.dropped, *remarks),
        shape=dict(request.shape),
        versions=object_versions(snapshot, realised.moves, realised.places),
    )


class _Searched(msgspec.Struct, frozen=True, eq=False):
    without_moves: Solution
    """What can be placed without a move."""
    best: Realisation
    first: SearchResult
    """The result of the first search: its bound holds for every plan."""


def _search_and_realise(
    snapshot: Snapshot,
    request: PlanRequest,
    instance: ProblemInstance,
    figures: ObjectiveFigures,
    seconds_left: Callable[[], float],
    realisation_seconds: float,
) -> _Searched:
    """Search, realise the solution, and search again without what the filters refused, as long as there is time. Only
    the first search gives the bound: what the others avoid was refused in one solution, and may be possible in
    another."""
    rng, problem = np.random.default_rng(request.seed), instance.problem

    def report(phase: str, solution: Solution, bound: float) -> None:
        reached = figures.reached_figure(solution)
        request.report_progress(PlanProgress(phase, reached, figures.bound_figure(bound, reached)))

    def report_with_first_bound(phase: str, solution: Solution, _: float) -> None:
        report(phase, solution, first.bound)

    def realise(solution: Solution, bound: float) -> Realisation:
        report("moves", solution, bound)
        # The realisation gets its seconds on top of the search: from the end of the search on, or from now on if that
        # is already past.
        overdue = max(-seconds_left(), 0.0)
        max_overdue = overdue + max(realisation_seconds, _MIN_REALISATION_SECONDS)
        return realise_solution(snapshot, request, instance, solution, is_late=lambda: -seconds_left() >= max_overdue)

    # 1. What can be placed without any move is the solution to beat.
    best = Realisation(solution=_placed_without_moves(problem))
    if best.solution.placements:
        best = realise(best.solution, inf)
    without_moves, first = best.solution, SearchResult(UNCHANGED, inf, 0, "nothing")
    steps = request.work_limit
    for turn in range(_MAX_SEARCHES):
        # 2. Search. Where no filter can refuse anything later, the search gets all the time.
        seconds_to_keep = 0.0 if problem.is_static else _REPAIR_SHARE * seconds_left()
        budget = SearchBudget(seconds_left, steps, seconds_to_keep)
        result = search(problem, budget, rng, report_with_first_bound if turn else report, start=best.solution)
        first = first if turn else result
        steps = None if steps is None else max(steps - result.steps_taken, 0)
        # 3. Realise the solution, and keep it if it is better.
        realised = realise(result.solution, first.bound)
        if is_better(instance.problem, realised.solution, best.solution):
            best = realised
        # 4. Again without what was refused.
        if not (realised.refused_moves or realised.refused_placements) or seconds_left() <= 0 or steps == 0:
            break
        problem = _without_refused(problem, realised)
    return _Searched(without_moves, best, first)


def _placed_without_moves(problem: PackingProblem) -> Solution:
    builder = SolutionBuilder(problem)
    builder.place_pending_pods()
    return builder.solution


def _without_refused(problem: PackingProblem, realised: Realisation) -> PackingProblem:
    """The problem without the moves and placements that were refused."""

    def allowed_nodes(class_index: int) -> Mask:
        mask = problem.allowed_nodes(class_index).copy()
        mask[[node for index, node in realised.refused_moves if index == class_index]] = False
        return mask

    demands = [_reduced_demand(demand, index, realised) for index, demand in enumerate(problem.demands)]
    return replace(problem, allowed_nodes=cache(allowed_nodes), demands=demands)


def _reduced_demand(demand: Demand, demand_index: int, realised: Realisation) -> Demand:
    mask = demand.allowed_nodes.copy()
    mask[[node for index, node in realised.refused_placements if index == demand_index]] = False
    return replace(demand, allowed_nodes=mask)


# --- figures ----------------------------------------------------------------------------------------------------------


def _measure_function(request: PlanRequest) -> Callable[[Snapshot], Measures]:
    def measure(snapshot: Snapshot) -> Measures:
        overview = cluster_overview(snapshot)
        if request.objective != "slots":
            return overview
        return {**overview, "slots": count_slots(snapshot, request.shape)}

    return measure


def gap_percent(reached: float, bound: float) -> float:
    """How far a plan is from the optimum at most, in percent of the bound; rounded up, because 0 means proven
    optimal."""
    return ceil(10_000 * (bound - reached) / bound) / 100 if bound else 0.0


# --- checks and remarks -----------------------------------------------------------------------------------------------


def _check(request: PlanRequest) -> None:
    mistakes = []
    if request.objective not in OBJECTIVES:
        mistakes.append(Mistake("objective", f"expected one of {', '.join(OBJECTIVES)}, got {request.objective!r}"))
    if request.max_moves < 0:
        mistakes.append(Mistake("maxMoves", f"must not be negative, is {request.max_moves}"))
    if request.time_limit <= 0:
        mistakes.append(Mistake("timeLimit", f"must be more than 0, is {request.time_limit:g}"))
    if request.seed < 0:
        mistakes.append(Mistake("seed", f"must not be negative, is {request.seed}"))
    if request.work_limit is not None and request.work_limit < 0:
        mistakes.append(Mistake("workLimit", f"must not be negative, is {request.work_limit}"))
    if request.objective == "slots" and not request.shape:
        mistakes.append(Mistake("shape", "the objective slots needs one, such as cpu=16,memory=64Gi"))
    mistakes += [
        Mistake(f"shape.{name}", f"must be more than 0, is {quantity_of(name, amount)}")
        for name, amount in sorted(request.shape.items())
        if amount <= 0
    ]
    if mistakes:
        raise WireError("cannot plan", mistakes)


def _remarks(
    snapshot: Snapshot,
    request: PlanRequest,
    instance: ProblemInstance,
    realised: Realisation,
    searched: SearchResult,
    bound: float | None,
) -> Iterator[PlanRefusal]:
    """Sentences about the plan as a whole, and why pending pods have no place."""
    if not instance.node_names:
        yield general_refusal("there are no nodes")
    elif request.objective == "slots":
        yield from _shape_refusals(snapshot, request)
    if request.objective == "pending" and not instance.pending.pod_count:
        yield general_refusal("no pods are pending")
    if searched.solver_failed:
        yield general_refusal("the solver returned no result: this is the greedy solution")
    is_proven = request.objective == "pending" and bound == 0
    yield from unplaced_refusals(instance.pending, realised.places, request.max_moves if is_proven else None)


def _shape_refusals(snapshot: Snapshot, request: PlanRequest) -> Iterator[PlanRefusal]:
    """A sentence if no node could hold the shape even if it were empty."""
    room = np.stack([allocatable_amounts(snapshot, name) >= amount for name, amount in sorted(request.shape.items())])
    if not room.all(axis=0).any():
        shape = ", ".join(f"{name}={text}" for name, text in format_quantities(request.shape).items())
        nodes = len(snapshot.rows.names())
        subject = f"none of {nodes} nodes offers" if nodes > 1 else "the only node does not offer"
        yield general_refusal(f"{subject} {shape}, even when empty")
