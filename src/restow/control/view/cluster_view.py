"""The cluster as scheduling and planning see it: a snapshot and a roster, as fresh as the news.

Goes in: news of the kinds that somebody asks for. An object of which something cannot be read, such as an amount,
raises: then nobody has it, or it stays as it was, and the reader tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from restow.client.cache import Change
from restow.client.change_dispatcher import upsert_or_delete
from restow.client.subscriptions import Subscriptions
from restow.model import kinds
from restow.model.kinds import Kind
from restow.model.objects import Namespace, Node, Pod, PodGroup, PriorityClass, Queue, Reservation
from restow.model.snapshot import Snapshot
from restow.scheduling.jobs import min_resources
from restow.scheduling.pod_group_cache import PodGroupCache


class ClusterView:
    def __init__(self, reader: Subscriptions, wanted: Iterable[Kind[Any]]) -> None:
        self.snapshot = Snapshot()
        self.roster = PodGroupCache()
        self._reader = reader
        self._pods = reader.subscribe(kinds.POD)
        handlers: dict[Kind[Any], Callable[[Change[Any]], None]] = {
            kinds.NAMESPACE: self._namespace,
            kinds.NODE: self._node,
            kinds.PRIORITY_CLASS: self._priority_class,
            **dict.fromkeys(kinds.STORAGE, self._storage),
            **dict.fromkeys(kinds.OWNERS, self._owner),
            kinds.QUEUE: self._queue,
            kinds.POD_GROUP: self._group,
            kinds.RESERVATION: self._reservation,
            kinds.POD: self._pod,
        }
        for kind in wanted:
            reader.subscribe(kind, handlers[kind])

    @contextmanager
    def held(self) -> Iterator[None]:
        """News waits until this ends, so that whatever is decided is about one state of the cluster."""
        if self._reader.has_delivered_all:
            self.catch_up()
        with self._reader.paused():
            yield

    def catch_up(self) -> None:
        """Say how far pods were seen; only between events, because the items of a list come in no order."""
        version = self._pods.version
        if version is not None:
            self.snapshot.pods_seen_through(version)

    # --- news ---------------------------------------------------------------------------------------------------------

    def _namespace(self, change: Change[Namespace]) -> None:
        upsert_or_delete(change, self.snapshot.apply_namespace, self.snapshot.remove_namespace)

    def _node(self, change: Change[Node]) -> None:
        upsert_or_delete(change, self.snapshot.apply_node, self.snapshot.remove_node)

    def _priority_class(self, change: Change[PriorityClass]) -> None:
        upsert_or_delete(change, self.roster.apply_priority_class, self.roster.remove_priority_class)

    def _storage(self, change: Change[Any]) -> None:
        try:
            upsert_or_delete(change, self.snapshot.apply_storage, self.snapshot.remove_storage)
        except Exception:  # what cannot be read, such as its size, nobody can have
            self.snapshot.remove_storage(change.object)
            raise

    def _owner(self, change: Change[Any]) -> None:
        meta = change.object.metadata
        upsert_or_delete(
            change, lambda owner: self.snapshot.apply_owner(meta), lambda owner: self.snapshot.remove_owner(meta)
        )

    def _queue(self, change: Change[Queue]) -> None:
        upsert_or_delete(change, self.snapshot.apply_queue, self.snapshot.remove_queue)
        upsert_or_delete(change, self.roster.apply_queue, self.roster.remove_queue)

    def _group(self, change: Change[PodGroup]) -> None:
        if change.type != "DELETED":
            min_resources(change.object)  # raises before anything has changed
        upsert_or_delete(change, self.snapshot.apply_group, self.snapshot.remove_group)
        upsert_or_delete(change, self.roster.apply_group, self.roster.remove_group)

    def _reservation(self, change: Change[Reservation]) -> None:
        upsert_or_delete(change, self.snapshot.apply_reservation, self.snapshot.remove_reservation)

    def _pod(self, change: Change[Pod]) -> None:
        upsert_or_delete(change, self.snapshot.apply_pod, self.snapshot.remove_pod)
        upsert_or_delete(change, self.roster.apply_pod, self.roster.remove_pod)
