"""The migration controller: the story of its loop.

Goes in: an API server, a clock, a Random and `Arguments`. What comes out happens in the API server. Nothing that
matters lives only here: a successor starts from lists and goes on.

    events ──feed──> names of jobs ──queue──> facts from caches ──next_step──> Look: facts from the API, once more
                                                                     │
          one effect, one status, one event <────────────────────────┤
                                                                     └──> AwaitAdmission: stands in line (admission)
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import nullcontext
from functools import partial
from random import Random

from msgspec.structs import replace

from restow.client.events import EventRecorder
from restow.client.informers import Informers
from restow.client.verbs import Client
from restow.client.workqueue import WorkQueue
from restow.control.migrations.admission import Admission
from restow.control.migrations.effects import Effects
from restow.control.migrations.feed import Feed
from restow.control.migrations.fence import Fence
from restow.control.migrations.metrics import REHEARSED, Metrics
from restow.control.migrations.pacing import Pacing
from restow.control.migrations.reading import Reading
from restow.control.migrations.settings import Settings
from restow.control.migrations.sweeping import Sweeping
from restow.migration.arguments import Arguments
from restow.migration.conditions import is_ended, is_evicting, spent
from restow.migration.facts import Answer, Facts
from restow.migration.history import evicted_at
from restow.migration.instructions import Act, AwaitAdmission, Evict, Fail, Look, Reserve, Wait
from restow.migration.steps import next_step
from restow.model.kinds import POD, POD_MIGRATION_JOB
from restow.model.objects import JobPhase, JobReason, ObjectReference, PodMigrationJob
from restow.model.wire import WireError
from restow.ports import Api, ApiError, Clock, TooManyRequests

log = logging.getLogger(__name__)

_LOOKS = 4
"""Looks in a row before a job is left for later: the cluster changes faster than we read."""
_LOOK_AFTER = 1.0
"""Seconds until a job is looked at again after something was done for it, should no news come of it."""
_FRESH = 5.0
"""Seconds within which a pod is evicted that was found ready for it: writing that down may take longer."""
_SHORTEST_WAIT = 0.05
"""Seconds: waking up a rounding error too early must not turn into a busy loop."""
MIGRATING = "Migrating"
"""The reason of the event that an evicted pod gets."""
_WARNINGS = frozenset({JobReason.FAILED_EVICT, JobReason.FAILED_CREATE_RESERVATION, JobReason.UNSCHEDULABLE})


class Migrations:
    """`run()` it until it is cancelled; one at a time per cluster, which leader election sees to."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        rng: Random,
        *,
        arguments: Arguments | None = None,
        settings: Settings | None = None,
        metrics: Metrics | None = None,
        informers: Informers | None = None,
    ) -> None:
        self._settings = settings or Settings()
        self._arguments = arguments or Arguments()
        self._clock = clock
        self._metrics = metrics = metrics or Metrics()
        client = Client(api, manager="restow-migrations")
        self._feed = Feed(informers or Informers(client, rng), clock, self._settings.namespace)
        self._recorder = EventRecorder(client, clock, Random(rng.getrandbits(64)))
        self._reading = Reading(client, clock, self._feed, self._settings.namespace)
        self._effects = Effects(client, self._feed, metrics)
        self._fence = Fence()
        self._pacing = Pacing(self._arguments.evictions_per_second, self._arguments.eviction_burst)
        self._admission = Admission(
            self._feed, self._effects, clock, self._settings, lambda: self._arguments, self._fence
        )
        self._sweeping = Sweeping(client, clock, self._feed, lambda: self._arguments, metrics)
        self._queue: WorkQueue[str] = WorkQueue(base=0.1, cap=30.0)
        self._feed.on_job = self._queue.add
        self._feed.on_news = self._admission.tell
        self._admission.told = self._tell
        self._ready = asyncio.Event()
        self._staff = asyncio.Event()
        self._workers = 0
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
            self._pacing.remember(self._evictions(), asyncio.get_running_loop().time())
            self._ready.set()
            tasks.create_task(self._admission.run(), name="migrations admission")
            tasks.create_task(self._sweeping.run(self._settings.sweep), name="migrations sweeping")
            while True:
                self._staff.clear()
                while self._workers < self._arguments.workers:
                    tasks.create_task(self._work(self._workers), name=f"migrations worker {self._workers}")
                    self._workers += 1
                await self._staff.wait()

    def _evictions(self) -> list[float]:
        """How many seconds ago pods were evicted, by whoever led."""
        now, times = self._clock.now(), map(evicted_at, self._feed.jobs())
        return [now - time for time in times if time is not None]

    async def ready(self) -> None:
        """Wait until the controller knows the cluster and has begun."""
        await self._ready.wait()

    def configure(self, arguments: Arguments) -> None:
        """Go by other arguments from now on. Jobs under way go by them, too, from their next step."""
        self._arguments = arguments
        self._pacing.configure(arguments.evictions_per_second, arguments.eviction_burst)
        self._staff.set()
        for job in self._feed.jobs():
            self._queue.add(job.metadata.name)

    # --- the loop -----------------------------------------------------------------------------------------------------

    async def _work(self, number: int) -> None:
        while number < self._arguments.workers:
            async with self._queue.next() as name:
                await self._fence.opened()
                await self._attend(name)
        self._workers -= 1

    async def _attend(self, name: str) -> None:
        """One pass over one job; whatever goes wrong is tried again, later and later."""
        try:
            await self._pass(name)
        except (ApiError, WireError) as error:
            self._fence.note(error)
            delay = error.retry_after if isinstance(error, TooManyRequests) else None
            if delay:
                self._queue.add_after(name, delay)
            else:
                delay = self._queue.retry(name)
            log.info("job interrupted", extra={"job": name, "err": str(error), "delay": round(delay, 3)})
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
            if not isinstance(step, Look):
                return facts, step
            facts = await self._reading.facts(facts.job, self._arguments, trial=step.trial)
            if facts is None:
                return None, None
        self._queue.retry(job.metadata.name)
        return None, None

    def _in_turn(self, facts: Facts, step: Evict) -> tuple[Facts, Act]:
        """The eviction, if it is this job's turn; else waiting for it, which is told only if it takes long."""
        delay = self._pacing.delay(facts.job.metadata.uid, asyncio.get_running_loop().time())
        if delay <= 0:
            return facts, step
        if delay < self._settings.telling:
            return facts, Wait(facts.job.status, facts.now + delay)
        told = f"evictions are limited to {self._pacing.rate:g} per second; others are before it"
        held_up = replace(facts, turn=Answer(False, told, delay))
        then = next_step(held_up)
        assert not isinstance(then, Look), "the facts are fresh, and were tried"
        return held_up, then

    async def _carry_out(self, facts: Facts, step: Act) -> None:
        job, name = facts.job, facts.job.metadata.name
        intended = is_evicting(job.status)
        with self._feed.evicting(job) if isinstance(step, Evict) else nullcontext():
            after, answer = await self._effects.carry_out(facts, step)
        self._tell(job, after.job)
        if isinstance(step, Evict):
            late = not 0 <= self._clock.now() - facts.now <= _FRESH
            if late or self._reading.contradicts(facts, step.pod):
                self._queue.add(name)
                return
            self._pacing.used(job.metadata.uid)
            answer = await self._effects.evict(after, step)
            if answer is not None and answer.allowed:
                self._tell_pod(after, step)
                answer = None
        if answer is not None and not (intended and isinstance(step, Evict)):
            await self._concede(after, answer)
        elif answer is not None:
            self._queue.add_after(name, answer.seconds or 1.0)
        elif isinstance(step, Wait | AwaitAdmission) and step.again is not None:
            self._queue.add_after(name, max(step.again - self._clock.now(), _SHORTEST_WAIT))
        elif isinstance(step, Reserve) and after.reservation is not None:
            await self._go_on(after)
        elif isinstance(step, Reserve | Fail):
            self._queue.add(name)
        elif not isinstance(step, Wait | AwaitAdmission):
            self._queue.add_after(name, _LOOK_AFTER)

    async def _go_on(self, facts: Facts) -> None:
        """What was just made is as fresh as anything: the next step need not wait for a look at it."""
        then = next_step(facts)
        if isinstance(then, Look):
            self._queue.add(facts.job.metadata.name)
        else:
            await self._carry_out(facts, then)

    async def _concede(self, facts: Facts, answer: Answer) -> None:
        """The API server said no to a step: decide once more, knowing that."""
        then = next_step(replace(facts, outcome=answer))
        if not isinstance(then, Wait | Fail):
            self._queue.retry(facts.job.metadata.name)
            return
        await self._carry_out(facts, then)

    # --- telling ------------------------------------------------------------------------------------------------------

    def _tell(self, before: PodMigrationJob, after: PodMigrationJob) -> None:
        """One event for what became of a job, with the sentence that its status has."""
        old, new = before.status, after.status
        if (old.phase, old.status, old.reason, old.message) == (new.phase, new.status, new.reason, new.message):
            return
        bad = new.phase == JobPhase.FAILED or new.reason in _WARNINGS
        self._recorder.record(
            _about(after),
            new.reason or new.status or MIGRATING,
            new.message or "",
            type="Warning" if bad else "Normal",
        )
        facts = {"job": after.metadata.name, "phase": new.phase, "reason": new.reason, "told": new.message}
        log.info("job", extra=facts)
        if is_ended(after) and not is_ended(before):
            self._pacing.used(after.metadata.uid)
            self._metrics.ended(new.phase or "", new.reason or "", spent(after, self._clock.now()))
            if new.reason == JobReason.DRY_RUN:
                self._metrics.eviction(REHEARSED)

    def _tell_pod(self, facts: Facts, step: Evict) -> None:
        """The pod's own event, for whoever looks at it and wonders why it leaves."""
        meta, job = step.pod.metadata, facts.job
        node = job.status.node_name
        seat = f"to its seat on node {node}" if node else "without a seat of its own"
        about = ObjectReference(
            api_version=POD.api_version, kind=POD.kind, namespace=meta.namespace, name=meta.name, uid=meta.uid
        )
        told = f"evicted from node {step.pod.spec.node_name} by PodMigrationJob {job.metadata.name}: it moves {seat}"
        self._recorder.record(about, MIGRATING, told)

    def _count(self, phase: JobPhase) -> float:
        return float(sum((job.status.phase or JobPhase.PENDING) == phase for job in self._feed.jobs()))


def _about(job: PodMigrationJob) -> ObjectReference:
    return ObjectReference(
        api_version=POD_MIGRATION_JOB.api_version,
        kind=POD_MIGRATION_JOB.kind,
        name=job.metadata.name,
        uid=job.metadata.uid,
        resource_version=job.metadata.resource_version or None,
    )
