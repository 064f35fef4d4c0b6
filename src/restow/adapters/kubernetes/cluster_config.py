"""How to reach one cluster, and with which credentials: kubeconfig and in-cluster loading produce it, the transport
consumes it."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from restow.adapters.kubernetes.credentials import ConfigError, Credentials
from restow.adapters.loopback import is_loopback

__all__ = ["ClusterConfig", "ConfigError", "Impersonation", "proxy_from_environment"]


class Impersonation(msgspec.Struct, frozen=True, kw_only=True):
    """The user to act as; the server checks that our own identity is allowed to."""

    user: str
    uid: str | None = None
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


class ClusterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`server` is the base URL, perhaps with a path; `authority` the PEM of its CAs (None: the system's)."""

    server: str
    credentials: Credentials
    authority: bytes | None = None
    tls_server_name: str | None = None
    insecure: bool = False
    proxy: str | None = None
    impersonation: Impersonation | None = None
    namespace: str = "default"
    compress: bool = False


def proxy_from_environment(server: str, env: Mapping[str, str]) -> str | None:
    """The proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY ask for; never one for loopback."""
    parts = urlsplit(server)
    host = parts.hostname or ""
    proxy = env.get(f"{parts.scheme}_proxy") or env.get(f"{parts.scheme}_proxy".upper())
    exceptions = env.get("no_proxy") or env.get("NO_PROXY") or ""
    if (
        not proxy
        or is_loopback(host)
        or any(_matches_no_proxy(item.strip(), host, parts.port) for item in exceptions.split(","))
    ):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _matches_no_proxy(rule: str, host: str, port: int | None) -> bool:
    """Whether one entry of NO_PROXY covers a host: "*", a domain and what is below it, an address or a network."""
    if rule == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(rule, strict=False)
    except ValueError:
        pass
    domain, _, wanted = rule.partition(":")
    if not domain or (wanted and wanted != str(port)):
        return False
    domain = domain.lstrip("*").lower()
    return host == domain.lstrip(".") or host.endswith(f".{domain.lstrip('.')}")
