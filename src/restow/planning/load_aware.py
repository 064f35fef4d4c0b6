"""The strategy LoadAware: moves pods from nodes with a high measured load to nodes with a low one.

Goes in: a snapshot, and a request with usage samples. Comes out: a plan.

    load      of a node: its measured usage in percent of the allocatable amount; samples older than maxAge are ignored
    sources   Ready nodes above a targetThreshold, the most loaded first, until they are not above it any more
    pods      the candidates of a source that have a sample; the one that uses most of the overused resource first. A
              pod that uses none of what is still overused stays
    targets   Ready nodes, not cordoned, below every threshold; the least loaded one that passes the scheduler's filters
              and stays within every targetThreshold with the usage of the pod

Nodes in their cool-down after a migration, of whatever plugin, are neither: their samples are from before the
migration. A pod does not move back to its last node within the cool-down. Nodes that Defragmentation empties are the
last resort: a pod that Defragmentation would move on from there to a fuller node moves to that one at once.
"""

from __future__ import annotations

import numpy as np

from restow.model.cluster import Mask, Occupant, RowIndex
from restow.model.counted_nouns import counted_noun
from restow.model.pods import namespaced_name
from restow.model.resources import CPU, PODS
from restow.model.snapshot import Snapshot
from restow.planning.arguments import LoadAwareSettings, read_load_aware
from restow.planning.cooldown import cool_down_message, nodes_cooling_down, recent_source
from restow.planning.eviction_rules import candidates_on_node, foreign_pod_refusals, general_refusal, pod_refusal
from restow.planning.measured_load import MeasuredLoad
from restow.planning.measures import cluster_overview, name_ranks, ready_rows
from restow.planning.move_ordering import DesiredMove, order_moves
from restow.planning.move_simulation import MoveSimulation
from restow.planning.peer_constraints import PeerConstraints
from restow.planning.plan import Measures, Plan, PlanRefusal
from restow.planning.plan_effect import measures_after, object_versions
from restow.planning.plan_request import PlanRequest
from restow.planning.usage_samples import UsageSample, UsageSamples


def plan_load_aware(snapshot: Snapshot, request: PlanRequest) -> Plan:
    """Plan by the rules above. Raises WireError for wrong arguments."""
    settings = read_load_aware(request.arguments)
    with MoveSimulation(snapshot, request.engine, request.now) as simulation:
        run = _LoadAwareRun(simulation, request, settings)
        refusals = run.choose_moves()
    ordered = order_moves(snapshot, request, run.desired_moves, max_moves=request.max_moves)
    return Plan(
        strategy="load-aware",
        moves=ordered.moves,
        before={**cluster_overview(snapshot), **run.measures_before},
        after={**measures_after(snapshot, request, ordered.moves, cluster_overview), **run.measures()},
        refusals=(*refusals, *ordered.dropped, *foreign_pod_refusals(snapshot, request.eviction_rules)),
        versions=object_versions(snapshot, ordered.moves),
    )


class _LoadAwareRun:
    def __init__(self, simulation: MoveSimulation, request: PlanRequest, settings: LoadAwareSettings) -> None:
        self.desired_moves: list[DesiredMove] = []
        self._simulation = simulation
        self._snapshot = snapshot = simulation.snapshot
        self._request = request
        self._settings = settings
        self._load = load = MeasuredLoad(snapshot, request, settings.busy_thresholds, settings.usage_source.max_age)
        self._peers = PeerConstraints(snapshot, request)
        self._emptied_rows = self._peers.emptied_rows()
        self._name_ranks = name_ranks(snapshot)
        self._cool_down = request.cool_down(settings.cool_down)
        resting = nodes_cooling_down(snapshot, request.last_migrations, request.now, self._cool_down)
        self._usable: Mask = ready_rows(snapshot) & load.known_rows
        """Rows that may be sources or targets: their load is known, and they are not in their cool-down."""
        self._known_count = int(self._usable.sum())
        self._usable[[row for name in resting if (row := snapshot.rows.find_row(name)) is not None]] = False
        self.measures_before = self.measures()

    def measures(self) -> Measures:
        rows = np.flatnonzero(self._usable)
        return {"measuredNodes": len(rows), "busyNodes": sum(self._is_busy(row) for row in rows.tolist())}

    # --- planning -----------------------------------------------------------------------------------------------------

    def choose_moves(self) -> list[PlanRefusal]:
        """Choose moves until there are no more; returns which pods stay, and why."""
        samples, settings = self._request.measured_usage, self._settings
        if samples is None or not samples.nodes:
            reason = samples.unavailable_reason if samples else "usage metrics were not read"
            return [general_refusal(f"measured usage is not available: {reason}")]
        refusals = self._ignored_nodes(samples)
        rows = np.flatnonzero(self._usable)
        busy = [row for row in rows.tolist() if self._is_busy(row)]
        idle_count = len(self._idle_rows(rows))
        if not busy:
            return [*refusals, general_refusal(f"none of {len(rows)} measured nodes is above targetThresholds")]
        if idle_count <= settings.number_of_nodes:
            return [*refusals, general_refusal(f"{idle_count} of {len(rows)} measured nodes are below thresholds")]
        for row in sorted(busy, key=self._most_loaded_first):
            refusals += self._move_pods_off(row)
        return refusals

    def _ignored_nodes(self, samples: UsageSamples) -> list[PlanRefusal]:
        """Sentences about the nodes with an unknown load, and about those in their cool-down."""
        max_age = self._settings.usage_source.max_age
        stale, _ = samples.count_older_than(self._request.now - max_age)
        ready = [self._node_name(row) for row in np.flatnonzero(ready_rows(self._snapshot)).tolist()]
        required = self._settings.busy_thresholds.keys() - {PODS}
        missing = sum(name not in samples.nodes or not required <= samples.nodes[name].amounts.keys() for name in ready)
        messages = [f"{counted_noun(stale, 'node', 'were')} measured more than {max_age:g}s ago"] if stale else []
        messages += [f"{missing} of {len(ready)} Ready nodes are not measured"] if missing else []
        if resting := self._known_count - int(self._usable.sum()):
            messages.append(f"{resting} of {self._known_count} measured nodes {cool_down_message(self._cool_down)}")
        return list(map(general_refusal, messages))

    def _most_loaded_first(self, row: int) -> tuple[float, int]:
        return -self._load.excess_points(self._settings.busy_thresholds, row), int(self._name_ranks[row])

    def _is_busy(self, row: int) -> bool:
        return self._load.excess_points(self._settings.busy_thresholds, row) > 0

    def _idle_rows(self, rows: RowIndex) -> RowIndex:
        """Of these rows, those that may be targets."""
        rows = rows[self._usable[rows] & ~self._snapshot.nodes.unschedulable[rows]]
        return rows[self._load.rows_below(self._settings.idle_thresholds, rows)]

    def _move_pods_off(self, row: int) -> list[PlanRefusal]:
        """Choose moves off a busy node until it is not busy any more; returns which pods stay, and why."""
        on_node = candidates_on_node(self._snapshot, self._node_name(row), self._request.eviction_rules)
        refusals = list(on_node.refusals)
        candidates: list[tuple[Occupant, UsageSample]] = []
        for pod in on_node.candidates:
            sample = self._load.pod_sample(pod)
            reason = self._settings.pods.refusal_reason(pod.pod) or ("" if sample else "its usage is not measured")
            if reason or sample is None:
                refusals.append(pod_refusal(pod.pod, reason))
            else:
                candidates.append((pod, sample))
        for pod, _ in sorted(candidates, key=lambda pair: self._heaviest_first(row, *pair)):
            if not self._is_busy(row) or len(self.desired_moves) >= self._request.max_moves:
                break
            reason = self._why_useless(pod, row) or self._move_pod(pod, row)
            if reason:
                refusals.append(pod_refusal(pod.pod, reason))
        return refusals

    def _heaviest_first(self, row: int, pod: Occupant, sample: UsageSample) -> tuple[object, ...]:
        overused = self._overused_resources(row)
        main = CPU if CPU in overused else next(iter(overused), CPU)
        return -sample.amounts.get(main, 0), *namespaced_name(pod.pod)

    def _why_useless(self, pod: Occupant, source: int) -> str:
        """Why the source would be as busy without the pod; empty if it would be less busy."""
        overused = self._overused_resources(source)
        if self._load.uses_any(pod, overused):
            return ""
        return f"it uses no {' or '.join(overused)}, which is overused on its node"

    def _overused_resources(self, row: int) -> list[str]:
        thresholds = self._settings.busy_thresholds
        return [name for name in thresholds if self._load.percents[name].item(row) > thresholds[name]]

    def _move_pod(self, pod: Occupant, source: int) -> str:
        """Move the pod to the best target; returns why it stays, if there is no target."""
        rows = self._simulation.feasible_rows(pod.key)
        last_node = recent_source(pod.pod, self._request.now, self._cool_down)
        others = rows[rows != self._snapshot.rows.find_row(last_node)] if last_node is not None else rows
        idle = self._idle_rows(others)
        fitting = idle[self._load.rows_within(self._settings.busy_thresholds, pod, idle)]
        if not len(fitting):
            room = f"{counted_noun(len(rows), 'other node', 'have')} room for it"
            if not len(idle):
                return f"{room}, none of them below thresholds"
            return f"{room}, {len(idle)} of them below thresholds, and with it each would be above targetThresholds"
        target = self._target(pod, fitting, others)
        # Each move is a wave of its own here: the pod leaves at once, so that later pods see its node without it.
        self._simulation.reserve_target(pod.key, self._node_name(target))
        self._simulation.end_wave()
        self.desired_moves.append(DesiredMove(pod.key, self._node_name(target)))
        for row, sign in ((source, -1), (target, 1)):
            self._load.add_pod(pod, row, sign)
            self._peers.add_pod(pod, row, sign)
        return ""

    def _target(self, pod: Occupant, idle: RowIndex, feasible: RowIndex) -> int:
        """The target of a pod, from the idle rows that stay within the thresholds with it."""
        # 1. The least loaded node that Defragmentation does not empty.
        not_emptied = idle[~self._emptied_rows[idle]]
        if len(not_emptied):
            return self._least_loaded(not_emptied)
        # 2. Only emptied nodes are left. Where Defragmentation would move the pod on to, unless that gets busy.
        for nodes in self._peers.defragmentation:
            accepting = nodes.rows_accepting(pod, feasible[self._usable[feasible]])
            accepting = accepting[self._load.rows_within(self._settings.busy_thresholds, pod, accepting)]
            if len(accepting):
                return nodes.most_used_first(accepting)[0]
        # 3. The least loaded of the emptied nodes.
        return self._least_loaded(idle)

    def _least_loaded(self, rows: RowIndex) -> int:
        order = np.lexsort((self._name_ranks[rows], self._load.highest_percents(rows)))
        return int(rows[order[0]])

    def _node_name(self, row: int) -> str:
        return self._snapshot.rows.name(row) or ""
