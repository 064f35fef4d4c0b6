"""NodeDeclaredFeatures: a pod that needs a feature of the kubelet goes only to nodes that declare it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from restow.model.cluster import Mask, Which
from restow.model.cluster.node_table import NodeTable
from restow.scheduling.cluster_events import ActionType, ClusterEventWithHint, EventResource
from restow.scheduling.framework import SKIP, SUCCESS, Cycle, FilterPlugin, Reach, Refusal, Verdict
from restow.scheduling.plugins.refusals import refusals_of


class NodeDeclaredFeatures(FilterPlugin):
    name: ClassVar[str] = "NodeDeclaredFeatures"
    reach: ClassVar[Reach] = Reach.NODE

    def pre_filter(self, cycle: Cycle) -> Verdict:
        return SUCCESS if cycle.pod_class.shape.fields.features else SKIP

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        nodes, needed = cycle.snapshot.nodes, frozenset(cycle.pod_class.shape.fields.features)
        return np.array([needed <= _declared(nodes, row) for row in nodes.rows.numbers(rows)], np.bool_)

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        return refusals_of("node(s) didn't match Pod's required features", ~self.filter(cycle, rows))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [ClusterEventWithHint(EventResource.NODE, ActionType.ADDED | ActionType.UPDATED)]


def _declared(nodes: NodeTable, row: int) -> frozenset[str]:
    node = nodes.get(row)
    return frozenset((node.status.declared_features if node else None) or ())
