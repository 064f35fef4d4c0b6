"""Our answers to the questions kube-scheduler's volume plugins were asked, and where they differ from its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from restow.model.objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Document,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    VolumeAttachment,
)
from restow.model.snapshot import Snapshot
from restow.scheduling.framework import Code, Cycle, FilterPlugin
from restow.scheduling.plugins.node_volume_limits import NodeVolumeLimits
from restow.scheduling.plugins.volume_binding import VolumeBinding
from restow.scheduling.plugins.volume_restrictions import VolumeRestrictions
from restow.scheduling.plugins.volume_zone import VolumeZone

PLUGINS: dict[str, type[FilterPlugin]] = {
    plugin.name: plugin for plugin in (VolumeBinding, VolumeRestrictions, VolumeZone, NodeVolumeLimits)
}
STORAGE: dict[str, Any] = {
    "volumes": PersistentVolume,
    "claims": PersistentVolumeClaim,
    "classes": StorageClass,
    "csiNodes": CSINode,
    "drivers": CSIDriver,
    "capacities": CSIStorageCapacity,
    "attachments": VolumeAttachment,
}


def differences(case: Document) -> list[str]:
    """Everything of which kube-scheduler says something else."""
    plugin, cycle, theirs = PLUGINS[case["plugin"]](), _cycle(case), case["answer"]
    before = plugin.pre_filter(cycle)
    told = theirs["preFilter"]
    if before.is_refusal or told["code"] not in ("Success", "Skip"):
        same = (before.code.value, list(before.reasons)) == (told["code"], told.get("reasons", []))
        return [] if same else [f"pre_filter: {before}, they say {told}"]
    found = list(_filter_differences(plugin, cycle, theirs.get("filter", {}), skipped=before.code is Code.SKIP))
    if isinstance(plugin, VolumeBinding) and "node" in theirs and not found:
        found += _written_differences(plugin, cycle, theirs["node"], theirs.get("written", {}))
    return found


def _cycle(case: Document) -> Cycle:
    snapshot = Snapshot()
    for kind, type_ in STORAGE.items():
        for item in case[kind]:
            snapshot.apply_storage(msgspec.convert(item, type_))
    for node in case["nodes"]:
        snapshot.apply_node(msgspec.convert(node, Node))
    for pod in case["pods"]:
        snapshot.apply_pod(msgspec.convert(pod, Pod))
    return Cycle(msgspec.convert(case["pod"], Pod), snapshot, 0.0)


def _filter_differences(plugin: FilterPlugin, cycle: Cycle, theirs: Document, *, skipped: bool) -> Iterator[str]:
    rows = cycle.snapshot.rows
    refusals = [] if skipped else plugin.refusals(cycle, rows.every)
    for name in rows.names():
        row = rows.find_row(name)
        here = [refusal for refusal in refusals if refusal.rows[row]]
        code = Code.UNSCHEDULABLE if all(one.resolvable for one in here) else Code.UNRESOLVABLE
        ours = (code.value, sorted(one.reason for one in here)) if here else ("Success", [])
        told = theirs.get(name, {"code": "Success"})
        code_told = told["code"].replace("Error", Code.UNRESOLVABLE.value)  # a node's filter does not fail here
        if ours != (code_told, sorted(told.get("reasons", ()))):
            yield f"filter of {name}: {ours}, they say {told}"


def _written_differences(plugin: VolumeBinding, cycle: Cycle, node: str, theirs: Document) -> list[str]:
    """They write also what is there already; we do not."""
    verdict = plugin.reserve(cycle, node)
    if verdict.code is not Code.SUCCESS:
        return [f"reserve: {verdict}"]
    reserved = cycle.state.get("VolumeBinding.reserved")
    ours: Document = {}
    for one in reserved.written.takings if reserved else ():
        reference, annotations = one.after.spec.claim_ref, one.after.metadata.annotations or {}
        mark = annotations.get("pv.kubernetes.io/bound-by-controller", "")
        ours[f"volume {one.after.metadata.name}"] = f"{reference.name} {reference.uid} {mark}"
    for one in reserved.written.provisions if reserved else ():
        ours[f"claim {one.after.metadata.name}"] = one.after.metadata.annotations["volume.kubernetes.io/selected-node"]
    return [] if ours == theirs else [f"written: {ours}, they write {theirs}"]
