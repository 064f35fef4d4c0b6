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
from typing import Any, Final

from restow.client.cache import Change
from restow.client.informer import Informer
from restow.client.latest import Latest
from restow.client.learning import Learner, either
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

_GATHER: Final = 0.1
"""Seconds for which more is waited for once something must not wait: it seldom comes alone."""


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
            informer.subscribe(partial(self._learner.learn, partial(self._heed, handler)))
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
        version = self._informers[kinds.POD].version
        if version is not None and self._learner.is_up_to_date:
            self.snapshot.pods_seen_through(version)
        with self._learner.held():
            yield

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

    def _heed(self, handler: Callable[[Change[Any]], None], change: Change[Any]) -> None:
        self.changes += 1
        handler(change)

    def _node(self, change: Change[Any]) -> None:
        either(change, self.snapshot.apply_node, self.snapshot.remove_node)

    def _priority_class(self, change: Change[Any]) -> None:
        either(change, self.roster.apply_priority_class, self.roster.remove_priority_class)

    def _queue(self, change: Change[Queue]) -> None:
        self.queues.heed(change)
        either(change, self.roster.apply_queue, self.roster.remove_queue)
        if _is_urgent(change):
            self._urgent.set()

    def _group(self, change: Change[Any]) -> None:
        either(change, self.snapshot.apply_group, self.snapshot.remove_group)
        either(change, self.roster.apply_group, self.roster.remove_group)

    def _reservation(self, change: Change[Any]) -> None:
        either(change, self.snapshot.apply_reservation, self.snapshot.remove_reservation)

    def _job(self, change: Change[PodMigrationJob]) -> None:
        self.jobs.heed(change)

    def _pod(self, change: Change[Pod]) -> None:
        either(change, self.snapshot.apply_pod, self.snapshot.remove_pod)
        either(change, self.roster.apply_pod, self.roster.remove_pod)
        either(change, self._workloads.put_pod, lambda pod: self._workloads.drop_pod(pod.metadata.uid))

    def _claim(self, change: Change[PersistentVolumeClaim]) -> None:
        meta = change.object.metadata
        inside = self._claims.setdefault(meta.namespace or "", {})
        if change.type == "DELETED":
            inside.pop(meta.name, None)
        else:
            inside[meta.name] = change.object

    def _workload(self, change: Change[Any]) -> None:
        meta = change.object.metadata
        either(change, self._workloads.put_owner, lambda owner: self._workloads.drop_owner(meta.uid))
        either(change, lambda owner: self.snapshot.apply_owner(meta), lambda owner: self.snapshot.remove_owner(meta))

    def _budget(self, kind: Kind[Any], change: Change[Any]) -> None:
        meta = change.object.metadata
        either(change, self._budgets.put, lambda one: self._budgets.drop(kind.kind, meta.namespace or "", meta.name))


def _is_urgent(change: Change[Queue]) -> bool:
    """Whether a queue came, went, or asks for something else: not that we have written its status."""
    queue, old = change.object, change.old
    if change.type != "MODIFIED" or old is None:
        return True
    terminating = queue.metadata.deletion_timestamp != old.metadata.deletion_timestamp
    return terminating or queue.spec != old.spec or queue.status.state != old.status.state
