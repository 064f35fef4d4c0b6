"""Applying: a plan that was saved is carried out, wave after wave.

Goes in: a plan, whoever made it. What comes out are jobs, one for each move, and news of how they go. Before each wave
the rest of the plan is replayed on the cluster as it is now; if that finds anything wrong, nothing more is begun
(`Changed`). The jobs are the only memory: whoever applies the same plan again goes on where it stands.

A pod that moves twice is another pod the second time: the job of its first move says which.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random

import msgspec
from msgspec.structs import replace

from restow.client.verbs import Client
from restow.control.descheduler.descheduler import create_job
from restow.control.descheduler.feed import Feed
from restow.control.descheduler.jobs import PlanJobs, busy, plan_name, reference_to, under_way
from restow.control.descheduler.settings import Settings
from restow.migration.arguments import Arguments
from restow.migration.conditions import is_ended
from restow.migration.waves import plan_of
from restow.model.objects import JobPhase, ObjectReference, PodMigrationJob
from restow.planning.descheduling.cycle import Guarded
from restow.planning.plan import Move, Plan
from restow.planning.replay import Defect, replay
from restow.planning.request import Request
from restow.ports import Api, Clock
from restow.scheduling.registry import Profile as SchedulerProfile

TITLE = "apply"


class Changed(Exception):
    """The cluster is not what the plan was made for; every defect says where."""

    def __init__(self, wave: int, defects: tuple[Defect, ...]) -> None:
        self.wave = wave
        self.defects = defects
        told = "; ".join(
            f"move {one.order} of {one.namespace}/{one.pod} {one.reason}" if one.order else one.reason
            for one in defects[:3]
        )
        more = f"; and {len(defects) - 3} more" if len(defects) > 3 else ""
        super().__init__(f"the cluster has changed, wave {wave} does not begin: {told}{more}")


class InTheWay(Exception):
    """Another plan is under way."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a plan is."""

    plan: str
    jobs: dict[int, PodMigrationJob]
    """By order of their move; moves without a job have not begun."""
    wave: int
    """The one under way."""
    stopped: str | None = None
    """Why nothing is evicted."""

    @property
    def succeeded(self) -> int:
        return sum(job.status.phase == JobPhase.SUCCEED for job in self.jobs.values())

    @property
    def failed(self) -> int:
        return sum(is_ended(job) and job.status.phase != JobPhase.SUCCEED for job in self.jobs.values())


class Applying:
    def __init__(
        self,
        api: Api,
        clock: Clock,
        rng: Random,
        *,
        scheduler: SchedulerProfile,
        arguments: Arguments,
        settings: Settings | None = None,
        tell: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        self._client = Client(api, manager="restow-apply")
        self._clock = clock
        self._scheduler = scheduler
        self._arguments = arguments
        self._settings = settings or Settings()
        self._tell = tell
        self._feed = Feed(self._client, clock, rng, self._settings.namespace)

        self._news = asyncio.Event()
        self._feed.on_job = lambda job: self._news.set()

    async def apply(self, plan: Plan) -> Progress:
        """Carry a plan out. Raises Changed, InTheWay and ApiError."""
        feeding = asyncio.create_task(self._feed.run(), name="apply feed")
        try:
            await self._feed.synced()
            return await self._follow(plan)
        finally:
            feeding.cancel()
            with suppress(asyncio.CancelledError):
                await feeding

    async def _follow(self, plan: Plan) -> Progress:
        course = PlanJobs(plan=plan_name(TITLE, plan), moves=len(plan.moves))
        others = under_way(job for job in self._feed.jobs() if plan_of(job) != course.plan)
        if others:
            raise InTheWay(others)
        waves = list(plan.waves())
        for wave, moves in waves:
            waiting = [move for move in moves if self._job(course, move) is None]
            if waiting:
                rest = [move for number, later in waves if number >= wave for move in later]
                self._check(wave, plan, course, rest)
                for move in waiting:
                    await self._begin(plan, course, move)
            await self._ended(plan, course, wave, moves)
        return self._progress(plan, course, waves[-1][0] if waves else 0)

    # --- before a wave ------------------------------------------------------------------------------------------------

    def _check(self, wave: int, plan: Plan, course: PlanJobs, rest: list[Move]) -> None:
        """Replay what is left; only this wave while pods of it are on the move, as the later ones count on them."""
        left = [move for move in rest if self._job(course, move) is None]
        if len(left) < len(rest):
            left = [move for move in left if move.wave == wave]
        lost = [_lost(move) for move in left if self._pod(plan, course, move) is None]
        if lost:
            raise Changed(wave, tuple(lost))
        with self._feed.held():
            replayed = replay(
                self._feed.snapshot,
                replace(plan, moves=tuple(self._current(plan, course, move) for move in left), places=()),
                self._request(),
            )
        if not replayed.valid:
            raise Changed(wave, replayed.defects)

    def _request(self) -> Request:
        now = self._clock.now()
        moving = busy(self._feed.jobs(), now, 0.0)
        return Request(
            engine=self._scheduler.engine, mobility=Guarded(self._feed.rules(self._arguments), (), moving), now=now
        )

    def _current(self, plan: Plan, course: PlanJobs, move: Move) -> Move:
        """The move, of the pod that it is about now; in a later wave that is not known yet."""
        pod = self._pod(plan, course, move)
        return replace(move, pod=pod.name or "", uid=pod.uid or "") if pod is not None else move

    def _pod(self, plan: Plan, course: PlanJobs, move: Move) -> ObjectReference | None:
        """The pod that a move is about; None if it is lost: the move before it did not bring it there."""
        before = [
            one for one in plan.moves if one.order < move.order and _name(one) == _name(move) and one.uid == move.uid
        ]
        if not before:
            pod = self._feed.pod(move.namespace, move.pod) if not move.uid else None
            return replace(reference_to(move), uid=pod.metadata.uid) if pod is not None else reference_to(move)
        job = self._job(course, before[-1])
        if job is None:
            return reference_to(move)
        return job.status.pod_ref if job.status.phase == JobPhase.SUCCEED else None

    # --- a wave -------------------------------------------------------------------------------------------------------

    async def _begin(self, plan: Plan, course: PlanJobs, move: Move) -> None:
        pod = self._pod(plan, course, move)
        assert pod is not None, "checked before the wave"
        document = course.move(move, replace(pod, namespace=move.namespace), plan.strategy)
        self._feed.note(await create_job(self._client, document, self._settings))

    async def _ended(self, plan: Plan, course: PlanJobs, wave: int, moves: list[Move]) -> None:
        """Wait until the jobs of a wave are over, however they end."""
        while True:
            self._news.clear()
            self._tell(self._progress(plan, course, wave))
            jobs = [self._job(course, move) for move in moves]
            if all(job is None or is_ended(job) for job in jobs):
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.look_again):
                    await self._news.wait()

    def _progress(self, plan: Plan, course: PlanJobs, wave: int) -> Progress:
        found = {move.order: self._job(course, move) for move in plan.moves}
        jobs = {order: job for order, job in found.items() if job is not None}
        return Progress(plan=course.plan, jobs=jobs, wave=wave, stopped=self._feed.stopped())

    def _job(self, course: PlanJobs, move: Move) -> PodMigrationJob | None:
        return self._feed.job(course.name(move))


def _name(move: Move) -> tuple[str, str]:
    return move.namespace, move.pod


def _lost(move: Move) -> Defect:
    told = "cannot go on: its move before this one did not succeed"
    return Defect(move.order, move.wave, move.namespace, move.pod, told)
