"""TaintToleration: pods keep off nodes with taints that they do not tolerate; PreferNoSchedule taints lower the score.

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
from restow.model.taints import PREFER_NO_SCHEDULE, untolerated_taint
from restow.scheduling.framework import SKIP, SUCCESS, Cycle, FilterPlugin, Reach, Refusal, ScorePlugin, Scores, Verdict
from restow.scheduling.plugins.normalization import in_inverse_proportion
from restow.scheduling.plugins.refusals import refusals_of


class _TaintVerdicts(msgspec.Struct, frozen=True):
    """Whether pods of one shape tolerate each set of taints."""

    accepted: Mask
    untolerated_soft: Scores
    """How many soft taints are not tolerated."""
    all_accepted: bool
    any_untolerated_soft: bool


class TaintToleration(FilterPlugin, ScorePlugin):
    name: ClassVar[str] = "TaintToleration"
    reach: ClassVar[Reach] = Reach.NODE

    def __init__(self, arguments: dict[str, object] | None = None) -> None:
        super().__init__(arguments)
        self._verdicts: WeakKeyDictionary[Shape, _TaintVerdicts] = WeakKeyDictionary()

    def pre_filter(self, cycle: Cycle) -> Verdict:
        return SKIP if self._of(cycle).all_accepted else SUCCESS

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        mask: Mask = self._of(cycle).accepted[cycle.snapshot.nodes.taints[rows]]
        return mask

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        return refusals_of("node(s) had untolerated taint(s)", ~self.filter(cycle, rows))

    def pre_score(self, cycle: Cycle) -> Verdict:
        return SUCCESS if self._of(cycle).any_untolerated_soft else SKIP

    def score(self, cycle: Cycle, rows: Which) -> Scores:
        """How many soft taints are not tolerated: the more, the worse."""
        scores: Scores = self._of(cycle).untolerated_soft[cycle.snapshot.nodes.taints[rows]]
        return scores

    def normalize_score(self, cycle: Cycle, raw: Scores) -> Scores:
        return in_inverse_proportion(raw)

    def _of(self, cycle: Cycle) -> _TaintVerdicts:
        shape, sets = cycle.pod_class.shape, cycle.snapshot.nodes.taint_sets
        known = self._verdicts.get(shape)
        if known is None or len(known.accepted) != len(sets):  # sets are only ever added
            known = self._verdicts[shape] = _verdicts(sets, shape.fields.tolerations)
        return known


def _verdicts(sets: Sequence[TaintSet], tolerations: Sequence[Toleration]) -> _TaintVerdicts:
    accepted = np.array([not untolerated_taint(taints, tolerations) for taints in sets], np.bool_)
    soft = [len(untolerated_taint(taints, tolerations, [PREFER_NO_SCHEDULE])) for taints in sets]
    untolerated_soft = np.array(soft, np.int64)
    return _TaintVerdicts(accepted, untolerated_soft, bool(accepted.all()), bool(untolerated_soft.any()))
