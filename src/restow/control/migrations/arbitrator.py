"""Admission: arbitration as a loop. Jobs that have nothing else in their way stand in line; verdicts are written down.

Goes in: the names of jobs that next_step left waiting for admission. Comes out: admitted ones Running, refused ones
Failed, the others told which limit they wait for. Every verdict holds only for the version of the job it was given on.
Nobody is judged before it is known what became of the verdicts before: one whose answer was lost may have been written.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from restow.client.leader_election import Fenced
from restow.control.migrations.event_handlers import Feed
from restow.control.migrations.job_writer import JobWriter
from restow.control.migrations.lease_gate import LeaseGate
from restow.control.migrations.settings import MigrationSettings
from restow.migration.arbitration import ArbitrationVerdict, JobAdmitted, JobRefused, JobWaiting, arbitrate
from restow.migration.arguments import MigrationArguments
from restow.migration.conditions import admitted_status, ended_status, find_condition, is_job_ended, waiting_status
from restow.model.objects import JobConditionType, JobPhase, JobReason, PodMigrationJob, PodMigrationJobStatus
from restow.model.wire import WireError
from restow.ports import ApiError, Clock

log = logging.getLogger(__name__)

_AFTER_FAILURE = 10.0
_AFTER_TROUBLE = 1.0
_LITTLE_WORDS = frozenset({"its", "the"})

Told = Callable[[PodMigrationJob, PodMigrationJob], None]


class Arbitrator:
    """`told` hears of every job whose status was written, as it was and as it is."""

    def __init__(
        self,
        feed: Feed,
        effects: JobWriter,
        clock: Clock,
        settings: MigrationSettings,
        arguments: Callable[[], MigrationArguments],
        fence: LeaseGate,
    ) -> None:
        self.told: Told = lambda before, after: None
        self._feed = feed
        self._effects = effects
        self._clock = clock
        self._arguments = arguments
        self._fence = fence
        self._settings = settings
        self._line: set[str] = set()
        self._unsure: set[str] = set()
        """Jobs that may have been admitted."""
        self._told_at: dict[str, float] = {}
        self._news = asyncio.Event()
        self._writers = asyncio.Semaphore(settings.writers)

    def stand(self, name: str) -> None:
        """A job waits for nothing but admission."""
        self._line.add(name)
        self._news.set()

    def leave(self, name: str) -> None:
        self._line.discard(name)
        self._told_at.pop(name, None)

    def tell(self) -> None:
        """Something changed that verdicts may depend on."""
        if self._line:
            self._news.set()

    async def run(self) -> None:
        """Judge whoever stands in line, whenever something changed, but not more often than configured."""
        again: float | None = None
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(None if again is None else max(again - self._clock.now(), 0.0)):
                    await self._news.wait()
            await self._fence.wait_until_open()
            self._news.clear()
            again = await self._judge_safely() if self._line else None
            await asyncio.sleep(self._arguments().arbitration_interval)

    async def _judge_safely(self) -> float | None:
        try:
            return await self._judge()
        except Exception:  # one odd object must not stop the jobs that run
            log.exception("arbitration failed", extra={"waiting": len(self._line)})
            return self._clock.now() + _AFTER_FAILURE

    async def _judge(self) -> float | None:
        """One arbitration; when the next is due by itself."""
        arguments = self._arguments()
        if not arguments.enabled:
            return None
        if not await self._make_sure():
            return self._clock.now() + _AFTER_TROUBLE
        stopped = self._feed.stopped()
        jobs = list(self._feed.jobs())
        if stopped is not None:
            standing = [job for job in jobs if job.metadata.name in self._line and not is_job_ended(job)]
            await self._write(
                [
                    (job, waiting_status(job.status, JobReason.STOPPED, stopped, now=self._clock.now()))
                    for job in standing
                ]
            )
            return None
        verdicts = [
            one for one in arbitrate(jobs, self._feed.scene(), arguments) if one.job.metadata.name in self._line
        ]
        await self._write([(one.job, self._status(one)) for one in verdicts])
        waiting = [one for one in verdicts if isinstance(one, JobWaiting)]
        due = [one.retry_at for one in waiting if one.retry_at is not None]
        return min((*due, *self._untold(waiting)), default=None)

    def _untold(self, verdicts: Iterable[JobWaiting]) -> Iterator[float]:
        """When numbers are due that were held back: news of them may be the last for long."""
        for one in verdicts:
            name = one.job.metadata.name
            said = find_condition(one.job.status, JobConditionType.ADMITTED)
            told = self._told_at.get(name, 0.0) + self._settings.retelling
            if said is not None and said.message != one.message and told > self._clock.now():
                yield told

    async def _make_sure(self) -> bool:
        """Learn whether jobs were admitted though nobody said so; the watch may show that much later."""
        for name in sorted(self._unsure):
            try:
                await self._effects.learn(name)
            except (ApiError, WireError) as error:
                self._fence.record_error(error)
                log.info("verdicts put off", extra={"job": name, "err": str(error)})
                return False
            self._unsure.discard(name)
        return True

    def _status(self, verdict: ArbitrationVerdict) -> PodMigrationJobStatus:
        status, now = verdict.job.status, self._clock.now()
        match verdict:
            case JobAdmitted():
                return admitted_status(status, verdict.message, doubt=bool(verdict.failed_before), now=now)
            case JobWaiting():
                return self._told_in_time(verdict.job, _reason(verdict.limit), verdict.message)
            case JobRefused():
                return ended_status(status, JobPhase.FAILED, verdict.reason, verdict.message, now=now)

    def _told_in_time(self, job: PodMigrationJob, reason: str, message: str) -> PodMigrationJobStatus:
        """What a job waits for. Numbers that change all the time are told from time to time."""
        name, now = job.metadata.name, self._clock.now()
        said = find_condition(job.status, JobConditionType.ADMITTED)
        if said is not None and said.reason == reason and now < self._told_at.get(name, 0.0) + self._settings.retelling:
            return job.status
        status = waiting_status(job.status, reason, message, now=now)
        if status != job.status:
            self._told_at[name] = now
        return status

    async def _write(self, statuses: list[tuple[PodMigrationJob, PodMigrationJobStatus]]) -> None:
        """All of them, whatever goes wrong with one: nobody is judged while verdicts are on their way."""
        writes = (self._record(job, status) for job, status in statuses if status != job.status)
        for failure in await asyncio.gather(*writes, return_exceptions=True):
            if isinstance(failure, BaseException):
                raise failure

    async def _record(self, job: PodMigrationJob, status: PodMigrationJobStatus) -> None:
        async with self._writers:
            if self._fence.is_closed:
                self._news.set()
                return
            unsure = {job.metadata.name} if status.phase == JobPhase.RUNNING else set()
            self._unsure |= unsure
            try:
                written = await self._effects.record(job, status)
            except (ApiError, WireError) as error:  # it moved on, or will be judged again
                self._fence.record_error(error)
                log.info("verdict not written", extra={"job": job.metadata.name, "err": str(error)})
                if isinstance(error, Fenced):  # which was never sent
                    self._unsure -= unsure
                self._news.set()
                return
            self._unsure -= unsure
        if status.phase != JobPhase.PENDING:
            self.leave(job.metadata.name)
        self.told(job, written)


def _reason(limit: str) -> str:
    """A limit as reasons are written: Budget for its budget, MaxMigratingPerNode for maxMigratingPerNode."""
    words = (word for word in re.findall("[A-Za-z]+", limit) if word not in _LITTLE_WORDS)
    return "".join(word[:1].upper() + word[1:] for word in words)
