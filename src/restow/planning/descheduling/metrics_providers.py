"""Who measures: `metricsProviders` of the `descheduler` section, in the shape of descheduler/v1alpha2.

    metricsProviders:
    - source: Prometheus
      prometheus:
        url: https://prometheus.monitoring.svc:9090
        authToken: {file: /var/run/secrets/prometheus/token}
        tls: {caFile: /etc/prometheus/ca.crt, serverName: prometheus, insecureSkipVerify: false}
        timeout: 10s

metrics.k8s.io is there without being named. A token is read from a file, which is read anew every time: reading Secrets
is a right that nothing else here needs.
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

FIELD: Final = "metricsProviders"


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


class WrittenProvider(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    source: str
    prometheus: _Prometheus | None = None


class PrometheusProvider(msgspec.Struct, frozen=True, kw_only=True):
    """Where a Prometheus is, and who we are to it."""

    url: str
    token_file: str | None = None
    ca_file: str | None = None
    server_name: str | None = None
    insecure: bool = False
    """Believe whoever answers."""
    timeout: float = 10.0
    """Seconds for one question."""


def read_providers(written: Sequence[WrittenProvider], problems: list[Problem]) -> PrometheusProvider | None:
    """The Prometheus that is named, if one is; what is wrong is added to the problems."""
    found: PrometheusProvider | None = None
    for number, one in enumerate(written):
        path = f"{FIELD}[{number}]"
        if one.source in [each.source for each in written[:number]]:
            problems.append(Problem(f"{path}.source", f"{one.source} is there already"))
        elif one.source not in SOURCES:
            problems.append(Problem(f"{path}.source", f"expected one of {', '.join(SOURCES)}, got {one.source!r}"))
        elif one.source == KUBERNETES_METRICS and one.prometheus is not None:
            problems.append(Problem(f"{path}.prometheus", f"belongs to the source {PROMETHEUS}"))
        elif one.source == PROMETHEUS:
            asked = one.prometheus or _Prometheus()
            problems += _problems(asked, f"{path}.prometheus")
            found = _provider(asked)
    return found


def _problems(written: _Prometheus, path: str) -> Iterator[Problem]:
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
        told = "Secrets are not read here: mount it, and name the file under authToken.file"
        yield Problem(f"{path}.authToken.secretReference", told)
    elif token is not None and not token.file:
        yield Problem(f"{path}.authToken.file", "must name a file")
    if parse_duration(written.timeout) <= 0:
        yield Problem(f"{path}.timeout", f"must be above 0, is {written.timeout}")
    if written.tls.insecure_skip_verify and written.tls.ca_file:
        yield Problem(f"{path}.tls.caFile", "is without effect beside insecureSkipVerify")


def _provider(written: _Prometheus) -> PrometheusProvider:
    return PrometheusProvider(
        url=written.url.rstrip("/"),
        token_file=written.auth_token.file if written.auth_token else None,
        ca_file=written.tls.ca_file,
        server_name=written.tls.server_name,
        insecure=written.tls.insecure_skip_verify,
        timeout=float(parse_duration(written.timeout)),
    )
