"""What the server fills in by itself: defaults and the admission plugins that every cluster runs."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from restow.model.objects import Document
from restow.ports import Forbidden
from tests.conformance.documents import container, deployment, pod, workload
from tests.conformance.server import Server

NOT_READY = {
    "key": "node.kubernetes.io/not-ready",
    "operator": "Exists",
    "effect": "NoExecute",
    "tolerationSeconds": 300,
}
UNREACHABLE = {**NOT_READY, "key": "node.kubernetes.io/unreachable"}


async def test_pod_spec_defaults(server: Server) -> None:
    spec = (await server.create("pods", pod("a")))["spec"]
    without_account = {key: value for key, value in spec.items() if not key.startswith("serviceAccount")}
    assert without_account == {
        "containers": [
            {
                "name": "main",
                "image": "registry.invalid/app:1",
                "imagePullPolicy": "IfNotPresent",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": "Always",
        "schedulerName": "restow-conformance",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
        "tolerations": [NOT_READY, UNREACHABLE],
    }


async def test_pod_status_defaults(server: Server) -> None:
    created = await server.create("pods", pod("a"))
    assert created["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert created["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"requests": {"cpu": "0"}}, "BestEffort"),
        ({"requests": {"ephemeral-storage": "1Gi"}}, "BestEffort"),
    ],
    ids=["nothing", "requests", "limits", "one limit", "zero", "no compute"],
)
async def test_qos_class_of_a_pod(server: Server, resources: Document, expected: str) -> None:
    created = await server.create("pods", pod("a", spec={"containers": [container(resources=resources)]}))
    assert created["status"]["qosClass"] == expected


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("app", "Always"),
        ("app:latest", "Always"),
        ("app:1", "IfNotPresent"),
        (f"app@sha256:{64 * 'a'}", "IfNotPresent"),
    ],
    ids=["no tag", "latest", "a tag", "a digest"],
)
async def test_the_pull_policy_follows_the_image(server: Server, image: str, policy: str) -> None:
    created = await server.create("pods", pod("a", spec={"containers": [{"name": "main", "image": image}]}))
    assert created["spec"]["containers"][0]["imagePullPolicy"] == policy


async def test_limits_are_requests_where_there_are_none(server: Server) -> None:
    resources = {"limits": {"cpu": "500m", "memory": "1Gi", "example.com/gpu": "1"}, "requests": {"cpu": "100m"}}
    created = await server.create("pods", pod("a", spec={"containers": [container(resources=resources)]}))
    requests = created["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "100m", "memory": "1Gi", "example.com/gpu": "1"}


@pytest.mark.parametrize(
    ("written", "stored"),
    [("1000m", "1"), ("0.5", "500m"), ("1.5", "1500m"), (2, "2"), ("1e3", "1e3"), ("0.0001", "1m")],
    ids=str,
)
async def test_quantities_are_stored_in_canonical_form(server: Server, written: Any, stored: str) -> None:
    resources = {"requests": {"cpu": written}}
    created = await server.create("pods", pod("a", spec={"containers": [container(resources=resources)]}))
    assert created["spec"]["containers"][0]["resources"]["requests"] == {"cpu": stored}


async def test_probe_and_port_defaults(server: Server) -> None:
    main = container(ports=[{"containerPort": 80}], livenessProbe={"httpGet": {"port": 80}})
    created = await server.create("pods", pod("a", spec={"containers": [main]}))
    (stored,) = created["spec"]["containers"]
    assert stored["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert stored["livenessProbe"] == {
        "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


async def test_volume_source_defaults(server: Server) -> None:
    volumes = [
        {"name": "a"},
        {"name": "b", "configMap": {"name": "x"}},
        {"name": "c", "secret": {"secretName": "x"}},
        {"name": "d", "hostPath": {"path": "/x"}},
    ]
    created = await server.create("pods", pod("a", spec={"volumes": volumes}))
    assert created["spec"]["volumes"] == [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "configMap": {"name": "x", "defaultMode": 420}},
        {"name": "c", "secret": {"secretName": "x", "defaultMode": 420}},
        {"name": "d", "hostPath": {"path": "/x", "type": ""}},
    ]


async def test_spread_constraints_are_not_changed(server: Server) -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    created = await server.create("pods", pod("a", spec={"topologySpreadConstraints": [constraint]}))
    assert created["spec"]["topologySpreadConstraints"] == [constraint]


async def test_a_host_network_pod_exposes_its_ports(server: Server) -> None:
    main = container(ports=[{"containerPort": 80}])
    created = await server.create("pods", pod("a", spec={"hostNetwork": True, "containers": [main]}))
    assert created["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]


async def test_deployment_defaults(server: Server) -> None:
    created = await server.create("deployments", deployment("web"))
    spec = dict(created["spec"])
    template = spec.pop("template")
    assert spec == {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "web"}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
    }
    assert template["spec"]["terminationGracePeriodSeconds"] == 30
    assert "tolerations" not in template["spec"]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet"])
async def test_replicas_default_to_one(server: Server, kind: str) -> None:
    document = workload(kind, "web")
    del document["spec"]["replicas"]
    created = await server.create(f"{kind.lower()}s", document, dryRun="All")
    assert created["spec"]["replicas"] == 1


async def test_stateful_set_defaults(server: Server) -> None:
    spec = dict((await server.create("statefulsets", workload("StatefulSet", "db")))["spec"])
    del spec["template"]
    assert spec == {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "db"}},
        "serviceName": "db",
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "revisionHistoryLimit": 10,
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    }


async def test_daemon_set_defaults(server: Server) -> None:
    spec = dict((await server.create("daemonsets", workload("DaemonSet", "agent"), dryRun="All"))["spec"])
    del spec["template"]
    assert spec == {
        "selector": {"matchLabels": {"app": "agent"}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "revisionHistoryLimit": 10,
    }


async def test_job_gets_its_selector(server: Server) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [container()]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}
    created = await server.create("jobs", {**job, "spec": {"template": template, "suspend": True}})
    uid = created["metadata"]["uid"]
    spec = created["spec"]
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert (spec["completions"], spec["parallelism"], spec["backoffLimit"]) == (1, 1, 6)
    assert spec["completionMode"] == "NonIndexed"
    labels = spec["template"]["metadata"]["labels"]
    assert labels["batch.kubernetes.io/job-name"] == labels["job-name"] == "j"


@pytest.fixture
async def important(server: Server) -> Any:
    """A priority class of this test alone."""
    name = f"important-{uuid.uuid4().hex[:8]}"
    await server.create(
        "priorityclasses",
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": 1000,
            "preemptionPolicy": "Never",
        },
    )
    yield name
    await server.delete("priorityclasses", name)


async def test_a_priority_class_becomes_a_number(server: Server, important: str) -> None:
    created = await server.create("pods", pod("a", spec={"priorityClassName": important}))
    assert created["spec"]["priority"] == 1000
    assert created["spec"]["preemptionPolicy"] == "Never"


@pytest.mark.parametrize(
    ("name", "priority"), [("system-cluster-critical", 2000000000), ("system-node-critical", 2000001000)]
)
async def test_the_system_classes_are_always_there(server: Server, name: str, priority: int) -> None:
    created = await server.create("pods", pod("a", spec={"priorityClassName": name}))
    assert created["spec"]["priority"] == priority


async def test_an_unknown_priority_class_is_forbidden(server: Server) -> None:
    with pytest.raises(Forbidden, match="no PriorityClass with name missing was found") as refused:
        await server.create("pods", pod("a", spec={"priorityClassName": "missing"}))
    assert refused.value.status.message.startswith('pods "a" is forbidden: ')


async def test_priority_without_its_class_is_forbidden(server: Server) -> None:
    with pytest.raises(Forbidden, match=r"the integer value of priority .* must not be provided in pod spec"):
        await server.create("pods", pod("a", spec={"priority": 7}))


async def test_a_lease_keeps_microseconds(server: Server) -> None:
    document = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "lock"},
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.123456Z"},
    }
    created = await server.create("leases", document)
    assert created["spec"] == document["spec"]


async def test_an_event_of_each_group_is_the_same_event(server: Server) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "a", "namespace": server.namespace},
        "reason": "Because",
        "message": "it was so",
        "type": "Normal",
        "firstTimestamp": "2026-01-01T00:00:00Z",
    }
    await server.create("events", document)
    modern = await server.get("events.events.k8s.io", "e")
    assert modern["apiVersion"] == "events.k8s.io/v1"
    assert modern["regarding"]["name"] == "a"
    assert modern["note"] == "it was so"
    assert await server.names("events", fieldSelector="involvedObject.name=a,reason=Because") == ["e"]
    assert await server.names("events", fieldSelector="involvedObject.name=b") == []


async def test_a_node_is_registered_with_its_own_name(server: Server) -> None:
    name = f"node-{uuid.uuid4().hex[:8]}"
    document: Document = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": {"unschedulable": True},
        "status": {"capacity": {"cpu": "8", "memory": "32Gi"}},
    }
    created = await server.create("nodes", document)
    assert created["status"]["capacity"] == {"cpu": "8", "memory": "32Gi"}
    assert created["status"]["allocatable"] == {"cpu": "8", "memory": "32Gi"}
    await server.delete("nodes", name)
