"""The migration controller: the story of its loop.

Goes in: an API server, a clock, a Random, `Arguments` and the scheduler's profile. What comes out happens in the API
server. Nothing that matters lives only here: a successor starts from lists and goes on.

    events ──feed──> names of jobs ──queue──> facts from caches ──next_step──> Look: facts from the API, once more
                                                                     │
          one effect, one status, one event <────────────────────────┤
                                                                     └──> AwaitAdmission: stands in line (admission)
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from random import Random

from msgspec.structs import replace

from restow.client.event_recorder import EventRecorder, about
from restow.client.shared_informers import SharedInformers
from restow.client.verbs import Client
from restow.client.workqueue import WorkQueue
from restow.control.migrations.arbitrator import Arbitrator
from restow.control.migrations.event_handlers import Feed
from restow.control.migrations.eviction_rate_limit import EvictionRateLimit
from restow.control.migrations.garbage_collector import MigrationGarbageCollector
from restow.control.migrations.job_writer import JobWriter
from restow.control.migrations.lease_gate import LeaseGate
from restow.control.migrations.live_facts import LiveFacts
from restow.control.migrations.metrics import REHEARSED, MigrationMetrics
from restow.control.migrations.settings import MigrationSettings
from restow.migration.arguments import MigrationArguments
from restow.migration.conditions import is_job_ended, job_seconds_used
from restow.migration.facts import Facts, Permission
from restow.migration.history import evicted_at
from restow.migration.state_machine import next_step
from restow.migration.steps import Act, AwaitAdmission, Evict, Fail, ReadLive, Reserve, Wait
from restow.model.kinds import POD, POD_MIGRATION_JOB
from restow.model.objects import JobPhase, JobReason, PodMigrationJob
from restow.model.times import format_time
from restow.model.wire import WireError
from restow.ports import Api, ApiError, Clock, TooManyRequests
from restow.scheduling.registry import Profile, read_profile

log = logging.getLogger(__name__)

_LOOKS = 4
"""Looks in a row before a job is left for later: the cluster changes faster than we read."""
_LOOK_AFTER = 1.0
"""Seconds until a job is looked at again after something was done for it, should no news come of it."""
_FRESH = 5.0
"""Seconds within which a pod is evicted that was found ready for it: writing that down may take longer."""
_EARLY = 0.5
"""Seconds before its turn that a job gets ready to evict: a turn for which nobody is ready is lost."""
_SHORTEST_WAIT = 0.05
"""Seconds: waking up a rounding error too early must not turn into a busy loop."""
_LASTING = 5.0
"""Seconds before the next try, of trouble that does not pass by itself."""
INTERRUPTED = "Interrupted"
"""The reason of the event that a job gets which the API server keeps from going on."""
MIGRATING = "Migrating"
"""The reason of the event that an evicted pod gets."""
_WARNINGS = frozenset({JobReason.FAILED_EVICT, JobReason.FAILED_CREATE_RESERVATION, JobReason.UNSCHEDULABLE})


class _Unsettled(Exception):
    """What to do about a job cannot be told now: later, and later each time."""


class MigrationController:
    """`run()` it until it is cancelled; one at a time per cluster, which leader election sees to."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        rng: Random,
        *,
        arguments: MigrationArguments | None = None,
        scheduler: Profile | None = None,
        settings: MigrationSettings | None = None,
        metrics: MigrationMetrics | None = None,
        informers: SharedInformers | None = None,
    ) -> None:
        self._settings = settings or MigrationSettings()
        self._arguments = arguments or MigrationArguments()
        self._clock = clock
        self._metrics = metrics = metrics or MigrationMetrics()
        client = Client(api, manager="restow-migrations")
        engine = (scheduler or read_profile({})).engine
        self._feed = Feed(informers or SharedInformers(client, rng), clock, self._settings.namespace, engine)
        self._recorder = EventRecorder(client, clock, Random(rng.getrandbits(64)))
        self._reading = LiveFacts(client, clock, self._feed, self._settings.namespace)
        self._effects = JobWriter(client, self._feed, metrics)
        self._fence = LeaseGate()
        self._pacing = EvictionRateLimit(self._arguments.evictions_per_second, self._arguments.eviction_burst)
        self._admission = Arbitrator(
            self._feed, self._effects, clock, self._settings, lambda: self._arguments, self._fence
        )
        self._sweeping = MigrationGarbageCollector(client, clock, self._feed, lambda: self._arguments, metrics)
        self._queue: WorkQueue[str] = WorkQueue(base=0.1, cap=30.0)
        self._feed.on_job = self._queue.add
        self._feed.on_news = self._admission.tell
        self._admission.told = self._tell
        self._ready = asyncio.Event()
        self._staff = asyncio.Event()
        self._workers: set[int] = set()
        metrics.stopped(lambda: float(self._feed.stopped() is not None))
        for phase in JobPhase:
            metrics.jobs(phase, partial(self._count, phase))

    async def run(self) -> None:
        """Carry out jobs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._feed.run(), name="migrations feed")
            for number in range(self._settings.event_writers):
                tasks.create_task(self._recorder.run(), name=f"migrations events {number}")
            await self._feed.synced()
            self._pacing.record_earlier_evictions(self._evictions(), asyncio.get_running_loop().time())
            self._ready.set()
            tasks.create_task(self._admission.run(), name="migrations admission")
            tasks.create_task(self._sweeping.run(self._settings.sweep), name="migrations sweeping")
            while True:
                self._staff.clear()
                for number in sorted(set(range(self._arguments.workers)) - self._workers):
                    tasks.create_task(self._work(number), name=f"migrations worker {number}")
                    self._workers.add(number)
                await self._staff.wait()

    def _evictions(self) -> list[float]:
        """How many seconds ago pods were evicted, by whoever led; at the least, because all that is known is in which
        second that was written down."""
        now, times = self._clock.now() - _FRESH - 1.0, map(evicted_at, self._feed.jobs())
        return [now - time for time in times if time is not None]

    async def ready(self) -> None:
        """Wait until the controller knows the cluster and has begun."""
        await self._ready.wait()

    def configure(self, arguments: MigrationArguments, scheduler: Profile | None = None) -> None:
        """Go by other arguments from now on, and another profile, if it is given. Jobs under way go by them, too, from
        their next step."""
        self._arguments = arguments
        if scheduler is not None:
            self._feed.arrivals.configure(scheduler.engine)
        now = asyncio.get_running_loop().time()
        self._pacing.configure(arguments.evictions_per_second, arguments.eviction_burst, now)
        self._staff.set()
        for job in self._feed.jobs():
            self._queue.add(job.metadata.name)

    # --- the loop -----------------------------------------------------------------------------------------------------

    async def _work(self, number: int) -> None:
        while number < self._arguments.workers:
            async with self._queue.next() as name:
                await self._fence.wait_until_open()
                await self._attend(name)
        self._workers.discard(number)
        self._staff.set()  # by now it may be wanted again

    async def _attend(self, name: str) -> None:
        """One pass over one job; whatever goes wrong is tried again, later and later."""
        try:
            await self._pass(name)
        except (ApiError, WireError) as error:
            self._fence.record_error(error)
            delay = error.retry_after if isinstance(error, TooManyRequests) else None
            if delay:
                self._queue.add_after(name, delay)
            else:
                delay = self._queue.retry(name)
            log.info("job interrupted", extra={"job": name, "err": str(error), "delay": round(delay, 3)})
            self._lament(name, error, delay)
        except _Unsettled:
            self._queue.retry(name)
        except Exception:  # one job's trouble must not stop the others
            log.exception("job failed", extra={"job": name})
            self._queue.retry(name)
        else:
            self._queue.forget(name)

    async def _pass(self, name: str) -> None:
        job = self._feed.job(name)
        if job is None or not self._arguments.enabled:
            self._admission.leave(name)
            return
        facts, step = await self._decide(job)
        if facts is None or step is None:
            return
        if isinstance(step, AwaitAdmission):
            self._admission.stand(name)
        else:
            self._admission.leave(name)
        if isinstance(step, Evict):
            facts, step = self._in_turn(facts, step)
        await self._carry_out(facts, step)

    async def _decide(self, job: PodMigrationJob) -> tuple[Facts | None, Act | None]:
        """The next step, on facts that are as fresh as it needs."""
        facts: Facts | None = self._feed.facts(job, self._arguments)
        for _ in range(_LOOKS):
            assert facts is not None, "it was there"
            step = next_step(facts)
            if not isinstance(step, ReadLive):
                return facts, step
            facts = await self._reading.facts(facts.job, self._arguments, dry_run_eviction=step.dry_run_eviction)
            if facts is None:
                return None, None
        raise _Unsettled

    def _in_turn(self, facts: Facts, step: Evict) -> tuple[Facts, Act]:
        """The eviction, if it is nearly this job's turn; else waiting for it, which is told only if it takes long."""
        uid, now = facts.job.metadata.uid, asyncio.get_running_loop().time()
        put_off = self._pacing.refusal_backoff(uid, now)
        if put_off > 0:
            return facts, Wait(facts.job.status, facts.now + put_off)
        delay = self._pacing.seconds_until_turn(uid, now)
        until = delay - _EARLY
        if until <= 0:
            return facts, step
        if delay < self._settings.telling:
            return facts, Wait(facts.job.status, facts.now + until)
        turn = format_time(facts.now + delay)
        told = f"waits for evictQPS: {self._pacing.rate:g} evictions per second, its turn comes at {turn}"
        held_up = replace(facts, rate_limit=Permission(False, told, until))
        then = next_step(held_up)
        assert not isinstance(then, ReadLive), "the facts are fresh, and were tried"
        return held_up, then

    async def _carry_out(self, facts: Facts, step: Act) -> None:
        job, name = facts.job, facts.job.metadata.name
        intended, rivals = self._feed.may_be_evicted(facts), self._feed.rivals
        if isinstance(step, Evict) and not intended:
            self._feed.note_intent(job)
        with (
            rivals.recording_eviction(facts, again=intended)
            if isinstance(step, Evict)
            else rivals.recording_successor(job, step.status)
        ):
            after, answer = await self._effects.carry_out(facts, step)
        self._tell(job, after.job)
        if isinstance(step, Evict):
            delete = await self._effects.is_deleted(facts, step)
            if not await self._may_send(facts):
                self._queue.add_after(name, _SHORTEST_WAIT)
                return
            self._feed.note_sent(job)
            answer = await self._effects.evict(after, step, delete=delete)
            if answer is not None and answer.is_allowed:
                self._tell_pod(after, step)
                answer = None
            if answer is not None:
                self._feed.note_sent(job, sent=intended)
                self._pacing.record_refusal(job.metadata.uid, asyncio.get_running_loop().time())
            else:
                self._pacing.forget(job.metadata.uid)
        if answer is not None and not (intended and isinstance(step, Evict)):
            await self._concede(after, answer)
        elif answer is not None:
            self._queue.add_after(name, answer.retry_after or 1.0)
        elif isinstance(step, Wait | AwaitAdmission) and step.retry_at is not None:
            self._queue.add_after(name, max(step.retry_at - self._clock.now(), _SHORTEST_WAIT))
        elif isinstance(step, Reserve) and after.reservation is not None:
            await self._go_on(after)
        elif isinstance(step, Reserve | Fail):
            self._queue.add(name)
        elif not isinstance(step, Wait | AwaitAdmission):
            self._queue.add_after(name, _LOOK_AFTER)

    async def _may_send(self, facts: Facts) -> bool:
        """Whether an eviction that was written down may be sent, at once or when its turn comes: that may have taken so
        long that the facts are old, that others have come before it, or that somebody has thought better of it."""
        while True:
            late = not 0 <= self._clock.now() - facts.now <= _FRESH
            if late or self._reading.contradicts(facts) or not self._still_evicts(facts):
                return False
            delay = self._pacing.try_send(facts.job.metadata.uid, asyncio.get_running_loop().time())
            if delay <= 0:
                return True
            if delay > _FRESH:
                return False
            await asyncio.sleep(delay)

    def _still_evicts(self, facts: Facts) -> bool:
        """Whether a job would be told the same by what was heard of since."""
        heard = self._feed.since(facts, self._arguments) if self._arguments.enabled else None
        return heard is not None and isinstance(next_step(heard), Evict)

    async def _go_on(self, facts: Facts) -> None:
        """What was just made is as fresh as anything: the next step need not wait for a look at it."""
        then = next_step(facts)
        if isinstance(then, ReadLive):
            self._queue.add(facts.job.metadata.name)
        else:
            await self._carry_out(facts, then)

    async def _concede(self, facts: Facts, answer: Permission) -> None:
        """The API server said no to a step: decide once more, knowing that."""
        then = next_step(replace(facts, refusal=answer))
        if not isinstance(then, Wait | Fail):
            raise _Unsettled
        await self._carry_out(facts, then)

    # --- telling ------------------------------------------------------------------------------------------------------

    def _tell(self, before: PodMigrationJob, after: PodMigrationJob) -> None:
        """One event for what became of a job, with the sentence that its status has."""
        old, new = before.status, after.status
        if (old.phase, old.status, old.reason, old.message) == (new.phase, new.status, new.reason, new.message):
            return
        bad = new.phase == JobPhase.FAILED or new.reason in _WARNINGS
        self._recorder.record(
            about(POD_MIGRATION_JOB, after.metadata),
            new.reason or new.status or MIGRATING,
            new.message or "",
            type="Warning" if bad else "Normal",
        )
        facts = {"job": after.metadata.name, "phase": new.phase, "reason": new.reason, "told": new.message}
        log.info("job", extra=facts)
        if is_job_ended(after) and not is_job_ended(before):
            self._pacing.forget(after.metadata.uid)
            self._metrics.ended(new.phase or "", new.reason or "", job_seconds_used(after, self._clock.now()))
            if new.reason == JobReason.DRY_RUN:
                self._metrics.eviction(REHEARSED)

    def _lament(self, name: str, error: Exception, delay: float) -> None:
        """What keeps a job from going on is told once it lasts."""
        job = self._feed.job(name)
        if job is not None and delay >= _LASTING:
            told = f"it cannot go on, and is looked at again in {delay:.0f} s: {error}"
            self._recorder.record(about(POD_MIGRATION_JOB, job.metadata), INTERRUPTED, told, type="Warning")

    def _tell_pod(self, facts: Facts, step: Evict) -> None:
        """The pod's own event, for whoever looks at it and wonders why it leaves."""
        job = facts.job
        node = job.status.node_name
        seat = f"to its seat on node {node}" if node else "without a seat of its own"
        told = f"evicted from node {step.pod.spec.node_name} by PodMigrationJob {job.metadata.name}: it moves {seat}"
        self._recorder.record(about(POD, step.pod.metadata), MIGRATING, told)

    def _count(self, phase: JobPhase) -> float:
        return float(sum((job.status.phase or JobPhase.PENDING) == phase for job in self._feed.jobs()))
