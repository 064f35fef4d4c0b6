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
from restow.model.cluster.domain_results import DomainResults, all_true, all_true_at
from restow.model.cluster.topology_domains import Domains
from restow.scheduling.accelerated import ClassFilter, DomainFilter, RowFilter, TopologyDomains
from restow.scheduling.framework import Cycle, FilterPlugin, Reach
from restow.scheduling.ranking.class_state import ClassStateCache


class DomainState(Protocol):
    """What is known about a class of pods."""

    @property
    def boards(self) -> Sequence[DomainResults[np.bool_]]:
        """What decides where the pods may go."""

    @property
    def domains(self) -> Sequence[Domains]:
        """What tells rows apart."""

    def refresh(self, cycle: Cycle) -> None:
        """Look again, if something may have changed."""


S = TypeVar("S", bound=DomainState)


class DomainFilterPlugin(FilterPlugin, RowFilter, TopologyDomains, DomainFilter, ClassFilter, Generic[S]):
    reach: ClassVar[Reach] = Reach.CLUSTER

    def __init__(self, make: Callable[[Cycle], S], arguments: Mapping[str, Any] | None = None) -> None:
        super().__init__(arguments)
        self._states = ClassStateCache(make)

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        boards = self._state(cycle).boards
        return all_true(boards, rows) if boards else np.ones_like(cycle.snapshot.nodes.present[rows])

    def row_filter(self, cycle: Cycle) -> Callable[[int], bool]:
        return partial(all_true_at, self._state(cycle).boards)

    def domain_results(self, cycle: Cycle) -> Sequence[DomainResults[np.bool_]]:
        return self._state(cycle).boards

    def domains(self, cycle: Cycle) -> Sequence[Domains]:
        return self._state(cycle).domains

    def _state(self, cycle: Cycle) -> S:
        state: S | None = cycle.state.get(self.name)
        if state is None:
            state = cycle.state[self.name] = self._states.state_of(cycle)
        state.refresh(cycle)
        return state
