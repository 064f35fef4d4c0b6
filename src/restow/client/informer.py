"""Keeping a cache of one kind true: list once, then follow the watch, for as long as the process lives.

    start ──watch-list, or paged LIST──> following ──stream ends, breaks or idles──> following, from the last version
                  ^                          │
                  └── 410 Gone: list again, announcing what vanished meanwhile as DELETED

    `refresh`: a paged LIST beside the stream, which goes on; what of both is older is ignored (`Cache`)

Lists are consistent: resourceVersion is left unset, never 0, so a process that takes over sees at least what its
predecessor wrote. Every failure waits (exponential back-off with full jitter, or the server's Retry-After) and goes on.
Handlers see changes in order and without gaps: of any object, each one's `old` is the `object` of the one before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from random import Random
from typing import Generic, TypeVar

import msgspec

from restow.client.cache import Cache, Change, IndexFunction, is_older
from restow.client.rate_limit import JitteredBackoff
from restow.client.requests import Selector
from restow.client.responses import Unreadable
from restow.client.verbs import Client, WatchEvent
from restow.model.cluster.seen_versions import version_number
from restow.model.interning import Interner
from restow.model.kinds import Kind
from restow.model.object_key import Key, key_of
from restow.model.objects import Object
from restow.model.wire import WireError
from restow.ports import INITIAL_EVENTS_END, ApiError, Gone, Invalid, NotFound, OutcomeUnknown, TooManyRequests

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)
Handler = Callable[[Change[T]], None]

STALE_LISTS = 8  # listings older than what was seen already, in a row, before they are believed
UNMARKED = 2  # watch-lists that never said where the initial events end, in a row, before pages are used for good
SILENCES = 3  # watches without any event, in a row, before the list is looked at again: servers send bookmarks


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How an informer spends its time, in seconds."""

    backoff: float = 1.0
    backoff_cap: float = 30.0
    watch_shortest: int = 300
    watch_longest: int = 600
    idle: float = 180.0
    initial_idle: float = 10.0
    settled: float = 5.0
    relist: float | None = None


class _Ignored(Exception):
    """The server does not do watch-list: it refused, or never marked the end of the initial events."""


class _Stale(Exception):
    """A listing was older than what has been seen."""


class Informer(Generic[T]):
    """The objects of one kind (in one namespace, of one selection, or all), as of the last news. Needs `run` to run."""

    def __init__(
        self,
        client: Client,
        kind: Kind[T],
        *,
        rng: Random,
        namespace: str | None = None,
        fields: Selector = None,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        pace: Pace | None = None,
        page_size: int = 500,
    ) -> None:
        self.kind = kind
        self.failure: BaseException | None = None
        self.unreadable: dict[Key, str] = {}
        self._client = client
        self._namespace = namespace
        self._fields = fields
        self._interner = Interner()
        self._page_size = self._limit = page_size
        self._pace = pace or Pace()
        self._rng = rng
        self._backoff = JitteredBackoff(rng, base=self._pace.backoff, cap=self._pace.backoff_cap)
        self._cache: Cache[T] = Cache(indexes)
        self._handlers: list[Handler[T]] = []
        self._synced = asyncio.Event()
        self._roused = asyncio.Event()
        self._asked = asyncio.Event()
        self._wanted: list[asyncio.Event] = []
        """Who waits for a list that begins later than now."""
        self._following: asyncio.Timeout | None = None
        self._told: str | None = None
        self._listed = False
        self._listed_at = 0.0
        self._unmarked = 0
        self._stale_lists = 0
        self._silences = 0

    # ---- reading

    async def synced(self) -> None:
        """Wait until the first list is in. `failure` says what is in the way, if anything."""
        await self._synced.wait()

    @property
    def is_synced(self) -> bool:
        return self._synced.is_set()

    @property
    def version(self) -> str | None:
        """The resourceVersion up to which everything has been seen."""
        return self._cache.version

    def __len__(self) -> int:
        return len(self._cache)

    def __iter__(self) -> Iterator[T]:
        return iter(self._cache)

    def get(self, name: str, namespace: str | None = None) -> T | None:
        return self._cache.get((namespace or "", name))

    def find(self, index: str, value: str) -> list[T]:
        return self._cache.find(index, value)

    def index(self, name: str, function: IndexFunction[T]) -> None:
        """File everything under what `function` says of it, for `find`."""
        self._cache.index(name, function)

    # ---- being told

    def subscribe(self, handler: Handler[T]) -> Callable[[], None]:
        """Call `handler` with every change, starting with what is there already as ADDED; returns how to stop.

        Handlers must be quick and must not raise: an exception ends `run`.
        """
        for item in self._cache:
            handler(Change("ADDED", item))
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    # ---- running

    async def run(self) -> None:
        """Keep the cache true until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_following(), name=f"following {self.kind.kind}")
                tasks.create_task(self._keep_refreshing(), name=f"refreshing {self.kind.kind}")
        except BaseExceptionGroup as problems:
            raise problems.exceptions[0] from None

    async def _keep_following(self) -> None:
        while True:
            self._roused.clear()
            delay = await self._once()
            if delay > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(delay):
                        await self._roused.wait()

    def refresh(self, done: asyncio.Event) -> None:
        """List anew, whatever goes on; `done` is set once a list is in that was begun after this was asked for.

        Whoever comes to an informer that others read already needs it, to see at least what was written before."""
        self._wanted.append(done)
        self.failure = None
        if self._following is None or version_number(self.version or "") is None:
            self._begin_anew()
        else:
            self._asked.set()

    def _begin_anew(self) -> None:
        """Let go of the stream, if there is one, and list."""
        self._listed = False
        self._roused.set()
        if self._following is not None and not self._following.expired():
            self._following.reschedule(asyncio.get_running_loop().time())
            self._following = None

    async def _keep_refreshing(self) -> None:
        """List for those who want it while the stream goes on; where that fails, the stream has to wait for it."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            try:
                await self._list_beside()
            except (ApiError, WireError, OSError, TimeoutError, _Stale) as error:
                log.debug("not listed beside the stream", extra={"kind": self.kind.kind, "err": str(error)})
                self._begin_anew()

    async def _once(self) -> float:
        """List if need be and follow until something ends it; the seconds to wait before going on."""
        try:
            quiet = await (self._list() if self._must_list() else self._follow())
        except (Gone, _Stale) as error:
            self._listed = False
            return self._failed(error)
        except TooManyRequests as error:
            return max(self._failed(error), error.retry_after or 0.0)
        except (ApiError, WireError, OSError, TimeoutError) as error:
            return self._failed(error)
        return self._backoff.next() if quiet else 0.0

    def _failed(self, error: Exception) -> float:
        level = logging.DEBUG if str(error) == self._told else logging.INFO  # repetitions only on request
        self.failure, self._told = error, str(error)
        delay = self._backoff.next()
        if isinstance(error, NotFound) and not self.is_synced:
            log.log(level, "kind not installed, so there are none", extra={"kind": self.kind.qualified_name})
            return delay
        facts = {"kind": self.kind.kind, "version": self.version, "err": str(error), "delay": round(delay, 3)}
        log.log(level, "informer interrupted", extra=facts)
        return delay

    def _must_list(self) -> bool:
        if not self._listed or self._silences >= SILENCES:
            return True
        relist = self._pace.relist
        return relist is not None and asyncio.get_running_loop().time() >= self._listed_at + relist

    # ---- listing

    async def _list(self) -> bool:
        self.unreadable.clear()
        served = tuple(self._wanted)
        if self._unmarked < UNMARKED:
            try:
                return await self._list_by_watch(served)
            except Invalid as error:
                self._unmarked, reason = UNMARKED, str(error)
            except _Ignored as error:
                self._unmarked, reason = self._unmarked + 1, str(error)
            log.info("watch-list not available, listing in pages", extra={"kind": self.kind.kind, "err": reason})
        self._replace(*await self._read_pages(), served)
        return False

    async def _list_beside(self) -> None:
        """List while the stream goes on. Raises _Stale for a list that is no news to what was known when it began."""
        served, known = tuple(self._wanted), self._cache.version
        items, version = await self._read_pages()
        if is_older(version, known) or is_older(self._cache.version, known):
            raise _Stale(f"a list of version {version} came after version {known} was seen")
        self._take(self._cache.replace(items, version, keep=self.unreadable), served)

    async def _read_pages(self) -> tuple[list[T], str]:
        """Read the present state in pages; if the list expires half-way, the next try reads it in one."""
        items: list[T] = []
        version = ""
        pages = self._client.pages(
            self.kind,
            self._namespace,
            fields=self._fields,
            limit=self._limit,
            unreadable=self._note_unreadable,
        )
        try:
            async with aclosing(pages):
                async for page in pages:
                    items += map(self._kept, page.items or ())
                    version = page.metadata.resource_version or version
        except Gone:
            self._limit = 0
            raise
        self._limit = self._page_size
        return items, version

    async def _list_by_watch(self, served: tuple[asyncio.Event, ...]) -> bool:
        """Read the present state as the beginning of a watch, then follow the same stream."""
        async with aclosing(self._stream(None)) as events:
            staged, version = await self._stage(events)
            self._unmarked = 0
            self._replace(staged.values(), version, served)
            staged.clear()
            return await self._consume(events)

    async def _stage(self, events: AsyncIterator[WatchEvent[T]]) -> tuple[dict[Key, T], str]:
        """The initial events of a watch-list, up to the bookmark that ends them."""
        staged: dict[Key, T] = {}
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._pace.initial_idle) as idle:
                async for event in events:
                    idle.reschedule(loop.time() + self._pace.initial_idle)
                    meta = event.object.metadata
                    if event.type == "BOOKMARK":
                        if (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true":
                            return staged, meta.resource_version
                    elif event.type == "DELETED":
                        staged.pop(key_of(event.object), None)
                    else:
                        staged[key_of(event.object)] = self._kept(event.object)
        except TimeoutError:
            raise _Ignored("the end of the initial events was not marked") from None
        except OutcomeUnknown as error:
            if error.status.code != 500:  # which is how kube-apiserver says that its etcd is too old for watch-lists
                raise
            raise _Ignored(str(error)) from None
        raise _Ignored("the stream ended before the initial events did")

    def _kept(self, item: T) -> T:
        """What to keep of an object just read: the one held already if it is the same, else it, with shared parts."""
        held = self._cache.get(key_of(item))
        if held is not None and _identity(held) == _identity(item):
            return held
        return self._interner.share(item)

    def _replace(self, items: Iterable[T], version: str, served: tuple[asyncio.Event, ...]) -> None:
        """Go by a list from which the stream then begins, or goes on."""
        stale = is_older(version, self._cache.version)
        self._stale_lists = self._stale_lists + 1 if stale else 0
        if stale and self._stale_lists < STALE_LISTS:
            raise _Stale(f"a list of version {version} came after version {self._cache.version} was seen")
        changes = self._cache.replace(items, version, keep=self.unreadable, reset=stale)
        self._listed = set(self._wanted) <= set(served)
        self._silences = 0
        self._take(changes, served)
        self._synced.set()

    def _take(self, changes: list[Change[T]], served: tuple[asyncio.Event, ...]) -> None:
        """A list is in, so that nothing is in the way: tell what it changed, and those who waited for it."""
        self.failure = None
        self._listed_at = asyncio.get_running_loop().time()
        self._wanted = [one for one in self._wanted if one not in served]
        self._announce(changes)
        for done in served:
            done.set()

    # ---- following

    async def _follow(self) -> bool:
        async with aclosing(self._stream(self._cache.version)) as events:
            return await self._consume(events)

    async def _consume(self, events: AsyncIterator[WatchEvent[T]]) -> bool:
        """Apply events until the stream ends; whether it ended so soon without news that going on at once is unwise."""
        loop = asyncio.get_running_loop()
        started, version = loop.time(), self._cache.version
        self._silences += 1
        try:
            if self._listed:
                await self._apply(events)
        except TimeoutError:
            if self._listed:
                raise
        if not self._listed:
            return False
        if loop.time() - started >= self._pace.settled:
            self._went_well()
            return False
        return self._silences > 0 or self._cache.version == version

    async def _apply(self, events: AsyncIterator[WatchEvent[T]]) -> None:
        """Apply events until the stream ends, idles, or a list is wanted."""
        loop = asyncio.get_running_loop()
        noted, version = loop.time(), self._cache.version
        async with self._until_idle() as idle:
            async for event in events:
                if not self._listed:
                    return
                now = loop.time()
                if now - noted > self._pace.idle / 100:  # not for every single one of many
                    idle.reschedule(now + self._pace.idle)
                    noted = now
                self._silences = 0
                self._interner.share(event.object)
                self._announce(self._cache.apply(event))
                if self._cache.version != version:
                    self._went_well()

    @asynccontextmanager
    async def _until_idle(self) -> AsyncIterator[asyncio.Timeout]:
        """Follow until nothing comes any more, or a list has to come first."""
        async with asyncio.timeout(self._pace.idle) as idle:
            self._following = idle
            try:
                yield idle
            finally:
                if self._following is idle:
                    self._following = None

    def _stream(self, version: str | None) -> AsyncGenerator[WatchEvent[T], None]:
        """A watch from `version`, or with the present state first."""
        longest = self._rng.randint(self._pace.watch_shortest, self._pace.watch_longest)
        if self._pace.relist is not None:
            longest = max(1, min(longest, int(self._pace.relist)))
        return self._client.watch(
            self.kind,
            self._namespace,
            fields=self._fields,
            resource_version=version,
            initial_events=version is None,
            timeout_seconds=longest,
            unreadable=self._note_unreadable,
        )

    def _went_well(self) -> None:
        self._backoff.reset()
        self.failure = self._told = None

    def _note_unreadable(self, item: Unreadable) -> None:
        """One odd object must not stop the news of all others: its last readable form stays."""
        self.unreadable[item.key] = item.error
        log.error("object cannot be read", extra={"kind": self.kind.kind, "object": item.key, "err": item.error})

    def _announce(self, changes: list[Change[T]]) -> None:
        for change in changes:
            self.unreadable.pop(key_of(change.object), None)
            for handler in tuple(self._handlers):
                handler(change)


def _identity(item: Object) -> tuple[str, str]:
    return item.metadata.uid, item.metadata.resource_version
