"""Event handlers: what every watch event changes in the cache, in the scheduling queue and for reservations.

Goes in: events of the informers. Comes out: a snapshot as fresh as the watches, pending pods and reservations of ours
in the scheduling queue, and a cluster event for the pods that wait there. Pods of other schedulers count on their nodes
and are never queued. Kinds of ours that are not installed have no objects.

    PriorityClass, storage, Queue, ...   the cache (`scheduler_cache`), then the cluster event
    PodGroup                             likewise; only if its spec changed, because its status is our own
    owners of pods                       the cache, then the pods that awaited this owner
    Node                                 `node_updates`, the cluster event
    Pod                                  `pod_updates`, the cluster event, the status of its PodGroup
    Reservation                          `reservation_updates`, the cluster event
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, TypeVar

from restow.client.cache import Change, is_older
from restow.control.scheduler.monotonic_clock import monotonic_time
from restow.control.scheduler.node_updates import NodeUpdates
from restow.control.scheduler.pod_group_status_writer import PodGroupStatusWriter
from restow.control.scheduler.pod_updates import PodUpdates
from restow.control.scheduler.pods_awaiting_owners import PodsAwaitingOwners
from restow.control.scheduler.reservation_updates import ReservationUpdates
from restow.control.scheduler.scheduler_cache import SchedulerCache
from restow.model import kinds
from restow.model.cluster import Occupant
from restow.model.cluster.owner_chains import group_name
from restow.model.kinds import Kind
from restow.model.objects import Node, Pod, PodGroup, Reservation
from restow.scheduling.cluster_events import ActionType, ClusterEvent, EventResource, is_node_unchanged_for_scheduling
from restow.scheduling.queue.scheduling_queue import SchedulingQueue

T = TypeVar("T", Node, Pod)

_ACTIONS = {"ADDED": ActionType.ADDED, "MODIFIED": ActionType.UPDATED, "DELETED": ActionType.DELETED}
_RESOURCES: Final[dict[Kind[Any], EventResource]] = {
    kinds.NAMESPACE: EventResource.NAMESPACE,
    kinds.PERSISTENT_VOLUME: EventResource.VOLUME,
    kinds.PERSISTENT_VOLUME_CLAIM: EventResource.CLAIM,
    kinds.STORAGE_CLASS: EventResource.STORAGE_CLASS,
    kinds.CSI_NODE: EventResource.CSI_NODE,
    kinds.CSI_DRIVER: EventResource.CSI_DRIVER,
    kinds.CSI_STORAGE_CAPACITY: EventResource.CSI_CAPACITY,
    kinds.VOLUME_ATTACHMENT: EventResource.ATTACHMENT,
    kinds.QUEUE: EventResource.QUEUE,
}
"""The kinds of which every change is a cluster event as it is."""


class EventHandlers:
    def __init__(
        self,
        cache: SchedulerCache,
        queue: SchedulingQueue,
        nodes: NodeUpdates,
        pods: PodUpdates,
        reservation_updates: ReservationUpdates,
        awaiting_owners: PodsAwaitingOwners,
        pod_group_status: PodGroupStatusWriter,
    ) -> None:
        self._cache = cache
        self._snapshot = cache.snapshot
        self._queue = queue
        self._nodes = nodes
        self._pods = pods
        self._reservation_updates = reservation_updates
        self._awaiting_owners = awaiting_owners
        self._pod_group_status = pod_group_status
        self._subscriptions = cache.subscriptions
        # The cache subscribed first, so its own handlers have run whenever one of these does.
        for kind, resource in _RESOURCES.items():
            self._subscriptions.subscribe(kind, partial(self._tell_queue, resource))
        for kind in kinds.OWNERS:
            self._subscriptions.subscribe(kind, self._handle_owner)
        self._subscriptions.subscribe(kinds.NODE, self._handle_node)
        self._subscriptions.subscribe(kinds.POD_GROUP, self._handle_pod_group)
        self._subscriptions.subscribe(kinds.RESERVATION, self._handle_reservation)
        self._subscriptions.subscribe(kinds.POD, self._handle_pod)

    async def run(self) -> None:
        """Keep up with the API until cancelled."""
        await self._subscriptions.run()

    async def synced(self) -> None:
        """Wait until everything that exists was seen once."""
        await self._subscriptions.synced()

    # --- handlers -----------------------------------------------------------------------------------------------------

    def _handle_node(self, change: Change[Node]) -> None:
        if (
            change.type == "MODIFIED"
            and change.old is not None
            and is_node_unchanged_for_scheduling(change.old, change.object)
        ):
            # A heartbeat: kubelets write their status every few seconds, which is nothing to try a pod again for.
            self._snapshot.apply_node(change.object)
            return
        if change.type == "DELETED":
            self._nodes.remove_node(_newest_seen(change.object, self._snapshot.node(change.object.metadata.name)))
        else:
            self._nodes.upsert_node(change.object)
        self._tell_queue(EventResource.NODE, change)

    def _handle_pod(self, change: Change[Pod]) -> None:
        pod, old, known = change.object, change.old, self._snapshot.pods.known
        before = known.get(pod.metadata.uid)
        if change.type == "DELETED":
            self._pods.remove_pod(_newest_seen(pod, before.pod if before is not None else None))
        else:
            self._pods.upsert_pod(pod, old)
            after = known.get(pod.metadata.uid)
            if after is not None and pod.spec.node_name:
                if old is None or not old.spec.node_name:
                    self._tell_queue(EventResource.POD, change, ActionType.ADDED)
                elif before is None or _may_help_others(before, after):
                    self._tell_queue(EventResource.POD, change, ActionType.UPDATED)
        if self._cache.is_ours(pod) and group_name(pod) is not None:
            self._pod_group_status.member_changed(pod)

    def _handle_pod_group(self, change: Change[PodGroup]) -> None:
        group, old = change.object, change.old
        if change.type != "MODIFIED" or old is None or not _is_status_update(old, group):
            self._tell_queue(EventResource.POD_GROUP, change)

    def _handle_reservation(self, change: Change[Reservation]) -> None:
        if change.type == "DELETED":
            self._reservation_updates.remove_reservation(change.object)
        else:
            self._reservation_updates.upsert_reservation(change.object)
        self._tell_queue(EventResource.RESERVATION, change)

    def _handle_owner(self, change: Change[Any]) -> None:
        if change.type != "DELETED":
            self._queue.activate(self._awaiting_owners.owner_seen(change.object.metadata), monotonic_time())

    def _tell_queue(self, resource: EventResource, change: Change[Any], action: ActionType | None = None) -> None:
        """Tell the pods that wait of a change; for a pod, being bound is being added to a node."""
        action = action or _ACTIONS[change.type]
        if action is ActionType.DELETED:
            event = ClusterEvent(resource, action, old=change.object)
        elif action is ActionType.ADDED:
            event = ClusterEvent(resource, action, new=change.object)
        else:
            event = ClusterEvent(resource, action, old=change.old, new=change.object)
        self._queue.handle_event(event, monotonic_time())


def _newest_seen(gone: T, cached: T | None) -> T:
    """A deleted object in the newest version that was seen. A relist that misses an object reports it as the informer
    last saw it, while the snapshot may have a newer version from a response to one of our writes."""
    if cached is None or cached.metadata.uid != gone.metadata.uid:
        return gone
    return cached if is_older(gone.metadata.resource_version, cached.metadata.resource_version) else gone


def _is_status_update(old: PodGroup, new: PodGroup) -> bool:
    metadata = old.metadata, new.metadata
    return (
        old.spec == new.spec
        and metadata[0].labels == metadata[1].labels
        and metadata[0].annotations == metadata[1].annotations
    )


def _may_help_others(before: Occupant, after: Occupant) -> bool:
    """Whether a change to a pod on a node may free room, or satisfy or violate the affinity of another pod."""
    labels = before.pod.metadata.labels, after.pod.metadata.labels
    return before.shape is not after.shape or before.leaving != after.leaving or labels[0] != labels[1]
