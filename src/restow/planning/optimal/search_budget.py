"""How long the search may go on: seconds that somebody else measures, and steps that are the same everywhere.

A step is one program handed to the solver. With a limit of steps, programs are smaller, each may branch only so often,
and no step has a time of its own: then equal problems get equal answers, unless the seconds run out altogether.
Whatever can take long between two steps asks again and again whether it is late.
"""

from __future__ import annotations

from collections.abc import Callable

from restow.planning.deadline import DeadlineCheck
from restow.planning.optimal.solver import SolverLimits

_BRANCHES = 10
_SHORTEST = 0.02


class WorkLimit:
    """How much may be looked at, which is the same everywhere, and until when, which is not."""

    def __init__(self, most: int, late: DeadlineCheck) -> None:
        self._left = most
        self._late = late
        self.over = False
        """Whether something was left undone."""

    def allows(self, number: int) -> bool:
        """Whether so much more may be looked at; if not, nothing more may be at all."""
        self._left -= number
        self.over = self.over or self._left < 0 or self._late()
        return not self.over


class SearchBudget:
    def __init__(self, seconds_left: Callable[[], float], steps: int | None = None, spare: float = 0.0) -> None:
        """Of the seconds that are left, some are to be spared, if there is an answer already."""
        self._seconds_left = seconds_left
        self._spare = spare
        self.limited = steps is not None
        """Whether steps are counted."""
        self._left = steps if steps is not None else 0
        self.steps = 0
        """Taken so far."""

    @property
    def over(self) -> bool:
        return (self.limited and self.steps >= self._left) or self.late()

    def late(self) -> bool:
        """Whether the seconds have run out: whoever is at work drops it."""
        return self.seconds <= _SHORTEST

    def too_late(self) -> bool:
        """Whether even what was to be spared has run out."""
        return self._seconds_left() <= _SHORTEST

    def allows(self, seconds: float) -> bool:
        """Whether there is so much time left; where steps are counted, that does not matter."""
        return self.limited or self.seconds >= seconds

    def spares(self, seconds: float) -> bool:
        """The same, with what was to be spared."""
        return self.limited or self._seconds_left() >= seconds

    @property
    def seconds(self) -> float:
        return self._seconds_left() - self._spare

    def step(self, share: float = 1.0, most: float = float("inf")) -> SolverLimits:
        """The effort of the next step: a share of the seconds that are left, and not more than some."""
        self.steps += 1
        if self.limited:
            return SolverLimits(seconds=self.seconds, max_branches=_BRANCHES, is_late=self.late)
        return SolverLimits(seconds=min(self.seconds * share, most), is_late=self.late)
