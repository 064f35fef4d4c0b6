"""Anonymised clusters: nothing readable stays, and every answer is the same but for the names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from restow.model.inventory import Inventory, read_inventory
from restow.model.kinds import PERSISTENT_VOLUME_CLAIM, POD, Kind
from restow.model.names import label_value_problems, qualified_name_problems, subdomain_problems
from restow.model.objects import Document
from restow.model.volumes import claims_used
from restow.model.wire import decode_object
from restow.running.configuration import Configuration
from restow.scheduling.registry import read_profile
from restow.sim.scenarios import Scenario, generate_snapshot
from restow.snapshots import offline
from restow.snapshots.anonymiser import PUBLIC_TEXTS, Anonymiser
from restow.snapshots.capture import CAPTURED_KINDS

SCHEDULING = {"schedulerNames": ["restow"]}
NOW = 1_767_225_600.0

SCENARIOS = [
    pytest.param(Scenario(seed=1, nodes=12, pods=80, pending=4), id="a bit of everything"),
    pytest.param(Scenario(seed=2, nodes=10, pods=60, pinned=0.4, apart=0.3, spread=0.3, pending=2), id="constrained"),
    pytest.param(Scenario(seed=3, nodes=16, pods=60, gpu=0.3, batch=0.2, skew=0.9, pending=6), id="dedicated nodes"),
]


def meta(name: str, namespace: str | None = "acme-shop", **more: Any) -> Document:
    return {"name": name, "uid": f"acme-uid-{name}", **({"namespace": namespace} if namespace else {}), **more}


def an_object(kind: str, metadata: Document, version: str = "v1", **parts: Any) -> Document:
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}


def node(name: str, zone: str, generation: str, cpu: str = "8", **spec: Any) -> Document:
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": zone,
        "acme.example/generation": generation,
        "node-role.kubernetes.io/acme-team": "",
        "acme-disk": "acme-fast",
    }
    room = {"cpu": cpu, "memory": "32Gi", "pods": "20", "acme.example/fpga": "2", "hugepages-2Mi": "0"}
    status = {
        "allocatable": room,
        "capacity": room,
        "conditions": [{"type": "Ready", "status": "True", "message": "acme says hello"}],
        "images": [{"names": ["registry.acme.example/shop/web:latest"], "sizeBytes": 900_000_000}],
        "addresses": [{"type": "InternalIP", "address": "acme-address"}],
    }
    return an_object("Node", meta(name, None, labels=labels), spec={"providerID": "acme://acme", **spec}, status=status)


OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "acme-web", "uid": "acme-rs", "controller": True}


def pod(name: str, on: str | None = None, *, cpu: str = "1", metadata: Document | None = None, **spec: Any) -> Document:
    container = {
        "name": "acme-main",
        "image": "registry.acme.example/shop/web",
        "resources": {"requests": {"cpu": cpu, **spec.pop("requests", {})}},
        "env": [{"name": "ACME_PASSWORD", "value": "acme-secret"}],
        **spec.pop("container", {}),
    }
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": '{"acme": 1}'}
    more = {"labels": {"acme-app": "acme-web"}, "annotations": annotations, "ownerReferences": [OWNER]}
    body = {"schedulerName": "restow", "containers": [container], **({"nodeName": on} if on else {}), **spec}
    status = {"phase": "Running" if on else "Pending"}
    return an_object("Pod", meta(name, **{**more, **(metadata or {})}), spec=body, status=status)


def affinity(kind: str, *terms: Document) -> Document:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def node_affinity(*expressions: Document) -> Document:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def claim(name: str, volume: str | None, **metadata: Any) -> Document:
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    spec: Document = {"accessModes": ["ReadWriteOnce"], "storageClassName": "acme-disks"}
    spec |= {"resources": {"requests": {"storage": "1Gi"}}, **({"volumeName": volume} if volume else {})}
    return an_object("PersistentVolumeClaim", meta(name, annotations=annotations, **metadata), spec=spec)


WEB = {"matchLabels": {"acme-app": "acme-web"}}
NEAR = {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": WEB}
SPREAD = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **NEAR}
APART = {"topologyKey": "kubernetes.io/hostname", "labelSelector": WEB, "namespaceSelector": {}}
HANDMADE = [
    an_object("Namespace", meta("acme-shop", None, labels={"kubernetes.io/metadata.name": "acme-shop"})),
    an_object("PriorityClass", meta("acme-urgent", None), "scheduling.k8s.io/v1", value=1000),
    node("acme-n1", "acme-a", "3"),
    node("acme-n2", "acme-a", "12", taints=[{"key": "acme.example/only", "value": "acme", "effect": "NoSchedule"}]),
    node("acme-n3", "acme-b", "7", "4"),
    node("acme-n4", "acme-c", "7", "16"),
    an_object(
        *("StorageClass", meta("acme-disks", None), "storage.k8s.io/v1"),
        provisioner="disks.acme.example",
        volumeBindingMode="WaitForFirstConsumer",
    ),
    an_object(
        *("PersistentVolume", meta("acme-pv", None, labels={"topology.kubernetes.io/zone": "acme-a__acme-b"})),
        spec={
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "acme-disks",
            "claimRef": {"namespace": "acme-shop", "name": "acme-data", "uid": "acme-uid-acme-data"},
            "csi": {"driver": "disks.acme.example", "volumeHandle": "acme-volume"},
        },
    ),
    claim("acme-data", "acme-pv"),
    claim("acme-eph-acme-scratch", None, ownerReferences=[{"uid": "acme-uid-acme-eph", "controller": True}]),
    pod("acme-1", "acme-n1", metadata={"annotations": {"scheduling.koordinator.sh/eviction-cost": "2147483647"}}),
    pod("acme-2", "acme-n1", cpu="2"),
    pod("acme-3", "acme-n3", cpu="1", tolerations=[{"key": "acme.example/only", "operator": "Exists"}]),
    pod("acme-4", "acme-n4", cpu="11"),
    pod("acme-5", "acme-n4", metadata={"labels": {"acme-app": "acme-kept"}}),
    pod("acme-pinned", nodeSelector={"acme-disk": "acme-fast", "kubernetes.io/hostname": "acme-n3"}),
    pod("acme-new", affinity=node_affinity({"key": "acme.example/generation", "operator": "Gt", "values": ["6"]})),
    pod("acme-old", affinity=node_affinity({"key": "acme.example/generation", "operator": "Lt", "values": ["10"]})),
    pod("acme-lost", nodeSelector={"acme-disk": "acme-slow"}),
    pod("acme-apart", affinity=affinity("podAntiAffinity", APART)),
    pod("acme-near", affinity=affinity("podAffinity", NEAR)),
    pod("acme-spread", topologySpreadConstraints=[SPREAD]),
    pod("acme-tolerant", cpu="7", tolerations=[{"key": "acme.example/only", "value": "acme", "effect": "NoSchedule"}]),
    pod("acme-disk", volumes=[{"name": "acme-v", "persistentVolumeClaim": {"claimName": "acme-data"}}]),
    pod("acme-nodisk", volumes=[{"name": "acme-v", "persistentVolumeClaim": {"claimName": "acme-missing"}}]),
    pod("acme-eph", volumes=[{"name": "acme-scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]),
    pod("acme-port", container={"ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "0.0.0.0"}]}),
    pod("acme-fpga", requests={"acme.example/fpga": "1"}, priorityClassName="acme-urgent", priority=1000),
    pod("acme-fpgas", requests={"acme.example/fpga": "3"}),
    pod("acme-gated", schedulingGates=[{"name": "acme.example/gate"}]),
    pod("acme-gang", metadata={"annotations": {"scheduling.k8s.io/group-name": "acme-gang"}}),
    an_object(
        *("PodGroup", meta("acme-gang"), "scheduling.volcano.sh/v1beta1"), spec={"minMember": 2, "queue": "acme-queue"}
    ),
    an_object("Queue", meta("acme-queue", None), "scheduling.volcano.sh/v1beta1", spec={"weight": 1}),
    an_object(
        *("Reservation", meta("acme-seats"), "batch.volcano.sh/v1alpha1"),
        spec={
            "schedulerName": "restow",
            "owners": [{"labelSelector": WEB}, {"object": {"kind": "Pod", "name": "acme-2"}}],
            "tasks": [{"name": "acme-t", "replicas": 1, "template": {"spec": pod("acme-t", cpu="2")["spec"]}}],
        },
        status={
            "state": {"phase": "Available", "message": "acme"},
            "placements": [{"task": "acme-t", "index": 0, "nodeName": "acme-n3"}],
            "taskStatusCount": {"acme-t": {"phase": {"Available": 1}}},
            "observedRequests": {"acme-t": {"cpu": "2", "acme.example/fpga": "1"}},
            "observedQueue": "acme-q",
        },
    ),
    an_object(
        *("PodMigrationJob", meta("acme-job", None), "scheduling.koordinator.sh/v1alpha1"),
        spec={"podRef": {"namespace": "acme-shop", "name": "acme-2"}, "ttl": "5m"},
        status={"phase": "Succeed", "nodeName": "acme-n3"},
    ),
    an_object("ReplicaSet", meta("acme-web", uid="acme-rs"), "apps/v1", spec={"replicas": 5}),
    an_object(
        *("PodDisruptionBudget", meta("acme-budget"), "policy/v1"),
        spec={"selector": {"matchLabels": {"acme-app": "acme-kept"}}, "maxUnavailable": "10%"},
        status={"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
    ),
]


def listed(items: list[Document]) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()


def read(items: list[Document]) -> Inventory:
    return read_inventory(listed(items), "snapshot")


def anonymised(inventory: Inventory) -> tuple[Anonymiser, bytes]:
    anonymiser = Anonymiser(inventory)
    return anonymiser, listed(list(anonymiser.documents()))


def scheduled(inventory: Inventory) -> offline.Schedule:
    return offline.schedule_offline(offline.OfflineCluster(inventory), read_profile(SCHEDULING), NOW)


def planned(inventory: Inventory, strategy: str, objective: str) -> dict[str, Any]:
    asked = offline.PlanOptions(strategy=strategy, objective=objective, work_limit=20)
    profile = read_profile(SCHEDULING)
    plan = offline.plan_offline(offline.OfflineCluster(inventory), profile, Configuration(), asked, lambda: NOW)
    return written(msgspec.structs.replace(plan, versions={}, seconds=0.0, configuration=""))


def written(answer: msgspec.Struct) -> dict[str, Any]:
    return msgspec.json.decode(msgspec.json.encode(answer), type=dict[str, Any])


_NAME = re.compile(r"(?=[0-9_./-]*[A-Za-z])[A-Za-z0-9_./-]*[A-Za-z0-9]")
"""Anything but numbers and their ratios."""


def renamed(value: Any, anonymiser: Anonymiser) -> Any:
    """An answer in the words of the anonymised cluster."""
    if isinstance(value, str):
        seat = "-".join(map(anonymiser.alias_of, ("acme-seats", "acme-t")))
        return _NAME.sub(lambda name: anonymiser.alias_of(name[0]), value.replace("acme-seats-acme-t", seat))
    if isinstance(value, dict):
        return {key: renamed(item, anonymiser) for key, item in value.items()}
    return [renamed(item, anonymiser) for item in value] if isinstance(value, list) else value


def in_any_order(plan: dict[str, Any]) -> dict[str, Any]:
    """Lists are sorted by name, and well-known names are among aliases elsewhere than among names."""
    plan = dict(plan)
    for name in ("refusals", "places", "unschedulable", "placements"):
        plan[name] = sorted(plan.get(name, ()), key=lambda one: sorted(one.items()))
    return plan


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from (key, *strings(item))
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


@pytest.fixture(params=[*SCENARIOS, pytest.param(HANDMADE, id="made by hand")])
def inventory(request: pytest.FixtureRequest) -> Inventory:
    asked = request.param
    return read(asked if isinstance(asked, list) else generate_snapshot(asked)["items"])


def test_anonymised_pods_go_to_the_same_nodes_for_the_same_reasons(inventory: Inventory) -> None:
    anonymiser, data = anonymised(inventory)
    answer = written(scheduled(read_inventory(data, "anonymised")))
    assert in_any_order(answer) == in_any_order(renamed(written(scheduled(inventory)), anonymiser))


def same_plan(inventory: Inventory, strategy: str, objective: str = "free-nodes") -> None:
    anonymiser, data = anonymised(inventory)
    answer = planned(read_inventory(data, "anonymised"), strategy, objective)
    assert in_any_order(answer) == in_any_order(renamed(planned(inventory, strategy, objective), anonymiser))


@pytest.mark.parametrize("strategy", ["defragmentation", "balance"])
def test_anonymised_plans_are_the_same_move_by_move(inventory: Inventory, strategy: str) -> None:
    same_plan(inventory, strategy)


@pytest.mark.parametrize("objective", ["free-nodes", "pending"])
def test_anonymised_cluster_has_the_same_optimal_plan(objective: str) -> None:
    same_plan(read(HANDMADE), "optimal", objective)


def test_anonymised_documents_contain_no_private_text() -> None:
    _, data = anonymised(read(HANDMADE))
    assert not [string for string in strings(json.loads(data)) if "acme" in string.lower()]


def test_anonymised_names_and_labels_differ_from_the_original(inventory: Inventory) -> None:
    _, data = anonymised(inventory)
    metadata = [one.metadata for kind in inventory.kinds for one in inventory.of(kind)]
    texts = {text for meta in metadata for text in (meta.name, meta.uid, *(meta.labels or {}).values())}
    free = {text for text in texts if text and text not in PUBLIC_TEXTS and not text.isdigit()}
    assert free and not free & set(strings(json.loads(data)))


def test_aliases_are_valid_names_and_labels(inventory: Inventory) -> None:
    _, data = anonymised(inventory)
    after = read_inventory(data, "anonymised")
    for metadata in [one.metadata for kind in after.kinds for one in after.of(kind)]:
        labels = metadata.labels or {}
        assert not subdomain_problems(metadata.name)
        assert not [key for key in labels if qualified_name_problems(key)]
        assert not [value for value in labels.values() if label_value_problems(value)]


def test_claim_of_an_ephemeral_volume_keeps_its_pod() -> None:
    anonymiser, data = anonymised(read(HANDMADE))
    after = read_inventory(data, "anonymised")
    (eph,) = [pod for pod in after.of(POD) if pod.metadata.name == anonymiser.alias_of("acme-eph")]
    (use,) = claims_used(eph)
    assert use.name in [claim.metadata.name for claim in after.of(PERSISTENT_VOLUME_CLAIM)]


@pytest.mark.parametrize("kind", CAPTURED_KINDS, ids=str)
def test_every_captured_kind_can_be_anonymised(kind: Kind[Any]) -> None:
    one = decode_object(kind.type, b'{"metadata": {"name": "acme"}, "spec": {"podRef": {}}}')
    (written,) = Anonymiser(Inventory({kind: [one]}, {})).documents()
    assert (written["apiVersion"], written["kind"]) == (kind.api_version, kind.kind)
    assert written["metadata"] == {"name": "x0"}


@pytest.mark.parametrize(
    ("text", "form"),
    [
        pytest.param("cpu", r"cpu", id="a well-known resource"),
        pytest.param("acme.example/fpga", r"x\d+/x\d+", id="a custom resource"),
        pytest.param("node-role.kubernetes.io/acme-team", r"x\d+\.kubernetes\.io/x\d+", id="a key half known"),
        pytest.param("acme-a__acme-b", r"x\d+__x\d+", id="two zones"),
        pytest.param("7", "7", id="a number that Gt compares"),
    ],
)
def test_alias_keeps_the_form_of_a_text(text: str, form: str) -> None:
    assert re.fullmatch(form, Anonymiser(read(HANDMADE)).alias_of(text))


def test_anonymiser_keeps_own_annotations_and_drops_others() -> None:
    annotations = {
        "restow.sh/reservation": "acme-shop/acme-r/acme-t/3",
        "restow.sh/moved-at": "2026-01-01T00:00:00Z",
        "controller.kubernetes.io/pod-deletion-cost": "acme",
        "acme.example/note": "acme",
    }
    anonymiser, data = anonymised(read([pod("acme-p", metadata={"annotations": annotations})]))
    (kept,) = [item["metadata"]["annotations"] for item in json.loads(data)["items"]]
    assert list(kept) == list(annotations)[:3]
    assert re.fullmatch(r"x\d+/x\d+/x\d+/3", kept["restow.sh/reservation"])
    assert kept["restow.sh/moved-at"] == annotations["restow.sh/moved-at"]
    assert kept["controller.kubernetes.io/pod-deletion-cost"] == anonymiser.alias_of("acme")


@pytest.mark.parametrize(
    ("spec", "annotations"),
    [
        pytest.param({"backoffLimit": 1}, {}, id="another is leaving, and one may be lost"),
        pytest.param(
            {"backoffLimitPerIndex": 1},
            {"batch.kubernetes.io/job-index-failure-count": "1"},
            id="one of its index was lost",
        ),
        pytest.param(
            {"podFailurePolicy": {"rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}]}},
            {},
            id="none may be lost",
        ),
    ],
)
def test_anonymised_pod_of_a_failing_job_keeps_its_obstacle(spec: Document, annotations: dict[str, str]) -> None:
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "acme-etl",
        "uid": "acme-uid-acme-etl",
        "controller": True,
    }
    tracked = {"ownerReferences": [owner], "finalizers": ["batch.kubernetes.io/job-tracking"]}
    leaving = {**tracked, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    items = [
        an_object("Job", meta("acme-etl"), "batch/v1", spec=spec),
        pod("acme-p", metadata={**tracked, "annotations": annotations}),
        pod("acme-q", metadata=leaving),
    ]
    before = read(items)
    anonymiser, data = anonymised(before)
    (obstacle,) = obstacles(before, "acme-p")
    assert obstacles(read_inventory(data, "anonymised"), anonymiser.alias_of("acme-p")) == [
        renamed(obstacle, anonymiser)
    ]


def obstacles(inventory: Inventory, name: str) -> list[str]:
    """What keeps a pod from moving."""
    cluster = offline.OfflineCluster(inventory)
    (successor,) = [pod for pod in cluster.pods if pod.metadata.name == name]
    return list(offline.offline_eviction_rules(cluster, Configuration(), NOW).refusal_reasons(successor))
