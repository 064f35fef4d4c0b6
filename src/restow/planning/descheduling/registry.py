"""All plugins of the descheduler: the built-in ones, and those of other packages."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint
from typing import Final

from restow.model.problems import Problem
from restow.model.wire import WireError
from restow.planning.arguments import (
    BALANCE,
    DEFRAGMENTATION,
    LOAD_AWARE,
    read_balance,
    read_defragmentation,
    read_load_aware,
)
from restow.planning.balance import plan_balance
from restow.planning.defragmentation import plan_defragmentation
from restow.planning.descheduling.default_evictor import DefaultEvictor
from restow.planning.descheduling.framework import Evictor, Planner, Plugin, Remover
from restow.planning.descheduling.plugins import (
    anti_affinity,
    duplicates,
    failed_pods,
    life_time,
    node_affinity,
    node_taints,
    restarts,
    topology_spread,
)
from restow.planning.descheduling.policy import DEFAULT_EVICTOR, SECTION
from restow.planning.load_aware import plan_load_aware
from restow.planning.optimal.plugin import OPTIMAL, read_optimal, run_optimal_plugin

ENTRY_POINTS: Final = "restow.descheduler"

BUILT_IN_PLUGINS: Final[tuple[Plugin, ...]] = (
    Planner(name=DEFRAGMENTATION, point="balance", plan=plan_defragmentation, check=read_defragmentation),
    Planner(name=BALANCE, point="balance", plan=plan_balance, check=read_balance),
    Planner(
        name=LOAD_AWARE,
        point="balance",
        plan=plan_load_aware,
        check=read_load_aware,
        usage_source=lambda arguments: read_load_aware(arguments).usage_source,
    ),
    Planner(name=OPTIMAL, point="balance", plan=run_optimal_plugin, check=read_optimal),
    node_affinity.PLUGIN,
    node_taints.PLUGIN,
    anti_affinity.PLUGIN,
    topology_spread.PLUGIN,
    duplicates.PLUGIN,
    life_time.PLUGIN,
    restarts.PLUGIN,
    failed_pods.PLUGIN,
    Evictor(name=DEFAULT_EVICTOR, guard=DefaultEvictor.read),
)


def descheduler_plugins(entry_points: Iterable[EntryPoint] = ()) -> dict[str, Plugin]:
    """Every plugin by name, those of entry points included. Raises WireError for an entry point that cannot be used."""
    plugins: dict[str, Plugin] = {plugin.name: plugin for plugin in BUILT_IN_PLUGINS}
    for point in entry_points:
        try:
            plugin = point.load()
        except Exception as error:
            raise WireError(SECTION, [Problem("", f"plugin {point.value} cannot be loaded: {error}")]) from error
        if not isinstance(plugin, Planner | Remover | Evictor):
            reason = f"plugin {point.value} is a {type(plugin).__name__}, not a Planner, Remover or Evictor"
            raise WireError(SECTION, [Problem("", reason)])
        plugins[plugin.name] = plugin
    return plugins
