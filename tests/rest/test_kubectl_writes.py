"""kubectl writes: it makes, changes, applies and patches, as people do."""

from __future__ import annotations

import json

import pytest

from tests.rest.behind import CONFIG_MAP, DEPLOYMENT, Cluster, columns
from tests.rest.kubectl import Kubectl, binaries

pytestmark = pytest.mark.skipif(not binaries(), reason="kubectl 1.29 or newer is not on PATH")

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


async def test_kubectl_create_with_generators(kubectl: Kubectl) -> None:
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


async def test_kubectl_client_side_apply(kubectl: Kubectl) -> None:
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


async def test_kubectl_server_side_apply(kubectl: Kubectl) -> None:
    server_side = ("apply", "--server-side", "-f", "-")
    assert await kubectl(*server_side, stdin=CONFIG_MAP) == "configmap/c serverside-applied\n"
    await kubectl(*server_side, stdin=CONFIG_MAP.replace(", b: '2'", ""))
    assert json.loads(await kubectl("get", "cm", "c", "-o", "json"))["data"] == {"a": "1"}
    theirs = CONFIG_MAP.replace("'1'", "'theirs'")
    output = await kubectl.refused(*server_side, "--field-manager=other", stdin=theirs)
    assert "conflict" in output and ".data.a" in output
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
async def test_kubectl_patch(kubectl: Kubectl, kind: str, patch: str) -> None:
    await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    assert await kubectl("patch", "deployment", "web", "--type", kind, "-p", patch) == "deployment.apps/web patched\n"
    (container,) = json.loads(await kubectl("get", "deploy", "web", "-o", "json"))["spec"]["template"]["spec"][
        "containers"
    ]
    assert (container["image"], "env" in container) == ("x", kind != "merge")
    assert "error" in (await kubectl.refused("patch", "deployment", "web", "--type", kind, "-p", "{")).lower()


async def test_kubectl_patch_of_a_subresource(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    patch = ("patch", "deployment", "web", "--type=merge", "--subresource")
    await kubectl(*patch, "status", "-p", '{"status":{"replicas":7}}')
    await kubectl(*patch, "scale", "-p", '{"spec":{"replicas":5}}')
    shown = columns(await kubectl("get", "deployment", "web", "--subresource=scale"))
    assert shown == [["NAME", "DESIRED", "AVAILABLE", "AGE"], ["web", "5", "7", shown[1][3]]]


async def test_kubectl_label_annotate_and_set(kubectl: Kubectl, cluster: Cluster) -> None:
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


async def test_kubectl_scale(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    assert await kubectl("scale", "deployment", "web", "--replicas=0") == "deployment.apps/web scaled\n"
    assert await kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "0"
    assert "Expected replicas to be 5" in await kubectl.refused(
        "scale", "deployment", "web", "--current-replicas=5", "--replicas=1"
    )
