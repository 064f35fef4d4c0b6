"""Samples of the measured usage of nodes and pods.

Goes in: NodeMetrics and PodMetrics of metrics.k8s.io, or the answers of Prometheus. Comes out: samples by node and by
pod, each with its time. Values that cannot be read are treated as missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from restow.model.objects import NodeMetrics, PodMetrics, Quantities
from restow.model.pods import namespaced_name
from restow.model.quantity import QuantityError
from restow.model.resources import CPU, MEMORY, Vector, add_vectors, parse_amounts, subtract_vectors
from restow.model.times import TimeError, parse_time
from restow.planning.plan import Move

PodName = tuple[str, str]
"""Namespace and name."""
_BASE_UNITS: Final = {CPU: 1000, MEMORY: 1}


class UsageSample(msgspec.Struct, frozen=True):
    measured_at: float
    amounts: Vector


class UsageSamples(msgspec.Struct, frozen=True):
    nodes: Mapping[str, UsageSample] = {}
    pods: Mapping[PodName, UsageSample] = {}
    unavailable_reason: str = ""
    """Why there are no samples; empty if there are some."""

    def count_older_than(self, time: float) -> tuple[int, int]:
        """How many samples of nodes and of pods are older than some time."""
        return (
            sum(sample.measured_at < time for sample in self.nodes.values()),
            sum(sample.measured_at < time for sample in self.pods.values()),
        )

    def after_moves(self, moves: Iterable[Move]) -> UsageSamples:
        """The samples as they would be once these moves are made: each measured pod takes its usage along."""
        nodes = dict(self.nodes)
        for move in moves:
            sample = self.pods.get((move.namespace, move.pod))
            for name, change in ((move.source, subtract_vectors), (move.target, add_vectors)):
                if sample is not None and name in nodes:
                    nodes[name] = UsageSample(nodes[name].measured_at, change(nodes[name].amounts, sample.amounts))
        return UsageSamples(nodes, self.pods, self.unavailable_reason)


def samples_from_metrics(nodes: Iterable[NodeMetrics], pods: Iterable[PodMetrics]) -> UsageSamples:
    by_node, by_pod = {}, {}
    for node in nodes:
        sample = _sample(node.timestamp, [node.usage])
        if sample is not None:
            by_node[node.metadata.name] = sample
    for pod in pods:
        sample = _sample(pod.timestamp, [container.usage for container in pod.containers or ()])
        if sample is not None:
            by_pod[namespaced_name(pod)] = sample
    return UsageSamples(by_node, by_pod, "" if by_node else "metrics.k8s.io reports no node")


def _sample(timestamp: str | None, usages: list[Quantities | None]) -> UsageSample | None:
    total: Vector = {}
    try:
        measured_at = parse_time(timestamp or "")
        for usage in usages:
            total = add_vectors(total, parse_amounts(usage))
    except (TimeError, QuantityError):
        return None
    return UsageSample(measured_at, total) if total else None


# --- Prometheus -------------------------------------------------------------------------------------------------------

_CPU_SECONDS, _WORKING_SET = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"
_NODE, _CONTAINER = '{id="/"}', '{container!="",pod!=""}'
_OF_NODES, _OF_PODS = "by (node)", "by (namespace, pod)"


class NodeUsageQueries(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """PromQL for the usage of nodes: cores, bytes, and the time of measurement in seconds since the epoch. The defaults
    read the cgroup metrics of kubelets."""

    cpu: str = f"sum {_OF_NODES} (rate({_CPU_SECONDS}{_NODE}[5m]))"
    memory: str = f"sum {_OF_NODES} ({_WORKING_SET}{_NODE})"
    time: str = f"max {_OF_NODES} (timestamp({_WORKING_SET}{_NODE}))"
    """May be empty: then the time of a sample is the time of the query."""


class PodUsageQueries(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """PromQL for the usage of pods, by the labels `namespace` and `pod`."""

    cpu: str = f"sum {_OF_PODS} (rate({_CPU_SECONDS}{_CONTAINER}[5m]))"
    memory: str = f"sum {_OF_PODS} ({_WORKING_SET}{_CONTAINER})"
    time: str = f"max {_OF_PODS} (timestamp({_WORKING_SET}{_CONTAINER}))"


class PrometheusQueries(msgspec.Struct, frozen=True):
    """All queries to Prometheus."""

    nodes: NodeUsageQueries = NodeUsageQueries()
    pods: PodUsageQueries = PodUsageQueries()
    node_label: str = "node"
    """The label that has the name of a node."""

    def expressions(self) -> Iterator[str]:
        for queries in (self.nodes, self.pods):
            yield from (query for query in (queries.cpu, queries.memory, queries.time) if query)


class UsageSource(msgspec.Struct, frozen=True, kw_only=True):
    """Where usage is read: from Prometheus if there are queries, else from metrics.k8s.io."""

    max_age: float
    """Seconds after which a sample is ignored."""
    queries: PrometheusQueries | None = None


class PrometheusSample(msgspec.Struct, frozen=True):
    """One sample of an answer: labels, and a value at a time."""

    labels: Mapping[str, str]
    at: float
    value: float


def samples_from_prometheus(
    queries: PrometheusQueries, answers: Mapping[str, Sequence[PrometheusSample]]
) -> UsageSamples:
    """The samples in the answers of Prometheus, given by query. A node or pod needs both cpu and memory."""
    nodes = _samples(queries.nodes, answers, (queries.node_label,))
    pods = _samples(queries.pods, answers, ("namespace", "pod"))
    by_node = {labels[0]: sample for labels, sample in nodes.items()}
    by_pod = {(labels[0], labels[1]): sample for labels, sample in pods.items()}
    return UsageSamples(by_node, by_pod, "" if by_node else "Prometheus reports no node")


def _samples(
    queries: NodeUsageQueries | PodUsageQueries,
    answers: Mapping[str, Sequence[PrometheusSample]],
    label_names: tuple[str, ...],
) -> dict[tuple[str, ...], UsageSample]:
    series = {
        name: _by_labels(answers.get(query, ()), label_names)
        for name, query in ((CPU, queries.cpu), (MEMORY, queries.memory))
    }
    times = _by_labels(answers.get(queries.time, ()), label_names)
    samples: dict[tuple[str, ...], UsageSample] = {}
    for labels in sorted(series[CPU].keys() & series[MEMORY].keys()):
        values = {name: column[labels] for name, column in series.items()}
        # The sample is as old as its oldest part.
        measured_at = min(value.at for value in values.values())
        if labels in times:
            measured_at = min(measured_at, times[labels].value)
        usage = {name: math.ceil(value.value * _BASE_UNITS[name]) for name, value in values.items()}
        samples[labels] = UsageSample(measured_at, usage)
    return samples


def _by_labels(
    answer: Sequence[PrometheusSample], label_names: tuple[str, ...]
) -> dict[tuple[str, ...], PrometheusSample]:
    """The values with all these labels that are finite and not negative. A node or pod with two values has none: which
    one is right is unknown."""
    values: dict[tuple[str, ...], PrometheusSample] = {}
    ambiguous: set[tuple[str, ...]] = set()
    for sample in answer:
        labels = tuple(sample.labels.get(name, "") for name in label_names)
        if all(labels) and math.isfinite(sample.value) and sample.value >= 0:
            ambiguous |= {labels} & values.keys()
            values[labels] = sample
    return {labels: sample for labels, sample in values.items() if labels not in ambiguous}
