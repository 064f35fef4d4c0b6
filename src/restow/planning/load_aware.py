"""LoadAware: pods of nodes that are really busy move to nodes that are really idle.

    use       what is measured, per what the node offers; older than maxAge is as good as not measured
    sources   Ready, above one targetThreshold, busiest first, until they are not
    pods      of a source, those that may move and are measured; most of the overused resource first, and nobody who
              uses none of what is still overused
    targets   Ready, not cordoned, below every threshold; the idlest that takes the pod by the scheduler's own filters,
              and that no targetThreshold is passed with what the pod uses

Nodes that rest after a migration, whoever caused it, are neither: what is measured there is of before. A pod is not
sent back within the cool-down. Nodes that Defragmentation empties are the last resort: a pod that it could bring from
there to a fuller node goes to that one at once.
"""

from __future__ import annotations

import numpy as np

from restow.model.cluster import Mask, Occupant, RowIndex
from restow.model.pods import full_name
from restow.model.resources import CPU, PODS
from restow.model.snapshot import Snapshot
from restow.model.words import number_of
from restow.planning.arguments import LoadAwareSettings, read_load_aware
from restow.planning.move_simulation import MoveSimulation
from restow.planning.cooldown import recent_source, nodes_cooling_down, cool_down_message
from restow.planning.plan_effect import measures_after, object_versions
from restow.planning.measured_load import MeasuredLoad
from restow.planning.usage_samples import UsageSamples, UsageSample
from restow.planning.measures import ready_rows, name_ranks, cluster_overview
from restow.planning.eviction_rules import general_refusal, foreign_pod_refusals, candidates_on_node, pod_refusal
from restow.planning.peer_constraints import PeerConstraints
from restow.planning.plan import Measures, Plan, Refusal
from restow.planning.plan_request import PlanRequest
from restow.planning.move_ordering import DesiredMove, order_moves


def plan_load_aware(snapshot: Snapshot, request: PlanRequest) -> Plan:
    """Plan by the rules above. Raises WireError for wrong arguments."""
    settings = read_load_aware(request.arguments)
    with MoveSimulation(snapshot, request.engine, request.now) as bookings:
        run = _LoadAwareRun(bookings, request, settings)
        refusals = run.run()
    ordered = order_moves(snapshot, request, run.wanted, max_moves=request.max_moves)

    return Plan(
        strategy="load-aware",
        moves=ordered.moves,
        before={**cluster_overview(snapshot), **run.before},
        after={**measures_after(snapshot, request, ordered.moves, cluster_overview), **run.figures()},
        refusals=(*refusals, *ordered.dropped, *foreign_pod_refusals(snapshot, request.eviction_rules)),
        versions=object_versions(snapshot, ordered.moves),
    )


class _LoadAwareRun:
    def __init__(self, bookings: MoveSimulation, request: PlanRequest, settings: LoadAwareSettings) -> None:
        self.wanted: list[DesiredMove] = []
        self._bookings = bookings
        self._snapshot = snapshot = bookings.snapshot
        self._request = request
        self._settings = settings
        self._heat = heat = MeasuredLoad(snapshot, request, settings.busy_thresholds, settings.usage_source.max_age)
        self._neighbours = PeerConstraints(snapshot, request)
        self._emptied = self._neighbours.emptied_rows()
        self._by_name = name_ranks(snapshot)
        self._cool_down = request.cool_down(settings.cool_down)
        rest = nodes_cooling_down(snapshot, request.last_migrations, request.now, self._cool_down)
        self._part: Mask = ready_rows(snapshot) & heat.known_rows
        """Rows that take part: what they use is known, and they do not rest."""
        self._known = int(self._part.sum())
        self._part[[row for name in rest if (row := snapshot.rows.find(name)) is not None]] = False
        self.before = self.figures()

    def figures(self) -> Measures:
        rows = np.flatnonzero(self._part)
        return {"measuredNodes": len(rows), "busyNodes": sum(self._is_busy(row) for row in rows.tolist())}

    # --- planning -----------------------------------------------------------------------------------------------------

    def run(self) -> list[Refusal]:
        """Book moves until nothing is left to do; what stays, and why."""
        use, settings = self._request.measured_usage, self._settings
        if use is None or not use.nodes:
            return [general_refusal(f"there is no measured use: {use.unavailable_reason if use else 'nobody measures'}")]
        told = self._left_alone(use)
        rows = np.flatnonzero(self._part)
        busy = [row for row in rows.tolist() if self._is_busy(row)]
        idle = len(self._idle(rows))
        if not busy:
            return [*told, general_refusal(f"none of {len(rows)} measured nodes is above targetThresholds")]
        if idle <= settings.number_of_nodes:
            return [*told, general_refusal(f"{idle} of {len(rows)} measured nodes are below thresholds")]
        for row in sorted(busy, key=lambda one: (-self._heat.excess_points(settings.busy_thresholds, one), self._by_name[one])):
            told += self._relieve(row)
        return told

    def _left_alone(self, use: UsageSamples) -> list[Refusal]:
        """How many nodes are left alone because nobody knows what they use, or because they rest."""
        max_age = self._settings.usage_source.max_age
        stale, _ = use.count_older_than(self._request.now - max_age)
        ready = [self._name(row) for row in np.flatnonzero(ready_rows(self._snapshot)).tolist()]
        wanted = self._settings.busy_thresholds.keys() - {PODS}
        missing = sum(name not in use.nodes or not wanted <= use.nodes[name].amounts.keys() for name in ready)
        found = [f"{number_of(stale, 'node', 'were')} measured more than {max_age:g}s ago"] if stale else []
        found += [f"{missing} of {len(ready)} Ready nodes are not measured"] if missing else []
        if rests := self._known - int(self._part.sum()):
            found.append(f"{rests} of {self._known} measured nodes {cool_down_message(self._cool_down)}")
        return list(map(general_refusal, found))

    def _is_busy(self, row: int) -> bool:
        return self._heat.excess_points(self._settings.busy_thresholds, row) > 0

    def _idle(self, rows: RowIndex) -> RowIndex:
        """Those of these rows that may take somebody."""
        rows = rows[self._part[rows] & ~self._snapshot.nodes.unschedulable[rows]]
        return rows[self._heat.rows_below(self._settings.idle_thresholds, rows)]

    def _relieve(self, row: int) -> list[Refusal]:
        """Move pods of a busy node until it is not; those that stay, and why."""
        guests = candidates_on_node(self._snapshot, self._name(row), self._request.eviction_rules)
        refusals = list(guests.refusals)
        candidates: list[tuple[Occupant, UsageSample]] = []
        for one in guests.candidates:
            sample = self._heat.pod_sample(one)
            why = self._settings.pods.refusal_reason(one.pod) or ("" if sample else "what it uses is not measured")
            if why or sample is None:
                refusals.append(pod_refusal(one.pod, why))
            else:
                candidates.append((one, sample))
        for one, _ in sorted(candidates, key=lambda pair: self._heaviest_first(row, *pair)):
            if not self._is_busy(row) or len(self.wanted) >= self._request.max_moves:
                break
            why = self._of_no_help(one, row) or self._move(one, row)
            if why:
                refusals.append(pod_refusal(one.pod, why))
        return refusals

    def _heaviest_first(self, row: int, one: Occupant, sample: UsageSample) -> tuple[object, ...]:
        over = self._overused(row)
        main = CPU if CPU in over else next(iter(over), CPU)
        return -sample.amounts.get(main, 0), *full_name(one.pod)

    def _of_no_help(self, pod: Occupant, source: int) -> str:
        """Why a node would be as busy without the pod, if it would."""
        over = self._overused(source)
        if self._heat.uses_any(pod, over):
            return ""
        return f"it uses no {' or '.join(over)}, of which too much is used there"

    def _overused(self, row: int) -> list[str]:
        limits = self._settings.busy_thresholds
        return [name for name in limits if self._heat.percents[name].item(row) > limits[name]]

    def _move(self, pod: Occupant, source: int) -> str:
        """Hold a node for the pod; why not, if there is none."""
        rows = self._bookings.feasible_rows(pod.key)
        back = recent_source(pod.pod, self._request.now, self._cool_down)
        others = rows[rows != self._snapshot.rows.find(back)] if back is not None else rows
        idle = self._idle(others)
        fits = idle[self._heat.rows_within(self._settings.busy_thresholds, pod, idle)]
        if not len(fits):
            room = f"{number_of(len(rows), 'other node', 'have')} room for it"
            return f"{room}, {len(idle)} idle, and none would stay so with it"
        target = self._target(pod, fits, others)
        self._bookings.reserve_target(pod.key, self._name(target))
        self._bookings.end_wave()
        self.wanted.append(DesiredMove(pod.key, self._name(target)))
        for row, sign in ((source, -1), (target, 1)):
            self._heat.add_pod(pod, row, sign)
            self._neighbours.add_pod(pod, row, sign)
        return ""

    def _target(self, pod: Occupant, idle: RowIndex, takers: RowIndex) -> int:
        """The idlest node that is not being emptied; else where the pod would be packed to; else the idlest."""
        kept = idle[~self._emptied[idle]]
        if len(kept):
            return self._idlest(kept)
        for packing in self._neighbours.defragmentation:
            full = packing.rows_accepting(pod, takers[self._part[takers]])
            full = full[self._heat.rows_within(self._settings.busy_thresholds, pod, full)]
            if len(full):
                return packing.most_used_first(full)[0]
        return self._idlest(idle)

    def _idlest(self, rows: RowIndex) -> int:
        order = np.lexsort((self._by_name[rows], self._heat.highest_percents(rows)))
        return int(rows[order[0]])

    def _name(self, row: int) -> str:
        return self._snapshot.rows.name(row) or ""
