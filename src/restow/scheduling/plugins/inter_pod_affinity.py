"""InterPodAffinity: which other pods a pod must, must not, would or would not like to share a domain with.

A node is refused when
- it lacks the topology key of a required affinity term, or no pod that belongs to all those terms is in its domains
  (unless there is no such pod in any domain, and the pod itself would be one: somebody has to be first);
- a pod that one of the pod's required anti-affinity terms speaks about is in the term's domain;
- a pod there, or in its domain, has a required anti-affinity term that speaks about the pod.

The raw score sums, over the domains of the node, the weights of the pod's preferred terms per pod they speak about, of
preferred terms of other pods that speak about it, and `hardPodAffinityWeight` per required affinity term of other pods
that does. Pods that are leaving count in all of it, and so do seats of reservations.
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
from restow.scheduling.plugins.refusals import refused

NO_AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
OTHERS_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"

Term = tuple[SelectorGroups, str]
"""Pods that belong to all of the audiences, within a domain of the topology key."""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    hard_pod_affinity_weight: Annotated[int, msgspec.Meta(ge=0, le=100)] = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class Terms(msgspec.Struct, frozen=True):
    """What a pod asks of others."""

    affinity: tuple[Term, ...] = ()
    """All of them with the same audiences: those of every required term."""
    anti_affinity: tuple[Term, ...] = ()
    preferred: tuple[tuple[Term, int], ...] = ()


class InterPodAffinity(DomainFilterPlugin["ClassState"], ScorePlugin):
    name: ClassVar[str] = "InterPodAffinity"

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        super().__init__(self._make)
        given = read_arguments(Arguments, arguments)
        self._hard_weight = given.hard_pod_affinity_weight
        self._ignore_others = given.ignore_preferred_terms_of_existing_pods

    def pre_filter(self, cycle: Cycle) -> Verdict:
        state = self._state(cycle)
        if state.problem:
            return unresolvable(f"parsing pod: {state.problem}")
        if not state.boards:
            return SKIP_FOR_CLASS
        return SUCCESS if state.may_refuse() else SKIP

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        state = self._state(cycle)
        everywhere = np.ones_like(cycle.snapshot.nodes.present[rows])
        near = all_true(state.needs, rows) if state.needs else everywhere
        away = all_true(state.avoids, rows) if state.avoids else everywhere
        unwanted = ~all_true(state.repels, rows) if state.repels else ~everywhere
        return [
            *refused(NO_AFFINITY, ~near),
            *refused(ANTI_AFFINITY, near & ~away, resolvable=True),
            *refused(OTHERS_ANTI_AFFINITY, near & away & unwanted, resolvable=True),
        ]

    def pre_score(self, cycle: Cycle) -> Verdict:
        state = self._state(cycle)
        if not state.likes or (self._ignore_others and not state.terms.preferred):
            return SKIP_FOR_CLASS
        return SUCCESS if state.may_prefer() else SKIP

    def score(self, cycle: Cycle, rows: Which) -> Scores:
        raw = np.zeros(cycle.snapshot.nodes.present[rows].shape, np.int64)
        for board in self._state(cycle).likes:
            raw += board.read(rows)
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

    def _make(self, cycle: Cycle) -> ClassState:
        try:
            return ClassState(cycle.snapshot, terms_of(cycle.pod), self._hard_weight)
        except SelectorError as error:
            return ClassState(cycle.snapshot, Terms(), self._hard_weight, str(error))


class ClassState:
    """What the pods of a class need, avoid and like, and who repels them, as boards."""

    def __init__(self, snapshot: Snapshot, terms: Terms, hard_weight: int, problem: str = "") -> None:
        self.terms = terms
        self.problem = problem
        self.needs: list[Need] = []
        self.avoids: list[Avoid] = []
        self.repels: list[Avoid] = []
        self.boards: list[Need | Avoid] = []
        """What decides where the pods may go; each topology key at most once per sense."""
        self.likes: list[Like] = []
        self.domains: list[Domains] = []
        self._hard_weight = hard_weight
        self._crowd = snapshot.affinity
        self._topologies = snapshot.topologies
        self._namespaces = snapshot.namespaces
        self._version = -1

    def may_refuse(self) -> bool:
        """Whether there is anything to refuse a node for."""
        return bool(self.needs or self.avoids) or any(map(_applies, self.repels))

    def may_prefer(self) -> bool:
        """Whether feasible nodes can score differently: not when affinity leaves a single domain of each key scored."""
        pinned = {need.domains for need in self.needs if np.count_nonzero(need.values()) == 1}
        return any(_applies(board) for board in self.likes if board.domains not in pinned)

    def refresh(self, cycle: Cycle) -> None:
        """Look again who speaks about these pods, if that may have changed, be it by this very look."""
        while self._version != self._crowd.version:
            self._version = self._crowd.version
            self._look(cycle.pod.metadata.namespace or "", cycle.pod.metadata.labels or {})

    def _look(self, namespace: str, labels: Mapping[str, str]) -> None:
        stances = self._crowd.weights_about(namespace, labels)
        self._look_for_needs(namespace, labels)
        avoided = [self._headcount(term) for term in self.terms.anti_affinity]
        repelled = [self._held(one) for one in stances if one.term.kind is TermKind.REQUIRED_ANTI_AFFINITY]
        self.avoids = [Avoid(sums) for sums in _by_domains(avoided)]
        self.repels = [Avoid(sums) for sums in _by_domains(repelled)]
        self.boards = [*self.needs, *(Avoid(sums) for sums in _by_domains([*avoided, *repelled]))]
        self._look_for_likes(stances)
        self.domains = list(dict.fromkeys(board.domains for board in (*self.boards, *self.likes)))

    def _look_for_needs(self, namespace: str, labels: Mapping[str, str]) -> None:
        needed = [self._headcount(term) for term in self.terms.affinity]
        namespace_labels = self._namespaces.labels(namespace)
        first = all(
            belongs_to_all(audiences, namespace, labels, namespace_labels) for audiences, _ in self.terms.affinity
        )
        self.needs = [Need(sums, needed, may_be_first=first) for sums in dict.fromkeys(needed)]

    def _look_for_likes(self, stances: Sequence[AffinityWeight]) -> None:
        weights = [(self._headcount(term), weight) for term, weight in self.terms.preferred]
        weights += [(self._held(one), 1) for one in stances if one.term.kind is TermKind.PREFERRED]
        weights += [
            (self._held(one), self._hard_weight) for one in stances if one.term.kind is TermKind.REQUIRED_AFFINITY
        ]
        by_key: dict[Domains, list[tuple[DomainSums, int]]] = {}
        for sums, weight in weights:
            by_key.setdefault(sums.domains, []).append((sums, weight))
        self.likes = [Like(domains, weighted) for domains, weighted in by_key.items()]

    def _headcount(self, term: Term) -> DomainSums:
        audiences, key = term
        return domain_sums(self._topologies.domains(key), self._crowd.pod_count(audiences))

    def _held(self, stance: AffinityWeight) -> DomainSums:
        return domain_sums(self._topologies.domains(stance.term.topology_key), stance)


class Need(DomainResults[np.bool_]):
    """Domains with a needed pod; all that exist while there is none and the pod may be the first."""

    def __init__(self, sums: DomainSums, all_needed: Sequence[DomainSums], *, may_be_first: bool) -> None:
        super().__init__(sums.domains, [sums], all_needed)
        self._needed = sums
        self._all_needed = all_needed
        self._may_be_first = may_be_first
        self._alone = False

    def premises_changed(self) -> bool:
        before, self._alone = self._alone, self._is_alone()
        return before is not self._alone

    def compute(self) -> Mask:
        totals = self._needed.totals
        near: Mask = np.ones(len(totals), np.bool_) if self._alone else totals > 0
        near[NOWHERE] = False
        return near

    def value(self, domain: int) -> bool:
        return self._alone or self._needed.totals.item(domain) > 0

    def _is_alone(self) -> bool:
        if not self._may_be_first:
            return False
        for sums in self._all_needed:
            sums.refresh()
        return not any(sums.everywhere for sums in self._all_needed)


class Avoid(DomainResults[np.bool_]):
    """Domains without any of the pods to avoid. Nodes outside of all domains are near nobody."""

    def __init__(self, sums: Sequence[DomainSums]) -> None:
        super().__init__(sums[0].domains, sums)

    def compute(self) -> Mask:
        away = np.ones(len(self.sums[0].totals), np.bool_)
        for sums in self.sums:
            away &= sums.totals == 0
        return away

    def value(self, domain: int) -> bool:
        return not any(sums.totals.item(domain) for sums in self.sums)


class Like(DomainResults[np.int64]):
    """How much the pods of a domain are liked, and like the pod, in sum."""

    def __init__(self, domains: Domains, weights: Sequence[tuple[DomainSums, int]]) -> None:
        super().__init__(domains, [sums for sums, _ in weights])
        self._weights = weights

    def compute(self) -> Sums:
        liked: Sums = sum((weight * sums.totals for sums, weight in self._weights), start=np.zeros(1, np.int64))
        return liked

    def value(self, domain: int) -> int:
        return sum(weight * sums.totals.item(domain) for sums, weight in self._weights)


def _applies(board: Avoid | Like) -> bool:
    """Whether any pod is there that it is about."""
    return any(sums.source.by_row for sums in board.sums)


def terms_of(pod: Pod) -> Terms:
    """What a pod asks of others. Raises SelectorError."""
    affinity = fold_label_keys(pod.spec, pod.metadata.labels or {}).affinity
    if affinity is None:
        return Terms()
    namespace = pod.metadata.namespace or ""

    def read(term: PodAffinityTerm) -> Term:
        return (selector_group_of_term(term, namespace),), term.topology_key

    near, far = affinity.pod_affinity, affinity.pod_anti_affinity
    required = [read(term) for term in (near.required if near else None) or ()]
    everyone = tuple(dict.fromkeys(audiences[0] for audiences, _ in required))
    liked = [(read(one.pod_affinity_term), one.weight) for one in (near.preferred if near else None) or ()]
    disliked = [(read(one.pod_affinity_term), -one.weight) for one in (far.preferred if far else None) or ()]
    return Terms(
        affinity=tuple((everyone, key) for _, key in required),
        anti_affinity=tuple(read(term) for term in (far.required if far else None) or ()),
        preferred=(*liked, *disliked),
    )


def _by_domains(sums: Sequence[DomainSums]) -> list[list[DomainSums]]:
    """By topology key, each once."""
    found: dict[Domains, dict[DomainSums, None]] = {}
    for one in sums:
        found.setdefault(one.domains, {})[one] = None
    return [list(alike) for alike in found.values()]
