"""RetiringNodes: pods leave nodes that are about to be taken away, before anybody drains them.

args:
  label: example.com/retires          # the default; a node that has it, with whatever value, is left
"""

from __future__ import annotations

from collections.abc import Iterator

from restow.model.cluster import RowIndex, Snapshot
from restow.model.problems import Problem
from restow.planning.bookings import Bookings
from restow.planning.descheduling.framework import Planner
from restow.planning.descheduling.plugins.departing import Arguments, Departure, depart, lodgers, read
from restow.planning.plan import Plan
from restow.planning.request import Request

NAME = "RetiringNodes"


class RetiringArgs(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """`namespaces` and `labelSelector` are there already."""

    label: str = "example.com/retires"

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if not self.label:
            yield Problem("label", "must not be empty")


def plan(snapshot: Snapshot, request: Request) -> Plan:
    arguments = read(RetiringArgs, request.arguments, NAME)
    nodes = {name: snapshot.node(name) for name in snapshot.rows.names()}
    retiring = {name for name, node in nodes.items() if node and arguments.label in (node.metadata.labels or {})}

    def staying(rows: RowIndex) -> RowIndex:
        return rows[[snapshot.rows.name(row) not in retiring for row in rows.tolist()]]

    def search(bookings: Bookings) -> Iterator[Departure]:
        for one in lodgers(snapshot, arguments.pods()):
            if one.node in retiring:
                yield Departure(one, f"is on {one.node}, which has the label {arguments.label}", staying)

    return depart(NAME, snapshot, request, search)


PLUGIN = Planner(name=NAME, point="deschedule", plan=plan, check=lambda written: read(RetiringArgs, written, NAME))
