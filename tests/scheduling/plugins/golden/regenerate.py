"""Ask kube-scheduler's own plugins random questions and keep the answers in kube-scheduler.json.

Needs Go and what `make e2e` downloads: `python -m tests.scheduling.plugins.golden.regenerate [seed] [questions]`. With
`--check` nothing is written and our answers are compared at once, which makes a fuzzer of it; what is written is cut
down to what a plugin reads.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

from restow.model.objects import Document
from tests.scheduling.plugins.golden.answers import differences
from tests.scheduling.plugins.kube_scheduler_oracle import answered, compare, keep

HERE = Path(__file__).parent

FEATURES = ["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"]
IMAGES = {"web:1": 300, "db:latest": 900, "tiny:2": 10, "reg.example:5000/big:latest": 2500}
READ = {
    "NodeName": [],
    "NodeUnschedulable": ["unschedulable", "tolerations"],
    "TaintToleration": ["taints", "tolerations"],
    "NodeAffinity": ["labels", "nodeSelector", "affinity"],
    "NodePorts": ["ports"],
    "NodeResourcesFit": ["allocatable", "resources", "overhead"],
    "NodeResourcesBalancedAllocation": ["allocatable", "resources", "overhead"],
    "ImageLocality": ["images", "image"],
    "NodeDeclaredFeatures": ["declaredFeatures", "restartPolicyRules", "hostUsers"],
}
"""The parts of pods and nodes that a plugin reads."""
PARTS = {part for parts in READ.values() for part in parts}


class Questions:
    """Random clusters of a few nodes, and pods to be placed there."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def question(self) -> Document:
        rng = self.rng
        plugin = rng.choice([*READ, "NodeResourcesFit"])
        nodes = [self.node(f"n{number}") for number in range(rng.randint(1, 5))]
        pods = [self.pod(f"p{number}", f"n{rng.randrange(len(nodes))}") for number in range(rng.randint(0, 8))]
        pod = self.pod("new", f"n{rng.randint(0, 5)}" if plugin == "NodeName" and rng.random() < 0.8 else None)
        return {"plugin": plugin, "arguments": self.arguments(plugin), "nodes": nodes, "pods": pods, "pod": pod}

    def arguments(self, plugin: str) -> Document:
        rng = self.rng
        if plugin == "NodeAffinity" and rng.random() < 0.3:
            return {"addedAffinity": self.node_affinity()}
        if plugin == "NodeResourcesBalancedAllocation":
            return {"resources": [{"name": name, "weight": 1} for name in self.names()]}
        if plugin != "NodeResourcesFit":
            return {}
        strategy: Document = {
            "type": rng.choice(["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]),
            "resources": [{"name": name, "weight": rng.randint(1, 100)} for name in self.names()],
        }
        if strategy["type"] == "RequestedToCapacityRatio":
            points = sorted(rng.sample(range(101), rng.randint(1, 4)))
            shape = [{"utilization": point, "score": rng.randint(0, 10)} for point in points]
            strategy["requestedToCapacityRatio"] = {"shape": shape}
        ignored: Document = {
            "ignoredResources": rng.choice([[], [], ["example.com/gpu"]]),
            "ignoredResourceGroups": rng.choice([[], [], ["example.com"]]),
        }
        return {"scoringStrategy": strategy, **ignored}

    def names(self) -> list[str]:
        rng = self.rng
        more = rng.sample(["ephemeral-storage", "example.com/gpu", "hugepages-2Mi", "pods"], rng.randint(0, 2))
        return ["cpu", "memory", *more] if rng.random() < 0.8 else ["cpu", *more]

    def node(self, name: str) -> Document:
        rng = self.rng
        allocatable = {
            "cpu": rng.choice(["2", "4", "7900m", "64"]),
            "memory": rng.choice(["4Gi", "7777777k", "256Gi"]),
            "pods": rng.choice(["1", "3", "110"]),
        }
        if rng.random() < 0.5:
            allocatable["example.com/gpu"] = rng.choice(["0", "1", "8"])
        if rng.random() < 0.5:
            allocatable["ephemeral-storage"] = rng.choice(["10Gi", "100Gi"])
        if rng.random() < 0.3:
            allocatable["hugepages-2Mi"] = "1Gi"
        images = rng.sample(sorted(IMAGES), rng.randint(0, len(IMAGES)))
        return {
            "metadata": {"name": name, "labels": self.labels()},
            "spec": {
                "taints": [self.taint(key) for key in rng.sample(["a", "b", "c"], rng.choice([0, 0, 1, 2, 3]))],
                "unschedulable": rng.random() < 0.25,
            },
            "status": {
                "allocatable": allocatable,
                "declaredFeatures": sorted(rng.sample(FEATURES, rng.randint(0, 2))),
                "images": [{"names": [image], "sizeBytes": IMAGES[image] * 2**20} for image in images],
            },
        }

    def labels(self) -> dict[str, str]:
        keys = self.rng.sample(["zone", "disk", "cores"], self.rng.randint(0, 3))
        return {key: self.rng.choice(["a", "b", "4", "16"]) for key in keys}

    def taint(self, key: str) -> Document:
        effect = self.rng.choice(["NoSchedule", "NoExecute", "PreferNoSchedule", "PreferNoSchedule"])
        return {"key": key, "value": self.rng.choice(["", "1"]), "effect": effect}

    def pod(self, name: str, node: str | None) -> Document:
        rng = self.rng
        spec: Document = {
            "containers": [self.container(f"c{number}") for number in range(rng.randint(1, 3))],
            "tolerations": [self.toleration() for _ in range(rng.choice([0, 0, 1, 3]))],
        }
        if rng.random() < 0.3:
            spec["initContainers"] = [self.container("init", rng.choice([None, "Always"]))]
        if rng.random() < 0.3:
            spec["nodeSelector"] = self.labels()
        if rng.random() < 0.6:
            spec["affinity"] = {"nodeAffinity": self.node_affinity()}
        if rng.random() < 0.2:
            spec["overhead"] = {"cpu": "50m", "memory": "64Mi"}
        if rng.random() < 0.2:
            spec |= {"hostNetwork": True, "hostUsers": rng.random() < 0.5}
            for container in (*spec["containers"], *spec.get("initContainers", ())):
                for port in container.get("ports", ()):
                    port["hostPort"] = port["containerPort"]  # as the API server would
        if node is not None:
            spec["nodeName"] = node
        return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}, "spec": spec}

    def container(self, name: str, restart: str | None = None) -> Document:
        rng = self.rng
        requests = {
            "cpu": rng.choice(["0", "100m", "1", "3", "9"]),
            "memory": rng.choice(["0", "64Mi", "1Gi", "6Gi"]),
            "ephemeral-storage": rng.choice(["1Gi", "40Gi"]),
            "example.com/gpu": rng.choice(["0", "1", "2"]),
            "hugepages-2Mi": "512Mi",
        }
        kept = rng.sample(sorted(requests), rng.choice([0, 1, 2, 2, 3, 4]))
        container: Document = {
            "name": name,
            "image": rng.choice([*IMAGES, "db", "reg.example:5000/big", "unknown"]),
            "resources": {"requests": {one: requests[one] for one in kept}},
        }
        if rng.random() < 0.5:
            container["ports"] = [self.port() for _ in range(rng.randint(1, 2))]
        if restart is not None:
            container["restartPolicy"] = restart
        if rng.random() < 0.2:
            container["restartPolicyRules"] = [{"action": rng.choice(["Restart", "RestartAllContainers"])}]
        return container

    def port(self) -> Document:
        port: Document = {"containerPort": 80}
        if self.rng.random() < 0.7:
            port["hostPort"] = self.rng.choice([80, 443])
        if self.rng.random() < 0.6:
            port["protocol"] = self.rng.choice(["TCP", "UDP"])
        if self.rng.random() < 0.6:
            port["hostIP"] = self.rng.choice(["0.0.0.0", "10.0.0.1", "10.0.0.2"])
        return port

    def toleration(self) -> Document:
        rng = self.rng
        operator = rng.choice(["Exists", "Equal", ""])
        key = rng.choice(["a", "b", "c", "node.kubernetes.io/unschedulable", *([""] if operator == "Exists" else [])])
        toleration: Document = {"key": key, "operator": operator}
        if operator != "Exists":
            toleration["value"] = rng.choice(["", "1"])
        toleration["effect"] = rng.choice(["", "NoSchedule", "NoExecute", "PreferNoSchedule"])
        return toleration

    def node_affinity(self) -> Document:
        rng = self.rng
        affinity: Document = {}
        if rng.random() < 0.6:
            terms = [self.term() for _ in range(rng.randint(1, 2))]
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        if rng.random() < 0.6:
            affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": rng.randint(1, 100), "preference": self.term()} for _ in range(rng.randint(1, 3))
            ]
        return affinity

    def term(self) -> Document:
        rng = self.rng
        term: Document = {}
        if rng.random() < 0.7:
            term["matchExpressions"] = [self.expression() for _ in range(rng.randint(1, 2))]
        if rng.random() < 0.4:
            names = [f"n{rng.randint(0, 4)}" for _ in range(rng.choice([1, 1, 2]))]
            term["matchFields"] = [
                {"key": "metadata.name", "operator": rng.choice(["In", "In", "NotIn"]), "values": [name]}
                for name in names
            ]
        return term or {"matchExpressions": [self.expression()]}

    def expression(self) -> Document:
        rng = self.rng
        operator = rng.choice(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
        expression: Document = {"key": rng.choice(["zone", "disk", "cores"]), "operator": operator}
        if operator in ("In", "NotIn"):
            expression["values"] = rng.sample(["a", "b", "4", "16"], rng.randint(1, 2))
        if operator in ("Gt", "Lt"):
            expression["values"] = [rng.choice(["4", "10"])]
        return expression


def concise(question: Any, read: list[str]) -> Any:
    """A question without the parts that its plugin does not read."""
    if isinstance(question, list):
        return [concise(one, read) for one in question]
    if not isinstance(question, dict):
        return question
    return {key: concise(part, read) for key, part in question.items() if key in read or key not in PARTS}


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    seed, count = [int(one) for one in [*(one for one in arguments if one != "--check"), "1", "400"][:2]]
    source = Questions(random.Random(seed))
    questions = [source.question() for _ in range(count)]
    if not check:
        questions = [concise(question, READ[question["plugin"]]) for question in questions]
    cases = answered(HERE, questions)
    if not check:
        keep(HERE, cases)
    return compare(cases, differences)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
