"""The request: everything a strategy is asked with, besides the snapshot.

    strategy(snapshot, request) -> plan

Time, chance and the rules of eviction come in as values, so that a strategy is a function: same snapshot and request,
same plan. Only a time limit may change it, which is read off `clock`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from restow.model.objects import Pod
from restow.model.resources import Vector
from restow.model.snapshot import Snapshot
from restow.planning.arguments import DefragmentationSettings, LoadAwareSettings
from restow.planning.cycle_limits import MoveCounter
from restow.planning.usage_samples import UsageSamples
from restow.planning.plan import Plan, Refusal
from restow.scheduling.actions.enqueue import enqueue
from restow.scheduling.actions.reserve import reserve
from restow.scheduling.engine import Engine
from restow.scheduling.pod_group_cache import PodGroupCache
from restow.scheduling.session import Action


class DisruptionLimit(msgspec.Struct, frozen=True, gc=False):
    """How many pods that draw on something may be on the move at once."""

    name: str
    """What they draw on, as people would call it."""
    max_moving: int


class EvictionRules(Protocol):
    """Which pods may move, and how many of them at once."""

    def is_ours(self, pod: Pod) -> bool:
        """Whether a scheduler of ours would place its successor."""
        ...

    def refusal_reason(self, pod: Pod) -> str:
        """Why a pod may not move at all; empty if it may."""
        ...

    def disruption_limits(self, pod: Pod) -> Sequence[DisruptionLimit]:
        """What a pod on the move draws on. They shape waves, and drop no move."""
        ...


class PeerPlugins(msgspec.Struct, frozen=True, kw_only=True):
    """What other plugins are after, which a plan must not undo: see `neighbours`."""

    defragmentation: tuple[DefragmentationSettings, ...] = ()
    load_aware: tuple[LoadAwareSettings, ...] = ()


class PlanProgress(msgspec.Struct, frozen=True, gc=False):
    """How far a strategy is that searches."""

    phase: str
    """What it does now, in a word or two."""
    best: float | None = None
    """The best value of the objective so far, if there is one."""
    bound: float | None = None
    """What no plan exceeds, as far as is known by now."""


class PlanRequest(msgspec.Struct, frozen=True, kw_only=True):
    engine: Engine
    """The scheduler's own filters."""
    eviction_rules: EvictionRules
    now: float
    pending: tuple[Pod, ...] = ()
    """Pods of ours that wait for a node."""
    pod_groups: PodGroupCache | None = None
    """The gangs and queues that pending pods belong to."""
    pending_refusals: tuple[Refusal, ...] = ()
    """Pods that wait for a node and are not among `pending`, and why; with an empty pod, a sentence about many."""
    scheduler_names: frozenset[str] | None = None
    """The names that our scheduler answers to; None for those that pending pods say."""
    actions: tuple[Action, ...] = (enqueue, reserve)
    """What the scheduler does to pending pods; here, what it does before it looks for room."""
    max_moves: int = 50
    last_migrations: Mapping[str, float] = {}
    """When a migration last touched a node, by its name, as far as finished jobs tell."""
    measured_usage: UsageSamples | None = None
    """What nodes and pods really use; None where nobody asked."""
    peers: PeerPlugins = PeerPlugins()
    move_counter: MoveCounter = msgspec.field(default_factory=MoveCounter)
    """What else moves in the same cycle, and its limits. It is for others to count on: count in a copy."""
    allow_stops: bool = True
    """Whether a pod may move twice, by way of a third place."""
    closed_targets: frozenset[str] = frozenset()
    """Nodes that the strategy `optimal` sends nobody to."""
    arguments: Mapping[str, Any] = {}
    """Of the strategy, as written in the configuration."""
    objective: str = "free-nodes"
    shape: Vector = {}
    """The reference shape of the objective `slots`."""
    seed: int = 0
    time_limit: float = 5.0
    """Seconds on `clock`."""
    work_limit: int | None = None
    """Steps of the strategy's own counting, which unlike seconds are the same everywhere."""
    clock: Callable[[], float] = float
    started_at: float | None = None
    """When on `clock` the time limit began to count; None for when the strategy is asked."""
    report_progress: Callable[[PlanProgress], None] = lambda stand: None
    """Told how far a strategy is, about once a second while it searches, and whenever something is new."""

    def cool_down(self, own: float) -> float:
        """For how many seconds what a migration touched is left alone: as long as a strategy's own arguments say, or
        those of Defragmentation and LoadAware, who share theirs."""
        packing, cooling = self.peers.defragmentation, self.peers.load_aware
        return max(own, *(one.cool_down for one in packing), *(one.cool_down for one in cooling), 0.0)


Strategy = Callable[[Snapshot, PlanRequest], Plan]
