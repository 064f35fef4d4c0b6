"""An eviction attempt: everything that happens between the decision to evict a pod and what came of it.

Goes in: the facts on which the state machine decided to evict, and its step. Comes out: how the attempt ended.

    record the intent ──> check once more ──> send ──> settle ──> EvictionSent
            │                    │              │         └─────> EvictionRefused
            │                    │              └── no clear answer: raises
            │                    └──> EvictionNotSent
            └── the job has changed: raises Conflict

Why it is safe to crash after any of these, and to start again:

- After the intent is recorded, the status says Evicting with the time. The next leader takes the eviction for one that
  was sent: it keeps the seat, and decides anew whether to send it once more.
- The request has the pod's UID as a precondition, so repeating it never evicts the successor of that name.
- A request without an answer (timeout, lost leadership) may take effect until EVICTION_SETTLES_AFTER. The records keep
  it as sent, and the status as Evicting, until a read shows that the pod is terminating or a later request is answered.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from msgspec.structs import replace

from restow.control.migrations.cached_facts import CachedFacts
from restow.control.migrations.conflicting_jobs import ConflictingJobs
from restow.control.migrations.dependencies import MigrationDependencies
from restow.control.migrations.eviction_rate_limit import EvictionRateLimit
from restow.control.migrations.eviction_records import EvictionRecords
from restow.control.migrations.eviction_requests import refusal_in, send_eviction, should_delete
from restow.control.migrations.job_reporter import JobReporter
from restow.control.migrations.job_writer import JobWriter
from restow.control.migrations.live_facts import LiveFacts
from restow.control.migrations.metrics import EVICTED, REFUSED, UNKNOWN
from restow.migration.facts import Facts, WriteAnswer
from restow.migration.state_machine import next_step
from restow.migration.steps import Act, Evict, ReadLive, Wait
from restow.model.times import format_time
from restow.ports import ApiError, NotFound

log = logging.getLogger(__name__)

FACTS_VALID_SECONDS = 5.0
"""Seconds after which facts are too old for an eviction to be sent on them: recording the intent may take longer."""
_READY_BEFORE_TURN = 0.5
"""Seconds before its turn at which a job gets ready to evict: a turn that comes before the job is ready is lost."""


@dataclass(frozen=True, slots=True)
class EvictionSent:
    """The pod was evicted now, or is gone already."""


@dataclass(frozen=True, slots=True)
class EvictionNotSent:
    """The intent is recorded; before the request was sent, something had changed, or the turn was too far away."""


@dataclass(frozen=True, slots=True)
class EvictionRefused:
    """The API server refused the eviction."""

    facts: Facts
    """The facts with the job as it was written."""
    refusal: WriteAnswer
    earlier_may_take_effect: bool
    """Whether another request of this job, which was sent before, may still evict the pod."""


AttemptEnd = EvictionSent | EvictionNotSent | EvictionRefused


@dataclass(frozen=True, slots=True)
class EvictionTools:
    """What eviction attempts work with; the same for all of them."""

    dependencies: MigrationDependencies
    cached_facts: CachedFacts
    live_facts: LiveFacts
    writer: JobWriter
    reporter: JobReporter
    conflicts: ConflictingJobs
    records: EvictionRecords
    rate_limit: EvictionRateLimit


def evict_or_wait(tools: EvictionTools, facts: Facts, step: Evict) -> tuple[Facts, Act]:
    """The eviction, if the rate limit has a turn for this job now or in a moment; else waiting for the turn, which the
    status says only if it takes long."""
    uid, now = facts.job.metadata.uid, asyncio.get_running_loop().time()
    backoff = tools.rate_limit.refusal_backoff(uid, now)
    if backoff > 0:
        return facts, Wait(facts.job.status, facts.now + backoff)
    delay = tools.rate_limit.seconds_until_turn(uid, now)
    until_ready = delay - _READY_BEFORE_TURN
    if until_ready <= 0:
        return facts, step
    if delay < tools.dependencies.settings.reported_turn_delay:
        return facts, Wait(facts.job.status, facts.now + until_ready)
    turn = format_time(facts.now + delay)
    message = f"waits for evictQPS: {tools.rate_limit.rate:g} evictions per second, its turn comes at {turn}"
    limited = replace(facts, rate_limit=WriteAnswer(False, message, until_ready))
    instead = next_step(limited)
    assert not isinstance(instead, ReadLive), "the facts are fresh, with a dry run of the eviction"
    return limited, instead


class EvictionAttempt:
    """One attempt to evict the pod of one job; `run` it once."""

    def __init__(self, tools: EvictionTools, facts: Facts, step: Evict) -> None:
        self._tools = tools
        self._facts = facts
        self._pod = step.pod
        self._intent = step.status
        self._is_repeated = tools.records.may_have_been_sent(facts)
        """Whether an earlier eviction of this job may still take effect, whatever comes of this one."""

    async def run(self) -> AttemptEnd:
        # 1. Record the intent in the job's status before anything is sent.
        recorded = await self._write_intent()
        # 2. How, and may it still be sent? Recording may have taken long, and the job's turn may be a moment away.
        delete = await should_delete(self._tools.dependencies.client, self._pod, self._facts.options)
        if not await self._may_send():
            return EvictionNotSent()
        # 3. Send. Between the last check and the request nothing is awaited.
        self._tools.records.note_sent(self._facts.job)
        refusal = await self._send(recorded, delete=delete)
        # 4. Settle.
        return self._settle(recorded, refusal)

    # --- 1. record the intent -----------------------------------------------------------------------------------------

    async def _write_intent(self) -> Facts:
        job = self._facts.job
        if not self._is_repeated:
            self._tools.records.note_intent(job)
        # While the status is being written, other jobs that share the reservation must already count this one.
        with self._tools.conflicts.recording_eviction(self._facts, again=self._is_repeated):
            written = await self._tools.writer.write_status(job, self._intent)
        self._tools.reporter.status_written(job, written)
        return replace(self._facts, job=written)

    # --- 2. check once more -------------------------------------------------------------------------------------------

    async def _may_send(self) -> bool:
        """Whether the recorded eviction may be sent, now or when its turn comes within the life of the facts."""
        while True:
            if self._facts_expired() or self._tools.live_facts.contradicts(self._facts) or not self._is_still_decided():
                return False
            delay = self._tools.rate_limit.try_send(self._facts.job.metadata.uid, asyncio.get_running_loop().time())
            if delay <= 0:
                return True
            if delay > FACTS_VALID_SECONDS:
                return False
            await asyncio.sleep(delay)

    def _facts_expired(self) -> bool:
        """Too old; or from the future, after the clock was set back."""
        return not 0 <= self._tools.dependencies.clock.now() - self._facts.now <= FACTS_VALID_SECONDS

    def _is_still_decided(self) -> bool:
        """Whether the state machine would decide to evict on what the informers have shown since: the job may have been
        paused, aborted or deleted, other jobs may have come ahead, evictions may have been stopped."""
        arguments = self._tools.dependencies.arguments.value
        newest = self._tools.cached_facts.refresh(self._facts, arguments) if arguments.enabled else None
        return newest is not None and isinstance(next_step(newest), Evict)

    # --- 3. send ------------------------------------------------------------------------------------------------------

    async def _send(self, recorded: Facts, *, delete: bool) -> WriteAnswer | None:
        """Send the eviction. Comes out: a refusal that is certain; None if the pod is evicted or was gone already.
        Raises if the answer leaves open what happened: then the job is looked at again."""
        meta, metrics = self._pod.metadata, self._tools.dependencies.metrics
        details = {
            "job": recorded.job.metadata.name,
            "pod": f"{meta.namespace}/{meta.name}",
            "node": self._pod.spec.node_name,
        }
        try:
            await send_eviction(self._tools.dependencies.client, self._pod, self._facts.options, delete=delete)
        except NotFound:
            return None
        except ApiError as error:
            refusal = refusal_in(error)
            metrics.eviction(REFUSED if refusal else UNKNOWN)
            if refusal is None:
                raise
            log.info("eviction refused", extra=details | {"err": str(error)})
            return refusal
        metrics.eviction(EVICTED)
        log.info("evicted", extra=details)
        self._tools.reporter.pod_evicted(recorded.job, self._pod)
        return None

    # --- 4. settle ----------------------------------------------------------------------------------------------------

    def _settle(self, recorded: Facts, refusal: WriteAnswer | None) -> AttemptEnd:
        job, rate_limit = self._facts.job, self._tools.rate_limit
        if refusal is None:
            rate_limit.forget(job.metadata.uid)
            return EvictionSent()
        self._tools.records.note_refused(job, earlier_may_take_effect=self._is_repeated)
        rate_limit.record_refusal(job.metadata.uid, asyncio.get_running_loop().time())
        return EvictionRefused(recorded, refusal, earlier_may_take_effect=self._is_repeated)
