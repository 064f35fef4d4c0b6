"""Ask kube-scheduler's own volume plugins random questions and keep the answers in kube-scheduler.json.

Needs Go and what `make e2e` downloads: `python -m tests.scheduling.plugins.golden_volumes.regenerate [seed] [count]`.
With `--check` nothing is written and our answers are compared at once, which makes a fuzzer of it; what is written is
cut down to what a plugin reads, and to one pair of questions for each kind of answer.
"""

from __future__ import annotations

import json
import random
import re
import sys
from pathlib import Path
from typing import Any

from restow.model.objects import Document
from tests.scheduling.plugins.golden_volumes.answers import PLUGINS, differences
from tests.scheduling.plugins.kube_scheduler_oracle import answered, compare, keep

HERE = Path(__file__).parent

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
DRIVERS = ["disk.example.com", "file.example.com"]
PROVISIONERS = {
    "local": "kubernetes.io/no-provisioner",
    "disk": DRIVERS[0],
    "file": DRIVERS[1],
    "ebs": "kubernetes.io/aws-ebs",
    "now": DRIVERS[0],
}
ONCE, ONE_POD, MANY = "ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"

READ = {
    "VolumeBinding": ["volumes", "claims", "classes", "drivers", "capacities"],
    "VolumeRestrictions": ["pods", "claims"],
    "VolumeZone": ["volumes", "claims", "classes"],
    "NodeVolumeLimits": ["pods", "volumes", "claims", "classes", "csiNodes", "attachments"],
}
"""What a plugin reads besides the nodes and the pod."""


class Questions:
    """Random clusters of a few nodes with volumes, claims and all that belongs to them, and pods to be placed there.

    No two volumes, and no two claims, are of the same size: which of two equal ones kube-scheduler takes is chance.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.odd = 1
        """0 for a question whose claims and volumes have nothing special about them, so that they match."""

    def question(self) -> Document:
        rng = self.rng
        nodes = [self.node(f"n{number}") for number in range(rng.randint(1, 5))]
        self.odd = rng.choice([0, 1])
        asked, offered = rng.sample(range(1, 20), 6), rng.sample(range(1, 40), 8)
        claims = [self.claim(f"c{number}", asked[number]) for number in range(6) if rng.random() < 0.95]
        return {
            "plugin": rng.choice([*PLUGINS, "VolumeBinding", "VolumeBinding"]),
            "nodes": nodes,
            "pods": [self.pod(f"p{number}", f"n{rng.randrange(len(nodes))}") for number in range(rng.randint(0, 6))],
            "pod": self.pod("new"),
            "volumes": [self.volume(f"v{number}", offered[number]) for number in range(8) if rng.random() < 0.9],
            "claims": claims + ([self.generated()] if rng.random() < 0.8 else []),
            "classes": [self.storage_class(name) for name in PROVISIONERS if rng.random() < 0.95],
            "csiNodes": [self.csi_node(one["metadata"]["name"]) for one in nodes if rng.random() < 0.8],
            "drivers": [
                {"metadata": {"name": name}, "spec": self.maybe("storageCapacity", True, 0.6)} for name in DRIVERS
            ],
            "capacities": [self.capacity(f"k{number}") for number in range(rng.randint(0, 5))],
            "attachments": [self.attachment(f"a{number}", len(nodes)) for number in range(rng.randint(0, 4))],
        }

    def maybe(self, key: str, value: Any, chance: float = 0.5) -> Document:
        return {key: value} if self.rng.random() < chance else {}

    def node(self, name: str) -> Document:
        rng = self.rng
        labels = {"host": name, **self.maybe("size", rng.choice(["1", "5", "x"]))}
        zone, region = (ZONE, REGION) if rng.random() < 0.7 else (OLD_ZONE, OLD_REGION)
        labels |= self.maybe(zone, rng.choice("ab"), 0.8) | self.maybe(region, rng.choice("rs"))
        return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": {"pods": "110"}}}

    def pod(self, name: str, on: str | None = None) -> Document:
        rng = self.rng
        volumes = [
            {"name": f"v{number}", "persistentVolumeClaim": {"claimName": claim}}
            for number, claim in enumerate(
                rng.sample([f"c{number}" for number in range(6)], rng.choice([0, 1, 1, 2, 3]))
            )
        ]
        if name == "new" and rng.random() < 0.15:
            volumes.append({"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
        if rng.random() < 0.3:
            volumes += [{"name": f"d{number}", **self.disk()} for number in range(rng.randint(1, 2))]
        spec = {"containers": [{"name": "main"}], "volumes": volumes} | ({"nodeName": on} if on else {})
        return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec}

    def disk(self) -> Document:
        rng = self.rng
        read = self.maybe("readOnly", True)
        return rng.choice(
            [
                {"gcePersistentDisk": {"pdName": rng.choice("de"), **read}},
                {"awsElasticBlockStore": {"volumeID": rng.choice("de"), **read}},
                {"iscsi": {"targetPortal": rng.choice("pq"), "iqn": rng.choice("de"), "lun": 0, **read}},
                {
                    "rbd": {
                        "monitors": rng.sample(["m1", "m2", "m3"], rng.randint(1, 2)),
                        "image": rng.choice("de"),
                        "pool": rng.choice(["rbd", "other"]),
                        **read,
                    }
                },
            ]
        )

    def claim(self, name: str, size: int) -> Document:
        rng = self.rng
        annotations: Document = {}
        spec: Document = {
            "accessModes": rng.choice([[ONCE], [ONE_POD], [ONCE, MANY]] if self.odd else [[ONCE]]),
            "resources": {"requests": {"storage": f"{size}Gi"}},
            **self.maybe("storageClassName", rng.choice(["local", "local", "disk", "file", "ebs", "now", ""]), 0.97),
            **self.maybe("volumeMode", rng.choice(["Filesystem", "Block"]), 0.3 * self.odd),
            **self.maybe("selector", {"matchLabels": {"disk": "ssd"}}, 0.3 * self.odd),
            **self.maybe("volumeAttributesClassName", "gold", 0.1 * self.odd),
        }
        if rng.random() < 0.4:
            spec["volumeName"] = f"v{rng.randrange(8)}"
            annotations |= self.maybe("pv.kubernetes.io/bind-completed", "yes", 0.9)
        annotations |= self.maybe("volume.kubernetes.io/selected-node", f"n{rng.randrange(5)}", 0.15)
        metadata = {
            "name": name,
            "namespace": "default",
            "uid": name,
            "annotations": annotations,
            **self.maybe("deletionTimestamp", "2026-01-01T00:00:00Z", 0.03),
        }
        return {"metadata": metadata, "spec": spec, "status": {"phase": "Lost" if rng.random() < 0.03 else "Pending"}}

    def generated(self) -> Document:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "new", "uid": "new", "controller": True}
        claim = self.claim("new-own", 41)
        claim["metadata"] |= self.maybe("ownerReferences", [owner], 0.8)
        return claim

    def volume(self, name: str, size: int) -> Document:
        rng = self.rng
        labels = self.maybe("disk", rng.choice(["ssd", "hdd"]))
        if rng.random() < 0.4:
            labels[rng.choice([ZONE, REGION, OLD_ZONE, OLD_REGION])] = rng.choice(
                ["a", "b", "r", "a__b", "a__r", "a__"]
            )
        reference: Document = {"namespace": "default", "name": f"c{rng.randrange(6)}"}
        reference |= self.maybe("uid", rng.choice([reference["name"], "old"]), 0.7)
        spec: Document = {
            "capacity": {"storage": f"{size}Gi"},
            "accessModes": rng.choice([[ONCE], [ONCE, MANY], [ONCE, ONE_POD]]),
            "storageClassName": rng.choice(["local", "local", "disk", "file"]),
            **self.maybe("claimRef", reference, 0.3),
            **self.maybe("volumeMode", rng.choice(["Filesystem", "Block"]), 0.3 * self.odd),
            **self.maybe("volumeAttributesClassName", "gold", 0.1 * self.odd),
            **self.maybe("nodeAffinity", {"required": {"nodeSelectorTerms": self.terms()}}, 0.7),
            **self.maybe("csi", {"driver": rng.choice(DRIVERS), "volumeHandle": rng.choice("xyz") + name}, 0.7),
        }
        if "csi" not in spec:
            sources = {"azureDisk": {"diskName": name, "diskURI": name}, "cinder": {"volumeID": name}}
            sources["awsElasticBlockStore"] = {"volumeID": f"aws://a/vol-{name}"}
            source = rng.choice(list(sources))
            spec |= self.maybe(source, sources[source])
        metadata = {"name": name, "labels": labels, **self.maybe("deletionTimestamp", "2026-01-01T00:00:00Z", 0.05)}
        phase = rng.choice(["Available", "Available", "Bound", "Released"] if self.odd else ["Available"])
        return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}

    def terms(self) -> list[Document]:
        rng = self.rng
        return [self.term() for _ in range(rng.choice([1, 1, 1, 2]))]

    def term(self) -> Document:
        rng = self.rng
        usual = {"key": "host", "operator": "In", "values": rng.sample([f"n{n}" for n in range(5)], rng.randint(1, 3))}
        zone = {
            "key": rng.choice([ZONE, OLD_ZONE]),
            "operator": rng.choice(["In", "NotIn"]),
            "values": [rng.choice("ab")],
        }
        size: Document = {"key": "size", "operator": rng.choice(["Gt", "Exists", "DoesNotExist"])}
        if size["operator"] == "Gt":
            size["values"] = ["2"]
        term: Document = {"matchExpressions": rng.sample([usual, zone, size], rng.choice([1, 1, 2]))}
        if rng.random() < 0.08:
            named = {"key": "metadata.name", "operator": rng.choice(["In", "NotIn"]), "values": ["n0"]}
            term["matchFields"] = [named]
        return term

    def storage_class(self, name: str) -> Document:
        rng = self.rng
        term = {"matchLabelExpressions": [{"key": rng.choice([ZONE, "host"]), "values": ["a", "n1", "n2"]}]}
        return {
            "metadata": {"name": name},
            "provisioner": PROVISIONERS[name],
            "volumeBindingMode": "Immediate" if name == "now" else "WaitForFirstConsumer",
            **self.maybe("allowedTopologies", [term, {}] if rng.random() < 0.3 else [term], 0.3),
        }

    def csi_node(self, name: str) -> Document:
        rng = self.rng
        names = [*DRIVERS, "ebs.csi.aws.com", "pd.csi.storage.gke.io", "disk.csi.azure.com", "cinder.csi.openstack.org"]
        drivers = [
            {"name": driver, "nodeID": name, **self.maybe("allocatable", {"count": rng.randint(0, 3)}, 0.8)}
            for driver in rng.sample(names, rng.randint(1, 6))
        ]
        return {"metadata": {"name": name}, "spec": {"drivers": drivers}}

    def capacity(self, name: str) -> Document:
        rng = self.rng
        labels = rng.choice([{}, {"host": "n0"}, {"host": "n1"}, {ZONE: "a"}, {ZONE: "b", "host": "n2"}])
        return {
            "metadata": {"name": name, "namespace": "kube-system"},
            "storageClassName": rng.choice(["disk", "file"]),
            **self.maybe("nodeTopology", {"matchLabels": labels}, 0.9),
            **self.maybe("capacity", f"{rng.randint(1, 40)}Gi", 0.9),
            **self.maybe("maximumVolumeSize", f"{rng.randint(1, 40)}Gi", 0.3),
        }

    def attachment(self, name: str, nodes: int) -> Document:
        rng = self.rng
        source = self.maybe("persistentVolumeName", f"v{rng.randrange(8)}", 0.9)
        spec = {"attacher": rng.choice(DRIVERS), "nodeName": f"n{rng.randrange(nodes)}", "source": source}
        return {"metadata": {"name": name}, "spec": spec}


def concise(question: Document) -> Document:
    """A question without what its plugin does not read."""
    kept = ("plugin", "nodes", "pod", *READ[question["plugin"]])
    return {key: part if key in kept else [] for key, part in question.items()}


def telling(cases: list[Document]) -> list[Document]:
    """Of all cases that were answered alike, the two shortest."""
    alike: dict[str, list[Document]] = {}
    for case in sorted(cases, key=lambda one: len(json.dumps(one))):
        told, written = case["answer"], case["answer"].get("written", {})
        reasons = {json.dumps(verdict) for verdict in (told["preFilter"], *told.get("filter", {}).values())}
        kinds = sorted((key.split()[0], value.endswith("yes")) for key, value in written.items())
        kind = re.sub(r"[cvn]\d", "x", f"{case['plugin']} {sorted(reasons)} {kinds}")
        alike.setdefault(kind, []).append(case)
    return [case for _, same in sorted(alike.items()) for case in same[:2]]


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    seed, count = [int(one) for one in [*(one for one in arguments if one != "--check"), "1", "2000"][:2]]
    source = Questions(random.Random(seed))
    questions = [source.question() for _ in range(count)]
    cases = answered(HERE, questions if check else [concise(question) for question in questions])
    if not check:
        cases = telling(cases)
        keep(HERE, cases)
    return compare(cases, differences)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
