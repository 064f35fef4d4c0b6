"""A cluster entry of a kubeconfig: the URL of its server, the trusted authority, and the proxy."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import SplitResult, urlsplit

from restow.adapters.kubernetes.kubeconfig_file import Cluster, Entry

EXEC_EXTENSION = "client.authentication.k8s.io/exec"


def server_of(cluster: Entry[Cluster]) -> str:
    text = cluster.value.server.rstrip("/")
    if text and "://" not in text:
        has_tls = cluster.value.certificate_authority or cluster.value.certificate_authority_data
        text = f"{'https' if has_tls or cluster.value.insecure_skip_tls_verify else 'http'}://{text}"
    parts = _parse_http_url(text)
    if parts is None or parts.query or parts.fragment or text.split() != [text]:
        raise cluster.error("server", f"expected a URL such as https://10.0.0.1:6443, got {cluster.value.server!r}")
    return text


def authority_of(cluster: Entry[Cluster]) -> bytes | None:
    value = cluster.value
    authority = None
    if value.certificate_authority_data:
        authority = cluster.unpack("certificate-authority-data", value.certificate_authority_data)
    elif value.certificate_authority:
        authority = cluster.read("certificate-authority", value.certificate_authority)
    if authority is not None and value.insecure_skip_tls_verify:
        raise cluster.error("insecure-skip-tls-verify", "cannot be true when a certificate authority is given")
    return authority


def proxy_of(cluster: Entry[Cluster]) -> str | None:
    proxy = cluster.value.proxy_url
    if not proxy:
        return None
    if _parse_http_url(proxy) is None:
        raise cluster.error("proxy-url", f"expected http:// or https://, got {proxy!r} (SOCKS is not supported)")
    return proxy


def cluster_info(cluster: Entry[Cluster], authority: bytes | None) -> dict[str, Any]:
    value = cluster.value
    info: dict[str, Any] = {"server": server_of(cluster)}
    optional = {
        "tls-server-name": value.tls_server_name,
        "insecure-skip-tls-verify": value.insecure_skip_tls_verify or None,
        "certificate-authority-data": base64.b64encode(authority).decode() if authority else None,
        "proxy-url": value.proxy_url,
        "config": next((item.extension for item in value.extensions or () if item.name == EXEC_EXTENSION), None),
    }
    return info | {key: item for key, item in optional.items() if item is not None}


def _parse_http_url(text: str) -> SplitResult | None:
    """A URL that HTTP may be spoken to, in parts; None if it is none."""
    try:
        parts = urlsplit(text)
        return parts if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 else None
    except ValueError:
        return None
