"""The client: the request of each verb, and how responses are decoded."""

from __future__ import annotations

import pytest

from restow.client.requests import selector_text
from restow.client.responses import Unreadable
from restow.client.verbs import Client
from restow.model.kinds import NODE, POD, POD_MIGRATION_JOB
from restow.model.wire import WireError
from restow.ports import JSON_PATCH, MERGE_PATCH, Gone, NotFound, Resource
from tests.client.scripted_api import ScriptedApi, bookmark, error, event, page, pod

PODS = Resource("", "v1", "pods")


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        pytest.param(None, None, id="None selects everything"),
        pytest.param("", None, id="empty text"),
        pytest.param({}, None, id="empty mapping"),
        pytest.param({"b": "2", "a": "1"}, "a=1,b=2", id="mapping"),
        pytest.param("a in (b, c)", "a in (b, c)", id="text is passed on"),
    ],
)
def test_selector_text(selector: dict[str, str] | str | None, text: str | None) -> None:
    assert selector_text(selector) == text


async def test_get_reads_typed() -> None:
    api = ScriptedApi(pod("web", 7, node="n1"))
    web = await Client(api).get(POD, "web", "shop", resource_version="5")
    assert (web.metadata.name, web.spec.node_name) == ("web", "n1")
    assert (api.requests[0].verb, api.requests[0].resource, api.requests[0].query) == (
        "get",
        PODS,
        {"resourceVersion": "5"},
    )


async def test_get_document_keeps_unknown_fields() -> None:
    api = ScriptedApi(pod("web", 7) | {"odd": {"x": 1}})
    assert (await Client(api).get_document(POD, "web", "shop"))["odd"] == {"x": 1}


async def test_response_of_the_wrong_type_names_the_field() -> None:
    api = ScriptedApi({"metadata": {"name": 3}})
    with pytest.raises(WireError, match=r"metadata\.name"):
        await Client(api).get(POD, "web", "shop")


async def test_list_reads_all_pages_at_one_version() -> None:
    api = ScriptedApi(page(pod("a", 1), version=9, token="t1"), page(pod("b", 2), version=9))
    listing = await Client(api).list(POD, fields={"spec.nodeName": "n"}, limit=1)
    assert ([item.metadata.name for item in listing.items], listing.resource_version) == (["a", "b"], "9")
    query = {"fieldSelector": "spec.nodeName=n", "limit": "1"}
    assert [request.query for request in api.requests] == [query, query | {"continue": "t1"}]


async def test_expired_list_is_read_again_without_pages() -> None:
    gone = Gone.because(410, "Expired", "too old")
    api = ScriptedApi(page(pod("a", 1), version=9, token="t"), gone, page(pod("a", 1), pod("b", 2), version=12))
    listing = await Client(api).list(POD, limit=1)
    assert (len(listing.items), listing.resource_version, api.requests[2].query) == (2, "12", {})


async def test_pages_leave_out_unreadable_objects() -> None:
    odd: list[Unreadable] = []
    api = ScriptedApi(page(pod("a", 1), {"metadata": {"name": "odd", "namespace": "shop"}, "spec": 3}, version=9))
    names = [item.metadata.name async for p in Client(api).pages(POD, unreadable=odd.append) for item in p.items or ()]
    assert (names, [item.key for item in odd]) == (["a"], [("shop", "odd")])
    assert "spec" in odd[0].error


async def test_watch_decodes_events_and_raises_errors() -> None:
    stream = [event("ADDED", pod("a", 3)), bookmark(5), error(410, "Expired")]
    api = ScriptedApi(streams=[stream])
    seen = []
    with pytest.raises(Gone):
        async for item in Client(api).watch(POD, "shop", resource_version="2", timeout_seconds=300):
            seen += [(item.type, item.object.metadata.resource_version)]
    assert seen == [("ADDED", "3"), ("BOOKMARK", "5")]
    assert api.requests[0].query == {"resourceVersion": "2", "allowWatchBookmarks": "true", "timeoutSeconds": "300"}


async def test_error_event_without_a_status_is_an_error() -> None:
    api = ScriptedApi(streams=[[event("ERROR", {"oops": 1})]])
    with pytest.raises(Exception, match="oops"):
        [item async for item in Client(api).watch(POD)]


async def test_create_adds_kind_and_api_version() -> None:
    api = ScriptedApi(pod("a", 1))
    await Client(api, manager="me").create(POD, {"metadata": {"name": "a", "namespace": "shop"}}, dry_run=True)
    assert (api.body["kind"], api.body["apiVersion"], api.requests[0].namespace) == ("Pod", "v1", "shop")
    assert api.requests[0].query == {"fieldManager": "me", "dryRun": "All"}


@pytest.mark.parametrize(
    ("type_", "patch", "sent"),
    [
        pytest.param(
            MERGE_PATCH,
            {"metadata": {"labels": {"a": "b"}}},
            {"metadata": {"labels": {"a": "b"}, "resourceVersion": "7"}},
            id="merge patches carry the version in metadata",
        ),
        pytest.param(
            JSON_PATCH,
            [{"op": "remove", "path": "/spec/x"}],
            [
                {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
                {"op": "remove", "path": "/spec/x"},
            ],
            id="json patches set it first",
        ),
    ],
)
async def test_patch_carries_the_resource_version(
    type_: str,
    patch: dict[str, dict[str, dict[str, str]]] | list[dict[str, str]],
    sent: dict[str, dict[str, dict[str, str] | str]] | list[dict[str, str]],
) -> None:
    api = ScriptedApi(pod("a", 8))
    await Client(api).patch(POD, "a", patch, "shop", type=type_, subresource="status", resource_version="7")
    assert (api.body, api.requests[0].content_type, api.requests[0].subresource) == (sent, type_, "status")


async def test_replace_sends_the_whole_document() -> None:
    api = ScriptedApi({"metadata": {"name": "n1", "resourceVersion": "9"}})
    await Client(api).replace(NODE, {"metadata": {"name": "n1", "resourceVersion": "8"}, "odd": 1})
    assert (api.requests[0].verb, api.requests[0].namespace, api.body["odd"]) == ("replace", None, 1)


async def test_delete_sends_its_preconditions() -> None:
    api = ScriptedApi({"kind": "Status", "status": "Success"})
    await Client(api).delete(POD, "a", "shop", uid="u", grace_seconds=0, propagation="Background")
    options = {"preconditions": {"uid": "u"}, "gracePeriodSeconds": 0, "propagationPolicy": "Background"}
    assert api.body == {"apiVersion": "v1", "kind": "DeleteOptions"} | options


async def test_bind_carries_uid_and_annotations_and_accepts_a_status() -> None:
    api = ScriptedApi({"kind": "Status", "status": "Success", "code": 201})
    await Client(api).bind("shop", "web", uid="u1", node="n1", annotations={"a": "b"})
    meta = {"name": "web", "namespace": "shop", "uid": "u1", "annotations": {"a": "b"}}
    assert (api.requests[0].subresource, api.body["metadata"]) == ("binding", meta)
    assert api.body["target"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}


async def test_evict_carries_the_uid() -> None:
    api = ScriptedApi({"kind": "Status", "status": "Success"})
    await Client(api).evict("shop", "web", uid="u1", grace_seconds=5, dry_run=True)
    assert api.body["deleteOptions"] == {"preconditions": {"uid": "u1"}, "gracePeriodSeconds": 5}
    assert (api.requests[0].subresource, api.requests[0].query["dryRun"]) == ("eviction", "All")


async def test_refusal_is_raised() -> None:
    api = ScriptedApi(NotFound.because(404, "NotFound", "no such pod"))
    with pytest.raises(NotFound, match="no such pod"):
        await Client(api).get(POD, "web", "shop")


async def test_bookmark_needs_no_spec() -> None:
    api = ScriptedApi(streams=[[bookmark(7)]])
    [seen] = [event async for event in Client(api).watch(POD_MIGRATION_JOB)]
    assert (seen.type, seen.object.metadata.resource_version) == ("BOOKMARK", "7")
