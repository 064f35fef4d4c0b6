"""A Kubernetes cluster in one process: an API server with our kinds, simulated kubelets and controllers, and Restow.

`embedded_cluster` has all of it; `empty_cluster` has no Restow, so that nothing schedules. `serve_cluster` serves
either over HTTP for kubectl.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import yaml
from prometheus_client import CollectorRegistry

from restow.adapters.clock import SystemClock
from restow.adapters.memory import MemoryApi, ServerSettings
from restow.adapters.rest.handler import VERSION
from restow.adapters.rest.kubeconfig import write_kubeconfig
from restow.adapters.rest.server import serve
from restow.client.verbs import Client
from restow.defaults import HOME
from restow.defaults import NAME as INSTALLED
from restow.model.crds import custom_resource_definitions
from restow.model.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, NODE, STORAGE_CLASS
from restow.model.objects import Node
from restow.model.volumes import DEFAULT_CLASS
from restow.running.component_runner import ComponentRunner, SharedDependencies, root_cause
from restow.running.components import COMPONENTS
from restow.running.configuration import Configuration
from restow.running.install_manifest import CONFIGURATION_KEY
from restow.running.preflight import ensure_namespace
from restow.sim.world import Settings, World, default_rules

Announce = Callable[[Path, str], None]
EMBEDDED_CONFIGURATION = Configuration(
    scheduler={"schedulerNames": ["restow", "volcano", "default-scheduler"]},
    migration={"objectLimiters": {"workload": {"duration": "0s"}}},
)
"""Restow schedules the pods of the usual schedulers, too; and a workload may be moved again without a pause, so that
the second move of a demonstration does not take five minutes."""
READY_SECONDS = 60.0
EVENT_SECONDS = 3600.0
PACE = Settings(start=0.3, stop=0.5, protect_volumes=True)
"""Pods become Ready within a second after binding, and are gone within a second after deletion."""


class EmbeddedCluster(msgspec.Struct, frozen=True):
    """A running embedded cluster, for callers in the same process."""

    api: MemoryApi
    client: Client


@asynccontextmanager
async def embedded_cluster(*, nodes: int, rng: random.Random) -> AsyncIterator[EmbeddedCluster]:
    """A cluster of Ready nodes in real time, in which all components of Restow run. Leaving the context stops it.

    Raises UnexpectedStop, out of the body, if a component or the simulation ends early."""
    async with empty_cluster(nodes=nodes, rng=rng) as cluster:
        await _install_configuration(cluster.client)
        shared = SharedDependencies(cluster.api, SystemClock(), random.Random(rng.getrandbits(64)), None)
        components = [make(CollectorRegistry(), HOME) for make in COMPONENTS.values()]
        runners = {each.name: ComponentRunner(each, shared, EMBEDDED_CONFIGURATION) for each in components}
        async with _background_tasks(**{f"component {name}": runner.run() for name, runner in runners.items()}):
            yield cluster


async def _install_configuration(client: Client) -> None:
    """Store the configuration in the ConfigMap in which commands look for it."""
    await ensure_namespace(client, HOME)
    text = yaml.safe_dump(msgspec.to_builtins(EMBEDDED_CONFIGURATION), sort_keys=False)
    document = {"metadata": {"name": INSTALLED, "namespace": HOME}, "data": {CONFIGURATION_KEY: text}}
    await client.create(CONFIG_MAP, document)


@asynccontextmanager
async def empty_cluster(*, nodes: int, rng: random.Random) -> AsyncIterator[EmbeddedCluster]:
    """A cluster of Ready nodes in real time, without Restow: pending pods stay pending."""
    clock = SystemClock()
    api = MemoryApi(clock, rng, ServerSettings(event_seconds=EVENT_SECONDS, protect_volumes=True))
    client = Client(api)
    for definition in custom_resource_definitions():
        await client.create(CUSTOM_RESOURCE_DEFINITION, definition)
    await client.create(STORAGE_CLASS, _storage_class())
    world = World(api, clock, random.Random(rng.getrandbits(64)), rules=default_rules(PACE), settings=PACE)
    async with _background_tasks(**{"the simulation": world.run()}):
        width = len(str(nodes))
        for number in range(1, nodes + 1):
            await client.create(NODE, _node(f"node-{number:0{width}d}"))
        async with asyncio.timeout(READY_SECONDS):
            await world.ready()
            await world.until(lambda view: sum(map(_is_ready, view.all(NODE))) == nodes)
        yield EmbeddedCluster(api, client)


class UnexpectedStop(RuntimeError):
    """Something that should run until the end has ended early: a component, the simulation, or the whole program."""


@asynccontextmanager
async def _background_tasks(**work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run tasks while the body of the context runs. If one of them ends first, the body is cancelled and UnexpectedStop
    is raised instead."""
    body = asyncio.current_task()
    assert body is not None
    ended: list[asyncio.Task[None]] = []

    def cancel_body(task: asyncio.Task[None]) -> None:
        ended.append(task)
        body.cancel()

    tasks = [asyncio.create_task(coroutine, name=name) for name, coroutine in work.items()]
    for task in tasks:
        task.add_done_callback(cancel_body)
    try:
        yield
    except asyncio.CancelledError:
        if not ended:
            raise  # the caller of the body was cancelled, which is not ours to hide
        body.uncancel()  # the cancellation was ours: it becomes an ordinary exception, which callers can catch
        error = None if ended[0].cancelled() else ended[0].exception()
        raise UnexpectedStop(f"{ended[0].get_name()} stopped: {root_cause(error)}") from error
    finally:
        for task in tasks:
            task.remove_done_callback(cancel_body)  # from here on, ending is expected
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def serve_cluster(cluster: EmbeddedCluster, port: int, announce: Announce) -> AsyncIterator[None]:
    """Serve a cluster over HTTP on loopback until the context ends. `announce` is called once it answers, with the path
    of its kubeconfig and its URL."""
    server = await serve(cluster.api, port=port)
    kubeconfig = write_kubeconfig(_kubeconfig_directory(server.port) / "kubeconfig", server.url)
    try:
        announce(kubeconfig, server.url)
        yield
    finally:
        kubeconfig.unlink(missing_ok=True)
        with suppress(OSError):  # the directory is not empty
            kubeconfig.parent.rmdir()
        await server.close()


def _kubeconfig_directory(port: int) -> Path:
    """The directory for the kubeconfig of the server on this port: one of its own, in a path without spaces, so that
    scripts can use the printed path unquoted."""
    home = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state")
    try:
        home = home.expanduser() / "restow"
        home.mkdir(parents=True, exist_ok=True)
        usable = " " not in str(home.absolute()) and os.access(home, os.W_OK)
    except (OSError, RuntimeError):  # RuntimeError: the user has no home directory, as in some containers
        usable = False
    return home / f"dev-{port}" if usable else Path(tempfile.mkdtemp(prefix=f"restow-dev-{port}-"))


def _storage_class() -> dict[str, Any]:
    """The default StorageClass, so that StatefulSets with volumes work without preparation."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "standard", "annotations": {DEFAULT_CLASS: "true"}},
        "provisioner": "sim.restow.sh/volumes",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _is_ready(node: Node) -> bool:
    return any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions or ())


def _node(name: str) -> dict[str, Any]:
    allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "capacity": allocatable,
            "allocatable": allocatable,
            "addresses": [{"type": "Hostname", "address": name}],
            "nodeInfo": {**dict.fromkeys(_EMPTY_NODE_INFO, ""), **_NODE_INFO},
        },
    }


_EMPTY_NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeProxyVersion",
)
_NODE_INFO = {"kubeletVersion": VERSION["gitVersion"], "operatingSystem": "linux", "architecture": "amd64"}
