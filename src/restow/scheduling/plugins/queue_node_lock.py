"""NodeReservation: nodes that are locked for a queue are for its pods alone.

Which nodes those are, queues say in their status. Pods of DaemonSets go everywhere, and whoever runs on a node stays.
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import numpy as np

from restow.model.cluster import Mask, Which
from restow.model.cluster.queue_locks import UNLOCKED
from restow.model.words import number_of
from restow.scheduling.accelerated import QueueLockFilter
from restow.scheduling.framework import SKIP, SUCCESS, Cycle, FilterPlugin, Reach, Refusal, Verdict
from restow.scheduling.plugins.refusals import refused

_NAMED = 5
"""How many queues at most a refusal tells apart."""


class NodeReservation(FilterPlugin, QueueLockFilter):
    name: ClassVar[str] = "NodeReservation"
    reach: ClassVar[Reach] = Reach.NODE

    def pre_filter(self, cycle: Cycle) -> Verdict:
        return SKIP if cycle.pod_class.queue_lock_class is None else SUCCESS

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        tenancy, locks = cycle.pod_class.queue_lock_class, cycle.snapshot.locks
        holders = locks.of_row[rows]
        if tenancy is None:
            return np.ones_like(holders, np.bool_)
        mask: Mask = (holders == UNLOCKED) | (holders == locks.number(tenancy))
        return mask

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        """One for each queue with locks here; where these are many, those with most, and one for all the others."""
        foreign, numbers = ~self.filter(cycle, rows), cycle.snapshot.locks.of_row[rows]
        counts = Counter(numbers[foreign].tolist())
        most = sorted(counts, key=lambda number: (-counts[number], number))
        named = most if len(most) <= _NAMED else most[:_NAMED]
        found = [one for number in named for one in refused(_reason(cycle, number), foreign & (numbers == number))]
        others = foreign & ~np.isin(numbers, named)
        queues = number_of(len(most) - len(named), "other queue")
        return found + refused(f"node(s) were locked for {queues}", others)


def _reason(cycle: Cycle, number: int) -> str:
    holders = cycle.snapshot.locks.holders[number]
    return f"node(s) were locked for queue{'s' if len(holders) > 1 else ''} {' and '.join(holders)}"
