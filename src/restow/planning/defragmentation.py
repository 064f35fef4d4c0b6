"""Defragmentation: pods of little used nodes move to well used ones, so that room gathers on the nodes they leave.

    sources   Ready, every lowThreshold strictly above their use, not labelled critical=true, not resting; least used
              first
    pods      of a source, those that may move; largest request of the resource type first
    targets   Ready, use strictly between every defragmentThreshold and protectionThreshold; most used first, as use
              grows with the moves planned; a move never brings one above a protectionThreshold

Use is what all pods request and reservations hold, per what the node offers; a node that does not offer a resource
there is a threshold for is neither. Unless there are more sources than `numberOfNodes`, nothing happens. With
`onlyIfEmptied` a source is left alone if one of its guests has to stay, for whatever reason. Where LoadAware is at
work, too, no target becomes too busy for it.
"""

from __future__ import annotations

import msgspec
import numpy as np

from restow.model.cluster import Occupant, PodClass, RowIndex
from restow.model.pods import full_name
from restow.model.snapshot import Snapshot
from restow.model.words import number_of
from restow.planning.arguments import DefragmentationSettings, read_defragmentation
from restow.planning.move_simulation import MoveSimulation
from restow.planning.cooldown import nodes_cooling_down, cool_down_message
from restow.planning.plan_effect import measures_after, object_versions
from restow.planning.cycle_limits import MoveCounter
from restow.planning.measures import cluster_overview
from restow.planning.eviction_rules import general_refusal, foreign_pod_refusals, candidates_on_node, pod_refusal
from restow.planning.peer_constraints import PeerConstraints
from restow.planning.defragmentation_nodes import DefragmentationNodes
from restow.planning.plan import Measures, Plan, Refusal
from restow.planning.plan_request import PlanRequest
from restow.planning.move_ordering import OrderedMoves, DesiredMove, order_moves
from restow.planning.requested_usage import Percents
from restow.scheduling.explain import count_reasons, reason_histogram


def plan_defragmentation(snapshot: Snapshot, request: PlanRequest) -> Plan:
    """Plan by the rules above. Raises WireError for wrong arguments."""
    settings = read_defragmentation(request.arguments)

    def measure(cluster: Snapshot) -> Measures:
        return cluster_overview(cluster, sorted({*settings.low_thresholds, *settings.defragment_thresholds, *settings.protection_thresholds}))

    before = measure(snapshot)
    with MoveSimulation(snapshot, request.engine, request.now) as bookings:
        run = _DefragmentationRun(bookings, request, settings)
        refusals = run.run()
    ordered = _ordered(snapshot, request, run.wanted, whole=settings.only_if_emptied)
    return Plan(
        strategy="defragmentation",
        moves=ordered.moves,
        before=before,
        after=measures_after(snapshot, request, ordered.moves, measure),
        refusals=(*refusals, *ordered.dropped, *foreign_pod_refusals(snapshot, request.eviction_rules)),
        versions=object_versions(snapshot, ordered.moves),
    )


def _ordered(snapshot: Snapshot, request: PlanRequest, wanted: list[DesiredMove], *, whole: bool) -> OrderedMoves:
    """The moves in waves. As a `whole`, the pods of a node go all or not at all, so that a node one of whose pods no
    order brings to its target is left alone."""
    stuck: tuple[Refusal, ...] = ()
    while True:
        ordered = order_moves(snapshot, request, wanted, max_moves=request.max_moves)
        if not (whole and ordered.dropped):
            return OrderedMoves(ordered.moves, (*stuck, *ordered.dropped))
        pods = [snapshot.pods.known[one.uid] for one in wanted]
        dropped = {(one.namespace, one.pod) for one in ordered.dropped}
        nodes = {one.node for one in pods if full_name(one.pod) in dropped}
        others = [one for one in pods if one.node in nodes and full_name(one.pod) not in dropped]
        why = "could not be emptied: no order of moves brings every pod to its target"
        stuck += (*ordered.dropped, *(pod_refusal(one.pod, f"{one.node} {why}") for one in others))
        wanted = [one for one, pod in zip(wanted, pods, strict=True) if pod.node not in nodes]


_TRIES = 4
"""How many targets are asked one by one before all nodes are asked at once."""


class _SourceAttempt(msgspec.Struct):
    """One source being emptied."""

    tally: MoveCounter
    most: int
    """How many pods may move."""
    moved: list[tuple[Occupant, int]] = []
    """With their target rows."""
    unplaced: list[Occupant] = []
    beyond: list[Refusal] = []
    """Kept back by limits."""


class _DefragmentationRun:
    def __init__(self, bookings: MoveSimulation, request: PlanRequest, settings: DefragmentationSettings) -> None:
        self.wanted: list[DesiredMove] = []
        self._bookings = bookings
        self._snapshot = snapshot = bookings.snapshot
        self._request = request
        self._settings = settings
        self._packing = DefragmentationNodes(snapshot, settings)
        self._neighbours = PeerConstraints(snapshot, request)
        self._tally = request.move_counter.copy()
        self._unplaced: list[Occupant] = []
        self._targets: RowIndex = np.flatnonzero(self._packing.target_rows)

    def run(self) -> list[Refusal]:
        """Book moves until nothing is left to do; what stays, and why."""
        settings = self._settings
        low, targets = int(self._packing.low_rows.sum()), int(self._packing.target_rows.sum())
        if not self._packing.has_enough_sources:
            needed = f"; numberOfNodes {settings.number_of_nodes} asks for more" if settings.number_of_nodes else ""
            return [general_refusal(f"{number_of(low, 'node', 'are')} below lowThresholds ({_told(settings.low_thresholds)}){needed}")]
        if not targets:
            above, below = _told(settings.defragment_thresholds), _told(settings.protection_thresholds)
            return [general_refusal(f"no node is between defragmentThresholds ({above}) and protectionThresholds ({below})")]
        sources, refusals = self._sources()
        for number, node in enumerate(sources):
            if len(self.wanted) >= self._request.max_moves:
                left = len(sources) - number
                moves = number_of(len(self.wanted), "move")
                refusals.append(
                    general_refusal(f"{number_of(left, 'more source', 'are')} left after {moves}, the most asked for")
                )
                break
            refusals += self._leave(node)
        return refusals + self._explain_unplaced()

    def _sources(self) -> tuple[list[str], list[Refusal]]:
        """In order; and how many of them rest."""
        request, cool_down = self._request, self._request.cool_down(self._settings.cool_down)
        rest = nodes_cooling_down(self._snapshot, request.last_migrations, request.now, cool_down)
        names = [self._snapshot.rows.name(row) or "" for row in self._packing.source_rows().tolist()]
        left = [name for name in names if name not in rest]
        told = f"{len(names) - len(left)} of {len(names)} sources {cool_down_message(cool_down)}"
        return left, [general_refusal(told)] if len(left) < len(names) else []

    def _leave(self, node: str) -> list[Refusal]:
        """Move the pods of one source; those that may not, and why."""
        guests = candidates_on_node(self._snapshot, node, self._request.eviction_rules)
        reasons = [(one, self._settings.pods.refusal_reason(one.pod)) for one in guests.candidates]
        refusals = [*guests.refusals, *(pod_refusal(one.pod, why) for one, why in reasons if why)]
        pods = [one for one, why in reasons if not why]
        pods.sort(key=lambda one: (-self._packing.usage.pod_request(self._settings.resource, one), full_name(one.pod)))
        return [*refusals, *(self._empty(node, pods, guests.staying_count + len(guests.candidates) - len(pods)))]

    def _empty(self, node: str, pods: list[Occupant], stay: int) -> list[Refusal]:
        """Move these pods of a source, where others stay; those that do not, and why."""
        whole = self._settings.only_if_emptied
        if whole and (why := self._why_not_whole(node, pods, stay)):
            return _not_emptied(node, pods, why)
        attempt = _SourceAttempt(self._tally.copy(), self._request.max_moves - len(self.wanted))
        with self._bookings.trial() as keep:
            for one in pods:
                self._try(one, node, attempt)
            if not (whole and attempt.unplaced):
                keep()
                self._tally = attempt.tally
                self.wanted += [DesiredMove(one.key, self._snapshot.rows.name(row) or "") for one, row in attempt.moved]
                self._unplaced += attempt.unplaced
                return attempt.beyond
        for one, row in attempt.moved:
            self._add(one, row, -1)
        return _not_emptied(node, pods, f"{len(attempt.unplaced)} of {len(pods)} pods find no target")

    def _why_not_whole(self, node: str, pods: list[Occupant], stay: int) -> str:
        """What keeps a source from being emptied, before anybody looks for targets."""
        left = self._request.max_moves - len(self.wanted)
        if stay:
            return f"{stay} of {stay + len(pods)} pods stay there"
        if len(pods) > left:
            return f"only {number_of(left, 'more move', 'are')} asked for"
        return self._tally.limit_on_pods((full_name(one.pod)[0] for one in pods), node)

    def _try(self, pod: Occupant, node: str, attempt: _SourceAttempt) -> None:
        if len(attempt.moved) >= attempt.most:
            return
        namespace, _ = full_name(pod.pod)
        if why := attempt.tally.limit_reached(namespace, node):
            attempt.beyond.append(pod_refusal(pod.pod, why))
        elif (row := self._move(pod)) is None:
            attempt.unplaced.append(pod)
        else:
            attempt.tally.count_move(namespace, node)
            attempt.moved.append((pod, row))

    def _move(self, pod: Occupant) -> int | None:
        """Hold the most used target that takes the pod; None if there is none."""
        rows = self._neighbours.rows_kept_cool(pod, self._packing.rows_accepting(pod, self._targets))
        rows = rows[self._bookings.has_room_mask(pod.key, rows)]
        row = self._bookings.first_feasible_row(pod.key, self._packing.most_used_first(rows)[:_TRIES])
        if row is None and len(rows) > _TRIES:
            rows = np.intersect1d(rows, self._bookings.feasible_rows(pod.key), assume_unique=True)
            row = next(iter(self._packing.most_used_first(rows)), None)
        if row is None:
            return None
        self._bookings.reserve_target(pod.key, self._snapshot.rows.name(row) or "")
        self._add(pod, row)
        return row

    def _add(self, pod: Occupant, row: int, sign: int = 1) -> None:
        self._packing.usage.add_pod(pod, row, sign)
        self._neighbours.add_pod(pod, row, sign)

    # --- why not ------------------------------------------------------------------------------------------------------

    def _explain_unplaced(self) -> list[Refusal]:
        """Why pods found no target, as it is once all moves are booked; asked once for pods that are alike."""
        told: dict[PodClass, str] = {}
        refusals: list[Refusal] = []
        for one in self._unplaced:
            alike = self._snapshot.class_of(one.pod, one.shape)
            if alike not in told:
                told[alike] = self._why_unplaced(one)
            refusals.append(pod_refusal(one.pod, told[alike]))
        return refusals

    def _why_unplaced(self, pod: Occupant) -> str:
        targets = self._targets
        survey = self._bookings.survey_nodes(pod.key, targets)
        reasons = count_reasons(survey.refusals)
        rows = np.array([self._snapshot.rows.find(name) for name in survey.feasible], np.intp)
        takers = self._packing.rows_accepting(pod, rows)
        if len(takers) < len(rows):
            told = f"would be above protectionThresholds ({_told(self._settings.protection_thresholds)})"
            reasons[told] = len(rows) - len(takers)
        unknown = int(self._neighbours.unmeasured_rows()[takers].sum())
        hot = len(takers) - len(self._neighbours.rows_kept_cool(pod, takers)) - unknown
        if unknown:
            reasons["may be busier than LoadAware allows, which is not known now"] = unknown
        if hot:
            reasons["would be busier than LoadAware allows"] = hot
        return f"0/{len(targets)} target nodes take it: {reason_histogram(reasons)}" if reasons else survey.message


def _not_emptied(node: str, pods: list[Occupant], why: str) -> list[Refusal]:
    return [pod_refusal(one.pod, f"{node} could not be emptied: {why}") for one in pods]


def _told(percents: Percents) -> str:
    return ", ".join(f"{name} {percents[name]:g}%" for name in sorted(percents))
