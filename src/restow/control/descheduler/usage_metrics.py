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
from restow.planning.usage_samples import (
    PrometheusQueries,
    UsageSamples,
    UsageSource,
    samples_from_metrics,
    samples_from_prometheus,
)
from restow.ports import ApiError, Clock, Prometheus, Unanswered

log = logging.getLogger(__name__)


class UsageReading(msgspec.Struct, frozen=True):
    """How one look at what is used went."""

    source: str
    result: Literal["fresh", "stale", "none"]
    """Everything that is measured is of now; some of it is too old to be believed; there is nothing."""
    problem: str = ""
    """What is wrong."""


async def query_usage(prometheus: Prometheus | None, queries: PrometheusQueries) -> UsageSamples:
    """What Prometheus measures now."""
    if prometheus is None:
        return UsageSamples(unavailable_reason="no Prometheus is configured")
    try:
        answers = {one: await prometheus.query(one) for one in dict.fromkeys(queries.expressions())}
    except Unanswered as error:
        return UsageSamples(unavailable_reason=str(error))
    return samples_from_prometheus(queries, answers)


class UsageMeter:
    def __init__(self, client: Client, clock: Clock, prometheus: Prometheus | None) -> None:
        self._client = client
        self._clock = clock
        self._prometheus = prometheus
        self._told = ""

    async def measure(self, metering: UsageSource) -> tuple[UsageSamples, UsageReading]:
        """What is measured now, and how that went."""
        try:
            if metering.queries is None:
                nodes, pods = await self._client.list(NODE_METRICS), await self._client.list(POD_METRICS)
                found = samples_from_metrics(nodes.items, pods.items)
            else:
                found = await query_usage(self._prometheus, metering.queries)
        except (ApiError, WireError) as error:
            found = UsageSamples(unavailable_reason=str(error))
        reading = self._reading(found, metering)
        if reading.problem and reading.problem != self._told:
            log.warning("use is not measured", extra={"source": reading.source, "told": reading.problem})
        self._told = reading.problem
        return found, reading

    def _reading(self, found: UsageSamples, metering: UsageSource) -> UsageReading:
        source = KUBERNETES_METRICS if metering.queries is None else PROMETHEUS
        if found.unavailable_reason:
            return UsageReading(source, "none", found.unavailable_reason)
        stale = found.count_older_than(self._clock.now() - metering.max_age)
        if not any(stale):
            return UsageReading(source, "fresh")
        nodes, pods = number_of(stale[0], "node"), number_of(stale[1], "pod")
        told = f"{nodes} and {pods} were measured more than {metering.max_age:g}s ago, which is ignored"
        return UsageReading(source, "stale", told)
