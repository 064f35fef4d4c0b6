"""The strategy NodeResourceBalance: evens out the resources of nodes that are full of one and empty of another.

Goes in: a snapshot and a request. Comes out: a plan.

    rate        of a node: the population standard deviation of its utilisation over the resources
    threshold   min(mean + standard deviation of the rates of Ready nodes, maxThreshold), fixed for a run
    sources     nodes strictly above the threshold, the highest rate first, until they are not above it any more
    pods        the candidates of a source that it can lose without a higher rate; the cheapest to evict first: priority
                class, priority, Kubernetes QoS, Koordinator QoS, deletion cost, eviction cost, the rate without the
                pod, then the newest
    targets     nodes that get a lower rate by the pod; the one that gains most. So the sum of all rates falls with
                every move, and runs cannot go round in circles

A pod does not move back to its last node within the cool-down, and nodes in their cool-down are no sources. Nodes that
Defragmentation empties, or that would become too busy for LoadAware, are no targets; and no node loses so many pods
that Defragmentation would empty it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from restow.eviction.costs import deletion_cost, eviction_cost
from restow.eviction.qos_and_priority import koordinator_priority_class, koordinator_qos, kubernetes_qos, pod_priority
from restow.model.cluster import Mask, Occupant, RowIndex
from restow.model.counted_nouns import counted_noun
from restow.model.pods import namespaced_name
from restow.model.snapshot import Snapshot
from restow.model.times import time_of
from restow.planning.arguments import BalanceSettings, read_balance
from restow.planning.cooldown import cool_down_message, nodes_cooling_down, recent_source
from restow.planning.eviction_rules import candidates_on_node, foreign_pod_refusals, general_refusal, pod_refusal
from restow.planning.measures import (
    Rates,
    mean_and_deviation,
    name_ranks,
    node_imbalance,
    ready_rows,
    utilisation_percent,
)
from restow.planning.move_ordering import DesiredMove, order_moves
from restow.planning.move_simulation import MoveSimulation
from restow.planning.peer_constraints import PeerConstraints
from restow.planning.plan import Measures, Plan, PlanRefusal
from restow.planning.plan_effect import measures_after, object_versions
from restow.planning.plan_request import PlanRequest
from restow.planning.requested_usage import RequestedUsage

RATE_TOLERANCE = 1e-9
"""Rates that differ by less are equal: they are computed with rounding errors of about this size."""

QOS_ORDER = ("BestEffort", "Burstable", "Guaranteed")


def plan_balance(snapshot: Snapshot, request: PlanRequest) -> Plan:
    """Plan by the rules above. Raises WireError for wrong arguments."""
    settings = read_balance(request.arguments)
    with MoveSimulation(snapshot, request.engine, request.now) as simulation:
        run = _BalanceRun(simulation, request, settings)
        refusals = run.choose_moves()
        measures_with_all_moves = _measures(snapshot, settings.resources, run.threshold)

    def measure(cluster: Snapshot) -> Measures:
        return _measures(cluster, settings.resources, run.threshold)

    ordered = order_moves(snapshot, request, run.desired_moves, max_moves=request.max_moves)
    all_made = not ordered.dropped
    return Plan(
        strategy="balance",
        moves=ordered.moves,
        before=measure(snapshot),
        after=measures_with_all_moves if all_made else measures_after(snapshot, request, ordered.moves, measure),
        refusals=(*refusals, *ordered.dropped, *foreign_pod_refusals(snapshot, request.eviction_rules)),
        versions=object_versions(snapshot, ordered.moves),
    )


def imbalance_rates(snapshot: Snapshot, resources: Sequence[str]) -> Rates:
    """The rate of each node: how unevenly its resources are used; 0 where it offers fewer than two of them."""
    return node_imbalance([utilisation_percent(snapshot, name) / 100.0 for name in resources])


def imbalance_threshold(rates: Rates, ready: Mask, max_threshold: float | None) -> float:
    """The rate above which a node is a source."""
    mean, deviation = mean_and_deviation(rates[ready])
    return mean + deviation if max_threshold is None else min(mean + deviation, max_threshold)


def _measures(snapshot: Snapshot, resources: Sequence[str], threshold: float) -> Measures:
    ready = ready_rows(snapshot)
    rates = imbalance_rates(snapshot, resources)[ready]
    mean, deviation = mean_and_deviation(rates)
    return {
        "nodes": len(rates),
        "nodesAbove": int(np.count_nonzero(rates > threshold + RATE_TOLERANCE)),
        "threshold": round(threshold, 6),
        "imbalance.mean": round(mean, 6),
        "imbalance.deviation": round(deviation, 6),
        "imbalance.largest": round(float(rates.max(initial=0.0)), 6),
    }


class _BalanceRun:
    def __init__(self, simulation: MoveSimulation, request: PlanRequest, settings: BalanceSettings) -> None:
        self.desired_moves: list[DesiredMove] = []
        self._simulation = simulation
        self._snapshot = snapshot = simulation.snapshot
        self._request = request
        self._settings = settings
        self._cool_down = request.cool_down(settings.cool_down)
        self._usage = RequestedUsage(snapshot, settings.resources)
        self._name_ranks = name_ranks(snapshot)
        self._ready = ready_rows(snapshot)
        self._rates = imbalance_rates(snapshot, settings.resources)
        self.threshold = imbalance_threshold(self._rates, self._ready, settings.max_threshold)
        self._peers = PeerConstraints(snapshot, request)
        self._target_rows: Mask = self._ready & ~self._peers.emptied_rows()

    def choose_moves(self) -> list[PlanRefusal]:
        """Choose moves until there are no more; returns which pods stay, and why."""
        request = self._request
        resting = nodes_cooling_down(self._snapshot, request.last_migrations, request.now, self._cool_down)
        refusals: list[PlanRefusal] = []
        sources = np.flatnonzero(self._ready & (self._rates > self.threshold + RATE_TOLERANCE))
        sources = sources[np.lexsort((self._name_ranks[sources], -self._rates[sources]))]
        for row in sources.tolist():
            node = self._node_name(row)
            # A node may have become the target of earlier moves since, and be balanced now.
            if len(self.desired_moves) < request.max_moves and node not in resting and self._is_above(row):
                refusals += self._move_pods_off(node, row)
        return [*refusals, *self._summary(sources, resting)]

    def _is_above(self, row: int) -> bool:
        return self._rates.item(row) > self.threshold + RATE_TOLERANCE

    def _summary(self, sources: RowIndex, resting: frozenset[str]) -> Iterator[PlanRefusal]:
        """One sentence about the nodes that stay above the threshold, or that there were none."""
        if not len(sources):
            yield general_refusal(f"0 of {self._ready.sum()} nodes are above the threshold {self.threshold:.3f}")
        above = {self._node_name(row): self._rates.item(row) for row in sources.tolist() if self._is_above(row)}
        if not above:
            return
        worst = max(sorted(above), key=above.__getitem__)
        count = counted_noun(len(above), "node", "stay")
        message = f"{count} above the threshold {self.threshold:.3f}; the highest is {worst} with {above[worst]:.3f}"
        if resting_count := len(resting & above.keys()):
            message += f"; {resting_count} of them {cool_down_message(self._cool_down)}"
        if len(self.desired_moves) >= self._request.max_moves:
            message += f"; the limit of {counted_noun(len(self.desired_moves), 'move')} is reached"
        yield general_refusal(message)

    def _move_pods_off(self, node: str, row: int) -> list[PlanRefusal]:
        """Choose moves off a node until it is not above the threshold; returns which pods stay, and why."""
        on_node = candidates_on_node(self._snapshot, node, self._request.eviction_rules)
        refusals = list(on_node.refusals)
        candidates: list[tuple[float, Occupant]] = []
        for pod in on_node.candidates:
            rate = self._usage.imbalance_at(row, without=pod)
            reason = self._settings.pods.refusal_reason(pod.pod)
            if not reason and rate > self._rates[row] + RATE_TOLERANCE:
                reason = f"without it the imbalance of {node} would rise from {self._rates[row]:.3f} to {rate:.3f}"
            if reason:
                refusals.append(pod_refusal(pod.pod, reason))
            else:
                candidates.append((rate, pod))
        for _, pod in sorted(candidates, key=lambda pair: _cheapest_first(*pair)):
            if not self._is_above(row) or len(self.desired_moves) >= self._request.max_moves:
                break
            reason = self._move_pod(pod, row)
            if reason:
                refusals.append(pod_refusal(pod.pod, reason))
        return refusals

    def _move_pod(self, pod: Occupant, row: int) -> str:
        """Move the pod to the target that gains most; returns why it stays, if there is no target."""
        # 1. The source: earlier moves may have changed what the removal of this pod does.
        rate_without = self._usage.imbalance_at(row, without=pod)
        if rate_without >= self._rates[row] - RATE_TOLERANCE:
            return "after the moves before it, its removal would not lower the imbalance of its node"
        if self._peers.would_be_emptied(pod, row):
            return "without it Defragmentation would empty its node"
        # 2. The target: of those that the pod improves, the one that it improves most.
        rows = self._simulation.feasible_rows(pod.key)
        rows = self._peers.rows_kept_cool(pod, rows[self._target_rows[rows]])
        with_room = len(rows)
        last_node = recent_source(pod.pod, self._request.now, self._cool_down)
        rows = rows[rows != self._snapshot.rows.find_row(last_node)] if last_node is not None else rows
        gains = self._rates[rows] - self._usage.imbalance_with(pod, rows)
        improved = gains > RATE_TOLERANCE
        rows, gains = rows[improved], gains[improved]
        if not len(rows):
            return (
                f"{counted_noun(with_room, 'other node', 'have')} room for it, but it would lower the imbalance of none"
            )
        best = rows[gains >= gains.max() - RATE_TOLERANCE]
        target = int(best[self._name_ranks[best].argmin()])
        # 3. Each move is a wave of its own here: the pod leaves at once, so that later pods see its node without it.
        self._simulation.reserve_target(pod.key, self._node_name(target))
        self._simulation.end_wave()
        self.desired_moves.append(DesiredMove(pod.key, self._node_name(target)))
        for changed, sign in ((row, -1), (target, 1)):
            self._usage.add_pod(pod, changed, sign)
            self._peers.add_pod(pod, changed, sign)
            self._rates[changed] = self._usage.imbalance_at(changed)
        return ""

    def _node_name(self, row: int) -> str:
        return self._snapshot.rows.name(row) or ""


def _cheapest_first(rate: float, occupant: Occupant) -> tuple[object, ...]:
    pod = occupant.pod
    return (
        koordinator_priority_class(pod),
        pod_priority(pod),
        QOS_ORDER.index(kubernetes_qos(pod)),
        koordinator_qos(pod),
        deletion_cost(pod),
        eviction_cost(pod),
        round(rate, 9),
        -(time_of(pod.metadata.creation_timestamp) or 0.0),
        *namespaced_name(pod),
    )
