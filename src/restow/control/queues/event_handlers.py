"""The queue controller's event handlers: keep the snapshot, the rules of eviction, the queues and the jobs up to date.

Goes in: the informers of the process. Comes out: what a pass decides on. While it decides (`paused`), changes wait, so
that a decision is about one state of the cluster. A kind that is not installed has no objects.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, suppress
from typing import Any, Final

from restow.client.cache import Change
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

_SNAPSHOT_KINDS: Final[tuple[Kind[Any], ...]] = (
    kinds.NODE,
    kinds.PRIORITY_CLASS,
    *kinds.OWNERS,
    kinds.QUEUE,
    kinds.POD_GROUP,
    kinds.RESERVATION,
    kinds.POD,
)
_BATCH_SECONDS: Final = 0.1
"""After an urgent change, further ones are waited for: `kubectl apply` of several queues makes one pass."""


class QueueEventHandlers:
    def __init__(self, informers: SharedInformers, clock: Clock) -> None:
        self.change_count = 0
        """How many changes of any kind were handled so far."""
        self._clock = clock
        self._urgent = asyncio.Event()
        self._subscriptions = Subscriptions(informers, after_event=self._count_change)
        # Which nodes are locked is decided here, from scratch: the snapshot must not contain the present locks.
        self._cluster = ClusterView(self._subscriptions, _SNAPSHOT_KINDS, with_queue_locks=False)
        self._evictions = EvictionView(self._subscriptions)
        self.snapshot, self.pod_groups = self._cluster.snapshot, self._cluster.pod_groups
        self._pods = self._subscriptions.subscribe(kinds.POD)
        self.queues = MutationCache(self._subscriptions.subscribe(kinds.QUEUE, self._handle_queue), clock)
        self.jobs = MutationCache(self._subscriptions.subscribe(kinds.POD_MIGRATION_JOB, self._handle_job), clock)

    # --- running ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the watches until cancelled."""
        await self._subscriptions.run()

    async def synced(self) -> None:
        """Wait until every object that exists was seen once."""
        await self._subscriptions.synced()

    def paused(self) -> AbstractContextManager[None]:
        """Changes wait until this ends."""
        return self._cluster.paused()

    async def wait_for_urgent_change(self, seconds: float) -> None:
        """Wait for so many seconds, or until a queue changes in a way that must not wait."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._urgent.wait()
                await asyncio.sleep(_BATCH_SECONDS)
        self._urgent.clear()

    def request_pass(self) -> None:
        """Let the next pass begin at once."""
        self._urgent.set()

    # --- reading ------------------------------------------------------------------------------------------------------

    def pods_of_schedulers(self, names: frozenset[str]) -> list[Pod]:
        """The pods of these schedulers, in any phase."""
        return [pod for pod in self._pods if scheduler_of(pod) in names]

    def eviction_rules(self, arguments: MigrationArguments) -> ConfiguredEvictionRules:
        """The rules of eviction as of now."""
        return self._evictions.rules(self._cluster, self._clock.now(), arguments.protections)

    # --- events -------------------------------------------------------------------------------------------------------

    def _count_change(self) -> None:
        self.change_count += 1

    def _handle_queue(self, change: Change[Queue]) -> None:
        self.queues.observe(change)
        if _is_urgent(change):
            self._urgent.set()

    def _handle_job(self, change: Change[PodMigrationJob]) -> None:
        self.jobs.observe(change)


def _is_urgent(change: Change[Queue]) -> bool:
    """Whether a queue was created, deleted, changed in its spec, opened or closed; not whether the controller has just
    written its status."""
    queue, old = change.object, change.old
    if change.type != "MODIFIED" or old is None:
        return True
    deletion_began = queue.metadata.deletion_timestamp != old.metadata.deletion_timestamp
    return deletion_began or queue.spec != old.spec or queue.status.state != old.status.state
