"""The only place that wires things together: which API server, which clock, which world.

`embedded_cluster` is the whole embedded system in one process, `serve_embedded` puts it behind HTTP for kubectl;
`run_against` runs our components against somebody's cluster, `ask` puts a question to it, and with a `bearing` there
`deschedule` and `carry_out` act on it once.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml
from prometheus_client import CollectorRegistry

from restow.adapters.clock import SystemClock
from restow.adapters.kubernetes import ConfigError, KubernetesApi, find_config, in_cluster
from restow.adapters.kubernetes.in_cluster import is_in_cluster
from restow.adapters.memory import MemoryApi
from restow.adapters.prometheus import PrometheusServer
from restow.adapters.rest.handler import VERSION
from restow.adapters.rest.kubeconfig import write_kubeconfig
from restow.adapters.rest.server import serve
from restow.client.verbs import Client
from restow.configuration import Configuration, read_configuration
from restow.control.descheduler import Applying, Descheduler, Progress, Run, usage
from restow.control.descheduler import Settings as DeschedulerSettings
from restow.defaults import HOME
from restow.defaults import NAME as INSTALLED
from restow.installing import CONFIGURATION_KEY, Found, look
from restow.migration.stop import STOP_NAME, stopped
from restow.model.crds import custom_resource_definitions
from restow.model.inventory import Inventory
from restow.model.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, NODE, POD_MIGRATION_JOB, STORAGE_CLASS
from restow.model.objects import ConfigMap, Node
from restow.parts import PARTS, in_a_thread
from restow.planning.descheduling.providers import Provider
from restow.planning.measured import Measured, Queries
from restow.planning.plan import Plan
from restow.ports import Api, ApiError, Clock, Forbidden, NotFound
from restow.posts import Post, Station, cause
from restow.running import Options, Process, find_namespace, lease_timing
from restow.sim.world import Settings, World, default_rules

T = TypeVar("T")

EMBEDDED = Configuration(
    scheduler={"schedulerNames": ["restow", "volcano", "default-scheduler"]},
    migration={"objectLimiters": {"workload": {"duration": "0s"}}},
)
"""Everybody's pods are ours, and nobody waits minutes to see a second move."""
NODES = 3
READY_SECONDS = 60.0
EVENT_SECONDS = 3600.0
PACE = Settings(start=0.3, stop=0.5)
"""Pods are Ready within a second of being bound, and gone within a second of being deleted."""


class EmbeddedCluster(msgspec.Struct, frozen=True):
    """A running embedded cluster, seen from inside the process."""

    api: MemoryApi
    client: Client


@asynccontextmanager
async def embedded_cluster(*, nodes: int, rng: random.Random) -> AsyncIterator[EmbeddedCluster]:
    """An API server with our kinds, a world of kubelets and controllers in real time, Ready nodes, and Restow in it."""
    async with empty_cluster(nodes=nodes, rng=rng) as cluster:
        await _leave_configuration(cluster.client)
        own = Station(cluster.api, SystemClock(), random.Random(rng.getrandbits(64)), None)
        parts = [make(CollectorRegistry(), HOME) for make in PARTS.values()]
        posts = {part.name: Post(part, own, EMBEDDED) for part in parts}
        async with _beside(**{name: post.hold() for name, post in posts.items()}):
            yield cluster


async def _leave_configuration(client: Client) -> None:
    """Put the configuration where commands look for it."""
    await find_namespace(client, HOME)
    text = yaml.safe_dump(msgspec.to_builtins(EMBEDDED), sort_keys=False)
    document = {"metadata": {"name": INSTALLED, "namespace": HOME}, "data": {CONFIGURATION_KEY: text}}
    await client.create(CONFIG_MAP, document)


@asynccontextmanager
async def empty_cluster(*, nodes: int, rng: random.Random) -> AsyncIterator[EmbeddedCluster]:
    """The same without Restow: nobody schedules."""
    clock = SystemClock()
    api = MemoryApi(clock, rng, event_seconds=EVENT_SECONDS)
    client = Client(api)
    for definition in custom_resource_definitions():
        await client.create(CUSTOM_RESOURCE_DEFINITION, definition)
    await client.create(STORAGE_CLASS, _storage_class())
    world = World(api, clock, random.Random(rng.getrandbits(64)), rules=default_rules(PACE), settings=PACE)
    async with _beside(world=world.run()):
        width = len(str(nodes))
        for number in range(1, nodes + 1):
            await client.create(NODE, _node(f"node-{number:0{width}d}"))
        async with asyncio.timeout(READY_SECONDS):
            await world.ready()
            await world.until(lambda view: sum(map(_is_ready, view.all(NODE))) == nodes)
        yield EmbeddedCluster(api, client)


class PartStopped(RuntimeError):
    """A part that should run as long as everything else has ended."""


@asynccontextmanager
async def _beside(**parts: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run these beside the body. One that ends before it takes the body with it, as PartStopped."""
    body = asyncio.current_task()
    assert body is not None
    stopped: list[asyncio.Task[None]] = []

    def ended(task: asyncio.Task[None]) -> None:
        stopped.append(task)
        body.cancel()

    tasks = [asyncio.create_task(part, name=name) for name, part in parts.items()]
    for task in tasks:
        task.add_done_callback(ended)
    try:
        yield
    except asyncio.CancelledError:
        if not stopped:
            raise
        body.uncancel()
        problem = None if stopped[0].cancelled() else stopped[0].exception()
        raise PartStopped(f"the {stopped[0].get_name()} stopped: {cause(problem)}") from problem
    finally:
        for task in tasks:
            task.remove_done_callback(ended)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until_stopped(work: Coroutine[Any, Any, None], tell: Callable[[str], None]) -> None:
    """Do this until it ends by itself, or a signal asks it to; `tell` hears which. Raises PartStopped if it is called
    off and nobody asked for it."""
    loop, task = asyncio.get_running_loop(), asyncio.create_task(work)
    asked: set[str] = set()

    def stop(name: str) -> None:
        if not asked:
            tell(name)
        asked.add(name)
        task.cancel()

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as nohup has it, which means what it says
            loop.add_signal_handler(number, stop, number.name)
    try:
        await task
    except asyncio.CancelledError as problem:
        if not asked:
            raise PartStopped("everything was called off, and nobody asked for it") from problem
    finally:
        for number, handler in before.items():  # not every loop puts back what was there
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


Announce = Callable[[Path, str], None]


async def serve_embedded(*, port: int, nodes: int, announce: Announce) -> None:
    """Serve an embedded cluster on loopback until cancelled; `announce` is told once the API answers."""
    if port:  # one in use is told before anything is built
        socket.create_server(("127.0.0.1", port)).close()
    async with embedded_cluster(nodes=nodes, rng=random.Random()) as cluster, _served(cluster, port, announce):
        await asyncio.Event().wait()


def run_options(
    *,
    embedded: bool,
    components: tuple[str, ...],
    config: Path | None,
    leader_elect: bool | None,
    lease_duration: str,
    namespace: str | None,
    address: str | None,
    port: int,
) -> Options:
    """What is asked for, with what goes without saying here. Outside of a pod nobody but this machine is served.

    Raises WireError and ConfigError."""
    own = in_cluster().namespace if not embedded and is_in_cluster(os.environ) else None
    return Options(
        components=components,
        config=config,
        otherwise=EMBEDDED if embedded else Configuration(),
        namespace=namespace or own or HOME,
        leader_elect=not embedded if leader_elect is None else leader_elect,
        timing=lease_timing(lease_duration),
        host=address or ("127.0.0.1" if own is None else "0.0.0.0"),
        port=port,
    )


async def run_embedded(options: Options, *, announce: Announce) -> None:
    """Run components until cancelled against an embedded cluster, which is served on loopback as well."""
    process, rng = Process(options), random.Random()
    async with empty_cluster(nodes=NODES, rng=rng) as cluster, _served(cluster, 0, announce):
        await process.run(cluster.api, SystemClock(), rng, "that is embedded")


async def run_against(kubeconfig: Path | None, options: Options) -> None:
    """Run components until cancelled against the cluster that a kubeconfig names, or that we run in."""
    process, config, clock, rng = Process(options), find_config(kubeconfig), SystemClock(), random.Random()
    async with KubernetesApi(config, clock=clock, rng=random.Random(rng.getrandbits(64))) as api:
        await process.run(api, clock, rng, config.server)


class Before(msgspec.Struct, frozen=True):
    """What a cluster has before something is installed there."""

    found: Found
    configuration: str | None
    """That of the last installation, as it is written there."""


async def look_before_install(kubeconfig: Path | None, namespace: str) -> Before | str:
    """What a cluster has already that installing must mind; a sentence if nobody could look."""
    try:
        config = find_config(kubeconfig)
        async with KubernetesApi(config, clock=SystemClock()) as api:
            client = Client(api)
            kept = await _installed(client, namespace)
            return Before(await look(client), (kept.data or {}).get(CONFIGURATION_KEY) if kept else None)
    except (ConfigError, ApiError) as problem:
        return str(problem)


async def ask(kubeconfig: Path | None, question: Callable[[Client], Awaitable[T]]) -> T:
    """Put a question to the cluster that a kubeconfig names, or that we run in. Raises ConfigError, ApiError."""
    async with KubernetesApi(find_config(kubeconfig), clock=SystemClock()) as api:
        return await question(Client(api))


async def turn_stop_switch(kubeconfig: Path | None, namespace: str, data: dict[str, str | None]) -> str:
    """Write the stop switch; returns how it stands now. Raises ConfigError, ApiError and CannotRun."""
    async with KubernetesApi(find_config(kubeconfig), clock=SystemClock()) as api:
        client = Client(api, manager="restow")
        try:
            written = await client.patch(CONFIG_MAP, STOP_NAME, {"data": data}, namespace)
        except NotFound:
            await find_namespace(client, namespace)
            said = {key: value for key, value in data.items() if value is not None}
            document = {"metadata": {"name": STOP_NAME, "namespace": namespace}, "data": said}
            written = await client.create(CONFIG_MAP, document)
    return stopped(written) or "evictions go on"


# --- moving pods in somebody's cluster --------------------------------------------------------------------------------


class Bearing(msgspec.Struct, frozen=True):
    """What it takes to act on a living cluster once."""

    api: Api
    clock: Clock
    rng: random.Random
    configuration: Configuration


@asynccontextmanager
async def bearing(kubeconfig: Path | None, written: Configuration | None, namespace: str) -> AsyncIterator[Bearing]:
    """The cluster that a kubeconfig names, with a configuration: what is written, else what is installed there.

    Raises ConfigError, WireError and ApiError."""
    clock, rng = SystemClock(), random.Random()
    async with KubernetesApi(find_config(kubeconfig), clock=clock, rng=random.Random(rng.getrandbits(64))) as api:
        yield Bearing(api, clock, rng, written or await installed_configuration(Client(api), namespace))


async def installed_configuration(client: Client, namespace: str) -> Configuration:
    """What `restow install` put there; the defaults where there is none, or where it is not ours to see."""
    found = await _installed(client, namespace)
    return (found and _configuration(found)) or Configuration()


async def installed_document(client: Client, namespace: str) -> list[dict[str, Any]]:
    """The same as it is kept there, for a snapshot file; nothing where there is none."""
    found = await _installed(client, namespace)
    if found is None:
        return []
    metadata = {"name": INSTALLED, "namespace": namespace}
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(found.data or {})}]


def configuration_in(inventory: Inventory, namespace: str) -> Configuration | None:
    """The same in a snapshot file."""
    name = (namespace, INSTALLED)
    found = (one for one in inventory.of(CONFIG_MAP) if (one.metadata.namespace, one.metadata.name) == name)
    return next((_configuration(one) for one in found), None)


async def _installed(client: Client, namespace: str) -> ConfigMap | None:
    try:
        return await client.get(CONFIG_MAP, INSTALLED, namespace)
    except (NotFound, Forbidden):
        return None


def _configuration(found: ConfigMap) -> Configuration:
    written = (found.data or {}).get(CONFIGURATION_KEY, "")
    name = f"ConfigMap {found.metadata.namespace}/{INSTALLED} {CONFIGURATION_KEY}"
    return read_configuration(written.encode(), name)


class NotInstalled(Exception):
    """The cluster does not know what moves pods."""


async def _check_installed(api: Api, namespace: str) -> None:
    """Whether jobs could be made at all, which servers do not say in so many words; and a place for turns' Lease."""
    try:
        async with aclosing(Client(api).pages(POD_MIGRATION_JOB, limit=1)) as pages:
            await anext(pages, None)
    except NotFound as problem:
        advice = "restow install | kubectl apply --server-side -f - brings that, and who carries them out"
        raise NotInstalled(f"the cluster does not know {POD_MIGRATION_JOB.qualified_name}; {advice}") from problem
    await find_namespace(Client(api), namespace)


async def deschedule(at: Bearing, namespace: str, profile: str | None, *, dry_run: bool) -> Run:
    """One cycle of a profile, now. Raises Refused, NotInstalled, LookupError, WireError, CannotRun and ApiError."""
    if not dry_run:
        await _check_installed(at.api, namespace)
    policy = at.configuration.read_descheduler()
    made = Descheduler(
        at.api,
        at.clock,
        at.rng,
        policy=policy,
        scheduler=at.configuration.read_scheduler(),
        arguments=at.configuration.read_migration(),
        settings=DeschedulerSettings(namespace=namespace, who=f"restow deschedule on {socket.gethostname()}"),
        prometheus=PrometheusServer(policy.prometheus) if policy.prometheus else None,
        aside=in_a_thread,
    )
    return await made.once(profile, dry_run=dry_run)


async def ask_prometheus(provider: Provider, queries: Queries) -> Measured:
    """What it measures; nothing, and why, if it does not answer."""
    return await usage.ask(PrometheusServer(provider), queries)


async def carry_out(
    at: Bearing, namespace: str, plan: Plan, tell: Callable[[Progress], None], *, strict: bool = False
) -> Progress:
    """Carry a plan out; `tell` hears how it goes. With `strict` nothing is repaired. Raises Changed, InTheWay,
    NotInstalled, WireError, CannotRun and ApiError."""
    await _check_installed(at.api, namespace)
    settings = DeschedulerSettings(namespace=namespace, who=f"restow apply on {socket.gethostname()}", look_again=1.0)
    applying = Applying(
        at.api,
        at.clock,
        at.rng,
        scheduler=at.configuration.read_scheduler(),
        arguments=at.configuration.read_migration(),
        settings=settings,
        strict=strict,
        tell=tell,
        aside=in_a_thread,
    )
    return await applying.apply(plan)


@asynccontextmanager
async def _served(cluster: EmbeddedCluster, port: int, announce: Announce) -> AsyncIterator[None]:
    server = await serve(cluster.api, port=port)
    kubeconfig = write_kubeconfig(_folder(server.port) / "kubeconfig", server.url)
    try:
        announce(kubeconfig, server.url)
        yield
    finally:
        kubeconfig.unlink(missing_ok=True)
        with suppress(OSError):  # somebody else keeps something there
            kubeconfig.parent.rmdir()
        await server.close()


def _folder(port: int) -> Path:
    """Where the kubeconfig of the server on this port goes: a folder of its own, in a path without spaces."""
    home = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state")
    try:
        home = home.expanduser() / "restow"
        home.mkdir(parents=True, exist_ok=True)
        usable = " " not in str(home.absolute()) and os.access(home, os.W_OK)
    except (OSError, RuntimeError):  # the latter where the user has no home at all, as in some containers
        usable = False
    return home / f"dev-{port}" if usable else Path(tempfile.mkdtemp(prefix=f"restow-dev-{port}-"))


def _storage_class() -> dict[str, Any]:
    """The class of claims that name none, so that StatefulSets with volumes just work."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "sim.restow.sh/volumes",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _is_ready(node: Node) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions or ())


def _node(name: str) -> dict[str, Any]:
    room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "capacity": room,
            "allocatable": room,
            "addresses": [{"type": "Hostname", "address": name}],
            "nodeInfo": {**dict.fromkeys(_UNTOLD, ""), **_TOLD},
        },
    }


_UNTOLD = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeProxyVersion",
)
_TOLD = {"kubeletVersion": VERSION["gitVersion"], "operatingSystem": "linux", "architecture": "amd64"}
