"""The `descheduler` section of the configuration: profiles in the shape of descheduler/v1alpha2, and when they run.

Goes in: the section as a map, and what plugins there are. Comes out: a `Policy`. A file written for the upstream
descheduler is read as it is, its apiVersion and kind included; `interval`, `cron` and `timeZone` of a profile, and
`dryRun`, are added. An interval wins over a cron expression; a profile with neither runs only when told to. Without
profiles there is one, `default`, that defragments when told to. Every mistake is told at once, with its path.

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

from restow.eviction.protections import PodContext
from restow.model.cron import CronError, Schedule, parse_schedule, parse_zone
from restow.model.objects import Duration, Pod
from restow.model.problems import Problem
from restow.model.selectors import LabelSelector, SelectorError, parse_label_selector
from restow.model.times import parse_duration
from restow.model.wire import WireError, convert_readable
from restow.planning.arguments import (
    DEFRAGMENTATION,
    LOAD_AWARE,
    PROMETHEUS,
    read_defragmentation,
    read_load_aware,
)
from restow.planning.cycle_limits import CycleLimits
from restow.planning.descheduling.framework import Evictor, Guard, Planner, Plugin, Remover
from restow.planning.descheduling.metrics_providers import FIELD, PrometheusProvider, WrittenProvider, read_providers
from restow.planning.plan_request import PeerPlugins
from restow.planning.usage_samples import UsageSource

SECTION: Final = "descheduler"
API_VERSION, KIND = "descheduler/v1alpha2", "DeschedulerPolicy"
DEFAULT_EVICTOR: Final = "DefaultEvictor"
MIN_INTERVAL: Final = 1.0
"""Seconds of an interval: every cycle asks the API server who else plans."""
_INSTEAD: Final = {
    "HighNodeUtilization": "Defragmentation empties nodes that are below its lowThresholds",
    "LowNodeUtilization": "LoadAware relieves nodes that really use more than its targetThresholds",
}
"""Plugins of the upstream descheduler, and who does here what they do."""
_NO_POINT: Final = "is a point at which no plugin is asked; what moves first is for each plugin to say"


class _PluginConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    args: dict[str, Any] = {}


class _Switches(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    enabled: list[str] = []
    disabled: list[str] = []


class _Points(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    deschedule: _Switches = _Switches()
    balance: _Switches = _Switches()
    filter: _Switches = _Switches()
    preevictionfilter: _Switches = _Switches()
    sort: _Switches = _Switches()
    presort: _Switches = _Switches()


class _Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    name: str = "default"
    interval: Duration | None = None
    cron: str | None = None
    time_zone: str | None = None
    plugin_config: list[_PluginConfig] = []
    plugins: _Points = _Points()


class _MetricsCollector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """As upstream once had it; metrics.k8s.io is asked wherever somebody wants to know."""

    enabled: bool = True


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
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
    metrics_providers: list[WrittenProvider] = []
    profiles: list[_Profile] | None = None


_DEFAULT: Final = _Profile(plugins=_Points(balance=_Switches(enabled=["Defragmentation"])))


class NodeSelectorGuard(msgspec.Struct, frozen=True):
    """Guards the pods of nodes that a selector leaves out."""

    selector: LabelSelector

    def refusal_reason(self, pod: Pod, around: PodContext) -> str:
        if self.selector.matches(around.node_labels):
            return ""
        return f"nodeSelector {self.selector} leaves out its node"


class DeschedulerProfile(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    planners: tuple[Planner, ...] = ()
    removers: tuple[Remover, ...] = ()
    guards: tuple[Guard, ...] = ()
    arguments: Mapping[str, Mapping[str, Any]] = {}
    """By plugin."""
    interval: float | None = None
    """Seconds between two cycles."""
    schedule: Schedule | None = None
    limits: CycleLimits = CycleLimits()

    @property
    def cool_down(self) -> float:
        """The longest that its arguments ask for, in seconds: those of plugins that it does not enable, too, because
        `restow plan` goes by them."""
        asked = (arguments.get("coolDownTime") for arguments in self.arguments.values())
        return max((float(seconds) for seconds in asked if isinstance(seconds, int)), default=0.0)

    def metering(self) -> Iterator[UsageSource]:
        """How use is measured for those of its plugins that ask."""
        for one in self.planners:
            if one.metering is not None:
                yield one.metering(self.arguments.get(one.name, {}))


class DeschedulerPolicy(msgspec.Struct, frozen=True, kw_only=True):
    profiles: tuple[DeschedulerProfile, ...]
    dry_run: bool = False
    """Plan and say what would be done, and do nothing."""
    grace_seconds: int | None = None
    prometheus: PrometheusProvider | None = None
    regard: PeerPlugins = PeerPlugins()
    """What its plugins are after, whichever profile they are in."""

    @property
    def cool_down(self) -> float:
        """The longest that a plugin asks for, in seconds."""
        return max((one.cool_down for one in self.profiles), default=0.0)

    def metering(self, profile: DeschedulerProfile) -> UsageSource | None:
        """How use is measured in cycles of a profile, once for all of its plugins: as the first of them has it that
        asks, else as plugins of other profiles have it, whom it must not undo."""
        return next((one for each in (profile, *self.profiles) for one in each.metering()), None)

    def profile(self, name: str | None) -> DeschedulerProfile:
        """The one called so; the first without a name. Raises LookupError with a sentence."""
        found = next((one for one in self.profiles if name in (None, one.name)), None)
        if found is None:
            known = ", ".join(one.name for one in self.profiles)
            raise LookupError(f"no profile is called {name!r}; there are {known}")
        return found


def read_policy(section: Mapping[str, Any], plugins: Mapping[str, Plugin]) -> DeschedulerPolicy:
    """Check what is written. Raises WireError with every problem."""
    written, problems = convert_readable(_Section, section, SECTION)
    problems += _general_problems(written)
    limits = CycleLimits(
        per_node=written.max_no_of_pods_to_evict_per_node,
        per_namespace=written.max_no_of_pods_to_evict_per_namespace,
        total=written.max_no_of_pods_to_evict_total,
    )
    prometheus = read_providers(written.metrics_providers, problems)
    has_prometheus = any(one.source == PROMETHEUS for one in written.metrics_providers)
    profiles = [
        _read_profile(one, f"profiles[{number}]", limits, plugins, problems, has_prometheus=has_prometheus)
        for number, one in enumerate([_DEFAULT] if written.profiles is None else written.profiles)
    ]
    try:
        nodes = parse_label_selector(written.node_selector or "")
    except SelectorError as error:
        problems.append(Problem("nodeSelector", str(error)))
    if problems:
        raise WireError(SECTION, problems)
    if not nodes.everything:
        profiles = [replace(one, guards=(NodeSelectorGuard(nodes), *one.guards)) for one in profiles]
    return DeschedulerPolicy(
        profiles=tuple(profiles),
        dry_run=written.dry_run,
        grace_seconds=written.grace_period_seconds,
        prometheus=prometheus,
        regard=_regard(profiles),
    )


def _regard(profiles: Sequence[DeschedulerProfile]) -> PeerPlugins:
    """What all profiles together are after."""
    named = [(one.name, each.arguments.get(one.name, {})) for each in profiles for one in each.planners]
    return PeerPlugins(
        defragmentation=tuple(read_defragmentation(arguments) for name, arguments in named if name == DEFRAGMENTATION),
        load_aware=tuple(read_load_aware(arguments) for name, arguments in named if name == LOAD_AWARE),
    )


def _general_problems(written: _Section) -> Iterator[Problem]:
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
        yield Problem("evictionFailureEventNotification", "cannot be switched off: every failure is told by an Event")
    names = [one.name for one in written.profiles or ()]
    for number, name in enumerate(names):
        if name in names[:number]:
            yield Problem(f"profiles[{number}].name", f"another profile is called {name!r}, too")
    if written.profiles == []:
        yield Problem("profiles", "at least one is needed")


def _read_profile(
    written: _Profile,
    path: str,
    limits: CycleLimits,
    plugins: Mapping[str, Plugin],
    problems: list[Problem],
    *,
    has_prometheus: bool,
) -> DeschedulerProfile:
    if not written.name:
        problems.append(Problem(f"{path}.name", "must not be empty"))
    problems += _point_problems(written, path, plugins)
    arguments = _arguments(written, path, plugins, problems, has_prometheus=has_prometheus)
    named = [plugins[name] for name in _enabled(written, "deschedule", "balance") if name in plugins]
    return DeschedulerProfile(
        name=written.name,
        planners=tuple(one for one in named if isinstance(one, Planner)),
        removers=tuple(one for one in named if isinstance(one, Remover)),
        guards=tuple(_guards(written, arguments, plugins, problems, path)),
        arguments=arguments,
        interval=_interval(written, path, problems),
        schedule=_schedule(written, path, problems),
        limits=limits,
    )


def _enabled(written: _Profile, *points: str) -> Iterator[str]:
    """The plugins that are switched on at these points, each once."""
    seen: set[str] = set()
    for point in points:
        switches: _Switches = getattr(written.plugins, point)
        for name in switches.enabled:
            if name not in seen and name not in switches.disabled:
                seen.add(name)
                yield name


def _point_problems(written: _Profile, path: str, plugins: Mapping[str, Plugin]) -> Iterator[Problem]:
    for point in ("presort", "sort"):
        if list(_enabled(written, point)):
            yield Problem(f"{path}.plugins.{point}", _NO_POINT)
    for point in ("deschedule", "balance", "filter", "preevictionfilter"):
        switches: _Switches = getattr(written.plugins, point)
        for number, name in enumerate(switches.enabled):
            plugin, where = plugins.get(name), f"{path}.plugins.{point}.enabled[{number}]"
            planned = isinstance(plugin, Planner | Remover)
            if plugin is None:
                yield Problem(where, _nobody(name, plugins))
            elif planned != (point in ("deschedule", "balance")):
                kind = f"belongs under {plugin.point}" if isinstance(plugin, Planner | Remover) else "is an evictor"
                yield Problem(where, f"{name} {kind}")
            elif isinstance(plugin, Planner | Remover) and plugin.point != point:
                yield Problem(where, f"{name} belongs under {plugin.point}")


def _nobody(name: str, plugins: Mapping[str, Plugin]) -> str:
    if name in _INSTEAD:
        return f"{name} is not known here: {_INSTEAD[name]}"
    return f"no plugin is called {name!r}; there are {', '.join(sorted(plugins))}"


def _arguments(
    written: _Profile, path: str, plugins: Mapping[str, Plugin], problems: list[Problem], *, has_prometheus: bool
) -> dict[str, dict[str, Any]]:
    """The arguments by plugin, checked by the plugins themselves."""
    found: dict[str, dict[str, Any]] = {}
    for number, one in enumerate(written.plugin_config):
        where = f"{path}.pluginConfig[{number}]"
        plugin = plugins.get(one.name)
        if plugin is None:
            problems.append(Problem(f"{where}.name", _nobody(one.name, plugins)))
        elif one.name in found:
            problems.append(Problem(f"{where}.name", f"{one.name} has arguments already"))
        else:
            found[one.name] = one.args
            check = plugin.guard if isinstance(plugin, Evictor) else plugin.check
            metering = plugin.metering if isinstance(plugin, Planner) else None
            try:
                check(one.args)
                if metering is not None and metering(one.args).queries is not None and not has_prometheus:
                    told = f"{FIELD} names no {PROMETHEUS} to ask"
                    problems.append(Problem(f"{where}.args.metricsUtilization.source", told))
            except WireError as error:
                problems += [
                    Problem(f"{where}.args.{each.path}" if each.path else f"{where}.args", each.message)
                    for each in error.problems
                ]
    return found


def _guards(
    written: _Profile,
    arguments: Mapping[str, Mapping[str, Any]],
    plugins: Mapping[str, Plugin],
    problems: list[Problem],
    path: str,
) -> Iterator[Guard]:
    """The default evictor protects unless it is switched off; others where they are named."""
    disabled = {*written.plugins.filter.disabled, *written.plugins.preevictionfilter.disabled}
    default = [] if disabled & {DEFAULT_EVICTOR, "*"} else [DEFAULT_EVICTOR]
    names = dict.fromkeys([*default, *_enabled(written, "filter", "preevictionfilter")])
    for name in names:
        plugin = plugins.get(name)
        if isinstance(plugin, Evictor) and not any(one.path.startswith(f"{path}.pluginConfig") for one in problems):
            yield plugin.guard(arguments.get(name, {}))


def _interval(written: _Profile, path: str, problems: list[Problem]) -> float | None:
    if written.interval is None:
        return None
    seconds = parse_duration(written.interval)
    if seconds < MIN_INTERVAL:
        told = f"must be at least {MIN_INTERVAL:g}s, is {written.interval}; leave it out for none"
        problems.append(Problem(f"{path}.interval", told))
    return seconds


def _schedule(written: _Profile, path: str, problems: list[Problem]) -> Schedule | None:
    if written.cron is None:
        if written.time_zone is not None:
            problems.append(Problem(f"{path}.timeZone", "is without effect without cron"))
        return None
    zone = written.time_zone
    try:
        parse_zone(zone)
    except CronError as error:
        problems.append(Problem(f"{path}.timeZone", str(error)))
        zone = None
    try:
        schedule = parse_schedule(written.cron, zone)
    except CronError as error:
        problems.append(Problem(f"{path}.cron", str(error)))
        return None
    if schedule.after(0.0) is None:
        problems.append(Problem(f"{path}.cron", f"no such day ever comes: {written.cron!r}"))
    return schedule
