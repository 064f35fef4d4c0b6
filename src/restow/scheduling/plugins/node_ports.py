"""NodePorts: a host port is used by one pod per node, address and protocol."""

from __future__ import annotations

from typing import ClassVar

from restow.model.cluster import Mask, Which
from restow.scheduling.framework import SKIP, SUCCESS, Cycle, FilterPlugin, Refusal, Verdict
from restow.scheduling.plugins.refusals import refusals_of


class NodePorts(FilterPlugin):
    name: ClassVar[str] = "NodePorts"

    def pre_filter(self, cycle: Cycle) -> Verdict:
        return SUCCESS if cycle.pod_class.shape.fields.ports else SKIP

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        return cycle.snapshot.ports.rows_with_free_ports(cycle.pod_class.shape.fields.ports, rows)

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        reason = "node(s) didn't have free ports for the requested pod ports"
        return refusals_of(reason, ~self.filter(cycle, rows), resolvable=True)
