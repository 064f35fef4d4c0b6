"""Deleting: preconditions, finalizers, grace, and what becomes of the dependents."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model.objects import Document
from restow.ports import MERGE_PATCH, Conflict, Forbidden, Invalid, NotFound
from tests.conformance.documents import binding, config_map, pod
from tests.conformance.server import Server, eventually

UNKNOWN_UID = "11111111-2222-3333-4444-555555555555"


async def exists(server: Server, plural: str, name: str) -> bool:
    try:
        await server.get(plural, name)
    except NotFound:
        return False
    return True


async def bound_pod(server: Server, name: str = "a", **more: Any) -> Document:
    await server.create("pods", pod(name, **more))
    await server.create("pods", binding(name), name=name, sub="binding")
    return await server.get("pods", name)


@pytest.mark.parametrize(
    "precondition", [{"uid": UNKNOWN_UID}, {"resourceVersion": "1"}], ids=["uid", "resourceVersion"]
)
async def test_a_failed_precondition_conflicts(server: Server, precondition: dict[str, str]) -> None:
    await server.create("configmaps", config_map("a"))
    with pytest.raises(Conflict, match=r"the .* in the precondition"):
        await server.delete("configmaps", "a", {"preconditions": precondition})
    assert await exists(server, "configmaps", "a")


async def test_a_fulfilled_precondition_deletes(server: Server) -> None:
    meta = (await server.create("configmaps", config_map("a")))["metadata"]
    preconditions = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    await server.delete("configmaps", "a", {"preconditions": preconditions})
    assert not await exists(server, "configmaps", "a")


async def test_a_finalizer_holds_the_object(server: Server) -> None:
    await server.create("configmaps", config_map("a", finalizers=["example.com/hold"]))
    marked = await server.delete("configmaps", "a")
    assert marked["kind"] == "ConfigMap"
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    await server.patch("configmaps", "a", MERGE_PATCH, {"metadata": {"finalizers": None}})
    assert not await exists(server, "configmaps", "a")


async def test_a_terminating_object_takes_no_new_finalizer(server: Server) -> None:
    await server.create("configmaps", config_map("a", finalizers=["example.com/hold"]))
    await server.delete("configmaps", "a")
    more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    with pytest.raises((Invalid, Forbidden), match="no new finalizers can be added if the object is being deleted"):
        await server.patch("configmaps", "a", MERGE_PATCH, more)
    await server.patch("configmaps", "a", MERGE_PATCH, {"metadata": {"finalizers": None}})


async def test_a_second_delete_changes_nothing(server: Server) -> None:
    await server.create("configmaps", config_map("a", finalizers=["example.com/hold"]))
    first = await server.delete("configmaps", "a")
    second = await server.delete("configmaps", "a")
    assert first["metadata"]["deletionTimestamp"] == second["metadata"]["deletionTimestamp"]
    await server.patch("configmaps", "a", MERGE_PATCH, {"metadata": {"finalizers": None}})


async def test_a_client_cannot_set_the_deletion_timestamp(server: Server) -> None:
    await server.create("configmaps", config_map("a"))
    mark = {"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}}
    with pytest.raises(Invalid, match=r"metadata\.deletionTimestamp: Invalid value: .*: field is immutable"):
        await server.patch("configmaps", "a", MERGE_PATCH, mark)


@pytest.mark.parametrize("finalizer", ["plain", "bad finalizer/x"], ids=["without a domain", "not a name"])
async def test_finalizers_are_qualified_names(server: Server, finalizer: str) -> None:
    with pytest.raises(Invalid, match=r"metadata\.finalizers"):
        await server.create("configmaps", config_map("a", finalizers=[finalizer]))


async def test_an_unbound_pod_goes_at_once(server: Server) -> None:
    await server.create("pods", pod("a"))
    gone = await server.delete("pods", "a")
    assert gone["kind"] == "Pod"
    assert gone["metadata"]["deletionGracePeriodSeconds"] == 0
    assert not await exists(server, "pods", "a")


async def test_bound_pod_keeps_its_grace_period(server: Server) -> None:
    await bound_pod(server)
    marked = await server.delete("pods", "a")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    assert marked["metadata"]["deletionTimestamp"] > marked["metadata"]["creationTimestamp"]
    assert await exists(server, "pods", "a")
    await server.delete("pods", "a", {"gracePeriodSeconds": 0})
    assert not await exists(server, "pods", "a")


@pytest.mark.parametrize(
    ("spec", "options", "expected"),
    [
        ({"terminationGracePeriodSeconds": 7}, {}, 7),
        ({"terminationGracePeriodSeconds": 7}, {"gracePeriodSeconds": 9}, 9),
        ({"terminationGracePeriodSeconds": 7}, {"gracePeriodSeconds": 3}, 3),
    ],
    ids=["of the pod", "longer by request", "shorter by request"],
)
async def test_grace_period_of_spec_and_options(server: Server, spec: Any, options: Any, expected: int) -> None:
    await bound_pod(server, spec=spec)
    assert (await server.delete("pods", "a", options))["metadata"]["deletionGracePeriodSeconds"] == expected
    await server.delete("pods", "a", {"gracePeriodSeconds": 0})


async def test_a_grace_period_can_be_shortened_and_not_extended(server: Server) -> None:
    await bound_pod(server)
    await server.delete("pods", "a", {"gracePeriodSeconds": 20})
    shorter = await server.delete("pods", "a", {"gracePeriodSeconds": 5})
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    longer = await server.delete("pods", "a", {"gracePeriodSeconds": 25})
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 5
    await server.delete("pods", "a", {"gracePeriodSeconds": 0})


async def test_a_finished_pod_needs_no_grace(server: Server) -> None:
    await bound_pod(server)
    await server.patch("pods", "a", MERGE_PATCH, {"status": {"phase": "Succeeded"}}, sub="status")
    await server.delete("pods", "a")
    assert not await exists(server, "pods", "a")


async def test_a_finalizer_outlives_the_grace(server: Server) -> None:
    await bound_pod(server, finalizers=["example.com/hold"])
    await server.delete("pods", "a", {"gracePeriodSeconds": 0})
    assert await exists(server, "pods", "a")
    await server.patch("pods", "a", MERGE_PATCH, {"metadata": {"finalizers": None}})
    assert not await exists(server, "pods", "a")


async def test_deletion_moves_the_generation_of_a_pod(server: Server) -> None:
    before = await bound_pod(server)
    marked = await server.delete("pods", "a")
    assert marked["metadata"]["generation"] == before["metadata"]["generation"] + 1
    await server.delete("pods", "a", {"gracePeriodSeconds": 0})


async def family(server: Server, *, block: bool = False) -> None:
    """A parent and its child."""
    parent = (await server.create("configmaps", config_map("parent")))["metadata"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": parent["uid"]}
    await server.create("configmaps", config_map("child", ownerReferences=[{**owner, "blockOwnerDeletion": block}]))


async def gone(server: Server, name: str) -> None:
    async def check() -> bool:
        return not await exists(server, "configmaps", name)

    await eventually(check, f"{name} is gone")


@pytest.mark.parametrize("options", [{}, {"propagationPolicy": "Background"}], ids=["by default", "by request"])
async def test_dependents_follow_in_the_background(server: Server, options: Document) -> None:
    await family(server)
    await server.delete("configmaps", "parent", options)
    assert not await exists(server, "configmaps", "parent")
    await gone(server, "child")


async def test_dependents_go_first_in_the_foreground(server: Server) -> None:
    await family(server, block=True)
    marked = await server.delete("configmaps", "parent", {"propagationPolicy": "Foreground"})
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
    await gone(server, "child")
    await gone(server, "parent")


async def test_orphaned_dependents_lose_their_owner_reference(server: Server) -> None:
    await family(server)
    await server.delete("configmaps", "parent", {"propagationPolicy": "Orphan"})
    await gone(server, "parent")
    assert "ownerReferences" not in (await server.get("configmaps", "child"))["metadata"]


async def test_dependent_of_a_missing_owner_is_collected(server: Server) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "missing", "uid": UNKNOWN_UID}
    await server.create("configmaps", config_map("child", ownerReferences=[owner]))
    await gone(server, "child")


async def test_a_dependent_with_another_living_owner_stays(server: Server) -> None:
    await family(server)
    other = (await server.create("configmaps", config_map("other")))["metadata"]
    child = await server.get("configmaps", "child")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": other["uid"]}
    child["metadata"]["ownerReferences"].append(owner)
    await server.replace("configmaps", child)
    await server.delete("configmaps", "parent")

    async def only_other() -> bool:
        owners = (await server.get("configmaps", "child"))["metadata"]["ownerReferences"]
        return [o["name"] for o in owners] == ["other"]

    await eventually(only_other, "the child lost its dead owner")


@pytest.mark.parametrize(
    "options",
    [
        {"propagationPolicy": "Sideways"},
        {"propagationPolicy": "Orphan", "orphanDependents": True},
    ],
    ids=["unknown policy", "policy twice"],
)
async def test_senseless_options_are_invalid(server: Server, options: Document) -> None:
    await bound_pod(server)
    with pytest.raises(Invalid, match=r"propagationPolicy|orphanDependents") as refused:
        await server.delete("pods", "a", options)
    assert refused.value.status.code == 422
    await server.delete("pods", "a", {"gracePeriodSeconds": 0})


async def test_a_negative_grace_means_the_shortest_there_is(server: Server) -> None:
    await bound_pod(server)
    marked = await server.delete("pods", "a", {"gracePeriodSeconds": -1})
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 1
    await server.delete("pods", "a", {"gracePeriodSeconds": 0})


async def test_options_may_come_as_a_query(server: Server) -> None:
    await bound_pod(server)
    assert (await server.delete("pods", "a", gracePeriodSeconds="4"))["metadata"]["deletionGracePeriodSeconds"] == 4
    await server.delete("pods", "a", gracePeriodSeconds="0")
    assert not await exists(server, "pods", "a")
