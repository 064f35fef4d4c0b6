"""NodeAffinity: the nodes that a pod requires by labels and name, and the nodes that it prefers.

The argument `addedAffinity`, a node affinity, is required and preferred for every pod besides its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from restow.model import objects
from restow.model.affinity import NodeConstraint, NodePreference, node_constraint, node_preference
from restow.model.cluster import Mask, Shape, Which, node_filters
from restow.model.objects import Affinity, PodSpec
from restow.model.reservations.reserved_pod import is_reserved_pod
from restow.model.selectors import SelectorError
from restow.scheduling.accelerated import NodeNameFilter
from restow.scheduling.framework import (
    SKIP,
    SUCCESS,
    ArgumentError,
    Cycle,
    FilterPlugin,
    Reach,
    Refusal,
    ScorePlugin,
    Scores,
    Verdict,
    error,
    unresolvable,
)
from restow.scheduling.plugins.few_rows import few_rows
from restow.scheduling.plugins.normalization import in_proportion
from restow.scheduling.plugins.plugin_arguments import read_arguments
from restow.scheduling.plugins.refusals import refusals_of

REFUSED = "node(s) didn't match Pod's node affinity/selector"
ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
NOT_NAMED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
CONFLICT = "pod affinity terms conflict"
EXCLUDED = "node(s) excluded by name"
OTHERS = "node(s) other than the one asked for by name"


class NodeAffinityArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    added_affinity: objects.NodeAffinity | None = None


class NodeAffinity(FilterPlugin, ScorePlugin, NodeNameFilter):
    name: ClassVar[str] = "NodeAffinity"
    reach: ClassVar[Reach] = Reach.NODE

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        added = PodSpec(affinity=Affinity(node_affinity=read_arguments(NodeAffinityArgs, arguments).added_affinity))
        self._added = node_constraint(added)
        self._preferences: WeakKeyDictionary[Shape, NodePreference | Verdict] = WeakKeyDictionary()
        problems = list(self._added.problems)
        try:
            self._also_preferred = node_preference(added).terms
        except SelectorError as mistake:
            problems.append(str(mistake))
        if problems:
            raise ArgumentError([f"addedAffinity: {problem}" for problem in problems])

    def pre_filter(self, cycle: Cycle) -> Verdict:
        required = cycle.pod_class.shape.constraint
        if required.terms and required.pinned() == frozenset():
            return unresolvable(CONFLICT)
        return SUCCESS if _is_constraint(required) or _is_constraint(self._added) else SKIP

    def excluded_by_name(self, cycle: Cycle, rows: Which) -> Mask | None:
        required = cycle.pod_class.shape.constraint
        return ~_named(cycle, required, rows) if required.pinned() else None

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        required = _accepted(cycle, cycle.pod_class.shape.constraint, rows)
        return required & _accepted(cycle, self._added, rows) if _is_constraint(self._added) else required

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        required = cycle.pod_class.shape.constraint
        named = _named(cycle, required, rows)
        enforced = _accepted(cycle, self._added, rows)
        unwanted = named & enforced & ~_accepted(cycle, required, rows)
        if not is_reserved_pod(cycle.pod):  # for pods the reasons are kube-scheduler's
            return [
                *refusals_of(NOT_NAMED, ~named),
                *refusals_of(ENFORCED, named & ~enforced),
                *refusals_of(REFUSED, unwanted),
            ]
        excluded = unwanted & cycle.snapshot.rows.among(required.excluded(), rows)
        return [
            *refusals_of(OTHERS, ~named),
            *refusals_of(EXCLUDED, excluded),
            *refusals_of(ENFORCED, named & ~enforced),
            *refusals_of(REFUSED, unwanted & ~excluded),
        ]

    def pre_score(self, cycle: Cycle) -> Verdict:
        preferred = self._preferred(cycle.pod_class.shape)
        if isinstance(preferred, Verdict):
            return preferred
        return SUCCESS if preferred.terms else SKIP

    def score(self, cycle: Cycle, rows: Which) -> Scores:
        """The weights of the preferences that a node meets, added up."""
        preferred = self._preferred(cycle.pod_class.shape)
        assert isinstance(preferred, NodePreference), "pre_score returned an error"
        few = few_rows(rows)
        if few is not None:
            return np.array([preferred.score(*_identity(cycle, row)) for row in few], np.int64)
        return node_filters.preference_scores(cycle.snapshot.nodes, preferred, rows)

    def normalize_score(self, cycle: Cycle, raw: Scores) -> Scores:
        return in_proportion(raw)

    def _preferred(self, shape: Shape) -> NodePreference | Verdict:
        known = self._preferences.get(shape)
        if known is None:
            try:
                known = NodePreference((*node_preference(shape.spec).terms, *self._also_preferred))
            except SelectorError as mistake:
                known = error(str(mistake))
            self._preferences[shape] = known
        return known


def _is_constraint(constraint: NodeConstraint) -> bool:
    return bool(constraint.equal) or constraint.terms is not None


def _accepted(cycle: Cycle, constraint: NodeConstraint, rows: Which) -> Mask:
    few = few_rows(rows)
    if few is None:
        return node_filters.selected_rows(cycle.snapshot.nodes, constraint, rows)
    return np.array([constraint.matches(*_identity(cycle, row)) for row in few], np.bool_)


def _named(cycle: Cycle, constraint: NodeConstraint, rows: Which) -> Mask:
    """The rows that the pod allows by node name: all, unless every alternative names a node."""
    names = constraint.pinned()
    return cycle.snapshot.rows.among(names, rows) if names else np.ones_like(cycle.snapshot.nodes.present[rows])


def _identity(cycle: Cycle, row: int) -> tuple[str, dict[str, str] | None]:
    node = cycle.snapshot.nodes.get(row)
    return (node.metadata.name, node.metadata.labels) if node else ("", None)
