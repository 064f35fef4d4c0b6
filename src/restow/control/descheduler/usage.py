"""Usage: what nodes and pods really use, as metrics.k8s.io or Prometheus tells it.

Goes in: how it is measured, and whom to ask. Comes out: what is measured now; nothing, and why, where nobody answers.
What is wrong is told once, and again when it is something else.
"""

from __future__ import annotations

import logging

from restow.client.verbs import Client
from restow.model.kinds import NODE_METRICS, POD_METRICS
from restow.model.wire import WireError
from restow.planning.measured import Measured, Metering, Queries, answered, measured
from restow.ports import ApiError, Clock, Prometheus, Unanswered

log = logging.getLogger(__name__)


class Meter:
    def __init__(self, client: Client, clock: Clock, prometheus: Prometheus | None) -> None:
        self._client = client
        self._clock = clock
        self._prometheus = prometheus
        self._told = ""

    async def measure(self, metering: Metering) -> Measured:
        """What is measured now."""
        try:
            if metering.queries is None:
                nodes, pods = await self._client.list(NODE_METRICS), await self._client.list(POD_METRICS)
                found = measured(nodes.items, pods.items)
            else:
                found = await self._ask(metering.queries)
        except (ApiError, WireError, Unanswered) as error:
            found = Measured(trouble=str(error))
        self._tell(found, metering)
        return found

    async def _ask(self, queries: Queries) -> Measured:
        if self._prometheus is None:
            return Measured(trouble="no Prometheus is configured")
        answers = {one: await self._prometheus.query(one) for one in dict.fromkeys(queries.expressions())}
        return answered(queries, answers)

    def _tell(self, found: Measured, metering: Metering) -> None:
        """Warn about what is missing or too old to be believed."""
        nodes, pods = found.stale(self._clock.now() - metering.max_age)
        stale = f"{nodes} nodes and {pods} pods were measured more than {metering.max_age:g}s ago, which is ignored"
        told = found.trouble or (stale if nodes or pods else "")
        if told and told != self._told:
            source = "metrics.k8s.io" if metering.queries is None else "Prometheus"
            log.warning("use is not measured", extra={"source": source, "told": told})
        self._told = told
