"""From an answer to moves and places: what becomes of it when every filter of the scheduler has its say.

Goes in: a `Reading` and an answer in numbers. Comes out: an `Outcome`: which pods really move, in waves, which waiting
pods are placed, and what was refused on the way, so that the search can avoid it. What does not work is left out,
together with every move that gains nothing without it.
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
from restow.planning.plan import Move, Place, Refusal
from restow.planning.plan_request import PlanRequest
from restow.scheduling.framework import Cycle

_ROUNDS, _REFILLS = 6, 2


class Realisation(msgspec.Struct, frozen=True, eq=False):
    moves: tuple[Move, ...] = ()
    places: tuple[Place, ...] = ()
    solution: Solution = UNCHANGED
    """What is really different afterwards."""
    refused_moves: frozenset[Cell] = frozenset()
    """(class, node) that did not work."""
    refused_places: frozenset[Cell] = frozenset()
    """(demand, node) that did not work."""
    dropped: tuple[Refusal, ...] = ()


def realise_solution(
    snapshot: Snapshot,
    request: PlanRequest,
    reading: ProblemInstance,
    shift: Solution,
    *,
    late: DeadlineCheck = no_deadline,
) -> Realisation:
    """Carry an answer out, leaving out what does not work, until everything that is left does and gains something; or,
    when it is late, the best of what works so far."""
    tried, dropped = Realisation(), list[Refusal]()
    bad_moves, bad_places = set[Cell](), set[Cell]()
    for turn in range(_ROUNDS):
        tried = _try(snapshot, request, reading, shift, late)
        bad_moves |= tried.refused_moves
        bad_places |= tried.refused_places
        dropped += tried.dropped
        shift = _settled(reading.problem, tried.solution, bad_places, again=turn < _REFILLS)
        if shift.pod_changes == tried.solution.pod_changes and (
            not reading.pending.groups or shift.placements == tried.solution.placements
        ):
            break
        if late() or turn == _ROUNDS - 1:
            tried = _at_last(snapshot, request, reading, tried)
            shift = tried.solution
            break
    return msgspec.structs.replace(
        tried,
        solution=shift,
        refused_moves=frozenset(bad_moves),
        refused_places=frozenset(bad_places),
        dropped=tuple(dict.fromkeys(dropped)),
    )


def _at_last(snapshot: Snapshot, request: PlanRequest, reading: ProblemInstance, tried: Realisation) -> Realisation:
    """The best of what was tried; without moves that gain nothing, if it works without them, which takes no longer than
    it took to try it."""
    waits = bool(reading.pending.groups)
    best = _with_whole_gangs(snapshot, request, reading, tried) if waits else _best_part(reading, tried)
    shift = minimise_moves(reading.problem, best.solution)
    if shift.move_count == best.solution.move_count:
        return best
    again = _try(snapshot, request, reading, shift, no_deadline)
    works = again.solution.pod_changes == shift.pod_changes and (
        not waits or again.solution.placements == shift.placements
    )
    return msgspec.structs.replace(again, solution=shift) if works else best


def _with_whole_gangs(
    snapshot: Snapshot, request: PlanRequest, reading: ProblemInstance, tried: Realisation
) -> Realisation:
    """The same moves, without places of gangs that are not whole."""
    while (puts := drop_incomplete_gangs(reading.problem, tried.solution).placements) != tried.solution.placements:
        placed, _ = _place(snapshot, request, reading, tried.moves, puts)
        shift = Solution(tried.solution.pod_changes, Counter(cell for cell, _ in placed))
        tried = msgspec.structs.replace(tried, solution=shift, places=tuple(place for _, place in placed))
    return tried


def _best_part(reading: ProblemInstance, tried: Realisation) -> Realisation:
    """The moves up to the first wave after which as much is reached as ever."""
    waves = sorted({move.wave for move in tried.moves})
    parts = [[move for move in tried.moves if move.wave <= last] for last in (0, *waves)]
    shifts = [_filled(reading.problem, _net(reading, part)) for part in parts]
    values = [solution_value(reading.problem, shift) for shift in shifts]
    best = values.index(max(values))
    return msgspec.structs.replace(tried, moves=tuple(parts[best]), solution=shifts[best])


def _filled(problem: PackingProblem, net: Mapping[Cell, int]) -> Solution:
    stage = SolutionBuilder(problem, Solution(net))
    stage.place_pending_pods()
    return stage.solution


def _try(
    snapshot: Snapshot, request: PlanRequest, reading: ProblemInstance, shift: Solution, late: DeadlineCheck
) -> Realisation:
    wishes = list(_wishes(reading, shift))
    ordered = order_moves(snapshot, request, [wish for _, wish in wishes], max_moves=request.max_moves, is_late=late)
    ends = {move.uid: move.target for move in ordered.moves}
    number = {name: node for node, name in enumerate(reading.node_names)}
    missed = {(which, number[wish.target]) for which, wish in wishes if ends.get(wish.uid) != wish.target}
    placed, refused = _place(snapshot, request, reading, ordered.moves, shift.placements)
    return Realisation(
        moves=ordered.moves,
        places=tuple(place for _, place in placed),
        solution=Solution(_net(reading, ordered.moves), Counter(cell for cell, _ in placed)),
        refused_moves=frozenset(missed),
        refused_places=frozenset(refused),
        dropped=ordered.dropped,
    )


def _net(reading: ProblemInstance, moves: Sequence[Move]) -> dict[Cell, int]:
    """What moves change."""
    number = {name: node for node, name in enumerate(reading.node_names)}
    net: Counter[Cell] = Counter()
    ends = {move.uid: move.target for move in moves}
    for uid, source in {move.uid: move.source for move in reversed(moves)}.items():
        start = number[source]
        which = next(which for which, some in reading.pods[start].items() if any(one.key == uid for one in some))
        net[which, start] -= 1
        net[which, number[ends[uid]]] += 1
    return {cell: count for cell, count in net.items() if count}


def _wishes(reading: ProblemInstance, shift: Solution) -> Iterator[tuple[int, DesiredMove]]:
    """Who shall go where: of each class those who leave, in turn, to the nodes that are to have more of it."""
    comers: dict[int, list[int]] = defaultdict(list)
    for (which, node), count in sorted(shift.pod_changes.items()):
        comers[which] += [node] * max(count, 0)
    turn: Counter[int] = Counter()
    for (which, node), count in sorted(shift.pod_changes.items(), key=lambda item: item[0][::-1]):
        for one in reading.pods[node][which][:-count] if count < 0 else ():
            yield which, DesiredMove(one.key, reading.node_names[comers[which][turn[which]]])
            turn[which] += 1


def _settled(problem: PackingProblem, shift: Solution, bad_places: Iterable[Cell], again: bool) -> Solution:
    """What is worth keeping of what works: whole gangs, and moves that gain something; what is free is filled again."""
    stage = SolutionBuilder(problem, drop_incomplete_gangs(problem, shift))
    if again or not shift.placements:
        for _, node in bad_places:
            stage.closed_to_pending[node] = True
        stage.place_pending_pods()
    return minimise_moves(problem, stage.solution)


# --- places -----------------------------------------------------------------------------------------------------------


def _place(
    snapshot: Snapshot, request: PlanRequest, reading: ProblemInstance, moves: Sequence[Move], puts: Mapping[Cell, int]
) -> tuple[list[tuple[Cell, Place]], set[Cell]]:
    """Place waiting pods once everybody has moved: who found a place, and which places were refused."""
    if not reading.pending.groups:
        return [], set()
    placed: list[tuple[Cell, Pod]] = []
    left = list(_candidates(reading, puts))
    with MoveSimulation(snapshot, request.engine, request.now) as bookings, queue_charger(reading.pending) as charge:
        simulate_moves(bookings, moves)
        progress = True
        while left and progress:  # some fit only beside others
            waiting, progress = [], False
            for cell, pod in left:
                node = reading.node_names[cell[1]]
                group, cycle = reading.pending.groups[cell[0]], Cycle(pod, snapshot, request.now)
                if request.engine.fits(cycle, node) and charge(group, pod):
                    snapshot.assume(pod, node, at=request.now)
                    placed.append((cell, pod))
                    progress = True
                else:
                    waiting.append((cell, pod))
            left = waiting
    return [(cell, _placed(pod, reading.node_names[cell[1]])) for cell, pod in placed], {cell for cell, _ in left}


def _placed(pod: Pod, node: str) -> Place:
    namespace, name = namespaced_name(pod)
    return Place(namespace=namespace, pod=name, node=node)


def _candidates(reading: ProblemInstance, puts: Mapping[Cell, int]) -> Iterator[tuple[Cell, Pod]]:
    """Most worth first; of pods that are alike the oldest first."""
    turn: Counter[int] = Counter()
    for cell, count in sorted(puts.items()):
        for _ in range(count):
            yield cell, reading.pending.groups[cell[0]].pods[turn[cell[0]]]
            turn[cell[0]] += 1
