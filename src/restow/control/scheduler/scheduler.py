"""The scheduler: the story of its loop.

Goes in: an API server, a clock, a Random and a `Profile` (plugins and actions). What comes out happens in the API
server. Nothing that matters lives only here: a successor starts from lists and goes on.

    events ──feed──> snapshot, roster, queue
                                        │  there is work
                                        v
            pods in order, gangs whole ──session──> decisions
                                                        │
        Refuse: back to the queue, told why <───────────┼──> SetGroup, Nominate: told
                                                        v
                     Assign: a binding cycle each ──> bound, or everything given back and queued again

Deciding is synchronous: no event comes in between. Everything that waits is a task of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import assert_never

import msgspec
from msgspec.structs import replace

from restow.client.events import EventRecorder
from restow.client.informers import Informers
from restow.client.verbs import Client
from restow.control.scheduler.binding_cycle import BindingCycle
from restow.control.scheduler.event_handlers import EventHandlers
from restow.control.scheduler.reservation_status import ReservationStatusController
from restow.control.scheduler.assumed_pod_expiry import AssumedPodExpiry
from restow.control.scheduler.metrics import ERROR, SCHEDULED, UNSCHEDULABLE, SchedulerMetrics
from restow.control.scheduler.gang_bind_barrier import GangBindBarriers
from restow.control.scheduler.binding_outcomes import Bound, Failed, Lost, BindingOutcome, Rejected
from restow.control.scheduler.settings import SchedulerSettings
from restow.control.scheduler.monotonic_clock import monotonic_time
from restow.control.scheduler.pod_status import SCHEDULER_ERROR, PodStatusWriter
from restow.model.cluster.names import Key, key_of
from restow.model.objects import Pod, Reservation
from restow.ports import Api, Clock
from restow.scheduling.decisions import Assign, Decision, Decline, Hold, Nominate, Refuse, SetGroup, Tell
from restow.scheduling.explain import blamed, joined
from restow.scheduling.framework import Code, PostBindPlugin
from restow.scheduling.jobs import is_half_placed
from restow.scheduling.queue import SchedulingQueue, Where, order_by
from restow.scheduling.registry import Profile
from restow.scheduling.session import Session
from restow.scheduling.cluster_events import ActionType, ClusterEvent, EventResource

log = logging.getLogger(__name__)

_SHORTEST_SLEEP = 0.01
_PENDING = {
    "active": Where.ACTIVE,
    "backoff": Where.BACKOFF,
    "unschedulable": Where.UNSCHEDULABLE,
    "gated": Where.GATED,
}


class _Batch(msgspec.Struct, frozen=True):
    """What a session decides about."""

    pods: list[Pod]
    cut: frozenset[str]
    """Queues of which more is waiting behind these."""


class Scheduler:
    """`run()` it until it is cancelled; one at a time per cluster, which leader election sees to."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        rng: Random,
        *,
        profile: Profile,
        settings: SchedulerSettings | None = None,
        metrics: SchedulerMetrics | None = None,
        informers: Informers | None = None,
    ) -> None:
        self._settings = settings or SchedulerSettings()
        self._profile = profile
        self._clock = clock
        self._metrics = metrics or SchedulerMetrics()
        client = Client(api, manager="restow-scheduler")
        self._queue = SchedulingQueue(wakeups=profile.wakeups, gates=profile.gates, order=order_by(profile.engine.sort))
        self._feed = EventHandlers(informers or Informers(client, rng), self._queue, profile.scheduler_names)
        self._snapshot, self._roster = self._feed.snapshot, self._feed.roster
        self._recorder = EventRecorder(client, clock, Random(rng.getrandbits(64)))
        self._queue.lane_of = self._roster.queue_of
        self._telling = PodStatusWriter(client, clock, self._recorder, self._feed)
        self._musters = GangBindBarriers(self._roster, self._snapshot)
        self._telling.is_pending = self._musters.is_pending
        self._binding = BindingCycle(client, clock, profile.engine, self._feed, self._musters, self._settings)
        self._holding = ReservationStatusController(client, clock, self._recorder, self._feed, profile.engine, self._settings)
        self._post_binds = [plugin for plugin in profile.engine.plugins if isinstance(plugin, PostBindPlugin)]
        self._feed.on_member = self._telling.member
        self._queue.on_gated = self._telling.gated
        self._holding.marks.must_wait = self._binding.is_pressed
        self._binding.permitted = self._queue.decided
        self._binding.expects = self._telling.expects
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._leaks = AssumedPodExpiry(client, clock, self._feed, self._under_way, self._settings)
        self._leaks.withdraw = self._withdraw
        self._broken: set[Key] = set()
        self._ready = asyncio.Event()
        for name, where in _PENDING.items():
            self._metrics.pending(name, partial(self._waiting, where))

    async def run(self) -> None:
        """Schedule until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._feed.run(), name="scheduler feed")
            for number in range(self._settings.event_writers):
                tasks.create_task(self._recorder.run(), name=f"scheduler events {number}")
            for number in range(self._settings.status_writers):
                tasks.create_task(self._telling.run(), name=f"scheduler status {number}")
            await self._feed.synced()
            self._broken = self._half_placed()
            self._holding.start(tasks)
            self._ready.set()
            tasks.create_task(self._leaks.run(), name="scheduler leak check")
            await self._schedule(tasks)

    async def ready(self) -> None:
        """Wait until the scheduler knows the cluster and has begun."""
        await self._ready.wait()

    # --- the loop -----------------------------------------------------------------------------------------------------

    async def _schedule(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            self._feed.changed.clear()
            now = monotonic_time()
            self._queue.flush(now)
            batch = self._take(now)
            if batch.pods:
                self._carry_out(self._decide(batch), tasks)
                await asyncio.sleep(0)
            else:
                await self._sleep(now)

    async def _sleep(self, now: float) -> None:
        """Until something happens, or becomes due by itself."""
        due = self._queue.next_at(now)
        if due is not None and due <= now:  # nothing was taken although something waits: too many are under way
            await self._feed.changed.wait()
            await asyncio.sleep(_SHORTEST_SLEEP)  # a binding that has ended is not yet room for many
            return
        delay = None if due is None else max(due - now, _SHORTEST_SLEEP)
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._feed.changed.wait()

    def _take(self, now: float) -> _Batch:
        """The pods for a session: the most important first, gangs whole; where queues compete, the first of each."""
        pods: dict[str, Pod] = {}
        for gang in sorted(self._broken):
            if any(self._queue.is_called(pod.metadata.uid) for pod in self._roster.members(gang)):
                pods |= self._rest_of(gang)
        limit = self._room_ahead(now)
        lanes: Sequence[str | None] = self._queue.lanes(now) if self._roster.is_usage_limited else [None]
        for lane in lanes if limit > 0 else ():
            pods |= self._first(now, lane, -(-limit // len(lanes)))
        cut = self._queue.lanes(now) if self._roster.is_usage_limited else ()
        return _Batch(list(pods.values()), frozenset(cut))

    def _room_ahead(self, now: float) -> int:
        """How many pods may be decided now. While many wait, not until there is room for many."""
        ahead = self._settings.ahead
        room = ahead + self._binding.waiting - len(self._under_way)
        many = min(self._settings.at_once, max(ahead // 2, 1))
        return min(room, many) if room >= many or room >= self._queue.ready(now) else 0

    def _first(self, now: float, lane: str | None, limit: int) -> dict[str, Pod]:
        """So many pods of a queue, or of all of them, and what belongs to their gangs."""
        pods: dict[str, Pod] = {}
        while len(pods) < limit and (pod := self._queue.pop(now, lane)) is not None:
            if self._is_free(pod):
                pods[pod.metadata.uid] = pod
                gang = self._roster.gang_of(pod)
                if gang is not None:
                    pods |= self._rest_of(gang)
        return pods

    def _rest_of(self, gang: Key) -> dict[str, Pod]:
        """The members of a gang that wait in the queue, wherever there."""
        taken = [self._queue.take(pod.metadata.uid) for pod in self._roster.members(gang)]
        return {pod.metadata.uid: pod for pod in taken if pod is not None and self._is_free(pod)}

    def _is_free(self, pod: Pod) -> bool:
        """Whether a pod is nowhere yet; one that is somewhere needs no attempt."""
        if pod.metadata.uid not in self._snapshot.pods.known:
            return True
        self._queue.done(pod.metadata.uid)
        return False

    def _waiting(self, where: Where) -> int:
        return len(self._queue.pods(where))

    # --- deciding -----------------------------------------------------------------------------------------------------

    def _decide(self, batch: _Batch) -> list[Decision]:
        """One session. If it breaks, what it decided before stands, and the others are told."""
        pods, reservations = self._told_apart(batch.pods)
        self._feed.catch_up()
        began = monotonic_time()
        session = None
        try:
            session = Session(
                self._snapshot,
                self._profile.engine,
                self._roster,
                now=self._clock.now(),
                pods=pods,
                reservations=reservations,
                nominated=self._feed.nominated.values(),
                namespace_share=self._settings.namespace_share,
                cut=batch.cut,
                names=self._profile.scheduler_names,
            )
            decisions = session.run(self._profile.actions)
            for pod in session.postponed:
                self._queue.postponed(pod.metadata.uid)
        except Exception as error:
            log.exception("session failed", extra={"pods": len(pods)})
            decisions = _completed(session.decided if session else (), pods, reservations, error)
        self._return_tickets(reservations, decisions)
        self._measure(decisions, pods, monotonic_time() - began)
        return decisions

    def _told_apart(self, taken: list[Pod]) -> tuple[list[Pod], list[Reservation]]:
        """Pods, and the reservations that tickets stand for."""
        tickets = self._feed.tickets
        pods = [one for one in taken if not tickets.is_ticket(one)]
        reservations = [tickets.redeem(one) for one in taken if tickets.is_ticket(one)]
        return pods, [one for one in reservations if one is not None]

    def _return_tickets(self, reservations: list[Reservation], decisions: Iterable[Decision]) -> None:
        """Those of reservations that nobody decided about stand where they stood; those that got all are done with."""
        declined = {one.reservation.metadata.uid for one in decisions if isinstance(one, Decline)}
        held = {one.reservation.metadata.uid for one in decisions if isinstance(one, Hold)}
        for uid in (reservation.metadata.uid for reservation in reservations):
            if uid not in declined:
                (self._queue.done if uid in held else self._queue.postponed)(uid)

    def _measure(self, decisions: Iterable[Decision], pods: list[Pod], seconds: float) -> None:
        assigned = sum(isinstance(decision, Assign) for decision in decisions)
        log.info("session", extra={"pods": len(pods), "assigned": assigned, "seconds": round(seconds, 4)})
        for decision in decisions:
            if isinstance(decision, Assign):
                result = SCHEDULED
            elif isinstance(decision, Refuse):
                result = ERROR if decision.code is Code.ERROR else UNSCHEDULABLE
            else:
                continue
            self._metrics.attempt(result, decision.pod.spec.scheduler_name or "", seconds / len(pods))

    # --- carrying out -------------------------------------------------------------------------------------------------

    def _carry_out(self, decisions: list[Decision], tasks: asyncio.TaskGroup) -> None:
        nominations: dict[str, str] = {}
        self._musters.call(decision for decision in decisions if isinstance(decision, Assign))
        for decision in decisions:
            if isinstance(decision, Assign):
                uid = decision.pod.metadata.uid
                self._feed.unnominate(uid, decision.node)
                self._under_way[uid] = tasks.create_task(self._bind(decision))
            elif isinstance(decision, Refuse):
                self._refuse(decision, nominations.get(decision.pod.metadata.uid, ""))
            elif isinstance(decision, Nominate):
                nominations[decision.pod.metadata.uid] = decision.node
            elif isinstance(decision, SetGroup):
                self._telling.group(decision.group, decision.status)
            elif isinstance(decision, Hold):
                self._feed.tickets.held(decision.reservation)
                self._holding.held(decision)
            elif isinstance(decision, Decline):
                self._decline(decision)
            elif isinstance(decision, Tell):
                self._telling.tell(decision.pod, decision.reason, decision.message)
            else:
                assert_never(decision)
        self._broken = {gang for gang in self._broken if self._is_half_placed(gang)}

    def _refuse(self, refuse: Refuse, nominated: str) -> None:
        pod, uid, now = refuse.pod, refuse.pod.metadata.uid, monotonic_time()
        if nominated:
            self._nominate(pod, nominated)
        else:
            self._feed.unnominate(uid)
        if refuse.code is Code.ERROR:
            self._queue.failed(uid, now)
            self._telling.refused(pod, refuse.message, nominated=nominated, reason=SCHEDULER_ERROR)
        else:
            self._queue.refused(uid, refuse.plugins, now)
            self._telling.refused(pod, refuse.message, nominated=nominated)

    def _nominate(self, pod: Pod, node: str) -> None:
        """Room there is kept for the pod from now on; for the rest of a broken gang, before all others."""
        self._feed.nominate(replace(pod, status=replace(pod.status, nominated_node_name=node)))

    def _decline(self, decline: Decline) -> None:
        uid, now = decline.reservation.metadata.uid, monotonic_time()
        if decline.code is Code.ERROR:
            self._queue.failed(uid, now)
        else:
            self._queue.refused(uid, decline.plugins, now)
        self._holding.declined(decline)

    async def _bind(self, assign: Assign) -> None:
        try:
            outcome = await self._binding.run(assign)
        except Exception as error:  # of a plugin: one pod's trouble must not stop the others
            log.exception("binding cycle failed", extra={"pod": assign.pod.metadata.name, "node": assign.node})
            outcome = Failed(blamed(error))
        self._conclude(assign, outcome)
        self._feed.changed.set()

    def _conclude(self, assign: Assign, outcome: BindingOutcome) -> None:
        """What follows from how a binding cycle ended."""
        self._settle(assign, outcome)
        self._musters.dismiss(assign.pod)

    def _settle(self, assign: Assign, outcome: BindingOutcome) -> None:
        pod, uid, now = assign.pod, assign.pod.metadata.uid, monotonic_time()
        del self._under_way[uid]
        if isinstance(outcome, Bound):
            self._queue.done(uid)
            self._telling.scheduled(assign, outcome.consumed_seat)
            self._holding.bound(assign, outcome.consumed_seat)
            self._post_bind(assign)
            return
        self._give_back(assign, outcome)
        self._holding.missed(assign)
        self._feed.unnominate(uid, assign.node)
        if isinstance(outcome, Lost) or self._feed.latest(pod) is None:
            self._queue.delete(uid)
            self._complete_gang(assign, "it is gone")
        elif isinstance(outcome, Rejected):
            message = joined(outcome.verdict.reasons)
            self._queue.refused(uid, [outcome.verdict.plugin], now)
            self._telling.refused(pod, message)
            self._complete_gang(assign, message)
        else:
            self._queue.failed(uid, now)
            self._telling.refused(pod, outcome.message, reason=SCHEDULER_ERROR)
            self._complete_gang(assign, outcome.message, at_once=outcome.at_once)

    def _give_back(self, assign: Assign, outcome: BindingOutcome) -> None:
        """Every Unreserve in reverse, then the assumption; others may have been waiting for that room."""
        if isinstance(outcome, Lost) and outcome.pod is not None:
            self._feed.show(outcome.pod)
        try:
            self._profile.engine.unreserve(assign.cycle, assign.node)
        except Exception:
            log.exception("unreserve failed", extra={"pod": assign.pod.metadata.name, "node": assign.node})
        self._withdraw(assign.pod)

    def _withdraw(self, pod: Pod) -> None:
        """Others may have waited for its room; of one that is gone, for volumes that were promised to it."""
        if self._snapshot.forget(pod):
            self._roster.forget(pod)
        self._queue.tell(ClusterEvent(EventResource.POD, ActionType.DELETED, old=pod), monotonic_time())

    def _post_bind(self, assign: Assign) -> None:
        for plugin in self._post_binds:
            try:
                plugin.post_bind(assign.cycle, assign.node)
            except Exception:
                log.exception("post-bind failed", extra={"plugin": plugin.name, "pod": assign.pod.metadata.name})

    # --- gangs that were bound half-way -------------------------------------------------------------------------------

    def _complete_gang(self, assign: Assign, why: str, *, at_once: bool = False) -> None:
        """Bindings cannot be undone: what is missing of a gang is placed before anything else, and that is said."""
        pod = assign.pod
        gang = self._roster.gang_of(pod)
        group = self._roster.group(gang) if gang is not None else None
        if gang is None or group is None or not self._is_half_placed(gang):
            return
        self._broken.add(gang)
        self._telling.broken(group, pod, why)
        if at_once:
            self._queue.activate([pod.metadata.uid], monotonic_time())
        elif self._queue.where(pod.metadata.uid) is not None:  # the room stays its own while it waits
            self._nominate(pod, assign.node)

    def _half_placed(self) -> set[Key]:
        return {gang for gang in map(key_of, self._roster.groups()) if self._is_half_placed(gang)}

    def _is_half_placed(self, gang: Key) -> bool:
        return not self._musters.is_pending(gang) and is_half_placed(gang, self._roster, self._snapshot)


def _completed(
    decided: Iterable[Decision], pods: list[Pod], reservations: list[Reservation], error: Exception
) -> list[Decision]:
    """The decisions, with one for every pod and every reservation that has none."""
    decisions = list(decided)
    known = {one.pod.metadata.uid for one in decisions if isinstance(one, Assign | Refuse)}
    message = blamed(error)
    left = [pod for pod in pods if pod.metadata.uid not in known]
    decisions += [Refuse(pod, Code.ERROR, message) for pod in left]
    settled = {one.reservation.metadata.uid for one in decisions if isinstance(one, Hold | Decline)}
    waiting = [one for one in reservations if one.metadata.uid not in settled]
    return decisions + [Decline(one, message, code=Code.ERROR) for one in waiting]
