"""The nominator: pending pods that have a nominated node, where sessions keep room for them.

Goes in: nominations, decided here or read from `status.nominatedNodeName`. Comes out: the nominated pods, and an event
for the scheduling queue when a nomination ends, because its room is free for others again.
"""

from __future__ import annotations

from msgspec.structs import replace

from restow.control.scheduler.monotonic_clock import monotonic_time
from restow.model.objects import Pod
from restow.scheduling.cluster_events import ActionType, ClusterEvent, EventResource
from restow.scheduling.queue.scheduling_queue import SchedulingQueue


class Nominator:
    def __init__(self, queue: SchedulingQueue) -> None:
        self.pods: dict[str, Pod] = {}
        """Pending pods of ours with their nominated node, by UID."""
        self._queue = queue

    def nominate(self, pod: Pod) -> None:
        """Keep room for a pod on its nominated node, and not on the node that it was nominated to before."""
        uid = pod.metadata.uid
        before = self.pods.get(uid)
        if before is not None and before.status.nominated_node_name != pod.status.nominated_node_name:
            self.end_nomination(uid)
        self.pods[uid] = pod

    def nominate_to(self, pod: Pod, node: str) -> None:
        """The same for a node that was decided here and that the API does not show yet."""
        self.nominate(replace(pod, status=replace(pod.status, nominated_node_name=node)))

    def end_nomination(self, uid: str, node: str | None = None) -> None:
        """Keep no more room for a pod. Pods that wait for room are woken, unless the pod itself is now on `node`, the
        node that it was nominated to."""
        pod = self.pods.pop(uid, None)
        if pod is not None and pod.status.nominated_node_name != node:
            self._queue.handle_event(ClusterEvent(EventResource.POD, ActionType.DELETED, old=pod), monotonic_time())
