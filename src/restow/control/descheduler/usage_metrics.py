"""What nodes and pods really use, read from metrics.k8s.io or from Prometheus.

Goes in: a `UsageSource` of a profile. Comes out: the samples of now, and how the reading went (`UsageReading`). If the
source does not answer, there are no samples, with the reason. The log names a problem once, until it changes.
"""

from __future__ import annotations

import logging
from typing import Literal

import msgspec

from restow.client.verbs import Client
from restow.model.counted_nouns import counted_noun
from restow.model.kinds import NODE_METRICS, POD_METRICS
from restow.model.wire import WireError
from restow.planning.arguments import KUBERNETES_METRICS, PROMETHEUS
from restow.planning.usage_samples import (
    PrometheusQueries,
    UsageSamples,
    UsageSource,
    samples_from_metrics,
    samples_from_prometheus,
)
from restow.ports import ApiError, Clock, Prometheus, PrometheusUnavailable

log = logging.getLogger(__name__)


class UsageReading(msgspec.Struct, frozen=True):
    """How one reading went."""

    source: str
    result: Literal["fresh", "stale", "none"]
    """All samples are fresh; some are too old and are ignored; there are no samples."""
    problem: str = ""


async def query_usage(prometheus: Prometheus | None, queries: PrometheusQueries) -> UsageSamples:
    """The samples that Prometheus has now."""
    if prometheus is None:
        return UsageSamples(unavailable_reason="no Prometheus is configured")
    try:
        answers = {query: await prometheus.query(query) for query in dict.fromkeys(queries.expressions())}
    except PrometheusUnavailable as error:
        return UsageSamples(unavailable_reason=str(error))
    return samples_from_prometheus(queries, answers)


class UsageMeter:
    def __init__(self, client: Client, clock: Clock, prometheus: Prometheus | None) -> None:
        self._client = client
        self._clock = clock
        self._prometheus = prometheus
        self._logged_problem = ""

    async def measure(self, source: UsageSource) -> tuple[UsageSamples, UsageReading]:
        """The samples of now, and how the reading went."""
        try:
            if source.queries is None:
                nodes, pods = await self._client.list(NODE_METRICS), await self._client.list(POD_METRICS)
                samples = samples_from_metrics(nodes.items, pods.items)
            else:
                samples = await query_usage(self._prometheus, source.queries)
        except (ApiError, WireError) as error:
            samples = UsageSamples(unavailable_reason=str(error))
        reading = self._reading(samples, source)
        if reading.problem and reading.problem != self._logged_problem:
            log.warning("usage is not measured", extra={"source": reading.source, "problem": reading.problem})
        self._logged_problem = reading.problem
        return samples, reading

    def _reading(self, samples: UsageSamples, source: UsageSource) -> UsageReading:
        name = KUBERNETES_METRICS if source.queries is None else PROMETHEUS
        if samples.unavailable_reason:
            return UsageReading(name, "none", samples.unavailable_reason)
        stale = samples.count_older_than(self._clock.now() - source.max_age)
        if not any(stale):
            return UsageReading(name, "fresh")
        nodes, pods = counted_noun(stale[0], "node"), counted_noun(stale[1], "pod")
        problem = f"{nodes} and {pods} were measured more than {source.max_age:g}s ago; these samples are ignored"
        return UsageReading(name, "stale", problem)
