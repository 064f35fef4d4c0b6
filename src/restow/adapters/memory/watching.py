"""WATCH: every reader walks the collection's log at its own pace; writers only wake them.

A watcher holds a position, not a queue, so fifty of them cost a writer nothing but the wake-up. A watcher that falls so
far behind that the log has dropped its position gets 410 Gone and ends. Timers exist only while a watch is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from math import inf

from restow.adapters.memory import errors
from restow.adapters.memory.list_selection import Selection
from restow.adapters.memory.listing import check_not_future
from restow.adapters.memory.query_parameters import WatchOptions
from restow.adapters.memory.resources import ResourceType
from restow.adapters.memory.store import Collection, Store, Stored, encode_json, event_frame
from restow.model.objects import Document
from restow.ports import INITIAL_EVENTS_END, ApiError, Request


async def watch_objects(
    store: Store, find: Callable[[], ResourceType], request: Request, *, bookmark_every: float
) -> AsyncIterator[bytes]:
    served = find()
    options = WatchOptions.read(request.query)
    if options.initial:
        check_not_future(store, options.version)
    reader = _Reader(store, served, request)
    timers = _Timers(options, bookmark_every)
    try:
        for frame in reader.start(options):
            yield frame
        while True:
            for frame in reader.pending():
                yield frame
            if reader.collection.closed or timers.is_over():
                return
            if timers.bookmark_is_due():
                yield reader.bookmark()
            else:
                await timers.change_or_time(reader.collection)
    except ApiError as error:  # like kube-apiserver: status 200, then an ERROR event
        yield event_frame("ERROR", encode_json(error.status))


class _Reader:
    """A position in the log of one collection and the selection read from there."""

    def __init__(self, store: Store, served: ResourceType, request: Request) -> None:
        self.collection = store.collections[served.collection]
        self._store = store
        self._served = served
        self._form = served.api_version
        self._namespace = request.namespace
        self._matches = _matcher(self.collection, request)
        self._position = 0
        self._seen = 0

    def start(self, options: WatchOptions) -> Iterator[bytes]:
        """Set the position in the log; sends the present objects first if the request asks for them."""
        log = self.collection.log
        if options.version and not options.initial:
            if options.version < log.floor:
                raise errors.too_old(options.version, log.floor)
            self._position, self._seen = log.position_after(options.version), options.version
            return
        self._position, self._seen = log.end, self._store.version
        if options.initial is not False:
            for stored in [each for each in self.collection.within(self._namespace) if self._matches(each)]:
                yield event_frame("ADDED", self._served.render(stored))
        if options.initial and options.bookmarks:
            yield self._bookmark({"resourceVersion": str(self._seen), "annotations": {INITIAL_EVENTS_END: "true"}})

    def pending(self) -> Iterator[bytes]:
        """The events since the last call; raises 410 when the log has dropped them."""
        log = self.collection.log
        while self._position < log.end:
            if self._position < log.first:
                raise errors.too_old(self._seen, log.floor)
            change = log.at(self._position)
            self._position += 1
            if change.version <= self._seen:
                continue  # the request named a future version to start after
            self._seen = change.version
            event = change.seen_by(self._matches)
            if event is not None:
                yield change.frame(*event, self._form, self._served.render)

    def bookmark(self) -> bytes:
        """All events up to now have been sent: a version to resume from even when no event matched for long."""
        return self._bookmark({"resourceVersion": str(max(self._seen, self._store.version))})

    def _bookmark(self, metadata: Document) -> bytes:
        served = self._served
        document = {"kind": served.kind, "apiVersion": served.api_version, "metadata": metadata}
        return event_frame("BOOKMARK", encode_json(document))


def _matcher(collection: Collection, request: Request) -> Callable[[Stored], bool]:
    matches = Selection(collection, request.namespace, request.query).matches
    name = request.name
    return matches if name is None else lambda stored: stored.name == name and matches(stored)


class _Timers:
    """When a watch ends, when it sends its next bookmark, and the wait for either or for a change."""

    def __init__(self, options: WatchOptions, bookmark_every: float) -> None:
        self._loop = asyncio.get_running_loop()
        now = self._loop.time()
        self._end = now + options.timeout if options.timeout else inf
        self._every = bookmark_every
        self._bookmark = now + bookmark_every if options.bookmarks else inf

    def is_over(self) -> bool:
        return self._end < inf and self._loop.time() >= self._end

    def bookmark_is_due(self) -> bool:
        if self._bookmark == inf or self._loop.time() < self._bookmark:
            return False
        self._bookmark = self._loop.time() + self._every
        return True

    async def change_or_time(self, collection: Collection) -> None:
        future = collection.next_change()
        moment = min(self._end, self._bookmark)
        timer = self._loop.call_at(moment, _resolve_future, future) if moment < inf else None
        try:
            await future
        finally:
            if timer is not None:
                timer.cancel()
            collection.forget(future)


def _resolve_future(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
