"""Feeding: what the API shows, event by event, into the snapshot, the roster and the queue.

Goes in: the informers of the process. Comes out: a snapshot that is as fresh as the watches, pods to schedule in the
queue, and news for those that wait. Pods of other schedulers count where they are and are never queued.
Our own kinds may not be installed; then there are none of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypeVar

from restow.client.cache import Change, is_older
from restow.client.informers import Informers
from restow.client.reader import Reader
from restow.control.scheduler.monotonic_clock import monotonic_time
from restow.control.scheduler.reservation_queue_entries import ReservationQueueEntries
from restow.control.view import ClusterView
from restow.model import kinds
from restow.model.cluster import Occupant
from restow.model.cluster.names import Key
from restow.model.cluster.owners import group_name
from restow.model.kinds import Kind
from restow.model.objects import Node, OwnerReference, Pod, PodGroup, Reservation
from restow.model.pods import is_finished, is_pending, scheduler_of
from restow.scheduling.queue import SchedulingQueue
from restow.scheduling.cluster_events import ActionType, ClusterEvent, EventResource, is_same_offer

T = TypeVar("T", Node, Pod)

_DEEDS = {"ADDED": ActionType.ADDED, "MODIFIED": ActionType.UPDATED, "DELETED": ActionType.DELETED}
_THINGS: Final[dict[Kind[Any], EventResource]] = {
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
"""Of which every change is told to those who wait."""
_OWNER_KINDS = frozenset(kind.kind for kind in kinds.OWNERS)
"""What stands between pods and the objects that people name as their owners."""
_KINDS: Final[tuple[Kind[Any], ...]] = (
    kinds.NAMESPACE,
    kinds.PRIORITY_CLASS,
    *kinds.STORAGE,
    *kinds.OWNERS,
    kinds.QUEUE,
    kinds.POD_GROUP,
)
"""What is kept here as everywhere; of nodes, pods and reservations there is more to be made."""


class EventHandlers:
    """Fills `snapshot`, `roster` and `queue`. `changed` is set by every change and cleared by who waits for it."""

    def __init__(self, informers: Informers, queue: SchedulingQueue, names: frozenset[str]) -> None:
        self._reader = reader = Reader(informers)
        self._cluster = ClusterView(reader, _KINDS)
        self.snapshot, self.roster = self._cluster.snapshot, self._cluster.roster
        self.queue = queue
        self.tickets = ReservationQueueEntries(self.snapshot, self.roster, queue, names)
        self.nominated: dict[str, Pod] = {}
        """Pending pods of ours that have a node in prospect, by UID."""
        self.changed = asyncio.Event()
        self.on_member: Callable[[Pod], None] = lambda pod: None
        """Told of every change to a pod of ours that belongs to a gang."""
        self.on_pod: Callable[[Pod, bool], None] = lambda pod, gone: None
        """Told of every pod that is shown, or gone."""
        self.on_node: Callable[[str], None] = lambda node: None
        """Told of every node that offers something else now, or nothing."""
        self._names = names
        self._orphans: dict[str, set[str]] = {}
        """Pending pods of whose chain of owners one has not been seen yet, by its UID."""
        self._awaited: dict[str, set[str]] = {}
        """The UIDs of those owners, by that of the pod."""
        self._waiting: list[asyncio.Future[None]] = []
        reader.on_news = self._heard
        for kind, thing in _THINGS.items():
            reader.read(kind, partial(self._tell_change, thing))
        for kind in kinds.OWNERS:
            reader.read(kind, self._owner)
        reader.read(kinds.NODE, self._node)
        reader.read(kinds.POD_GROUP, self._group)
        reader.read(kinds.RESERVATION, self._reservation)
        self._pods = reader.read(kinds.POD, self._pod)

    # --- running ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep up with the API, until cancelled."""
        await self._reader.run()

    async def synced(self) -> None:
        """Wait until everything that exists was seen once."""
        await self._reader.synced()

    async def news(self, seconds: float) -> None:
        """Wait for any change, this long at most."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await asyncio.wait((waiter,), timeout=seconds)
        if not waiter.done():
            self._waiting.remove(waiter)

    def look_for_seats(self, key: Key) -> None:
        """Let what is left to place of a reservation be placed, if anything is."""
        self.tickets.issue(key)
        self.changed.set()

    def rouse(self) -> None:
        """Let everybody who waits for news look again."""
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    # --- reading ------------------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Say how far pods were seen, between two events."""
        self._cluster.catch_up()

    def latest(self, pod: Pod) -> Pod | None:
        """This very pod as last seen; None if it is gone."""
        found = self._pods.get(pod.metadata.name, pod.metadata.namespace)
        return found if found is not None and found.metadata.uid == pod.metadata.uid else None

    def is_news(self, pod: Pod) -> bool:
        """Whether a pod that was read says anything that is not known; who is over takes no room any more."""
        occupant = self.snapshot.pods.known.get(pod.metadata.uid)
        before = occupant.pod if occupant is not None else self.latest(pod) if is_finished(pod) else None
        return before is None or before.metadata.resource_version != pod.metadata.resource_version

    def _is_ours(self, pod: Pod) -> bool:
        return scheduler_of(pod) in self._names

    # --- pods ---------------------------------------------------------------------------------------------------------

    def show(self, pod: Pod, old: Pod | None = None) -> None:
        """A pod as it is, from an event, which also says how it was, or from a read of our own. Whichever of the two is
        late says nothing: of a pod that is gone nobody would hear again."""
        uid, known = pod.metadata.uid, self.snapshot.pods.known
        before = known.get(uid)
        if not self.snapshot.apply_pod(pod) and self.snapshot.pods.is_late(pod):
            return
        self.roster.apply_pod(pod)
        after = known.get(uid)
        if before is not None and after is None:
            self._tell(EventResource.POD, ActionType.DELETED, pod)
        if self._is_ours(pod) and is_pending(pod):
            self._queue_up(pod, old)
        else:
            self._dequeue(pod)
        self.on_pod(pod, False)

    def hide(self, pod: Pod) -> None:
        """A pod is gone."""
        took_room = pod.metadata.uid in self.snapshot.pods.known
        self.snapshot.remove_pod(pod)
        self.roster.remove_pod(pod)
        self._dequeue(pod)
        if took_room:
            self._tell(EventResource.POD, ActionType.DELETED, pod)
        self.on_pod(pod, True)

    def nominate(self, pod: Pod) -> None:
        """Room is kept for a pod on its nominated node, and not where it was kept before."""
        uid = pod.metadata.uid
        before = self.nominated.get(uid)
        if before is not None and before.status.nominated_node_name != pod.status.nominated_node_name:
            self.unnominate(uid)
        self.nominated[uid] = pod

    def unnominate(self, uid: str, node: str | None = None) -> None:
        """No room is kept for a pod any more: unless it is on that very node now, it has left to those who wait."""
        pod = self.nominated.pop(uid, None)
        if pod is not None and pod.status.nominated_node_name != node:
            self._tell(EventResource.POD, ActionType.DELETED, pod)

    def _dequeue(self, pod: Pod) -> None:
        self.queue.delete(pod.metadata.uid)
        self.unnominate(pod.metadata.uid, pod.spec.node_name)
        for owner in self._awaited.pop(pod.metadata.uid, ()):
            self._orphans[owner].discard(pod.metadata.uid)
            if not self._orphans[owner]:
                del self._orphans[owner]

    def _note_orphan(self, uid: str, chain: Iterable[OwnerReference]) -> None:
        """A pod that is shown before one of its chain of owners is tried again with it: whose seats it may take, the
        owner says."""
        for owner in chain:
            if owner.kind in _OWNER_KINDS and not self.snapshot.kinship.knows(owner.uid):
                self._orphans.setdefault(owner.uid, set()).add(uid)
                self._awaited.setdefault(uid, set()).add(owner.uid)

    def _queue_up(self, pod: Pod, old: Pod | None) -> None:
        """Queue a pending pod; not one that we have bound already, of which the watch only does not know yet."""
        uid = pod.metadata.uid
        if pod.status.nominated_node_name:
            self.nominate(pod)
        elif old is None or old.status.nominated_node_name:  # else ours may be on its way to be written
            self.unnominate(uid)
        self._note_orphan(uid, self.snapshot.kinship.chain(pod))
        if self.queue.where(uid) is None and uid in self.snapshot.pods.known:
            return
        if self.queue.where(uid) is None and group_name(pod) is not None:
            self._tell(EventResource.PENDING_POD, ActionType.ADDED, pod)
        self.queue.add(pod, monotonic_time())

    def _pod(self, change: Change[Pod]) -> None:
        pod, old, known = change.object, change.old, self.snapshot.pods.known
        if change.type == "DELETED":
            occupant = known.get(pod.metadata.uid)
            self.hide(_as_last_seen(pod, occupant.pod if occupant is not None else None))
        else:
            before = known.get(pod.metadata.uid)
            self.show(pod, old)
            after = known.get(pod.metadata.uid)
            if after is not None and pod.spec.node_name:
                if old is None or not old.spec.node_name:
                    self._tell(EventResource.POD, ActionType.ADDED, pod)
                elif before is None or _matters_to_others(before, after):
                    self._tell(EventResource.POD, ActionType.UPDATED, pod, old)
        if self._is_ours(pod) and group_name(pod) is not None:
            self.on_member(pod)

    # --- everything else ----------------------------------------------------------------------------------------------

    def show_node(self, node: Node) -> None:
        """A node as it is, from an event or from a read of our own."""
        self.snapshot.apply_node(node)
        self.on_node(node.metadata.name)

    def hide_node(self, node: Node) -> None:
        """A node is gone."""
        self.snapshot.remove_node(node)
        self.on_node(node.metadata.name)

    def _node(self, change: Change[Node]) -> None:
        if change.type == "MODIFIED" and change.old is not None and is_same_offer(change.old, change.object):
            self.snapshot.apply_node(change.object)
            return
        if change.type == "DELETED":
            self.hide_node(_as_last_seen(change.object, self.snapshot.node(change.object.metadata.name)))
        else:
            self.show_node(change.object)
        self._tell_change(EventResource.NODE, change)

    def _group(self, change: Change[PodGroup]) -> None:
        group, old = change.object, change.old
        if change.type != "MODIFIED" or old is None or not _says_the_same(old, group):
            self._tell_change(EventResource.POD_GROUP, change)

    def _reservation(self, change: Change[Reservation]) -> None:
        if change.type == "DELETED":
            self.tickets.hide(change.object)
        else:
            self.tickets.show(change.object)
        self._tell_change(EventResource.RESERVATION, change)

    def _owner(self, change: Change[Any]) -> None:
        metadata = change.object.metadata
        young = sorted(self._orphans.pop(metadata.uid, ())) if change.type != "DELETED" else []
        for uid in young:
            self._awaited[uid].discard(metadata.uid)
            self._note_orphan(uid, metadata.owner_references or ())
            if not self._awaited[uid]:
                del self._awaited[uid]
        self.queue.activate(young, monotonic_time())

    # ------------------------------------------------------------------------------------------------------------------

    def _heard(self) -> None:
        self.changed.set()
        self.rouse()

    def _tell_change(self, thing: EventResource, change: Change[Any]) -> None:
        self._tell(thing, _DEEDS[change.type], change.object, change.old)

    def _tell(self, thing: EventResource, deed: ActionType, item: Any, old: Any = None) -> None:
        news = ClusterEvent(thing, deed, old=item, new=None) if deed is ActionType.DELETED else ClusterEvent(thing, deed, old=old, new=item)
        self.queue.tell(news, monotonic_time())


def _as_last_seen(gone: T, seen: T | None) -> T:
    """What is gone, as the snapshot has seen it: of what is missing in a list, an answer to us may have been newer."""
    if seen is None or seen.metadata.uid != gone.metadata.uid:
        return gone
    return seen if is_older(gone.metadata.resource_version, seen.metadata.resource_version) else gone


def _says_the_same(old: PodGroup, new: PodGroup) -> bool:
    """Whether only the status of a group changed, which is our own doing."""
    metadata = old.metadata, new.metadata
    return (
        old.spec == new.spec
        and metadata[0].labels == metadata[1].labels
        and metadata[0].annotations == metadata[1].annotations
    )


def _matters_to_others(before: Occupant, after: Occupant) -> bool:
    """Whether a change to a pod on a node may make room, or a place, for another."""
    labels = before.pod.metadata.labels, after.pod.metadata.labels
    return before.shape is not after.shape or before.leaving != after.leaving or labels[0] != labels[1]
