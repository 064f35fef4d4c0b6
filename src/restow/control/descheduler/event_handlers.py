"""The descheduler's event handlers: keep the snapshot, the rules of eviction and the jobs up to date.

Goes in: the informers of the process. Comes out: what a plan is made from. While a plan is made (`paused`), changes
wait, so that the plan is about one state of the cluster. A kind that is not installed has no objects.
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

JobHandler = Callable[[PodMigrationJob], None]

_SNAPSHOT_KINDS: Final[tuple[Kind[Any], ...]] = (
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


def _ignore(job: PodMigrationJob) -> None:
    pass


class DeschedulerEventHandlers:
    def __init__(
        self,
        informers: SharedInformers,
        clock: Clock,
        namespace: str,
        *,
        on_job: JobHandler = _ignore,
        on_job_ended: JobHandler = _ignore,
    ) -> None:
        """`on_job` is called for every change of a job, `on_job_ended` once for every job that ends."""
        self._on_job = on_job
        self._on_job_ended = on_job_ended
        self._clock = clock
        self._subscriptions = Subscriptions(informers)
        self._cluster = ClusterView(self._subscriptions, _SNAPSHOT_KINDS)
        self._evictions = EvictionView(self._subscriptions)
        self._stop_switch = StopSwitch(self._subscriptions, namespace)
        self.feeder = self._cluster.feeder
        self.snapshot, self.pod_groups = self._cluster.snapshot, self._cluster.pod_groups
        self._pods = self._subscriptions.subscribe(kinds.POD)
        self._jobs = MutationCache(self._subscriptions.subscribe(kinds.POD_MIGRATION_JOB, self._handle_job), clock)

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

    # --- reading ------------------------------------------------------------------------------------------------------

    def stop_reason(self) -> str | None:
        """Why evictions are stopped, as last seen; None while they are allowed."""
        return self._stop_switch.stop_reason()

    def note_written_job(self, job: PodMigrationJob) -> None:
        """Remember a job as the API server has just answered it: the watch may show it later."""
        self._jobs.record_write(job)

    def jobs(self) -> list[PodMigrationJob]:
        """Every job, as last seen or written."""
        return list(self._jobs)

    def job(self, name: str) -> PodMigrationJob | None:
        return self._jobs.get(name)

    def pod(self, namespace: str, name: str) -> Pod | None:
        return self._pods.get(name, namespace)

    def finished_pods(self) -> list[Pod]:
        """Pods that have succeeded or failed and are not being deleted."""
        return [pod for pod in self._pods if is_finished(pod) and not is_terminating(pod)]

    def pending_pods(self, profile: Profile) -> tuple[Pod, ...]:
        """Pods of the profile that wait for a node and that no PreEnqueue plugin keeps out of the queue."""
        # The informer may be behind a live read: a pod that the snapshot has on a node is not pending any more.
        bound = self.snapshot.pods.known
        pending = (pod for pod in self._pods if is_pending(pod) and _is_schedulable_by(profile, pod))
        return tuple(pod for pod in pending if pod.metadata.uid not in bound)

    def eviction_rules(self, arguments: MigrationArguments) -> ConfiguredEvictionRules:
        """The rules of eviction as of now."""
        rules = self._evictions.rules(self._cluster, self._clock.now(), arguments.protections)
        return replace(rules, workload_limit=workload_limit(arguments.limits))

    # --- events -------------------------------------------------------------------------------------------------------

    def _handle_job(self, change: Change[PodMigrationJob]) -> None:
        job, old = change.object, change.old
        self._jobs.observe(change)
        self._on_job(job)
        if change.type == "MODIFIED" and old is not None and is_job_ended(job) and not is_job_ended(old):
            self._on_job_ended(job)


def _is_schedulable_by(profile: Profile, pod: Pod) -> bool:
    """Whether a scheduler with this profile would try to place a pod."""
    if scheduler_of(pod) not in profile.scheduler_names:
        return False
    return all(gate.pre_enqueue(pod).code is Code.SUCCESS for gate in profile.pre_enqueue)
