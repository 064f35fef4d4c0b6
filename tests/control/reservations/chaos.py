"""One seeded run: reservations, pods that use them, the garbage collector, random disruptions, and schedulers that die,
lose their Lease and read stale data. After every write the promises hold (`write_auditor`), and a new leader would go
on correctly (`api_memory_auditor`).

    python -m tests.control.reservations.chaos 1000 [FILE]

carries out runs until so many seeds have passed; FILE holds how far it got, so that it can be ended and gone on with.
With PYTHONHASHSEED=0 a run goes the same way every time. RESTOW_WRITERS=1 lets pods be bound one at a time, so that
more happens while they are on their way.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from contextlib import suppress
from typing import Any, Protocol

from msgspec.structs import replace

from restow.client.fenced_api import Fenced
from restow.control.scheduler import Scheduler, SchedulerSettings
from restow.model import kinds
from restow.model.objects import Document, Pod
from restow.model.reservations.observed_spec import is_ended
from restow.model.reservations.reservation_annotations import migrating_pod
from restow.model.reservations.spec import seats_per_task
from restow.model.times import format_time
from restow.ports import Api, ApiError, Request, Response
from restow.sim.faults import FaultPlan, FaultyApi, run_until_crash
from restow.sim.write_log import is_write
from tests.control.random_disruptions import RandomDisruptions, run_seeds
from tests.control.reservations.api_memory_auditor import ApiMemoryAuditor
from tests.control.reservations.reservation_cluster import WEB, new_reservation, open_seats, running_garbage_collector
from tests.control.reservations.write_auditor import WriteAuditor
from tests.control.scheduler_cluster import nodes_by_pod, random_faults, unscheduled_cluster
from tests.sim.simulated_cluster import (
    SimulatedCluster,
    default_profile,
    node,
    pass_time,
    pod,
    running_scheduler,
    template,
)

NODES = ("n1", "n2", "n3")
STEPS = 25
SETTINGS = SchedulerSettings(
    binding_writers=int(os.environ.get("RESTOW_WRITERS", str(SchedulerSettings().binding_writers)))
)
OTHER = {"labelSelector": {"matchLabels": {"app": "other"}}}


class WriteFence:
    """Refuses the writes of a scheduler that no longer leads; it reads on, and does not know."""

    def __init__(self, api: Api) -> None:
        self.down = False
        self.watch = api.watch
        self._api = api

    async def call(self, request: Request) -> Response:
        if self.down and is_write(request):
            raise Fenced.because(403, "Fenced", "another scheduler leads")
        return await self._api.call(request)


class CountsLeaders(Api, Protocol):
    """An auditor that has to know which scheduler in a row writes."""

    leader_number: int


class SuccessiveLeaders:
    """One scheduler after the other: each dies after some write, or loses its Lease and goes on with what it knows."""

    def __init__(self, it: SimulatedCluster, api: CountsLeaders, rng: random.Random, plan: FaultPlan) -> None:
        self.lives = 0
        self._it = it
        self._api = api
        self._rng = rng
        self._plan = plan
        self._old: list[tuple[asyncio.Task[None], FaultyApi]] = []
        self._last: tuple[FaultyApi, WriteFence] | None = None
        self._made: Scheduler | None = None

    def leader(self) -> Scheduler | None:
        """The scheduler that leads, if one does and is alive."""
        if self._last is None:
            return None
        mortal, fence = self._last
        return None if mortal.crashed.is_set() or fence.down else self._made

    async def run(self) -> None:
        try:
            while True:
                await self._lead()
                await asyncio.sleep(self._rng.uniform(0, 2))
        finally:
            for _, mortal in self._old:
                mortal.crashed.set()
            await asyncio.gather(*(life for life, _ in self._old))

    async def _lead(self) -> None:
        self.lives += 1
        self._api.leader_number = self.lives
        fence = WriteFence(self._api)
        last = self._rng.randint(0, 40) if self._rng.random() < 0.7 else None
        mortal = FaultyApi(fence, random.Random(self._rng.getrandbits(32)), replace(self._plan, crash_after=last))
        self._last, self._made = (mortal, fence), None
        life = asyncio.create_task(run_until_crash(mortal, self._live(mortal)))
        self._old.append((life, mortal))
        try:
            await asyncio.wait((life,), timeout=self._rng.uniform(3, 40))
        finally:
            fence.down = True

    async def _live(self, api: Api) -> None:
        last = self._last
        async with running_scheduler(api, self._it.clock, seed=self.lives, settings=SETTINGS) as made:
            if last is self._last:
                self._made = made
            await asyncio.sleep(10_000)


class ReservationDisruptions(RandomDisruptions):
    def __init__(
        self, it: SimulatedCluster, auditor: WriteAuditor, rng: random.Random, *, foreign_pods_take_room: bool
    ) -> None:
        super().__init__(it, rng, NODES)
        self._it = it
        self._auditor = auditor
        self.all = [
            *[self.reserve] * 3,
            *[self.await_pods] * 2,
            self.reserve_for_move,
            self.delete_migrating_pod,
            *[self.create_consumer] * 8,
            self.create_other_pod,
            self.delete_pod,
            self.delete_pod,
            self.edit_templates,
            self.edit_replicas,
            self.edit_tasks,
            self.edit_owners,
            self.edit_expiry,
            self.delete_reservation,
            self.cordon_node,
            self.uncordon_nodes,
            self.recreate_node,
        ]
        if foreign_pods_take_room:
            self.all += [self.take_reserved_room, self.take_reserved_room, self.delete_foreign_pod]

    async def disrupt(self) -> None:
        await super().disrupt()
        await self._auditor.note_specs()

    def _cpu(self) -> str:
        return self._rng.choice(("500m", "1", "1500m"))

    async def reserve(self) -> None:
        terms = {"ttl": self._rng.choice(("10s", "30s", "300s"))} if self._rng.random() < 0.6 else {}
        replicas = self._rng.randint(1, 3)
        least = self._rng.randint(1, replicas)
        made = new_reservation(f"r{self._made % 7}", replicas, self._cpu(), minAvailable=least, **terms)
        await self._it.create(kinds.RESERVATION, made)

    async def await_pods(self) -> None:
        """A reservation that counts on room which pods are to leave; they may stay."""
        where = self._rng.choice(NODES)
        there = [one.metadata.uid for one in await self._it.pods() if one.spec.node_name == where]
        awaited = [uid for uid in there if self._rng.random() < 0.8]
        made = new_reservation(f"r{self._made % 7}", 1, self._rng.choice(("3", "4")), ttl="60s")
        made["metadata"]["annotations"] = {"restow.sh/awaits": ",".join(awaited)}
        made["spec"]["tasks"][0]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": where}
        await self._it.create(kinds.RESERVATION, made)

    async def reserve_for_move(self) -> None:
        """A seat for a pod that is to be evicted."""
        migrating = self._rng.choice([one for one in await self._it.pods() if one.spec.node_name])
        made = new_reservation(f"r{self._made % 7}", 1, self._cpu(), ttl="60s")
        made["metadata"]["annotations"] = {"restow.sh/migrating": migrating.metadata.uid}
        await self._it.create(kinds.RESERVATION, made)

    async def delete_migrating_pod(self) -> None:
        """Delete a pod that a reservation was made to move."""
        found = (await self._it.client.list(kinds.RESERVATION)).items
        migrating_uids = {migrating_pod(one) for one in found if not is_ended(one)}
        one = self._rng.choice([one for one in await self._it.pods() if one.metadata.uid in migrating_uids])
        await self._it.delete(kinds.POD, one.metadata.name, grace_seconds=self._rng.choice((0, 10)))

    async def create_consumer(self) -> None:
        """A pod that may consume a seat; some of them are soon done."""
        made = pod(f"web{self._made}", self._cpu())
        if self._rng.random() < 0.2:
            made["metadata"]["annotations"] = {"sim.restow.sh/run-seconds": self._rng.choice(("0", "2", "10"))}
            made["spec"]["restartPolicy"] = "Never"
        await self._it.create(kinds.POD, made)

    async def create_other_pod(self) -> None:
        await self._it.create(kinds.POD, pod(f"other{self._made}", self._cpu(), app="other"))

    # --- changes to reservations --------------------------------------------------------------------------------------

    async def edit_templates(self) -> None:
        """Other templates, and perhaps more or fewer seats of them."""
        await self._edit(tasks=[self._task("web")], minAvailable=1)

    async def edit_replicas(self) -> None:
        """More or fewer seats of the same kind, or none at all."""
        name = await self._live()
        tasks = (await self._it.document(kinds.RESERVATION, name))["spec"]["tasks"]
        tasks[0]["replicas"] = self._rng.randint(0, 4)
        changes = {"tasks": tasks, "minAvailable": self._rng.choice((1, None))}
        await self._it.patch(kinds.RESERVATION, name, {"spec": changes})

    async def edit_tasks(self) -> None:
        """Other tasks instead of those there are, or beside them."""
        names = self._rng.choice((("web",), ("db",), ("web", "db")))
        await self._edit(tasks=[self._task(name) for name in names], minAvailable=1)

    async def edit_owners(self) -> None:
        """Other owners, more owners, or none."""
        await self._edit(owners=self._rng.choice(([WEB], [OTHER], [WEB, OTHER], [])))

    async def edit_expiry(self) -> None:
        """Another end: soon, later, never, or in the past."""
        if self._rng.random() < 0.5:
            await self._edit(ttl=self._rng.choice(("0s", "1s", "20s", "120s", None)))
        else:
            when = self._it.clock.now() + self._rng.choice((-60, 1, 5, 60))
            await self._edit(ttl=None, expires=self._rng.choice((format_time(when), None)))

    def _task(self, name: str) -> Document:
        return {"name": name, "replicas": self._rng.randint(1, 3), "template": template(self._cpu())}

    async def _edit(self, **spec: Any) -> None:
        await self._it.patch(kinds.RESERVATION, await self._live(), {"spec": spec})

    async def delete_reservation(self) -> None:
        await self._it.delete(kinds.RESERVATION, await self._any())

    async def take_reserved_room(self) -> None:
        """Let a foreign pod take the room of a seat, if there is one."""
        found = (await self._it.client.list(kinds.RESERVATION)).items
        held = sorted({node for one in found for _, _, node in open_seats(one)}) or NODES
        where, cpu = self._rng.choice(held), self._rng.choice(("500m", "1500m", "3"))
        self._auditor.room_taken_by_others(where)
        await self.create_foreign_pod(where, cpu)

    async def _any(self) -> str:
        found = (await self._it.client.list(kinds.RESERVATION)).items
        return self._rng.choice(sorted(one.metadata.name for one in found))

    async def _live(self) -> str:
        """The name of a reservation, most often of one that has not ended."""
        found = (await self._it.client.list(kinds.RESERVATION)).items
        live = sorted(one.metadata.name for one in found if not is_ended(one))
        return self._rng.choice(live) if live and self._rng.random() < 0.9 else await self._any()


async def run(seed: int) -> Counter[str]:
    """Carry out one run; raises AssertionError where a promise is broken."""
    rng = random.Random(seed)
    foreign_pods = rng.random() < 0.5
    plan = random_faults(rng, most=0.2, timely=foreign_pods)
    async with (
        unscheduled_cluster(nodes=len(NODES), seed=seed) as it,
        running_garbage_collector(it, FaultyApi(it.api, random.Random(seed + 2), plan), gcDuration="20s"),
    ):
        auditor = WriteAuditor(it.api, it.clock, namespace_share=SETTINGS.namespace_share, statuses_only=True)
        memory = ApiMemoryAuditor(it.api, it.clock, profile=default_profile(), settings=SETTINGS)
        leaders = SuccessiveLeaders(it, auditor, rng, plan)
        memory.leader = leaders.leader
        leading = asyncio.create_task(leaders.run())
        accidents = ReservationDisruptions(it, auditor, random.Random(seed + 1), foreign_pods_take_room=foreign_pods)
        for _ in range(STEPS):
            await accidents.disrupt()
            await pass_time(rng.choice((0.0, 0.05, 0.5, 3.0, 8.0)))
            assert not leading.done(), leading.exception()
            assert not auditor.faults, auditor.faults
            assert not memory.faults, memory.faults
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
        auditor.leader_number += 1
        async with running_scheduler(auditor, it.clock, seed=99, settings=SETTINGS) as last:
            memory.leader = lambda: last
            await pass_time(20)
            await _is_at_rest(it, auditor)
            await _is_up_to_date(memory)
            await _all_room_is_free_at_the_end(it)
        assert not auditor.faults, auditor.faults
        assert not memory.faults, memory.faults
    return Counter(audits=auditor.audits) + memory.counts


async def _is_at_rest(it: SimulatedCluster, auditor: WriteAuditor) -> None:
    """All consumption is recorded, what is over has ended, and every status says what it is."""
    assert await auditor.shortages() == {} or any(one.metadata.name.startswith("foreign") for one in await it.pods())
    for one in (await it.client.list(kinds.RESERVATION)).items:
        state = one.status.state
        assert state.phase and state.message and (state.reason or state.phase == "Succeeded"), one
        assert one.status.observed_generation == one.metadata.generation or one.status.state.phase in (
            "Succeeded",
            "Failed",
        ), one
    for each in await it.pods():
        annotations = each.metadata.annotations or {}
        named = annotations.get("restow.sh/reservation")
        if named is not None:
            await _consumption_is_recorded(it, named, each)


async def _is_up_to_date(memory: ApiMemoryAuditor) -> None:
    """What a new leader would write is written soon; a pod may have come just now."""
    memory.audit("at rest")
    due = memory.due
    await pass_time(5)
    memory.audit("at rest")
    assert not due & memory.due, due & memory.due


async def _consumption_is_recorded(it: SimulatedCluster, seat: str, pod: Pod) -> None:
    _, _, task, index = seat.split("/")
    reservation_uid = (pod.metadata.annotations or {})["restow.sh/reservation-uid"]
    for one in (await it.client.list(kinds.RESERVATION)).items:
        if one.metadata.uid != reservation_uid:
            continue
        placements = {(each.task, each.index): each.pod_ref for each in one.status.placements or ()}
        is_asked_for = int(index) < seats_per_task(one).get(task, 0) and not is_ended(one)
        if is_asked_for or (task, int(index)) in placements:  # a change to the reservation may have released it
            reference = placements.get((task, int(index)))
            assert reference is not None and reference.uid == pod.metadata.uid, (seat, pod.metadata.uid, one.status)


async def _all_room_is_free_at_the_end(it: SimulatedCluster) -> None:
    """Once all objects are gone, all room is free."""
    for one in (await it.client.list(kinds.RESERVATION)).items:
        await it.delete(kinds.RESERVATION, one.metadata.name)
    for each in await it.pods():
        await it.delete(kinds.POD, each.metadata.name, grace_seconds=0)
    for name in NODES:
        with suppress(ApiError):
            await it.create(kinds.NODE, node(name))
        await it.patch(kinds.NODE, name, {"spec": {"unschedulable": None, "taints": None}})
        await it.create(kinds.POD, pod(f"whole-{name}", "4", app="other"))
    await pass_time(30)
    where = await nodes_by_pod(it)
    assert sorted(str(one) for one in where.values()) == list(NODES), where


if __name__ == "__main__":
    run_seeds(run, "reservation")
