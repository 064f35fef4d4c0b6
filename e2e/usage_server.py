"""A server of usage metrics on loopback: it knows the usage of pods, and serves it through two APIs.

As metrics.k8s.io it is an API server of its own that the control plane passes requests on to, as metrics-server is; as
Prometheus it answers the queries that Restow asks unless it is told other ones.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from e2e.controlplane import ControlPlane
from restow.model.kinds import NODE_METRICS, POD_METRICS, Kind
from restow.model.objects import Pod
from restow.model.times import format_time
from restow.planning.usage_samples import PrometheusQueries

GROUP, VERSION = NODE_METRICS.group, NODE_METRICS.version
API = f"/apis/{NODE_METRICS.api_version}"
SERVICE, API_SERVICE = "e2e-meters", f"{VERSION}.{GROUP}"


class UsageServer:
    """Pods use as many cores as their app does, nodes what their pods use. Pods of other apps are not measured."""

    def __init__(self, pods: Callable[[], Iterable[Pod]], nodes: Iterable[str], cores: Mapping[str, float]) -> None:
        self.age = 0.0
        """Of what is told, in seconds."""
        self._pods = pods
        self.nodes = sorted(nodes)
        """Those that are measured."""
        self._cores = cores
        self._vectors = PrometheusQueries()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        at = time.time() - self.age
        match request.path.removeprefix(API):
            case "":
                return web.json_response(_discovery())
            case "/nodes":
                return web.json_response(_metrics(NODE_METRICS, self._of_nodes(at)))
            case "/pods":
                return web.json_response(_metrics(POD_METRICS, self._of_pods(at)))
            case "/api/v1/query":
                lines = self._lines(request.query["query"], at)
                data = {"resultType": "vector", "result": [_line(*line) for line in lines]}
                return web.json_response({"status": "success", "data": data})
        return web.json_response({"kind": "Status", "status": "Failure", "code": 404}, status=404)

    def _measured(self) -> list[Pod]:
        return [pod for pod in self._pods() if pod.spec.node_name and _app(pod) in self._cores]

    def _used(self, node: str) -> float:
        return sum(self._cores[_app(pod)] for pod in self._measured() if pod.spec.node_name == node)

    def _of_nodes(self, at: float) -> Iterable[dict[str, Any]]:
        for name in self.nodes:
            yield {"metadata": {"name": name}, **_sample(at), "usage": _usage(self._used(name))}

    def _of_pods(self, at: float) -> Iterable[dict[str, Any]]:
        for pod in self._measured():
            meta = {"name": pod.metadata.name, "namespace": pod.metadata.namespace}
            containers = [{"name": "main", "usage": _usage(self._cores[_app(pod)])}]
            yield {"metadata": meta, **_sample(at), "containers": containers}

    def _lines(self, query: str, at: float) -> Iterable[tuple[dict[str, str], float]]:
        """What Prometheus says: it answers as of now, also about what was measured long ago."""
        asked = self._vectors
        for name in self.nodes:
            amounts = {asked.nodes.cpu: self._used(name), asked.nodes.memory: 1e9, asked.nodes.time: at}
            if query in amounts:
                yield {"node": name}, amounts[query]
        for pod in self._measured():
            amounts = {asked.pods.cpu: self._cores[_app(pod)], asked.pods.memory: 1e6, asked.pods.time: at}
            if query in amounts:
                yield {"namespace": pod.metadata.namespace or "", "pod": pod.metadata.name}, amounts[query]


def _app(pod: Pod) -> str:
    return (pod.metadata.labels or {}).get("app", "")


def _usage(cores: float) -> dict[str, str]:
    return {"cpu": f"{round(cores * 1000)}m", "memory": "1Gi"}


def _sample(at: float) -> dict[str, str]:
    return {"timestamp": format_time(at), "window": "15s"}


def _line(labels: dict[str, str], value: float) -> dict[str, Any]:
    return {"metric": labels, "value": [time.time(), repr(value)]}


def _metrics(kind: Kind[Any], items: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": f"{kind.kind}List", "metadata": {}, "items": list(items)}


def _discovery() -> dict[str, Any]:
    resources = [
        {
            "name": kind.plural,
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": ["get", "list"],
        }
        for kind in (NODE_METRICS, POD_METRICS)
    ]
    group_version = NODE_METRICS.api_version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}


@asynccontextmanager
async def prometheus(meters: UsageServer) -> AsyncIterator[str]:
    """The address at which they are a Prometheus."""
    async with _serving(meters, None) as port:
        yield f"http://127.0.0.1:{port}"


@asynccontextmanager
async def metrics_api(meters: UsageServer, plane: ControlPlane) -> AsyncIterator[None]:
    """They are the metrics.k8s.io of a control plane. One that is left behind would keep namespaces from going."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificates = plane.directory / "certificates"
    context.load_cert_chain(certificates / "apiserver.crt", certificates / "apiserver.key")
    async with _serving(meters, context) as port:
        try:
            await _kubectl(plane, "apply", "-f", "-", given=json.dumps(_passed_on(port)))
            await _kubectl(plane, "wait", "--for=condition=Available", f"apiservice/{API_SERVICE}", "--timeout=60s")
            yield
        finally:
            await _kubectl(plane, "delete", f"apiservice/{API_SERVICE}", "--ignore-not-found")
            await _kubectl(plane, "delete", "service", SERVICE, "-n", "default", "--ignore-not-found")


def _passed_on(port: int) -> dict[str, Any]:
    """The documents by which an API server passes requests on to a port of this machine."""
    where = {"name": SERVICE, "namespace": "default"}
    service = {"type": "ExternalName", "externalName": "localhost"}
    spec = {
        "group": GROUP,
        "version": VERSION,
        "service": {**where, "port": port},
        "insecureSkipTLSVerify": True,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
    }
    api_service = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": API_SERVICE}}
    items = [{"apiVersion": "v1", "kind": "Service", "metadata": where, "spec": service}, {**api_service, "spec": spec}]
    return {"apiVersion": "v1", "kind": "List", "items": items}


async def _kubectl(plane: ControlPlane, *arguments: str, given: str | None = None) -> None:
    command = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig), *arguments]
    await asyncio.to_thread(subprocess.run, command, input=given, capture_output=True, text=True, check=True)


@asynccontextmanager
async def _serving(meters: UsageServer, context: ssl.SSLContext | None) -> AsyncIterator[int]:
    runner = web.ServerRunner(web.Server(meters.answer), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
