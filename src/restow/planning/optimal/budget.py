"""How long the search may go on: seconds that somebody else measures, and steps that are the same everywhere.

A step is one program handed to the solver. With a limit of steps each step may also branch only so often, and no step
has a time of its own: then equal problems get equal answers, unless the seconds run out altogether.
"""

from __future__ import annotations

from collections.abc import Callable

from restow.planning.optimal.solver import Effort

_BRANCHES = 10
_SHORTEST = 0.02


class Budget:
    def __init__(self, seconds_left: Callable[[], float], steps: int | None = None) -> None:
        self._seconds_left = seconds_left
        self._limited = steps is not None
        self._left = steps if steps is not None else 0
        self.steps = 0
        """Taken so far."""

    @property
    def over(self) -> bool:
        return (self._limited and self.steps >= self._left) or self.seconds <= _SHORTEST

    @property
    def seconds(self) -> float:
        return self._seconds_left()

    def step(self, share: float = 1.0, most: float = float("inf")) -> Effort:
        """The effort of the next step: a share of the seconds that are left, and not more than some."""
        self.steps += 1
        if self._limited:
            return Effort(seconds=self.seconds, branches=_BRANCHES)
        return Effort(seconds=min(self.seconds * share, most))
