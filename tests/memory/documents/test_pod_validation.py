"""What a pod may say, and what an update of it may change."""

# ruff: noqa: E501 - one case, one line

from __future__ import annotations

import copy
from typing import Any

import pytest

from restow.adapters.memory.documents.builtins import apply_defaults, validate_builtin
from restow.adapters.memory.documents.typed_documents import conform_to_kind
from restow.model.objects import Document

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
C = {"name": "c", "image": "i"}


def pod(*, metadata: Document | None = None, **spec: Any) -> Document:
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", **(metadata or {})},
        "spec": {"containers": [C], **spec},
    }
    document = conform_to_kind(copy.deepcopy(document), group="", kind="Pod").document
    apply_defaults(document, group="", kind="Pod")
    return document


def container(**members: Any) -> Document:
    return pod(containers=[{**C, **members}])


def causes(new: Document, old: Document | None = None, subresource: str | None = None) -> list[tuple[str, str]]:
    problems = validate_builtin(new, old, group="", kind="Pod", subresource=subresource)
    return [(cause.field or "", cause.message or "") for cause in problems]


def affinity(**terms: Any) -> Document:
    return pod(affinity=terms)


def node_terms(*expressions: Document, fields: tuple[Document, ...] = ()) -> Document:
    term: Document = {"matchExpressions": list(expressions)} | ({"matchFields": list(fields)} if fields else {})
    return {REQUIRED: {"nodeSelectorTerms": [term]}}


FINE = [
    ("a plain pod", pod()),
    ("everything at once", pod(
        nodeSelector={"a": "b"},
        tolerations=[{"operator": "Exists"}, {"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5}],
        volumes=[{"name": "v", "configMap": {"name": "x"}}, {"name": "w"}],
        containers=[
            {**C, "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 80, "protocol": "UDP"}],
             "volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "w", "mountPath": "/b"}],
             "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}, "limits": {"cpu": "2", "nvidia.com/gpu": "1"}}},
        ],
        initContainers=[{"name": "side", "image": "i", "restartPolicy": "Always"}],
        topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2}],
        affinity={"nodeAffinity": node_terms({"key": "a", "operator": "Gt", "values": ["1"]}, fields=({"key": "metadata.name", "operator": "In", "values": ["n"]},)),
                  "podAntiAffinity": {REQUIRED: [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}]}},
        schedulingGates=[{"name": "x.io/wait"}],
        overhead={"cpu": "10m"},
    )),
]  # fmt: skip


@pytest.mark.parametrize("document", [case[1] for case in FINE], ids=[case[0] for case in FINE])
def test_valid_pods_are_accepted(document: Document) -> None:
    assert causes(document) == []


WRONG = [
    (pod(containers=[]), "spec.containers", "Required value"),
    (pod(containers=[{"name": "c"}]), "spec.containers[0].image", "Required value"),
    (pod(containers=[C, C]), "spec.containers[1].name", 'Duplicate value: "c"'),
    (pod(containers=[C], initContainers=[C]), "spec.initContainers[0].name", 'Duplicate value: "c"'),
    (pod(containers=[{"name": "C_", "image": "i"}]), "spec.containers[0].name", 'Invalid value: "C_"'),
    (pod(restartPolicy="Sometimes"), "spec.restartPolicy", 'Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"'),
    (pod(dnsPolicy="x"), "spec.dnsPolicy", 'Unsupported value: "x"'),
    (pod(activeDeadlineSeconds=0), "spec.activeDeadlineSeconds", "Invalid value: 0"),
    (pod(nodeName="n", schedulingGates=[{"name": "g"}]), "spec.nodeName", "Forbidden"),
    (pod(schedulingGates=[{"name": "g"}, {"name": "g"}]), "spec.schedulingGates[1]", "Duplicate"),
    (container(imagePullPolicy="x"), "spec.containers[0].imagePullPolicy", "Unsupported value"),
    (container(ports=[{"containerPort": 70000}]), "spec.containers[0].ports[0].containerPort", "must be between 1 and 65535, inclusive"),
    (container(ports=[{"name": "a", "containerPort": 1}, {"name": "a", "containerPort": 2}]), "spec.containers[0].ports[1].name", 'Duplicate value: "a"'),
    (container(ports=[{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9}]), "spec.containers[0].ports[1].hostPort", 'Duplicate value: "TCP//9"'),
    (container(ports=[{"containerPort": 1, "protocol": "HTTP"}]), "spec.containers[0].ports[0].protocol", "Unsupported value"),
    (container(resources={"requests": {"cpu": "-1"}}), "spec.containers[0].resources.requests[cpu]", "must be greater than or equal to 0"),
    (container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}), "spec.containers[0].resources.requests", 'Invalid value: "2": must be less than or equal to cpu limit of 1'),
    (container(resources={"limits": {"nvidia.com/gpu": "500m"}}), "spec.containers[0].resources.limits[nvidia.com/gpu]", "must be an integer"),
    (container(resources={"limits": {"x.io/y": "2"}, "requests": {"x.io/y": "1"}}), "spec.containers[0].resources.requests", "must be equal to x.io/y limit of 2"),
    (container(resources={"requests": {"x.io/y": "1"}}), "spec.containers[0].resources.limits", "Required value"),
    (container(resources={"requests": {"gpus": "1"}}), "spec.containers[0].resources.requests[gpus]", "Invalid value"),
    (container(volumeMounts=[{"name": "v", "mountPath": "/"}]), "spec.containers[0].volumeMounts[0].name", 'Not found: "v"'),
    (container(env=[{"name": "A", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]), "spec.containers[0].env[0].valueFrom", "may not be specified when `value` is not empty"),
    (container(readinessProbe={}), "spec.containers[0].readinessProbe", "must specify a handler type"),
    (container(livenessProbe={"exec": {}, "successThreshold": 2}), "spec.containers[0].livenessProbe.successThreshold", "must be 1"),
    (pod(volumes=[{"name": "v"}, {"name": "v"}]), "spec.volumes[1].name", 'Duplicate value: "v"'),
    (pod(volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]), "spec.volumes[0]", "may not specify more than 1 volume type"),
    (pod(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]), "spec.tolerations[0].operator", "value must be empty"),
    (pod(tolerations=[{"value": "b"}]), "spec.tolerations[0].operator", "operator must be Exists"),
    (pod(tolerations=[{"key": "a", "tolerationSeconds": 1}]), "spec.tolerations[0].effect", "effect must be 'NoExecute'"),
    (pod(tolerations=[{"key": "a", "effect": "x"}]), "spec.tolerations[0].effect", "Unsupported value"),
    (pod(nodeSelector={"a b": "c"}), "spec.nodeSelector", 'Invalid value: "a b"'),
    (affinity(nodeAffinity={REQUIRED: {"nodeSelectorTerms": []}}), f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms", "Required value"),
    (affinity(nodeAffinity=node_terms({"key": "a", "operator": "Maybe"})), "operator", "not a valid selector operator"),
    (affinity(nodeAffinity=node_terms({"key": "a", "operator": "In"})), "values", "must be specified when `operator` is 'In' or 'NotIn'"),
    (affinity(nodeAffinity=node_terms({"key": "a", "operator": "Exists", "values": ["b"]})), "values", "Forbidden"),
    (affinity(nodeAffinity=node_terms(fields=({"key": "metadata.uid", "operator": "In", "values": ["b"]},))), "key", "not a valid field selector key"),
    (affinity(podAffinity={REQUIRED: [{"labelSelector": {}}]}), f"spec.affinity.podAffinity.{REQUIRED}[0].topologyKey", "can not be empty"),
    (affinity(podAffinity={REQUIRED: [{"topologyKey": "z", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}}]}), "labelSelector.matchExpressions[0].operator", "not a valid selector operator"),
    (pod(topologySpreadConstraints=[{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]), "spec.topologySpreadConstraints[0].maxSkew", "must be greater than zero"),
    (pod(topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "x"}]), "spec.topologySpreadConstraints[0].whenUnsatisfiable", "Unsupported value"),
    (pod(metadata={"name": "P!"}), "metadata.name", 'Invalid value: "P!"'),
    (pod(metadata={"labels": {"a": "b c"}}), "metadata.labels", 'Invalid value: "b c"'),
    (pod(metadata={"annotations": {"a": "x" * 300_000}}), "metadata.annotations", "Too long"),
    (pod(metadata={"ownerReferences": [{"kind": "x", "name": "y", "uid": "z"}]}), "metadata.ownerReferences.apiVersion", "must not be empty"),
    (pod(metadata={"finalizers": ["a b"]}), "metadata.finalizers", 'Invalid value: "a b"'),
    (pod(metadata={"finalizers": ["mine"]}), "metadata.finalizers[0]", "neither a standard finalizer name nor"),
    (container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]), "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", "not supported"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "field", "message"), WRONG, ids=[f"{row[1]} {row[2][:30]}" for row in WRONG])
def test_invalid_pods_are_refused(document: Document, field: str, message: str) -> None:
    problems = causes(document)
    assert any(
        where.startswith(field) or where.endswith(f".{field}") for where, cause in problems if message in cause
    ), problems


def test_every_mistake_is_reported_at_once() -> None:
    document = pod(restartPolicy="x", containers=[{"name": "a"}, {"name": "a", "image": "i"}])
    assert len(causes(document)) == 3


# --- updates ---


def changed(change: Any, **spec: Any) -> tuple[Document, Document]:
    old = pod(metadata={"uid": "u"}, **spec)
    new = copy.deepcopy(old)
    change(new["spec"])
    return new, old


ALLOWED = [
    ("image", changed(lambda s: s["containers"][0].update(image="j"))),
    ("an earlier deadline", changed(lambda s: s.update(activeDeadlineSeconds=5), activeDeadlineSeconds=9)),
    ("a first deadline", changed(lambda s: s.update(activeDeadlineSeconds=5))),
    ("one more toleration", changed(lambda s: s.update(tolerations=[{"key": "a", "operator": "Exists"}]))),
    ("a gate removed", changed(lambda s: s.pop("schedulingGates"), schedulingGates=[{"name": "g"}])),
    ("a gated pod narrows its nodes", changed(lambda s: s.update(nodeSelector={"a": "b", "c": "d"}), schedulingGates=[{"name": "g"}], nodeSelector={"a": "b"})),
    ("a gated pod gains affinity", changed(lambda s: s.update(affinity={"nodeAffinity": node_terms({"key": "a", "operator": "Exists"})}), schedulingGates=[{"name": "g"}])),
]  # fmt: skip


@pytest.mark.parametrize(("new", "old"), [case[1] for case in ALLOWED], ids=[case[0] for case in ALLOWED])
def test_allowed_pod_updates_are_accepted(new: Document, old: Document) -> None:
    assert causes(new, old) == []


FORBIDDEN = [
    ("node", changed(lambda s: s.update(nodeName="n")), "spec", "changed: spec.nodeName"),
    ("another container", changed(lambda s: s["containers"].append({**s["containers"][0], "name": "d"})), "spec.containers", "may not add or remove containers"),
    ("command", changed(lambda s: s["containers"][0].update(command=["x"])), "spec", "may not change fields other than"),
    ("a later deadline", changed(lambda s: s.update(activeDeadlineSeconds=9), activeDeadlineSeconds=5), "spec.activeDeadlineSeconds", "less than or equal to previous"),
    ("no deadline any more", changed(lambda s: s.pop("activeDeadlineSeconds"), activeDeadlineSeconds=5), "spec.activeDeadlineSeconds", "nil value"),
    ("a toleration gone", changed(lambda s: s.update(tolerations=[]), tolerations=[{"operator": "Exists"}]), "spec.tolerations", "Forbidden"),
    ("a gate added", changed(lambda s: s.update(schedulingGates=[{"name": "g"}])), "spec.schedulingGates[0].name", "only deletion is allowed"),
    ("node selector without a gate", changed(lambda s: s.update(nodeSelector={"a": "b"})), "spec", "changed: spec.nodeSelector"),
    ("a gated pod widens its nodes", changed(lambda s: s.pop("nodeSelector"), schedulingGates=[{"name": "g"}], nodeSelector={"a": "b"}), "spec.nodeSelector", "only additions"),
    ("grace period", changed(lambda s: s.update(terminationGracePeriodSeconds=1)), "spec", "terminationGracePeriodSeconds"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pair", "field", "message"), [case[1:] for case in FORBIDDEN], ids=[case[0] for case in FORBIDDEN]
)
def test_forbidden_pod_updates_are_refused(pair: tuple[Document, Document], field: str, message: str) -> None:
    problems = causes(*pair)
    assert any(where == field and message in cause for where, cause in problems), problems


def test_subresources_change_their_own_part_only() -> None:
    resized, old = changed(lambda s: s["containers"][0].update(resources={"requests": {"cpu": "1"}}))
    assert causes(resized, old, "resize") == []
    assert causes(resized, old)
    bound, old = changed(lambda s: s.update(nodeName="n"))
    assert causes(bound, old, "binding") == []
    assert causes(bound, old, "resize")
    debugged, old = changed(lambda s: s.update(ephemeralContainers=[{**s["containers"][0], "name": "e"}]))
    assert causes(debugged, old, "ephemeralcontainers") == []


def test_pod_name_is_immutable() -> None:
    new = pod(metadata={"name": "q"})
    assert ("metadata.name", 'Invalid value: "q": field is immutable') in causes(new, pod())
