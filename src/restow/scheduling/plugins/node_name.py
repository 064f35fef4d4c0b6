"""NodeName: a pod that names its node goes there or nowhere."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from restow.model.cluster import Mask, Which
from restow.scheduling.accelerated import ClassFilter
from restow.scheduling.framework import SKIP, SUCCESS, Cycle, FilterPlugin, Reach, Refusal, Verdict
from restow.scheduling.plugins.refusals import refusals_of


class NodeName(FilterPlugin, ClassFilter):
    name: ClassVar[str] = "NodeName"
    reach: ClassVar[Reach] = Reach.CLUSTER
    """Pods of one class may name different nodes, so nothing can be remembered for the class."""

    def pre_filter(self, cycle: Cycle) -> Verdict:
        return SUCCESS if cycle.pod.spec.node_name else SKIP

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        wanted = cycle.pod.spec.node_name
        return cycle.snapshot.rows.among([wanted], rows) if wanted else np.ones_like(cycle.snapshot.nodes.present[rows])

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        return refusals_of("node(s) didn't match the requested node name", ~self.filter(cycle, rows))
