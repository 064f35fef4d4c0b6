"""From the `scheduler` section of the configuration to a scheduler: plugins by name, their order, weights, arguments.

Goes in: the section as a map, and what plugins there are. Comes out: a `Profile`. Built-in plugins all run unless one
is switched off by name (`enabled: false`), because leaving out a filter would silently ignore a constraint; listing one
sets its weight and arguments. Plugins of other packages are found through the entry points `restow.plugins`; they run
when they are listed, after the built-in ones. All mistakes are reported at once, each with its path.

    scheduler:
      schedulerNames: [restow]
      actions: enqueue, reserve, allocate, backfill
      tiers:
      - plugins:
        - {name: NodeResourcesFit, weight: 1, arguments: {scoringStrategy: {type: MostAllocated}}}
        - {name: ImageLocality, enabled: false}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint
from typing import Any, Final

import msgspec

from restow.model.problems import Problem
from restow.model.wire import WireError, convert_readable
from restow.scheduling.actions.allocate import allocate
from restow.scheduling.actions.backfill import backfill
from restow.scheduling.actions.enqueue import admit_all, enqueue
from restow.scheduling.actions.reserve import take_reserved_seats
from restow.scheduling.cluster_events import BUILT_IN_EVENTS, EnqueueExtensions, QueueingHints
from restow.scheduling.engine import Engine
from restow.scheduling.framework import ArgumentError, Plugin, PreEnqueuePlugin, QueueSortPlugin
from restow.scheduling.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from restow.scheduling.plugins.bin_packing import BinPacking
from restow.scheduling.plugins.image_locality import ImageLocality
from restow.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from restow.scheduling.plugins.node_affinity import NodeAffinity
from restow.scheduling.plugins.node_declared_features import NodeDeclaredFeatures
from restow.scheduling.plugins.node_name import NodeName
from restow.scheduling.plugins.node_ports import NodePorts
from restow.scheduling.plugins.node_resources_fit import NodeResourcesFit
from restow.scheduling.plugins.node_unschedulable import NodeUnschedulable
from restow.scheduling.plugins.node_volume_limits import NodeVolumeLimits
from restow.scheduling.plugins.queue_node_lock import QueueNodeLock
from restow.scheduling.plugins.scheduling_gates import SchedulingGates
from restow.scheduling.plugins.taint_toleration import TaintToleration
from restow.scheduling.plugins.topology_spread import PodTopologySpread
from restow.scheduling.plugins.unsupported import Unsupported
from restow.scheduling.plugins.volume_binding import VolumeBinding
from restow.scheduling.plugins.volume_restrictions import VolumeRestrictions
from restow.scheduling.plugins.volume_zone import VolumeZone
from restow.scheduling.session import Action

ENTRY_POINTS = "restow.plugins"

Make = Callable[[Mapping[str, Any] | None], Plugin]

DEFAULT: Final[Mapping[type[Plugin], int]] = {
    SchedulingGates: 0,
    Unsupported: 0,
    NodeUnschedulable: 0,
    NodeName: 0,
    TaintToleration: 3,
    NodeAffinity: 2,
    QueueNodeLock: 0,
    NodePorts: 0,
    NodeResourcesFit: 1,
    VolumeRestrictions: 0,
    NodeVolumeLimits: 0,
    VolumeBinding: 0,
    VolumeZone: 0,
    PodTopologySpread: 2,
    InterPodAffinity: 2,
    NodeResourcesBalancedAllocation: 1,
    ImageLocality: 1,
    NodeDeclaredFeatures: 0,
}
"""The plugins that run by default, in kube-scheduler's order and with its weights; 0 for plugins that do not score. The
node locks of queues are filtered after node affinity."""

ON_DEMAND: Final[tuple[type[Plugin], ...]] = (BinPacking,)
"""Built-in plugins that run only when they are listed."""

_RENAMED_MEMBERS: Final[Mapping[str, str]] = {
    "normalize": "normalize_score",
    "wakes_on": "events_to_register",
    "judge": "row_filter of RowFilter",
    "appraise": "row_score of RowScore",
    "by_room": "the base RoomOnly",
    "by_class": "the base ClassFilter",
    "boards": "domain_results of DomainFilter",
    "ruled_out": "excluded_by_name of NodeNameFilter",
    "demanded": "counted_resources of ResourceFilter",
}
"""Members that plugins had under other names: without this check they would be ignored silently, `demanded` with its
part in the check before a pod is bound."""
_OTHER_NAMES: Final = {QueueNodeLock.other_name: QueueNodeLock.name}
"""Names that the configuration accepts beside a plugin's own."""

_ACTIONS: Final[Mapping[str, Action]] = {
    "enqueue": enqueue,
    "reserve": take_reserved_seats,
    "allocate": allocate,
    "backfill": backfill,
}
_HEAVIEST: Final = 1000


class PluginEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    weight: int | None = None
    enabled: bool = True
    arguments: dict[str, Any] | None = None


class Tier(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    plugins: list[PluginEntry] = []


class SchedulerSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The section as written. Tiers only group: plugins run in the order listed, tier after tier."""

    scheduler_names: list[str] = msgspec.field(default_factory=lambda: ["restow"])
    actions: str | list[str] = "enqueue, reserve, allocate, backfill"
    tiers: list[Tier] = []


class Profile(msgspec.Struct, frozen=True):
    """A scheduler, ready to use."""

    engine: Engine
    actions: tuple[Action, ...]
    pre_enqueue: tuple[PreEnqueuePlugin, ...]
    hints: QueueingHints
    scheduler_names: frozenset[str]


def read_profile(section: Mapping[str, Any], others: Mapping[str, EntryPoint] | None = None) -> Profile:
    """Build what the section describes. Raises WireError with every problem."""
    written, problems = convert_readable(SchedulerSection, section, "scheduler")
    actions = _actions(written.actions, problems)
    if not all(written.scheduler_names) or not written.scheduler_names:
        problems.append(Problem("schedulerNames", "at least one name is needed, and none may be empty"))
    plugins, weights = _plugins(written.tiers, others or {}, problems)
    sorting = [plugin for plugin in plugins if isinstance(plugin, QueueSortPlugin)]
    if len(sorting) > 1:
        named = " and ".join(plugin.name for plugin in sorting)
        problems.append(Problem("tiers", f"one plugin at most may sort the queue, {named} do"))
    if problems:
        raise WireError("scheduler", problems)
    return Profile(
        Engine(plugins, weights),
        actions,
        tuple(plugin for plugin in plugins if isinstance(plugin, PreEnqueuePlugin)),
        _queueing_hints(plugins),
        frozenset(written.scheduler_names),
    )


def _actions(written: str | Sequence[str], problems: list[Problem]) -> tuple[Action, ...]:
    names = [name.strip() for name in written.split(",")] if isinstance(written, str) else list(written)
    for number, name in enumerate(names):
        path = "actions" if isinstance(written, str) else f"actions[{number}]"
        if name not in _ACTIONS:
            problems.append(Problem(path, f"no action is called {name!r}; there are {', '.join(_ACTIONS)}"))
        elif name in names[:number]:
            problems.append(Problem(path, f"{name} is listed twice"))
    actions = [_ACTIONS[name] for name in names if name in _ACTIONS]
    return tuple(actions if enqueue in actions else [admit_all, *actions])


def _plugins(
    tiers: Sequence[Tier], others: Mapping[str, EntryPoint], problems: list[Problem]
) -> tuple[list[Plugin], dict[str, int]]:
    listed = dict(_listed(tiers, problems))
    built_in = {kind.name: kind for kind in (*DEFAULT, *ON_DEMAND)}
    names = [kind.name for kind in DEFAULT] + [name for name in listed if name not in {kind.name for kind in DEFAULT}]
    plugins: list[Plugin] = []
    weights = {kind.name: weight for kind, weight in DEFAULT.items() if weight}
    for name in names:
        path, entry = listed.get(name, ("", PluginEntry(name)))
        kind: Make | None = built_in.get(name) or _load(name, path, others, [*built_in, *sorted(others)], problems)
        if kind is None or not entry.enabled:
            continue
        plugin = _make(kind, path, entry, problems)
        if plugin is not None:
            plugins.append(plugin)
        if entry.weight is not None:
            weights[name] = entry.weight
    return plugins, weights


def _listed(tiers: Sequence[Tier], problems: list[Problem]) -> Iterator[tuple[str, tuple[str, PluginEntry]]]:
    seen: set[str] = set()
    for number, tier in enumerate(tiers):
        for place, entry in enumerate(tier.plugins):
            path = f"tiers[{number}].plugins[{place}]"
            name = _OTHER_NAMES.get(entry.name, entry.name)
            if name in seen:
                problems.append(Problem(f"{path}.name", f"{entry.name} is listed twice"))
                continue
            if entry.weight is not None and not 0 < entry.weight <= _HEAVIEST:
                problems.append(Problem(f"{path}.weight", f"must be from 1 to {_HEAVIEST}, is {entry.weight}"))
            seen.add(name)
            yield name, (path, entry)


def _load(
    name: str, path: str, others: Mapping[str, EntryPoint], known: Sequence[str], problems: list[Problem]
) -> Make | None:
    """A plugin of another package, by its entry point; whatever its code raises is a problem of the section."""
    if name not in others:
        problems.append(Problem(f"{path}.name", f"no plugin is called {name!r}; there are {', '.join(known)}"))
        return None
    try:
        kind = others[name].load()
    except Exception as error:
        problems.append(Problem(f"{path}.name", f"{name} cannot be loaded: {error}"))
        return None
    if not (isinstance(kind, type) and issubclass(kind, Plugin)) or getattr(kind, "name", None) != name:
        problems.append(Problem(f"{path}.name", f"{others[name].value} is not a plugin called {name}"))
        return None
    outdated = [f"{old} (now {new})" for old, new in _RENAMED_MEMBERS.items() if hasattr(kind, old)]
    missing = sorted(kind.__abstractmethods__)
    if outdated:
        problems.append(Problem(f"{path}.name", f"{name} defines {', '.join(outdated)} of an earlier plugin interface"))
    elif missing:
        problems.append(Problem(f"{path}.name", f"{name} does not define {', '.join(missing)}"))
    return None if outdated or missing else kind


def _make(kind: Make, path: str, entry: PluginEntry, problems: list[Problem]) -> Plugin | None:
    try:
        return kind(entry.arguments)
    except ArgumentError as error:
        problems += [Problem(f"{path}.arguments", problem) for problem in error.problems]
    return None


def _queueing_hints(plugins: Sequence[Plugin]) -> QueueingHints:
    """The events of the built-in plugins, and of plugins that register their own."""
    own = {plugin.name: plugin.events_to_register() for plugin in plugins if isinstance(plugin, EnqueueExtensions)}
    return QueueingHints({**BUILT_IN_EVENTS, **own})
