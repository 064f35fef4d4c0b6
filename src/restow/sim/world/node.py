"""Node lifecycle: heartbeats, unreachable nodes, taints by condition, and the readiness of the pods on lost nodes.

Silence is an annotation on the node. Heartbeats renew Leases, which other programs may read; nothing here does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from restow.client.cache import Change
from restow.model.kinds import LEASE, NODE, POD, Kind
from restow.model.object_key import Key, key_of
from restow.model.objects import Document, Node, Pod, Taint
from restow.model.pods import find_condition, is_finished, is_ready
from restow.model.taints import (
    DISK_PRESSURE,
    MEMORY_PRESSURE,
    NETWORK_UNAVAILABLE,
    NOT_READY,
    PID_PRESSURE,
    UNREACHABLE,
    UNSCHEDULABLE,
)
from restow.model.times import format_micro_time, format_time, parse_time
from restow.ports import STRATEGIC_PATCH
from restow.sim.world.instructions import instruction_value
from restow.sim.world.kubelet import is_node_ready, is_silent, ready_conditions
from restow.sim.world.rule import Rule
from restow.sim.world.settings import SILENT_SINCE, Settings
from restow.sim.world.step import NOTHING, Create, Patch, Step, Write
from restow.sim.world.view import View

LEASES = "kube-node-lease"
# Which condition, in which state, becomes which taint (beside Ready, which has two).
_CONDITIONS = {
    "MemoryPressure": ("True", MEMORY_PRESSURE),
    "DiskPressure": ("True", DISK_PRESSURE),
    "PIDPressure": ("True", PID_PRESSURE),
    "NetworkUnavailable": ("True", NETWORK_UNAVAILABLE),
}
_MANAGED = {NOT_READY, UNREACHABLE, UNSCHEDULABLE.key, *(key for _, key in _CONDITIONS.values())}


class Heartbeats(Rule):
    """Kubelets that renew their node's Lease; not part of the world unless asked for."""

    kind = NODE
    also = (LEASE,)

    def __init__(self, every: float) -> None:
        self._every = every

    def keys(self, kind: Kind[Any], change: Change[Any], view: View) -> Iterable[Key]:
        return ()

    def decide(self, key: Key, view: View) -> Step:
        node = view.node(key[1])
        if node is None or is_silent(node):
            return NOTHING
        name = node.metadata.name
        lease = view.get(LEASE, (LEASES, name))
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": format_micro_time(view.now)}
        if lease is None:
            owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid}
            metadata = {"name": name, "namespace": LEASES, "ownerReferences": [owner]}
            return Step((Create(LEASE, {"metadata": metadata, "spec": spec}),), self._every)
        due = parse_time(lease.spec.renew_time or "1970-01-01T00:00:00Z") + self._every - view.now
        if due > 0:
            return Step(again=due)
        return Step((Patch(kind=LEASE, namespace=LEASES, name=name, changes={"spec": spec}),), self._every)


class Nodes(Rule):
    """What the node lifecycle controller does, and the kubelet's own report that it is there."""

    kind = NODE
    also = (POD,)

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def keys(self, kind: Kind[Any], change: Change[Any], view: View) -> Iterable[Key]:
        """A pod that turns ready on a lost node concerns that node."""
        pod: Pod = change.object
        node = view.node(pod.spec.node_name)
        return (
            (key_of(node),) if node and change.type != "DELETED" and not is_node_ready(node) and is_ready(pod) else ()
        )

    def decide(self, key: Key, view: View) -> Step:
        node = view.node(key[1])
        if node is None or view.is_leaving(node):
            return NOTHING
        report, wait = self._report(node, view)
        if report:
            return Step((report,))
        taints = _update_taints(node, view.now)
        return Step((*taints, *_mark_pods_unready(node, view)), wait)

    def _report(self, node: Node, view: View) -> tuple[Write | None, float | None]:
        """The node's Ready condition, if it should say something else."""
        ready = find_condition(node.status.conditions, "Ready")
        silent_since = instruction_value(node, SILENT_SINCE)
        if silent_since is not None:
            wait = silent_since + self._settings.node_notice - view.now
            if wait > 0:
                return None, wait
            if ready is None or ready.status != "Unknown":
                return _ready(
                    node, "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.", view.now
                ), None
        elif ready is None or (ready.status == "Unknown" and ready.reason == "NodeStatusUnknown"):
            return _ready(node, "True", "KubeletReady", "kubelet is posting ready status", view.now), None
        return None, None


def _ready(node: Node, status: str, reason: str, message: str, now: float) -> Patch:
    entry = {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": format_time(now),
        "lastTransitionTime": format_time(now),
    }
    changes: Document = {"conditions": [entry]}
    if node.status.allocatable is None and node.status.capacity is not None:
        changes["allocatable"] = node.status.capacity
    return Patch(
        kind=NODE,
        namespace=None,
        name=node.metadata.name,
        changes={"status": changes},
        subresource="status",
        type=STRATEGIC_PATCH,
    )


def _update_taints(node: Node, now: float) -> list[Write]:
    """Set the taints that the node lifecycle controller manages, as the conditions require; all other taints stay."""
    wanted = _wanted_taints(node)
    present = list(node.spec.taints or ())
    has = {(taint.key, taint.effect) for taint in present if taint.key in _MANAGED}
    if has == set(wanted):
        return []
    kept = [taint for taint in present if taint.key not in _MANAGED or (taint.key, taint.effect) in wanted]
    taints = [_document(taint) for taint in kept]
    for key, effect in wanted:
        if (key, effect) not in has:
            since = {"timeAdded": format_time(now)} if effect == "NoExecute" else {}
            taints.append({"key": key, "effect": effect, **since})
    meta = node.metadata
    return [
        Patch(
            kind=NODE,
            namespace=None,
            name=meta.name,
            changes={"spec": {"taints": taints or None}},
            version=meta.resource_version,
        )
    ]


def _wanted_taints(node: Node) -> list[tuple[str, str]]:
    wanted: list[tuple[str, str]] = []
    ready = find_condition(node.status.conditions, "Ready")
    if ready is None or ready.status != "True":
        key = UNREACHABLE if ready is not None and ready.status == "Unknown" else NOT_READY
        wanted += [(key, "NoSchedule"), (key, "NoExecute")] if ready is not None else [(key, "NoSchedule")]
    for kind, (status, key) in _CONDITIONS.items():
        condition = find_condition(node.status.conditions, kind)
        if condition is not None and condition.status == status:
            wanted.append((key, "NoSchedule"))
    if node.spec.unschedulable:
        wanted.append((UNSCHEDULABLE.key, UNSCHEDULABLE.effect))
    return wanted


def _document(taint: Taint) -> Document:
    members = {"key": taint.key, "value": taint.value, "effect": taint.effect, "timeAdded": taint.time_added}
    return {name: value for name, value in members.items() if value is not None}


def _mark_pods_unready(node: Node, view: View) -> list[Write]:
    """Writes that make the pods of a node unready that is not ready itself."""
    if is_node_ready(node) or find_condition(node.status.conditions, "Ready") is None:
        return []
    return [
        Patch(
            kind=POD,
            namespace=pod.metadata.namespace,
            name=pod.metadata.name,
            changes={
                "metadata": {"uid": pod.metadata.uid},
                "status": {
                    "conditions": [
                        each
                        for each in ready_conditions(pod, False, view.now, "NodeNotReady")
                        if each["type"] == "Ready"
                    ]
                },
            },
            subresource="status",
            type=STRATEGIC_PATCH,
        )
        for pod in view.pods_on(node.metadata.name)
        if is_ready(pod) and not is_finished(pod)
    ]
