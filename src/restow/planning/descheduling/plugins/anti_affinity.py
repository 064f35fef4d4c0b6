"""RemovePodsViolatingInterPodAntiAffinity: pods that others require to be away from, and that are there nevertheless.

Of two pods that want to be apart one leaves: that of lower priority, then the newer one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec

from restow.model.cluster import Occupant
from restow.model.cluster.selector_group import SelectorGroup, SelectorGroupIndex, selector_group_of_term
from restow.model.objects import Pod
from restow.model.selectors import SelectorError
from restow.model.snapshot import Snapshot
from restow.planning.descheduling.framework import Planner
from restow.planning.descheduling.plugins.candidates import (
    Candidate,
    CandidateArguments,
    eviction_order,
    plan_candidates,
    pods_on_nodes,
    read_plugin_arguments,
)
from restow.planning.move_simulation import MoveSimulation
from restow.planning.plan import Plan
from restow.planning.plan_request import PlanRequest

NAME = "RemovePodsViolatingInterPodAntiAffinity"


class AntiAffinityArgs(CandidateArguments, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Nothing of its own."""


class _Aversion(msgspec.Struct, frozen=True):
    """Certain pods are wanted elsewhere."""

    audience: SelectorGroup
    topology_key: str


def plan(snapshot: Snapshot, request: PlanRequest) -> Plan:
    arguments = read_plugin_arguments(AntiAffinityArgs, request.arguments, NAME)

    def search(bookings: MoveSimulation) -> Iterator[Candidate]:
        aversions = _Aversions(snapshot)
        for one in sorted(pods_on_nodes(snapshot, arguments.pod_filter()), key=eviction_order):
            unwelcome = aversions.unwelcome_to(one)
            if unwelcome:
                yield Candidate(one, f"is near {unwelcome}, whose anti-affinity rules that out")
                aversions.moved(one, bookings.occupant(one.key))

    return plan_candidates(NAME, snapshot, request, search)


class _Aversions:
    """Who wants whom elsewhere, and in which domains they are."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._index: SelectorGroupIndex[_Aversion] = SelectorGroupIndex()
        self._of: dict[str, list[_Aversion]] = {}
        """By UID of a pod."""
        self._holders: dict[tuple[_Aversion, str | None], dict[str, str]] = {}
        """By aversion and domain: the names of the pods there that have it, by UID."""
        for uid, one in snapshot.pods.known.items():
            for aversion in dict.fromkeys(_aversions(one.pod)):
                self._of.setdefault(uid, []).append(aversion)
                self._holders_at(aversion, one.node)[uid] = _name(one)
        for aversion in dict.fromkeys(each for found in self._of.values() for each in found):
            self._index.add(aversion, (aversion.audience,))

    def unwelcome_to(self, one: Occupant) -> str:
        """A pod in the same domain that wants this one elsewhere, by name; empty if there is none."""
        meta = one.pod.metadata
        namespace = meta.namespace or ""
        found = self._index.find(namespace, meta.labels or {}, self._snapshot.namespaces.labels(namespace))
        names = (
            name
            for aversion in found
            if self._domain(one.node, aversion) is not None
            for uid, name in self._holders_at(aversion, one.node).items()
            if uid != one.key
        )
        return min(names, default="")

    def moved(self, before: Occupant, now: Occupant | None) -> None:
        """A pod is elsewhere now, perhaps."""
        for aversion in self._of.get(before.key, ()) if now is not None else ():
            self._holders_at(aversion, before.node).pop(before.key, None)
            self._holders_at(aversion, now.node if now else "")[before.key] = _name(before)

    def _holders_at(self, aversion: _Aversion, node: str) -> dict[str, str]:
        return self._holders.setdefault((aversion, self._domain(node, aversion)), {})

    def _domain(self, name: str, aversion: _Aversion) -> str | None:
        node = self._snapshot.node(name)
        return (node.metadata.labels or {}).get(aversion.topology_key) if node else None


def _aversions(pod: Pod) -> Iterator[_Aversion]:
    """Whom a pod requires to be elsewhere; a term that cannot be read rules out nothing."""
    affinity = pod.spec.affinity
    terms = affinity.pod_anti_affinity.required if affinity and affinity.pod_anti_affinity else None
    for term in terms or ():
        with suppress(SelectorError):
            yield _Aversion(selector_group_of_term(term, pod.metadata.namespace or ""), term.topology_key)


def _name(one: Occupant) -> str:
    return f"{one.pod.metadata.namespace}/{one.pod.metadata.name}"


PLUGIN = Planner(
    name=NAME,
    point="deschedule",
    plan=plan,
    check=lambda written: read_plugin_arguments(AntiAffinityArgs, written, NAME),
)
