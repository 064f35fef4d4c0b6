"""The order of the scheduling queue, and whether a pod may stand in it: QueueSort and PreEnqueue.

Goes in: the plugins. Comes out: for each pod its position, or the verdict that keeps it out. An exception of a plugin
becomes a verdict: it must not stop the events of all other pods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from restow.model.objects import Pod
from restow.scheduling.explain import describe_exception, failing_plugin
from restow.scheduling.framework import Code, PreEnqueuePlugin, QueueSortPlugin, Verdict
from restow.scheduling.queue.queued_pod import QueuedPod

Order = Callable[[Pod, float], Any]
"""From a pod and when it was queued to its position: the smaller, the sooner."""


def priority_order(pod: Pod, queued_at: float) -> tuple[int, float, str, str, str]:
    """kube-scheduler's PrioritySort, with names so that there is only one order."""
    metadata = pod.metadata
    return -(pod.spec.priority or 0), queued_at, metadata.namespace or "", metadata.name, metadata.uid


def queue_sort_order(plugin: QueueSortPlugin | None) -> Order:
    """The order of a plugin, with age and names so that there is only one; by priority if there is no plugin."""
    if plugin is None:
        return priority_order

    def order(pod: Pod, queued_at: float) -> Any:
        metadata = pod.metadata
        return plugin.sort_key(pod), queued_at, metadata.namespace or "", metadata.name, metadata.uid

    return order


class QueueAdmission:
    """Admits pods to the queue."""

    def __init__(self, pre_enqueue: Sequence[PreEnqueuePlugin], order: Order) -> None:
        self._pre_enqueue = tuple(pre_enqueue)
        self._order = order
        self._some_position: Any = ()

    def admit(self, entry: QueuedPod) -> bool:
        """Compute the position of a pod, unless a plugin keeps it out; then it is gated by a verdict."""
        entry.gated_by = self._pre_enqueue_verdict(entry.pod) or self.set_position(entry)
        if entry.gated_by is not None:
            entry.refused_by = frozenset([entry.gated_by.plugin])
        return entry.gated_by is None

    def set_position(self, entry: QueuedPod) -> Verdict | None:
        """Compute the position of a pod; or why it cannot be computed, or not be compared with that of another."""
        try:
            position = self._order(entry.pod, entry.queued_at)
            self._some_position = self._some_position or position
            sorted((position, self._some_position))  # a position that cannot be compared would break the heap later
        except Exception as broken:
            return Verdict(Code.ERROR, (describe_exception(broken),), failing_plugin(broken) or "QueueSort")
        entry.position = position
        return None

    def _pre_enqueue_verdict(self, pod: Pod) -> Verdict | None:
        """The verdict of the first plugin that keeps the pod out."""
        for plugin in self._pre_enqueue:
            try:
                verdict = plugin.pre_enqueue(pod)
                if verdict.code is not Code.SUCCESS:
                    return Verdict(verdict.code, verdict.reasons, plugin.name)
            except Exception as broken:
                return Verdict(Code.ERROR, (describe_exception(broken),), plugin.name)
        return None
