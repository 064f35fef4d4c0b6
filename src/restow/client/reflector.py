"""The reflector: keeps a cache equal to the API server, as the part of the same name in client-go does.

    start ──list (watch-list, or in pages)──> watching ──stream ends, fails or idles──> watching, from the last version
                  ^                              │
                  └── 410 Gone, or stale list ───┘  then list again; objects that vanished meanwhile are DELETED

    `refresh`: a list in pages beside the stream, which goes on; the cache ignores what is older in either of both

Every failure is followed by a wait (exponential back-off with full jitter, or the server's Retry-After) and a new try;
only an exception of a handler ends the reflector.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from random import Random
from typing import Generic, TypeVar

from restow.client.cache import Change, is_older
from restow.client.informer_settings import InformerSettings
from restow.client.informer_store import InformerStore
from restow.client.list_watch import ListWatch, WatchListUnsupported
from restow.client.rate_limit import JitteredBackoff
from restow.client.verbs import WatchEvent
from restow.model.cluster.seen_versions import version_number
from restow.model.kinds import Kind
from restow.model.objects import Object
from restow.model.wire import WireError
from restow.ports import ApiError, Gone, Invalid, NotFound, TooManyRequests

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)

STALE_LISTS = 8  # lists older than the cache, in a row, before one is believed: the server's history was reset then
UNMARKED = 2  # watch-lists without an end of the initial events, in a row, before only pages are used
SILENT_WATCHES = 3  # watches without any event, in a row, before a list: servers send at least bookmarks


class _StaleList(Exception):
    """A list was older than the cache."""


class Reflector(Generic[T]):
    """Lists and watches into `store`, until cancelled."""

    def __init__(
        self,
        kind: Kind[T],
        list_watch: ListWatch[T],
        store: InformerStore[T],
        *,
        settings: InformerSettings,
        rng: Random,
    ) -> None:
        self.failure: BaseException | None = None
        """The error that is in the way now, if any."""
        self.synced = asyncio.Event()
        """Set after the first list."""
        self._kind = kind
        self._list_watch = list_watch
        self._store = store
        self._cache = store.cache
        self._settings = settings
        self._backoff = JitteredBackoff(rng, base=settings.backoff, cap=settings.backoff_cap)
        self._wake_up = asyncio.Event()
        """Ends the wait after a failure early."""
        self._waiting: list[asyncio.Event] = []
        """Set after a list that began later than the call of `refresh`."""
        self._refresh_requested = asyncio.Event()
        self._stream_timeout: asyncio.Timeout | None = None
        """The idle timeout of the stream that is being followed; letting it expire ends the stream."""
        self._must_relist = True
        self._listed_at = 0.0
        self._logged_error: str | None = None
        # Counters of consecutive oddities, each reset by the first healthy one.
        self._unmarked = 0
        self._stale_lists = 0
        self._silent_watches = 0

    async def run(self) -> None:
        """Keep the cache up to date until cancelled. Raises what a handler raises."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_following(), name=f"following {self._kind.kind}")
                tasks.create_task(self._keep_refreshing(), name=f"refreshing {self._kind.kind}")
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    def refresh(self, done: asyncio.Event) -> None:
        """Request a list; `done` is set after one that began later than this call."""
        self._waiting.append(done)
        self.failure = None
        # Beside a stream, a list can only be merged if versions are numbers, which tell what is newer.
        if self._stream_timeout is None or version_number(self._cache.version or "") is None:
            self._restart()
        else:
            self._refresh_requested.set()

    def _restart(self) -> None:
        """End the stream, if there is one, and list."""
        self._must_relist = True
        self._wake_up.set()
        if self._stream_timeout is not None and not self._stream_timeout.expired():
            self._stream_timeout.reschedule(asyncio.get_running_loop().time())
            self._stream_timeout = None

    # ---- the two loops

    async def _keep_following(self) -> None:
        while True:
            self._wake_up.clear()
            delay = await self._list_or_follow()
            if delay > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(delay):
                        await self._wake_up.wait()

    async def _keep_refreshing(self) -> None:
        """Serve `refresh` while the stream goes on; if that fails, end the stream and list instead."""
        while True:
            await self._refresh_requested.wait()
            self._refresh_requested.clear()
            try:
                await self._list_beside_stream()
            except (ApiError, WireError, OSError, TimeoutError, _StaleList) as error:
                log.debug("list beside the watch failed", extra={"kind": self._kind.kind, "err": str(error)})
                self._restart()

    async def _list_or_follow(self) -> float:
        """List if necessary and follow the stream until it ends; returns the seconds to wait before the next try."""
        try:
            is_fruitless = await (self._list() if self._needs_list() else self._follow())
        except (Gone, _StaleList) as error:
            self._must_relist = True
            return self._note_failure(error)
        except TooManyRequests as error:
            return max(self._note_failure(error), error.retry_after or 0.0)
        except (ApiError, WireError, OSError, TimeoutError) as error:
            return self._note_failure(error)
        # A server that ends every watch at once must not be asked in a tight loop.
        return self._backoff.next_delay() if is_fruitless else 0.0

    def _needs_list(self) -> bool:
        if self._must_relist or self._silent_watches >= SILENT_WATCHES:
            return True
        interval = self._settings.relist_interval
        return interval is not None and asyncio.get_running_loop().time() >= self._listed_at + interval

    def _note_failure(self, error: Exception) -> float:
        level = logging.DEBUG if str(error) == self._logged_error else logging.INFO  # log each error once at INFO
        self.failure, self._logged_error = error, str(error)
        delay = self._backoff.next_delay()
        if isinstance(error, NotFound) and not self.synced.is_set():
            log.log(level, "kind not installed, assuming no objects", extra={"kind": self._kind.qualified_name})
            return delay
        facts = {"kind": self._kind.kind, "version": self._cache.version, "err": str(error), "delay": round(delay, 3)}
        log.log(level, "informer interrupted", extra=facts)
        return delay

    def _note_success(self) -> None:
        self._backoff.reset()
        self.failure = self._logged_error = None

    # ---- listing

    async def _list(self) -> bool:
        """List by watch-list, which continues as a watch, or in pages. Returns as `_consume`."""
        self._store.unreadable.clear()
        # Only those that wait now are served: a list must have begun after the request.
        served = tuple(self._waiting)
        if self._unmarked < UNMARKED:
            try:
                return await self._list_by_watch(served)
            except Invalid as error:  # the server refuses the parameters: it never supports watch-list
                self._unmarked, reason = UNMARKED, str(error)
            except WatchListUnsupported as error:  # may have been an accident: try a second time
                self._unmarked, reason = self._unmarked + 1, str(error)
            log.info("watch-list not available, listing in pages", extra={"kind": self._kind.kind, "err": reason})
        self._replace(*await self._list_watch.list_pages(), served)
        return False

    async def _list_by_watch(self, served: Collection[asyncio.Event]) -> bool:
        """Read the present state from the beginning of a watch, then follow the same stream."""
        async with aclosing(self._list_watch.watch(None)) as events:
            items, version = await self._list_watch.read_initial_events(events)
            self._unmarked = 0
            self._replace(items.values(), version, served)
            items.clear()
            return await self._consume(events)

    async def _list_beside_stream(self) -> None:
        """List while the stream goes on. Raises _StaleList for a list that is older than the cache was at its start."""
        served, known = tuple(self._waiting), self._cache.version
        items, version = await self._list_watch.list_pages()
        # The second condition: the stream was restarted meanwhile with an older history.
        if is_older(version, known) or is_older(self._cache.version, known):
            raise _StaleList(f"a list of version {version} came after version {known}")
        self._finish_list(self._store.replace(items, version), served)

    def _replace(self, items: Iterable[T], version: str, served: Collection[asyncio.Event]) -> None:
        """Make the cache equal to a list that the stream continues from. Raises _StaleList.

        An API server behind a load balancer may lag and list an old state, which is refused. If only old lists come,
        the server's history really is older, as after a restore of etcd: then the list is believed."""
        is_stale = is_older(version, self._cache.version)
        self._stale_lists = self._stale_lists + 1 if is_stale else 0
        if is_stale and self._stale_lists < STALE_LISTS:
            raise _StaleList(f"a list of version {version} came after version {self._cache.version}")
        changes = self._store.replace(items, version, reset=is_stale)
        # If `refresh` was called while this list was read, another one has to follow.
        self._must_relist = not set(self._waiting) <= set(served)
        self._silent_watches = 0
        self._finish_list(changes, served)
        self.synced.set()

    def _finish_list(self, changes: list[Change[T]], served: Collection[asyncio.Event]) -> None:
        self.failure = None
        self._listed_at = asyncio.get_running_loop().time()
        self._waiting = [event for event in self._waiting if event not in served]
        self._store.announce(changes)  # before `done`: the handlers must have seen the list then
        for done in served:
            done.set()

    # ---- following

    async def _follow(self) -> bool:
        async with aclosing(self._list_watch.watch(self._cache.version)) as events:
            return await self._consume(events)

    async def _consume(self, events: AsyncIterator[WatchEvent[T]]) -> bool:
        """Apply events until the stream ends. True if it ended soon and without news, so that the next try has to
        wait."""
        loop = asyncio.get_running_loop()
        started, version = loop.time(), self._cache.version
        self._silent_watches += 1
        try:
            if not self._must_relist:
                await self._apply(events)
        except TimeoutError:
            if not self._must_relist:
                raise  # the stream idled; otherwise `_restart` ended it
        if self._must_relist:
            return False
        if loop.time() - started >= self._settings.healthy_after:
            self._note_success()
            return False
        return self._silent_watches > 0 or self._cache.version == version

    async def _apply(self, events: AsyncIterator[WatchEvent[T]]) -> None:
        """Apply events until the stream ends, idles, or a list is necessary."""
        loop, idle_timeout = asyncio.get_running_loop(), self._settings.idle_timeout
        rescheduled, version = loop.time(), self._cache.version
        async with self._expiring_when_idle() as idle:
            async for event in events:
                if self._must_relist:
                    return
                now = loop.time()
                if now - rescheduled > idle_timeout / 100:  # a timer per event would be a cost in bursts
                    idle.reschedule(now + idle_timeout)
                    rescheduled = now
                self._silent_watches = 0
                self._store.apply(event)
                if self._cache.version != version:
                    self._note_success()

    @asynccontextmanager
    async def _expiring_when_idle(self) -> AsyncIterator[asyncio.Timeout]:
        """Raise TimeoutError when the stream idles, or when `_restart` expires the timeout."""
        async with asyncio.timeout(self._settings.idle_timeout) as idle:
            self._stream_timeout = idle
            try:
                yield idle
            finally:
                if self._stream_timeout is idle:
                    self._stream_timeout = None
