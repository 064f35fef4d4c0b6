"""Rankings: which node is best for pods of one class, kept up to date at the cost of the rows that changed.

Goes in: the NODE and ROW plugins that have a say, and a cycle of any pod of the class. Comes out: one key per row,

    key = (weighted sum of scores, then the node's place in name order, first is best), or -1 where a filter refuses

in one integer, so that the largest key is the best node and ties are broken by name (see `blocks`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster import RowIndex, Snapshot, Which
from restow.model.cluster.boards import Board
from restow.model.cluster.domains import Domains
from restow.scheduling.blocks import REFUSED, Blocks
from restow.scheduling.cells import Cells, too_many
from restow.scheduling.framework import Cycle, FilterPlugin, Reach, ScorePlugin
from restow.scheduling.screens import Screen, are_alone
from restow.scheduling.worths import NOTHING, TIE_BITS, Weighted, Worths, mask_of, weighted_sum

TIE_MASK = (1 << TIE_BITS) - 1


class NameOrder:
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
        order: NameOrder,
        filters: Sequence[FilterPlugin],
        scores: Sequence[Weighted],
        raw: Sequence[ScorePlugin] = (),
    ) -> None:
        """`raw` are plugins whose scores are kept as they are, for whoever normalises them."""
        self._room = snapshot.room.changes
        self._nodes = snapshot.nodes
        self._rows = snapshot.rows
        self._order = order
        self._node_filters = [plugin for plugin in filters if plugin.reach is Reach.NODE]
        row_filters = [plugin for plugin in filters if plugin.reach is Reach.ROW]
        self._room_filters = [plugin for plugin in row_filters if plugin.by_room]
        self._row_filters = [plugin for plugin in row_filters if not plugin.by_room]
        self._node_scores = [(plugin, weight) for plugin, weight in scores if plugin.reach is Reach.NODE]
        row_scores = [(plugin, weight) for plugin, weight in scores if plugin.reach is Reach.ROW]
        self._room_scores = [(plugin, weight) for plugin, weight in row_scores if plugin.by_room]
        self._row_scores = [(plugin, weight) for plugin, weight in row_scores if not plugin.by_room]
        self._node_raw = [plugin for plugin in raw if plugin.reach is Reach.NODE]
        self._row_raw = [plugin for plugin in raw if plugin.reach is Reach.ROW]
        self._cells: Cells | None = None
        self._cells_of: list[tuple[Domains, int]] | None = None
        self._screen: Screen | None = None
        self._screen_of: Sequence[Board[np.bool_]] | None = None
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
                self._ask_nodes(cycle, changed[changed < self._rows.size])
                self._ask_rows(cycle, changed)
                self._cells = self._cells_of = self._screen = self._screen_of = None
            if self._room_seen != room:
                row = self._room.only_since(self._room_seen)
                if row is not None and row < self._rows.size:
                    self._ask_row(row)
                else:
                    self._catch_up(cycle)
        self._room_seen, self._nodes_seen = room, nodes

    def best(self) -> int:
        """The largest key, REFUSED if every row is refused."""
        return self._blocks.best()

    def every(self) -> NDArray[np.int64]:
        """The keys of all rows."""
        return self.keys[: self._rows.size]

    def cells(self, parts: Sequence[Domains]) -> Cells | None:
        """Of rows that the `raw` plugins score alike and that share a domain of each of `parts`; None where that makes
        too many, or rows can change their cell with the pods on them."""
        for part in parts:
            part.refresh()
        wanted = [(part, part.version) for part in parts]
        if wanted != self._cells_of:
            self._cells, self._cells_of = self._make_cells(parts), wanted
        return self._cells

    @property
    def is_screened(self) -> bool:
        """Whether there is a screen by now: it knows the best row sooner than a look at the best key tells."""
        return self._screen is not None

    def screen(self, boards: Sequence[Board[np.bool_]]) -> Screen | None:
        """Of these boards; None unless every row is a domain of its own on all of them."""
        if boards != self._screen_of:
            alone = bool(boards) and all(are_alone(board.domains) for board in boards)
            self._screen = Screen(boards, self.keys, self._rows) if alone else None
            self._screen_of = boards
        return self._screen

    # ------------------------------------------------------------------------------------------------------------------

    def _rebuild(self, cycle: Cycle) -> None:
        self._blocks = Blocks(self._rows.capacity)
        self.keys, self.maxima = self._blocks.keys, self._blocks.maxima
        self._start = np.full(len(self.keys), NOTHING, np.int64)
        self._start_at = self._start.data
        self.raw = {plugin: np.zeros(len(self.keys), np.int64) for plugin in (*self._node_raw, *self._row_raw)}
        self._worths = Worths(cycle, self._room_filters, self._room_scores)
        self._judges = [plugin.judge(cycle) for plugin in self._row_filters]
        self._appraisers = [(plugin.appraise(cycle), weight) for plugin, weight in self._row_scores]
        self._raw_appraisers = [(plugin, plugin.appraise(cycle)) for plugin in self._row_raw]
        size = self._rows.size
        self._ask_nodes(cycle, self._rows.every)
        self.keys[:size] = self._keys_of(cycle, self._rows.every)
        self._blocks.renewed()
        self._cells = self._cells_of = self._screen = self._screen_of = None
        self._order_seen = self._order.version

    def _make_cells(self, parts: Sequence[Domains]) -> Cells | None:
        size = self._rows.size
        if self._row_raw or any(too_many(part.number, size) for part in parts):
            return None
        cells = Cells.of([*self.raw.values(), *(part.of_row for part in parts)], size)
        if cells is not None:
            cells.refresh(self.keys)
        return cells

    def _ask_nodes(self, cycle: Cycle, rows: Which) -> None:
        """What the Node objects alone decide: the keys without what is added for who is there."""
        mask = self._nodes.present[rows]
        for plugin in self._node_filters:
            mask = mask & mask_of(plugin, cycle, rows, len(mask))
        total = weighted_sum(cycle, self._node_scores, rows, mask if isinstance(rows, slice) else None)
        self._start[rows] = np.where(mask, (total << TIE_BITS) | self._order.ties[rows], NOTHING)
        for scorer in self._node_raw:
            self.raw[scorer][rows] = scorer.score(cycle, rows)

    def _catch_up(self, cycle: Cycle) -> None:
        """Look at all rows that changed, one by one where these are very few."""
        few = self._room.few_since(self._room_seen)
        if few is None or max(few) >= self._rows.size:
            self._ask_rows(cycle, self._room.since(self._room_seen))
        else:
            for row in few:
                self._ask_row(row)

    def _ask_rows(self, cycle: Cycle, changed: RowIndex) -> None:
        """What depends on who is there, for the rows that changed; rows beyond the last belong to nobody any more."""
        used = changed
        if np.maximum.reduce(changed, initial=0) >= self._rows.size:
            self.keys[changed] = REFUSED
            used = changed[changed < self._rows.size]
        self.keys[used] = self._keys_of(cycle, used)
        self._blocks.changed(changed)
        if self._cells is not None:
            self._cells.refresh(self.keys)
        if self._screen is not None:
            self._screen.changed(*changed.tolist())

    def _keys_of(self, cycle: Cycle, rows: Which) -> NDArray[np.int64]:
        if isinstance(rows, slice):  # once per class is enough to find out who does not keep the promise
            start = self._start[rows]
            keys = self._worths.of(cycle, rows, start != NOTHING)
        else:
            start = self._start.take(rows)
            keys = self._worths.of(cycle, rows)
        keys += start
        if self._row_filters or self._row_scores:
            self._ask_others(cycle, rows, keys)
        for scorer in self._row_raw:
            self.raw[scorer][rows] = scorer.score(cycle, rows)
        np.maximum(keys, REFUSED, out=keys)
        return keys

    def _ask_others(self, cycle: Cycle, rows: Which, keys: NDArray[np.int64]) -> None:
        """Add what plugins say that look at more than the room of a row."""
        for plugin in self._row_filters:
            keys[~mask_of(plugin, cycle, rows, len(keys))] = NOTHING
        if self._row_scores:
            possible = keys >= 0 if isinstance(rows, slice) else None
            keys += weighted_sum(cycle, self._row_scores, rows, possible) << TIE_BITS

    def _ask_row(self, row: int) -> None:
        """`_ask_rows` for a single row: refused early and without temporary arrays."""
        old = self._blocks.put(row, self._key_of(row))
        if self._cells is not None:
            self._cells.changed(row, old, self.keys)
        if self._screen is not None:
            self._screen.changed(row)

    def _key_of(self, row: int) -> int:
        key = self._start_at[row] + self._worths.of_row(row)
        if key < 0:
            return REFUSED
        for accepts in self._judges:
            if not accepts(row):
                return REFUSED
        for worth, weight in self._appraisers:
            key += weight * worth(row) << TIE_BITS
        for scorer, raw in self._raw_appraisers:
            self.raw[scorer][row] = raw(row)
        return key
