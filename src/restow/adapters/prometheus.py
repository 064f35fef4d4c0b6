"""A Prometheus over HTTP, or a server with the same API: Thanos, Mimir, VictoriaMetrics.

In: its address and our credentials, then expressions. Out: vectors. Files (token, certificate authority) are read for
every query, because other programs rotate them; redirects are not followed, because they would carry the token along.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import msgspec

from restow.planning.descheduling.metrics_providers import PrometheusProvider
from restow.planning.usage_samples import PrometheusSample
from restow.ports import PrometheusUnavailable

PATH = "/api/v1/query"


class _Line(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(msgspec.Struct):
    result_type: str = msgspec.field(name="resultType")
    result: msgspec.Raw


class _Answer(msgspec.Struct):
    status: str
    data: _Data | None = None
    error: str = ""


class PrometheusServer:
    def __init__(self, provider: PrometheusProvider) -> None:
        self._provider = provider
        self._answers = msgspec.json.Decoder(_Answer)
        self._lines = msgspec.json.Decoder(list[_Line])

    async def query(self, expression: str) -> list[PrometheusSample]:
        """The vector that an expression evaluates to now. Raises PrometheusUnavailable."""
        body = await self._get(expression)
        try:
            answer = self._answers.decode(body)
            if answer.status != "success" or answer.data is None:
                raise PrometheusUnavailable(f"Prometheus refuses {expression!r}: {answer.error or answer.status}")
            if answer.data.result_type != "vector":
                raise PrometheusUnavailable(
                    f"Prometheus answers {expression!r} with a {answer.data.result_type}, not a vector"
                )
            lines = self._lines.decode(answer.data.result)
            return [PrometheusSample(line.metric, line.value[0], float(line.value[1])) for line in lines]
        except (msgspec.DecodeError, ValueError) as error:
            raise PrometheusUnavailable(
                f"Prometheus at {self._provider.url} returned an unreadable response: {error}"
            ) from None

    async def _get(self, expression: str) -> bytes:
        provider = self._provider
        try:
            timeout = aiohttp.ClientTimeout(total=provider.timeout)
            async with (
                aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session,
                session.get(
                    provider.url + PATH,
                    params={"query": expression},
                    headers=self._headers(),
                    ssl=self._tls(),
                    server_hostname=provider.server_name,
                    allow_redirects=False,
                ) as response,
            ):
                body = await response.read()
        except TimeoutError:
            raise PrometheusUnavailable(
                f"Prometheus at {provider.url} did not answer within {provider.timeout:g}s"
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise PrometheusUnavailable(f"Prometheus at {provider.url} cannot be queried: {error}") from None
        # An expression that makes no sense is refused with 400 or 422, and the reason is in the body.
        if response.status not in (200, 400, 422):
            raise PrometheusUnavailable(f"Prometheus at {provider.url} answers {response.status} {response.reason}")
        return body

    def _headers(self) -> Mapping[str, str]:
        if self._provider.token_file is None:
            return {}
        token = Path(self._provider.token_file).read_text(encoding="utf-8").strip()
        return {"Authorization": f"Bearer {token}"}

    def _tls(self) -> ssl.SSLContext | bool:
        provider = self._provider
        if not provider.url.startswith("https:"):
            return True
        if provider.skip_tls_verify:
            return False
        context = ssl.create_default_context(cafile=provider.ca_file)
        # Clusters use private CAs whose certificates often lack extensions that strict verification asks for.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return context
