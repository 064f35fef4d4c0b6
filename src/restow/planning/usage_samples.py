"""Measured use: what nodes and pods really use, as somebody measured it.

Goes in: metrics objects as the API shows them, or what Prometheus answers. Comes out: samples by name, each with the
time it is of. What cannot be read was not measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from restow.model.objects import NodeMetrics, PodMetrics, Quantities
from restow.model.pods import full_name
from restow.model.quantity import QuantityError
from restow.model.resources import CPU, MEMORY, Vector, add, amounts, subtract
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
    """Why there is nothing, if there is nothing."""

    def count_older_than(self, before: float) -> tuple[int, int]:
        """How many nodes and pods were last measured before some time."""
        return (
            sum(one.measured_at < before for one in self.nodes.values()),
            sum(one.measured_at < before for one in self.pods.values()),
        )

    def after_moves(self, moves: Iterable[Move]) -> UsageSamples:
        """What will be used where once these moves are made, by pods that are measured."""
        nodes = dict(self.nodes)
        for move in moves:
            sample = self.pods.get((move.namespace, move.pod))
            for name, change in ((move.source, subtract), (move.target, add)):
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
        sample = _sample(pod.timestamp, [one.usage for one in pod.containers or ()])
        if sample is not None:
            by_pod[full_name(pod)] = sample
    return UsageSamples(by_node, by_pod, "" if by_node else "no node is measured")


def _sample(timestamp: str | None, usages: list[Quantities | None]) -> UsageSample | None:
    total: Vector = {}
    try:
        at = parse_time(timestamp or "")
        for usage in usages:
            total = add(total, amounts(usage))
    except (TimeError, QuantityError):
        return None
    return UsageSample(at, total) if total else None


# --- Prometheus -------------------------------------------------------------------------------------------------------

_CPU_SECONDS, _WORKING_SET = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"
_NODE, _CONTAINER = '{id="/"}', '{container!="",pod!=""}'
_OF_NODES, _OF_PODS = "by (node)", "by (namespace, pod)"


class NodeUsageQueries(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Cores, bytes, and when that was measured, in seconds since the epoch; by default as kubelets tell of cgroups."""

    cpu: str = f"sum {_OF_NODES} (rate({_CPU_SECONDS}{_NODE}[5m]))"
    memory: str = f"sum {_OF_NODES} ({_WORKING_SET}{_NODE})"
    time: str = f"max {_OF_NODES} (timestamp({_WORKING_SET}{_NODE}))"
    """May be empty: then samples are of when they are asked for."""


class PodUsageQueries(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The same of pods, by the labels `namespace` and `pod`."""

    cpu: str = f"sum {_OF_PODS} (rate({_CPU_SECONDS}{_CONTAINER}[5m]))"
    memory: str = f"sum {_OF_PODS} ({_WORKING_SET}{_CONTAINER})"
    time: str = f"max {_OF_PODS} (timestamp({_WORKING_SET}{_CONTAINER}))"


class PrometheusQueries(msgspec.Struct, frozen=True):
    """What Prometheus is asked."""

    nodes: NodeUsageQueries = NodeUsageQueries()
    pods: PodUsageQueries = PodUsageQueries()
    node_label: str = "node"
    """Which label is the name of a node."""

    def expressions(self) -> Iterator[str]:
        for asked in (self.nodes, self.pods):
            yield from (one for one in (asked.cpu, asked.memory, asked.time) if one)


class UsageSource(msgspec.Struct, frozen=True, kw_only=True):
    """How use is measured: by Prometheus where there are queries, else by metrics.k8s.io."""

    max_age: float
    """Seconds after which a sample is as good as none."""
    queries: PrometheusQueries | None = None


class PrometheusSample(msgspec.Struct, frozen=True):
    """One line of an answer: labels, and a value at a time."""

    labels: Mapping[str, str]
    at: float
    value: float


def samples_from_prometheus(queries: PrometheusQueries, answers: Mapping[str, Sequence[PrometheusSample]]) -> UsageSamples:
    """What Prometheus says, by the expressions it was asked. Where it says cpu and not memory of somebody, nothing is
    known of them."""
    nodes = _samples(queries.nodes, answers, (queries.node_label,))
    pods = _samples(queries.pods, answers, ("namespace", "pod"))
    by_node = {labels[0]: sample for labels, sample in nodes.items()}
    by_pod = {(labels[0], labels[1]): sample for labels, sample in pods.items()}
    return UsageSamples(by_node, by_pod, "" if by_node else "Prometheus measures no node")


def _samples(
    asked: NodeUsageQueries | PodUsageQueries, answers: Mapping[str, Sequence[PrometheusSample]], by: tuple[str, ...]
) -> dict[tuple[str, ...], UsageSample]:
    columns = {name: _column(answers.get(query, ()), by) for name, query in ((CPU, asked.cpu), (MEMORY, asked.memory))}
    times = _column(answers.get(asked.time, ()), by)
    found: dict[tuple[str, ...], UsageSample] = {}
    for labels in sorted(columns[CPU].keys() & columns[MEMORY].keys()):
        lines = {name: column[labels] for name, column in columns.items()}
        at = min(one.at for one in lines.values())
        if labels in times:
            at = min(at, times[labels].value)
        found[labels] = UsageSample(at, {name: math.ceil(one.value * _BASE_UNITS[name]) for name, one in lines.items()})
    return found


def _column(lines: Sequence[PrometheusSample], by: tuple[str, ...]) -> dict[tuple[str, ...], PrometheusSample]:
    """The lines that say whom they are about and how much; somebody who is named twice is not known."""
    found: dict[tuple[str, ...], PrometheusSample] = {}
    twice: set[tuple[str, ...]] = set()
    for one in lines:
        labels = tuple(one.labels.get(name, "") for name in by)
        if all(labels) and math.isfinite(one.value) and one.value >= 0:
            twice |= {labels} & found.keys()
            found[labels] = one
    return {labels: one for labels, one in found.items() if labels not in twice}
