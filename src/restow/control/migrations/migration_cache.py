"""The migration cache: what the controller knows of the cluster without asking the API server.

Goes in: what informers show, and what the API server answered to our own writes. Comes out: jobs, pods and reservations
as they were seen or written last, the stop switch, and the cluster around the jobs as arbitration looks at it. Kinds
that are not installed have no objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from restow.client.cache import is_older
from restow.client.informer import Informer
from restow.client.mutation_cache import MutationCache
from restow.client.subscriptions import Subscriptions
from restow.control.migrations.indexes import JOB_INDEXES, POD_INDEXES, by_gang
from restow.control.view import EvictionView, StopSwitch
from restow.migration.cluster_context import ClusterContext
from restow.migration.reservation import reservation_key
from restow.model import kinds
from restow.model.cluster.owner_chains import group_name
from restow.model.object_key import Key
from restow.model.objects import Node, Object, ObjectReference, Pod, PodGroup, PodMigrationJob, Reservation
from restow.model.reservations.observed_spec import is_being_deleted
from restow.ports import Clock

T = TypeVar("T", bound=Object)


class MigrationCache:
    def __init__(self, subscriptions: Subscriptions, clock: Clock, namespace: str) -> None:
        self._clock = clock
        self._subscriptions = subscriptions
        self._evictions = EvictionView(subscriptions)
        self.workloads = self._evictions.workloads
        self._switch = StopSwitch(subscriptions, namespace)
        self.nodes = subscriptions.subscribe(kinds.NODE)
        self._groups = subscriptions.subscribe(kinds.POD_GROUP)
        self.pods = subscriptions.subscribe(kinds.POD, indexes=POD_INDEXES)
        # Of reservations and jobs what we wrote ourselves counts at once. The caches of our writes are told of every
        # change before the event handlers are, which subscribe later.
        self.reservations = subscriptions.subscribe(kinds.RESERVATION)
        self._written_reservations = MutationCache(self.reservations, clock)
        subscriptions.subscribe(kinds.RESERVATION, self._written_reservations.observe)
        self.seen_jobs = subscriptions.subscribe(kinds.POD_MIGRATION_JOB, indexes=JOB_INDEXES)
        self.written_jobs = MutationCache(self.seen_jobs, clock)
        subscriptions.subscribe(kinds.POD_MIGRATION_JOB, self.written_jobs.observe)

    async def run(self) -> None:
        """Keep up with the API server, until cancelled."""
        await self._subscriptions.run()

    async def synced(self) -> None:
        """Wait until everything that exists was seen once."""
        await self._subscriptions.synced()

    # --- our own writes -----------------------------------------------------------------------------------------------

    def record_job_write(self, job: PodMigrationJob) -> None:
        """A job as we have just written or read it; the watch may show it later."""
        self.written_jobs.record_write(job)

    def record_reservation_write(self, reservation: Reservation) -> None:
        self._written_reservations.record_write(reservation)

    # --- jobs and their objects ---------------------------------------------------------------------------------------

    def job(self, name: str) -> PodMigrationJob | None:
        """A job as last seen or written; None if the watch does not show it (any more)."""
        seen = self.seen_jobs.get(name)
        return self.written_jobs.newest(seen) if seen is not None else None

    def jobs(self) -> Iterator[PodMigrationJob]:
        return map(self.written_jobs.newest, self.seen_jobs)

    def job_by_uid(self, uid: str) -> PodMigrationJob | None:
        return next(iter(self.written_jobs.find("uid", uid)), None)

    def pod_by_uid(self, uid: str) -> Pod | None:
        return next(iter(self.pods.find("uid", uid)), None)

    def pod_key(self, job: PodMigrationJob) -> Key:
        """Namespace and name of the pod that a job moves: of the pod with its UID, even if the job's name is wrong."""
        reference = job.spec.pod_ref
        known = self.pod_by_uid(reference.uid) if reference.uid else None
        meta = known.metadata if known is not None else reference
        return meta.namespace or "", meta.name or ""

    def reservation_of(self, job: PodMigrationJob) -> Reservation | None:
        namespace, name = reservation_key(job)
        return self._written_reservations.get(name, namespace)

    def consumers_of(self, job: PodMigrationJob, reservation: Reservation | None) -> list[ObjectReference]:
        """The pods that consumed seats of a job's reservation, as the job and the reservation say; once that is gone or
        being deleted, also as the annotations of bound pods say."""
        seats = (reservation.status.placements if reservation else None) or ()
        references = [job.status.pod_ref, *(seat.pod_ref for seat in seats)]
        if reservation is None or is_being_deleted(reservation):
            bound = self.pods.find("seat", "/".join(reservation_key(job)))
            references += [ObjectReference(name=pod.metadata.name, uid=pod.metadata.uid) for pod in bound]
        namespace = job.spec.pod_ref.namespace
        by_uid = {
            reference.uid: ObjectReference(
                namespace=reference.namespace or namespace, name=reference.name, uid=reference.uid
            )
            for reference in references
            if reference is not None
        }
        return list(by_uid.values())

    # --- gangs --------------------------------------------------------------------------------------------------------

    def group_of(self, pod: Pod) -> PodGroup | None:
        gang = group_name(pod)
        return self._groups.get(gang, pod.metadata.namespace) if gang else None

    def gang_members(self, pod: Pod) -> Iterator[Pod]:
        return (member for gang in by_gang(pod) for member in self.pods.find("gang", gang))

    # --- the cluster around the jobs ----------------------------------------------------------------------------------

    def stop_reason(self) -> str | None:
        """Why evictions are stopped, as last seen; None while they are not."""
        return self._switch.stop_reason()

    def cluster_context(self) -> ClusterContext:
        return ClusterContext(
            now=self._clock.now(),
            pods=_PodsByKey(self.pods),
            workloads=self.workloads,
            budgets=self._evictions.budgets,
            shared_claims=self._evictions.shared_claims,
            claims=self._evictions.claims,
            node_labels=_NodeLabels(self.nodes),
            priority_classes=self._evictions.priority_classes,
        )


def newest_of(informer: Informer[T], read: T | None) -> T | None:
    """An object that was read, or what the watch has shown of it since: a newer version, or None if it is gone."""
    if read is None:
        return None
    meta = read.metadata
    seen = informer.get(meta.name, meta.namespace)
    # An object that the informer does not have is gone, unless the informer is behind the read.
    is_behind = is_older(informer.version if seen is None else seen.metadata.resource_version, meta.resource_version)
    return read if is_behind else seen


class _PodsByKey:
    """The pods by namespace and name, as arbitration looks them up."""

    def __init__(self, informer: Informer[Pod]) -> None:
        self._informer = informer

    def get(self, key: Key, /) -> Pod | None:
        return self._informer.get(key[1], key[0])


class _NodeLabels(Mapping[str, Mapping[str, str]]):
    """The labels of nodes by name."""

    def __init__(self, informer: Informer[Node]) -> None:
        self._informer = informer

    def __getitem__(self, name: str) -> Mapping[str, str]:
        node = self._informer.get(name)
        if node is None:
            raise KeyError(name)
        return node.metadata.labels or {}

    def __iter__(self) -> Iterator[str]:
        return (node.metadata.name for node in self._informer)

    def __len__(self) -> int:
        return len(self._informer)
