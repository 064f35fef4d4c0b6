"""What the server does to pods besides storing them: admission, binding, scale and reviews of what runs them."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model.objects import Document
from restow.ports import MERGE_PATCH, Conflict, Forbidden, Invalid, NotFound, Resource
from tests.memory.cluster import WIDGETS, Cluster, definition, deployment, pod, widget

AMOUNTS = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": AMOUNTS, "requests": AMOUNTS}, "Guaranteed"),
        ({"limits": AMOUNTS}, "Guaranteed"),
    ],
    ids=["nothing asked", "some asked", "all limited", "limits are requests by default"],
)
async def test_a_new_pod_is_pending_with_its_class(cluster: Cluster, resources: Document, expected: str) -> None:
    body = pod(spec={"containers": [{"name": "main", "image": "img", "resources": resources}]})
    created = await cluster.create("pods", {**body, "status": {"phase": "Running"}})
    assert (created["status"]["phase"], created["status"]["qosClass"]) == ("Pending", expected)


async def test_pods_tolerate_a_lost_node_for_five_minutes(cluster: Cluster) -> None:
    tolerations = (await cluster.create("pods", pod()))["spec"]["tolerations"]
    assert [(each["key"], each["tolerationSeconds"]) for each in tolerations] == [
        ("node.kubernetes.io/not-ready", 300),
        ("node.kubernetes.io/unreachable", 300),
    ]
    everything = [{"operator": "Exists"}]
    created = await cluster.create("pods", pod("b", spec={"tolerations": everything}))
    assert created["spec"]["tolerations"] == everything


def priority_class(name: str, value: int, **more: Any) -> Document:
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    return {**head, "value": value, **more}


@pytest.mark.parametrize(
    ("spec", "priority"),
    [({}, 5), ({"priorityClassName": "high"}, 9), ({"priorityClassName": "high", "priority": 9}, 9)],
    ids=["the global default", "its class", "its class, said twice"],
)
async def test_priority_comes_from_the_class(cluster: Cluster, spec: Document, priority: int) -> None:
    await cluster.create("priorityclasses", priority_class("usual", 5, globalDefault=True))
    await cluster.create("priorityclasses", priority_class("high", 9, preemptionPolicy="Never"))
    created = (await cluster.create("pods", pod(spec=spec)))["spec"]
    assert created["priority"] == priority
    assert created["preemptionPolicy"] == ("Never" if spec else "PreemptLowerPriority")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
        ({"priority": 7}, "must not be provided in pod spec"),
    ],
    ids=["no such class", "a number of its own"],
)
async def test_a_priority_out_of_thin_air_is_forbidden(cluster: Cluster, spec: Document, words: str) -> None:
    with pytest.raises(Forbidden, match=words):
        await cluster.create("pods", pod(spec=spec))


async def test_single_default_storage_class_is_used(cluster: Cluster) -> None:
    await cluster.create("priorityclasses", priority_class("usual", 5, globalDefault=True))
    with pytest.raises(Forbidden, match="PriorityClass usual is already marked as default"):
        await cluster.create("priorityclasses", priority_class("another", 6, globalDefault=True))


async def test_pod_update_keeps_fields_set_by_admission(cluster: Cluster) -> None:
    created = await cluster.create("pods", pod())
    replaced = await cluster.call("replace", "pods", "a", pod())
    assert replaced["spec"] == created["spec"]


async def test_a_claim_gets_the_default_class(cluster: Cluster) -> None:
    marked = {"storageclass.kubernetes.io/is-default-class": "true"}
    for name, marks in (("slow", {}), ("fast", marked)):
        head = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "example.com/x"}
        await cluster.create("storageclasses", {**head, "metadata": {"name": name, "annotations": marks}})
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": spec}
    created = await cluster.create("persistentvolumeclaims", body)
    assert (created["spec"]["storageClassName"], created["status"]["phase"]) == ("fast", "Pending")


async def bind(cluster: Cluster, binding: Document, **options: Any) -> Document:
    return await cluster.call("create", "pods", "a", binding, sub="binding", **options)


async def test_binding_is_a_single_write(cluster: Cluster) -> None:
    created = await cluster.create("pods", pod(annotations={"kept": "1"}))
    await cluster.set_status("pods", "a", {"phase": "Pending", "nominatedNodeName": "n0"})
    version = cluster.api.version
    metadata = {"name": "a", "uid": created["metadata"]["uid"], "annotations": {"seat": "x"}, "labels": {"zone": "z"}}
    answer = await bind(cluster, {"metadata": metadata, "target": {"kind": "Node", "name": "n1"}})
    bound = await cluster.get("pods", "a")
    assert (answer["status"], cluster.api.version) == ("Success", version + 1)
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"kept": "1", "seat": "x"}
    assert bound["metadata"]["labels"] == {"zone": "z"}
    assert "nominatedNodeName" not in bound["status"]
    assert [(each["type"], each["status"]) for each in bound["status"]["conditions"]] == [("PodScheduled", "True")]


@pytest.mark.parametrize(
    ("binding", "error", "words"),
    [
        ({"metadata": {"name": "b"}, "target": {"name": "n1"}}, Invalid, "name in URL does not match"),
        ({"metadata": {"name": "a"}}, Invalid, "target.name: Required value"),
        ({"metadata": {"name": "a"}, "target": {"kind": "Pod", "name": "x"}}, Invalid, "target.kind: Unsupported"),
        ({"metadata": {"name": "a", "uid": "x"}, "target": {"name": "n1"}}, Conflict, "UID in precondition: x"),
    ],
    ids=["another name", "no target", "not a node", "another pod"],
)
async def test_bad_binding_is_refused(cluster: Cluster, binding: Document, error: Any, words: str) -> None:
    await cluster.create("pods", pod())
    with pytest.raises(error, match=words):
        await bind(cluster, binding)


async def test_pod_cannot_be_bound_twice(cluster: Cluster) -> None:
    await cluster.create("pods", pod())
    await cluster.bind("a", "n1")
    with pytest.raises(Conflict, match='on pods/binding "a": pod a is already assigned to node "n1"'):
        await cluster.bind("a", "n2")


async def test_the_old_binding_resource_binds_too(cluster: Cluster) -> None:
    await cluster.create("pods", pod())
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"name": "n1"}}
    await cluster.create("bindings", body)
    assert (await cluster.get("pods", "a"))["spec"]["nodeName"] == "n1"


async def test_scale_reads_and_writes_replicas(cluster: Cluster) -> None:
    await cluster.create("deployments", deployment())
    scale = await cluster.get("deployments", "d", sub="scale")
    assert (scale["apiVersion"], scale["kind"]) == ("autoscaling/v1", "Scale")
    assert (scale["spec"], scale["status"]) == ({"replicas": 1}, {"replicas": 0, "selector": "app=d"})
    scale["spec"]["replicas"] = 3
    await cluster.call("replace", "deployments", "d", scale, sub="scale")
    assert (await cluster.get("deployments", "d"))["spec"]["replicas"] == 3
    with pytest.raises(Conflict):
        await cluster.call("replace", "deployments", "d", scale, sub="scale")
    change = {"spec": {"replicas": 0}}
    patched = await cluster.call("patch", "deployments", "d", change, sub="scale", content_type=MERGE_PATCH)
    assert patched["spec"] == {}


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"spec": {"replicas": -1}}, 422, r"spec.replicas: Invalid value: -1"),
        ({"spec": {"replicas": "two"}}, 400, "spec.replicas: json: cannot unmarshal string"),
        ({"kind": "Deployment"}, 400, "takes an autoscaling/v1 Scale"),
    ],
)
async def test_bad_scale_is_refused(cluster: Cluster, change: Document, code: int, words: str) -> None:
    await cluster.create("deployments", deployment())
    with pytest.raises(Invalid, match=words) as refused:
        await cluster.call("patch", "deployments", "d", change, sub="scale", content_type=MERGE_PATCH)
    assert refused.value.status.code == code


async def test_custom_resources_scale_by_their_own_paths(cluster: Cluster) -> None:
    paths = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.s"}
    await cluster.create("customresourcedefinitions", definition(subresources={"scale": paths}))
    await cluster.create(WIDGETS, widget(spec={"size": 2}, status={"size": 1, "s": "a=b"}))
    scale = await cluster.get(WIDGETS, "w", sub="scale")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "a=b"})
    change = {"spec": {"replicas": 4}}
    await cluster.call("patch", WIDGETS, "w", change, sub="scale", content_type=MERGE_PATCH)
    assert (await cluster.get(WIDGETS, "w"))["spec"] == {"size": 4}


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ("selfsubjectaccessreviews", {"allowed": True}),
        ("subjectaccessreviews", {"allowed": True}),
    ],
)
async def test_access_review_allows_everything(cluster: Cluster, resource: str, expected: Document) -> None:
    assert (await cluster.create(resource, {"spec": {}}))["status"] == expected


async def test_self_subject_review_names_the_user(cluster: Cluster) -> None:
    answer = await cluster.create("selfsubjectreviews", {})
    assert "system:masters" in answer["status"]["userInfo"]["groups"]


async def test_service_account_token_expires(cluster: Cluster) -> None:
    accounts = Resource("", "v1", "serviceaccounts")
    await cluster.create(accounts, {"metadata": {"name": "robot"}})
    made = await cluster.call("create", accounts, "robot", {"spec": {"expirationSeconds": 600}}, sub="token")
    asked = {"spec": {"token": made["status"]["token"]}}
    for seconds, authenticated in ((599, True), (1, False)):
        cluster.clock.seconds += seconds
        assert (await cluster.create("tokenreviews", asked))["status"]["authenticated"] is authenticated


METRICS = Resource("metrics.k8s.io", "v1beta1", "pods")


async def test_metrics_come_from_the_injected_source() -> None:
    measured = [{"metadata": {"name": "a", "namespace": "default"}, "containers": []}]
    cluster = Cluster(measure=lambda plural: measured if plural == "pods" else [])
    assert (await cluster.get(METRICS, "a"))["kind"] == "PodMetrics"
    assert await cluster.names(METRICS) == ["a"]
    assert await cluster.names(METRICS, namespace="kube-system") == []
    with pytest.raises(NotFound):
        await cluster.get(METRICS, "b")


async def test_metrics_are_not_found_without_measurements(cluster: Cluster) -> None:
    with pytest.raises(NotFound):
        await cluster.names(METRICS)
