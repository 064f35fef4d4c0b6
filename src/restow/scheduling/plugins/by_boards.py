"""Plugins that decide by boards: what they make of a class of pods is a value per topology domain.

Goes in: how the state of a class is made. Comes out: everything that follows from its boards and domains; which boards
there are, why one refuses and what is preferred is for each plugin to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from restow.model.cluster import Mask, Which
from restow.model.cluster.boards import Board, all_true, all_true_at
from restow.model.cluster.domains import Domains
from restow.scheduling.framework import Cycle, FilterPlugin, Reach
from restow.scheduling.per_class import PerClass


class Boarded(Protocol):
    """What is known about a class of pods."""

    @property
    def boards(self) -> Sequence[Board[np.bool_]]:
        """What decides where the pods may go."""

    @property
    def domains(self) -> Sequence[Domains]:
        """What tells rows apart."""

    def refresh(self, cycle: Cycle) -> None:
        """Look again, if something may have changed."""


S = TypeVar("S", bound=Boarded)


class ByBoards(FilterPlugin, Generic[S]):
    reach: ClassVar[Reach] = Reach.CLUSTER
    by_class: ClassVar[bool] = True

    def __init__(self, make: Callable[[Cycle], S], arguments: Mapping[str, Any] | None = None) -> None:
        super().__init__(arguments)
        self._states = PerClass(make)

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        boards = self._state(cycle).boards
        return all_true(boards, rows) if boards else np.ones_like(cycle.snapshot.nodes.present[rows])

    def judge(self, cycle: Cycle) -> Callable[[int], bool]:
        return partial(all_true_at, self._state(cycle).boards)

    def boards(self, cycle: Cycle) -> Sequence[Board[np.bool_]]:
        return self._state(cycle).boards

    def domains(self, cycle: Cycle) -> Sequence[Domains]:
        return self._state(cycle).domains

    def _state(self, cycle: Cycle) -> S:
        state: S | None = cycle.notes.get(self.name)
        if state is None:
            state = cycle.notes[self.name] = self._states.of(cycle)
        state.refresh(cycle)
        return state
