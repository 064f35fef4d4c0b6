"""PrometheusServer, against a server on loopback: what is asked, what is read, and what goes wrong in one line."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from restow.adapters.prometheus import PrometheusServer
from restow.planning.descheduling.metrics_providers import PrometheusProvider
from restow.planning.usage_samples import PrometheusSample
from restow.ports import PrometheusUnavailable
from tests.kubernetes.server import serving
from tests.kubernetes.test_tls import make_pair, server_context
from tests.prometheus.server import Line, Scripted, say

ANSWER: dict[str, list[Line]] = {"up": [({"node": "a"}, 10.5, "0.25"), ({"node": "b"}, 10.5, "NaN")]}


async def asked(port: int, expression: str = "up", scheme: str = "http", **fields: Any) -> list[PrometheusSample]:
    return await PrometheusServer(PrometheusProvider(url=f"{scheme}://127.0.0.1:{port}", **fields)).query(expression)


async def test_vector_result_is_read() -> None:
    async with serving(Scripted(ANSWER)) as port:
        first, second = await asked(port)
    assert first == PrometheusSample({"node": "a"}, 10.5, 0.25)
    assert second.value != second.value


async def test_the_token_is_read_from_its_file_every_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    async with serving(Scripted(ANSWER, token="new")) as port:
        server = PrometheusServer(PrometheusProvider(url=f"http://127.0.0.1:{port}", token_file=str(file)))
        file.write_text("old\n")
        with pytest.raises(PrometheusUnavailable, match="answers 401 Unauthorized"):
            await server.query("up")
        file.write_text("new\n")
        assert len(await server.query("up")) == 2


async def away(request: web.BaseRequest) -> web.StreamResponse:
    raise web.HTTPFound("http://127.0.0.1:1/elsewhere")


async def silence(request: web.BaseRequest) -> web.StreamResponse:
    await asyncio.sleep(60)
    return web.Response()


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        pytest.param(Scripted({}), "refuses 'up': parse error", id="an expression that makes no sense"),
        pytest.param(lambda _: _done(web.Response(text="<html>")), "returned an unreadable response", id="no JSON"),
        pytest.param(lambda _: _done(say({"resultType": "scalar", "result": []})), "with a scalar", id="a scalar"),
        pytest.param(
            lambda _: _done(say({"resultType": "vector", "result": [{"metric": {}, "value": [1, "many"]}]})),
            "returned an unreadable response",
            id="a value that is no number",
        ),
        pytest.param(lambda _: _done(web.Response(status=503)), "answers 503", id="out of service"),
        pytest.param(away, "answers 302", id="somewhere else, where the token does not go"),
        pytest.param(silence, "did not answer within 0.2s", id="silence"),
    ],
)
async def test_query_failure_is_reported_in_one_line(handler: Any, message: str) -> None:
    async with serving(handler) as port:
        with pytest.raises(PrometheusUnavailable, match=message) as error:
            await asked(port, timeout=0.2 if handler is silence else 10.0)
    assert "\n" not in str(error.value)


async def _done(response: web.Response) -> web.StreamResponse:
    return response


async def test_unreachable_prometheus_is_reported() -> None:
    async with serving(Scripted({})) as port:
        pass
    with pytest.raises(PrometheusUnavailable, match=f"Prometheus at http://127.0.0.1:{port} cannot be queried: "):
        await asked(port)


async def test_missing_token_file_is_reported(tmp_path: Path) -> None:
    async with serving(Scripted(ANSWER)) as port:
        with pytest.raises(PrometheusUnavailable, match=r"cannot be queried: .*No such file"):
            await asked(port, token_file=str(tmp_path / "none"))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the openssl command is not installed")
async def test_prometheus_over_tls_is_verified(tmp_path: Path) -> None:
    make_pair(tmp_path, "ca", None, "basicConstraints=critical,CA:TRUE")
    make_pair(tmp_path, "inner", "ca", "subjectAltName=DNS:inner")
    authority = str(tmp_path / "ca.crt")
    async with serving(Scripted(ANSWER), server_context(tmp_path, "inner")) as port:
        for refused in ({}, {"ca_file": authority}):
            with pytest.raises(PrometheusUnavailable, match="certificate"):
                await asked(port, scheme="https", **refused)
        for accepted in ({"ca_file": authority, "server_name": "inner"}, {"skip_tls_verify": True}):
            assert len(await asked(port, scheme="https", **accepted)) == 2
