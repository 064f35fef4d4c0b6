"""The migration controller: the loop that carries out PodMigrationJobs.

Goes in: an API server, a clock, a Random, and the configuration. What comes out happens in the API server. Nothing that
matters lives only in this process: the next leader starts from lists and goes on.

    events ──MigrationEventHandlers──> names of jobs ──WorkQueue──> reconcile one job:

    CachedFacts ──next_step──> ReadLive? LiveFacts, once more
                    │
                    ├──> AwaitAdmission     WaitingJobs, which the Arbitrator admits
                    ├──> Evict              EvictionAttempt
                    └──> any other step     JobWriter: at most one write, and the job's status
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from random import Random

import msgspec
from msgspec.structs import replace

from restow.client.event_recorder import EventRecorder
from restow.client.shared_informers import SharedInformers
from restow.client.subscriptions import Subscriptions
from restow.client.verbs import Client
from restow.client.workqueue import WorkQueue
from restow.control.migrations.arbitrator import Arbitrator, WaitingJobs
from restow.control.migrations.cached_facts import CachedFacts
from restow.control.migrations.conflicting_jobs import ConflictingJobs
from restow.control.migrations.dependencies import ActiveArguments, MigrationDependencies
from restow.control.migrations.event_handlers import MigrationEventHandlers
from restow.control.migrations.eviction_attempt import (
    FACTS_VALID_SECONDS,
    EvictionAttempt,
    EvictionNotSent,
    EvictionRefused,
    EvictionSent,
    EvictionTools,
    evict_or_wait,
)
from restow.control.migrations.eviction_rate_limit import EvictionRateLimit
from restow.control.migrations.eviction_records import EvictionRecords
from restow.control.migrations.expected_successors import ExpectedSuccessors
from restow.control.migrations.garbage_collector import MigrationGarbageCollector
from restow.control.migrations.job_reporter import JobReporter
from restow.control.migrations.job_writer import JobWriter
from restow.control.migrations.lease_gate import LeaseGate
from restow.control.migrations.live_facts import LiveFacts
from restow.control.migrations.metrics import MigrationMetrics
from restow.control.migrations.migration_cache import MigrationCache
from restow.control.migrations.settings import MigrationSettings
from restow.control.migrations.successor_fit import SuccessorFit
from restow.migration.arguments import MigrationArguments
from restow.migration.conditions import is_job_ended
from restow.migration.facts import Facts, WriteAnswer
from restow.migration.history import eviction_intended_at
from restow.migration.state_machine import next_step
from restow.migration.steps import Act, AwaitAdmission, Evict, Fail, ReadLive, Reserve, Wait
from restow.model.objects import JobPhase, PodMigrationJob
from restow.model.wire import WireError
from restow.ports import Api, ApiError, Clock, TooManyRequests
from restow.scheduling.registry import Profile, read_profile

log = logging.getLogger(__name__)

_MAX_LIVE_READS = 4
"""Reads in a row before a job is left for later: the cluster changes faster than we read."""
_LOOK_AFTER = 1.0
"""Seconds until a job is looked at again after something was done for it, if no event comes of it."""
_SHORTEST_WAIT = 0.05
"""Seconds: waking up a rounding error too early must not turn into a busy loop."""


class _CannotDecide(Exception):
    """The next step of a job cannot be decided now; it is retried, later each time."""


class MigrationConfiguration(msgspec.Struct, frozen=True):
    """What people configure."""

    arguments: MigrationArguments = MigrationArguments()
    scheduler: Profile | None = None
    """The scheduler's profile, whose filters say whether a successor fits its seat; None for the default one."""


class MigrationController:
    """`run()` it until it is cancelled; one at a time per cluster, which leader election ensures."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        rng: Random,
        configuration: MigrationConfiguration | None = None,
        *,
        settings: MigrationSettings | None = None,
        metrics: MigrationMetrics | None = None,
        informers: SharedInformers | None = None,
    ) -> None:
        configuration, metrics = configuration or MigrationConfiguration(), metrics or MigrationMetrics()
        self._settings = settings = settings or MigrationSettings()
        client, arguments = Client(api, manager="restow-migrations"), configuration.arguments
        engine = (configuration.scheduler or read_profile({})).engine
        self._clock = clock
        self._arguments = ActiveArguments(arguments)
        self._lease_gate = LeaseGate()
        self._queue: WorkQueue[str] = WorkQueue(base=0.1, cap=30.0)
        self._waiting_jobs = WaitingJobs()
        dependencies = MigrationDependencies(client, clock, settings, metrics, self._arguments, self._lease_gate)

        # 1. What is known of the cluster, and of what this process has done.
        subscriptions = Subscriptions(informers or SharedInformers(client, rng), after_event=self._waiting_jobs.notify)
        self._recorder = EventRecorder(client, clock, Random(rng.getrandbits(64)))
        self._cache = cache = MigrationCache(subscriptions, clock, settings.namespace)
        self._conflicts = ConflictingJobs(cache, clock)
        records = EvictionRecords(cache, clock)
        successors = ExpectedSuccessors(cache)
        self._fit = SuccessorFit(subscriptions, successors, clock, engine)
        MigrationEventHandlers(
            subscriptions, settings.namespace, cache, self._conflicts, records, requeue=self._queue.add
        )

        # 2. Facts, and what is done about them.
        self._cached_facts = CachedFacts(cache, clock, self._conflicts, records, successors, self._fit)
        self._live_facts = LiveFacts(dependencies, cache, self._cached_facts, self._conflicts, successors, self._fit)
        self._writer = JobWriter(client, cache)
        self._reporter = JobReporter(self._recorder, clock, metrics)
        self._rate_limit = EvictionRateLimit(arguments.evictions_per_second, arguments.eviction_burst)
        self._eviction_tools = EvictionTools(
            dependencies,
            self._cached_facts,
            self._live_facts,
            self._writer,
            self._reporter,
            self._conflicts,
            records,
            self._rate_limit,
        )
        self._arbitrator = Arbitrator(dependencies, cache, self._waiting_jobs, self._writer, self._reporter)
        self._garbage_collector = MigrationGarbageCollector(dependencies, cache)
        self._ready = asyncio.Event()
        self._workers_changed = asyncio.Event()
        self._workers: set[int] = set()
        self._observe(metrics)

    def _observe(self, metrics: MigrationMetrics) -> None:
        metrics.observe_stop_switch(lambda: float(self._cache.stop_reason() is not None))
        for phase in JobPhase:
            metrics.observe_jobs(phase, partial(self._count_jobs, phase))

    async def run(self) -> None:
        """Carry out jobs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            # 1. Learn the cluster.
            tasks.create_task(self._cache.run(), name="migrations cache")
            for number in range(self._settings.event_writers):
                tasks.create_task(self._recorder.run(), name=f"migrations events {number}")
            await self._cache.synced()
            # 2. The evictions of the leader before count against the rate limit.
            self._rate_limit.record_earlier_evictions(self._eviction_ages(), asyncio.get_running_loop().time())
            self._ready.set()
            # 3. Work.
            tasks.create_task(self._arbitrator.run(), name="migrations arbitrator")
            tasks.create_task(self._garbage_collector.run(), name="migrations garbage collector")
            while True:
                self._workers_changed.clear()
                for number in sorted(set(range(self._arguments.value.workers)) - self._workers):
                    tasks.create_task(self._work(number), name=f"migrations worker {number}")
                    self._workers.add(number)
                await self._workers_changed.wait()

    async def ready(self) -> None:
        """Wait until the controller knows the cluster and has begun."""
        await self._ready.wait()

    def configure(self, configuration: MigrationConfiguration) -> None:
        """Go by other arguments from now on, and by another profile if one is given. Jobs that are under way go by them
        from their next step."""
        arguments = configuration.arguments
        self._arguments.replace(arguments)
        if configuration.scheduler is not None:
            self._fit.configure(configuration.scheduler.engine)
        now = asyncio.get_running_loop().time()
        self._rate_limit.configure(arguments.evictions_per_second, arguments.eviction_burst, now)
        self._workers_changed.set()
        for job in self._cache.jobs():
            self._queue.add(job.metadata.name)

    def _eviction_ages(self) -> list[float]:
        """How many seconds ago pods were evicted, at the least: the status has the second in which the intent was
        recorded, and the request may have been sent as long after that as its facts last."""
        now, times = self._clock.now() - FACTS_VALID_SECONDS - 1.0, map(eviction_intended_at, self._cache.jobs())
        return [now - time for time in times if time is not None]

    def _count_jobs(self, phase: JobPhase) -> float:
        return float(sum((job.status.phase or JobPhase.PENDING) == phase for job in self._cache.jobs()))

    # --- the loop -----------------------------------------------------------------------------------------------------

    async def _work(self, number: int) -> None:
        while number < self._arguments.value.workers:
            async with self._queue.next() as name:
                await self._lease_gate.wait_until_open()
                await self._reconcile_or_retry(name)
        self._workers.discard(number)
        self._workers_changed.set()  # meanwhile this worker may be wanted again

    async def _reconcile_or_retry(self, name: str) -> None:
        """One pass over one job. Whatever goes wrong is retried, later each time."""
        try:
            await self._reconcile(name)
        except (ApiError, WireError) as error:
            self._lease_gate.record_error(error)
            delay = error.retry_after if isinstance(error, TooManyRequests) else None
            if delay:
                self._queue.add_after(name, delay)
            else:
                delay = self._queue.retry(name)
            log.info("job interrupted", extra={"job": name, "err": str(error), "delay": round(delay, 3)})
            job = self._cache.job(name)
            if job is not None:
                self._reporter.interrupted(job, error, delay)
        except _CannotDecide:
            self._queue.retry(name)
        except Exception:  # one job's trouble must not stop the others
            log.exception("job failed", extra={"job": name})
            self._queue.retry(name)
        else:
            self._queue.forget(name)

    async def _reconcile(self, name: str) -> None:
        job = self._cache.job(name)
        if job is None or not self._arguments.value.enabled:
            self._waiting_jobs.remove(name)
            return
        # 1. Decide, on facts that are as fresh as the step needs.
        facts, step = await self._decide(job)
        if facts is None or step is None:
            return
        # 2. A job that waits for nothing but admission is the arbitrator's.
        if isinstance(step, AwaitAdmission):
            self._waiting_jobs.add(name)
        else:
            self._waiting_jobs.remove(name)
        # 3. An eviction waits for its turn at the rate limit.
        if isinstance(step, Evict):
            facts, step = evict_or_wait(self._eviction_tools, facts, step)
        # 4. Do it.
        await self._carry_out(facts, step)

    async def _decide(self, job: PodMigrationJob) -> tuple[Facts, Act] | tuple[None, None]:
        """The next step and its facts; neither if the job is gone."""
        facts = self._cached_facts.read(job, self._arguments.value)
        for _ in range(_MAX_LIVE_READS):
            step = next_step(facts)
            if not isinstance(step, ReadLive):
                return facts, step
            live = await self._live_facts.read(facts.job, self._arguments.value, dry_run=step.dry_run_eviction)
            if live is None:
                return None, None
            facts = live
        raise _CannotDecide

    # --- carrying out -------------------------------------------------------------------------------------------------

    async def _carry_out(self, facts: Facts, step: Act) -> None:
        if isinstance(step, Evict):
            await self._evict(facts, step)
            return
        name = facts.job.metadata.name
        # While a successor is being recorded, other jobs must not take the same pod for theirs.
        with self._conflicts.recording_successor(facts.job, step.status):
            after, refusal = await self._writer.carry_out(facts, step)
        self._status_written(facts.job, after.job)
        if refusal is not None:
            await self._decide_after_refusal(after, refusal)
        elif isinstance(step, Wait | AwaitAdmission):
            if step.retry_at is not None:
                self._queue.add_after(name, max(step.retry_at - self._clock.now(), _SHORTEST_WAIT))
        elif isinstance(step, Reserve) and after.reservation is not None:
            await self._continue_after_creation(after)
        elif isinstance(step, Reserve | Fail):
            self._queue.add(name)
        else:
            self._queue.add_after(name, _LOOK_AFTER)

    async def _evict(self, facts: Facts, step: Evict) -> None:
        name, end = facts.job.metadata.name, await EvictionAttempt(self._eviction_tools, facts, step).run()
        match end:
            case EvictionSent():
                self._queue.add_after(name, _LOOK_AFTER)
            case EvictionNotSent():
                self._queue.add_after(name, _SHORTEST_WAIT)
            case EvictionRefused() if end.earlier_may_take_effect:
                # The status keeps saying Evicting: what becomes of the earlier request is not known.
                self._queue.add_after(name, end.refusal.retry_after or _LOOK_AFTER)
            case EvictionRefused():
                await self._decide_after_refusal(end.facts, end.refusal)

    async def _continue_after_creation(self, facts: Facts) -> None:
        """The reservation in the API server's answer is as fresh as any read, so no step waits for one."""
        step = next_step(facts)
        if isinstance(step, ReadLive):
            self._queue.add(facts.job.metadata.name)
        else:
            await self._carry_out(facts, step)

    async def _decide_after_refusal(self, facts: Facts, refusal: WriteAnswer) -> None:
        """The API server refused a write: decide once more, knowing that."""
        step = next_step(replace(facts, refusal=refusal))
        if not isinstance(step, Wait | Fail):
            raise _CannotDecide
        await self._carry_out(facts, step)

    def _status_written(self, before: PodMigrationJob, after: PodMigrationJob) -> None:
        self._reporter.status_written(before, after)
        if is_job_ended(after) and not is_job_ended(before):
            self._rate_limit.forget(after.metadata.uid)
