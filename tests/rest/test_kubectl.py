"""kubectl works: the commands people use, with the oldest and newest supported kubectl that is installed.

KUBECTL=all runs everything with every one of them; a short round trip always does.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from restow.adapters.clock import SystemClock
from restow.adapters.memory import MemoryApi
from restow.adapters.rest import serve, write_kubeconfig
from restow.model.crds import custom_resource_definitions
from restow.ports import MERGE_PATCH, ApiError, Request, Resource
from tests.rest.kubectl import Kubectl, binaries, ends

pytestmark = pytest.mark.skipif(not binaries(), reason="kubectl 1.29 or newer is not on PATH")

PODS = Resource("", "v1", "pods")
NODES = Resource("", "v1", "nodes")
DEPLOYMENTS = Resource("apps", "v1", "deployments")
REPLICA_SETS = Resource("apps", "v1", "replicasets")
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets")
METRICS = {"timestamp": "2026-01-31T12:00:00Z", "window": "30s"}


def measured(plural: str) -> list[dict[str, Any]]:
    usage = {"cpu": "250m", "memory": "1Gi"}
    if plural == "nodes":
        return [{"metadata": {"name": "n1"}, **METRICS, "usage": usage}]
    containers = [{"name": "main", "usage": usage}]
    return [{"metadata": {"name": "p", "namespace": "default"}, **METRICS, "containers": containers}]


class Cluster:
    """An embedded API server and short ways to change it behind kubectl's back."""

    def __init__(self, api: MemoryApi) -> None:
        self.api = api

    async def create(
        self, resource: Resource, document: dict[str, Any], namespace: str | None = None
    ) -> dict[str, Any]:
        body = msgspec.json.encode(document)
        response = await self.api.call(Request(verb="create", resource=resource, namespace=namespace, body=body))
        return msgspec.json.decode(response.body, type=dict[str, Any])

    async def status(self, resource: Resource, name: str, status: dict[str, Any], namespace: str | None = None) -> None:
        await self.api.call(
            Request(
                verb="patch",
                resource=resource,
                namespace=namespace,
                name=name,
                subresource="status",
                content_type=MERGE_PATCH,
                body=msgspec.json.encode({"status": status}),
            )
        )

    async def node(self, name: str) -> None:
        capacity = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
        await self.create(NODES, {"metadata": {"name": name}, "status": status})

    async def pod(self, name: str, **spec: Any) -> None:
        """A pod of a ReplicaSet of the same name: kubectl drains only pods that somebody replaces."""
        labels = {"app": name}
        containers = [{"name": "main", "image": "nginx"}]
        template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
        replicas = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
        owner = await self.create(REPLICA_SETS, {"metadata": {"name": name}, "spec": replicas}, "default")
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "controller": True}
        metadata = {
            "name": name,
            "labels": labels,
            "ownerReferences": [{**reference, "uid": owner["metadata"]["uid"]}],
        }
        await self.create(PODS, {"metadata": metadata, "spec": {"containers": containers, **spec}}, "default")

    async def run_kubelet(self) -> None:
        """Bound pods become Ready; deleted ones go away."""
        async for frame in self.api.watch(Request(verb="watch", resource=PODS)):
            event = msgspec.json.decode(frame)
            pod = event["object"]
            if event["type"] == "DELETED":
                continue
            with suppress(ApiError):
                if "deletionTimestamp" in pod["metadata"]:
                    await self._remove(pod)
                elif pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending":
                    ready = {"type": "Ready", "status": "True"}
                    running = {"name": "main", "ready": True, "state": {"running": {}}, "restartCount": 0}
                    told = {
                        "phase": "Running",
                        "conditions": [ready],
                        "containerStatuses": [running | {"image": "i", "imageID": ""}],
                    }
                    await self.status(PODS, pod["metadata"]["name"], told, pod["metadata"]["namespace"])

    async def _remove(self, pod: dict[str, Any]) -> None:
        at_once = msgspec.json.encode({"gracePeriodSeconds": 0})
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        await self.api.call(Request(verb="delete", resource=PODS, namespace=namespace, name=name, body=at_once))


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    made = Cluster(MemoryApi(SystemClock(), random.Random(1), measure=measured))
    kubelet = asyncio.create_task(made.run_kubelet())
    yield made
    kubelet.cancel()
    await asyncio.gather(kubelet, return_exceptions=True)


@pytest.fixture(params=ends())
async def kubectl(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> AsyncIterator[Kubectl]:
    async with await serve(cluster.api) as server:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", server.url)
        yield Kubectl(binaries()[request.param], tmp_path, kubeconfig)


def columns(text: str) -> list[list[str]]:
    """The cells of printed tables; cells are two or more spaces apart."""
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines() if line.strip()]


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: "nginx:1", env: [{name: A, value: "1"}]}
"""
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '1', b: '2'}\n"


@pytest.mark.parametrize("kubectl", binaries(), indirect=True)
async def test_a_round_trip_with_every_version(kubectl: Kubectl) -> None:
    assert "created" in await kubectl("create", "namespace", "other")
    assert "created" in await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    assert columns(await kubectl("get", "deploy"))[1][:2] == ["web", "0/2"]
    assert "deleted" in await kubectl("delete", "deployment", "web")


# --- looking -------------------------------------------------------------------------------------------------------


async def test_get(kubectl: Kubectl, cluster: Cluster) -> None:
    await cluster.node("n1")
    await cluster.pod("p", nodeName="n1")
    await cluster.pod("q")
    await asyncio.sleep(0.05)
    assert columns(await kubectl("get", "nodes"))[1][:3] == ["n1", "Ready", "<none>"]
    shown = columns(await kubectl("get", "pods", "-A", "-o", "wide"))
    assert shown[0] == [
        "NAMESPACE",
        "NAME",
        "READY",
        "STATUS",
        "RESTARTS",
        "AGE",
        "IP",
        "NODE",
        "NOMINATED NODE",
        "READINESS GATES",
    ]
    assert [row[1:4] for row in shown[1:]] == [["p", "1/1", "Running"], ["q", "0/1", "Pending"]]
    by_age = await kubectl("get", "pods", "--sort-by=.metadata.name", "--no-headers", "-L", "app")
    assert [row[0] for row in columns(by_age)] == ["p", "q"]
    assert await kubectl("get", "pods", "-l", "app=q", "-o", "name") == "pod/q\n"
    selected = await kubectl(
        "get", "pods", "--field-selector", "spec.nodeName=n1", "-o", "jsonpath={.items[*].metadata.name}"
    )
    assert selected == "p"
    assert await kubectl("get", "po", "p", "-o", "go-template={{.spec.nodeName}}") == "n1"
    assert json.loads(await kubectl("get", "pod/p", "-o", "json"))["kind"] == "Pod"
    assert (
        await kubectl.refused("get", "pod", "nobody")
    ).strip() == 'Error from server (NotFound): pods "nobody" not found'
    assert "doesn't have a resource type" in await kubectl.refused("get", "gadgets")
    chunked = await kubectl("get", "pods", "--chunk-size=1", "-o", "name")
    assert chunked.split() == ["pod/p", "pod/q"]


async def test_get_watches(kubectl: Kubectl, cluster: Cluster) -> None:
    await cluster.pod("p")
    process = await kubectl.start("get", "pods", "-w")
    assert process.stdout is not None
    try:
        async with asyncio.timeout(20):
            assert (await process.stdout.readline()).startswith(b"NAME")
            assert (await process.stdout.readline()).split()[:3] == [b"p", b"0/1", b"Pending"]
            await cluster.status(PODS, "p", {"phase": "Failed", "reason": "Evicted"}, "default")
            assert (await process.stdout.readline()).split()[:3] == [b"p", b"0/1", b"Evicted"]
    finally:
        process.terminate()
        await process.communicate()


async def test_describe(kubectl: Kubectl, cluster: Cluster) -> None:
    await cluster.node("n1")
    await cluster.pod("p", nodeName="n1")
    await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    told = await kubectl("describe", "node", "n1")
    assert "KubeletReady" in told and re.search(r"default\s+p\s", told)
    assert re.search(r"Node:\s+n1", await kubectl("describe", "pod", "p"))
    assert re.search(r"Replicas:\s+2 desired", await kubectl("describe", "deployment", "web"))


async def test_discovery(kubectl: Kubectl) -> None:
    rows = columns(await kubectl("api-resources", "--no-headers", "--sort-by=name"))
    assert ["deployments", "deploy", "apps/v1", "true", "Deployment"] in rows
    assert "metrics.k8s.io/v1beta1" in (await kubectl("api-versions")).split()
    assert (await kubectl.run("get", "all"))[2] == "No resources found in default namespace.\n"
    wide = await kubectl("api-resources", "-o", "wide", "--api-group=apps")
    assert "create,delete,deletecollection,get,list,patch,update,watch" in wide


async def test_explain_built_ins(kubectl: Kubectl) -> None:
    told = await kubectl("explain", "deployment.spec.template.spec.containers")
    assert "image\t<string>" in told and "resources\t<ResourceRequirements>" in told
    assert "does not exist" in await kubectl.refused("explain", "pod.spec.nothing")


async def test_access_reviews(kubectl: Kubectl) -> None:
    assert (await kubectl("auth", "can-i", "create", "pods")).strip() == "yes"
    assert "Username" in await kubectl("auth", "whoami")
    assert "[*]" in await kubectl("auth", "can-i", "--list")


async def test_tokens(kubectl: Kubectl) -> None:
    await kubectl("create", "serviceaccount", "robot")
    assert (await kubectl("create", "token", "robot", "--duration", "20m")).count(".") == 2
    assert 'serviceaccounts "nobody" not found' in await kubectl.refused("create", "token", "nobody")


async def test_top(kubectl: Kubectl, cluster: Cluster) -> None:
    await cluster.node("n1")
    await cluster.pod("p")
    assert columns(await kubectl("top", "nodes"))[1][:3] == ["n1", "250m", "3%"]
    assert columns(await kubectl("top", "pods"))[1] == ["p", "250m", "1024Mi"]


async def test_logs_and_exec_tell_the_truth(kubectl: Kubectl, cluster: Cluster) -> None:
    await cluster.pod("p")
    assert "runs no containers" in await kubectl("logs", "p")
    assert "runs no containers" in await kubectl.refused("exec", "p", "--", "true")


# --- making --------------------------------------------------------------------------------------------------------

GENERATORS = [
    "namespace other",
    "deployment web --image=nginx --replicas=3 --port=80",
    "configmap c --from-literal=a=1",
    "secret generic s --from-literal=a=1",
    "secret docker-registry r --docker-username=u --docker-password=p",
    "service clusterip web --tcp=80:8080",
    "service nodeport np --tcp=80:8080",
    "service externalname en --external-name=example.com",
    "serviceaccount sa",
    "job j --image=busybox -- sleep 1",
    "cronjob cj --image=busybox --schedule=0_0_*_*_*",
    "role r --verb=get,list --resource=pods",
    "clusterrole cr --verb=get --non-resource-url=/healthz",
    "rolebinding rb --role=r --serviceaccount=default:sa",
    "clusterrolebinding crb --clusterrole=cr --group=g",
    "quota q --hard=cpu=2,pods=10",
    "priorityclass low --value=-5 --description=low",
    "poddisruptionbudget b --selector=app=web --min-available=50%",
]


async def test_create_with_generators(kubectl: Kubectl) -> None:
    """From 1.32 on these arrive as protobuf."""
    for line in GENERATORS:
        arguments = [part.replace("_", " ") if part.startswith("--schedule") else part for part in line.split()]
        assert "created" in await kubectl("create", *arguments)
    assert "created" in await kubectl("run", "p", "--image=nginx", "--env=A=1", "--labels=app=p", "--port=80")
    assert "exposed" in await kubectl("expose", "deployment", "web", "--port=80", "--name=exposed")
    web = json.loads(await kubectl("get", "deployment", "web", "-o", "json"))
    assert (web["spec"]["replicas"], web["spec"]["template"]["spec"]["containers"][0]["ports"][0]["containerPort"]) == (
        3,
        80,
    )
    assert json.loads(await kubectl("get", "priorityclass", "low", "-o", "json"))["value"] == -5
    assert json.loads(await kubectl("get", "pdb", "b", "-o", "json"))["spec"]["minAvailable"] == "50%"
    assert json.loads(await kubectl("get", "secret", "s", "-o", "json"))["data"] == {"a": "MQ=="}
    assert "AlreadyExists" in await kubectl.refused("create", "namespace", "other")
    dry = await kubectl("create", "configmap", "d", "--dry-run=server", "-o", "name")
    assert dry.strip() == "configmap/d"
    assert "NotFound" in await kubectl.refused("get", "configmap", "d")


async def test_create_replace_and_edit_files(kubectl: Kubectl) -> None:
    assert "configmap/c created" in await kubectl("create", "-f", "-", stdin=CONFIG_MAP)
    assert "AlreadyExists" in await kubectl.refused("create", "-f", "-", stdin=CONFIG_MAP)
    assert "replaced" in await kubectl("replace", "-f", "-", stdin=CONFIG_MAP.replace("'1'", "nine"))
    assert "edited" in await kubectl("edit", "configmap", "c", KUBE_EDITOR="sed -i s/nine/eight/")
    assert await kubectl("get", "cm", "c", "-o", "jsonpath={.data.a}") == "eight"
    wrong = CONFIG_MAP.replace("data:", "dta:")
    assert 'unknown field "dta"' in await kubectl.refused("create", "-f", "-", stdin=wrong)


async def test_apply_on_the_client(kubectl: Kubectl) -> None:
    assert await kubectl("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/web created\n"
    assert await kubectl("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/web unchanged\n"
    changed = DEPLOYMENT.replace("nginx:1", "nginx:2").replace("{name: A,", "{name: B,")
    code, out, _ = await kubectl.run("diff", "-f", "-", stdin=changed)
    assert (code, "nginx:2" in out) == (1, True)
    assert await kubectl("apply", "-f", "-", stdin=changed) == "deployment.apps/web configured\n"
    container = json.loads(await kubectl("get", "deploy", "web", "-o", "json"))["spec"]["template"]["spec"][
        "containers"
    ][0]
    assert (container["image"], [each["name"] for each in container["env"]]) == ("nginx:2", ["B"])
    dry = await kubectl("apply", "-f", "-", "--dry-run=server", stdin=DEPLOYMENT)
    assert dry == "deployment.apps/web configured (server dry run)\n"


async def test_apply_on_the_server(kubectl: Kubectl) -> None:
    server_side = ("apply", "--server-side", "-f", "-")
    assert await kubectl(*server_side, stdin=CONFIG_MAP) == "configmap/c serverside-applied\n"
    await kubectl(*server_side, stdin=CONFIG_MAP.replace(", b: '2'", ""))
    assert json.loads(await kubectl("get", "cm", "c", "-o", "json"))["data"] == {"a": "1"}
    theirs = CONFIG_MAP.replace("'1'", "'theirs'")
    told = await kubectl.refused(*server_side, "--field-manager=other", stdin=theirs)
    assert "conflict" in told and ".data.a" in told
    await kubectl(*server_side, "--field-manager=other", "--force-conflicts", stdin=theirs)
    assert await kubectl("get", "cm", "c", "-o", "jsonpath={.data.a}") == "theirs"


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("strategic", '{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"x"}]}}}}'),
        ("merge", '{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"x"}]}}}}'),
        ("json", '[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"x"}]'),
    ],
)
async def test_patch(kubectl: Kubectl, kind: str, patch: str) -> None:
    await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    assert await kubectl("patch", "deployment", "web", "--type", kind, "-p", patch) == "deployment.apps/web patched\n"
    (container,) = json.loads(await kubectl("get", "deploy", "web", "-o", "json"))["spec"]["template"]["spec"][
        "containers"
    ]
    assert (container["image"], "env" in container) == ("x", kind != "merge")
    assert "error" in (await kubectl.refused("patch", "deployment", "web", "--type", kind, "-p", "{")).lower()


async def test_patch_a_subresource(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    patch = ("patch", "deployment", "web", "--type=merge", "--subresource")
    await kubectl(*patch, "status", "-p", '{"status":{"replicas":7}}')
    await kubectl(*patch, "scale", "-p", '{"spec":{"replicas":5}}')
    shown = columns(await kubectl("get", "deployment", "web", "--subresource=scale"))
    assert shown == [["NAME", "DESIRED", "AVAILABLE", "AGE"], ["web", "5", "7", shown[1][3]]]


async def test_label_annotate_and_set(kubectl: Kubectl, cluster: Cluster) -> None:
    await cluster.node("n1")
    await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    assert await kubectl("label", "node", "n1", "zone=a") == "node/n1 labeled\n"
    assert "already has a value" in await kubectl.refused("label", "node", "n1", "zone=b")
    await kubectl("label", "node", "n1", "zone=b", "--overwrite")
    assert await kubectl("get", "nodes", "-l", "zone in (b)", "-o", "name") == "node/n1\n"
    assert await kubectl("label", "node", "n1", "zone-") == "node/n1 unlabeled\n"
    assert await kubectl("annotate", "node", "n1", "note=x") == "node/n1 annotated\n"
    assert "image updated" in await kubectl("set", "image", "deployment/web", "main=nginx:9")
    assert "env updated" in await kubectl("set", "env", "deployment/web", "B=2")
    assert "resource requirements updated" in await kubectl("set", "resources", "deployment/web", "--requests=cpu=1")
    assert "restarted" in await kubectl("rollout", "restart", "deployment/web")


async def test_scale(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    assert await kubectl("scale", "deployment", "web", "--replicas=0") == "deployment.apps/web scaled\n"
    assert await kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "0"
    assert "Expected replicas to be 5" in await kubectl.refused(
        "scale", "deployment", "web", "--current-replicas=5", "--replicas=1"
    )


# --- nodes ---------------------------------------------------------------------------------------------------------


async def test_cordon_taint_and_drain(kubectl: Kubectl, cluster: Cluster) -> None:
    await cluster.node("n1")
    await cluster.pod("p", nodeName="n1")
    assert await kubectl("taint", "node", "n1", "dedicated=x:NoSchedule") == "node/n1 tainted\n"
    assert await kubectl("taint", "node", "n1", "dedicated:NoSchedule-") == "node/n1 untainted\n"
    assert await kubectl("cordon", "n1") == "node/n1 cordoned\n"
    assert columns(await kubectl("get", "nodes"))[1][1] == "Ready,SchedulingDisabled"
    assert await kubectl("uncordon", "n1") == "node/n1 uncordoned\n"
    told = await kubectl("drain", "n1", "--timeout=20s")
    assert "pod/p evicted" in told and "node/n1 drained" in told
    assert await kubectl("get", "pods", "-o", "name") == ""


async def test_drain_waits_for_a_budget(kubectl: Kubectl, cluster: Cluster) -> None:
    await cluster.node("n1")
    await cluster.pod("p", nodeName="n1")
    await kubectl("create", "pdb", "b", "--selector=app=p", "--min-available=1")
    counts = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    await cluster.status(BUDGETS, "b", {"observedGeneration": 1, **counts}, "default")
    code, _, err = await kubectl.run("drain", "n1", "--timeout=1s")
    assert code == 1 and "Cannot evict pod as it would violate the pod's disruption budget" in err


# --- waiting and ending --------------------------------------------------------------------------------------------


async def test_wait(kubectl: Kubectl, cluster: Cluster) -> None:
    await cluster.pod("p")
    waiting = asyncio.create_task(kubectl("wait", "pod/p", "--for=condition=Ready", "--timeout=20s"))
    await asyncio.sleep(0.5)
    await cluster.status(PODS, "p", {"conditions": [{"type": "Ready", "status": "True"}]}, "default")
    assert await waiting == "pod/p condition met\n"
    assert (
        await kubectl("wait", "pod/p", "--for=jsonpath={.status.phase}=Pending", "--timeout=5s")
        == "pod/p condition met\n"
    )
    gone = asyncio.create_task(kubectl("wait", "pod/p", "--for=delete", "--timeout=20s"))
    await kubectl("delete", "pod", "p")
    assert await gone in ("pod/p condition met\n", "")
    assert "timed out" in await _timed_out(kubectl, cluster)


async def _timed_out(kubectl: Kubectl, cluster: Cluster) -> str:
    await cluster.pod("q")
    return await kubectl.refused("wait", "pod/q", "--for=condition=Ready", "--timeout=1s")


async def test_rollout_status(kubectl: Kubectl, cluster: Cluster) -> None:
    await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    watching = asyncio.create_task(kubectl("rollout", "status", "deployment/web", "--timeout=20s"))
    await asyncio.sleep(0.5)
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 2)
    await cluster.status(DEPLOYMENTS, "web", {"observedGeneration": 1, **counts}, "default")
    assert 'deployment "web" successfully rolled out' in await watching


async def test_delete(kubectl: Kubectl, cluster: Cluster) -> None:
    await cluster.pod("p")
    await cluster.pod("q")
    await kubectl("apply", "-f", "-", stdin=CONFIG_MAP)
    assert 'pod "p" deleted' in await kubectl("delete", "pod", "p")
    assert 'pod "q" deleted' in await kubectl("delete", "pods", "--all")
    assert 'configmap "c" deleted' in await kubectl("delete", "-f", "-", stdin=CONFIG_MAP)
    assert "not found" in await kubectl.refused("delete", "-f", "-", stdin=CONFIG_MAP)
    await kubectl("create", "namespace", "short")
    await kubectl("create", "configmap", "c", "-n", "short")
    assert 'namespace "short" deleted' in await kubectl("delete", "namespace", "short")
    assert await kubectl("get", "cm", "-n", "short", "-o", "name") == ""


# --- our own kinds -------------------------------------------------------------------------------------------------

RESERVATION = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Reservation",
    "metadata": {"name": "r"},
    "spec": {
        "minAvailable": 1,
        "owners": [{"object": {"name": "web"}}],
        "tasks": [
            {
                "name": "t",
                "replicas": 1,
                "template": {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}},
            }
        ],
    },
}


async def test_custom_resources(kubectl: Kubectl, tmp_path: Path) -> None:
    definitions = tmp_path / "crds.yaml"
    definitions.write_text(yaml.safe_dump_all(custom_resource_definitions()))
    assert (await kubectl("apply", "-f", str(definitions))).count("created") == 4
    await kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=10s")
    assert (
        await kubectl("apply", "-f", "-", stdin=json.dumps(RESERVATION)) == "reservation.batch.volcano.sh/r created\n"
    )
    assert (
        await kubectl("apply", "-f", "-", stdin=json.dumps(RESERVATION)) == "reservation.batch.volcano.sh/r unchanged\n"
    )
    shown = columns(await kubectl("get", "resv"))
    assert (shown[0][0], shown[0][-1], shown[1][0]) == ("NAME", "AGE", "r")
    told = await kubectl("explain", "resv.spec")
    assert re.search(r"tasks\t<\[\]Object>", told)
    assert "patched" in await kubectl("patch", "resv", "r", "--type=merge", "-p", '{"spec":{"minAvailable":0}}')
    assert "labeled" in await kubectl("label", "resv", "r", "a=b")
    wrong = {**RESERVATION, "metadata": {"name": "w"}, "spec": {**RESERVATION["spec"], "minAvailable": "one"}}  # type: ignore[dict-item]
    assert "spec.minAvailable" in await kubectl.refused("create", "-f", "-", stdin=json.dumps(wrong))
    assert "deleted" in await kubectl("delete", "resv", "r")
    assert (await kubectl("delete", "-f", str(definitions))).count("deleted") == 4
    assert "could not find the requested resource" in await kubectl.refused("get", "resv")
