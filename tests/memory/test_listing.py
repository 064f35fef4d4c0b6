"""Lists: order, selection, pages that belong together, versions of the past and of the future."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.model.objects import Document
from restow.ports import Gone, Invalid, OutcomeUnknown, Resource
from tests.memory.cluster import Cluster, config_map, namespace, pod


async def fill(cluster: Cluster, names: str = "abcde") -> None:
    for name in names:
        await cluster.create("configmaps", config_map(name))


async def pages(cluster: Cluster, limit: int, **query: str) -> list[Document]:
    pages_read = [await cluster.call("list", "configmaps", limit=str(limit), **query)]
    while token := pages_read[-1]["metadata"].get("continue"):
        pages_read.append(await cluster.call("list", "configmaps", limit=str(limit), continue_=token, **query))
    return pages_read


def names(page: Document) -> str:
    return "".join(item["metadata"]["name"] for item in page["items"])


async def test_all_namespaces_are_ordered_by_their_paths(cluster: Cluster) -> None:
    for place in ("team", "team-a"):
        await cluster.create("namespaces", namespace(place))
        await cluster.create("configmaps", config_map(), namespace=place)
    listed = await cluster.call("list", "configmaps", namespace=None)
    places = [item["metadata"]["namespace"] for item in listed["items"]]
    assert places == ["team-a", "team"]  # as etcd: "team-a/a" comes before "team/a"


async def test_list_pages_cover_the_list_and_count_remaining_items(cluster: Cluster) -> None:
    await fill(cluster)
    pages_read = await pages(cluster, 2)
    assert [names(page) for page in pages_read] == ["ab", "cd", "e"]
    assert [page["metadata"].get("remainingItemCount") for page in pages_read] == [3, 1, None]
    assert len({page["metadata"]["resourceVersion"] for page in pages_read}) == 1


async def test_a_selection_is_not_counted(cluster: Cluster) -> None:
    await fill(cluster)
    first = await cluster.call("list", "configmaps", limit="2", fieldSelector="metadata.name!=a")
    assert names(first) == "bc"
    assert "remainingItemCount" not in first["metadata"]


async def test_later_pages_show_the_first_page_s_moment(cluster: Cluster) -> None:
    await fill(cluster)
    first = await cluster.call("list", "configmaps", limit="2")
    await cluster.delete("configmaps", "d")
    await cluster.create("configmaps", config_map("cc"))
    token = first["metadata"]["continue"]
    second = await cluster.call("list", "configmaps", limit="9", continue_=token)
    assert names(second) == "cde"


@given(
    steps=st.lists(st.tuples(st.booleans(), st.sampled_from("abcdef")), max_size=12),
    limit=st.integers(1, 4),
)
@settings(max_examples=50, deadline=None)
def test_list_pages_show_a_single_snapshot(steps: Any, limit: int) -> None:
    async def story() -> None:
        cluster = Cluster()
        await fill(cluster, "bdf")
        whole = await cluster.call("list", "configmaps")
        writes = iter(steps)
        page = await cluster.call("list", "configmaps", limit=str(limit))
        items = list(page["items"])
        while token := page["metadata"].get("continue"):
            for create, name in [step for step in [next(writes, None), next(writes, None)] if step]:
                present = name in await cluster.names("configmaps")
                if create and not present:
                    await cluster.create("configmaps", config_map(name))
                elif not create and present:
                    await cluster.delete("configmaps", name)
            page = await cluster.call("list", "configmaps", limit=str(limit), continue_=token)
            items += page["items"]
        assert items == whole["items"]

    asyncio.run(story())


async def test_an_expired_token_offers_the_present(cluster: Cluster) -> None:
    await fill(cluster)
    token = (await cluster.call("list", "configmaps", limit="2"))["metadata"]["continue"]
    cluster.api.compact()
    await cluster.delete("configmaps", "d")
    with pytest.raises(Gone) as expired:
        await cluster.call("list", "configmaps", limit="2", continue_=token)
    assert (expired.value.status.code, expired.value.status.reason) == (410, "Expired")
    fresh = expired.value.status.metadata["continue"]
    assert names(await cluster.call("list", "configmaps", limit="9", continue_=fresh)) == "ce"


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ({"continue_": "!!!"}, 400, "continue key is not valid"),
        ({"continue_": "eyJ2IjoieCJ9"}, 400, "continue key is not valid"),
        ({"limit": "many"}, 400, "limit"),
        ({"resourceVersion": "-1"}, 400, "resourceVersion"),
        ({"fieldSelector": "spec.nodeName=x"}, 400, "not a known field selector"),
        ({"labelSelector": "a=b=c"}, 400, "invalid selector"),
        ({"resourceVersionMatch": "Exact"}, 422, "forbidden unless resourceVersion is provided"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 422, '"exact" is forbidden'),
        ({"resourceVersionMatch": "Roughly", "resourceVersion": "1"}, 422, "Unsupported value"),
        ({"sendInitialEvents": "true"}, 422, "sendInitialEvents is forbidden for list"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else None,
)
async def test_bad_list_options_are_refused(cluster: Cluster, query: dict[str, str], code: int, words: str) -> None:
    with pytest.raises(Invalid, match=words) as refused:
        await cluster.call("list", "configmaps", **query)
    assert refused.value.status.code == code


async def test_an_exact_version_shows_the_past(cluster: Cluster) -> None:
    await fill(cluster, "ab")
    version = str(cluster.api.version)
    await cluster.delete("configmaps", "a")
    then = await cluster.call("list", "configmaps", resourceVersion=version, resourceVersionMatch="Exact")
    assert (names(then), then["metadata"]["resourceVersion"]) == ("ab", version)
    assert names(await cluster.call("list", "configmaps", resourceVersion=version)) == "b"


async def test_an_exact_version_too_old_is_gone(cluster: Cluster) -> None:
    version = str(cluster.api.version)
    cluster.api.compact()
    with pytest.raises(Gone):
        await cluster.call("list", "configmaps", resourceVersion=version, resourceVersionMatch="Exact")


@pytest.mark.parametrize(("verb", "name"), [("list", None), ("get", "a")])
async def test_list_at_a_future_version_times_out(cluster: Cluster, verb: Any, name: str | None) -> None:
    await fill(cluster, "a")
    with pytest.raises(OutcomeUnknown, match="Too large resource version: 999, current: ") as refused:
        await cluster.call(verb, "configmaps", name, resourceVersion="999")
    details = refused.value.status.details
    assert refused.value.status.code == 504
    assert details is not None and details.causes is not None
    assert details.causes[0].reason == "ResourceVersionTooLarge"


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("spec.nodeName=n1", ["a"]),
        ("spec.nodeName!=n1", ["b"]),
        ("spec.nodeName=", ["b"]),
        ("spec.nodeName=n1,metadata.name=b", []),
        ("metadata.name=b", ["b"]),
        ("metadata.namespace=default", ["a", "b"]),
        ("status.phase=Pending", ["a", "b"]),
        ("spec.hostNetwork=false", ["a", "b"]),
        ("spec.schedulerName=default-scheduler,spec.restartPolicy=Always", ["a", "b"]),
    ],
)
async def test_pods_are_selected_by_field(cluster: Cluster, selector: str, expected: list[str]) -> None:
    for name in ("b", "a"):
        await cluster.create("pods", pod(name))
    await cluster.bind("a", "n1")
    assert await cluster.names("pods", fieldSelector=selector) == expected
    assert await cluster.names("pods", fieldSelector=selector, namespace=None) == expected


async def test_events_are_read_in_both_groups_words(cluster: Cluster) -> None:
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"},
        "reason": "Started",
        "message": "it runs",
        "type": "Normal",
    }
    await cluster.create("events", {"apiVersion": "v1", "kind": "Event", **event})
    new = Resource("events.k8s.io", "v1", "events")
    (item,) = (await cluster.call("list", new, fieldSelector="involvedObject.name=a"))["items"]
    assert (item["note"], item["regarding"]["name"]) == ("it runs", "a")
    assert (await cluster.get(new, "e"))["apiVersion"] == "events.k8s.io/v1"
