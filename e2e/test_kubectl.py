"""kubectl on the embedded API server and on the real one: the same commands, the same words, the same exit codes."""

from __future__ import annotations

import asyncio
import json
import random
import re
import subprocess
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from e2e.cluster import add_nodes, deployment
from e2e.controlplane import ControlPlane
from e2e.restow_process import restow
from restow.adapters.clock import SystemClock
from restow.adapters.memory import MemoryApi
from restow.adapters.rest import serve, write_kubeconfig
from restow.client.verbs import Client
from restow.model.crds import custom_resource_definitions
from restow.model.kinds import DEPLOYMENT as DEPLOYMENTS
from restow.model.kinds import POD as PODS
from restow.model.pods import is_terminating

NAMESPACE = "kubectl-parity"

POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: web, tier: %s}}
spec:
  schedulerName: missing
  serviceAccountName: default
  containers:
  - {name: main, image: registry.invalid/app:1, resources: {requests: {cpu: 100m}, limits: {memory: 1Gi}}}
"""
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: '%s'}\n"
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: 'registry.invalid/app:%s'}]}
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: parity-node, labels: {zone: a}}
spec: {taints: [{key: a, value: b, effect: NoSchedule}]}
status: {capacity: {cpu: 8, memory: 32Gi, pods: 110}}
"""
BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: keep}
spec: {minAvailable: 1, selector: {matchLabels: {app: nothing}}}
"""
BINDING = """
apiVersion: v1
kind: Binding
metadata: {name: one}
target: {kind: Node, name: parity-node}
"""

DEFINITIONS = json.dumps({"apiVersion": "v1", "kind": "List", "items": custom_resource_definitions()})
ESTABLISHED = " ".join(f"crd/{document['metadata']['name']}" for document in custom_resource_definitions())
FILES = Path(__file__).parents[1] / "examples"
EXAMPLES = "\n---\n".join(path.read_text() for path in sorted(FILES.glob("*.yaml")))
EXAMPLES = EXAMPLES.replace("namespace: default", f"namespace: {NAMESPACE}")

# A story; each line is one command, with what it reads from stdin.
STORIES: dict[str, list[tuple[str, str]]] = {
    "apply on the client's side": [
        ("apply -f -", CONFIG % 1),
        ("apply -f -", CONFIG % 1),
        ("apply -f -", CONFIG % 2),
        ("get configmap settings -o jsonpath={.data.a}", ""),
        ("diff -f -", CONFIG % 2),
        ("replace -f -", CONFIG % 3),
        ("get cm settings -o name", ""),
        ("delete -f -", CONFIG % 3),
        ("delete -f -", CONFIG % 3),
    ],
    "apply on the server's side": [
        ("apply --server-side -f -", DEPLOYMENT % 1),
        ("apply --server-side -f -", DEPLOYMENT % 1),
        ("apply --server-side --field-manager=other -f -", DEPLOYMENT % 2),
        ("apply --server-side --field-manager=other --force-conflicts -f -", DEPLOYMENT % 2),
        ("get deployment web -o jsonpath={.spec.template.spec.containers[0].image}", ""),
    ],
    "create": [
        ("create configmap made --from-literal=a=1", ""),
        ("create configmap made --from-literal=a=1", ""),
        ("create secret generic hidden --from-literal=a=1", ""),
        ("create deployment web --image=registry.invalid/app:1 --replicas=0", ""),
        ("create poddisruptionbudget keep --selector=app=web --min-available=50%", ""),
        ("create priorityclass parity --value=5", ""),
        ("create -f - --dry-run=server", POD % ("one", "a")),
        ("get pods", ""),
        ("get deployments", ""),
        ("get pdb", ""),
        ("get priorityclass parity", ""),
        ("get secret hidden -o jsonpath={.data}", ""),
        ("delete priorityclass parity", ""),
    ],
    "tables and selections": [
        ("apply -f -", POD % ("one", "a")),
        ("apply -f -", POD % ("two", "b")),
        ("get pods", ""),
        ("get pods -o wide", ""),
        ("get pods --show-labels", ""),
        ("get pods -L tier", ""),
        ("get pods -l tier=b", ""),
        ("get pods -l 'tier in (a,c)' -o name", ""),
        ("get pods --field-selector=metadata.name=two", ""),
        ("get pods --field-selector=spec.nothing=two", ""),
        ("get pods --sort-by=.metadata.name -o name", ""),
        ("get pod one two", ""),
        ("get pod one missing", ""),
        ("get pods --chunk-size=1 -o name", ""),
        ("get pods -o custom-columns=NAME:.metadata.name,QOS:.status.qosClass", ""),
        ("create -f -", BINDING),
        ("get pod one -o wide", ""),
        ("delete pod one two --grace-period=0 --force", ""),
        ("get pods", ""),
    ],
    "small changes": [
        ("apply -f -", DEPLOYMENT % 1),
        ("label deployment web a=1", ""),
        ("label deployment web a=2", ""),
        ("label deployment web a=2 --overwrite", ""),
        ("annotate deployment web note=hello", ""),
        ("annotate deployment web note-", ""),
        ("set image deployment/web main=registry.invalid/app:2", ""),
        ("scale deployment/web --replicas=0", ""),
        ("scale deployment/web --current-replicas=5 --replicas=1", ""),
        ("""patch deployment web -p '{"spec":{"paused":true}}'""", ""),
        ("""patch deployment web --type=merge -p '{"spec":{"paused":false}}'""", ""),
        ("""patch deployment web --subresource=scale --type=merge -p '{"spec":{"replicas":0}}'""", ""),
        ("wait deployment/web --for=jsonpath={.spec.replicas}=0 --timeout=5s", ""),
        ("delete deployment web", ""),
        ("wait deployment/web --for=delete --timeout=5s", ""),
    ],
    "nodes": [
        ("apply -f -", NODE),
        ("get node parity-node --no-headers -o custom-columns=N:.metadata.name,U:.spec.unschedulable", ""),
        ("cordon parity-node", ""),
        ("cordon parity-node", ""),
        ("uncordon parity-node", ""),
        ("taint node parity-node x=y:NoSchedule", ""),
        ("taint node parity-node x=y:NoSchedule", ""),
        ("taint node parity-node x-", ""),
        ("drain parity-node --timeout=5s", ""),
        ("delete node parity-node", ""),
    ],
    "mistakes": [
        ("get nothings", ""),
        ("get pod missing", ""),
        ("apply -f -", POD.replace("image", "imagee") % ("one", "a")),
        ("apply -f -", (POD % ("one", "a")).replace("kind: Pod", "kind: Pud")),
        ("apply -f -", "{"),
        ("create -f -", (DEPLOYMENT % 1).replace("replicas: 0", "replicas: -1")),
        ("delete pod missing", ""),
        ("label pod missing a=b", ""),
        ("get pods -n nowhere", ""),
        ("create configmap x --from-literal=a=1 -n nowhere", ""),
        ("scale deployment/missing --replicas=1", ""),
    ],
    "describing": [
        ("apply -f -", POD % ("one", "a")),
        ("describe pod one", ""),
        ("apply -f -", CONFIG % 1),
        ("describe configmap settings", ""),
        ("get configmap settings -o yaml --show-managed-fields=false", ""),
        ("get pod one -o json", ""),
        ("describe priorityclass system-node-critical", ""),
    ],
    "our own kinds": [
        ("apply --server-side --force-conflicts -f -", DEFINITIONS),
        (f"wait --for=condition=Established {ESTABLISHED} --timeout=20s", ""),
        ("apply --server-side --validate=strict -f -", EXAMPLES),
        ("get reservations", ""),
        ("get resv -o wide", ""),
        ("get queues,podgroups,pmj", ""),
        ("describe pmj", ""),
        ("delete -f -", EXAMPLES),
    ],
    "budgets and access rights": [
        ("apply -f -", BUDGET),
        ("get pdb keep -o jsonpath={.spec}", ""),
        ("auth can-i create pods", ""),
        ("get --raw /healthz", ""),
        ("get --raw /readyz", ""),
        ("get ns default -o jsonpath={.status.phase}", ""),
    ],
}


class Kubectl:
    def __init__(self, program: Path, kubeconfig: Path) -> None:
        self._program = program
        self._kubeconfig = kubeconfig

    async def run(self, command: str, stdin: str = "") -> str:
        """What it printed and how it ended, without what differs from run to run."""
        written = f"{self._program} --kubeconfig {self._kubeconfig} -n {NAMESPACE} {command}"
        run = partial(subprocess.run, written, shell=True, input=stdin, capture_output=True, text=True, timeout=180)
        ended = await asyncio.to_thread(run)  # a loop that ends soon after would leave a process of its own unfinished
        return normal(f"$ kubectl {command}\n{ended.stdout}{ended.stderr}(exit {ended.returncode})")


def normal(text: str) -> str:
    text = re.sub(r"\b\d+(\.\d+)?(ms|[smh])\b", "<age>", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|\w{3}, \d\d \w{3} \d{4} [\d:]+ [+-]\d{4}", "<time>", text)
    text = re.sub(r"(resourceVersion\"?: \"?|Resource Version:\s+)\d+", r"\1<version>", text)
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uid>", text)
    return re.sub(r"[ \t]+", " ", text)


@pytest.fixture
async def embedded(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Kubectl]:
    server = await serve(MemoryApi(SystemClock(), random.Random(7)))
    async with server:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", server.url)
        kubectl = Kubectl(plane.kubectl, kubeconfig)
        await kubectl.run(f"create namespace {NAMESPACE}")
        yield kubectl


@pytest.fixture
async def real(plane: ControlPlane) -> AsyncIterator[Kubectl]:
    kubectl = Kubectl(plane.kubectl, plane.kubeconfig)
    await kubectl.run(f"create namespace {NAMESPACE}")
    yield kubectl
    await kubectl.run(f"delete namespace {NAMESPACE} --wait=true")


@pytest.mark.parametrize("story", STORIES)
async def test_a_story_reads_the_same_on_both(embedded: Kubectl, real: Kubectl, story: str) -> None:
    for command, stdin in STORIES[story]:
        answer, expected = await asyncio.gather(embedded.run(command, stdin), real.run(command, stdin))
        assert answer == expected


async def test_kubectl_output_matches_a_real_api_server(embedded: Kubectl, real: Kubectl) -> None:
    command = "api-resources --no-headers -o wide"
    answer, expected = await asyncio.gather(embedded.run(command), real.run(command))
    own = {line for line in answer.splitlines() if " metrics.k8s.io/" in line}  # served by an add-on elsewhere
    assert set(answer.splitlines()) - own <= set(expected.splitlines())


CONFIGURATION = "scheduler: {schedulerNames: [restow-by-hand]}"


async def test_a_job_made_by_hand_moves_its_pod_and_can_be_waited_for(
    plane: ControlPlane, client: Client, namespace: str, account: Path, tmp_path: Path
) -> None:
    await add_nodes(client, 3)
    kubectl = Kubectl(plane.kubectl, plane.kubeconfig)
    document = deployment("web", namespace, 2)
    document["spec"]["template"]["spec"]["schedulerName"] = "restow-by-hand"
    with restow(account, tmp_path, "one", CONFIGURATION):
        await client.create(DEPLOYMENTS, document)
        output = await kubectl.run(f"rollout status deployment/web --timeout=60s -n {namespace}")
        assert "successfully rolled out" in output, output
        old = (await client.list(PODS, namespace)).items[0]
        job = (FILES / "podmigrationjob.yaml").read_text().replace("web-0", old.metadata.name)
        output = await kubectl.run("apply -f -", job.replace("namespace: default", f"namespace: {namespace}"))
        assert "created\n(exit 0)" in output, output
        name = f"move-{old.metadata.name}"
        output = await kubectl.run(f"wait pmj/{name} --for=jsonpath={{.status.phase}}=Succeed --timeout=60s")
        assert "condition met\n(exit 0)" in output, output + await kubectl.run(f"describe pmj {name}")
        staying = [pod for pod in (await client.list(PODS, namespace)).items if not is_terminating(pod)]
        assert len(staying) == 2 and old.metadata.uid not in {pod.metadata.uid for pod in staying}
