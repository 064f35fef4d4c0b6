"""Watches over HTTP: lines, forms, errors, and how streams end. The API server is scripted."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import msgspec
import pytest

from restow.adapters.rest import RestServer, serve
from restow.ports import Gone, Request, Resource
from tests.rest.scripted import POD, TABLE, ScriptedApi

PODS = Resource("", "v1", "pods")

ADDED = msgspec.json.encode({"type": "ADDED", "object": POD})
BOOKMARK = msgspec.json.encode({"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "11"}}})
BROKEN = msgspec.json.encode({"type": "ERROR", "object": {"kind": "Status", "code": 410}})


async def test_watch_sends_a_line_per_event(http: aiohttp.ClientSession, scripted: ScriptedApi) -> None:
    scripted.events, scripted.ends = [ADDED, BOOKMARK], True
    async with http.get("/api/v1/pods?watch=true&resourceVersion=4") as answer:
        assert await answer.read() == ADDED + b"\n" + BOOKMARK + b"\n"
    assert scripted.requests == [Request(verb="watch", resource=PODS, query={"resourceVersion": "4"})]


async def test_watch_of_a_single_name(http: aiohttp.ClientSession, scripted: ScriptedApi) -> None:
    scripted.ends = True
    async with http.get("/api/v1/namespaces/d/pods/p?watch=1") as answer:
        assert await answer.read() == b""
    assert scripted.requests == [Request(verb="watch", resource=PODS, namespace="d", name="p")]


async def test_a_quiet_watch_answers_at_once(http: aiohttp.ClientSession) -> None:
    async with asyncio.timeout(2), http.get("/api/v1/pods?watch=true") as answer:
        assert answer.status == 200


async def test_an_error_before_the_first_event_is_an_http_error(
    http: aiohttp.ClientSession, scripted: ScriptedApi
) -> None:
    scripted.events = [Gone.because(410, "Expired", "too old")]
    async with http.get("/api/v1/pods?watch=true") as answer:
        assert (answer.status, (await answer.json())["reason"]) == (410, "Expired")


async def test_table_events_carry_columns_once(http: aiohttp.ClientSession, scripted: ScriptedApi) -> None:
    scripted.events, scripted.ends = [ADDED, ADDED, BOOKMARK, BROKEN], True
    async with http.get("/api/v1/pods?watch=true", headers={"Accept": TABLE}) as answer:
        events = [json.loads(line) for line in (await answer.read()).splitlines()]
    assert [len(event["object"].get("columnDefinitions", ())) for event in events] == [9, 0, 0, 0]
    assert [len(event["object"].get("rows", ())) for event in events] == [1, 1, 0, 0]
    assert events[2]["object"]["metadata"] == {"resourceVersion": "11"}
    assert events[3] == json.loads(BROKEN)


async def test_watch_events_with_partial_metadata(http: aiohttp.ClientSession, scripted: ScriptedApi) -> None:
    scripted.events, scripted.ends = [ADDED], True
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    async with http.get("/api/v1/pods?watch=true", headers={"Accept": accept}) as answer:
        event = json.loads(await answer.read())
    assert (event["object"]["kind"], event["object"]["metadata"]) == ("PartialObjectMetadata", POD["metadata"])


async def test_a_client_that_leaves_ends_its_watch(
    http: aiohttp.ClientSession, scripted: ScriptedApi, server: RestServer
) -> None:
    async with http.get("/api/v1/pods?watch=true"):
        assert (scripted.open, server.open_watches) == (1, 1)
    async with asyncio.timeout(2):
        await scripted.all_left.wait()
        await asyncio.sleep(0)
    assert server.open_watches == 0


async def test_closing_ends_open_watches_cleanly_and_at_once(scripted: ScriptedApi) -> None:
    running = await serve(scripted)
    scripted.events = [ADDED]
    async with aiohttp.ClientSession(running.url) as http:
        answers = [await http.get("/api/v1/pods?watch=true") for _ in range(5)]
        for answer in answers:
            assert await answer.content.readline() == ADDED + b"\n"
        async with asyncio.timeout(2):
            await running.close()
            assert [await answer.content.read() for answer in answers] == [b""] * 5
        assert scripted.open == 0
        with pytest.raises(aiohttp.ClientConnectorError):
            await http.get("/version")


async def test_closing_does_not_wait_for_a_client_that_stopped_reading(scripted: ScriptedApi) -> None:
    running = await serve(scripted)
    scripted.events = [b'"' + b"x" * 1024 * 1024 + b'"'] * 100
    async with aiohttp.ClientSession(running.url) as http, http.get("/api/v1/pods?watch=true"):
        await asyncio.sleep(0.1)
        async with asyncio.timeout(3):
            await running.close()
    assert scripted.open == 0


async def test_a_stream_that_breaks_ends_with_an_error_event(
    http: aiohttp.ClientSession, scripted: ScriptedApi
) -> None:
    scripted.events = [ADDED, b"not JSON"]
    async with http.get("/api/v1/pods?watch=true", headers={"Accept": TABLE}) as answer:
        last = json.loads((await answer.read()).splitlines()[-1])
    assert (last["type"], last["object"]["code"]) == ("ERROR", 500)


async def test_a_client_of_http_1_0_reads_until_the_end(scripted: ScriptedApi, server: RestServer) -> None:
    scripted.events, scripted.ends = [ADDED], True
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /api/v1/pods?watch=true HTTP/1.0\r\nHost: localhost\r\n\r\n")
    async with asyncio.timeout(2):
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    assert head.startswith(b"HTTP/1.0 200 ")
    assert body == ADDED + b"\n"
