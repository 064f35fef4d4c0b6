"""RemovePodsViolatingInterPodAntiAffinity: pods that others require to be away from, and that are there nevertheless.

Of two pods that want to be apart one leaves: that of lower priority, then the newer one.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from restow.model.cluster import Occupant, Snapshot
from restow.model.cluster.audience import AudienceIndex, of_term
from restow.model.selectors import SelectorError
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

NAME = "RemovePodsViolatingInterPodAntiAffinity"


class AntiAffinityArgs(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Nothing of its own."""


class _Aversion(msgspec.Struct, frozen=True):
    """A pod that wants certain others elsewhere."""

    uid: str
    topology_key: str


def plan(snapshot: Snapshot, request: Request) -> Plan:
    arguments = read(AntiAffinityArgs, request.arguments, NAME)

    def search(bookings: Bookings) -> Iterator[Departure]:
        index = _aversions(snapshot)
        for one in sorted(lodgers(snapshot, arguments.pods()), key=cheapest_first):
            unwelcome = _unwelcome_to(bookings, index, one)
            if unwelcome:
                yield Departure(one, f"is near {unwelcome}, whose anti-affinity rules that out")

    return depart(NAME, snapshot, request, search)


def _aversions(snapshot: Snapshot) -> AudienceIndex[_Aversion]:
    index: AudienceIndex[_Aversion] = AudienceIndex()
    for uid, one in snapshot.pods.known.items():
        affinity = one.pod.spec.affinity
        terms = affinity.pod_anti_affinity.required if affinity and affinity.pod_anti_affinity else None
        for term in terms or ():
            try:
                index.add(_Aversion(uid, term.topology_key), (of_term(term, one.pod.metadata.namespace or ""),))
            except SelectorError:  # a term that cannot be read rules out nothing
                continue
    return index


def _unwelcome_to(bookings: Bookings, index: AudienceIndex[_Aversion], one: Occupant) -> str:
    """A pod in the same domain that wants this one elsewhere, by name; empty if there is none."""
    snapshot, meta = bookings.snapshot, one.pod.metadata
    namespace = meta.namespace or ""
    names: list[str] = []
    for aversion in index.find(namespace, meta.labels or {}, snapshot.namespaces.labels(namespace)):
        other = bookings.occupant(aversion.uid) if aversion.uid != one.key else None
        domain = _domain(snapshot, one.node, aversion.topology_key)
        if other is not None and domain is not None and domain == _domain(snapshot, other.node, aversion.topology_key):
            names.append(f"{other.pod.metadata.namespace}/{other.pod.metadata.name}")
    return min(names, default="")


def _domain(snapshot: Snapshot, name: str, key: str) -> str | None:
    node = snapshot.node(name)
    return (node.metadata.labels or {}).get(key) if node else None


PLUGIN = Planner(name=NAME, point="deschedule", plan=plan, check=lambda written: read(AntiAffinityArgs, written, NAME))
