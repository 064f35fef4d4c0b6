"""Cached facts: the facts about a job as the informers have them, and what only the informers can tell.

Goes in: the migration cache. Comes out: facts that may be old, for decisions that nothing depends on; and the part of
fresh facts that is never read from the API server, because it is about all jobs, all workloads or all reservations.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from restow.control.migrations.conflicting_jobs import ConflictingJobs
from restow.control.migrations.eviction_records import EvictionRecords
from restow.control.migrations.expected_successors import ExpectedSuccessors
from restow.control.migrations.migration_cache import MigrationCache, newest_of
from restow.control.migrations.successor_fit import SuccessorFit
from restow.migration.arbitration import objections_to_eviction
from restow.migration.arguments import MigrationArguments
from restow.migration.cluster_context import migration_candidate
from restow.migration.conditions import is_job_running
from restow.migration.effective_options import effective_options
from restow.migration.facts import NO_OBJECTIONS, Facts, Objections, PredictedSeat
from restow.migration.facts_before import FactsBeforeEviction
from restow.migration.reservation import (
    build_reservation,
    is_made_for_job,
    reservation_key,
    reservation_name,
    template_problems,
)
from restow.migration.reservation_order import earlier_reservation
from restow.model.objects import Placement, Pod, PodMigrationJob, Reservation
from restow.ports import Clock


class CachedFacts:
    def __init__(
        self,
        cache: MigrationCache,
        clock: Clock,
        conflicts: ConflictingJobs,
        records: EvictionRecords,
        successors: ExpectedSuccessors,
        fit: SuccessorFit,
    ) -> None:
        self._cache = cache
        self._clock = clock
        self._conflicts = conflicts
        self._records = records
        self._successors = successors
        self._fit = fit

    def read(self, job: PodMigrationJob, arguments: MigrationArguments) -> Facts:
        """What the informers show about a job."""
        namespace, name = self._cache.pod_key(job)
        reservation = self._cache.reservation_of(job)
        references = self._cache.consumers_of(job, reservation)
        consumers = (self._cache.pods.get(reference.name or "", reference.namespace) for reference in references)
        facts = Facts(
            job=job,
            options=effective_options(job, arguments),
            now=self._clock.now(),
            pod=self._cache.pods.get(name, namespace),
            reservation=reservation,
            consumers=tuple(pod for pod in consumers if pod is not None),
            stop_reason=self._cache.stop_reason(),
        )
        return self.complete(facts, arguments)

    def refresh(self, facts: Facts, arguments: MigrationArguments) -> Facts | None:
        """Facts that were read from the API server, with what the informers have shown since; None if the job is
        gone."""
        job = self._cache.job(facts.job.metadata.name)
        if job is None or job.metadata.uid != facts.job.metadata.uid:
            return None
        newest = replace(
            facts,
            job=job,
            options=effective_options(job, arguments),
            now=self._clock.now(),
            pod=newest_of(self._cache.pods, facts.pod),
            reservation=newest_of(self._cache.reservations, facts.reservation),
            nodes={name: newest_of(self._cache.nodes, node) for name, node in facts.nodes.items()},
            stop_reason=self._cache.stop_reason() or facts.stop_reason,
        )
        return self.complete(newest, arguments)

    def complete(self, facts: Facts, arguments: MigrationArguments) -> Facts:
        """The facts with what only the informers can tell: owners, protections, the successor, and the other jobs that
        move the same pod or use the same reservation."""
        job = facts.job
        facts = self._with_successor(facts, facts.pod)
        # Only a reservation that a user gave to several jobs has seats that other jobs or pods may take first.
        is_shared = _is_given_reservation(facts)
        facts = replace(
            facts,
            objections=self._objections(job, facts.migrating_pod, arguments),
            conflicting_job=self._conflicts.job_moving_same_pod(job),
            foreign_consumers=self._conflicts.foreign_consumers(facts) if is_shared else frozenset(),
            jobs_ahead=self._conflicts.jobs_ahead(job) if is_shared else (),
            eviction_unsent=self._records.is_unsent(job),
        )
        if facts.migrating_pod is None or facts.reservation is None:
            return replace(facts, predicted_seat=self._predict_seat(facts))
        before = FactsBeforeEviction.of(facts)
        if before is None or not is_shared:
            return facts
        seats = before.with_reservation(facts.reservation)
        fits = partial(self._fits_some_seat, seats.possible_successors[-1])
        return replace(facts, earlier_reservation=earlier_reservation(seats, self._cache.reservations, fits))

    def _with_successor(self, facts: Facts, pod: Pod | None) -> Facts:
        if pod is None:
            return replace(
                facts,
                owner_chain=(),
                workload_uid=None,
                successor_template=None,
                successor_queue=None,
                successor_group=None,
                gang_problem=None,
                named_reservation=None,
            )
        workload, successor = self._cache.workloads.workload_of(pod), self._successors.successor_of(pod)
        return replace(
            facts,
            owner_chain=tuple(self._cache.workloads.owner_chain(pod)),
            workload_uid=workload.uid if workload else None,
            successor_template=self._successors.template(pod),
            successor_queue=self._successors.queue_of(successor),
            successor_group=self._cache.group_of(successor),
            gang_problem=self._successors.gang_problem(successor),
            named_reservation=self._successors.requested_reservation(successor),
        )

    def _objections(self, job: PodMigrationJob, pod: Pod | None, arguments: MigrationArguments) -> Objections:
        """What speaks against evicting the pod of a job that runs; before it runs, arbitration asks."""
        if pod is None or not is_job_running(job):
            return NO_OBJECTIONS
        context = self._cache.cluster_context()
        candidate = migration_candidate(job, pod, context)
        return objections_to_eviction(candidate, context, arguments, self._records.may_be_leaving)

    def _fits_some_seat(self, successor: Pod, reservation: Reservation, seats: Sequence[Placement]) -> bool:
        """Whether the filters would let a successor into one of these seats now."""
        return len(self._fit.rejected_seats(reservation, seats, successor, (), spare=0)) < len(seats)

    def _predict_seat(self, facts: Facts) -> PredictedSeat | None:
        """Where the reservation of a dry run would be placed; asked only once it is decided that it would be created,
        which the dry run of the eviction comes before."""
        job, pod = facts.job, facts.migrating_pod
        is_decided = facts.options.dry_run and facts.eviction_dry_run is not None
        if not is_decided or pod is None or template_problems(job, pod, facts.owner_chain):
            return None
        reservation = build_reservation(
            job,
            pod,
            facts.owner_chain,
            seconds=1.0,
            queue=facts.successor_queue,
            successor_template=facts.successor_template,
        )
        return self._fit.predict_seat(reservation, pod.metadata.uid, now=facts.now)


def _is_given_reservation(facts: Facts) -> bool:
    """Whether the job's reservation was not created for it; the reservation may be gone by now."""
    if facts.reservation is not None:
        return not is_made_for_job(facts.reservation, facts.job)
    return reservation_key(facts.job)[1] != reservation_name(facts.job)
