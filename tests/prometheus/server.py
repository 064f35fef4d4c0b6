"""A little server that speaks Prometheus' HTTP API: it knows some expressions by heart."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from restow.planning.usage_samples import NodeUsageQueries, PodUsageQueries, PrometheusQueries

Line = tuple[Mapping[str, str], float, str]
"""Labels, a time and a value as it is written."""


class Scripted:
    def __init__(self, vectors: Mapping[str, list[Line]], *, token: str | None = None) -> None:
        self.vectors = vectors
        self.asked: list[str] = []
        self._token = token

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._token is not None and request.headers.get("Authorization") != f"Bearer {self._token}":
            return web.json_response({"status": "error"}, status=401)
        if (request.method, request.path) != ("GET", "/api/v1/query"):
            return web.Response(status=404)
        expression = request.query["query"]
        self.asked.append(expression)
        if expression not in self.vectors:
            refusal = {"status": "error", "errorType": "bad_data", "error": "parse error: unexpected character"}
            return web.json_response(refusal, status=400)
        lines = [{"metric": dict(labels), "value": [at, text]} for labels, at, text in self.vectors[expression]]
        return say({"resultType": "vector", "result": lines})


def say(data: Any) -> web.Response:
    return web.Response(text=json.dumps({"status": "success", "data": data}), content_type="application/json")


def cluster(
    nodes: Mapping[str, tuple[str, str]], pods: Mapping[str, tuple[str, str]], at: float, *, measured_at: float
) -> dict[str, list[Line]]:
    """The answers to the default queries: cores and bytes by name."""
    asked = PrometheusQueries()
    lines: dict[str, list[Line]] = {}
    by_kind: tuple[
        tuple[NodeUsageQueries | PodUsageQueries, Callable[[str], dict[str, str]], Mapping[str, tuple[str, str]]], ...
    ] = (
        (asked.nodes, lambda name: {"node": name}, nodes),
        (asked.pods, lambda name: {"namespace": "default", "pod": name}, pods),
    )
    for queries, names, amounts in by_kind:
        lines[queries.cpu] = [(names(name), at, cores) for name, (cores, _) in amounts.items()]
        lines[queries.memory] = [(names(name), at, size) for name, (_, size) in amounts.items()]
        lines[queries.time] = [(names(name), at, str(measured_at)) for name in amounts]
    return lines
