"""Measured use: what nodes and pods really use, as somebody measured it.

Goes in: metrics objects as the API shows them. Comes out: samples by name, each with the time it is of. What cannot be
read was not measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from restow.model.objects import NodeMetrics, PodMetrics, Quantities
from restow.model.quantity import QuantityError
from restow.model.resources import Vector, add, amounts
from restow.model.times import TimeError, parse_time


class Sample(msgspec.Struct, frozen=True):
    at: float
    amounts: Vector


class Measured(msgspec.Struct, frozen=True):
    nodes: Mapping[str, Sample] = {}
    pods: Mapping[tuple[str, str], Sample] = {}
    """By namespace and name."""
    trouble: str = ""
    """Why there is nothing, if there is nothing."""


def measured(nodes: Iterable[NodeMetrics], pods: Iterable[PodMetrics]) -> Measured:
    by_node, by_pod = {}, {}
    for node in nodes:
        sample = _sample(node.timestamp, [node.usage])
        if sample is not None:
            by_node[node.metadata.name] = sample
    for pod in pods:
        sample = _sample(pod.timestamp, [one.usage for one in pod.containers or ()])
        if sample is not None:
            by_pod[pod.metadata.namespace or "default", pod.metadata.name] = sample
    return Measured(by_node, by_pod, "" if by_node else "no node is measured")


def _sample(timestamp: str | None, usages: list[Quantities | None]) -> Sample | None:
    total: Vector = {}
    try:
        at = parse_time(timestamp or "")
        for usage in usages:
            total = add(total, amounts(usage))
    except (TimeError, QuantityError):
        return None
    return Sample(at, total) if total else None
