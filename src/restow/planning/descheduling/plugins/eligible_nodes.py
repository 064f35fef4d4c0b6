"""Eligible nodes: those that a pod could be on, whatever room they have."""

from __future__ import annotations

import msgspec

from restow.model.affinity import NodeConstraint, node_constraint
from restow.model.objects import Pod
from restow.model.snapshot import Snapshot
from restow.model.taints import untolerated_taint


class EligibleNodes:
    """Nodes are asked once for pods that demand and tolerate the same."""

    def __init__(self, snapshot: Snapshot) -> None:
        found = ((name, snapshot.node(name)) for name in snapshot.rows.names())
        self._open = [(name, node) for name, node in found if node is not None and not node.spec.unschedulable]
        self._known: dict[tuple[NodeConstraint, bytes], tuple[str, ...]] = {}

    def names_for(self, pod: Pod) -> tuple[str, ...]:
        """Not cordoned, with the labels it requires and without taints it does not tolerate; by name."""
        constraint = node_constraint(pod.spec)
        key = constraint, msgspec.json.encode(pod.spec.tolerations)
        if key not in self._known:
            self._known[key] = tuple(
                name
                for name, node in self._open
                if constraint.matches(name, node.metadata.labels)
                and not untolerated_taint(node.spec.taints, pod.spec.tolerations)
            )
        return self._known[key]
