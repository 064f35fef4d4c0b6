"""Feeding: what the API shows, event by event, into what locking and clearing nodes goes by.

Goes in: the informers of the process. Comes out: the snapshot, the roster, the queues and jobs as last seen or written,
and the rules of eviction. While somebody decides (`held`) news waits, so that a decision is about one state of the
cluster. Kinds that are not installed have no objects.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, suppress
from typing import Any, Final

from restow.client.cache import Change
from restow.client.change_dispatcher import upsert_or_delete
from restow.client.mutation_cache import MutationCache
from restow.client.shared_informers import SharedInformers
from restow.client.subscriptions import Subscriptions
from restow.control.view import ClusterView, EvictionView
from restow.migration.arguments import MigrationArguments
from restow.model import kinds
from restow.model.kinds import Kind
from restow.model.objects import Pod, PodMigrationJob, Queue
from restow.model.pods import scheduler_of
from restow.planning.eviction_rules import ConfiguredEvictionRules
from restow.ports import Clock

_KINDS: Final[tuple[Kind[Any], ...]] = (
    kinds.NODE,
    kinds.PRIORITY_CLASS,
    *kinds.OWNERS,
    kinds.QUEUE,
    kinds.POD_GROUP,
    kinds.RESERVATION,
    kinds.POD,
)
"""Locks are what is decided here: so none of a queue goes into the snapshot."""
_GATHER: Final = 0.1
"""Seconds for which more is waited for once something must not wait: it seldom comes alone."""


class QueueEventHandlers:
    def __init__(self, informers: SharedInformers, clock: Clock) -> None:
        self.changes = 0
        """Counts whatever happens."""
        self._clock = clock
        self._urgent = asyncio.Event()
        self._reader = Subscriptions(informers, after_event=self._count)
        self._cluster = ClusterView(self._reader, _KINDS, with_queue_locks=False)
        self._evictions = EvictionView(self._reader)
        self.snapshot, self.pod_groups = self._cluster.snapshot, self._cluster.pod_groups
        self._pods = self._reader.subscribe(kinds.POD)
        self.queues = MutationCache(self._reader.subscribe(kinds.QUEUE, self._queue), clock)
        self.jobs = MutationCache(self._reader.subscribe(kinds.POD_MIGRATION_JOB, self._job), clock)

    # --- running ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep up with the API, until cancelled."""
        await self._reader.run()

    async def synced(self) -> None:
        """Wait until everything that exists was seen once."""
        await self._reader.synced()

    async def wait_for_urgent_change(self, seconds: float) -> None:
        """Wait this long, or until something happens to a queue that must not wait."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._urgent.wait()
                await asyncio.sleep(_GATHER)
        self._urgent.clear()

    # --- reading ------------------------------------------------------------------------------------------------------

    def paused(self) -> AbstractContextManager[None]:
        """Changes wait until this ends."""
        return self._cluster.paused()

    def pods(self, schedulers: frozenset[str]) -> list[Pod]:
        """The pods of these schedulers, in any state."""
        return [pod for pod in self._pods if scheduler_of(pod) in schedulers]

    def eviction_rules(self, arguments: MigrationArguments) -> ConfiguredEvictionRules:
        """The rules of eviction as of now."""
        return self._evictions.rules(self._cluster, self._clock.now(), arguments.protections)

    # --- news ---------------------------------------------------------------------------------------------------------

    def request_pass(self) -> None:
        """What is to be decided must not wait for the next period."""
        self._urgent.set()

    def _count(self) -> None:
        self.changes += 1

    def _queue(self, change: Change[Queue]) -> None:
        self.queues.observe(change)
        if _is_urgent(change):
            self._urgent.set()

    def _job(self, change: Change[PodMigrationJob]) -> None:
        self.jobs.observe(change)


def _is_urgent(change: Change[Queue]) -> bool:
    """Whether a queue came, went, or asks for something else: not that we have written its status."""
    queue, old = change.object, change.old
    if change.type != "MODIFIED" or old is None:
        return True
    terminating = queue.metadata.deletion_timestamp != old.metadata.deletion_timestamp
    return terminating or queue.spec != old.spec or queue.status.state != old.status.state
