"""Exec plugins: small scripts that print credentials."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from restow.adapters.kubernetes.credentials import Certificate, ConfigError, Identity
from restow.adapters.kubernetes.exec_plugin import ExecCommand, ExecCredentials
from restow.adapters.kubernetes.kubeconfig import load_kubeconfig
from restow.adapters.kubernetes.transport import TransportLimits
from restow.ports import Request, Resource, Unauthorized
from tests.kubernetes.server import connected, say
from tests.narrowing import present

V1 = "client.authentication.k8s.io/v1"
BETA = "client.authentication.k8s.io/v1beta1"
PODS = Resource("", "v1", "pods")
GET = Request(verb="get", resource=PODS, name="x", namespace="y")
CREATE = Request(verb="create", resource=PODS, namespace="y", body=b"{}")


COUNTING = f"""
count = open(sys.argv[0].removesuffix('plugin') + 'runs').read()
print(json.dumps({{'kind': 'ExecCredential', 'apiVersion': {V1!r}, 'status': {{'token': count}}}}))
"""

EXPIRING = f"""
count = open(sys.argv[0].removesuffix('plugin') + 'runs').read()
status = {{'token': count, 'expirationTimestamp': ['1970-01-01T00:10:00Z', '1970-01-01T01:00:00Z'][len(count) - 1]}}
print(json.dumps({{'kind': 'ExecCredential', 'apiVersion': {V1!r}, 'status': status}}))
"""
SLOWLY = "import time\ntime.sleep(0.6)"


def plugin(tmp_path: Path, body: str) -> str:
    """A script that counts its runs in `runs` and then does `body`; its path. It starts without any site, so soon."""
    path = tmp_path / "plugin"
    head = f"#!{sys.executable} -IS\nimport json, os, sys\nopen({str(tmp_path / 'runs')!r}, 'a').write('x')\n"
    path.write_text(head + body)
    path.chmod(0o755)
    return str(path)


def printing(status: dict[str, str], version: str = V1) -> str:
    return f"print({json.dumps(json.dumps({'kind': 'ExecCredential', 'apiVersion': version, 'status': status}))})"


def runs(tmp_path: Path) -> int:
    return len((tmp_path / "runs").read_text())


def credentials(tmp_path: Path, body: str, **options: Any) -> ExecCredentials:
    options = {"api_version": V1, "command": plugin(tmp_path, body), "interactive_mode": "Never"} | options
    return ExecCredentials(ExecCommand(directory=tmp_path, **options), env=os.environ)


async def test_exec_plugin_token_is_kept_until_it_expires(tmp_path: Path) -> None:
    status = {"token": "t", "expirationTimestamp": "1970-01-01T00:10:00Z"}
    source = credentials(tmp_path, printing(status))
    for now in (0, 539):
        assert await source.current(now) == Identity.bearer("t")
    assert runs(tmp_path) == 1
    await source.current(600)
    assert runs(tmp_path) == 2


async def test_next_token_is_fetched_before_the_current_token_expires(tmp_path: Path) -> None:
    source = credentials(tmp_path, SLOWLY + EXPIRING)
    first = await source.current(0)
    assert await source.current(540) == first
    assert (await source.current(600)).authorization == "Bearer xx"
    assert (await source.current(601), runs(tmp_path)) == (Identity.bearer("xx"), 2)


async def test_a_token_without_expiry_is_kept_until_refused(tmp_path: Path) -> None:
    source = credentials(tmp_path, printing({"token": "t"}))
    identity = await source.current(0)
    await source.current(10**9)
    assert runs(tmp_path) == 1
    assert await source.renew(identity, 0) is False
    assert runs(tmp_path) == 2


async def test_many_refused_requests_renew_once(tmp_path: Path) -> None:
    source = credentials(tmp_path, COUNTING)
    first = await source.current(0)
    assert await source.renew(first, 0) is True
    assert await source.renew(first, 0) is True
    assert runs(tmp_path) == 2


async def test_exec_plugin_client_certificate_is_used(tmp_path: Path) -> None:
    source = credentials(
        tmp_path, printing({"clientCertificateData": "C", "clientKeyData": "K"}, BETA), api_version=BETA
    )
    assert await source.current(0) == Identity(None, Certificate(b"C", b"K"))


async def test_exec_plugin_gets_arguments_environment_and_exec_info(tmp_path: Path) -> None:
    body = "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
    body += "token = json.dumps([info, sys.argv[1:], os.environ['REGION']])\n"
    body += (
        "print(json.dumps({'kind': 'ExecCredential', 'apiVersion': info['apiVersion'], 'status': {'token': token}}))"
    )
    source = credentials(
        tmp_path, body, args=("get", "token"), env={"REGION": "eu"}, cluster={"server": "https://x", "config": {"a": 1}}
    )
    token = present((await source.current(0)).authorization).removeprefix("Bearer ")
    info = {"server": "https://x", "config": {"a": 1}}
    spec = {"interactive": False, "cluster": info}
    assert json.loads(token) == [{"kind": "ExecCredential", "apiVersion": V1, "spec": spec}, ["get", "token"], "eu"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param("print('nonsense')", "not JSON", id="no JSON"),
        pytest.param("print('{}')", "kind", id="no ExecCredential"),
        pytest.param(printing({"token": "t"}, BETA), "printed apiVersion .*v1beta1, expected", id="another version"),
        pytest.param(printing({}), "neither a token nor a client certificate", id="nothing in it"),
        pytest.param(printing({"clientKeyData": "K"}), "without", id="a key alone"),
        pytest.param(printing({"token": "t", "expirationTimestamp": "soon"}), "soon", id="a strange expiry"),
        pytest.param("sys.exit('first\\nlog in again')", "exit code 1: log in again", id="a failure with a word"),
        pytest.param("sys.exit(3)", "exit code 3$", id="a failure without one"),
    ],
)
async def test_exec_plugin_mistakes_are_reported(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        await credentials(tmp_path, body, where="kubeconfig x: users[0].user.exec").current(0)


async def test_a_command_that_is_not_there_comes_with_its_hint(tmp_path: Path) -> None:
    source = credentials(tmp_path, "", command="no-such-plugin", install_hint="Install it\n")
    with pytest.raises(ConfigError, match=r"cannot run 'no-such-plugin': No such file or directory\. Install it$"):
        await source.current(0)


async def test_a_plugin_that_needs_a_terminal(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs a terminal"):
        await credentials(tmp_path, "", interactive_mode="Always").current(0)


async def test_a_command_relative_to_its_kubeconfig(tmp_path: Path) -> None:
    plugin(tmp_path, printing({"token": "t"}))
    config = f"""
        current-context: one
        contexts: [{{name: one, context: {{cluster: one, user: one}}}}]
        clusters: [{{name: one, cluster: {{server: "https://x"}}}}]
        users: [{{name: one, user: {{exec: {{apiVersion: {V1}, command: ./plugin, interactiveMode: Never}}}}}}]
    """
    (tmp_path / "config").write_text(config)
    loaded = load_kubeconfig(tmp_path / "config", env=os.environ)
    assert await loaded.credentials.current(0) == Identity.bearer("t")


async def test_the_cluster_is_described_to_plugins_that_ask(tmp_path: Path) -> None:
    body = "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
    body += "token = json.dumps(info['spec']['cluster'])\n"
    body += (
        "print(json.dumps({'kind': 'ExecCredential', 'apiVersion': info['apiVersion'], 'status': {'token': token}}))"
    )
    plugin(tmp_path, body)
    cluster = {
        "server": "https://x",
        "certificate-authority-data": "Q0E=",
        "tls-server-name": "inner",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}],
    }
    command = {"apiVersion": BETA, "command": "./plugin", "provideClusterInfo": True}
    config = {
        "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
        "clusters": [{"name": "one", "cluster": cluster}],
        "users": [{"name": "one", "user": {"exec": command}}],
    }
    (tmp_path / "config").write_text(json.dumps(config))
    loaded = load_kubeconfig(tmp_path / "config", env=os.environ)
    exec_info = json.loads(present((await loaded.credentials.current(0)).authorization).removeprefix("Bearer "))
    del cluster["extensions"]
    assert exec_info == cluster | {"config": {"audience": "a"}}


async def test_a_refused_token_runs_the_plugin_again(tmp_path: Path) -> None:
    def check(request: web.BaseRequest) -> web.Response:
        return web.Response(status=200 if request.headers["Authorization"] == "Bearer xx" else 401, text="{}")

    async with connected(check, credentials=credentials(tmp_path, COUNTING)) as (api, script):
        await api.call(GET)
        await api.call(GET)
    assert (len(script.requests), runs(tmp_path)) == (3, 2)


async def test_a_failing_plugin_is_a_refusal_with_its_words(tmp_path: Path) -> None:
    async with connected(lambda r: web.Response(), credentials=credentials(tmp_path, "sys.exit('log in')")) as (api, _):
        with pytest.raises(Unauthorized, match="log in"):
            await api.call(GET)


# ---- slow plugins


@pytest.mark.parametrize("refused", [(), ("Bearer x",)], ids=["at first", "after a refusal"])
async def test_a_log_in_may_take_longer_than_a_request(tmp_path: Path, refused: tuple[str, ...]) -> None:
    def check(request: web.BaseRequest) -> web.Response:
        return web.Response(status=401 if request.headers["Authorization"] in refused else 201, text="{}")

    slow = credentials(tmp_path, SLOWLY + COUNTING)
    async with connected(check, credentials=slow, limits=TransportLimits(request_timeout=0.4)) as (api, script):
        assert (await api.call(CREATE)).code == 201
    assert len(script.requests) == runs(tmp_path) == 1 + len(refused)


async def test_one_log_in_serves_all_requests_and_survives_their_cancellation(tmp_path: Path) -> None:
    source = credentials(tmp_path, SLOWLY + COUNTING)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await source.current(0)
    both = await asyncio.gather(source.current(1), source.current(2))
    assert (list(both), runs(tmp_path)) == ([Identity.bearer("x")] * 2, 1)


async def test_a_plugin_that_never_answers_is_named_and_nothing_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("restow.adapters.kubernetes.exec_plugin.TIMEOUT", 0.2)
    message = r"create pods y not sent: exec plugin: '.*/plugin' did not answer within 0\.2s"
    async with connected(say(), credentials=credentials(tmp_path, SLOWLY)) as (api, script):
        with pytest.raises(Unauthorized, match=message):
            await api.call(CREATE)
    assert script.requests == []


async def test_a_failed_log_in_is_tried_anew_by_the_next(tmp_path: Path) -> None:
    source = credentials(tmp_path, COUNTING + "sys.exit(len(count) < 2)")
    with pytest.raises(ConfigError):
        await source.current(0)
    assert await source.current(0) == Identity.bearer("xx")
