"""The world: executes the decisions of its rules, for as long as it runs.

In: an Api, a clock and a Random. Out: writes to the API server. One informer per kind feeds the view, every change puts
the affected keys into one work queue, and a few workers take keys, call the rule, and send its writes. On a virtual
loop the same seed gives the same run; on the ordinary loop the same world plays in real time.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Self

from restow.client.cache import Change
from restow.client.event_recorder import EventRecorder
from restow.client.informer import Informer
from restow.client.verbs import Client
from restow.client.workqueue import WorkQueue
from restow.model.kinds import NODE, POD, Kind
from restow.model.object_key import Key, key_of
from restow.model.objects import Object
from restow.model.times import format_time
from restow.ports import Api, ApiError, Clock, NotFound, TooManyRequests
from restow.sim.world.pods import is_lost_early
from restow.sim.world.rule import Rule
from restow.sim.world.rules import default_rules
from restow.sim.world.settings import SILENT_SINCE, Settings
from restow.sim.world.view import View, creator_of
from restow.sim.world.write_executor import WriteExecutor

log = logging.getLogger(__name__)


class World:
    """Everything that acts on a cluster apart from Restow itself. `async with World(...)`, or `run()` as a task."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        rng: random.Random,
        *,
        settings: Settings | None = None,
        rules: Sequence[Rule] | None = None,
    ) -> None:
        self.failures = 0  # decisions that raised: a bug, or an object of an unexpected form
        self._settings = settings or Settings()
        self._rules = list(default_rules(self._settings) if rules is None else rules)
        kinds = dict.fromkeys(kind for rule in self._rules for kind in (rule.kind, *rule.also))
        self.view = View(kinds, clock, rng)
        self._client = Client(api, manager="restow-world")
        self._recorder = EventRecorder(
            self._client, clock, random.Random(rng.getrandbits(64)), component="restow-world"
        )
        self._informers = [Informer(self._client, kind, rng=random.Random(rng.getrandbits(64))) for kind in kinds]
        self._executor = WriteExecutor(
            self._client, self._recorder, apply_written=self._apply_written, apply_deleted=self.view.learn_deleted
        )
        self._queue: WorkQueue[tuple[int, Key]] = WorkQueue(base=0.05, cap=10.0)
        self._waiting: list[asyncio.Future[None]] = []
        self._wrote = asyncio.Event()
        self._ready = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # ---- running

    async def run(self) -> None:
        """Play until cancelled."""
        for informer in self._informers:
            informer.subscribe(partial(self._apply_change, informer.kind))
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run(), name=f"world informer {informer.kind.kind}")
            tasks.create_task(self._recorder.run(), name="world events")
            for informer in self._informers:
                await informer.synced()
            self._ready.set()
            tasks.create_task(self._confirm_writes(), name="world confirmation")
            for number in range(self._settings.workers):
                tasks.create_task(self._work(), name=f"world worker {number}")

    async def ready(self) -> None:
        """Wait until the world knows the cluster and has begun to act."""
        await self._ready.wait()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.run(), name="world")
        ready = asyncio.create_task(self.ready(), name="world ready")
        await asyncio.wait((self._task, ready), return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            ready.cancel()
            await self._task
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def until(self, condition: Callable[[View], object]) -> None:
        """Wait until a condition holds for the world's view of the cluster."""
        while not condition(self.view):
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    # ---- accidents

    async def silence(self, node: str) -> None:
        """The kubelet of a node stops: it reports, starts and stops nothing any more."""
        await self._annotate_node(node, format_time(self.view.now))

    async def revive(self, node: str) -> None:
        """The kubelet of a silent node is back."""
        await self._annotate_node(node, None)

    async def _annotate_node(self, node: str, since: str | None) -> None:
        await self._client.patch(NODE, node, {"metadata": {"annotations": {SILENT_SINCE: since}}})

    # ---- changes

    def _apply_change(self, kind: Kind[Any], change: Change[Any]) -> None:
        self._enqueue_affected(kind, self.view.learn(kind, change))

    async def _confirm_writes(self) -> None:
        """While the watches have not shown the results of our own writes, check once a second whether those still
        exist."""
        while True:
            await self._wrote.wait()
            self._wrote.clear()
            while not self.view.is_confirmed:
                await asyncio.sleep(1.0)
                for informer in self._informers:
                    for item in self.view.missing(informer):
                        await self._check_exists(informer.kind, item)

    async def _check_exists(self, kind: Kind[Any], item: Object) -> None:
        """Read an object that the watch does not know from the server, and apply what it answers."""
        meta = item.metadata
        with suppress(ApiError):
            try:
                current = await self._client.get(kind, meta.name, meta.namespace)
            except NotFound:
                current = None
            if current is None or current.metadata.uid != meta.uid:
                self._apply_change(kind, Change("DELETED", item))
            else:
                self._apply_written(kind, current)

    def _apply_written(self, kind: Kind[Any], item: Object) -> None:
        """Apply the server's answer to a write of ours."""
        self._enqueue_affected(kind, self.view.learn_written(kind, item))
        self._wrote.set()

    def _enqueue_affected(self, kind: Kind[Any], changes: list[Change[Any]]) -> None:
        """Queue every key that these changes affect."""
        for change in changes:
            if kind == POD and is_lost_early(change, self.view.now) and (maker := creator_of(change.object)):
                self.view.creation_backoff.record_loss(maker, self.view.now)
            for index, rule in enumerate(self._rules):
                for key in self._affected_keys(rule, kind, change):
                    self._queue.add_after((index, key), rule.settle)
        if changes and self._waiting:
            waiting, self._waiting = self._waiting, []
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_result(None)

    def _affected_keys(self, rule: Rule, kind: Kind[Any], change: Change[Any]) -> list[Key]:
        own = [key_of(change.object)] if rule.kind == kind else []
        if kind not in rule.also:
            return own
        try:
            return [*own, *rule.keys(kind, change, self.view)]
        except Exception:
            self.failures += 1
            log.exception("rule failed", extra={"rule": type(rule).__name__, "key": key_of(change.object)})
            return own

    # ---- work

    async def _work(self) -> None:
        while True:
            async with self._queue.next() as item:
                await self._process(item)

    async def _process(self, item: tuple[int, Key]) -> None:
        rule, key = self._rules[item[0]], item[1]
        try:
            step = rule.decide(key, self.view)
        except Exception:
            self.failures += 1
            self._queue.retry(item)
            log.exception("rule failed", extra={"rule": type(rule).__name__, "key": key})
            return
        try:
            for write in step.writes:
                await self._executor.execute(write)
        except TooManyRequests as error:
            self._queue.add_after(item, error.retry_after or 1.0)
        except ApiError as error:
            delay = self._queue.retry(item)
            facts = {"rule": type(rule).__name__, "key": key, "err": str(error), "delay": delay}
            log.debug("write failed, will retry", extra=facts)
        else:
            self._queue.forget(item)
            if step.again is not None:
                self._queue.add_after(item, step.again)
