"""10,000 pods that take the seats of 1,000 reservations through a real API server, beside the same pods where nothing
is reserved.

A scheduler is running and knows the cluster; where there are reservations, all of them hold their seats. It is stopped
while the pods are made. Its rate runs from when it goes on until the last pod is bound; not from the first one that is
bound, because a scheduler that has written reservations still has a dozen connections, and binds as many pods before it
has read of the rest. That rate is shown beside it all the same, and the pods per second until the last reservation has
recorded the consumption of its seats. CPU times, its own and those of the API server and etcd, are measured until the
last pod is bound, and from then until it is idle: by then all consumption records and Events are written. The two ways
take turns, since the machine's pace changes more than they differ. What counts is all pods of a way by the time of all
its turns, and not its best one: an API server collects its garbage a few times in a turn, a tenth to a quarter of its
work, and the best turn is the one that was spared. It is shown all the same.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from statistics import fmean, harmonic_mean

import click
import msgspec

from bench.report import Claim, Report, Row
from bench.reservations import LEAST, PLAIN, PODS, RESERVATIONS, RESERVED, RUNNING_NODES, pods, reservation
from bench.scheduler_online import (
    LIMITS,
    NAMESPACE_NAME,
    OURS,
    WAIT_SECONDS,
    BenchCluster,
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

ORDER = (PLAIN, RESERVED, RESERVED, PLAIN) * 2
"""What grows slower with every turn, as an API server that remembers all of them, is so for both."""


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
            stage = ReservationBenchCluster(client, Watch(seen), reservations, plane)
            turns: dict[str, list[SeatRates]] = {PLAIN: [], RESERVED: []}
            for which in ORDER:
                turns[which].append(_report_rates(which, await stage.taken(which, process)))
    return _report(turns)


class CpuTime(msgspec.Struct, frozen=True):
    """CPU seconds per pod."""

    ours: float
    server: float
    """Of the API server and etcd."""


class SeatRates(msgspec.Struct, frozen=True):
    pods: float
    """Per second, until the last one was bound."""
    from_first: float
    """Per second, from the first one that was bound to the last."""
    marked: float
    """Per second, until the consumption of the last seat was recorded."""
    cpu: CpuTime
    """Until the last one was bound."""
    rest: CpuTime
    """From then on, until all is written."""


def _report_rates(which: str, taken: SeatRates) -> SeatRates:
    """Print the result of one step, because the whole takes many minutes."""
    rates = f"{taken.pods:,.0f} pods/s, {taken.from_first:,.0f} from the first one"
    marked = f"{taken.marked:,.0f} until the consumption of all seats is recorded"
    click.echo(f"{which}: {rates}, {marked}; ms of CPU each: {_cost(taken.cpu)}, then {_cost(taken.rest)}", err=True)
    return taken


def _cost(spent: CpuTime) -> str:
    return f"{spent.ours * 1e3:.2f} and {spent.server * 1e3:.2f} of the server's"


class ReservationBenchCluster(BenchCluster):
    def __init__(self, client: Client, watch: Watch, reservations: Informer[Reservation], plane: ControlPlane) -> None:
        super().__init__(client, watch)
        self._reservations = reservations
        self._servers = [plane.processes[name] for name in ("kube-apiserver", "etcd")]

    async def taken(self, which: str, process: Process) -> SeatRates:
        """How fast the pods are bound, and the consumption of their seats recorded."""
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
        begun, start = time.perf_counter(), self._used(process)
        process.signal(signal.SIGCONT)
        await self.watch.until(PODS, process)
        bound = self._used(process)
        await self._until(ReservationPhase.SUCCEEDED, process)
        times = self.watch.bound.values()
        first, last = min(times), max(times)
        end = time.perf_counter() if which == RESERVED else last
        await rested(process)
        cpu, rest = _between(start, bound), _between(bound, self._used(process))
        await self.end(process)
        names = [reservation.metadata.name for reservation in self._reservations]
        await together(self.client.delete(RESERVATION, name, NAMESPACE_NAME) for name in names)
        await eventually(lambda: len(self._reservations) == 0, "all reservations are gone", WAIT_SECONDS)
        return SeatRates(
            pods=PODS / (last - begun),
            from_first=PODS / (last - first),
            marked=PODS / (end - begun),
            cpu=cpu,
            rest=rest,
        )

    def _used(self, process: Process) -> tuple[float, float]:
        """CPU seconds so far: of the scheduler, and of the API server and etcd."""
        return process.cpu_seconds(), sum(server.cpu_seconds() for server in self._servers)

    async def _until(self, phase: ReservationPhase, process: Process) -> None:
        """Wait until all reservations are in this phase."""
        async with asyncio.timeout(WAIT_SECONDS):
            while any(reservation.status.state.phase != phase for reservation in self._reservations):
                process.check()
                await asyncio.sleep(0.02)


def _between(before: tuple[float, float], after: tuple[float, float]) -> CpuTime:
    return CpuTime(ours=(after[0] - before[0]) / PODS, server=(after[1] - before[1]) / PODS)


def _report(turns: dict[str, list[SeatRates]]) -> Report:
    whole = {which: harmonic_mean([turn.pods for turn in each]) for which, each in turns.items()}
    rows = [
        Row(
            what=f"{which}, {PODS:,} pods, {len(each)} times",
            figures={
                "pods_per_s": whole[which],
                "best_per_s": max(turn.pods for turn in each),
                "from_first_per_s": harmonic_mean([turn.from_first for turn in each]),
                "marked_per_s": harmonic_mean([turn.marked for turn in each]),
                "cpu_ms_per_pod": fmean(turn.cpu.ours for turn in each) * 1e3,
                "server_ms_per_pod": fmean(turn.cpu.server for turn in each) * 1e3,
                "cpu_ms_afterwards": fmean(turn.rest.ours for turn in each) * 1e3,
                "server_ms_afterwards": fmean(turn.rest.server for turn in each) * 1e3,
            },
            ratio=whole[which] / whole[PLAIN],
        )
        for which, each in turns.items()
    ]
    share = whole[RESERVED] / whole[PLAIN]
    claims = [Claim(what="share of the pods/s without reservations", wanted=LEAST, measured=share)]
    name = f"taking the seats of {RESERVATIONS:,} reservations on {RUNNING_NODES:,} nodes of a real control plane"
    return Report(name=name, rows=rows, claims=claims)
