"""Reserved usage: how much room the seats of reservations reserve, by namespace and by queue.

Goes in: seats as they begin and cease to reserve room. Comes out: sums in base units, kept up to date seat by seat, for
the share of a namespace and the limits of queues.
"""

from __future__ import annotations

from collections.abc import Iterable

from restow.model.cluster.resource_columns import Amounts, ResourceColumns
from restow.model.cluster.undo_log import UndoLog

ChargedTo = tuple[str, str]
"""A namespace, and a queue as written: "" is the default queue."""


class ReservedUsage:
    __slots__ = ("_log", "_resources", "_sums")

    def __init__(self, log: UndoLog, resources: ResourceColumns) -> None:
        self._log = log
        self._resources = resources
        self._sums: dict[ChargedTo, dict[int, int]] = {}

    def of_namespace(self, namespace: str) -> dict[str, int]:
        """The sum over the seats of a namespace, by the name of the resource."""
        return self._total(charged_to for charged_to in self._sums if charged_to[0] == namespace)

    def by_queue(self) -> dict[str, dict[str, int]]:
        """The sums over the seats of each queue, as it is written, by the name of the resource."""
        queues = dict.fromkeys(queue for _, queue in self._sums)
        return {
            queue: self._total(charged_to for charged_to in self._sums if charged_to[1] == queue) for queue in queues
        }

    def add(self, charged_to: ChargedTo, amounts: Amounts) -> None:
        """A seat reserves this much."""
        self._change(charged_to, amounts, 1)
        self._log.record(self.remove, charged_to, amounts)

    def remove(self, charged_to: ChargedTo, amounts: Amounts) -> None:
        """The inverse of `add`."""
        self._change(charged_to, amounts, -1)
        self._log.record(self.add, charged_to, amounts)

    def _change(self, charged_to: ChargedTo, amounts: Amounts, sign: int) -> None:
        sums = self._sums.setdefault(charged_to, {})
        for column, amount in amounts:
            total = sums.get(column, 0) + sign * amount
            if total:
                sums[column] = total
            else:
                del sums[column]
        if not sums:
            del self._sums[charged_to]

    def _total(self, charged: Iterable[ChargedTo]) -> dict[str, int]:
        total: dict[str, int] = {}
        for charged_to in charged:
            for column, amount in self._sums[charged_to].items():
                name = self._resources.name(column)
                total[name] = total.get(name, 0) + amount
        return total
