"""matchLabelKeys and mismatchLabelKeys of affinity terms and spread constraints, written into the selectors."""

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
    """The label keys that a selector names."""
    if selector is None:
        return frozenset()
    return frozenset(
        [*(selector.match_labels or ()), *(expression.key for expression in selector.match_expressions or ())]
    )


def fold_label_keys(spec: PodSpec, labels: dict[str, str]) -> PodSpec:
    """Write matchLabelKeys and mismatchLabelKeys into the selectors, as the API server does when a pod is created.

    A selector of an affinity term that already names such a key was completed by the API server: the labels of the pod
    may have changed since, and do not count. Spread constraints require the present labels as well, as in
    kube-scheduler.
    """
    constraints = spec.topology_spread_constraints
    if constraints:
        constraints = [
            replace(
                constraint,
                label_selector=_with_own_labels(constraint.label_selector, labels, constraint.match_label_keys, ()),
            )
            for constraint in constraints
        ]
    affinity = spec.affinity
    if affinity:
        affinity = replace(
            affinity,
            pod_affinity=_folded_side(affinity.pod_affinity, labels),
            pod_anti_affinity=_folded_side(affinity.pod_anti_affinity, labels),
        )
    return replace(spec, topology_spread_constraints=constraints, affinity=affinity)


def _folded_side(side: PodAffinity | None, labels: dict[str, str]) -> PodAffinity | None:
    if side is None:
        return None

    def fold(term: PodAffinityTerm) -> PodAffinityTerm:
        named = keys_of(term.label_selector)
        keys = [key for key in term.match_label_keys or () if key not in named]
        other = [key for key in term.mismatch_label_keys or () if key not in named]
        return replace(term, label_selector=_with_own_labels(term.label_selector, labels, keys, other))

    return replace(
        side,
        required=[fold(term) for term in side.required or ()] or None,
        preferred=[
            replace(preference, pod_affinity_term=fold(preference.pod_affinity_term))
            for preference in side.preferred or ()
        ]
        or None,
    )


def _with_own_labels(
    selector: SelectorSpec | None, labels: dict[str, str], equal: Iterable[str] | None, different: Iterable[str]
) -> SelectorSpec | None:
    """The selector with the pod's own values of some keys required, of others excluded; keys that the pod lacks are
    ignored."""
    more = [SelectorRequirement(key=key, operator="In", values=[labels[key]]) for key in equal or () if key in labels]
    more += [SelectorRequirement(key=key, operator="NotIn", values=[labels[key]]) for key in different if key in labels]
    if selector is None or not more:
        return selector
    return replace(selector, match_expressions=[*(selector.match_expressions or ()), *more])
