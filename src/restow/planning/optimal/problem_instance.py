"""From a snapshot to a problem: nodes in the order of their names, pods by class, and back again.

Goes in: a snapshot and a request. Comes out: a `Reading`: the `Problem`, and which pods stand behind its numbers. Where
a class may go is asked of the scheduler's own filters, all but the one that looks at room, as if one pod of the class
were looking for a place; classes that read other pods are told apart by the domains they leave, because that is what a
spread constraint counts. Whatever depends on several moves at once is left to the sequence of moves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache

import msgspec
import numpy as np
from msgspec.structs import replace

from restow.eviction.costs import eviction_cost
from restow.model.cluster import Mask, Occupant, PodClass, RowIndex, Shape
from restow.model.cluster.resource_columns import Amounts
from restow.model.objects import PodSpec
from restow.model.snapshot import Snapshot
from restow.planning.eviction_rules import candidates_on_node, foreign_pod_refusals
from restow.planning.measures import ready_rows, shape_amounts
from restow.planning.move_simulation import without_node_pin
from restow.planning.optimal.packing_problem import Demand, Ints, PackingProblem, scale_amounts
from restow.planning.optimal.pending_values import PendingPods, free_amounts, value_pending_pods
from restow.planning.optimal.queue_quotas import queue_quotas
from restow.planning.plan import Refusal
from restow.planning.plan_request import PlanRequest
from restow.scheduling.framework import Code, Cycle, FilterPlugin, Reach
from restow.scheduling.plugins.node_resources_fit import NodeResourcesFit

_HOST_NAME = "kubernetes.io/hostname"

Key = tuple[PodClass, tuple[str | None, ...]]
"""A class, and the domains that its pod is in."""


class ProblemInstance(msgspec.Struct, frozen=True, eq=False):
    problem: PackingProblem
    node_names: Sequence[str]
    """Of the nodes."""
    pods: Sequence[Mapping[int, Sequence[Occupant]]]
    """Per node and class who they are; the first goes first."""
    pending: PendingPods
    """Whom the demands stand for, where waiting pods are wanted."""
    refusals: tuple[Refusal, ...]


class _Nodes(msgspec.Struct, frozen=True, eq=False):
    """The nodes that exist, by name."""

    names: list[str]
    rows: RowIndex


class _Wanted(msgspec.Struct, frozen=True, eq=False):
    """A demand before its resources are scaled."""

    amounts: Amounts
    suits: Mask
    worth: int
    supply: int | None = None
    gang: int | None = None
    alone: bool = False
    could: Mask | None = None


def build_instance(snapshot: Snapshot, request: PlanRequest) -> ProblemInstance:
    nodes = _nodes(snapshot)
    classes: dict[Key, int] = {}
    firsts: list[Occupant] = []
    pods: list[dict[int, list[Occupant]]] = []
    stuck = np.zeros(len(nodes.names), np.bool_)
    refusals: list[Refusal] = []
    for node, name in enumerate(nodes.names):
        guests = candidates_on_node(snapshot, name, request.eviction_rules)
        refusals += guests.refusals
        stuck[node] = guests.staying_count > 0
        here: dict[int, list[Occupant]] = {}
        for one in sorted(guests.candidates, key=_who_first):
            which = classes.setdefault(_key(snapshot, one), len(classes))
            if which == len(firsts):
                firsts.append(one)
            here.setdefault(which, []).append(one)
        pods.append(here)
    asked = request if request.objective == "pending" else replace(request, pending=(), pending_refusals=())
    line = value_pending_pods(snapshot, asked)
    wanted = list(_demands(snapshot, request, nodes, line))
    problem = _problem(snapshot, request, nodes, firsts, wanted)
    problem = replace(
        problem,
        movable_pods=[{which: len(some) for which, some in here.items()} for here in pods],
        cannot_empty=stuck,
        gang_minimums=line.gang_minimums,
        quotas=queue_quotas(line),
        unit=line.unit if request.objective == "pending" else 1,
    )
    refusals += [*foreign_pod_refusals(snapshot, request.eviction_rules), *line.refusals]
    return ProblemInstance(problem, nodes.names, pods, line, tuple(refusals))


def _nodes(snapshot: Snapshot) -> _Nodes:
    names = [name for name in snapshot.rows.names() if snapshot.node(name) is not None]
    return _Nodes(names, np.array([snapshot.rows.find(name) for name in names], np.intp))


def _who_first(one: Occupant) -> tuple[int, int, str, str]:
    """The least important pod, and of those the one that costs least to evict, goes first."""
    metadata = one.pod.metadata
    return one.pod.spec.priority or 0, eviction_cost(one.pod), metadata.namespace or "", metadata.name


def _key(snapshot: Snapshot, one: Occupant) -> Key:
    pod_class = snapshot.class_of(one.pod, one.shape)
    if not one.shape.selector_scopes:
        return pod_class, ()
    node = snapshot.node(one.node)
    labels = (node.metadata.labels if node else None) or {}
    return pod_class, tuple(labels.get(key) for key in sorted(set(_topology_keys(one.shape.spec))))


def _topology_keys(spec: PodSpec) -> Iterator[str]:
    """The domains, larger than nodes, in which a pod counts others of its kind."""
    keys = [one.topology_key for one in spec.topology_spread_constraints or ()]
    for side in (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity) if spec.affinity else ():
        keys += [term.topology_key for term in (side.required if side else None) or ()]
    return (key for key in keys if key != _HOST_NAME)


# --- what is wanted ---------------------------------------------------------------------------------------------------


def _demands(snapshot: Snapshot, request: PlanRequest, nodes: _Nodes, line: PendingPods) -> Iterator[_Wanted]:
    if request.objective == "slots":
        usable = ~snapshot.nodes.unschedulable[nodes.rows]
        yield _Wanted(shape_amounts(snapshot, request.shape), usable, 1)
    for one in line.groups:
        shape = one.pod_class.shape
        suits, could = (
            _suitable(request, Cycle(one.pods[0], snapshot, request.now, one.pod_class), reaches)[nodes.rows]
            for reaches in (tuple(Reach), (Reach.NODE,))
        )
        yield _Wanted(shape.amounts, suits, one.value, len(one.pods), one.gang, _keeps_apart(shape), could)


def _keeps_apart(shape: Shape) -> bool:
    """Whether pods of a shape may be in each other's way on a node, by more than the room they take."""
    return bool(shape.selector_scopes or shape.fields.ports)


# --- arrays -----------------------------------------------------------------------------------------------------------


def _problem(
    snapshot: Snapshot, request: PlanRequest, nodes: _Nodes, firsts: Sequence[Occupant], wanted: Sequence[_Wanted]
) -> PackingProblem:
    amounts = [one.shape.amounts for one in firsts], [one.amounts for one in wanted]
    columns = sorted({column for some in amounts for one in some for column, _ in one})
    free = np.zeros((len(nodes.names), len(columns)), np.int64)
    for place, column in enumerate(columns):
        free[:, place] = free_amounts(snapshot, column)[nodes.rows]
    free, (sizes, asked) = scale_amounts(free, *(_vectors(some, columns) for some in amounts))
    demands = [
        Demand(
            size=size,
            allowed_nodes=one.suits,
            value=one.worth,
            gang=one.gang,
            one_per_node=one.alone,
            potential_nodes=one.could,
            **_supply(one),
        )
        for one, size in zip(wanted, asked, strict=True)
    ]
    suits, could = (_suits(snapshot, request, nodes, firsts, reaches) for reaches in (tuple(Reach), (Reach.NODE,)))
    return PackingProblem(
        free=free,
        class_sizes=sizes,
        movable_pods=[],
        allowed_nodes=suits,
        one_per_node=np.array([_keeps_apart(one.shape) for one in firsts], np.bool_),
        max_moves=request.max_moves,
        cannot_empty=np.zeros(len(nodes.names), np.bool_),
        counts_empty_nodes=request.objective == "free-nodes",
        potential_nodes=could
        if any(_keeps_apart(one.shape) for one in firsts) or any(map(_may_change, wanted))
        else None,
        demands=demands,
    )


def _may_change(one: _Wanted) -> bool:
    """Whether other nodes might suit it once pods have moved."""
    return one.alone or (one.could is not None and bool((one.could != one.suits).any()))


def _supply(one: _Wanted) -> dict[str, int]:
    return {} if one.supply is None else {"count": one.supply}


def _vectors(amounts: Sequence[Amounts], columns: Sequence[int]) -> Ints:
    place = {column: number for number, column in enumerate(columns)}
    vectors = np.zeros((len(amounts), len(columns)), np.int64)
    for number, some in enumerate(amounts):
        for column, amount in some:
            vectors[number, place[column]] = amount
    return vectors


# --- where classes may go ---------------------------------------------------------------------------------------------


def _suits(
    snapshot: Snapshot, request: PlanRequest, nodes: _Nodes, firsts: Sequence[Occupant], reaches: Collection[Reach]
) -> Callable[[int], Mask]:
    """By class, the nodes that filters of these reaches accept."""
    ready = ready_rows(snapshot)
    ready[[row for name in request.closed_targets if (row := snapshot.rows.find(name)) is not None]] = False

    @cache
    def suits(which: int) -> Mask:
        one = firsts[which]
        with snapshot.counting_only_room_of(one.key):
            cycle = Cycle(without_node_pin(one.pod), snapshot, request.now, snapshot.class_of(one.pod, one.shape))
            mask = _suitable(request, cycle, reaches) & ready
        if _keeps_apart(one.shape) and len(reaches) > 1:
            mask[snapshot.rows.find(one.node)] = False  # it was overlooked there; the others of its class meet it
        suited: Mask = mask[nodes.rows]
        return suited

    return suits


def _suitable(request: PlanRequest, cycle: Cycle, reaches: Collection[Reach] = tuple(Reach)) -> Mask:
    """Rows that every filter of these reaches accepts, room aside."""
    every = cycle.snapshot.rows.every
    mask: Mask = cycle.snapshot.nodes.present[every].copy()
    for plugin in request.engine.plugins:
        if not isinstance(plugin, FilterPlugin) or isinstance(plugin, NodeResourcesFit) or plugin.reach not in reaches:
            continue
        verdict = plugin.pre_filter(cycle)
        if verdict.code is Code.SKIP:
            continue
        if verdict.code is not Code.SUCCESS:
            return np.zeros_like(mask)
        mask &= plugin.filter(cycle, every)
    return mask
