"""The descheduler plugin Optimal: runs the strategy `optimal` with the arguments of a profile.

Goes in: a snapshot, and a request with the arguments. Comes out: a plan.

    args: {objective: slots, shape: {cpu: "16", memory: 64Gi}, maxMoves: 20, timeLimit: 5s, workLimit: 20000, seed: 0,
           coolDownTime: 600, evictableNamespaces: {exclude: [kube-system]}, labelSelector: …}

Pods on nodes in their cool-down stay. If the policy has LoadAware as well, no pod moves to a node with an unknown
load. A plan that would make nodes busier than LoadAware allows is made again without these nodes as targets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from msgspec.structs import replace

from restow.model.objects import Duration, Pod
from restow.model.problems import Problem, problems_of_readable_members
from restow.model.quantity import QuantityError
from restow.model.resources import Vector, parse_amounts
from restow.model.snapshot import Snapshot
from restow.model.times import parse_duration
from restow.model.wire import WireError, convert_readable
from restow.planning.arguments import PodFilter, StrategyArgs, read_pod_filter, shared_problems
from restow.planning.cooldown import cool_down_message, nodes_cooling_down
from restow.planning.eviction_rules import general_refusal
from restow.planning.optimal.strategy import OBJECTIVES, plan_optimal
from restow.planning.peer_constraints import PeerConstraints
from restow.planning.plan import Move, Plan
from restow.planning.plan_request import DisruptionLimit, EvictionRules, PlanRequest

OPTIMAL: Final = "Optimal"
_ATTEMPTS: Final = 3


class OptimalArgs(StrategyArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    objective: str = "free-nodes"
    shape: dict[str, str] = msgspec.field(default_factory=dict)
    max_moves: int | None = None
    time_limit: Duration = "5s"
    work_limit: int | None = None
    seed: int = 0


class OptimalSettings(msgspec.Struct, frozen=True, kw_only=True):
    objective: str
    shape: Vector
    max_moves: int | None
    time_limit: float
    work_limit: int | None
    seed: int
    cool_down: float
    pods: PodFilter


def read_optimal(arguments: Mapping[str, Any]) -> OptimalSettings:
    """Raises WireError."""
    written, unread = convert_readable(OptimalArgs, arguments, OPTIMAL)
    mistakes = [*shared_problems(written), *_problems(written)]
    pods, shape = read_pod_filter(written, mistakes), _shape(written, mistakes)
    problems = problems_of_readable_members(unread, mistakes)
    if problems:
        raise WireError(OPTIMAL, problems)
    return OptimalSettings(
        objective=written.objective,
        shape=shape,
        max_moves=written.max_moves,
        time_limit=float(parse_duration(written.time_limit)),
        work_limit=written.work_limit,
        seed=written.seed,
        cool_down=float(written.cool_down_time),
        pods=pods,
    )


def _problems(written: OptimalArgs) -> Iterator[Problem]:
    if written.objective not in OBJECTIVES:
        yield Problem("objective", f"expected one of {', '.join(OBJECTIVES)}, got {written.objective!r}")
    if written.objective == "slots" and not written.shape:
        yield Problem("shape", "the objective slots needs one, such as {cpu: 16, memory: 64Gi}")
    for field, number in (("maxMoves", written.max_moves), ("workLimit", written.work_limit), ("seed", written.seed)):
        if number is not None and number < 0:
            yield Problem(field, f"must not be negative, is {number}")
    if parse_duration(written.time_limit) <= 0:
        yield Problem("timeLimit", f"must be above 0, is {written.time_limit}")


def _shape(written: OptimalArgs, problems: list[Problem]) -> Vector:
    shape: dict[str, int] = {}
    for name, text in written.shape.items():
        try:
            shape |= parse_amounts({name: text})
        except QuantityError as error:
            problems.append(Problem(f"shape.{name}", str(error)))
        else:
            if shape[name] <= 0:
                problems.append(Problem(f"shape.{name}", f"must be more than 0, is {text}"))
    return shape


class _FilteredEvictionRules(msgspec.Struct, frozen=True):
    """The rules of eviction, with the pod filter and the cool-down of the plugin."""

    rules: EvictionRules
    pods: PodFilter
    resting: frozenset[str]
    cool_down: float

    def is_ours(self, pod: Pod) -> bool:
        return self.rules.is_ours(pod)

    def refusal_reason(self, pod: Pod) -> str:
        node = pod.spec.node_name or ""
        rests = cool_down_message(self.cool_down, node) if node in self.resting else ""
        return self.rules.refusal_reason(pod) or self.pods.refusal_reason(pod) or rests

    def disruption_limits(self, pod: Pod) -> Sequence[DisruptionLimit]:
        return self.rules.disruption_limits(pod)


def run_optimal_plugin(snapshot: Snapshot, request: PlanRequest) -> Plan:
    """Run the plugin Optimal: make a plan with the strategy `optimal`, by the plugin arguments in the request. Raises
    WireError for wrong arguments."""
    settings = read_optimal(request.arguments)
    cool_down = request.cool_down(settings.cool_down)
    resting = nodes_cooling_down(snapshot, request.last_migrations, request.now, cool_down)
    max_moves = request.max_moves if settings.max_moves is None else min(settings.max_moves, request.max_moves)
    request_with_settings = replace(
        request,
        eviction_rules=_FilteredEvictionRules(request.eviction_rules, settings.pods, resting, cool_down),
        max_moves=max_moves,
        objective=settings.objective,
        shape=settings.shape,
        seed=settings.seed,
        time_limit=settings.time_limit / _ATTEMPTS if request.peers.load_aware else settings.time_limit,
        work_limit=settings.work_limit,
    )
    closed_targets = resting | _unmeasured_nodes(snapshot, request)
    for _ in range(_ATTEMPTS):
        plan = plan_optimal(snapshot, replace(request_with_settings, closed_targets=closed_targets))
        busy = _nodes_made_busy(snapshot, request, plan.moves)
        if not busy:
            return plan
        closed_targets |= busy
    reason = f"every plan found makes nodes busier than LoadAware allows, the last one {len(busy)}"
    return Plan(
        strategy=plan.strategy,
        objective=plan.objective,
        before=plan.before,
        after=plan.before,
        refusals=(*plan.refusals, general_refusal(reason)),
    )


def _unmeasured_nodes(snapshot: Snapshot, request: PlanRequest) -> frozenset[str]:
    """The nodes with an unknown load, if some LoadAware needs it."""
    mask = PeerConstraints(snapshot, request).unmeasured_rows()
    return frozenset(name for name in snapshot.rows.names() if mask[snapshot.rows.find_row(name)])


def _nodes_made_busy(snapshot: Snapshot, request: PlanRequest, moves: Sequence[Move]) -> frozenset[str]:
    """The targets that would be busier than LoadAware allows once all moves are made."""
    peers = PeerConstraints(snapshot, request)
    busy: set[str] = set()
    # All sources first: the order of the moves must not matter.
    for move in moves:
        source = snapshot.rows.find_row(move.source)
        if source is not None:
            peers.add_pod(snapshot.pods.known[move.uid], source, -1)
    for move in moves:
        target, pod = snapshot.rows.find_row(move.target), snapshot.pods.known[move.uid]
        if target is None or not len(peers.rows_kept_cool(pod, np.array([target], np.intp))):
            busy.add(move.target)
        else:
            peers.add_pod(pod, target)
    return frozenset(busy)
