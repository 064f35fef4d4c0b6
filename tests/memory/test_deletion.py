"""Deletion: grace, finalizers, preconditions, collections, and what each is answered with."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model.objects import Document
from restow.ports import MERGE_PATCH, Conflict, Invalid
from tests.memory.cluster import Cluster, config_map, pod

HELD = ["example.com/hold"]


async def bound(cluster: Cluster, **parts: Any) -> None:
    await cluster.create("pods", pod(**parts))
    await cluster.bind("a")


async def test_deleting_a_plain_object_returns_a_status(cluster: Cluster) -> None:
    created = await cluster.create("configmaps", config_map())
    answer = await cluster.delete("configmaps", "a")
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]}
    assert await cluster.names("configmaps") == []


@pytest.mark.parametrize(
    ("spec", "options", "seconds"),
    [
        ({}, {}, 30),
        ({"terminationGracePeriodSeconds": 5}, {}, 5),
        ({}, {"gracePeriodSeconds": 7}, 7),
        ({}, {"gracePeriodSeconds": -4}, 1),
    ],
    ids=["default", "the pod's own", "asked for", "negative"],
)
async def test_a_bound_pod_gets_its_grace(cluster: Cluster, spec: Any, options: Any, seconds: int) -> None:
    await bound(cluster, spec=spec)
    metadata = (await cluster.delete("pods", "a", options))["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == seconds
    assert metadata["deletionTimestamp"] == f"2023-11-14T22:13:{20 + seconds}Z"
    assert metadata["generation"] == 2


@pytest.mark.parametrize(("again", "seconds"), [(None, 30), (50, 30), (10, 10)], ids=["no change", "longer", "shorter"])
async def test_grace_period_can_only_be_shortened(cluster: Cluster, again: int | None, seconds: int) -> None:
    await bound(cluster)
    first = await cluster.delete("pods", "a")
    second = await cluster.delete("pods", "a", {} if again is None else {"gracePeriodSeconds": again})
    assert second["metadata"]["deletionGracePeriodSeconds"] == seconds
    assert (second == first) == (seconds == 30)


async def test_grace_zero_ends_a_graceful_deletion(cluster: Cluster) -> None:
    await bound(cluster)
    await cluster.delete("pods", "a")
    await cluster.delete("pods", "a", {"gracePeriodSeconds": 0})
    assert await cluster.names("pods") == []


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_finished_pod_goes_at_once(cluster: Cluster, phase: str) -> None:
    await bound(cluster)
    await cluster.set_status("pods", "a", {"phase": phase})
    await cluster.delete("pods", "a")
    assert await cluster.names("pods") == []


async def test_finalizers_hold_a_pod_past_its_grace(cluster: Cluster) -> None:
    await bound(cluster, finalizers=HELD)
    await cluster.delete("pods", "a", {"gracePeriodSeconds": 0})
    assert (await cluster.get("pods", "a"))["metadata"]["deletionGracePeriodSeconds"] == 0
    free = {"metadata": {"finalizers": None}}
    await cluster.call("patch", "pods", "a", free, content_type=MERGE_PATCH)
    assert await cluster.names("pods") == []


async def test_a_pod_without_finalizers_keeps_its_grace(cluster: Cluster) -> None:
    await bound(cluster, finalizers=HELD)
    await cluster.delete("pods", "a")
    free = {"metadata": {"finalizers": None}}
    await cluster.call("patch", "pods", "a", free, content_type=MERGE_PATCH)
    assert await cluster.names("pods") == ["a"]


async def test_finalizer_cannot_be_added_to_a_terminating_object(cluster: Cluster) -> None:
    await cluster.create("configmaps", config_map(finalizers=HELD))
    await cluster.delete("configmaps", "a")
    more = {"metadata": {"finalizers": [*HELD, "example.com/more"]}}
    with pytest.raises(Invalid, match=r"metadata.finalizers: Forbidden: no new finalizers can be added"):
        await cluster.call("patch", "configmaps", "a", more, content_type=MERGE_PATCH)


@pytest.mark.parametrize("must", [{"uid": "another"}, {"resourceVersion": "1"}], ids=["uid", "version"])
async def test_failed_delete_precondition_conflicts(cluster: Cluster, must: Document) -> None:
    await cluster.create("configmaps", config_map())
    with pytest.raises(Conflict, match=r'cannot be fulfilled on ConfigMap "a": the .* in the precondition'):
        await cluster.delete("configmaps", "a", {"preconditions": must})
    assert await cluster.names("configmaps") == ["a"]


@pytest.mark.parametrize(
    ("body", "query", "code"),
    [
        ({"propagationPolicy": "Sideways"}, {}, 422),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, {}, 422),
        ({"dryRun": ["Some"]}, {}, 422),
        (b"", {"dryRun": "Some"}, 422),
        (b"", {"gracePeriodSeconds": "soon"}, 400),
        ({"gracePeriodSeconds": "soon"}, {}, 400),
        (b"{", {}, 400),
    ],
    ids=["policy", "policy twice", "dry run", "dry run in query", "grace in query", "grace", "broken"],
)
async def test_bad_options_delete_nothing(cluster: Cluster, body: Any, query: Any, code: int) -> None:
    await cluster.create("configmaps", config_map())
    with pytest.raises(Invalid) as refused:
        await cluster.delete("configmaps", "a", body, **query)
    assert refused.value.status.code == code
    assert await cluster.names("configmaps") == ["a"]


async def test_options_may_come_in_the_query(cluster: Cluster) -> None:
    await bound(cluster)
    deleted = await cluster.delete("pods", "a", gracePeriodSeconds="3")
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 3


@pytest.mark.parametrize("finalizers", [[], HELD], ids=["at once", "held"])
async def test_dry_run_delete_deletes_nothing(cluster: Cluster, finalizers: list[str]) -> None:
    await cluster.create("configmaps", config_map(finalizers=finalizers))
    version = cluster.api.version
    await cluster.delete("configmaps", "a", dryRun="All")
    assert cluster.api.version == version


async def test_delete_options_in_the_body_override_the_query(cluster: Cluster) -> None:
    await cluster.create("configmaps", config_map())
    await cluster.delete("configmaps", "a", {"kind": "DeleteOptions"}, dryRun="All")
    assert await cluster.names("configmaps") == []


async def test_a_collection_is_deleted_by_selection(cluster: Cluster) -> None:
    for name, app in (("a", "web"), ("b", "db"), ("c", "web")):
        await cluster.create("configmaps", config_map(name, labels={"app": app}))
    gone = await cluster.call("deletecollection", "configmaps", labelSelector="app=web")
    assert (gone["kind"], len(gone["items"])) == ("ConfigMapList", 2)
    assert await cluster.names("configmaps") == ["b"]


async def test_orphans_of_a_replication_controller_are_the_default(cluster: Cluster) -> None:
    spec = {"selector": {"app": "x"}, "template": {"metadata": {"labels": {"app": "x"}}, "spec": pod()["spec"]}}
    body = {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "rc"}, "spec": spec}
    await cluster.create("replicationcontrollers", body)
    assert (await cluster.delete("replicationcontrollers", "rc"))["metadata"]["finalizers"] == ["orphan"]
    assert await cluster.names("replicationcontrollers") == []


@pytest.mark.parametrize("seconds", [10**12, 2**63 - 1])
async def test_grace_period_beyond_the_last_date_is_cut(cluster: Cluster, seconds: int) -> None:
    await bound(cluster, spec={"terminationGracePeriodSeconds": seconds})
    deleted = (await cluster.delete("pods", "a"))["metadata"]
    assert (deleted["deletionTimestamp"], deleted["deletionGracePeriodSeconds"]) == ("9999-12-31T23:59:59Z", seconds)
    shortened = (await cluster.delete("pods", "a", {"gracePeriodSeconds": 30}))["metadata"]
    assert (shortened["deletionTimestamp"], shortened["deletionGracePeriodSeconds"]) == ("2023-11-14T22:13:50Z", 30)
