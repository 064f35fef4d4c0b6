"""TLS: the trusted authorities, the client certificate. The openssl command makes certificates for this run only."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from restow.adapters.kubernetes import ClusterConfig, KubernetesApi
from restow.adapters.kubernetes.credentials import Certificate, Identity, StaticCredentials
from restow.ports import ApiError, Request, Resource, Unauthorized
from tests.kubernetes.server import StillClock, serving

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="the openssl command is not installed")

GET = Request(verb="get", resource=Resource("", "v1", "nodes"), name="n1")


def openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def make_pair(folder: Path, name: str, authority: str | None, *extensions: str) -> Path:
    """A key and a certificate, signed by `authority` or by itself, in one PEM file."""
    key, request, certificate, both = (folder / f"{name}.{end}" for end in ("key", "csr", "crt", "pem"))
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
    openssl("req", "-new", "-key", key, "-out", request, "-subj", f"/O=system:masters/CN={name}")
    options = folder / f"{name}.cnf"
    options.write_text("\n".join(extensions))
    if authority is None:
        signer: list[str | Path] = ["-signkey", key]
    else:
        signer = ["-CA", folder / f"{authority}.crt", "-CAkey", folder / f"{authority}.key", "-CAcreateserial"]
    openssl("x509", "-req", "-in", request, *signer, "-days", "1", "-extfile", options, "-out", certificate)
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    return both


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make_pair(folder, "ca", None, "basicConstraints=critical,CA:TRUE")
    make_pair(folder, "server", "ca", "subjectAltName=IP:127.0.0.1,DNS:inner")
    make_pair(folder, "elsewhere", "ca", "subjectAltName=DNS:inner")
    for name in ("jane", "john"):
        make_pair(folder, name, "ca", "extendedKeyUsage=clientAuth")
    return folder


def certificate(folder: Path, name: str) -> Certificate:
    return Certificate((folder / f"{name}.crt").read_bytes(), (folder / f"{name}.key").read_bytes())


def server_context(folder: Path, name: str = "server", *, ask: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / f"{name}.pem")
    if ask:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(folder / "ca.crt")
    return context


async def peer_name(request: web.BaseRequest) -> web.Response:
    """Answers with the common name of the client's certificate."""
    assert request.transport is not None
    shown = request.transport.get_extra_info("peercert") or {}
    names = [value for part in shown.get("subject", ()) for key, value in part if key == "commonName"]
    return web.Response(text=names[0] if names else "unnamed")


async def ask(port: int, **options: Any) -> str:
    config = ClusterConfig(server=f"https://127.0.0.1:{port}", **({"credentials": StaticCredentials()} | options))
    async with KubernetesApi(config, clock=StillClock()) as api:
        return (await api.call(GET)).body.decode()


async def test_the_right_authority_is_trusted(folder: Path) -> None:
    async with serving(peer_name, server_context(folder)) as port:
        assert await ask(port, authority=(folder / "ca.crt").read_bytes()) == "unnamed"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        pytest.param("server", {}, "certificate verify failed", id="an unknown authority"),
        pytest.param("elsewhere", {"authority": "ca"}, "not valid for '127.0.0.1'", id="another server's certificate"),
        pytest.param("server", {"authority": "ca", "tls_server_name": "outer"}, "'outer'", id="not the name we expect"),
    ],
)
async def test_servers_that_are_not_trusted(
    folder: Path, name: str, options: dict[str, bytes | str], message: str
) -> None:
    if "authority" in options:
        options = options | {"authority": (folder / "ca.crt").read_bytes()}
    async with serving(peer_name, server_context(folder, name)) as port:
        with pytest.raises(ApiError, match=message):
            await ask(port, **options)


async def test_the_server_may_go_by_another_name(folder: Path) -> None:
    async with serving(peer_name, server_context(folder, "elsewhere")) as port:
        authority = (folder / "ca.crt").read_bytes()
        assert await ask(port, authority=authority, tls_server_name="inner") == "unnamed"


@asynccontextmanager
async def tunnel(target: int) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A proxy that answers CONNECT by joining the client to `target`; its port, and what it was asked for."""
    asked: list[bytes] = []

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(65536):
            writer.write(chunk)
        writer.close()

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).splitlines()[0])
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        there, back = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(copy(reader, back), copy(there, writer), return_exceptions=True)

    async with await asyncio.start_server(join, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], asked


async def test_through_a_proxy_the_server_is_still_verified(folder: Path) -> None:
    authority = (folder / "ca.crt").read_bytes()
    async with serving(peer_name, server_context(folder, "elsewhere")) as port, tunnel(port) as (proxy, asked):
        options = {"authority": authority, "proxy": f"http://127.0.0.1:{proxy}"}
        assert await ask(port, tls_server_name="inner", **options) == "unnamed"
        with pytest.raises(ApiError, match="certificate verify failed"):
            await ask(port, tls_server_name="outer", **options)
    assert asked == [f"CONNECT 127.0.0.1:{port} HTTP/1.1".encode()] * 2


async def test_insecure_skips_certificate_verification(folder: Path) -> None:
    async with serving(peer_name, server_context(folder)) as port:
        assert await ask(port, insecure=True) == "unnamed"


class Changing:
    """Credentials with another certificate at every call, like those of an exec plugin after expiry."""

    def __init__(self, *certificates: Certificate) -> None:
        self.certificates = list(certificates)

    async def current(self, now: float) -> Identity:
        return Identity(None, self.certificates.pop(0))

    async def renew(self, refused: Identity, now: float) -> bool:
        return False


async def test_client_certificate_is_sent_and_a_renewed_certificate_replaces_it(folder: Path) -> None:
    credentials = Changing(*(certificate(folder, name) for name in ("jane", "jane", "john")))
    async with serving(peer_name, server_context(folder, ask=True)) as port:
        config = ClusterConfig(
            server=f"https://127.0.0.1:{port}", authority=(folder / "ca.crt").read_bytes(), credentials=credentials
        )
        async with KubernetesApi(config, clock=StillClock()) as api:
            assert [(await api.call(GET)).body for _ in range(3)] == [b"jane", b"jane", b"john"]


@pytest.mark.parametrize("key", [pytest.param("john", id="another key"), pytest.param(None, id="no key at all")])
async def test_a_certificate_that_cannot_be_used(folder: Path, key: str | None) -> None:
    pair = Certificate(certificate(folder, "jane").certificate, certificate(folder, key).key if key else b"junk")
    async with serving(peer_name, server_context(folder)) as port:
        with pytest.raises(Unauthorized, match="client certificate or its key cannot be used"):
            await ask(port, credentials=StaticCredentials(Identity(None, pair)))
