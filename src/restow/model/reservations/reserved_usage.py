"""Holdings: how much room the seats of reservations hold, by namespace and by queue.

Goes in: seats as they begin and cease to hold room. Comes out: sums in base units, kept up to date seat by seat.
"""

from __future__ import annotations

from collections.abc import Iterable

from restow.model.cluster.listing import Amounts, Resources
from restow.model.cluster.undo import UndoLog

Holder = tuple[str, str]
"""A namespace, and a queue as written: "" is the default one."""


class ReservedUsage:
    __slots__ = ("_log", "_resources", "_sums")

    def __init__(self, log: UndoLog, resources: Resources) -> None:
        self._log = log
        self._resources = resources
        self._sums: dict[Holder, dict[int, int]] = {}

    def of_namespace(self, namespace: str) -> dict[str, int]:
        return self._total(holder for holder in self._sums if holder[0] == namespace)

    def by_queue(self) -> dict[str, dict[str, int]]:
        """By the queue as written."""
        queues = dict.fromkeys(queue for _, queue in self._sums)
        return {queue: self._total(holder for holder in self._sums if holder[1] == queue) for queue in queues}

    def add(self, holder: Holder, amounts: Amounts) -> None:
        """A seat holds this much."""
        self._change(holder, amounts, 1)
        self._log.record(self.remove, holder, amounts)

    def remove(self, holder: Holder, amounts: Amounts) -> None:
        """The inverse of `add`."""
        self._change(holder, amounts, -1)
        self._log.record(self.add, holder, amounts)

    def _change(self, holder: Holder, amounts: Amounts, sign: int) -> None:
        sums = self._sums.setdefault(holder, {})
        for column, amount in amounts:
            total = sums.get(column, 0) + sign * amount
            if total:
                sums[column] = total
            else:
                del sums[column]
        if not sums:
            del self._sums[holder]

    def _total(self, holders: Iterable[Holder]) -> dict[str, int]:
        total: dict[str, int] = {}
        for holder in holders:
            for column, amount in self._sums[holder].items():
                name = self._resources.name(column)
                total[name] = total.get(name, 0) + amount
        return total
