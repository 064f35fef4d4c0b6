"""What plugins share that only say which pods should leave their node, and leave it to the scheduler where they go.

Goes in: a function that finds candidates, one after the other, in the cluster as it is with all moves so far. Comes
out: a plan. A candidate that may not move, or fits nowhere else, stays, with the reason: nothing is evicted without a
seat.

Other plugins are respected (`planning.peer_constraints`): a pod goes to a node that Defragmentation does not empty and
that LoadAware does not find busy, if there is one. A pod that does not have to move only goes to such a node, and only
when its own node is not in its cool-down.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

from restow.eviction.qos_and_priority import pod_priority
from restow.model.cluster import Occupant, RowIndex
from restow.model.counted_nouns import counted_noun
from restow.model.object_key import key_of
from restow.model.objects import Pod, SelectorSpec
from restow.model.pods import stays_with_node
from restow.model.problems import Problem, problems_of_readable_members
from restow.model.selectors import SelectorError
from restow.model.snapshot import Snapshot
from restow.model.times import time_of
from restow.model.wire import WireError, convert_readable
from restow.planning.arguments import NamespaceFilterArgs, PodFilter, selector_from_spec
from restow.planning.cooldown import cool_down_message, nodes_cooling_down
from restow.planning.eviction_rules import foreign_pod_refusals, general_refusal, pod_refusal
from restow.planning.measures import cluster_overview, slots_by_row
from restow.planning.move_ordering import DesiredMove, order_moves
from restow.planning.move_simulation import MoveSimulation
from restow.planning.peer_constraints import PeerConstraints
from restow.planning.plan import Plan, PlanRefusal
from restow.planning.plan_effect import measures_after, object_versions
from restow.planning.plan_request import PlanRequest


class CandidateArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The arguments that all these plugins have: which pods they are about."""

    api_version: str | None = None
    kind: str | None = None
    namespaces: NamespaceFilterArgs | None = None
    label_selector: SelectorSpec | None = None

    def problems(self) -> Iterator[Problem]:
        """What is wrong although all types are right."""
        if self.namespaces is not None:
            yield from self.namespaces.problems("namespaces")
        try:
            self.pod_filter()
        except SelectorError as error:
            yield Problem("labelSelector", str(error))

    def pod_filter(self) -> PodFilter:
        """Raises SelectorError, for arguments of which `problems` reports that."""
        return PodFilter.of(self.namespaces, selector_from_spec(self.label_selector))


A = TypeVar("A", bound=CandidateArguments)


def read_plugin_arguments(type: type[A], written: Mapping[str, Any], name: str) -> A:
    """The arguments of the plugin of this name. Raises WireError with every problem."""
    arguments, unread = convert_readable(type, written, name)
    problems = problems_of_readable_members(unread, arguments.problems())
    if problems:
        raise WireError(name, problems)
    return arguments


def arguments_check(type: type[A], name: str) -> Callable[[Mapping[str, Any]], A]:
    """The `check` of a plugin that has such arguments."""
    return lambda written: read_plugin_arguments(type, written, name)


class Candidate(msgspec.Struct, frozen=True):
    pod: Occupant
    violation: str
    """What is wrong with its node, as the rest of a sentence that begins with "it"."""
    select_rows: Callable[[RowIndex], RowIndex] = lambda rows: rows
    """Of the rows of nodes that would take the pod: those where the violation ends."""
    must_move: bool = True
    """Whether it may go to a node that other plugins want no pods on, if there is no other."""


FindCandidates = Callable[[MoveSimulation], Iterable[Candidate]]


def plan_candidates(name: str, snapshot: Snapshot, request: PlanRequest, find_candidates: FindCandidates) -> Plan:
    """Move the candidates as they are found, each to the node that the scheduler likes best of those that end its
    violation. `name` is the plugin's."""
    before = cluster_overview(snapshot)
    moves: list[DesiredMove] = []
    refusals: list[PlanRefusal] = []
    with MoveSimulation(snapshot, request.engine, request.now) as simulation:
        targets = _TargetFinder(simulation, request)
        for candidate in find_candidates(simulation):
            if len(moves) >= request.max_moves:
                limit = f"{name} may move no more than {counted_noun(len(moves), 'pod')} now"
                refusals.append(general_refusal(limit))
                break
            pod, rules = candidate.pod.pod, request.eviction_rules
            if not rules.is_ours(pod):
                continue
            reason = rules.refusal_reason(pod) or targets.cool_down_reason(candidate)
            target = None if reason else targets.find_target(candidate)
            if target is not None:
                targets.reserve_target(candidate, target)
                moves.append(DesiredMove(candidate.pod.key, target))
            else:
                reason = reason or targets.why_no_target(candidate)
                refusals.append(pod_refusal(pod, f"it {candidate.violation}, but {reason}"))
    ordered = order_moves(snapshot, request, moves, max_moves=request.max_moves)
    return Plan(
        strategy=name,
        moves=ordered.moves,
        before=before,
        after=measures_after(snapshot, request, ordered.moves, cluster_overview),
        refusals=(*refusals, *ordered.dropped, *foreign_pod_refusals(snapshot, request.eviction_rules)),
        versions=object_versions(snapshot, ordered.moves),
    )


class _TargetFinder:
    """Where candidates go."""

    def __init__(self, simulation: MoveSimulation, request: PlanRequest) -> None:
        self._simulation = simulation
        self._snapshot = simulation.snapshot
        self._peers = PeerConstraints(simulation.snapshot, request)
        self._emptied = self._peers.emptied_rows()
        self._cool_down = request.cool_down(0.0)
        self._cooling_down = nodes_cooling_down(
            simulation.snapshot, request.last_migrations, request.now, self._cool_down
        )

    def cool_down_reason(self, candidate: Candidate) -> str:
        """Why a pod that does not have to move stays for now; empty if it may move."""
        if candidate.must_move or candidate.pod.node not in self._cooling_down:
            return ""
        return cool_down_message(self._cool_down, candidate.pod.node)

    def find_target(self, candidate: Candidate) -> str | None:
        """The node that a candidate goes to; None if it has to stay."""
        rows = candidate.select_rows(self._simulation.feasible_rows(candidate.pod.key))
        preferred = self._peers.rows_kept_cool(candidate.pod, rows[~self._emptied[rows]])
        if candidate.must_move:
            return self._best_node(candidate, preferred if len(preferred) else rows)
        # Defragmentation would empty its node anyway: then two plugins would move the same pod.
        if self._peers.would_be_emptied(candidate.pod, self._row(candidate.pod.node)):
            return None
        return self._best_node(candidate, preferred)

    def reserve_target(self, candidate: Candidate, target: str) -> None:
        """Count on this move from now on."""
        self._simulation.reserve_target(candidate.pod.key, target)
        self._simulation.end_wave()
        for name, sign in ((candidate.pod.node, -1), (target, 1)):
            self._peers.add_pod(candidate.pod, self._row(name), sign)

    def _best_node(self, candidate: Candidate, rows: RowIndex) -> str | None:
        """The node that the scheduler likes best, if it is one of these; else the one with room for most such pods."""
        names = {self._snapshot.rows.name(row) or "": row for row in rows.tolist()}
        preferred = self._simulation.preferred_node(candidate.pod.key) if names else None
        if preferred in names:
            return preferred
        slots = slots_by_row(self._snapshot, candidate.pod.shape.amounts)
        return min(names, key=lambda name: (-int(slots[names[name]]), name), default=None)

    def why_no_target(self, candidate: Candidate) -> str:
        rows = candidate.select_rows(self._simulation.feasible_rows(candidate.pod.key))
        if len(rows):
            nodes = counted_noun(len(rows), "node")
            peers = "Defragmentation empties them or its node, or LoadAware would find them busy"
            return f"{nodes} would put that right, and other plugins are against it: {peers}"
        source = self._snapshot.rows.find_row(candidate.pod.node)
        present = np.flatnonzero(self._snapshot.nodes.present[self._snapshot.rows.every])
        diagnosis = self._simulation.survey_nodes(candidate.pod.key, present[present != source])
        others = [name for name in diagnosis.feasible if name != candidate.pod.node]
        if others:
            return f"{counted_noun(len(others), 'other node', 'have')} room for it, and none would put that right"
        return f"no other node takes it: {diagnosis.message}" if diagnosis.message else "there is no other node"

    def _row(self, name: str) -> int:
        row = self._snapshot.rows.find_row(name)
        assert row is not None, name
        return row


# --- which pods plugins look at ---------------------------------------------------------------------------------------

_REQUESTED: Final = "requested"


def pods_on_nodes(snapshot: Snapshot, filter: PodFilter, excluded_owner_kinds: Collection[str] = ()) -> list[Occupant]:
    """The pods on nodes that pass a filter, by name; without pods that belong to their node, such as those of
    DaemonSets, and without pods that are about to come or to leave."""
    pods = [
        occupant
        for occupant in snapshot.pods.known.values()
        if occupant.ledger == _REQUESTED
        and occupant.assumed_at is None
        and not occupant.leaving
        and not stays_with_node(occupant.pod)
        and not filter.refusal_reason(occupant.pod)
        and not any(owner.kind in excluded_owner_kinds for owner in occupant.pod.metadata.owner_references or ())
    ]
    return sorted(pods, key=lambda occupant: key_of(occupant.pod))


def creation_time(pod: Pod) -> float:
    """When a pod was created; 0 if it does not say, so that it counts as old."""
    return time_of(pod.metadata.creation_timestamp) or 0.0


def eviction_order(occupant: Occupant) -> tuple[int, float, str, str]:
    """A sort key: lower priority first, then the newer pod, then by name."""
    meta = occupant.pod.metadata
    return pod_priority(occupant.pod), -creation_time(occupant.pod), meta.namespace or "", meta.name
