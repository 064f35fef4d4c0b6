"""Parameters: what the API server refuses guarantees by, as the data of a ConfigMap.

Goes in: the ceilings, what the cluster has, which guarantees were accepted. Comes out: texts by key. All limits are
worked out here, as they are for conditions; the policy (`admission`) only has to find out what is asked for.

    share_<queue>                 percent of the nodes, for as long as nobody has counted them
    nodes                         how many there are
    total_<resource>              what they have
    nodes_<queue>                 how many of them its own ceiling lets a queue ask for
    amount_<queue>_<resource>     and how much
    priorities                    of the guarantees that were accepted, ascending
    room_<priority>[_<resource>]  how many nodes, and how much, the ceiling of all guarantees together leaves to a queue
                                  that comes after everything accepted with this priority, or a higher one
    left_<queue>[_<resource>]     the same for a queue that was accepted itself, if its priority stays what it is

Without a name, a queue is any that has no ceiling of its own; without a priority, it comes before everybody. Keys have
no slashes. What would be too long for a key, or too much for a ConfigMap, is left to the queue's condition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from restow.model.guarantees import ClusterCapacity
from restow.model.quantity import quantity_of
from restow.model.resources import Vector, add, subtract
from restow.queues.guarantee_ceilings import GuaranteeCeilings, ceiling_amounts, lowest_percent

LONGEST_KEY: Final = 253
LONGEST_NAME: Final = 180
"""Of a queue that has keys of its own: there must be room for a resource beside it."""
_MOST: Final = 700_000
"""Bytes of what depends on who was accepted: a ConfigMap holds a mebibyte."""

_Said = Iterator[tuple[str, str]]


class AcceptedGuarantee(msgspec.Struct, frozen=True):
    """A guarantee that was accepted."""

    queue: str
    priority: int
    amounts: Vector


def admission_parameters(
    ceilings: GuaranteeCeilings, cluster: ClusterCapacity | None = None, promises: Iterable[AcceptedGuarantee] = ()
) -> dict[str, str]:
    """The data of the ConfigMap; no cluster is one that nobody has looked at."""
    shown = {
        f"share_{queue}": str(min(lowest_percent(ceilings.ceiling_of(queue)), lowest_percent(ceilings.all_queues)))
        for queue in _named(ceilings)
    }
    if cluster is None:
        return shown
    limits = ceiling_amounts(ceilings.all_queues, cluster)
    shown |= dict(_own(ceilings, cluster)) | dict(_left("room_", limits, {}, cluster))
    taken = dict(_beside(limits, cluster, list(promises)))
    return shown if sum(map(len, [*taken, *taken.values()])) > _MOST else shown | taken


def _key(resource: str) -> str:
    return resource.replace("/", "_")


def _named(ceilings: GuaranteeCeilings) -> list[str]:
    return ["", *sorted(ceilings.by_queue)]


def _own(ceilings: GuaranteeCeilings, cluster: ClusterCapacity) -> _Said:
    """What there is, and what the ceilings of single queues leave of it."""
    yield "nodes", str(cluster.nodes)
    yield from _amounts("total", cluster.totals, cluster)
    for queue in _named(ceilings):
        limits = ceiling_amounts(ceilings.ceiling_of(queue), cluster)
        yield f"nodes_{queue}", str(_nodes_within(limits, cluster))
        yield from _amounts(f"amount_{queue}", limits, cluster)


def _beside(limits: Vector, cluster: ClusterCapacity, promises: list[AcceptedGuarantee]) -> _Said:
    """What the ceiling of all guarantees leaves to whom, beside those that were accepted."""
    taken = _taken_by(promises)
    if taken:
        yield "priorities", ",".join(map(str, sorted(taken)))
    for least in sorted(taken):
        yield from _left(f"room_{least}", limits, taken[least], cluster)
    for promise in sorted(promises, key=lambda promise: promise.queue):
        if len(promise.queue) <= LONGEST_NAME:
            others = subtract(taken[promise.priority], promise.amounts)
            yield from _left(f"left_{promise.queue}", limits, others, cluster)


def _taken_by(promises: list[AcceptedGuarantee]) -> dict[int, Vector]:
    """By priority, what was promised to queues of that or of a higher one."""
    taken: dict[int, Vector] = {}
    so_far: Vector = {}
    for promise in sorted(promises, key=lambda promise: -promise.priority):
        so_far = taken[promise.priority] = add(so_far, promise.amounts)
    return taken


def _left(prefix: str, limits: Vector, taken: Vector, cluster: ClusterCapacity) -> _Said:
    left = {name: max(limit - taken.get(name, 0), 0) for name, limit in limits.items()}
    yield prefix, str(_nodes_within(left, cluster))
    yield from _amounts(prefix, left, cluster)


def _amounts(prefix: str, limits: Vector, cluster: ClusterCapacity) -> _Said:
    """By resource that some node has."""
    for name, total in sorted(cluster.totals.items()):
        key = f"{prefix}_{_key(name)}"
        if total and len(key) <= LONGEST_KEY:
            yield key, str(quantity_of(name, limits.get(name, 0)))


def _nodes_within(limits: Vector, cluster: ClusterCapacity) -> int:
    """How many nodes may be asked for: ⌊total × nodes ÷ all nodes⌋ is no more than the limit, of any resource."""
    most = [((limits.get(name, 0) + 1) * cluster.nodes - 1) // total for name, total in cluster.totals.items() if total]
    return min([cluster.nodes, *most])
