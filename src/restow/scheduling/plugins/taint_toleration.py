"""TaintToleration: hard taints keep pods away that do not tolerate them, soft ones make a node less welcome.

Both are decided once per distinct set of taints, of which a cluster has few, and remembered per shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from restow.model.cluster import Mask, Shape, Which
from restow.model.cluster.node_table import TaintSet
from restow.model.objects import Toleration
from restow.model.taints import PREFER_NO_SCHEDULE, untolerated
from restow.scheduling.framework import SKIP, SUCCESS, Cycle, FilterPlugin, Reach, Refusal, ScorePlugin, Scores, Verdict
from restow.scheduling.plugins.normalization import in_inverse_proportion
from restow.scheduling.plugins.refusals import refused


class _Verdicts(msgspec.Struct, frozen=True):
    """What pods of one shape make of each set of taints."""

    accepted: Mask
    disliked: Scores
    """How many soft taints are not tolerated."""
    all_accepted: bool
    any_disliked: bool


class TaintToleration(FilterPlugin, ScorePlugin):
    name: ClassVar[str] = "TaintToleration"
    reach: ClassVar[Reach] = Reach.NODE

    def __init__(self, arguments: dict[str, object] | None = None) -> None:
        super().__init__(arguments)
        self._verdicts: WeakKeyDictionary[Shape, _Verdicts] = WeakKeyDictionary()

    def pre_filter(self, cycle: Cycle) -> Verdict:
        return SKIP if self._of(cycle).all_accepted else SUCCESS

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        mask: Mask = self._of(cycle).accepted[cycle.snapshot.nodes.taints[rows]]
        return mask

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        return refused("node(s) had untolerated taint(s)", ~self.filter(cycle, rows))

    def pre_score(self, cycle: Cycle) -> Verdict:
        return SUCCESS if self._of(cycle).any_disliked else SKIP

    def score(self, cycle: Cycle, rows: Which) -> Scores:
        """How many soft taints are not tolerated: the more, the worse."""
        scores: Scores = self._of(cycle).disliked[cycle.snapshot.nodes.taints[rows]]
        return scores

    def normalize_score(self, cycle: Cycle, raw: Scores) -> Scores:
        return in_inverse_proportion(raw)

    def _of(self, cycle: Cycle) -> _Verdicts:
        shape, sets = cycle.pod_class.shape, cycle.snapshot.nodes.taint_sets
        known = self._verdicts.get(shape)
        if known is None or len(known.accepted) != len(sets):  # sets are only ever added
            known = self._verdicts[shape] = _verdicts(sets, shape.fields.tolerations)
        return known


def _verdicts(sets: Sequence[TaintSet], tolerations: Sequence[Toleration]) -> _Verdicts:
    accepted = np.array([not untolerated(taints, tolerations) for taints in sets], np.bool_)
    soft = [len(untolerated(taints, tolerations, [PREFER_NO_SCHEDULE])) for taints in sets]
    disliked = np.array(soft, np.int64)
    return _Verdicts(accepted, disliked, bool(accepted.all()), bool(disliked.any()))
