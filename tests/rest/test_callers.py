"""Which clients are allowed, and where the server listens."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from restow.adapters.rest import RestServer, serve
from restow.ports import Resource
from tests.rest.scripted import ScriptedApi

PODS = Resource("", "v1", "pods")


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, 200),
        ({"Host": "localhost:6444"}, 200),
        ({"Host": "[::1]:6444"}, 200),
        ({"Host": "127.8.8.8"}, 200),
        ({"Host": "rebound.example:6444"}, 403),
        ({"Host": "127.0.0.1.rebound.example"}, 403),
        ({"Host": "10.0.0.1"}, 403),
        ({"Origin": "http://localhost:3000"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[evil"}, 403),
    ],
    ids=str,
)
async def test_requests_from_other_hosts_are_refused(
    http: aiohttp.ClientSession, headers: dict[str, str], code: int
) -> None:
    async with http.get("/version", headers=headers) as answer:
        assert answer.status == code


async def test_a_server_on_all_interfaces_answers_to_any_host(scripted: ScriptedApi) -> None:
    async with (
        await serve(scripted, host="0.0.0.0") as running,
        aiohttp.ClientSession(running.url) as http,
        http.get("/version", headers={"Host": "cluster.example"}) as answer,
    ):
        assert (answer.status, running.url) == (200, f"http://127.0.0.1:{running.port}")


async def test_taken_port_is_reported(server: RestServer, scripted: ScriptedApi) -> None:
    with pytest.raises(OSError, match="in use"):
        await serve(scripted, port=server.port)


@pytest.mark.parametrize(
    "sent",
    [b"\x16\x03\x01\x02\x00\x01\x00", b"junk\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n"],
    ids=["TLS", "junk", "a wrong length"],
)
async def test_bytes_that_are_not_http_are_refused_without_a_log_line(
    server: RestServer, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(sent)
    async with asyncio.timeout(2):
        assert b" 400 " in await reader.read()
    writer.close()
    assert not [record for record in caplog.records if record.levelname not in ("DEBUG", "INFO")]
