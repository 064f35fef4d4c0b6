"""Locking: the nodes of every queue with a guarantee, decided anew from what is true now.

Goes in: the fleet, the queues, the locks there are. Comes out: for every queue that has or had a guarantee, the nodes
locked for it, what is idle on them, and how its guarantee stands, in a sentence with numbers.

Queues are served by priority; whoever was accepted, and asks for no more than that, comes before newcomers, so that
nobody loses what it has to a queue that is as good; then by weight, the larger first, then name. A node is locked for
one queue at a time, and nobody takes it from a queue that keeps it: nodes locked by another queue, or held by a
reservation for another queue's job, are no candidates. What a queue gives up, the next ones may have at once. Whoever
lost the right to its locks (deleted, closed, no guarantee any more, rejected) loses them before anybody chooses; so
does a node that is gone, cordoned or not ready. Of the schedulable nodes one is always left unlocked, one without
taints that keep pods off where there is any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec
import numpy as np

from restow.model.cluster import Mask, RowIndex
from restow.model.guarantees import ClusterCapacity, GuaranteeRejection, GuaranteeRequest, read_guarantee, was_accepted
from restow.model.objects import GuaranteePolicy, Queue
from restow.model.quantity import quantity_of
from restow.model.queues import is_open
from restow.model.resources import CPU, MEMORY, Vector, add
from restow.model.words import number_of
from restow.queues.guarantee_ceilings import GuaranteeCeilings, ceiling_rejection
from restow.queues.node_capacity import NodeCapacity
from restow.queues.node_selection import RELOCK_MARGIN, LockRequest, NodeCosts, NodeSelection, select_nodes

EFFORT, LEAST_EFFORT = 40_000, 200
"""Steps of exact search: of all queues together, and of each at least."""

_UNLOCKED = -1


class GuaranteeState(StrEnum):
    """How a guarantee stands."""

    SATISFIED = "GuaranteeSatisfied"
    UNSATISFIED = "GuaranteeUnsatisfied"
    REJECTED = "Rejected"
    RELEASED = "Released"


class LockOptions(msgspec.Struct, frozen=True):
    ceilings: GuaranteeCeilings = GuaranteeCeilings()
    margin: float = RELOCK_MARGIN
    """How much better, as part of the cost, what replaces a locked node must be."""
    search_steps: int = EFFORT


class QueueLock(msgspec.Struct, frozen=True):
    """What is locked for a queue, and how its guarantee stands."""

    nodes: tuple[str, ...]
    idle: Vector
    """Idle on these nodes."""
    state: GuaranteeState
    reason: str
    message: str
    policy: GuaranteePolicy = GuaranteePolicy.BEST_EFFORT
    accepted: Vector = {}
    """What is accepted: it counts against ceilings."""
    gap: float = 0.0

    @property
    def is_accepted(self) -> bool:
        return self.state in (GuaranteeState.SATISFIED, GuaranteeState.UNSATISFIED)


def decide_locks(
    fleet: NodeCapacity, queues: Iterable[Queue], present: Mapping[str, Sequence[str]], rules: LockOptions | None = None
) -> dict[str, QueueLock]:
    """The locks as they should be; a queue that is deleted is not among them."""
    return _Pass(fleet, queues, rules or LockOptions()).run(present)


def locks_in_status(queues: Iterable[Queue]) -> dict[str, tuple[str, ...]]:
    """The locks that the queues' status shows."""
    shown = {queue.metadata.name: queue.status.reservation for queue in queues}
    return {name: tuple(lock.nodes) for name, lock in shown.items() if lock is not None and lock.nodes}


class _Pass:
    def __init__(self, fleet: NodeCapacity, queues: Iterable[Queue], rules: LockOptions) -> None:
        self._fleet, self._rules = fleet, rules
        self._appraisal = NodeCosts(fleet)
        self._cluster = ClusterCapacity(len(fleet.names), fleet.totals())
        self._queues = sorted((one for one in queues if not one.metadata.deletion_timestamp), key=self._order)
        self._owner: RowIndex = np.full(len(fleet.names), _UNLOCKED, np.intp)
        """By node, the number of the queue it is locked for."""
        self._holders = np.zeros(len(fleet.names), np.intp)
        for nodes in fleet.seat_nodes.values():
            self._holders[nodes] += 1

    def run(self, present: Mapping[str, Sequence[str]]) -> dict[str, QueueLock]:
        requests = self._requests()
        self._take_over(requests, present)
        accepted = sum(isinstance(request, GuaranteeRequest) for request in requests)
        effort = max(LEAST_EFFORT, self._rules.search_steps // max(accepted, 1))
        locks: dict[str, QueueLock] = {}
        for number, (queue, request) in enumerate(zip(self._queues, requests, strict=True)):
            name = queue.metadata.name
            if isinstance(request, GuaranteeRequest):
                locks[name] = self._lock(number, name, request, effort)
            elif isinstance(request, GuaranteeRejection):
                locks[name] = QueueLock((), {}, GuaranteeState.REJECTED, request.reason, request.message)
            elif present.get(name):
                locks[name] = QueueLock((), {}, GuaranteeState.RELEASED, *_why_released(queue))
        return locks

    def _order(self, queue: Queue) -> tuple[int, bool, int, str]:
        spec, accepted = queue.spec, was_accepted(queue, self._cluster)
        return -(spec.priority or 0), not accepted, -(spec.weight or 1), queue.metadata.name

    def _requests(self) -> list[GuaranteeRequest | GuaranteeRejection | None]:
        requests: list[GuaranteeRequest | GuaranteeRejection | None] = []
        taken: Vector = {}
        for queue in self._queues:
            request = read_guarantee(queue, self._cluster) if is_open(queue) else None
            if isinstance(request, GuaranteeRequest):
                rejection = ceiling_rejection(queue.metadata.name, request, self._cluster, self._rules.ceilings, taken)
                request = rejection or request
            if isinstance(request, GuaranteeRequest):
                taken = add(taken, request.amounts)
            requests.append(request)
        return requests

    def _take_over(
        self, requests: Sequence[GuaranteeRequest | GuaranteeRejection | None], present: Mapping[str, Sequence[str]]
    ) -> None:
        """The locks that may stay; of two queues that show the same node, the first has it."""
        columns = {name: column for column, name in enumerate(self._fleet.names)}
        for number, (queue, request) in enumerate(zip(self._queues, requests, strict=True)):
            if isinstance(request, GuaranteeRequest):
                for name in sorted(present.get(queue.metadata.name, ())):
                    column = columns.get(name)
                    if column is not None and self._owner[column] == _UNLOCKED and self._fleet.schedulable[column]:
                        self._owner[column] = number

    def _lock(self, number: int, name: str, asked: GuaranteeRequest, effort: int) -> QueueLock:
        mine = self._owner == number
        held = self._holders.copy()
        held[self._fleet.seat_nodes.get(name, [])] -= 1
        free = self._fleet.schedulable & (self._owner == _UNLOCKED)
        candidates = mine | (free & (held == 0))
        most = max(int(np.count_nonzero(free | mine)) - 1, 0)
        choice = self._choose(LockRequest(name, asked, candidates, np.flatnonzero(mine), most), effort)
        everybodys = (free | mine) & self._fleet.untainted
        left = np.count_nonzero(everybodys) - np.count_nonzero(everybodys[list(choice.nodes)])
        if not left and everybodys.any():
            candidates[_last(everybodys & ~mine, everybodys)] = False
            choice = self._choose(LockRequest(name, asked, candidates, np.flatnonzero(mine & candidates), most), effort)
        nodes = np.array(choice.nodes, np.intp)
        self._owner[mine] = _UNLOCKED
        self._owner[nodes] = number
        return self._told(name, asked, choice, nodes)

    def _choose(self, wish: LockRequest, effort: int) -> NodeSelection:
        return select_nodes(self._appraisal, wish, margin=self._rules.margin, effort=effort)

    def _told(self, name: str, asked: GuaranteeRequest, choice: NodeSelection, nodes: RowIndex) -> QueueLock:
        idle = self._fleet.idle_on(nodes)
        shown = sorted({CPU, MEMORY, *asked.dimensions} & idle.keys())
        standing = GuaranteeState.SATISFIED if choice.is_enough else GuaranteeState.UNSATISFIED
        return QueueLock(
            nodes=tuple(self._fleet.names[column] for column in choice.nodes),
            idle={each: idle[each] for each in shown},
            state=standing,
            reason="Satisfied" if choice.is_enough else "Unsatisfied",
            message=self._by_nodes(asked, choice) or self._by_amounts(name, asked, nodes),
            policy=asked.policy,
            accepted=asked.amounts,
            gap=choice.gap,
        )

    def _by_nodes(self, asked: GuaranteeRequest, choice: NodeSelection) -> str:
        if asked.nodes == 0:
            nodes = number_of(self._cluster.nodes, "node")
            return f"no node is locked: the percentage of {nodes} comes to less than one"
        told = (
            f", not compared by {', '.join(asked.missing_dimensions)}, which no node has"
            if asked.missing_dimensions
            else ""
        )
        return "" if asked.nodes is None else f"{len(choice.nodes)} of {asked.nodes} nodes are locked{told}"

    def _by_amounts(self, name: str, asked: GuaranteeRequest, nodes: RowIndex) -> str:
        lines = self._fleet.resource_rows(tuple(asked.amounts))
        idle = self._fleet.idle[lines][:, nodes].sum(axis=1).tolist()
        used = self._fleet.usage_per_node(name, lines)[:, nodes].sum(axis=1).tolist()
        parts = [
            f"{each} (asked {quantity_of(each, number)}, idle {quantity_of(each, idle[line])}, "
            f"used by the queue {quantity_of(each, used[line])})"
            for line, (each, number) in enumerate(asked.amounts.items())
        ]
        return f"{len(nodes)} node{'' if len(nodes) == 1 else 's'} locked" + "".join(f"; {part}" for part in parts)


def _last(*masks: Mask) -> int:
    """The last node of the first of these that has any."""
    return next(int(np.flatnonzero(mask)[-1]) for mask in masks if mask.any())


def _why_released(queue: Queue) -> tuple[str, str]:
    if is_open(queue):
        return "NoGuarantee", "the queue asks for no guarantee"
    return "QueueNotOpen", f"the queue is {queue.status.state}"
