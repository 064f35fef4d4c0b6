"""Reads the `descheduler` section of the configuration: profiles in the shape of descheduler/v1alpha2.

Goes in: the section as a map, and the plugins there are. Comes out: a `DeschedulerPolicy`, or all problems at once,
with their paths. A policy that was written for the upstream descheduler is read as it is, with its apiVersion and kind;
`interval`, `cron` and `timeZone` of a profile, and `dryRun`, are additions. An interval wins over a cron expression; a
profile with neither runs only when triggered. Without profiles there is one, `default`, that defragments.

    descheduler:
      maxNoOfPodsToEvictPerNode: 5
      profiles:
      - name: pack
        interval: 10m
        pluginConfig:
        - {name: Defragmentation, args: {lowThresholds: {cpu: 30}, coolDownTime: 600}}
        - {name: DefaultEvictor, args: {minReplicas: 2}}
        plugins: {balance: {enabled: [Defragmentation]}}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from restow.model.cron import CronError, Schedule, parse_schedule, parse_zone
from restow.model.objects import Duration
from restow.model.problems import Problem
from restow.model.selectors import LabelSelector, SelectorError, parse_label_selector
from restow.model.times import parse_duration
from restow.model.wire import WireError, convert_readable
from restow.planning.arguments import DEFRAGMENTATION, LOAD_AWARE, PROMETHEUS, read_defragmentation, read_load_aware
from restow.planning.cycle_limits import CycleLimits
from restow.planning.descheduling.framework import Evictor, Guard, Planner, Plugin, Remover
from restow.planning.descheduling.metrics_providers import (
    METRICS_PROVIDERS_FIELD,
    MetricsProviderSection,
    read_metrics_providers,
)
from restow.planning.descheduling.policy import (
    DEFAULT_EVICTOR,
    SECTION,
    DeschedulerPolicy,
    DeschedulerProfile,
    NodeSelectorGuard,
)
from restow.planning.plan_request import PeerPlugins

API_VERSION, KIND = "descheduler/v1alpha2", "DeschedulerPolicy"
MIN_INTERVAL: Final = 1.0
"""Seconds. Every cycle takes the Lease `restow-cycle`."""
_REPLACEMENTS: Final = {
    "HighNodeUtilization": "Defragmentation empties nodes that are below its lowThresholds",
    "LowNodeUtilization": "LoadAware relieves nodes that really use more than its targetThresholds",
}
"""Plugins of the upstream descheduler that do not exist here, and what does the same."""


# --- as written -------------------------------------------------------------------------------------------------------


class _PluginConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    args: dict[str, Any] = {}


class _PluginSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    enabled: list[str] = []
    disabled: list[str] = []


class _ExtensionPoints(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    deschedule: _PluginSet = _PluginSet()
    balance: _PluginSet = _PluginSet()
    filter: _PluginSet = _PluginSet()
    preevictionfilter: _PluginSet = _PluginSet()
    sort: _PluginSet = _PluginSet()
    presort: _PluginSet = _PluginSet()


class _ProfileSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    name: str = "default"
    interval: Duration | None = None
    cron: str | None = None
    time_zone: str | None = None
    plugin_config: list[_PluginConfig] = []
    plugins: _ExtensionPoints = _ExtensionPoints()

    def enabled_at(self, *points: str) -> Iterator[str]:
        """The plugins that are enabled at these extension points, without repetitions."""
        seen: set[str] = set()
        for point in points:
            plugins: _PluginSet = getattr(self.plugins, point)
            for name in plugins.enabled:
                if name not in seen and name not in plugins.disabled:
                    seen.add(name)
                    yield name


class _MetricsCollector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """As in older versions of upstream. It is accepted and not used: metrics.k8s.io is read by plugins that need it."""

    enabled: bool = True


class _DeschedulerSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    dry_run: bool = False
    node_selector: str | None = None
    max_no_of_pods_to_evict_per_node: int | None = None
    max_no_of_pods_to_evict_per_namespace: int | None = None
    max_no_of_pods_to_evict_total: int | None = None
    grace_period_seconds: int | None = None
    eviction_failure_event_notification: bool = True
    metrics_collector: _MetricsCollector | None = None
    metrics_providers: list[MetricsProviderSection] = []
    profiles: list[_ProfileSection] | None = None


_DEFAULT_PROFILE: Final = _ProfileSection(plugins=_ExtensionPoints(balance=_PluginSet(enabled=["Defragmentation"])))


# --- as read ----------------------------------------------------------------------------------------------------------


def read_policy(section: Mapping[str, Any], plugins: Mapping[str, Plugin]) -> DeschedulerPolicy:
    """Check the section. Raises WireError with every problem."""
    written, problems = convert_readable(_DeschedulerSection, section, SECTION)
    problems += _general_problems(written)
    prometheus = read_metrics_providers(written.metrics_providers, problems)
    reader = _ProfileReader(written, plugins, problems)
    profiles = [
        reader.read(profile, f"profiles[{number}]")
        for number, profile in enumerate([_DEFAULT_PROFILE] if written.profiles is None else written.profiles)
    ]
    try:
        nodes = parse_label_selector(written.node_selector or "")
    except SelectorError as error:
        problems.append(Problem("nodeSelector", str(error)))
    if problems:
        raise WireError(SECTION, problems)
    return DeschedulerPolicy(
        profiles=tuple(_limited_to_nodes(profile, nodes) for profile in profiles),
        dry_run=written.dry_run,
        grace_seconds=written.grace_period_seconds,
        prometheus=prometheus,
        peers=_peer_plugins(profiles),
    )


def _limited_to_nodes(profile: DeschedulerProfile, nodes: LabelSelector) -> DeschedulerProfile:
    return profile if nodes.everything else replace(profile, guards=(NodeSelectorGuard(nodes), *profile.guards))


def _peer_plugins(profiles: Sequence[DeschedulerProfile]) -> PeerPlugins:
    """What all profiles together aim at."""
    named = [
        (planner.name, profile.arguments.get(planner.name, {})) for profile in profiles for planner in profile.planners
    ]
    return PeerPlugins(
        defragmentation=tuple(read_defragmentation(arguments) for name, arguments in named if name == DEFRAGMENTATION),
        load_aware=tuple(read_load_aware(arguments) for name, arguments in named if name == LOAD_AWARE),
    )


def _general_problems(written: _DeschedulerSection) -> Iterator[Problem]:
    """What is wrong outside of the profiles, although all types are right."""
    for field, value, known in (("apiVersion", written.api_version, API_VERSION), ("kind", written.kind, KIND)):
        if value not in (None, known):
            yield Problem(field, f"expected {known}, got {value!r}")
    for field, number in (
        ("maxNoOfPodsToEvictPerNode", written.max_no_of_pods_to_evict_per_node),
        ("maxNoOfPodsToEvictPerNamespace", written.max_no_of_pods_to_evict_per_namespace),
        ("maxNoOfPodsToEvictTotal", written.max_no_of_pods_to_evict_total),
        ("gracePeriodSeconds", written.grace_period_seconds),
    ):
        if number is not None and number < 0:
            yield Problem(field, f"must not be negative, is {number}")
    if not written.eviction_failure_event_notification:
        reason = "cannot be switched off: an Event is recorded for every failed eviction"
        yield Problem("evictionFailureEventNotification", reason)
    names = [profile.name for profile in written.profiles or ()]
    for number, name in enumerate(names):
        if name in names[:number]:
            yield Problem(f"profiles[{number}].name", f"another profile is called {name!r}, too")
    if written.profiles == []:
        yield Problem("profiles", "at least one is needed")


class _ProfileReader:
    """Reads the profiles of one section, and adds what is wrong to `problems`."""

    def __init__(self, section: _DeschedulerSection, plugins: Mapping[str, Plugin], problems: list[Problem]) -> None:
        self._plugins = plugins
        self._problems = problems
        self._has_prometheus = any(provider.source == PROMETHEUS for provider in section.metrics_providers)
        self._limits = CycleLimits(
            per_node=section.max_no_of_pods_to_evict_per_node,
            per_namespace=section.max_no_of_pods_to_evict_per_namespace,
            total=section.max_no_of_pods_to_evict_total,
        )

    def read(self, written: _ProfileSection, path: str) -> DeschedulerProfile:
        if not written.name:
            self._problems.append(Problem(f"{path}.name", "must not be empty"))
        self._check_extension_points(written, path)
        arguments = self._read_arguments(written, path)
        plugins = [self._plugins[name] for name in written.enabled_at("deschedule", "balance") if name in self._plugins]
        return DeschedulerProfile(
            name=written.name,
            planners=tuple(plugin for plugin in plugins if isinstance(plugin, Planner)),
            removers=tuple(plugin for plugin in plugins if isinstance(plugin, Remover)),
            guards=tuple(self._make_guards(written, arguments, path)),
            arguments=arguments,
            interval=self._read_interval(written, path),
            schedule=self._read_schedule(written, path),
            limits=self._limits,
        )

    def _check_extension_points(self, written: _ProfileSection, path: str) -> None:
        """Every plugin must exist, and be enabled at an extension point that it has."""
        for point in ("presort", "sort"):
            if list(written.enabled_at(point)):
                reason = "is not supported: every plugin decides by itself which pods it moves first"
                self._problems.append(Problem(f"{path}.plugins.{point}", reason))
        for point in ("deschedule", "balance", "filter", "preevictionfilter"):
            enabled: _PluginSet = getattr(written.plugins, point)
            for number, name in enumerate(enabled.enabled):
                if reason := self._misplaced(name, point):
                    self._problems.append(Problem(f"{path}.plugins.{point}.enabled[{number}]", reason))

    def _misplaced(self, name: str, point: str) -> str:
        """Why a plugin cannot be enabled at an extension point; empty if it can."""
        plugin = self._plugins.get(name)
        if plugin is None:
            return self._unknown_plugin(name)
        if isinstance(plugin, Evictor):
            return f"{name} is an evictor" if point in ("deschedule", "balance") else ""
        return "" if plugin.point == point else f"{name} belongs under {plugin.point}"

    def _unknown_plugin(self, name: str) -> str:
        if name in _REPLACEMENTS:
            return f"{name} is not known here: {_REPLACEMENTS[name]}"
        return f"no plugin is called {name!r}; there are {', '.join(sorted(self._plugins))}"

    def _read_arguments(self, written: _ProfileSection, path: str) -> dict[str, dict[str, Any]]:
        """The arguments by plugin. The plugins themselves check them."""
        arguments: dict[str, dict[str, Any]] = {}
        for number, config in enumerate(written.plugin_config):
            place = f"{path}.pluginConfig[{number}]"
            plugin = self._plugins.get(config.name)
            if plugin is None:
                self._problems.append(Problem(f"{place}.name", self._unknown_plugin(config.name)))
            elif config.name in arguments:
                self._problems.append(Problem(f"{place}.name", f"{config.name} is listed twice"))
            else:
                arguments[config.name] = config.args
                self._problems += self._argument_problems(plugin, config.args, f"{place}.args")
        return arguments

    def _argument_problems(self, plugin: Plugin, arguments: Mapping[str, Any], path: str) -> Iterator[Problem]:
        check = plugin.guard if isinstance(plugin, Evictor) else plugin.check
        usage_source = plugin.usage_source if isinstance(plugin, Planner) else None
        try:
            check(arguments)
            if usage_source is not None and usage_source(arguments).queries is not None and not self._has_prometheus:
                reason = f"{METRICS_PROVIDERS_FIELD} lists no {PROMETHEUS}"
                yield Problem(f"{path}.metricsUtilization.source", reason)
        except WireError as error:
            for problem in error.problems:
                yield Problem(f"{path}.{problem.path}" if problem.path else path, problem.message)

    def _make_guards(
        self, written: _ProfileSection, arguments: Mapping[str, Mapping[str, Any]], path: str
    ) -> Iterator[Guard]:
        """The default evictor protects unless it is disabled; other evictors where they are enabled."""
        if any(problem.path.startswith(f"{path}.pluginConfig") for problem in self._problems):
            return  # a guard cannot be made from arguments that were refused
        disabled = {*written.plugins.filter.disabled, *written.plugins.preevictionfilter.disabled}
        default = [] if disabled & {DEFAULT_EVICTOR, "*"} else [DEFAULT_EVICTOR]
        for name in dict.fromkeys([*default, *written.enabled_at("filter", "preevictionfilter")]):
            plugin = self._plugins.get(name)
            if isinstance(plugin, Evictor):
                yield plugin.guard(arguments.get(name, {}))

    def _read_interval(self, written: _ProfileSection, path: str) -> float | None:
        if written.interval is None:
            return None
        seconds = parse_duration(written.interval)
        if seconds < MIN_INTERVAL:
            reason = f"must be at least {MIN_INTERVAL:g}s, is {written.interval}; leave it out for none"
            self._problems.append(Problem(f"{path}.interval", reason))
        return seconds

    def _read_schedule(self, written: _ProfileSection, path: str) -> Schedule | None:
        if written.cron is None:
            if written.time_zone is not None:
                self._problems.append(Problem(f"{path}.timeZone", "has no effect without cron"))
            return None
        zone = written.time_zone
        try:
            parse_zone(zone)
        except CronError as error:
            self._problems.append(Problem(f"{path}.timeZone", str(error)))
            zone = None
        try:
            schedule = parse_schedule(written.cron, zone)
        except CronError as error:
            self._problems.append(Problem(f"{path}.cron", str(error)))
            return None
        if schedule.after(0.0) is None:
            self._problems.append(Problem(f"{path}.cron", f"no day matches {written.cron!r}"))
        return schedule
