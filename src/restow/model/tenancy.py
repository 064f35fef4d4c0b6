"""Tenancy: which queue a pod belongs to, and which nodes are kept for a queue."""

from __future__ import annotations

from restow.model.objects import Pod, PodGroup, Queue

QUEUE_ANNOTATION = "scheduling.volcano.sh/queue-name"
DEFAULT_QUEUE = "default"


def queue_name(group: PodGroup | None, pod: Pod) -> str:
    """The queue a pod is charged to: its gang's, else the one it names, else the default one."""
    if group is not None and group.spec.queue:
        return group.spec.queue
    return (pod.metadata.annotations or {}).get(QUEUE_ANNOTATION) or DEFAULT_QUEUE


def locked_nodes(queue: Queue | None) -> frozenset[str]:
    """The nodes that a queue's status shows as locked for it; none once it is being deleted."""
    if queue is None or queue.metadata.deletion_timestamp or queue.status.reservation is None:
        return frozenset()
    return frozenset(queue.status.reservation.nodes or ())
