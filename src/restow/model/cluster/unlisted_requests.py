"""What pods and seats on nodes request of resources that no node has ever offered.

Such a resource has no column in the ledgers (see `resource_columns`). The sums are kept here, by row and resource
number, until a node offers some; then they go into the column that the resource gets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from restow.model.cluster.resource_columns import UNLISTED, Amounts, ResourceColumns

if TYPE_CHECKING:
    from restow.model.cluster.room import Ledger

_NOTHING: Mapping[Ledger, int] = {}


class UnlistedRequests:
    __slots__ = ("_columns", "by_row")

    def __init__(self, columns: ResourceColumns) -> None:
        self._columns = columns
        self.by_row: dict[int, dict[int, dict[Ledger, int]]] = {}
        """Sums by row, resource number and ledger; without zeros and empty tables."""

    def of(self, row: int, number: int) -> Mapping[Ledger, int]:
        """What is requested of one resource on a row, by ledger."""
        return self.by_row.get(row, {}).get(number, _NOTHING)

    def take_out(self, ledger: Ledger, row: int, amounts: Amounts, times: int = 1) -> Amounts:
        """Count the unlisted part of these amounts here; returns the part that has columns."""
        listed = list[tuple[int, int]]()
        for number, amount in amounts:
            column = self._columns.column_or_number(number)
            if column < UNLISTED:
                listed.append((column, amount))
            else:
                self._add(ledger, row, column, times * amount)
        return tuple(listed)

    def pop_listed(self) -> Iterator[tuple[int, int, Ledger, int]]:
        """(row, column, ledger, amount) of everything that has got a column; it is not counted here any more."""
        for row, number in [(row, number) for row, sums in self.by_row.items() for number in sums]:
            column = self._columns.column_or_number(number)
            if column < UNLISTED:
                for ledger, amount in list(self.by_row[row][number].items()):
                    self._add(ledger, row, number, -amount)
                    yield row, column, ledger, amount

    def _add(self, ledger: Ledger, row: int, number: int, amount: int) -> None:
        by_number = self.by_row.setdefault(row, {})
        sums = by_number.setdefault(number, {})
        sums[ledger] = sums.get(ledger, 0) + amount
        if not sums[ledger]:
            del sums[ledger]
        if not sums:
            del by_number[number]
        if not by_number:
            del self.by_row[row]


def has_unlisted(amounts: Amounts) -> bool:
    """Whether amounts, which are in the order of numbers, have a resource without a column."""
    return bool(amounts) and amounts[-1][0] >= UNLISTED
