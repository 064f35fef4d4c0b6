"""Inter-pod affinity and topology spread node by node, as the Kubernetes documentation defines them: slow and plain."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from restow.model.affinity import node_constraint
from restow.model.objects import (
    Node,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    SelectorSpec,
    TopologySpreadConstraint,
)
from restow.model.selectors import label_selector
from restow.model.taints import untolerated_taint

HOST_NAME = "kubernetes.io/hostname"


@dataclass
class World:
    nodes: dict[str, Node] = field(default_factory=dict)
    placed: list[tuple[Pod, str]] = field(default_factory=list)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)

    def namespace_labels(self, name: str) -> dict[str, str]:
        return self.namespaces.get(name, {"kubernetes.io/metadata.name": name})

    def on_nodes(self) -> Iterator[tuple[Pod, Node]]:
        return ((pod, self.nodes[name]) for pod, name in self.placed if name in self.nodes)


# --- affinity ---------------------------------------------------------------------------------------------------------


def speaks_of(world: World, term: PodAffinityTerm, owner: Pod, other: Pod) -> bool:
    """Whether a term of `owner` is about `other`."""
    if not _in_namespaces(world, term, owner, other):
        return False
    if term.label_selector is None:
        return False
    own, labels = _labels(owner), _labels(other)
    selected_keys = _keys(term.label_selector)
    alike = [key for key in term.match_label_keys or () if key in own and key not in selected_keys]
    different = [key for key in term.mismatch_label_keys or () if key in own and key not in selected_keys]
    return (
        label_selector(term.label_selector).matches(labels)
        and all(labels.get(key) == own[key] for key in alike)
        and all(labels.get(key) != own[key] for key in different)
    )


def _in_namespaces(world: World, term: PodAffinityTerm, owner: Pod, other: Pod) -> bool:
    there = other.metadata.namespace or ""
    if not term.namespaces and term.namespace_selector is None:
        return there == owner.metadata.namespace
    selected = label_selector(term.namespace_selector).matches(world.namespace_labels(there))
    return there in (term.namespaces or ()) or selected


def affinity_refusal(world: World, pod: Pod, node: Node) -> str | None:
    needed, avoided = _required(pod, "pod_affinity"), _required(pod, "pod_anti_affinity")
    if needed and not _near_needed(world, pod, node, needed):
        return "node(s) didn't match pod affinity rules"
    for other, where in world.on_nodes():
        for term in avoided:
            if speaks_of(world, term, pod, other) and _together(term.topology_key, node, where):
                return "node(s) didn't match pod anti-affinity rules"
    for other, where in world.on_nodes():
        for term in _required(other, "pod_anti_affinity"):
            if speaks_of(world, term, other, pod) and _together(term.topology_key, node, where):
                return "node(s) didn't satisfy existing pods anti-affinity rules"
    return None


def _near_needed(world: World, pod: Pod, node: Node, terms: list[PodAffinityTerm]) -> bool:
    if any(term.topology_key not in _labels(node) for term in terms):
        return False
    matching = [where for other, where in world.on_nodes() if all(speaks_of(world, one, pod, other) for one in terms)]
    if all(any(_together(term.topology_key, node, where) for where in matching) for term in terms):
        return True
    keys = {term.topology_key for term in terms}
    counted = any(key in _labels(where) for where in matching for key in keys)
    return not counted and all(speaks_of(world, term, pod, pod) for term in terms)


def affinity_scores(world: World, pod: Pod, nodes: list[str], hard_weight: int = 1) -> dict[str, int]:
    raw = {name: _liking(world, pod, world.nodes[name], hard_weight) for name in nodes}
    least, most = min(raw.values()), max(raw.values())
    return {name: int(100.0 * ((one - least) / (most - least))) if most > least else 0 for name, one in raw.items()}


def _liking(world: World, pod: Pod, node: Node, hard_weight: int) -> int:
    total = 0
    for other, where in world.on_nodes():
        for term, weight in _preferred(pod):
            if speaks_of(world, term, pod, other) and _together(term.topology_key, node, where):
                total += weight
        for term, weight in (*_preferred(other), *((one, hard_weight) for one in _required(other, "pod_affinity"))):
            if speaks_of(world, term, other, pod) and _together(term.topology_key, node, where):
                total += weight
    return total


def _required(pod: Pod, side: str) -> list[PodAffinityTerm]:
    chosen: PodAffinity | None = getattr(pod.spec.affinity, side, None)
    return list(chosen.required or ()) if chosen else []


def _preferred(pod: Pod) -> list[tuple[PodAffinityTerm, int]]:
    found: list[tuple[PodAffinityTerm, int]] = []
    for side, sign in (("pod_affinity", 1), ("pod_anti_affinity", -1)):
        chosen: PodAffinity | None = getattr(pod.spec.affinity, side, None)
        found += [(one.pod_affinity_term, sign * one.weight) for one in (chosen.preferred if chosen else None) or ()]
    return found


def _together(key: str, one: Node, other: Node) -> bool:
    return key in _labels(one) and _labels(one)[key] == _labels(other).get(key)


# --- spread -----------------------------------------------------------------------------------------------------------


def spread_refusal(world: World, pod: Pod, node: Node) -> str | None:
    constraints = _constraints(pod, "DoNotSchedule")
    for constraint in constraints:
        key = constraint.topology_key
        if key not in _labels(node):
            return "node(s) didn't match pod topology spread constraints (missing required label)"
        counts: dict[str, int] = {}
        for name, other in world.nodes.items():
            if _counts(pod, constraint, constraints, other):
                domain = _labels(other)[key]
                counts[domain] = counts.get(domain, 0) + _matching_on(world, pod, constraint, name)
        least = 0 if len(counts) < (constraint.min_domains or 1) else min(counts.values())
        itself = _selects(pod, constraint, pod)
        if counts.get(_labels(node)[key], 0) + itself - least > constraint.max_skew:
            return "node(s) didn't match pod topology spread constraints"
    return None


def spread_scores(world: World, pod: Pod, nodes: list[str]) -> dict[str, int]:
    constraints = _constraints(pod, "ScheduleAnyway")
    keys = [constraint.topology_key for constraint in constraints]
    rated = [name for name in nodes if all(key in _labels(world.nodes[name]) for key in keys)]
    raw = {name: _rate(world, pod, constraints, rated, world.nodes[name]) for name in rated}
    if not raw:
        return dict.fromkeys(nodes, 0)
    least, most = min(raw.values()), max(raw.values())
    best = {name: 100 * (most + least - one) // most if most else 100 for name, one in raw.items()}
    return {name: best.get(name, 0) for name in nodes}


def _rate(world: World, pod: Pod, constraints: list[TopologySpreadConstraint], rated: list[str], node: Node) -> int:
    total = 0.0
    for constraint in constraints:
        key = constraint.topology_key
        domain = _labels(node)[key]
        if key == HOST_NAME:
            domains, pods = len(rated), _matching_on(world, pod, constraint, node.metadata.name)
        else:
            domains = len({_labels(world.nodes[name])[key] for name in rated})
            pods = sum(
                _matching_on(world, pod, constraint, name)
                for name, other in world.nodes.items()
                if _counts(pod, constraint, constraints, other) and _labels(other)[key] == domain
            )
        total += pods * math.log(domains + 2) + float(constraint.max_skew - 1)
    return math.floor(total) + (total - math.floor(total) >= 0.5)


def _constraints(pod: Pod, consequence: str) -> list[TopologySpreadConstraint]:
    return [one for one in pod.spec.topology_spread_constraints or () if one.when_unsatisfiable == consequence]


def _counts(
    pod: Pod, constraint: TopologySpreadConstraint, together: list[TopologySpreadConstraint], node: Node
) -> bool:
    labels = _labels(node)
    if any(one.topology_key not in labels for one in together):
        return False
    if constraint.node_affinity_policy != "Ignore" and not node_constraint(pod.spec).matches(
        node.metadata.name, labels
    ):
        return False
    return constraint.node_taints_policy != "Honor" or not untolerated_taint(
        node.spec.taints or (), pod.spec.tolerations or ()
    )


def _selects(pod: Pod, constraint: TopologySpreadConstraint, other: Pod) -> bool:
    if constraint.label_selector is None or not label_selector(constraint.label_selector).matches(_labels(other)):
        return False
    own = _labels(pod)
    return all(_labels(other).get(key) == own[key] for key in constraint.match_label_keys or () if key in own)


def _matching_on(world: World, pod: Pod, constraint: TopologySpreadConstraint, node: str) -> int:
    own = _labels(pod)
    narrowed = any(key in own for key in constraint.match_label_keys or ())
    if constraint.label_selector == SelectorSpec() and not narrowed:
        return 0
    return sum(
        where == node
        and other.metadata.namespace == pod.metadata.namespace
        and other.metadata.deletion_timestamp is None
        and _selects(pod, constraint, other)
        for other, where in world.placed
    )


# ----------------------------------------------------------------------------------------------------------------------


def _labels(one: Pod | Node) -> Mapping[str, str]:
    return one.metadata.labels or {}


def _keys(selector: SelectorSpec) -> set[str]:
    return {*(selector.match_labels or ()), *(one.key for one in selector.match_expressions or ())}
