"""pods/binding: one atomic write that seats a pod."""

from __future__ import annotations

import pytest

from restow.model.objects import Document
from restow.ports import MERGE_PATCH, ApiError, Conflict, NotFound
from tests.conformance.documents import NODE, binding, pod
from tests.conformance.server import Server


async def bind(server: Server, document: Document) -> Document:
    return await server.create("pods", document, name=document["metadata"]["name"], sub="binding")


async def test_a_binding_answers_with_a_status(server: Server) -> None:
    await server.create("pods", pod("a"))
    answer = await bind(server, binding("a"))
    assert (answer["kind"], answer["status"], answer["code"]) == ("Status", "Success", 201)


async def test_a_bound_pod_has_its_node_and_is_scheduled(server: Server) -> None:
    await server.create("pods", pod("a"))
    await bind(server, binding("a"))
    bound = await server.get("pods", "a")
    assert bound["spec"]["nodeName"] == NODE
    (scheduled,) = [c for c in bound["status"]["conditions"] if c["type"] == "PodScheduled"]
    assert scheduled["status"] == "True"


async def test_annotations_and_labels_of_the_binding_land_on_the_pod(server: Server) -> None:
    await server.create("pods", pod("a", annotations={"old": "1", "both": "1"}))
    await bind(server, binding("a", annotations={"both": "2", "new": "2"}))
    assert (await server.get("pods", "a"))["metadata"]["annotations"] == {"old": "1", "both": "2", "new": "2"}


async def test_a_second_binding_conflicts(server: Server) -> None:
    await server.create("pods", pod("a"))
    await bind(server, binding("a"))
    with pytest.raises(Conflict, match=f'pod a is already assigned to node "{NODE}"'):
        await bind(server, binding("a", node="another"))
    assert (await server.get("pods", "a"))["spec"]["nodeName"] == NODE


async def test_a_binding_for_another_uid_conflicts(server: Server) -> None:
    await server.create("pods", pod("a"))
    with pytest.raises(Conflict, match="UID"):
        await bind(server, binding("a", uid="11111111-2222-3333-4444-555555555555"))


async def test_a_binding_for_this_uid_holds(server: Server) -> None:
    created = await server.create("pods", pod("a"))
    await bind(server, binding("a", uid=created["metadata"]["uid"]))
    assert (await server.get("pods", "a"))["spec"]["nodeName"] == NODE


async def test_binding_with_a_stale_uid_conflicts(server: Server) -> None:
    await server.create("pods", pod("a"))
    with pytest.raises(Conflict):
        await bind(server, binding("a", resourceVersion="1"))


async def test_a_terminating_pod_cannot_be_bound(server: Server) -> None:
    await server.create("pods", pod("a", finalizers=["example.com/hold"]))
    await server.delete("pods", "a")
    with pytest.raises(Conflict, match="pod a is being deleted, cannot be assigned to a host"):
        await bind(server, binding("a"))
    await server.patch("pods", "a", MERGE_PATCH, {"metadata": {"finalizers": None}})


async def test_a_gated_pod_cannot_be_bound(server: Server) -> None:
    gated = await server.create("pods", pod("a", spec={"schedulingGates": [{"name": "example.com/wait"}]}))
    assert gated["status"]["conditions"][0]["reason"] == "SchedulingGated"
    with pytest.raises(Conflict, match=r"pod a has non-empty .spec.schedulingGates"):
        await bind(server, binding("a"))


async def test_missing_pod_cannot_be_bound(server: Server) -> None:
    with pytest.raises(NotFound):
        await bind(server, binding("missing"))


@pytest.mark.parametrize(
    ("onto", "path"),
    [({"kind": "Node"}, r"target\.name"), ({"kind": "Pod", "name": "x"}, r"target\.kind")],
    ids=["no node", "not a node"],
)
async def test_binding_with_a_bad_target_is_refused(server: Server, onto: Document, path: str) -> None:
    await server.create("pods", pod("a"))
    with pytest.raises(ApiError, match=path):
        await bind(server, {**binding("a"), "target": onto})
    assert "nodeName" not in (await server.get("pods", "a"))["spec"]


async def test_dry_run_binding_binds_nothing(server: Server) -> None:
    await server.create("pods", pod("a"))
    await server.create("pods", binding("a"), name="a", sub="binding", dryRun="All")
    assert "nodeName" not in (await server.get("pods", "a"))["spec"]
