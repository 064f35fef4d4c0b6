"""PodTopologySpread: pods of one kind spread evenly over domains.

For each constraint the pods of the pod's own namespace that its selector matches are counted per domain; pods that are
leaving are not counted, seats of reservations are. Only nodes that have the topology keys of all constraints count, and
by the constraint's policies only nodes that match the pod's node affinity (by default) and with taints that the pod
tolerates (not by default).

DoNotSchedule refuses a node that lacks a key, and one where

    pods in its domain + 1 if the pod counts itself - pods in the emptiest domain  >  maxSkew

with 0 for the emptiest domain while there are less than `minDomains`. ScheduleAnyway scores, the lower the better,

    sum over constraints of  pods in the node's domain * ln(domains among the feasible nodes + 2) + maxSkew - 1

where the pods of a host name are those of the node itself. Feasible nodes that lack a key score worst.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from restow.model.affinity import NodeConstraint
from restow.model.cluster import Mask, RowIndex, Which, node_filters
from restow.model.cluster.domain_results import DomainResults
from restow.model.cluster.node_table import NodeTable
from restow.model.cluster.pod_shapes import Shape
from restow.model.cluster.selector_group import SelectorGroup, selector_group_of_constraint
from restow.model.cluster.topology_domains import NOWHERE, Domains, DomainSums, Sums, domain_sums
from restow.model.match_label_keys import fold_label_keys
from restow.model.objects import Pod, Toleration
from restow.model.selectors import SelectorError, label_selector
from restow.model.snapshot import Snapshot
from restow.scheduling.framework import (
    BEST,
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
from restow.scheduling.plugins.refusals import refusals_of

TOO_SKEWED = "node(s) didn't match pod topology spread constraints"
NO_KEY = f"{TOO_SKEWED} (missing required label)"
HOST_NAME: Final = "kubernetes.io/hostname"
_UNRATED = -1


class SpreadConstraint(msgspec.Struct, frozen=True):
    """One constraint of a pod, with its meaning for that pod."""

    key: str
    max_skew: int
    min_domains: int
    selector_group: SelectorGroup
    counts_itself: bool
    node_affinity: bool
    """Whether only nodes that match the pod's node selector and affinity count."""
    taints: bool
    """Whether only nodes with taints that the pod tolerates count."""


class PodTopologySpread(DomainFilterPlugin["SpreadState"], ScorePlugin):
    name: ClassVar[str] = "PodTopologySpread"

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        super().__init__(_make, arguments)

    def pre_filter(self, cycle: Cycle) -> Verdict:
        state = self._state(cycle)
        if state.problem:
            return unresolvable(f"topologySpreadConstraints: {state.problem}")
        return SUCCESS if state.required else SKIP_FOR_CLASS

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        """A node is refused by the first constraint it fails, for the first reason."""
        state = self._state(cycle)
        left = np.ones_like(cycle.snapshot.nodes.present[rows])
        keyless, skewed = ~left, ~left
        for skew in state.filter_results:
            accepted = skew.read(rows)
            has_key = skew.domains.of_row[rows] != NOWHERE
            keyless |= left & ~has_key
            skewed |= left & has_key & ~accepted
            left &= accepted
        return [*refusals_of(NO_KEY, keyless), *refusals_of(TOO_SKEWED, skewed, resolvable=True)]

    def pre_score(self, cycle: Cycle) -> Verdict:
        return SUCCESS if self._state(cycle).preferred else SKIP_FOR_CLASS

    def score(self, cycle: Cycle, rows: Which) -> Scores:
        """Of all feasible rows at once, because the number of domains among them matters."""
        rates = self._state(cycle).spread_scores
        domains = [rate.domains_of(rows) for rate in rates]
        rated = np.logical_and.reduce([each != NOWHERE for each in domains])
        if not rated.all():
            domains = [np.where(rated, each, NOWHERE) for each in domains]
        if len(rates) == 1:
            raw: Scores = _rounded(rates[0].by_domain(domains[0]))[domains[0]]
        else:
            total = np.zeros(len(rated))
            for rate, each in zip(rates, domains, strict=True):
                total += rate.by_domain(each)[each]
            raw = _rounded(total)
        raw[~rated] = _UNRATED
        return raw

    def normalize_score(self, cycle: Cycle, raw: Scores) -> Scores:
        """The least gets BEST, others less in proportion to the largest."""
        rated = raw != _UNRATED
        if not rated.any():
            return np.zeros_like(raw)
        most = int(raw.max())
        least = int(raw.min(where=rated, initial=most))
        best = BEST * (most + least - raw) // most if most else np.full_like(raw, BEST)
        best[~rated] = 0
        return best


def _make(cycle: Cycle) -> SpreadState:
    try:
        hard = constraints_of(cycle.pod, "DoNotSchedule")
        soft = constraints_of(cycle.pod, "ScheduleAnyway")
    except SelectorError as mistake:
        return SpreadState(cycle.snapshot, cycle.pod_class.shape, problem=str(mistake))
    return SpreadState(cycle.snapshot, cycle.pod_class.shape, hard, soft)


class SpreadState:
    """How pods of a class are spread, per constraint."""

    def __init__(
        self,
        snapshot: Snapshot,
        shape: Shape,
        hard: Sequence[SpreadConstraint] = (),
        soft: Sequence[SpreadConstraint] = (),
        problem: str = "",
    ) -> None:
        self.required = hard
        self.preferred = soft
        self.problem = problem
        self.filter_results: list[SkewResult] = []
        self.spread_scores: list[SpreadScore] = []
        self.domains: list[Domains] = []
        self._shape = shape
        self._index = snapshot.affinity
        self._nodes = snapshot.nodes
        self._topologies = snapshot.topologies
        self._version = -1

    def refresh(self, cycle: Cycle) -> None:
        """Look up the counts again, if the index may have dropped them."""
        # A look-up can make the index drop idle groups, which changes its version: repeat until it stays the same.
        while self._version != self._index.version:
            self._version = self._index.version
            self.filter_results = [
                SkewResult(
                    constraint, self._topologies.domains(constraint.key), self._counted(constraint, self.required)
                )
                for constraint in self.required
            ]
            self.spread_scores = [self._rate(constraint) for constraint in self.preferred]
            self.domains = [
                *(skew.domains for skew in self.filter_results),
                *(rate.domains for rate in self.spread_scores),
            ]

    def _counted(self, constraint: SpreadConstraint, together: Sequence[SpreadConstraint]) -> DomainSums:
        pod_count = self._index.pod_count((constraint.selector_group,), without_leaving=True)
        keys = sorted({each.key for each in together})
        suiting = self._shape.constraint if constraint.node_affinity else NodeConstraint()
        tolerations = self._shape.fields.tolerations if constraint.taints else None
        if len(keys) == 1 and suiting == NodeConstraint() and tolerations is None:
            return domain_sums(self._topologies.domains(constraint.key), pod_count)
        counting = CountedNodes(self._nodes, tuple(keys), suiting, tolerations)
        return domain_sums(self._topologies.domains(constraint.key, counting, counting.meaning), pod_count)

    def _rate(self, constraint: SpreadConstraint) -> SpreadScore:
        if constraint.key != HOST_NAME:
            return SpreadScore(
                constraint, self._topologies.domains(constraint.key), self._counted(constraint, self.preferred)
            )
        nodes = self._topologies.each_node(constraint.key)
        return SpreadScore(
            constraint,
            nodes,
            domain_sums(nodes, self._index.pod_count((constraint.selector_group,), without_leaving=True)),
        )


class CountedNodes:
    """Which nodes count: those with all the keys that suit the pod as far as the policies demand."""

    def __init__(
        self,
        nodes: NodeTable,
        keys: tuple[str, ...],
        suiting: NodeConstraint,
        tolerations: tuple[Toleration, ...] | None,
    ) -> None:
        self._nodes = nodes
        self._keys = keys
        self._suiting = suiting
        self._tolerations = tolerations
        self.meaning = (keys, suiting, tolerations)

    def __call__(self, rows: Which) -> Mask:
        mask = node_filters.selected_rows(self._nodes, self._suiting, rows)
        for key in self._keys:
            mask &= self._nodes.labels.known(key).ids[rows] != NOWHERE
        if self._tolerations is not None:
            mask &= node_filters.rows_with_tolerated_taints(self._nodes, self._tolerations, rows)
        return mask


class SkewResult(DomainResults[np.bool_]):
    """Domains in which one more pod keeps the skew."""

    def __init__(self, constraint: SpreadConstraint, domains: Domains, counted: DomainSums) -> None:
        super().__init__(domains, [counted])
        self._constraint = constraint
        self._counted = counted
        self._limit = -1

    def premises_changed(self) -> bool:
        before, self._limit = self._limit, self._most()
        return before != self._limit

    def compute(self) -> Mask:
        totals = self._counted.totals
        even = np.full(max(len(self.domains.sizes), len(totals)), self._limit >= 0)
        even[: len(totals)] = totals <= self._limit
        even[NOWHERE] = False
        return even

    def value(self, domain: int) -> bool:
        return self._counted.totals.item(domain) <= self._limit

    def _most(self) -> int:
        """How many pods a domain may have before the pod comes."""
        constraint = self._constraint
        enough = self._counted.domains.number >= constraint.min_domains
        emptiest = self._counted.lowest() if enough else 0
        return constraint.max_skew + emptiest - constraint.counts_itself


class SpreadScore:
    """How a constraint rates nodes; the lower the better."""

    def __init__(self, constraint: SpreadConstraint, domains: Domains, counted: DomainSums) -> None:
        self._constraint = constraint
        self.domains = domains
        self._counted = counted

    def domains_of(self, rows: Which) -> RowIndex:
        self.domains.refresh()
        return self.domains.of_row[rows]

    def by_domain(self, feasible: RowIndex) -> NDArray[np.float64]:
        """The rate of every domain, when these are the domains of the feasible rows."""
        number = np.count_nonzero(np.bincount(feasible)[1:])
        rates: NDArray[np.float64] = self._pods() * np.float64(math.log(number + 2))
        rates += self._constraint.max_skew - 1
        return rates

    def _pods(self) -> Sums:
        self._counted.refresh()
        totals = self._counted.totals
        beyond = len(self.domains.sizes) - len(totals)  # domains in which no node counts
        return np.pad(totals, (0, beyond)) if beyond > 0 else totals


def _rounded(rates: NDArray[np.float64]) -> Scores:
    """To the nearest integer, halves up; rates are not negative."""
    whole = np.trunc(rates)
    return (whole + (rates - whole >= 0.5)).astype(np.int64)


def constraints_of(pod: Pod, when_unsatisfiable: str) -> list[SpreadConstraint]:
    """The constraints of a pod with this consequence. Raises SelectorError."""
    spec = fold_label_keys(pod.spec, pod.metadata.labels or {})
    return [
        SpreadConstraint(
            key=constraint.topology_key,
            max_skew=constraint.max_skew,
            min_domains=1 if constraint.min_domains is None else constraint.min_domains,
            selector_group=selector_group_of_constraint(constraint, pod.metadata.namespace or ""),
            counts_itself=label_selector(constraint.label_selector).matches(pod.metadata.labels),
            node_affinity=(constraint.node_affinity_policy or "Honor") == "Honor",
            taints=constraint.node_taints_policy == "Honor",
        )
        for constraint in spec.topology_spread_constraints or ()
        if constraint.when_unsatisfiable == when_unsatisfiable
    ]
