"""Queues: which queue a pod is charged to, whether a queue is open, and which nodes are locked for it."""

from __future__ import annotations

from restow.model.objects import Pod, PodGroup, Queue, QueueState

QUEUE_ANNOTATION = "scheduling.volcano.sh/queue-name"
DEFAULT_QUEUE = "default"


def queue_name(group: PodGroup | None, pod: Pod) -> str:
    """The queue that a pod is charged to: that of its PodGroup, else that of its annotation, else the default queue."""
    if group is not None and group.spec.queue:
        return group.spec.queue
    return (pod.metadata.annotations or {}).get(QUEUE_ANNOTATION) or DEFAULT_QUEUE


def is_closed(queue: Queue) -> bool:
    """Whether a queue is closed, with jobs left in it or without."""
    return queue.status.state in (QueueState.CLOSED, QueueState.CLOSING)


def is_open(queue: Queue) -> bool:
    """Whether a queue is neither closed nor being deleted. Nothing is kept for a queue that is not open."""
    return not is_closed(queue) and not queue.metadata.deletion_timestamp


def locked_nodes(queue: Queue | None) -> frozenset[str]:
    """The nodes that a queue's status shows as locked for it; none once it is being deleted."""
    if queue is None or queue.metadata.deletion_timestamp or queue.status.reservation is None:
        return frozenset()
    return frozenset(queue.status.reservation.nodes or ())
