"""Topology domains: which rows are in which domain, and sums per domain: what affinity and spread constraints count.

A domain is the value id of a topology key's label column. Domain 0 is nowhere: it has the rows with a node that lacks
the key or does not count. A change of a pod costs one cell. A change of nodes costs the rows that changed, and when one
of them is in another domain than before, the sums are counted anew.

    Domains      rows -> domains, for one key and the nodes that count
    EachNode     every node a domain of its own, whatever its label says
    DomainSums   sums per domain of the sums per row in `affinity_index`
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster.affinity_index import RowSums
from restow.model.cluster.node_labels import ABSENT
from restow.model.cluster.node_table import NodeTable
from restow.model.cluster.rows import Mask, RowIndex, Which, extended_array

Sums = NDArray[np.int64]
NOWHERE: Final = ABSENT
_JOURNAL_LIMIT = 512


class Domains:
    """The domain of each row. Call `refresh` before reading."""

    def __init__(self, nodes: NodeTable, key: str, counts: Callable[[Which], Mask] | None = None) -> None:
        self._nodes = nodes
        self._key = key
        self._counts = counts
        self._seen = 0
        self.of_row: RowIndex = np.zeros(0, np.intp)
        self.sizes: Sums = np.zeros(1, np.int64)
        """How many rows are in each domain."""
        self.number = 0
        """How many domains have rows."""
        self.version = 0
        """Changes when a row moved to another domain."""

    @property
    def generation(self) -> int:
        """While it stays the same, no node changed, and so no domain."""
        return self._nodes.changes.generation

    def refresh(self) -> None:
        changes, capacity = self._nodes.changes, self._nodes.rows.capacity
        if capacity > len(self.of_row):
            self.of_row = extended_array(self.of_row, capacity)
        if changes.generation == self._seen:
            return
        changed = changes.since(self._seen)
        self._seen = changes.generation
        domains = self._look_up(changed)
        moved = domains != self.of_row[changed]
        if moved.any():
            self.of_row[changed[moved]] = domains[moved]
            self.sizes = np.bincount(self.of_row, minlength=self._number())
            self.number = int(np.count_nonzero(self.sizes[1:]))
            self.version += 1

    def _look_up(self, rows: RowIndex) -> RowIndex:
        ids = self._nodes.labels.known(self._key).ids[rows].astype(np.intp)
        return ids if self._counts is None else np.where(self._counts(rows), ids, NOWHERE)

    def _number(self) -> int:
        return len(self._nodes.labels.known(self._key).values)


class EachNode(Domains):
    """The nodes that have the key, each by itself: domain n + 1 is row n."""

    def _look_up(self, rows: RowIndex) -> RowIndex:
        return np.where(self._nodes.labels.known(self._key).ids[rows] == ABSENT, NOWHERE, rows + 1)

    def _number(self) -> int:
        return self._nodes.rows.capacity + 1


class DomainSums:
    """The sum of the rows' amounts in each domain. Call `refresh` before reading."""

    def __init__(self, domains: Domains, source: RowSums) -> None:
        self.domains = domains
        self.source = source
        self._version = -1
        self._journal: list[int] = []
        self._cut = 0
        self.position = 0
        """Where the journal of changed domains ends."""
        self._histogram: dict[int, int] | None = None
        self._lowest = 0
        self.totals: Sums = np.zeros(1, np.int64)
        self.everywhere = 0
        """The sum over all domains."""
        source.listeners.append(self)

    def refresh(self) -> None:
        self.domains.refresh()
        if self._version != self.domains.version:
            self._recount()

    def add(self, row: int, amount: int) -> None:
        """A row's sum changed by an amount. If nodes have moved between domains, `refresh` counts everything anyway."""
        domains = self.domains
        if self._version != domains.version:
            return
        domain = domains.of_row.item(row) if row < len(domains.of_row) else NOWHERE
        if domain == NOWHERE:
            return
        before = self.totals.item(domain)
        self.totals[domain] = before + amount
        self.everywhere += amount
        self._journal.append(domain)
        self.position += 1
        if len(self._journal) > _JOURNAL_LIMIT:
            self._cut_journal()
        if self._histogram is not None:
            self._rebin(self._histogram, before, before + amount)

    def changed_since(self, position: int) -> Sequence[int] | None:
        """The domains with a sum that changed since a position, with repetitions; None when the journal was cut
        since."""
        return None if position < self._cut else self._journal[position - self._cut :]

    def lowest(self) -> int:
        """The smallest sum of a domain that has rows; 0 if none has."""
        if self._histogram is None:
            values, numbers = np.unique(self.totals[1:][self.domains.sizes[1:] > 0], return_counts=True)
            self._histogram = dict(zip(values.tolist(), numbers.tolist(), strict=True))
            self._lowest = min(self._histogram, default=0)
        return self._lowest

    def _rebin(self, histogram: dict[int, int], before: int, after: int) -> None:
        """One domain has another sum now: keep the histogram and the lowest sum."""
        if histogram[before] == 1:
            del histogram[before]
        else:
            histogram[before] -= 1
        histogram[after] = histogram.get(after, 0) + 1
        if after < self._lowest:
            self._lowest = after
        elif before == self._lowest and before not in histogram:
            self._lowest = min(histogram)

    def _recount(self) -> None:
        by_row = self.source.by_row
        rows = np.fromiter(by_row.keys(), np.intp, len(by_row))
        amounts = np.fromiter(by_row.values(), np.int64, len(by_row))
        known = rows < len(self.domains.of_row)
        self.totals = np.zeros(len(self.domains.sizes), np.int64)
        np.add.at(self.totals, self.domains.of_row[rows[known]], amounts[known])
        self.totals[NOWHERE] = 0
        self.everywhere = int(self.totals.sum())
        self._histogram = None
        self._version = self.domains.version
        self._cut_journal()

    def _cut_journal(self) -> None:
        self.position += 1
        self._cut = self.position
        self._journal.clear()


class Topologies:
    """Domains by topology key and by which nodes count, shared for as long as one plugin holds them."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._known: WeakValueDictionary[tuple[type[Domains], str, Hashable], Domains] = WeakValueDictionary()

    def domains(self, key: str, counts: Callable[[Which], Mask] | None = None, meaning: Hashable = None) -> Domains:
        """The domains of a key, of the nodes that `counts` accepts. Calls with an equal `meaning` share one object, so
        their `counts` must accept the same nodes."""
        domains = self._known.get((Domains, key, meaning))
        if domains is None:
            domains = self._known[Domains, key, meaning] = Domains(self._nodes, key, counts)
        return domains

    def each_node(self, key: str) -> Domains:
        domains = self._known.get((EachNode, key, None))
        if domains is None:
            domains = self._known[EachNode, key, None] = EachNode(self._nodes, key)
        return domains


def domain_sums(domains: Domains, source: RowSums) -> DomainSums:
    """The sums per domain of a source; one object for all callers."""
    for listener in source.listeners:
        if listener.domains is domains:
            return listener
    return DomainSums(domains, source)
