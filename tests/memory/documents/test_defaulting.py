"""Defaults of the built-in kinds."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from restow.adapters.memory.documents.builtins import apply_defaults
from restow.adapters.memory.documents.pod_defaults import pull_policy
from restow.adapters.memory.documents.typed_documents import conform_to_kind
from restow.model.objects import Document

API = {"apps": "apps/v1", "batch": "batch/v1", "": "v1", "storage.k8s.io": "storage.k8s.io/v1"}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def defaulted(kind: str, group: str = "", **members: Any) -> Document:
    document = {"apiVersion": API.get(group, f"{group}/v1"), "kind": kind, "metadata": {"name": "x"}, **members}
    document = conform_to_kind(copy.deepcopy(document), group=group, kind=kind).document
    apply_defaults(document, group=group, kind=kind)
    return document


def pod(**spec: Any) -> Document:
    return defaulted("Pod", spec={"containers": [{"name": "c", "image": "i"}], **spec})["spec"]  # type: ignore[no-any-return]


def container(**members: Any) -> Document:
    return pod(containers=[{"name": "c", "image": "i", **members}])["containers"][0]  # type: ignore[no-any-return]


def test_pod_defaults_match_upstream() -> None:
    assert pod() == {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "resources": {},
                "imagePullPolicy": "Always",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
    }


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.25", "IfNotPresent"),
        ("registry:5000/nginx", "Always"),
        ("registry:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:abc", "IfNotPresent"),
        ("nginx:latest@sha256:abc", "Always"),
    ],
)
def test_image_pull_policy_defaults_by_tag(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"ports": [{"containerPort": 80}]}, {"ports": [{"containerPort": 80, "protocol": "TCP"}]}),
        ({"resources": {"limits": {"cpu": "1"}}}, {"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}),
        (
            {"resources": {"limits": {"cpu": "1"}, "requests": {"memory": "1"}}},
            {"resources": {"limits": {"cpu": "1"}, "requests": {"memory": "1", "cpu": "1"}}},
        ),
        (
            {"readinessProbe": {"httpGet": {"port": 80}}},
            {
                "readinessProbe": {
                    "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
                    "timeoutSeconds": 1,
                    "periodSeconds": 10,
                    "successThreshold": 1,
                    "failureThreshold": 3,
                }
            },
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]},
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x", "apiVersion": "v1"}}}]},
        ),
    ],
    ids=["port protocol", "requests from limits", "requests that are there stay", "probe", "field reference"],
)
def test_container_defaults(given: Document, expected: Document) -> None:
    result = container(**given)
    assert {name: result[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({}, {"emptyDir": {}}),
        ({"configMap": {"name": "x"}}, {"configMap": {"name": "x", "defaultMode": 420}}),
        ({"secret": {"secretName": "x"}}, {"secret": {"secretName": "x", "defaultMode": 420}}),
        ({"hostPath": {"path": "/"}}, {"hostPath": {"path": "/", "type": ""}}),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {
                "projected": {
                    "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
                    "defaultMode": 420,
                }
            },
        ),
    ],
    ids=["nothing", "configMap", "secret", "hostPath", "projected"],
)
def test_volume_defaults(volume: Document, expected: Document) -> None:
    assert pod(volumes=[{"name": "v", **volume}])["volumes"] == [{"name": "v", **expected}]


def test_negative_grace_period_becomes_one_second() -> None:
    assert pod(terminationGracePeriodSeconds=-5)["terminationGracePeriodSeconds"] == 1


def test_host_network_ports_are_host_ports_in_pods_but_not_in_templates() -> None:
    containers = [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]
    assert pod(hostNetwork=True, containers=containers)["containers"][0]["ports"][0]["hostPort"] == 80
    template = {"spec": {"hostNetwork": True, "containers": containers}}
    spec = defaulted("ReplicaSet", "apps", spec={"template": template})["spec"]["template"]["spec"]
    assert "hostPort" not in spec["containers"][0]["ports"][0]


WORKLOADS = [
    (
        "apps",
        "Deployment",
        {
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
        },
    ),
    ("apps", "ReplicaSet", {"replicas": 1}),
    (
        "apps",
        "StatefulSet",
        {
            "replicas": 1,
            "podManagementPolicy": "OrderedReady",
            "revisionHistoryLimit": 10,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        },
    ),
    (
        "apps",
        "DaemonSet",
        {
            "revisionHistoryLimit": 10,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        },
    ),
    (
        "batch",
        "Job",
        {
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": 6,
            "completionMode": "NonIndexed",
            "suspend": False,
            "podReplacementPolicy": "TerminatingOrFailed",
            "manualSelector": False,
        },
    ),
]


@pytest.mark.parametrize(("group", "kind", "expected"), WORKLOADS, ids=[row[1] for row in WORKLOADS])
def test_workloads_and_their_templates(group: str, kind: str, expected: Document) -> None:
    spec = defaulted(kind, group, spec={"template": TEMPLATE})["spec"]
    assert {name: spec[name] for name in expected} == expected
    assert spec["template"]["spec"]["schedulerName"] == "default-scheduler"
    assert "serviceAccountName" not in spec["template"]["spec"]
    assert "enableServiceLinks" not in spec["template"]["spec"]


def test_a_recreate_strategy_gets_no_numbers() -> None:
    assert defaulted("Deployment", "apps", spec={"strategy": {"type": "Recreate"}})["spec"]["strategy"] == {
        "type": "Recreate"
    }


def test_a_job_with_parallelism_has_no_completions() -> None:
    assert "completions" not in defaulted("Job", "batch", spec={"parallelism": 3})["spec"]


def test_a_job_selects_its_pods_by_uid() -> None:
    job = defaulted("Job", "batch", metadata={"name": "j", "uid": "u"}, spec={"template": TEMPLATE})
    assert job["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert labels["batch.kubernetes.io/job-name"] == labels["job-name"] == "j"
    assert job["metadata"]["labels"] == labels


OTHERS = [
    (
        "",
        "Service",
        {"spec": {"ports": [{"port": 80}]}},
        lambda d: (d["spec"]["type"], d["spec"]["ports"][0]),
        ("ClusterIP", {"port": 80, "protocol": "TCP", "targetPort": 80}),
    ),
    (
        "",
        "PersistentVolumeClaim",
        {"spec": {}},
        lambda d: (d["spec"]["volumeMode"], d["status"]["phase"]),
        ("Filesystem", "Pending"),
    ),
    (
        "",
        "PersistentVolume",
        {"spec": {}},
        lambda d: (d["spec"]["persistentVolumeReclaimPolicy"], d["spec"]["volumeMode"]),
        ("Retain", "Filesystem"),
    ),
    (
        "storage.k8s.io",
        "StorageClass",
        {"provisioner": "p"},
        lambda d: (d["reclaimPolicy"], d["volumeBindingMode"]),
        ("Delete", "Immediate"),
    ),
    ("scheduling.k8s.io", "PriorityClass", {"value": 1}, lambda d: d["preemptionPolicy"], "PreemptLowerPriority"),
    ("", "Node", {"status": {"capacity": {"cpu": "1"}}}, lambda d: d["status"]["allocatable"], {"cpu": "1"}),
    (
        "",
        "Namespace",
        {},
        lambda d: (d["metadata"]["labels"], d["status"]),
        ({"kubernetes.io/metadata.name": "x"}, {"phase": "Active"}),
    ),
    ("", "Secret", {}, lambda d: d["type"], "Opaque"),
    (
        "rbac.authorization.k8s.io",
        "RoleBinding",
        {"roleRef": {"kind": "Role", "name": "r"}},
        lambda d: d["roleRef"]["apiGroup"],
        "rbac.authorization.k8s.io",
    ),
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        {"spec": {"names": {"kind": "Foo"}}},
        lambda d: d["spec"]["names"],
        {"plural": "", "kind": "Foo", "singular": "foo", "listKind": "FooList"},
    ),
    (
        "batch",
        "CronJob",
        {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}}},
        lambda d: (d["spec"]["concurrencyPolicy"], "backoffLimit" in d["spec"]["jobTemplate"]["spec"]),
        ("Allow", False),
    ),
]


@pytest.mark.parametrize(("group", "kind", "members", "look", "expected"), OTHERS, ids=[row[1] for row in OTHERS])
def test_defaults_of_other_kinds(group: str, kind: str, members: Document, look: Any, expected: Any) -> None:
    assert look(defaulted(kind, group, **members)) == expected


ALL = [("", "Pod", {"spec": TEMPLATE["spec"]}), *((g, k, {"spec": {"template": TEMPLATE}}) for g, k, _ in WORKLOADS)]
ALL += [(group, kind, members) for group, kind, members, _, _ in OTHERS]


@pytest.mark.parametrize(("group", "kind", "members"), ALL, ids=[row[1] for row in ALL])
def test_a_second_pass_changes_nothing(group: str, kind: str, members: Document) -> None:
    once = defaulted(kind, group, **members)
    twice = copy.deepcopy(once)
    apply_defaults(twice, group=group, kind=kind)
    assert twice == once
    assert conform_to_kind(once, group=group, kind=kind).unknown == []
