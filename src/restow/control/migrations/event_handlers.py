"""Feeding: what the API shows, event by event, into facts about jobs and the scene that arbitration judges.

Goes in: the informers of the process, and the scheduler's filters. Comes out: facts about any job as the caches have
them, the cluster around all jobs, who comes in a pod's place, and the names of jobs that something happened to. Kinds
that are not installed have no objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from restow.client.cache import Change, is_older
from restow.client.informer import Informer
from restow.client.mutation_cache import MutationCache
from restow.client.shared_informers import SharedInformers
from restow.client.subscriptions import Subscriptions
from restow.control.migrations.conflicting_jobs import ConflictingJobs
from restow.control.migrations.indexes import JOB_INDEXES, POD_INDEXES, by_gang, by_seat, pod_index_key
from restow.control.migrations.successor_fit import SuccessorFit
from restow.control.view import EvictionView, StopSwitch
from restow.migration.arbitration import objections_to_eviction
from restow.migration.arguments import MigrationArguments
from restow.migration.cluster_context import ClusterContext, migration_candidate
from restow.migration.conditions import EVICTION_SETTLES_AFTER, find_condition, is_job_ended, is_job_running
from restow.migration.effective_options import effective_options
from restow.migration.facts import Facts, Objections, PredictedSeat
from restow.migration.facts_before import FactsBeforeEviction
from restow.migration.history import evicted_at
from restow.migration.reservation import (
    build_reservation,
    is_made_for_job,
    job_uid_of_reservation,
    reservation_key,
    reservation_name,
    template_problems,
)
from restow.migration.reservation_order import earlier_reservation
from restow.migration.successor_spec import possible_successors
from restow.model import kinds
from restow.model.cluster.owner_chains import group_name
from restow.model.object_key import Key
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
    PodTemplate,
    Reservation,
)
from restow.model.queues import queue_name
from restow.model.reservations.matching import requested_reservation
from restow.model.reservations.observed_spec import is_being_deleted
from restow.ports import Clock
from restow.scheduling.engine import Engine
from restow.scheduling.gang_readiness import GangReadiness
from restow.scheduling.jobs import why_successor_unschedulable
from restow.scheduling.seat_checks.admission_check import Arrival

T = TypeVar("T", bound=Object)


class Feed:
    """`on_job` is told the name of every job that something happened to, `on_news` of everything."""

    def __init__(self, informers: SharedInformers, clock: Clock, namespace: str, engine: Engine) -> None:
        self.on_job: Callable[[str], None] = lambda name: None
        self.on_news: Callable[[], None] = lambda: None
        self._clock = clock
        self._reader = reader = Subscriptions(informers, after_event=self._heard)
        self.arrivals = SuccessorFit(reader, engine)
        self._evictions = EvictionView(reader)
        self._workloads = self._evictions.workloads
        self._switch = StopSwitch(reader, namespace, self._switched)
        for kind in kinds.BUDGETS:
            reader.subscribe(kind, self._budget)
        self._nodes = reader.subscribe(kinds.NODE)
        self._groups = reader.subscribe(kinds.POD_GROUP)
        self._pods = reader.subscribe(kinds.POD, self._pod, indexes=POD_INDEXES)
        self._reservations = reader.subscribe(kinds.RESERVATION, self._reservation)
        self._made = MutationCache(self._reservations, clock)
        self._seen = reader.subscribe(kinds.POD_MIGRATION_JOB, self._job, indexes=JOB_INDEXES)
        self._jobs = MutationCache(self._seen, clock)
        self.rivals = ConflictingJobs(self._jobs, self._pods, self._workloads, clock)
        self._sent: dict[str, bool] = {}
        """Whether evictions that this process wrote down were sent, by the UIDs of their jobs."""

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
        self._jobs.record_write(job)

    def note_intent(self, job: PodMigrationJob) -> None:
        """An eviction is being written down, and is not sent yet; one that was sent before may still be on its way."""
        if self.job_by_uid(job.metadata.uid) is not None:  # of one that is gone nobody would forget it
            self._sent.setdefault(job.metadata.uid, False)

    def note_sent(self, job: PodMigrationJob, *, sent: bool = True) -> None:
        """It is sent now: nobody can say afterwards that it was not, unless it was certainly refused."""
        if self.job_by_uid(job.metadata.uid) is not None:
            self._sent[job.metadata.uid] = sent

    def note_made(self, reservation: Reservation) -> None:
        """A reservation as we have just made it, likewise."""
        self._made.record_write(reservation)

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
        return self._switch.stop_reason()

    def scene(self) -> ClusterContext:
        """The cluster around the jobs."""
        return ClusterContext(
            now=self._clock.now(),
            pods=_Pods(self._pods),
            workloads=self._workloads,
            budgets=self._evictions.budgets,
            shared_claims=self._evictions.shared_claims,
            claims=self._evictions.claims,
            node_labels=_Labels(self._nodes),
            priority_classes=self._evictions.priority_classes,
        )

    def pod_key(self, job: PodMigrationJob) -> Key:
        """Where the pod is that a job means: it is known by its UID, whatever it is called."""
        reference = job.spec.pod_ref
        known = self.pod_by_uid(reference.uid) if reference.uid else None
        meta = known.metadata if known is not None else reference
        return meta.namespace or "", meta.name or ""

    def facts(self, job: PodMigrationJob, arguments: MigrationArguments) -> Facts:
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
                options=effective_options(job, arguments),
                now=self._clock.now(),
                pod=pod,
                reservation=reservation,
                consumers=tuple(pod for pod in found if pod is not None),
                stop_reason=self.stopped(),
            ),
            arguments,
        )

    def since(self, facts: Facts, arguments: MigrationArguments) -> Facts | None:
        """Facts that were read, with what was heard of since; None if the job is gone."""
        job = self.job(facts.job.metadata.name)
        if job is None or job.metadata.uid != facts.job.metadata.uid:
            return None
        heard = replace(
            facts,
            job=job,
            options=effective_options(job, arguments),
            now=self._clock.now(),
            pod=_as_heard(self._pods, facts.pod),
            reservation=_as_heard(self._reservations, facts.reservation),
            nodes={name: _as_heard(self._nodes, node) for name, node in facts.nodes.items()},
            stop_reason=self.stopped() or facts.stop_reason,
        )
        return self.around(heard, arguments)

    def takers_of(self, job: PodMigrationJob, reservation: Reservation | None) -> list[ObjectReference]:
        """Who has taken seats, by what the job and the reservation say; once that is gone, by what pods say."""
        placements = (reservation.status.placements if reservation else None) or ()
        named = [job.status.pod_ref, *(one.pod_ref for one in placements)]
        if reservation is None or is_being_deleted(reservation):
            bound = self._pods.find("seat", "/".join(reservation_key(job)))
            named += [ObjectReference(name=one.metadata.name, uid=one.metadata.uid) for one in bound]
        namespace = job.spec.pod_ref.namespace
        found = {
            one.uid: ObjectReference(namespace=one.namespace or namespace, name=one.name, uid=one.uid)
            for one in named
            if one is not None
        }
        return list(found.values())

    def around(self, facts: Facts, arguments: MigrationArguments) -> Facts:
        """The facts with what is only known from caches: who owns the pod, what protects it, and which other jobs
        speak of it."""
        pod, job = facts.pod, facts.job
        workload = self._workloads.workload_of(pod) if pod is not None else None
        given = _is_given(facts)
        anew = self.template(pod) if pod is not None else None
        comes = possible_successors(pod, anew)[-1] if pod is not None else None
        stands = self._standing(job, facts.migrating_pod, arguments)
        facts = replace(
            facts,
            owner_chain=tuple(self._workloads.owner_chain(pod)) if pod is not None else (),
            workload_uid=workload.uid if workload else None,
            successor_template=anew,
            successor_queue=self._queue_of(comes) if comes is not None else None,
            successor_group=self._group_of(comes) if comes is not None else None,
            gang_problem=self._stranded(comes) if comes is not None else None,
            named_reservation=requested_reservation(comes, self._group_of) if comes is not None else None,
            objections=stands,
            conflicting_job=self.rivals.job_moving_same_pod(job),
            foreign_consumers=self.rivals.foreign_consumers(facts) if given else frozenset(),
            jobs_ahead=self.rivals.jobs_ahead(job) if given else (),
            eviction_unsent=self._is_unsent(job),
        )
        if facts.migrating_pod is None or facts.reservation is None:
            return replace(facts, predicted_seat=self._outlook(facts))
        before = FactsBeforeEviction.of(facts)
        if before is None or not given:
            return facts
        seats = before.with_reservation(facts.reservation)
        takes = partial(self._takes, seats.possible_successors[-1])
        return replace(facts, earlier_reservation=earlier_reservation(seats, self._reservations, takes))

    def _takes(self, pod: Pod, reservation: Reservation, seats: Sequence[Placement]) -> bool:
        """Whether whoever comes, and is like a pod, would get one of these seats, were it to come now."""
        kept_from = self.arrivals.rejected_seats(
            reservation, seats, self.arrival(pod), (), spare=0, now=self._clock.now()
        )
        return len(kept_from) < len(seats)

    def _outlook(self, facts: Facts) -> PredictedSeat | None:
        """What would become of the reservation that is only said to be made; asked when that is decided."""
        job, pod, is_asked = (
            facts.job,
            facts.migrating_pod,
            facts.options.dry_run and facts.eviction_dry_run is not None,
        )
        if not is_asked or pod is None or template_problems(job, pod, facts.owner_chain):
            return None
        made = build_reservation(
            job,
            pod,
            facts.owner_chain,
            seconds=1.0,
            queue=facts.successor_queue,
            successor_template=facts.successor_template,
        )
        return self.arrivals.predict_seat(made, pod.metadata.uid, now=facts.now)

    def arrival(self, pod: Pod) -> Arrival:
        """Whoever comes in a pod's place, and is like this."""
        return Arrival(pod, self._queue_of(pod), pod.metadata.uid)

    def arrival_of(self, name: str) -> Arrival | None:
        """Whoever comes in the place of a job's pod; None if nothing is known of that."""
        job = self.job(name)
        pod = self.pod_by_uid(job.spec.pod_ref.uid or "") if job is not None else None
        return self.arrival(possible_successors(pod, self.template(pod))[-1]) if pod is not None else None

    def template(self, pod: Pod) -> PodTemplate | None:
        """What the controller of a pod makes pods from now."""
        return self._workloads.pod_template(pod)

    def _standing(self, job: PodMigrationJob, pod: Pod | None, arguments: MigrationArguments) -> Objections:
        """How a pod stands once its job runs: arbitration asks before."""
        if pod is None or not is_job_running(job):
            return Objections()
        scene = self.scene()
        return objections_to_eviction(migration_candidate(job, pod, scene), scene, arguments, self._is_sent_away)

    def _is_sent_away(self, pod: Pod) -> bool:
        """Whether an eviction of a pod is, or may be, on its way."""
        meta, since = pod.metadata, self._clock.now() - EVICTION_SETTLES_AFTER
        return any(
            (at := evicted_at(job)) is not None and at > since and not self._is_unsent(job)
            for job in self._jobs.find("pod", f"{meta.namespace}/{meta.name}")
            if job.spec.pod_ref.uid == meta.uid
        )

    def may_be_evicted(self, facts: Facts) -> bool:
        """Whether an eviction for a job may be on its way already, whatever the job itself has forgotten."""
        return self._sent.get(facts.job.metadata.uid, False) or (facts.is_evicting and not facts.eviction_unsent)

    def _is_unsent(self, job: PodMigrationJob) -> bool:
        """Whether an eviction that was written down was certainly not sent: of those of others nobody can say."""
        return self._sent.get(job.metadata.uid) is False

    def _queue_of(self, pod: Pod) -> str:
        return queue_name(self._group_of(pod), pod)

    def _stranded(self, pod: Pod) -> str | None:
        members = (one for gang in by_gang(pod) for one in self._pods.find("gang", gang))
        return why_successor_unschedulable(pod, self._group_of(pod), GangReadiness.of(members))

    def _group_of(self, pod: Pod) -> PodGroup | None:
        gang = group_name(pod)
        return self._groups.get(gang, pod.metadata.namespace) if gang else None

    # --- news ---------------------------------------------------------------------------------------------------------

    def _heard(self) -> None:
        self.on_news()

    def _job(self, change: Change[PodMigrationJob]) -> None:
        self._jobs.observe(change)
        self.on_job(change.object.metadata.name)
        if change.type == "DELETED":
            self._sent.pop(change.object.metadata.uid, None)
        if change.type == "DELETED" or is_job_ended(change.object):
            self.rivals.forget(change.object)
        if change.type == "DELETED" or (is_job_ended(change.object) and change.old and not is_job_ended(change.old)):
            for other in self._seen.find("pod", pod_index_key(change.object.spec.pod_ref)):
                self.on_job(other.metadata.name)

    def _pod(self, change: Change[Pod]) -> None:
        pod = change.object
        taken = (job for seat in by_seat(pod) for job in self._seen.find("reservation", seat))
        for job in (*self._seen.find("pod", f"{pod.metadata.namespace}/{pod.metadata.name}"), *taken):
            if not is_job_ended(job):
                self.on_job(job.metadata.name)

    def _reservation(self, change: Change[Reservation]) -> None:
        reservation = change.object
        uid = job_uid_of_reservation(reservation)
        found = self._seen.find("uid", uid) if uid is not None else []
        meta = reservation.metadata
        self._made.observe(change)
        given = (
            job for job in self._seen.find("reservation", f"{meta.namespace}/{meta.name}") if not is_job_ended(job)
        )
        for job in (*found, *given):
            self.on_job(job.metadata.name)

    def _switched(self, change: Change[ConfigMap]) -> None:
        for job in self._seen:
            if not is_job_ended(job):
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


def _is_given(facts: Facts) -> bool:
    """Whether the reservation of a job was not made for it; it may be gone by now."""
    if facts.reservation is not None:
        return not is_made_for_job(facts.reservation, facts.job)
    return reservation_key(facts.job)[1] != reservation_name(facts.job)


def _was_refused(job: PodMigrationJob) -> bool:
    found = find_condition(job.status, JobConditionType.EVICTION)
    return not is_job_ended(job) and found is not None and found.reason == JobReason.FAILED_EVICT
