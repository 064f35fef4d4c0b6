"""What a descheduler works by: profiles of plugins, with their limits and times. `policy_section` reads it from the
configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from restow.eviction.protections import PodContext
from restow.model.cron import Schedule
from restow.model.objects import Pod
from restow.model.selectors import LabelSelector
from restow.planning.cycle_limits import CycleLimits
from restow.planning.descheduling.framework import Guard, Planner, Remover
from restow.planning.descheduling.metrics_providers import PrometheusProvider
from restow.planning.plan_request import PeerPlugins
from restow.planning.usage_samples import UsageSource

SECTION: Final = "descheduler"
DEFAULT_EVICTOR: Final = "DefaultEvictor"


class NodeSelectorGuard(msgspec.Struct, frozen=True):
    """Protects the pods on nodes that a selector does not match."""

    selector: LabelSelector

    def refusal_reason(self, pod: Pod, context: PodContext) -> str:
        if self.selector.matches(context.node_labels):
            return ""
        return f"nodeSelector {self.selector} does not match its node"


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
    def longest_cool_down(self) -> float:
        """In seconds, over all arguments. Those of plugins that the profile does not enable count, too, because `restow
        plan` uses them."""
        cool_downs = (arguments.get("coolDownTime") for arguments in self.arguments.values())
        return max((float(seconds) for seconds in cool_downs if isinstance(seconds, int)), default=0.0)

    def usage_sources(self) -> Iterator[UsageSource]:
        """How usage is measured for each of its plugins that need it."""
        for planner in self.planners:
            if planner.usage_source is not None:
                yield planner.usage_source(self.arguments.get(planner.name, {}))


class DeschedulerPolicy(msgspec.Struct, frozen=True, kw_only=True):
    profiles: tuple[DeschedulerProfile, ...]
    dry_run: bool = False
    """Plan and log, create no jobs."""
    grace_seconds: int | None = None
    prometheus: PrometheusProvider | None = None
    peers: PeerPlugins = PeerPlugins()
    """What the plugins of all profiles aim at: no plugin undoes what another one does."""

    @property
    def longest_cool_down(self) -> float:
        """In seconds, over all profiles."""
        return max((profile.longest_cool_down for profile in self.profiles), default=0.0)

    def usage_source_for(self, profile: DeschedulerProfile) -> UsageSource | None:
        """How usage is measured in the cycles of a profile, once for all its plugins: for the first plugin that needs
        it, else for a plugin of another profile, because its work must not be undone. None if no plugin needs it."""
        return next((source for each in (profile, *self.profiles) for source in each.usage_sources()), None)

    def profile_called(self, name: str | None) -> DeschedulerProfile:
        """The profile of this name; the first one without a name. Raises LookupError with a sentence."""
        for profile in self.profiles:
            if name in (None, profile.name):
                return profile
        known = ", ".join(profile.name for profile in self.profiles)
        raise LookupError(f"no profile is called {name!r}; there are {known}")
