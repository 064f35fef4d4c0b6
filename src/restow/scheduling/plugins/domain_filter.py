"""The base of filters that decide by topology domain: for a class of pods, a domain as a whole is accepted or not.

Goes in: how the state of a class is made. Comes out: Filter and its accelerations, from the results and domains of the
state. The refusals, and what the plugin prefers, are left to each plugin.
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
    """What a filter works out for a class of pods."""

    @property
    def filter_results(self) -> Sequence[DomainResults[np.bool_]]:
        """Which domains are accepted; a node must be in an accepted domain of each result."""

    @property
    def domains(self) -> Sequence[Domains]:
        """The topology domains that the plugin tells rows apart by."""

    def refresh(self, cycle: Cycle) -> None:
        """Make the results anew if the terms that they depend on may have changed."""


S = TypeVar("S", bound=DomainState)


class DomainFilterPlugin(FilterPlugin, RowFilter, TopologyDomains, DomainFilter, ClassFilter, Generic[S]):
    reach: ClassVar[Reach] = Reach.CLUSTER

    def __init__(self, make: Callable[[Cycle], S], arguments: Mapping[str, Any] | None = None) -> None:
        super().__init__(arguments)
        self._states = ClassStateCache(make)

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        results = self._state(cycle).filter_results
        return all_true(results, rows) if results else np.ones_like(cycle.snapshot.nodes.present[rows])

    def row_filter(self, cycle: Cycle) -> Callable[[int], bool]:
        return partial(all_true_at, self._state(cycle).filter_results)

    def domain_results(self, cycle: Cycle) -> Sequence[DomainResults[np.bool_]]:
        return self._state(cycle).filter_results

    def domains(self, cycle: Cycle) -> Sequence[Domains]:
        return self._state(cycle).domains

    def _state(self, cycle: Cycle) -> S:
        state: S | None = cycle.state.get(self.name)
        if state is None:
            state = cycle.state[self.name] = self._states.state_of(cycle)
        state.refresh(cycle)
        return state
