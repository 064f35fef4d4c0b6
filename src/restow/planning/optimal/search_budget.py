"""The budget of a search: seconds on a clock, and steps that are the same on every machine.

A step is one program handed to the solver. If steps are counted, programs are smaller, each may branch only a few
times, and no step has a time limit of its own. Then equal problems get equal solutions, unless the seconds run out
altogether. Work that can take long between two steps asks again and again whether it is late.
"""

from __future__ import annotations

from collections.abc import Callable

from restow.planning.deadline import DeadlineCheck
from restow.planning.optimal.solver import SolverLimits

_BRANCHES_PER_STEP = 10
_SHORTEST_SECONDS = 0.02
"""With less time than this left, it is late."""


class WorkLimit:
    """Limits enumerations by an amount of work, which is the same on every machine, and by a deadline, which is not."""

    def __init__(self, amount: int, is_late: DeadlineCheck) -> None:
        self._left = amount
        self._is_late = is_late
        self.is_over = False
        """Whether some work was refused."""

    def allows(self, amount: int) -> bool:
        """Whether this much more work may be done. Once refused, no more work is allowed at all."""
        self._left -= amount
        self.is_over = self.is_over or self._left < 0 or self._is_late()
        return not self.is_over


class SearchBudget:
    def __init__(
        self, seconds_left: Callable[[], float], steps: int | None = None, seconds_to_keep: float = 0.0
    ) -> None:
        """`seconds_to_keep` are not used for the search once there is a solution; without `steps`, steps are not
        counted."""
        self._all_seconds_left = seconds_left
        self._seconds_to_keep = seconds_to_keep
        self.counts_steps = steps is not None
        self._max_steps = steps if steps is not None else 0
        self.steps_taken = 0

    @property
    def is_over(self) -> bool:
        return (self.counts_steps and self.steps_taken >= self._max_steps) or self.is_late()

    def is_late(self) -> bool:
        """Whether the seconds are over: work under way stops."""
        return self.seconds_left <= _SHORTEST_SECONDS

    def are_kept_seconds_spent(self) -> bool:
        """Whether even the seconds to keep are over."""
        return self._all_seconds_left() <= _SHORTEST_SECONDS

    def has_seconds(self, seconds: float) -> bool:
        """Whether this much time is left; where steps are counted, time does not matter."""
        return self.counts_steps or self.seconds_left >= seconds

    def has_seconds_with_kept(self, seconds: float) -> bool:
        """The same, with the seconds to keep."""
        return self.counts_steps or self._all_seconds_left() >= seconds

    @property
    def seconds_left(self) -> float:
        return self._all_seconds_left() - self._seconds_to_keep

    def next_step(self, share: float = 1.0, max_seconds: float = float("inf")) -> SolverLimits:
        """Take a step; returns its limits: a share of the seconds that are left, and no more than `max_seconds`."""
        self.steps_taken += 1
        if self.counts_steps:
            return SolverLimits(seconds=self.seconds_left, max_branches=_BRANCHES_PER_STEP, is_late=self.is_late)
        return SolverLimits(seconds=min(self.seconds_left * share, max_seconds), is_late=self.is_late)
