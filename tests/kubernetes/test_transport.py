"""KubernetesApi against a server that answers from a script."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec
import pytest
from aiohttp import web

from restow.adapters.kubernetes import KubernetesApi
from restow.adapters.kubernetes.cluster_config import Impersonation
from restow.adapters.kubernetes.credentials import FileCredentials, Identity, StaticCredentials
from restow.adapters.kubernetes.transport import TransportLimits
from restow.ports import (
    MERGE_PATCH,
    ApiError,
    Invalid,
    NotFound,
    NotKubernetes,
    OutcomeUnknown,
    Request,
    Resource,
    TooManyRequests,
    Unauthorized,
    Verb,
)
from tests.kubernetes.server import StillClock, connected, hang_up, say

PODS = Resource("", "v1", "pods")
GET = Request(verb="get", resource=PODS, namespace="shop", name="web")
CREATE = Request(verb="create", resource=PODS, namespace="shop", body=b'{"kind":"Pod"}')
WATCH = Request(verb="watch", resource=PODS, query={"resourceVersion": "5"})
BUSY = say("slow down", 429, headers={"Retry-After": "0"}, content_type="text/plain")
QUEUES = Request(verb="list", resource=Resource("scheduling.volcano.sh", "v1beta1", "queues"))
MISSING = {"kind": "Status", "code": 404, "reason": "NotFound", "message": 'pods "web" not found'}
BUDGET = {"code": 429, "reason": "TooManyRequests", "details": {"causes": [{"reason": "DisruptionBudget"}]}}


async def test_call_is_a_single_http_request() -> None:
    warning = say('{"kind":"Pod"}', 201, headers={"Warning": '299 - "old"'})
    async with connected(warning, credentials=StaticCredentials(Identity.bearer("t"))) as (api, script):
        patch = Request(verb="patch", resource=PODS, name="a", content_type=MERGE_PATCH, body=b"{}")
        response = await api.call(patch)
    seen = script.requests[0]
    assert (response.code, response.body, response.warnings) == (201, b'{"kind":"Pod"}', ("old",))
    assert (seen.method, seen.headers["Content-Type"], seen.headers["Authorization"]) == (
        "PATCH",
        MERGE_PATCH,
        "Bearer t",
    )
    assert seen.headers["User-Agent"].startswith("restow")
    assert script.bodies == [b"{}"]


async def test_odd_characters_in_paths_and_queries_are_quoted() -> None:
    odd = "a/../b%2F ?#&=+;:@é\\"
    async with connected(say()) as (api, script):
        await api.call(Request(verb="list", resource=PODS, namespace=odd, query={"continue": odd, "x": "%41"}))
    seen = script.requests[0]
    path, _, query = seen.raw_path.partition("?")
    assert [unquote(part) for part in path.split("/")] == ["", "api", "v1", "namespaces", odd, "pods"]
    assert parse_qsl(query) == [("continue", odd), ("x", "%41")]


@pytest.mark.parametrize(("compress", "asked"), [(True, "gzip"), (False, "identity")], ids=["far away", "nearby"])
async def test_compression_is_asked_for_only_off_cluster(compress: bool, asked: str) -> None:
    packed = say(gzip.compress(b'{"a":1}'), headers={"Content-Encoding": "gzip"})
    async with connected(packed, compress=compress) as (api, script):
        response = await api.call(GET)
    assert (script.requests[0].headers["Accept-Encoding"], response.body) == (asked, b'{"a":1}')


STORIES = [
    pytest.param(GET, [hang_up, say()], None, 2, id="a read is tried again after a broken connection"),
    pytest.param(GET, [say("x", 503), say()], None, 2, id="and after a 503"),
    pytest.param(CREATE, [hang_up, say()], OutcomeUnknown, 1, id="a write is not: it may have taken effect"),
    pytest.param(CREATE, [say("x", 500), say()], OutcomeUnknown, 1, id="nor after a 500"),
    pytest.param(CREATE, [BUSY, BUSY, say()], None, 3, id="a 429 was not executed: even a write is tried again"),
    pytest.param(CREATE, [BUSY], TooManyRequests, 5, id="but not for ever"),
    pytest.param(CREATE, [say(json.dumps(BUDGET), 429)], TooManyRequests, 1, id="a budget's refusal is an answer"),
    pytest.param(GET, [say(json.dumps(MISSING), 404)], NotFound, 1, id="so is not found"),
    pytest.param(GET, [say("no", 404)], NotKubernetes, 1, id="which an API server says in a Status of pods"),
    pytest.param(QUEUES, [say("no", 404)], NotFound, 1, id="and in plain text of a group that it does not know"),
    pytest.param(CREATE, [say("no", 422)], Invalid, 1, id="so is invalid"),
    pytest.param(GET, [say("no", 401)], Unauthorized, 1, id="a 401 that cannot be helped"),
    pytest.param(
        GET, [say("", 302, headers={"Location": "https://login"})], ApiError, 1, id="a redirect to a login page"
    ),
    pytest.param(GET, [say("<html>Log in", content_type="text/html")], ApiError, 1, id="a login page with a 200"),
]


@pytest.mark.parametrize(("request_", "answers", "error", "tries"), STORIES)
async def test_failed_request_is_retried_when_safe(
    request_: Request, answers: list[Callable[..., Any]], error: type[ApiError] | None, tries: int
) -> None:
    async with connected(*answers) as (api, script):
        if error is None:
            await api.call(request_)
        else:
            with pytest.raises(error):
                await api.call(request_)
    assert len(script.requests) == tries


@pytest.mark.parametrize("request_", [GET, Request(verb="list", resource=PODS, query={"limit": "5"})])
async def test_server_without_kubernetes_api_is_reported_with_its_address(request_: Request) -> None:
    async with connected(say("<h1>Not Found</h1>", 404, content_type="text/html")) as (api, _):
        with pytest.raises(
            NotKubernetes, match=rf"^{api.config.server} is not a Kubernetes API .* /api/v1/[a-z/]+ is not"
        ):
            await api.call(request_)


@pytest.mark.parametrize("verb", ["create", "replace", "patch", "delete"])
async def test_no_write_is_sent_twice_over_a_kept_connection(verb: Verb) -> None:
    async with connected(say(), hang_up, say()) as (api, script):
        await api.call(GET)
        with pytest.raises(OutcomeUnknown, match="broken"):
            await api.call(Request(verb=verb, resource=PODS, namespace="shop", name="web", body=b"{}"))
    assert len(script.requests) == 2


async def test_a_long_retry_after_is_left_to_the_caller() -> None:
    async with connected(say("", 429, headers={"Retry-After": "60"})) as (api, script):
        with pytest.raises(TooManyRequests) as caught:
            await api.call(CREATE)
    assert (caught.value.retry_after, len(script.requests)) == (60, 1)


class Highest(Random):
    """Always draws the largest delay that is possible."""

    def uniform(self, a: float, b: float) -> float:
        return b


@pytest.mark.parametrize(
    ("answer", "delays"),
    [
        pytest.param(say("x", 503), [0.2, 0.4, 0.8, 1.6], id="ever longer while the server is broken"),
        pytest.param(say("", 429, headers={"Retry-After": "3"}), [3.2, 3.4, 3.8, 4.6], id="never sooner than asked"),
        pytest.param(say("", 429), [1.2, 1.4, 1.8, 2.6], id="asked for nothing in particular"),
    ],
)
async def test_tries_are_spread_out_by_chance(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[..., Any], delays: list[float]
) -> None:
    slept = []

    async def sleep(delay: float) -> None:
        slept.append(delay)

    async with connected(answer, rng=Highest()) as (api, _):
        monkeypatch.setattr("restow.adapters.kubernetes.transport.asyncio.sleep", sleep)
        with pytest.raises(ApiError):
            await api.call(GET)
        monkeypatch.undo()
    assert slept == pytest.approx(delays)


async def test_a_server_that_does_not_answer() -> None:
    async def sleep(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(1)
        return web.Response()

    async with connected(sleep, limits=TransportLimits(request_timeout=0.2)) as (api, _):
        with pytest.raises(OutcomeUnknown, match=r"get pods shop/web: no answer within 0\.2s"):
            await api.call(GET)


async def test_unreachable_server_is_reported_with_its_address() -> None:
    async with connected(say()) as (api, _):
        pass
    message = r"create pods shop: cannot connect to http://127\.0\.0\.1:\d+: Connection refused$"
    with pytest.raises(OutcomeUnknown, match=message):
        await api.call(CREATE)
    await api.close()


async def test_proxy_and_impersonation_headers_are_used() -> None:
    impersonation = Impersonation(user="jane", groups=("a", "b"))
    async with connected(say(), impersonation=impersonation) as (direct, script):
        config = msgspec.structs.replace(direct.config, server="http://cluster.invalid", proxy=direct.config.server)
        async with KubernetesApi(config, clock=StillClock()) as api:
            await api.call(GET)
    seen = script.requests[0]
    assert str(seen.url) == "http://cluster.invalid/api/v1/namespaces/shop/pods/web"
    assert (seen.headers["Impersonate-User"], seen.headers.getall("Impersonate-Group")) == ("jane", ["a", "b"])


async def test_a_401_renews_the_credentials_once(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    credentials = FileCredentials(token=token)

    def check(request: web.BaseRequest) -> web.Response:
        token.write_text("new")
        return web.Response(status=200 if request.headers["Authorization"] == "Bearer new" else 401, text="{}")

    async with connected(check, credentials=credentials) as (api, script):
        await api.call(CREATE)
        await api.call(GET)
    assert [r.headers["Authorization"] for r in script.requests] == ["Bearer old", "Bearer new", "Bearer new"]


async def test_rotated_tokens_are_noticed_within_a_minute(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    clock = StillClock()
    async with connected(say(), credentials=FileCredentials(token=token), clock=clock) as (api, script):
        await api.call(GET)
        token.write_text("two\n")
        await api.call(GET)
        clock.time += 61
        await api.call(GET)
    assert [r.headers["Authorization"] for r in script.requests] == ["Bearer one", "Bearer one", "Bearer two"]


def stream(*chunks: bytes, end: Any = None) -> Any:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(0.01)
        if end == "silence":
            await asyncio.sleep(2)
        elif end == "break":
            assert request.transport is not None
            request.transport.close()
        return response

    return answer


async def lines(api: Any, request: Request = WATCH) -> list[bytes]:
    return [line async for line in api.watch(request)]


async def test_watch_yields_lines_wherever_chunks_are_cut() -> None:
    async with connected(stream(b'{"a":', b'1}\n{"b"', b":2}\n\n")) as (api, script):
        assert await lines(api) == [b'{"a":1}', b'{"b":2}']
    assert script.requests[0].path_qs == "/api/v1/pods?resourceVersion=5&watch=true"


async def test_events_larger_than_any_buffer() -> None:
    big = b'{"x":"' + b"y" * (5 * 2**20) + b'"}'
    async with connected(stream(big + b"\n" + b"{}\n")) as (api, _):
        assert await lines(api) == [big, b"{}"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(stream(b"{}\n", end="break"), "stream broken", id="the connection breaks"),
        pytest.param(stream(b"{}\n", end="silence"), "silent for too long", id="the server falls silent"),
        pytest.param(stream(b"{}\n", b'{"tru'), "middle of an event", id="the last event is cut off"),
    ],
)
async def test_a_broken_watch_ends_with_an_error_event(answer: Callable[..., Any], message: str) -> None:
    async with connected(answer, limits=TransportLimits(watch_idle=0.3)) as (api, _):
        first, last = await lines(api)
    event = json.loads(last)
    assert (first, event["type"], event["object"]["code"]) == (b"{}", "ERROR", 503)
    assert message in event["object"]["message"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(say('{"code":410,"reason":"Expired"}', 410), ApiError, id="410"),
        pytest.param(BUSY, TooManyRequests, id="429"),
        pytest.param(hang_up, OutcomeUnknown, id="no answer"),
    ],
)
async def test_a_watch_that_does_not_start_raises(answer: Callable[..., Any], error: type[ApiError]) -> None:
    async with connected(answer) as (api, _):
        with pytest.raises(error):
            await lines(api)


async def test_watch_closed_early_closes_its_connection() -> None:
    gone = asyncio.Event()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"{}\n")
                await asyncio.sleep(0.01)
        finally:
            gone.set()

    async with connected(answer) as (api, _):
        watch = api.watch(WATCH)
        assert isinstance(watch, AsyncGenerator)
        assert await anext(watch) == b"{}"
        await watch.aclose()
        async with asyncio.timeout(5):
            await gone.wait()


async def test_calls_are_spread_out_when_asked() -> None:
    loop = asyncio.get_running_loop()
    async with connected(say(), limits=TransportLimits(rate=20, burst=1)) as (api, _):
        started = loop.time()
        await asyncio.gather(*(api.call(GET) for _ in range(5)))
        assert loop.time() - started >= 0.19
