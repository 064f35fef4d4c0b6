"""RemovePodsViolatingNodeAffinity: moves pods off nodes that lost labels which they require
or prefer.

args: {nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution]}
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from restow.model.affinity import NodePreference, node_constraint, node_preference
from restow.model.cluster import Occupant, RowIndex, node_filters
from restow.model.problems import Problem
from restow.model.selectors import SelectorError
from restow.model.snapshot import Snapshot
from restow.planning.descheduling.framework import Planner
from restow.planning.descheduling.plugins.candidates import (
    Candidate,
    CandidateArguments,
    arguments_check,
    plan_candidates,
    pods_on_nodes,
    read_plugin_arguments,
)
from restow.planning.move_simulation import MoveSimulation
from restow.planning.plan import Plan
from restow.planning.plan_request import PlanRequest

NAME = "RemovePodsViolatingNodeAffinity"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class NodeAffinityArgs(CandidateArguments, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    node_affinity_type: tuple[str, ...] = (REQUIRED,)

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        for number, type in enumerate(self.node_affinity_type):
            if type not in (REQUIRED, PREFERRED):
                yield Problem(f"nodeAffinityType[{number}]", f"{type!r} is not one of {REQUIRED}, {PREFERRED}")
        if not self.node_affinity_type:
            yield Problem("nodeAffinityType", "at least one is needed")


def plan_node_affinity(snapshot: Snapshot, request: PlanRequest) -> Plan:
    arguments = read_plugin_arguments(NodeAffinityArgs, request.arguments, NAME)

    def find_candidates(simulation: MoveSimulation) -> Iterator[Candidate]:
        for occupant in pods_on_nodes(snapshot, arguments.pod_filter()):
            candidate = None
            if REQUIRED in arguments.node_affinity_type:
                candidate = _violates_requirement(snapshot, occupant)
            if candidate is None and PREFERRED in arguments.node_affinity_type:
                candidate = _prefers_other_nodes(simulation, occupant)
            if candidate is not None:
                yield candidate

    return plan_candidates(NAME, snapshot, request, find_candidates)


def _violates_requirement(snapshot: Snapshot, occupant: Occupant) -> Candidate | None:
    node = snapshot.node(occupant.node)
    if node is None or node_constraint(occupant.pod.spec).matches(occupant.node, node.metadata.labels):
        return None
    return Candidate(occupant, f"requires labels that {occupant.node} does not have")


def _prefers_other_nodes(simulation: MoveSimulation, occupant: Occupant) -> Candidate | None:
    """A pod that prefers nodes of which one takes it and matches its preferences better than its own node."""
    snapshot = simulation.snapshot
    try:
        preference = node_preference(occupant.pod.spec)
    except SelectorError:
        return None
    node = snapshot.node(occupant.node)
    if not preference.terms or node is None:
        return None
    own_score = preference.score(occupant.node, node.metadata.labels)
    select_rows = partial(_rows_with_best_score, snapshot, preference, own_score)
    if not len(select_rows(simulation.feasible_rows(occupant.key))):
        return None
    return Candidate(occupant, f"prefers other nodes to {occupant.node}", select_rows)


def _rows_with_best_score(snapshot: Snapshot, preference: NodePreference, own_score: int, rows: RowIndex) -> RowIndex:
    """The rows with the highest score, if that is above the score of the pod's own node."""
    scores = node_filters.preference_scores(snapshot.nodes, preference, rows)
    threshold = max(int(scores.max(initial=0)), own_score + 1)
    best: RowIndex = rows[scores >= threshold]
    return best


PLUGIN = Planner(name=NAME, point="deschedule", plan=plan_node_affinity, check=arguments_check(NodeAffinityArgs, NAME))
