"""The binding cycle: how a pod that was given a node gets there.

Goes in: an `Assign`: the pod is assumed on its node, Reserve and Permit have been asked. Comes out how it ended; what
follows from that (Unreserve, the queue, what people are told) is the caller's part.

    1  Permit     wait until every plugin that wanted to wait agrees, or the first of their limits is over
    2  PreBind    plugin by plugin: its writes, each guarded by the version it was decided on, then wait until settled
    3  Muster     for the first members of a gang: wait until all of them have come so far, or none can
    4  a last look: is the node still there, and has nobody else taken the room?
    5  Bind       by UID. An answer that leaves open what happened is followed by a read of the pod, never by a guess;
                  until that is known the room stays held
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from restow.client.verbs import Client
from restow.control.scheduler.event_handlers import EventHandlers
from restow.control.scheduler.gang_bind_barrier import GangBindBarrier, GangBindBarriers
from restow.control.scheduler.binding_outcomes import Bound, Failed, Lost, BindingOutcome, Rejected, ConsumedSeat
from restow.control.scheduler.settings import SchedulerSettings
from restow.control.scheduler.monotonic_clock import monotonic_time
from restow.model.cluster import (
    MOVED_AT_ANNOTATION,
    MOVED_FROM_ANNOTATION,
    RESERVATION_ANNOTATION,
    RESERVATION_UID_ANNOTATION,
)
from restow.model.cluster.seat import named_seat
from restow.model.cluster.storage import StorageObject
from restow.model.kinds import POD
from restow.model.objects import Pod
from restow.model.quantity import QuantityError
from restow.model.times import format_time
from restow.model.wire import WireError
from restow.ports import ApiError, Clock, Conflict, NotFound, OutcomeUnknown, TooManyRequests
from restow.scheduling.decisions import Assign
from restow.scheduling.engine import Engine
from restow.scheduling.explain import blamed, joined
from restow.scheduling.framework import BindPlugin, Code, PreBindPlugin, Verdict, unschedulable
from restow.scheduling.writes import Write

log = logging.getLogger(__name__)

_RETRIES = (0.1, 0.5, 2.0, 10.0)
"""Seconds before the same binding is tried again; after the last one the pod is decided about anew."""
_POLL = 10.0
"""Without news, how long until a plugin is asked again: its own limits pass without any."""
_READ_AGAIN = 1.0


class BindingCycle:
    """Carries binding cycles out, any number at once; only the writes are limited."""

    def __init__(
        self, client: Client, clock: Clock, engine: Engine, feed: EventHandlers, musters: GangBindBarriers, settings: SchedulerSettings
    ) -> None:
        self.permitted: Callable[[str], None] = lambda uid: None
        """Told the UID of a pod that every plugin has permitted."""
        self.expects: Callable[[Pod, str], None] = lambda pod, node: None
        """Told when a pod will be on its way for a while."""
        self.waiting = 0
        """How many wait for somebody else, and so for nothing that we could do."""
        self._client = client
        self._clock = clock
        self._engine = engine
        self._snapshot = feed.snapshot
        self._feed = feed
        self._musters = musters
        self._settle_limit = settings.settle_limit
        self._slots = asyncio.Semaphore(settings.writers)
        self._pre_binds = [plugin for plugin in engine.plugins if isinstance(plugin, PreBindPlugin)]
        self._binds = [plugin for plugin in engine.plugins if isinstance(plugin, BindPlugin)]

    def is_pressed(self) -> bool:
        """Whether as much is being written as may be under way at once."""
        return self._slots.locked()

    async def run(self, assign: Assign) -> BindingOutcome:
        muster = self._musters.of(assign.pod)
        try:
            stopped = await self._prepare(assign, muster)
        except Exception as error:  # of a plugin, or of the API server
            if not isinstance(error, ApiError | WireError):
                log.exception("binding cycle failed", extra={"pod": assign.pod.metadata.name, "node": assign.node})
            stopped = Failed(_told(error))
        if muster is not None:
            stopped = await self._muster(assign, muster, stopped)
        return stopped or await self._bind(assign)

    async def _prepare(self, assign: Assign, muster: GangBindBarrier | None) -> BindingOutcome | None:
        """All that comes before the first write that cannot be undone."""
        rejected = await self._wait_for_permit(assign, muster)
        if rejected is not None:
            return rejected
        self.permitted(assign.pod.metadata.uid)
        return await self._pre_bind(assign, muster)

    async def _pause(self, seconds: float) -> None:
        """Wait for news; time passes without them, too."""
        await self._await(self._feed.news(seconds))

    async def _await(self, somebody: Awaitable[Any]) -> None:
        """Wait for something that we cannot do anything for."""
        self.waiting += 1
        try:
            await somebody
        finally:
            self.waiting -= 1

    def _in_vain(self, assign: Assign, muster: GangBindBarrier | None) -> BindingOutcome | None:
        """Why there is nothing left to wait for."""
        if assign.pod.metadata.uid not in self._snapshot.pods.known:
            return Lost(None)
        return muster.stopped if muster is not None else None

    # --- 1: Permit ----------------------------------------------------------------------------------------------------

    async def _wait_for_permit(self, assign: Assign, muster: GangBindBarrier | None) -> BindingOutcome | None:
        if not assign.waits:
            return None
        self.expects(assign.pod, assign.node)
        begun = monotonic_time()
        while True:
            granted = self._engine.permit(assign.cycle, assign.node)
            if isinstance(granted, Verdict):
                return (
                    Rejected(granted) if granted.is_refusal else Failed(f"{granted.plugin}: {joined(granted.reasons)}")
                )
            if not granted.waits:
                return None
            limits = {plugin: begun + assign.waits.get(plugin, more) for plugin, more in granted.waits.items()}
            first = min(limits, key=lambda plugin: limits[plugin])
            left = limits[first] - monotonic_time()
            if left <= 0:
                return Rejected(
                    msgspec.structs.replace(unschedulable(f"{first} did not permit it in time"), plugin=first)
                )
            await self._pause(min(left, _POLL))
            in_vain = self._in_vain(assign, muster)
            if in_vain is not None:
                return in_vain

    # --- 2: PreBind ---------------------------------------------------------------------------------------------------

    async def _pre_bind(self, assign: Assign, muster: GangBindBarrier | None) -> BindingOutcome | None:
        for plugin in self._pre_binds:
            assign.cycle.now = self._clock.now()
            writes = plugin.pre_bind(assign.cycle, assign.node)
            if writes:
                self.expects(assign.pod, assign.node)
            for write in writes:
                await self._write(write)
            verdict = await self._settled(plugin, assign, muster)
            in_vain = self._in_vain(assign, muster)
            if in_vain is not None:
                return in_vain
            if verdict.code is not Code.SUCCESS:
                return Failed(f"{plugin.name}: {joined(verdict.reasons) or verdict.code.value}")
        return None

    async def _settled(self, plugin: PreBindPlugin, assign: Assign, muster: GangBindBarrier | None) -> Verdict:
        cycle, begun, waits = assign.cycle, monotonic_time(), False
        while True:
            cycle.now = self._clock.now()
            verdict = plugin.settled(cycle, assign.node)
            if verdict.code is not Code.WAIT or self._in_vain(assign, muster) is not None:
                return verdict
            if not waits:  # for something that was written earlier, perhaps by a predecessor
                self.expects(assign.pod, assign.node)
            waits = True
            if monotonic_time() - begun >= self._settle_limit:
                return Verdict(Code.ERROR, (f"not settled within {self._settle_limit:g} seconds", *verdict.reasons))
            await self._pause(_POLL)

    async def _write(self, write: Write) -> None:
        async with self._slots:
            reply = await self._client.patch(
                write.kind,
                write.name,
                write.changes,
                write.namespace,
                subresource=write.subresource,
                resource_version=write.resource_version,
            )
        if isinstance(reply, StorageObject):  # the next pod must not be decided on what it was before
            with suppress(QuantityError):  # of which the watch brings news, too
                self._snapshot.apply_storage(reply)

    # --- 3: Muster ----------------------------------------------------------------------------------------------------

    async def _muster(self, assign: Assign, muster: GangBindBarrier, stopped: BindingOutcome | None) -> BindingOutcome | None:
        """Go when the gang does; one that cannot stops the others, unless they are enough without it."""
        if stopped is None:
            told = muster.ready(assign, self._obstacle)
            while not told.done() and stopped is None:
                await self._await(asyncio.wait((told,), timeout=_POLL))
                stopped = self._in_vain(assign, muster)
            stopped = told.result() if told.done() else stopped
        if stopped is not None and muster.stop(assign.pod, stopped):
            self._feed.rouse()  # those who still wait for something else need not
        return stopped

    # --- 4: a last look -----------------------------------------------------------------------------------------------

    def _obstacle(self, assign: Assign) -> BindingOutcome | None:
        """What has happened to the pod or to its place since it was given it."""
        occupant = self._snapshot.pods.known.get(assign.pod.metadata.uid)
        if occupant is None:
            return Lost(None)
        if occupant.assumed_at is None:
            return Bound(_taken(assign, occupant.pod)) if occupant.node == assign.node else Lost(occupant.pod)
        row = self._snapshot.rows.find(assign.node)
        if row is None or not self._snapshot.nodes.present[row]:
            return Failed(f"node {assign.node} is gone", at_once=True)
        taken = self._takes(assign.pod)
        if self._engine.is_overfull(assign.cycle, assign.node, taken.seat if taken is not None else None):
            return Failed(f"another pod took the room on node {assign.node} first", at_once=True)
        return None

    # --- 5: Bind ------------------------------------------------------------------------------------------------------

    async def _bind(self, assign: Assign) -> BindingOutcome:
        """By the first plugin that wants to, else by a Binding; a seat is taken by a Binding only, which names it."""
        if self._takes(assign.pod) is None:
            for plugin in self._binds:
                writes = plugin.bind(assign.cycle, assign.node)
                if writes is not None:
                    return await self._bind_by(plugin, writes, assign)
        return await self._post(assign)

    async def _bind_by(self, plugin: BindPlugin, writes: Sequence[Write], assign: Assign) -> BindingOutcome:
        """Write what makes somebody else bind the pod, and wait until it is."""
        known, begun = self._obstacle(assign), monotonic_time()
        if known is None:
            try:
                for write in writes:
                    await self._write(write)
            except (ApiError, WireError) as error:
                return Failed(f"{plugin.name}: {error}")
        while known is None:
            if monotonic_time() - begun >= self._settle_limit:
                return Failed(f"{plugin.name}: not bound to node {assign.node} within {self._settle_limit:g} seconds")
            await self._pause(_POLL)
            known = self._obstacle(assign)
        return known

    async def _post(self, assign: Assign) -> BindingOutcome:
        meta = assign.pod.metadata
        for delay in (*_RETRIES, None):
            async with self._slots:
                obstacle = self._obstacle(assign)
                if obstacle is not None:
                    return obstacle
                taken = self._takes(assign.pod)
                try:
                    await self._client.bind(
                        meta.namespace or "",
                        meta.name,
                        uid=meta.uid,
                        node=assign.node,
                        annotations=self._annotations(taken),
                    )
                    return Bound(taken)
                except (OutcomeUnknown, TooManyRequests, Conflict, NotFound) as error:
                    failure: ApiError = error
                except ApiError as error:
                    return Failed(f"binding to node {assign.node}: {error}")
            if not isinstance(failure, TooManyRequests):
                known = await self._look(assign)
                if known is not None:
                    return known
            if isinstance(failure, Conflict | NotFound):
                return Failed(f"binding to node {assign.node}: {failure}")
            if delay is not None:
                await asyncio.sleep(max(delay, getattr(failure, "retry_after", None) or 0.0))
        return await self._look(assign) or Failed(f"binding to node {assign.node}: {failure}", at_once=True)

    def _takes(self, pod: Pod) -> ConsumedSeat | None:
        """The seat that a pod takes if it is bound now."""
        occupant = self._snapshot.pods.known.get(pod.metadata.uid)
        book = self._snapshot.reservations
        seat = book.seat(occupant.seat) if occupant is not None and occupant.seat is not None else None
        if occupant is None or seat is None:
            return None  # released since: it is a pod like any other
        if seat.node != occupant.node or not book.promises.allows(seat, pod.metadata.uid):
            return None  # and so is one of which the seat is elsewhere now, or another one of that name
        return ConsumedSeat(seat.name, seat.life)

    def _annotations(self, taken: ConsumedSeat | None) -> dict[str, str] | None:
        """What names the seat: naming it and taking it are the same write. Of one that was made for a move also whence,
        and when."""
        if taken is None:
            return None
        named = {RESERVATION_ANNOTATION: str(taken.seat), RESERVATION_UID_ANNOTATION: taken.reservation_uid}
        reservation = self._snapshot.reservations.get(taken.seat.namespace, taken.seat.reservation)
        source = ((reservation and reservation.metadata.annotations) or {}).get(MOVED_FROM_ANNOTATION)
        moved = {MOVED_FROM_ANNOTATION: source, MOVED_AT_ANNOTATION: format_time(self._clock.now())} if source else {}
        return named | moved

    async def _look(self, assign: Assign) -> BindingOutcome | None:
        """What the API server knows of the pod; None if it still waits to be bound."""
        meta = assign.pod.metadata
        while True:
            try:
                pod = await self._client.get(POD, meta.name, meta.namespace)
                break
            except NotFound:
                return await self._gone(assign)
            except (ApiError, WireError) as error:
                log.info("pod cannot be read", extra={"pod": meta.name, "namespace": meta.namespace, "err": str(error)})
                await asyncio.sleep(_READ_AGAIN)
        if pod.metadata.uid != meta.uid:
            return await self._gone(assign)
        if pod.spec.node_name == assign.node:
            return Bound(_taken(assign, pod))
        if pod.spec.node_name or pod.metadata.deletion_timestamp is not None:
            return Lost(pod)
        return None

    async def _gone(self, assign: Assign) -> Lost:
        """The pod is gone. It may have been bound before: only the watch says so, which has to come that far first."""
        while self._feed.latest(assign.pod) is not None:
            await self._pause(_POLL)
        return Lost(None)


def _taken(assign: Assign, pod: Pod) -> ConsumedSeat | None:
    """The seat that a pod was bound into, according to the pod: the one that it was given; others it may make up."""
    life = (pod.metadata.annotations or {}).get(RESERVATION_UID_ANNOTATION)
    return ConsumedSeat(assign.seat, life) if assign.seat is not None and life and named_seat(pod) == assign.seat else None


def _told(error: Exception) -> str:
    """What people are told of an error; those of an API server speak for themselves."""
    return str(error) if isinstance(error, ApiError | WireError) else blamed(error)
