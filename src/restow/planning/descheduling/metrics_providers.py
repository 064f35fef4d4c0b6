"""Where usage is read from: `metricsProviders` of the `descheduler` section, in the shape of descheduler/v1alpha2.

    metricsProviders:
    - source: Prometheus
      prometheus:
        url: https://prometheus.monitoring.svc:9090
        authToken: {file: /var/run/secrets/prometheus/token}
        tls: {caFile: /etc/prometheus/ca.crt, serverName: prometheus, insecureSkipVerify: false}
        timeout: 10s

metrics.k8s.io need not be listed. A token is read from a file, again for every query. It cannot be read from a Secret:
nothing else here needs the right to read Secrets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from restow.model.objects import Duration
from restow.model.problems import Problem
from restow.model.times import parse_duration
from restow.planning.arguments import KUBERNETES_METRICS, PROMETHEUS, SOURCES

METRICS_PROVIDERS_FIELD: Final = "metricsProviders"


class _Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    file: str | None = None
    secret_reference: dict[str, Any] | None = None


class _Tls(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    ca_file: str | None = None
    server_name: str | None = None
    insecure_skip_verify: bool = False


class _Prometheus(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    url: str = ""
    auth_token: _Token | None = None
    tls: _Tls = _Tls()
    timeout: Duration = "10s"


class MetricsProviderSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    source: str
    prometheus: _Prometheus | None = None


class PrometheusProvider(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a Prometheus, and how to authenticate."""

    url: str
    token_file: str | None = None
    ca_file: str | None = None
    server_name: str | None = None
    skip_tls_verify: bool = False
    """Accept any certificate."""
    timeout: float = 10.0
    """Seconds for one query."""


def read_metrics_providers(
    providers: Sequence[MetricsProviderSection], problems: list[Problem]
) -> PrometheusProvider | None:
    """The Prometheus that is listed, if there is one. What is wrong is added to `problems`."""
    prometheus: PrometheusProvider | None = None
    for number, provider in enumerate(providers):
        path = f"{METRICS_PROVIDERS_FIELD}[{number}]"
        if provider.source in [earlier.source for earlier in providers[:number]]:
            problems.append(Problem(f"{path}.source", f"{provider.source} is listed twice"))
        elif provider.source not in SOURCES:
            problems.append(Problem(f"{path}.source", f"expected one of {', '.join(SOURCES)}, got {provider.source!r}"))
        elif provider.source == KUBERNETES_METRICS and provider.prometheus is not None:
            problems.append(Problem(f"{path}.prometheus", f"belongs to the source {PROMETHEUS}"))
        elif provider.source == PROMETHEUS:
            written = provider.prometheus or _Prometheus()
            problems += _prometheus_problems(written, f"{path}.prometheus")
            prometheus = _prometheus_provider(written)
    return prometheus


def _prometheus_problems(written: _Prometheus, path: str) -> Iterator[Problem]:
    try:
        address = urlsplit(written.url)
        is_address = address.scheme in ("http", "https") and bool(address.hostname) and not address.query
        _ = address.port
    except ValueError:
        is_address = False
    if not is_address:
        yield Problem(f"{path}.url", f"expected http:// or https:// and a host, got {written.url!r}")
    token = written.auth_token
    if token is not None and token.secret_reference is not None:
        advice = "Secrets are not read here: mount the Secret, and name the file under authToken.file"
        yield Problem(f"{path}.authToken.secretReference", advice)
    elif token is not None and not token.file:
        yield Problem(f"{path}.authToken.file", "must name a file")
    if parse_duration(written.timeout) <= 0:
        yield Problem(f"{path}.timeout", f"must be above 0, is {written.timeout}")
    if written.tls.insecure_skip_verify and written.tls.ca_file:
        yield Problem(f"{path}.tls.caFile", "has no effect together with insecureSkipVerify")


def _prometheus_provider(written: _Prometheus) -> PrometheusProvider:
    return PrometheusProvider(
        url=written.url.rstrip("/"),
        token_file=written.auth_token.file if written.auth_token else None,
        ca_file=written.tls.ca_file,
        server_name=written.tls.server_name,
        skip_tls_verify=written.tls.insecure_skip_verify,
        timeout=float(parse_duration(written.timeout)),
    )
