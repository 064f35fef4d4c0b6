"""A Lease as a lock: reading it, taking it when that is safe, renewing and releasing it.

A Lease may be taken if it has no holder, or if this process has seen it unchanged for the duration that is written in
it. Times in the Lease are never compared with our clock: the clocks of two processes may differ, while "unchanged for
15 seconds" is measured on the event loop of the one that waits.
"""

from __future__ import annotations

import asyncio
from typing import Any

from restow.client.verbs import Client
from restow.model.kinds import LEASE
from restow.model.objects import Document
from restow.model.times import format_micro_time
from restow.ports import AlreadyExists, Clock, Conflict, NotFound


class LeaseLock:
    """The Lease `namespace/name` as seen by one candidate. Every write carries the resourceVersion that was read, so
    that of two candidates that take it at once, one gets a Conflict."""

    def __init__(
        self, client: Client, namespace: str, name: str, *, identity: str, duration: float, clock: Clock
    ) -> None:
        self.namespace = namespace
        self.name = name
        self.identity = identity
        self._client = client
        self._duration = duration
        self._clock = clock
        self._observed: Document | None = None
        self._observed_at = 0.0
        """When, on the event loop, the Lease was first seen in its present version."""

    @property
    def holder(self) -> str | None:
        """The holder when the Lease was last read or written."""
        return _spec(self._observed).get("holderIdentity") or None if self._observed else None

    @property
    def version(self) -> str | None:
        """The resourceVersion when the Lease was last read or written; None if there was none."""
        return _version(self._observed) if self._observed else None

    async def try_take(self) -> bool:
        """Take or renew the Lease if that is allowed; False if another candidate holds it. Raises ApiError."""
        lease = await self._read()
        if lease is None:
            return await self._create()
        if not self._may_take(lease):
            return False
        spec = _spec(lease)
        is_renewal = spec.get("holderIdentity") == self.identity
        transitions = int(spec.get("leaseTransitions") or 0)
        acquired = spec.get("acquireTime") if is_renewal else None
        await self._write(lease, self._our_spec(acquired, transitions if is_renewal else transitions + 1))
        return True

    async def release(self) -> None:
        """Clear the holder, so that the next candidate does not have to wait. Raises ApiError.

        A renewal that was cancelled may have been written all the same, so that our version is outdated: on a Conflict
        the Lease is read again, and released if we still hold it."""
        lease = self._observed
        now = format_micro_time(self._clock.now())
        # The holder is removed, not set to "": newer API servers refuse an empty one.
        released = {"holderIdentity": None, "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now}
        while lease is not None and self.holder == self.identity:
            try:
                await self._write(lease, released)
                return
            except Conflict:
                lease = await self._read()

    async def _read(self) -> Document | None:
        """The Lease as it is now, None if there is none; notes when it was first seen in this version."""
        try:
            lease = await self._client.get_document(LEASE, self.name, self.namespace)
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
        # The duration of the present holder counts: it may have another configuration than we have.
        duration = float(spec.get("leaseDurationSeconds") or self._duration)
        return asyncio.get_running_loop().time() >= self._observed_at + duration

    async def _create(self) -> bool:
        document = {
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": self._our_spec(None, 0),
        }
        try:
            await self._client.create(LEASE, document)
        except AlreadyExists:
            return False
        return await self._read() is not None and self.holder == self.identity

    def _our_spec(self, acquired: str | None, transitions: int) -> Document:
        now = format_micro_time(self._clock.now())
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": -int(-self._duration // 1),  # rounded up: a Lease has whole seconds
            "acquireTime": acquired or now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    async def _write(self, lease: Document, spec: Document) -> None:
        """Replace the Lease that was read. Raises Conflict if another candidate wrote it meanwhile."""
        changed = {key: value for key, value in {**_spec(lease), **spec}.items() if value is not None}
        document = {**lease, "spec": changed}
        written = await self._client.replace(LEASE, document)
        version = written.metadata.resource_version
        self._observe({**document, "metadata": {**document["metadata"], "resourceVersion": version}})

    def _observe(self, lease: Document) -> None:
        self._observed = lease
        self._observed_at = asyncio.get_running_loop().time()


def _spec(lease: Document) -> Document:
    spec: Document = lease.get("spec") or {}
    return spec


def _version(lease: Document) -> Any:
    return lease["metadata"].get("resourceVersion")
