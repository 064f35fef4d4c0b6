"""Lists in pages: one consistent picture, however long the reader takes."""

from __future__ import annotations

import pytest

from restow.model.objects import Document
from restow.ports import Gone, Invalid
from tests.conformance.conftest import Forget
from tests.conformance.documents import config_map, pod
from tests.conformance.server import Server, eventually


async def five_pods(server: Server) -> None:
    for name in "abcde":
        await server.create("pods", pod(name, labels={"even": str(name in "bd").lower()}))


def names(page: Document) -> str:
    return "".join(item["metadata"]["name"] for item in page["items"])


async def test_list_pages_join_to_the_whole_list(server: Server) -> None:
    await five_pods(server)
    first = await server.list("pods", limit="2")
    second = await server.list("pods", limit="2", **{"continue": first["metadata"]["continue"]})
    third = await server.list("pods", limit="2", **{"continue": second["metadata"]["continue"]})
    assert [names(page) for page in (first, second, third)] == ["ab", "cd", "e"]
    assert "continue" not in third["metadata"]


async def test_remaining_items_are_counted(server: Server) -> None:
    await five_pods(server)
    first = await server.list("pods", limit="2")
    second = await server.list("pods", limit="2", **{"continue": first["metadata"]["continue"]})
    assert first["metadata"]["remainingItemCount"] == 3
    assert second["metadata"]["remainingItemCount"] == 1


async def test_a_selector_leaves_the_rest_uncounted(server: Server) -> None:
    await five_pods(server)
    page = await server.list("pods", limit="2", labelSelector="even=false")
    assert names(page) == "ac"
    assert "remainingItemCount" not in page["metadata"]
    last = await server.list(
        "pods", limit="2", labelSelector="even=false", **{"continue": page["metadata"]["continue"]}
    )
    assert names(last) == "e"


async def test_later_pages_show_the_time_of_the_first(server: Server) -> None:
    await five_pods(server)
    first = await server.list("pods", limit="2")
    await server.delete("pods", "d", {"gracePeriodSeconds": 0})
    await server.create("pods", pod("cc"))
    second = await server.list("pods", limit="5", **{"continue": first["metadata"]["continue"]})
    assert names(second) == "cde"
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_full_last_page_has_no_continue_token(server: Server) -> None:
    await five_pods(server)
    page = await server.list("pods", limit="5")
    assert names(page) == "abcde"
    assert "continue" not in page["metadata"]


@pytest.mark.parametrize(
    "token", ["nonsense", "e30", "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ"], ids=["text", "empty", "no key"]
)
async def test_a_malformed_token_is_a_bad_request(server: Server, token: str) -> None:
    with pytest.raises(Invalid, match="continue") as refused:
        await server.list("pods", limit="1", **{"continue": token})
    assert refused.value.status.code == 400


async def test_a_token_goes_without_a_version(server: Server) -> None:
    await five_pods(server)
    token = (await server.list("pods", limit="1"))["metadata"]["continue"]
    with pytest.raises(Invalid, match="resourceVersion"):
        await server.list("pods", limit="1", resourceVersion="1", resourceVersionMatch="Exact", **{"continue": token})


async def test_pages_cover_all_namespaces(server: Server) -> None:
    for name in "ab":
        await server.create("configmaps", config_map(name))
    request = server.request("list", "configmaps", limit="1")
    everywhere = type(request)(verb="list", resource=request.resource, query={"limit": "1"})
    response = await server.api.call(everywhere)
    assert b'"continue"' in response.body


async def test_a_limit_that_is_not_a_number_is_a_bad_request(server: Server) -> None:
    with pytest.raises(Invalid) as refused:
        await server.list("pods", limit="some")
    assert refused.value.status.code == 400


async def test_a_token_from_before_is_gone(server: Server, forget: Forget) -> None:
    """A real server serves old pages out of its cache until that hears of the compaction, up to 15 seconds later."""
    await five_pods(server)
    token = (await server.list("pods", limit="2"))["metadata"]["continue"]
    await forget()
    refusals: list[Gone] = []

    async def expired() -> bool:
        try:
            await server.list("pods", limit="2", **{"continue": token})
        except Gone as gone:
            refusals.append(gone)
        return bool(refusals)

    await eventually(expired, "the token has expired", seconds=30)
    status = refusals[0].status
    assert (status.code, status.reason) == (410, "Expired")
    rest = await server.list("pods", limit="9", **{"continue": status.metadata["continue"]})
    assert names(rest) == "cde"  # the refusal offers to go on from here, in the present
