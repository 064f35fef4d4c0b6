"""Rows say what kubectl users expect of them."""

from __future__ import annotations

from typing import Any

import pytest

from restow.adapters.rest.tables import BUILT_IN, printer_of
from restow.adapters.rest.tables.durations import age_since, human_duration
from tests.rest.rows import NOW, ago, row


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600 + 60, "8h"),
        (47 * 3600, "47h"),
        (49 * 3600, "2d1h"),
        (9 * 86400, "9d"),
        (3 * 365 * 86400 + 86400, "3y1d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_age_is_printed_as_kubectl_does(seconds: float, shown: str) -> None:
    assert human_duration(seconds) == shown


def test_absent_time_prints_unknown_and_malformed_time_invalid() -> None:
    assert (age_since("", NOW), age_since("yesterday", NOW)) == ("<unknown>", "<invalid>")


# --- other kinds ---------------------------------------------------------------------------------------------------

TEMPLATE = {
    "spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j"}], "nodeSelector": {"k": "v"}}
}
SELECTOR = {"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "t", "operator": "NotIn", "values": ["b", "a"]}]}
ROWS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "a node that is cordoned": (
        "",
        "Node",
        {
            "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/worker": ""}},
            "spec": {"unschedulable": True},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "10.1.1.1"}],
                "nodeInfo": {"kubeletVersion": "v1.36.3", "kernelVersion": "6.1", "architecture": "amd64"},
            },
        },
        {
            "Status": "Ready,SchedulingDisabled",
            "Roles": "worker",
            "Version": "v1.36.3",
            "Internal-IP": "10.1.1.1",
            "External-IP": "<none>",
            "Kernel-Version": "6.1 (amd64)",
            "OS-Image": "<unknown>",
        },
    ),
    "a node without conditions": ("", "Node", {}, {"Status": "Unknown", "Roles": "<none>", "Age": "90s"}),
    "a node that is not ready": (
        "",
        "Node",
        {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
        {"Status": "NotReady"},
    ),
    "a deployment": (
        "apps",
        "Deployment",
        {
            "spec": {"replicas": 3, "template": TEMPLATE, "selector": SELECTOR},
            "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1},
        },
        {
            "Ready": "2/3",
            "Up-to-date": 3,
            "Available": 1,
            "Containers": "a,b",
            "Images": "i:1,j",
            "Selector": "app=x,t notin (a,b)",
        },
    ),
    "a selector of every operator": (
        "apps",
        "ReplicaSet",
        {
            "spec": {
                "selector": {
                    "matchLabels": {"m": "1"},
                    "matchExpressions": [{"key": "z", "operator": "DoesNotExist"}, {"key": "a", "operator": "Exists"}],
                }
            }
        },
        {"Selector": "a,m=1,!z"},
    ),
    "a pod template": (
        "",
        "PodTemplate",
        {"template": {"metadata": {"labels": {"a": "b"}}, **TEMPLATE}},
        {"Containers": "a,b", "Images": "i:1,j", "Pod Labels": "a=b"},
    ),
    "a replica set": (
        "apps",
        "ReplicaSet",
        {"spec": {"replicas": 3}, "status": {"replicas": 2, "readyReplicas": 1}},
        {"Desired": 3, "Current": 2, "Ready": 1, "Selector": "<none>"},
    ),
    "a stateful set": ("apps", "StatefulSet", {"spec": {"replicas": 2}}, {"Ready": "0/2"}),
    "a daemon set": (
        "apps",
        "DaemonSet",
        {"spec": {"template": TEMPLATE}, "status": {"desiredNumberScheduled": 4, "numberReady": 3}},
        {"Desired": 4, "Ready": 3, "Node Selector": "k=v"},
    ),
    "a running job": (
        "batch",
        "Job",
        {"spec": {"completions": 3}, "status": {"succeeded": 1, "startTime": ago(30)}},
        {"Status": "Running", "Completions": "1/3", "Duration": "30s"},
    ),
    "a finished job": (
        "batch",
        "Job",
        {
            "spec": {"parallelism": 2},
            "status": {
                "succeeded": 1,
                "conditions": [{"type": "Complete", "status": "True"}],
                "startTime": ago(30),
                "completionTime": ago(20),
            },
        },
        {"Status": "Complete", "Completions": "1/1 of 2", "Duration": "10s"},
    ),
    "a suspended job": (
        "batch",
        "Job",
        {"status": {"conditions": [{"type": "Suspended", "status": "True"}]}},
        {"Status": "Suspended", "Completions": "0/1", "Duration": ""},
    ),
    "a cron job": (
        "batch",
        "CronJob",
        {"spec": {"schedule": "* * * * *", "suspend": False}, "status": {"active": [{}]}},
        {"Schedule": "* * * * *", "Suspend": "False", "Active": 1, "Last Schedule": "<none>"},
    ),
    "a service": (
        "",
        "Service",
        {
            "spec": {
                "type": "NodePort",
                "clusterIP": "10.0.0.1",
                "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}],
            }
        },
        {"Type": "NodePort", "Cluster-IP": "10.0.0.1", "External-IP": "<none>", "Port(s)": "80:30080/TCP"},
    ),
    "a load balancer without address": (
        "",
        "Service",
        {"spec": {"type": "LoadBalancer"}},
        {"External-IP": "<pending>"},
    ),
    "an external name": ("", "Service", {"spec": {"type": "ExternalName", "externalName": "e"}}, {"External-IP": "e"}),
    "a namespace": ("", "Namespace", {"status": {"phase": "Active"}}, {"Status": "Active"}),
    "a config map": ("", "ConfigMap", {"data": {"a": "1"}, "binaryData": {"b": ""}}, {"Data": 2}),
    "a secret": ("", "Secret", {"data": {"a": "1"}, "type": "Opaque"}, {"Type": "Opaque", "Data": 1}),
    "a budget": (
        "policy",
        "PodDisruptionBudget",
        {"spec": {"minAvailable": 1}, "status": {"disruptionsAllowed": 2}},
        {"Min Available": "1", "Max Unavailable": "N/A", "Allowed Disruptions": 2},
    ),
    "a volume": (
        "",
        "PersistentVolume",
        {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadOnlyMany", "ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": "d", "name": "c"},
                "storageClassName": "fast",
            },
            "status": {"phase": "Bound"},
        },
        {"Capacity": "1Gi", "Access Modes": "RWO,ROX", "Status": "Bound", "Claim": "d/c", "StorageClass": "fast"},
    ),
    "a claim that waits": (
        "",
        "PersistentVolumeClaim",
        {"spec": {"storageClassName": "fast"}, "status": {"phase": "Pending"}},
        {"Status": "Pending", "Volume": "", "Capacity": "", "Access Modes": "", "VolumeMode": "<unset>"},
    ),
    "a claim being deleted": (
        "",
        "PersistentVolumeClaim",
        {
            "metadata": {"deletionTimestamp": ago(1)},
            "spec": {"volumeName": "v"},
            "status": {"phase": "Bound", "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOncePod"]},
        },
        {"Status": "Terminating", "Capacity": "2Gi", "Access Modes": "RWOP"},
    ),
    "the default storage class": (
        "storage.k8s.io",
        "StorageClass",
        {
            "metadata": {"name": "s", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "p",
        },
        {"Name": "s (default)", "Provisioner": "p", "ReclaimPolicy": "Delete", "VolumeBindingMode": "Immediate"},
    ),
    "an event": (
        "",
        "Event",
        {
            "lastTimestamp": ago(5),
            "firstTimestamp": ago(60),
            "count": 7,
            "type": "Warning",
            "reason": "Failed",
            "message": " no room \n",
            "involvedObject": {"kind": "Pod", "name": "p"},
            "source": {"component": "restow", "host": "h"},
        },
        {
            "Last Seen": "5s",
            "Object": "pod/p",
            "Message": "no room",
            "First Seen": "60s",
            "Count": 7,
            "Source": "restow, h",
        },
    ),
    "an event of the newer form": (
        "events.k8s.io",
        "Event",
        {"eventTime": ago(9), "regarding": {"kind": "Node", "name": "n"}, "note": "hello", "reportingController": "c"},
        {"Last Seen": "9s", "Object": "node/n", "Message": "hello", "Count": 1, "Source": "c"},
    ),
    "a lease": ("coordination.k8s.io", "Lease", {"spec": {"holderIdentity": "me"}}, {"Holder": "me"}),
    "a priority class": (
        "scheduling.k8s.io",
        "PriorityClass",
        {"value": 5, "preemptionPolicy": "Never"},
        {"Value": 5, "Global-Default": False, "PreemptionPolicy": "Never"},
    ),
    "a quota": (
        "",
        "ResourceQuota",
        {"status": {"hard": {"pods": "5", "limits.cpu": "2"}, "used": {"pods": "1"}}},
        {"Request": "pods: 1/5", "Limit": "limits.cpu: 0/2"},
    ),
    "a role binding": (
        "rbac.authorization.k8s.io",
        "RoleBinding",
        {
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "namespace": "d", "name": "s"}],
        },
        {"Role": "Role/r", "Users": "u", "Groups": "", "ServiceAccounts": "d/s"},
    ),
    "a kind without columns": ("apiextensions.k8s.io", "CustomResourceDefinition", {}, {"Created At": ago(90)}),
}


@pytest.mark.parametrize(("group", "kind", "document", "cells"), ROWS.values(), ids=ROWS)
def test_table_row_of_each_kind(group: str, kind: str, document: dict[str, Any], cells: dict[str, Any]) -> None:
    made = row(group, kind, document)
    assert {name: made[name] for name in cells} == cells


@pytest.mark.parametrize(("group", "kind"), BUILT_IN, ids=lambda part: part or "core")
@pytest.mark.parametrize(
    "junk", [{}, {"metadata": 1, "spec": [], "status": "?"}, {"spec": {"template": 5, "ports": [1]}}]
)
def test_strange_objects_still_print_every_column(group: str, kind: str, junk: dict[str, Any]) -> None:
    printer = printer_of(group, kind)
    assert len(printer.cells(junk, NOW)) == len(printer.columns)
