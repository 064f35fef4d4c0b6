"""The binding cycle: how a pod that was assigned a node is bound to it.

Goes in: an `Assign`: the pod is assumed on its node, and Reserve and Permit plugins have been asked. Comes out how the
cycle ended; what follows from that (Unreserve, the queue, status and Events) is the part of `binding_tasks`.

    1  Permit      wait until every plugin that asked to wait agrees, or the first of their time limits is over
    2  PreBind     plugin by plugin: its writes, each guarded by the resourceVersion that it was decided on, then wait
                   until they have taken effect
    3  barrier     the first members of a gang wait until enough of them have come so far, or until they cannot
    4  last check  is the node still there, and has no other pod taken the room?
    5  Bind        guarded by the UID of the pod. If the outcome is unknown, the pod is read; it is never guessed, and
                   until the outcome is known the room stays assumed
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from restow.control.scheduler.binding_outcomes import BindingOutcome, Bound, ConsumedSeat, Failed, Lost, Rejected
from restow.control.scheduler.dependencies import SchedulerDependencies
from restow.control.scheduler.gang_bind_barrier import GangBindBarrier, GangBindBarriers
from restow.control.scheduler.monotonic_clock import monotonic_time
from restow.control.scheduler.pod_status_writer import PodStatusWriter
from restow.control.scheduler.scheduler_cache import SchedulerCache
from restow.model.cluster.storage import StorageObject
from restow.model.kinds import POD
from restow.model.objects import Pod
from restow.model.quantity import QuantityError
from restow.model.reservations.reservation_annotations import (
    MOVED_AT_ANNOTATION,
    MOVED_FROM_ANNOTATION,
    RESERVATION_ANNOTATION,
    RESERVATION_UID_ANNOTATION,
    named_seat,
)
from restow.model.times import format_time
from restow.model.wire import WireError
from restow.ports import ApiError, Conflict, NotFound, OutcomeUnknown, TooManyRequests
from restow.scheduling.decisions import Assign
from restow.scheduling.explain import describe_plugin_failure, join_reasons
from restow.scheduling.framework import BindPlugin, Code, PreBindPlugin, Verdict, unschedulable
from restow.scheduling.queue.scheduling_queue import SchedulingQueue
from restow.scheduling.writes import Write

log = logging.getLogger(__name__)

_BIND_RETRIES = (0.1, 0.5, 2.0, 10.0)
"""Seconds before the same Binding is tried again; after the last one the pod is scheduled anew."""
_POLL_SECONDS = 10.0
"""How long to wait for a change before a plugin is asked again: time limits of its own pass without any change."""
_READ_RETRY_SECONDS = 1.0


class BindingCycle:
    """Runs binding cycles, any number at once; only their writes are limited."""

    def __init__(
        self,
        dependencies: SchedulerDependencies,
        cache: SchedulerCache,
        queue: SchedulingQueue,
        barriers: GangBindBarriers,
        pod_status: PodStatusWriter,
        slots: asyncio.Semaphore,
    ) -> None:
        """`slots` are the writes that may be under way at once."""
        self.waiting = 0
        """How many cycles wait for plugins, other pods or the watch, and not for us."""
        self._client = dependencies.client
        self._clock = dependencies.clock
        self._engine = dependencies.profile.engine
        self._pre_bind_timeout = dependencies.settings.pre_bind_timeout
        self._cache = cache
        self._snapshot = cache.snapshot
        self._queue = queue
        self._barriers = barriers
        self._pod_status = pod_status
        self._slots = slots
        plugins = self._engine.plugins
        self._pre_bind_plugins = [plugin for plugin in plugins if isinstance(plugin, PreBindPlugin)]
        self._bind_plugins = [plugin for plugin in plugins if isinstance(plugin, BindPlugin)]

    async def run(self, assign: Assign) -> BindingOutcome:
        barrier = self._barriers.barrier_of(assign.pod)
        # 1. and 2. All that comes before the first write that cannot be undone.
        try:
            failure = await self._wait_for_permit(assign, barrier)
            if failure is None:
                # The queue keeps the events that a pod misses during its attempt. A binding may take hours (volumes),
                # and if it fails, the pod is tried again in any case: so no events are kept from here on.
                self._queue.stop_tracking_events(assign.pod.metadata.uid)
                failure = await self._pre_bind(assign, barrier)
        except Exception as error:  # of a plugin, or of the API server
            if not isinstance(error, ApiError | WireError):
                log.exception("binding cycle failed", extra={"pod": assign.pod.metadata.name, "node": assign.node})
            failure = Failed(_describe(error))
        # 3. The gang; also if this member has failed, because the others must not wait for it.
        if barrier is not None:
            failure = await self._wait_for_gang(assign, barrier, failure)
        # 4. and 5.
        return failure or await self._bind(assign)

    # --- waiting ------------------------------------------------------------------------------------------------------

    async def _wait_for_change(self, timeout: float) -> None:
        await self._count_as_waiting(self._cache.signal.wait_for_change(timeout))

    async def _count_as_waiting(self, awaitable: Awaitable[Any]) -> None:
        """Await something that other parties have to do. Cycles that wait so do not count against the pods that may be
        under way, else a few slow volumes would stop all scheduling."""
        self.waiting += 1
        try:
            await awaitable
        finally:
            self.waiting -= 1

    def _reason_to_stop_waiting(self, assign: Assign, barrier: GangBindBarrier | None) -> BindingOutcome | None:
        if assign.pod.metadata.uid not in self._snapshot.pods.known:
            return Lost(None)
        return barrier.failure if barrier is not None else None

    # --- 1: Permit ----------------------------------------------------------------------------------------------------

    async def _wait_for_permit(self, assign: Assign, barrier: GangBindBarrier | None) -> BindingOutcome | None:
        if not assign.waits:
            return None
        self._pod_status.report_slow_binding(assign.pod, assign.node)
        begun = monotonic_time()
        while True:
            answer = self._engine.permit(assign.cycle, assign.node)
            if isinstance(answer, Verdict):
                if answer.is_refusal:
                    return Rejected(answer)
                return Failed(f"{answer.plugin}: {join_reasons(answer.reasons)}")
            if not answer.waits:
                return None
            limits = {plugin: begun + assign.waits.get(plugin, more) for plugin, more in answer.waits.items()}
            first = min(limits, key=lambda plugin: limits[plugin])
            left = limits[first] - monotonic_time()
            if left <= 0:
                return Rejected(
                    msgspec.structs.replace(unschedulable(f"{first} did not permit it in time"), plugin=first)
                )
            await self._wait_for_change(min(left, _POLL_SECONDS))
            stop = self._reason_to_stop_waiting(assign, barrier)
            if stop is not None:
                return stop

    # --- 2: PreBind ---------------------------------------------------------------------------------------------------

    async def _pre_bind(self, assign: Assign, barrier: GangBindBarrier | None) -> BindingOutcome | None:
        for plugin in self._pre_bind_plugins:
            assign.cycle.now = self._clock.now()
            writes = plugin.pre_bind(assign.cycle, assign.node)
            if writes:
                self._pod_status.report_slow_binding(assign.pod, assign.node)
            for write in writes:
                await self._write(write)
            verdict = await self._wait_until_settled(plugin, assign, barrier)
            stop = self._reason_to_stop_waiting(assign, barrier)
            if stop is not None:
                return stop
            if verdict.code is not Code.SUCCESS:
                return Failed(f"{plugin.name}: {join_reasons(verdict.reasons) or verdict.code.value}")
        return None

    async def _wait_until_settled(
        self, plugin: PreBindPlugin, assign: Assign, barrier: GangBindBarrier | None
    ) -> Verdict:
        cycle, begun, has_waited = assign.cycle, monotonic_time(), False
        while True:
            cycle.now = self._clock.now()
            verdict = plugin.settled(cycle, assign.node)
            if verdict.code is not Code.WAIT or self._reason_to_stop_waiting(assign, barrier) is not None:
                return verdict
            if not has_waited:  # without writes in this cycle: they were written earlier, perhaps by another leader
                self._pod_status.report_slow_binding(assign.pod, assign.node)
            has_waited = True
            if monotonic_time() - begun >= self._pre_bind_timeout:
                return Verdict(Code.ERROR, (f"not settled within {self._pre_bind_timeout:g} seconds", *verdict.reasons))
            await self._wait_for_change(_POLL_SECONDS)

    async def _write(self, write: Write) -> None:
        async with self._slots:
            written = await self._client.patch(
                write.kind,
                write.name,
                write.changes,
                write.namespace,
                subresource=write.subresource,
                resource_version=write.resource_version,
            )
        if isinstance(written, StorageObject):
            # The next pod is scheduled before the watch shows the volume as written: it must not be given away twice.
            with suppress(QuantityError):  # unreadable sizes are the business of the event handlers
                self._snapshot.apply_storage(written)

    # --- 3: the barrier of the gang -----------------------------------------------------------------------------------

    async def _wait_for_gang(
        self, assign: Assign, barrier: GangBindBarrier, failure: BindingOutcome | None
    ) -> BindingOutcome | None:
        """Wait until the gang goes, or report to it that this member fails; returns why this member does not go."""
        if failure is None:
            result = barrier.member_ready(assign, self._check_before_bind)
            while not result.done() and failure is None:
                await self._count_as_waiting(asyncio.wait((result,), timeout=_POLL_SECONDS))
                failure = self._reason_to_stop_waiting(assign, barrier)
            failure = result.result() if result.done() else failure
        if failure is not None and barrier.member_failed(assign.pod, failure):
            self._cache.signal.wake_binding_cycles()  # other members need not wait for their volumes any longer
        return failure

    # --- 4: the last check --------------------------------------------------------------------------------------------

    def _check_before_bind(self, assign: Assign) -> BindingOutcome | None:
        """What has happened to the pod or to its node since it was assigned; None if it can be bound."""
        occupant = self._snapshot.pods.known.get(assign.pod.metadata.uid)
        if occupant is None:
            return Lost(None)
        if occupant.assumed_at is None:  # not assumed any more: the watch has shown it bound
            return Bound(_seat_named_by(assign, occupant.pod)) if occupant.node == assign.node else Lost(occupant.pod)
        row = self._snapshot.rows.find_row(assign.node)
        if row is None or not self._snapshot.nodes.present[row]:
            return Failed(f"node {assign.node} is gone", retry_at_once=True)
        seat = self._seat_to_consume(assign.pod)
        if self._engine.is_overcommitted(assign.cycle, assign.node, seat.seat if seat is not None else None):
            return Failed(f"another pod took the room on node {assign.node} first", retry_at_once=True)
        return None

    # --- 5: Bind ------------------------------------------------------------------------------------------------------

    async def _bind(self, assign: Assign) -> BindingOutcome:
        """Bind through the first Bind plugin that takes the pod, else by a Binding. A pod that consumes a seat is
        always bound by a Binding of ours, because only that names the seat."""
        if self._seat_to_consume(assign.pod) is None:
            for plugin in self._bind_plugins:
                writes = plugin.bind(assign.cycle, assign.node)
                if writes is not None:
                    return await self._bind_through(plugin, writes, assign)
        return await self._create_binding(assign)

    async def _bind_through(self, plugin: BindPlugin, writes: Sequence[Write], assign: Assign) -> BindingOutcome:
        """Write what makes another component bind the pod, and wait until it is bound."""
        outcome, begun = self._check_before_bind(assign), monotonic_time()
        if outcome is None:
            try:
                for write in writes:
                    await self._write(write)
            except (ApiError, WireError) as error:
                return Failed(f"{plugin.name}: {error}")
        while outcome is None:
            if monotonic_time() - begun >= self._pre_bind_timeout:
                return Failed(
                    f"{plugin.name}: not bound to node {assign.node} within {self._pre_bind_timeout:g} seconds"
                )
            await self._wait_for_change(_POLL_SECONDS)
            outcome = self._check_before_bind(assign)
        return outcome

    async def _create_binding(self, assign: Assign) -> BindingOutcome:
        meta = assign.pod.metadata
        for delay in (*_BIND_RETRIES, None):
            async with self._slots:
                # The check comes after the wait for a slot, with no await in between: it holds for this very request.
                obstacle = self._check_before_bind(assign)
                if obstacle is not None:
                    return obstacle
                seat = self._seat_to_consume(assign.pod)
                try:
                    await self._client.bind(
                        meta.namespace or "",
                        meta.name,
                        uid=meta.uid,
                        node=assign.node,
                        annotations=self._annotations(seat),
                    )
                    return Bound(seat)
                except (OutcomeUnknown, TooManyRequests, Conflict, NotFound) as error:
                    failure: ApiError = error
                except ApiError as error:
                    return Failed(f"binding to node {assign.node}: {error}")
            # A timeout leaves open whether the pod is bound. A conflict or a missing pod may be the echo of an earlier
            # try of ours that succeeded: so all of them are followed by a read. Only a throttled request did nothing.
            if not isinstance(failure, TooManyRequests):
                outcome = await self._read_outcome(assign)
                if outcome is not None:
                    return outcome
            if isinstance(failure, Conflict | NotFound):
                return Failed(f"binding to node {assign.node}: {failure}")
            if delay is not None:
                await asyncio.sleep(max(delay, getattr(failure, "retry_after", None) or 0.0))
        outcome = await self._read_outcome(assign)
        return outcome or Failed(f"binding to node {assign.node}: {failure}", retry_at_once=True)

    def _seat_to_consume(self, pod: Pod) -> ConsumedSeat | None:
        """The seat that a pod consumes if it is bound now. Its seat may have been released since it was assigned, or be
        on another node, or belong to a new reservation of the same name: then the pod is bound like any other."""
        occupant = self._snapshot.pods.known.get(pod.metadata.uid)
        index = self._snapshot.reservations
        seat = index.seat(occupant.seat) if occupant is not None and occupant.seat is not None else None
        if occupant is None or seat is None:
            return None
        if seat.node != occupant.node or not index.consumers.assigned.may_be_assigned(seat, pod.metadata.uid):
            return None
        return ConsumedSeat(seat.name, seat.reservation_uid)

    def _annotations(self, consumed: ConsumedSeat | None) -> dict[str, str] | None:
        """Annotations of the Binding, which the API server copies onto the pod: so binding a pod and consuming its seat
        are one write. A seat of a migration also brings from where the pod was moved, and when."""
        if consumed is None:
            return None
        seat = {RESERVATION_ANNOTATION: str(consumed.seat), RESERVATION_UID_ANNOTATION: consumed.reservation_uid}
        reservation = self._snapshot.reservations.get(consumed.seat.namespace, consumed.seat.reservation)
        source = ((reservation and reservation.metadata.annotations) or {}).get(MOVED_FROM_ANNOTATION)
        moved = {MOVED_FROM_ANNOTATION: source, MOVED_AT_ANNOTATION: format_time(self._clock.now())} if source else {}
        return seat | moved

    async def _read_outcome(self, assign: Assign) -> BindingOutcome | None:
        """The outcome according to the API server; None if the pod is still pending."""
        meta = assign.pod.metadata
        while True:
            try:
                pod = await self._client.get(POD, meta.name, meta.namespace)
                break
            except NotFound:
                return await self._lost_once_watch_agrees(assign)
            except (ApiError, WireError) as error:
                log.info("pod cannot be read", extra={"pod": meta.name, "namespace": meta.namespace, "err": str(error)})
                await asyncio.sleep(_READ_RETRY_SECONDS)
        if pod.metadata.uid != meta.uid:
            return await self._lost_once_watch_agrees(assign)
        if pod.spec.node_name == assign.node:
            return Bound(_seat_named_by(assign, pod))
        if pod.spec.node_name or pod.metadata.deletion_timestamp is not None:
            return Lost(pod)
        return None

    async def _lost_once_watch_agrees(self, assign: Assign) -> Lost:
        """The pod is gone. It may have been bound, and have consumed its seat, before: only the watch shows that, so
        wait until it has come as far as the end of the pod."""
        while self._cache.latest(assign.pod) is not None:
            await self._wait_for_change(_POLL_SECONDS)
        return Lost(None)


def _seat_named_by(assign: Assign, pod: Pod) -> ConsumedSeat | None:
    """The seat that a bound pod names, if it is the one that was assigned; annotations of another one may be forged."""
    reservation_uid = (pod.metadata.annotations or {}).get(RESERVATION_UID_ANNOTATION)
    if assign.seat is None or not reservation_uid or named_seat(pod) != assign.seat:
        return None
    return ConsumedSeat(assign.seat, reservation_uid)


def _describe(error: Exception) -> str:
    """The message of an error for status and Events. Errors of the API server speak for themselves; of any other, the
    plugin that raised it is named."""
    return str(error) if isinstance(error, ApiError | WireError) else describe_plugin_failure(error)
