"""RemovePodsViolatingTopologySpreadConstraint: moves pods out of domains that have more of them than maxSkew allows.

    args: {constraints: [DoNotSchedule], topologyBalanceNodeFit: true}

Constraint by constraint, pods go from the fullest domain to the emptiest until they differ by no more than maxSkew.
That ends, because every move makes the counts more even.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import msgspec
import numpy as np

from restow.model.cluster import Occupant, RowIndex
from restow.model.cluster.selector_group import SelectorGroup, SelectorGroupIndex, selector_group_of_constraint
from restow.model.objects import Pod
from restow.model.problems import Problem
from restow.model.selectors import SelectorError
from restow.model.snapshot import Snapshot
from restow.planning.arguments import PodFilter
from restow.planning.descheduling.framework import Planner
from restow.planning.descheduling.plugins.candidates import (
    Candidate,
    CandidateArguments,
    arguments_check,
    eviction_order,
    plan_candidates,
    pods_on_nodes,
    read_plugin_arguments,
)
from restow.planning.descheduling.plugins.eligible_nodes import EligibleNodes
from restow.planning.move_simulation import MoveSimulation
from restow.planning.plan import Plan
from restow.planning.plan_request import PlanRequest

NAME = "RemovePodsViolatingTopologySpreadConstraint"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"


class TopologySpreadArgs(CandidateArguments, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    constraints: tuple[str, ...] = (HARD,)
    topology_balance_node_fit: bool = True

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        for number, constraint in enumerate(self.constraints):
            if constraint not in (HARD, SOFT):
                yield Problem(f"constraints[{number}]", f"{constraint!r} is not one of {HARD}, {SOFT}")
        if not self.topology_balance_node_fit:
            yield Problem("topologyBalanceNodeFit", "cannot be switched off: nothing is evicted without a seat")


class _SpreadConstraint(msgspec.Struct, frozen=True):
    """A topology spread constraint; pods with equal constraints share it."""

    namespace: str
    topology_key: str
    max_skew: int
    group: SelectorGroup
    is_hard: bool
    """Whether the scheduler's own filters enforce it."""


class _SpreadState(msgspec.Struct, frozen=True):
    """The pods of one constraint, and the domains they may be in."""

    domains: Mapping[str, str]
    """By node."""
    members: list[Occupant]
    movable: set[str]
    """UIDs of the pods that the plugin may move."""


def plan_topology_spread(snapshot: Snapshot, request: PlanRequest) -> Plan:
    arguments = read_plugin_arguments(TopologySpreadArgs, request.arguments, NAME)

    def find_candidates(simulation: MoveSimulation) -> Iterator[Candidate]:
        constraints: dict[_SpreadConstraint, Pod] = {}
        for occupant in pods_on_nodes(snapshot, PodFilter()):
            for constraint in _constraints_of(occupant.pod, arguments):
                constraints.setdefault(constraint, occupant.pod)
        movable = {occupant.key for occupant in pods_on_nodes(snapshot, arguments.pod_filter())}
        eligible, members = EligibleNodes(snapshot), _members_by_constraint(snapshot, constraints)
        for constraint, pod in constraints.items():
            domains = _domains_by_node(snapshot, constraint.topology_key, eligible.names_for(pod))
            yield from _even_out(simulation, constraint, _SpreadState(domains, members[constraint], movable))

    return plan_candidates(NAME, snapshot, request, find_candidates)


def _constraints_of(pod: Pod, arguments: TopologySpreadArgs) -> Iterator[_SpreadConstraint]:
    namespace = pod.metadata.namespace or ""
    for constraint in pod.spec.topology_spread_constraints or ():
        if (constraint.when_unsatisfiable or HARD) not in arguments.constraints:
            continue
        try:
            group = selector_group_of_constraint(constraint, namespace)
        except SelectorError:
            continue
        is_hard = constraint.when_unsatisfiable != SOFT
        yield _SpreadConstraint(namespace, constraint.topology_key, constraint.max_skew, group, is_hard)


def _members_by_constraint(
    snapshot: Snapshot, constraints: Iterable[_SpreadConstraint]
) -> dict[_SpreadConstraint, list[Occupant]]:
    """The pods that each constraint counts, in the order in which they would leave."""
    index: SelectorGroupIndex[_SpreadConstraint] = SelectorGroupIndex()
    members: dict[_SpreadConstraint, list[Occupant]] = {}
    for constraint in constraints:
        index.add(constraint, (constraint.group,))
        members[constraint] = []
    for occupant in sorted(snapshot.pods.known.values(), key=eviction_order):
        meta = occupant.pod.metadata
        namespace = meta.namespace or ""
        if not occupant.leaving:
            for constraint in index.find(namespace, meta.labels or {}, snapshot.namespaces.labels(namespace)):
                members[constraint].append(occupant)
    return members


def _even_out(simulation: MoveSimulation, constraint: _SpreadConstraint, state: _SpreadState) -> Iterator[Candidate]:
    """The pods of the fullest domain, one after the other, as long as its skew is too large."""
    domains, counts = state.domains, dict.fromkeys(state.domains.values(), 0)
    may_leave: dict[str, deque[Occupant]] = {}
    """By domain, in the order in which they would leave."""
    for occupant in state.members:
        domain = _domain_of(simulation, domains, occupant)
        if domain is not None:
            counts[domain] += 1
            if occupant.key in state.movable:
                may_leave.setdefault(domain, deque()).append(occupant)
    while True:
        least = min(counts.values(), default=0)
        too_full = [name for name in may_leave if may_leave[name] and counts[name] - least > constraint.max_skew]
        if not too_full:
            return
        source = min(too_full, key=lambda name: (-counts[name], name))
        occupant = may_leave[source].popleft()
        skew = f"is one of {counts[source]} in {source}, {counts[source] - least} more than elsewhere"
        select_rows = partial(_rows_in_emptiest_domains, simulation.snapshot, domains, counts, source)
        violation = f"{skew}, and maxSkew is {constraint.max_skew}"
        yield Candidate(occupant, violation, select_rows, must_move=constraint.is_hard)
        # The candidate has been moved by now, or it stays.
        target = _domain_of(simulation, domains, occupant)
        counts[source] -= 1
        if target is not None:
            counts[target] += 1


def _domain_of(simulation: MoveSimulation, domains: Mapping[str, str], occupant: Occupant) -> str | None:
    """The domain that a pod is in after all moves so far."""
    now = simulation.occupant(occupant.key)
    return domains.get(now.node) if now is not None else None


def _rows_in_emptiest_domains(
    snapshot: Snapshot, domains: Mapping[str, str], counts: Mapping[str, int], source: str, rows: RowIndex
) -> RowIndex:
    """Of these rows, those in the domains with the fewest pods; none if a move there makes the counts no more even."""
    counts_by_row = [
        counts.get(domains.get(snapshot.rows.name(row) or "", ""), counts[source]) for row in rows.tolist()
    ]
    numbers = np.array(counts_by_row, np.int64)
    least = int(numbers.min(initial=counts[source]))
    emptiest: RowIndex = rows[numbers == least] if least + 1 < counts[source] else rows[:0]
    return emptiest


def _domains_by_node(snapshot: Snapshot, topology_key: str, names: Iterable[str]) -> dict[str, str]:
    """The domains of these nodes; without nodes that lack the label."""
    nodes = ((name, snapshot.node(name)) for name in names)
    labels = {name: (node.metadata.labels or {}) for name, node in nodes if node is not None}
    return {name: of_node[topology_key] for name, of_node in labels.items() if topology_key in of_node}


PLUGIN = Planner(name=NAME, point="balance", plan=plan_topology_spread, check=arguments_check(TopologySpreadArgs, NAME))
