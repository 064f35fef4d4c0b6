"""Live reads: nodes and their pods as the API server has them now, beside the watches.

Goes in: names of nodes. Comes out: these nodes and the pods on them in the cache. A reservation fails for good when it
loses its seats, so that is never concluded from a cache, which may be behind.
"""

from __future__ import annotations

from collections.abc import Iterable

from restow.client.verbs import Client
from restow.control.scheduler.node_updates import NodeUpdates
from restow.control.scheduler.pod_updates import PodUpdates
from restow.control.scheduler.scheduler_cache import SchedulerCache
from restow.model.kinds import NODE, POD
from restow.ports import Invalid, NotFound


class LiveReads:
    def __init__(self, client: Client, cache: SchedulerCache, nodes: NodeUpdates, pods: PodUpdates) -> None:
        self._client = client
        self._cache = cache
        self._nodes = nodes
        self._pods = pods

    async def refresh_nodes(self, names: Iterable[str]) -> None:
        """Read these nodes and their pods. Objects in a version that is known cause no event, else the reservations on
        these nodes would be looked at again and again."""
        for name in names:
            await self._refresh_node(name)
            await self._refresh_pods_on(name)

    async def _refresh_node(self, name: str) -> None:
        known = self._cache.snapshot.node(name)
        try:
            node = await self._client.get(NODE, name)
            if known is None or known.metadata.resource_version != node.metadata.resource_version:
                self._nodes.upsert_node(node)
        except (NotFound, Invalid):  # Invalid: a placement names a node that cannot exist
            if known is not None:
                self._nodes.remove_node(known)

    async def _refresh_pods_on(self, node: str) -> None:
        # The watches go on while the list is under way, and a pod that they show meanwhile may be missing in the list.
        # So only pods that were known before the request can be concluded to be gone; assumed ones are not bound yet.
        occupants = [occupant for occupant in self._cache.snapshot.occupants(node) if occupant.ledger == "requested"]
        gone = {occupant.key: occupant.pod for occupant in occupants if occupant.assumed_at is None}
        for pod in (await self._client.list(POD, fields={"spec.nodeName": node})).items:
            gone.pop(pod.metadata.uid, None)
            if self._cache.is_unseen(pod):
                self._pods.upsert_pod(pod)
        for pod in gone.values():
            self._pods.remove_pod(pod)
