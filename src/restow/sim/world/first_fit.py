"""A stand-in scheduler: each pending pod goes to the first node, by name, that can take it.

It knows requests, pod counts, node selectors, required node affinity, taints, cordons, host ports and volumes; a pod
that asks for more (pod affinity, topology spread) is placed without it. A pod that fits nowhere is told why, counted
over all nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from restow.client.cache import Change, Key, key_of
from restow.model.affinity import node_constraint, volume_constraint
from restow.model.kinds import NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, STORAGE_CLASS, Kind
from restow.model.objects import Node, PersistentVolumeClaim, Pod
from restow.model.resources import PODS, shortages
from restow.model.taints import UNSCHEDULABLE, untolerated
from restow.model.times import format_time
from restow.model.volumes import SELECTED_NODE, is_bound
from restow.ports import STRATEGIC_PATCH
from restow.sim.world.admission import room_on
from restow.sim.world.pods import condition, is_finished
from restow.sim.world.rule import Rule, about
from restow.sim.world.step import NOTHING, Bind, Patch, Record, Step, Write
from restow.sim.world.view import View
from restow.sim.world.volumes import waits_for_pod


class FirstFit(Rule):
    kind = POD
    also = (POD, NODE, PERSISTENT_VOLUME_CLAIM, PERSISTENT_VOLUME, STORAGE_CLASS)
    serial = True

    def __init__(self, schedulers: Collection[str] = ("restow",)) -> None:
        self._schedulers = frozenset(schedulers)

    def keys(self, kind: Kind[Any], change: Change[Any], view: View) -> Iterable[Key]:
        """Pods wait for anything that may let them fit: room left by others, another node, a volume."""
        if kind == POD and not _left_room(change):
            return ()
        if kind == NODE and change.old is not None and _same_offer(change.old, change.object):
            return ()
        return [key_of(pod) for pod in view.pods_on("") if self._is_ours(pod, view)]

    def _is_ours(self, pod: Pod, view: View) -> bool:
        return (
            (pod.spec.scheduler_name or "default-scheduler") in self._schedulers
            and not pod.spec.node_name
            and not pod.spec.scheduling_gates
            and not is_finished(pod)
            and not view.is_leaving(pod)
        )

    def decide(self, key: Key, view: View) -> Step:
        pod = view.get(POD, key)
        if pod is None or not self._is_ours(pod, view):
            return NOTHING
        nodes = sorted(view.all(NODE), key=key_of)
        problem = _claim_problem(pod, view)
        if problem:
            return _refuse(pod, f"0/{len(nodes)} nodes are available: {problem}.", view)
        reasons: Counter[str] = Counter()
        for node in nodes:
            refusals = why_not(pod, node, view)
            if not refusals:
                return Step((*_select(pod, node, view), *_bind(pod, node)))
            reasons.update(refusals)
        return _refuse(pod, explain(reasons, len(nodes)), view)


def why_not(pod: Pod, node: Node, view: View) -> list[str]:
    """The reasons why a pod cannot go to a node, in kube-scheduler's words; the first failing check speaks."""
    tolerations = pod.spec.tolerations
    if node.spec.unschedulable and untolerated([UNSCHEDULABLE], tolerations):
        return ["node(s) were unschedulable"]
    taints = untolerated(node.spec.taints, tolerations)
    if taints:
        return [f"node(s) had untolerated taint {{{taints[0].key}: {taints[0].value or ''}}}"]
    if not node_constraint(pod.spec).matches(node.metadata.name, node.metadata.labels):
        return ["node(s) didn't match Pod's node affinity/selector"]
    if any(_ports_clash(pod, other) for other in view.pods_on(node.metadata.name)):
        return ["node(s) didn't have free ports for the requested pod ports"]
    short = shortages({**view.requests(pod), PODS: 1}, room_on(node, view))
    if short:
        return ["Too many pods" if each.resource == PODS else f"Insufficient {each.resource}" for each in short]
    if not _volumes_reach(pod, node, view):
        return ["node(s) didn't match PersistentVolume's node affinity"]
    return []


def explain(reasons: Counter[str], nodes: int) -> str:
    """One sentence, counted and sorted."""
    if not nodes:
        return "no nodes available to schedule pods"
    counted = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return f"0/{nodes} nodes are available: {counted}."


# ---- volumes


def _claims(pod: Pod, view: View) -> list[tuple[str, PersistentVolumeClaim | None]]:
    sources = [volume.persistent_volume_claim for volume in pod.spec.volumes or ()]
    names = [source.claim_name for source in sources if source]
    return [(name, view.get(PERSISTENT_VOLUME_CLAIM, (pod.metadata.namespace or "", name))) for name in names]


def _claim_problem(pod: Pod, view: View) -> str:
    """Why the pod's claims keep it from every node, if they do."""
    for name, claim in _claims(pod, view):
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if view.is_leaving(claim):
            return f'persistentvolumeclaim "{name}" is being deleted'
        if not is_bound(claim) and not waits_for_pod(claim, view):
            return "pod has unbound immediate PersistentVolumeClaims"
    return ""


def _volumes_reach(pod: Pod, node: Node, view: View) -> bool:
    for _, claim in _claims(pod, view):
        if claim is None or not is_bound(claim):
            chosen = (claim.metadata.annotations or {}).get(SELECTED_NODE) if claim else None
            if chosen not in (None, node.metadata.name):
                return False
            continue
        volume = view.get(PERSISTENT_VOLUME, ("", claim.spec.volume_name or ""))
        required = volume.spec.node_affinity.required if volume and volume.spec.node_affinity else None
        if volume is None or not volume_constraint(required).matches(node.metadata.name, node.metadata.labels):
            return False
    return True


def _select(pod: Pod, node: Node, view: View) -> list[Write]:
    """Tell the provisioner where claims that waited for this pod should be."""
    return [
        Patch(
            kind=PERSISTENT_VOLUME_CLAIM,
            namespace=claim.metadata.namespace,
            name=name,
            changes={"metadata": {"annotations": {SELECTED_NODE: node.metadata.name}}},
            version=claim.metadata.resource_version,
        )
        for name, claim in _claims(pod, view)
        if claim is not None and not is_bound(claim) and SELECTED_NODE not in (claim.metadata.annotations or {})
    ]


# ---- writing


def _bind(pod: Pod, node: Node) -> tuple[Write, ...]:
    meta = pod.metadata
    namespace = meta.namespace or ""
    message = f"Successfully assigned {namespace}/{meta.name} to {node.metadata.name}"
    return (
        Bind(namespace=namespace, name=meta.name, uid=meta.uid, node=node.metadata.name),
        Record(about(POD, pod), "Scheduled", message),
    )


def _refuse(pod: Pod, message: str, view: View) -> Step:
    before = condition(pod.status.conditions, "PodScheduled")
    if before is not None and (before.status, before.message) == ("False", message):
        return NOTHING
    meta = pod.metadata
    entry = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": (before.last_transition_time if before else None) or format_time(view.now),
    }
    patch = Patch(
        kind=POD,
        namespace=meta.namespace,
        name=meta.name,
        changes={"metadata": {"uid": meta.uid}, "status": {"conditions": [entry]}},
        subresource="status",
        type=STRATEGIC_PATCH,
    )
    return Step((patch, Record(about(POD, pod), "FailedScheduling", message, "Warning")))


def _ports_clash(pod: Pod, other: Pod) -> bool:
    """Whether two pods want one host port; no address of its own means all of them."""
    if is_finished(other):
        return False
    return any(
        one[1:] == two[1:] and (one[0] == two[0] or "0.0.0.0" in (one[0], two[0]))
        for one in _ports(pod)
        for two in _ports(other)
    )


def _ports(pod: Pod) -> list[tuple[str, str, int]]:
    return [
        (port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)
        for container in pod.spec.containers or ()
        for port in container.ports or ()
        if port.host_port
    ]


def _left_room(change: Change[Any]) -> bool:
    if not change.object.spec.node_name:
        return False
    return change.type == "DELETED" or (is_finished(change.object) and not (change.old and is_finished(change.old)))


def _same_offer(old: Node, new: Node) -> bool:
    """Whether a change of a node makes no difference to what fits on it."""
    return (old.spec, old.metadata.labels, old.status.allocatable) == (
        new.spec,
        new.metadata.labels,
        new.status.allocatable,
    )
