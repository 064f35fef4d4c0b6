"""One seeded run of everything at once: plans that are applied and reserve places, a descheduler, migrations, queues
that lock nodes, schedulers, competitors; each of them dies, is replaced and misreads.

    python -m tests.control.descheduler.chaos 300 [FILE]

carries out runs until so many seeds have passed; FILE holds how far it got, so that it can be ended and gone on with.
Both auditors look on: that of reservations behind every write of schedulers and appliers, that of migrations behind
theirs; no profile moves a pod within the cool-down after it was moved. In the end no place is reserved for a pod that
is gone, every job is over and everything that is free can be had.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

from msgspec.structs import replace

from restow.control.descheduler import AnotherPlanActive, ClusterChanged, RunRefused
from restow.migration.conditions import is_job_ended
from restow.model import kinds
from restow.model.objects import Pod, PodMigrationJob, Reservation
from restow.model.reservations.observed_spec import is_ended as is_over
from restow.planning.plan import Move, Place, Plan
from restow.ports import AlreadyExists, Api, ApiError
from restow.sim.faults import FaultPlan, FaultyApi, run_until_crash
from tests.control.descheduler.descheduler_fixture import MeteringApi, ScatteredCluster, descheduler, plan_runner
from tests.control.descheduler.return_auditor import PROFILES, ReturnAuditor
from tests.control.migrations.migration_auditor import MigrationAuditor as MigrationAuditor
from tests.control.migrations.migration_cluster import SYSTEM, running_controller
from tests.control.queues.queue_controller_fixture import queue_controller
from tests.control.random_disruptions import RandomDisruptions, run_seeds
from tests.control.reservations.chaos import SuccessiveLeaders as Schedulers
from tests.control.reservations.write_auditor import WriteAuditor
from tests.control.scheduler_cluster import gang_member, pod_group, random_faults, unscheduled_cluster
from tests.sim.simulated_cluster import pass_time, pod, running_component, running_scheduler, template, workload

NODES = ("n1", "n2", "n3", "n4", "n5")
QUEUES = ("q1", "q2")
STEPS = 20
MIGRATION = {
    "defaultJobTTL": "90s",
    "waitingTTL": "3m",
    "maxMigratingPerWorkload": 4,
    "objectLimiters": {"workload": {"duration": "0s"}},
}


class Lives:
    """One process after the other that does the same; most of them die after some write."""

    def __init__(
        self,
        it: ScatteredCluster,
        rng: random.Random,
        plan: FaultPlan,
        live: Callable[[Api, int], Awaitable[None]],
        api: Api,
    ) -> None:
        self.count = 0
        self.plan = plan
        self._it = it
        self._rng = rng
        self._live = live
        self._api = api

    async def run(self) -> None:
        while True:
            await self.once(self._rng.randint(0, 12) if self._rng.random() < 0.6 else None, self._rng.uniform(5, 80))
            await asyncio.sleep(self._rng.uniform(0, 4))

    async def once(self, last: int | None, seconds: float) -> None:
        self.count += 1
        rng = random.Random(self._rng.getrandbits(32))
        mortal = FaultyApi(self._api, rng, replace(self.plan, crash_after=last))
        life = asyncio.create_task(run_until_crash(mortal, self._guarded(mortal)))
        try:
            await asyncio.wait((life,), timeout=seconds)
        finally:
            mortal.crashed.set()
        await life

    async def _guarded(self, api: Api) -> None:
        with suppress(ApiError, ClusterChanged, AnotherPlanActive, RunRefused):
            await self._live(api, self.count)


class PlanAccidents(RandomDisruptions):
    def __init__(self, it: ScatteredCluster, auditor: WriteAuditor, rng: random.Random, *, competitors: bool) -> None:
        super().__init__(it, rng, NODES)
        self._it = it
        self._auditor = auditor
        self.all = [
            *[self.create_pod] * 3,
            self.thin_out,
            self.lose_web,
            self.lose_member,
            self.lose_gang,
            self.delete_place_reservation,
            self.abort,
            self.cordon_node,
            self.uncordon_nodes,
            it.stop,
            it.go,
            self.grow,
            *[self.guarantee] * 2,
            self.let_go,
        ]
        if competitors:
            self.all += [self.steal, self.delete_foreign_pod]

    async def create_pod(self) -> None:
        await self._it.create(kinds.POD, pod(f"crowd-{self._made}", self._rng.choice(("1", "2", "3")), app="crowd"))

    async def thin_out(self) -> None:
        found = [one for one in await self._it.pods() if one.metadata.name.startswith("crowd")]
        await self._it.delete(kinds.POD, self._rng.choice(found).metadata.name)

    async def lose_web(self) -> None:
        found = [one for one in await self._it.pods() if (one.metadata.labels or {}).get("app") == "web"]
        await self._it.delete(kinds.POD, self._rng.choice(found).metadata.name)

    async def lose_member(self) -> None:
        """It is created again, under its old name."""
        name = self._rng.choice(("gang-0", "gang-1", "alone"))
        await self._it.delete(kinds.POD, name, grace_seconds=0)
        await pass_time(self._rng.uniform(0, 2))
        await self._it.create(kinds.POD, _waiting(name))

    async def lose_gang(self) -> None:
        await self._it.delete(kinds.POD_GROUP, "gang")
        await pass_time(self._rng.choice((0.0, 1.0, 20.0)))
        await self._it.create(kinds.POD_GROUP, pod_group("gang", 2))

    async def delete_place_reservation(self) -> None:
        one = self._rng.choice(await place_reservations(self._it))
        await self._it.delete(kinds.RESERVATION, one.metadata.name)

    async def abort(self) -> None:
        live = [job for job in await self._it.jobs() if not is_job_ended(job)]
        await self._it.set_status(self._rng.choice(live).metadata.name, phase="Aborted")

    async def grow(self) -> None:
        await self.scale_workload(2, 4)

    async def guarantee(self) -> None:
        name = self._rng.choice(QUEUES)
        policy = self._rng.choice(("Guaranteed", "Best-Effort"))
        spec = {"guarantee": {"policy": policy, "resource": {"cpu": self._rng.choice(("2", "3500m", "7"))}}}
        try:
            await self._it.create(kinds.QUEUE, {"metadata": {"name": name}, "spec": spec})
        except AlreadyExists:
            await self._it.patch(kinds.QUEUE, name, {"spec": spec})

    async def let_go(self) -> None:
        await self._it.delete(kinds.QUEUE, self._rng.choice(QUEUES))

    async def steal(self) -> None:
        where = self._rng.choice(NODES)
        self._auditor.room_taken_by_others(where)
        await self.create_foreign_pod(where, "1")

    async def calm(self) -> None:
        for one in await self._it.pods():
            if one.metadata.name.startswith(("competitor", "crowd")):
                await self._it.delete(kinds.POD, one.metadata.name, grace_seconds=0)
        with suppress(ApiError):
            await self._it.go()
        for name in QUEUES:
            with suppress(ApiError):
                await self._it.delete(kinds.QUEUE, name)
        await self.uncordon_nodes()


def _waiting(name: str) -> dict[str, object]:
    return pod("alone", "3500m", app="alone") if name == "alone" else gang_member(name, "gang", "4", app="gang")


async def place_reservations(it: ScatteredCluster) -> list[Reservation]:
    found = (await it.client.list(kinds.RESERVATION)).items
    return [one for one in found if "restow.sh/claim-of" in (one.metadata.labels or {})]


async def _planned(it: ScatteredCluster, rng: random.Random) -> Plan:
    """The web pods of up to three nodes go to n1; the gang, and perhaps a pod of its own, take their nodes."""
    web = [one for one in await it.pods() if (one.metadata.labels or {}).get("app") == "web"]
    at = {one.spec.node_name: one for one in web}
    sources = [name for name in ("n2", "n3", "n4") if name in at]
    moves = [
        Move(
            order=order,
            wave=rng.randint(1, order) if order < 3 else order,
            namespace="default",
            pod=at[node].metadata.name,
            uid=at[node].metadata.uid,
            source=node,
            target="n1",
        )
        for order, node in enumerate(sources, start=1)
    ]
    moves = sorted(moves, key=lambda move: move.wave)
    moves = [replace(move, order=order) for order, move in enumerate(moves, start=1)]
    pods = ("gang-0", "gang-1", "alone")
    seats = [Place(namespace="default", pod=name, node=node) for name, node in zip(pods, sources, strict=False)]
    return Plan(strategy="optimal", objective="pending", moves=tuple(moves), places=tuple(seats))


async def _begin(it: ScatteredCluster) -> None:
    """Four nodes of 4 cores with a web pod of 1 each, one that is full; a gang of two and a large pod wait."""
    await it.create(kinds.NAMESPACE, {"metadata": {"name": SYSTEM}})
    await it.create(kinds.POD, pod("full", "3900m", nodeName="n5", app="full"))
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
    pods = template("900m", app="web", topologySpreadConstraints=spread)
    await it.create(kinds.DEPLOYMENT, workload("web", 4, pods=pods))
    await pass_time(5)
    await it.create(kinds.POD_GROUP, pod_group("gang", 2))
    for name in ("gang-0", "gang-1", "alone"):
        await it.create(kinds.POD, _waiting(name))
    await pass_time(2)


async def run(seed: int) -> Counter[str]:
    """Carry a run out; AssertionError where a promise is broken. Comes out how jobs and place reservations ended."""
    rng = random.Random(seed)
    competitors = rng.random() < 0.5
    plan = random_faults(rng, timely=competitors)
    faults, cores = list[str](), random.Random(seed + 2).uniform(0.1, 1.5)
    async with unscheduled_cluster(nodes=len(NODES), seed=seed) as base:
        it = ScatteredCluster(base.api, base.world, base.clock)
        auditor = WriteAuditor(it.api, it.clock)
        async with running_scheduler(auditor, it.clock, seed=seed):
            await _begin(it)
        auditor.leader_number += 1
        saved = await _planned(it, rng)

        async def migrate(api: Api, number: int) -> None:
            watched = MigrationAuditor(api, it.api, it.clock, faults)
            async with running_controller(watched, it.clock, seed=number, **MIGRATION):
                await asyncio.sleep(10_000)

        async def apply(api: Api, number: int) -> None:
            await plan_runner(it, api=api).apply(saved)

        async def deschedule(api: Api, number: int) -> None:
            measuring = MeteringApi(it, 0.5, api=ReturnAuditor(it, api, faults), web=cores)
            async with running_component(descheduler(it, PROFILES, api=measuring, seed=number)):
                await asyncio.sleep(10_000)

        async def lock(api: Api, number: int) -> None:
            async with running_component(queue_controller(api, it.clock, seed=number)):
                await asyncio.sleep(10_000)

        schedulers = Schedulers(it, auditor, rng, plan)
        migrations = Lives(it, rng, plan, migrate, it.api)
        processes: list[Lives] = [migrations, *(Lives(it, rng, plan, apply, auditor) for _ in range(rng.randint(1, 2)))]
        if rng.random() < 0.5:
            processes.append(Lives(it, rng, plan, deschedule, auditor))
        if rng.random() < 0.5:
            processes.append(Lives(it, rng, plan, lock, it.api))
        alive = [asyncio.create_task(schedulers.run()), *(asyncio.create_task(one.run()) for one in processes)]
        accidents = PlanAccidents(it, auditor, random.Random(seed + 1), competitors=competitors)
        for _ in range(STEPS):
            await accidents.disrupt()
            await pass_time(rng.choice((0.0, 0.3, 1.0, 5.0, 15.0)))
            assert not any(one.done() for one in alive), alive
            assert not auditor.faults, auditor.faults
            assert not faults, faults
        for one in alive:
            one.cancel()
        await asyncio.gather(*alive, return_exceptions=True)
        await accidents.calm()
        auditor.leader_number += 1
        migrations.plan = FaultPlan()
        async with running_scheduler(auditor, it.clock, seed=99), running_component(queue_controller(it.api, it.clock)):
            await migrations.once(None, 1200)
            await _is_at_rest(it, auditor)
        assert not auditor.faults, auditor.faults
        assert not faults, faults
        ended = Counter(f"{job.status.phase} {job.status.reason or ''}".strip() for job in await it.jobs())
        by = Counter(f"of {_maker(job)}" for job in await it.jobs())
        told = Counter(
            f"place {one.status.state.phase} {one.status.state.reason or ''}" for one in await place_reservations(it)
        )
        placed = Counter(placed=sum(bool(one.spec.node_name) for one in await it.pods() if not _is_web(one)))
        return ended + by + told + placed + Counter(audits=auditor.audits)


def _is_web(one: Pod) -> bool:
    return (one.metadata.labels or {}).get("app") in ("web", "full")


def _maker(job: PodMigrationJob) -> str:
    return "a queue" if "restow.sh/queue" in (job.metadata.labels or {}) else job.metadata.name.split("-")[0]


async def _is_at_rest(it: ScatteredCluster, auditor: WriteAuditor) -> None:
    """Everything has ended, no place is reserved for a pod that is gone, and no node is overcommitted."""
    assert [job.metadata.name for job in await it.jobs() if not is_job_ended(job)] == []
    live = [one for one in (await it.client.list(kinds.RESERVATION)).items if not is_over(one)]
    assert live == [], live
    assert await auditor.shortages() == {}


if __name__ == "__main__":
    run_seeds(run, "place")
