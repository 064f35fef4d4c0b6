"""Leader election on a Lease, and the fence that keeps a leader who may have lost it from writing.

    follower ──the Lease is free, or has not moved for its own duration──> leader
    leader   ──no renewal within renew_deadline──> follower (LeadershipLost)
    leader   ──its work ends, or it is cancelled──> the Lease is released

Nobody compares clocks: a contender measures on its own loop how long it has seen the Lease unchanged. A leader counts
from the moment it sent its last successful renewal, which is before anyone can have seen it; so it stops
(renew_deadline) before anyone may take over (lease_duration). `FencedApi` refuses writes that could still be under way
at that moment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any

import msgspec

from restow.client.verbs import Client
from restow.model.kinds import LEASE
from restow.model.objects import Document
from restow.model.times import format_micro_time
from restow.model.wire import WireError
from restow.ports import (
    AlreadyExists,
    Api,
    ApiError,
    Clock,
    Conflict,
    NotFound,
    OutcomeUnknown,
    Request,
    Response,
    TooManyRequests,
)

log = logging.getLogger(__name__)

JITTER = 1.2  # the longest wait between tries, as a multiple of retry_period


class LeadershipLost(Exception):
    """The Lease was not renewed in time: whatever ran as the leader has been stopped."""


class LeaseHeld(Exception):
    """Somebody else keeps the Lease; the message is who."""


class Fenced(ApiError):
    """Refused on our side, nothing was sent: we do not lead, or may stop leading before the answer."""


class LeaseTiming(msgspec.Struct, frozen=True, kw_only=True):
    """In seconds. A Lease is written in whole seconds, so `lease_duration` is rounded up there."""

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
    """One contender, `identity`, for the Lease `namespace/name`. Identities must differ between processes."""

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
        self._client = client
        self._namespace = namespace
        self._name = name
        self._clock = clock
        self._rng = rng
        self._observed: Document | None = None
        self._observed_at = 0.0
        self._renewed_at: float | None = None

    @property
    def is_leader(self) -> bool:
        return self._renewed_at is not None and asyncio.get_running_loop().time() < self.deadline()

    @property
    def holder(self) -> str | None:
        """Who held the Lease when it was last looked at."""
        return _spec(self._observed).get("holderIdentity") or None if self._observed else None

    def deadline(self) -> float:
        """The loop time at which leadership ends unless it is renewed before; -inf for a follower."""
        return float("-inf") if self._renewed_at is None else self._renewed_at + self.timing.renew_deadline

    def write_deadline(self) -> float:
        """The loop time after which no write may be sent: its answer could come after the deadline."""
        return self.deadline() - self.timing.request_timeout

    async def run(self, lead: Callable[[], Awaitable[object]]) -> None:
        """Wait for leadership and run `lead` while it lasts. Returns when `lead` does; raises LeadershipLost when the
        Lease could not be kept, after `lead` has been cancelled and has ended."""
        try:
            await self._acquire()
            await self._lead(lead)
        finally:
            await self._release()

    async def run_if_free(self, lead: Callable[[], Awaitable[object]]) -> None:
        """The same for those who do not want to wait until somebody else has ended: a Lease that moves is kept, and one
        that does not move for its duration has been left. Raises Held and ApiError, too."""
        try:
            await self._acquire_if_free()
            await self._lead(lead)
        finally:
            await self._release()

    async def _acquire_if_free(self) -> None:
        loop, timing = asyncio.get_running_loop(), self.timing
        until, first = loop.time() + timing.lease_duration + timing.renew_deadline, None
        while (trouble := await self._take_or_say()) is not None:
            seen = _version(self._observed) if self._observed else None
            if isinstance(trouble, LeaseHeld) and first not in (None, seen):
                raise trouble
            if loop.time() >= until:
                raise trouble
            first = first or seen
            await asyncio.sleep(timing.retry_period * self._rng.uniform(1.0, JITTER))

    async def _take_or_say(self) -> LeaseHeld | ApiError | None:
        """Try once to take the Lease; what was in the way, if time may change it. Raises ApiError otherwise."""
        sent_at = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self.timing.request_timeout):
                if not await self._take():
                    return LeaseHeld(self.holder or "somebody")
        except (Conflict, TooManyRequests, OutcomeUnknown) as error:
            return error
        except TimeoutError:
            return OutcomeUnknown.because(504, "Timeout", f"no answer within {self.timing.request_timeout:g}s")
        self._renewed_at = sent_at
        return None

    async def _acquire(self) -> None:
        taken = await self._attempt()
        while not taken:
            await asyncio.sleep(self.timing.retry_period * self._rng.uniform(1.0, JITTER))
            taken = await self._attempt()
        log.info("became leader", extra={"lease": self._name, "identity": self.identity})

    async def _lead(self, lead: Callable[[], Awaitable[object]]) -> None:
        work = asyncio.ensure_future(lead())
        renewal = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait((work, renewal), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise LeadershipLost(f"{self.identity} lost the lease {self._namespace}/{self._name}")
        finally:
            for task in (renewal, work):
                task.cancel()
            await asyncio.wait((renewal, work))
        work.result()

    async def _renew(self) -> None:
        """Returns when the deadline has passed, or when the Lease is seen in other hands."""
        loop = asyncio.get_running_loop()
        try:
            while self.is_leader:
                await asyncio.sleep(min(self.timing.retry_period, max(0.0, self.deadline() - loop.time())))
                async with asyncio.timeout_at(self.deadline()):
                    await self._attempt()
                if self.holder != self.identity:
                    break
        except TimeoutError:
            pass
        self._renewed_at = None
        log.warning("lost leadership", extra={"lease": self._name, "identity": self.identity, "holder": self.holder})

    async def _attempt(self) -> bool:
        """Try once to take or renew the Lease; failures of the server count as not getting it."""
        sent_at = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self.timing.request_timeout):
                taken = await self._take()
        except (ApiError, WireError, TimeoutError) as error:
            log.info("lease not taken", extra={"lease": self._name, "identity": self.identity, "err": str(error)})
            return False
        if taken:
            self._renewed_at = sent_at
        return taken

    async def _take(self) -> bool:
        lease = await self._look()
        if lease is None:
            return await self._create()
        if not self._may_take(lease):
            return False
        spec = _spec(lease)
        mine = spec.get("holderIdentity") == self.identity
        transitions = int(spec.get("leaseTransitions") or 0)
        acquired = spec.get("acquireTime") if mine else None
        await self._write(lease, self._claim(acquired, transitions if mine else transitions + 1))
        return True

    async def _look(self) -> Document | None:
        """The Lease as it is now; notes on our own loop when it was first seen like this."""
        try:
            lease = await self._client.get_document(LEASE, self._name, self._namespace)
        except NotFound:
            self._observed = None
            return None
        if self._observed is None or _version(lease) != _version(self._observed):
            self._observe(lease)
        return lease

    def _may_take(self, lease: Document) -> bool:
        spec = _spec(lease)
        holder = spec.get("holderIdentity")
        if not holder or holder == self.identity:
            return True
        duration = float(spec.get("leaseDurationSeconds") or self.timing.lease_duration)
        return asyncio.get_running_loop().time() >= self._observed_at + duration

    async def _create(self) -> bool:
        document = {
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._claim(None, 0),
        }
        try:
            await self._client.create(LEASE, document)
        except AlreadyExists:
            return False
        return await self._look() is not None and self.holder == self.identity

    def _claim(self, acquired: str | None, transitions: int) -> Document:
        now = format_micro_time(self._clock.now())
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": -int(-self.timing.lease_duration // 1),
            "acquireTime": acquired or now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    async def _write(self, lease: Document, spec: Document) -> None:
        """Replace the Lease, which its resourceVersion allows only if nobody else did so meanwhile."""
        changed = {key: value for key, value in {**_spec(lease), **spec}.items() if value is not None}
        document = {**lease, "spec": changed}
        written = await self._client.replace(LEASE, document)
        version = written.metadata.resource_version
        self._observe({**document, "metadata": {**document["metadata"], "resourceVersion": version}})

    def _observe(self, lease: Document) -> None:
        self._observed = lease
        self._observed_at = asyncio.get_running_loop().time()

    async def _release(self) -> None:
        """Hand the Lease back so that nobody has to wait for it to run out; best effort. A renewal that was under way
        may have been written without our hearing of it: then another version is handed back."""
        lease, self._renewed_at = self._observed, None
        now = format_micro_time(self._clock.now())
        # Without a holder, not with an empty one: newer API servers refuse the latter.
        empty = {"holderIdentity": None, "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now}
        try:
            async with asyncio.timeout(self.timing.request_timeout):
                while lease is not None and self.holder == self.identity:
                    try:
                        return await self._write(lease, empty)
                    except Conflict:
                        lease = await self._look()
        except (ApiError, WireError, TimeoutError) as error:
            log.info("lease not released", extra={"lease": self._name, "err": str(error)})


class FencedApi:
    """An Api whose writes are refused unless `election` will still hold when they are answered. Reads always pass."""

    def __init__(self, api: Api, election: LeaderElection) -> None:
        self._api = api
        self._election = election

    async def call(self, request: Request) -> Response:
        if request.verb in ("get", "list"):
            return await self._api.call(request)
        what = f"{request.verb} {request.resource.plural}"
        if asyncio.get_running_loop().time() > self._election.write_deadline():
            raise Fenced.because(403, "Fenced", f"{what} not sent: {self._election.identity} may not lead any more")
        limit = self._election.timing.request_timeout
        try:
            async with asyncio.timeout(limit):
                return await self._api.call(request)
        except TimeoutError:
            raise OutcomeUnknown.because(504, "Timeout", f"{what}: no answer within {limit:g}s") from None

    def watch(self, request: Request) -> AsyncIterator[bytes]:
        return self._api.watch(request)


def _spec(lease: Document) -> Document:
    spec: Document = lease.get("spec") or {}
    return spec


def _version(lease: Document) -> Any:
    return lease["metadata"].get("resourceVersion")
