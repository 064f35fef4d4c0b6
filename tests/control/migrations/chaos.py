"""One seeded run: moves, accidents, and controllers that die and misread.

    python -m tests.control.migrations.chaos 2000 [FILE]

carries out runs until so many seeds have passed; FILE holds how far it got, so that it can be ended and gone on with.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from restow.control.migrations import MigrationConfiguration, MigrationController
from restow.migration.conditions import is_evicting, is_job_ended
from restow.migration.reservation import is_made_for_job
from restow.model import kinds
from restow.model.objects import Document, JobConditionType, JobPhase, Pod, PodMigrationJob, PodMigrationJobStatus
from restow.model.pods import is_available
from restow.ports import Api, ApiError
from restow.sim.faults import FaultPlan, FaultyApi, run_until_crash
from restow.sim.loop import VirtualLoop
from tests.control.migrations.limit_auditor import LimitAuditor
from tests.control.migrations.migration_auditor import MigrationAuditor
from tests.control.migrations.migration_cluster import (
    MigrationCluster,
    cluster_with_scheduler,
    migration_arguments,
    running_controller,
)
from tests.control.migrations.test_unavailable_replicas import mend, spoil
from tests.control.random_disruptions import RandomDisruptions, run_seeds
from tests.control.reservations.write_auditor import WriteAuditor as SeatAuditor
from tests.control.scheduler_cluster import assert_nothing_overcommitted, random_faults
from tests.sim.simulated_cluster import SimulatedCluster, is_pod_ready, pass_time, template, workload

NODES = ("n1", "n2", "n3", "n4")
STEPS = 18
SECTION: Document = {
    "defaultJobTTL": "90s",
    "waitingTTL": "3m",
    "maxConcurrentReconciles": 3,
    "maxMigratingPerNode": 2,
    "maxMigratingPerWorkload": 2,
}
SECTIONS: list[Document] = [
    {"evictQPS": 0.2, "evictBurst": 1, "objectLimiters": {"workload": {"duration": "40s", "maxMigrating": 1}}},
    {"maxUnavailablePerWorkload": 1, "maxMigratingPerNamespace": 3},
    {"maxMigratingGlobally": 3},
]
"""What is configured beside it, by the seed: each would hide some of the others."""


RELOADS: list[Document] = [
    {"dryRun": True},
    {"enabled": False},
    {"maxConcurrentReconciles": 1},
    {"maxConcurrentReconciles": 5},
    {"labelSelector": {"matchLabels": {"app": "web"}}},
    {"defaultJobMode": "EvictDirectly"},
]


class Books:
    """Everything that the auditors found: about steps, about seats and room, and about limits."""

    def __init__(self, it: SimulatedCluster, section: Document, *, alone: bool) -> None:
        self.faults: list[str] = []
        self.seats = SeatAuditor(it.api, it.clock)
        self.limits = LimitAuditor(it.api, migration_arguments(**section), alone=alone)

    def check(self) -> None:
        found = [*self.faults, *self.seats.faults, *self.limits.faults]
        assert not found, found


class Leaders:
    """One controller after the other; most of them die after some write."""

    def __init__(
        self, it: MigrationCluster, books: Books, section: Document, rng: random.Random, plan: FaultPlan
    ) -> None:
        self.lives = self.evictions = 0
        self._it = it
        self._books = books
        self._section = section
        self._rng = rng
        self._plan = plan
        self._leading: set[MigrationController] = set()

    async def run(self) -> None:
        while True:
            await self.lead(self._rng.randint(0, 30) if self._rng.random() < 0.7 else None, self._rng.uniform(5, 60))
            await asyncio.sleep(self._rng.uniform(0, 3))

    async def lead(self, last: int | None, seconds: float) -> None:
        self.lives += 1
        self._books.limits.life = self.lives
        seed = self._rng.getrandbits(32)
        mortal = FaultyApi(self._books.seats, random.Random(seed), replace(self._plan, crash_after=last))
        auditor = MigrationAuditor(mortal, self._it.api, self._it.clock, self._books.faults)
        await run_until_crash(mortal, self._live(auditor, seconds))
        self.evictions += auditor.evictions

    async def _live(self, api: Api, seconds: float) -> None:
        async with running_controller(api, self._it.clock, seed=self.lives, **self._section) as made:
            self._leading.add(made)
            try:
                await asyncio.sleep(seconds)
            finally:
                self._leading.discard(made)

    async def configure(self, section: Document) -> None:
        """Configure the current leaders with this section, beside what is always configured."""
        for one in list(self._leading):
            one.configure(MigrationConfiguration(migration_arguments(**(self._section | section))))


class MoveAccidents(RandomDisruptions):
    def __init__(
        self, it: MigrationCluster, seats: SeatAuditor, leaders: Leaders, rng: random.Random, *, given: int
    ) -> None:
        """Reservations are `given` to jobs as often as that."""
        super().__init__(it, rng, NODES)
        self._it = it
        self._seats = seats
        self._leaders = leaders
        self._later: list[asyncio.Task[None]] = []
        self.all = [
            *[self.move] * 8,
            self.abort,
            self.pause,
            self.resume,
            self.hesitate,
            self.edit,
            self.redirect,
            self.delete_job,
            self.delete_pod,
            *[self.cordon_node] * 2,
            self.uncordon_nodes,
            self.recreate_node,
            self.set_clock,
            it.stop,
            it.go,
            self.scale_workload,
            self.upgrade,
            self.delete_seat,
            self.steal,
            self.give_back,
            self.hold,
            *[self.sicken] * 2,
            self.reconfigure,
            *[self.share] * given,
        ]

    async def disrupt(self) -> None:
        await super().disrupt()
        await self._seats.note_specs()

    async def move(self) -> None:
        for one in self._rng.sample(await self._it.pods(), 2):
            mode: dict[str, Any] = {"mode": "EvictDirectly"} if self._rng.random() < 0.1 else {}
            await self._it.move(one, f"move-{self._made}-{one.metadata.name}", **mode)

    async def _job(self) -> PodMigrationJob:
        found = (await self._it.client.list(kinds.POD_MIGRATION_JOB)).items
        return self._rng.choice(
            sorted((job for job in found if not is_job_ended(job)), key=lambda job: job.metadata.name)
        )

    async def _change(self, **spec: object) -> None:
        await self._it.patch(kinds.POD_MIGRATION_JOB, (await self._job()).metadata.name, {"spec": spec})

    async def abort(self) -> None:
        await self._it.set_status((await self._job()).metadata.name, phase="Aborted")

    async def pause(self) -> None:
        await self._change(paused=True)

    async def resume(self) -> None:
        await self._change(paused=False)

    async def hesitate(self) -> None:
        """A user pauses and resumes again and again."""
        name = (await self._job()).metadata.name
        for paused in (True, False, True, False):
            await self._it.patch(kinds.POD_MIGRATION_JOB, name, {"spec": {"paused": paused}})
            await pass_time(self._rng.choice((0.0, 0.1, 2.0)))

    async def edit(self) -> None:
        await self._change(ttl=self._rng.choice(("5s", "60s", "5m")))

    async def redirect(self) -> None:
        target = {"restow.sh/target-node": self._rng.choice(NODES)}
        await self._it.patch(
            kinds.POD_MIGRATION_JOB, (await self._job()).metadata.name, {"metadata": {"annotations": target}}
        )

    async def delete_job(self) -> None:
        await self._it.delete(kinds.POD_MIGRATION_JOB, (await self._job()).metadata.name)

    async def delete_pod(self) -> None:
        await self._it.delete(kinds.POD, self._rng.choice(await self._it.pods()).metadata.name)

    async def set_clock(self) -> None:
        """All wall clocks, as when they are corrected by hand."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.start += self._rng.uniform(-20, 20)

    async def upgrade(self) -> None:
        made = template(self._rng.choice(("300m", "500m")), app="web")
        await self._it.patch(kinds.DEPLOYMENT, "web", {"spec": {"template": made}})

    async def delete_seat(self) -> None:
        found = sorted(one.metadata.name for one in await self._it.reservations())
        await self._it.delete(kinds.RESERVATION, self._rng.choice(found))

    async def hold(self) -> None:
        """A finalizer keeps a pod for a while after it has stopped."""
        name = self._rng.choice(await self._it.pods()).metadata.name
        await self._it.patch(kinds.POD, name, {"metadata": {"finalizers": ["example.org/slow"]}})
        self._later.append(asyncio.create_task(self._let_go(name, self._rng.choice((3.0, 20.0, 60.0)))))

    async def _let_go(self, name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        with suppress(ApiError):
            await self._it.patch(kinds.POD, name, {"metadata": {"finalizers": None}})

    async def sicken(self) -> None:
        """A pod is not Ready for a while, or until it is replaced."""
        pod = self._rng.choice([one for one in await self._it.pods() if is_available(one)])
        await spoil(self._it, pod)
        self._later.append(asyncio.create_task(self._recover(pod, self._rng.choice((5.0, 70.0, 150.0)))))

    async def _recover(self, pod: Pod, seconds: float) -> None:
        await asyncio.sleep(seconds)
        with suppress(ApiError):
            there = await self._it.client.get(kinds.POD, pod.metadata.name, "default")
            if there.metadata.uid == pod.metadata.uid and there.status.phase == "Running":
                await mend(self._it, pod)

    async def reconfigure(self) -> None:
        """The file is changed, and changed back."""
        await self._leaders.configure(self._rng.choice(RELOADS))
        await pass_time(self._rng.choice((0.0, 0.2, 3.0, 20.0)))
        await self._leaders.configure({})

    async def share(self) -> None:
        """One reservation of a user for several pods of web, and a job for each; more of them than seats, perhaps."""
        name, seats = f"given{self._made}", self._rng.randint(1, 3)
        task = {"name": "web", "replicas": seats, "template": template("500m", app="web")}
        spec = {"matchPolicy": "Fits", "ttl": "5m", "minAvailable": self._rng.randint(1, seats), "tasks": [task]}
        owner = {"controller": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
        spec |= {"owners": [owner], "schedulerName": "default-scheduler"}
        await self._it.create(kinds.RESERVATION, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
        web = [one for one in await self._it.pods() if (one.metadata.labels or {}).get("app") == "web"]
        for one in self._rng.sample(web, min(len(web), self._rng.randint(1, 4))):
            reference = {"reservationRef": {"namespace": "default", "name": name}}
            await self._it.move(one, f"{name}-{one.metadata.name}", reservationOptions=reference)

    async def steal(self) -> None:
        where = self._rng.choice(NODES)
        self._seats.room_taken_by_others(where)
        await self.create_foreign_pod(where, "1500m")

    async def give_back(self) -> None:
        for one in await self.foreign_pods():
            await self._it.delete(kinds.POD, one.metadata.name, grace_seconds=0)

    async def calm(self) -> None:
        """Everything that keeps moves from ending is over."""
        await asyncio.gather(*self._later)
        with suppress(ApiError):
            await self._it.go()
        await self.uncordon_nodes()
        await self.give_back()
        for job in (await self._it.client.list(kinds.POD_MIGRATION_JOB)).items:
            await self._it.patch(kinds.POD_MIGRATION_JOB, job.metadata.name, {"spec": {"paused": False}})


async def run(seed: int) -> Counter[str]:
    """Carry a run out; AssertionError where a promise is broken. Comes out how jobs ended."""
    rng, section = random.Random(seed), SECTION | SECTIONS[seed % len(SECTIONS)]
    at_once = 2 if seed % 4 == 3 else 1  # which leader election prevents, but for a moment
    books: list[Books] = []

    def audited(it: SimulatedCluster) -> Api:
        books.append(Books(it, section, alone=at_once == 1))
        return books[0].seats

    async with cluster_with_scheduler(nodes=len(NODES), seed=seed, around=audited) as it:
        await _begin(it)
        leaders = Leaders(it, books[0], section, rng, random_faults(rng))
        accidents = MoveAccidents(it, books[0].seats, leaders, random.Random(seed + 1), given=2 * (seed % 2))
        leading = asyncio.gather(*(leaders.run() for _ in range(at_once)))
        for _ in range(STEPS):
            await accidents.disrupt()
            await pass_time(rng.choice((0.0, 0.3, 1.0, 5.0, 15.0)))
            assert not leading.done(), leading.exception()
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
        await accidents.calm()
        leaders._plan = FaultPlan()
        await leaders.lead(None, 900)
        books[0].check()
        await _is_at_rest(it)
        jobs = (await it.client.list(kinds.POD_MIGRATION_JOB)).items
        ends = Counter(f"{job.status.phase} {job.status.reason or ''}".strip() for job in jobs)
        return ends + Counter(evictions=leaders.evictions, lives=leaders.lives)


async def _begin(it: MigrationCluster) -> None:
    await it.create(kinds.DEPLOYMENT, workload("web", 3, pods=template("500m", app="web")))
    await it.create(kinds.STATEFUL_SET, workload("db", 2, pods=template("700m", app="db")))
    await it.create(kinds.DEPLOYMENT, workload("api", 3, pods=template("400m", app="api")))
    for app, least in (("api", 2), ("db", 1)):
        spec = {"minAvailable": least, "selector": {"matchLabels": {"app": app}}}
        await it.create(kinds.POD_DISRUPTION_BUDGET, {"metadata": {"name": app, "namespace": "default"}, "spec": spec})
    await pass_time(10)


async def _is_at_rest(it: MigrationCluster) -> None:
    """Every job has ended and says why, no seat is held for no pod, workloads are whole, and no node has too much."""
    jobs = (await it.client.list(kinds.POD_MIGRATION_JOB)).items
    assert [job.metadata.name for job in jobs if not is_job_ended(job)] == []
    assert [job for job in jobs if not _is_explained(job.status)] == []
    held = [one for one in await it.reservations() if one.status.state.phase not in ("Succeeded", "Failed")]
    assert held == [], held
    pods: list[Pod] = await it.pods()
    staying = {one.metadata.uid for one in pods}
    for one in await it.reservations():
        of = next((job for job in jobs if is_made_for_job(one, job)), None)
        expired = one.status.state.reason == "Expired"
        kept = expired and of is not None and not is_evicting(of.status) and of.spec.pod_ref.uid in staying
        assert not kept, f"{one.metadata.name} was never released: {of}"
    assert all(map(is_pod_ready, pods)), [one.metadata.name for one in pods if not is_pod_ready(one)]
    web = (await it.document(kinds.DEPLOYMENT, "web"))["spec"]["replicas"]
    assert len(pods) == web + 5
    await assert_nothing_overcommitted(it)


def _is_explained(status: PodMigrationJobStatus) -> bool:
    """Whether a job says how it ended, and why if it was in vain, in the words of its last condition."""
    [told] = [one for one in status.conditions or () if one.type == JobConditionType.COMPLETE]
    said = (status.reason or "", status.message or "")
    in_words = bool(status.message) and (status.phase == JobPhase.SUCCEED or bool(status.reason))
    return in_words and said == (told.reason or "", told.message or "")


if __name__ == "__main__":
    run_seeds(run, "migration")
