"""TODO"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from restow.model.objects import (
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    SelectorRequirement,
    SelectorSpec,
)


def keys_of(selector: SelectorSpec | None) -> frozenset[str]:
    """The label keys a selector speaks of."""
    if selector is None:
        return frozenset()
    return frozenset([*(selector.match_labels or ()), *(one.key for one in selector.match_expressions or ())])


def fold_label_keys(spec: PodSpec, labels: dict[str, str]) -> PodSpec:
    """Write matchLabelKeys and mismatchLabelKeys into the selectors, as the API server does when a pod is created.

    A selector of an affinity term that already speaks of such a key was written to then: the labels may have changed
    since, and do not matter. In spread constraints the present labels are demanded as well, as kube-scheduler does.
    """
    constraints = spec.topology_spread_constraints
    if constraints:
        constraints = [
            replace(one, label_selector=_narrowed(one.label_selector, labels, one.match_label_keys, ()))
            for one in constraints
        ]
    affinity = spec.affinity
    if affinity:
        affinity = replace(
            affinity,
            pod_affinity=_folded(affinity.pod_affinity, labels),
            pod_anti_affinity=_folded(affinity.pod_anti_affinity, labels),
        )
    return replace(spec, topology_spread_constraints=constraints, affinity=affinity)


def _folded(side: PodAffinity | None, labels: dict[str, str]) -> PodAffinity | None:
    if side is None:
        return None

    def fold(term: PodAffinityTerm) -> PodAffinityTerm:
        said = keys_of(term.label_selector)
        keys = [key for key in term.match_label_keys or () if key not in said]
        other = [key for key in term.mismatch_label_keys or () if key not in said]
        return replace(term, label_selector=_narrowed(term.label_selector, labels, keys, other))

    return replace(
        side,
        required=[fold(term) for term in side.required or ()] or None,
        preferred=[replace(one, pod_affinity_term=fold(one.pod_affinity_term)) for one in side.preferred or ()] or None,
    )


def _narrowed(
    selector: SelectorSpec | None, labels: dict[str, str], equal: Iterable[str] | None, different: Iterable[str]
) -> SelectorSpec | None:
    """The selector with the pod's own values of some keys demanded or excluded; absent keys are passed over."""
    more = [SelectorRequirement(key=key, operator="In", values=[labels[key]]) for key in equal or () if key in labels]
    more += [SelectorRequirement(key=key, operator="NotIn", values=[labels[key]]) for key in different if key in labels]
    if selector is None or not more:
        return selector
    return replace(selector, match_expressions=[*(selector.match_expressions or ()), *more])
