"""Room: what nodes offer, what pods and seats request of it, and what is free, as exact integers.

Goes in: amounts in base units (cpu in milli, bytes, counts), one cell at a time. Comes out: one contiguous int64 array
over nodes per resource, `ledger.cells[resource][row]`, the layout that makes vectorised filters fast. The number of
pods is the resource "pods".

Resources that no node has ever offered have no column (see `resource_columns`). What pods on nodes request of them
nevertheless is in `unlisted_requests`, until a node offers some.

Cells hold values up to `LIMIT` exactly; a larger sum is kept as a Python integer beside the array and shows as `LIMIT`,
so that differences of cells cannot wrap around and what was added can always be taken away again. Beyond the limit a
node looks smaller than it is, never larger.

Single cells are read through memoryviews, one per resource, `ledger.at[resource][row]`: that takes a fraction of the
time of an array lookup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster.resource_columns import UNLISTED, Amounts, ResourceColumns
from restow.model.cluster.row_changes import RowChanges
from restow.model.cluster.row_states import RowStates
from restow.model.cluster.rows import Rows, Which, extended_array
from restow.model.cluster.undo_log import UndoLog
from restow.model.cluster.unlisted_requests import UnlistedRequests, has_unlisted
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
        self.at = _memory_lines(self.cells)
        self._beyond: dict[tuple[int, int], int] = {}

    def add(self, row: int, amounts: Amounts, left: Lines | None = None, times: int = 1) -> None:
        """Add amounts `times` over to the sums of a row, and take them from the cells of `left`."""
        at, beyond = self.at, self._beyond
        for column, amount in amounts:
            line = at[column]
            shown = line[row]
            exact = (beyond.pop((column, row), shown) if beyond else shown) + times * amount
            # Two cells of at most 2**60 each can be subtracted in int64; what is larger is kept beside the array.
            if not _LEAST <= exact <= LIMIT:
                beyond[column, row] = exact
                exact = LIMIT if exact > 0 else _LEAST
            line[row] = exact
            if left is not None:
                left[column][row] += shown - exact

    def exact(self, resource: int, row: int) -> int:
        """The exact sum, also beyond the limit."""
        return self._beyond.get((resource, row), self.at[resource][row])

    def grow(self, resources: int, capacity: int) -> None:
        if resources > self.cells.shape[0]:
            more = np.zeros((resources - self.cells.shape[0], self.cells.shape[1]), np.int64)
            self.cells = np.concatenate([self.cells, more])
        if capacity > self.cells.shape[1]:
            self.cells = extended_array(self.cells, capacity)
        self.at = _memory_lines(self.cells)


class Excerpt:
    """Ledgers cut down to some rows; each ledger is cut once, when it is first read."""

    __slots__ = ("_cut", "generation", "rows")

    def __init__(self, rows: Which, generation: int) -> None:
        self.rows = rows
        self.generation = generation
        self._cut: dict[int, NDArray[np.int64]] = {}

    def of(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """A line per resource; not to be written to."""
        excerpt = self._cut.get(id(cells))
        if excerpt is None:
            excerpt = cells[:, self.rows] if isinstance(self.rows, slice) else cells.take(self.rows, axis=1)
            self._cut[id(cells)] = excerpt
        return excerpt


class Room:
    """All ledgers of the nodes.

    allocatable   what nodes offer
    requested     the requests of pods, terminating ones included
    reserved      the requests of reserved pods, and the remainders of seats
    releasing     the part of requested that terminating pods will free
    nonzero       requested and reserved, with the defaults for missing cpu and memory requests that scores use
    free          allocatable - requested - reserved; negative where other schedulers over-committed
    """

    def __init__(self, log: UndoLog, rows: Rows) -> None:
        capacity = rows.capacity
        self._log = log
        self.rows = rows
        self.changes = RowChanges(rows)
        self.resources = ResourceColumns([PODS, CPU, MEMORY, EPHEMERAL_STORAGE])
        columns = len(self.resources)
        self.allocatable = Ledger(columns, capacity)
        self.requested = Ledger(columns, capacity)
        self.reserved = Ledger(columns, capacity)
        self.releasing = Ledger(columns, capacity)
        self.nonzero = Ledger(columns, capacity)
        self.free: NDArray[np.int64] = np.zeros((columns, capacity), np.int64)
        self.free_at = _memory_lines(self.free)
        self._unlisted = UnlistedRequests(self.resources)
        self._excerpt = Excerpt(slice(0), 0)
        self.states = RowStates(rows, _state_lines(self))
        """Which rows offer the same and have the same left, in what filters and scores read."""
        self._offers_version = 0
        """Changes when a node may offer something else."""
        self._offered_range: tuple[tuple[int, int], list[int], list[int]] = ((-1, -1), [], [])
        rows.on_growth(self._grow)

    def column(self, name: str) -> int:
        """The column of a resource, which is made if no node offers it."""
        column = self.resources.column(name)
        self._fit_columns()
        return column

    def excerpt(self, rows: Which) -> Excerpt:
        """The ledgers cut down to some rows, as of now. Filters that read the same rows one after the other share what
        was cut for the first of them."""
        known, generation = self._excerpt, self.changes.generation
        if known.rows is not rows or known.generation != generation:
            known = self._excerpt = Excerpt(rows, generation)
        return known

    def left(self, number: int, row: int, *, after_leaving: bool = False) -> int:
        """What is free of a resource on a row, listed or not; `after_leaving` adds what terminating pods will free."""
        self._fit_columns()
        column = self.resources.column_or_number(number)
        if column < UNLISTED:
            return self.free_at[column][row] + (self.releasing.at[column][row] if after_leaving else 0)
        unlisted = self._unlisted.of(row, column)
        free = -unlisted.get(self.requested, 0) - unlisted.get(self.reserved, 0)
        return free + (unlisted.get(self.releasing, 0) if after_leaving else 0)

    def lacks(self, row: int, amounts: Amounts, *, after_leaving: bool = False) -> bool:
        """Whether any of these resources is over-committed on a row; `after_leaving`: once terminating pods are gone.

        Unlisted resources do not count: only another scheduler can have placed a pod that requests one.
        """
        free, leaving = self.free_at, self.releasing.at if after_leaving else None
        return any(
            amount > 0 and column < UNLISTED and free[column][row] + (leaving[column][row] if leaving else 0) < 0
            for column, amount in amounts
        )

    def is_overdrawn(self, row: int) -> bool:
        """Whether any resource of a row is over-committed."""
        return row in self._unlisted.by_row or any(line[row] < 0 for line in self.free_at)

    def offered_range(self) -> tuple[list[int], list[int]]:
        """The least and the most that any row offers, by resource."""
        state, size = (self._offers_version, self.rows.size), max(self.rows.size, 1)
        if self._offered_range[0] != state:
            cells = self.allocatable.cells[:, :size]
            self._offered_range = (state, cells.min(axis=1).tolist(), cells.max(axis=1).tolist())
        return self._offered_range[1:]

    def set_allocatable(self, row: int, amounts: Amounts) -> None:
        """Replace what a node offers."""
        self._fit_columns()
        old = tuple((column, self.allocatable.exact(column, row)) for column in range(len(self.resources)))
        wanted = dict(amounts)
        differences = tuple((column, wanted.get(column, 0) - before) for column, before in old)
        if not any(difference for _, difference in differences):
            return
        self.allocatable.add(row, differences)
        self._offers_version += 1
        self.free[:, row] = self._left(row)
        self._log.record(self.set_allocatable, row, old)
        self._touch(row)

    def charge(self, ledger: LedgerName, row: int, amounts: Amounts, nonzero: Amounts) -> None:
        """Count one pod, or one reserved pod, on a row."""
        self._count(ledger, row, amounts, nonzero, 1)
        if self._log.recording:
            self._log.record(self.discharge, ledger, row, amounts, nonzero)

    def discharge(self, ledger: LedgerName, row: int, amounts: Amounts, nonzero: Amounts) -> None:
        """The inverse of `charge`."""
        self._count(ledger, row, amounts, nonzero, -1)
        if self._log.recording:
            self._log.record(self.charge, ledger, row, amounts, nonzero)

    def transfer(self, row: int, amounts: Amounts, source: LedgerName, target: LedgerName) -> None:
        """Count in one ledger what was counted in the other. What is free stays the same, so no row counts as changed.
        The amounts must be of resources that have columns."""
        for name, times in ((source, -1), (target, 1)):
            (self.requested if name == "requested" else self.reserved).add(row, amounts, None, times)
        if self._log.recording:
            self._log.record(self.transfer, row, amounts, target, source)

    def lend(self, row: int, amounts: Amounts, times: int = 1) -> None:
        """Show more as free on a row than there is, while a filter is asked about this row; -1 times takes it back.

        This is not recorded as a change. So nothing that caches what it reads by `changes`, `states` or an excerpt may
        read meanwhile, because it would not read again afterwards. Filters of a single row cache nothing.
        """
        free = self.free_at
        for column, amount in amounts:
            free[column][row] += times * amount

    def _count(self, name: LedgerName, row: int, amounts: Amounts, nonzero: Amounts, times: int) -> None:
        if len(self.resources.names) > len(self.free_at):
            self._fit_columns()
        ledger = self.requested if name == "requested" else self.reserved
        if has_unlisted(amounts):
            amounts = self._unlisted.take_out(ledger, row, amounts, times)
        if has_unlisted(nonzero):
            nonzero = self._unlisted.take_out(self.nonzero, row, nonzero, times)
        ledger.add(row, amounts, self.free_at, times)
        self.nonzero.add(row, nonzero, None, times)
        self._touch(row)

    def count_leaving(self, row: int, amounts: Amounts) -> None:
        """Count a pod that is already charged as leaving; with negated amounts, no longer."""
        self._fit_columns()
        listed = self._unlisted.take_out(self.releasing, row, amounts) if has_unlisted(amounts) else amounts
        self.releasing.add(row, listed)
        self._log.record(self.count_leaving, row, negated_amounts(amounts))
        self.changes.touch(row)

    def _grow(self, capacity: int) -> None:
        self._resize(self.free.shape[0], capacity)

    def _fit_columns(self) -> None:
        if len(self.resources.names) > len(self.free):
            self._resize(len(self.resources), self.free.shape[1])
            self._move_listed()

    def _move_listed(self) -> None:
        """Put what was requested of unlisted resources, which have a column by now, into that column."""
        rows: dict[int, None] = {}
        for row, column, ledger, amount in self._unlisted.pop_listed():
            ledger.add(row, ((column, amount),))
            rows[row] = None
        for row in rows:
            self.free[:, row] = self._left(row)
            self._touch(row)

    def _resize(self, resources: int, capacity: int) -> None:
        for ledger in (self.allocatable, self.requested, self.reserved, self.releasing, self.nonzero):
            ledger.grow(resources, capacity)
        self.free = self._left(slice(None))
        self.free_at = _memory_lines(self.free)
        self._offers_version += 1
        self._excerpt = Excerpt(slice(0), 0)
        self.states.renew(_state_lines(self))

    def _touch(self, row: int) -> None:
        self.states.changed(row)
        self.changes.touch(row)

    def _left(self, rows: int | slice) -> NDArray[np.int64]:
        left: NDArray[np.int64] = (
            self.allocatable.cells[:, rows] - self.requested.cells[:, rows] - self.reserved.cells[:, rows]
        )
        return left


def _state_lines(room: Room) -> Lines:
    """The cells that make up the state of a row: see `row_states`."""
    return [*room.allocatable.at, *room.free_at, *room.nonzero.at]


def _memory_lines(cells: NDArray[np.int64]) -> Lines:
    return [line.data for line in cells]


def columns_of(columns: Sequence[int]) -> Columns:
    """Columns as an index; those that follow each other make a slice, which costs no copy."""
    first = columns[0] if columns else 0
    if list(columns) == list(range(first, first + len(columns))):
        return slice(first, first + len(columns))
    return np.array(columns, np.intp)


def negated_amounts(amounts: Iterable[tuple[int, int]]) -> Amounts:
    return tuple((column, -amount) for column, amount in amounts)
