"""10,000 pods that take the seats of 1,000 reservations through a real API server, beside the same pods where nothing
is reserved.

A scheduler is running and knows the cluster; where there are reservations, all of them hold their seats. It is stopped
while the pods are made, and goes on when all are there. Its rate runs from the first pod that is bound to the last one;
beside it is shown how many pods there were per second until the last reservation said who took its seats. CPU times run
from when it goes on until it rests: its own, and those of the API server and etcd. The two ways take turns, since the
machine's pace changes more than they differ; the best of each counts.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time

import click
import msgspec

from bench.report import Claim, Report, Row
from bench.reservations import LEAST, PLAIN, PODS, RESERVATIONS, RESERVED, RUNNING_NODES, TURNS, pods, reservation
from bench.scheduler_online import (
    LIMITS,
    NAMESPACE_NAME,
    OURS,
    WAIT_SECONDS,
    Stage,
    Watch,
    prepare,
    process_of,
    rested,
)
from e2e.build import BuildError
from e2e.cluster import eventually, following, together
from e2e.controlplane import ControlPlane
from e2e.process import Process, ProcessDied
from restow.adapters.clock import SystemClock
from restow.adapters.kubernetes import KubernetesApi, load_kubeconfig
from restow.client.informer import Informer
from restow.client.verbs import Client
from restow.model.crds import custom_resource_definitions
from restow.model.kinds import CUSTOM_RESOURCE_DEFINITION, POD, RESERVATION
from restow.model.objects import Reservation, ReservationPhase


def run() -> Report:
    try:
        with ControlPlane(components=()) as plane:
            return asyncio.run(_measure(plane))
    except (BuildError, ProcessDied) as error:
        raise click.ClickException(str(error)) from None


async def _measure(plane: ControlPlane) -> Report:
    process = process_of(plane, OURS)
    async with KubernetesApi(load_kubeconfig(plane.kubeconfig), clock=SystemClock(), limits=LIMITS) as api:
        client = Client(api)
        await prepare(client, RUNNING_NODES)
        for definition in custom_resource_definitions():
            await client.create(CUSTOM_RESOURCE_DEFINITION, definition)
        async with (
            following(Informer(client, POD, rng=random.Random(1), namespace=NAMESPACE_NAME)) as seen,
            following(Informer(client, RESERVATION, rng=random.Random(2), namespace=NAMESPACE_NAME)) as reservations,
        ):
            stage = _Stage(client, Watch(seen), reservations, plane)
            rates: dict[str, list[_Taken]] = {PLAIN: [], RESERVED: []}
            for which in (PLAIN, RESERVED) * TURNS:
                rates[which].append(_told(which, await stage.taken(which, process)))
    return _report({which: max(each, key=lambda rate: rate.pods) for which, each in rates.items()})


class _Taken(msgspec.Struct, frozen=True):
    pods: float
    """Per second, until the last one was bound."""
    marked: float
    """Per second, until the last seat was marked."""
    cpu: float
    """Seconds per pod."""
    server: float
    """The same of the API server and etcd."""


def _told(which: str, taken: _Taken) -> _Taken:
    """One step of many minutes, for whoever waits."""
    rates = f"{taken.pods:,.0f} pods/s, {taken.marked:,.0f} until all seats are marked"
    cpu = f"{taken.cpu * 1e3:.2f} ms of CPU each, and {taken.server * 1e3:.2f} of the server's"
    click.echo(f"{which}: {rates}, {cpu}", err=True)
    return taken


class _Stage(Stage):
    def __init__(self, client: Client, watch: Watch, reservations: Informer[Reservation], plane: ControlPlane) -> None:
        super().__init__(client, watch)
        self._reservations = reservations
        self._servers = [plane.processes[name] for name in ("kube-apiserver", "etcd")]

    async def taken(self, which: str, process: Process) -> _Taken:
        """How fast the pods are bound, and their seats marked."""
        if which == RESERVED:
            documents = [reservation(number, placed=False) for number in range(RESERVATIONS)]
            await together(self.client.create(RESERVATION, document) for document in documents)
            await eventually(lambda: len(self._reservations) == RESERVATIONS, "they are there", WAIT_SECONDS)
        process.start()
        await self._until(ReservationPhase.AVAILABLE, process)
        await rested(process)
        process.signal(signal.SIGSTOP)
        await together(self.client.create(POD, document) for document in pods())
        await eventually(lambda: len(self.watch.pods) == PODS, "all pods are there", WAIT_SECONDS)
        cpu, server = process.cpu_seconds(), self._server_seconds()
        process.signal(signal.SIGCONT)
        await self.watch.until(PODS, process)
        await self._until(ReservationPhase.SUCCEEDED, process)
        times = self.watch.bound.values()
        first, last = min(times), max(times)
        end = time.perf_counter() if which == RESERVED else last
        cost = (await rested(process) - cpu) / PODS
        served = (self._server_seconds() - server) / PODS
        await self.end(process)
        names = [one.metadata.name for one in self._reservations]
        await together(self.client.delete(RESERVATION, name, NAMESPACE_NAME) for name in names)
        await eventually(lambda: len(self._reservations) == 0, "all reservations are gone", WAIT_SECONDS)
        return _Taken(pods=PODS / (last - first), marked=PODS / (end - first), cpu=cost, server=served)

    def _server_seconds(self) -> float:
        return sum(one.cpu_seconds() for one in self._servers)

    async def _until(self, phase: ReservationPhase, process: Process) -> None:
        """All reservations that there are have come so far."""
        async with asyncio.timeout(WAIT_SECONDS):
            while any(one.status.state.phase != phase for one in self._reservations):
                process.check()
                await asyncio.sleep(0.02)


def _report(rates: dict[str, _Taken]) -> Report:
    rows = [
        Row(
            what=f"{which}, {PODS:,} pods",
            figures={
                "pods_per_s": rate.pods,
                "marked_per_s": rate.marked,
                "cpu_ms_per_pod": rate.cpu * 1e3,
                "server_ms_per_pod": rate.server * 1e3,
            },
            ratio=rate.pods / rates[PLAIN].pods,
        )
        for which, rate in rates.items()
    ]
    share = rates[RESERVED].pods / rates[PLAIN].pods
    claims = [Claim(what="share of the pods/s without reservations", wanted=LEAST, measured=share)]
    name = f"taking the seats of {RESERVATIONS:,} reservations on {RUNNING_NODES:,} nodes of a real control plane"
    return Report(name=name, rows=rows, claims=claims)
