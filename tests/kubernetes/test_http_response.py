"""HTTP answers, however they are cut; and connections that are kept as long as they can be."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.adapters.kubernetes import connection_pool
from restow.adapters.kubernetes.connection_pool import Broken, ConnectionPool, NotSent
from restow.adapters.kubernetes.http_response import (
    LONGEST_HEAD,
    HttpResponse,
    HttpResponseParser,
    MalformedResponse,
    decompressed_response,
)

SIZED = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\ncontent-length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n3\r\n, x\r\n0\r\n\r\n"
TRAILED = CHUNKED[:-2] + b"Checksum: 1\r\n\r\n"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n" + SIZED
EMPTY = b"HTTP/1.1 204 No Content\r\nWarning: 299 - a\r\nWarning: 299 - b\r\n\r\n"
CLOSING = SIZED.replace(b"content-length", b"Connection: close\r\ncontent-length")
OLD = SIZED.replace(b"HTTP/1.1", b"HTTP/1.0")


@pytest.mark.parametrize(
    ("sent", "code", "body", "ends"),
    [
        pytest.param(SIZED, 201, b"{}", False, id="of a known length"),
        pytest.param(CHUNKED, 200, b"hello, x", False, id="in chunks"),
        pytest.param(TRAILED, 200, b"hello, x", False, id="in chunks, with headers behind"),
        pytest.param(INTERIM, 201, b"{}", False, id="after an interim one"),
        pytest.param(EMPTY, 204, b"", False, id="without a body"),
        pytest.param(CLOSING, 201, b"{}", True, id="the last of its connection"),
        pytest.param(OLD, 201, b"{}", True, id="of an old server"),
    ],
)
@given(cuts=st.lists(st.integers(0, 200), max_size=6))
def test_response_is_parsed_wherever_its_bytes_are_cut(
    sent: bytes, code: int, body: bytes, ends: bool, cuts: list[int]
) -> None:
    places = [0, *sorted(min(cut, len(sent)) for cut in cuts), len(sent)]
    reading = HttpResponseParser()
    responses = [reading.feed(sent[start:end]) for start, end in pairwise(places)]
    [answer] = [response for response in responses if response is not None]
    assert answer.is_ordinary is (sent in (SIZED, INTERIM))
    assert (answer.code, answer.body, answer.ends_connection) == (code, body, ends)
    assert not reading.has_begun


def test_headers_are_case_insensitive_and_repeated_values_are_joined() -> None:
    answer = HttpResponseParser().feed(EMPTY)
    assert answer is not None
    assert answer.headers["warning"] == "299 - a, 299 - b"


def test_without_a_length_the_connection_ends_the_answer() -> None:
    reading = HttpResponseParser()
    assert reading.end() is None
    assert reading.feed(b"HTTP/1.1 200 OK\r\n\r\nhel") is None
    assert reading.feed(b"lo") is None
    answer = reading.end()
    assert answer is not None
    assert (answer.body, answer.ends_connection) == (b"hello", True)


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", "begin like HTTP", id="another protocol"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "length is '-1'", id="a negative length"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "1, 2", id="two lengths"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "'gzip'", id="an unknown encoding"),
        pytest.param(CHUNKED.replace(b"5;x=y", b"five"), "how long", id="a chunk without a size"),
        pytest.param(CHUNKED.replace(b"hello\r\n", b"hello, you\r\n"), "longer than it says", id="too long a chunk"),
        pytest.param(b"x" * (LONGEST_HEAD + 1), "too long", id="a head without an end"),
    ],
)
def test_malformed_response_is_refused(sent: bytes, message: str) -> None:
    with pytest.raises(MalformedResponse, match=message):
        HttpResponseParser().feed(sent)


def test_malformed_gzip_body_is_refused() -> None:
    answer = HttpResponse(200, {"content-encoding": "gzip"}, gzip.compress(b"{}")[:-3])
    with pytest.raises(MalformedResponse, match="broken gzip"):
        decompressed_response(answer)


# --- connections ------------------------------------------------------------------------------------------------------

Reply = Callable[[asyncio.StreamWriter], None]


@asynccontextmanager
async def server(*replies: bytes | None) -> AsyncIterator[tuple[ConnectionPool, list[int]]]:
    """Connections to a server that gives these replies, one per request (None: it hangs up), and how many requests came
    over each connection."""
    counts: list[int] = []
    left = list(replies)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(counts)
        counts.append(0)
        while await reader.read(65536):
            counts[number] += 1
            reply = left.pop(0)
            if reply is None:
                break
            writer.write(reply)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        made = ConnectionPool(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", limit=2)
        yield made, counts
        made.close()


@pytest.mark.parametrize(
    ("first", "counts"),
    [
        pytest.param(SIZED, [2], id="kept"),
        pytest.param(CLOSING, [1, 1], id="not if the server ends it"),
        pytest.param(SIZED + b"HTTP/1.1 200", [1, 1], id="not if it says more than it was asked"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", [1, 1], id="not if it talks nonsense"),
        pytest.param(None, [1, 1], id="not if it hangs up"),
    ],
)
async def test_connection_is_reused_for_the_next_request(first: bytes | None, counts: list[int]) -> None:
    async with server(first, SIZED) as (made, seen):
        if first is None or b": x" in first:
            with pytest.raises(Broken):
                await made.exchange(b"?", None)
        else:
            assert (await made.exchange(b"?", None)).code == 201
        await asyncio.sleep(0.02)
        assert (await made.exchange(b"?", None)).body == b"{}"
    assert seen == counts


async def test_a_connection_that_was_idle_for_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_pool, "KEPT_SECONDS", 0.0)
    async with server(SIZED, SIZED) as (made, seen):
        for _ in range(2):
            await made.exchange(b"?", None)
            await asyncio.sleep(0.01)
    assert seen == [1, 1]


async def test_cancelled_request_closes_its_connection() -> None:
    async with server(b"HTTP/1.1 200", SIZED) as (made, seen):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await made.exchange(b"?", None)
        await made.exchange(b"?", None)
    assert seen == [1, 1]


async def test_connection_in_use_when_the_pool_closes_is_not_kept() -> None:
    async with server(SIZED, SIZED) as (made, seen):
        asked = asyncio.create_task(made.exchange(b"?", None))
        await asyncio.sleep(0)
        made.close()
        assert (await asked).code == 201
        await made.exchange(b"?", None)
    assert seen == [1, 1]


async def test_pool_limits_concurrent_requests() -> None:
    async with server(*[SIZED] * 10) as (made, seen):
        await asyncio.gather(*(made.exchange(b"?", None) for _ in range(10)))
    assert (len(seen), sum(seen)) == (2, 10)


async def test_connection_refused_is_not_sent() -> None:
    async with server() as (made, _):
        pass
    with pytest.raises(NotSent, match="Connection refused"):
        await made.exchange(b"?", None)
