"""Validation of the other built-in kinds: one table of what is refused, one of what may not change."""

# ruff: noqa: E501 - one case, one line

from __future__ import annotations

import copy
from typing import Any

import pytest

from restow.adapters.memory.documents.builtins import apply_defaults, validate_builtin
from restow.adapters.memory.documents.typed_documents import conform_to_kind
from restow.model.objects import Document

GROUPS = {
    "Deployment": "apps", "ReplicaSet": "apps", "StatefulSet": "apps", "DaemonSet": "apps", "Job": "batch", "CronJob": "batch",
    "PodDisruptionBudget": "policy", "StorageClass": "storage.k8s.io", "VolumeAttachment": "storage.k8s.io", "CSINode": "storage.k8s.io",
    "PriorityClass": "scheduling.k8s.io", "Lease": "coordination.k8s.io", "Role": "rbac.authorization.k8s.io", "RoleBinding": "rbac.authorization.k8s.io",
}  # fmt: skip
POD = {"containers": [{"name": "c", "image": "i"}]}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": POD}
SELECTOR = {"matchLabels": {"a": "b"}}
ONCE = {**TEMPLATE, "spec": {**POD, "restartPolicy": "Never"}}
WORKLOAD = {"selector": SELECTOR, "template": TEMPLATE}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VOLUME = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/"}}
PORTS = {"ports": [{"port": 80}]}


def made(kind: str, metadata: Document | None = None, **members: Any) -> Document:
    group = GROUPS.get(kind, "")
    document = {
        "apiVersion": f"{group}/v1" if group else "v1",
        "kind": kind,
        "metadata": {"name": "x", "uid": "u", **(metadata or {})},
        **members,
    }
    document = conform_to_kind(copy.deepcopy(document), group=group, kind=kind).document
    apply_defaults(document, group=group, kind=kind)
    return document


def causes(new: Document, old: Document | None = None) -> list[tuple[str, str]]:
    problems = validate_builtin(new, old, group=GROUPS.get(new["kind"], ""), kind=new["kind"])
    return [(cause.field or "", cause.message or "") for cause in problems]


FINE = [
    made("Deployment", spec=WORKLOAD),
    made("ReplicaSet", spec=WORKLOAD),
    made("StatefulSet", spec={**WORKLOAD, "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": CLAIM}]}),
    made("DaemonSet", spec=WORKLOAD),
    made("Job", spec={"template": ONCE}),
    made("CronJob", spec={"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": ONCE}}}),
    made("PodDisruptionBudget", spec={"minAvailable": "50%", "selector": SELECTOR}),
    made("PodDisruptionBudget", spec={"maxUnavailable": 1}),
    made("Node", spec={"taints": [{"key": "a", "effect": "NoSchedule"}]}, status={"capacity": {"cpu": "8", "nvidia.com/gpu": "2"}}),
    made("ConfigMap", data={"a.b": "c"}),
    made("Secret", data={"a": "b2s="}),
    made("PersistentVolume", spec=VOLUME),
    made("PersistentVolumeClaim", spec=CLAIM),
    made("StorageClass", provisioner="x.io/y"),
    made("PriorityClass", value=1000),
    made("PriorityClass", metadata={"name": "system-node-critical"}, value=2_000_001_000),
    made("Lease", spec={"holderIdentity": "a", "leaseDurationSeconds": 15}),
    made("Service", spec=PORTS),
    made("Namespace"),
    made("Role", rules=[{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]),
    made("RoleBinding", roleRef={"kind": "Role", "name": "r"}, subjects=[{"kind": "User", "name": "u"}]),
    made("VolumeAttachment", spec={"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}),
]  # fmt: skip


@pytest.mark.parametrize("document", FINE, ids=[document["kind"] for document in FINE])
def test_valid_objects_are_accepted(document: Document) -> None:
    assert causes(document) == []
    assert causes(copy.deepcopy(document), document) == []


REFUSED = [
    (made("Deployment", spec={"template": TEMPLATE}), "spec.selector", "Required value"),
    (made("Deployment", spec={"selector": {}, "template": TEMPLATE}), "spec.selector", "empty selector is invalid"),
    (made("Deployment", spec={**WORKLOAD, "selector": {"matchLabels": {"a": "c"}}}), "spec.template.metadata.labels", "`selector` does not match template `labels`"),
    (made("Deployment", spec={**WORKLOAD, "replicas": -1}), "spec.replicas", "must be greater than or equal to 0"),
    (made("Deployment", spec={**WORKLOAD, "strategy": {"type": "Slow"}}), "spec.strategy", "Unsupported value"),
    (made("Deployment", spec={**WORKLOAD, "strategy": {"type": "Recreate", "rollingUpdate": {}}}), "spec.strategy.rollingUpdate", "Forbidden"),
    (made("Deployment", spec={**WORKLOAD, "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}}), "spec.strategy.rollingUpdate.maxUnavailable", "may not be 0 when `maxSurge` is 0"),
    (made("Deployment", spec={**WORKLOAD, "strategy": {"rollingUpdate": {"maxSurge": "many"}}}), "spec.strategy.rollingUpdate.maxSurge", "Invalid value"),
    (made("Deployment", spec={**WORKLOAD, "template": ONCE}), "spec.template.spec.restartPolicy", 'Unsupported value: "Never": supported values: "Always"'),
    (made("Deployment", spec={"selector": SELECTOR, "template": {"metadata": TEMPLATE["metadata"]}}), "spec.template.spec.containers", "Required value"),
    (made("StatefulSet", spec={**WORKLOAD, "podManagementPolicy": "x"}), "spec.podManagementPolicy", "Invalid value"),
    (made("Job", spec={"template": TEMPLATE}), "spec.template.spec.restartPolicy", "Required value"),
    (made("Job", spec={"template": ONCE, "completionMode": "Indexed", "parallelism": 1}), "spec.completions", "Required value"),
    (made("CronJob", spec={"schedule": "soon", "jobTemplate": {"spec": {"template": ONCE}}}), "spec.schedule", "Invalid value"),
    (made("PodDisruptionBudget", spec={"minAvailable": 1, "maxUnavailable": 1}), "spec", "cannot be both set"),
    (made("PodDisruptionBudget", spec={"minAvailable": "all"}), "spec.minAvailable", "Invalid value"),
    (made("PodDisruptionBudget", spec={"minAvailable": "110%"}), "spec.minAvailable", "must not be greater than 100%"),
    (made("PodDisruptionBudget", spec={"maxUnavailable": -1}), "spec.maxUnavailable", "must be greater than or equal to 0"),
    (made("Node", spec={"taints": [{"key": "a", "effect": "x"}]}), "metadata.taints[0].effect", "Unsupported value"),
    (made("Node", status={"capacity": {"cpu": "-1"}}), "status.capacity.cpu", "must be greater than or equal to 0"),
    (made("ConfigMap", data={"a/b": "c"}), "data[a/b]", "Invalid value"),
    (made("PersistentVolumeClaim", spec={"resources": CLAIM["resources"]}), "spec.accessModes", "Required value"),
    (made("PersistentVolumeClaim", spec={"accessModes": ["ReadWriteOnce"]}), "spec.resources[storage]", "Required value"),
    (made("PersistentVolumeClaim", spec={**CLAIM, "accessModes": ["x"]}), "spec.accessModes", "Unsupported value"),
    (made("PersistentVolume", spec={**VOLUME, "nfs": {"server": "s"}}), "spec.nfs", "may not specify more than 1 volume type"),
    (made("PersistentVolume", spec={"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1"}}), "spec", "must specify a volume type"),
    (made("PersistentVolume", spec={"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1"}, "local": {"path": "/"}}), "spec.nodeAffinity", "Required value"),
    (made("StorageClass"), "provisioner", "Required value"),
    (made("PriorityClass", value=2_000_000_000), "value", "Forbidden"),
    (made("PriorityClass", metadata={"name": "system-mine"}, value=1), "metadata.name", "reserved"),
    (made("Lease", spec={"leaseDurationSeconds": 0}), "spec.leaseDurationSeconds", "must be greater than 0"),
    (made("Service", spec={"ports": [{"port": 80}, {"port": 81}]}), "spec.ports[0].name", "Required value"),
    (made("Service", metadata={"name": "a.x"}, spec=PORTS), "metadata.name", "Invalid value"),
    (made("Namespace", metadata={"name": "a.b"}), "metadata.name", "Invalid value"),
    (made("Role", metadata={"name": "a/b"}), "metadata.name", "may not contain '/'"),
    (made("Role", rules=[{"apiGroups": [""], "resources": ["pods"]}]), "rules[0].verbs", "Required value"),
    (made("RoleBinding", roleRef={"kind": "Spam", "name": "x"}), "roleRef.kind", "Unsupported value"),
    (made("ConfigMap", metadata={"name": "", "generateName": "Bad-"}), "metadata.generateName", "Invalid value"),
    (made("ConfigMap", metadata={"name": ""}), "metadata.name", "name or generateName is required"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("document", "field", "message"), REFUSED, ids=[f"{row[0]['kind']} {row[1]} {row[2][:20]}" for row in REFUSED]
)
def test_invalid_objects_are_refused(document: Document, field: str, message: str) -> None:
    problems = causes(document)
    assert any(where == field and message in cause for where, cause in problems), problems


def test_a_generated_name_may_end_with_a_dash() -> None:
    assert causes(made("ConfigMap", metadata={"name": "", "generateName": "good-"})) == []


def test_role_names_may_hold_colons() -> None:
    assert causes(made("Role", metadata={"name": "system:node"})) == []


OTHER = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}
BOUND = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
UPDATES = [
    ("a deployment's selector", made("Deployment", spec=WORKLOAD), {"spec.selector": OTHER}, "spec.selector", "field is immutable"),
    ("a replica set's selector", made("ReplicaSet", spec=WORKLOAD), {"spec.selector": OTHER}, "spec.selector", "field is immutable"),
    ("a stateful set's service", made("StatefulSet", spec=WORKLOAD), {"spec.serviceName": "s"}, "spec", "are forbidden"),
    ("a job's template", made("Job", spec={"template": ONCE}), {"spec.template.spec.hostname": "h"}, "spec.template", "field is immutable"),
    ("a job's selector", made("Job", spec={"template": ONCE}), {"spec.selector": SELECTOR}, "spec.selector", "field is immutable"),
    ("a claim's access modes", made("PersistentVolumeClaim", spec=CLAIM), {"spec.accessModes": ["ReadWriteMany"]}, "spec", "immutable after creation"),
    ("an unbound claim's size", made("PersistentVolumeClaim", spec=CLAIM), {"spec.resources.requests.storage": "2Gi"}, "spec", "immutable after creation"),
    ("a bound claim shrinks", made("PersistentVolumeClaim", spec=CLAIM, status=BOUND), {"spec.resources.requests.storage": "1Mi"}, "spec.resources.requests.storage", "Forbidden"),
    ("a volume's source", made("PersistentVolume", spec=VOLUME), {"spec.hostPath.path": "/x"}, "spec.persistentvolumesource", "Forbidden"),
    ("a node's pod CIDR", made("Node", spec={"podCIDR": "10.0.0.0/24"}), {"spec.podCIDRs": ["10.1.0.0/24"]}, "spec.podCIDRs", "Forbidden"),
    ("a class's parameters", made("StorageClass", provisioner="p"), {"parameters": {"a": "b"}}, "parameters", "field is immutable"),
    ("a priority's value", made("PriorityClass", value=1), {"value": 2}, "value", "may not be changed"),
    ("a frozen config map", made("ConfigMap", data={"a": "b"}, immutable=True), {"data": {}}, "data", "Forbidden"),
    ("a frozen config map thaws", made("ConfigMap", immutable=True), {"immutable": False}, "immutable", "Forbidden"),
    ("a secret's type", made("Secret"), {"type": "x"}, "type", "field is immutable"),
    ("a binding's role", made("RoleBinding", roleRef={"kind": "Role", "name": "r"}), {"roleRef.name": "q"}, "roleRef", "cannot change roleRef"),
    ("a service's address", made("Service", spec={**PORTS, "clusterIP": "10.0.0.1"}), {"spec.clusterIP": "10.0.0.2"}, "spec.clusterIP", "field is immutable"),
]  # fmt: skip


def edited(document: Document, changes: Document) -> Document:
    document = copy.deepcopy(document)
    for path, value in changes.items():
        *way, last = path.split(".")
        place = document
        for step in way:
            place = place.setdefault(step, {})
        place[last] = value
    return document


@pytest.mark.parametrize(
    ("old", "changes", "field", "message"), [row[1:] for row in UPDATES], ids=[row[0] for row in UPDATES]
)
def test_immutable_fields_are_refused(old: Document, changes: Document, field: str, message: str) -> None:
    problems = causes(edited(old, changes), old)
    assert any(where == field and message in cause for where, cause in problems), problems


ALLOWED = [
    ("replicas", made("Deployment", spec=WORKLOAD), {"spec.replicas": 3}),
    ("a template's image", made("Deployment", spec=WORKLOAD), {"spec.template.spec.hostname": "h"}),
    ("a stateful set's replicas", made("StatefulSet", spec=WORKLOAD), {"spec.replicas": 3}),
    ("a job's parallelism", made("Job", spec={"template": ONCE}), {"spec.parallelism": 3}),
    ("where a suspended job's pods go", made("Job", spec={"template": ONCE, "suspend": True}), {"spec.template.spec.nodeSelector": {"a": "b"}}),
    ("a claim is bound", made("PersistentVolumeClaim", spec=CLAIM), {"spec.volumeName": "v"}),
    ("a bound claim grows", made("PersistentVolumeClaim", spec=CLAIM, status=BOUND), {"spec.resources.requests.storage": "2Gi"}),
    ("a node is cordoned", made("Node"), {"spec.unschedulable": True}),
    ("a budget changes", made("PodDisruptionBudget", spec={"minAvailable": 1}), {"spec.minAvailable": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("old", "changes"), [row[1:] for row in ALLOWED], ids=[row[0] for row in ALLOWED])
def test_allowed_updates_are_accepted(old: Document, changes: Document) -> None:
    assert causes(edited(old, changes), old) == []
