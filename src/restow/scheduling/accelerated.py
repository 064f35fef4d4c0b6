"""Optional accelerations of Filter and Score. The built-in plugins use them; a plugin is correct without
any, but one: name the resources that your filter counts (`ResourceFilter`), so that they are checked before a bind.

A plugin takes one by naming its mixin as a base beside `FilterPlugin` or `ScorePlugin`. Each mixin is a promise about
the plugin's answers, and the engine asks less often where it holds. A false promise places pods wrongly.

    mixin              what the plugin promises or offers                       what it is used for
    RowFilter          Filter of one row, without arrays                        rankings, the nominated node
    RowScore           Score of one row, without arrays                         rankings
    RoomOnly           reads nothing of a node but its room                     `ranking.score_cache`
    TopologyDomains    the topology domains that its answer depends on          `ranking.topology_buckets`
    DomainFilter       its answer as one boolean per topology domain            `ranking.mask_cache`
    QueueLockFilter    it is the one filter that reads the queue of a pod       `ranking.queue_ranking`
    ClassFilter        a CLUSTER filter that refuses a whole class of pods      refusals shared within a session
    NodeNameFilter     rows that the pod rules out by node name                 the plugin named in a refusal
    ResourceFilter     the resources that it compares with what is free         the check before a pod is bound

This interface may change with the engine. The stable one is `framework`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from restow.model.cluster import Mask, Which
from restow.model.cluster.domain_results import DomainResults
from restow.model.cluster.resource_columns import Amounts
from restow.model.cluster.topology_domains import Domains
from restow.scheduling.framework import Cycle, FilterPlugin, ScorePlugin

RowPredicate = Callable[[int], bool]
"""From a row to whether it is accepted."""
RowScorer = Callable[[int], int]
"""From a row to its raw score."""


class RowFilter(ABC):
    @abstractmethod
    def row_filter(self, cycle: Cycle) -> RowPredicate:
        """`filter` for one row at a time.

        The predicate of a NODE or ROW plugin is kept for all pods of the class, so it must read the cluster anew at
        each call."""
        ...


class RowScore(ABC):
    @abstractmethod
    def row_score(self, cycle: Cycle) -> RowScorer:
        """`score` for one row at a time; kept for the class like a `row_filter`."""
        ...


class RoomOnly:
    """A ROW plugin that reads nothing of a row but what the node offers and has left. Its answer for one row then holds
    for all rows of the same state of room (`Room.states`)."""


class TopologyDomains(ABC):
    @abstractmethod
    def domains(self, cycle: Cycle) -> Sequence[Domains] | None:
        """The topology domains that the answer of a CLUSTER plugin depends on: rows that share a domain of each are
        accepted alike and score alike. None if the answer depends on anything else this time."""
        ...


class DomainFilter(ABC):
    @abstractmethod
    def domain_results(self, cycle: Cycle) -> Sequence[DomainResults[np.bool_]]:
        """What a CLUSTER filter accepts, by topology domain: a row passes if its domain is true in every result. The
        same list is returned for as long as the results are the same ones."""
        ...


class QueueLockFilter:
    """The filter that accepts the rows which are locked for no queue or for the pod's own queue, and no others. All
    other plugins treat pods that differ in nothing but their queue as one class."""


class ClassFilter:
    """A CLUSTER filter that refuses all pods of a class alike, as NODE and ROW filters always do."""


class NodeNameFilter(ABC):
    @abstractmethod
    def excluded_by_name(self, cycle: Cycle, rows: Which) -> Mask | None:
        """The rows that the pod excludes by naming its nodes (kube-scheduler's PreFilterResult); None if there are
        none. `filter` refuses them, too: this only counts the refusal for this plugin, before any filter."""
        ...


class ResourceFilter(ABC):
    @abstractmethod
    def counted_resources(self, cycle: Cycle) -> Amounts:
        """How much of each resource of a node it counts for the pod; compared once more before the pod is bound."""
        ...


def row_filter_of(plugin: FilterPlugin) -> Callable[[Cycle], RowPredicate]:
    """From a cycle to the plugin's Filter of one row at a time, its own or one made of `filter`."""
    return plugin.row_filter if isinstance(plugin, RowFilter) else partial(_filter_one_row, plugin)


def row_score_of(plugin: ScorePlugin) -> Callable[[Cycle], RowScorer]:
    """From a cycle to the plugin's Score of one row at a time, its own or one made of `score`."""
    return plugin.row_score if isinstance(plugin, RowScore) else partial(_score_one_row, plugin)


def _filter_one_row(plugin: FilterPlugin, cycle: Cycle) -> RowPredicate:
    return lambda row: bool(plugin.filter(cycle, np.array([row], np.intp))[0])


def _score_one_row(plugin: ScorePlugin, cycle: Cycle) -> RowScorer:
    return lambda row: int(plugin.score(cycle, np.array([row], np.intp))[0])
