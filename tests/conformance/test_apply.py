"""Server-side apply: fields have owners."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model.objects import Document
from restow.ports import APPLY_PATCH, MERGE_PATCH, Conflict, Invalid
from tests.conformance.documents import container, deployment, pod
from tests.conformance.server import Server


def settings(data: dict[str, str] | None, **meta: Any) -> Document:
    document: Document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **meta}}
    return document if data is None else {**document, "data": data}


def managers(document: Document) -> dict[str, Document]:
    return {entry["manager"]: entry for entry in document["metadata"]["managedFields"]}


async def test_apply_creates_a_missing_object(server: Server) -> None:
    applied = await server.apply("configmaps", settings({"x": "1"}), "one")
    assert applied["data"] == {"x": "1"}
    entry = managers(applied)["one"]
    assert (entry["operation"], entry["apiVersion"], entry["fieldsType"]) == ("Apply", "v1", "FieldsV1")
    assert entry["fieldsV1"] == {"f:data": {"f:x": {}}}


async def test_apply_accepts_yaml(server: Server) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: '1'\n"
    applied = await server.patch("configmaps", "a", APPLY_PATCH, body, fieldManager="one")
    assert applied["data"] == {"x": "1"}


async def test_applying_the_same_writes_nothing(server: Server) -> None:
    first = await server.apply("configmaps", settings({"x": "1"}), "one")
    second = await server.apply("configmaps", settings({"x": "1"}), "one")
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]


async def test_a_field_no_longer_applied_goes(server: Server) -> None:
    await server.apply("configmaps", settings({"x": "1", "y": "1"}, labels={"l": "1"}), "one")
    applied = await server.apply("configmaps", settings({"x": "2"}), "one")
    assert applied["data"] == {"x": "2"}
    assert "labels" not in applied["metadata"]


async def test_two_managers_own_their_own(server: Server) -> None:
    await server.apply("configmaps", settings({"x": "1"}), "one")
    applied = await server.apply("configmaps", settings({"y": "1"}), "two")
    assert applied["data"] == {"x": "1", "y": "1"}
    assert set(managers(applied)) == {"one", "two"}


async def test_a_field_of_another_conflicts(server: Server) -> None:
    await server.apply("configmaps", settings({"x": "1"}), "one")
    with pytest.raises(Conflict) as refused:
        await server.apply("configmaps", settings({"x": "2"}), "two")
    status = refused.value.status
    assert status.message == 'Apply failed with 1 conflict: conflict with "one": .data.x'
    assert status.details is not None
    (cause,) = status.details.causes or []
    assert (cause.reason, cause.field, cause.message) == ("FieldManagerConflict", ".data.x", 'conflict with "one"')


async def test_appliers_of_the_same_value_share_the_field(server: Server) -> None:
    await server.apply("configmaps", settings({"x": "1"}), "one")
    await server.apply("configmaps", settings({"x": "1"}), "two")
    applied = await server.apply("configmaps", settings({}), "one")
    assert applied["data"] == {"x": "1"}


async def test_forced_apply_takes_the_field(server: Server) -> None:
    await server.apply("configmaps", settings({"x": "1"}), "one")
    applied = await server.apply("configmaps", settings({"x": "2"}), "two", force="true")
    assert applied["data"] == {"x": "2"}
    assert set(managers(applied)) == {"two"}


async def test_update_owns_the_fields_it_changes(server: Server) -> None:
    await server.apply("configmaps", settings({"x": "1", "y": "1"}), "one")
    updated = await server.patch("configmaps", "a", MERGE_PATCH, {"data": {"x": "2"}}, fieldManager="editor")
    entry = managers(updated)["editor"]
    assert entry["operation"] == "Update"
    assert entry["fieldsV1"] == {"f:data": {"f:x": {}}}
    with pytest.raises(Conflict, match=r'conflict with "editor" using v1: .data.x'):
        await server.apply("configmaps", settings({"x": "3", "y": "1"}), "one")


async def test_create_is_an_update_by_its_manager(server: Server) -> None:
    created = await server.create("configmaps", settings({"x": "1"}), fieldManager="maker")
    entry = managers(created)["maker"]
    assert entry["operation"] == "Update"
    assert entry["fieldsV1"] == {"f:data": {".": {}, "f:x": {}}}


async def test_status_writes_are_kept_apart(server: Server) -> None:
    await server.create("pods", pod("a"), fieldManager="maker")
    patched = await server.patch(
        "pods", "a", MERGE_PATCH, {"status": {"reason": "Why"}}, sub="status", fieldManager="k"
    )
    entry = managers(patched)["k"]
    assert entry["subresource"] == "status"
    assert entry["fieldsV1"] == {"f:status": {"f:reason": {}}}


async def test_list_items_are_owned_by_key(server: Server) -> None:
    await server.apply("deployments", deployment("web"), "one")
    side: Document = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"containers": [container("side")]}}},
    }
    both = await server.apply("deployments", side, "two")
    assert [c["name"] for c in both["spec"]["template"]["spec"]["containers"]] == ["main", "side"]
    fields_of_one = managers(both)["one"]["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert fields_of_one == {'k:{"name":"main"}': {".": {}, "f:image": {}, "f:name": {}}}
    side["spec"] = {}
    fewer = await server.apply("deployments", side, "two")
    assert [c["name"] for c in fewer["spec"]["template"]["spec"]["containers"]] == ["main"]


async def test_set_items_are_owned_by_value(server: Server) -> None:
    await server.apply("configmaps", settings(None, finalizers=["example.com/a"]), "one")
    both = await server.apply("configmaps", settings(None, finalizers=["example.com/b"]), "two")
    assert sorted(both["metadata"]["finalizers"]) == ["example.com/a", "example.com/b"]
    fewer = await server.apply("configmaps", settings(None), "one")
    assert fewer["metadata"]["finalizers"] == ["example.com/b"]
    await server.apply("configmaps", settings(None), "two")


async def test_an_atomic_list_is_owned_whole(server: Server) -> None:
    first = deployment("web")
    first["spec"]["template"]["spec"]["containers"][0]["args"] = ["a", "b"]
    await server.apply("deployments", first, "one")
    first["spec"]["template"]["spec"]["containers"][0]["args"] = ["a", "c"]
    with pytest.raises(Conflict, match=r"containers\[name=\"main\"\].args"):
        await server.apply("deployments", first, "two")


async def test_defaulted_fields_have_no_owner(server: Server) -> None:
    await server.apply("deployments", deployment("web"), "one")
    explicit = deployment("web", spec={"revisionHistoryLimit": 5})
    applied = await server.apply("deployments", explicit, "two")
    assert applied["spec"]["revisionHistoryLimit"] == 5


async def test_apply_without_a_manager_is_refused(server: Server) -> None:
    with pytest.raises(Invalid, match="fieldManager") as refused:
        await server.patch("configmaps", "a", APPLY_PATCH, settings({}))
    assert refused.value.status.code == 422


@pytest.mark.parametrize("leave_out", ["apiVersion", "kind"])
async def test_apply_without_a_kind_is_refused(server: Server, leave_out: str) -> None:
    document = settings({})
    del document[leave_out]
    with pytest.raises(Invalid):
        await server.patch("configmaps", "a", APPLY_PATCH, document, fieldManager="one")


async def test_apply_takes_no_managed_fields(server: Server) -> None:
    with pytest.raises(Invalid, match="managedFields must be nil"):
        await server.apply("configmaps", settings({}, managedFields=[{"manager": "x"}]), "one")


async def test_force_is_refused_for_other_patches(server: Server) -> None:
    await server.create("configmaps", settings({}))
    with pytest.raises(Invalid, match="force"):
        await server.patch("configmaps", "a", MERGE_PATCH, {}, force="true")


async def test_empty_managed_fields_clear_ownership(server: Server) -> None:
    await server.apply("configmaps", settings({"x": "1"}), "one")
    patched = await server.patch("configmaps", "a", MERGE_PATCH, {"metadata": {"managedFields": [{}]}})
    assert "managedFields" not in patched["metadata"]


async def test_dry_run_apply_changes_nothing(server: Server) -> None:
    await server.apply("configmaps", settings({"x": "1"}), "one")
    shown = await server.apply("configmaps", settings({"x": "2"}), "one", dryRun="All")
    assert shown["data"] == {"x": "2"}
    assert (await server.get("configmaps", "a"))["data"] == {"x": "1"}
