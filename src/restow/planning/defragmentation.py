"""The strategy Defragmentation: moves pods from little used nodes to well used ones, so that free room gathers.

Goes in: a snapshot and a request. Comes out: a plan.

    sources   Ready nodes, below every lowThreshold, not labelled critical=true and not in their cool-down; the least
              used first
    pods      the candidates of a source; the largest request of the resource type first
    targets   Ready nodes, above every defragmentThreshold and below every protectionThreshold (all strictly); the most
              used first, as usage grows with the moves planned. A move never brings a target above a
              protectionThreshold

Usage is what all pods request and what reservations hold, divided by the allocatable amount. A node that does not offer
a resource that has a threshold is neither source nor target. Nothing happens unless there are more sources than
`numberOfNodes`. With `onlyIfEmptied` a source is left alone if one of its pods has to stay, for whatever reason. If the
policy has LoadAware as well, no target becomes busier than LoadAware allows.
"""

from __future__ import annotations

import msgspec
import numpy as np

from restow.model.cluster import Occupant, PodClass, RowIndex
from restow.model.counted_nouns import counted_noun
from restow.model.pods import namespaced_name
from restow.model.snapshot import Snapshot
from restow.planning.arguments import DefragmentationSettings, read_defragmentation
from restow.planning.cooldown import cool_down_message, nodes_cooling_down
from restow.planning.cycle_limits import MoveCounter
from restow.planning.defragmentation_nodes import DefragmentationNodes
from restow.planning.eviction_rules import candidates_on_node, foreign_pod_refusals, general_refusal, pod_refusal
from restow.planning.measures import cluster_overview
from restow.planning.move_ordering import DesiredMove, OrderedMoves, order_moves
from restow.planning.move_simulation import MoveSimulation
from restow.planning.peer_constraints import PeerConstraints
from restow.planning.plan import Measures, Plan, PlanRefusal
from restow.planning.plan_effect import measures_after, object_versions
from restow.planning.plan_request import PlanRequest
from restow.planning.requested_usage import Percents
from restow.scheduling.explain import count_reasons, reason_histogram


def plan_defragmentation(snapshot: Snapshot, request: PlanRequest) -> Plan:
    """Plan by the rules above. Raises WireError for wrong arguments."""
    settings = read_defragmentation(request.arguments)
    thresholds = {*settings.low_thresholds, *settings.defragment_thresholds, *settings.protection_thresholds}

    def measure(cluster: Snapshot) -> Measures:
        return cluster_overview(cluster, sorted(thresholds))

    before = measure(snapshot)
    # 1. Choose a target for each pod, as if the moves were made one after the other.
    with MoveSimulation(snapshot, request.engine, request.now) as simulation:
        run = _DefragmentationRun(simulation, request, settings)
        refusals = run.choose_moves()
    # 2. Put the moves in waves. That may drop some.
    ordered = _ordered_moves(snapshot, request, run.desired_moves, whole_nodes=settings.only_if_emptied)
    # 3. Measure what is left of them.
    return Plan(
        strategy="defragmentation",
        moves=ordered.moves,
        before=before,
        after=measures_after(snapshot, request, ordered.moves, measure),
        refusals=(*refusals, *ordered.dropped, *foreign_pod_refusals(snapshot, request.eviction_rules)),
        versions=object_versions(snapshot, ordered.moves),
    )


def _ordered_moves(
    snapshot: Snapshot, request: PlanRequest, desired: list[DesiredMove], *, whole_nodes: bool
) -> OrderedMoves:
    """The moves in waves. With `whole_nodes` the pods of a node move all or not at all: if one of them cannot, the
    others stay as well, and the rest is ordered again without them."""
    dropped: tuple[PlanRefusal, ...] = ()
    while True:
        ordered = order_moves(snapshot, request, desired, max_moves=request.max_moves)
        if not (whole_nodes and ordered.dropped):
            return OrderedMoves(ordered.moves, (*dropped, *ordered.dropped))
        pods = [snapshot.pods.known[move.uid] for move in desired]
        dropped_names = {(refusal.namespace, refusal.pod) for refusal in ordered.dropped}
        nodes = {pod.node for pod in pods if namespaced_name(pod.pod) in dropped_names}
        others = [pod for pod in pods if pod.node in nodes and namespaced_name(pod.pod) not in dropped_names]
        reason = "could not be emptied: no order of moves brings every pod to its target"
        dropped += (*ordered.dropped, *(pod_refusal(pod.pod, f"{pod.node} {reason}") for pod in others))
        desired = [move for move, pod in zip(desired, pods, strict=True) if pod.node not in nodes]


_TRIED_ONE_BY_ONE = 4
"""How many targets are tried one by one, before the filters run over all nodes at once."""


class _SourceAttempt(msgspec.Struct):
    """One source being emptied."""

    move_counter: MoveCounter
    max_moves: int
    moved: list[tuple[Occupant, int]] = []
    """Pods with the rows of their targets."""
    unplaced: list[Occupant] = []
    """Pods without a target."""
    over_limit: list[PlanRefusal] = []
    """Pods that a limit of the cycle keeps on the node."""


class _DefragmentationRun:
    def __init__(self, simulation: MoveSimulation, request: PlanRequest, settings: DefragmentationSettings) -> None:
        self.desired_moves: list[DesiredMove] = []
        self._simulation = simulation
        self._snapshot = snapshot = simulation.snapshot
        self._request = request
        self._settings = settings
        self._nodes = DefragmentationNodes(snapshot, settings)
        self._peers = PeerConstraints(snapshot, request)
        self._move_counter = request.move_counter.copy()
        self._unplaced: list[Occupant] = []
        self._targets: RowIndex = np.flatnonzero(self._nodes.target_rows)

    def choose_moves(self) -> list[PlanRefusal]:
        """Choose moves until there are no more; returns which pods stay, and why."""
        settings = self._settings
        low, targets = int(self._nodes.low_rows.sum()), int(self._nodes.target_rows.sum())
        if not self._nodes.has_enough_sources:
            minimum = settings.number_of_nodes
            required = f"; numberOfNodes requires more than {minimum}" if minimum else ""
            thresholds = _threshold_list(settings.low_thresholds)
            return [general_refusal(f"{counted_noun(low, 'node', 'are')} below lowThresholds ({thresholds}){required}")]
        if not targets:
            above, below = (
                _threshold_list(settings.defragment_thresholds),
                _threshold_list(settings.protection_thresholds),
            )
            reason = f"no node is between defragmentThresholds ({above}) and protectionThresholds ({below})"
            return [general_refusal(reason)]
        sources, refusals = self._sources()
        for number, node in enumerate(sources):
            if len(self.desired_moves) >= self._request.max_moves:
                left = counted_noun(len(sources) - number, "more source", "are")
                limit = counted_noun(len(self.desired_moves), "move")
                refusals.append(general_refusal(f"{left} left: the limit of {limit} is reached"))
                break
            refusals += self._move_pods_off(node)
        return refusals + self._unplaced_refusals()

    def _sources(self) -> tuple[list[str], list[PlanRefusal]]:
        """The sources in order, and a sentence about those in their cool-down."""
        request, cool_down = self._request, self._request.cool_down(self._settings.cool_down)
        resting = nodes_cooling_down(self._snapshot, request.last_migrations, request.now, cool_down)
        names = [self._snapshot.rows.name(row) or "" for row in self._nodes.source_rows().tolist()]
        sources = [name for name in names if name not in resting]
        if len(sources) == len(names):
            return sources, []
        message = f"{len(names) - len(sources)} of {len(names)} sources {cool_down_message(cool_down)}"
        return sources, [general_refusal(message)]

    def _move_pods_off(self, node: str) -> list[PlanRefusal]:
        """Choose moves for the pods of one source; returns which of them stay, and why."""
        on_node = candidates_on_node(self._snapshot, node, self._request.eviction_rules)
        reasons = [(pod, self._settings.pods.refusal_reason(pod.pod)) for pod in on_node.candidates]
        refusals = [*on_node.refusals, *(pod_refusal(pod.pod, reason) for pod, reason in reasons if reason)]
        pods = [pod for pod, reason in reasons if not reason]
        pods.sort(
            key=lambda pod: (-self._nodes.usage.pod_request(self._settings.resource, pod), namespaced_name(pod.pod))
        )
        staying = on_node.staying_count + len(on_node.candidates) - len(pods)
        return [*refusals, *self._empty_node(node, pods, staying)]

    def _empty_node(self, node: str, pods: list[Occupant], staying: int) -> list[PlanRefusal]:
        """Choose moves for these pods of a source, on which `staying` other pods stay; returns the refusals."""
        whole_node = self._settings.only_if_emptied
        if whole_node and (reason := self._why_not_emptied(node, pods, staying)):
            return _not_emptied(node, pods, reason)
        attempt = _SourceAttempt(self._move_counter.copy(), self._request.max_moves - len(self.desired_moves))
        with self._simulation.trial() as keep:
            for pod in pods:
                self._try_pod(pod, node, attempt)
            if not (whole_node and attempt.unplaced):
                keep()
                self._move_counter = attempt.move_counter
                self.desired_moves += [DesiredMove(pod.key, self._node_name(row)) for pod, row in attempt.moved]
                self._unplaced += attempt.unplaced
                return attempt.over_limit
        # The simulation has undone the moves of this source; the usage of nodes is undone here.
        for pod, row in attempt.moved:
            self._add_pod(pod, row, -1)
        return _not_emptied(node, pods, f"{len(attempt.unplaced)} of {len(pods)} pods find no target")

    def _why_not_emptied(self, node: str, pods: list[Occupant], staying: int) -> str:
        """Why a source cannot be emptied, whatever the targets; empty if it can."""
        left = self._request.max_moves - len(self.desired_moves)
        if staying:
            return f"{staying} of {staying + len(pods)} pods stay there"
        if len(pods) > left:
            return f"only {counted_noun(left, 'more move', 'are')} allowed"
        return self._move_counter.limit_on_pods((namespaced_name(pod.pod)[0] for pod in pods), node)

    def _try_pod(self, pod: Occupant, node: str, attempt: _SourceAttempt) -> None:
        if len(attempt.moved) >= attempt.max_moves:
            return
        namespace, _ = namespaced_name(pod.pod)
        if reason := attempt.move_counter.limit_reached(namespace, node):
            attempt.over_limit.append(pod_refusal(pod.pod, reason))
        elif (row := self._reserve_target(pod)) is None:
            attempt.unplaced.append(pod)
        else:
            attempt.move_counter.count_move(namespace, node)
            attempt.moved.append((pod, row))

    def _reserve_target(self, pod: Occupant) -> int | None:
        """Reserve the most used target that has room for the pod and passes the filters; None if there is none."""
        rows = self._peers.rows_kept_cool(pod, self._nodes.rows_accepting(pod, self._targets))
        rows = rows[self._simulation.has_room_mask(pod.key, rows)]
        # Mostly one of the first targets does, and a few single nodes are filtered faster than all nodes.
        first = self._nodes.most_used_first(rows)[:_TRIED_ONE_BY_ONE]
        row = self._simulation.first_feasible_row(pod.key, first)
        if row is None and len(rows) > _TRIED_ONE_BY_ONE:
            rows = np.intersect1d(rows, self._simulation.feasible_rows(pod.key), assume_unique=True)
            row = next(iter(self._nodes.most_used_first(rows)), None)
        if row is None:
            return None
        self._simulation.reserve_target(pod.key, self._node_name(row))
        self._add_pod(pod, row)
        return row

    def _add_pod(self, pod: Occupant, row: int, sign: int = 1) -> None:
        self._nodes.usage.add_pod(pod, row, sign)
        self._peers.add_pod(pod, row, sign)

    def _node_name(self, row: int) -> str:
        return self._snapshot.rows.name(row) or ""

    # --- why not ------------------------------------------------------------------------------------------------------

    def _unplaced_refusals(self) -> list[PlanRefusal]:
        """Why pods found no target, with all moves made; computed once per pod class."""
        reasons: dict[PodClass, str] = {}
        refusals: list[PlanRefusal] = []
        for pod in self._unplaced:
            pod_class = self._snapshot.class_of(pod.pod, pod.shape)
            if pod_class not in reasons:
                reasons[pod_class] = self._why_unplaced(pod)
            refusals.append(pod_refusal(pod.pod, reasons[pod_class]))
        return refusals

    def _why_unplaced(self, pod: Occupant) -> str:
        targets = self._targets
        diagnosis = self._simulation.survey_nodes(pod.key, targets)
        reasons = count_reasons(diagnosis.refusals)
        rows = np.array([self._snapshot.rows.find_row(name) for name in diagnosis.feasible], np.intp)
        accepting = self._nodes.rows_accepting(pod, rows)
        if len(accepting) < len(rows):
            thresholds = _threshold_list(self._settings.protection_thresholds)
            reasons[f"would be above protectionThresholds ({thresholds})"] = len(rows) - len(accepting)
        unmeasured = int(self._peers.unmeasured_rows()[accepting].sum())
        busy = len(accepting) - len(self._peers.rows_kept_cool(pod, accepting)) - unmeasured
        if unmeasured:
            reasons["has no recent usage sample, which LoadAware requires"] = unmeasured
        if busy:
            reasons["would be busier than LoadAware allows"] = busy
        if not reasons:
            return diagnosis.message
        return f"0/{len(targets)} target nodes are available: {reason_histogram(reasons)}"


def _not_emptied(node: str, pods: list[Occupant], reason: str) -> list[PlanRefusal]:
    return [pod_refusal(pod.pod, f"{node} could not be emptied: {reason}") for pod in pods]


def _threshold_list(percents: Percents) -> str:
    return ", ".join(f"{name} {percents[name]:g}%" for name in sorted(percents))
