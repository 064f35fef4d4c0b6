"""Screens: the best row of a ranking that boards accept, too, where every row is a domain of its own.

Goes in: the keys of a ranking, the boards on which it stands where the pods of a class may go (near nobody whom they
must avoid), which rows have another key now. Comes out: the largest key of the accepted rows. Pods that must not share
a node are refused where the ranking would send them, time and again: so what boards say is kept with the keys, and
looked at again only for rows of which they say something else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from restow.model.cluster import RowIndex
from restow.model.cluster.boards import Board, all_true
from restow.model.cluster.domains import Domains
from restow.model.cluster.rows import Rows
from restow.scheduling.blocks import REFUSED, Blocks, Keys

_FEW = 32
"""More rows than so many are sooner looked at all together."""


def are_alone(domains: Domains) -> bool:
    """Whether no two rows share a domain."""
    domains.refresh()
    return int(domains.sizes[1:].sum()) == domains.number


class Screen:
    __slots__ = ("_blocks", "_boards", "_changed", "_editions", "_keys", "_read", "_row_of", "_rows")

    def __init__(self, boards: Sequence[Board[np.bool_]], keys: Keys, rows: Rows) -> None:
        """The boards' domains have one row each at most; the keys are those of the ranking, now and later."""
        self._boards = boards
        self._keys = keys
        self._rows = rows
        self._blocks = Blocks(len(keys))
        self._renew()

    def best(self) -> int:
        """The largest key of the accepted rows, REFUSED if there is none."""
        if not self._catch_up():
            self._renew()
        return self._blocks.best()

    def changed(self, *rows: int) -> None:
        """The keys of these rows changed."""
        self._changed += rows

    def _catch_up(self) -> bool:
        """Look again at rows whose key or whose domain's values changed; False if these are too many, or unknown."""
        again = self._changed
        for number, board in enumerate(self._boards):
            board.values()
            if board.edition != self._editions[number]:
                return False
            read = self._read[number]
            if len(board.journal) > read:
                row_of = self._row_of[number]
                again += [row_of[domain] for domain in board.journal[read:]]
                self._read[number] = len(board.journal)
        if len(again) > _FEW:
            return False
        for row in dict.fromkeys(again):
            key = self._keys.item(row)
            accepted = key != REFUSED and all(board.seen_at(row) for board in self._boards)
            self._blocks.put(row, key if accepted else REFUSED)
        again.clear()
        return True

    def _renew(self) -> None:
        accepted, size = all_true(self._boards, self._rows.every), self._rows.size
        blocks = self._blocks
        blocks.keys[:size] = np.where(accepted, self._keys[:size], REFUSED)
        blocks.keys[size:] = REFUSED
        blocks.renewed()
        self._changed: list[int] = []
        self._editions = [board.edition for board in self._boards]
        self._read = [len(board.journal) for board in self._boards]
        self._row_of = [_rows_by_domain(board.domains) for board in self._boards]


def _rows_by_domain(domains: Domains) -> list[int]:
    row_of: RowIndex = np.zeros(len(domains.sizes), np.intp)
    row_of[domains.of_row] = np.arange(len(domains.of_row))
    found: list[int] = row_of.tolist()
    return found
