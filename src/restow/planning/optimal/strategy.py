"""The strategy `optimal`: read the snapshot, search, see what becomes of it, repair, and tell how good it is.

    free-nodes   as many nodes as possible without pods that could be elsewhere
    slots        room for as many pods as possible of the shape that was asked for
    pending      as many waiting pods and whole gangs as possible: see `worth`

Every plan comes with a bound that no plan of so many moves exceeds. A search that finds nothing better than what there
is gives an empty plan.
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
from restow.planning.plan import Measures, Plan, Refusal
from restow.planning.plan_effect import measures_after, object_versions
from restow.planning.plan_request import PlanProgress, PlanRequest

OBJECTIVES = ("free-nodes", "slots", "pending")
_REPAIRS = 4
_KEPT_BACK, _KEPT_BACK_MOST = 0.06, 3.0
"""The share of the seconds, and the most of them, that are kept for turning the answer into moves."""
_FOR_MOVES = 0.5
"""Seconds that it may take at least, even if there is no time left for it."""
_MEASURED_AGAIN = 2.0
"""Measuring the cluster afterwards and the replay, in times of what measuring took before."""
_AT_LEAST, _AT_LEAST_MOST = 0.5, 2.0
"""What the search gets even if there is no time left for it, in times of what reading took, and the most seconds of it:
enough for greedy."""
_FOR_REPAIRS = 0.3
"""The share of the seconds that the search leaves for what is refused, where something may be."""


def plan_optimal(snapshot: Snapshot, request: PlanRequest) -> Plan:
    """Plan for the objective. Raises WireError for a request that makes no sense."""
    _check(request)
    began = request.clock() if request.started_at is None else request.started_at
    request.report_progress(PlanProgress("reading"))
    reading, has_read = build_instance(snapshot, request), request.clock()
    measure = _measure(request)
    before = measure(snapshot)
    score = ObjectiveFigures(reading, request.objective)
    measured = request.clock()
    for_moves = min(_KEPT_BACK * request.time_limit, _KEPT_BACK_MOST)
    at_least = min(_AT_LEAST * (has_read - began), _AT_LEAST_MOST)
    ends = began + request.time_limit - for_moves - _MEASURED_AGAIN * (measured - has_read)
    ends = max(ends, measured + at_least)
    searched = _searched(snapshot, request, reading, score, lambda: ends - request.clock(), for_moves)
    outcome, found = searched.best, searched.found
    later = measures_after(snapshot, request, outcome.moves, measure, outcome.places) | score.placement_figures(
        outcome.solution
    )
    reached = later[score.figure]
    bound = score.bound_figure(found.bound, reached)
    if bound is not None:
        later["gap"] = gap_percent(reached, bound)
    return Plan(
        strategy="optimal",
        objective=request.objective,
        moves=outcome.moves,
        places=outcome.places,
        before=before | score.placement_figures(searched.start),
        after=later,
        bound=bound,
        refusals=(*reading.refusals, *outcome.dropped, *_remarks(snapshot, request, reading, outcome, found)),
        shape=dict(request.shape),
        versions=object_versions(snapshot, outcome.moves, outcome.places),
    )


class _Searched(msgspec.Struct, frozen=True, eq=False):
    start: Solution
    """What can be placed without a move."""
    best: Realisation
    found: SearchResult


def _searched(
    snapshot: Snapshot,
    request: PlanRequest,
    reading: ProblemInstance,
    score: ObjectiveFigures,
    seconds_left: Callable[[], float],
    for_moves: float,
) -> _Searched:
    """Search, carry out, and search again around what was refused, as long as there is time. Turning the last answer
    into moves may take some seconds more. What the rest of the search avoids is no law, so the bound is that of the
    first."""
    rng, problem = np.random.default_rng(request.seed), reading.problem

    def tell(phase: str, shift: Solution, bound: float) -> None:
        reached = score.reached_figure(shift)
        request.report_progress(PlanProgress(phase, reached, score.bound_figure(bound, reached)))

    def tell_again(phase: str, shift: Solution, _: float) -> None:
        tell(phase, shift, first.bound)

    def realised(shift: Solution, bound: float) -> Realisation:
        tell("moves", shift, bound)
        ends = min(seconds_left(), 0.0) - max(for_moves, _FOR_MOVES)
        return realise_solution(snapshot, request, reading, shift, is_late=lambda: seconds_left() <= ends)

    best = Realisation(solution=_as_it_is(problem))
    if best.solution.placements:
        best = realised(best.solution, inf)
    start, first = best.solution, SearchResult(UNCHANGED, inf, 0, "nothing")
    steps = request.work_limit
    for turn in range(_REPAIRS):
        spare = 0.0 if problem.is_static else _FOR_REPAIRS * seconds_left()
        heard = tell_again if turn else tell
        found = search(problem, SearchBudget(seconds_left, steps, spare), rng, heard, start=best.solution)
        first = first if turn else found
        steps = None if steps is None else max(steps - found.steps_taken, 0)
        outcome = realised(found.solution, first.bound)
        if is_better(reading.problem, outcome.solution, best.solution):
            best = outcome
        if not (outcome.refused_moves or outcome.refused_placements) or seconds_left() <= 0 or steps == 0:
            break
        problem = _avoiding(problem, outcome)
    return _Searched(start, best, first)


def _as_it_is(problem: PackingProblem) -> Solution:
    """What can be placed without a move."""
    stage = SolutionBuilder(problem)
    stage.place_pending_pods()
    return stage.solution


def _avoiding(problem: PackingProblem, outcome: Realisation) -> PackingProblem:
    """The problem without what was refused."""

    def suits(which: int) -> Mask:
        mask = problem.allowed_nodes(which).copy()
        mask[[node for one, node in outcome.refused_moves if one == which]] = False
        return mask

    demands = [_less(demand, which, outcome) for which, demand in enumerate(problem.demands)]
    return replace(problem, allowed_nodes=cache(suits), demands=demands)


def _less(demand: Demand, which: int, outcome: Realisation) -> Demand:
    mask = demand.allowed_nodes.copy()
    mask[[node for one, node in outcome.refused_placements if one == which]] = False
    return replace(demand, allowed_nodes=mask)


# --- figures ----------------------------------------------------------------------------------------------------------


def _measure(request: PlanRequest) -> Callable[[Snapshot], Measures]:
    def measure(snapshot: Snapshot) -> Measures:
        figures = cluster_overview(snapshot)
        return {**figures, "slots": count_slots(snapshot, request.shape)} if request.objective == "slots" else figures

    return measure


def gap_percent(reached: float, bound: float) -> float:
    """How far an answer is from the best, in percent at most; rounded up, since 0 is the word for proven best."""
    return ceil(10_000 * (bound - reached) / bound) / 100 if bound else 0.0


# --- words ------------------------------------------------------------------------------------------------------------


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
    snapshot: Snapshot, request: PlanRequest, reading: ProblemInstance, outcome: Realisation, found: SearchResult
) -> Iterator[Refusal]:
    if not reading.node_names:
        yield general_refusal("there are no nodes")
    elif request.objective == "slots":
        yield from _too_large(snapshot, request)
    if found.solver_failed:
        yield general_refusal("the solver was of no help: this is the greedy plan")
    yield from unplaced_refusals(reading.pending, outcome.places)


def _too_large(snapshot: Snapshot, request: PlanRequest) -> Iterator[Refusal]:
    """A shape that no node could hold even if it were empty."""
    room = np.stack([allocatable_amounts(snapshot, name) >= amount for name, amount in sorted(request.shape.items())])
    if not room.all(axis=0).any():
        written = ", ".join(f"{name}={text}" for name, text in format_quantities(request.shape).items())
        nodes = len(snapshot.rows.names())
        none_offers = f"none of {nodes} nodes offers" if nodes > 1 else "the only node does not offer"
        yield general_refusal(f"{none_offers} {written}, even when empty")
