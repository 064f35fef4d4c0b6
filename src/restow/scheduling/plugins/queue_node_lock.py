"""QueueNodeLock: keeps the pods of other queues off nodes that are locked for a queue.

The status of a queue names its locked nodes (`status.reservation.nodes`). Pods of DaemonSets may run on every node, and
pods that run on a node when it is locked stay there. Results and metrics show the plugin as `NodeReservation`, the name
that Volcano's proposal gives it; the configuration accepts both names.
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import numpy as np

from restow.model.cluster import Mask, Which
from restow.model.cluster.queue_locks import UNLOCKED
from restow.model.counted_nouns import counted_noun
from restow.scheduling.accelerated import QueueLockFilter
from restow.scheduling.framework import SKIP, SUCCESS, Cycle, FilterPlugin, Reach, Refusal, Verdict
from restow.scheduling.plugins.refusals import refusals_of

_MAX_NAMED_QUEUES = 5
"""How many queues a refusal names at most."""


class QueueNodeLock(FilterPlugin, QueueLockFilter):
    name: ClassVar[str] = "NodeReservation"
    other_name: ClassVar[str] = "QueueNodeLock"
    """Accepted by the configuration as well."""
    reach: ClassVar[Reach] = Reach.NODE

    def pre_filter(self, cycle: Cycle) -> Verdict:
        return SKIP if cycle.pod_class.queue_lock_class is None else SUCCESS

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        queue, locks = cycle.pod_class.queue_lock_class, cycle.snapshot.locks
        holders = locks.of_row[rows]
        if queue is None:  # no lock concerns the pod
            return np.ones_like(holders, np.bool_)
        mask: Mask = (holders == UNLOCKED) | (holders == locks.number(queue))
        return mask

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        """One refusal for each queue with locked nodes here; beyond five queues, those with most nodes are named, and
        one refusal counts the others."""
        foreign, numbers = ~self.filter(cycle, rows), cycle.snapshot.locks.of_row[rows]
        counts = Counter(numbers[foreign].tolist())
        by_nodes = sorted(counts, key=lambda number: (-counts[number], number))
        named = by_nodes if len(by_nodes) <= _MAX_NAMED_QUEUES else by_nodes[:_MAX_NAMED_QUEUES]
        refusals = [
            refusal
            for number in named
            for refusal in refusals_of(_reason(cycle, number), foreign & (numbers == number))
        ]
        others = foreign & ~np.isin(numbers, named)
        queues = counted_noun(len(by_nodes) - len(named), "other queue")
        return refusals + refusals_of(f"node(s) were locked for {queues}", others)


def _reason(cycle: Cycle, number: int) -> str:
    queues = cycle.snapshot.locks.holders[number]
    return f"node(s) were locked for queue{'s' if len(queues) > 1 else ''} {' and '.join(queues)}"
