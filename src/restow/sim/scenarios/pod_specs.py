"""What generated pods ask for, and how they say that they run."""

from __future__ import annotations

from restow.model.objects import Document
from restow.sim.scenarios.scenario_nodes import BATCH_TAINT, GPU_TAINT, Ints, zone_name
from restow.sim.scenarios.workloads import Workload

STORAGE_CLASS = "zonal"


def workload_pod_spec(workload: Workload, scheduler: str) -> Document:
    """The spec of a workload's pods, with all that keeps them from some nodes and each other."""
    tolerations: list[Document] = []
    spec: Document = {}
    affinity: Document = {}
    selected: Document = {}
    if workload.pool:
        taint = GPU_TAINT if workload.pool == "gpu" else BATCH_TAINT
        tolerations.append({"key": taint["key"], "operator": "Exists", "effect": "NoSchedule"})
        selected["pool"] = workload.pool
    if workload.ssd:
        selected["disktype"] = "ssd"
    if workload.zones:
        zones = [zone_name(zone) for zone in workload.zones]
        term = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": zones}]}
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    mine = {"matchLabels": {"app": workload.name}}
    if workload.apart:
        apart = {"labelSelector": mine, "topologyKey": "kubernetes.io/hostname"}
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    if workload.spread:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": mine,
            }
        ]
    if selected:
        spec["nodeSelector"] = selected
    if affinity:
        spec["affinity"] = affinity
    policy = {"restartPolicy": "Never"} if workload.kind == "Job" else {}
    return pod_spec(workload.request, workload.priority, tolerations, scheduler) | policy | spec


def pod_spec(request: Ints, priority_class: str | None, tolerations: list[Document], scheduler: str) -> Document:
    resources = {"cpu": f"{int(request[0])}m", "memory": f"{int(request[1]) // 1024**2}Mi"}
    limits: Document = {}
    if request[3]:
        limits = {"limits": {"nvidia.com/gpu": str(int(request[3]))}}
        resources |= limits["limits"]
    spec: Document = {
        "schedulerName": scheduler,
        "terminationGracePeriodSeconds": 30,
        "containers": [
            {"name": "main", "image": "registry.invalid/app:1", "resources": {"requests": resources} | limits}
        ],
    }
    if priority_class:
        spec["priorityClassName"] = priority_class
    if tolerations:
        spec["tolerations"] = tolerations
    return spec


def running_status(since: str) -> Document:
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": since}
        for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    container = {
        "name": "main",
        "image": "registry.invalid/app:1",
        "imageID": "",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": since}},
    }
    return {
        "phase": "Running",
        "qosClass": "Burstable",
        "startTime": since,
        "conditions": conditions,
        "containerStatuses": [container],
    }


def claim_template() -> Document:
    return {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": STORAGE_CLASS,
            "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": "10Gi"}},
        },
    }
