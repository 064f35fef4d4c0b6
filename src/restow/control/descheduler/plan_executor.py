"""Applying: a plan that was saved is carried out, wave after wave.

Goes in: a plan, whoever made it. What comes out are jobs, one for each move, claims for the pods that the plan makes
room for, and news of how they go.

    everything that has begun has ended ──> what is left is replayed ──> claims ──> the jobs of the next wave ─┐
            ^                                       │ not valid          ^                                     │
            │                                       └──> repaired ───────┘ or Changed, if that gains nothing   │
            └──────────────────────────────────────────────────────────────────────────────────────────────────┘

Before each wave what is left of the plan is replayed on the cluster as it is now; what seems wrong is read afresh and
looked at again. What does not work any more is repaired (`planning.repair`), and told; if what can be done gains
nothing, or if nothing may be changed (`strict`), nothing more is begun (`Changed`), and the claims are let go. The jobs
and claims are the only memory: whoever applies the same plan again goes on where it stands, and so does whoever waits
for an API server that is busy or does not answer.

A pod that moves twice is another pod the second time: the job of its first move says which.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from random import Random

import msgspec
from msgspec.structs import replace

from restow.client.create_once import create_once
from restow.client.shared_informers import SharedInformers
from restow.client.verbs import Client
from restow.control.descheduler.cycle_lease import CycleLease, LeaseHeldElsewhere, LeaseLost
from restow.control.descheduler.event_handlers import DeschedulerEventHandlers
from restow.control.descheduler.live_reads import refresh_snapshot
from restow.control.descheduler.place_reservations import PlaceReservations, waiting_reservations
from restow.control.descheduler.plan_jobs import PlanJobs, new_plan_name, pod_reference
from restow.control.descheduler.settings import DeschedulerSettings
from restow.control.executor import Executor, run_inline, uncancellable
from restow.migration.arguments import MigrationArguments
from restow.migration.conditions import is_job_ended
from restow.migration.plans import plan_under_way, pods_not_to_plan
from restow.migration.waves import plan_of_job, wave_of_job
from restow.model.kinds import POD, POD_MIGRATION_JOB
from restow.model.objects import JobPhase, ObjectReference, Pod, PodMigrationJob
from restow.planning.descheduling.profile_cycle import GuardedEvictionRules
from restow.planning.plan import Move, Plan
from restow.planning.plan_request import PlanRequest
from restow.planning.repair import RepairedPlan, repair_plan
from restow.planning.replay import PlanDefect, replay_plan
from restow.ports import Api, ApiError, Clock, OutcomeUnknown, TooManyRequests
from restow.scheduling.registry import Profile as SchedulerProfile

log = logging.getLogger(__name__)

APPLY_PLAN_TITLE = "apply"
_TOLD = 3


class ClusterChanged(Exception):
    """The cluster is not what the plan was made for; every defect says where."""

    def __init__(self, wave: int, defects: tuple[PlanDefect, ...]) -> None:
        self.wave = wave
        self.defects = defects
        self.further_defects = tuple(map(str, defects[_TOLD:]))
        """What the message has no room for."""
        told = "; ".join(map(str, defects[:_TOLD]))
        more = f"; and {len(self.further_defects)} more" if self.further_defects else ""
        super().__init__(f"the cluster has changed, wave {wave} does not begin: {told}{more}")


class AnotherPlanActive(Exception):
    """Another plan is under way, or being made."""


class ApplyProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a plan is."""

    plan: str
    jobs: dict[int, PodMigrationJob]
    """By order of their move; moves without a job have not begun."""
    wave: int
    """The one under way."""
    stop_reason: str | None = None
    """Why nothing is evicted."""
    interruption: str | None = None
    """What the cluster says, or that it does not answer, so that nothing goes on for now."""
    repairs: tuple[str, ...] = ()
    """What is not done as it was planned, in sentences."""
    filled_places: int = 0
    """How many of the plan's places have their pods."""

    @property
    def succeeded(self) -> int:
        return sum(job.status.phase == JobPhase.SUCCEED for job in self.jobs.values())

    @property
    def failed(self) -> int:
        return sum(is_job_ended(job) and job.status.phase != JobPhase.SUCCEED for job in self.jobs.values())


class PlanExecutor:
    def __init__(
        self,
        api: Api,
        clock: Clock,
        rng: Random,
        *,
        scheduler: SchedulerProfile,
        arguments: MigrationArguments,
        settings: DeschedulerSettings | None = None,
        strict: bool = False,
        tell: Callable[[ApplyProgress], None] = lambda progress: None,
        aside: Executor = run_inline,
    ) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._arguments = arguments
        self._settings = settings or DeschedulerSettings()
        self._strict = strict
        self._tell = tell
        self._aside = uncancellable(aside)
        self._feed = DeschedulerEventHandlers(SharedInformers(Client(api), rng), clock, self._settings.namespace)
        self._turns = CycleLease(api, clock, Random(rng.getrandbits(64)), self._feed, self._settings)
        self._client = Client(self._turns.api, manager="restow-apply")
        self._news = asyncio.Event()
        self._feed.on_job = lambda job: self._news.set()

    async def apply(self, plan: Plan) -> ApplyProgress:
        """Carry a plan out. Raises Changed, InTheWay and ApiError."""
        feeding = asyncio.create_task(self._feed.run(), name="apply feed")
        try:
            await self._feed.synced()
            return await self._in_turn(_Course(plan))
        finally:
            feeding.cancel()
            with suppress(asyncio.CancelledError):
                await feeding

    async def _in_turn(self, course: _Course) -> ApplyProgress:
        """Follow the plan as long as it takes: whoever was cut off from the cluster goes on, after whoever has done
        something there meanwhile."""
        interrupted = False
        while True:
            try:
                return await self._turns.run_while_held(partial(self._follow, course), wait=interrupted)
            except LeaseHeldElsewhere as why:
                raise AnotherPlanActive(str(why)) from None
            except LeaseLost as why:
                interrupted = True
                self._tell_trouble(course, str(why))

    async def _follow(self, course: _Course) -> ApplyProgress:
        others = plan_under_way(job for job in self._feed.jobs() if plan_of_job(job) != course.name)
        if others:
            raise AnotherPlanActive(others)
        course.wave = max((wave_of_job(job) for job in self._begun(course).values()), default=0)
        claims = PlaceReservations(self._client, self._clock, self._feed, self._settings, course.name)
        while True:
            try:
                return await self._go_through(course, claims)
            except (OutcomeUnknown, TooManyRequests) as trouble:  # which passes; what was done is found again
                self._tell_trouble(course, str(trouble))
                await asyncio.sleep(self._settings.poll_interval)

    async def _go_through(self, course: _Course, claims: PlaceReservations) -> ApplyProgress:
        """Wave after wave, from where the plan stands. Raises Changed and ApiError."""
        try:
            await self._ended(course, claims)
            while (rest := await self._rest(course, claims)).moves:
                await self._claim(claims, rest)
                await self._begin(course, rest)
                await self._ended(course, claims)
        except ClusterChanged:
            with suppress(ApiError):  # they end by themselves, and what has changed is what matters to people
                await claims.release()
            raise
        await self._claim(claims, rest)
        await self._taken(course, claims)
        taken = await self._count_taken(course)
        return replace(self._progress(course), taken=taken)

    def _tell_on_its_way(self, course: _Course) -> None:
        """The cluster has answered everything that was asked of it."""
        course.trouble = None
        self._tell(self._progress(course))

    def _tell_trouble(self, course: _Course, trouble: str) -> None:
        course.trouble = trouble
        self._tell(self._progress(course))
        log.info("interrupted", extra={"plan": course.name, "told": trouble})

    # --- before a wave ------------------------------------------------------------------------------------------------

    async def _rest(self, course: _Course, claims: PlaceReservations) -> Plan:
        """What is left of the plan, as it can be carried out. Raises Changed and ApiError."""
        left = [move for move in course.left() if self._job(course, move) is None]
        pods = {move.order: self._pod(course, move) for move in left}
        lost = tuple(_lost(move) for move in left if pods[move.order] is None)
        moves = (self._current(course, move, pod) for move in left if (pod := pods[move.order]) is not None)
        rest = replace(course.plan, moves=tuple(moves))
        if not left:
            return rest
        repaired = await self._repaired(course, claims, rest)
        if repaired.changes:
            await refresh_snapshot(self._client, self._feed, nodes_of(rest))
            repaired = await self._repaired(course, claims, rest)
        changes = lost + repaired.changes
        held = bool(repaired.plan.places and not repaired.plan.moves and claims.live())  # others have made the room
        if not (repaired.is_worthwhile or held) or (self._strict and changes):
            raise ClusterChanged(min(move.wave for move in left), changes)
        course.repair(repaired.plan, changes)
        return repaired.plan

    async def _repaired(self, course: _Course, claims: PlaceReservations, rest: Plan) -> RepairedPlan:
        sources = [move.source for move in course.plan.moves]
        with self._feed.paused(), claims.lifted():
            snapshot, request = self._feed.snapshot, self._request()
            if not self._strict:
                return await self._aside(partial(repair_plan, snapshot, rest, request, sources))
            replayed = await self._aside(partial(replay_plan, snapshot, rest, request))
            return RepairedPlan(rest, replayed.defects, is_worthwhile=replayed.valid)

    def _request(self) -> PlanRequest:
        now = self._clock.now()
        moving = pods_not_to_plan(self._feed.jobs(), now, 0.0)
        return PlanRequest(
            engine=self._scheduler.engine,
            eviction_rules=GuardedEvictionRules(self._feed.eviction_rules(self._arguments), (), moving),
            now=now,
            pending=self._feed.pending_pods(self._scheduler),
            scheduler_names=self._scheduler.scheduler_names,
            pod_groups=self._feed.pod_groups,
        )

    def _current(self, course: _Course, move: Move, pod: ObjectReference) -> Move:
        """The move, of the pod that it is about now, from where that is; in a later wave neither is known yet."""
        before = course.before(move)
        job = self._job(course, before) if before is not None else None
        source = (job.status.node_name if job is not None else None) or move.source
        return replace(move, pod=pod.name or "", uid=pod.uid or "", source=source)

    def _pod(self, course: _Course, move: Move) -> ObjectReference | None:
        """The pod that a move is about; None if it is lost: the move before it did not bring it there."""
        before = course.before(move)
        if before is None:
            pod = self._feed.pod(move.namespace, move.pod) if not move.uid else None
            return replace(pod_reference(move), uid=pod.metadata.uid) if pod is not None else pod_reference(move)
        job = self._job(course, before)
        if job is None:
            return pod_reference(move)
        return job.status.pod_ref if job.status.phase == JobPhase.SUCCEED else None

    # --- a wave -------------------------------------------------------------------------------------------------------

    async def _begin(self, course: _Course, rest: Plan) -> None:
        """Create the jobs of the first wave that is left."""
        number, moves = next(rest.waves())
        course.wave = max(number, course.wave)
        for move in moves:
            written = replace(course.known(move), wave=course.wave, source=move.source, target=move.target)
            pod = ObjectReference(namespace=move.namespace, name=move.pod, uid=move.uid)
            document = course.jobs.move_document(written, pod, course.plan.strategy)
            self._feed.note_written_job(await create_once(self._client, POD_MIGRATION_JOB, document))
        course.claims_end = None
        self._tell_on_its_way(course)

    async def _ended(self, course: _Course, claims: PlaceReservations) -> None:
        """Wait until everything that has begun is over, however it ends."""
        while not all(is_job_ended(job) for job in self._begun(course).values()):
            self._news.clear()
            await claims.extend()
            self._tell_on_its_way(course)
            await self._look_again()
        self._tell(self._progress(course))

    async def _look_again(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.poll_interval):
                await self._news.wait()

    # --- places -------------------------------------------------------------------------------------------------------

    async def _claim(self, claims: PlaceReservations, rest: Plan) -> None:
        await claims.claim(claims.wanted(rest.places, self._feed.pending_pods(self._scheduler)), rest.moves)

    async def _taken(self, course: _Course, claims: PlaceReservations) -> None:
        """Wait until the pods that the plan made room for have it. Room that is there for those who do not come stays
        theirs until the claim expires; what is still missing room will not get it any more, and lets go."""
        if course.claims_end is None:
            course.claims_end = self._clock.now() + self._settings.place_patience
        while claims.live():
            self._news.clear()
            wanted = claims.wanted(course.plan.places, self._feed.pending_pods(self._scheduler))
            if not wanted:
                await claims.release()
                break
            await claims.hand_over(wanted)
            if self._clock.now() >= course.claims_end:
                await claims.release(waiting_reservations)
                break
            self._tell_on_its_way(course)
            await self._look_again()
        self._tell_on_its_way(course)

    async def _count_taken(self, course: _Course) -> int:
        """How many places have their pods; whoever seems to wait is asked once more, because the view may be behind."""
        taken = 0
        for place in course.plan.places:
            pod = self._feed.pod(place.namespace, place.pod)
            if pod is not None and not pod.spec.node_name:
                pod = await self._read(course, pod)
            taken += pod is not None and bool(pod.spec.node_name)
        if course.trouble:
            self._tell_on_its_way(course)
        return taken

    async def _read(self, course: _Course, pod: Pod) -> Pod:
        """A pod as it is now; as it was seen, if it is gone or may not be read. Asks for as long as nobody answers."""
        while True:
            try:
                return await self._client.get(POD, pod.metadata.name, pod.metadata.namespace)
            except (OutcomeUnknown, TooManyRequests) as trouble:
                self._tell_trouble(course, str(trouble))
                await asyncio.sleep(self._settings.poll_interval)
            except ApiError:
                return pod

    # ------------------------------------------------------------------------------------------------------------------

    def _begun(self, course: _Course) -> dict[int, PodMigrationJob]:
        found = {order: self._job(course, move) for order, move in course.moves.items()}
        return {order: job for order, job in found.items() if job is not None}

    def _progress(self, course: _Course) -> ApplyProgress:
        places = (self._feed.pod(place.namespace, place.pod) for place in course.plan.places)
        return ApplyProgress(
            plan=course.name,
            jobs=self._begun(course),
            wave=course.wave,
            stop_reason=self._feed.stop_reason(),
            interruption=course.trouble,
            repairs=tuple(course.repairs),
            filled_places=sum(pod is not None and bool(pod.spec.node_name) for pod in places),
        )

    def _job(self, course: _Course, move: Move) -> PodMigrationJob | None:
        return self._feed.job(course.jobs.job_name(move))


class _Course:
    """A plan on its way: how its jobs are called, and what became of it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.name = new_plan_name(APPLY_PLAN_TITLE, plan)
        self.jobs = PlanJobs(plan=self.name, move_count=len(plan.moves))
        self.wave = 0
        self.moves = {move.order: move for move in plan.moves}
        """By order, as their jobs are named after them; a repair may add some."""
        self.repairs: dict[str, None] = {}
        self.trouble: str | None = None
        self.claims_end: float | None = None
        """When pods have had time enough to take what is claimed; None while some are still to move."""
        self._left = set(self.moves)

    def left(self) -> list[Move]:
        """The moves that no repair has given up."""
        return [move for move in self.plan.moves if move.order in self._left]

    def before(self, move: Move) -> Move | None:
        """The move of the same pod before this one."""
        same = (one for one in self.plan.moves if one.order < move.order and _pod_key(one) == _pod_key(move))
        return max(same, key=lambda one: one.order, default=None)

    def known(self, move: Move) -> Move:
        """The move of this order as the plan has it, by which its job is named."""
        return self.moves.setdefault(move.order, move)

    def repair(self, rest: Plan, changes: Iterable[PlanDefect]) -> None:
        """From now on this is what is left to begin."""
        self._left = {move.order for move in rest.moves}
        self.repairs |= dict.fromkeys(map(str, changes))


def nodes_of(plan: Plan) -> set[str]:
    """The nodes that a plan is about."""
    return {name for move in plan.moves for name in (move.source, move.target)} | {place.node for place in plan.places}


def _pod_key(move: Move) -> tuple[str, str, str]:
    return move.namespace, move.pod, move.uid


def _lost(move: Move) -> PlanDefect:
    return PlanDefect.of_move(move, "cannot go on: its move before this one did not succeed")
