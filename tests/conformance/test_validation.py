"""Mistakes people make in built-in kinds, and fields that cannot change."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model.objects import Document
from restow.ports import MERGE_PATCH, ApiError, Invalid
from tests.conformance.documents import budget, container, deployment, lease, pod, workload
from tests.conformance.server import Server


def causes(error: ApiError) -> dict[str, str]:
    """The messages for each field, one per line."""
    details = error.status.details
    messages: dict[str, str] = {}
    for cause in (details.causes if details else None) or []:
        messages[cause.field or ""] = f"{messages.get(cause.field or '', '')}{cause.message}\n"
    return messages


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
POD_MISTAKES: dict[str, tuple[Document, dict[str, str]]] = {
    "no containers": ({"containers": []}, {"spec.containers": "Required value"}),
    "twice the same container": (
        {"containers": [container(), container()]},
        {"spec.containers[1].name": 'Duplicate value: "main"'},
    ),
    "no image": ({"containers": [{"name": "main"}]}, {"spec.containers[0].image": "Required value"}),
    "a container name in upper case": (
        {"containers": [container("Main")]},
        {"spec.containers[0].name": 'Invalid value: "Main": '},
    ),
    "requests above limits": (
        {"containers": [container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})]},
        {"spec.containers[0].resources.requests": 'Invalid value: "2": '},
    ),
    "a negative request": (
        {"containers": [container(resources={"requests": {"cpu": "-1"}})]},
        {"spec.containers[0].resources.requests[cpu]": 'Invalid value: "-1": '},
    ),
    "half a GPU": (
        {"containers": [container(resources={"limits": {"example.com/gpu": "0.5"}})]},
        {"spec.containers[0].resources.limits[example.com/gpu]": "Invalid value: "},
    ),
    "a GPU requested without a limit": (
        {"containers": [container(resources={"requests": {"example.com/gpu": "1"}})]},
        {"spec.containers[0].resources.limits": "Required value"},
    ),
    "an unqualified resource": (
        {"containers": [container(resources={"requests": {"gpu": "1"}})]},
        {"spec.containers[0].resources.requests[gpu]": "Invalid value: "},
    ),
    "a restart policy": (
        {"restartPolicy": "Perhaps"},
        {"spec.restartPolicy": 'Unsupported value: "Perhaps": supported values: "Always", "OnFailure", "Never"'},
    ),
    "a toleration without a key": (
        {"tolerations": [{"operator": "Equal", "value": "x"}]},
        {"spec.tolerations[0].operator": "Invalid value: "},
    ),
    "an unknown toleration": (
        {"tolerations": [{"key": "a", "operator": "Like"}]},
        {"spec.tolerations[0].operator": 'Unsupported value: "Like"'},
    ),
    "an unknown volume": (
        {"containers": [container(volumeMounts=[{"name": "v", "mountPath": "/v"}])]},
        {"spec.containers[0].volumeMounts[0].name": 'Not found: "v"'},
    ),
    "an affinity operator": (
        {
            "affinity": {
                "nodeAffinity": {
                    REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Like"}]}]}
                }
            }
        },
        {
            f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].operator": (
                'Invalid value: "Like": '
            )
        },
    ),
    "a spread of nothing": (
        {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Perhaps"}]},
        {
            "spec.topologySpreadConstraints[0].maxSkew": "Invalid value: 0: ",
            "spec.topologySpreadConstraints[0].topologyKey": "Required value",
            "spec.topologySpreadConstraints[0].whenUnsatisfiable": "Unsupported value",
        },
    ),
    "anti-affinity without a topology key": (
        {"affinity": {"podAntiAffinity": {REQUIRED: [{"labelSelector": {}}]}}},
        {f"spec.affinity.podAntiAffinity.{REQUIRED}[0].topologyKey": "Required value"},
    ),
    "a node selector that is no label": (
        {"nodeSelector": {"a": "not a label"}},
        {"spec.nodeSelector": "Invalid value: "},
    ),
    "a port beyond all ports": (
        {"containers": [container(ports=[{"containerPort": 70000}])]},
        {"spec.containers[0].ports[0].containerPort": "Invalid value: 70000: "},
    ),
    "the same host port twice": (
        {"containers": [container(ports=[{"containerPort": 1, "hostPort": 1}, {"containerPort": 2, "hostPort": 1}])]},
        {"spec.containers[0].ports[1].hostPort": "Duplicate value"},
    ),
}


@pytest.mark.parametrize("mistake", POD_MISTAKES)
async def test_pod_mistakes_are_refused(server: Server, mistake: str) -> None:
    spec, expected = POD_MISTAKES[mistake]
    with pytest.raises(Invalid) as refused:
        await server.create("pods", pod("a", spec=spec))
    assert refused.value.status.code == 422
    messages = causes(refused.value)
    assert set(expected) <= set(messages)
    assert all(words in messages[path] for path, words in expected.items())


@pytest.mark.parametrize("quantity", ["2c", "1 Gi", "", "abc", "1.5.5"])
async def test_a_quantity_that_is_none_is_refused(server: Server, quantity: str) -> None:
    spec = {"containers": [container(resources={"requests": {"cpu": quantity}})]}
    with pytest.raises(Invalid, match="quantit") as refused:
        await server.create("pods", pod("a", spec=spec))
    assert (refused.value.status.code, refused.value.status.reason) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("meta", "path", "verdict"),
    [
        ({"labels": {"a": "not a label"}}, "metadata.labels", 'Invalid value: "not a label": '),
        ({"labels": {"a/b/c": "x"}}, "metadata.labels", 'Invalid value: "a/b/c": '),
        ({"annotations": {"A b": "x"}}, "metadata.annotations", 'Invalid value: "A b": '),
        ({"ownerReferences": [{"kind": "Pod", "name": "x"}]}, "metadata.ownerReferences.apiVersion", "Invalid value: "),
    ],
    ids=["label value", "label key", "annotation key", "owner"],
)
async def test_metadata_mistakes_are_refused(server: Server, meta: Any, path: str, verdict: str) -> None:
    with pytest.raises(Invalid) as refused:
        await server.create("pods", pod("a", **meta))
    messages = causes(refused.value)
    assert path in messages
    assert verdict in messages[path]


async def test_a_selector_must_match_the_template(server: Server) -> None:
    document = deployment("web", spec={"selector": {"matchLabels": {"app": "other"}}})
    with pytest.raises(Invalid) as refused:
        await server.create("deployments", document)
    assert "`selector` does not match template `labels`" in causes(refused.value)["spec.template.metadata.labels"]


async def test_a_deployment_needs_a_selector(server: Server) -> None:
    document = deployment("web")
    del document["spec"]["selector"]
    with pytest.raises(Invalid) as refused:
        await server.create("deployments", document)
    assert "spec.selector" in causes(refused.value)


async def test_a_template_must_restart_always(server: Server) -> None:
    document = deployment("web")
    document["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    with pytest.raises(Invalid) as refused:
        await server.create("deployments", document)
    assert 'supported values: "Always"' in causes(refused.value)["spec.template.spec.restartPolicy"]


async def test_a_template_is_checked_with_its_own_paths(server: Server) -> None:
    document = deployment("web")
    document["spec"]["template"]["spec"]["containers"][0]["name"] = "Main"
    with pytest.raises(Invalid) as refused:
        await server.create("deployments", document)
    assert "spec.template.spec.containers[0].name" in causes(refused.value)


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"minAvailable": 1, "maxUnavailable": 1}, "spec"),
        ({"minAvailable": -1}, "spec.minAvailable"),
        ({"maxUnavailable": "150%"}, "spec.maxUnavailable"),
        ({"maxUnavailable": "half"}, "spec.maxUnavailable"),
    ],
    ids=["both", "negative", "more than all", "a word"],
)
async def test_budget_mistakes_are_refused(server: Server, spec: Document, path: str) -> None:
    with pytest.raises(Invalid) as refused:
        await server.create("poddisruptionbudgets", budget("keep", {"app": "web"}, **spec))
    assert path in causes(refused.value)


@pytest.mark.parametrize(
    ("spec", "path"),
    [({"leaseDurationSeconds": 0}, "spec.leaseDurationSeconds"), ({"leaseTransitions": -1}, "spec.leaseTransitions")],
    ids=["duration", "transitions"],
)
async def test_lease_mistakes_are_refused(server: Server, spec: Any, path: str) -> None:
    with pytest.raises(Invalid) as refused:
        await server.create("leases", lease("lock", **spec))
    assert path in causes(refused.value)


async def test_bad_node_taint_is_refused(server: Server) -> None:
    taints = [{"key": "a", "effect": "Perhaps"}]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "x"}, "spec": {"taints": taints}}
    with pytest.raises(Invalid) as refused:
        await server.create("nodes", node)
    assert "Unsupported value" in causes(refused.value)["metadata.taints[0].effect"]  # sic


@pytest.mark.parametrize(
    "change",
    [
        {"nodeName": "elsewhere"},
        {"schedulerName": "another"},
        {"containers": [container(resources={"requests": {"cpu": "1"}})]},
        {"priority": 5},
        {"serviceAccountName": "another"},
    ],
    ids=["node", "scheduler", "resources", "priority", "service account"],
)
async def test_most_of_a_pod_cannot_change(server: Server, change: Document) -> None:
    await server.create("pods", pod("a"))
    with pytest.raises(Invalid, match="pod updates may not change fields other than") as refused:
        await server.patch("pods", "a", MERGE_PATCH, {"spec": change})
    assert refused.value.status.code == 422


async def test_image_deadline_and_tolerations_of_a_pod_can_change(server: Server) -> None:
    created = await server.create("pods", pod("a"))
    change = {
        "containers": [{**created["spec"]["containers"][0], "image": "registry.invalid/app:2"}],
        "activeDeadlineSeconds": 60,
        "tolerations": [*created["spec"]["tolerations"], {"key": "x", "operator": "Exists"}],
    }
    patched = await server.patch("pods", "a", MERGE_PATCH, {"spec": change})
    assert patched["spec"]["containers"][0]["image"] == "registry.invalid/app:2"
    assert patched["spec"]["activeDeadlineSeconds"] == 60
    assert patched["metadata"]["generation"] == 2


async def test_scheduling_gates_can_be_removed_but_not_added(server: Server) -> None:
    gates = [{"name": "example.com/a"}, {"name": "example.com/b"}]
    await server.create("pods", pod("a", spec={"schedulingGates": gates}))
    patched = await server.patch("pods", "a", MERGE_PATCH, {"spec": {"schedulingGates": gates[1:]}})
    assert patched["spec"]["schedulingGates"] == gates[1:]
    with pytest.raises(Invalid, match="schedulingGates"):
        await server.patch("pods", "a", MERGE_PATCH, {"spec": {"schedulingGates": gates}})


@pytest.mark.parametrize(
    ("plural", "kind", "change", "path"),
    [
        ("deployments", "Deployment", {"selector": {"matchLabels": {"app": "x"}}}, "spec.selector"),
        ("replicasets", "ReplicaSet", {"selector": {"matchLabels": {"app": "x"}}}, "spec.selector"),
        ("statefulsets", "StatefulSet", {"serviceName": "other"}, "spec"),
        ("statefulsets", "StatefulSet", {"podManagementPolicy": "Parallel"}, "spec"),
    ],
    ids=["deployment selector", "replica set selector", "service name", "pod management"],
)
async def test_immutable_workload_fields_are_refused(
    server: Server, plural: str, kind: str, change: Document, path: str
) -> None:
    await server.create(plural, workload(kind, "web"))
    with pytest.raises(Invalid) as refused:
        await server.patch(plural, "web", MERGE_PATCH, {"spec": change})
    assert path in causes(refused.value)


@pytest.mark.parametrize("field", ["uid", "creationTimestamp", "name", "namespace"])
async def test_name_and_uid_are_immutable(server: Server, field: str) -> None:
    await server.create("pods", pod("a"))
    value = "2001-01-01T00:00:00Z" if field == "creationTimestamp" else "another"
    try:
        patched = await server.patch("pods", "a", MERGE_PATCH, {"metadata": {field: value}})
    except ApiError as refused:
        assert refused.status.code in (400, 409, 422)
    else:
        assert patched["metadata"][field] != value


async def test_an_immutable_map_cannot_change(server: Server) -> None:
    await server.create("configmaps", {"metadata": {"name": "a"}, "data": {"x": "1"}, "immutable": True})
    with pytest.raises(Invalid, match="field is immutable when `immutable` is set"):
        await server.patch("configmaps", "a", MERGE_PATCH, {"data": {"x": "2"}})
    with pytest.raises(Invalid, match="field is immutable when `immutable` is set"):
        await server.patch("configmaps", "a", MERGE_PATCH, {"immutable": False})


async def test_a_priority_value_cannot_change(server: Server) -> None:
    document = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 5}
    name = f"p-{server.namespace}"
    await server.create("priorityclasses", {**document, "metadata": {"name": name}})
    with pytest.raises(Invalid, match="value: Forbidden: may not be changed in an update"):
        await server.patch("priorityclasses", name, MERGE_PATCH, {"value": 6})
    await server.delete("priorityclasses", name)


async def test_stateful_set_may_mount_its_claim_templates(server: Server) -> None:
    document = workload("StatefulSet", "db")
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    document["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
    document["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    assert (await server.create("statefulsets", document))["metadata"]["name"] == "db"
