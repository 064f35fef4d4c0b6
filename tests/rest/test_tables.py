"""Rows say what kubectl users expect of them."""

from __future__ import annotations

from typing import Any

import pytest

from restow.adapters.rest.tables import BUILT_IN, custom_printer, printer_of, table
from restow.adapters.rest.tables.ages import human, since
from restow.adapters.rest.tables.jsonpath import PathError, compile_path
from restow.adapters.rest.tables.pods import summary
from restow.model.times import format_time

NOW = 1_800_000_000.0


def ago(seconds: float) -> str:
    return format_time(NOW - seconds)


def row(group: str, kind: str, document: dict[str, Any]) -> dict[str, Any]:
    """The cells of one object by column name, age included."""
    document = {"metadata": {"name": "x", "creationTimestamp": ago(90)}, **document}
    printer = printer_of(group, kind)
    made = table([document], {}, printer, now=NOW)
    names = [column["name"] for column in made["columnDefinitions"]]
    return dict(zip(names, made["rows"][0]["cells"], strict=True))


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
def test_ages(seconds: float, shown: str) -> None:
    assert human(seconds) == shown


def test_an_absent_time_is_unknown_and_a_broken_one_invalid() -> None:
    assert (since("", NOW), since("yesterday", NOW)) == ("<unknown>", "<invalid>")


# --- pods ----------------------------------------------------------------------------------------------------------


def status(name: str, **state: Any) -> dict[str, Any]:
    extra = {key: state.pop(key) for key in ("ready", "restartCount", "started", "lastState") if key in state}
    return {"name": name, "state": state, **extra}


RUNNING = status("a", running={}, ready=True)
PODS: dict[str, tuple[dict[str, Any], str, str]] = {
    "not scheduled": ({"status": {"phase": "Pending"}}, "0/1", "Pending"),
    "held back by a gate": (
        {"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}},
        "0/1",
        "SchedulingGated",
    ),
    "running": ({"status": {"phase": "Running", "containerStatuses": [RUNNING]}}, "1/1", "Running"),
    "evicted by the kubelet": ({"status": {"phase": "Failed", "reason": "Evicted"}}, "0/1", "Evicted"),
    "crashing": (
        {"status": {"phase": "Running", "containerStatuses": [status("a", waiting={"reason": "CrashLoopBackOff"})]}},
        "0/1",
        "CrashLoopBackOff",
    ),
    "completed": (
        {
            "status": {
                "phase": "Succeeded",
                "containerStatuses": [status("a", terminated={"exitCode": 0, "reason": "Completed"})],
            }
        },
        "0/1",
        "Completed",
    ),
    "ended by a signal": (
        {"status": {"phase": "Failed", "containerStatuses": [status("a", terminated={"exitCode": 137, "signal": 9})]}},
        "0/1",
        "Signal:9",
    ),
    "ended with a code": (
        {"status": {"phase": "Failed", "containerStatuses": [status("a", terminated={"exitCode": 3})]}},
        "0/1",
        "ExitCode:3",
    ),
    "one of two completed, the other runs": (
        {
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [status("b", terminated={"exitCode": 0, "reason": "Completed"}), RUNNING],
            }
        },
        "1/1",
        "Running",
    ),
    "one of two completed, the other is not ready": (
        {
            "status": {
                "phase": "Running",
                "containerStatuses": [status("b", terminated={"exitCode": 0, "reason": "Completed"}), RUNNING],
            }
        },
        "1/1",
        "NotReady",
    ),
    "first init container runs": (
        {
            "spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}, {"name": "j"}]},
            "status": {"phase": "Pending", "initContainerStatuses": [status("i", running={}), status("j", waiting={})]},
        },
        "0/1",
        "Init:0/2",
    ),
    "second init container failed": (
        {
            "spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}, {"name": "j"}]},
            "status": {
                "phase": "Pending",
                "initContainerStatuses": [
                    status("i", terminated={"exitCode": 0}),
                    status("j", terminated={"exitCode": 2, "reason": "Error"}),
                ],
            },
        },
        "0/1",
        "Init:Error",
    ),
    "init container cannot pull": (
        {
            "spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]},
            "status": {"phase": "Pending", "initContainerStatuses": [status("i", waiting={"reason": "ErrImagePull"})]},
        },
        "0/1",
        "Init:ErrImagePull",
    ),
    "a sidecar counts as a container": (
        {
            "spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}]},
            "status": {
                "phase": "Running",
                "initContainerStatuses": [status("s", running={}, ready=True, started=True)],
                "containerStatuses": [RUNNING],
            },
        },
        "2/2",
        "Running",
    ),
    "being deleted": (
        {"metadata": {"deletionTimestamp": ago(1)}, "status": {"phase": "Running", "containerStatuses": [RUNNING]}},
        "1/1",
        "Terminating",
    ),
    "being deleted on a lost node": (
        {"metadata": {"deletionTimestamp": ago(1)}, "status": {"phase": "Running", "reason": "NodeLost"}},
        "0/1",
        "Unknown",
    ),
    "ended and being deleted": (
        {"metadata": {"deletionTimestamp": ago(1)}, "status": {"phase": "Failed"}},
        "0/1",
        "Failed",
    ),
}


@pytest.mark.parametrize(("pod", "ready", "shown"), PODS.values(), ids=PODS)
def test_pod_status(pod: dict[str, Any], ready: str, shown: str) -> None:
    found = summary({"spec": {"containers": [{"name": "a"}]}, **pod})
    assert (f"{found.ready}/{found.total}", found.reason) == (ready, shown)


def test_a_pod_row_is_wide_and_tells_restarts() -> None:
    last = {"terminated": {"finishedAt": ago(300)}}
    pod = {
        "spec": {"containers": [{"name": "a"}], "nodeName": "n1", "readinessGates": [{"conditionType": "g"}]},
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "containerStatuses": [RUNNING | {"restartCount": 2, "lastState": last}],
        },
    }
    assert row("", "Pod", pod) == {
        "Name": "x",
        "Ready": "1/1",
        "Status": "Running",
        "Restarts": "2 (5m ago)",
        "Age": "90s",
        "IP": "10.0.0.1",
        "Node": "n1",
        "Nominated Node": "<none>",
        "Readiness Gates": "0/1",
    }


def test_a_finished_pod_is_marked_completed() -> None:
    made = table([{"status": {"phase": "Failed"}}], {}, printer_of("", "Pod"), now=NOW)
    assert made["rows"][0]["conditions"][0]["reason"] == "Failed"


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
    "a node nobody reported on": ("", "Node", {}, {"Status": "Unknown", "Roles": "<none>", "Age": "90s"}),
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
def test_row(group: str, kind: str, document: dict[str, Any], cells: dict[str, Any]) -> None:
    made = row(group, kind, document)
    assert {name: made[name] for name in cells} == cells


@pytest.mark.parametrize(("group", "kind"), BUILT_IN, ids=lambda part: part or "core")
@pytest.mark.parametrize(
    "junk", [{}, {"metadata": 1, "spec": [], "status": "?"}, {"spec": {"template": 5, "ports": [1]}}]
)
def test_strange_objects_still_print_every_column(group: str, kind: str, junk: dict[str, Any]) -> None:
    printer = printer_of(group, kind)
    assert len(printer.cells(junk, NOW)) == len(printer.columns)


# --- custom resources ----------------------------------------------------------------------------------------------

OBJECT = {
    "metadata": {"name": "r", "creationTimestamp": ago(10), "labels": {"a.b/c": "dotted"}},
    "spec": {"nodes": ["n1", "n2"], "size": 3.7, "on": True},
    "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}], "n": {"x": 1}},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.size", [3.7]),
        (".spec.nodes[0]", ["n1"]),
        (".spec.nodes[-1]", ["n2"]),
        (".spec.nodes[-1:]", ["n2"]),
        (".spec.nodes[9]", []),
        (".spec.nodes[*]", ["n1", "n2"]),
        (".metadata.labels['a.b/c']", ["dotted"]),
        (r".metadata.labels.a\.b/c", ["dotted"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type!='Ready')].status", ["False"]),
        (".spec.absent.deeper", []),
        (".spec.size.deeper", []),
    ],
)
def test_json_paths(path: str, found: list[Any]) -> None:
    assert compile_path(path)(OBJECT) == found


@pytest.mark.parametrize("path", ["spec", ".a[", ".a..b", ".a[?(@.b>1)]", ".a b"])
def test_paths_that_columns_may_not_use_are_refused(path: str) -> None:
    with pytest.raises(PathError):
        compile_path(path)


def test_custom_columns_follow_the_definition() -> None:
    columns = [
        {"name": "Nodes", "type": "string", "jsonPath": ".spec.nodes"},
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1},
        {"name": "On", "type": "boolean", "jsonPath": ".spec.on"},
        {"name": "Wrong", "type": "boolean", "jsonPath": ".spec.size"},
        {"name": "Broken", "type": "string", "jsonPath": ".a["},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    printer = custom_printer(columns)
    assert printer.cells(OBJECT, NOW) == ["r", '["n1","n2"]', 3, True, None, None, "10s"]
    assert [column.priority for column in printer.columns] == [0, 0, 1, 0, 0, 0, 0]


def test_without_columns_a_custom_resource_prints_name_and_age() -> None:
    assert custom_printer([]).cells(OBJECT, NOW) == ["r", "10s"]


@pytest.mark.parametrize(
    ("include", "embedded"),
    [("Metadata", "PartialObjectMetadata"), ("Object", "Pod"), ("None", None)],
)
def test_rows_embed_what_the_client_asks_for(include: Any, embedded: str | None) -> None:
    pod = {"kind": "Pod", "metadata": {"name": "p"}}
    made = table([pod], {"resourceVersion": "7"}, printer_of("", "Pod"), now=NOW, include=include)
    assert made["metadata"] == {"resourceVersion": "7"}
    assert made["rows"][0].get("object", {}).get("kind") == embedded
