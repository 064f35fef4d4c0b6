"""RemovePodsViolatingTopologySpreadConstraint: pods of domains that have more of their kind than maxSkew allows.

    args: {constraints: [DoNotSchedule], topologyBalanceNodeFit: true}

Constraint by constraint, pods go from the fullest domain to the emptiest until they differ by no more than maxSkew.
That comes to an end, because every move makes the counts more even.
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
        for number, one in enumerate(self.constraints):
            if one not in (HARD, SOFT):
                yield Problem(f"constraints[{number}]", f"{one!r} is not one of {HARD}, {SOFT}")
        if not self.topology_balance_node_fit:
            yield Problem("topologyBalanceNodeFit", "cannot be switched off: nothing is evicted without a seat")


class _Spread(msgspec.Struct, frozen=True):
    """A constraint, as the pods have it that share it."""

    namespace: str
    topology_key: str
    max_skew: int
    audience: SelectorGroup
    hard: bool
    """Whether the scheduler's own filters keep it."""


class _Scene(msgspec.Struct, frozen=True):
    domains: Mapping[str, str]
    """By node."""
    members: list[Occupant]
    movable: set[str]
    """UIDs of pods the plugin is about."""


def plan(snapshot: Snapshot, request: PlanRequest) -> Plan:
    arguments = read_plugin_arguments(TopologySpreadArgs, request.arguments, NAME)

    def search(bookings: MoveSimulation) -> Iterator[Candidate]:
        spreads: dict[_Spread, Pod] = {}
        for one in pods_on_nodes(snapshot, PodFilter()):
            for spread in _spreads(one.pod, arguments):
                spreads.setdefault(spread, one.pod)
        movable = {one.key for one in pods_on_nodes(snapshot, arguments.pod_filter())}
        eligible, members = EligibleNodes(snapshot), _members(snapshot, spreads)
        for spread, pod in spreads.items():
            domains = _domains(snapshot, spread.topology_key, eligible.names_for(pod))
            yield from _even_out(bookings, spread, _Scene(domains, members[spread], movable))

    return plan_candidates(NAME, snapshot, request, search)


def _spreads(pod: Pod, arguments: TopologySpreadArgs) -> Iterator[_Spread]:
    namespace = pod.metadata.namespace or ""
    for constraint in pod.spec.topology_spread_constraints or ():
        if (constraint.when_unsatisfiable or HARD) not in arguments.constraints:
            continue
        try:
            audience = selector_group_of_constraint(constraint, namespace)
        except SelectorError:
            continue
        hard = constraint.when_unsatisfiable != SOFT
        yield _Spread(namespace, constraint.topology_key, constraint.max_skew, audience, hard)


def _members(snapshot: Snapshot, spreads: Iterable[_Spread]) -> dict[_Spread, list[Occupant]]:
    """The pods that each constraint counts, cheapest first."""
    index: SelectorGroupIndex[_Spread] = SelectorGroupIndex()
    found: dict[_Spread, list[Occupant]] = {}
    for spread in spreads:
        index.add(spread, (spread.audience,))
        found[spread] = []
    for one in sorted(snapshot.pods.known.values(), key=eviction_order):
        meta = one.pod.metadata
        namespace = meta.namespace or ""
        if not one.leaving:
            for spread in index.find(namespace, meta.labels or {}, snapshot.namespaces.labels(namespace)):
                found[spread].append(one)
    return found


def _even_out(bookings: MoveSimulation, spread: _Spread, scene: _Scene) -> Iterator[Candidate]:
    """Pods of the fullest domain, one after the other, as long as it is too full."""
    domains, counts = scene.domains, dict.fromkeys(scene.domains.values(), 0)
    left: dict[str, deque[Occupant]] = {}
    """By domain: who may leave it, the cheapest first."""
    for one in scene.members:
        found = _domain_of(bookings, domains, one)
        if found is not None:
            counts[found] += 1
            if one.key in scene.movable:
                left.setdefault(found, deque()).append(one)
    while True:
        least = min(counts.values(), default=0)
        too_full = [domain for domain in left if left[domain] and counts[domain] - least > spread.max_skew]
        if not too_full:
            return
        domain = min(too_full, key=lambda name: (-counts[name], name))
        one = left[domain].popleft()
        told = f"is one of {counts[domain]} in {domain}, {counts[domain] - least} more than elsewhere"
        among = partial(_emptiest, bookings.snapshot, domains, counts, domain)
        yield Candidate(one, f"{told}, and maxSkew is {spread.max_skew}", among, must=spread.hard)
        now = _domain_of(bookings, domains, one)
        counts[domain] -= 1
        if now is not None:
            counts[now] += 1


def _domain_of(bookings: MoveSimulation, domains: Mapping[str, str], one: Occupant) -> str | None:
    """Where a pod is as of now."""
    place = bookings.occupant(one.key)
    return domains.get(place.node) if place is not None else None


def _emptiest(
    snapshot: Snapshot, domains: Mapping[str, str], counts: Mapping[str, int], source: str, rows: RowIndex
) -> RowIndex:
    """Of these rows those in the emptiest domains, if that makes the two more even."""
    found = [counts.get(domains.get(snapshot.rows.name(row) or "", ""), counts[source]) for row in rows.tolist()]
    numbers = np.array(found, np.int64)
    least = int(numbers.min(initial=counts[source]))
    kept: RowIndex = rows[numbers == least] if least + 1 < counts[source] else rows[:0]
    return kept


def _domains(snapshot: Snapshot, key: str, names: Iterable[str]) -> dict[str, str]:
    """By node of these: the domain it is in."""
    nodes = ((name, snapshot.node(name)) for name in names)
    labels = {name: (node.metadata.labels or {}) for name, node in nodes if node is not None}
    return {name: found[key] for name, found in labels.items() if key in found}


PLUGIN = Planner(
    name=NAME,
    point="balance",
    plan=plan,
    check=lambda written: read_plugin_arguments(TopologySpreadArgs, written, NAME),
)
