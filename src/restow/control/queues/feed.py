"""Feeding: what the API shows, event by event, into what locking and clearing nodes goes by.

Goes in: one informer per kind that is read. Comes out: the snapshot, the roster, the queues and jobs as last seen or
written, and the rules of eviction. While somebody decides (`held`) news waits, so that a decision is about one state of
the cluster. Kinds that are not installed have no objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from random import Random
from typing import Any, Final, Generic, TypeVar

from restow.client.cache import Change, Object, is_older
from restow.client.informer import Informer
from restow.client.learning import Learner
from restow.client.syncing import all_synced
from restow.client.verbs import Client
from restow.eviction.budgets import Budgets
from restow.eviction.protections import DEFAULT_SCHEDULER
from restow.eviction.workloads import Workloads
from restow.migration.arguments import Arguments
from restow.model import kinds
from restow.model.cluster import Snapshot
from restow.model.kinds import Kind
from restow.model.objects import PersistentVolumeClaim, Pod, PodMigrationJob, Queue
from restow.planning.movable import Movability
from restow.ports import Clock
from restow.scheduling.jobs import Roster

T = TypeVar("T", bound=Object)

_UNSEEN: Final = 60.0
"""Seconds after which what we wrote and the watch never showed is believed to be gone."""
_GATHER: Final = 0.1
"""Seconds for which more is waited for once something must not wait: it seldom comes alone."""


class Latest(Generic[T]):
    """The objects of a kind as last seen, or as we wrote them, whichever is newer."""

    def __init__(self, informer: Informer[T], clock: Clock) -> None:
        self._informer = informer
        self._clock = clock
        self._written: dict[str, tuple[T, float]] = {}
        """What the watch has not shown yet, by name, and when it was written."""

    def note(self, item: T) -> None:
        """An object as we have just written it: the watch may show it later."""
        self._written[item.metadata.name] = item, self._clock.now()

    def heed(self, change: Change[T]) -> None:
        """The watch may have come to what we wrote, or beyond."""
        meta = change.object.metadata
        written, _ = self._written.get(meta.name, (None, 0.0))
        behind = written is not None and is_older(meta.resource_version, written.metadata.resource_version)
        if change.type == "DELETED" or not behind:
            self._written.pop(meta.name, None)

    def __iter__(self) -> Iterator[T]:
        since = self._clock.now() - _UNSEEN
        self._written = {name: (item, at) for name, (item, at) in self._written.items() if at > since}
        seen = {one.metadata.name: one for one in self._informer}
        return iter((seen | {name: item for name, (item, _) in self._written.items()}).values())


class Feed:
    def __init__(self, client: Client, clock: Clock, rng: Random) -> None:
        self.snapshot = Snapshot()
        self.roster = Roster()
        self.changes = 0
        """Counts whatever happens."""
        self._clock = clock
        self._workloads = Workloads()
        self._budgets = Budgets()
        self._claims: dict[str, dict[str, PersistentVolumeClaim]] = {}
        self._urgent = asyncio.Event()
        self._holders = 0
        self._waiting: list[Callable[[], None]] = []
        self._learner = Learner()
        handlers: dict[Kind[Any], Callable[[Change[Any]], None]] = {
            kinds.NODE: self._node,
            kinds.PRIORITY_CLASS: self._priority_class,
            kinds.PERSISTENT_VOLUME_CLAIM: self._claim,
            **dict.fromkeys(kinds.WORKLOADS, self._workload),
            **{kind: partial(self._budget, kind) for kind in kinds.BUDGETS},
            kinds.QUEUE: self._queue,
            kinds.POD_GROUP: self._group,
            kinds.RESERVATION: self._reservation,
            kinds.POD_MIGRATION_JOB: self._job,
            kinds.POD: self._pod,
        }
        self._informers: dict[Kind[Any], Informer[Any]] = {}
        for kind, handler in handlers.items():
            informer = self._informers[kind] = Informer(client, kind, rng=Random(rng.getrandbits(64)))
            informer.subscribe(partial(self._learn, handler))
        self.queues: Latest[Queue] = Latest(self._informers[kinds.QUEUE], clock)
        self.jobs: Latest[PodMigrationJob] = Latest(self._informers[kinds.POD_MIGRATION_JOB], clock)

    # --- running ------------------------------------------------------------------------------------------------------

    def start(self, tasks: asyncio.TaskGroup) -> None:
        for kind, informer in self._informers.items():
            tasks.create_task(informer.run(), name=f"queues informer {kind.kind}")

    async def synced(self) -> None:
        """Wait until everything that exists was seen once."""
        await all_synced(self._informers.values(), kinds.OPTIONAL_KINDS)

    async def due(self, seconds: float) -> None:
        """Wait this long, or until something happens to a queue that must not wait."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._urgent.wait()
                await asyncio.sleep(_GATHER)
        self._urgent.clear()

    # --- reading ------------------------------------------------------------------------------------------------------

    @contextmanager
    def held(self) -> Iterator[None]:
        """News waits until this ends."""
        self._holders += 1
        version = self._informers[kinds.POD].version
        if version is not None and not self._waiting:
            self.snapshot.pods_seen_through(version)
        try:
            yield
        finally:
            self._holders -= 1
            while self._waiting and not self._holders:
                self._waiting.pop(0)()

    def pods(self, schedulers: frozenset[str]) -> list[Pod]:
        """The pods of these schedulers, in any state."""
        return [
            pod for pod in self._informers[kinds.POD] if (pod.spec.scheduler_name or DEFAULT_SCHEDULER) in schedulers
        ]

    def rules(self, arguments: Arguments) -> Movability:
        """The rules of eviction as of now."""
        return Movability(
            snapshot=self.snapshot,
            now=self._clock.now(),
            protections=arguments.protections,
            budgets=self._budgets,
            workloads=self._workloads,
            claims=self._claims,
            priority_classes={one.metadata.name: one.value for one in self._informers[kinds.PRIORITY_CLASS]},
        )

    # --- news ---------------------------------------------------------------------------------------------------------

    def hurry(self) -> None:
        """What is to be decided must not wait for the next period."""
        self._urgent.set()

    def _learn(self, handler: Callable[[Change[Any]], None], change: Change[Any]) -> None:
        if self._holders:
            self._waiting.append(partial(self._handle, handler, change))
        else:
            self._handle(handler, change)

    def _handle(self, handler: Callable[[Change[Any]], None], change: Change[Any]) -> None:
        self.changes += 1
        self._learner.learn(handler, change)

    def _node(self, change: Change[Any]) -> None:
        _either(change, self.snapshot.apply_node, self.snapshot.remove_node)

    def _priority_class(self, change: Change[Any]) -> None:
        _either(change, self.roster.apply_priority_class, self.roster.remove_priority_class)

    def _queue(self, change: Change[Queue]) -> None:
        self.queues.heed(change)
        _either(change, self.roster.apply_queue, self.roster.remove_queue)
        if _is_urgent(change):
            self._urgent.set()

    def _group(self, change: Change[Any]) -> None:
        _either(change, self.snapshot.apply_group, self.snapshot.remove_group)
        _either(change, self.roster.apply_group, self.roster.remove_group)

    def _reservation(self, change: Change[Any]) -> None:
        _either(change, self.snapshot.apply_reservation, self.snapshot.remove_reservation)

    def _job(self, change: Change[PodMigrationJob]) -> None:
        self.jobs.heed(change)

    def _pod(self, change: Change[Pod]) -> None:
        _either(change, self.snapshot.apply_pod, self.snapshot.remove_pod)
        _either(change, self.roster.apply_pod, self.roster.remove_pod)
        _either(change, self._workloads.put_pod, lambda pod: self._workloads.drop_pod(pod.metadata.uid))

    def _claim(self, change: Change[PersistentVolumeClaim]) -> None:
        meta = change.object.metadata
        inside = self._claims.setdefault(meta.namespace or "", {})
        if change.type == "DELETED":
            inside.pop(meta.name, None)
        else:
            inside[meta.name] = change.object

    def _workload(self, change: Change[Any]) -> None:
        meta = change.object.metadata
        _either(change, self._workloads.put_owner, lambda owner: self._workloads.drop_owner(meta.uid))
        _either(
            change,
            lambda owner: self.snapshot.apply_owner(owner.metadata),
            lambda owner: self.snapshot.remove_owner(owner.metadata),
        )

    def _budget(self, kind: Kind[Any], change: Change[Any]) -> None:
        meta = change.object.metadata
        _either(change, self._budgets.put, lambda one: self._budgets.drop(kind.kind, meta.namespace or "", meta.name))


def _either(change: Change[Any], put: Callable[[Any], object], drop: Callable[[Any], object]) -> None:
    if change.type == "DELETED":
        drop(change.object)
    else:
        put(change.object)


def _is_urgent(change: Change[Queue]) -> bool:
    """Whether a queue came, went, or asks for something else: not that we have written its status."""
    queue, old = change.object, change.old
    if change.type != "MODIFIED" or old is None:
        return True
    terminating = queue.metadata.deletion_timestamp != old.metadata.deletion_timestamp
    return terminating or queue.spec != old.spec or queue.status.state != old.status.state
