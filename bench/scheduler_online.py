"""Binding pods through a real API server with 5,000 nodes: our scheduler, kube-scheduler, and bare writes.

The bare rate is that of the same writes without a scheduler, for pods of the same kind: bindings, and Events beside
them. A scheduler is running and knows the nodes; it is stopped while the pods are made, and goes on when all are there.
Its rate runs from the first pod that is bound to the last one, its CPU time from when it goes on. Then pods come at a
steady pace: the latency of each is from asking for the pod to seeing it bound. All have the same client limit, above
what the API server takes. Everything shares the same cores, so only ratios within a run count; and since the machine's
pace changes from minute to minute, bare writes and our scheduler take turns: of each the best rate counts, and the mean
of its CPU times.

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
from statistics import fmean

import click
import msgspec
import numpy as np

from bench.report import Claim, Report, Row
from bench.workloads import KINDS, node_document, pod_document
from e2e.build import BuildError
from e2e.cluster import eventually, following, namespace_document, together
from e2e.controlplane import CLIENT_QPS, ControlPlane
from e2e.process import Process, ProcessDied
from restow.adapters import event_loop
from restow.adapters.clock import SystemClock
from restow.adapters.kubernetes import KubernetesApi, TransportLimits, load_kubeconfig
from restow.client.cache import Change
from restow.client.informer import Informer
from restow.client.verbs import Client
from restow.control.scheduler import Scheduler, SchedulerSettings
from restow.model.kinds import EVENT, NAMESPACE, NODE, POD
from restow.model.objects import Document, Pod
from restow.scheduling.registry import read_profile

NODES = 5_000
PODS = 5_000  # with each kube-scheduler has more to look at where pods keep apart; it settles after thousands
TURNS = 2
PACED, PACE = 150, 25.0  # pods, and pods per second, of which latency is measured: what any of the schedulers can do
CLASSES = 20
NAMESPACE_NAME = "bench"
WAIT_SECONDS = 600.0
OURS, THEIRS, BARE = "restow", "default-scheduler", "bare"
LIMITS = TransportLimits(rate=CLIENT_QPS, burst=CLIENT_QPS)
LEAST_OF_BARE, MOST_PLAIN_CPU, MOST_CONSTRAINED_CPU = 0.7, 0.25, 0.1


class Rate(msgspec.Struct, frozen=True):
    """Pods bound per second, CPU seconds of the scheduler per pod, and seconds from wanted to bound (p50, p99)."""

    pods: float
    cpu: float
    latency: tuple[float, float] = (0.0, 0.0)


class Watch:
    """Which pods are there, and when each was seen bound."""

    def __init__(self, pods: Informer[Pod]) -> None:
        self.pods = pods
        self.bound: dict[str, float] = {}
        pods.subscribe(self._see)

    def _see(self, change: Change[Pod]) -> None:
        name = change.object.metadata.name
        if change.type == "DELETED":
            self.bound.pop(name, None)
        elif change.object.spec.node_name:
            self.bound.setdefault(name, time.perf_counter())

    async def until(self, wanted: int, process: Process) -> None:
        """So many pods are bound."""
        async with asyncio.timeout(WAIT_SECONDS):
            while len(self.bound) < wanted:
                process.check()
                await asyncio.sleep(0.02)

    @property
    def rate(self) -> float:
        """Pods per second, from the first that was bound to the last."""
        times = self.bound.values()
        return (len(times) - 1) / (max(times) - min(times))


def run() -> Report:
    try:
        with ControlPlane(components=()) as plane:
            return asyncio.run(_measure(plane))
    except (BuildError, ProcessDied) as error:
        raise click.ClickException(str(error)) from None


async def _measure(plane: ControlPlane) -> Report:
    ours, bare = (process_of(plane, writer) for writer in (OURS, BARE))
    theirs = plane.processes["kube-scheduler"]
    async with KubernetesApi(load_kubeconfig(plane.kubeconfig), clock=SystemClock(), limits=LIMITS) as api:
        client = Client(api)
        await prepare(client, NODES)
        async with following(Informer(client, POD, rng=random.Random(1), namespace=NAMESPACE_NAME)) as pods:
            stage = BenchCluster(client, Watch(pods))
            rates: dict[tuple[str, str], Rate] = {}
            for kind in KINDS:
                turns: dict[str, list[Rate]] = {BARE: [], OURS: []}
                for _ in range(TURNS):
                    turns[BARE].append(report_rate(kind, BARE, await stage.bare(kind, bare)))
                    turns[OURS].append(report_rate(kind, OURS, await stage.scheduled(kind, OURS, ours)))
                rates |= {(kind, writer): _best(each) for writer, each in turns.items()}
                rates[kind, THEIRS] = report_rate(kind, THEIRS, await stage.scheduled(kind, THEIRS, theirs))
    return _report(rates)


def _best(rates: list[Rate]) -> Rate:
    fastest = max(rates, key=lambda rate: rate.pods)
    return msgspec.structs.replace(fastest, cpu=fmean(rate.cpu for rate in rates))


def report_rate(kind: str, writer: str, rate: Rate) -> Rate:
    """Print the result of one step, because the whole takes many minutes."""
    click.echo(f"{kind}, {writer}: {rate.pods:,.0f} pods/s, {rate.cpu * 1e3:.2f} ms of CPU each", err=True)
    return rate


def process_of(plane: ControlPlane, writer: str) -> Process:
    """A process of this module, so that all writers are measured alike, and apart from the observing process."""
    argv = [sys.executable, "-m", "bench.scheduler_online", str(plane.kubeconfig), writer]
    return Process(argv, plane.directory / f"{writer}.log")


async def prepare(client: Client, nodes: int) -> None:
    """Create nodes without taints: no controller that taints nodes is running, and the taint that the API server sets
    on new ones is removed."""
    await client.create(NAMESPACE, namespace_document(NAMESPACE_NAME))

    async def add(number: int) -> None:
        node = await client.create(NODE, node_document(number))
        await client.patch(NODE, node.metadata.name, {"spec": {"taints": None}})

    await together(add(number) for number in range(nodes))


class BenchCluster:
    """The cluster in which the schedulers and the bare writer are measured one after the other."""

    def __init__(self, client: Client, watch: Watch) -> None:
        self.client = client
        self.watch = watch

    async def bare(self, kind: str, process: Process) -> Rate:
        await self._create(kind, BARE, PODS)
        process.start()
        await self.watch.until(1, process)
        cpu = process.cpu_seconds()
        await self.watch.until(PODS, process)
        rate = Rate(self.watch.rate, (await rested(process) - cpu) / PODS)
        await self.end(process)
        return rate

    async def scheduled(self, kind: str, scheduler: str, process: Process) -> Rate:
        process.start()
        await self._create(
            kind, scheduler, CLASSES
        )  # one of each class: a scheduler that has bound them knows the cluster
        await self.watch.until(CLASSES, process)
        latency = await self._paced(kind, scheduler, process)
        await self.clear()
        process.signal(signal.SIGSTOP)
        await self._create(kind, scheduler, PODS)
        cpu = process.cpu_seconds()
        process.signal(signal.SIGCONT)
        await self.watch.until(PODS, process)
        rate = Rate(self.watch.rate, (await rested(process) - cpu) / PODS, latency)
        await self.end(process)
        return rate

    async def _paced(self, kind: str, scheduler: str, process: Process) -> tuple[float, float]:
        """The latency of pods that come one by one."""
        wanted: dict[str, float] = {}

        async def create(number: int) -> None:
            document = pod_document(kind, CLASSES + number, CLASSES, scheduler=scheduler)
            wanted[document["metadata"]["name"]] = time.perf_counter()
            await self.client.create(POD, document)

        async with asyncio.TaskGroup() as tasks:
            for number in range(PACED):
                tasks.create_task(create(number))
                await asyncio.sleep(1 / PACE)
        await self.watch.until(CLASSES + PACED, process)
        p50, p99 = np.percentile([self.watch.bound[name] - at for name, at in wanted.items()], (50, 99)).tolist()
        return p50, p99

    async def _create(self, kind: str, scheduler: str, count: int) -> None:
        documents = [pod_document(kind, number, CLASSES, scheduler=scheduler) for number in range(count)]
        await together(self.client.create(POD, document) for document in documents)
        await eventually(lambda: len(self.watch.pods) == count, "all pods are there", WAIT_SECONDS)

    async def end(self, process: Process) -> None:
        process.signal(signal.SIGTERM)
        process.wait(5)
        await self.clear()

    async def clear(self) -> None:
        names = [pod.metadata.name for pod in self.watch.pods]
        await together(self.client.delete(POD, name, NAMESPACE_NAME, grace_seconds=0) for name in names)
        await eventually(lambda: len(self.watch.pods) == 0, "all pods are gone", WAIT_SECONDS)


async def rested(process: Process) -> float:
    """The CPU seconds of a process once it has nothing left to do: the last Events are written after the last pod is
    bound."""
    used, before = process.cpu_seconds(), -1.0
    while used - before > 0.02:
        await asyncio.sleep(0.5)
        before, used = used, process.cpu_seconds()
    return used


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


def _report(rates: dict[tuple[str, str], Rate]) -> Report:
    rows, claims = [], []
    for kind, what in KINDS.items():
        bare, ours, theirs = (rates[kind, writer] for writer in (BARE, OURS, THEIRS))
        rows.append(Row(what=f"bare writes: {what}", figures=_figures(bare), ratio=1.0))
        for name, rate in (("restow", ours), ("kube-scheduler", theirs)):
            p50, p99 = rate.latency
            figures = {**_figures(rate), "p50_ms": p50 * 1e3, "p99_ms": p99 * 1e3}
            rows.append(Row(what=f"{name}: {what}", figures=figures, ratio=rate.pods / bare.pods))
        share = ours.pods / bare.pods
        claims.append(Claim(what=f"{what}: share of bare writes", wanted=LEAST_OF_BARE, measured=share))
        most = MOST_PLAIN_CPU if kind == "plain" else MOST_CONSTRAINED_CPU
        about = f"{what}: CPU per pod, of kube-scheduler's"
        claims.append(Claim(what=about, wanted=most, measured=ours.cpu / theirs.cpu, at_least=False))
    return Report(name=f"binding pods on {NODES:,} nodes of a real control plane", rows=rows, claims=claims)


def _figures(rate: Rate) -> dict[str, float]:
    return {"pods_per_s": rate.pods, "cpu_ms_per_pod": rate.cpu * 1e3}


async def _serve(kubeconfig: Path, writer: str) -> None:
    async with KubernetesApi(load_kubeconfig(kubeconfig), clock=SystemClock(), limits=LIMITS) as api:
        if writer == BARE:
            await _write(Client(api))
            await asyncio.Event().wait()  # the measuring process ends it
        profile = read_profile({"schedulerNames": [OURS]})
        await Scheduler(api, SystemClock(), random.Random(1), profile=profile).run()


async def _write(client: Client) -> None:
    """Bind all pods, and write Events beside, by as many writers as our scheduler has of each."""
    pods, settings = (await client.list(POD, NAMESPACE_NAME)).items, SchedulerSettings()

    async def bind(number: int, pod: Pod) -> None:
        node = f"node-{number % NODES:05d}"
        await client.bind(NAMESPACE_NAME, pod.metadata.name, uid=pod.metadata.uid, node=node)

    async with asyncio.TaskGroup() as tasks:
        events = (client.create(EVENT, _event(pod)) for pod in pods)
        tasks.create_task(together(events, at_once=settings.event_writers))
        bindings = (bind(number, pod) for number, pod in enumerate(pods))
        tasks.create_task(together(bindings, at_once=settings.binding_writers))


if __name__ == "__main__":
    event_loop.run_event_loop(_serve(Path(sys.argv[1]), sys.argv[2]))
