"""Large-neighbourhood search: decides a few dozen nodes anew, exactly, keeps what is better, and repeats.

Goes in: a problem, an incumbent solution, and weights that say which nodes look promising. Comes out: a better
solution, if one is found. A neighbourhood consists of nodes that the incumbent uses, nodes that it could use instead,
and nodes with room for departing pods. The flow model is solved over it, while all other nodes stay as they are.
Neighbourhoods grow while they are solved to optimality, and shrink otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from restow.planning.optimal.flow_model import FlowModel
from restow.planning.optimal.packing_problem import PackingProblem, Solution, free_after, has_room, is_better
from restow.planning.optimal.pricing import Floats
from restow.planning.optimal.solver import SolverLimits

_SMALLEST, _FIRST, _LARGEST = 8, 24, 160
"""Nodes of a neighbourhood."""
_GROWTH, _SHRINKAGE, _TOO_LARGE = 1.1, 0.9, 0.8
_SAMPLED_CLASSES = 4


class LargeNeighbourhoodSearch:
    def __init__(
        self, problem: PackingProblem, node_weights: Floats, rng: np.random.Generator, max_columns: int
    ) -> None:
        self._problem = problem
        self._weights = node_weights / max(float(node_weights.sum()), 1e-9)
        self._rng = rng
        self._max_columns = max_columns
        self._size = float(min(_FIRST, problem.node_count))

    def improved(self, incumbent: Solution, limits: SolverLimits) -> Solution | None:
        """One step: a better solution, if one was found."""
        model = FlowModel(self._problem, incumbent, self._neighbourhood(incumbent), self._max_columns)
        if not model.is_complete:
            self._resize(_TOO_LARGE)
            return None
        result = model.solve(limits, start=incumbent)
        self._resize(_GROWTH if result.is_proven else _SHRINKAGE)
        if result.solution is not None and is_better(self._problem, result.solution, incumbent):
            return result.solution
        return None

    def _resize(self, factor: float) -> None:
        self._size = min(max(self._size * factor, _SMALLEST), _LARGEST, self._problem.node_count)

    def _neighbourhood(self, incumbent: Solution) -> list[int]:
        size = int(self._size)
        # 1. Nodes that the incumbent uses: a third that pods leave or are placed on, a quarter that pods move to.
        placed = {node for _, node in incumbent.placements}
        opened = sorted({node for (_, node), number in incumbent.pod_changes.items() if number < 0} | placed)
        targets = sorted({node for (_, node), number in incumbent.pod_changes.items() if number > 0})
        chosen = [*self._sample(opened, size // 3), *self._sample(targets, size // 4)]
        # 2. Nodes that it could use instead, by their weights.
        promising = np.flatnonzero(self._weights > 0)
        if len(promising):
            weights = self._weights[promising] / self._weights[promising].sum()
            count = min(size // 3, len(promising))
            chosen += self._rng.choice(promising, count, replace=False, p=weights).tolist()
        # 3. Nodes with room for the pods of all those.
        chosen += self._nodes_with_room(incumbent, chosen, size - len(set(chosen)))
        return sorted(set(chosen))

    def _sample(self, nodes: Sequence[int], count: int) -> list[int]:
        if not nodes:
            return []
        sample: list[int] = self._rng.choice(np.array(nodes), min(count, len(nodes)), replace=False).tolist()
        return sample

    def _nodes_with_room(self, incumbent: Solution, chosen: Sequence[int], count: int) -> list[int]:
        """Nodes with room for a pod of one of the chosen nodes."""
        classes = sorted({class_index for node in chosen for class_index in self._problem.movable_pods[node]})
        if not classes or count <= 0:
            return self._sample(range(self._problem.node_count), max(count, 0))
        free, fits = free_after(self._problem, incumbent), np.zeros(self._problem.node_count, np.bool_)
        for class_index in self._sample(classes, _SAMPLED_CLASSES):
            room = has_room(free, self._problem.class_sizes[class_index])
            fits |= room & self._problem.allowed_nodes(class_index)
        return self._sample(np.flatnonzero(fits).tolist(), count)
