"""The live cluster as scheduling and planning see it: a snapshot and a PodGroup cache, as fresh as the watches.

Goes in: the kinds that a controller needs. Comes out: a snapshot, kept by `scheduling.snapshot_feeder`. An object that
cannot be read, for example because of an amount in it, raises in its handler: then the snapshot does not have it, or
has it as it was before, and the dispatcher logs the error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from restow.client.change_dispatcher import upsert_or_delete
from restow.client.subscriptions import Subscriptions
from restow.model import kinds
from restow.model.kinds import Kind
from restow.model.objects import PodGroup
from restow.scheduling.jobs import min_resources
from restow.scheduling.snapshot_feeder import SnapshotFeeder


class ClusterView:
    def __init__(
        self, subscriptions: Subscriptions, wanted_kinds: Iterable[Kind[Any]], *, with_queue_locks: bool = True
    ) -> None:
        self.feeder = SnapshotFeeder(with_queue_locks=with_queue_locks)
        self.snapshot, self.pod_groups = self.feeder.snapshot, self.feeder.pod_groups
        self._subscriptions = subscriptions
        self._pods = subscriptions.subscribe(kinds.POD)
        for kind in wanted_kinds:
            sink = self.feeder.sink_of(kind)
            put = self._put_readable_group if kind is kinds.POD_GROUP else sink.put
            subscriptions.subscribe(kind, partial(upsert_or_delete, put=put, drop=sink.remove))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Changes wait until this ends, so that a decision is about one state of the cluster."""
        if self._subscriptions.has_delivered_all:
            self.note_pods_seen()
        with self._subscriptions.paused():
            yield

    def note_pods_seen(self) -> None:
        """Tell the snapshot up to which resourceVersion it has seen the pods. To be called between two events only:
        within a list, items come in no order of versions."""
        version = self._pods.version
        if version is not None:
            self.snapshot.pods_seen_through(version)

    def _put_readable_group(self, group: PodGroup) -> None:
        # minResources is read later, when the gang is let in. Reading it here keeps an unreadable group out of the
        # cache, so that one bad object cannot break a session about all jobs.
        min_resources(group)
        self.feeder.put(kinds.POD_GROUP, group)
