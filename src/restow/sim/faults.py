"""Fault injection: wraps any `ports.Api` and injects the failures that occur between a controller and its server.

In: an Api, a Random and a `FaultPlan` of rates. Out: an Api. All faults are ones that a client of Kubernetes has to
survive, so a correct controller behind this wrapper reaches the same end state, only later. The faults:

    dropped   an event is swallowed. Either the stream withholds everything after it and then closes without a word (the
              client resumes from the last version it saw and gets the events after all), or later events do pass
              through the gap and, `patience` seconds later at most, the stream ends in 410 Gone (the client has to
              list again). The present state with which a watch may begin never has gaps, only ends: what it leaves
              out a client must take for deleted.
    repeated  the same event arrives twice in a row.
    late      the stream stalls for up to `delay` seconds; order is kept, as the server keeps it.
    stale     a read is answered from an earlier version. `stale` touches only reads that allow it (resourceVersion=0);
              `stale_consistent` also touches the others, which no healthy server does: it proves that writes are
              guarded.
    conflict  409 on a write that would have succeeded; nothing was written.
    busy      429 with Retry-After; nothing was written.
    refused   500 or 504 before the request had any effect.
    unknown   500 or 504 after the write took effect.
    slow      the answer to a call takes up to `delay` seconds; its effect does not.
    crash     the process dies right after the write of that name (or number) took effect: `Crash` is raised, which is
              no Exception, and from then on every call of this wrapper raises it: a dead process writes nothing.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

import msgspec

from restow.ports import (
    INITIAL_EVENTS_END,
    Api,
    ApiError,
    Conflict,
    NotFound,
    OutcomeUnknown,
    Request,
    Response,
    Status,
    StatusDetails,
    TooManyRequests,
)
from restow.sim.write_log import WriteLog, is_write

T = TypeVar("T")

_INITIAL_EVENTS_END = INITIAL_EVENTS_END.encode()
_MEMORY = 8  # earlier answers kept per request: what a stale read may return
_QUESTIONS = 1024  # requests of which answers are kept: those asked latest


class FaultPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How often each fault strikes, as a probability per event, read or write; and where the process dies."""

    dropped: float = 0.0
    repeated: float = 0.0
    late: float = 0.0
    stale: float = 0.0
    stale_consistent: float = 0.0
    conflict: float = 0.0
    busy: float = 0.0
    refused: float = 0.0
    unknown: float = 0.0
    slow: float = 0.0
    crash_after: str | int | None = None
    delay: float = 5.0
    patience: float = 30.0


class Crash(BaseException):
    """The process under test died after the write it names."""


class FaultyApi:
    """`ports.Api` over another one, with the faults of a plan. One wrapper stands for one process."""

    def __init__(self, api: Api, rng: random.Random, plan: FaultPlan | None = None) -> None:
        self.plan = plan or FaultPlan()
        self.writes = WriteLog()
        self.crashed = asyncio.Event()
        self._api = api
        self._rng = rng
        self._earlier: OrderedDict[tuple[object, ...], deque[Response | NotFound]] = OrderedDict()

    async def call(self, request: Request) -> Response:
        self._check_alive()
        response = await (self._read(request) if request.verb in ("get", "list") else self._write(request))
        if self._strikes(self.plan.slow):
            await asyncio.sleep(self._rng.uniform(0.0, self.plan.delay))
            self._check_alive()
        return response

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        self._check_alive()
        self._refuse(request)
        stream = self._api.watch(request)
        try:
            async for event in self._misdeliver(stream, "sendInitialEvents" in request.query):
                self._check_alive()
                yield event
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    # ---- reads

    async def _read(self, request: Request) -> Response:
        self._refuse(request)
        stale = self._stale_answer(request)
        try:
            answer: Response | NotFound = await self._api.call(request)
        except NotFound as absent:
            answer = absent
        if "continue" not in request.query:
            self._remember(request, answer)
        answer = stale or answer
        if isinstance(answer, NotFound):
            raise answer
        return answer

    def _remember(self, request: Request, answer: Response | NotFound) -> None:
        key = _read_key(request)
        self._earlier.setdefault(key, deque(maxlen=_MEMORY)).append(answer)
        self._earlier.move_to_end(key)
        if len(self._earlier) > _QUESTIONS:
            self._earlier.popitem(last=False)

    def _stale_answer(self, request: Request) -> Response | NotFound | None:
        allowed = request.query.get("resourceVersion") == "0"
        rate = self.plan.stale if allowed else self.plan.stale_consistent
        earlier = self._earlier.get(_read_key(request))
        if earlier and self._strikes(rate):
            return self._rng.choice(earlier)
        return None

    # ---- writes

    async def _write(self, request: Request) -> Response:
        self._refuse(request)
        of_existing = request.verb != "create" or request.subresource is not None  # bindings and evictions, too
        if of_existing and self._strikes(self.plan.conflict):
            raise Conflict.because(409, "Conflict", f"injected: the object of {request.verb} has been modified")
        unknown = self._strikes(self.plan.unknown)
        response = await self._api.call(request)
        if not is_write(request):
            return response
        write = self.writes.add(request, response)
        if self.plan.crash_after in (write.name, write.index):
            self.crashed.set()
            self._check_alive()
        if unknown:
            raise self._failure("after")
        return response

    # ---- both

    def _check_alive(self) -> None:
        if self.crashed.is_set():
            raise Crash(f"crashed after {self.plan.crash_after!r}")

    def _strikes(self, rate: float) -> bool:
        return rate > 0 and self._rng.random() < rate

    def _refuse(self, request: Request) -> None:
        if self._strikes(self.plan.busy):
            details = StatusDetails(retry_after_seconds=1)
            raise TooManyRequests.because(429, "TooManyRequests", f"injected: too busy to {request.verb}", details)
        if self._strikes(self.plan.refused):
            raise self._failure("before")

    def _failure(self, when: str) -> ApiError:
        code, reason = self._rng.choice(((500, "InternalError"), (504, "Timeout")))
        return OutcomeUnknown.because(code, reason, f"injected: failed {when} the request took effect")

    # ---- streams

    async def _misdeliver(self, stream: AsyncIterator[bytes], initial: bool) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        broken_at: float | None = None
        passing = True
        while True:
            try:
                async with asyncio.timeout_at(broken_at):
                    event = await anext(stream)
            except StopAsyncIteration:
                break
            except TimeoutError:
                break
            initial = initial and _INITIAL_EVENTS_END not in event
            if broken_at is None and self._strikes(self.plan.dropped):
                broken_at = loop.time() + self._rng.uniform(0.0, self.plan.patience)
                passing = self._rng.random() < 0.5 and not initial
                continue
            if not passing:
                continue
            if self._strikes(self.plan.late):
                await asyncio.sleep(self._rng.uniform(0.0, self.plan.delay))
            yield event
            if self._strikes(self.plan.repeated):
                yield event
        if broken_at is not None and passing:
            yield _GONE


def _read_key(request: Request) -> tuple[object, ...]:
    """What makes two reads the same question."""
    where = (request.resource, request.namespace, request.name, request.subresource)
    return (request.verb, *where, *sorted(request.query.items()))


def _gone() -> bytes:
    status = Status(code=410, reason="Expired", message="injected: too old resource version")
    return msgspec.json.encode({"type": "ERROR", "object": status})


_GONE = _gone()


async def run_until_crash(api: FaultyApi, process: Coroutine[Any, Any, T]) -> T | None:
    """Run a process on its faulty Api; None if it crashed. Its tasks end with it, as a killed process' threads do."""
    asyncio.get_running_loop().set_exception_handler(_report_unhandled)
    task = asyncio.ensure_future(process)
    crash = asyncio.ensure_future(api.crashed.wait())
    try:
        await asyncio.wait((task, crash), return_when=asyncio.FIRST_COMPLETED)
    finally:  # cancelling this function stops the process, too
        crash.cancel()
        task.cancel()
    try:
        return await task
    except BaseException:  # Crash, the cancellation above, or a group of either
        whole = asyncio.current_task()
        if not api.crashed.is_set() or (whole is not None and whole.cancelling()):  # our own cancellation is passed on
            raise
        return None


def _report_unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report exceptions of tasks that were never awaited, unless the task died with its process."""
    if not isinstance(context.get("exception"), Crash):
        loop.default_exception_handler(context)
