from __future__ import annotations

from typing import Any

import pytest

from restow.eviction.budgets import disruption_budget
from restow.eviction.protections import PodContext, Protections, eviction_refusal
from restow.model.objects import PersistentVolumeClaim, Pod
from restow.model.selectors import parse_label_selector
from restow.model.wire import convert_document
from tests.eviction.eviction_objects import pdb, pod

NOW = 1_800_000_000.0
CRITICAL = 2_000_000_000
SCRATCH = [{"name": "scratch", "emptyDir": {}}]
OWN = [{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}}]
MADE = {"volume.kubernetes.io/storage-provisioner": "disks.example.com"}
CHOSEN = {"volume.kubernetes.io/selected-node": "n1"}
DATA = [{"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}}]


def claim(mode: str = "ReadWriteOnce", storage_class: str = "fast", **metadata: Any) -> PersistentVolumeClaim:
    spec = {"accessModes": [mode, *metadata.pop("modes", ())], "storageClassName": storage_class}
    metadata = {"name": "data-0", "namespace": "shop", **metadata}
    return convert_document(PersistentVolumeClaim, {"metadata": metadata, "spec": spec})


def own(annotations: dict[str, str]) -> PodContext:
    """What is known around a pod that has a claim of its own."""
    return PodContext(now=NOW, claims={"web-1-data": claim(name="web-1-data", annotations=annotations)})


def around(**more: Any) -> PodContext:
    return PodContext(now=NOW, claims={"data-0": more.pop("claim", claim())}, **more)


FORBIDDEN: dict[str, tuple[Pod, Protections, PodContext, str]] = {
    "a DaemonSet's pod": (
        pod(owner="DaemonSet agent"),
        Protections(),
        around(),
        "DaemonSet agent would put it back on the same node",
    ),
    "a pod with a node named by its controller": (
        pod(owner="ReplicaSet web-1"),
        Protections(),
        around(node_named_by_template="n7"),
        "ReplicaSet web-1 would put it on node n7 without a scheduler",
    ),
    "a mirror pod": (
        pod(owner="Node n1", annotations={"kubernetes.io/config.mirror": "x"}),
        Protections(),
        around(),
        "it is a mirror pod: its kubelet owns it",
    ),
    "a static pod": (
        pod(annotations={"kubernetes.io/config.source": "file"}),
        Protections(),
        around(),
        "it is a static pod, from file",
    ),
    "a bare pod": (pod(owner=""), Protections(), around(), "no controller would recreate it"),
    "a bare pod that runs, where only failed ones may go": (
        pod(owner=""),
        Protections(evict_failed_bare_pods=True),
        around(),
        "no controller would recreate it",
    ),
    "a bare pod that failed": (
        pod(owner="", phase="Failed"),
        Protections(),
        around(),
        "no controller would recreate it; failed pods may be evicted with evictFailedBarePods",
    ),
    "a terminating pod": (
        pod(deletionTimestamp="2026-01-01T00:00:00Z"),
        Protections(),
        around(),
        "it is already terminating",
    ),
    "a pod with a prohibitive eviction cost": (
        pod(annotations={"scheduling.koordinator.sh/eviction-cost": "2147483647"}),
        Protections(),
        around(),
        "its scheduling.koordinator.sh/eviction-cost is 2147483647, which means never",
    ),
    "a pod that says no": (
        pod(annotations={"descheduler.alpha.kubernetes.io/evict": "false"}),
        Protections(),
        around(),
        "its annotation descheduler.alpha.kubernetes.io/evict is false",
    ),
    "a pod of another scheduler": (
        pod(schedulerName="default-scheduler"),
        Protections(scheduler_names=frozenset({"restow"})),
        around(),
        "its scheduler is default-scheduler, schedulerNames has restow",
    ),
    "a namespace that is not included": (
        pod(),
        Protections(include_namespaces=frozenset({"batch"})),
        around(),
        "namespace shop is not among those included: batch",
    ),
    "a namespace that is excluded": (
        pod(),
        Protections(exclude_namespaces=frozenset({"shop"})),
        around(),
        "namespace shop is excluded",
    ),
    "a critical pod": (
        pod(priority=CRITICAL),
        Protections(),
        around(),
        "it is critical to the system: its priority is 2000000000 (evictSystemCriticalPods is false)",
    ),
    "a pod at the threshold": (
        pod(priority=100),
        Protections(priority_threshold=100),
        around(),
        "its priority 100 is not below the threshold 100",
    ),
    "a critical pod above the threshold, where critical ones may go": (
        pod(priority=CRITICAL),
        Protections(evict_system_critical_pods=True, priority_threshold=100),
        around(),
        "its priority 2000000000 is not below the threshold 100",
    ),
    "a pod above a named threshold": (
        pod(priority=100),
        Protections(priority_threshold_name="mid"),
        around(priority_classes={"mid": 50}),
        "its priority 100 is not below the threshold 50",
    ),
    "an unknown priority threshold": (
        pod(),
        Protections(priority_threshold_name="mid"),
        around(),
        "priorityThreshold names PriorityClass mid, which does not exist",
    ),
    "local storage": (
        pod(volumes=SCRATCH),
        Protections(),
        around(),
        "it has local storage: scratch (evictLocalStoragePods is false)",
    ),
    "a directory of its node": (
        pod(volumes=[{"name": "logs", "hostPath": {"path": "/var/log"}}]),
        Protections(),
        around(),
        "it has local storage: logs (evictLocalStoragePods is false)",
    ),
    "a claim for one pod only": (
        pod(volumes=DATA),
        Protections(),
        around(claim=claim("ReadWriteOncePod")),
        "only one pod at a time may use data-0 (ReadWriteOncePod), so no seat can be kept for it",
    ),
    "an ephemeral volume that was there before": (
        pod(volumes=OWN),
        Protections(),
        own({}),
        "the volume of web-1-data was not provisioned for it, and no seat can hold another one like it",
    ),
    "a claim where claims are left alone": (
        pod(volumes=DATA),
        Protections(ignore_pvc_pods=True),
        around(),
        "it uses the claims data-0, and ignorePvcPods is set",
    ),
    "an unknown claim": (
        pod(volumes=[{"name": "x", "persistentVolumeClaim": {"claimName": "x"}}]),
        Protections(),
        around(),
        "its PersistentVolumeClaims are not known: x",
    ),
    "a volume for one node, which another pod there uses as well": (
        pod(volumes=DATA),
        Protections(),
        around(claims_shared_with={"data-0": "web-2"}),
        "pod web-2 on its node uses data-0 as well, and only one node at a time may (ReadWriteOnce), so its successor "
        "on another node would wait for it",
    ),
    "devices": (
        pod(resourceClaims=[{"name": "gpu"}]),
        Protections(),
        around(),
        "it uses dynamic resource allocation: gpu",
    ),
    "labels that do not match": (
        pod(),
        Protections(selector=parse_label_selector("app=db")),
        around(),
        "its labels do not match app=db",
    ),
    "a node that does not match": (
        pod(),
        Protections(node_selector=parse_label_selector("pool=batch")),
        around(node_labels={"pool": "web"}),
        "the labels of its node do not match pool=batch",
    ),
    "too few replicas": (
        pod(),
        Protections(min_replicas=2),
        around(replicas=1),
        "its workload has 1 replica, and minReplicas is 2",
    ),
    "too young": (
        pod(startTime="2027-01-15T08:00:00Z"),
        Protections(min_age=60),
        around(),
        "it started 0s ago, and must be 60s old",
    ),
    "two budgets": (
        pod(),
        Protections(),
        around(budgets=(disruption_budget(pdb("a")), disruption_budget(pdb("b")))),
        "2 PodDisruptionBudgets cover it (a, b), and the eviction API accepts at most one",
    ),
    "no budget, where one is asked for": (
        pod(),
        Protections(ignore_pods_without_budget=True),
        around(),
        "no PodDisruptionBudget covers it",
    ),
}

ALLOWED: dict[str, tuple[Pod, Protections, PodContext]] = {
    "an ordinary pod": (pod(), Protections(), around()),
    "the only replica": (pod(), Protections(), around(replicas=1)),
    "an ephemeral volume that was made for it": (pod(volumes=OWN), Protections(), own(MADE)),
    "an ephemeral volume that was made where it came to be": (pod(volumes=OWN), Protections(), own(CHOSEN)),
    "a StatefulSet's pod with a ReadWriteOnce claim": (
        pod(owner="StatefulSet db", volumes=DATA),
        Protections(),
        around(),
    ),
    "a volume for any number of nodes, which another pod uses as well": (
        pod(volumes=DATA),
        Protections(),
        around(claims_shared_with={"data-0": "web-2"}, claim=claim("ReadWriteMany")),
    ),
    "a volume for one node or for any number": (
        pod(volumes=DATA),
        Protections(),
        around(claims_shared_with={"data-0": "web-2"}, claim=claim("ReadWriteOnce", modes=["ReadWriteMany"])),
    ),
    "one that is over, and has let go of its volume": (
        pod(volumes=DATA, phase="Succeeded"),
        Protections(),
        around(claims_shared_with={"data-0": "web-2"}),
    ),
    "a claim of a class that is not protected": (
        pod(volumes=DATA),
        Protections(ignore_pvc_pods=True, pvc_storage_classes=frozenset({"slow"})),
        around(),
    ),
    "local storage, where that may go": (pod(volumes=SCRATCH), Protections(evict_local_storage_pods=True), around()),
    "a critical pod below the threshold, where critical ones may go": (
        pod(priority=CRITICAL),
        Protections(evict_system_critical_pods=True, priority_threshold=CRITICAL + 1),
        around(),
    ),
    "a critical pod, where these may go": (
        pod(priority=CRITICAL),
        Protections(evict_system_critical_pods=True),
        around(),
    ),
    "a failed bare pod, where these may go": (
        pod(owner="", phase="Failed"),
        Protections(evict_failed_bare_pods=True),
        around(),
    ),
    "a bare pod, where all may go": (pod(owner=""), Protections(evict_all_bare_pods=True), around()),
    "a running pod without a start time": (pod(), Protections(min_age=60), around()),
}


@pytest.mark.parametrize("case", FORBIDDEN.values(), ids=FORBIDDEN)
def test_a_protected_pod_is_refused_with_the_reason(case: tuple[Pod, Protections, PodContext, str]) -> None:
    asked, protections, context, reason = case
    assert eviction_refusal(asked, protections, context) == reason


@pytest.mark.parametrize("case", ALLOWED.values(), ids=ALLOWED)
def test_an_unprotected_pod_is_not_refused(case: tuple[Pod, Protections, PodContext]) -> None:
    assert eviction_refusal(*case) is None
