"""Leaks: assumptions that nobody confirms.

A pod that was given a node holds room there until the API shows it bound, or gone. If no event ever says so, the room
would be held for nobody: so whatever has been assumed for long and is not on its way is looked up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container

from restow.client.verbs import Client
from restow.control.scheduler.event_handlers import EventHandlers
from restow.control.scheduler.settings import SchedulerSettings
from restow.model.cluster.pods import is_stale
from restow.model.kinds import POD
from restow.model.objects import Pod
from restow.model.wire import WireError
from restow.ports import ApiError, Clock, NotFound

log = logging.getLogger(__name__)


class AssumedPodExpiry:
    def __init__(self, client: Client, clock: Clock, feed: EventHandlers, under_way: Container[str], settings: SchedulerSettings) -> None:
        """`under_way` has the UIDs of pods that are being bound."""
        self.withdraw: Callable[[Pod], None] = lambda pod: None
        """Takes an assumption back."""
        self._client = client
        self._clock = clock
        self._feed = feed
        self._under_way = under_way
        self._settings = settings

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(self._settings.leak_check)
            for one in self._feed.snapshot.assumed(self._clock.now()):
                if is_stale(one.age, self._settings.leak_age) and one.pod.metadata.uid not in self._under_way:
                    await self._check(one.pod)

    async def _check(self, pod: Pod) -> None:
        meta = pod.metadata
        try:
            found: Pod | None = await self._client.get(POD, meta.name, meta.namespace)
        except NotFound:
            found = None
        except (ApiError, WireError) as error:
            log.info("pod cannot be read", extra={"pod": meta.name, "namespace": meta.namespace, "err": str(error)})
            return
        if meta.uid in self._under_way:
            return
        log.warning("assumption not confirmed", extra={"pod": meta.name, "namespace": meta.namespace})
        if found is None or found.metadata.uid != meta.uid:
            self._feed.hide(pod)
        else:
            if not found.spec.node_name:
                self.withdraw(pod)
            self._feed.show(found)
        self._feed.changed.set()
