"""The table of list types, spot-checked against upstream's declarations."""

from __future__ import annotations

import pytest

from restow.adapters.memory.documents.merge_types import MergeTypes, merge_types

POD_SPEC = "spec.template.spec"
FACTS = [
    ("apps/Deployment", f"{POD_SPEC}.containers", "map", ("name",), "name"),
    ("apps/Deployment", f"{POD_SPEC}.containers.env", "map", ("name",), "name"),
    ("apps/Deployment", f"{POD_SPEC}.containers.ports", "map", ("containerPort", "protocol"), "containerPort"),
    ("apps/Deployment", f"{POD_SPEC}.containers.volumeMounts", "map", ("mountPath",), "mountPath"),
    ("apps/Deployment", f"{POD_SPEC}.volumes", "map", ("name",), "name"),
    ("apps/Deployment", f"{POD_SPEC}.tolerations", "atomic", (), ""),
    ("apps/Deployment", f"{POD_SPEC}.imagePullSecrets", "map", ("name",), "name"),
    ("apps/Deployment", f"{POD_SPEC}.hostAliases", "map", ("ip",), "ip"),
    ("/Pod", "spec.topologySpreadConstraints", "map", ("topologyKey", "whenUnsatisfiable"), "topologyKey"),
    ("/Pod", "spec.schedulingGates", "map", ("name",), "name"),
    ("/Pod", "status.conditions", "map", ("type",), "type"),
    ("/Pod", "metadata.ownerReferences", "map", ("uid",), "uid"),
    ("/Pod", "metadata.finalizers", "set", (), ""),
    ("/Node", "spec.taints", "atomic", (), ""),
    ("/Node", "status.addresses", "map", ("type",), "type"),
    ("/Service", "spec.ports", "map", ("port", "protocol"), "port"),
    ("/ServiceAccount", "secrets", "map", ("name",), "name"),
    ("policy/PodDisruptionBudget", "status.conditions", "map", ("type",), "type"),
    ("apiextensions.k8s.io/CustomResourceDefinition", "spec.versions", "atomic", (), ""),
    ("apiextensions.k8s.io/CustomResourceDefinition", "status.conditions", "map", ("type",), ""),
    ("admissionregistration.k8s.io/ValidatingWebhookConfiguration", "webhooks", "map", ("name",), "name"),
    ("rbac.authorization.k8s.io/ClusterRole", "rules", "atomic", (), ""),
    ("batch/Job", "status.conditions", "atomic", (), "type"),
    ("storage.k8s.io/CSINode", "spec.drivers", "map", ("name",), "name"),
]


def find(kind: str, path: str) -> MergeTypes:
    types = merge_types(*kind.split("/"))
    assert types is not None
    for name in path.split("."):
        types = types.item() if types.form == "list" else types
        types = types.fields[name]
    return types


@pytest.mark.parametrize(("kind", "path", "form", "keys", "patch_key"), FACTS, ids=[f"{f[0]} {f[1]}" for f in FACTS])
def test_list_merge_types(kind: str, path: str, form: str, keys: tuple[str, ...], patch_key: str) -> None:
    types = find(kind, path)
    assert ("atomic" if types.atomic else "map" if types.keys else "set") == form
    assert types.keys == keys
    assert types.patch_key == patch_key


@pytest.mark.parametrize("path", ["spec.selector", "spec.template.spec.nodeSelector"])
def test_selectors_are_atomic(path: str) -> None:
    assert find("apps/Deployment", path).atomic


def test_protocol_stands_for_tcp_when_missing() -> None:
    assert find("/Pod", "spec.containers.ports").key_defaults == {"containerPort": 0, "protocol": "TCP"}


def test_custom_kinds_are_not_described() -> None:
    assert merge_types("batch.volcano.sh", "Reservation") is None
