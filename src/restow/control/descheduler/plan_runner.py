"""Carries out a saved plan, wave after wave (`restow apply`).

Goes in: a plan, from any strategy. Comes out: one PodMigrationJob for each move, reservations for the pods that the
plan makes room for, and reports of the progress.

    all jobs so far have ended ──> replay the rest ──> reserve the places ──> create the jobs of the next wave ─┐
            ^                            │ not valid            ^                                               │
            │                            └──> repair ───────────┘ or ClusterChanged, if that gains nothing      │
            └───────────────────────────────────────────────────────────────────────────────────────────────────┘

Before each wave, the rest of the plan is replayed on the cluster as it is now. If it is not valid, the objects it is
about are read live and it is replayed again. A plan that is still not valid is repaired (`planning.repair`), and the
changes are reported. If the repaired plan gains nothing, or if the plan must not be changed (`strict`), no more moves
begin (`ClusterChanged`) and the place reservations are deleted.

Jobs and reservations are the only memory. Applying the same plan again continues it, and so does a process that was cut
off from the API server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random

from msgspec.structs import replace

from restow.client.create_once import create_once
from restow.client.shared_informers import SharedInformers
from restow.client.verbs import Client
from restow.control.descheduler.applied_plan import AppliedPlan, ApplyProgress
from restow.control.descheduler.cycle_lease import CycleLease, LeaseHeldElsewhere, LeaseLost
from restow.control.descheduler.event_handlers import DeschedulerEventHandlers
from restow.control.descheduler.live_reads import refresh_snapshot
from restow.control.descheduler.place_reservations import PlanPlaceReservations, waiting_reservations
from restow.control.descheduler.settings import ApplyConfiguration
from restow.control.executor import Executor, run_inline, uncancellable
from restow.migration.conditions import is_job_ended
from restow.migration.plans import plan_under_way, pods_not_to_plan
from restow.migration.waves import plan_of_job, wave_of_job
from restow.model.kinds import POD, POD_MIGRATION_JOB
from restow.model.objects import ObjectReference, Pod
from restow.planning.descheduling.profile_cycle import GuardedEvictionRules
from restow.planning.plan import Move, Plan
from restow.planning.plan_request import PlanRequest
from restow.planning.repair import RepairedPlan, repair_plan
from restow.planning.replay import PlanDefect, replay_plan
from restow.ports import Api, ApiError, Clock, OutcomeUnknown, TooManyRequests

log = logging.getLogger(__name__)

_MAX_SHOWN_DEFECTS = 3


class ClusterChanged(Exception):
    """The cluster is not what the plan was made for. Every defect names what has changed."""

    def __init__(self, wave: int, defects: tuple[PlanDefect, ...]) -> None:
        self.wave = wave
        self.defects = defects
        self.more_defects = tuple(map(str, defects[_MAX_SHOWN_DEFECTS:]))
        """Those that the message does not show."""
        shown = "; ".join(map(str, defects[:_MAX_SHOWN_DEFECTS]))
        more = f"; and {len(self.more_defects)} more" if self.more_defects else ""
        super().__init__(f"the cluster has changed, wave {wave} does not begin: {shown}{more}")


class AnotherPlanActive(Exception):
    """Another plan is carried out, or made, at the moment."""


class PlanRunner:
    def __init__(
        self,
        api: Api,
        clock: Clock,
        rng: Random,
        configuration: ApplyConfiguration,
        *,
        report_progress: Callable[[ApplyProgress], None] = lambda progress: None,
        executor: Executor = run_inline,
    ) -> None:
        self._clock = clock
        self._scheduler = configuration.scheduler
        self._migration = configuration.migration
        self._settings = settings = configuration.settings
        self._strict = configuration.strict
        self._report_progress = report_progress
        self._executor = uncancellable(executor)
        self._job_changed = asyncio.Event()
        self._handlers = DeschedulerEventHandlers(
            SharedInformers(Client(api), rng), clock, settings.namespace, on_job=lambda job: self._job_changed.set()
        )
        self._lease = CycleLease(api, clock, Random(rng.getrandbits(64)), self._handlers, settings)
        self._client = Client(self._lease.api, manager="restow-apply")

    async def apply(self, plan: Plan) -> ApplyProgress:
        """Carry out a plan. Raises ClusterChanged, AnotherPlanActive and ApiError."""
        following = asyncio.create_task(self._handlers.run(), name="apply event handlers")
        try:
            await self._handlers.synced()
            return await self._run_with_lease(AppliedPlan(plan, self._handlers))
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following

    async def _run_with_lease(self, applied: AppliedPlan) -> ApplyProgress:
        """Carry out the plan while holding the Lease. When the Lease is lost, wait for it again: another process may
        have made changes in between, which the next replay finds."""
        was_interrupted = False
        while True:
            try:
                return await self._lease.run_while_held(partial(self._run_from_here, applied), wait=was_interrupted)
            except LeaseHeldElsewhere as error:
                raise AnotherPlanActive(str(error)) from None
            except LeaseLost as error:
                was_interrupted = True
                self._report_interruption(applied, str(error))

    async def _run_from_here(self, applied: AppliedPlan) -> ApplyProgress:
        """Carry out the plan from where it stands, however often the API server fails."""
        other_plan = plan_under_way(job for job in self._handlers.jobs() if plan_of_job(job) != applied.name)
        if other_plan:
            raise AnotherPlanActive(other_plan)
        applied.wave = max((wave_of_job(job) for job in applied.started_jobs().values()), default=0)
        places = PlanPlaceReservations(self._client, self._clock, self._handlers, self._settings, applied.name)
        while True:
            try:
                return await self._run_waves(applied, places)
            except (OutcomeUnknown, TooManyRequests) as error:
                # These pass. What was created without an answer is found again by its name.
                self._report_interruption(applied, str(error))
                await asyncio.sleep(self._settings.poll_interval)

    async def _run_waves(self, applied: AppliedPlan, places: PlanPlaceReservations) -> ApplyProgress:
        """Wave after wave. Raises ClusterChanged and ApiError."""
        try:
            # 1. Wait for the jobs of earlier waves.
            await self._wait_until_ended(applied, places)
            # 2. Check, and if need be repair, what is left; reserve the places; start the next wave; wait for it.
            while (rest := await self._remaining_plan(applied, places)).moves:
                await self._reserve_places(places, rest)
                await self._start_wave(applied, rest)
                await self._wait_until_ended(applied, places)
        except ClusterChanged:
            with suppress(ApiError):  # reservations expire by themselves; the caller must see what has changed
                await places.release()
            raise
        # 3. Wait until the pending pods have taken the room that the plan has made for them.
        await self._reserve_places(places, rest)
        await self._wait_until_places_filled(applied, places)
        filled = await self._count_filled_places(applied)
        return replace(applied.progress(), filled_places=filled)

    # --- reports ------------------------------------------------------------------------------------------------------

    def _report(self, applied: AppliedPlan) -> None:
        """Report the progress; to be called when the API server has answered all requests."""
        applied.interruption = None
        self._report_progress(applied.progress())

    def _report_interruption(self, applied: AppliedPlan, reason: str) -> None:
        applied.interruption = reason
        self._report_progress(applied.progress())
        log.info("plan interrupted", extra={"plan": applied.name, "reason": reason})

    # --- before a wave ------------------------------------------------------------------------------------------------

    async def _remaining_plan(self, applied: AppliedPlan, places: PlanPlaceReservations) -> Plan:
        """The rest of the plan as it can be carried out now. Raises ClusterChanged and ApiError."""
        left = applied.unstarted_moves()
        pods = {move.order: applied.current_pod(move) for move in left}
        lost = tuple(_lost_move(move) for move in left if pods[move.order] is None)
        moves = (applied.current_move(move, pod) for move in left if (pod := pods[move.order]) is not None)
        rest = replace(applied.plan, moves=tuple(moves))
        if not left:
            return rest
        repaired = await self._replay_or_repair(applied, places, rest)
        if repaired.changes:
            # A snapshot that is behind looks like a changed cluster: read what the plan is about, and look again.
            await refresh_snapshot(self._client, self._handlers, nodes_of_plan(rest))
            repaired = await self._replay_or_repair(applied, places, rest)
        changes = lost + repaired.changes
        # Without any moves left the plan gains nothing more. But if its places are reserved, others have made the room.
        room_is_there = bool(repaired.plan.places and not repaired.plan.moves and places.live_reservations())
        if not (repaired.is_worthwhile or room_is_there) or (self._strict and changes):
            raise ClusterChanged(min(move.wave for move in left), changes)
        applied.accept_repair(repaired.plan, changes)
        return repaired.plan

    async def _replay_or_repair(self, applied: AppliedPlan, places: PlanPlaceReservations, rest: Plan) -> RepairedPlan:
        sources = [move.source for move in applied.plan.moves]
        with self._handlers.paused(), places.without_held_seats():
            snapshot, request = self._handlers.snapshot, self._plan_request()
            if not self._strict:
                return await self._executor(partial(repair_plan, snapshot, rest, request, sources))
            replayed = await self._executor(partial(replay_plan, snapshot, rest, request))
            return RepairedPlan(rest, replayed.defects, is_worthwhile=replayed.valid)

    def _plan_request(self) -> PlanRequest:
        now = self._clock.now()
        busy_pods = pods_not_to_plan(self._handlers.jobs(), now, 0.0)
        return PlanRequest(
            engine=self._scheduler.engine,
            eviction_rules=GuardedEvictionRules(self._handlers.eviction_rules(self._migration), (), busy_pods),
            now=now,
            pending=self._handlers.pending_pods(self._scheduler),
            scheduler_names=self._scheduler.scheduler_names,
            pod_groups=self._handlers.pod_groups,
        )

    # --- a wave -------------------------------------------------------------------------------------------------------

    async def _start_wave(self, applied: AppliedPlan, rest: Plan) -> None:
        """Create the jobs of the first wave that is left."""
        number, moves = next(rest.waves())
        applied.wave = max(number, applied.wave)
        for move in moves:
            # The job has the name of the original move, but the source and target of the repaired one.
            original = applied.original_move(move)
            written = replace(original, wave=applied.wave, source=move.source, target=move.target)
            pod = ObjectReference(namespace=move.namespace, name=move.pod, uid=move.uid)
            document = applied.jobs.move_document(written, pod, applied.plan.strategy)
            self._handlers.note_written_job(await create_once(self._client, POD_MIGRATION_JOB, document))
        applied.places_deadline = None
        self._report(applied)

    async def _wait_until_ended(self, applied: AppliedPlan, places: PlanPlaceReservations) -> None:
        """Wait until all jobs of the plan have ended, successfully or not."""
        while not all(is_job_ended(job) for job in applied.started_jobs().values()):
            self._job_changed.clear()
            await places.extend_ttl()
            self._report(applied)
            await self._wait_for_change()
        self._report_progress(applied.progress())

    async def _wait_for_change(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.poll_interval):
                await self._job_changed.wait()

    # --- places -------------------------------------------------------------------------------------------------------

    async def _reserve_places(self, places: PlanPlaceReservations, rest: Plan) -> None:
        desired = places.desired(rest.places, self._handlers.pending_pods(self._scheduler))
        await places.ensure_due(desired, rest.moves)

    async def _wait_until_places_filled(self, applied: AppliedPlan, places: PlanPlaceReservations) -> None:
        """Wait until the pods that the plan has made room for are bound, up to `place_patience`. Then the reservations
        with room stay until they expire; those that still wait for room are deleted, because no move will make it."""
        if applied.places_deadline is None:
            applied.places_deadline = self._clock.now() + self._settings.place_patience
        while places.live_reservations():
            self._job_changed.clear()
            desired = places.desired(applied.plan.places, self._handlers.pending_pods(self._scheduler))
            if not desired:
                await places.release()
                break
            await places.replace_owners(desired)
            if self._clock.now() >= applied.places_deadline:
                await places.release(waiting_reservations)
                break
            self._report(applied)
            await self._wait_for_change()
        self._report(applied)

    async def _count_filled_places(self, applied: AppliedPlan) -> int:
        """How many places have their pods. A pod that seems to be pending is read live: the informer may be behind."""
        filled = 0
        for place in applied.plan.places:
            pod = self._handlers.pod(place.namespace, place.pod)
            if pod is not None and not pod.spec.node_name:
                pod = await self._read_pod(applied, pod)
            filled += pod is not None and bool(pod.spec.node_name)
        if applied.interruption:
            self._report(applied)
        return filled

    async def _read_pod(self, applied: AppliedPlan, pod: Pod) -> Pod:
        """A pod as it is now, or as last seen if it is gone or may not be read. Retries until the API server
        answers."""
        while True:
            try:
                return await self._client.get(POD, pod.metadata.name, pod.metadata.namespace)
            except (OutcomeUnknown, TooManyRequests) as error:
                self._report_interruption(applied, str(error))
                await asyncio.sleep(self._settings.poll_interval)
            except ApiError:
                return pod


def nodes_of_plan(plan: Plan) -> set[str]:
    """All nodes that pods leave, or are to go to."""
    return {name for move in plan.moves for name in (move.source, move.target)} | {place.node for place in plan.places}


def _lost_move(move: Move) -> PlanDefect:
    return PlanDefect.of_move(move, "cannot begin: the previous move of the pod did not succeed")
