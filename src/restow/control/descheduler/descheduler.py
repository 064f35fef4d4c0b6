"""The descheduler: when cycles run.

    a trigger ──nothing blocks it?──> hold the Lease ──> plan (changes wait) ──> one PodMigrationJob for each move

Goes in: an API server, a clock, a Random and a `DeschedulerConfiguration`. Comes out: jobs, which the migration
controller carries out, and an Event on each pod that is to move. Nothing that matters lives only in this process:
whether a plan is under way, which pods move and which nodes rest is read off the jobs.

Triggers: the interval or the schedule of a profile, POST /deschedule (`trigger`), `restow deschedule` (`run_once`). A
run is refused while a plan is under way, while another process plans (`cycle_lease`) and while evictions are stopped;
this is checked again after planning. Runs on an interval or a schedule wait until nothing blocks them. A triggered run
ends together with the descheduler that runs it; only its jobs remain.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from random import Random

import msgspec

from restow.client.event_recorder import EventRecorder
from restow.client.shared_informers import SharedInformers
from restow.client.verbs import Client
from restow.control.descheduler.cycle_lease import CycleLease, LeaseHeldElsewhere, LeaseLost
from restow.control.descheduler.cycle_reports import CycleReports
from restow.control.descheduler.descheduling_cycle import DeschedulingCycle
from restow.control.descheduler.event_handlers import DeschedulerEventHandlers
from restow.control.descheduler.metrics import DeschedulerMetrics
from restow.control.descheduler.settings import DeschedulerConfiguration
from restow.control.descheduler.usage_metrics import UsageMeter
from restow.control.executor import Executor, run_inline, uncancellable
from restow.model.cron import Schedule
from restow.model.wire import WireError
from restow.planning.descheduling.policy import DeschedulerProfile
from restow.planning.descheduling.profile_cycle import CycleOutcome
from restow.ports import Api, ApiError, Clock

log = logging.getLogger(__name__)


class RunRefused(Exception):
    """A run does not begin; the message says why."""


class DeschedulerRun(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one cycle."""

    profile: str
    plan: str
    """The name of the plan; empty if no jobs were created."""
    outcome: CycleOutcome
    jobs: tuple[str, ...] = ()


class Descheduler:
    """`run()` it until it is cancelled. Leader election makes sure that one runs per cluster."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        rng: Random,
        configuration: DeschedulerConfiguration,
        *,
        metrics: DeschedulerMetrics | None = None,
        executor: Executor = run_inline,
        informers: SharedInformers | None = None,
    ) -> None:
        self._policy = configuration.policy
        self._settings = settings = configuration.settings
        self._clock = clock
        client = Client(api, manager="restow-descheduler")
        informers = informers or SharedInformers(client, rng)
        self._recorder = EventRecorder(client, clock, Random(rng.getrandbits(64)))
        self._reports = CycleReports(self._recorder, metrics or DeschedulerMetrics(), settings.namespace)
        self._handlers = DeschedulerEventHandlers(
            informers, clock, settings.namespace, on_job_ended=self._reports.job_ended
        )
        self._lease = CycleLease(api, clock, Random(rng.getrandbits(64)), self._handlers, settings)
        self._cycle = DeschedulingCycle(
            Client(self._lease.api, manager="restow-descheduler"),
            clock,
            self._handlers,
            configuration,
            meter=UsageMeter(client, clock, configuration.prometheus),
            reports=self._reports,
            executor=uncancellable(executor),
        )
        self._planning = asyncio.Lock()
        """Held by the one cycle that plans, dry runs included: planning undoes what it does to the snapshot."""
        self._is_acting = False
        """Whether a cycle that may create jobs is under way in this process."""
        self._triggered_runs: set[asyncio.Future[DeschedulerRun]] = set()
        self._ready = asyncio.Event()

    # --- running ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run profiles when they are due, until cancelled."""
        try:
            await self._run()
        finally:
            runs = list(self._triggered_runs)
            for triggered in runs:
                triggered.cancel()
            await asyncio.gather(*runs, return_exceptions=True)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._handlers.run(), name="descheduler event handlers")
            tasks.create_task(self._recorder.run(), name="descheduler event recorder")
            await self._handlers.synced()
            self._ready.set()
            for profile in self._policy.profiles:
                if profile.interval is not None or profile.schedule is not None:
                    tasks.create_task(self._run_repeatedly(profile), name=f"descheduler profile {profile.name}")
            await asyncio.Event().wait()

    async def ready(self) -> None:
        """Wait until the descheduler knows the cluster."""
        await self._ready.wait()

    async def run_once(self, name: str | None = None, *, dry_run: bool = False) -> DeschedulerRun:
        """Get to know the cluster, run one profile, and end. Raises as `trigger` does."""
        recording = asyncio.create_task(self._recorder.run(), name="descheduler event recorder")
        following = asyncio.create_task(self._handlers.run(), name="descheduler event handlers")
        try:
            await self._handlers.synced()
            run = await self.deschedule(self._policy.profile_called(name), dry_run=dry_run)
            self._recorder.close()
            await recording
            return run
        finally:
            for task in (recording, following):
                task.cancel()
            await asyncio.gather(recording, following, return_exceptions=True)

    async def trigger(self, name: str | None = None, *, dry_run: bool = False) -> DeschedulerRun:
        """Run a profile now. The run goes on if the caller is cancelled. Raises RunRefused, ApiError, and LookupError
        for an unknown profile."""
        run = asyncio.ensure_future(self.deschedule(self._policy.profile_called(name), dry_run=dry_run))
        self._triggered_runs.add(run)
        run.add_done_callback(self._triggered_runs.discard)
        try:
            return await asyncio.shield(run)
        except asyncio.CancelledError:
            # Two cases look alike here: the caller was cancelled, or the run was, because the descheduler ends.
            caller = asyncio.current_task()
            if run.cancelled() and not (caller and caller.cancelling()):
                raise RunRefused("the descheduler stopped; jobs that it created before go on") from None
            raise

    # --- on an interval or a schedule ---------------------------------------------------------------------------------

    async def _run_repeatedly(self, profile: DeschedulerProfile) -> None:
        """Run a profile whenever it is due."""
        while profile.interval is not None or (profile.schedule and await self._wait_until_due(profile.schedule)):
            await self._run_due_profile(profile)
            if profile.interval is not None:
                await asyncio.sleep(profile.interval)

    async def _run_due_profile(self, profile: DeschedulerProfile) -> None:
        """Run a profile that is due: wait while something blocks it, and retry a scheduled run if the API server fails.
        The next scheduled run may be a day away; the next run on an interval is not, so that one is not retried."""
        logged, attempts = "", self._settings.attempts
        while True:
            await self._wait_until_unblocked(profile)
            try:
                await self.deschedule(profile)
                return
            except RunRefused as refusal:
                if str(refusal) != logged:
                    log.info("cycle refused", extra={"profile": profile.name, "reason": str(refusal)})
                logged = str(refusal)
            except (ApiError, WireError) as error:
                self._reports.cycle_failed(profile.name, error)
                attempts -= 1
                if profile.interval is not None or not attempts:
                    return
                await asyncio.sleep(self._settings.retry_interval)
            await asyncio.sleep(self._settings.poll_interval)

    async def _wait_until_due(self, schedule: Schedule) -> bool:
        """Wait for the next time of a schedule; False if it has none. The clock may be set meanwhile."""
        began = now = self._clock.now()
        due = schedule.after(now)
        while due is not None and now < due:
            await asyncio.sleep(min(due - now, self._settings.clock_check_interval))
            now = self._clock.now()
            if now < began:  # the clock was set back: an earlier time may be the next one
                began, due = now, schedule.after(now)
        return due is not None

    async def _wait_until_unblocked(self, profile: DeschedulerProfile) -> None:
        logged = ""
        while reason := self._blocking_reason():
            if reason != logged:
                log.info("cycle waits", extra={"profile": profile.name, "reason": reason})
            logged = reason
            await asyncio.sleep(self._settings.poll_interval)

    def _blocking_reason(self) -> str:
        """Why no cycle may begin; empty if one may."""
        return "a cycle is under way" if self._is_acting else self._cycle.blocking_reason()

    # --- a cycle ------------------------------------------------------------------------------------------------------

    async def deschedule(self, profile: DeschedulerProfile, *, dry_run: bool = False) -> DeschedulerRun:
        """Run one cycle of a profile. A dry run needs no Lease, and blocks no cycle that creates jobs."""
        if dry_run or self._policy.dry_run:
            async with self._planning:
                return await self._run_cycle(profile, dry_run=True)
        self._refuse_if(profile, self._blocking_reason())
        self._is_acting = True
        try:
            async with self._planning:
                return await self._lease.run_while_held(partial(self._run_cycle, profile, dry_run=False))
        except (LeaseHeldElsewhere, LeaseLost) as error:
            raise self._refusal(profile, str(error)) from None
        finally:
            self._is_acting = False

    async def _run_cycle(self, profile: DeschedulerProfile, *, dry_run: bool) -> DeschedulerRun:
        began = asyncio.get_running_loop().time()
        # 1. The Lease is held by now, and the jobs of its previous holder are known: check again.
        if not dry_run:
            self._refuse_if(profile, self._cycle.blocking_reason())
            await self._cycle.delete_leftover_reservations()
        # 2. Plan.
        outcome = await self._cycle.plan(profile, dry_run=dry_run)
        # 3. Planning takes seconds, and evictions may have been stopped meanwhile: check, then write.
        name = ""
        jobs: tuple[str, ...] = ()
        if not dry_run and (outcome.plan.moves or outcome.removals):
            self._refuse_if(profile, self._cycle.blocking_reason())
            name, jobs = await self._cycle.create_jobs(profile, outcome)
        result = "dry-run" if dry_run else "planned" if jobs else "nothing"
        seconds = asyncio.get_running_loop().time() - began
        self._reports.cycle_ended(profile.name, name, outcome, result=result, seconds=seconds)
        return DeschedulerRun(profile=profile.name, plan=name, outcome=outcome, jobs=jobs)

    def _refuse_if(self, profile: DeschedulerProfile, reason: str) -> None:
        """Raises RunRefused if there is a reason."""
        if reason:
            raise self._refusal(profile, reason)

    def _refusal(self, profile: DeschedulerProfile, reason: str) -> RunRefused:
        self._reports.cycle_refused(profile.name)
        return RunRefused(reason)
