"""One cycle of a profile: plan on one state of the cluster, then write the plan as jobs.

Goes in: a profile. Comes out: the plan, and its jobs unless it is a dry run. Whether a cycle may begin at all
(`blocking_reason`) is read off the stop switch, the jobs and the place reservations; nothing is remembered here.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from restow.client.create_once import create_once
from restow.client.verbs import Client
from restow.control.descheduler.cycle_reports import CycleReports
from restow.control.descheduler.event_handlers import DeschedulerEventHandlers
from restow.control.descheduler.place_reservations import (
    PlanPlaceReservations,
    abandoned_reservations,
    delete_place_reservation,
    place_reservations_in,
    plan_of_reservation,
    waiting_reservations,
)
from restow.control.descheduler.plan_jobs import PROFILE_ANNOTATION, PlanJobs, new_plan_name, pod_reference
from restow.control.descheduler.settings import DeschedulerConfiguration
from restow.control.descheduler.usage_metrics import UsageMeter
from restow.control.executor import Executor
from restow.migration.plans import last_migrations, plan_under_way, pods_not_to_plan
from restow.model.kinds import POD_MIGRATION_JOB
from restow.model.objects import Document, Reservation
from restow.planning.descheduling.policy import DeschedulerProfile
from restow.planning.descheduling.profile_cycle import CycleOutcome, GuardedEvictionRules, run_cycle
from restow.planning.plan import Plan
from restow.planning.plan_request import PlanRequest
from restow.planning.usage_samples import UsageSamples
from restow.ports import Clock

log = logging.getLogger(__name__)


class DeschedulingCycle:
    def __init__(
        self,
        client: Client,
        clock: Clock,
        handlers: DeschedulerEventHandlers,
        configuration: DeschedulerConfiguration,
        *,
        meter: UsageMeter,
        reports: CycleReports,
        executor: Executor,
    ) -> None:
        """`client` writes only while the Lease is held."""
        self._client = client
        self._clock = clock
        self._handlers = handlers
        self._policy = configuration.policy
        self._scheduler = configuration.scheduler
        self._migration = configuration.migration
        self._settings = configuration.settings
        self._meter = meter
        self._reports = reports
        self._executor = executor

    def blocking_reason(self) -> str:
        """Why no cycle may create jobs now; empty if one may."""
        return self._handlers.stop_reason() or plan_under_way(self._handlers.jobs()) or self._other_plan_waiting()

    def _other_plan_waiting(self) -> str:
        """The plan that is between two of its waves: it has no live jobs, but its reservations wait for room."""
        waiting = waiting_reservations(place_reservations_in(self._handlers.snapshot))
        plans = (plan_of_reservation(place) for place in waiting if not _is_of_descheduler(place))
        return next((f"plan {plan} is under way: its place reservations wait for pods to leave" for plan in plans), "")

    # --- planning -----------------------------------------------------------------------------------------------------

    async def plan(self, profile: DeschedulerProfile, *, dry_run: bool) -> CycleOutcome:
        """Run the plugins of a profile. Changes wait until they have planned."""
        usage: UsageSamples | None = None
        source = self._policy.usage_source_for(profile)
        if source is not None:
            usage, reading = await self._meter.measure(source)
            self._reports.usage_read(reading, record_event=not dry_run)
        with self._handlers.paused():
            request = self._plan_request(profile, usage)
            finished = self._handlers.finished_pods() if profile.removers else []
            return await self._executor(partial(run_cycle, profile, self._handlers.snapshot, request, finished))

    def _plan_request(self, profile: DeschedulerProfile, usage: UsageSamples | None) -> PlanRequest:
        now, jobs = self._clock.now(), self._handlers.jobs()
        busy_pods = pods_not_to_plan(jobs, now, self._settings.retry_failed_after)
        rules = self._handlers.eviction_rules(self._migration)
        return PlanRequest(
            engine=self._scheduler.engine,
            eviction_rules=GuardedEvictionRules(rules, profile.guards, busy_pods),
            now=now,
            pending=self._handlers.pending_pods(self._scheduler),
            scheduler_names=self._scheduler.scheduler_names,
            actions=self._scheduler.actions,
            pod_groups=self._handlers.pod_groups,
            max_moves=self._settings.max_moves,
            last_migrations=last_migrations(jobs),
            measured_usage=usage,
            peers=self._policy.peers,
            clock=asyncio.get_running_loop().time,
        )

    # --- writing ------------------------------------------------------------------------------------------------------

    async def delete_leftover_reservations(self) -> None:
        """Delete the place reservations of earlier cycles that serve nothing any more. Raises ApiError."""
        # No plan is under way now. So a descheduler's reservation that still waits will never get its room, and one
        # whose pods are not pending any more keeps its room from others.
        snapshot = self._handlers.snapshot
        reservations = place_reservations_in(snapshot)
        waiting = waiting_reservations(reservations)
        others = [place for place in reservations if _is_of_descheduler(place) and place not in waiting]
        pending = self._handlers.pending_pods(self._scheduler)
        for reservation in waiting + abandoned_reservations(others, pending, snapshot.owner_chains):
            await delete_place_reservation(self._client, snapshot, reservation)

    async def create_jobs(self, profile: DeschedulerProfile, outcome: CycleOutcome) -> tuple[str, tuple[str, ...]]:
        """Reserve the places of a plan, then create its jobs. Returns the names of the plan and of the jobs. Raises
        ApiError."""
        # In the order of the plan: if the process dies half-way, the jobs that exist are a valid plan, too.
        plan = outcome.plan
        jobs = PlanJobs(
            plan=new_plan_name(profile.name, plan, self._clock.now()),
            move_count=len(plan.moves),
            grace_seconds=self._policy.grace_seconds,
            annotations={PROFILE_ANNOTATION: profile.name},
        )
        created: list[str] = []
        await self._reserve_places(profile, jobs.plan, plan)
        for move in plan.moves:
            strategy = outcome.planner_of[move.uid]
            created.append(await self._create_job(jobs.move_document(move, pod_reference(move), strategy)))
            self._reports.move_planned(profile.name, jobs.plan, move, strategy)
        for removal in outcome.removals:
            strategy = outcome.remover_of[removal.pod.metadata.uid]
            created.append(await self._create_job(jobs.removal_document(removal.pod, strategy)))
            self._reports.removal_planned(removal, strategy)
        return jobs.plan, tuple(created)

    async def _reserve_places(self, profile: DeschedulerProfile, name: str, plan: Plan) -> None:
        """Reserve the places that are due now."""
        # A cycle creates all jobs at once and does not come back between waves. So a node that other pods of the plan
        # still have to go to cannot be reserved: the reservation would take their room.
        if not plan.places:
            return
        annotations = {PROFILE_ANNOTATION: profile.name}
        places = PlanPlaceReservations(self._client, self._clock, self._handlers, self._settings, name, annotations)
        desired = places.desired(plan.places, self._handlers.pending_pods(self._scheduler))
        await places.ensure_due(desired, plan.moves)
        not_due = [place.name for place in desired if not place.is_due(plan.moves)]
        if not_due:
            reason = f"{len(not_due)} of {len(desired)} reservations: other pods of the plan go to their nodes first"
            log.info("places not reserved", extra={"plan": name, "reason": reason})

    async def _create_job(self, document: Document) -> str:
        name: str = document["metadata"]["name"]
        self._handlers.note_written_job(await create_once(self._client, POD_MIGRATION_JOB, document))
        return name


def _is_of_descheduler(reservation: Reservation) -> bool:
    """Whether a cycle has created a reservation, and not `restow apply`."""
    return PROFILE_ANNOTATION in (reservation.metadata.annotations or {})
