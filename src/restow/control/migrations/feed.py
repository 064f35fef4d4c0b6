"""Feeding: what the API shows, event by event, into facts about jobs and the scene that arbitration judges.

Goes in: the informers of the process, and the scheduler's filters. Comes out: facts about any job as the caches have
them, the cluster around all jobs, who comes in a pod's place, and the names of jobs that something happened to. Kinds
that are not installed have no objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from restow.client.cache import Change, is_older
from restow.client.informer import Informer
from restow.client.informers import Informers
from restow.client.latest import Latest
from restow.client.reader import Reader
from restow.control.migrations.arrivals import Arrivals
from restow.control.view import EvictionView, StopSwitch
from restow.migration.arbitration import forbidden, unheard
from restow.migration.arguments import Arguments
from restow.migration.conditions import condition, ended_at, is_ended, is_evicting, is_running
from restow.migration.facts import Facts
from restow.migration.history import WORKLOAD_ANNOTATION
from restow.migration.likeness import likenesses
from restow.migration.precedence import sooner
from restow.migration.reservation import is_made_for, job_uid, reservation_name
from restow.migration.scene import Scene, candidate
from restow.migration.steps import SETTLED
from restow.migration.terms import terms_of
from restow.model import kinds
from restow.model.cluster.names import Key
from restow.model.cluster.owners import group_name
from restow.model.cluster.seat import named_seat
from restow.model.objects import (
    ConfigMap,
    JobConditionType,
    JobReason,
    Node,
    Object,
    ObjectReference,
    Placement,
    Pod,
    PodGroup,
    PodMigrationJob,
    PodMigrationJobStatus,
    PodTemplate,
    Reservation,
)
from restow.model.pods import is_terminating
from restow.model.tenancy import queue_name
from restow.ports import Clock
from restow.scheduling.engine import Engine
from restow.scheduling.jobs import stranded
from restow.scheduling.reservations.arriving import Arrival
from restow.scheduling.reservations.matching import named_by
from restow.scheduling.turnout import Turnout

T = TypeVar("T", bound=Object)


class Feed:
    """`on_job` is told the name of every job that something happened to, `on_news` of everything."""

    def __init__(self, informers: Informers, clock: Clock, namespace: str, engine: Engine) -> None:
        self.on_job: Callable[[str], None] = lambda name: None
        self.on_news: Callable[[], None] = lambda: None
        self._clock = clock
        self._reader = reader = Reader(informers)
        reader.on_news = self._heard
        self.arrivals = Arrivals(reader, engine)
        self._evictions = EvictionView(reader)
        self._workloads = self._evictions.workloads
        self._switch = StopSwitch(reader, namespace, self._switched)
        for kind in kinds.BUDGETS:
            reader.read(kind, self._budget)
        self._nodes = reader.read(kinds.NODE)
        self._groups = reader.read(kinds.POD_GROUP)
        self._pods = reader.read(kinds.POD, self._pod, indexes=_POD_INDEXES)
        self._reservations = reader.read(kinds.RESERVATION, self._reservation)
        self._made = Latest(self._reservations, clock)
        self._seen = reader.read(
            kinds.POD_MIGRATION_JOB,
            self._job,
            indexes={"uid": _by_uid, "pod": _by_pod, "reservation": _by_reservation},
        )
        self._jobs = Latest(self._seen, clock)
        self._evicting: set[str] = set()
        self._taking: dict[str, str] = {}
        """The successors that are being written down, by the UIDs of jobs."""

    # --- running ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep up with the API, until cancelled."""
        await self._reader.run()

    async def synced(self) -> None:
        """Wait until everything that exists was seen once."""
        await self._reader.synced()

    # --- reading ------------------------------------------------------------------------------------------------------

    def note(self, job: PodMigrationJob) -> None:
        """A job as we have just written it: the watch may show it later."""
        self._jobs.note(job)

    def note_made(self, reservation: Reservation) -> None:
        """A reservation as we have just made it, likewise."""
        self._made.note(reservation)

    def job(self, name: str) -> PodMigrationJob | None:
        """A job as last seen or written; None if it is not there."""
        seen = self._seen.get(name)
        return self._jobs.newest(seen) if seen is not None else None

    def jobs(self) -> Iterator[PodMigrationJob]:
        return map(self._jobs.newest, self._seen)

    def job_by_uid(self, uid: str) -> PodMigrationJob | None:
        return next(iter(self._jobs.find("uid", uid)), None)

    def pod_by_uid(self, uid: str) -> Pod | None:
        return next(iter(self._pods.find("uid", uid)), None)

    def reservations(self) -> Iterable[Reservation]:
        return self._reservations

    def stopped(self) -> str | None:
        """Why nothing is evicted, as last seen."""
        return self._switch.stopped()

    def scene(self) -> Scene:
        """The cluster around the jobs."""
        return Scene(
            now=self._clock.now(),
            pods=_Pods(self._pods),
            workloads=self._workloads,
            budgets=self._evictions.budgets,
            claims=self._evictions.claims,
            node_labels=_Labels(self._nodes),
            priority_classes=self._evictions.priority_classes(),
        )

    def pod_key(self, job: PodMigrationJob) -> Key:
        """Where the pod is that a job means: it is known by its UID, whatever it is called."""
        reference = job.spec.pod_ref
        known = self.pod_by_uid(reference.uid) if reference.uid else None
        meta = known.metadata if known is not None else reference
        return meta.namespace or "", meta.name or ""

    def facts(self, job: PodMigrationJob, arguments: Arguments) -> Facts:
        """What the caches know about a job."""
        inside, name = self.pod_key(job)
        pod = self._pods.get(name, inside)
        where = reservation_key(job)
        reservation = self._made.get(where[1], where[0])
        named = self.takers_of(job, reservation)
        found = (self._pods.get(one.name or "", one.namespace) for one in named)
        return self.around(
            Facts(
                job=job,
                terms=terms_of(job, arguments),
                now=self._clock.now(),
                pod=pod,
                reservation=reservation,
                takers=tuple(pod for pod in found if pod is not None),
                stopped=self.stopped(),
            ),
            arguments,
        )

    def since(self, facts: Facts, arguments: Arguments) -> Facts | None:
        """Facts that were read, with what was heard of since; None if the job is gone."""
        job = self.job(facts.job.metadata.name)
        if job is None or job.metadata.uid != facts.job.metadata.uid:
            return None
        heard = replace(
            facts,
            job=job,
            terms=terms_of(job, arguments),
            now=self._clock.now(),
            pod=_as_heard(self._pods, facts.pod),
            reservation=_as_heard(self._reservations, facts.reservation),
            nodes={name: _as_heard(self._nodes, node) for name, node in facts.nodes.items()},
            stopped=self.stopped() or facts.stopped,
        )
        return self.around(heard, arguments)

    def takers_of(self, job: PodMigrationJob, reservation: Reservation | None) -> list[ObjectReference]:
        """Who has taken seats, by what the job and the reservation say; once that is gone, by what pods say."""
        placements = (reservation.status.placements if reservation else None) or ()
        named = [job.status.pod_ref, *(one.pod_ref for one in placements)]
        if reservation is None:
            bound = self._pods.find("seat", "/".join(reservation_key(job)))
            named += [ObjectReference(name=one.metadata.name, uid=one.metadata.uid) for one in bound]
        namespace = job.spec.pod_ref.namespace
        found = {
            one.uid: ObjectReference(namespace=one.namespace or namespace, name=one.name, uid=one.uid)
            for one in named
            if one is not None
        }
        return list(found.values())

    def around(self, facts: Facts, arguments: Arguments) -> Facts:
        """The facts with what is only known from caches: who owns the pod, what protects it, and which other jobs
        speak of it."""
        pod, job = facts.pod, facts.job
        workload = self._workloads.of(pod) if pod is not None else None
        given = _is_given(facts)
        anew = self.template(pod) if pod is not None else None
        comes = likenesses(pod, anew)[-1] if pod is not None else None
        facts = replace(
            facts,
            owners=tuple(self._workloads.chain(pod)) if pod is not None else (),
            workload=workload.uid if workload else None,
            anew=anew,
            queue=self._queue_of(comes) if comes is not None else None,
            group=self._group_of(comes) if comes is not None else None,
            gang=self._stranded(comes) if comes is not None else None,
            insists_on=named_by(comes, self._group_of) if comes is not None else None,
            forbidden=self._forbidden(job, facts.mover, arguments) if facts.mover is not None else None,
            unheard=self._unheard(job, facts.mover, arguments) if facts.mover is not None else None,
            rival=self._rival(job),
            of_others=frozenset((*self._of_others(job), *self._strangers(facts))) if given else frozenset(),
            ahead=tuple(self.ahead(job)) if given else (),
        )
        if facts.mover is None or facts.reservation is None:
            return facts
        before = sooner(facts, self._reservations, partial(self._takes, facts.likely[-1])) if given else None
        return replace(facts, sooner=before)

    def _takes(self, pod: Pod, reservation: Reservation, seats: Sequence[Placement]) -> bool:
        """Whether whoever comes, and is like a pod, would get one of these seats, were it to come now."""
        kept_from = self.arrivals.shut_out(reservation, seats, self.arrival(pod), (), spare=0, now=self._clock.now())
        return len(kept_from) < len(seats)

    def arrival(self, pod: Pod) -> Arrival:
        """Whoever comes in a pod's place, and is like this."""
        return Arrival(pod, self._queue_of(pod), pod.metadata.uid)

    def arrival_of(self, name: str) -> Arrival | None:
        """Whoever comes in the place of a job's pod; None if nothing is known of that."""
        job = self.job(name)
        pod = self.pod_by_uid(job.spec.pod_ref.uid or "") if job is not None else None
        return self.arrival(likenesses(pod, self.template(pod))[-1]) if pod is not None else None

    def template(self, pod: Pod) -> PodTemplate | None:
        """What the controller of a pod makes pods from now."""
        return self._workloads.template(pod)

    def _forbidden(self, job: PodMigrationJob, pod: Pod, arguments: Arguments) -> str | None:
        """Asked again once it runs: arbitration asks before."""
        if not is_running(job):
            return None
        scene = self.scene()
        return forbidden(candidate(job, pod, scene), scene, arguments)

    def _unheard(self, job: PodMigrationJob, pod: Pod, arguments: Arguments) -> str | None:
        """Likewise."""
        scene = self.scene()
        return unheard(candidate(job, pod, scene), scene, arguments) if is_running(job) else None

    def _queue_of(self, pod: Pod) -> str:
        return queue_name(self._group_of(pod), pod)

    def _stranded(self, pod: Pod) -> str | None:
        members = (one for gang in _by_gang(pod) for one in self._pods.find("gang", gang))
        return stranded(pod, self._group_of(pod), Turnout.of(members))

    def _group_of(self, pod: Pod) -> PodGroup | None:
        gang = group_name(pod)
        return self._groups.get(gang, pod.metadata.namespace) if gang else None

    def _rival(self, job: PodMigrationJob) -> str | None:
        """The job that moves the same pod and comes first: admitted ones do, then older ones."""
        reference = job.spec.pod_ref
        same = [
            other
            for other in self._jobs.find("pod", _pod_name(reference))
            if other.metadata.uid != job.metadata.uid
            and _is_active(other)
            and other.spec.pod_ref.name == reference.name
            and (other.spec.pod_ref.uid or reference.uid) == (reference.uid or other.spec.pod_ref.uid)
        ]
        first = min(same, key=_precedence, default=None)
        return first.metadata.name if first is not None and _precedence(first) < _precedence(job) else None

    def _of_others(self, job: PodMigrationJob) -> Iterator[str]:
        yield from (taker for other, taker in self._taking.items() if other != job.metadata.uid)
        for other in self.jobs():
            if other.metadata.uid != job.metadata.uid and other.status.pod_ref is not None:
                yield other.status.pod_ref.uid or ""

    def _strangers(self, facts: Facts) -> Iterator[str]:
        """Who has taken a seat of what was given to a job, and is of another workload than its pod."""
        its = (facts.job.metadata.annotations or {}).get(WORKLOAD_ANNOTATION)
        for pod in facts.takers:
            workload = self._workloads.of(pod)
            if its and workload is not None and workload.uid != its:
                yield pod.metadata.uid

    def _is_leaving(self, job: PodMigrationJob) -> bool:
        """Whether the pod is there that a job has evicted, as far as it is on its way, or may be."""
        pod, ended = self.pod_by_uid(job.spec.pod_ref.uid or ""), ended_at(job)
        unheard = ended is not None and self._clock.now() - ended < SETTLED
        return pod is not None and (is_terminating(pod) or unheard)

    def ahead(self, job: PodMigrationJob) -> Iterator[str]:
        """The jobs whose successors will take seats of the same reservation before this one's: also one that has ended,
        as long as the pod is there that it has evicted."""
        for other in self._jobs.find("reservation", "/".join(reservation_key(job))):
            leaving = is_evicting(other.status) and self._is_leaving(other)
            wants = (is_running(other) or leaving) and other.status.pod_ref is None
            if wants and other.metadata.uid != job.metadata.uid and self._turn(other) < self._turn(job):
                yield other.metadata.name

    def _turn(self, job: PodMigrationJob) -> tuple[bool, tuple[bool, str, str]]:
        """Whoever may have evicted its pod comes first."""
        evicts = is_evicting(job.status) or job.metadata.uid in self._evicting
        return not evicts, _precedence(job)

    @contextmanager
    def evicting(self, job: PodMigrationJob) -> Iterator[None]:
        """While it is being written down that a job evicts its pod, its rivals for a seat know."""
        self._evicting.add(job.metadata.uid)
        try:
            yield
        finally:
            self._evicting.discard(job.metadata.uid)

    @contextmanager
    def taking(self, job: PodMigrationJob, status: PodMigrationJobStatus) -> Iterator[None]:
        """While it is being written down who took a pod's place, other jobs do not take that one for their own."""
        if status.pod_ref is not None:
            self._taking[job.metadata.uid] = status.pod_ref.uid or ""
        try:
            yield
        finally:
            self._taking.pop(job.metadata.uid, None)

    # --- news ---------------------------------------------------------------------------------------------------------

    def _heard(self) -> None:
        self.on_news()

    def _job(self, change: Change[PodMigrationJob]) -> None:
        self._jobs.heed(change)
        self.on_job(change.object.metadata.name)
        if change.type == "DELETED" or (is_ended(change.object) and change.old and not is_ended(change.old)):
            for other in self._seen.find("pod", _pod_name(change.object.spec.pod_ref)):
                self.on_job(other.metadata.name)

    def _pod(self, change: Change[Pod]) -> None:
        pod = change.object
        taken = (job for seat in _by_seat(pod) for job in self._seen.find("reservation", seat))
        for job in (*self._seen.find("pod", f"{pod.metadata.namespace}/{pod.metadata.name}"), *taken):
            if not is_ended(job):
                self.on_job(job.metadata.name)

    def _reservation(self, change: Change[Reservation]) -> None:
        reservation = change.object
        uid = job_uid(reservation)
        found = self._seen.find("uid", uid) if uid is not None else []
        meta = reservation.metadata
        self._made.heed(change)
        given = (job for job in self._seen.find("reservation", f"{meta.namespace}/{meta.name}") if not is_ended(job))
        for job in (*found, *given):
            self.on_job(job.metadata.name)

    def _switched(self, change: Change[ConfigMap]) -> None:
        for job in self._seen:
            if not is_ended(job):
                self.on_job(job.metadata.name)

    def _budget(self, change: Change[Any]) -> None:
        for job in self._seen:
            if job.spec.pod_ref.namespace == change.object.metadata.namespace and _was_refused(job):
                self.on_job(job.metadata.name)


class _Pods:
    """The pods by namespace and name, as arbitration asks for them."""

    def __init__(self, informer: Informer[Pod]) -> None:
        self._informer = informer

    def get(self, key: Key, /) -> Pod | None:
        return self._informer.get(key[1], key[0])


class _Labels(Mapping[str, Mapping[str, str]]):
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


def _as_heard(informer: Informer[T], read: T | None) -> T | None:
    """An object that was read, unless the watch has shown it as it is since, or that it is gone."""
    if read is None:
        return None
    meta = read.metadata
    seen = informer.get(meta.name, meta.namespace)
    is_behind = is_older(informer.version if seen is None else seen.metadata.resource_version, meta.resource_version)
    return read if is_behind else seen


def reservation_key(job: PodMigrationJob) -> Key:
    """Where the reservation of a job is: the one it names, else the one that is made for it."""
    options, inside = job.spec.reservation_options, job.spec.pod_ref.namespace or ""
    reference = options.reservation_ref if options else None
    if reference is None or not reference.name:
        return inside, reservation_name(job)
    return reference.namespace or inside, reference.name


def _is_given(facts: Facts) -> bool:
    """Whether the reservation of a job was not made for it; it may be gone by now."""
    if facts.reservation is not None:
        return not is_made_for(facts.reservation, facts.job)
    return reservation_key(facts.job)[1] != reservation_name(facts.job)


def _is_active(job: PodMigrationJob) -> bool:
    """Whether it moves its pod, or is about to."""
    return not is_ended(job) and (is_running(job) or not job.spec.paused)


def _precedence(job: PodMigrationJob) -> tuple[bool, str, str]:
    return not is_running(job), job.metadata.creation_timestamp or "", job.metadata.name


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
    seat = named_seat(pod) if pod.spec.node_name else None
    return () if seat is None else (f"{seat.namespace}/{seat.reservation}",)


def _by_gang(pod: Pod) -> Iterable[str]:
    gang = group_name(pod)
    return () if gang is None else (f"{pod.metadata.namespace}/{gang}",)


_POD_INDEXES = {"uid": _by_uid, "seat": _by_seat, "gang": _by_gang}


def _by_reservation(job: PodMigrationJob) -> Iterable[str]:
    return ("/".join(reservation_key(job)),)
