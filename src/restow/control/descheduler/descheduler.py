"""The descheduler: the story of a cycle.

    a trigger ──nothing in the way?──> news is held ──run_cycle──> a plan ──jobs──> one PodMigrationJob for each move

Goes in: an API server, a clock, a Random, a policy, the arguments of migrations and the scheduler's profile. What comes
out are jobs, which others carry out, and an Event on each pod that is to move. Nothing that matters lives only here:
whether a plan is under way, which pods are on the move and which nodes rest is read off the jobs.

A run is refused while a plan is under way, whoever made it, while another process plans (`turns`), and while the stop
switch is on, also where that comes about while it plans; runs on an interval or a schedule wait until nothing is in
their way. A run that somebody asks for ends with the descheduler that it was asked of: the next one knows nothing of it
but its jobs.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from random import Random

import msgspec
from msgspec.structs import replace

from restow.client.create_once import create_once
from restow.client.event_recorder import EventRecorder
from restow.client.shared_informers import SharedInformers
from restow.client.verbs import Client
from restow.control.descheduler.cycle_lease import CycleLease, LeaseHeldElsewhere, LeaseLost
from restow.control.descheduler.event_handlers import DeschedulerEventHandlers
from restow.control.descheduler.metrics import DeschedulerMetrics
from restow.control.descheduler.place_reservations import (
    PlaceReservations,
    abandoned_reservations,
    delete_place_reservation,
    place_reservations_in,
    plan_of_reservation,
    waiting_reservations,
)
from restow.control.descheduler.plan_jobs import (
    PROFILE_ANNOTATION,
    STRATEGY_ANNOTATION,
    PlanJobs,
    new_plan_name,
    pod_reference,
)
from restow.control.descheduler.settings import DeschedulerSettings
from restow.control.descheduler.usage_metrics import UsageMeter, UsageReading
from restow.control.executor import Executor, run_inline, uncancellable
from restow.defaults import NAME
from restow.migration.arguments import MigrationArguments
from restow.migration.history import evicted_at
from restow.migration.plans import last_migrations, plan_under_way, pods_not_to_plan
from restow.model.cron import Schedule
from restow.model.kinds import POD, POD_MIGRATION_JOB
from restow.model.objects import Document, JobPhase, ObjectReference, PodMigrationJob, Reservation
from restow.model.reservations.reservation_annotations import MOVED_FROM_ANNOTATION
from restow.model.wire import WireError
from restow.planning.descheduling.policy import DeschedulerPolicy, DeschedulerProfile
from restow.planning.descheduling.profile_cycle import CycleOutcome, GuardedEvictionRules, run_cycle
from restow.planning.plan import Plan
from restow.planning.plan_request import PlanRequest
from restow.ports import Api, ApiError, Clock, Prometheus
from restow.scheduling.registry import Profile as SchedulerProfile

log = logging.getLogger(__name__)


class RunRefused(Exception):
    """A run does not begin; the message says why."""


class DeschedulerRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a cycle came to."""

    profile: str
    plan: str
    """The name of its plan; empty where no jobs were created."""
    outcome: CycleOutcome
    jobs: tuple[str, ...] = ()


class Descheduler:
    """`run()` it until it is cancelled; one at a time per cluster, which leader election sees to."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        rng: Random,
        *,
        policy: DeschedulerPolicy,
        scheduler: SchedulerProfile,
        arguments: MigrationArguments | None = None,
        settings: DeschedulerSettings | None = None,
        metrics: DeschedulerMetrics | None = None,
        prometheus: Prometheus | None = None,
        aside: Executor = run_inline,
        informers: SharedInformers | None = None,
    ) -> None:
        self._policy = policy
        self._scheduler = scheduler
        self._arguments = arguments or MigrationArguments()
        self._settings = settings or DeschedulerSettings()
        self._metrics = metrics or DeschedulerMetrics()
        self._aside = uncancellable(aside)
        self._clock = clock
        self._client = Client(api, manager="restow-descheduler")
        self._meter = UsageMeter(self._client, clock, prometheus)
        self._is_measured = True
        self._feed = DeschedulerEventHandlers(
            informers or SharedInformers(self._client, rng), clock, self._settings.namespace
        )
        self._feed.on_ended = self._count_ended
        self._recorder = EventRecorder(self._client, clock, Random(rng.getrandbits(64)))
        self._turns = CycleLease(api, clock, Random(rng.getrandbits(64)), self._feed, self._settings)
        self._acting = Client(self._turns.api, manager="restow-descheduler")
        """For what only whoever has a turn may write."""
        self._planning = asyncio.Lock()
        """Nobody plans while somebody else does."""
        self._is_acting = False
        """Whether a cycle is under way that may do something."""
        self._asked_for: set[asyncio.Future[DeschedulerRun]] = set()
        self._ready = asyncio.Event()

    async def run(self) -> None:
        """Run profiles when they are due, until cancelled."""
        try:
            await self._run()
        finally:
            runs = list(self._asked_for)
            for one in runs:
                one.cancel()
            await asyncio.gather(*runs, return_exceptions=True)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._feed.run(), name="descheduler feed")
            tasks.create_task(self._recorder.run(), name="descheduler events")
            await self._feed.synced()
            self._ready.set()
            for profile in self._policy.profiles:
                if profile.interval is not None or profile.schedule is not None:
                    tasks.create_task(self._keep(profile), name=f"descheduler profile {profile.name}")
            await asyncio.Event().wait()

    async def ready(self) -> None:
        """Wait until the descheduler knows the cluster and has begun."""
        await self._ready.wait()

    # --- triggers -----------------------------------------------------------------------------------------------------

    async def _keep(self, profile: DeschedulerProfile) -> None:
        """Run a profile whenever it is due."""
        while profile.interval is not None or (profile.schedule and await self._until_due(profile.schedule)):
            await self._run_due(profile)
            if profile.interval is not None:
                await asyncio.sleep(profile.interval)

    async def _run_due(self, profile: DeschedulerProfile) -> None:
        """Run a profile that is due; while something is in its way it waits, for the next time may be tomorrow. For the
        same reason it is tried again where the API server is in trouble, unless the next time is an interval away."""
        told, tries = "", self._settings.attempts
        while True:
            await self._nothing_in_the_way(profile)
            try:
                await self.deschedule(profile)
                return
            except RunRefused as refusal:
                if str(refusal) != told:
                    log.info("cycle refused", extra={"profile": profile.name, "told": str(refusal)})
                told = str(refusal)
            except (ApiError, WireError) as error:
                log.warning("cycle interrupted", extra={"profile": profile.name, "err": str(error)})
                self._metrics.cycle_ended(profile.name, "error")
                tries -= 1
                if profile.interval is not None or not tries:
                    return
                await asyncio.sleep(self._settings.retry_interval)
            await asyncio.sleep(self._settings.poll_interval)

    async def _until_due(self, schedule: Schedule) -> bool:
        """Wait until a schedule says so, by a clock that may be set meanwhile; False if it never does."""
        began = now = self._clock.now()
        due = schedule.after(now)
        while due is not None and now < due:
            await asyncio.sleep(min(due - now, self._settings.clock_check_interval))
            now = self._clock.now()
            if now < began:  # then another time may be the next
                began, due = now, schedule.after(now)
        return due is not None

    async def _nothing_in_the_way(self, profile: DeschedulerProfile) -> None:
        told = ""
        while why := self._in_the_way():
            if why != told:
                log.info("cycle waits", extra={"profile": profile.name, "told": why})
            told = why
            await asyncio.sleep(self._settings.poll_interval)

    def _in_the_way(self) -> str:
        if self._is_acting:
            return "a cycle is under way"
        return self._busy_elsewhere()

    def _busy_elsewhere(self) -> str:
        return self._feed.stop_reason() or plan_under_way(self._feed.jobs()) or self._claimed()

    def _claimed(self) -> str:
        """Which plan is between two of its waves: somebody carries it out who claims room and has not got it yet."""
        others = (one for one in waiting_reservations(place_reservations_in(self._feed.snapshot)) if not _is_ours(one))
        return next(
            (
                f"plan {plan_of_reservation(one)} is under way: it claims room that pods have not left yet"
                for one in others
            ),
            "",
        )

    async def trigger(self, name: str | None = None, *, dry_run: bool = False) -> DeschedulerRun:
        """Run a profile now; whoever asks may leave, the run goes on. Raises RunRefused, ApiError, and LookupError for
        a profile that is not there."""
        run = asyncio.ensure_future(self.deschedule(self._policy.profile(name), dry_run=dry_run))
        self._asked_for.add(run)
        run.add_done_callback(self._asked_for.discard)
        try:
            return await asyncio.shield(run)
        except asyncio.CancelledError:
            asking = asyncio.current_task()
            if run.cancelled() and not (asking and asking.cancelling()):
                raise RunRefused("the descheduler stopped meanwhile; what it has created is carried out") from None
            raise

    async def run_once(self, name: str | None = None, *, dry_run: bool = False) -> DeschedulerRun:
        """Get to know the cluster, run one profile, and be done. Raises as `trigger` does."""
        telling = asyncio.create_task(self._recorder.run(), name="descheduler events")
        feeding = asyncio.create_task(self._feed.run(), name="descheduler feed")
        try:
            await self._feed.synced()
            done = await self.deschedule(self._policy.profile(name), dry_run=dry_run)
            self._recorder.close()
            await telling
            return done
        finally:
            for task in (telling, feeding):
                task.cancel()
            await asyncio.gather(telling, feeding, return_exceptions=True)

    # --- a cycle ------------------------------------------------------------------------------------------------------

    async def deschedule(self, profile: DeschedulerProfile, *, dry_run: bool = False) -> DeschedulerRun:
        """One cycle of a profile; cycles that do nothing keep nobody from one that does."""
        if dry_run or self._policy.dry_run:
            async with self._planning:
                return await self._cycle(profile, dry_run=True)
        self._refuse(profile, self._in_the_way())
        self._is_acting = True
        try:
            async with self._planning:
                return await self._turns.run_while_held(partial(self._cycle, profile, dry_run=False))
        except (LeaseHeldElsewhere, LeaseLost) as why:
            raise self._refusal(profile, str(why)) from None
        finally:
            self._is_acting = False

    async def _cycle(self, profile: DeschedulerProfile, *, dry_run: bool) -> DeschedulerRun:
        began = asyncio.get_running_loop().time()
        if not dry_run:
            self._refuse(profile, self._busy_elsewhere())
            await self._forget_claims()
        outcome = await self._decide(profile, dry_run=dry_run)
        done = DeschedulerRun(profile=profile.name, plan="", outcome=outcome)
        if not dry_run and (outcome.plan.moves or outcome.removals):
            self._refuse(profile, self._busy_elsewhere())
            done = await self._write(profile, outcome)
        self._tell(profile, done, asyncio.get_running_loop().time() - began, dry_run=dry_run)
        return done

    def _refuse(self, profile: DeschedulerProfile, why: str) -> None:
        """Raises RunRefused if there is something in the way."""
        if why:
            raise self._refusal(profile, why)

    def _refusal(self, profile: DeschedulerProfile, why: str) -> RunRefused:
        self._metrics.cycle_ended(profile.name, "refused")
        return RunRefused(why)

    async def _forget_claims(self) -> None:
        """No plan of ours is under way, so what they still claim will never be free; and what they claimed for pods
        that wait no more is for others."""
        snapshot, claims = self._feed.snapshot, place_reservations_in(self._feed.snapshot)
        waiting = waiting_reservations(claims)
        rest = [one for one in claims if _is_ours(one) and one not in waiting]
        for one in waiting + abandoned_reservations(
            rest, self._feed.pending_pods(self._scheduler), snapshot.owner_chains
        ):
            await delete_place_reservation(self._acting, snapshot, one)

    async def _decide(self, profile: DeschedulerProfile, *, dry_run: bool) -> CycleOutcome:
        metering, use = self._policy.metering(profile), None
        if metering is not None:
            use, reading = await self._meter.measure(metering)
            self._metrics.usage_reading(reading.source, reading.result)
            if not dry_run:
                self._tell_reading(reading)
        with self._feed.paused():
            request = replace(self._request(profile), measured_usage=use, peers=self._policy.regard)
            ended = self._feed.finished_pods() if profile.removers else []
            return await self._aside(partial(run_cycle, profile, self._feed.snapshot, request, ended))

    def _request(self, profile: DeschedulerProfile) -> PlanRequest:
        now, jobs = self._clock.now(), self._feed.jobs()
        rules = self._feed.eviction_rules(self._arguments)
        return PlanRequest(
            engine=self._scheduler.engine,
            eviction_rules=GuardedEvictionRules(
                rules, profile.guards, pods_not_to_plan(jobs, now, self._settings.retry_failed_after)
            ),
            now=now,
            pending=self._feed.pending_pods(self._scheduler),
            scheduler_names=self._scheduler.scheduler_names,
            actions=self._scheduler.actions,
            pod_groups=self._feed.pod_groups,
            max_moves=self._settings.max_moves,
            last_migrations=last_migrations(jobs),
            clock=asyncio.get_running_loop().time,
        )

    async def _write(self, profile: DeschedulerProfile, outcome: CycleOutcome) -> DeschedulerRun:
        """Claim the places, then create the jobs in the order of the plan. Should that break off, what was created is a
        plan, too."""
        plan = outcome.plan
        jobs = PlanJobs(
            plan=new_plan_name(profile.name, plan, self._clock.now()),
            move_count=len(plan.moves),
            grace_seconds=self._policy.grace_seconds,
            annotations={PROFILE_ANNOTATION: profile.name},
        )
        made: list[str] = []
        await self._claim(profile, jobs.plan, plan)
        for move in plan.moves:
            strategy = outcome.planner_of[move.uid]
            made.append(await self._create(jobs.move_document(move, pod_reference(move), strategy)))
            self._metrics.move_planned(strategy, profile.name)
            told = f"plan {jobs.plan} moves it from {move.source} to {move.target} ({strategy})"
            self._recorder.record(_about(move.namespace, move.pod, move.uid), "MovePlanned", told)
        for removal in outcome.removals:
            meta = removal.pod.metadata
            strategy = outcome.remover_of[meta.uid]
            made.append(await self._create(jobs.removal_document(removal.pod, strategy)))
            told = f"{strategy} removes it: {removal.reason}"
            self._recorder.record(_about(meta.namespace or "default", meta.name, meta.uid), "RemovalPlanned", told)
        return DeschedulerRun(profile=profile.name, plan=jobs.plan, outcome=outcome, jobs=tuple(made))

    async def _claim(self, profile: DeschedulerProfile, name: str, plan: Plan) -> None:
        """Nobody looks after the plan wave by wave, so a node that others still have to go to is claimed by nobody."""
        if not plan.places:
            return
        notes = {PROFILE_ANNOTATION: profile.name}
        claims = PlaceReservations(self._acting, self._clock, self._feed, self._settings, name, notes)
        wanted = claims.wanted(plan.places, self._feed.pending_pods(self._scheduler))
        await claims.claim(wanted, plan.moves)
        late = [claim.name for claim in wanted if not claim.is_due(plan.moves)]
        if late:
            told = f"{len(late)} of {len(wanted)} claims: other pods are to go to their nodes first"
            log.info("places not claimed", extra={"plan": name, "told": told})

    async def _create(self, document: Document) -> str:
        name: str = document["metadata"]["name"]
        self._feed.note_written_job(await create_once(self._acting, POD_MIGRATION_JOB, document))
        return name

    # --- telling ------------------------------------------------------------------------------------------------------

    def _tell(self, profile: DeschedulerProfile, run: DeschedulerRun, seconds: float, *, dry_run: bool) -> None:
        outcome = run.outcome
        result = "dry-run" if dry_run else "planned" if run.jobs else "nothing"
        for name, problem in outcome.failures.items():
            log.error("plugin failed", extra={"profile": profile.name, "plugin": name, "err": problem})
        facts = {"profile": profile.name, "result": result, "plan": run.plan, "moves": len(outcome.plan.moves)}
        log.info("cycle", extra=facts | {"removals": len(outcome.removals), "refusals": len(outcome.plan.refusals)})
        for one in outcome.plan.refusals:
            if not one.pod:
                log.info("cycle left out", extra={"profile": profile.name, "told": one.reason})
        self._metrics.cycle_ended(profile.name, result)
        self._metrics.cycle_duration(seconds)
        for name, spent in outcome.seconds.items():
            self._metrics.plugin_duration(name, profile.name, spent)

    def _tell_reading(self, reading: UsageReading) -> None:
        """People see where Restow is installed that use is not measured, and that it is again."""
        about = ObjectReference(api_version="v1", kind="ConfigMap", namespace=self._settings.namespace, name=NAME)
        if reading.problem:
            told = f"{reading.source}: {reading.problem}"
            self._recorder.record(about, "UseNotMeasured", told, type="Warning")
        elif not self._is_measured:
            self._recorder.record(about, "UseMeasured", f"{reading.source} answers, and with what is of now")
        self._is_measured = not reading.problem

    def _count_ended(self, job: PodMigrationJob) -> None:
        notes = job.metadata.annotations or {}
        if PROFILE_ANNOTATION not in notes:
            return
        went = job.status.phase == JobPhase.SUCCEED or evicted_at(job) is not None
        self._metrics.pod_evicted(
            "success" if went else "error",
            notes.get(STRATEGY_ANNOTATION, ""),
            notes[PROFILE_ANNOTATION],
            job.spec.pod_ref.namespace or "",
            notes.get(MOVED_FROM_ANNOTATION, ""),
        )


def _is_ours(claim: Reservation) -> bool:
    """Whether a descheduler made it, which has no more to do with it than its jobs have."""
    return PROFILE_ANNOTATION in (claim.metadata.annotations or {})


def _about(namespace: str, name: str, uid: str) -> ObjectReference:
    return ObjectReference(api_version=POD.api_version, kind=POD.kind, namespace=namespace, name=name, uid=uid)
