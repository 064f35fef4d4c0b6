"""The event recorder: writes Kubernetes Events (core/v1), as client-go's, for `kubectl describe`.

Takes an object reference, a reason and a message. Events are best effort and never delay the caller:

- an Event with the same object, type, reason and message increases `count` of the existing one, and repetitions before
  it is written cause no extra write;
- more than `SIMILAR` different messages of one (object, type, reason) within ten minutes become one combined Event;
- one object may cause `BURST` writes at once and one per five minutes after that; more are dropped, as are writes
  while `MAX_WAITING` others wait. `dropped` counts them.

Timestamps have whole seconds, and kubectl sorts the Events of one second by name. So names begin with the time in
nanoseconds, which keeps the order of Events that follow each other quickly.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from contextlib import suppress
from random import Random
from typing import Any, Generic, Literal, TypeVar

import msgspec

from restow.client.rate_limit import TokenBucket
from restow.client.verbs import Client
from restow.client.workqueue import QueueClosed, WorkQueue
from restow.model.kinds import EVENT, Kind
from restow.model.objects import Document, ObjectMeta, ObjectReference
from restow.model.times import format_time
from restow.model.wire import WireError
from restow.ports import AlreadyExists, ApiError, Clock, NotFound

log = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")

SIMILAR = 10
SIMILAR_WINDOW = 600.0
BURST = 25
REFILL = 1 / 300
MAX_REMEMBERED = 4096
MAX_WAITING = 50_000
MESSAGE_LIMIT = 1024  # the API server refuses longer ones
ATTEMPTS = 3
COMBINED = "(combined from similar events)"


class _Key(msgspec.Struct, frozen=True, cache_hash=True):
    about: tuple[str | None, ...]
    type: str
    reason: str
    message: str


class _Record(msgspec.Struct):
    reference: ObjectReference
    name: str
    message: str
    first: float
    last: float
    count: int = 1
    written: bool = False


class _Similar(msgspec.Struct):
    since: float
    messages: set[str]


class _Recent(OrderedDict[K, V], Generic[K, V]):
    """A mapping that drops its oldest entries."""

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > MAX_REMEMBERED:
            self.popitem(last=False)


class EventRecorder:
    """Collects Events, and writes them while `run` runs."""

    def __init__(self, client: Client, clock: Clock, rng: Random, *, component: str = "restow") -> None:
        self._client = client
        self._component = component
        self._instance = client.manager
        self._clock = clock
        self._rng = rng
        self._queue: WorkQueue[_Key] = WorkQueue(base=1.0, cap=10.0)
        self._waiting: dict[_Key, _Record] = {}
        self._records: _Recent[_Key, _Record] = _Recent()
        self._similar: _Recent[tuple[object, ...], _Similar] = _Recent()
        self._buckets: _Recent[tuple[object, ...], TokenBucket] = _Recent()
        self._last_named = 0
        self.dropped = 0

    def record(
        self,
        reference: ObjectReference,
        reason: str,
        message: str,
        *,
        type: Literal["Normal", "Warning"] = "Normal",
    ) -> None:
        """Record an Event. Never waits and never fails."""
        now = self._clock.now()
        about = (reference.api_version, reference.kind, reference.namespace, reference.name, reference.uid)
        if self._is_similar_limit_reached((about, type, reason), message, now):
            key, message = _Key(about, type, reason, COMBINED), f"{COMBINED}: {message}"
        else:
            key = _Key(about, type, reason, message)
        if key not in self._waiting and not self._admit(about, now):
            self.dropped += 1
            return
        record = self._waiting.get(key) or self._records.get(key)
        if record is None:
            record = _Record(reference, self._name(reference, now), message, now, now)
        else:
            record.message = message
            record.count += 1
            record.last = now
        self._waiting[key] = record
        self._queue.add(key)

    async def run(self) -> None:
        """Write Events until `close`."""
        while True:
            try:
                async with self._queue.next() as key:
                    await self._write_or_retry(key)
            except QueueClosed:
                return

    def close(self) -> None:
        """Let `run` return after it has tried to write everything recorded so far."""
        self._queue.close()

    def _admit(self, about: tuple[object, ...], now: float) -> bool:
        """Whether the queue and the rate limit of the object allow one more write."""
        return len(self._waiting) < MAX_WAITING and self._bucket(about).try_take(now)

    def _bucket(self, about: tuple[object, ...]) -> TokenBucket:
        bucket = self._buckets.get(about)
        if bucket is None:
            bucket = self._buckets[about] = TokenBucket(REFILL, BURST)
        return bucket

    def _is_similar_limit_reached(self, group: tuple[object, ...], message: str, now: float) -> bool:
        """Whether this would be one message too many of this reason on this object."""
        similar = self._similar.get(group)
        if similar is None or now - similar.since > SIMILAR_WINDOW:
            similar = self._similar[group] = _Similar(now, set())
        if message not in similar.messages and len(similar.messages) >= SIMILAR:
            return True
        similar.messages.add(message)
        return False

    def _name(self, reference: ObjectReference, now: float) -> str:
        """A name that sorts behind all earlier ones of the object. The random end differs between recorders."""
        self._last_named = max(self._last_named + 1, round(now * 1e9))
        return f"{(reference.name or '')[:230]}.{self._last_named:016x}{self._rng.getrandbits(16):04x}"

    async def _write_or_retry(self, key: _Key) -> None:
        record = self._waiting.pop(key, None)
        if record is None:
            return
        self._records[key] = record
        try:
            await self._write(key, record)
        except (ApiError, WireError, TimeoutError) as error:
            if self._queue.failures(key) + 1 < ATTEMPTS:
                self._waiting[key] = record
                self._queue.retry(key)
                return
            self.dropped += 1
            log.warning("event not recorded", extra={"reason": key.reason, "about": key.about, "err": str(error)})
        self._queue.forget(key)

    async def _write(self, key: _Key, record: _Record) -> None:
        namespace = record.reference.namespace or "default"
        if record.written:
            changes = {
                "count": record.count,
                "message": record.message[:MESSAGE_LIMIT],
                "lastTimestamp": format_time(record.last),
            }
            try:
                await self._client.patch(EVENT, record.name, changes, namespace)
                return
            except NotFound:  # it has expired: create a new one
                record.name = self._name(record.reference, record.last)
        with suppress(AlreadyExists):  # an earlier try took effect although it failed
            await self._client.create(EVENT, self._document(key, record, namespace))
        record.written = True

    def _document(self, key: _Key, record: _Record, namespace: str) -> Document:
        return {
            "metadata": {"name": record.name, "namespace": namespace},
            "involvedObject": msgspec.to_builtins(record.reference),
            "type": key.type,
            "reason": key.reason,
            "message": record.message[:MESSAGE_LIMIT],
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "count": record.count,
            "firstTimestamp": format_time(record.first),
            "lastTimestamp": format_time(record.last),
        }


def about(kind: Kind[Any], meta: ObjectMeta) -> ObjectReference:
    """A reference to the object that an Event is about."""
    return ObjectReference(
        api_version=kind.api_version,
        kind=kind.kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version or None,
    )
