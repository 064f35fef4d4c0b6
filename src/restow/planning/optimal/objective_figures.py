"""The figure that people read for an objective, from values of solutions and from bounds.

Goes in: a problem instance, and solutions. Comes out: figures of a plan.

    objective    figure
    free-nodes   freeNodes
    slots        slots
    pending      placed.<scarcest resource>; or placedPods, where pods of several priorities are pending
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
    def __init__(self, instance: ProblemInstance, objective: str) -> None:
        self._problem, self._pending = instance.problem, instance.pending
        self._is_pending = objective == "pending"
        self._counts_pods = self._is_pending and not self._pending.unit_amount
        if self._is_pending:
            self.figure = "placedPods" if self._counts_pods else f"placed.{self._pending.scarcest}"
        else:
            self.figure = "slots" if objective == "slots" else "freeNodes"

    def reached_figure(self, solution: Solution) -> int | float:
        if self._counts_pods:
            return sum(solution.placements.values())
        return self._figure_of_value(solution_value(self._problem, solution))

    def bound_figure(self, value_bound: float, reached: float) -> int | float | None:
        """The figure of an upper bound on the value; None if none is known. A bound below a solution that exists would
        be an error of the solver: it is not shown, and proves nothing."""
        bound = self._bound_figure(value_bound)
        return None if bound is None or bound < reached else bound

    def _bound_figure(self, value_bound: float) -> int | float | None:
        if self._counts_pods:
            return self._pod_count_bound
        return self._figure_of_value(int(value_bound)) if isfinite(value_bound) else None

    def placement_figures(self, solution: Solution) -> Measures:
        """How many pending pods are placed, and how much of the scarcest resource."""
        if not self._is_pending:
            return {}
        figures: Measures = {"placedPods": sum(solution.placements.values()), "pendingPods": self._pending.pod_count}
        return figures | {self.figure: self.reached_figure(solution)}

    @cached_property
    def _pod_count_bound(self) -> int:
        return pod_count_bound(self._problem)

    def _figure_of_value(self, value: int) -> int | float:
        """The number of nodes or slots; for pending pods the amount of the scarcest resource, CPU in cores."""
        if not self._is_pending:
            return value
        amount = value // self._pending.unit_value * self._pending.unit_amount
        return amount / 1000 if self._pending.scarcest == CPU else amount
