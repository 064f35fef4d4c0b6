"""Feeding: what the API shows, event by event, into facts about jobs and the scene that arbitration judges.

Goes in: one informer per kind that migrations read. Comes out: facts about any job as the caches have them, the cluster
around all jobs, and the names of jobs that something happened to. Kinds that are not installed have no objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from random import Random
from typing import Any

from msgspec.structs import replace

from restow.client.cache import Change, is_older
from restow.client.informer import Informer
from restow.client.latest import Latest
from restow.client.learning import Learner
from restow.client.syncing import all_synced
from restow.client.verbs import Client
from restow.eviction.budgets import Budgets
from restow.eviction.workloads import Workloads
from restow.migration.arguments import Arguments
from restow.migration.conditions import condition, is_ended, is_evicting, is_running
from restow.migration.facts import Facts
from restow.migration.reservation import is_made_for, job_uid, reservation_name
from restow.migration.scene import Scene
from restow.migration.stop import STOP_NAME, stopped
from restow.migration.terms import terms_of
from restow.model import kinds
from restow.model.cluster.owners import group_name
from restow.model.cluster.seat import claimed_seat
from restow.model.kinds import Kind
from restow.model.objects import (
    ConfigMap,
    JobConditionType,
    JobReason,
    ObjectReference,
    PersistentVolumeClaim,
    Pod,
    PodGroup,
    PodMigrationJob,
    Reservation,
)
from restow.model.tenancy import queue_name
from restow.ports import Clock

Key = tuple[str, str]


class Feed:
    """`on_job` is told the name of every job that something happened to, `on_news` of everything."""

    def __init__(self, client: Client, clock: Clock, rng: Random, namespace: str) -> None:
        self.on_job: Callable[[str], None] = lambda name: None
        self.on_news: Callable[[], None] = lambda: None
        self.workloads = Workloads()
        self.budgets = Budgets()
        self._clock = clock
        self._written: dict[str, PodMigrationJob] = {}
        """Jobs as we wrote them last, until the watch has seen that."""
        self._claims: dict[str, dict[str, PersistentVolumeClaim]] = {}
        handlers: dict[Kind[Any], Callable[[Change[Any]], None]] = {
            **dict.fromkeys(kinds.WORKLOADS, self._workload),
            **{kind: partial(self._budget, kind) for kind in kinds.BUDGETS},
            kinds.PERSISTENT_VOLUME_CLAIM: self._claim,
            kinds.PRIORITY_CLASS: self._ignore,
            kinds.NODE: self._ignore,
            kinds.POD_GROUP: self._ignore,
            kinds.CONFIG_MAP: self._switch,
            kinds.POD: self._pod,
            kinds.RESERVATION: self._reservation,
            kinds.POD_MIGRATION_JOB: self._job,
        }
        options: dict[Kind[Any], dict[str, Any]] = {
            kinds.CONFIG_MAP: {"namespace": namespace, "fields": {"metadata.name": STOP_NAME}},
            kinds.POD: {"indexes": {"uid": _by_uid, "seat": _by_seat}},
            kinds.POD_MIGRATION_JOB: {"indexes": {"uid": _by_uid, "pod": _by_pod, "reservation": _by_reservation}},
        }
        self._learner = Learner()
        self._informers: dict[Kind[Any], Informer[Any]] = {}
        for kind, handler in handlers.items():
            informer = Informer(client, kind, rng=Random(rng.getrandbits(64)), **options.get(kind, {}))
            informer.subscribe(partial(self._learn, handler))
            self._informers[kind] = informer
        self._jobs: Informer[PodMigrationJob] = self._informers[kinds.POD_MIGRATION_JOB]
        self._pods: Informer[Pod] = self._informers[kinds.POD]
        self._reservations: Informer[Reservation] = self._informers[kinds.RESERVATION]
        self._groups: Informer[PodGroup] = self._informers[kinds.POD_GROUP]
        self._made: Latest[Reservation] = Latest(self._reservations, clock)

    # --- running ------------------------------------------------------------------------------------------------------

    def start(self, tasks: asyncio.TaskGroup) -> None:
        for kind, informer in self._informers.items():
            tasks.create_task(informer.run(), name=f"migrations informer {kind.kind}")

    async def synced(self) -> None:
        """Wait until everything that exists was seen once."""
        await all_synced(self._informers.values(), kinds.OPTIONAL_KINDS)

    # --- reading ------------------------------------------------------------------------------------------------------

    def note(self, job: PodMigrationJob) -> None:
        """A job as we have just written it: the watch may show it later."""
        self._written[job.metadata.name] = job

    def note_made(self, reservation: Reservation) -> None:
        """A reservation as we have just made it, likewise."""
        self._made.note(reservation)

    def job(self, name: str) -> PodMigrationJob | None:
        """A job as last seen or written."""
        seen = self._jobs.get(name)
        return self._newest(seen) if seen is not None else None

    def jobs(self) -> Iterator[PodMigrationJob]:
        return (self._newest(job) for job in self._jobs)

    def job_by_uid(self, uid: str) -> PodMigrationJob | None:
        return next(map(self._newest, self._jobs.find("uid", uid)), None)

    def pod_by_uid(self, uid: str) -> Pod | None:
        return next(iter(self._pods.find("uid", uid)), None)

    def reservations(self) -> Iterable[Reservation]:
        return self._reservations

    def stopped(self) -> str | None:
        """Why nothing is evicted, as last seen."""
        return stopped(next(iter(self._informers[kinds.CONFIG_MAP]), None))

    def scene(self) -> Scene:
        """The cluster around the jobs."""
        nodes, classes = self._informers[kinds.NODE], self._informers[kinds.PRIORITY_CLASS]
        return Scene(
            now=self._clock.now(),
            pods=_Pods(self._pods),
            workloads=self.workloads,
            budgets=self.budgets,
            claims=self._claims,
            node_labels={node.metadata.name: node.metadata.labels or {} for node in nodes},
            priority_classes={one.metadata.name: one.value for one in classes},
        )

    def facts(self, job: PodMigrationJob, arguments: Arguments) -> Facts:
        """What the caches know about a job."""
        pod = self._pods.get(job.spec.pod_ref.name or "", job.spec.pod_ref.namespace)
        where = reservation_key(job)
        reservation = self._made.get(where[1], where[0])
        heirs = self.heirs_of(job, reservation)
        found = (self._pods.get(heir.name or "", heir.namespace) for heir in heirs)
        return self.around(
            Facts(
                job=job,
                terms=terms_of(job, arguments),
                now=self._clock.now(),
                pod=pod,
                reservation=reservation,
                consumers=tuple(pod for pod in found if pod is not None),
                stopped=self.stopped(),
            )
        )

    def heirs_of(self, job: PodMigrationJob, reservation: Reservation | None) -> list[ObjectReference]:
        """Who has taken seats, by what the job and the reservation say; once that is gone, by what pods say."""
        placements = (reservation.status.placements if reservation else None) or ()
        named = [job.status.pod_ref, *(one.pod_ref for one in placements)]
        if reservation is None:
            claims = self._pods.find("seat", "/".join(reservation_key(job)))
            named += [ObjectReference(name=one.metadata.name, uid=one.metadata.uid) for one in claims]
        namespace = job.spec.pod_ref.namespace
        found = {
            one.uid: ObjectReference(namespace=one.namespace or namespace, name=one.name, uid=one.uid)
            for one in named
            if one is not None
        }
        return list(found.values())

    def around(self, facts: Facts) -> Facts:
        """The facts with what is only known from caches: who owns the pod, and which other jobs speak of it."""
        pod, job = facts.pod, facts.job
        workload = self.workloads.of(pod) if pod is not None else None
        given = facts.reservation is not None and not is_made_for(facts.reservation, job)
        return replace(
            facts,
            owners=tuple(self.workloads.chain(pod)) if pod is not None else (),
            workload=workload.uid if workload else None,
            queue=self._queue_of(pod) if pod is not None else None,
            rival=self._rival(job),
            claimed=frozenset(self._claimed(job)) if given else frozenset(),
            ahead=tuple(self._ahead(job)) if given else (),
        )

    def _queue_of(self, pod: Pod) -> str:
        gang = group_name(pod)
        return queue_name(self._groups.get(gang, pod.metadata.namespace) if gang else None, pod)

    def _newest(self, seen: PodMigrationJob) -> PodMigrationJob:
        written = self._written.get(seen.metadata.name)
        if written is None:
            return seen
        if written.metadata.uid == seen.metadata.uid and is_older(
            seen.metadata.resource_version, written.metadata.resource_version
        ):
            return written
        del self._written[seen.metadata.name]
        return seen

    def _rival(self, job: PodMigrationJob) -> str | None:
        """The job that moves the same pod and comes first: admitted ones do, then older ones."""
        reference = job.spec.pod_ref
        same = [
            other
            for other in map(self._newest, self._jobs.find("pod", _pod_name(reference)))
            if other.metadata.uid != job.metadata.uid
            and _is_active(other)
            and other.spec.pod_ref.name == reference.name
            and (other.spec.pod_ref.uid or reference.uid) == (reference.uid or other.spec.pod_ref.uid)
        ]
        first = min(same, key=_precedence, default=None)
        return first.metadata.name if first is not None and _precedence(first) < _precedence(job) else None

    def _claimed(self, job: PodMigrationJob) -> Iterator[str]:
        for other in self.jobs():
            if other.metadata.uid != job.metadata.uid and other.status.pod_ref is not None:
                yield other.status.pod_ref.uid or ""

    def _ahead(self, job: PodMigrationJob) -> Iterator[str]:
        """The jobs whose successors will take seats of the same reservation before this one's."""
        for other in map(self._newest, self._jobs.find("reservation", "/".join(reservation_key(job)))):
            wants = is_running(other) and other.status.pod_ref is None
            if wants and other.metadata.uid != job.metadata.uid and _turn(other) < _turn(job):
                yield other.metadata.name

    # --- news ---------------------------------------------------------------------------------------------------------

    def _learn(self, handler: Callable[[Change[Any]], None], change: Change[Any]) -> None:
        self._learner.learn(handler, change)
        self.on_news()

    def _ignore(self, change: Change[Any]) -> None:
        """It is looked up when it is needed."""

    def _job(self, change: Change[PodMigrationJob]) -> None:
        self.on_job(change.object.metadata.name)
        if change.type == "DELETED":
            self._written.pop(change.object.metadata.name, None)
        if change.type == "DELETED" or (is_ended(change.object) and change.old and not is_ended(change.old)):
            for other in self._jobs.find("pod", _pod_name(change.object.spec.pod_ref)):
                self.on_job(other.metadata.name)

    def _pod(self, change: Change[Pod]) -> None:
        pod = change.object
        if change.type == "DELETED":
            self.workloads.drop_pod(pod.metadata.uid)
        else:
            self.workloads.put_pod(pod)
        for job in self._jobs.find("pod", f"{pod.metadata.namespace}/{pod.metadata.name}"):
            if not is_ended(job):
                self.on_job(job.metadata.name)

    def _reservation(self, change: Change[Reservation]) -> None:
        reservation = change.object
        uid = job_uid(reservation)
        found = self._jobs.find("uid", uid) if uid is not None else []
        meta = reservation.metadata
        self._made.heed(change)
        for job in (*found, *self._jobs.find("reservation", f"{meta.namespace}/{meta.name}")):
            self.on_job(job.metadata.name)

    def _switch(self, change: Change[ConfigMap]) -> None:
        for job in self._jobs:
            if not is_ended(job):
                self.on_job(job.metadata.name)

    def _workload(self, change: Change[Any]) -> None:
        if change.type == "DELETED":
            self.workloads.drop_owner(change.object.metadata.uid)
        else:
            self.workloads.put_owner(change.object)

    def _budget(self, kind: Kind[Any], change: Change[Any]) -> None:
        meta = change.object.metadata
        if change.type == "DELETED":
            self.budgets.drop(kind.kind, meta.namespace or "", meta.name)
        else:
            self.budgets.put(change.object)
        for job in self._jobs:
            if job.spec.pod_ref.namespace == meta.namespace and _was_refused(job):
                self.on_job(job.metadata.name)

    def _claim(self, change: Change[PersistentVolumeClaim]) -> None:
        meta = change.object.metadata
        inside = self._claims.setdefault(meta.namespace or "", {})
        if change.type == "DELETED":
            inside.pop(meta.name, None)
        else:
            inside[meta.name] = change.object


class _Pods:
    """The pods by namespace and name, as arbitration asks for them."""

    def __init__(self, informer: Informer[Pod]) -> None:
        self._informer = informer

    def get(self, key: Key, /) -> Pod | None:
        return self._informer.get(key[1], key[0])


def reservation_key(job: PodMigrationJob) -> Key:
    """Where the reservation of a job is: the one it names, else the one that is made for it."""
    options, inside = job.spec.reservation_options, job.spec.pod_ref.namespace or ""
    reference = options.reservation_ref if options else None
    if reference is None or not reference.name:
        return inside, reservation_name(job)
    return reference.namespace or inside, reference.name


def _is_active(job: PodMigrationJob) -> bool:
    """Whether it moves its pod, or is about to."""
    return not is_ended(job) and (is_running(job) or not job.spec.paused)


def _precedence(job: PodMigrationJob) -> tuple[bool, str, str]:
    return not is_running(job), job.metadata.creation_timestamp or "", job.metadata.name


def _turn(job: PodMigrationJob) -> tuple[bool, tuple[bool, str, str]]:
    """Whoever may have evicted its pod comes first."""
    return not is_evicting(job.status), _precedence(job)


def _was_refused(job: PodMigrationJob) -> bool:
    found = condition(job.status, JobConditionType.EVICTION)
    return not is_ended(job) and found is not None and found.reason == JobReason.FAILED_EVICT


def _pod_name(reference: ObjectReference) -> str:
    return f"{reference.namespace}/{reference.name}"


def _by_uid(item: Any) -> Iterable[str]:
    return (item.metadata.uid,)


def _by_pod(job: PodMigrationJob) -> Iterable[str]:
    """The pod that moves, and the one that took its place."""
    references = (job.spec.pod_ref, job.status.pod_ref)
    namespace = job.spec.pod_ref.namespace
    return {f"{one.namespace or namespace}/{one.name}" for one in references if one is not None}


def _by_seat(pod: Pod) -> Iterable[str]:
    """The reservation of which a bound pod has taken a seat."""
    seat = claimed_seat(pod) if pod.spec.node_name else None
    return () if seat is None else (f"{seat.namespace}/{seat.reservation}",)


def _by_reservation(job: PodMigrationJob) -> Iterable[str]:
    return ("/".join(reservation_key(job)),)
