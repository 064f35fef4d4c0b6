"""Reading afresh: nodes and who is on them, as they are now.

Goes in: names of nodes. What comes out is in the feed: no cache that is behind is to end anything.
"""

from __future__ import annotations

from collections.abc import Iterable

from restow.client.verbs import Client
from restow.control.scheduler.event_handlers import EventHandlers
from restow.model.kinds import NODE, POD
from restow.ports import Invalid, NotFound


class LiveReads:
    def __init__(self, client: Client, feed: EventHandlers) -> None:
        self._client = client
        self._feed = feed

    async def read(self, nodes: Iterable[str]) -> None:
        """Read these nodes and their pods. What is as it was is no news: nobody looks again because of it."""
        for name in nodes:
            await self._read_node(name)
            await self._read_pods(name)

    async def _read_node(self, name: str) -> None:
        known = self._feed.snapshot.node(name)
        try:
            node = await self._client.get(NODE, name)
            if known is None or known.metadata.resource_version != node.metadata.resource_version:
                self._feed.show_node(node)
        except (NotFound, Invalid):  # the latter of what cannot be a name
            if known is not None:
                self._feed.hide_node(known)

    async def _read_pods(self, node: str) -> None:
        """The watches go on meanwhile, so only who was known before the list was asked for can be missing in it."""
        there = [one for one in self._feed.snapshot.occupants(node) if one.book == "requested"]
        gone = {one.key: one.pod for one in there if one.assumed_at is None}
        for pod in (await self._client.list(POD, fields={"spec.nodeName": node})).items:
            gone.pop(pod.metadata.uid, None)
            if self._feed.is_news(pod):
                self._feed.show(pod)
        for one in gone.values():
            self._feed.hide(one)
