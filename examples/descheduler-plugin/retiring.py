"""RetiringNodes: moves pods off nodes that are about to be taken away, before they are drained.

args:
  label: example.com/retires          # the default; pods leave the nodes that have it, with any value
"""

from __future__ import annotations

from collections.abc import Iterator

from restow.model.cluster import RowIndex
from restow.model.problems import Problem
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

NAME = "RetiringNodes"


class RetiringArgs(CandidateArguments, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """`namespaces` and `labelSelector` are inherited."""

    label: str = "example.com/retires"

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if not self.label:
            yield Problem("label", "must not be empty")


def plan_retiring_nodes(snapshot: Snapshot, request: PlanRequest) -> Plan:
    arguments = read_plugin_arguments(RetiringArgs, request.arguments, NAME)
    nodes = {name: snapshot.node(name) for name in snapshot.rows.names()}
    retiring = {name for name, node in nodes.items() if node and arguments.label in (node.metadata.labels or {})}

    def rows_of_staying_nodes(rows: RowIndex) -> RowIndex:
        return rows[[snapshot.rows.name(row) not in retiring for row in rows.tolist()]]

    def find_candidates(simulation: MoveSimulation) -> Iterator[Candidate]:
        for occupant in pods_on_nodes(snapshot, arguments.pod_filter()):
            if occupant.node in retiring:
                violation = f"is on {occupant.node}, which has the label {arguments.label}"
                yield Candidate(occupant, violation, rows_of_staying_nodes)

    return plan_candidates(NAME, snapshot, request, find_candidates)


PLUGIN = Planner(name=NAME, point="deschedule", plan=plan_retiring_nodes, check=arguments_check(RetiringArgs, NAME))
