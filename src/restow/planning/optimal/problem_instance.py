"""Builds the packing problem of a snapshot, and keeps which nodes and pods its numbers stand for.

Goes in: a snapshot and a request. Comes out: a `ProblemInstance`: the `PackingProblem`, the name of each of its nodes,
the movable pods of each class on each node, and the pending pods of each demand.

The nodes that a class may use come from the scheduler's own filters, all but the one for resources, as if one pod of
the class looked for a node. Pods with filters that read other pods (affinity, spread) are also told apart by the
topology domains of their present nodes, because a spread constraint counts the pod in its domain until it leaves. What
depends on several moves together is left to the ordering of moves, which runs all filters.
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
from restow.planning.optimal.packing_problem import UNLIMITED, Demand, Ints, PackingProblem, scale_amounts
from restow.planning.optimal.pending_values import PendingPods, free_amounts, value_pending_pods
from restow.planning.optimal.queue_quotas import queue_quotas
from restow.planning.plan import PlanRefusal
from restow.planning.plan_request import PlanRequest
from restow.scheduling.framework import Code, Cycle, FilterPlugin, Reach
from restow.scheduling.plugins.node_resources_fit import NodeResourcesFit

_HOST_NAME = "kubernetes.io/hostname"

ClassKey = tuple[PodClass, tuple[str | None, ...]]
"""A pod class of the scheduler, and the topology domains of the pod's present node."""


class ProblemInstance(msgspec.Struct, frozen=True, eq=False):
    problem: PackingProblem
    node_names: Sequence[str]
    pods: Sequence[Mapping[int, Sequence[Occupant]]]
    """Per node and class: the movable pods, in the order in which they leave."""
    pending: PendingPods
    """The pending pods of the demands; empty for other objectives."""
    refusals: tuple[PlanRefusal, ...]


class _Nodes(msgspec.Struct, frozen=True, eq=False):
    """The nodes of the snapshot, by name, and their rows."""

    names: list[str]
    rows: RowIndex


class _UnscaledDemand(msgspec.Struct, frozen=True, eq=False):
    """A demand before its amounts are scaled."""

    amounts: Amounts
    allowed_nodes: Mask
    value: int
    count: int = UNLIMITED
    gang: int | None = None
    one_per_node: bool = False
    potential_nodes: Mask | None = None


def build_instance(snapshot: Snapshot, request: PlanRequest) -> ProblemInstance:
    # 1. The movable pods of each node, by class. Each other pod is a refusal, and keeps its node from becoming empty.
    nodes = _nodes(snapshot)
    class_indexes: dict[ClassKey, int] = {}
    examples: list[Occupant] = []
    pods: list[dict[int, list[Occupant]]] = []
    cannot_empty = np.zeros(len(nodes.names), np.bool_)
    refusals: list[PlanRefusal] = []
    for node, name in enumerate(nodes.names):
        on_node = candidates_on_node(snapshot, name, request.eviction_rules)
        refusals += on_node.refusals
        cannot_empty[node] = on_node.staying_count > 0
        by_class: dict[int, list[Occupant]] = {}
        for pod in sorted(on_node.candidates, key=_leaving_order):
            index = class_indexes.setdefault(_class_key(snapshot, pod), len(class_indexes))
            if index == len(examples):
                examples.append(pod)
            by_class.setdefault(index, []).append(pod)
        pods.append(by_class)
    # 2. The demands: pending pods, or the shape of the objective `slots`.
    no_pending = replace(request, pending=(), pending_refusals=())
    pending = value_pending_pods(snapshot, request if request.objective == "pending" else no_pending)
    demands = list(_demands(snapshot, request, nodes, pending))
    # 3. Everything as arrays.
    problem = replace(
        _problem(snapshot, request, nodes, examples, demands),
        movable_pods=[{index: len(some) for index, some in by_class.items()} for by_class in pods],
        cannot_empty=cannot_empty,
        gang_minimums=pending.gang_minimums,
        quotas=queue_quotas(pending),
        unit=pending.unit if request.objective == "pending" else 1,
    )
    refusals += [*foreign_pod_refusals(snapshot, request.eviction_rules), *pending.refusals]
    return ProblemInstance(problem, nodes.names, pods, pending, tuple(refusals))


def _nodes(snapshot: Snapshot) -> _Nodes:
    names = [name for name in snapshot.rows.names() if snapshot.node(name) is not None]
    return _Nodes(names, np.array([snapshot.rows.find_row(name) for name in names], np.intp))


def _leaving_order(occupant: Occupant) -> tuple[int, int, str, str]:
    """Of equal pods, the one with the lowest priority leaves first, then the one that costs least to evict."""
    metadata = occupant.pod.metadata
    return occupant.pod.spec.priority or 0, eviction_cost(occupant.pod), metadata.namespace or "", metadata.name


def _class_key(snapshot: Snapshot, occupant: Occupant) -> ClassKey:
    pod_class = snapshot.class_of(occupant.pod, occupant.shape)
    if not occupant.shape.selector_scopes:
        return pod_class, ()
    node = snapshot.node(occupant.node)
    labels = (node.metadata.labels if node else None) or {}
    return pod_class, tuple(labels.get(key) for key in sorted(set(_topology_keys(occupant.shape.spec))))


def _topology_keys(spec: PodSpec) -> Iterator[str]:
    """The topology keys of spread constraints and affinity terms with domains larger than a node."""
    keys = [constraint.topology_key for constraint in spec.topology_spread_constraints or ()]
    for affinity in (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity) if spec.affinity else ():
        keys += [term.topology_key for term in (affinity.required if affinity else None) or ()]
    return (key for key in keys if key != _HOST_NAME)


# --- demands ----------------------------------------------------------------------------------------------------------


def _demands(
    snapshot: Snapshot, request: PlanRequest, nodes: _Nodes, pending: PendingPods
) -> Iterator[_UnscaledDemand]:
    if request.objective == "slots":
        schedulable = ~snapshot.nodes.unschedulable[nodes.rows]
        yield _UnscaledDemand(shape_amounts(snapshot, request.shape), schedulable, 1)
    for group in pending.groups:
        shape = group.pod_class.shape
        allowed, potential = (
            _rows_passing(request, Cycle(group.pods[0], snapshot, request.now, group.pod_class), reaches)[nodes.rows]
            for reaches in (tuple(Reach), (Reach.NODE,))
        )
        yield _UnscaledDemand(
            shape.amounts, allowed, group.value, len(group.pods), group.gang, _keeps_apart(shape), potential
        )


def _keeps_apart(shape: Shape) -> bool:
    """Whether pods of a shape may keep each other off a node for other reasons than resources: affinity, spread, host
    ports."""
    return bool(shape.selector_scopes or shape.fields.ports)


# --- arrays -----------------------------------------------------------------------------------------------------------


def _problem(
    snapshot: Snapshot,
    request: PlanRequest,
    nodes: _Nodes,
    examples: Sequence[Occupant],
    unscaled: Sequence[_UnscaledDemand],
) -> PackingProblem:
    """The problem without the pods on nodes. `examples` has one pod of each class."""
    amounts = [pod.shape.amounts for pod in examples], [demand.amounts for demand in unscaled]
    # Only resources that some pod requests matter.
    columns = sorted({column for part in amounts for each in part for column, _ in each})
    free = np.zeros((len(nodes.names), len(columns)), np.int64)
    for place, column in enumerate(columns):
        free[:, place] = free_amounts(snapshot, column)[nodes.rows]
    free, (class_sizes, demand_sizes) = scale_amounts(free, *(_vectors(part, columns) for part in amounts))
    demands = [
        Demand(
            size=size,
            allowed_nodes=demand.allowed_nodes,
            value=demand.value,
            count=demand.count,
            gang=demand.gang,
            one_per_node=demand.one_per_node,
            potential_nodes=demand.potential_nodes,
        )
        for demand, size in zip(unscaled, demand_sizes, strict=True)
    ]
    # Filters of reach NODE read the node only, so their answers hold whatever moves; the others may change.
    allowed, potential = (
        _nodes_passing(snapshot, request, nodes, examples, reaches) for reaches in (tuple(Reach), (Reach.NODE,))
    )
    may_change = any(_keeps_apart(pod.shape) for pod in examples) or any(map(_may_change, unscaled))
    return PackingProblem(
        free=free,
        class_sizes=class_sizes,
        movable_pods=[],
        allowed_nodes=allowed,
        one_per_node=np.array([_keeps_apart(pod.shape) for pod in examples], np.bool_),
        max_moves=request.max_moves,
        cannot_empty=np.zeros(len(nodes.names), np.bool_),
        counts_empty_nodes=request.objective == "free-nodes",
        potential_nodes=potential if may_change else None,
        demands=demands,
    )


def _may_change(demand: _UnscaledDemand) -> bool:
    """Whether a demand may be allowed on other nodes once pods have moved."""
    potential = demand.potential_nodes
    return demand.one_per_node or (potential is not None and bool((potential != demand.allowed_nodes).any()))


def _vectors(amounts: Sequence[Amounts], columns: Sequence[int]) -> Ints:
    place = {column: number for number, column in enumerate(columns)}
    vectors = np.zeros((len(amounts), len(columns)), np.int64)
    for row, each in enumerate(amounts):
        for column, amount in each:
            vectors[row, place[column]] = amount
    return vectors


# --- allowed nodes ----------------------------------------------------------------------------------------------------


def _nodes_passing(
    snapshot: Snapshot, request: PlanRequest, nodes: _Nodes, examples: Sequence[Occupant], reaches: Collection[Reach]
) -> Callable[[int], Mask]:
    """A function from a class to the nodes that pass the filters of these reaches."""
    ready = ready_rows(snapshot)
    ready[[row for name in request.closed_targets if (row := snapshot.rows.find_row(name)) is not None]] = False

    @cache
    def allowed_nodes(class_index: int) -> Mask:
        example = examples[class_index]
        with snapshot.counting_only_room_of(example.key):
            pod_class = snapshot.class_of(example.pod, example.shape)
            cycle = Cycle(without_node_pin(example.pod), snapshot, request.now, pod_class)
            mask = _rows_passing(request, cycle, reaches) & ready
        if _keeps_apart(example.shape) and len(reaches) > 1:
            # The example itself was ignored on its node. The other pods of its class are not: it keeps them away.
            mask[snapshot.rows.find_row(example.node)] = False
        allowed: Mask = mask[nodes.rows]
        return allowed

    return allowed_nodes


def _rows_passing(request: PlanRequest, cycle: Cycle, reaches: Collection[Reach] = tuple(Reach)) -> Mask:
    """Rows that pass all filters of these reaches, except the one for resources."""
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
