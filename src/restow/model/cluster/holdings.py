"""Holdings: how much room the seats of reservations hold, by namespace and by queue.

Goes in: seats as they begin and cease to hold room. Comes out: sums in base units, kept up to date seat by seat.
"""

from __future__ import annotations

from restow.model.cluster.room import Amounts, Resources
from restow.model.cluster.undo import UndoLog


class Holdings:
    __slots__ = ("_by_namespace", "_by_queue", "_log", "_resources")

    def __init__(self, log: UndoLog, resources: Resources) -> None:
        self._log = log
        self._resources = resources
        self._by_namespace: dict[str, dict[int, int]] = {}
        self._by_queue: dict[str, dict[int, int]] = {}

    def of_namespace(self, namespace: str) -> dict[str, int]:
        return self._named(self._by_namespace.get(namespace, {}))

    def by_queue(self) -> dict[str, dict[str, int]]:
        """By the queue as written; "" is the default one."""
        return {queue: self._named(sums) for queue, sums in self._by_queue.items()}

    def add(self, namespace: str, queue: str, amounts: Amounts) -> None:
        """A seat holds this much."""
        self._change(namespace, queue, amounts, 1)
        self._log.record(self.remove, namespace, queue, amounts)

    def remove(self, namespace: str, queue: str, amounts: Amounts) -> None:
        """The inverse of `add`."""
        self._change(namespace, queue, amounts, -1)
        self._log.record(self.add, namespace, queue, amounts)

    def _change(self, namespace: str, queue: str, amounts: Amounts, sign: int) -> None:
        for table, key in ((self._by_namespace, namespace), (self._by_queue, queue)):
            sums = table.setdefault(key, {})
            for column, amount in amounts:
                total = sums.get(column, 0) + sign * amount
                if total:
                    sums[column] = total
                else:
                    del sums[column]
            if not sums:
                del table[key]

    def _named(self, sums: dict[int, int]) -> dict[str, int]:
        return {self._resources.names[column]: amount for column, amount in sums.items()}
