"""Kinds about traffic and scale that come with most applications: they can be applied as they are."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from restow.model.objects import Document
from restow.ports import STRATEGIC_PATCH, Invalid
from tests.conformance.server import Server

BACKEND = {"service": {"name": "web", "port": {"number": 80}}}
RULE = {"host": "a.example", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": BACKEND}]}}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
CPU = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}


def named(api_version: str, kind: str, **members: Any) -> Document:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": f"a-{uuid.uuid4().hex[:8]}"}, **members}


INGRESS = named("networking.k8s.io/v1", "Ingress", spec={"ingressClassName": "none", "rules": [RULE]})
POLICY = named(
    "networking.k8s.io/v1",
    "NetworkPolicy",
    spec={"podSelector": {}, "egress": [{"ports": [{"port": 53}]}]},
)
AUTOSCALER = named("autoscaling/v2", "HorizontalPodAutoscaler", spec={"scaleTargetRef": TARGET, "maxReplicas": 3})
SLICE = named(
    "discovery.k8s.io/v1",
    "EndpointSlice",
    addressType="IPv4",
    endpoints=[{"addresses": ["192.0.2.1"]}],
    ports=[{"port": 80}],
)


@pytest.mark.parametrize(
    ("plural", "document", "defaulted"),
    [
        pytest.param("ingresses", INGRESS, {"spec": INGRESS["spec"], "status": {"loadBalancer": {}}}, id="Ingress"),
        pytest.param(
            "networkpolicies",
            POLICY,
            {
                "spec": {
                    "podSelector": {},
                    "egress": [{"ports": [{"protocol": "TCP", "port": 53}]}],
                    "policyTypes": ["Ingress", "Egress"],
                }
            },
            id="NetworkPolicy",
        ),
        pytest.param(
            "horizontalpodautoscalers",
            AUTOSCALER,
            {"spec": {**AUTOSCALER["spec"], "minReplicas": 1, "metrics": [{"type": "Resource", "resource": CPU}]}},
            id="HorizontalPodAutoscaler",
        ),
        pytest.param("endpointslices", SLICE, {"ports": [{"name": "", "port": 80, "protocol": "TCP"}]}, id="slice"),
    ],
)
async def test_networking_defaults(server: Server, plural: str, document: Document, defaulted: Document) -> None:
    created = await server.create(plural, document)
    assert {key: created[key] for key in defaulted} == defaulted
    assert created["metadata"].get("generation", 0) == (plural != "horizontalpodautoscalers")


@pytest.mark.parametrize(
    ("plural", "document"),
    [
        ("ingressclasses", named("networking.k8s.io/v1", "IngressClass", spec={"controller": "example.com/none"})),
        ("runtimeclasses", named("node.k8s.io/v1", "RuntimeClass", handler="none")),
    ],
    ids=["IngressClass", "RuntimeClass"],
)
async def test_classes_belong_to_no_namespace(server: Server, plural: str, document: Document) -> None:
    created = await server.create(plural, document)
    assert "namespace" not in created["metadata"]
    await server.delete(plural, created["metadata"]["name"])


async def test_a_value_of_another_type_is_refused(server: Server) -> None:
    with pytest.raises(Invalid, match="cannot be handled as a Ingress"):
        await server.create("ingresses", named("networking.k8s.io/v1", "Ingress", spec={"rules": "all"}))


async def test_ingress_rules_are_replaced_as_a_whole(server: Server) -> None:
    name = (await server.create("ingresses", INGRESS))["metadata"]["name"]
    change = {"spec": {"rules": [{"host": "b.example"}]}}
    patched = await server.patch("ingresses", name, STRATEGIC_PATCH, change)
    assert patched["spec"]["rules"] == [{"host": "b.example"}]
    assert patched["metadata"]["generation"] == 2
