"""Node labels as integers: one array of value ids over nodes per label key that a selector reads.

Goes in: the labels of a node, row by row. Comes out: masks for requirements, each decided once per distinct value and
spread over nodes by indexing, and topology domains: the value id of a topology key *is* the domain of a node (0: the
node lacks the key). Columns are made when a key is first read, so other labels cost nothing. Keys that no node has need
no column, so a tenant cannot use up memory by selecting invented keys.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster.rows import Mask, Rows, Which, extended_array
from restow.model.selectors import Requirement

Ids = NDArray[np.int32]
ABSENT = 0


class LabelColumn:
    """The values of one key: `ids[row]` indexes `values`; id 0 is the absent value."""

    __slots__ = ("_ids", "ids", "key", "values")

    def __init__(self, key: str, capacity: int) -> None:
        self.key = key
        self.ids: Ids = np.zeros(capacity, np.int32)
        self.values: list[str | None] = [None]
        self._ids: dict[str, int] = {}

    def set(self, row: int, value: str | None) -> None:
        self.ids[row] = ABSENT if value is None else self.intern(value)

    def intern(self, value: str) -> int:
        value_id = self._ids.get(value)
        if value_id is None:
            value_id = self._ids[value] = len(self.values)
            self.values.append(value)
        return value_id

    def mask(self, requirement: Requirement, ids: Ids) -> Mask:
        """Which of these ids satisfy a requirement on this key."""
        if requirement.operator == "In" and len(requirement.values) == 1:
            equal: Mask = ids == self._ids.get(requirement.values[0], -1)
            return equal
        if len(ids) < len(self.values):
            distinct = {int(value_id): self._satisfies(requirement, int(value_id)) for value_id in ids}
            return np.fromiter((distinct[int(value_id)] for value_id in ids), np.bool_, len(ids))
        verdicts = np.fromiter(
            (self._satisfies(requirement, value_id) for value_id in range(len(self.values))), np.bool_
        )
        mask: Mask = verdicts[ids]
        return mask

    def _satisfies(self, requirement: Requirement, value_id: int) -> bool:
        value = self.values[value_id]
        return requirement.matches({} if value is None else {self.key: value})


class NodeLabels:
    """The label columns that were read, kept up to date with the labels of every row."""

    __slots__ = ("_absent_column", "_carriers", "_columns", "_labels", "_rows")

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._columns: dict[str, LabelColumn] = {}
        self._labels: dict[int, dict[str, str]] = {}
        self._carriers: Counter[str] = Counter()
        """How many rows have a key, by key."""
        self._absent_column = LabelColumn("", rows.capacity)
        """The column of any key that no row has."""
        rows.on_growth(self._grow)

    def column(self, key: str) -> LabelColumn:
        """The column of a key; a new one is made from the known labels."""
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = LabelColumn(key, self._rows.capacity)
            for row, labels in self._labels.items():
                column.set(row, labels.get(key))
        return column

    def known(self, key: str) -> LabelColumn:
        """The column of a key, or the one for all keys that no row has."""
        return self.column(key) if key in self._columns or self._carriers[key] > 0 else self._absent_column

    def write(self, row: int, labels: dict[str, str] | None) -> None:
        """Replace the labels of a row; None for a row without a node."""
        self._carriers.subtract(list(self._labels.get(row, ())))
        self._carriers.update(list(labels or ()))
        if labels is None:
            self._labels.pop(row, None)
        else:
            self._labels[row] = labels
        for key, column in self._columns.items():
            column.set(row, labels.get(key) if labels else None)

    def mask(self, requirement: Requirement, rows: Which) -> Mask:
        """Which of these rows satisfy a requirement."""
        column = self.known(requirement.key)
        return column.mask(requirement, column.ids[rows])

    def _grow(self, capacity: int) -> None:
        for column in (self._absent_column, *self._columns.values()):
            column.ids = extended_array(column.ids, capacity)
