"""Openings: a few pods leave a node, so that waiting pods, or leavers of other nodes, fit there, or nobody is left.

Goes in: a problem. Comes out: all combinations of leavers that are worth a look, as arrays with one line per
combination, for all nodes. What then takes their room is the concern of `pricing`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import comb

import msgspec
import numpy as np

from restow.model.cluster import RowIndex
from restow.planning.deadline import DeadlineCheck, no_deadline
from restow.planning.optimal.packing_problem import Ints, PackingProblem, has_room

_COMBINATIONS = 600
"""Of one number of leavers of one node; if there are more, that number is left out."""
_LINES, _LINES_AT_ALL = 200_000, 500_000
"""From how many on larger numbers of leavers are left out, and those of any that would make it more."""

Counts = tuple[tuple[int, int], ...]
"""(class or demand, how many)."""


class NodePattern(msgspec.Struct, frozen=True, gc=False):
    node: int
    departures: tuple[int, ...]
    """The class of each pod that leaves."""
    placements: Counts
    """Waiting pods that are placed."""
    value: int
    arrivals: Counts = ()
    """Leavers of other nodes that come."""

    @property
    def move_count(self) -> int:
        return len(self.departures)


class DepartureSets(msgspec.Struct, frozen=True, eq=False):
    """Combinations of leavers."""

    node: RowIndex
    departures: RowIndex
    """[line, leaver]: classes; -1 where there are fewer."""
    free_after: Ints
    """[line, resource]: free once they have left; nothing of what is over-committed even then."""
    complete_up_to: Ints
    """Per node, up to how many leavers no combination is left out."""


def emptying_patterns(problem: PackingProblem) -> list[NodePattern]:
    """For each node that could become empty, everybody leaving it."""
    found = []
    for node, held in enumerate(problem.movable_pods):
        leavers = tuple(which for which, count in sorted(held.items()) for _ in range(count))
        if leavers and not problem.cannot_empty[node] and len(leavers) <= problem.max_moves:
            found.append(NodePattern(node, leavers, (), 1))
    return found


def enumerate_departures(
    problem: PackingProblem, max_departures: int, *, is_late: DeadlineCheck = no_deadline
) -> DepartureSets:
    """The combinations of up to `most` leavers, where there are not too many and it is not late; of each node the
    smallest first, because of what brings the same, small pods find a place more easily."""
    node, leavers = np.zeros(0, np.intp), np.zeros((0, max_departures), np.intp)
    complete = np.full(problem.node_count, -1, np.int64)
    groups = list(_by_number(problem, max_departures))
    for number in range(max_departures + 1):
        if len(node) > _LINES or (number and is_late()):
            break
        for nodes, pods in groups:
            ways = comb(pods.shape[1], number)
            if ways > _COMBINATIONS or (number and len(node) + len(nodes) * ways > _LINES_AT_ALL):
                continue
            complete[nodes] += complete[nodes] == number - 1
            chosen = np.array(list(combinations(range(pods.shape[1]), number)), np.intp).reshape(ways, number)
            padded = np.full((len(nodes) * ways, max_departures), -1, np.intp)
            padded[:, :number] = pods[:, chosen].reshape(len(nodes) * ways, number)
            node, leavers = np.concatenate([node, np.repeat(nodes, ways)]), np.concatenate([leavers, padded])
    both = np.unique(np.column_stack([node, np.sort(leavers, axis=1)]), axis=0)
    node, leavers = both[:, 0], both[:, 1:]
    asked = padded_class_sizes(problem)[leavers].sum(axis=1)
    order = np.lexsort(((asked / np.maximum(asked.max(axis=0, initial=0), 1)).sum(axis=1), node))
    room = np.maximum(problem.free[node] + asked, 0)
    return DepartureSets(node[order], leavers[order], room[order], complete)


def placeable_departures(problem: PackingProblem, some: DepartureSets) -> DepartureSets:
    """Only those for each of whose leavers some node has room as things are now."""
    sizes, kind = np.unique(problem.class_sizes, axis=0, return_inverse=True)
    room = np.array([has_room(problem.free, size).any() for size in sizes], np.bool_)
    placeable = np.append(room[kind.reshape(-1)], True)
    kept = placeable[some.departures].all(axis=1)
    return DepartureSets(some.node[kept], some.departures[kept], some.free_after[kept], some.complete_up_to)


def padded_class_sizes(problem: PackingProblem) -> Ints:
    """What a pod of each class asks for; nothing for class -1."""
    return np.vstack([problem.class_sizes, np.zeros(problem.free.shape[1], np.int64)])


def _by_number(problem: PackingProblem, most: int) -> Iterator[tuple[RowIndex, RowIndex]]:
    """Nodes that have the same number of pods that could leave, with the classes of those pods [node, pod]."""
    groups: dict[int, list[tuple[int, list[int]]]] = {}
    for node, held in enumerate(problem.movable_pods):
        pods = [which for which, count in sorted(held.items()) for _ in range(min(count, most))]
        groups.setdefault(len(pods), []).append((node, pods))
    for number in sorted(groups):
        nodes = np.array([node for node, _ in groups[number]], np.intp)
        yield nodes, np.array([pods for _, pods in groups[number]], np.intp).reshape(len(nodes), number)
