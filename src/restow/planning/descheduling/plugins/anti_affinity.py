"""RemovePodsViolatingInterPodAntiAffinity: moves pods that the required anti-affinity of another pod rules out.

Of two pods that rule each other out, one leaves: the one of lower priority, then the newer one.
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
    arguments_check,
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
    """No arguments beside those of all such plugins."""


class _AntiAffinityTerm(msgspec.Struct, frozen=True):
    """A required term: pods of the group may not be in the same topology domain."""

    group: SelectorGroup
    topology_key: str


def plan_anti_affinity(snapshot: Snapshot, request: PlanRequest) -> Plan:
    arguments = read_plugin_arguments(AntiAffinityArgs, request.arguments, NAME)

    def find_candidates(simulation: MoveSimulation) -> Iterator[Candidate]:
        terms = _AntiAffinityTerms(snapshot)
        for occupant in sorted(pods_on_nodes(snapshot, arguments.pod_filter()), key=eviction_order):
            other = terms.pod_ruling_out(occupant)
            if other:
                yield Candidate(occupant, f"is near {other}, whose anti-affinity rules that out")
                terms.note_move(occupant, simulation.occupant(occupant.key))

    return plan_candidates(NAME, snapshot, request, find_candidates)


class _AntiAffinityTerms:
    """All required anti-affinity terms, and in which domains the pods are that have them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._index: SelectorGroupIndex[_AntiAffinityTerm] = SelectorGroupIndex()
        self._terms_of: dict[str, list[_AntiAffinityTerm]] = {}
        """By UID of a pod."""
        self._pods: dict[tuple[_AntiAffinityTerm, str | None], dict[str, str]] = {}
        """By term and domain: the names of the pods there that have the term, by their UIDs."""
        for uid, occupant in snapshot.pods.known.items():
            for term in dict.fromkeys(_required_terms(occupant.pod)):
                self._terms_of.setdefault(uid, []).append(term)
                self._pods_in_domain(term, occupant.node)[uid] = _full_name(occupant)
        for term in dict.fromkeys(term for terms in self._terms_of.values() for term in terms):
            self._index.add(term, (term.group,))

    def pod_ruling_out(self, occupant: Occupant) -> str:
        """The name of a pod in the same domain with an anti-affinity that rules this pod out; empty if there is
        none."""
        meta = occupant.pod.metadata
        namespace = meta.namespace or ""
        terms = self._index.find(namespace, meta.labels or {}, self._snapshot.namespaces.labels(namespace))
        names = (
            name
            for term in terms
            if self._domain(occupant.node, term) is not None
            for uid, name in self._pods_in_domain(term, occupant.node).items()
            if uid != occupant.key
        )
        return min(names, default="")

    def note_move(self, before: Occupant, after: Occupant | None) -> None:
        """A pod may have been moved."""
        if after is None:
            return
        for term in self._terms_of.get(before.key, ()):
            self._pods_in_domain(term, before.node).pop(before.key, None)
            self._pods_in_domain(term, after.node)[before.key] = _full_name(before)

    def _pods_in_domain(self, term: _AntiAffinityTerm, node: str) -> dict[str, str]:
        return self._pods.setdefault((term, self._domain(node, term)), {})

    def _domain(self, name: str, term: _AntiAffinityTerm) -> str | None:
        node = self._snapshot.node(name)
        return (node.metadata.labels or {}).get(term.topology_key) if node else None


def _required_terms(pod: Pod) -> Iterator[_AntiAffinityTerm]:
    affinity = pod.spec.affinity
    terms = affinity.pod_anti_affinity.required if affinity and affinity.pod_anti_affinity else None
    for term in terms or ():
        with suppress(SelectorError):  # a term that cannot be read rules out nothing
            yield _AntiAffinityTerm(selector_group_of_term(term, pod.metadata.namespace or ""), term.topology_key)


def _full_name(occupant: Occupant) -> str:
    return f"{occupant.pod.metadata.namespace}/{occupant.pod.metadata.name}"


PLUGIN = Planner(name=NAME, point="deschedule", plan=plan_anti_affinity, check=arguments_check(AntiAffinityArgs, NAME))
