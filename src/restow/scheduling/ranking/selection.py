"""The best of the rows that are left, where filters or scores have to see many rows together.

Goes in: a cycle, the `Ranking` of its class, and the active plugins. Comes out: the best key, or REFUSED. If the
topology domains of the plugins leave few distinct rows, only the best row of each bucket is compared, otherwise all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

import msgspec
import numpy as np

from restow.model.cluster import Mask, RowIndex, Which
from restow.model.cluster.topology_domains import Domains
from restow.scheduling.accelerated import DomainFilter, RowPredicate, TopologyDomains, row_filter_of
from restow.scheduling.framework import Cycle, FilterPlugin, Plugin, Reach, ScorePlugin, overrides
from restow.scheduling.ranking.key_blocks import REFUSED, Keys
from restow.scheduling.ranking.mask_cache import MaskCache
from restow.scheduling.ranking.ranking import Ranking
from restow.scheduling.ranking.score_cache import TIE_BITS, Weighted, filter_mask, require_in_range
from restow.scheduling.ranking.topology_buckets import TopologyBuckets

RowFilterMaker = Callable[[Cycle], RowPredicate]


class ActivePlugins(msgspec.Struct, frozen=True):
    """The plugins that take part in a cycle: PreFilter or PreScore did not skip them."""

    filters: tuple[FilterPlugin, ...]
    """Of NODE and ROW reach."""
    scores: tuple[Weighted, ...]
    """Of NODE and ROW reach, without NormalizeScore."""
    cluster_filters: tuple[FilterPlugin, ...]
    cluster_scores: tuple[Weighted, ...]
    """Scores that need all feasible rows: of CLUSTER reach, or with NormalizeScore."""
    cluster_row_filters: tuple[RowFilterMaker, ...]
    """The cluster filters, one row at a time."""
    domain_filters: tuple[DomainFilter, ...] | None
    """The cluster filters, if all of them decide by topology domain."""
    topology: tuple[TopologyDomains, ...] | None
    """All plugins of CLUSTER reach, if each can name the topology domains that it depends on."""

    @classmethod
    def of(cls, filters: Sequence[FilterPlugin], scores: Sequence[Weighted]) -> Self:
        cluster_filters = tuple(plugin for plugin in filters if plugin.reach is Reach.CLUSTER)
        cluster_scores = tuple(pair for pair in scores if needs_all_rows(pair[0]))
        domain_filters = tuple(plugin for plugin in cluster_filters if isinstance(plugin, DomainFilter))
        cluster: list[Plugin] = [*cluster_filters]
        cluster += [plugin for plugin, _ in cluster_scores if plugin.reach is Reach.CLUSTER]
        topology = tuple(plugin for plugin in cluster if isinstance(plugin, TopologyDomains))
        return cls(
            filters=tuple(plugin for plugin in filters if plugin.reach is not Reach.CLUSTER),
            scores=tuple(pair for pair in scores if not needs_all_rows(pair[0])),
            cluster_filters=cluster_filters,
            cluster_scores=cluster_scores,
            cluster_row_filters=tuple(map(row_filter_of, cluster_filters)),
            domain_filters=domain_filters if len(domain_filters) == len(cluster_filters) else None,
            topology=topology if len(topology) == len(cluster) else None,
        )


def needs_all_rows(plugin: ScorePlugin) -> bool:
    """Whether the final score of one row depends on other rows."""
    return plugin.reach is Reach.CLUSTER or overrides(plugin, ScorePlugin, "normalize_score")


def buckets_of(cycle: Cycle, ranking: Ranking, active: ActivePlugins) -> TopologyBuckets | None:
    """The buckets of rows that no CLUSTER plugin tells apart; None if a plugin cannot say so, or they are too many."""
    if active.topology is None:
        return None
    parts: dict[Domains, None] = {}
    for plugin in active.topology:
        domains = plugin.domains(cycle)
        if domains is None:
            return None
        parts.update(dict.fromkeys(domains))
    return ranking.topology_buckets(list(parts))


def mask_cache_of(cycle: Cycle, ranking: Ranking, active: ActivePlugins) -> MaskCache | None:
    """The mask cache of a ranking for the cluster filters; None if one of them does not decide node by node."""
    if active.domain_filters is None:
        return None
    results = [plugin.domain_results(cycle) for plugin in active.domain_filters]
    return ranking.mask_cache(results[0] if len(results) == 1 else [result for each in results for result in each])


def best_by_cluster_scores(cycle: Cycle, ranking: Ranking, active: ActivePlugins, keys: Keys, rows: RowIndex) -> int:
    """The best key of these rows, each of which may stand for a bucket, with the cluster scores added."""
    if active.cluster_filters:
        accepted = filter_rows(cycle, active.cluster_filters, rows)
        keys, rows = keys[accepted], rows[accepted]
    if len(rows) <= 1:  # with a single one there is nothing to compare
        return int(keys.max(initial=REFUSED))
    total = np.zeros(len(rows), np.int64)
    for plugin, weight in active.cluster_scores:
        raw = ranking.raw[plugin][rows] if plugin in ranking.raw else plugin.score(cycle, rows)
        total += weight * require_in_range(plugin, plugin.normalize_score(cycle, raw))
    return int((keys + (total << TIE_BITS)).max())


def filter_rows(cycle: Cycle, filters: Sequence[FilterPlugin], rows: Which) -> Mask:
    """Which of these rows all filters accept; there is at least one filter."""
    count = len(cycle.snapshot.nodes.present[rows]) if isinstance(rows, slice) else len(rows)
    mask = filter_mask(filters[0], cycle, rows, count)
    for plugin in filters[1:]:
        mask = mask & filter_mask(plugin, cycle, rows, count)
    return mask


def filter_row(cycle: Cycle, filters: Sequence[RowFilterMaker], row: int) -> bool:
    """Whether all filters accept one row."""
    for row_filter in filters:  # noqa: SIM110 - a generator costs as much as a filter
        if not row_filter(cycle)(row):
            return False
    return True


def best_accepted_key(cycle: Cycle, ranking: Ranking, filters: Sequence[FilterPlugin], rows: Which) -> int:
    """The best key of those of these rows that all filters accept."""
    accepted = filter_rows(cycle, filters, rows)
    return int(np.where(accepted, ranking.keys[rows], REFUSED).max(initial=REFUSED))
