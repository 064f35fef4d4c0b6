"""Usage: what nodes and pods really use, as metrics.k8s.io or Prometheus tells it.

Goes in: how it is measured, and whom to ask. Comes out: what is measured now; nothing, and why, where nobody answers.
How that went comes with it; the log hears of what is wrong, once, and again when it is something else.
"""

from __future__ import annotations

import logging
from typing import Literal

import msgspec

from restow.client.verbs import Client
from restow.model.kinds import NODE_METRICS, POD_METRICS
from restow.model.wire import WireError
from restow.model.words import number_of
from restow.planning.arguments import KUBERNETES_METRICS, PROMETHEUS
from restow.planning.measured import Measured, Metering, Queries, answered, measured
from restow.ports import ApiError, Clock, Prometheus, Unanswered

log = logging.getLogger(__name__)


class Reading(msgspec.Struct, frozen=True):
    """How one look at what is used went."""

    source: str
    result: Literal["fresh", "stale", "none"]
    """Everything that is measured is of now; some of it is too old to be believed; there is nothing."""
    told: str = ""
    """What is wrong."""


async def ask(prometheus: Prometheus | None, queries: Queries) -> Measured:
    """What Prometheus measures now."""
    if prometheus is None:
        return Measured(trouble="no Prometheus is configured")
    try:
        answers = {one: await prometheus.query(one) for one in dict.fromkeys(queries.expressions())}
    except Unanswered as error:
        return Measured(trouble=str(error))
    return answered(queries, answers)


class Meter:
    def __init__(self, client: Client, clock: Clock, prometheus: Prometheus | None) -> None:
        self._client = client
        self._clock = clock
        self._prometheus = prometheus
        self._told = ""

    async def measure(self, metering: Metering) -> tuple[Measured, Reading]:
        """What is measured now, and how that went."""
        try:
            if metering.queries is None:
                nodes, pods = await self._client.list(NODE_METRICS), await self._client.list(POD_METRICS)
                found = measured(nodes.items, pods.items)
            else:
                found = await ask(self._prometheus, metering.queries)
        except (ApiError, WireError) as error:
            found = Measured(trouble=str(error))
        reading = self._reading(found, metering)
        if reading.told and reading.told != self._told:
            log.warning("use is not measured", extra={"source": reading.source, "told": reading.told})
        self._told = reading.told
        return found, reading

    def _reading(self, found: Measured, metering: Metering) -> Reading:
        source = KUBERNETES_METRICS if metering.queries is None else PROMETHEUS
        if found.trouble:
            return Reading(source, "none", found.trouble)
        stale = found.stale(self._clock.now() - metering.max_age)
        if not any(stale):
            return Reading(source, "fresh")
        nodes, pods = number_of(stale[0], "node"), number_of(stale[1], "pod")
        told = f"{nodes} and {pods} were measured more than {metering.max_age:g}s ago, which is ignored"
        return Reading(source, "stale", told)
