"""The parameters by which the API server refuses guarantees, as the data of a ConfigMap.

Goes in: the ceilings, what the cluster has, and the accepted guarantees. Comes out: strings by key. All limits are
computed here, as for the conditions of queues; the policy (`admission_policies`) only has to compute what a guarantee
asks for.

    share_<queue>                 percent of the nodes, as long as the cluster was not counted
    nodes                         how many nodes there are
    total_<resource>              what they have
    nodes_<queue>                 how many nodes a queue's own ceiling allows it
    amount_<queue>_<resource>     how much of a resource it allows
    priorities                    the priorities of accepted guarantees, ascending
    room_<priority>[_<resource>]  how many nodes, and how much, the ceiling of all guarantees leaves to a queue that is
                                  served after everything accepted with this priority or a higher one
    left_<queue>[_<resource>]     the same for a queue that is accepted itself, as long as its priority does not change

An empty queue name stands for every queue without a ceiling of its own, an empty priority for a queue that is served
before all accepted ones. Slashes in keys are replaced. What would be too long for a key, or too much for a ConfigMap,
is left out: then only the condition of the queue says that a guarantee is rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from restow.model.guarantees import ClusterCapacity
from restow.model.quantity import quantity_of
from restow.model.resources import Vector, add_vectors, subtract_vectors
from restow.queues.guarantee_ceilings import GuaranteeCeilings, ceiling_amounts, lowest_percent

MAX_KEY_LENGTH: Final = 253
MAX_QUEUE_NAME_LENGTH: Final = 180
"""For a queue with keys of its own: a key must have room for a resource beside its name."""
_MAX_BYTES_OF_ACCEPTED: Final = 700_000
"""For all keys that depend on the accepted guarantees: a ConfigMap holds one MiB."""

_Entries = Iterator[tuple[str, str]]
"""Keys and values."""


class AcceptedGuarantee(msgspec.Struct, frozen=True):
    queue: str
    priority: int
    amounts: Vector


def admission_parameters(
    ceilings: GuaranteeCeilings, cluster: ClusterCapacity | None = None, accepted: Iterable[AcceptedGuarantee] = ()
) -> dict[str, str]:
    """The data of the ConfigMap. Without a cluster, what holds before the nodes were counted."""
    data = {
        f"share_{queue}": str(min(lowest_percent(ceilings.ceiling_of(queue)), lowest_percent(ceilings.all_queues)))
        for queue in _queue_keys(ceilings)
    }
    if cluster is None:
        return data
    limits = ceiling_amounts(ceilings.all_queues, cluster)
    data |= dict(_own_ceilings(ceilings, cluster)) | dict(_amounts_left("room_", limits, {}, cluster))
    of_accepted = dict(_beside_accepted(limits, cluster, list(accepted)))
    if sum(map(len, [*of_accepted, *of_accepted.values()])) > _MAX_BYTES_OF_ACCEPTED:
        return data
    return data | of_accepted


def _resource_key(resource: str) -> str:
    return resource.replace("/", "_")


def _queue_keys(ceilings: GuaranteeCeilings) -> list[str]:
    return ["", *sorted(ceilings.by_queue)]


def _own_ceilings(ceilings: GuaranteeCeilings, cluster: ClusterCapacity) -> _Entries:
    """What the cluster has, and how much of it the ceilings of single queues allow."""
    yield "nodes", str(cluster.nodes)
    yield from _amount_entries("total", cluster.totals, cluster)
    for queue in _queue_keys(ceilings):
        limits = ceiling_amounts(ceilings.ceiling_of(queue), cluster)
        yield f"nodes_{queue}", str(_max_nodes(limits, cluster))
        yield from _amount_entries(f"amount_{queue}", limits, cluster)


def _beside_accepted(limits: Vector, cluster: ClusterCapacity, accepted: list[AcceptedGuarantee]) -> _Entries:
    """What the ceiling of all guarantees leaves beside the accepted ones, by priority and by queue."""
    taken = _taken_by_priority(accepted)
    if taken:
        yield "priorities", ",".join(map(str, sorted(taken)))
    for priority in sorted(taken):
        yield from _amounts_left(f"room_{priority}", limits, taken[priority], cluster)
    for guarantee in sorted(accepted, key=lambda guarantee: guarantee.queue):
        if len(guarantee.queue) <= MAX_QUEUE_NAME_LENGTH:
            others = subtract_vectors(taken[guarantee.priority], guarantee.amounts)
            yield from _amounts_left(f"left_{guarantee.queue}", limits, others, cluster)


def _taken_by_priority(accepted: list[AcceptedGuarantee]) -> dict[int, Vector]:
    """By priority: what queues of that priority, or of a higher one, take."""
    taken: dict[int, Vector] = {}
    so_far: Vector = {}
    for guarantee in sorted(accepted, key=lambda guarantee: -guarantee.priority):
        so_far = taken[guarantee.priority] = add_vectors(so_far, guarantee.amounts)
    return taken


def _amounts_left(prefix: str, limits: Vector, taken: Vector, cluster: ClusterCapacity) -> _Entries:
    left = {resource: max(limit - taken.get(resource, 0), 0) for resource, limit in limits.items()}
    yield prefix, str(_max_nodes(left, cluster))
    yield from _amount_entries(prefix, left, cluster)


def _amount_entries(prefix: str, amounts: Vector, cluster: ClusterCapacity) -> _Entries:
    """One entry for each resource that some node has."""
    for resource, total in sorted(cluster.totals.items()):
        key = f"{prefix}_{_resource_key(resource)}"
        if total and len(key) <= MAX_KEY_LENGTH:
            yield key, str(quantity_of(resource, amounts.get(resource, 0)))


def _max_nodes(limits: Vector, cluster: ClusterCapacity) -> int:
    """How many nodes may be asked for: the most n with ⌊total × n ÷ all nodes⌋ ≤ limit for every resource."""
    most = [
        ((limits.get(resource, 0) + 1) * cluster.nodes - 1) // total
        for resource, total in cluster.totals.items()
        if total
    ]
    return min([cluster.nodes, *most])
