"""Feeding: what the API shows, event by event, into the snapshot and the rules of eviction that planning goes by.

Goes in: the informers of the process. Comes out: requests to plan with. While somebody plans (`held`) news waits, so
that a plan is about one state of the cluster. Kinds that are not installed have no objects.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

from msgspec.structs import replace

from restow.client.cache import Change
from restow.client.mutation_cache import MutationCache
from restow.client.shared_informers import SharedInformers
from restow.client.subscriptions import Subscriptions
from restow.control.view import ClusterView, EvictionView, StopSwitch
from restow.migration.arguments import MigrationArguments
from restow.migration.conditions import is_job_ended
from restow.migration.limits import workload_limit
from restow.model import kinds
from restow.model.kinds import Kind
from restow.model.objects import Pod, PodMigrationJob
from restow.model.pods import is_finished, is_pending, is_terminating, scheduler_of
from restow.planning.eviction_rules import ConfiguredEvictionRules
from restow.ports import Clock
from restow.scheduling.framework import Code
from restow.scheduling.registry import Profile

_KINDS: Final[tuple[Kind[Any], ...]] = (
    kinds.NAMESPACE,
    kinds.NODE,
    kinds.PRIORITY_CLASS,
    *kinds.STORAGE,
    *kinds.OWNERS,
    kinds.QUEUE,
    kinds.POD_GROUP,
    kinds.RESERVATION,
    kinds.POD,
)


class DeschedulerEventHandlers:
    """`on_ended` is told of every job that ends, `on_job` of every job that anything happens to."""

    def __init__(self, informers: SharedInformers, clock: Clock, namespace: str) -> None:
        self.on_ended: Callable[[PodMigrationJob], None] = lambda job: None
        self.on_job: Callable[[PodMigrationJob], None] = lambda job: None
        self._clock = clock
        self._reader = Subscriptions(informers)
        self._cluster = ClusterView(self._reader, _KINDS)
        self._evictions = EvictionView(self._reader)
        self._switch = StopSwitch(self._reader, namespace)
        self.snapshot, self.pod_groups = self._cluster.snapshot, self._cluster.pod_groups
        self._pods = self._reader.subscribe(kinds.POD)
        self._jobs = MutationCache(self._reader.subscribe(kinds.POD_MIGRATION_JOB, self._job), clock)

    # --- running ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep up with the API, until cancelled."""
        await self._reader.run()

    async def synced(self) -> None:
        """Wait until everything that exists was seen once."""
        await self._reader.synced()

    # --- reading ------------------------------------------------------------------------------------------------------

    def paused(self) -> AbstractContextManager[None]:
        """News waits until this ends."""
        return self._cluster.paused()

    def stop_reason(self) -> str | None:
        """Why nothing is evicted, as last seen."""
        return self._switch.stop_reason()

    def note_written_job(self, job: PodMigrationJob) -> None:
        """A job as we have just written it: the watch may show it later."""
        self._jobs.record_write(job)

    def jobs(self) -> list[PodMigrationJob]:
        """Every job, as last seen or written."""
        return list(self._jobs)

    def job(self, name: str) -> PodMigrationJob | None:
        return self._jobs.get(name)

    def pod(self, namespace: str, name: str) -> Pod | None:
        return self._pods.get(name, namespace)

    def finished_pods(self) -> list[Pod]:
        """Pods that are over and still there."""
        return [pod for pod in self._pods if is_finished(pod) and not is_terminating(pod)]

    def pending_pods(self, profile: Profile) -> tuple[Pod, ...]:
        """Pods of ours that wait for a node and may be tried. Whoever was read afresh on a node waits no more, even if
        the watch does not show that yet."""
        placed = self.snapshot.pods.known
        waiting = (pod for pod in self._pods if is_pending(pod) and _is_ours(pod, profile))
        return tuple(pod for pod in waiting if pod.metadata.uid not in placed)

    def eviction_rules(self, arguments: MigrationArguments) -> ConfiguredEvictionRules:
        """The rules of eviction as of now."""
        rules = self._evictions.rules(self._cluster, self._clock.now(), arguments.protections)
        return replace(rules, workload_limit=workload_limit(arguments.limits))

    # --- news ---------------------------------------------------------------------------------------------------------

    def _job(self, change: Change[PodMigrationJob]) -> None:
        job, old = change.object, change.old
        self._jobs.observe(change)
        self.on_job(job)
        if change.type == "MODIFIED" and old is not None and is_job_ended(job) and not is_job_ended(old):
            self.on_ended(job)


def _is_ours(pod: Pod, profile: Profile) -> bool:
    ours = scheduler_of(pod) in profile.scheduler_names
    return ours and all(gate.pre_enqueue(pod).code is Code.SUCCESS for gate in profile.gates)
