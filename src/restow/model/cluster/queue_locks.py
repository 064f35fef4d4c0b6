"""Queue locks: which nodes are kept for the pods of which queue.

Goes in: queues with the nodes that their status shows as locked. Comes out: for every row the queues that it is
locked for, as a number (a cluster has few distinct sets), and for a pod its lock class:

    None    locks do not concern it: there are none, or it is of a DaemonSet
    ""      its queue has no locked nodes, so every locked node refuses it
    a name  its queue, which has locked nodes

So pods of different queues are of different classes only while, and as far as, locks tell them apart. While several
queues show a node as theirs, which lasts for moments at most, it refuses the pods of all queues: whichever queue keeps
the node in the end, no pod of another has been placed there in between.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from restow.model.cluster.node_labels import Ids
from restow.model.cluster.node_table import NodeTable
from restow.model.cluster.owner_chains import OwnerChains
from restow.model.cluster.rows import RowIndex, extended_array
from restow.model.cluster.seen_versions import SeenVersions, version_number
from restow.model.cluster.undo_log import UndoLog
from restow.model.objects import Pod, Queue
from restow.model.pods import is_of_daemon_set
from restow.model.queues import DEFAULT_QUEUE, locked_nodes, queue_name

Holders = tuple[str, ...]
"""The queues that a node is locked for, sorted; empty for most nodes, rarely more than one."""
UNLOCKED = 0
_MIN_SETS = 256
"""How many sets of queues are kept before unused ones are dropped."""


class QueueLocks:
    __slots__ = (
        "_holders_of",
        "_log",
        "_max_sets",
        "_nodes",
        "_nodes_of",
        "_numbers",
        "_owner_chains",
        "_rows_of",
        "_versions",
        "holders",
        "of_row",
        "version",
    )

    def __init__(self, log: UndoLog, nodes: NodeTable, owner_chains: OwnerChains) -> None:
        self._log = log
        self._nodes = nodes
        self._owner_chains = owner_chains
        self._versions = SeenVersions(log)
        self._nodes_of: dict[str, frozenset[str]] = {}
        self._holders_of: dict[str, Holders] = {}
        self._numbers: dict[Holders, int] = {(): UNLOCKED}
        self._rows_of: dict[str, RowIndex] = {}
        self.holders: list[Holders] = [()]
        """The sets of queues by number. Unused ones are dropped when there are many."""
        self._max_sets = _MIN_SETS
        self.of_row: Ids = np.zeros(nodes.rows.capacity, np.int32)
        """The number of the queues that a row is locked for; 0 for a row without a Node."""
        self.version = 0
        """Changes when a queue gets its first locked node or loses its last: lock classes of pods change then."""
        nodes.rows.on_growth(self._grow)

    # --- reading ------------------------------------------------------------------------------------------------------

    def nodes_of(self, queue: str) -> Collection[str]:
        """The nodes locked for a queue, whether they exist or not."""
        return self._nodes_of.get(queue, frozenset())

    def holders_of(self, node: str) -> Holders:
        return self._holders_of.get(node, ())

    def number(self, queue: str) -> int:
        """The number in `of_row` of rows that are locked for this queue alone; -1 if there was never one."""
        return self._numbers.get((queue,), -1)

    def rows_of(self, queue: str) -> RowIndex:
        """The rows that are locked for this queue alone."""
        rows = self._rows_of.get(queue)
        if rows is None:
            rows = self._rows_of[queue] = np.flatnonzero(self.of_row == self.number(queue))
        return rows

    def lock_class_of(self, pod: Pod) -> str | None:
        """The lock class of a pod: see the top of this module."""
        if not self._nodes_of or (pod.metadata.owner_references and is_of_daemon_set(pod)):
            return None
        queue = queue_name(self._owner_chains.group_of(pod), pod) if pod.metadata.annotations else DEFAULT_QUEUE
        return queue if queue in self._nodes_of else ""

    # --- what happens -------------------------------------------------------------------------------------------------

    def apply(self, queue: Queue) -> None:
        """An event shows a queue."""
        if self._is_news(queue, gone=False):
            self._set(queue.metadata.name, locked_nodes(queue))

    def remove(self, queue: Queue) -> None:
        if self._is_news(queue, gone=True):
            self._set(queue.metadata.name, frozenset())

    def node_written(self, row: int, name: str | None) -> None:
        """A Node was written to a row, or removed from it."""
        self._set_row(row, UNLOCKED if name is None else self._intern(self.holders_of(name)))

    # ------------------------------------------------------------------------------------------------------------------

    def _set(self, queue: str, nodes: frozenset[str]) -> None:
        old = self._nodes_of.get(queue, frozenset())
        if old == nodes:
            return
        if not old or not nodes:  # "" becomes the name of the queue, or the other way round: see the top
            self._renew_lock_classes()
        if nodes:
            self._log.put(self._nodes_of, queue, nodes)
        else:
            self._log.drop(self._nodes_of, queue)
        for name in sorted(old ^ nodes):
            self._set_holders(name, tuple(sorted({*self.holders_of(name)} ^ {queue})))
        if len(self.holders) > self._max_sets and not self._log.recording:
            self._renumber()

    def _renumber(self) -> None:
        """Drop the sets that no node is locked for. No row gets other queues by that, so none counts as changed."""
        before, self.holders = self.holders, [(), *sorted({*self._holders_of.values()})]
        self._numbers = {holders: number for number, holders in enumerate(self.holders)}
        numbers = np.array([self._numbers.get(holders, UNLOCKED) for holders in before], np.int32)
        self.of_row = numbers[self.of_row]
        self._max_sets = max(_MIN_SETS, 2 * len(self.holders))

    def _set_holders(self, node: str, holders: Holders) -> None:
        if holders:
            self._log.put(self._holders_of, node, holders)
        else:
            self._log.drop(self._holders_of, node)
        row = self._nodes.rows.find_row(node)
        if row is not None and self._nodes.present[row]:
            self._set_row(row, self._intern(holders))

    def _renew_lock_classes(self) -> None:
        """Change the version; an undo changes it once more, because versions only grow."""
        self._log.record(self._renew_lock_classes)
        self.version += 1

    def _set_row(self, row: int, number: int) -> None:
        old = self.of_row.item(row)
        if old != number:
            self._log.record(self._set_row, row, old)
            self.of_row[row] = number
            self._rows_of.clear()
            self._nodes.changes.touch(row)

    def _intern(self, holders: Holders) -> int:
        number = self._numbers.get(holders)
        if number is None:
            number = self._numbers[holders] = len(self.holders)
            self.holders.append(holders)
        return number

    def _is_news(self, queue: Queue, *, gone: bool) -> bool:
        version = version_number(queue.metadata.resource_version)
        return self._versions.is_news(queue.metadata.name, version, gone=gone)

    def _grow(self, capacity: int) -> None:
        self.of_row = extended_array(self.of_row, capacity)
