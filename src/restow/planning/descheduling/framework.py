"""The plugin interface of the descheduler: plugins that plan moves, that remove pods, and that protect pods.

    Planner   gets a snapshot and a request in each cycle, and returns a Plan. `point` says when: all `deschedule`
              plugins of a profile run before all `balance` plugins, in the order they are listed.
    Remover   gets the finished pods in each cycle, at `deschedule`, and selects those to remove. They need no seat.
    Evictor   makes a Guard from its arguments. The guards of a profile say of a pod why it must not move. Both `filter`
              and `preEvictionFilter` name evictors: here all of them are asked before anything is planned.

Plugins of other packages are found through the entry points `restow.descheduler`: each is one of these values.
Arguments are checked when the configuration is read: `check` and `guard` raise WireError with every problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Protocol

import msgspec

from restow.eviction.protections import PodContext
from restow.model.objects import Pod
from restow.planning.plan_request import PlanRequest, Strategy
from restow.planning.usage_samples import UsageSource

PluginArguments = Mapping[str, Any]
Point = Literal["deschedule", "balance"]


class Guard(Protocol):
    def refusal_reason(self, pod: Pod, context: PodContext) -> str:
        """Why a pod must not move; empty if it may."""
        ...


class PodRemoval(msgspec.Struct, frozen=True):
    """A finished pod that is to be removed."""

    pod: Pod
    reason: str


class Planner(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    point: Point
    plan: Strategy
    check: Callable[[PluginArguments], object]
    usage_source: Callable[[PluginArguments], UsageSource] | None = None
    """How the usage of nodes and pods is measured for it; None if it does not need that."""


class Remover(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    choose: Callable[[Iterable[Pod], PlanRequest], Iterable[PodRemoval]]
    """Gets all finished pods."""
    check: Callable[[PluginArguments], object]
    point: Point = "deschedule"


class Evictor(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    guard: Callable[[PluginArguments], Guard]


Plugin = Planner | Remover | Evictor
