"""A stage on which an answer is made step by step: what is free now, who came and left, which pods still wait.

Goes in: a problem, and openings to make. Comes out: a `Shift` that is right at every moment. An opening is made as a
whole, with a place for every leaver, or not at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from restow.model.cluster import Mask
from restow.planning.optimal.openings import Opening
from restow.planning.optimal.problem import STAY, Cell, Problem, Shift, guests, left_over


class Stage:
    def __init__(self, problem: Problem, shift: Shift = STAY) -> None:
        self.problem = problem
        self.left = left_over(problem, shift)
        self._net = Counter(shift.net)
        self._puts = Counter(shift.puts)
        self._guests = guests(problem, shift)
        self.moves = shift.moves
        self.closed: Mask = np.zeros(problem.nodes, np.bool_)
        """Nodes that no leaver may come to: they were opened for somebody else, or are to stay empty."""
        self.shut: Mask = np.zeros(problem.nodes, np.bool_)
        """Nodes that no waiting pod may come to unless an opening brings it."""
        if problem.empties:
            self.closed |= ~problem.stuck & (self._guests == 0)
        self._supply = [demand.supply for demand in problem.demands]
        for (which, _), number in shift.puts.items():
            self._supply[which] -= number
        self._by_worth = sorted(range(len(self._supply)), key=lambda one: (-problem.demands[one].worth, one))
        self._asked = [
            [(resource, amount) for resource, amount in enumerate(demand.size.tolist()) if amount]
            for demand in problem.demands
        ]
        self._scale = np.maximum(problem.free.max(axis=0, initial=0), 1).astype(np.float64)

    @property
    def shift(self) -> Shift:
        net = {cell: number for cell, number in self._net.items() if number}
        return Shift(net, {cell: number for cell, number in self._puts.items() if number})

    def make(self, opening: Opening, dear: NDArray[np.float64]) -> bool:
        """Make an opening if all of it is possible. Leavers keep away from nodes that are `dear`, if they can."""
        if self.closed[opening.node] or self.moves + opening.moves > self.problem.limit or not self._has(opening):
            return False
        if any(self._supply[which] < number for which, number in opening.puts):
            return False
        self.closed[opening.node] = True
        gone: list[tuple[int, int]] = []
        for which in sorted(opening.leavers, key=lambda one: (self.problem.sizes[one].tolist(), one), reverse=True):
            target = self.place_for(which, dear)
            if target is None:
                break
            self._go(which, opening.node, target)
            gone.append((which, target))
        if len(gone) == opening.moves and self._put(opening.node, opening.puts):
            return True
        for which, target in gone:
            self._go(which, target, opening.node)
        self.closed[opening.node] = False
        return False

    def refilled(self, opening: Opening) -> Opening:
        """The opening with such waiting pods as there still are."""
        if all(self._supply[which] >= number for which, number in opening.puts):
            return opening
        room = self.left[opening.node] + self.problem.sizes[list(opening.leavers)].sum(axis=0)
        left, counts = room.tolist(), list[tuple[int, int]]()
        for which in self._by_worth:
            demand = self.problem.demands[which]
            number = how_many(left, self._asked[which], min(self._supply[which], demand.most))
            if number and demand.gang is None and demand.suits[opening.node]:
                counts.append((which, number))
                for resource, amount in self._asked[which]:
                    left[resource] -= number * amount
        worth = sum(self.problem.demands[which].worth * number for which, number in counts)
        return replace(opening, puts=tuple(counts), worth=worth)

    def place_for(self, which: int, dear: NDArray[np.float64]) -> int | None:
        """The node where a pod of a class leaves least room behind, dear ones last."""
        size = self.problem.sizes[which]
        able = (self.left >= size).all(axis=1) & ~self.closed & self.problem.suits(which)
        nodes = np.flatnonzero(able)
        if self.problem.alone[which]:
            nodes = nodes[[self._net[which, node] < 1 for node in nodes.tolist()]]
        if not len(nodes):
            return None
        waste = ((self.left[nodes] - size) / self._scale).sum(axis=1)
        return int(nodes[(dear[nodes] + waste / (1.0 + waste)).argmin()])

    def fill(self) -> None:
        """Place waiting pods wherever they fit by now, most worth first."""
        for which in self._by_worth:
            demand = self.problem.demands[which]
            able = (self.left >= demand.size).all(axis=1) & demand.suits & ~self.shut
            for node in np.flatnonzero(able).tolist() if demand.gang is None else ():
                most = min(self._supply[which], demand.most - self._puts[which, node])
                number = how_many(self.left[node].tolist(), self._asked[which], most)
                if number:
                    self._put(node, ((which, number),))

    # ------------------------------------------------------------------------------------------------------------------

    def _has(self, opening: Opening) -> bool:
        """Whether the leavers still are on the node."""
        held = self.problem.held[opening.node]
        return all(
            held.get(which, 0) + min(self._net[which, opening.node], 0) >= number
            for which, number in Counter(opening.leavers).items()
        )

    def _go(self, which: int, source: int, target: int) -> None:
        for node, sign in ((source, -1), (target, 1)):
            before = self._net[which, node]
            self._net[which, node] += sign
            self.moves += max(before + sign, 0) - max(before, 0)
            self._guests[node] += sign
            self.left[node] -= sign * self.problem.sizes[which]

    def _put(self, node: int, puts: Iterable[tuple[int, int]]) -> bool:
        """Place waiting pods on a node; False, and nothing changes, if they do not all fit."""
        demands, after = self.problem.demands, self.left[node].copy()
        for which, number in puts:
            after -= number * demands[which].size
            alone = demands[which].alone and self._puts[which, node] + number > 1
            if number > self._supply[which] or not demands[which].suits[node] or alone:
                return False
        if (after < 0).any():
            return False
        self.left[node] = after
        for which, number in puts:
            self._puts[which, node] += number
            self._supply[which] -= number
            self._guests[node] += number
        return True


def how_many(room: Sequence[int], asked: Iterable[tuple[int, int]], most: int) -> int:
    """How many that ask for (resource, amount) fit, up to `most`."""
    for resource, amount in asked:
        most = min(most, room[resource] // amount)
    return max(most, 0)


def pruned(problem: Problem, shift: Shift) -> Shift:
    """The same answer without moves that gain nothing: whoever may as well stay, stays."""
    left, net, count = left_over(problem, shift), dict(shift.net), guests(problem, shift)
    changed = True
    while changed:
        changed = False
        for (which, source), number in sorted(net.items()):
            if number >= 0 or (left[source] < problem.sizes[which]).any():
                continue
            if problem.empties and not problem.stuck[source] and count[source] == 0:
                continue
            target = _a_target(net, which)
            if target is None:
                continue
            for node, sign in ((source, 1), (target, -1)):
                _add(net, (which, node), sign)
                left[node] -= sign * problem.sizes[which]
                count[node] += sign
            changed = True
    return Shift(net, dict(shift.puts))


def _a_target(net: dict[Cell, int], which: int) -> int | None:
    return next((node for (one, node), number in sorted(net.items()) if one == which and number > 0), None)


def _add(net: dict[Cell, int], cell: Cell, number: int) -> None:
    net[cell] = net.get(cell, 0) + number
    if not net[cell]:
        del net[cell]
