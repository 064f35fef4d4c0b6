"""From an answer to moves and places: what becomes of it when every filter of the scheduler has its say.

Goes in: a `Reading` and an answer in numbers. Comes out: an `Outcome`: which pods really move, in waves, which waiting
pods are placed, and what was refused on the way, so that the search can avoid it. What does not work is left out,
together with every move that gains nothing without it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from restow.model.cluster import Snapshot
from restow.model.objects import Pod
from restow.model.pods import full_name
from restow.planning.bookings import Bookings, carry_out
from restow.planning.lateness import Late, never
from restow.planning.optimal.greedy import whole_gangs
from restow.planning.optimal.problem import STAY, Cell, Problem, Shift, value
from restow.planning.optimal.queueing import charging
from restow.planning.optimal.reading import Reading
from restow.planning.optimal.stage import Stage
from restow.planning.optimal.trimming import trimmed
from restow.planning.plan import Move, Place, Refusal
from restow.planning.request import Request
from restow.planning.sequence import Wanted, sequence
from restow.scheduling.framework import Cycle

_ROUNDS, _REFILLS = 6, 2


class Outcome(msgspec.Struct, frozen=True, eq=False):
    moves: tuple[Move, ...] = ()
    places: tuple[Place, ...] = ()
    shift: Shift = STAY
    """What is really different afterwards."""
    refused_moves: frozenset[Cell] = frozenset()
    """(class, node) that did not work."""
    refused_places: frozenset[Cell] = frozenset()
    """(demand, node) that did not work."""
    dropped: tuple[Refusal, ...] = ()


def realise(snapshot: Snapshot, request: Request, reading: Reading, shift: Shift, *, late: Late = never) -> Outcome:
    """Carry an answer out, leaving out what does not work, until everything that is left does and gains something; or,
    when it is late, the best of what works so far."""
    tried, dropped = Outcome(), list[Refusal]()
    bad_moves, bad_places = set[Cell](), set[Cell]()
    for turn in range(_ROUNDS):
        tried = _try(snapshot, request, reading, shift, late)
        bad_moves |= tried.refused_moves
        bad_places |= tried.refused_places
        dropped += tried.dropped
        shift = _settled(reading.problem, tried.shift, bad_places, again=turn < _REFILLS)
        if shift.net == tried.shift.net and (not reading.line.groups or shift.puts == tried.shift.puts):
            break
        if late() or turn == _ROUNDS - 1:
            tried = _at_last(snapshot, request, reading, tried)
            shift = tried.shift
            break
    return msgspec.structs.replace(
        tried,
        shift=shift,
        refused_moves=frozenset(bad_moves),
        refused_places=frozenset(bad_places),
        dropped=tuple(dict.fromkeys(dropped)),
    )


def _at_last(snapshot: Snapshot, request: Request, reading: Reading, tried: Outcome) -> Outcome:
    """The best of what was tried; without moves that gain nothing, if it works without them, which takes no longer than
    it took to try it."""
    waits = bool(reading.line.groups)
    best = _with_whole_gangs(snapshot, request, reading, tried) if waits else _best_part(reading, tried)
    shift = trimmed(reading.problem, best.shift)
    if shift.moves == best.shift.moves:
        return best
    again = _try(snapshot, request, reading, shift, never)
    works = again.shift.net == shift.net and (not waits or again.shift.puts == shift.puts)
    return msgspec.structs.replace(again, shift=shift) if works else best


def _with_whole_gangs(snapshot: Snapshot, request: Request, reading: Reading, tried: Outcome) -> Outcome:
    """The same moves, without places of gangs that are not whole."""
    while (puts := whole_gangs(reading.problem, tried.shift).puts) != tried.shift.puts:
        placed, _ = _place(snapshot, request, reading, tried.moves, puts)
        shift = Shift(tried.shift.net, Counter(cell for cell, _ in placed))
        tried = msgspec.structs.replace(tried, shift=shift, places=tuple(place for _, place in placed))
    return tried


def _best_part(reading: Reading, tried: Outcome) -> Outcome:
    """The moves up to the first wave after which as much is reached as ever."""
    waves = sorted({move.wave for move in tried.moves})
    parts = [[move for move in tried.moves if move.wave <= last] for last in (0, *waves)]
    shifts = [_filled(reading.problem, _net(reading, part)) for part in parts]
    values = [value(reading.problem, shift) for shift in shifts]
    best = values.index(max(values))
    return msgspec.structs.replace(tried, moves=tuple(parts[best]), shift=shifts[best])


def _filled(problem: Problem, net: Mapping[Cell, int]) -> Shift:
    stage = Stage(problem, Shift(net))
    stage.fill()
    return stage.shift


def _try(snapshot: Snapshot, request: Request, reading: Reading, shift: Shift, late: Late) -> Outcome:
    wishes = list(_wishes(reading, shift))
    ordered = sequence(snapshot, request, [wish for _, wish in wishes], most=request.max_moves, late=late)
    ends = {move.uid: move.target for move in ordered.moves}
    number = {name: node for node, name in enumerate(reading.names)}
    missed = {(which, number[wish.target]) for which, wish in wishes if ends.get(wish.uid) != wish.target}
    placed, refused = _place(snapshot, request, reading, ordered.moves, shift.puts)
    return Outcome(
        moves=ordered.moves,
        places=tuple(place for _, place in placed),
        shift=Shift(_net(reading, ordered.moves), Counter(cell for cell, _ in placed)),
        refused_moves=frozenset(missed),
        refused_places=frozenset(refused),
        dropped=ordered.dropped,
    )


def _net(reading: Reading, moves: Sequence[Move]) -> dict[Cell, int]:
    """What moves change."""
    number = {name: node for node, name in enumerate(reading.names)}
    net: Counter[Cell] = Counter()
    ends = {move.uid: move.target for move in moves}
    for uid, source in {move.uid: move.source for move in reversed(moves)}.items():
        start = number[source]
        which = next(which for which, some in reading.pods[start].items() if any(one.key == uid for one in some))
        net[which, start] -= 1
        net[which, number[ends[uid]]] += 1
    return {cell: count for cell, count in net.items() if count}


def _wishes(reading: Reading, shift: Shift) -> Iterator[tuple[int, Wanted]]:
    """Who shall go where: of each class those who leave, in turn, to the nodes that are to have more of it."""
    comers: dict[int, list[int]] = defaultdict(list)
    for (which, node), count in sorted(shift.net.items()):
        comers[which] += [node] * max(count, 0)
    turn: Counter[int] = Counter()
    for (which, node), count in sorted(shift.net.items(), key=lambda item: item[0][::-1]):
        for one in reading.pods[node][which][:-count] if count < 0 else ():
            yield which, Wanted(one.key, reading.names[comers[which][turn[which]]])
            turn[which] += 1


def _settled(problem: Problem, shift: Shift, bad_places: Iterable[Cell], again: bool) -> Shift:
    """What is worth keeping of what works: whole gangs, and moves that gain something; what is free is filled again."""
    stage = Stage(problem, whole_gangs(problem, shift))
    if again or not shift.puts:
        for _, node in bad_places:
            stage.shut[node] = True
        stage.fill()
    return trimmed(problem, stage.shift)


# --- places -----------------------------------------------------------------------------------------------------------


def _place(
    snapshot: Snapshot, request: Request, reading: Reading, moves: Sequence[Move], puts: Mapping[Cell, int]
) -> tuple[list[tuple[Cell, Place]], set[Cell]]:
    """Place waiting pods once everybody has moved: who found a place, and which places were refused."""
    if not reading.line.groups:
        return [], set()
    placed: list[tuple[Cell, Pod]] = []
    left = list(_candidates(reading, puts))
    with Bookings(snapshot, request.engine, request.now) as bookings, charging(reading.line) as charge:
        carry_out(bookings, moves)
        progress = True
        while left and progress:  # some fit only beside others
            waiting, progress = [], False
            for cell, pod in left:
                node = reading.names[cell[1]]
                group, cycle = reading.line.groups[cell[0]], Cycle(pod, snapshot, request.now)
                if request.engine.fits(cycle, node) and charge(group, pod):
                    snapshot.assume(pod, node, at=request.now)
                    placed.append((cell, pod))
                    progress = True
                else:
                    waiting.append((cell, pod))
            left = waiting
    return [(cell, _placed(pod, reading.names[cell[1]])) for cell, pod in placed], {cell for cell, _ in left}


def _placed(pod: Pod, node: str) -> Place:
    namespace, name = full_name(pod)
    return Place(namespace=namespace, pod=name, node=node)


def _candidates(reading: Reading, puts: Mapping[Cell, int]) -> Iterator[tuple[Cell, Pod]]:
    """Most worth first; of pods that are alike the oldest first."""
    turn: Counter[int] = Counter()
    for cell, count in sorted(puts.items()):
        for _ in range(count):
            yield cell, reading.line.groups[cell[0]].pods[turn[cell[0]]]
            turn[cell[0]] += 1
