"""The three patches that name changes: JSON, merge and strategic merge."""

from __future__ import annotations

from typing import Any

import pytest

from restow.ports import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, ApiError, Invalid, NotFound
from tests.conformance.documents import config_map, container, deployment, pod
from tests.conformance.server import Server


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([{"op": "add", "path": "/data/b", "value": "2"}], {"a": "1", "b": "2"}),
        ([{"op": "replace", "path": "/data/a", "value": "2"}], {"a": "2"}),
        ([{"op": "remove", "path": "/data/a"}, {"op": "add", "path": "/data/b", "value": "2"}], {"b": "2"}),
        ([{"op": "move", "from": "/data/a", "path": "/data/b"}], {"b": "1"}),
        ([{"op": "copy", "from": "/data/a", "path": "/data/b"}], {"a": "1", "b": "1"}),
        ([{"op": "test", "path": "/data/a", "value": "1"}], {"a": "1"}),
        ([{"op": "add", "path": "/data", "value": {"b": "2"}}], {"b": "2"}),
        ([{"op": "replace", "path": "/data/b", "value": "2"}], {"a": "1", "b": "2"}),
    ],
    ids=["add", "replace", "remove", "move", "copy", "test holds", "add over a map", "replace nothing adds"],
)
async def test_json_patch_is_applied(server: Server, operations: list[Any], expected: dict[str, str]) -> None:
    await server.create("configmaps", config_map("a"))
    assert (await server.patch("configmaps", "a", JSON_PATCH, operations))["data"] == expected


async def test_json_pointers_are_unescaped(server: Server) -> None:
    await server.create("configmaps", config_map("a", annotations={"example.com/x-y": "1"}))
    path = "/metadata/annotations/example.com~1x-y"
    patched = await server.patch("configmaps", "a", JSON_PATCH, [{"op": "replace", "path": path, "value": "2"}])
    assert patched["metadata"]["annotations"] == {"example.com/x-y": "2"}


async def test_json_patch_counts_in_lists(server: Server) -> None:
    await server.create("configmaps", config_map("a", finalizers=["x.io/a", "x.io/c"]))
    operations = [
        {"op": "add", "path": "/metadata/finalizers/1", "value": "x.io/b"},
        {"op": "add", "path": "/metadata/finalizers/-", "value": "x.io/d"},
        {"op": "remove", "path": "/metadata/finalizers/0"},
    ]
    patched = await server.patch("configmaps", "a", JSON_PATCH, operations)
    assert patched["metadata"]["finalizers"] == ["x.io/b", "x.io/c", "x.io/d"]
    await server.patch("configmaps", "a", MERGE_PATCH, {"metadata": {"finalizers": None}})


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "test", "path": "/data/a", "value": "2"}],
        [{"op": "remove", "path": "/data/zzz"}],
        [{"op": "add", "path": "/no/such/parent", "value": "1"}],
    ],
    ids=["test fails", "remove nothing", "add under nothing"],
)
async def test_a_json_patch_that_does_not_apply_is_unprocessable(server: Server, operations: list[Any]) -> None:
    created = await server.create("configmaps", config_map("a"))
    with pytest.raises(Invalid) as refused:
        await server.patch("configmaps", "a", JSON_PATCH, [{"op": "add", "path": "/data/b", "value": "2"}, *operations])
    assert (refused.value.status.code, refused.value.status.reason) == (422, "Invalid")
    assert await server.get("configmaps", "a") == created


async def test_an_unknown_operation_is_refused(server: Server) -> None:
    await server.create("configmaps", config_map("a"))
    with pytest.raises(Invalid):
        await server.patch("configmaps", "a", JSON_PATCH, [{"op": "twist", "path": "/data/a"}])


async def test_merge_patch_merges_maps_drops_nulls_and_swaps_lists(server: Server) -> None:
    await server.create("pods", pod("a", labels={"x": "1", "y": "1"}, finalizers=["x.io/a", "x.io/b"]))
    patch = {"metadata": {"labels": {"x": None, "z": "1"}, "finalizers": ["x.io/c"]}}
    patched = await server.patch("pods", "a", MERGE_PATCH, patch)
    assert patched["metadata"]["labels"] == {"y": "1", "z": "1"}
    assert patched["metadata"]["finalizers"] == ["x.io/c"]
    await server.patch("pods", "a", MERGE_PATCH, {"metadata": {"finalizers": None}})


async def test_merge_patch_result_is_validated(server: Server) -> None:
    await server.create("deployments", deployment("web"))
    with pytest.raises(Invalid, match=r"spec\.replicas"):
        await server.patch("deployments", "web", MERGE_PATCH, {"spec": {"replicas": -1}})


async def test_a_patch_of_nothing_is_not_found(server: Server) -> None:
    with pytest.raises(NotFound):
        await server.patch("configmaps", "missing", MERGE_PATCH, {"data": {"a": "1"}})


async def test_patch_cannot_rename_an_object(server: Server) -> None:
    await server.create("configmaps", config_map("a"))
    with pytest.raises(Invalid):
        await server.patch("configmaps", "a", MERGE_PATCH, {"metadata": {"name": "b"}})


def template(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": list(containers), **spec}}}}


async def pod_template(server: Server, patch: dict[str, Any]) -> dict[str, Any]:
    patched = await server.patch("deployments", "web", STRATEGIC_PATCH, patch)
    spec: dict[str, Any] = patched["spec"]["template"]["spec"]
    return spec


async def test_strategic_merge_finds_containers_by_name(server: Server) -> None:
    await server.create("deployments", deployment("web"))
    spec = await pod_template(server, template({"name": "main", "image": "registry.invalid/app:2"}, container("side")))
    assert {c["name"]: c["image"].split(":")[-1] for c in spec["containers"]} == {"main": "2", "side": "1"}


async def test_strategic_merge_obeys_the_delete_directive(server: Server) -> None:
    await server.create("deployments", deployment("web"))
    await pod_template(server, template(container("side")))
    spec = await pod_template(server, template({"name": "main", "$patch": "delete"}))
    assert [c["name"] for c in spec["containers"]] == ["side"]


async def test_strategic_merge_obeys_the_replace_directive(server: Server) -> None:
    await server.create("deployments", deployment("web"))
    spec = await pod_template(server, template(container("only"), {"$patch": "replace"}))
    assert [c["name"] for c in spec["containers"]] == ["only"]


async def test_strategic_merge_follows_the_key_of_each_list(server: Server) -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]
    ports = [{"containerPort": 80, "protocol": "TCP"}]
    main = container(env=env, ports=ports)
    await server.create("deployments", deployment("web", spec={"template": None} | full_template(main)))
    change = {"name": "main", "env": [{"name": "B", "value": "2"}], "ports": [{"containerPort": 81, "protocol": "TCP"}]}
    (merged,) = (await pod_template(server, template(change)))["containers"]
    assert {e["name"]: e["value"] for e in merged["env"]} == {"A": "1", "B": "2"}
    assert sorted(p["containerPort"] for p in merged["ports"]) == [80, 81]


def full_template(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    body = {"schedulerName": "restow-conformance", "containers": list(containers), **spec}
    return {"template": {"metadata": {"labels": {"app": "web"}}, "spec": body}}


async def test_strategic_merge_swaps_lists_without_a_key(server: Server) -> None:
    tolerations = [{"key": "a", "operator": "Exists"}]
    main = container(args=["x", "y"])
    await server.create("deployments", deployment("web", spec=full_template(main, tolerations=tolerations)))
    change = template({"name": "main", "args": ["z"]}, tolerations=[{"key": "b", "operator": "Exists"}])
    spec = await pod_template(server, change)
    assert spec["containers"][0]["args"] == ["z"]
    assert [t["key"] for t in spec["tolerations"]] == ["b"]


async def test_strategic_merge_obeys_set_element_order(server: Server) -> None:
    await server.create("deployments", deployment("web", spec=full_template(container("a"), container("b"))))
    change = template(
        {"name": "c", "image": "registry.invalid/c:1"},
        **{"$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}]},
    )
    spec = await pod_template(server, change)
    assert [c["name"] for c in spec["containers"]] == ["c", "b", "a"]


async def test_strategic_merge_adds_and_deletes_finalizers(server: Server) -> None:
    await server.create("configmaps", config_map("a", finalizers=["x.io/a"]))
    united = await server.patch("configmaps", "a", STRATEGIC_PATCH, {"metadata": {"finalizers": ["x.io/b"]}})
    assert sorted(united["metadata"]["finalizers"]) == ["x.io/a", "x.io/b"]
    fewer = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.io/a", "x.io/b"]}}
    assert "finalizers" not in (await server.patch("configmaps", "a", STRATEGIC_PATCH, fewer))["metadata"]


async def test_strategic_merge_drops_nulls_and_retains_keys(server: Server) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    await server.create("deployments", deployment("web", spec={"strategy": strategy}))
    change = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    patched = await server.patch("deployments", "web", STRATEGIC_PATCH, change)
    assert patched["spec"]["strategy"] == {"type": "Recreate"}


async def test_strategic_merge_keys_conditions_by_type(server: Server) -> None:
    await server.create("pods", pod("a"))
    for name, status in (("Ready", "False"), ("PodScheduled", "True"), ("Ready", "True")):
        change = {"status": {"conditions": [{"type": name, "status": status}]}}
        patched = await server.patch("pods", "a", STRATEGIC_PATCH, change, sub="status")
    conditions = {c["type"]: c["status"] for c in patched["status"]["conditions"]}
    assert conditions == {"Ready": "True", "PodScheduled": "True"}


async def test_a_list_item_without_its_key_is_refused(server: Server) -> None:
    await server.create("deployments", deployment("web"))
    with pytest.raises(ApiError, match="does not contain declared merge key: name"):
        await pod_template(server, template({"image": "registry.invalid/app:2"}))


async def test_an_unknown_directive_is_refused(server: Server) -> None:
    await server.create("deployments", deployment("web"))
    with pytest.raises(ApiError, match="unknown patch type: twist"):
        await pod_template(server, template({"name": "main", "$patch": "twist"}))
