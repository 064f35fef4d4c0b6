"""Supply: how many waiting pods there still are, and how much their queues may still take.

Goes in: a problem, and what an answer places. Comes out: how many more of a demand may be placed, whatever the room.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from restow.planning.optimal.packing_problem import Ints, PackingProblem, Solution


class RemainingDemand:
    def __init__(self, problem: PackingProblem, shift: Solution) -> None:
        self._waiting = [demand.count for demand in problem.demands]
        self._quotas = [quota.limits.copy() for quota in problem.quotas]
        self._asked: dict[int, tuple[int, Ints]] = {
            which: (number, asked)
            for number, quota in enumerate(problem.quotas)
            for which, asked in quota.requests.items()
        }
        self.take(((which, number) for (which, _), number in shift.placements.items()))

    def copy(self) -> Self:
        made = object.__new__(type(self))
        made._waiting, made._asked = list(self._waiting), self._asked
        made._quotas = [most.copy() for most in self._quotas]
        return made

    def max_placeable(self, which: int) -> int:
        """How many more of a demand may be placed."""
        most = self._waiting[which]
        if which in self._asked:
            number, asked = self._asked[which]
            limited = asked > 0
            most = min(most, int((self._quotas[number][limited] // asked[limited]).min(initial=most)))
        return max(most, 0)

    def allows(self, puts: Iterable[tuple[int, int]]) -> bool:
        """Whether so many of each may be placed together."""
        if not self._asked:
            return all(self._waiting[which] >= number for which, number in puts)
        trial = self.copy()
        for which, number in puts:
            if trial.max_placeable(which) < number:
                return False
            trial.take([(which, number)])
        return True

    def take(self, puts: Iterable[tuple[int, int]]) -> None:
        """So many are placed; with a negative number, wait again."""
        for which, number in puts:
            self._waiting[which] -= number
            if which in self._asked:
                quota, asked = self._asked[which]
                self._quotas[quota] -= number * asked
