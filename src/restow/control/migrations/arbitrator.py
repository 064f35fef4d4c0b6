"""The arbitrator: arbitration as a loop over the jobs that wait for nothing but admission.

Goes in: the names of those jobs. Comes out: verdicts, written to their status: admitted jobs Running, refused ones
Failed, the others Pending with the limit that they wait for. Every verdict holds only for the version of the job that
it was given on. No verdict is given before it is known what became of the last ones: a job whose admission got no
answer may be running, and counts against the limits.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from restow.client.fenced_api import Fenced
from restow.control.migrations.dependencies import MigrationDependencies
from restow.control.migrations.job_reporter import JobReporter
from restow.control.migrations.job_writer import JobWriter
from restow.control.migrations.migration_cache import MigrationCache
from restow.migration.arbitration import ArbitrationVerdict, JobAdmitted, JobRefused, JobWaiting, arbitrate
from restow.migration.conditions import admitted_status, ended_status, find_condition, is_job_ended, waiting_status
from restow.model.objects import JobConditionType, JobPhase, JobReason, PodMigrationJob, PodMigrationJobStatus
from restow.model.wire import WireError
from restow.ports import ApiError

log = logging.getLogger(__name__)

_AFTER_FAILURE = 10.0
_AFTER_TROUBLE = 1.0
_LITTLE_WORDS = frozenset({"its", "the"})


class WaitingJobs:
    """The jobs that wait for admission, by name, and the signal that something may have changed for them."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self._names: set[str] = set()
        self._reported_at: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def add(self, name: str) -> None:
        self._names.add(name)
        self.changed.set()

    def remove(self, name: str) -> None:
        self._names.discard(name)
        self._reported_at.pop(name, None)

    def notify(self) -> None:
        """Something changed that verdicts may depend on."""
        if self._names:
            self.changed.set()

    def reported_at(self, name: str) -> float:
        """When the status of a job said last which limit it waits for; 0 if that is not known."""
        return self._reported_at.get(name, 0.0)

    def record_report(self, name: str, now: float) -> None:
        self._reported_at[name] = now


class Arbitrator:
    def __init__(
        self,
        dependencies: MigrationDependencies,
        cache: MigrationCache,
        waiting_jobs: WaitingJobs,
        writer: JobWriter,
        reporter: JobReporter,
    ) -> None:
        self._clock = dependencies.clock
        self._settings = dependencies.settings
        self._arguments = dependencies.arguments
        self._lease_gate = dependencies.lease_gate
        self._cache = cache
        self._waiting_jobs = waiting_jobs
        self._writer = writer
        self._reporter = reporter
        self._maybe_admitted: set[str] = set()
        """Jobs whose admission was sent and not answered."""
        self._write_slots = asyncio.Semaphore(self._settings.verdict_writers)

    async def run(self) -> None:
        """Arbitrate whenever something has changed, but not more often than configured."""
        due: float | None = None
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(None if due is None else max(due - self._clock.now(), 0.0)):
                    await self._waiting_jobs.changed.wait()
            await self._lease_gate.wait_until_open()
            self._waiting_jobs.changed.clear()
            due = await self._arbitrate_or_log() if self._waiting_jobs else None
            await asyncio.sleep(self._arguments.value.arbitration_interval)

    async def _arbitrate_or_log(self) -> float | None:
        try:
            return await self._arbitrate()
        except Exception:  # one odd object must not stop the jobs that are running
            log.exception("arbitration failed", extra={"waiting": len(self._waiting_jobs)})
            return self._clock.now() + _AFTER_FAILURE

    async def _arbitrate(self) -> float | None:
        """One arbitration. Comes out: when the next is due, if nothing changes until then."""
        arguments = self._arguments.value
        if not arguments.enabled:
            return None
        # 1. What became of the verdicts before?
        if not await self._learn_unanswered_admissions():
            return self._clock.now() + _AFTER_TROUBLE
        # 2. While evictions are stopped, no job is admitted.
        stop_reason, jobs = self._cache.stop_reason(), list(self._cache.jobs())
        if stop_reason is not None:
            waiting = [job for job in jobs if job.metadata.name in self._waiting_jobs and not is_job_ended(job)]
            now = self._clock.now()
            await self._write_all(
                [(job, waiting_status(job.status, JobReason.STOPPED, stop_reason, now=now)) for job in waiting]
            )
            return None
        # 3. Verdicts, for the jobs that wait for nothing else.
        verdicts = [
            verdict
            for verdict in arbitrate(jobs, self._cache.cluster_context(), arguments)
            if verdict.job.metadata.name in self._waiting_jobs
        ]
        await self._write_all([(verdict.job, self._status_for(verdict)) for verdict in verdicts])
        # 4. When may limits have room again, by time alone?
        held_back = [verdict for verdict in verdicts if isinstance(verdict, JobWaiting)]
        retries = [verdict.retry_at for verdict in held_back if verdict.retry_at is not None]
        return min((*retries, *self._reports_due(held_back)), default=None)

    async def _learn_unanswered_admissions(self) -> bool:
        """Read the jobs that may have been admitted without an answer, because the watch may show it much later.
        Comes out: whether all of them could be read."""
        for name in sorted(self._maybe_admitted):
            try:
                await self._writer.reread_job(name)
            except (ApiError, WireError) as error:
                self._lease_gate.record_error(error)
                log.info("arbitration postponed", extra={"job": name, "err": str(error)})
                return False
            self._maybe_admitted.discard(name)
        return True

    # --- the status of each verdict -----------------------------------------------------------------------------------

    def _status_for(self, verdict: ArbitrationVerdict) -> PodMigrationJobStatus:
        status, now = verdict.job.status, self._clock.now()
        match verdict:
            case JobAdmitted():
                return admitted_status(status, verdict.message, doubt=bool(verdict.failed_before), now=now)
            case JobWaiting():
                return self._waiting_status(verdict.job, _reason_for(verdict.limit), verdict.message)
            case JobRefused():
                return ended_status(status, JobPhase.FAILED, verdict.reason, verdict.message, now=now)

    def _waiting_status(self, job: PodMigrationJob, reason: str, message: str) -> PodMigrationJobStatus:
        """Which limit a job waits for. The numbers of the same limit change all the time; they are written from time to
        time only."""
        name, now = job.metadata.name, self._clock.now()
        condition = find_condition(job.status, JobConditionType.ADMITTED)
        if condition is not None and condition.reason == reason and now < self._next_report(name):
            return job.status
        status = waiting_status(job.status, reason, message, now=now)
        if status != job.status:
            self._waiting_jobs.record_report(name, now)
        return status

    def _reports_due(self, verdicts: Iterable[JobWaiting]) -> Iterator[float]:
        """When numbers that were not written yet are due: the change that brought them may be the last for long."""
        for verdict in verdicts:
            condition = find_condition(verdict.job.status, JobConditionType.ADMITTED)
            due = self._next_report(verdict.job.metadata.name)
            if condition is not None and condition.message != verdict.message and due > self._clock.now():
                yield due

    def _next_report(self, name: str) -> float:
        return self._waiting_jobs.reported_at(name) + self._settings.limit_report_interval

    # --- writing ------------------------------------------------------------------------------------------------------

    async def _write_all(self, statuses: list[tuple[PodMigrationJob, PodMigrationJobStatus]]) -> None:
        """Write all statuses, whatever goes wrong with one: the next arbitration must wait for the last write."""
        writes = (self._write(job, status) for job, status in statuses if status != job.status)
        for failure in await asyncio.gather(*writes, return_exceptions=True):
            if isinstance(failure, BaseException):
                raise failure

    async def _write(self, job: PodMigrationJob, status: PodMigrationJobStatus) -> None:
        name = job.metadata.name
        async with self._write_slots:
            if self._lease_gate.is_closed:
                self._waiting_jobs.changed.set()
                return
            is_admission = status.phase == JobPhase.RUNNING
            if is_admission:
                self._maybe_admitted.add(name)
            try:
                written = await self._writer.write_status(job, status)
            except (ApiError, WireError) as error:  # the job has changed, or gets its verdict in the next arbitration
                self._lease_gate.record_error(error)
                log.info("verdict not written", extra={"job": name, "err": str(error)})
                if is_admission and isinstance(error, Fenced):  # never sent, so certainly not admitted
                    self._maybe_admitted.discard(name)
                self._waiting_jobs.changed.set()
                return
            if is_admission:
                self._maybe_admitted.discard(name)
        if status.phase != JobPhase.PENDING:
            self._waiting_jobs.remove(name)
        self._reporter.status_written(job, written)


def _reason_for(limit: str) -> str:
    """A limit as a reason in CamelCase: Budget for its budget, MaxMigratingPerNode for maxMigratingPerNode."""
    words = (word for word in re.findall("[A-Za-z]+", limit) if word not in _LITTLE_WORDS)
    return "".join(word[:1].upper() + word[1:] for word in words)
