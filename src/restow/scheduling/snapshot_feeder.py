"""The snapshot feeder: one table that says where an object of each kind goes.

Goes in: objects as the API shows them, or as they were written into a file, and deletions. Comes out: a snapshot and a
PodGroup cache that agree with each other.

    kind                                              snapshot   PodGroup cache
    Namespace, Node, Reservation, storage kinds       x
    kinds that own pods (ReplicaSet, Job, ...)        x (their metadata)
    PriorityClass                                                x
    PodGroup, Pod                                     x          x
    Queue                                             x (locks)  x

The live view of every controller (`control.view`) and the cluster of a snapshot file (`snapshots.offline`) use the same
table, so both see the same cluster. An object that cannot be read, for example because of its amounts, raises
QuantityError: it is then not in the snapshot, or there as it was before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from restow.model import kinds
from restow.model.cluster.storage import StorageObject
from restow.model.kinds import Kind
from restow.model.objects import Pod, PodGroup, Queue
from restow.model.snapshot import Snapshot
from restow.scheduling.pod_group_cache import PodGroupCache

PutObject = Callable[[Any], object]


class ObjectSink(msgspec.Struct, frozen=True):
    """Where objects of one kind go."""

    put: PutObject
    remove: PutObject


class SnapshotFeeder:
    """Keeps `snapshot` and `pod_groups` in step with the objects of a cluster."""

    def __init__(self, *, with_queue_locks: bool = True) -> None:
        """Without queue locks, no node is locked for a queue in the snapshot. The queue controller needs that, because
        it decides anew which nodes are locked."""
        self.snapshot = snapshot = Snapshot()
        self.pod_groups = groups = PodGroupCache()
        owner = ObjectSink(
            lambda item: snapshot.apply_owner(item.metadata), lambda item: snapshot.remove_owner(item.metadata)
        )
        self._sinks: dict[Kind[Any], ObjectSink] = {
            kinds.NAMESPACE: ObjectSink(snapshot.apply_namespace, snapshot.remove_namespace),
            kinds.NODE: ObjectSink(snapshot.apply_node, snapshot.remove_node),
            kinds.PRIORITY_CLASS: ObjectSink(groups.priority_classes.apply, groups.priority_classes.remove),
            **dict.fromkeys(kinds.STORAGE, ObjectSink(self._put_storage, snapshot.remove_storage)),
            **dict.fromkeys(kinds.OWNERS, owner),
            kinds.QUEUE: ObjectSink(self._put_queue, self._remove_queue)
            if with_queue_locks
            else ObjectSink(groups.queues.apply, groups.queues.remove),
            kinds.POD_GROUP: ObjectSink(self._put_group, self._remove_group),
            kinds.RESERVATION: ObjectSink(snapshot.apply_reservation, snapshot.remove_reservation),
            kinds.POD: ObjectSink(self.put_pod, self.remove_pod),
        }

    def sink_of(self, kind: Kind[Any]) -> ObjectSink:
        """Where objects of a kind go. Raises KeyError for a kind that neither the snapshot nor the cache reads."""
        return self._sinks[kind]

    def put(self, kind: Kind[Any], item: Any) -> None:
        """Put an object as it is now."""
        self._sinks[kind].put(item)

    def put_pod(self, pod: Pod) -> bool:
        """Put a pod as it is now. Returns False for a version that is older than one seen before: nothing changes."""
        if not self.snapshot.apply_pod(pod) and self.snapshot.pods.is_late(pod):
            return False
        self.pod_groups.apply_pod(pod)
        return True

    def remove_pod(self, pod: Pod) -> None:
        """Take a pod out that does not exist any more."""
        self.snapshot.remove_pod(pod)
        self.pod_groups.remove_pod(pod)

    def _put_storage(self, item: StorageObject) -> None:
        try:
            self.snapshot.apply_storage(item)
        except Exception:
            # A volume whose size cannot be read is unknown from now on. Its last readable version would be used for a
            # binding that the real one may not allow.
            self.snapshot.remove_storage(item)
            raise

    def _put_queue(self, queue: Queue) -> None:
        self.snapshot.apply_queue(queue)
        self.pod_groups.queues.apply(queue)

    def _remove_queue(self, queue: Queue) -> None:
        self.snapshot.remove_queue(queue)
        self.pod_groups.queues.remove(queue)

    def _put_group(self, group: PodGroup) -> None:
        self.snapshot.apply_group(group)
        self.pod_groups.apply_group(group)

    def _remove_group(self, group: PodGroup) -> None:
        self.snapshot.remove_group(group)
        self.pod_groups.remove_group(group)
