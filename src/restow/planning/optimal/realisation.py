"""Realises a solution: turns numbers of pods into moves of single pods and places, checked by every filter.

Goes in: a problem instance and a solution. Comes out: a `Realisation`: the moves in waves, the pending pods with
places, and what was refused on the way, so that the search can avoid it. The packing problem knows affinity and spread
only as far as they concern one pod; the scheduler's filters decide here. What they refuse is left out, together with
every move that gains nothing without it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from restow.model.objects import Pod
from restow.model.pods import namespaced_name
from restow.model.snapshot import Snapshot
from restow.planning.deadline import DeadlineCheck, no_deadline
from restow.planning.move_ordering import DesiredMove, order_moves
from restow.planning.move_simulation import MoveSimulation, simulate_moves
from restow.planning.optimal.greedy import drop_incomplete_gangs
from restow.planning.optimal.move_reduction import minimise_moves
from restow.planning.optimal.packing_problem import UNCHANGED, Cell, PackingProblem, Solution, solution_value
from restow.planning.optimal.problem_instance import ProblemInstance
from restow.planning.optimal.queue_quotas import queue_charger
from restow.planning.optimal.solution_builder import SolutionBuilder
from restow.planning.plan import Move, Place, PlanRefusal
from restow.planning.plan_request import PlanRequest
from restow.scheduling.framework import Cycle

_ROUNDS = 6
"""How often what is left is tried again, at most."""
_REFILL_ROUNDS = 2
"""In how many of them free room is filled again with pending pods."""


class Realisation(msgspec.Struct, frozen=True, eq=False):
    moves: tuple[Move, ...] = ()
    places: tuple[Place, ...] = ()
    solution: Solution = UNCHANGED
    """The solution that these moves and places are."""
    refused_moves: frozenset[Cell] = frozenset()
    """(class, node): moves to this node were not possible."""
    refused_placements: frozenset[Cell] = frozenset()
    """(demand, node): placements on this node were not possible."""
    dropped: tuple[PlanRefusal, ...] = ()


def realise_solution(
    snapshot: Snapshot,
    request: PlanRequest,
    instance: ProblemInstance,
    solution: Solution,
    *,
    is_late: DeadlineCheck = no_deadline,
) -> Realisation:
    """Realise a solution without what is refused, until all that is left is possible and gains something; or, when it
    is late, the best of what is possible so far."""
    realised, dropped = Realisation(), list[PlanRefusal]()
    refused_moves, refused_placements = set[Cell](), set[Cell]()
    for turn in range(_ROUNDS):
        # 1. Order the moves and place the pending pods, by all filters.
        realised = _realise_once(snapshot, request, instance, solution, is_late)
        refused_moves |= realised.refused_moves
        refused_placements |= realised.refused_placements
        dropped += realised.dropped
        # 2. Drop what gains nothing without the refused parts. If nothing was dropped, this is the result.
        solution = _without_useless_parts(
            instance.problem, realised.solution, refused_placements, refill=turn < _REFILL_ROUNDS
        )
        if _is_same(instance, solution, realised.solution):
            break
        # 3. Else try again, unless it is late.
        if is_late() or turn == _ROUNDS - 1:
            realised = _best_so_far(snapshot, request, instance, realised)
            solution = realised.solution
            break
    return msgspec.structs.replace(
        realised,
        solution=solution,
        refused_moves=frozenset(refused_moves),
        refused_placements=frozenset(refused_placements),
        dropped=tuple(dict.fromkeys(dropped)),
    )


def _is_same(instance: ProblemInstance, solution: Solution, realised: Solution) -> bool:
    """Whether a solution has the moves that were realised, and the placements, if there are pending pods at all."""
    same_placements = not instance.pending.groups or solution.placements == realised.placements
    return solution.pod_changes == realised.pod_changes and same_placements


def _best_so_far(
    snapshot: Snapshot, request: PlanRequest, instance: ProblemInstance, realised: Realisation
) -> Realisation:
    """The best possible part of a realisation; without useless moves, if it is possible without them."""
    if instance.pending.groups:
        best = _without_incomplete_gangs(snapshot, request, instance, realised)
    else:
        best = _best_waves(instance, realised)
    solution = minimise_moves(instance.problem, best.solution)
    if solution.move_count == best.solution.move_count:
        return best
    # One more attempt takes no longer than the one before, so it is made although it is late.
    again = _realise_once(snapshot, request, instance, solution, no_deadline)
    is_possible = _is_same(instance, solution, again.solution)
    return msgspec.structs.replace(again, solution=solution) if is_possible else best


def _without_incomplete_gangs(
    snapshot: Snapshot, request: PlanRequest, instance: ProblemInstance, realised: Realisation
) -> Realisation:
    """The same moves, without places for gangs that are not complete."""
    while (
        placements := drop_incomplete_gangs(instance.problem, realised.solution).placements
    ) != realised.solution.placements:
        placed, _ = _place_pending(snapshot, request, instance, realised.moves, placements)
        solution = Solution(realised.solution.pod_changes, Counter(cell for cell, _ in placed))
        realised = msgspec.structs.replace(realised, solution=solution, places=tuple(place for _, place in placed))
    return realised


def _best_waves(instance: ProblemInstance, realised: Realisation) -> Realisation:
    """The moves up to the first wave after which the value is highest."""
    waves = sorted({move.wave for move in realised.moves})
    parts = [[move for move in realised.moves if move.wave <= last] for last in (0, *waves)]
    solutions = [_with_placements(instance.problem, _pod_changes(instance, part)) for part in parts]
    values = [solution_value(instance.problem, solution) for solution in solutions]
    best = values.index(max(values))
    return msgspec.structs.replace(realised, moves=tuple(parts[best]), solution=solutions[best])


def _with_placements(problem: PackingProblem, pod_changes: Mapping[Cell, int]) -> Solution:
    builder = SolutionBuilder(problem, Solution(pod_changes))
    builder.place_pending_pods()
    return builder.solution


def _realise_once(
    snapshot: Snapshot, request: PlanRequest, instance: ProblemInstance, solution: Solution, is_late: DeadlineCheck
) -> Realisation:
    desired = list(_desired_moves(instance, solution))
    moves = [move for _, move in desired]
    ordered = order_moves(snapshot, request, moves, max_moves=request.max_moves, is_late=is_late)
    targets = {move.uid: move.target for move in ordered.moves}
    node_index = {name: node for node, name in enumerate(instance.node_names)}
    missed = {
        (class_index, node_index[move.target]) for class_index, move in desired if targets.get(move.uid) != move.target
    }
    placed, refused = _place_pending(snapshot, request, instance, ordered.moves, solution.placements)
    return Realisation(
        moves=ordered.moves,
        places=tuple(place for _, place in placed),
        solution=Solution(_pod_changes(instance, ordered.moves), Counter(cell for cell, _ in placed)),
        refused_moves=frozenset(missed),
        refused_placements=frozenset(refused),
        dropped=ordered.dropped,
    )


def _pod_changes(instance: ProblemInstance, moves: Sequence[Move]) -> dict[Cell, int]:
    """The changes by class and node; of a pod that moves twice, from its first source to its last target."""
    node_index = {name: node for node, name in enumerate(instance.node_names)}
    changes: Counter[Cell] = Counter()
    targets = {move.uid: move.target for move in moves}
    for uid, source in {move.uid: move.source for move in reversed(moves)}.items():
        node = node_index[source]
        by_class = instance.pods[node].items()
        class_index = next(index for index, pods in by_class if any(pod.key == uid for pod in pods))
        changes[class_index, node] -= 1
        changes[class_index, node_index[targets[uid]]] += 1
    return {cell: count for cell, count in changes.items() if count}


def _desired_moves(instance: ProblemInstance, solution: Solution) -> Iterator[tuple[int, DesiredMove]]:
    """Which pods of each class leave, in turn for the nodes that are to have more of the class."""
    targets: dict[int, list[int]] = defaultdict(list)
    for (class_index, node), count in sorted(solution.pod_changes.items()):
        targets[class_index] += [node] * max(count, 0)
    used: Counter[int] = Counter()
    by_node = sorted(solution.pod_changes.items(), key=lambda item: item[0][::-1])
    for (class_index, node), count in by_node:
        for pod in instance.pods[node][class_index][:-count] if count < 0 else ():
            target = targets[class_index][used[class_index]]
            yield class_index, DesiredMove(pod.key, instance.node_names[target])
            used[class_index] += 1


def _without_useless_parts(
    problem: PackingProblem, solution: Solution, refused_placements: Iterable[Cell], *, refill: bool
) -> Solution:
    """The solution without incomplete gangs and useless moves. With `refill`, free room is filled again, but not on
    nodes that refused a placement."""
    builder = SolutionBuilder(problem, drop_incomplete_gangs(problem, solution))
    if refill or not solution.placements:
        for _, node in refused_placements:
            builder.closed_to_pending[node] = True
        builder.place_pending_pods()
    return minimise_moves(problem, builder.solution)


# --- pending pods -----------------------------------------------------------------------------------------------------


def _place_pending(
    snapshot: Snapshot,
    request: PlanRequest,
    instance: ProblemInstance,
    moves: Sequence[Move],
    placements: Mapping[Cell, int],
) -> tuple[list[tuple[Cell, Place]], set[Cell]]:
    """Place pending pods once all moves are made; returns the places, and the placements that were refused."""
    pending = instance.pending
    if not pending.groups:
        return [], set()
    placed: list[tuple[Cell, Pod]] = []
    left = list(_pods_to_place(instance, placements))
    with MoveSimulation(snapshot, request.engine, request.now) as simulation, queue_charger(pending) as charge:
        simulate_moves(simulation, moves)
        # Some pods fit only beside others (pod affinity), so the rest is tried again as long as some pod was placed.
        progress = True
        while left and progress:
            refused, progress = [], False
            for cell, pod in left:
                node = instance.node_names[cell[1]]
                group, cycle = pending.groups[cell[0]], Cycle(pod, snapshot, request.now)
                if request.engine.fits(cycle, node) and charge(group, pod):
                    snapshot.assume(pod, node, at=request.now)
                    placed.append((cell, pod))
                    progress = True
                else:
                    refused.append((cell, pod))
            left = refused
    places = [(cell, _place_of(pod, instance.node_names[cell[1]])) for cell, pod in placed]
    return places, {cell for cell, _ in left}


def _place_of(pod: Pod, node: str) -> Place:
    namespace, name = namespaced_name(pod)
    return Place(namespace=namespace, pod=name, node=node)


def _pods_to_place(instance: ProblemInstance, placements: Mapping[Cell, int]) -> Iterator[tuple[Cell, Pod]]:
    """The most valuable demands first, and the oldest pods of each."""
    used: Counter[int] = Counter()
    for cell, count in sorted(placements.items()):
        demand = cell[0]
        for _ in range(count):
            yield cell, instance.pending.groups[demand].pods[used[demand]]
            used[demand] += 1
