"""Binding pods through a real API server with 5,000 nodes: our scheduler, kube-scheduler, and bare writes.

The bare rate is that of the same writes without a scheduler: bindings, and Events beside them; the better of one run
before and one after all others. Pods wait before a scheduler starts; its time runs from the first pod that is bound to
the last one, and so does its CPU time. Neither has a client limit below what the API server takes. Everything shares
the same cores, so only ratios within a run count.

    python -m bench.scheduler_online KUBECONFIG restow        our scheduler, until it is ended
    python -m bench.scheduler_online KUBECONFIG bare          the writes alone
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import time
from pathlib import Path

import click
import msgspec

from bench.report import Claim, Report, Row
from bench.workloads import KINDS, node_document, pod_document
from e2e.build import BuildError
from e2e.cluster import eventually, following, namespace_document, together
from e2e.controlplane import ControlPlane
from e2e.process import Process, ProcessDied
from restow.adapters.clock import SystemClock
from restow.adapters.kubernetes import KubernetesApi, load_kubeconfig
from restow.client.informer import Informer
from restow.client.verbs import Client
from restow.control.scheduler import Scheduler, Settings
from restow.model.kinds import EVENT, NAMESPACE, NODE, POD
from restow.model.objects import Document, Pod
from restow.scheduling.registry import read_profile

NODES = 5_000
PODS = 1_000
CLASSES = 20
NAMESPACE_NAME = "bench"
WAIT_SECONDS = 600.0
OURS, THEIRS, BARE = "restow", "default-scheduler", "bare"
LEAST_OF_BARE, MOST_PLAIN_CPU, MOST_CONSTRAINED_CPU = 0.7, 0.25, 0.1


class Rate(msgspec.Struct, frozen=True):
    """Pods bound per second, and CPU seconds of the scheduler per pod."""

    pods: float
    cpu: float


def run() -> Report:
    try:
        with ControlPlane(components=()) as plane:
            return asyncio.run(_measure(plane))
    except (BuildError, ProcessDied) as error:
        raise click.ClickException(str(error)) from None


async def _measure(plane: ControlPlane) -> Report:
    ours, bare = (_process(plane, who) for who in (OURS, BARE))
    theirs = plane.processes["kube-scheduler"]
    async with KubernetesApi(load_kubeconfig(plane.kubeconfig), clock=SystemClock()) as api:
        client = Client(api)
        await _prepare(client)
        async with following(Informer(client, POD, rng=random.Random(1), namespace=NAMESPACE_NAME)) as pods:
            writes = [await _scheduled(client, pods, "plain", BARE, bare)]
            rates = {}
            for kind in KINDS:
                rates[kind, OURS] = await _scheduled(client, pods, kind, OURS, ours)
                rates[kind, THEIRS] = await _scheduled(client, pods, kind, THEIRS, theirs)
            writes.append(await _scheduled(client, pods, "plain", BARE, bare))
    return _report(max(rate.pods for rate in writes), rates)


def _process(plane: ControlPlane, who: str) -> Process:
    """A process of this module, so that all who write are measured alike and beside the one who watches."""
    argv = [sys.executable, "-m", "bench.scheduler_online", str(plane.kubeconfig), who]
    return Process(argv, plane.directory / f"{who}.log")


async def _prepare(client: Client) -> None:
    """Nodes that nobody taints: those who would are not running, and what the server does to new ones is undone."""
    await client.create(NAMESPACE, namespace_document(NAMESPACE_NAME))

    async def add(number: int) -> None:
        node = await client.create(NODE, node_document(number))
        await client.patch(NODE, node.metadata.name, {"spec": {"taints": None}})

    await together(add(number) for number in range(NODES))


async def _scheduled(client: Client, pods: Informer[Pod], kind: str, scheduler: str, process: Process) -> Rate:
    await _create(client, pods, kind, scheduler)
    process.start()
    first = await _bound(pods, 1, process)
    began, cpu = time.perf_counter(), process.cpu_seconds()
    last = await _bound(pods, PODS, process)
    rate = Rate((last - first) / (time.perf_counter() - began), (process.cpu_seconds() - cpu) / (last - first))
    process.signal(signal.SIGTERM)
    process.wait(5)
    await _clear(client, pods)
    return rate


async def _create(client: Client, pods: Informer[Pod], kind: str, scheduler: str) -> list[Pod]:
    documents = [pod_document(kind, number, CLASSES, scheduler=scheduler) for number in range(PODS)]
    await together(client.create(POD, document) for document in documents)
    await eventually(lambda: len(pods) == PODS, "all pods are there", WAIT_SECONDS)
    return list(pods)


async def _clear(client: Client, pods: Informer[Pod]) -> None:
    await together(client.delete(POD, pod.metadata.name, NAMESPACE_NAME, grace_seconds=0) for pod in list(pods))
    await eventually(lambda: len(pods) == 0, "all pods are gone", WAIT_SECONDS)


async def _bound(pods: Informer[Pod], wanted: int, process: Process) -> int:
    """Wait until so many pods are bound, at the least; how many are."""
    async with asyncio.timeout(WAIT_SECONDS):
        while (count := sum(pod.spec.node_name is not None for pod in pods)) < wanted:
            process.check()
            await asyncio.sleep(0.02)
    return count


def _event(pod: Pod) -> Document:
    """As long as those that schedulers write."""
    name, reference = pod.metadata.name, {"kind": "Pod", "apiVersion": "v1", "namespace": NAMESPACE_NAME}
    return {
        "metadata": {"name": f"{name}.{pod.metadata.uid}", "namespace": NAMESPACE_NAME},
        "involvedObject": {**reference, "name": name, "uid": pod.metadata.uid},
        "reason": "Scheduled",
        "type": "Normal",
        "message": f"Successfully assigned {NAMESPACE_NAME}/{name} to node-00000",
        "source": {"component": "bench"},
    }


def _report(bare: float, rates: dict[tuple[str, str], Rate]) -> Report:
    rows = [Row(what="bare writes", figures={"pods_per_s": bare}, ratio=1.0)]
    claims = []
    for kind, what in KINDS.items():
        ours, theirs = rates[kind, OURS], rates[kind, THEIRS]
        for name, rate in (("restow", ours), ("kube-scheduler", theirs)):
            figures = {"pods_per_s": rate.pods, "cpu_ms_per_pod": rate.cpu * 1e3}
            rows.append(Row(what=f"{name}: {what}", figures=figures, ratio=rate.pods / bare))
        claims.append(Claim(what=f"{what}: share of bare writes", wanted=LEAST_OF_BARE, measured=ours.pods / bare))
        most = MOST_PLAIN_CPU if kind == "plain" else MOST_CONSTRAINED_CPU
        told = f"{what}: CPU per pod, of kube-scheduler's"
        claims.append(Claim(what=told, wanted=most, measured=ours.cpu / theirs.cpu, at_least=False))
    return Report(name=f"binding pods on {NODES:,} nodes of a real control plane", rows=rows, claims=claims)


async def _serve(kubeconfig: Path, who: str) -> None:
    async with KubernetesApi(load_kubeconfig(kubeconfig), clock=SystemClock()) as api:
        if who == BARE:
            await _write(Client(api))
        profile = read_profile({"schedulerNames": [OURS]})
        await Scheduler(api, SystemClock(), random.Random(1), profile=profile).run()


async def _write(client: Client) -> None:
    """Bind all pods, and write Events beside, by as many writers as our scheduler has of each; then there is nothing
    left to schedule."""
    pods, settings = (await client.list(POD, NAMESPACE_NAME)).items, Settings()

    async def bind(number: int, pod: Pod) -> None:
        node = f"node-{number % NODES:05d}"
        await client.bind(NAMESPACE_NAME, pod.metadata.name, uid=pod.metadata.uid, node=node)

    async with asyncio.TaskGroup() as tasks:
        events = (client.create(EVENT, _event(pod)) for pod in pods)
        tasks.create_task(together(events, at_once=settings.event_writers))
        bindings = (bind(number, pod) for number, pod in enumerate(pods))
        tasks.create_task(together(bindings, at_once=settings.writers))


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), sys.argv[2]))
