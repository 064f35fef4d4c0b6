"""RemovePodsViolatingTopologySpreadConstraint: pods of domains that have more of their kind than maxSkew allows.

    args: {constraints: [DoNotSchedule], topologyBalanceNodeFit: true}

Constraint by constraint, pods go from the fullest domain to the emptiest until they differ by no more than maxSkew.
That comes to an end, because every move makes the counts more even.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import msgspec
import numpy as np

from restow.model.affinity import node_constraint
from restow.model.cluster import Occupant, RowIndex, Snapshot
from restow.model.cluster.audience import Audience, of_constraint
from restow.model.objects import Pod
from restow.model.problems import Problem
from restow.model.selectors import SelectorError
from restow.model.taints import untolerated
from restow.planning.arguments import PodFilter
from restow.planning.bookings import Bookings
from restow.planning.descheduling.framework import Planner
from restow.planning.descheduling.plugins.departing import (
    Arguments,
    Departure,
    cheapest_first,
    depart,
    lodgers,
    read,
)
from restow.planning.plan import Plan
from restow.planning.request import Request

NAME = "RemovePodsViolatingTopologySpreadConstraint"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"


class TopologySpreadArgs(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
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
    audience: Audience


def plan(snapshot: Snapshot, request: Request) -> Plan:
    arguments = read(TopologySpreadArgs, request.arguments, NAME)

    def search(bookings: Bookings) -> Iterator[Departure]:
        spreads: dict[_Spread, Pod] = {}
        for one in lodgers(snapshot, PodFilter()):
            for spread in _spreads(one.pod, arguments):
                spreads.setdefault(spread, one.pod)
        movable = {one.key for one in lodgers(snapshot, arguments.pods())}
        for spread, pod in spreads.items():
            yield from _even_out(bookings, spread, pod, movable)

    return depart(NAME, snapshot, request, search)


def _spreads(pod: Pod, arguments: TopologySpreadArgs) -> Iterator[_Spread]:
    namespace = pod.metadata.namespace or ""
    for constraint in pod.spec.topology_spread_constraints or ():
        if (constraint.when_unsatisfiable or HARD) not in arguments.constraints:
            continue
        try:
            audience = of_constraint(constraint, namespace)
        except SelectorError:
            continue
        yield _Spread(namespace, constraint.topology_key, constraint.max_skew, audience)


def _even_out(bookings: Bookings, spread: _Spread, pod: Pod, movable: set[str]) -> Iterator[Departure]:
    """Pods of the fullest domain, one after the other, as long as it is too full."""
    snapshot, tried = bookings.snapshot, set[str]()
    domains = _domains(snapshot, spread.topology_key, pod)
    members = sorted(
        (one for one in snapshot.pods.known.values() if _belongs(snapshot, spread, one)), key=cheapest_first
    )
    while True:
        places = {one.key: bookings.occupant(one.key) for one in members}
        where = {uid: domains.get(place.node) for uid, place in places.items() if place is not None}
        counts = dict.fromkeys(domains.values(), 0)
        for domain in where.values():
            if domain is not None:
                counts[domain] += 1
        left = [one for one in members if one.key in movable and one.key not in tried]
        too_full = {domain for domain, count in counts.items() if count - min(counts.values()) > spread.max_skew}
        found = [one for one in left if where.get(one.key) in too_full]
        if not found:
            return
        fullest = min(found, key=lambda one: (-counts[where[one.key] or ""], where[one.key] or "", cheapest_first(one)))
        tried.add(fullest.key)
        domain = where[fullest.key] or ""
        told = f"is one of {counts[domain]} in {domain}, {counts[domain] - min(counts.values())} more than elsewhere"
        yield Departure(
            fullest, f"{told}, and maxSkew is {spread.max_skew}", partial(_emptiest, snapshot, domains, counts, domain)
        )


def _emptiest(
    snapshot: Snapshot, domains: Mapping[str, str], counts: Mapping[str, int], source: str, rows: RowIndex
) -> RowIndex:
    """Of these rows those in the emptiest domains, if that makes the two more even."""
    found = [counts.get(domains.get(snapshot.rows.name(row) or "", ""), counts[source]) for row in rows.tolist()]
    numbers = np.array(found, np.int64)
    least = int(numbers.min(initial=counts[source]))
    kept: RowIndex = rows[numbers == least] if least + 1 < counts[source] else rows[:0]
    return kept


def _domains(snapshot: Snapshot, key: str, pod: Pod) -> dict[str, str]:
    """By node that a pod could be on: the domain it is in."""
    constraint = node_constraint(pod.spec)
    found: dict[str, str] = {}
    for name in snapshot.rows.names():
        node = snapshot.node(name)
        labels = (node.metadata.labels if node else None) or {}
        if node is None or key not in labels or not constraint.matches(name, labels):
            continue
        if not node.spec.unschedulable and not untolerated(node.spec.taints, pod.spec.tolerations):
            found[name] = labels[key]
    return found


def _belongs(snapshot: Snapshot, spread: _Spread, one: Occupant) -> bool:
    meta = one.pod.metadata
    namespace = meta.namespace or ""
    counted = spread.audience.includes(namespace, meta.labels or {}, snapshot.namespaces.labels(namespace))
    return counted and not one.leaving


PLUGIN = Planner(name=NAME, point="balance", plan=plan, check=lambda written: read(TopologySpreadArgs, written, NAME))
