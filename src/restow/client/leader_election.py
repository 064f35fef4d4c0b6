"""Leader election on a Lease: at most one candidate leads at a time.

    candidate ──the Lease is free, or unchanged for its own duration──> leader
    leader ──no renewal within renew_deadline──> candidate (LeadershipLost)
    leader ──its work ends, or it is cancelled──> the Lease is released

Why two processes never lead at once: a leader counts `renew_deadline` from the moment at which it *sent* its last
successful renewal. Others see the renewal later than that, and wait for `lease_duration`, which is longer, from when
they saw it. So the leader has stopped before another one may start, whatever the network delays. `FencedApi` extends
this to requests that are still under way at that moment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random

import msgspec

from restow.client.lease_lock import LeaseLock
from restow.client.verbs import Client
from restow.model.wire import WireError
from restow.ports import ApiError, Clock, Conflict, OutcomeUnknown, TooManyRequests

log = logging.getLogger(__name__)

JITTER = 1.2  # the longest wait between tries, as a multiple of retry_period


class LeadershipLost(Exception):
    """The Lease was not renewed in time; the work of the leader has been stopped."""


class LeaseHeld(Exception):
    """Another candidate keeps the Lease; the message is its identity."""


class LeaseTiming(msgspec.Struct, frozen=True, kw_only=True):
    """In seconds. A Lease has whole seconds, so `lease_duration` is rounded up there."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    request_timeout: float = 5.0

    def __post_init__(self) -> None:
        if not self.lease_duration > self.renew_deadline > self.retry_period * JITTER > 0:
            raise ValueError(f"lease_duration > renew_deadline > {JITTER} * retry_period > 0 does not hold: {self}")
        if not self.renew_deadline > self.request_timeout > 0:
            raise ValueError(f"renew_deadline > request_timeout > 0 does not hold: {self}")


class LeaderElection:
    """One candidate, `identity`, for the Lease `namespace/name`. Identities must differ between processes."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        identity: str,
        clock: Clock,
        rng: Random,
        timing: LeaseTiming | None = None,
    ) -> None:
        self.identity = identity
        self.timing = timing or LeaseTiming()
        self._lock = LeaseLock(
            client, namespace, name, identity=identity, duration=self.timing.lease_duration, clock=clock
        )
        self._rng = rng
        self._renewed_at: float | None = None
        """When, on the event loop, the last successful renewal was sent; None for a candidate that does not lead."""

    @property
    def is_leader(self) -> bool:
        return self._renewed_at is not None and asyncio.get_running_loop().time() < self.deadline()

    @property
    def holder(self) -> str | None:
        """The holder of the Lease when it was last read."""
        return self._lock.holder

    def deadline(self) -> float:
        """The loop time at which leadership ends unless it is renewed before; -inf without leadership."""
        return float("-inf") if self._renewed_at is None else self._renewed_at + self.timing.renew_deadline

    def write_deadline(self) -> float:
        """The loop time after which no write may be sent, because its answer could come after the deadline."""
        return self.deadline() - self.timing.request_timeout

    async def run(self, lead: Callable[[], Awaitable[object]]) -> None:
        """Wait for leadership and run `lead` while it lasts. Returns when `lead` does. Raises LeadershipLost if the
        Lease could not be kept, after `lead` has been cancelled and has ended."""
        try:
            await self._acquire()
            await self._lead(lead)
        finally:
            await self._release()

    async def run_if_free(self, lead: Callable[[], Awaitable[object]]) -> None:
        """Run `lead` as leader without waiting for another leader to end. Raises also LeaseHeld and ApiError.

        Whether the holder is alive shows in time: a Lease that changes is kept, and raises LeaseHeld; one that does not
        change for its duration was left by a process that died, and is taken."""
        try:
            await self._acquire_if_free()
            await self._lead(lead)
        finally:
            await self._release()

    # ---- acquiring

    async def _acquire(self) -> None:
        while not await self._renew_once():
            await self._pause()
        log.info("became leader", extra={"lease": self._lock.name, "identity": self.identity})

    async def _acquire_if_free(self) -> None:
        loop, timing = asyncio.get_running_loop(), self.timing
        give_up_at = loop.time() + timing.lease_duration + timing.renew_deadline
        first_version: str | None = None
        while (obstacle := await self._find_obstacle()) is not None:
            version = self._lock.version
            is_renewed = first_version is not None and version != first_version
            if (isinstance(obstacle, LeaseHeld) and is_renewed) or loop.time() >= give_up_at:
                raise obstacle
            first_version = first_version or version
            await self._pause()

    async def _find_obstacle(self) -> LeaseHeld | ApiError | None:
        """Try once to take the Lease. Returns an obstacle that time may remove, None if there was none; raises ApiError
        for others."""
        sent_at = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self.timing.request_timeout):
                if not await self._lock.try_take():
                    return LeaseHeld(self.holder or "unknown")
        except (Conflict, TooManyRequests, OutcomeUnknown) as error:
            return error
        except TimeoutError:
            return OutcomeUnknown.because(504, "Timeout", f"no answer within {self.timing.request_timeout:g}s")
        self._renewed_at = sent_at
        return None

    async def _pause(self) -> None:
        await asyncio.sleep(self.timing.retry_period * self._rng.uniform(1.0, JITTER))

    # ---- leading

    async def _lead(self, lead: Callable[[], Awaitable[object]]) -> None:
        work = asyncio.ensure_future(lead())
        renewal = asyncio.ensure_future(self._keep_renewing())
        try:
            await asyncio.wait((work, renewal), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise LeadershipLost(f"{self.identity} lost the lease {self._lock.namespace}/{self._lock.name}")
        finally:
            for task in (renewal, work):
                task.cancel()
            await asyncio.wait((renewal, work))
        work.result()

    async def _keep_renewing(self) -> None:
        """Returns when the deadline has passed, or when the Lease has another holder."""
        loop = asyncio.get_running_loop()
        try:
            while self.is_leader:
                await asyncio.sleep(min(self.timing.retry_period, max(0.0, self.deadline() - loop.time())))
                async with asyncio.timeout_at(self.deadline()):
                    await self._renew_once()
                if self.holder != self.identity:
                    break
        except TimeoutError:
            pass
        self._renewed_at = None
        fields = {"lease": self._lock.name, "identity": self.identity, "holder": self.holder}
        log.warning("lost leadership", extra=fields)

    async def _renew_once(self) -> bool:
        """Try once to take or renew the Lease. Errors of the server count as not getting it."""
        # The time before the request is what counts: others may have seen the renewal right after it was sent.
        sent_at = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self.timing.request_timeout):
                is_ours = await self._lock.try_take()
        except (ApiError, WireError, TimeoutError) as error:
            fields = {"lease": self._lock.name, "identity": self.identity, "err": str(error)}
            log.info("lease not acquired", extra=fields)
            return False
        if is_ours:
            self._renewed_at = sent_at
        return is_ours

    async def _release(self) -> None:
        """Release the Lease, so that others need not wait until it runs out; best effort."""
        self._renewed_at = None
        try:
            async with asyncio.timeout(self.timing.request_timeout):
                await self._lock.release()
        except (ApiError, WireError, TimeoutError) as error:
            log.info("lease not released", extra={"lease": self._lock.name, "err": str(error)})
