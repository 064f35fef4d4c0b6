"""Create, get, list, replace, delete: what every resource does."""

from __future__ import annotations

import re

import pytest

from restow.model.objects import Document
from restow.ports import AlreadyExists, ApiError, Conflict, Invalid, NotFound
from tests.conformance.documents import config_map, pod
from tests.conformance.server import Server


async def test_create_sets_uid_and_timestamp(server: Server) -> None:
    meta = (await server.create("configmaps", config_map("a")))["metadata"]
    assert meta["namespace"] == server.namespace
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", meta["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", meta["creationTimestamp"])
    assert int(meta["resourceVersion"]) > 0


async def test_create_ignores_server_set_fields(server: Server) -> None:
    claimed: Document = {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "selfLink": "/x"}
    meta = (await server.create("configmaps", config_map("a", **claimed)))["metadata"]
    assert meta["uid"] != "mine"
    assert not meta["creationTimestamp"].startswith("2001")
    assert "selfLink" not in meta


async def test_create_refuses_a_resource_version(server: Server) -> None:
    with pytest.raises(ApiError, match="resourceVersion should not be set on objects to be created"):
        await server.create("configmaps", config_map("a", resourceVersion="7"))


async def test_get_returns_the_created_object(server: Server) -> None:
    created = await server.create("configmaps", config_map("a"))
    assert await server.get("configmaps", "a") == created


async def test_a_kind_left_out_is_filled_in(server: Server) -> None:
    created = await server.create("configmaps", {"metadata": {"name": "a"}})
    assert (created["apiVersion"], created["kind"]) == ("v1", "ConfigMap")


async def test_list_is_typed_sorted_and_versioned(server: Server) -> None:
    for name in ("b", "c", "a"):
        await server.create("configmaps", config_map(name))
    listed = await server.list("configmaps", fieldSelector="metadata.name!=kube-root-ca.crt")
    assert (listed["apiVersion"], listed["kind"]) == ("v1", "ConfigMapList")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "b", "c"]
    newest = max(int(item["metadata"]["resourceVersion"]) for item in listed["items"])
    assert int(listed["metadata"]["resourceVersion"]) >= newest


async def test_items_of_a_list_of_built_ins_carry_no_kind(server: Server) -> None:
    await server.create("pods", pod())
    (item,) = (await server.list("pods"))["items"]
    assert "kind" not in item
    assert "apiVersion" not in item


async def test_empty_list_has_items(server: Server) -> None:
    assert (await server.list("pods"))["items"] == []


async def test_generate_name_adds_five_characters(server: Server) -> None:
    document = config_map("x")
    del document["metadata"]["name"]
    document["metadata"]["generateName"] = "prefix-"
    names = [(await server.create("configmaps", document))["metadata"]["name"] for _ in range(3)]
    assert all(re.fullmatch(r"prefix-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)
    assert len(set(names)) == 3


async def test_generate_name_cuts_a_long_prefix(server: Server) -> None:
    document = {"metadata": {"generateName": "p" * 80}}
    name = (await server.create("configmaps", document))["metadata"]["name"]
    assert len(name) == 63


async def test_a_name_wins_over_generate_name(server: Server) -> None:
    created = await server.create("configmaps", config_map("a", generateName="b-"))
    assert created["metadata"]["name"] == "a"


async def test_a_second_create_already_exists(server: Server) -> None:
    await server.create("configmaps", config_map("a"))
    with pytest.raises(AlreadyExists) as refused:
        await server.create("configmaps", config_map("a"))
    status = refused.value.status
    assert (status.code, status.reason) == (409, "AlreadyExists")
    assert status.message == 'configmaps "a" already exists'
    assert status.details is not None
    assert (status.details.name, status.details.kind) == ("a", "configmaps")


async def test_not_found_names_the_object(server: Server) -> None:
    with pytest.raises(NotFound, match=r'deployments\.apps "missing" not found') as refused:
        await server.get("deployments", "missing")
    details = refused.value.status.details
    assert details is not None
    assert (details.name, details.group, details.kind) == ("missing", "apps", "deployments")


@pytest.mark.parametrize("verb", ["get", "replace", "delete"])
async def test_verbs_on_nothing_are_not_found(server: Server, verb: str) -> None:
    body = config_map("missing") if verb == "replace" else None
    with pytest.raises(NotFound) as refused:
        await server.call(verb, "configmaps", "missing", body)
    assert refused.value.status.code == 404


async def test_replace_swaps_the_whole_document(server: Server) -> None:
    created = await server.create("configmaps", config_map("a", labels={"x": "1"}))
    replaced = await server.replace("configmaps", config_map("a", {"b": "2"}))
    assert replaced["data"] == {"b": "2"}
    assert "labels" not in replaced["metadata"]
    assert replaced["metadata"]["uid"] == created["metadata"]["uid"]
    assert replaced["metadata"]["creationTimestamp"] == created["metadata"]["creationTimestamp"]


async def test_replace_with_a_stale_version_conflicts(server: Server) -> None:
    stale = await server.create("configmaps", config_map("a"))
    await server.replace("configmaps", config_map("a", {"b": "2"}))
    with pytest.raises(Conflict, match="the object has been modified; please apply your changes to the latest version"):
        await server.replace("configmaps", {**stale, "data": {"c": "3"}})
    assert (await server.get("configmaps", "a"))["data"] == {"b": "2"}


async def test_replace_with_another_uid_conflicts(server: Server) -> None:
    await server.create("configmaps", config_map("a"))
    with pytest.raises(Conflict, match="Precondition failed: UID in precondition"):
        await server.replace("configmaps", config_map("a", uid="11111111-2222-3333-4444-555555555555"))


async def test_replace_needs_the_name_of_the_path(server: Server) -> None:
    await server.create("configmaps", config_map("a"))
    with pytest.raises(Invalid) as refused:
        await server.replace("configmaps", config_map("b"), name="a")
    assert refused.value.status.code == 400
    assert "the name of the object (b) does not match the name on the URL (a)" in refused.value.status.message


async def test_a_body_of_another_namespace_is_refused(server: Server) -> None:
    with pytest.raises(Invalid, match="the namespace of the provided object does not match the namespace sent on the"):
        await server.create("configmaps", config_map("a", namespace="elsewhere"))


async def test_delete_returns_a_status_with_the_deleted_object(server: Server) -> None:
    created = await server.create("configmaps", config_map("a"))
    gone = await server.delete("configmaps", "a")
    assert (gone["kind"], gone["status"]) == ("Status", "Success")
    assert gone["details"] == {"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]}
    with pytest.raises(NotFound):
        await server.get("configmaps", "a")


async def test_a_name_can_be_used_again_with_a_new_uid(server: Server) -> None:
    first = await server.create("configmaps", config_map("a"))
    await server.delete("configmaps", "a")
    second = await server.create("configmaps", config_map("a"))
    assert first["metadata"]["uid"] != second["metadata"]["uid"]


async def test_delete_collection_deletes_the_selected_objects(server: Server) -> None:
    await server.create("configmaps", config_map("a", labels={"team": "red"}))
    await server.create("configmaps", config_map("b", labels={"team": "blue"}))
    await server.call("deletecollection", "configmaps", labelSelector="team=red")
    assert await server.names("configmaps", labelSelector="team") == ["b"]
