"""Pod updates: what a pod, as it is now, changes in the cache, in the scheduling queue and for reservations.

Goes in: pods from watch events, from live reads and from responses to our own writes; assumed pods that will not be
bound. Comes out: the same pods in the snapshot and the PodGroup cache, pending ones in the queue, an event for pods
that wait for room wherever a pod left, and a look at the reservation when a pod has consumed one of its seats.
"""

from __future__ import annotations

from restow.control.scheduler.monotonic_clock import monotonic_time
from restow.control.scheduler.nominator import Nominator
from restow.control.scheduler.pods_awaiting_owners import PodsAwaitingOwners
from restow.control.scheduler.reservation_work_queue import ReservationWorkQueue
from restow.control.scheduler.scheduler_cache import SchedulerCache
from restow.model.cluster.owner_chains import group_name
from restow.model.objects import Pod
from restow.model.pods import is_pending
from restow.scheduling.cluster_events import ActionType, ClusterEvent, EventResource
from restow.scheduling.queue.scheduling_queue import SchedulingQueue


class PodUpdates:
    def __init__(
        self,
        cache: SchedulerCache,
        queue: SchedulingQueue,
        nominator: Nominator,
        awaiting_owners: PodsAwaitingOwners,
        reservation_work: ReservationWorkQueue,
    ) -> None:
        self._cache = cache
        self._snapshot, self._pod_groups = cache.snapshot, cache.pod_groups
        self._queue = queue
        self._nominator = nominator
        self._awaiting_owners = awaiting_owners
        self._reservation_work = reservation_work

    def upsert_pod(self, pod: Pod, old: Pod | None = None) -> None:
        """Take over a pod as it is. `old` is its state before, where a watch event says so."""
        known = self._snapshot.pods.known
        before = known.get(pod.metadata.uid)
        # 1. The cache. Watch events race with live reads and with responses to our writes; the older one is dropped.
        #    A late event of a pod that is gone would bring the pod back for good, since no further event follows it.
        if not self._cache.feeder.put_pod(pod):
            return
        # 2. A pod that has ended leaves its room.
        if before is not None and pod.metadata.uid not in known:
            self._report_freed_room(pod)
        # 3. The scheduling queue.
        if self._cache.is_ours(pod) and is_pending(pod):
            self._enqueue(pod, old)
        else:
            self._dequeue(pod)
        # 4. The reservation whose seat the pod consumed.
        self._reservation_work.pod_changed(pod, gone=False)

    def remove_pod(self, pod: Pod) -> None:
        """A pod is gone."""
        took_room = pod.metadata.uid in self._snapshot.pods.known
        self._cache.feeder.remove_pod(pod)
        self._dequeue(pod)
        if took_room:
            self._report_freed_room(pod)
        self._reservation_work.pod_changed(pod, gone=True)

    def forget_pod(self, pod: Pod) -> None:
        """The inverse of assuming a pod. The queue is told even of a pod that is gone already: pods may wait for the
        volumes that were promised to it."""
        if self._snapshot.forget(pod):
            self._pod_groups.forget(pod)
        self._report_freed_room(pod)

    # --- the scheduling queue -----------------------------------------------------------------------------------------

    def _enqueue(self, pod: Pod, old: Pod | None) -> None:
        uid = pod.metadata.uid
        if pod.status.nominated_node_name:
            self._nominator.nominate(pod)
        elif old is None or old.status.nominated_node_name:
            # Only if the nomination was removed in the API: our own may be decided and not be written yet.
            self._nominator.end_nomination(uid)
        self._awaiting_owners.await_unseen_owners(uid, self._snapshot.owner_chains.chain(pod))
        is_new = self._queue.state_of(uid) is None
        if is_new and uid in self._snapshot.pods.known:
            # Race between bind and watch: we have bound the pod, and this event is older than the Binding. The snapshot
            # has the pod on its node; queued again, it would be scheduled a second time.
            return
        if is_new and group_name(pod) is not None:
            self._queue.handle_event(
                ClusterEvent(EventResource.PENDING_POD, ActionType.ADDED, new=pod), monotonic_time()
            )
        self._queue.add(pod, monotonic_time())

    def _dequeue(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._queue.delete(uid)
        self._nominator.end_nomination(uid, pod.spec.node_name)
        self._awaiting_owners.forget(uid)

    def _report_freed_room(self, pod: Pod) -> None:
        self._queue.handle_event(ClusterEvent(EventResource.POD, ActionType.DELETED, old=pod), monotonic_time())
