"""Room: what nodes have, what is asked of them and what is left, as exact integers.

Goes in: amounts in base units (cpu in milli, bytes, counts), one cell at a time. Comes out: one contiguous int64 array
over nodes per resource, `ledger.cells[resource][row]`, the layout that makes vectorised filters fast. The number of
pods is the resource "pods".

Resources that no node has ever offered have no column (see `listing`). What pods on nodes ask of them nevertheless is
kept apart, until a node offers some.

Cells hold values up to `LIMIT` exactly; a larger sum is kept as a Python integer beside the array and shows as `LIMIT`,
so that differences of cells cannot wrap around and what was added can always be taken away again. Beyond the limit a
node looks smaller than it is, never larger.

Whoever wants single cells reads them through memoryviews, one per resource, in a fraction of the time that arrays take:
`ledger.at[resource][row]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster.changes import Changes
from restow.model.cluster.listing import UNLISTED, Amounts, Resources
from restow.model.cluster.rows import Rows, Which, grown
from restow.model.cluster.states import States
from restow.model.cluster.undo import UndoLog
from restow.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS

LIMIT: Final = 2**60
_LEAST: Final = -LIMIT

Columns = slice | NDArray[np.intp]
"""Some resources, as an index into the lines of a ledger."""

Lines = list[memoryview]
"""The cells of an array, by resource and row."""

LedgerName = Literal["requested", "reserved"]


class Ledger:
    """One int64 array over nodes per resource."""

    __slots__ = ("_beyond", "at", "cells")

    def __init__(self, resources: int, capacity: int) -> None:
        self.cells: NDArray[np.int64] = np.zeros((resources, capacity), np.int64)
        self.at = _lines(self.cells)
        self._beyond: dict[tuple[int, int], int] = {}

    def add(self, row: int, amounts: Amounts, left: Lines | None = None, times: int = 1) -> None:
        """Change the sums of a row; cells of `left` change by as much as those here, the other way round."""
        at, beyond = self.at, self._beyond
        for column, amount in amounts:
            line = at[column]
            shown = line[row]
            exact = (beyond.pop((column, row), shown) if beyond else shown) + times * amount
            if not _LEAST <= exact <= LIMIT:
                beyond[column, row] = exact
                exact = LIMIT if exact > 0 else _LEAST
            line[row] = exact
            if left is not None:
                left[column][row] += shown - exact

    def exact(self, resource: int, row: int) -> int:
        """The sum itself, also beyond the limit."""
        return self._beyond.get((resource, row), self.at[resource][row])

    def grow(self, resources: int, capacity: int) -> None:
        if resources > self.cells.shape[0]:
            more = np.zeros((resources - self.cells.shape[0], self.cells.shape[1]), np.int64)
            self.cells = np.concatenate([self.cells, more])
        if capacity > self.cells.shape[1]:
            self.cells = grown(self.cells, capacity)
        self.at = _lines(self.cells)


class Excerpt:
    """Ledgers cut down to some rows, each once."""

    __slots__ = ("_cut", "generation", "rows")

    def __init__(self, rows: Which, generation: int) -> None:
        self.rows = rows
        self.generation = generation
        self._cut: dict[int, NDArray[np.int64]] = {}

    def of(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """A line per resource; not to be written to."""
        found = self._cut.get(id(cells))
        if found is None:
            found = cells[:, self.rows] if isinstance(self.rows, slice) else cells.take(self.rows, axis=1)
            self._cut[id(cells)] = found
        return found


class Room:
    """All ledgers of the nodes.

    allocatable   what nodes offer
    requested     pods on them, terminating ones included
    reserved      seats of reservations that are not taken yet
    releasing     the part of requested that terminating pods are leaving
    nonzero       requested and reserved, with the stand-ins for missing cpu and memory that scores use
    free          allocatable - requested - reserved; negative where others over-committed
    """

    def __init__(self, log: UndoLog, rows: Rows) -> None:
        capacity = rows.capacity
        self._log = log
        self.rows = rows
        self.changes = Changes(rows)
        self.resources = Resources([PODS, CPU, MEMORY, EPHEMERAL_STORAGE])
        columns = len(self.resources)
        self.allocatable = Ledger(columns, capacity)
        self.requested = Ledger(columns, capacity)
        self.reserved = Ledger(columns, capacity)
        self.releasing = Ledger(columns, capacity)
        self.nonzero = Ledger(columns, capacity)
        self.free: NDArray[np.int64] = np.zeros((columns, capacity), np.int64)
        self.free_at = _lines(self.free)
        self._apart: dict[int, dict[int, dict[Ledger, int]]] = {}
        """What is asked for of unlisted resources, by row and number."""
        self._excerpt = Excerpt(slice(0), 0)
        self.states = States(rows, self._state_lines())
        """Which rows offer the same and have the same left, the stand-ins of scores included."""
        self._offers = 0
        self._bounds: tuple[tuple[int, int], list[int], list[int]] = ((-1, -1), [], [])
        rows.on_growth(self._grow)

    def column(self, name: str) -> int:
        """The column of a resource, whether anybody has it or asks for it or not."""
        column = self.resources.column(name)
        self._fit_columns()
        return column

    def excerpt(self, rows: Which) -> Excerpt:
        """What there is to read about some rows, as of now. Who asks about the same rows as the one before finds there
        what was picked out for that one."""
        known, generation = self._excerpt, self.changes.generation
        if known.rows is not rows or known.generation != generation:
            known = self._excerpt = Excerpt(rows, generation)
        return known

    def left(self, number: int, row: int, *, after_leaving: bool = False) -> int:
        """What is free of a resource on a row, listed or not; `after_leaving` counts what terminating pods leave."""
        self._fit_columns()
        column = self.resources.since_listed(number)
        if column < UNLISTED:
            return self.free_at[column][row] + (self.releasing.at[column][row] if after_leaving else 0)
        apart = self._apart.get(row, {}).get(column, {})
        free = -apart.get(self.requested, 0) - apart.get(self.reserved, 0)
        return free + (apart.get(self.releasing, 0) if after_leaving else 0)

    def lacks(self, row: int, amounts: Amounts, *, after_leaving: bool = False) -> bool:
        """Whether more than there is is asked of a row, of any of these resources; `after_leaving`: even once those who
        are terminating have left. What no node has ever offered and a pod was placed for nevertheless is somebody
        else's to account for."""
        free, leaving = self.free_at, self.releasing.at if after_leaving else None
        return any(
            amount > 0 and column < UNLISTED and free[column][row] + (leaving[column][row] if leaving else 0) < 0
            for column, amount in amounts
        )

    def is_overdrawn(self, row: int) -> bool:
        """Whether more is asked for than offered, of anything."""
        return row in self._apart or any(line[row] < 0 for line in self.free_at)

    def offers(self) -> tuple[list[int], list[int]]:
        """Of each resource, the least and the most that any row offers."""
        state, size = (self._offers, self.rows.size), max(self.rows.size, 1)
        if self._bounds[0] != state:
            cells = self.allocatable.cells[:, :size]
            self._bounds = (state, cells.min(axis=1).tolist(), cells.max(axis=1).tolist())
        return self._bounds[1:]

    def set_allocatable(self, row: int, amounts: Amounts) -> None:
        """Replace what a node offers."""
        self._fit_columns()
        old = tuple((column, self.allocatable.exact(column, row)) for column in range(len(self.resources)))
        wanted = dict(amounts)
        differences = tuple((column, wanted.get(column, 0) - before) for column, before in old)
        if not any(difference for _, difference in differences):
            return
        self.allocatable.add(row, differences)
        self._offers += 1
        self.free[:, row] = self._left(row)
        self._log.record(self.set_allocatable, row, old)
        self._touch(row)

    def charge(self, book: LedgerName, row: int, amounts: Amounts, nonzero: Amounts) -> None:
        """Count one pod, or one seat, on a row."""
        self._count(book, row, amounts, nonzero, 1)
        if self._log.recording:
            self._log.record(self.discharge, book, row, amounts, nonzero)

    def discharge(self, book: LedgerName, row: int, amounts: Amounts, nonzero: Amounts) -> None:
        """The inverse of `charge`."""
        self._count(book, row, amounts, nonzero, -1)
        if self._log.recording:
            self._log.record(self.charge, book, row, amounts, nonzero)

    def transfer(self, row: int, amounts: Amounts, source: LedgerName, target: LedgerName) -> None:
        """Count in one book what was counted in the other: what is free stays as it is, so that nobody need look again.
        The amounts are of resources that some node offers."""
        for book, times in ((source, -1), (target, 1)):
            (self.requested if book == "requested" else self.reserved).add(row, amounts, None, times)
        if self._log.recording:
            self._log.record(self.transfer, row, amounts, target, source)

    def lend(self, row: int, amounts: Amounts, times: int = 1) -> None:
        """Show more as free than is, for a question about this row that is asked in between; -1 times takes it back.

        It is no change: whoever keeps what it reads by `changes`, `states` or an excerpt must not look meanwhile, since
        nothing would tell it to look again. Filters that are asked about a single row keep nothing."""
        free = self.free_at
        for column, amount in amounts:
            free[column][row] += times * amount

    def _count(self, book: LedgerName, row: int, amounts: Amounts, nonzero: Amounts, times: int) -> None:
        if len(self.resources.names) > len(self.free_at):
            self._fit_columns()
        ledger = self.requested if book == "requested" else self.reserved
        if _has_unlisted(amounts):
            amounts = self._set_apart(ledger, row, amounts, times)
        if _has_unlisted(nonzero):
            nonzero = self._set_apart(self.nonzero, row, nonzero, times)
        ledger.add(row, amounts, self.free_at, times)
        self.nonzero.add(row, nonzero, None, times)
        self._touch(row)

    def _set_apart(self, ledger: Ledger, row: int, amounts: Amounts, times: int = 1) -> Amounts:
        """Count what is asked for of resources that no node offers; what is left of the amounts has columns."""
        listed = list[tuple[int, int]]()
        for number, amount in amounts:
            column = self.resources.since_listed(number)
            if column < UNLISTED:
                listed.append((column, amount))
            else:
                self._count_apart(ledger, row, column, times * amount)
        return tuple(listed)

    def _count_apart(self, ledger: Ledger, row: int, number: int, amount: int) -> None:
        there = self._apart.setdefault(row, {})
        sums = there.setdefault(number, {})
        sums[ledger] = sums.get(ledger, 0) + amount
        if not sums[ledger]:
            del sums[ledger]
        if not sums:
            del there[number]
        if not there:
            del self._apart[row]

    def leaving(self, row: int, amounts: Amounts) -> None:
        """Count a pod that is already charged as leaving; with negated amounts, no longer."""
        self._fit_columns()
        listed = self._set_apart(self.releasing, row, amounts) if _has_unlisted(amounts) else amounts
        self.releasing.add(row, listed)
        self._log.record(self.leaving, row, negated(amounts))
        self.changes.touch(row)

    def _grow(self, capacity: int) -> None:
        self._resize(self.free.shape[0], capacity)

    def _fit_columns(self) -> None:
        if len(self.resources.names) > len(self.free):
            self._resize(len(self.resources), self.free.shape[1])
            self._count_listed()

    def _count_listed(self) -> None:
        """What was kept apart and has a column by now is put there."""
        for row, number in [(row, number) for row, there in self._apart.items() for number in there]:
            column = self.resources.since_listed(number)
            if column < UNLISTED:
                for ledger, amount in list(self._apart[row][number].items()):
                    self._count_apart(ledger, row, number, -amount)
                    ledger.add(row, ((column, amount),))
                self.free[:, row] = self._left(row)
                self._touch(row)

    def _resize(self, resources: int, capacity: int) -> None:
        for ledger in (self.allocatable, self.requested, self.reserved, self.releasing, self.nonzero):
            ledger.grow(resources, capacity)
        self.free = self._left(slice(None))
        self.free_at = _lines(self.free)
        self._offers += 1
        self._excerpt = Excerpt(slice(0), 0)
        self.states.renew(self._state_lines())

    def _touch(self, row: int) -> None:
        self.states.changed(row)
        self.changes.touch(row)

    def _state_lines(self) -> Lines:
        return [*self.allocatable.at, *self.free_at, *self.nonzero.at]

    def _left(self, rows: int | slice) -> NDArray[np.int64]:
        left: NDArray[np.int64] = (
            self.allocatable.cells[:, rows] - self.requested.cells[:, rows] - self.reserved.cells[:, rows]
        )
        return left


def _has_unlisted(amounts: Amounts) -> bool:
    return bool(amounts) and amounts[-1][0] >= UNLISTED


def _lines(cells: NDArray[np.int64]) -> Lines:
    return [line.data for line in cells]


def columns_of(columns: Sequence[int]) -> Columns:
    """Columns as an index; those that follow each other make a slice, which costs no copy."""
    first = columns[0] if columns else 0
    if list(columns) == list(range(first, first + len(columns))):
        return slice(first, first + len(columns))
    return np.array(columns, np.intp)


def negated(amounts: Iterable[tuple[int, int]]) -> Amounts:
    return tuple((column, -amount) for column, amount in amounts)
