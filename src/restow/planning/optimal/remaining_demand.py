"""The remaining demand: how many pods of each demand are still pending, and how much their queues may still take.

Goes in: a problem, and the placements of a solution. Comes out: how many more pods of a demand may be placed, resources
of nodes aside.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from restow.planning.optimal.packing_problem import Ints, PackingProblem, Solution


class RemainingDemand:
    def __init__(self, problem: PackingProblem, solution: Solution) -> None:
        self._pending = [demand.count for demand in problem.demands]
        self._quotas = [quota.limits.copy() for quota in problem.quotas]
        self._quota_of: dict[int, tuple[int, Ints]] = {
            demand: (quota_index, requests)
            for quota_index, quota in enumerate(problem.quotas)
            for demand, requests in quota.requests.items()
        }
        """By demand: the index of its quota, and what one pod counts for."""
        self.subtract((demand, number) for (demand, _), number in solution.placements.items())

    def copy(self) -> Self:
        copy = object.__new__(type(self))
        copy._pending, copy._quota_of = list(self._pending), self._quota_of
        copy._quotas = [limits.copy() for limits in self._quotas]
        return copy

    def max_placeable(self, demand: int) -> int:
        """How many more pods of a demand may be placed."""
        number = self._pending[demand]
        if demand in self._quota_of:
            quota_index, requests = self._quota_of[demand]
            limited = requests > 0
            number = min(number, int((self._quotas[quota_index][limited] // requests[limited]).min(initial=number)))
        return max(number, 0)

    def allows(self, placements: Iterable[tuple[int, int]]) -> bool:
        """Whether all these (demand, number) may be placed together."""
        if not self._quota_of:
            return all(self._pending[demand] >= number for demand, number in placements)
        trial = self.copy()
        for demand, number in placements:
            if trial.max_placeable(demand) < number:
                return False
            trial.subtract([(demand, number)])
        return True

    def subtract(self, placements: Iterable[tuple[int, int]]) -> None:
        """Place these (demand, number). Pods with a negative number are pending again."""
        for demand, number in placements:
            self._pending[demand] -= number
            if demand in self._quota_of:
                quota_index, requests = self._quota_of[demand]
                self._quotas[quota_index] -= number * requests
