"""Reads the arguments of the strategies from `pluginConfig`, fills in the defaults and checks them.

Goes in: a map. Comes out: settings, or a WireError with every mistake and its path.

    Defragmentation:      {resourceType: cpu, lowThresholds: {cpu: 30}, defragmentThresholds: {cpu: 70},
                           protectionThresholds: {cpu: 95}, numberOfNodes: 0, coolDownTime: 600, onlyIfEmptied: false,
                           evictableNamespaces: {exclude: [kube-system]}, labelSelector: {matchLabels: {tier: batch}}}
    NodeResourceBalance:  {resources: [cpu, memory], maxThreshold: 0.15, coolDownTime: 600, evictableNamespaces: …,
                           labelSelector: …}
    LoadAware:            {thresholds: {cpu: 40, memory: 40}, targetThresholds: {cpu: 70, memory: 70}, numberOfNodes: 0,
                           maxAge: 5m, metricsUtilization: {source: Prometheus}, coolDownTime: 600, …}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Self

import msgspec

from restow.model.objects import Duration, Pod, SelectorSpec
from restow.model.problems import Problem, member_path, problem_members, problems_of_readable_members
from restow.model.resources import CPU, MEMORY, PODS
from restow.model.selectors import EVERYTHING, LabelSelector, SelectorError, label_selector
from restow.model.times import parse_duration
from restow.model.wire import WireError, convert_readable
from restow.planning.requested_usage import Percents
from restow.planning.usage_samples import NodeUsageQueries, PodUsageQueries, PrometheusQueries, UsageSource

DEFRAGMENTATION: Final = "Defragmentation"
BALANCE: Final = "NodeResourceBalance"
LOAD_AWARE: Final = "LoadAware"
KUBERNETES_METRICS, PROMETHEUS = "KubernetesMetrics", "Prometheus"
SOURCES: Final = (KUBERNETES_METRICS, PROMETHEUS)
_ALSO_READ: Final = {"ResourceType": "resourceType", "fragmentThresholds": "defragmentThresholds"}
_LOW, _DEFRAGMENT, _PROTECTION = 30.0, 70.0, 95.0


class NamespaceFilterArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    include: list[str] = []
    exclude: list[str] = []

    def problems(self, path: str) -> Iterator[Problem]:
        if self.include and self.exclude:
            yield Problem(path, "include and exclude cannot both be set")


class StrategyArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The arguments that every strategy has."""

    api_version: str | None = None
    kind: str | None = None
    evictable_namespaces: NamespaceFilterArgs | None = None
    label_selector: SelectorSpec | None = None
    cool_down_time: int = 0


class DefragmentationArgs(StrategyArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    resource_type: str = CPU
    protection_thresholds: dict[str, float] = {}
    defragment_thresholds: dict[str, float] = {}
    low_thresholds: dict[str, float] = {}
    number_of_nodes: int = 0
    only_if_emptied: bool = False


class BalanceArgs(StrategyArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    resources: list[str] = msgspec.field(default_factory=lambda: [CPU, MEMORY])
    max_threshold: float | None = None


class _PrometheusArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    node_label: str = "node"
    nodes: NodeUsageQueries = NodeUsageQueries()
    pods: PodUsageQueries = PodUsageQueries()


class _UtilizationArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    source: str = KUBERNETES_METRICS
    prometheus: _PrometheusArgs | None = None


class LoadAwareArgs(StrategyArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    thresholds: dict[str, float] = msgspec.field(default_factory=lambda: {CPU: 40.0, MEMORY: 40.0})
    target_thresholds: dict[str, float] = msgspec.field(default_factory=lambda: {CPU: 70.0, MEMORY: 70.0})
    number_of_nodes: int = 0
    max_age: Duration = "5m"
    metrics_utilization: _UtilizationArgs = _UtilizationArgs()


class PodFilter(msgspec.Struct, frozen=True):
    """Which pods a strategy may move, beside the rules of eviction. All pods count as usage."""

    include: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()
    selector: LabelSelector = EVERYTHING

    @classmethod
    def of(cls, namespaces: NamespaceFilterArgs | None, selector: LabelSelector) -> Self:
        namespaces = namespaces or NamespaceFilterArgs()
        return cls(frozenset(namespaces.include), frozenset(namespaces.exclude), selector)

    def refusal_reason(self, pod: Pod) -> str:
        namespace = pod.metadata.namespace or "default"
        if (self.include and namespace not in self.include) or namespace in self.exclude:
            return f"evictableNamespaces leaves out namespace {namespace}"
        if not self.selector.matches(pod.metadata.labels):
            return f"its labels do not match {self.selector}"
        return ""


class DefragmentationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The thresholds are percentages by resource; each map has the resource type."""

    resource: str
    low_thresholds: Percents
    defragment_thresholds: Percents
    protection_thresholds: Percents
    number_of_nodes: int
    cool_down: float
    only_if_emptied: bool
    pods: PodFilter


class BalanceSettings(msgspec.Struct, frozen=True, kw_only=True):
    resources: tuple[str, ...]
    max_threshold: float | None
    """A rate, not a percentage: 0.15 is 15 percentage points."""
    cool_down: float
    pods: PodFilter


class LoadAwareSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The thresholds are percentages by resource, for the same resources each."""

    idle_thresholds: Percents
    busy_thresholds: Percents
    number_of_nodes: int
    usage_source: UsageSource
    cool_down: float
    pods: PodFilter


def read_defragmentation(arguments: Mapping[str, Any]) -> DefragmentationSettings:
    """Raises WireError."""
    names = [_ALSO_READ.get(key, key) for key in arguments]
    twice = [
        Problem(key, f"is given twice, also as {_ALSO_READ[key]}")
        for key in arguments
        if _ALSO_READ.get(key, "") in arguments
    ]
    spelt = dict(zip(names, arguments.values(), strict=True))
    written, unread = convert_readable(DefragmentationArgs, spelt, DEFRAGMENTATION)
    resource = written.resource_type
    low = {resource: _LOW, **written.low_thresholds}
    defragment = {resource: _DEFRAGMENT, **written.defragment_thresholds}
    protection = {resource: _PROTECTION, **written.protection_thresholds}
    maps = {"lowThresholds": low, "defragmentThresholds": defragment, "protectionThresholds": protection}
    mistakes = [*_percent_problems(maps), *shared_problems(written)]
    if problem_members(unread).isdisjoint({*maps, "resourceType"}):
        mistakes += _crossing_problems(maps)
    if not resource:
        mistakes.append(Problem("resourceType", "must name a resource"))
    if written.number_of_nodes < 0:
        mistakes.append(Problem("numberOfNodes", f"must not be negative, is {written.number_of_nodes}"))
    pods = read_pod_filter(written, mistakes)
    problems = [*twice, *problems_of_readable_members(unread, mistakes)]
    if problems:
        raise WireError(DEFRAGMENTATION, problems)
    return DefragmentationSettings(
        resource=resource,
        low_thresholds=low,
        defragment_thresholds=defragment,
        protection_thresholds=protection,
        number_of_nodes=written.number_of_nodes,
        cool_down=float(written.cool_down_time),
        only_if_emptied=written.only_if_emptied,
        pods=pods,
    )


def read_balance(arguments: Mapping[str, Any]) -> BalanceSettings:
    """Raises WireError."""
    written, unread = convert_readable(BalanceArgs, arguments, BALANCE)
    mistakes = list(shared_problems(written))
    if len(set(written.resources)) < 2 or len(set(written.resources)) < len(written.resources):
        listed = ", ".join(written.resources) or "nothing"
        mistakes.append(Problem("resources", f"must list at least two different resources, lists {listed}"))
    limit = written.max_threshold
    if limit is not None and not 0 <= limit <= 1:
        mistakes.append(Problem("maxThreshold", f"must be from 0 to 1, is {limit:g}"))
    pods = read_pod_filter(written, mistakes)
    problems = problems_of_readable_members(unread, mistakes)
    if problems:
        raise WireError(BALANCE, problems)
    return BalanceSettings(
        resources=tuple(written.resources), max_threshold=limit, cool_down=float(written.cool_down_time), pods=pods
    )


def read_load_aware(arguments: Mapping[str, Any]) -> LoadAwareSettings:
    """Raises WireError."""
    written, unread = convert_readable(LoadAwareArgs, arguments, LOAD_AWARE)
    mistakes = [*shared_problems(written), *_load_problems(written), *_source_problems(written.metrics_utilization)]
    if problem_members(unread).isdisjoint({"thresholds", "targetThresholds"}):
        mistakes += _pair_problems(written)
    pods = read_pod_filter(written, mistakes)
    problems = problems_of_readable_members(unread, mistakes)
    if problems:
        raise WireError(LOAD_AWARE, problems)
    return LoadAwareSettings(
        idle_thresholds=written.thresholds,
        busy_thresholds=written.target_thresholds,
        number_of_nodes=written.number_of_nodes,
        usage_source=_usage_source(written),
        cool_down=float(written.cool_down_time),
        pods=pods,
    )


def _load_problems(written: LoadAwareArgs) -> Iterator[Problem]:
    for field, percents in (("thresholds", written.thresholds), ("targetThresholds", written.target_thresholds)):
        for name, percent in percents.items():
            if name not in (CPU, MEMORY, PODS):
                yield Problem(member_path(field, name), f"only {CPU}, {MEMORY} and {PODS} are measured")
            if not 0 <= percent <= 100:
                yield Problem(member_path(field, name), f"must be from 0 to 100 percent, is {percent:g}")
    if written.number_of_nodes < 0:
        yield Problem("numberOfNodes", f"must not be negative, is {written.number_of_nodes}")
    if parse_duration(written.max_age) <= 0:
        yield Problem("maxAge", f"must be above 0, is {written.max_age}")


def _pair_problems(written: LoadAwareArgs) -> Iterator[Problem]:
    if written.thresholds.keys() != written.target_thresholds.keys() or not written.thresholds:
        yield Problem("targetThresholds", "must have the same resources as thresholds, at least one")
    for name in sorted(written.thresholds.keys() & written.target_thresholds.keys()):
        low, high = written.thresholds[name], written.target_thresholds[name]
        if low > high:
            target = member_path("targetThresholds", name)
            yield Problem(member_path("thresholds", name), f"is {low:g}, above {target}, which is {high:g}")


def _source_problems(written: _UtilizationArgs) -> Iterator[Problem]:
    if written.source not in SOURCES:
        reason = f"expected one of {', '.join(SOURCES)}, got {written.source!r}"
        yield Problem("metricsUtilization.source", reason)
    elif written.prometheus is not None and written.source != PROMETHEUS:
        yield Problem("metricsUtilization.prometheus", f"has no effect while the source is {written.source}")
    elif written.prometheus is not None:
        prometheus = written.prometheus
        required = {
            "nodeLabel": prometheus.node_label,
            "nodes.cpu": prometheus.nodes.cpu,
            "nodes.memory": prometheus.nodes.memory,
            "pods.cpu": prometheus.pods.cpu,
            "pods.memory": prometheus.pods.memory,
        }
        for path, text in required.items():
            if not text:
                yield Problem(f"metricsUtilization.prometheus.{path}", "must not be empty")


def _usage_source(written: LoadAwareArgs) -> UsageSource:
    utilization = written.metrics_utilization
    max_age = float(parse_duration(written.max_age))
    if utilization.source != PROMETHEUS:
        return UsageSource(max_age=max_age)
    prometheus = utilization.prometheus or _PrometheusArgs()
    queries = PrometheusQueries(node_label=prometheus.node_label, nodes=prometheus.nodes, pods=prometheus.pods)
    return UsageSource(max_age=max_age, queries=queries)


def _percent_problems(maps: Mapping[str, Percents]) -> Iterator[Problem]:
    for name, percents in maps.items():
        for resource, percent in percents.items():
            if not 0 <= percent <= 100:
                yield Problem(member_path(name, resource), f"must be from 0 to 100 percent, is {percent:g}")


def _crossing_problems(maps: Mapping[str, Percents]) -> Iterator[Problem]:
    for smaller, larger in (
        ("lowThresholds", "defragmentThresholds"),
        ("defragmentThresholds", "protectionThresholds"),
    ):
        for resource in sorted(maps[smaller].keys() & maps[larger].keys()):
            low, high = maps[smaller][resource], maps[larger][resource]
            if low > high:
                yield Problem(
                    member_path(smaller, resource),
                    f"is {low:g}, above {member_path(larger, resource)}, which is {high:g}",
                )


def shared_problems(written: StrategyArgs) -> Iterator[Problem]:
    """The mistakes in the arguments that every strategy has."""
    if written.cool_down_time < 0:
        yield Problem("coolDownTime", f"must not be negative, is {written.cool_down_time}")
    if written.evictable_namespaces is not None:
        yield from written.evictable_namespaces.problems("evictableNamespaces")


def read_pod_filter(written: StrategyArgs, problems: list[Problem]) -> PodFilter:
    """The pod filter of a strategy. A selector that cannot be read is appended to the problems."""
    return PodFilter.of(written.evictable_namespaces, read_selector(written.label_selector, "labelSelector", problems))


def read_selector(written: SelectorSpec | None, path: str, problems: list[Problem]) -> LabelSelector:
    """A label selector, which selects everything if none is written. If it cannot be read, that is appended to the
    problems."""
    try:
        return selector_from_spec(written)
    except SelectorError as mistake:
        problems.append(Problem(path, str(mistake)))
        return EVERYTHING


def selector_from_spec(written: SelectorSpec | None) -> LabelSelector:
    """Raises SelectorError."""
    return EVERYTHING if written is None else label_selector(written)
