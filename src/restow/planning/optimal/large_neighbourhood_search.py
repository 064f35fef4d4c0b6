"""Large-neighbourhood search: decide a few dozen nodes anew, exactly, and keep what is better; again and again.

Goes in: a problem, an answer, and which nodes look promising. Comes out: a better answer. Each step takes some nodes
that the answer uses, some that it could use instead and some with room for leavers, and solves the flow model over them
while all other nodes stay as they are. Neighbourhoods grow while they are solved to the end, and shrink otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from restow.planning.optimal.flow_model import FlowModel, FlowResult
from restow.planning.optimal.packing_problem import PackingProblem, Solution, free_after, has_room, is_better
from restow.planning.optimal.pricing import Floats
from restow.planning.optimal.solver import SolverLimits

_SMALLEST, _FIRST, _LARGEST = 8, 24, 160


class LargeNeighbourhoodSearch:
    def __init__(self, problem: PackingProblem, appeal: Floats, rng: np.random.Generator, columns: int) -> None:
        """Programs have so many columns at most."""
        self._problem = problem
        self._appeal = appeal / max(float(appeal.sum()), 1e-9)
        self._rng = rng
        self._columns = columns
        self._size = float(min(_FIRST, problem.node_count))

    def improved(self, shift: Solution, effort: SolverLimits) -> Solution | None:
        """One step: a better answer, if one was found."""
        flow = FlowModel(self._problem, shift, self._choose(shift), self._columns)
        if not flow.is_complete:
            self._resize(0.8)
            return None
        solved = flow.solve(effort, start=shift)
        self._resize(1.1 if solved.is_proven else 0.9)
        return self._taken(solved, shift)

    def _taken(self, solved: FlowResult, shift: Solution) -> Solution | None:
        if solved.solution is not None and is_better(self._problem, solved.solution, shift):
            return solved.solution
        return None

    def _resize(self, factor: float) -> None:
        self._size = min(max(self._size * factor, _SMALLEST), _LARGEST, self._problem.node_count)

    def _choose(self, shift: Solution) -> list[int]:
        size = int(self._size)
        opened = sorted(
            {node for (_, node), number in shift.pod_changes.items() if number < 0} | {n for _, n in shift.placements}
        )
        taken = sorted({node for (_, node), number in shift.pod_changes.items() if number > 0})
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

    def _roomy(self, shift: Solution, chosen: Sequence[int], count: int) -> list[int]:
        """Nodes that could take one of the pods on the chosen nodes."""
        classes = sorted({which for node in chosen for which in self._problem.movable_pods[node]})
        if not classes or count <= 0:
            return self._some(range(self._problem.node_count), max(count, 0))
        left, able = free_after(self._problem, shift), np.zeros(self._problem.node_count, np.bool_)
        for which in self._some(classes, 4):
            able |= has_room(left, self._problem.class_sizes[which]) & self._problem.allowed_nodes(which)
        return self._some(np.flatnonzero(able).tolist(), count)
