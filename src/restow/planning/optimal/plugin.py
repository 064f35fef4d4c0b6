"""Optimal: the optimiser as a plugin of the descheduler, asked for by arguments.

    args: {objective: slots, shape: {cpu: "16", memory: 64Gi}, maxMoves: 20, timeLimit: 5s, workLimit: 20000, seed: 0,
           coolDownTime: 600, evictableNamespaces: {exclude: [kube-system]}, labelSelector: …}

Pods on nodes that rest stay. Where LoadAware is at work, too, nodes that are busy by its measure take nobody, and
neither do those that a first answer would make busy: then it is asked again without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from msgspec.structs import replace

from restow.model.cluster import Snapshot
from restow.model.objects import Duration, Pod
from restow.model.problems import Problem, besides
from restow.model.quantity import QuantityError
from restow.model.resources import Vector, amounts
from restow.model.times import parse_duration
from restow.model.wire import WireError, convert_readable
from restow.planning.arguments import PodFilter, StrategyArgs, pod_filter, shared_problems
from restow.planning.cooldown import resting, resting_sentence
from restow.planning.movable import about_all
from restow.planning.neighbours import Neighbours
from restow.planning.optimal.strategy import OBJECTIVES, optimal
from restow.planning.plan import Move, Plan
from restow.planning.request import Allowance, Mobility, Request

OPTIMAL: Final = "Optimal"
_TRIES: Final = 3


class OptimalArgs(StrategyArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    objective: str = "free-nodes"
    shape: dict[str, str] = msgspec.field(default_factory=dict)
    max_moves: int | None = None
    time_limit: Duration = "5s"
    work_limit: int | None = None
    seed: int = 0


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    objective: str
    shape: Vector
    max_moves: int | None
    time_limit: float
    work_limit: int | None
    seed: int
    cool_down: float
    pods: PodFilter


def read_optimal(arguments: Mapping[str, Any]) -> Settings:
    """Raises WireError."""
    written, unread = convert_readable(OptimalArgs, arguments, OPTIMAL)
    found = [*shared_problems(written), *_problems(written)]
    pods, shape = pod_filter(written, found), _shape(written, found)
    problems = besides(unread, found)
    if problems:
        raise WireError(OPTIMAL, problems)
    return Settings(
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
    found: dict[str, int] = {}
    for name, text in written.shape.items():
        try:
            found |= amounts({name: text})
        except QuantityError as error:
            problems.append(Problem(f"shape.{name}", str(error)))
        else:
            if found[name] <= 0:
                problems.append(Problem(f"shape.{name}", f"must be more than 0, is {text}"))
    return found


class _Choosy(msgspec.Struct, frozen=True):
    """Mobility, with what the arguments say besides."""

    rules: Mobility
    pods: PodFilter
    resting: frozenset[str]
    cool_down: float

    def is_ours(self, pod: Pod) -> bool:
        return self.rules.is_ours(pod)

    def why_not(self, pod: Pod) -> str:
        node = pod.spec.node_name or ""
        rests = resting_sentence(self.cool_down, node) if node in self.resting else ""
        return self.rules.why_not(pod) or self.pods.why_not(pod) or rests

    def allowances(self, pod: Pod) -> Sequence[Allowance]:
        return self.rules.allowances(pod)


def optimal_by_arguments(snapshot: Snapshot, request: Request) -> Plan:
    """Ask the optimiser as the arguments say. Raises WireError for wrong ones."""
    settings = read_optimal(request.arguments)
    cool_down = request.cool_down(settings.cool_down)
    rest = resting(snapshot, request.migrated, request.now, cool_down)
    most = request.max_moves if settings.max_moves is None else min(settings.max_moves, request.max_moves)
    asked = replace(
        request,
        mobility=_Choosy(request.mobility, settings.pods, rest, cool_down),
        max_moves=most,
        objective=settings.objective,
        shape=settings.shape,
        seed=settings.seed,
        time_limit=settings.time_limit / _TRIES if request.regard.cooling else settings.time_limit,
        work_limit=settings.work_limit,
    )
    closed = rest | _unmeasured(snapshot, request)
    for _ in range(_TRIES):
        made = optimal(snapshot, replace(asked, closed=closed))
        hot = _overheated(snapshot, request, made.moves)
        if not hot:
            return made
        closed |= hot
    told = f"every plan found makes nodes busier than LoadAware allows, the last one {len(hot)}"
    return Plan(
        strategy=made.strategy,
        objective=made.objective,
        before=made.before,
        after=made.before,
        refusals=(*made.refusals, about_all(told)),
    )


def _unmeasured(snapshot: Snapshot, request: Request) -> frozenset[str]:
    """The nodes that take nobody, because nobody knows how busy they are."""
    mask = Neighbours(snapshot, request).unmeasured()
    return frozenset(name for name in snapshot.rows.names() if mask[snapshot.rows.find(name)])


def _overheated(snapshot: Snapshot, request: Request, moves: Sequence[Move]) -> frozenset[str]:
    """The targets that moves would make busier than others allow, once all moves are done."""
    neighbours = Neighbours(snapshot, request)
    hot: set[str] = set()
    for move in moves:
        source = snapshot.rows.find(move.source)
        if source is not None:
            neighbours.add(snapshot.pods.known[move.uid], source, -1)
    for move in moves:
        target, pod = snapshot.rows.find(move.target), snapshot.pods.known[move.uid]
        if target is None or not len(neighbours.cool(pod, np.array([target], np.intp))):
            hot.add(move.target)
        else:
            neighbours.add(pod, target)
    return frozenset(hot)
