"""Label and field selectors, on lists."""

from __future__ import annotations

import pytest

from restow.ports import Invalid
from tests.conformance.documents import pod
from tests.conformance.server import Server

PODS = {
    "a": {"team": "red", "tier": "web"},
    "b": {"team": "blue"},
    "c": {"tier": "db"},
    "d": {},
}


async def create_pods(server: Server) -> None:
    for name, labels in PODS.items():
        await server.create("pods", pod(name, labels=labels))


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", "abcd"),
        ("team=red", "a"),
        ("team==red", "a"),
        ("team!=red", "bcd"),
        ("team", "ab"),
        ("!team", "cd"),
        ("team in (red,blue)", "ab"),
        ("team in (red, green), tier", "a"),
        ("team notin (red)", "bcd"),
        ("team=red,tier=db", ""),
        ("team=", ""),
    ],
)
async def test_label_selector_selects_objects(server: Server, selector: str, expected: str) -> None:
    await create_pods(server)
    assert "".join(await server.names("pods", labelSelector=selector)) == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=a", "a"),
        ("metadata.name!=a", "bcd"),
        ("status.phase=Pending", "abcd"),
        ("status.phase!=Pending", ""),
        ("spec.nodeName=", "abcd"),
        ("spec.schedulerName=restow-conformance", "abcd"),
        ("spec.restartPolicy=Always,metadata.name=b", "b"),
        ("spec.restartPolicy=Never", ""),
    ],
)
async def test_field_selector_selects_objects(server: Server, selector: str, expected: str) -> None:
    await create_pods(server)
    assert "".join(await server.names("pods", fieldSelector=selector)) == expected


@pytest.mark.parametrize(
    "selector",
    [
        "team in red",
        "team in (",
        "=x",
        "a b",
        "team=red=blue",
        "team in ()x",
        "te!am=1",
        f"team={'x' * 64}",
        "a=b,,c=d",
    ],
)
async def test_a_bad_label_selector_is_a_bad_request(server: Server, selector: str) -> None:
    with pytest.raises(Invalid) as refused:
        await server.list("pods", labelSelector=selector)
    assert refused.value.status.code == 400
    assert refused.value.status.message


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        ("spec.containers=x", "field label not supported: spec.containers"),
        ("metadata.labels=x", "field label not supported: metadata.labels"),
        ("nonsense", "invalid selector"),
    ],
)
async def test_a_bad_field_selector_is_a_bad_request(server: Server, selector: str, words: str) -> None:
    with pytest.raises(Invalid, match=words) as refused:
        await server.list("pods", fieldSelector=selector)
    assert refused.value.status.code == 400


async def test_a_kind_without_own_fields_selects_by_name(server: Server) -> None:
    with pytest.raises(Invalid, match=r'"spec\.nodeName" is not a known field selector') as refused:
        await server.list("deployments", fieldSelector="spec.nodeName=x")
    assert 'only "metadata.name", "metadata.namespace"' in refused.value.status.message
