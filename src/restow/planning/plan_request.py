"""The plan request: all inputs of a strategy except the snapshot.

    strategy(snapshot, request) -> plan

The time, the random seed and the rules of eviction are values in the request. So a strategy is a function: the same
snapshot and request give the same plan. Only a time limit, which is read from `clock`, may change it.
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
from restow.planning.plan import Plan, PlanRefusal
from restow.planning.usage_samples import UsageSamples
from restow.scheduling.actions.enqueue import enqueue
from restow.scheduling.actions.reserve import take_reserved_seats
from restow.scheduling.engine import Engine
from restow.scheduling.pod_group_cache import PodGroupCache
from restow.scheduling.session import Action


class DisruptionLimit(msgspec.Struct, frozen=True, gc=False):
    """How many pods of a budget, or of a workload, may be moving at the same time."""

    name: str
    """The budget or the workload, as messages name it."""
    max_moving: int


class EvictionRules(Protocol):
    """Which pods may move, and how many of them at the same time."""

    def is_ours(self, pod: Pod) -> bool:
        """Whether Restow's scheduler would place the successor of the pod."""
        ...

    def refusal_reason(self, pod: Pod) -> str:
        """Why a pod may not move at all; empty if it may."""
        ...

    def disruption_limits(self, pod: Pod) -> Sequence[DisruptionLimit]:
        """The limits that a moving pod counts against. They shape waves; they drop no move."""
        ...


class PeerPlugins(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of other plugins. A plan must not undo their work: see `peer_constraints`."""

    defragmentation: tuple[DefragmentationSettings, ...] = ()
    load_aware: tuple[LoadAwareSettings, ...] = ()


class PlanProgress(msgspec.Struct, frozen=True, gc=False):
    """The progress of a strategy that searches."""

    phase: str
    """The present step, in a word or two."""
    best: float | None = None
    """The objective of the best plan so far, if there is one."""
    bound: float | None = None
    """The lowest upper bound on the objective so far, if there is one."""


class PlanRequest(msgspec.Struct, frozen=True, kw_only=True):
    engine: Engine
    """The scheduler's own filters."""
    eviction_rules: EvictionRules
    now: float
    pending: tuple[Pod, ...] = ()
    """Pending pods of Restow's scheduler."""
    pod_groups: PodGroupCache | None = None
    """The PodGroups and queues of the pods."""
    pending_refusals: tuple[PlanRefusal, ...] = ()
    """Pods without a node that are not in `pending`, and why; with an empty pod, a sentence about many pods."""
    scheduler_names: frozenset[str] | None = None
    """The scheduler names of Restow's scheduler; None for those of the pending pods."""
    actions: tuple[Action, ...] = (enqueue, take_reserved_seats)
    """The scheduler's actions. A plan for pending pods runs those that come before the search for nodes."""
    max_moves: int = 50
    last_migrations: Mapping[str, float] = {}
    """By node: when a finished migration job last moved a pod from it or to it."""
    measured_usage: UsageSamples | None = None
    """The measured usage of nodes and pods; None if it was not read."""
    peers: PeerPlugins = PeerPlugins()
    move_counter: MoveCounter = msgspec.field(default_factory=MoveCounter)
    """The moves that the cycle has planned so far, and its limits. The cycle counts in it; a strategy counts in a
    copy."""
    allow_stops: bool = True
    """Whether a pod may move twice, by way of a third node."""
    closed_targets: frozenset[str] = frozenset()
    """Nodes that the strategy `optimal` moves no pod to."""
    arguments: Mapping[str, Any] = {}
    """The arguments of the strategy, as written in the configuration."""
    objective: str = "free-nodes"
    shape: Vector = {}
    """The requests of the pod that the objective `slots` makes room for."""
    seed: int = 0
    time_limit: float = 5.0
    """Seconds on `clock`."""
    work_limit: int | None = None
    """Steps of the search, which unlike seconds are the same on every machine."""
    clock: Callable[[], float] = float
    started_at: float | None = None
    """When on `clock` the time limit began; None for the moment when the strategy is called."""
    report_progress: Callable[[PlanProgress], None] = lambda stand: None
    """Called with the progress, about twice a second during a search and whenever something has changed."""

    def cool_down(self, own: float) -> float:
        """For how many seconds a node rests after a migration: the longest of the strategy's own cool-down and those of
        Defragmentation and LoadAware. With one cool-down for all, no plugin undoes the work of another in between."""
        cool_downs = [settings.cool_down for settings in self.peers.defragmentation]
        cool_downs += [settings.cool_down for settings in self.peers.load_aware]
        return max(own, *cool_downs, 0.0)


Strategy = Callable[[Snapshot, PlanRequest], Plan]
