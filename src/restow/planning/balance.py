"""Balance: nodes that are full of one resource and empty of another give pods to nodes that are the other way round.

    rate        of a node: the population standard deviation of used per offered over the resources
    threshold   min(mean + deviation of the rates of Ready nodes, maxThreshold), fixed for a run
    sources     nodes strictly above it, worst first, until they are not
    pods        of a source, those that may move and whose leaving does not raise its rate; cheapest first: class of
                priority, priority, Kubernetes' quality of service, Koordinator's, deletion cost, eviction cost, the
                rate without it, then the newest
    targets     where the pod lowers the rate, too: the one that gains most. So the sum of all rates falls with every
                move, and no sequence of runs comes back to where it was

A pod is not sent back to where it came from within the cool-down, and nodes that rest give nothing. Nodes that another
plugin empties, or that would become too busy for another, take nobody; none is drained so far that another empties it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from restow.eviction.costs import deletion_cost, eviction_cost
from restow.eviction.qos_and_priority import kubernetes_qos, pod_priority, koordinator_priority_class, koordinator_qos
from restow.model.cluster import Mask, Occupant, RowIndex
from restow.model.pods import full_name
from restow.model.snapshot import Snapshot
from restow.model.times import time_of
from restow.model.words import number_of
from restow.planning.arguments import BalanceSettings, read_balance
from restow.planning.move_simulation import MoveSimulation
from restow.planning.cooldown import recent_source, nodes_cooling_down, cool_down_message
from restow.planning.plan_effect import measures_after, object_versions
from restow.planning.measures import Rates, node_imbalance, ready_rows, mean_and_deviation, name_ranks, utilisation_percent
from restow.planning.eviction_rules import general_refusal, foreign_pod_refusals, candidates_on_node, pod_refusal
from restow.planning.peer_constraints import PeerConstraints
from restow.planning.plan import Measures, Plan, Refusal
from restow.planning.plan_request import PlanRequest
from restow.planning.move_ordering import DesiredMove, order_moves
from restow.planning.requested_usage import RequestedUsage

RATE_TOLERANCE = 1e-9
"""Rates that differ by less are the same: it is how exact they are computed."""

QOS_ORDER = ("BestEffort", "Burstable", "Guaranteed")


def plan_balance(snapshot: Snapshot, request: PlanRequest) -> Plan:
    """Plan by the rules above. Raises WireError for wrong arguments."""
    settings = read_balance(request.arguments)
    with MoveSimulation(snapshot, request.engine, request.now) as bookings:
        run = _BalanceRun(bookings, request, settings)
        refusals = run.run()
        all_moved = _figures(snapshot, settings.resources, run.threshold)

    def measure(cluster: Snapshot) -> Measures:
        return _figures(cluster, settings.resources, run.threshold)

    ordered = order_moves(snapshot, request, run.wanted, max_moves=request.max_moves)
    return Plan(
        strategy="balance",
        moves=ordered.moves,
        before=measure(snapshot),
        after=measures_after(snapshot, request, ordered.moves, measure) if ordered.dropped else all_moved,
        refusals=(*refusals, *ordered.dropped, *foreign_pod_refusals(snapshot, request.eviction_rules)),
        versions=object_versions(snapshot, ordered.moves),
    )


def imbalance_rates(snapshot: Snapshot, resources: Sequence[str]) -> Rates:
    """How unevenly the resources of each node are used; 0 where fewer than two are offered."""
    return node_imbalance([utilisation_percent(snapshot, name) / 100.0 for name in resources])


def imbalance_threshold(rates: Rates, ready: Mask, limit: float | None) -> float:
    """Above which a node is out of balance."""
    mean, deviation = mean_and_deviation(rates[ready])
    return min(mean + deviation, mean + deviation if limit is None else limit)


def _figures(snapshot: Snapshot, resources: Sequence[str], threshold: float) -> Measures:
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
    def __init__(self, bookings: MoveSimulation, request: PlanRequest, settings: BalanceSettings) -> None:
        self.wanted: list[DesiredMove] = []
        self._bookings = bookings
        self._snapshot = snapshot = bookings.snapshot
        self._request = request
        self._settings = settings
        self._cool_down = request.cool_down(settings.cool_down)
        self._use = RequestedUsage(snapshot, settings.resources)
        self._by_name = name_ranks(snapshot)
        self._ready = ready_rows(snapshot)
        self._rates = imbalance_rates(snapshot, settings.resources)
        self.threshold = imbalance_threshold(self._rates, self._ready, settings.max_threshold)
        self._neighbours = PeerConstraints(snapshot, request)
        self._taking: Mask = self._ready & ~self._neighbours.emptied_rows()

    def run(self) -> list[Refusal]:
        """Book moves until nothing is left to do; what stays, and why."""
        rest = nodes_cooling_down(self._snapshot, self._request.last_migrations, self._request.now, self._cool_down)
        refusals: list[Refusal] = []
        over = np.flatnonzero(self._ready & (self._rates > self.threshold + RATE_TOLERANCE))
        over = over[np.lexsort((self._by_name[over], -self._rates[over]))]
        for row in over.tolist():
            node = self._snapshot.rows.name(row) or ""
            if len(self.wanted) < self._request.max_moves and node not in rest and self._is_over(row):
                refusals += self._relieve(node, row)
        return [*refusals, *self._left_over(over, rest)]

    def _is_over(self, row: int) -> bool:
        return self._rates.item(row) > self.threshold + RATE_TOLERANCE

    def _left_over(self, rows: RowIndex, rest: frozenset[str]) -> Iterator[Refusal]:
        """How many nodes stay out of balance, in one sentence; or that there was none to begin with."""
        if not len(rows):
            yield general_refusal(f"0 of {self._ready.sum()} nodes are above the threshold {self.threshold:.3f}")
        still = {
            self._snapshot.rows.name(row) or "": self._rates.item(row) for row in rows.tolist() if self._is_over(row)
        }
        if not still:
            return
        worst = max(sorted(still), key=still.__getitem__)
        stay = number_of(len(still), "node", "stay")
        told = f"{stay} above the threshold {self.threshold:.3f}, {worst} most with {still[worst]:.3f}"
        resting = len(rest & still.keys())
        if resting:
            told += f"; {resting} of them {cool_down_message(self._cool_down)}"
        if len(self.wanted) >= self._request.max_moves:
            told += f"; {number_of(len(self.wanted), 'move', 'are')} the most asked for"
        yield general_refusal(told)

    def _relieve(self, node: str, row: int) -> list[Refusal]:
        """Move pods of a node until it is not above the threshold; those that may not move, and why."""
        guests = candidates_on_node(self._snapshot, node, self._request.eviction_rules)
        refusals = list(guests.refusals)
        candidates: list[tuple[float, Occupant]] = []
        for one in guests.candidates:
            rate = self._use.imbalance_at(row, without=one)
            why = self._settings.pods.refusal_reason(one.pod)
            if not why and rate > self._rates[row] + RATE_TOLERANCE:
                why = f"without it the imbalance of {node} would rise from {self._rates[row]:.3f} to {rate:.3f}"
            if why:
                refusals.append(pod_refusal(one.pod, why))
            else:
                candidates.append((rate, one))
        for _, one in sorted(candidates, key=lambda pair: _cheapest_first(*pair)):
            if not self._is_over(row) or len(self.wanted) >= self._request.max_moves:
                break
            why = self._move(one, row)
            if why:
                refusals.append(pod_refusal(one.pod, why))
        return refusals

    def _move(self, pod: Occupant, row: int) -> str:
        """Hold the target that gains most by the pod; why not, if there is none."""
        left = self._use.imbalance_at(row, without=pod)
        if left >= self._rates[row] - RATE_TOLERANCE:
            return "with the pods before it gone, its leaving would no longer lower the imbalance of its node"
        if self._neighbours.would_be_emptied(pod, row):
            return "without it so little would be used there that Defragmentation empties its node"
        rows = self._bookings.feasible_rows(pod.key)
        rows = self._neighbours.rows_kept_cool(pod, rows[self._taking[rows]])
        taking = len(rows)
        back = recent_source(pod.pod, self._request.now, self._cool_down)
        rows = rows[rows != self._snapshot.rows.find(back)] if back is not None else rows
        gains = self._rates[rows] - self._use.imbalance_with(pod, rows)
        better = gains > RATE_TOLERANCE
        rows, gains = rows[better], gains[better]
        if not len(rows):
            return f"{number_of(taking, 'other node', 'have')} room for it, and it would lower the imbalance of none"
        best = rows[gains >= gains.max() - RATE_TOLERANCE]
        target = int(best[self._by_name[best].argmin()])
        self._bookings.reserve_target(pod.key, self._snapshot.rows.name(target) or "")
        self._bookings.end_wave()
        self.wanted.append(DesiredMove(pod.key, self._snapshot.rows.name(target) or ""))
        for changed, sign in ((row, -1), (target, 1)):
            self._use.add_pod(pod, changed, sign)
            self._neighbours.add_pod(pod, changed, sign)
            self._rates[changed] = self._use.imbalance_at(changed)
        return ""


def _cheapest_first(rate: float, one: Occupant) -> tuple[object, ...]:
    pod = one.pod
    return (
        koordinator_priority_class(pod),
        pod_priority(pod),
        QOS_ORDER.index(kubernetes_qos(pod)),
        koordinator_qos(pod),
        deletion_cost(pod),
        eviction_cost(pod),
        round(rate, 9),
        -(time_of(pod.metadata.creation_timestamp) or 0.0),
        *full_name(pod),
    )
