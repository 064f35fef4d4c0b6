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
from restow.planning.bookings import Bookings, carry_out
from restow.planning.optimal.budget import Late, never
from restow.planning.optimal.greedy import whole_gangs
from restow.planning.optimal.problem import STAY, Cell, Problem, Shift
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
    """Carry an answer out, leaving out what does not work, until everything that is left does; or, when it is late,
    what works so far, which may have moves that gain nothing."""
    tried, dropped = Outcome(), list[Refusal]()
    bad_moves, bad_places = set[Cell](), set[Cell]()
    for turn in range(_ROUNDS):
        tried = _try(snapshot, request, reading, shift)
        bad_moves |= tried.refused_moves
        bad_places |= tried.refused_places
        dropped += tried.dropped
        shift = _settled(reading.problem, tried.shift, bad_places, again=turn < _REFILLS)
        if shift.net == tried.shift.net and (not reading.line.groups or shift.puts == tried.shift.puts):
            break
        if late() or turn == _ROUNDS - 1:
            tried, shift = _as_tried(reading, tried)
            break
    return msgspec.structs.replace(
        tried,
        shift=shift,
        refused_moves=frozenset(bad_moves),
        refused_places=frozenset(bad_places),
        dropped=tuple(dict.fromkeys(dropped)),
    )


def _as_tried(reading: Reading, tried: Outcome) -> tuple[Outcome, Shift]:
    """What was tried, with nothing left out; or nothing at all, if a gang would not be whole."""
    if whole_gangs(reading.problem, tried.shift).puts != tried.shift.puts:
        return Outcome(), STAY
    stage = Stage(reading.problem, tried.shift)
    if not reading.line.groups:
        stage.fill()
    return tried, stage.shift


def _try(snapshot: Snapshot, request: Request, reading: Reading, shift: Shift) -> Outcome:
    classes = {wish.uid: which for which, wish in _wishes(reading, shift)}
    wanted = [wish for _, wish in _wishes(reading, shift)]
    ordered = sequence(snapshot, request, wanted, most=request.max_moves)
    ends = {move.uid: move.target for move in ordered.moves}
    starts = {move.uid: move.source for move in reversed(ordered.moves)}
    number = {name: node for node, name in enumerate(reading.names)}
    net: Counter[Cell] = Counter()
    for uid, target in ends.items():
        net[classes[uid], number[starts[uid]]] -= 1
        net[classes[uid], number[target]] += 1
    missed = {(classes[wish.uid], number[wish.target]) for wish in wanted if ends.get(wish.uid) != wish.target}
    placed, refused = _place(snapshot, request, reading, ordered.moves, shift.puts)
    return Outcome(
        moves=ordered.moves,
        places=tuple(place for _, place in placed),
        shift=Shift({cell: count for cell, count in net.items() if count}, Counter(cell for cell, _ in placed)),
        refused_moves=frozenset(missed),
        refused_places=frozenset(refused),
        dropped=ordered.dropped,
    )


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
    placed: list[tuple[Cell, Place]] = []
    left = list(_candidates(reading, puts))
    with Bookings(snapshot, request.engine, request.now) as bookings:
        carry_out(bookings, moves)
        progress = True
        while left and progress:  # some fit only beside others
            waiting, progress = [], False
            for cell, pod in left:
                node = reading.names[cell[1]]
                if request.engine.fits(Cycle(pod, snapshot, request.now), node):
                    snapshot.assume(pod, node, at=request.now)
                    metadata = pod.metadata
                    placed.append(
                        (cell, Place(namespace=metadata.namespace or "default", pod=metadata.name, node=node))
                    )
                    progress = True
                else:
                    waiting.append((cell, pod))
            left = waiting
    return placed, {cell for cell, _ in left}


def _candidates(reading: Reading, puts: Mapping[Cell, int]) -> Iterator[tuple[Cell, Pod]]:
    """Most worth first; of pods that are alike the oldest first."""
    turn: Counter[int] = Counter()
    for cell, count in sorted(puts.items()):
        for _ in range(count):
            yield cell, reading.line.groups[cell[0]].pods[turn[cell[0]]]
            turn[cell[0]] += 1
