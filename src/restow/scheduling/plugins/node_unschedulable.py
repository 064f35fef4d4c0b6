"""NodeUnschedulable: cordoned nodes take only pods that tolerate it."""

from __future__ import annotations

from typing import ClassVar

from restow.model.cluster import Mask, Which, node_filters
from restow.scheduling.framework import SKIP, SUCCESS, Cycle, FilterPlugin, Reach, Refusal, Verdict
from restow.scheduling.plugins.refusals import refusals_of


class NodeUnschedulable(FilterPlugin):
    name: ClassVar[str] = "NodeUnschedulable"
    reach: ClassVar[Reach] = Reach.NODE

    def pre_filter(self, cycle: Cycle) -> Verdict:
        return SUCCESS if cycle.snapshot.nodes.unschedulable.any() else SKIP

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        return node_filters.schedulable_rows(cycle.snapshot.nodes, cycle.pod_class.shape.fields.tolerations, rows)

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        return refusals_of("node(s) were unschedulable", ~self.filter(cycle, rows))
