"""Owners and dependents: which objects are deleted with which owners."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.adapters.memory import ServerSettings
from restow.ports import MERGE_PATCH
from tests.memory.cluster import Cluster, config_map, namespace, owner, pod

Owners = dict[str, set[str]]


async def family(cluster: Cluster, *, block: bool = False) -> None:
    """a owns b, b owns c."""
    for name, parent in (("a", None), ("b", "a"), ("c", "b")):
        owners = [owner(await cluster.get("configmaps", parent), block=block)] if parent else []
        await cluster.create("configmaps", config_map(name, ownerReferences=owners))


@pytest.mark.parametrize(
    ("options", "left"),
    [({}, []), ({"propagationPolicy": "Background"}, []), ({"propagationPolicy": "Orphan"}, ["b", "c"])],
    ids=["default", "background", "orphan"],
)
async def test_dependents_follow_their_owner(cluster: Cluster, options: dict[str, str], left: list[str]) -> None:
    await family(cluster)
    await cluster.delete("configmaps", "a", options)
    assert await cluster.names("configmaps") == left


async def test_orphans_forget_their_owner(cluster: Cluster) -> None:
    await family(cluster)
    await cluster.delete("configmaps", "a", {"propagationPolicy": "Orphan"})
    assert "ownerReferences" not in (await cluster.get("configmaps", "b"))["metadata"]
    assert "ownerReferences" in (await cluster.get("configmaps", "c"))["metadata"]


async def test_in_the_foreground_blocking_dependents_go_first(cluster: Cluster) -> None:
    parent = await cluster.create("configmaps", config_map("a"))
    hold = config_map("b", ownerReferences=[owner(parent, block=True)], finalizers=["example.com/hold"])
    await cluster.create("configmaps", hold)
    deleting = await cluster.delete("configmaps", "a", {"propagationPolicy": "Foreground"})
    assert deleting["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert await cluster.names("configmaps") == ["a", "b"]
    await cluster.call("patch", "configmaps", "b", {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)
    assert await cluster.names("configmaps") == []


async def test_in_the_foreground_a_whole_family_goes(cluster: Cluster) -> None:
    await family(cluster, block=True)
    await cluster.delete("configmaps", "a", {"propagationPolicy": "Foreground"})
    assert await cluster.names("configmaps") == []


async def test_dependents_that_do_not_block_are_not_waited_for(cluster: Cluster) -> None:
    parent = await cluster.create("configmaps", config_map("a"))
    hold = config_map("b", ownerReferences=[owner(parent)], finalizers=["example.com/hold"])
    await cluster.create("configmaps", hold)
    await cluster.delete("configmaps", "a", {"propagationPolicy": "Foreground"})
    assert await cluster.names("configmaps") == ["b"]
    assert "deletionTimestamp" in (await cluster.get("configmaps", "b"))["metadata"]


async def test_object_stays_while_one_of_two_owners_exists(cluster: Cluster) -> None:
    first = await cluster.create("configmaps", config_map("first"))
    second = await cluster.create("configmaps", config_map("second"))
    await cluster.create("configmaps", config_map("child", ownerReferences=[owner(first), owner(second)]))
    await cluster.delete("configmaps", "first")
    (left,) = (await cluster.get("configmaps", "child"))["metadata"]["ownerReferences"]
    assert left["name"] == "second"
    await cluster.delete("configmaps", "second")
    assert await cluster.names("configmaps") == []


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ({"uid": "no-such-uid"}, []),
        ({"uid": "no-such-uid", "kind": "Unheard", "apiVersion": "example.com/v1"}, ["child"]),
    ],
    ids=["gone", "of a kind that is not served"],
)
async def test_an_owner_that_was_never_there(cluster: Cluster, change: dict[str, str], left: list[str]) -> None:
    parent = await cluster.create("pods", pod())
    created = await cluster.create("configmaps", config_map("child", ownerReferences=[owner(parent) | change]))
    assert created["metadata"]["name"] == "child"
    assert await cluster.names("configmaps") == left


async def test_an_owner_in_another_namespace_is_no_owner(cluster: Cluster) -> None:
    await cluster.create("namespaces", namespace("other"))
    parent = await cluster.create("configmaps", config_map(), namespace="other")
    await cluster.create("configmaps", config_map("child", ownerReferences=[owner(parent)]))
    assert await cluster.names("configmaps") == []


async def test_pods_get_their_grace_from_the_collector_too(cluster: Cluster) -> None:
    parent = await cluster.create("configmaps", config_map())
    await cluster.create("pods", pod("running", ownerReferences=[owner(parent)]))
    await cluster.bind("running")
    await cluster.delete("configmaps", "a")
    assert (await cluster.get("pods", "running"))["metadata"]["deletionGracePeriodSeconds"] == 30


async def test_the_collector_can_be_left_out() -> None:
    cluster = Cluster(ServerSettings(collect_garbage=False))
    await family(cluster)
    await cluster.delete("configmaps", "a")
    assert await cluster.names("configmaps") == ["b", "c"]


NAMES = "abcdefg"
EDGES = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.booleans()), max_size=12)
POLICIES = st.sampled_from(["Background", "Foreground", "Orphan"])


@given(edges=EDGES, deletions=st.lists(st.tuples(st.sampled_from(NAMES), POLICIES), max_size=4))
@settings(max_examples=60, deadline=None)
def test_exactly_the_objects_without_a_living_owner_are_collected(edges: Any, deletions: Any) -> None:
    async def story() -> None:
        cluster = Cluster()
        owners: dict[str, set[str]] = {}
        for name in NAMES:
            parents = {parent: block for parent, child, block in edges if child == name and parent < name}
            owners[name] = set(parents)
            references = [owner(await cluster.get("configmaps", each), block=parents[each]) for each in sorted(parents)]
            await cluster.create("configmaps", config_map(name, ownerReferences=references))
        left = set(NAMES)
        for name, policy in deletions:
            if name in left:
                await cluster.delete("configmaps", name, {"propagationPolicy": policy})
                left, owners = expected(left, owners, name, orphan=policy == "Orphan")
        assert set(await cluster.names("configmaps")) == left

    asyncio.run(story())


def expected(left: set[str], owners: Owners, gone: str, *, orphan: bool) -> tuple[set[str], Owners]:
    """The simple rule: an orphan loses its owner reference; an object is deleted with its last owner, and loses the
    references to the others."""
    left = left - {gone}
    if orphan:
        owners = {name: mine - {gone} for name, mine in owners.items()}
    while fallen := {name for name in left if owners[name] and not owners[name] & left}:
        left = left - fallen
    return left, {name: mine & left for name, mine in owners.items()}


@pytest.mark.parametrize("policy", ["Foreground", "Background", "Orphan"])
async def test_cycle_of_owners_is_collected(cluster: Cluster, policy: str) -> None:
    first = await cluster.create("configmaps", config_map("a"))
    second = await cluster.create("configmaps", config_map("b", ownerReferences=[owner(first, block=True)]))
    third = await cluster.create("configmaps", config_map("c", ownerReferences=[owner(second, block=True)]))
    circle = {"metadata": {"ownerReferences": [owner(third, block=True)]}}
    await cluster.call("patch", "configmaps", "a", circle, content_type=MERGE_PATCH)
    await cluster.delete("configmaps", "a", {"propagationPolicy": policy})
    await asyncio.sleep(0)
    assert await cluster.names("configmaps") == ([] if policy != "Orphan" else ["b", "c"])


async def test_object_that_owns_itself_does_not_block_the_collector(cluster: Cluster) -> None:
    itself = await cluster.create("configmaps", config_map("a"))
    owned = {"metadata": {"ownerReferences": [owner(itself, block=True)]}}
    await cluster.call("patch", "configmaps", "a", owned, content_type=MERGE_PATCH)
    await cluster.delete("configmaps", "a", {"propagationPolicy": "Foreground"})
    await cluster.call("patch", "configmaps", "a", {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)
    assert await cluster.names("configmaps") == []
