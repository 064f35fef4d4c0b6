"""The score: what answers and bounds are in the figure that people read.

    free-nodes   freeNodes
    slots        slots
    pending      placed.<resource>, the resource that counts first; or placedPods, where pods of several priorities wait

Goes in: what was read, and answers. Comes out: figures of a plan.
"""

from __future__ import annotations

from functools import cached_property
from math import isfinite

from restow.model.resources import CPU
from restow.planning.optimal.bounds import pod_count_bound
from restow.planning.optimal.packing_problem import Solution, solution_value
from restow.planning.optimal.problem_instance import ProblemInstance
from restow.planning.plan import Measures


class ObjectiveFigures:
    def __init__(self, reading: ProblemInstance, objective: str) -> None:
        self._problem, self._line = reading.problem, reading.pending
        self._is_pending = objective == "pending"
        self._counts_pods = self._is_pending and not self._line.unit_amount
        if self._is_pending:
            self.figure = "placedPods" if self._counts_pods else f"placed.{self._line.scarcest}"
        else:
            self.figure = "slots" if objective == "slots" else "freeNodes"

    def reached_figure(self, shift: Solution) -> int | float:
        if self._counts_pods:
            return sum(shift.placements.values())
        return self._shown(solution_value(self._problem, shift))

    def bound_figure(self, worth: float, reached: float) -> int | float | None:
        """The same for a worth that no answer exceeds; None while none is known. What an answer that is there exceeds
        is no bound, and nothing is proven by it."""
        most = self._most(worth)
        return None if most is None or most < reached else most

    def _most(self, worth: float) -> int | float | None:
        if self._counts_pods:
            return self._most_pods
        return self._shown(int(worth)) if isfinite(worth) else None

    def placement_figures(self, shift: Solution) -> Measures:
        """How many waiting pods have a place, and how much of the resource that counts first."""
        if not self._is_pending:
            return {}
        figures: Measures = {"placedPods": sum(shift.placements.values()), "pendingPods": self._line.pod_count}
        return figures | {self.figure: self.reached_figure(shift)}

    @cached_property
    def _most_pods(self) -> int:
        return pod_count_bound(self._problem)

    def _shown(self, worth: int) -> int | float:
        """As people count it."""
        if not self._is_pending:
            return worth
        total = worth // self._line.unit_value * self._line.unit_amount
        return total / 1000 if self._line.scarcest == CPU else total
