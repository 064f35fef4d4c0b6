"""A generated cluster as Kubernetes documents, in a state that its controllers would leave unchanged."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from restow.model.objects import Document
from restow.sim.scenarios.pod_specs import STORAGE_CLASS, claim_template, pod_spec, running_status, workload_pod_spec
from restow.sim.scenarios.scenario_nodes import Ints, ScenarioNodes
from restow.sim.scenarios.workloads import PRIORITIES, Workload
from restow.sim.world.daemon_set import pin_to_node
from restow.sim.world.template import (
    REVISION_HASH,
    TEMPLATE_HASH,
    controller_reference,
    random_suffix,
    revision_name,
    template_hash,
)

PROVISIONER = "sim.restow.sh/volumes"
_DAY = 86400.0
_API_VERSIONS = {"Deployment": "apps/v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "Job": "batch/v1"}
_CRITICAL = 2_000_001_000  # system-node-critical


class DocumentWriter:
    """Collects documents; uids, ages and name suffixes come from the one random generator."""

    def __init__(self, nodes: ScenarioNodes, scheduler: str, start: float, rng: np.random.Generator) -> None:
        self.documents: list[Document] = []
        self._nodes = nodes
        self._scheduler = scheduler
        self._start = start
        self._random = random.Random(int(rng.integers(2**63)))
        self._names: set[str] = set()

    # ---- the cluster

    def add_cluster(self, namespaces: int) -> None:
        created = self._time(400 * _DAY)
        for name in ("default", "kube-system", *(f"team-{index:02d}" for index in range(max(namespaces, 1)))):
            self._add("v1 Namespace", name, None, created, status={"phase": "Active"})
        for name, value in PRIORITIES.items():
            self._add("scheduling.k8s.io/v1 PriorityClass", name, None, created, value=value)
        self._add(
            "storage.k8s.io/v1 StorageClass",
            STORAGE_CLASS,
            None,
            created,
            provisioner=PROVISIONER,
            volumeBindingMode="WaitForFirstConsumer",
            reclaimPolicy="Delete",
        )
        for node in range(len(self._nodes)):
            self.documents.append(self._nodes.document(node, self._time(100 * _DAY), self._uid()))

    def add_daemon_set(self, name: str, request: Ints, nodes: Sequence[int]) -> None:
        labels = {"app": name}
        spec = pod_spec(request, "system-node-critical", [{"operator": "Exists"}], self._scheduler)
        template = {"metadata": {"labels": labels}, "spec": spec}
        created = self._time(90 * _DAY)
        count = len(nodes)
        daemons = self._add(
            "apps/v1 DaemonSet",
            name,
            "kube-system",
            created,
            spec={"selector": {"matchLabels": labels}, "template": template},
            status={
                "currentNumberScheduled": count,
                "desiredNumberScheduled": count,
                "numberReady": count,
                "numberAvailable": count,
                "updatedNumberScheduled": count,
                "numberMisscheduled": 0,
                "observedGeneration": 1,
            },
        )
        owner = controller_reference("apps/v1", "DaemonSet", name, daemons["metadata"]["uid"])
        labels = labels | {REVISION_HASH: revision_name(name, template)}
        for node in nodes:
            pinned = spec | {"affinity": pin_to_node(None, self._nodes.names[node])}
            metadata = {"name": f"{name}-{self._suffix()}", "namespace": "kube-system", "labels": labels}
            self._pod(metadata, pinned, owner, node, _CRITICAL)

    # ---- workloads

    def add_workload(self, workload: Workload, nodes: Sequence[int]) -> None:
        owner, labels, spec = self._controller(workload, len(nodes))
        if workload.budget:
            self._budget(workload, len(nodes))
        for ordinal, node in enumerate(nodes):
            self._replica(workload, owner, labels, spec, ordinal, node)

    def add_pending(self, workload: Workload) -> None:
        """A workload with one pod that no node has room for."""
        owner, labels, spec = self._controller(workload, 1, ready=0)
        self._replica(workload, owner, labels, spec, 0, None)

    def _controller(
        self, workload: Workload, replicas: int, ready: int | None = None
    ) -> tuple[Document, Document, Document]:
        """Write the owners; gives the controller reference, labels and spec of the pods."""
        labels: Document = {"app": workload.name}
        template_labels = dict(labels)
        if workload.quality:
            template_labels["koordinator.sh/qosClass"] = workload.quality
        spec = workload_pod_spec(workload, self._scheduler)
        template: Document = {"metadata": {"labels": template_labels}, "spec": spec}
        created = self._time(60 * _DAY)
        status = _status(replicas, replicas if ready is None else ready)
        kind = workload.kind
        if kind == "Deployment":
            return self._deployment(workload, replicas, template, created, status)
        body: Document = {"template": template}
        if kind == "Job":
            body |= {"parallelism": replicas, "completions": replicas, "backoffLimit": 6}
            status = {"active": replicas, "ready": replicas, "startTime": created}
        else:
            body |= {"replicas": replicas, "selector": {"matchLabels": labels}}
        if kind == "StatefulSet":
            body |= {"serviceName": workload.name, "podManagementPolicy": "OrderedReady"}
            body |= {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}}
            if workload.volumes:
                body["volumeClaimTemplates"] = [claim_template()]
        owner = self._add(
            f"{_API_VERSIONS[kind]} {kind}",
            workload.name,
            workload.namespace,
            created,
            {"labels": labels},
            spec=body,
            status=status,
        )
        if kind == "StatefulSet":
            template_labels = template_labels | {REVISION_HASH: revision_name(workload.name, template)}
        return self._reference(owner), template_labels, spec

    def _deployment(
        self, workload: Workload, replicas: int, template: Document, created: str, status: Document
    ) -> tuple[Document, Document, Document]:
        labels: Document = {"app": workload.name}
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
        deployment = self._add(
            "apps/v1 Deployment",
            workload.name,
            workload.namespace,
            created,
            {"labels": labels, "annotations": {"deployment.kubernetes.io/revision": "1"}},
            spec={
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": template,
                "strategy": strategy,
            },
            status=status | {"updatedReplicas": replicas},
        )
        digest = template_hash(template)
        hashed = labels | {TEMPLATE_HASH: digest}
        template_labels = template["metadata"]["labels"] | {TEMPLATE_HASH: digest}
        replica_set = self._add(
            "apps/v1 ReplicaSet",
            f"{workload.name}-{digest}",
            workload.namespace,
            created,
            {
                "labels": template_labels,
                "annotations": {
                    "deployment.kubernetes.io/revision": "1",
                    "deployment.kubernetes.io/desired-replicas": str(replicas),
                    "deployment.kubernetes.io/max-replicas": str(replicas + -(-replicas // 4)),
                },
                "ownerReferences": [self._reference(deployment)],
            },
            spec={
                "replicas": replicas,
                "selector": {"matchLabels": hashed},
                "template": {"metadata": {"labels": template_labels}, "spec": template["spec"]},
            },
            status=status,
        )
        return self._reference(replica_set), template_labels, template["spec"]

    def _replica(
        self, workload: Workload, owner: Document, labels: Document, spec: Document, ordinal: int, node: int | None
    ) -> None:
        annotations: Document = {}
        if workload.eviction_cost is not None:
            annotations["scheduling.koordinator.sh/eviction-cost"] = str(workload.eviction_cost)
            annotations["controller.kubernetes.io/pod-deletion-cost"] = str(workload.eviction_cost)
        if workload.kind == "StatefulSet":
            name = f"{workload.name}-{ordinal}"
            labels = labels | {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(ordinal)}
            spec = spec | {"hostname": name, "subdomain": workload.name}
            if workload.volumes and node is not None:
                spec = spec | {"volumes": [self._volume(workload, labels, name, node)]}
        elif workload.kind == "Job":
            name = f"{owner['name']}-{self._suffix()}"
            labels = labels | {"batch.kubernetes.io/job-name": workload.name, "job-name": workload.name}
            labels |= {"batch.kubernetes.io/controller-uid": owner["uid"], "controller-uid": owner["uid"]}
        else:
            name = f"{owner['name']}-{self._suffix()}"
        priority = PRIORITIES.get(workload.priority or "", 0)
        metadata = {"name": name, "namespace": workload.namespace, "labels": labels, "annotations": annotations}
        self._pod(metadata, spec, owner, node, priority)

    def _volume(self, workload: Workload, labels: Document, pod: str, node: int) -> Document:
        """The claim of a StatefulSet pod and its volume, bound, in the zone of the pod's node."""
        claim = f"data-{pod}"
        created = self._time(30 * _DAY)
        uid = self._uid()
        volume = f"pvc-{uid}"
        zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [self._nodes.zone_of(node)]}
        self._add(
            "v1 PersistentVolume",
            volume,
            None,
            created,
            {"annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}},
            spec={
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": STORAGE_CLASS,
                "persistentVolumeReclaimPolicy": "Delete",
                "volumeMode": "Filesystem",
                "csi": {"driver": PROVISIONER, "volumeHandle": volume},
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": workload.namespace,
                    "name": claim,
                    "uid": uid,
                },
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}},
            },
            status={"phase": "Bound"},
        )
        self._add(
            "v1 PersistentVolumeClaim",
            claim,
            workload.namespace,
            created,
            {
                "uid": uid,
                "labels": {"app": labels["app"]},
                "annotations": {
                    "pv.kubernetes.io/bind-completed": "yes",
                    "pv.kubernetes.io/bound-by-controller": "yes",
                    "volume.kubernetes.io/selected-node": self._nodes.names[node],
                },
            },
            spec=claim_template()["spec"] | {"volumeName": volume},
            status={"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}},
        )
        return {"name": "data", "persistentVolumeClaim": {"claimName": claim}}

    def _budget(self, workload: Workload, replicas: int) -> None:
        allowed = max(replicas - 1, 0) if workload.budget == "half" else 1
        if workload.budget == "maxUnavailable":
            spec: Document = {"maxUnavailable": 1}
        elif workload.budget == "minAvailable":
            spec = {"minAvailable": max(replicas - 1, 0)}
        else:
            spec = {"minAvailable": "50%"}
            allowed = replicas - -(-replicas // 2)
        self._add(
            "policy/v1 PodDisruptionBudget",
            workload.name,
            workload.namespace,
            self._time(60 * _DAY),
            spec=spec | {"selector": {"matchLabels": {"app": workload.name}}},
            status={
                "observedGeneration": 1,
                "expectedPods": replicas,
                "currentHealthy": replicas,
                "desiredHealthy": replicas - min(allowed, replicas),
                "disruptionsAllowed": min(allowed, replicas),
            },
        )

    # ---- pods

    def _pod(self, metadata: Document, spec: Document, owner: Document, node: int | None, priority: int) -> None:
        """Add a pod; `metadata` has its name and namespace, its labels and perhaps annotations."""
        age = self._random.expovariate(1 / (5 * _DAY)) + 600
        created = self._time(age, exact=True)
        whole: Document = {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": self._uid(),
            "creationTimestamp": created,
            "labels": metadata["labels"],
            "ownerReferences": [owner],
        }
        if metadata.get("annotations"):
            whole["annotations"] = metadata["annotations"]
        spec = spec | {"priority": priority}
        status: Document = {"phase": "Pending", "qosClass": "Burstable"}
        if node is not None:
            spec["nodeName"] = self._nodes.names[node]
            status = running_status(created)
        self.documents.append({"apiVersion": "v1", "kind": "Pod", "metadata": whole, "spec": spec, "status": status})

    # ---- small things

    def _add(
        self, kind: str, name: str, namespace: str | None, created: str, metadata: Document | None = None, **rest: Any
    ) -> Document:
        """Add an object; `kind` is the API version and the kind, `metadata` what belongs there besides the usual."""
        given: Document = metadata or {}
        whole: Document = {"name": name, "uid": given.get("uid") or self._uid()}
        whole |= {"creationTimestamp": created, "generation": 1}
        if namespace:
            whole["namespace"] = namespace
        whole |= {key: given[key] for key in ("labels", "annotations", "ownerReferences") if given.get(key)}
        api_version, _, word = kind.rpartition(" ")
        document = {"apiVersion": api_version, "kind": word, "metadata": whole, **rest}
        self.documents.append(document)
        return document

    def _reference(self, owner: Document) -> Document:
        metadata = owner["metadata"]
        return controller_reference(owner["apiVersion"], owner["kind"], metadata["name"], metadata["uid"])

    def _uid(self) -> str:
        digits = f"{self._random.getrandbits(128):032x}"
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"

    def _suffix(self) -> str:
        while True:
            suffix = random_suffix(self._random)
            if suffix not in self._names:
                self._names.add(suffix)
                return suffix

    def _time(self, ago: float, *, exact: bool = False) -> str:
        seconds = self._start - (ago if exact else ago * (0.5 + self._random.random() / 2))
        return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _status(replicas: int, ready: int) -> Document:
    return {"observedGeneration": 1, "replicas": replicas, "readyReplicas": ready, "availableReplicas": ready}
