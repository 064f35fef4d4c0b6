"""The nodes that are locked for each queue with a guarantee, decided anew from what is true now.

Goes in: the capacity of the nodes, the queues, and the present locks. Comes out, for every queue that has or had a
guarantee: the nodes that are locked for it, what is idle on them, and the state of its guarantee in a sentence.

    serving order     by priority; then accepted queues that ask for no more since, so that no queue loses nodes to a
                      newcomer of its priority; then by weight, the larger first; then by name
    candidates        schedulable nodes that are not locked for another queue, and on which no reservation holds a seat
                      for another queue. What a queue gives up, the queues after it may have at once
    released first    a queue that is deleted, closed, without a guarantee or rejected loses its nodes before any queue
                      gets some; so does every queue a node that is gone, cordoned or not ready
    always unlocked   one schedulable node, without taints that keep pods off if there is such a node
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec
import numpy as np

from restow.model.cluster import Mask, RowIndex
from restow.model.counted_nouns import counted_noun
from restow.model.guarantees import (
    ClusterCapacity,
    GuaranteeRejection,
    GuaranteeRequest,
    read_guarantee,
    was_accepted,
)
from restow.model.objects import GuaranteePolicy, Queue
from restow.model.quantity import quantity_of
from restow.model.queues import is_open
from restow.model.resources import CPU, MEMORY, Vector, add_vectors
from restow.queues.guarantee_ceilings import GuaranteeCeilings, ceiling_rejection
from restow.queues.node_capacity import CapacityOfNodes
from restow.queues.node_selection import RELOCK_MARGIN, LockRequest, NodeCosts, NodeSelection, select_nodes

TOTAL_SEARCH_STEPS, MIN_SEARCH_STEPS = 40_000, 200
"""Steps of the exact search: for all queues together, and at least for each."""

_UNLOCKED = -1


class GuaranteeState(StrEnum):
    """The state of a queue's guarantee.

    REJECTED     it is invalid, or above a limit or ceiling: no node is locked
    UNSATISFIED  it is accepted, but no set of nodes is enough now
    SATISFIED    what is idle on the locked nodes, and what the queue uses there, is no less than the request
    RELEASED     there is none any more, or the queue is closed: its nodes are released
    """

    SATISFIED = "GuaranteeSatisfied"
    UNSATISFIED = "GuaranteeUnsatisfied"
    REJECTED = "Rejected"
    RELEASED = "Released"


class LockOptions(msgspec.Struct, frozen=True):
    ceilings: GuaranteeCeilings = GuaranteeCeilings()
    margin: float = RELOCK_MARGIN
    """A locked node is replaced only by nodes that are better by more than this part of the cost."""
    search_steps: int = TOTAL_SEARCH_STEPS


class GuaranteeDecision(msgspec.Struct, frozen=True):
    """The decision about the guarantee of a queue: satisfied, unsatisfied, rejected or released; and the nodes that are
    locked for the queue, none if it was rejected or released."""

    nodes: tuple[str, ...]
    idle: Vector
    """On these nodes together."""
    state: GuaranteeState
    reason: str
    message: str
    policy: GuaranteePolicy = GuaranteePolicy.BEST_EFFORT
    accepted: Vector = {}
    """The accepted amounts: they count against the ceilings."""
    gap: float = 0.0

    @property
    def is_accepted(self) -> bool:
        return self.state in (GuaranteeState.SATISFIED, GuaranteeState.UNSATISFIED)


def decide_locks(
    capacity: CapacityOfNodes,
    queues: Iterable[Queue],
    locked: Mapping[str, Sequence[str]],
    options: LockOptions | None = None,
) -> dict[str, GuaranteeDecision]:
    """The locks as they should be, in the order in which the queues are served. `locked` are the present locks. A queue
    that is being deleted has no lock."""
    return _LockDecision(capacity, queues, options or LockOptions()).run(locked)


def locks_in_status(queues: Iterable[Queue]) -> dict[str, tuple[str, ...]]:
    """The locks that the status of the queues shows."""
    reservations = {queue.metadata.name: queue.status.reservation for queue in queues}
    return {name: tuple(shown.nodes) for name, shown in reservations.items() if shown is not None and shown.nodes}


class _LockDecision:
    def __init__(self, capacity: CapacityOfNodes, queues: Iterable[Queue], options: LockOptions) -> None:
        self._capacity, self._options = capacity, options
        self._costs = NodeCosts(capacity)
        self._cluster = ClusterCapacity(len(capacity.names), capacity.totals())
        existing = (queue for queue in queues if not queue.metadata.deletion_timestamp)
        self._queues = sorted(existing, key=self._serving_order)
        self._locked_for: RowIndex = np.full(len(capacity.names), _UNLOCKED, np.intp)
        """By node: the number of the queue that it is locked for."""
        self._reserving_queues = np.zeros(len(capacity.names), np.intp)
        """By node: for how many queues reservations hold seats there."""
        for nodes in capacity.reserved_nodes.values():
            self._reserving_queues[nodes] += 1

    def run(self, locked: Mapping[str, Sequence[str]]) -> dict[str, GuaranteeDecision]:
        # 1. Read and check all guarantees, so that rejected queues give up their nodes before any queue gets some.
        requests = self._read_requests()
        # 2. Start from the present locks that may stay.
        self._keep_present_locks(requests, locked)
        # 3. Queue by queue: replace its nodes by the best ones that are left.
        accepted = sum(isinstance(request, GuaranteeRequest) for request in requests)
        effort = max(MIN_SEARCH_STEPS, self._options.search_steps // max(accepted, 1))
        locks: dict[str, GuaranteeDecision] = {}
        for number, (queue, request) in enumerate(zip(self._queues, requests, strict=True)):
            name = queue.metadata.name
            if isinstance(request, GuaranteeRequest):
                locks[name] = self._lock_nodes(number, name, request, effort)
            elif isinstance(request, GuaranteeRejection):
                locks[name] = GuaranteeDecision((), {}, GuaranteeState.REJECTED, request.reason, request.message)
            elif locked.get(name):
                locks[name] = GuaranteeDecision((), {}, GuaranteeState.RELEASED, *_release_reason(queue))
        return locks

    def _serving_order(self, queue: Queue) -> tuple[int, bool, int, str]:
        spec, accepted = queue.spec, was_accepted(queue, self._cluster)
        return -(spec.priority or 0), not accepted, -(spec.weight or 1), queue.metadata.name

    def _read_requests(self) -> list[GuaranteeRequest | GuaranteeRejection | None]:
        """For each queue in serving order: its request, why it is rejected, or None without a guarantee."""
        requests: list[GuaranteeRequest | GuaranteeRejection | None] = []
        taken: Vector = {}
        for queue in self._queues:
            request = read_guarantee(queue, self._cluster) if is_open(queue) else None
            if isinstance(request, GuaranteeRequest):
                rejection = ceiling_rejection(
                    queue.metadata.name, request, self._cluster, self._options.ceilings, taken
                )
                request = rejection or request
            if isinstance(request, GuaranteeRequest):
                taken = add_vectors(taken, request.amounts)
            requests.append(request)
        return requests

    def _keep_present_locks(
        self, requests: Sequence[GuaranteeRequest | GuaranteeRejection | None], locked: Mapping[str, Sequence[str]]
    ) -> None:
        """Take over the present locks of accepted queues on schedulable nodes. If two queues show the same node, the
        one that is served first keeps it."""
        node_indices = {name: index for index, name in enumerate(self._capacity.names)}
        for number, (queue, request) in enumerate(zip(self._queues, requests, strict=True)):
            if isinstance(request, GuaranteeRequest):
                for name in sorted(locked.get(queue.metadata.name, ())):
                    node_index = node_indices.get(name)
                    if node_index is None or not self._capacity.schedulable[node_index]:
                        continue
                    if self._locked_for[node_index] == _UNLOCKED:
                        self._locked_for[node_index] = number

    def _lock_nodes(self, number: int, name: str, guarantee: GuaranteeRequest, effort: int) -> GuaranteeDecision:
        locked = self._locked_for == number
        reserved_by_others = self._reserving_queues.copy()
        reserved_by_others[self._capacity.reserved_nodes.get(name, [])] -= 1
        free = self._capacity.schedulable & (self._locked_for == _UNLOCKED)
        candidates = locked | (free & (reserved_by_others == 0))
        # One schedulable node stays unlocked.
        max_nodes = max(int(np.count_nonzero(free | locked)) - 1, 0)
        request = LockRequest(name, guarantee, candidates, np.flatnonzero(locked), max_nodes)
        selection = self._select(request, effort)
        # So does one without taints. If the selection has all of them, select again without the last one.
        untainted = (free | locked) & self._capacity.untainted
        left = np.count_nonzero(untainted) - np.count_nonzero(untainted[list(selection.nodes)])
        if not left and untainted.any():
            candidates[_last_node(untainted & ~locked, untainted)] = False
            request = LockRequest(name, guarantee, candidates, np.flatnonzero(locked & candidates), max_nodes)
            selection = self._select(request, effort)
        nodes = np.array(selection.nodes, np.intp)
        self._locked_for[locked] = _UNLOCKED
        self._locked_for[nodes] = number
        return self._guarantee_decision(name, guarantee, selection, nodes)

    def _select(self, request: LockRequest, effort: int) -> NodeSelection:
        return select_nodes(self._costs, request, margin=self._options.margin, effort=effort)

    # --- the result ---------------------------------------------------------------------------------------------------

    def _guarantee_decision(
        self, name: str, guarantee: GuaranteeRequest, selection: NodeSelection, nodes: RowIndex
    ) -> GuaranteeDecision:
        idle = self._capacity.idle_on(nodes)
        shown = sorted({CPU, MEMORY, *guarantee.dimensions} & idle.keys())
        return GuaranteeDecision(
            nodes=tuple(self._capacity.names[index] for index in selection.nodes),
            idle={resource: idle[resource] for resource in shown},
            state=GuaranteeState.SATISFIED if selection.is_enough else GuaranteeState.UNSATISFIED,
            reason="Satisfied" if selection.is_enough else "Unsatisfied",
            message=self._message_by_nodes(guarantee, selection) or self._message_by_amounts(name, guarantee, nodes),
            policy=guarantee.policy,
            accepted=guarantee.amounts,
            gap=selection.gap,
        )

    def _message_by_nodes(self, guarantee: GuaranteeRequest, selection: NodeSelection) -> str:
        """For a request for a number of nodes; empty for any other."""
        if guarantee.nodes is None:
            return ""
        if guarantee.nodes == 0:
            nodes = counted_noun(self._cluster.nodes, "node")
            return f"no node is locked: the percentage of {nodes} comes to less than one"
        missing = ", ".join(guarantee.missing_dimensions)
        ignored = f", not compared by {missing}, which no node has" if missing else ""
        return f"{len(selection.nodes)} of {guarantee.nodes} nodes are locked{ignored}"

    def _message_by_amounts(self, name: str, guarantee: GuaranteeRequest, nodes: RowIndex) -> str:
        resource_indices = self._capacity.resource_indices(tuple(guarantee.amounts))
        idle = self._capacity.idle[resource_indices][:, nodes].sum(axis=1).tolist()
        used = self._capacity.usage_per_node(name, resource_indices)[:, nodes].sum(axis=1).tolist()
        parts = [
            f"{resource} (asked {quantity_of(resource, amount)}, idle {quantity_of(resource, idle[row])}, "
            f"used by the queue {quantity_of(resource, used[row])})"
            for row, (resource, amount) in enumerate(guarantee.amounts.items())
        ]
        return "; ".join([f"{counted_noun(len(nodes), 'node')} locked", *parts])


def _last_node(*masks: Mask) -> int:
    """The last node of the first mask that has any."""
    return next(int(np.flatnonzero(mask)[-1]) for mask in masks if mask.any())


def _release_reason(queue: Queue) -> tuple[str, str]:
    """Reason and message."""
    if is_open(queue):
        return "NoGuarantee", "the queue asks for no guarantee"
    return "QueueNotOpen", f"the queue is {queue.status.state}"
