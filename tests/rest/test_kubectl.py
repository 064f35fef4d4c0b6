"""kubectl works: the commands people use, with the oldest and newest supported kubectl that is installed.

KUBECTL=all runs everything with every one of them; a short round trip always does.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
import yaml

from restow.model.crds import custom_resource_definitions
from tests.rest.behind import BUDGETS, CONFIG_MAP, DEPLOYMENT, DEPLOYMENTS, PODS, Cluster, columns
from tests.rest.kubectl import Kubectl, binaries

pytestmark = pytest.mark.skipif(not binaries(), reason="kubectl 1.29 or newer is not on PATH")


@pytest.mark.parametrize("kubectl", binaries(), indirect=True)
async def test_a_round_trip_with_every_version(kubectl: Kubectl) -> None:
    assert "created" in await kubectl("create", "namespace", "other")
    assert "created" in await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    assert columns(await kubectl("get", "deploy"))[1][:2] == ["web", "0/2"]
    assert "deleted" in await kubectl("delete", "deployment", "web")


# --- looking -------------------------------------------------------------------------------------------------------


async def test_kubectl_get(kubectl: Kubectl, cluster: Cluster) -> None:
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
        await kubectl.refused("get", "pod", "missing")
    ).strip() == 'Error from server (NotFound): pods "missing" not found'
    assert "doesn't have a resource type" in await kubectl.refused("get", "gadgets")
    chunked = await kubectl("get", "pods", "--chunk-size=1", "-o", "name")
    assert chunked.split() == ["pod/p", "pod/q"]


async def test_kubectl_get_watch(kubectl: Kubectl, cluster: Cluster) -> None:
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


async def test_kubectl_describe(kubectl: Kubectl, cluster: Cluster) -> None:
    await cluster.node("n1")
    await cluster.pod("p", nodeName="n1")
    await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    output = await kubectl("describe", "node", "n1")
    assert "KubeletReady" in output and re.search(r"default\s+p\s", output)
    assert re.search(r"Node:\s+n1", await kubectl("describe", "pod", "p"))
    assert re.search(r"Replicas:\s+2 desired", await kubectl("describe", "deployment", "web"))


async def test_kubectl_api_resources(kubectl: Kubectl) -> None:
    rows = columns(await kubectl("api-resources", "--no-headers", "--sort-by=name"))
    assert ["deployments", "deploy", "apps/v1", "true", "Deployment"] in rows
    assert "metrics.k8s.io/v1beta1" in (await kubectl("api-versions")).split()
    assert (await kubectl.run("get", "all"))[2] == "No resources found in default namespace.\n"
    wide = await kubectl("api-resources", "-o", "wide", "--api-group=apps")
    assert "create,delete,deletecollection,get,list,patch,update,watch" in wide


async def test_kubectl_explain_of_built_in_kinds(kubectl: Kubectl) -> None:
    output = await kubectl("explain", "deployment.spec.template.spec.containers")
    assert "image\t<string>" in output and "resources\t<ResourceRequirements>" in output
    assert "does not exist" in await kubectl.refused("explain", "pod.spec.nothing")


async def test_kubectl_auth_can_i(kubectl: Kubectl) -> None:
    assert (await kubectl("auth", "can-i", "create", "pods")).strip() == "yes"
    assert "Username" in await kubectl("auth", "whoami")
    assert "[*]" in await kubectl("auth", "can-i", "--list")


async def test_kubectl_create_token(kubectl: Kubectl) -> None:
    await kubectl("create", "serviceaccount", "robot")
    assert (await kubectl("create", "token", "robot", "--duration", "20m")).count(".") == 2
    assert 'serviceaccounts "missing" not found' in await kubectl.refused("create", "token", "missing")


async def test_kubectl_top(kubectl: Kubectl, cluster: Cluster) -> None:
    await cluster.node("n1")
    await cluster.pod("p")
    assert columns(await kubectl("top", "nodes"))[1][:3] == ["n1", "250m", "3%"]
    assert columns(await kubectl("top", "pods"))[1] == ["p", "250m", "1024Mi"]


async def test_logs_and_exec_tell_the_truth(kubectl: Kubectl, cluster: Cluster) -> None:
    await cluster.pod("p")
    assert "runs no containers" in await kubectl("logs", "p")
    assert "runs no containers" in await kubectl.refused("exec", "p", "--", "true")


# --- nodes ---------------------------------------------------------------------------------------------------------


async def test_kubectl_cordon_taint_and_drain(kubectl: Kubectl, cluster: Cluster) -> None:
    await cluster.node("n1")
    await cluster.pod("p", nodeName="n1")
    assert await kubectl("taint", "node", "n1", "dedicated=x:NoSchedule") == "node/n1 tainted\n"
    assert await kubectl("taint", "node", "n1", "dedicated:NoSchedule-") == "node/n1 untainted\n"
    assert await kubectl("cordon", "n1") == "node/n1 cordoned\n"
    assert columns(await kubectl("get", "nodes"))[1][1] == "Ready,SchedulingDisabled"
    assert await kubectl("uncordon", "n1") == "node/n1 uncordoned\n"
    output = await kubectl("drain", "n1", "--timeout=20s")
    assert "pod/p evicted" in output and "node/n1 drained" in output
    assert await kubectl("get", "pods", "-o", "name") == ""


async def test_kubectl_drain_waits_for_a_budget(kubectls: list[Kubectl], cluster: Cluster) -> None:
    """Each tries again after five seconds, so they try at the same time."""
    await cluster.node("n1")
    await cluster.pod("p", nodeName="n1")
    await kubectls[0]("create", "pdb", "b", "--selector=app=p", "--min-available=1")
    counts = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    await cluster.status(BUDGETS, "b", {"observedGeneration": 1, **counts}, "default")
    for code, _, err in await asyncio.gather(*(kubectl.run("drain", "n1", "--timeout=1s") for kubectl in kubectls)):
        assert code == 1 and "Cannot evict pod as it would violate the pod's disruption budget" in err


# --- waiting and ending --------------------------------------------------------------------------------------------


async def test_kubectl_wait(kubectl: Kubectl, cluster: Cluster) -> None:
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


async def test_kubectl_rollout_status(kubectl: Kubectl, cluster: Cluster) -> None:
    await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    watching = asyncio.create_task(kubectl("rollout", "status", "deployment/web", "--timeout=20s"))
    await asyncio.sleep(0.5)
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 2)
    await cluster.status(DEPLOYMENTS, "web", {"observedGeneration": 1, **counts}, "default")
    assert 'deployment "web" successfully rolled out' in await watching


async def test_kubectl_delete(kubectl: Kubectl, cluster: Cluster) -> None:
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


async def test_kubectl_with_custom_resources(kubectl: Kubectl, tmp_path: Path) -> None:
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
    output = await kubectl("explain", "resv.spec")
    assert re.search(r"tasks\t<\[\]Object>", output)
    assert "patched" in await kubectl("patch", "resv", "r", "--type=merge", "-p", '{"spec":{"minAvailable":0}}')
    assert "labeled" in await kubectl("label", "resv", "r", "a=b")
    wrong = {**RESERVATION, "metadata": {"name": "w"}, "spec": {**RESERVATION["spec"], "minAvailable": "one"}}  # type: ignore[dict-item]
    assert "spec.minAvailable" in await kubectl.refused("create", "-f", "-", stdin=json.dumps(wrong))
    assert "deleted" in await kubectl("delete", "resv", "r")
    assert (await kubectl("delete", "-f", str(definitions))).count("deleted") == 4
    assert "could not find the requested resource" in await kubectl.refused("get", "resv")
