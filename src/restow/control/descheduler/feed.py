"""Feeding: what the API shows, event by event, into the snapshot and the rules of eviction that planning goes by.

Goes in: one informer per kind that planning reads. Comes out: requests to plan with. While somebody plans (`held`) news
waits, so that a plan is about one state of the cluster. Kinds that are not installed have no objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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
from restow.migration.conditions import is_ended
from restow.migration.limits import at_once
from restow.migration.stop import STOP_NAME, stopped
from restow.model import kinds
from restow.model.cluster import Snapshot
from restow.model.kinds import Kind
from restow.model.objects import PersistentVolumeClaim, Pod, PodMigrationJob
from restow.model.pods import is_finished, is_terminating
from restow.planning.movable import Movability
from restow.ports import Clock
from restow.scheduling.framework import Code
from restow.scheduling.jobs import Roster
from restow.scheduling.registry import Profile

_STORAGE: Final = (
    kinds.PERSISTENT_VOLUME,
    kinds.STORAGE_CLASS,
    kinds.CSI_NODE,
    kinds.CSI_DRIVER,
    kinds.CSI_STORAGE_CAPACITY,
    kinds.VOLUME_ATTACHMENT,
)


class Feed:
    """`on_ended` is told of every job that ends, `on_job` of every job that anything happens to."""

    def __init__(self, client: Client, clock: Clock, rng: Random, namespace: str) -> None:
        self.snapshot = Snapshot()
        self.roster = Roster()
        self.on_ended: Callable[[PodMigrationJob], None] = lambda job: None
        self.on_job: Callable[[PodMigrationJob], None] = lambda job: None
        self._workloads = Workloads()
        self._budgets = Budgets()
        self._claims: dict[str, dict[str, PersistentVolumeClaim]] = {}
        self._clock = clock
        self._learner = Learner()
        handlers: dict[Kind[Any], Callable[[Change[Any]], None]] = {
            kinds.NAMESPACE: self._namespace,
            kinds.NODE: self._node,
            kinds.PRIORITY_CLASS: self._priority_class,
            **dict.fromkeys(_STORAGE, self._storage),
            kinds.PERSISTENT_VOLUME_CLAIM: self._claim,
            **dict.fromkeys(kinds.WORKLOADS, self._workload),
            **{kind: partial(self._budget, kind) for kind in kinds.BUDGETS},
            kinds.QUEUE: self._queue,
            kinds.POD_GROUP: self._group,
            kinds.RESERVATION: self._reservation,
            kinds.CONFIG_MAP: lambda change: None,
            kinds.POD_MIGRATION_JOB: self._job,
            kinds.POD: self._pod,
        }
        options: dict[Kind[Any], dict[str, Any]] = {
            kinds.CONFIG_MAP: {"namespace": namespace, "fields": {"metadata.name": STOP_NAME}}
        }
        self._informers: dict[Kind[Any], Informer[Any]] = {}
        for kind, handler in handlers.items():
            informer = Informer(client, kind, rng=Random(rng.getrandbits(64)), **options.get(kind, {}))
            informer.subscribe(partial(self._learner.learn, handler))
            self._informers[kind] = informer
        self._jobs: Latest[PodMigrationJob] = Latest(self._informers[kinds.POD_MIGRATION_JOB], clock)

    # --- running ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep up with the API, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for kind, informer in self._informers.items():
                tasks.create_task(informer.run(), name=f"descheduler informer {kind.kind}")

    async def synced(self) -> None:
        """Wait until everything that exists was seen once."""
        await all_synced(self._informers.values(), kinds.OPTIONAL_KINDS)

    # --- reading ------------------------------------------------------------------------------------------------------

    @contextmanager
    def held(self) -> Iterator[None]:
        """News waits until this ends."""
        version = self._informers[kinds.POD].version
        if version is not None and self._learner.is_up_to_date:
            self.snapshot.pods_seen_through(version)
        with self._learner.held():
            yield

    def stopped(self) -> str | None:
        """Why nothing is evicted, as last seen."""
        return stopped(next(iter(self._informers[kinds.CONFIG_MAP]), None))

    def note(self, job: PodMigrationJob) -> None:
        """A job as we have just written it: the watch may show it later."""
        self._jobs.note(job)

    def jobs(self) -> list[PodMigrationJob]:
        """Every job, as last seen or written."""
        return list(self._jobs)

    def job(self, name: str) -> PodMigrationJob | None:
        return self._jobs.get(name)

    def pod(self, namespace: str, name: str) -> Pod | None:
        found: Pod | None = self._informers[kinds.POD].get(name, namespace)
        return found

    def ended_pods(self) -> list[Pod]:
        """Pods that are over and still there."""
        return [pod for pod in self._informers[kinds.POD] if is_finished(pod) and not is_terminating(pod)]

    def pending(self, profile: Profile) -> tuple[Pod, ...]:
        """Pods of ours that wait for a node and may be tried. Whoever was read afresh on a node waits no more, even if
        the watch does not show that yet."""
        placed = self.snapshot.pods.known
        waiting = (pod for pod in self._informers[kinds.POD] if _is_pending(pod) and _is_ours(pod, profile))
        return tuple(pod for pod in waiting if pod.metadata.uid not in placed)

    def rules(self, arguments: Arguments) -> Movability:
        """The rules of eviction as of now."""
        classes: Mapping[str, int] = {one.metadata.name: one.value for one in self._informers[kinds.PRIORITY_CLASS]}
        return Movability(
            snapshot=self.snapshot,
            now=self._clock.now(),
            protections=arguments.protections,
            budgets=self._budgets,
            workloads=self._workloads,
            claims=self._claims,
            priority_classes=classes,
            workload_limit=at_once(arguments.limits),
        )

    # --- news ---------------------------------------------------------------------------------------------------------

    def _namespace(self, change: Change[Any]) -> None:
        either(change, self.snapshot.apply_namespace, self.snapshot.remove_namespace)

    def _node(self, change: Change[Any]) -> None:
        either(change, self.snapshot.apply_node, self.snapshot.remove_node)

    def _priority_class(self, change: Change[Any]) -> None:
        either(change, self.roster.apply_priority_class, self.roster.remove_priority_class)

    def _storage(self, change: Change[Any]) -> None:
        either(change, self.snapshot.apply_storage, self.snapshot.remove_storage)

    def _queue(self, change: Change[Any]) -> None:
        either(change, self.snapshot.apply_queue, self.snapshot.remove_queue)
        either(change, self.roster.apply_queue, self.roster.remove_queue)

    def _group(self, change: Change[Any]) -> None:
        either(change, self.snapshot.apply_group, self.snapshot.remove_group)
        either(change, self.roster.apply_group, self.roster.remove_group)

    def _reservation(self, change: Change[Any]) -> None:
        either(change, self.snapshot.apply_reservation, self.snapshot.remove_reservation)

    def _pod(self, change: Change[Pod]) -> None:
        either(change, self.snapshot.apply_pod, self.snapshot.remove_pod)
        either(change, self.roster.apply_pod, self.roster.remove_pod)
        either(change, self._workloads.put_pod, lambda pod: self._workloads.drop_pod(pod.metadata.uid))

    def _claim(self, change: Change[PersistentVolumeClaim]) -> None:
        self._storage(change)
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

    def _job(self, change: Change[PodMigrationJob]) -> None:
        job, old = change.object, change.old
        self._jobs.heed(change)
        self.on_job(job)
        if change.type == "MODIFIED" and old is not None and is_ended(job) and not is_ended(old):
            self.on_ended(job)


def _is_pending(pod: Pod) -> bool:
    return not pod.spec.node_name and not is_finished(pod) and not is_terminating(pod)


def _is_ours(pod: Pod, profile: Profile) -> bool:
    ours = (pod.spec.scheduler_name or DEFAULT_SCHEDULER) in profile.scheduler_names
    return ours and all(gate.pre_enqueue(pod).code is Code.SUCCESS for gate in profile.gates)
