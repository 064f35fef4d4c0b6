"""Trimming: an answer that is worth as much, without moves that gain nothing.

    pruned     whoever may go back without anything else changing, goes back
    trimmed    and whoever may go back if waiting pods change places on the two nodes concerned

Goes in: a problem and an answer to it. Comes out: an answer with no more moves that is worth no less.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from restow.planning.optimal.packing_problem import Ints, PackingProblem, Solution, free_after, movable_pod_counts
from restow.planning.optimal.remaining_demand import RemainingDemand


def undo_useless_moves(problem: PackingProblem, shift: Solution) -> Solution:
    """The same answer without moves that gain nothing: whoever may as well stay, stays."""
    trimmer = _MoveReducer(problem, shift)
    trimmer.prune()
    return trimmer.shift


def minimise_moves(problem: PackingProblem, shift: Solution) -> Solution:
    """An answer that is worth as much, from which no single move can be left out."""
    trimmer = _MoveReducer(problem, shift)
    trimmer.prune()
    while not problem.counts_empty_nodes and trimmer.exchange():
        trimmer.prune()
    return trimmer.shift


class _MoveReducer:
    def __init__(self, problem: PackingProblem, shift: Solution) -> None:
        self._problem = problem
        self._left = free_after(problem, shift)
        self._net = {cell: number for cell, number in shift.pod_changes.items() if number}
        self._puts: dict[int, dict[int, int]] = {}
        for (which, node), number in sorted(shift.placements.items()):
            self._puts.setdefault(node, {})[which] = number
        self._guests = movable_pod_counts(problem, shift)
        self._supply = RemainingDemand(problem, shift)
        self._by_worth = sorted(
            (which for which, demand in enumerate(problem.demands) if demand.gang is None),
            key=lambda which: (-problem.demands[which].value, which),
        )

    @property
    def shift(self) -> Solution:
        puts = {(which, node): number for node, some in self._puts.items() for which, number in some.items() if number}
        return Solution(dict(self._net), puts)

    def prune(self) -> None:
        """Let everybody stay for whom there is room where it was, unless that node is to be empty."""
        changed = True
        while changed:
            changed = False
            for which, sources, targets in self._movers():
                for source in sources:
                    if self._net.get((which, source), 0) < 0 and self._may_stay(which, source, targets[-1]):
                        self._go_back(which, source, targets[-1])
                        changed = True
                        break

    def exchange(self) -> bool:
        """Let one pod stay where it was, if what its node loses by that its target gains; False if there is none."""
        for which, sources, targets in self._movers():
            losses = [(self._with(which, source, 1), source) for source in sources]
            gains = [(self._with(which, target, -1), target) for target in targets]
            loss, source = max((one for one in losses if one[0] is not None), default=(None, 0))
            gain, target = max((one for one in gains if one[0] is not None), default=(None, 0))
            if loss is not None and gain is not None and loss + gain >= 0 and self._exchanged(which, source, target):
                return True
        return False

    # ------------------------------------------------------------------------------------------------------------------

    def _movers(self) -> Iterator[tuple[int, list[int], list[int]]]:
        """By class, the nodes that its pods left and those they came to."""
        by_class: dict[int, tuple[list[int], list[int]]] = {}
        for (which, node), number in sorted(self._net.items()):
            by_class.setdefault(which, ([], []))[number > 0].append(node)
        for which, (sources, targets) in by_class.items():
            yield which, sources, targets

    def _may_stay(self, which: int, source: int, target: int) -> bool:
        if not self._is_sound(source, self._left[source] - self._problem.class_sizes[which]):
            return False
        empties = self._problem.counts_empty_nodes
        return not (empties and self._is_free(source, 0)) or self._is_free(target, 1)

    def _is_sound(self, node: int, left: Ints) -> bool:
        """Whether a node may be left with so much room: nobody who came asks for anything that is over-committed."""
        over = left < 0
        if not over.any():
            return True
        came = [
            self._problem.class_sizes[which]
            for (which, where), number in self._net.items()
            if where == node and number > 0
        ]
        came += [self._problem.demands[which].size for which, number in self._puts.get(node, {}).items() if number]
        return not any((size[over] > 0).any() for size in came)

    def _is_free(self, node: int, more: int) -> bool:
        """Whether a node is, or with so many fewer pods would be, one of those that are empty."""
        return not self._problem.cannot_empty[node] and bool(self._guests[node] == more)

    def _go_back(self, which: int, source: int, target: int) -> None:
        for node, sign in ((source, 1), (target, -1)):
            cell = which, node
            self._net[cell] = self._net.get(cell, 0) + sign
            if not self._net[cell]:
                del self._net[cell]
            self._left[node] -= sign * self._problem.class_sizes[which]
            self._guests[node] += sign

    def _exchanged(self, which: int, source: int, target: int) -> bool:
        """Let a pod stay and fill both nodes again, unless that is worth less: nothing changes then."""
        before = {node: self._cleared(node) for node in (source, target)}
        self._go_back(which, source, target)
        for node in before:
            self._fill(node)
        if sum(map(self._worth, before)) >= sum(self._worth_of(puts) for puts in before.values()):
            return True
        for node in before:
            self._cleared(node)
        self._go_back(which, target, source)
        for node, puts in before.items():
            self._put_all(node, puts)
        return False

    def _with(self, which: int, node: int, sign: int) -> int | None:
        """How much more a node would be worth with one pod of a class more, or less; None if it has no room for it."""
        before, size = self._cleared(node), self._problem.class_sizes[which]
        self._left[node] -= sign * size
        more = None
        if self._is_sound(node, self._left[node]):
            self._fill(node)
            more = self._worth(node) - self._worth_of(before)
            self._cleared(node)
        self._left[node] += sign * size
        self._put_all(node, before)
        return more

    # --- waiting pods on one node, those of gangs apart ---------------------------------------------------------------

    def _fill(self, node: int) -> None:
        """Place waiting pods, most worth first."""
        here = self._puts.get(node, {})
        for which in self._by_worth:
            demand = self._problem.demands[which]
            most = self._supply.max_placeable(which) if demand.allowed_nodes[node] else 0
            if most > 0:
                asked = demand.size > 0
                fits = int((self._left[node][asked] // demand.size[asked]).min())
                self._put(node, which, max(min(fits, most, demand.max_per_node - here.get(which, 0)), 0))

    def _cleared(self, node: int) -> dict[int, int]:
        """Whoever was placed waits again: who that was."""
        demands = self._problem.demands
        gone = {which: number for which, number in self._puts.get(node, {}).items() if demands[which].gang is None}
        for which, number in gone.items():
            self._put(node, which, -number)
        return gone

    def _put_all(self, node: int, puts: Mapping[int, int]) -> None:
        for which, number in puts.items():
            self._put(node, which, number)

    def _put(self, node: int, which: int, number: int) -> None:
        if number:
            here = self._puts.setdefault(node, {})
            here[which] = here.get(which, 0) + number
            if not here[which]:
                del here[which]
            self._supply.subtract([(which, number)])
            self._left[node] -= number * self._problem.demands[which].size
            self._guests[node] += number

    def _worth(self, node: int) -> int:
        here, demands = self._puts.get(node, {}), self._problem.demands
        return self._worth_of({which: number for which, number in here.items() if demands[which].gang is None})

    def _worth_of(self, puts: Mapping[int, int]) -> int:
        return sum(self._problem.demands[which].value * number for which, number in puts.items())
