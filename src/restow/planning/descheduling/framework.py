"""What a descheduler is made of: plugins that plan, and plugins that protect.

    Planner   asked in a cycle with a snapshot and a request; returns a Plan. `point` says when: all `deschedule`
              plugins of a profile come before all `balance` plugins, in the order they are listed.
    Remover   asked in a cycle, at `deschedule`, for pods that are over and only lie about; they need no seat.
    Evictor   makes a Guard out of its arguments; the guards of a profile say of a pod why it must not move. Both
              `filter` and `preEvictionFilter` name evictors: here they are asked at the same time, before anything is
              planned.

Plugins of others are found through the entry points `restow.descheduler`: each is one of these values. Arguments are
checked when the configuration is read; `check` and `guard` raise WireError with every mistake.
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
    def refusal_reason(self, pod: Pod, around: PodContext) -> str:
        """Why a pod must not move; empty if it may."""
        ...


class Removal(msgspec.Struct, frozen=True):
    """A pod that is over and shall go."""

    pod: Pod
    reason: str


class Planner(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    point: Point
    plan: Strategy
    check: Callable[[PluginArguments], object]
    metering: Callable[[PluginArguments], UsageSource] | None = None
    """How what nodes and pods really use is measured for it; None if it does not ask."""


class Remover(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    choose: Callable[[Iterable[Pod], PlanRequest], Iterable[Removal]]
    """Of pods that have ended."""
    check: Callable[[PluginArguments], object]
    point: Point = "deschedule"


class Evictor(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    guard: Callable[[PluginArguments], Guard]


Plugin = Planner | Remover | Evictor
