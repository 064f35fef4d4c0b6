"""Eligible nodes: the nodes that a pod could run on, regardless of their free room."""

from __future__ import annotations

import msgspec

from restow.model.affinity import NodeConstraint, node_constraint
from restow.model.objects import Pod
from restow.model.snapshot import Snapshot
from restow.model.taints import untolerated_taint


class EligibleNodes:
    """Computed once for all pods with the same requirements and tolerations."""

    def __init__(self, snapshot: Snapshot) -> None:
        nodes = ((name, snapshot.node(name)) for name in snapshot.rows.names())
        self._uncordoned = [(name, node) for name, node in nodes if node is not None and not node.spec.unschedulable]
        self._known: dict[tuple[NodeConstraint, bytes], tuple[str, ...]] = {}

    def names_for(self, pod: Pod) -> tuple[str, ...]:
        """The names of nodes that are not cordoned, have the labels that a pod requires, and have no taint that it does
        not tolerate; sorted."""
        constraint = node_constraint(pod.spec)
        key = constraint, msgspec.json.encode(pod.spec.tolerations)
        if key not in self._known:
            self._known[key] = tuple(
                name
                for name, node in self._uncordoned
                if constraint.matches(name, node.metadata.labels)
                and not untolerated_taint(node.spec.taints, pod.spec.tolerations)
            )
        return self._known[key]
