"""RetiringNodes: pods leave nodes that are about to be taken away, before anybody drains them.

args:
  label: example.com/retires          # the default; a node that has it, with whatever value, is left
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
    plan_candidates,
    pods_on_nodes,
    read_plugin_arguments,
)
from restow.planning.move_simulation import MoveSimulation
from restow.planning.plan import Plan
from restow.planning.plan_request import PlanRequest

NAME = "RetiringNodes"


class RetiringArgs(CandidateArguments, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """`namespaces` and `labelSelector` are there already."""

    label: str = "example.com/retires"

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if not self.label:
            yield Problem("label", "must not be empty")


def plan(snapshot: Snapshot, request: PlanRequest) -> Plan:
    arguments = read_plugin_arguments(RetiringArgs, request.arguments, NAME)
    nodes = {name: snapshot.node(name) for name in snapshot.rows.names()}
    retiring = {name for name, node in nodes.items() if node and arguments.label in (node.metadata.labels or {})}

    def staying(rows: RowIndex) -> RowIndex:
        return rows[[snapshot.rows.name(row) not in retiring for row in rows.tolist()]]

    def search(bookings: MoveSimulation) -> Iterator[Candidate]:
        for one in pods_on_nodes(snapshot, arguments.pod_filter()):
            if one.node in retiring:
                yield Candidate(one, f"is on {one.node}, which has the label {arguments.label}", staying)

    return plan_candidates(NAME, snapshot, request, search)


PLUGIN = Planner(
    name=NAME, point="deschedule", plan=plan, check=lambda written: read_plugin_arguments(RetiringArgs, written, NAME)
)
