"""RemovePodsViolatingNodeAffinity: pods whose node no longer has the labels they require, or has not those they prefer.

args: {nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution]}
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from restow.model.affinity import NodePreference, node_constraint, node_preference
from restow.model.cluster import (Occupant, RowIndex)
from restow.model.cluster import node_filters
from restow.model.problems import Problem
from restow.model.selectors import SelectorError
from restow.model.snapshot import Snapshot
from restow.planning.descheduling.framework import Planner
from restow.planning.descheduling.plugins.candidates import (
    Candidate,
    CandidateArguments,
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
        for number, one in enumerate(self.node_affinity_type):
            if one not in (REQUIRED, PREFERRED):
                yield Problem(f"nodeAffinityType[{number}]", f"{one!r} is not one of {REQUIRED}, {PREFERRED}")
        if not self.node_affinity_type:
            yield Problem("nodeAffinityType", "at least one is needed")


def plan(snapshot: Snapshot, request: PlanRequest) -> Plan:
    arguments = read_plugin_arguments(NodeAffinityArgs, request.arguments, NAME)

    def search(bookings: MoveSimulation) -> Iterator[Candidate]:
        for one in pods_on_nodes(snapshot, arguments.pod_filter()):
            found = None
            if REQUIRED in arguments.node_affinity_type:
                found = _required(snapshot, one)
            if found is None and PREFERRED in arguments.node_affinity_type:
                found = _preferred(bookings, one)
            if found is not None:
                yield found

    return plan_candidates(NAME, snapshot, request, search)


def _required(snapshot: Snapshot, one: Occupant) -> Candidate | None:
    node = snapshot.node(one.node)
    if node is None or node_constraint(one.pod.spec).matches(one.node, node.metadata.labels):
        return None
    return Candidate(one, f"requires labels that {one.node} does not have")


def _preferred(bookings: MoveSimulation, one: Occupant) -> Candidate | None:
    """A pod that prefers nodes, one of which takes it and is worth more than where it is."""
    snapshot = bookings.snapshot
    try:
        preference = node_preference(one.pod.spec)
    except SelectorError:
        return None
    node = snapshot.node(one.node)
    if not preference.terms or node is None:
        return None
    worth = preference.score(one.node, node.metadata.labels)
    better = partial(_better, snapshot, preference, worth)
    if not len(better(bookings.feasible_rows(one.key))):
        return None
    return Candidate(one, f"prefers other nodes to {one.node}", better)


def _better(snapshot: Snapshot, preference: NodePreference, worth: int, rows: RowIndex) -> RowIndex:
    """The rows that are worth most, if that is more than this."""
    scores = node_filters.preference_scores(snapshot.nodes, preference, rows)
    most = max(int(scores.max(initial=0)), worth + 1)
    best: RowIndex = rows[scores >= most]
    return best


PLUGIN = Planner(
    name=NAME,
    point="deschedule",
    plan=plan,
    check=lambda written: read_plugin_arguments(NodeAffinityArgs, written, NAME),
)
