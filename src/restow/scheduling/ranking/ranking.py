"""The ranking of all nodes for pods of one class, kept up to date at the cost of the rows that changed.

Goes in: the NODE and ROW plugins that are active, and a cycle of any pod of the class. Comes out: one key per row,

    key = (weighted sum of scores, then the node's place in name order, first is best), or -1 where a filter refuses

in one integer, so that the largest key is the best node and ties are broken by name (see `key_blocks`). The low bits
and the scores of NODE plugins are the node part of a key; it changes only when a Node does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster import RowIndex, Which
from restow.model.cluster.domain_results import DomainResults
from restow.model.cluster.topology_domains import Domains
from restow.model.snapshot import Snapshot
from restow.scheduling.accelerated import RoomOnly, row_filter_of, row_score_of
from restow.scheduling.framework import Cycle, FilterPlugin, Reach, ScorePlugin
from restow.scheduling.ranking.key_blocks import REFUSED, KeyBlocks
from restow.scheduling.ranking.mask_cache import MaskCache, has_one_row_per_domain
from restow.scheduling.ranking.score_cache import (
    NOT_FEASIBLE,
    TIE_BITS,
    ScoreCache,
    Weighted,
    filter_mask,
    weighted_sum,
)
from restow.scheduling.ranking.topology_buckets import TopologyBuckets, too_many_buckets

TIE_MASK = (1 << TIE_BITS) - 1


class NodeNameOrder:
    """The place of every node among all names, as the low bits of a key: larger for earlier names."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._seen = 0
        self._epoch = 0
        self._listed = 0
        self._names: list[str | None] = []
        self._row_of: list[int] = []
        self.ties: NDArray[np.int64] = np.zeros(0, np.int64)
        self.version = 0
        """Changes when a node came or went, and with it the ties of others; or when nodes offer a resource that none of
        them offered before, and what pods ask for is called by other numbers."""

    @property
    def count(self) -> int:
        """How many nodes there are."""
        return len(self._row_of)

    def refresh(self) -> None:
        """Look at the nodes that changed; most changes bring no node and take none."""
        changes, epoch = self._snapshot.nodes.changes, self._snapshot.room.states.epoch
        if self._seen == changes.generation and self._epoch == epoch:
            return
        rows, listed = self._snapshot.rows, len(self._snapshot.room.resources)
        grown = len(self.ties) != rows.capacity or listed != self._listed
        changed = changes.since(self._seen).tolist()
        self._seen, self._epoch, self._listed = changes.generation, epoch, listed
        if grown or any(self._name(row) != self._known_name(row) for row in changed):
            self._order()
            self.version += 1

    def row(self, key: int) -> int:
        """The row a key belongs to."""
        return self._row_of[TIE_MASK - (key & TIE_MASK)]

    def rows(self, keys: NDArray[np.int64]) -> RowIndex:
        """`row` of several keys."""
        rows: RowIndex = self._rows_of[TIE_MASK - (keys & TIE_MASK)]
        return rows

    def _name(self, row: int) -> str | None:
        """The name of the node on a row, None if there is none."""
        rows = self._snapshot.rows
        return rows.name(row) if row < rows.size and self._snapshot.nodes.present.item(row) else None

    def _known_name(self, row: int) -> str | None:
        return self._names[row] if row < len(self._names) else None

    def _order(self) -> None:
        self._names = [self._name(row) for row in range(self._snapshot.rows.size)]
        named = sorted((name, row) for row, name in enumerate(self._names) if name is not None)
        self._row_of = [row for _, row in named]
        self._rows_of: RowIndex = np.array(self._row_of, np.intp)
        self.ties = np.zeros(self._snapshot.rows.capacity, np.int64)
        self.ties[self._row_of] = TIE_MASK - np.arange(len(named))


class Ranking:
    """The keys of one class of pods under one set of plugins."""

    def __init__(
        self,
        snapshot: Snapshot,
        order: NodeNameOrder,
        filters: Sequence[FilterPlugin],
        scores: Sequence[Weighted],
        raw: Sequence[ScorePlugin] = (),
    ) -> None:
        """`raw` are plugins with NormalizeScore: their raw scores are kept per row, and normalised by the caller."""
        self._room = snapshot.room.changes
        self._nodes = snapshot.nodes
        self._rows = snapshot.rows
        self._order = order
        self._node_filters = [plugin for plugin in filters if plugin.reach is Reach.NODE]
        row_filters = [plugin for plugin in filters if plugin.reach is Reach.ROW]
        self._room_filters = [plugin for plugin in row_filters if isinstance(plugin, RoomOnly)]
        self._row_filters = [plugin for plugin in row_filters if not isinstance(plugin, RoomOnly)]
        self._node_scores = [(plugin, weight) for plugin, weight in scores if plugin.reach is Reach.NODE]
        row_scores = [(plugin, weight) for plugin, weight in scores if plugin.reach is Reach.ROW]
        self._room_scores = [(plugin, weight) for plugin, weight in row_scores if isinstance(plugin, RoomOnly)]
        self._row_scores = [(plugin, weight) for plugin, weight in row_scores if not isinstance(plugin, RoomOnly)]
        self._node_raw = [plugin for plugin in raw if plugin.reach is Reach.NODE]
        self._row_raw = [plugin for plugin in raw if plugin.reach is Reach.ROW]
        self._buckets: TopologyBuckets | None = None
        self._buckets_of: list[tuple[Domains, int]] | None = None
        self._mask_cache: MaskCache | None = None
        self._mask_cache_of: Sequence[DomainResults[np.bool_]] | None = None
        self._order_seen = -1
        self._room_seen = -1
        self._nodes_seen = -1

    def refresh(self, cycle: Cycle) -> None:
        """Bring the keys up to date for the cluster as it is now."""
        room, nodes = self._room.generation, self._nodes.changes.generation
        if self._order_seen != self._order.version or len(self.keys) < self._rows.size:
            self._rebuild(cycle)
        else:
            if self._nodes_seen != nodes:
                changed = self._nodes.changes.since(self._nodes_seen)
                self._update_node_part(cycle, changed[changed < self._rows.size])
                self._update_rows(cycle, changed)
                self._drop_derived()
            if self._room_seen != room:
                row = self._room.only_since(self._room_seen)
                if row is not None and row < self._rows.size:
                    self._update_row(row)
                else:
                    self._catch_up(cycle)
        self._room_seen, self._nodes_seen = room, nodes

    def best(self) -> int:
        """The largest key, REFUSED if every row is refused."""
        return self._blocks.best()

    def all_keys(self) -> NDArray[np.int64]:
        """The keys of all rows."""
        return self.keys[: self._rows.size]

    def topology_buckets(self, parts: Sequence[Domains]) -> TopologyBuckets | None:
        """Buckets of rows that the `raw` plugins score alike and that share a domain of each of `parts`; None if these
        are too many, or rows can change their bucket with the pods on them."""
        for part in parts:
            part.refresh()
        wanted = [(part, part.version) for part in parts]
        if wanted != self._buckets_of:
            self._buckets, self._buckets_of = self._make_buckets(parts), wanted
        return self._buckets

    @property
    def has_mask_cache(self) -> bool:
        """Whether there is a mask cache by now: it knows the best row sooner than a look at the best key tells."""
        return self._mask_cache is not None

    def mask_cache(self, results: Sequence[DomainResults[np.bool_]]) -> MaskCache | None:
        """The mask cache for these results; None unless every row is a domain of its own in all of them."""
        if results != self._mask_cache_of:
            one_row_each = bool(results) and all(has_one_row_per_domain(result.domains) for result in results)
            self._mask_cache = MaskCache(results, self.keys, self._rows) if one_row_each else None
            self._mask_cache_of = results
        return self._mask_cache

    # --- all rows -----------------------------------------------------------------------------------------------------

    def _rebuild(self, cycle: Cycle) -> None:
        self._blocks = KeyBlocks(self._rows.capacity)
        self.keys, self.maxima = self._blocks.keys, self._blocks.maxima
        self._node_part = np.full(len(self.keys), NOT_FEASIBLE, np.int64)
        self._node_part_at = self._node_part.data
        self.raw = {plugin: np.zeros(len(self.keys), np.int64) for plugin in (*self._node_raw, *self._row_raw)}
        self._score_cache = ScoreCache(cycle, self._room_filters, self._room_scores)
        self._accepts_row = [row_filter_of(plugin)(cycle) for plugin in self._row_filters]
        self._score_of_row = [(row_score_of(plugin)(cycle), weight) for plugin, weight in self._row_scores]
        self._raw_of_row = [(plugin, row_score_of(plugin)(cycle)) for plugin in self._row_raw]
        size = self._rows.size
        self._update_node_part(cycle, self._rows.every)
        self.keys[:size] = self._keys_of(cycle, self._rows.every)
        self._blocks.refresh_all()
        self._drop_derived()
        self._order_seen = self._order.version

    def _drop_derived(self) -> None:
        """Buckets and masks hold rows by the Nodes on them, so that they are made anew when a Node changed."""
        self._buckets = self._buckets_of = self._mask_cache = self._mask_cache_of = None

    def _make_buckets(self, parts: Sequence[Domains]) -> TopologyBuckets | None:
        size = self._rows.size
        if self._row_raw or any(too_many_buckets(part.number, size) for part in parts):
            return None
        buckets = TopologyBuckets.of([*self.raw.values(), *(part.of_row for part in parts)], size)
        if buckets is not None:
            buckets.refresh(self.keys)
        return buckets

    # --- rows that changed --------------------------------------------------------------------------------------------

    def _update_node_part(self, cycle: Cycle, rows: Which) -> None:
        """The part of the keys that the Node objects alone decide."""
        mask = self._nodes.present[rows]
        for plugin in self._node_filters:
            mask = mask & filter_mask(plugin, cycle, rows, len(mask))
        total = weighted_sum(cycle, self._node_scores, rows, mask if isinstance(rows, slice) else None)
        self._node_part[rows] = np.where(mask, (total << TIE_BITS) | self._order.ties[rows], NOT_FEASIBLE)
        for scorer in self._node_raw:
            self.raw[scorer][rows] = scorer.score(cycle, rows)

    def _catch_up(self, cycle: Cycle) -> None:
        """Update all rows with changed room, one by one if they are very few."""
        few = self._room.few_since(self._room_seen)
        if few is None or max(few) >= self._rows.size:
            self._update_rows(cycle, self._room.since(self._room_seen))
        else:
            for row in few:
                self._update_row(row)

    def _update_rows(self, cycle: Cycle, changed: RowIndex) -> None:
        """The keys of the rows that changed; rows beyond the last have no Node any more."""
        used = changed
        if np.maximum.reduce(changed, initial=0) >= self._rows.size:
            self.keys[changed] = REFUSED
            used = changed[changed < self._rows.size]
        self.keys[used] = self._keys_of(cycle, used)
        self._blocks.refresh_blocks_of(changed)
        if self._buckets is not None:
            self._buckets.refresh(self.keys)
        if self._mask_cache is not None:
            self._mask_cache.keys_changed(*changed.tolist())

    def _keys_of(self, cycle: Cycle, rows: Which) -> NDArray[np.int64]:
        if isinstance(rows, slice):  # scores are checked once per class, when all rows are asked about
            node_part = self._node_part[rows]
            keys = self._score_cache.of_rows(cycle, rows, node_part != NOT_FEASIBLE)
        else:
            node_part = self._node_part.take(rows)
            keys = self._score_cache.of_rows(cycle, rows)
        keys += node_part
        if self._row_filters or self._row_scores:
            self._add_row_part(cycle, rows, keys)
        for scorer in self._row_raw:
            self.raw[scorer][rows] = scorer.score(cycle, rows)
        np.maximum(keys, REFUSED, out=keys)
        return keys

    def _add_row_part(self, cycle: Cycle, rows: Which, keys: NDArray[np.int64]) -> None:
        """Add the answers of plugins that read more of a row than its room."""
        for plugin in self._row_filters:
            keys[~filter_mask(plugin, cycle, rows, len(keys))] = NOT_FEASIBLE
        if self._row_scores:
            possible = keys >= 0 if isinstance(rows, slice) else None
            keys += weighted_sum(cycle, self._row_scores, rows, possible) << TIE_BITS

    def _update_row(self, row: int) -> None:
        """`_update_rows` for a single row, without temporary arrays."""
        old = self._blocks.set_key(row, self._key_of(row))
        if self._buckets is not None:
            self._buckets.key_changed(row, old, self.keys)
        if self._mask_cache is not None:
            self._mask_cache.keys_changed(row)

    def _key_of(self, row: int) -> int:
        key = self._node_part_at[row] + self._score_cache.of_row(row)
        if key < 0:
            return REFUSED
        for accepts in self._accepts_row:
            if not accepts(row):
                return REFUSED
        for score_of, weight in self._score_of_row:
            key += weight * score_of(row) << TIE_BITS
        for scorer, raw_of in self._raw_of_row:
            self.raw[scorer][row] = raw_of(row)
        return key
