"""Patterns: what may happen on one node. Some of its pods depart, so that pending pods or pods of other nodes fit, or
so that the node becomes empty.

Goes in: a problem. Comes out: all combinations of departing pods that are worth a look, for all nodes, as arrays with
one line per combination (`DepartureSets`). `pricing` and `lagrangian_bound` find out what best takes the room.

The word is that of the cutting-stock problem: a pattern is one way to use one node, and a column of the master problem
(`master_problem`), which chooses at most one pattern per node.
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

_MAX_COMBINATIONS = 600
"""Combinations of one number of departing pods of one node; if there are more, none of that number is listed."""
_ENOUGH_LINES, _MAX_LINES = 200_000, 500_000
"""With so many lines no larger number of departing pods is listed; and no combinations that would exceed the second."""

Counts = tuple[tuple[int, int], ...]
"""(index of a class or of a demand, number of pods)."""


class NodePattern(msgspec.Struct, frozen=True, gc=False):
    node: int
    departing_classes: tuple[int, ...]
    """The class of each pod that departs."""
    placements: Counts
    """By demand: the pending pods that are placed."""
    value: int
    arrivals: Counts = ()
    """By class: the pods that come from other nodes."""

    @property
    def move_count(self) -> int:
        return len(self.departing_classes)


class DepartureSets(msgspec.Struct, frozen=True, eq=False):
    """Combinations of departing pods, one per line."""

    node: RowIndex
    departing_classes: RowIndex
    """[line, pod]: classes; -1 where fewer pods depart."""
    free_after: Ints
    """[line, resource]: free once they have left; 0 where the node is over-committed even then."""
    complete_up_to: Ints
    """Per node: up to this number of departing pods all combinations are listed."""


def emptying_patterns(problem: PackingProblem) -> list[NodePattern]:
    """For each node that can become empty, the pattern in which all its pods depart."""
    patterns = []
    for node, pods in enumerate(problem.movable_pods):
        departing = tuple(class_index for class_index, count in sorted(pods.items()) for _ in range(count))
        if departing and not problem.cannot_empty[node] and len(departing) <= problem.max_moves:
            patterns.append(NodePattern(node, departing, (), 1))
    return patterns


def enumerate_departures(
    problem: PackingProblem, max_departures: int, *, is_late: DeadlineCheck = no_deadline
) -> DepartureSets:
    """All combinations of up to `max_departures` departing pods, unless there are too many or it is late. The smallest
    ones of a node come first: of patterns with the same value, small pods find another node more easily."""
    node, departing = np.zeros(0, np.intp), np.zeros((0, max_departures), np.intp)
    complete_up_to = np.full(problem.node_count, -1, np.int64)
    groups = list(_nodes_by_pod_count(problem, max_departures))
    for number in range(max_departures + 1):
        if len(node) > _ENOUGH_LINES or (number and is_late()):
            break
        for nodes, pods in groups:
            ways = comb(pods.shape[1], number)
            if ways > _MAX_COMBINATIONS or (number and len(node) + len(nodes) * ways > _MAX_LINES):
                continue
            complete_up_to[nodes] += complete_up_to[nodes] == number - 1
            chosen = np.array(list(combinations(range(pods.shape[1]), number)), np.intp).reshape(ways, number)
            padded = np.full((len(nodes) * ways, max_departures), -1, np.intp)
            padded[:, :number] = pods[:, chosen].reshape(len(nodes) * ways, number)
            node, departing = np.concatenate([node, np.repeat(nodes, ways)]), np.concatenate([departing, padded])
    # Pods of one class are interchangeable: combinations that differ in nothing else are one line.
    lines = np.unique(np.column_stack([node, np.sort(departing, axis=1)]), axis=0)
    node, departing = lines[:, 0], lines[:, 1:]
    freed = padded_class_sizes(problem)[departing].sum(axis=1)
    order = np.lexsort(((freed / np.maximum(freed.max(axis=0, initial=0), 1)).sum(axis=1), node))
    free_after = np.maximum(problem.free[node] + freed, 0)
    return DepartureSets(node[order], departing[order], free_after[order], complete_up_to)


def placeable_departures(problem: PackingProblem, departures: DepartureSets) -> DepartureSets:
    """Only the combinations of which each pod fits on some node as things are now."""
    sizes, size_of_class = np.unique(problem.class_sizes, axis=0, return_inverse=True)
    fits_somewhere = np.array([has_room(problem.free, size).any() for size in sizes], np.bool_)
    is_placeable = np.append(fits_somewhere[size_of_class.reshape(-1)], True)  # the last one is for class -1
    kept = is_placeable[departures.departing_classes].all(axis=1)
    return DepartureSets(
        departures.node[kept],
        departures.departing_classes[kept],
        departures.free_after[kept],
        departures.complete_up_to,
    )


def padded_class_sizes(problem: PackingProblem) -> Ints:
    """The requests of a pod of each class; in the last line, which has the index -1, nothing."""
    return np.vstack([problem.class_sizes, np.zeros(problem.free.shape[1], np.int64)])


def _nodes_by_pod_count(problem: PackingProblem, max_departures: int) -> Iterator[tuple[RowIndex, RowIndex]]:
    """Nodes with the same number of pods that could depart, with the classes of those pods [node, pod]. Of one class at
    most `max_departures` pods count: more cannot depart together."""
    groups: dict[int, list[tuple[int, list[int]]]] = {}
    for node, counts in enumerate(problem.movable_pods):
        pods = [class_index for class_index, count in sorted(counts.items()) for _ in range(min(count, max_departures))]
        groups.setdefault(len(pods), []).append((node, pods))
    for number in sorted(groups):
        nodes = np.array([node for node, _ in groups[number]], np.intp)
        yield nodes, np.array([pods for _, pods in groups[number]], np.intp).reshape(len(nodes), number)
