"""The admission of a pod by its kubelet: enough free resources, matching node affinity, tolerated taints.

Real kubelets refuse here too, so a scheduler that over-commits a node shows: the pod ends Failed, `OutOfcpu`.
"""

from __future__ import annotations

from restow.model.affinity import node_constraint
from restow.model.cluster.seen_versions import version_number
from restow.model.objects import Node, Pod
from restow.model.pods import find_condition, is_finished
from restow.model.resources import PODS, parse_amounts, resource_shortages
from restow.model.taints import NO_EXECUTE, untolerated_taint
from restow.sim.world.view import View


def admission_failure(pod: Pod, node: Node, view: View) -> tuple[str, str] | None:
    """(reason, message) why this node will not run the pod; None if it will."""
    if not node_constraint(pod.spec).matches(node.metadata.name, node.metadata.labels):
        return "NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    if untolerated_taint(node.spec.taints, pod.spec.tolerations, (NO_EXECUTE,)):
        return "TaintToleration", "Predicate TaintToleration failed: node(s) had taints that the pod doesn't tolerate"
    ahead = [other for other in view.pods_on(node.metadata.name) if _is_ahead(other, pod)]
    short = resource_shortages({**view.requests(pod), PODS: 1}, _room(node, ahead, view))
    if short:
        first = short[0]
        message = f"Node didn't have enough resource: {first.resource}, {first}"
        return f"OutOf{first.resource}", f"Pod was rejected: {message}"
    return None


def _is_ahead(other: Pod, pod: Pod) -> bool:
    """Whether the kubelet took the other pod in first: it runs, or was given to the node earlier."""
    if other.metadata.uid == pod.metadata.uid:
        return False
    return other.status.phase == "Running" or _arrival(other) < _arrival(pod)


def _arrival(pod: Pod) -> tuple[str, int]:
    """When a pod came to its node, and in which order of those that came within the same second."""
    bound = find_condition(pod.status.conditions, "PodScheduled")
    since = bound.last_transition_time if bound is not None and bound.status == "True" else None
    return since or pod.metadata.creation_timestamp or "", version_number(pod.metadata.resource_version or "") or 0


def _room(node: Node, pods: list[Pod], view: View) -> dict[str, int]:
    room = parse_amounts(node.status.allocatable)
    for pod in pods:
        if is_finished(pod):
            continue
        for name, amount in view.requests(pod).items():
            room[name] = room.get(name, 0) - amount
        room[PODS] = room.get(PODS, 0) - 1
    return room
