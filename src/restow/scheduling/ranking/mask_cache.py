"""The best row of a ranking that all domain filters accept, if every row is a domain of its own.

Goes in: the keys of a ranking, the results of the domain filters (which nodes are far enough from the pods that a class
must avoid), and which rows have another key now. Comes out: the largest key of the accepted rows.

Pods that must not share a node are refused again and again where the ranking would send them. So what the filters
accept is kept as a mask over the keys, and looked at again only for rows with another key or result.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from restow.model.cluster import RowIndex
from restow.model.cluster.domain_results import DomainResults, all_true
from restow.model.cluster.rows import Rows
from restow.model.cluster.topology_domains import Domains
from restow.scheduling.ranking.key_blocks import REFUSED, KeyBlocks, Keys

_FEW = 32
"""With more changed rows than this, looking at all rows is cheaper than looking at each."""


def has_one_row_per_domain(domains: Domains) -> bool:
    """Whether no two rows share a domain."""
    domains.refresh()
    return int(domains.sizes[1:].sum()) == domains.number


class MaskCache:
    __slots__ = ("_blocks", "_changed", "_editions", "_keys", "_read", "_results", "_row_of", "_rows")

    def __init__(self, results: Sequence[DomainResults[np.bool_]], keys: Keys, rows: Rows) -> None:
        """The domains of the results have one row each at most; the keys are those of the ranking, now and later."""
        self._results = results
        self._keys = keys
        self._rows = rows
        self._blocks = KeyBlocks(len(keys))
        self._renew()

    def best(self) -> int:
        """The largest key of the accepted rows, REFUSED if there is none."""
        if not self._catch_up():
            self._renew()
        return self._blocks.best()

    def keys_changed(self, *rows: int) -> None:
        """The keys of these rows changed."""
        self._changed += rows

    def _catch_up(self) -> bool:
        """Look again at rows with another key or another result of their domain; False if these are too many, or
        unknown."""
        again = self._changed
        for number, result in enumerate(self._results):
            result.values()  # brings the result up to date, and with it its edition and journal
            if result.edition != self._editions[number]:
                return False
            read = self._read[number]
            if len(result.journal) > read:
                row_of = self._row_of[number]
                again += [row_of[domain] for domain in result.journal[read:]]
                self._read[number] = len(result.journal)
        if len(again) > _FEW:
            return False
        for row in dict.fromkeys(again):
            key = self._keys.item(row)
            accepted = key != REFUSED and all(result.seen_at(row) for result in self._results)
            self._blocks.set_key(row, key if accepted else REFUSED)
        again.clear()
        return True

    def _renew(self) -> None:
        accepted, size = all_true(self._results, self._rows.every), self._rows.size
        blocks = self._blocks
        blocks.keys[:size] = np.where(accepted, self._keys[:size], REFUSED)
        blocks.keys[size:] = REFUSED
        blocks.refresh_all()
        self._changed: list[int] = []
        self._editions = [result.edition for result in self._results]
        self._read = [len(result.journal) for result in self._results]
        self._row_of = [_rows_by_domain(result.domains) for result in self._results]


def _rows_by_domain(domains: Domains) -> list[int]:
    row_of: RowIndex = np.zeros(len(domains.sizes), np.intp)
    row_of[domains.of_row] = np.arange(len(domains.of_row))
    rows_found: list[int] = row_of.tolist()
    return rows_found
