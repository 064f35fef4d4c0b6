"""Large-neighbourhood search: decide a few dozen nodes anew, exactly, and keep what is better; again and again.

Goes in: a problem, an answer, and which nodes look promising. Comes out: a better answer. Each step takes some nodes
that the answer uses, some that it could use instead and some with room for leavers, and solves the flow model over them
while all other nodes stay as they are. Neighbourhoods grow while they are solved to the end, and shrink otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from restow.planning.optimal.flow import Flow, Solved
from restow.planning.optimal.pricing import Floats
from restow.planning.optimal.problem import Problem, Shift, better, fits, left_over
from restow.planning.optimal.solver import Effort

_SMALLEST, _FIRST, _LARGEST = 8, 24, 160


class Neighbourhoods:
    def __init__(self, problem: Problem, appeal: Floats, rng: np.random.Generator, columns: int) -> None:
        """Programs have so many columns at most."""
        self._problem = problem
        self._appeal = appeal / max(float(appeal.sum()), 1e-9)
        self._rng = rng
        self._columns = columns
        self._size = float(min(_FIRST, problem.nodes))

    def improved(self, shift: Shift, effort: Effort) -> Shift | None:
        """One step: a better answer, if one was found."""
        flow = Flow(self._problem, shift, self._choose(shift), self._columns)
        if not flow.complete:
            self._resize(0.8)
            return None
        solved = flow.solve(effort, start=shift)
        self._resize(1.1 if solved.proven else 0.9)
        return self._taken(solved, shift)

    def _taken(self, solved: Solved, shift: Shift) -> Shift | None:
        if solved.shift is not None and better(self._problem, solved.shift, shift):
            return solved.shift
        return None

    def _resize(self, factor: float) -> None:
        self._size = min(max(self._size * factor, _SMALLEST), _LARGEST, self._problem.nodes)

    def _choose(self, shift: Shift) -> list[int]:
        size = int(self._size)
        opened = sorted({node for (_, node), number in shift.net.items() if number < 0} | {n for _, n in shift.puts})
        taken = sorted({node for (_, node), number in shift.net.items() if number > 0})
        chosen = [*self._some(opened, size // 3), *self._some(taken, size // 4)]
        fresh = np.flatnonzero(self._appeal > 0)
        if len(fresh):
            weights = self._appeal[fresh] / self._appeal[fresh].sum()
            count = min(size // 3, len(fresh))
            chosen += self._rng.choice(fresh, count, replace=False, p=weights).tolist()
        chosen += self._roomy(shift, chosen, size - len(set(chosen)))
        return sorted(set(chosen))

    def _some(self, nodes: Sequence[int], count: int) -> list[int]:
        if not nodes:
            return []
        picked: list[int] = self._rng.choice(np.array(nodes), min(count, len(nodes)), replace=False).tolist()
        return picked

    def _roomy(self, shift: Shift, chosen: Sequence[int], count: int) -> list[int]:
        """Nodes that could take one of the pods on the chosen nodes."""
        classes = sorted({which for node in chosen for which in self._problem.held[node]})
        if not classes or count <= 0:
            return self._some(range(self._problem.nodes), max(count, 0))
        left, able = left_over(self._problem, shift), np.zeros(self._problem.nodes, np.bool_)
        for which in self._some(classes, 4):
            able |= fits(left, self._problem.sizes[which]) & self._problem.suits(which)
        return self._some(np.flatnonzero(able).tolist(), count)
