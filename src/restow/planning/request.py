"""The request: everything a strategy is asked with, besides the snapshot.

    strategy(snapshot, request) -> plan

Time, chance and the rules of eviction come in as values, so that a strategy is a function: same snapshot and request,
same plan. Only a time limit may change it, which is read off `clock`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from restow.model.cluster import Snapshot
from restow.model.objects import Pod
from restow.model.resources import Vector
from restow.planning.arguments import Defragmentation, LoadAware
from restow.planning.limits import Tally
from restow.planning.measured import Measured
from restow.planning.plan import Plan, Refusal
from restow.scheduling.actions.enqueue import enqueue
from restow.scheduling.actions.reserve import reserve
from restow.scheduling.engine import Engine
from restow.scheduling.pod_group_cache import PodGroupCache
from restow.scheduling.session import Action


class Allowance(msgspec.Struct, frozen=True, gc=False):
    """How many pods that draw on something may be on the move at once."""

    name: str
    """What they draw on, as people would call it."""
    most: int


class Mobility(Protocol):
    """Which pods may move, and how many of them at once."""

    def is_ours(self, pod: Pod) -> bool:
        """Whether a scheduler of ours would place its successor."""
        ...

    def why_not(self, pod: Pod) -> str:
        """Why a pod may not move at all; empty if it may."""
        ...

    def allowances(self, pod: Pod) -> Sequence[Allowance]:
        """What a pod on the move draws on. They shape waves, and drop no move."""
        ...


class Regard(msgspec.Struct, frozen=True, kw_only=True):
    """What other plugins are after, which a plan must not undo: see `neighbours`."""

    packing: tuple[Defragmentation, ...] = ()
    cooling: tuple[LoadAware, ...] = ()


class Stand(msgspec.Struct, frozen=True, gc=False):
    """How far a strategy is that searches."""

    phase: str
    """What it does now, in a word or two."""
    best: float | None = None
    """The best value of the objective so far, if there is one."""
    bound: float | None = None
    """What no plan exceeds, as far as is known by now."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    engine: Engine
    """The scheduler's own filters."""
    mobility: Mobility
    now: float
    pending: tuple[Pod, ...] = ()
    """Pods of ours that wait for a node."""
    roster: PodGroupCache | None = None
    """The gangs and queues that pending pods belong to."""
    left_out: tuple[Refusal, ...] = ()
    """Pods that wait for a node and are not among `pending`, and why; with an empty pod, a sentence about many."""
    schedulers: frozenset[str] | None = None
    """The names that our scheduler answers to; None for those that pending pods say."""
    actions: tuple[Action, ...] = (enqueue, reserve)
    """What the scheduler does to pending pods; here, what it does before it looks for room."""
    max_moves: int = 50
    migrated: Mapping[str, float] = {}
    """When a migration last touched a node, by its name, as far as finished jobs tell."""
    measured: Measured | None = None
    """What nodes and pods really use; None where nobody asked."""
    regard: Regard = Regard()
    tally: Tally = msgspec.field(default_factory=Tally)
    """What else moves in the same cycle, and its limits. It is for others to count on: count in a copy."""
    stops: bool = True
    """Whether a pod may move twice, by way of a third place."""
    closed: frozenset[str] = frozenset()
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
    began: float | None = None
    """When on `clock` the time limit began to count; None for when the strategy is asked."""
    tell: Callable[[Stand], None] = lambda stand: None
    """Told how far a strategy is, about once a second while it searches, and whenever something is new."""

    def cool_down(self, own: float) -> float:
        """For how many seconds what a migration touched is left alone: as long as a strategy's own arguments say, or
        those of Defragmentation and LoadAware, who share theirs."""
        packing, cooling = self.regard.packing, self.regard.cooling
        return max(own, *(one.cool_down for one in packing), *(one.cool_down for one in cooling), 0.0)


Strategy = Callable[[Snapshot, Request], Plan]
