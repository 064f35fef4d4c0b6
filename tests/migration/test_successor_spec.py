"""What the successor of a pod may be like."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from restow.migration.successor_spec import possible_successors, successor_with_certain_labels
from restow.model.objects import ObjectMeta, PodSpec, PodTemplate
from restow.model.resources import pod_requests
from tests.migration.move_facts import pod


def container(name: str = "main", image: str = "app:1", **requests: str) -> dict[str, Any]:
    return {"name": name, "image": image, "resources": {"requests": requests} if requests else {}}


def limited(limit: str, **requests: str) -> dict[str, Any]:
    made = container(**requests)
    return made | {"resources": made["resources"] | {"limits": {"cpu": limit}}}


MAIN, SIDECAR = container(cpu="1"), container("proxy", cpu="100m")
ROOM = {"overhead": {"cpu": "1"}, "resources": {}}
SERVING = {**MAIN, "ports": [{"containerPort": 80, "hostPort": 80}]}
TOKEN: dict[str, Any] = {"name": "kube-api-access"}
DATA = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
OLD_DATA = {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}
GPU, NOT_READY = {"key": "gpu", "operator": "Exists"}, {"key": "node.kubernetes.io/not-ready", "operator": "Exists"}
EVENLY = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
NEAR: dict[str, Any] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}}


@pytest.mark.parametrize(
    ("old", "new", "made"),
    [
        pytest.param({"containers": [MAIN]}, {"containers": [MAIN]}, None, id="nothing has changed"),
        pytest.param(
            {"containers": [MAIN, SIDECAR], "initContainers": [SIDECAR], "nodeSelector": {"disk": "fast"}},
            {"containers": [MAIN]},
            None,
            id="what others added is added again",
        ),
        pytest.param(
            {"containers": [container(cpu="1", memory="1Gi")]},
            {"containers": [container()]},
            None,
            id="defaults of its namespace are given again",
        ),
        pytest.param(
            {"containers": [MAIN, SIDECAR]},
            {"containers": [container(image="app:2", cpu="2")]},
            {"containers": [container(image="app:2", cpu="2"), SIDECAR]},
            id="a newer revision, beside what others added",
        ),
        pytest.param(
            {"containers": [MAIN]},
            {"containers": [MAIN, SIDECAR], "initContainers": [SIDECAR]},
            {"containers": [MAIN, SIDECAR], "initContainers": [SIDECAR]},
            id="new containers",
        ),
        pytest.param(
            {"nodeSelector": {"zone": "a"}},
            {"nodeSelector": {"disk": "fast"}, "affinity": NEAR, **ROOM},
            {
                "nodeSelector": {"zone": "a", "disk": "fast"},
                "affinity": NEAR,
                "overhead": {"cpu": "1"},
                "resources": {},
            },
            id="other places, and other room",
        ),
        pytest.param(
            {"containers": [MAIN]}, {"containers": [SERVING]}, {"containers": [SERVING]}, id="a host port, from now on"
        ),
        pytest.param(
            {"volumes": [TOKEN], "tolerations": [NOT_READY]},
            {"volumes": [DATA], "tolerations": [GPU], "topologySpreadConstraints": EVENLY},
            {"volumes": [TOKEN, DATA], "tolerations": [NOT_READY, GPU], "topologySpreadConstraints": EVENLY},
            id="more that it asks for, beside what others added",
        ),
        pytest.param({"volumes": [OLD_DATA]}, {"volumes": [DATA]}, {"volumes": [DATA]}, id="another claim"),
        pytest.param(
            {"initContainers": [SIDECAR]},
            {"initContainers": [SIDECAR | {"restartPolicy": "Always"}]},
            {"initContainers": [SIDECAR | {"restartPolicy": "Always"}]},
            id="an init container that stays on",
        ),
        pytest.param(
            {"containers": [limited("1", cpu="1")]},
            {"containers": [limited("2")]},
            {"containers": [limited("2", cpu="2")]},
            id="a larger limit alone",
        ),
        pytest.param({}, {"schedulerName": "other"}, {"schedulerName": "other"}, id="another scheduler's"),
        pytest.param({"volumes": [OLD_DATA]}, {"volumes": [{"name": "data"}]}, None, id="a claim of its own"),
    ],
)
def test_possible_successors_of_a_pod_with_another_template(old: Any, new: Any, made: Any) -> None:
    migrating_pod = pod(spec=old)
    first, *rest = possible_successors(migrating_pod, PodTemplate(spec=msgspec.convert(new, PodSpec)))
    assert first is migrating_pod
    assert [one.spec for one in rest] == ([pod(spec={**old, **made}).spec] if made else [])
    assert all(one.metadata == migrating_pod.metadata for one in rest)


def test_requests_of_containers_may_replace_pod_level_requests() -> None:
    migrating_pod = pod(spec={"resources": {"requests": {"cpu": "200m"}}, "containers": [container(cpu="100m")]})
    larger = PodTemplate(spec=msgspec.convert({"containers": [container(cpu="1")]}, PodSpec))
    assert [pod_requests(one)["cpu"] for one in possible_successors(migrating_pod, larger)] == [200, 1000, 200]


def test_certain_labels_of_a_successor_are_those_of_template_and_ordinal() -> None:
    place = {"statefulset.kubernetes.io/pod-name": "db-0", "apps.kubernetes.io/pod-index": "0"}
    old = {"app": "db", "by-hand": "yes", "controller-revision-hash": "1", **place}
    migrating_pod = replace(pod(), metadata=replace(pod().metadata, labels=old))
    comes = successor_with_certain_labels(
        migrating_pod, PodTemplate(metadata=ObjectMeta(labels={"app": "db", "tier": "new"}))
    )
    assert comes.metadata.labels == {"app": "db", "tier": "new", **place}
    assert successor_with_certain_labels(migrating_pod, None) is migrating_pod


def test_without_a_known_template_the_only_possible_successor_is_the_pod() -> None:
    migrating_pod = pod()
    assert possible_successors(migrating_pod, None) == (migrating_pod,)


def test_a_successor_has_the_labels_and_annotations_of_template_and_pod() -> None:
    told, new = {"app": "web", "track": "old", "added": "x"}, {"app": "web", "track": "new"}
    migrating_pod = replace(pod(), metadata=replace(pod().metadata, labels=told, annotations=told))
    _, made = possible_successors(
        migrating_pod, PodTemplate(metadata=ObjectMeta(labels=new, annotations=new), spec=migrating_pod.spec)
    )
    assert made.metadata.labels == made.metadata.annotations == {"app": "web", "track": "new", "added": "x"}
