"""InterPodAffinity: the pods that a pod must, must not, should or should not share a topology domain with.

A node is refused if - it lacks the topology key of a required affinity term, or no pod that matches all those terms is
in its domains (unless
  there is no such pod in any domain, and the pod itself matches them: one pod has to be the first);
- a pod that matches a required anti-affinity term of the pod is in the term's domain;
- a pod on it, or in its domain, has a required anti-affinity term that the pod matches.

The raw score of a node is the sum, over its domains, of the weights of the pod's preferred terms, per pod that matches
them; of the weights of preferred terms of other pods that the pod matches; and of `hardPodAffinityWeight` per required
affinity term of other pods that the pod matches. Terminating pods and seats of reservations count, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np

from restow.model.cluster import Mask, Which
from restow.model.cluster.affinity_index import AffinityWeight, TermKind
from restow.model.cluster.domain_results import DomainResults, all_true
from restow.model.cluster.selector_group import SelectorGroups, belongs_to_all, selector_group_of_term
from restow.model.cluster.topology_domains import NOWHERE, Domains, DomainSums, Sums, domain_sums
from restow.model.match_label_keys import fold_label_keys
from restow.model.objects import Pod, PodAffinityTerm
from restow.model.selectors import SelectorError
from restow.model.snapshot import Snapshot
from restow.scheduling.framework import (
    BEST,
    SKIP,
    SKIP_FOR_CLASS,
    SUCCESS,
    Cycle,
    Refusal,
    ScorePlugin,
    Scores,
    Verdict,
    unresolvable,
)
from restow.scheduling.plugins.domain_filter import DomainFilterPlugin
from restow.scheduling.plugins.plugin_arguments import read_arguments
from restow.scheduling.plugins.refusals import refusals_of

NO_AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
OTHERS_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"

Term = tuple[SelectorGroups, str]
"""The pods that all of these selector groups match, within a domain of the topology key."""


class InterPodAffinityArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    hard_pod_affinity_weight: Annotated[int, msgspec.Meta(ge=0, le=100)] = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class AffinityTerms(msgspec.Struct, frozen=True):
    """The affinity terms of a pod."""

    affinity: tuple[Term, ...] = ()
    """All of them with the same selector groups, those of every required term: a pod must match all of them."""
    anti_affinity: tuple[Term, ...] = ()
    preferred: tuple[tuple[Term, int], ...] = ()


class InterPodAffinity(DomainFilterPlugin["AffinityState"], ScorePlugin):
    name: ClassVar[str] = "InterPodAffinity"

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        super().__init__(self._make)
        given = read_arguments(InterPodAffinityArgs, arguments)
        self._hard_weight = given.hard_pod_affinity_weight
        self._ignore_others = given.ignore_preferred_terms_of_existing_pods

    def pre_filter(self, cycle: Cycle) -> Verdict:
        state = self._state(cycle)
        if state.problem:
            return unresolvable(f"parsing pod: {state.problem}")
        if not state.filter_results:
            return SKIP_FOR_CLASS
        return SUCCESS if state.may_refuse() else SKIP

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        state = self._state(cycle)
        everywhere = np.ones_like(cycle.snapshot.nodes.present[rows])
        has_affinity = all_true(state.affinity, rows) if state.affinity else everywhere
        is_apart = all_true(state.anti_affinity, rows) if state.anti_affinity else everywhere
        others = state.others_anti_affinity
        is_refused_by_others = ~all_true(others, rows) if others else ~everywhere
        return [
            *refusals_of(NO_AFFINITY, ~has_affinity),
            *refusals_of(ANTI_AFFINITY, has_affinity & ~is_apart, resolvable=True),
            *refusals_of(OTHERS_ANTI_AFFINITY, has_affinity & is_apart & is_refused_by_others, resolvable=True),
        ]

    def pre_score(self, cycle: Cycle) -> Verdict:
        state = self._state(cycle)
        if not state.preferences or (self._ignore_others and not state.terms.preferred):
            return SKIP_FOR_CLASS
        return SUCCESS if state.may_prefer() else SKIP

    def score(self, cycle: Cycle, rows: Which) -> Scores:
        raw = np.zeros(cycle.snapshot.nodes.present[rows].shape, np.int64)
        for preference in self._state(cycle).preferences:
            raw += preference.read(rows)
        return raw

    def normalize_score(self, cycle: Cycle, raw: Scores) -> Scores:
        """Stretched over 0..BEST and cut to integers, with kube-scheduler's order of operations."""
        if not len(raw):
            return raw
        least, most = int(raw.min()), int(raw.max())
        if least == most:
            return np.zeros_like(raw)
        stretched: Scores = (float(BEST) * ((raw - least) / float(most - least))).astype(np.int64)
        return stretched

    def _make(self, cycle: Cycle) -> AffinityState:
        try:
            return AffinityState(cycle.snapshot, terms_of(cycle.pod), self._hard_weight)
        except SelectorError as error:
            return AffinityState(cycle.snapshot, AffinityTerms(), self._hard_weight, str(error))


class AffinityState:
    """The affinity of a class of pods, and of other pods towards the class, as results per topology domain."""

    def __init__(self, snapshot: Snapshot, terms: AffinityTerms, hard_weight: int, problem: str = "") -> None:
        self.terms = terms
        self.problem = problem
        self.affinity: list[RequiredAffinityResult] = []
        self.anti_affinity: list[AntiAffinityResult] = []
        self.others_anti_affinity: list[AntiAffinityResult] = []
        self.filter_results: list[RequiredAffinityResult | AntiAffinityResult] = []
        """What Filter decides by: each topology key at most once for affinity and once for anti-affinity."""
        self.preferences: list[PreferenceResult] = []
        self.domains: list[Domains] = []
        self._hard_weight = hard_weight
        self._index = snapshot.affinity
        self._topologies = snapshot.topologies
        self._namespaces = snapshot.namespaces
        self._version = -1

    def may_refuse(self) -> bool:
        """Whether there is anything to refuse a node for."""
        return bool(self.affinity or self.anti_affinity) or any(map(_applies, self.others_anti_affinity))

    def may_prefer(self) -> bool:
        """Whether feasible nodes can score differently: not if affinity leaves a single domain of each key scored."""
        pinned = {need.domains for need in self.affinity if np.count_nonzero(need.values()) == 1}
        return any(_applies(result) for result in self.preferences if result.domains not in pinned)

    def refresh(self, cycle: Cycle) -> None:
        """Look up the terms about these pods, if they may have changed."""
        # A look-up can make the index drop idle groups, which changes its version: repeat until it stays the same.
        while self._version != self._index.version:
            self._version = self._index.version
            self._look_up(cycle.pod.metadata.namespace or "", cycle.pod.metadata.labels or {})

    def _look_up(self, namespace: str, labels: Mapping[str, str]) -> None:
        weights_about = self._index.weights_about(namespace, labels)
        self._look_up_required(namespace, labels)
        avoided = [self._count(term) for term in self.terms.anti_affinity]
        repelled = [
            self._weight_of(weight) for weight in weights_about if weight.term.kind is TermKind.REQUIRED_ANTI_AFFINITY
        ]
        self.anti_affinity = [AntiAffinityResult(sums) for sums in _by_domains(avoided)]
        self.others_anti_affinity = [AntiAffinityResult(sums) for sums in _by_domains(repelled)]
        self.filter_results = [
            *self.affinity,
            *(AntiAffinityResult(sums) for sums in _by_domains([*avoided, *repelled])),
        ]
        self._look_up_preferences(weights_about)
        self.domains = list(dict.fromkeys(result.domains for result in (*self.filter_results, *self.preferences)))

    def _look_up_required(self, namespace: str, labels: Mapping[str, str]) -> None:
        needed = [self._count(term) for term in self.terms.affinity]
        namespace_labels = self._namespaces.labels(namespace)
        matches_itself = all(
            belongs_to_all(groups, namespace, labels, namespace_labels) for groups, _ in self.terms.affinity
        )
        self.affinity = [
            RequiredAffinityResult(sums, needed, may_be_first=matches_itself) for sums in dict.fromkeys(needed)
        ]

    def _look_up_preferences(self, weights_about: Sequence[AffinityWeight]) -> None:
        weights = [(self._count(term), weight) for term, weight in self.terms.preferred]
        weights += [(self._weight_of(weight), 1) for weight in weights_about if weight.term.kind is TermKind.PREFERRED]
        weights += [
            (self._weight_of(weight), self._hard_weight)
            for weight in weights_about
            if weight.term.kind is TermKind.REQUIRED_AFFINITY
        ]
        by_key: dict[Domains, list[tuple[DomainSums, int]]] = {}
        for sums, weight in weights:
            by_key.setdefault(sums.domains, []).append((sums, weight))
        self.preferences = [PreferenceResult(domains, weighted) for domains, weighted in by_key.items()]

    def _count(self, term: Term) -> DomainSums:
        groups, key = term
        return domain_sums(self._topologies.domains(key), self._index.pod_count(groups))

    def _weight_of(self, weight: AffinityWeight) -> DomainSums:
        return domain_sums(self._topologies.domains(weight.term.topology_key), weight)


class RequiredAffinityResult(DomainResults[np.bool_]):
    """Domains with a pod that matches the required affinity; all domains while there is no such pod and the pod itself
    may be the first."""

    def __init__(self, sums: DomainSums, all_matching: Sequence[DomainSums], *, may_be_first: bool) -> None:
        super().__init__(sums.domains, [sums], all_matching)
        self._matching = sums
        self._all_matching = all_matching
        self._may_be_first = may_be_first
        self._is_first = False

    def premises_changed(self) -> bool:
        before, self._is_first = self._is_first, self._no_match_anywhere()
        return before is not self._is_first

    def compute(self) -> Mask:
        totals = self._matching.totals
        near: Mask = np.ones(len(totals), np.bool_) if self._is_first else totals > 0
        near[NOWHERE] = False
        return near

    def value(self, domain: int) -> bool:
        return self._is_first or self._matching.totals.item(domain) > 0

    def _no_match_anywhere(self) -> bool:
        if not self._may_be_first:
            return False
        for sums in self._all_matching:
            sums.refresh()
        return not any(sums.everywhere for sums in self._all_matching)


class AntiAffinityResult(DomainResults[np.bool_]):
    """Domains without any of the pods to be apart from. A node outside of all domains is apart from every pod."""

    def __init__(self, sums: Sequence[DomainSums]) -> None:
        super().__init__(sums[0].domains, sums)

    def compute(self) -> Mask:
        away = np.ones(len(self.sums[0].totals), np.bool_)
        for sums in self.sums:
            away &= sums.totals == 0
        return away

    def value(self, domain: int) -> bool:
        return not any(sums.totals.item(domain) for sums in self.sums)


class PreferenceResult(DomainResults[np.int64]):
    """The sum of the weights of preferences, both ways, between the pod and the pods of a domain."""

    def __init__(self, domains: Domains, weights: Sequence[tuple[DomainSums, int]]) -> None:
        super().__init__(domains, [sums for sums, _ in weights])
        self._weights = weights

    def compute(self) -> Sums:
        liked: Sums = sum((weight * sums.totals for sums, weight in self._weights), start=np.zeros(1, np.int64))
        return liked

    def value(self, domain: int) -> int:
        return sum(weight * sums.totals.item(domain) for sums, weight in self._weights)


def _applies(result: AntiAffinityResult | PreferenceResult) -> bool:
    """Whether there is any pod that it is about."""
    return any(sums.source.by_row for sums in result.sums)


def terms_of(pod: Pod) -> AffinityTerms:
    """The affinity terms of a pod. Raises SelectorError."""
    affinity = fold_label_keys(pod.spec, pod.metadata.labels or {}).affinity
    if affinity is None:
        return AffinityTerms()
    namespace = pod.metadata.namespace or ""

    def read(term: PodAffinityTerm) -> Term:
        return (selector_group_of_term(term, namespace),), term.topology_key

    near, far = affinity.pod_affinity, affinity.pod_anti_affinity
    required = [read(term) for term in (near.required if near else None) or ()]
    all_groups = tuple(dict.fromkeys(groups[0] for groups, _ in required))
    liked = [
        (read(preferred.pod_affinity_term), preferred.weight) for preferred in (near.preferred if near else None) or ()
    ]
    disliked = [
        (read(preferred.pod_affinity_term), -preferred.weight) for preferred in (far.preferred if far else None) or ()
    ]
    return AffinityTerms(
        affinity=tuple((all_groups, key) for _, key in required),
        anti_affinity=tuple(read(term) for term in (far.required if far else None) or ()),
        preferred=(*liked, *disliked),
    )


def _by_domains(sums: Sequence[DomainSums]) -> list[list[DomainSums]]:
    """By topology key, each once."""
    by_domains: dict[Domains, dict[DomainSums, None]] = {}
    for each in sums:
        by_domains.setdefault(each.domains, {})[each] = None
    return [list(same) for same in by_domains.values()]
