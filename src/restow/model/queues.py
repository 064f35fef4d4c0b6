"""Tenancy: which queue a pod belongs to, whether a queue is open, and which nodes are kept for it."""

from __future__ import annotations

from restow.model.objects import Pod, PodGroup, Queue, QueueState

QUEUE_ANNOTATION = "scheduling.volcano.sh/queue-name"
DEFAULT_QUEUE = "default"


def queue_name(group: PodGroup | None, pod: Pod) -> str:
    """The queue a pod is charged to: its gang's, else the one it names, else the default one."""
    if group is not None and group.spec.queue:
        return group.spec.queue
    return (pod.metadata.annotations or {}).get(QUEUE_ANNOTATION) or DEFAULT_QUEUE


def is_closed(queue: Queue) -> bool:
    """Whether somebody closed a queue, be there jobs left in it or not."""
    return queue.status.state in (QueueState.CLOSED, QueueState.CLOSING)


def is_open(queue: Queue) -> bool:
    """Whether a queue is there to stay. One that is not needs nothing kept for it."""
    return not is_closed(queue) and not queue.metadata.deletion_timestamp


def locked_nodes(queue: Queue | None) -> frozenset[str]:
    """The nodes that a queue's status shows as locked for it; none once it is being deleted."""
    if queue is None or queue.metadata.deletion_timestamp or queue.status.reservation is None:
        return frozenset()
    return frozenset(queue.status.reservation.nodes or ())
