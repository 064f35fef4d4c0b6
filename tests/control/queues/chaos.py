"""One seeded run: queues that come, change and go, nodes likewise, and queue controllers that die and misread.

    python -m tests.control.queues.chaos 500 [FILE]

carries out runs until so many seeds have passed; FILE holds how far it got, so that it can be ended and gone on with.
With PYTHONHASHSEED=0 a run goes the same way every time.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from typing import Any

from restow.migration.conditions import is_job_ended
from restow.model import kinds
from restow.model.quantity import quantity_of
from restow.model.resources import parse_amounts, pod_requests
from restow.ports import Api, ApiError
from restow.queues.admission_policies import CEILINGS_NAME
from restow.queues.node_locks import locks_in_status
from tests.control.migrations.migration_cluster import SYSTEM, running_controller
from tests.control.queues.auditor import CEILING, Auditor, Scheduling
from tests.control.queues.queue_controller_fixture import (
    QueueCluster,
    queue_annotation,
    queue_controller,
    queue_document,
)
from tests.control.random_disruptions import RandomDisruptions, run_seeds
from tests.control.reservations.chaos import SuccessiveLeaders
from tests.control.scheduler_cluster import assert_nothing_overcommitted, random_faults, unscheduled_cluster
from tests.sim.simulated_cluster import (
    is_pod_ready,
    pass_time,
    pod,
    running_component,
    running_scheduler,
    template,
    workload,
)

NODES = ("n1", "n2", "n3", "n4", "n5")
NAMES = ("q1", "q2", "q3")
STEPS = 20
LIMITS: dict[str, Any] = {"maxGuaranteed": CEILING, "maxGuaranteedPerQueue": CEILING}


class QueueLeaders(SuccessiveLeaders):
    async def _live(self, api: Api) -> None:
        async with running_component(queue_controller(api, self._it.clock, seed=self.lives, **LIMITS)):
            await asyncio.sleep(10_000)


class QueueAccidents(RandomDisruptions):
    def __init__(self, it: QueueCluster, auditor: Auditor, rng: random.Random) -> None:
        super().__init__(it, rng, NODES)
        self._it = it
        self._auditor = auditor
        about_queues = [self.ask, self.ask, self.ask, self.change, self.edit, self.take_back, self.delete, self.close]
        about_nodes = [self.cordon, self.uncordon, self.lose_node, self.resize, self.taint, self.untaint]
        about_pods = [self.own, self.own, self.grow, self.delete_pod, it.stop, it.go]
        self.all = [*about_queues, *about_nodes, *about_pods, self.meddle]

    def _guarantee(self) -> dict[str, Any]:
        found: dict[str, Any] = {"policy": self._rng.choice(("Best-Effort", "Guaranteed", "Guaranteed"))}
        if self._rng.random() < 0.3:
            found["percentage"] = {"value": self._rng.choice((0.0, 0.2, 0.4, 1.0))}
        else:
            found["resource"] = {"cpu": self._rng.choice(("1", "3", "4", "6", "9"))}
        return found

    async def ask(self) -> None:
        self._auditor.queues_changed = self._it.clock.now()
        made = queue_document(self._rng.choice(NAMES), guarantee=self._guarantee(), weight=self._rng.randint(1, 3))
        await self._it.create(kinds.QUEUE, made)

    async def change(self) -> None:
        self._auditor.queues_changed = self._it.clock.now()
        spec = {"guarantee": {"resource": None, "percentage": None, **self._guarantee()}}
        await self._it.patch(kinds.QUEUE, self._rng.choice(NAMES), {"spec": spec})

    async def edit(self) -> None:
        self._auditor.queues_changed = self._it.clock.now()
        edits: list[dict[str, Any]] = [{"weight": 9}, {"priority": 1}, {"priority": 0}, {"capability": {"cpu": "5"}}]
        await self._it.patch(kinds.QUEUE, self._rng.choice(NAMES), {"spec": self._rng.choice(edits)})

    async def take_back(self) -> None:
        self._auditor.queues_changed = self._it.clock.now()
        await self._it.patch(kinds.QUEUE, self._rng.choice(NAMES), {"spec": {"guarantee": None}})

    async def delete(self) -> None:
        self._auditor.queues_changed = self._it.clock.now()
        await self._it.delete(kinds.QUEUE, self._rng.choice(NAMES))

    async def close(self) -> None:
        self._auditor.queues_changed = self._it.clock.now()
        state = self._rng.choice(("Closed", "Open", "Open"))
        name = self._rng.choice(NAMES)
        await self._it.client.patch(kinds.QUEUE, name, {"status": {"state": state}}, subresource="status")

    async def cordon(self) -> None:
        self._auditor.nodes_changed = self._it.clock.now()
        await super().cordon_node()

    async def uncordon(self) -> None:
        self._auditor.nodes_changed = self._it.clock.now()
        await super().uncordon_nodes()

    async def lose_node(self) -> None:
        await super().recreate_node()
        self._auditor.nodes_changed = self._it.clock.now()

    async def taint(self) -> None:
        self._auditor.nodes_changed = self._it.clock.now()
        taints = [{"key": "example.org/mine", "effect": "NoSchedule"}]
        await self._it.patch(kinds.NODE, self._rng.choice(NODES), {"spec": {"taints": taints}})

    async def untaint(self) -> None:
        self._auditor.nodes_changed = self._it.clock.now()
        for name in NODES:
            await self._it.patch(kinds.NODE, name, {"spec": {"taints": None}})

    async def resize(self) -> None:
        self._auditor.nodes_changed = self._it.clock.now()
        name, cpu = self._rng.choice(NODES), self._rng.choice(("4", "6"))
        used = sum(pod_requests(one)["cpu"] for one in await self._it.pods_on(name))
        room = {
            "cpu": cpu if used <= 3000 else "6",
            "memory": "16Gi",
            "pods": "110",
        }  # also for pods that are on their way
        status = {"capacity": room, "allocatable": room}
        await self._it.client.patch(kinds.NODE, name, {"status": status}, subresource="status")

    async def own(self) -> None:
        cpu = self._rng.choice(("500m", "1"))
        await self._it.create(
            kinds.POD, pod(f"own{self._made}", cpu, annotations=queue_annotation(self._rng.choice(NAMES)))
        )

    async def meddle(self) -> None:
        data = {"share_": "100", "share_q1": "100", "amount__cpu": None}
        await self._it.client.patch(kinds.CONFIG_MAP, CEILINGS_NAME, {"data": data}, SYSTEM)

    async def grow(self) -> None:
        await self.scale_workload(2, 6)


async def run(seed: int) -> Counter[str]:
    """Carry a run out; AssertionError where a promise is broken."""
    rng = random.Random(seed)
    plan = random_faults(rng)
    async with unscheduled_cluster(nodes=len(NODES), seed=seed) as base:
        it = QueueCluster(base.api, base.world, base.clock)
        await it.create(kinds.NAMESPACE, {"metadata": {"name": SYSTEM}})
        auditor = Auditor(it.api, it.clock)
        async with (
            running_scheduler(Scheduling(it.api, auditor), it.clock, seed=seed),
            running_controller(it.api, it.clock, seed=seed),
        ):
            await _furnish(it)
            leading = asyncio.create_task(QueueLeaders(it, auditor, rng, plan).run())
            accidents = QueueAccidents(it, auditor, random.Random(seed + 1))
            for _ in range(STEPS):
                await accidents.disrupt()
                await pass_time(rng.choice((0.0, 0.05, 0.5, 3.0, 8.0, 20.0, 60.0)))
                assert not leading.done(), leading.exception()
                assert not auditor.faults, auditor.faults
            leading.cancel()
            await asyncio.gather(leading, return_exceptions=True)
            auditor.leader_number += 1
            await _comes_to_rest(it, auditor)
        assert not auditor.faults, auditor.faults
    return Counter(audits=auditor.audits, jobs=auditor.jobs)


async def _furnish(it: QueueCluster) -> None:
    await it.create(kinds.DEPLOYMENT, workload("web", 5, pods=template("700m", app="web")))
    await it.create(
        kinds.DEPLOYMENT, workload("batch", 2, pods=template("300m", app="batch", annotations=queue_annotation("q2")))
    )
    await it.create(kinds.CONFIG_MAP, {"metadata": {"name": CEILINGS_NAME, "namespace": SYSTEM}, "data": {}})
    await it.create(kinds.DAEMON_SET, workload("agent", None, pods=template("100m", app="agent")))
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    await it.create(kinds.POD_DISRUPTION_BUDGET, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
    await pass_time(10)


async def _comes_to_rest(it: QueueCluster, auditor: Auditor) -> None:
    """Left alone, locks stay as they are, guarantees are kept or say why not, and nothing is left of what is over."""
    with suppress(ApiError):
        await it.go()
    async with running_component(queue_controller(auditor, it.clock, seed=99, **LIMITS)):
        await pass_time(1000)
        await auditor.audit(settled=True)
        before = await _shown(it)
        await pass_time(60)
        assert await _shown(it) == before, "equal alternatives flap"
        for one in (await it.client.list(kinds.QUEUE)).items:
            told = {each.type: each.status for each in one.status.conditions or ()}
            asks = one.spec.guarantee is not None and one.status.state == "Open"
            assert bool(told) == asks, one
            assert (told.get("Rejected") == "False") == (one.status.reservation is not None), one
        await _clears(it)
        await _admission_parameters_agree(it)
        for one in (await it.client.list(kinds.QUEUE)).items:
            await it.delete(kinds.QUEUE, one.metadata.name)
        await pass_time(400)
        assert [job.metadata.name for job in await it.jobs() if not is_job_ended(job)] == []
        held = [one for one in await it.reservations() if one.status.state.phase not in ("Succeeded", "Failed")]
        assert held == [], held
        await assert_nothing_overcommitted(it)


async def _clears(it: QueueCluster) -> None:
    """Whoever could leave the nodes of a Guaranteed queue has left, or is kept by a limit that is told."""
    for one in (await it.client.list(kinds.QUEUE)).items:
        guarantee, lock = one.spec.guarantee, one.status.reservation
        if guarantee is None or guarantee.policy != "Guaranteed" or lock is None:
            continue
        others = [
            each
            for each in await it.pods_on(*(lock.nodes or ()))
            if (each.metadata.annotations or {}).get("scheduling.volcano.sh/queue-name", "default") != one.metadata.name
            and (each.metadata.labels or {}).get("app") != "agent"
            and is_pod_ready(each)
        ]
        message = (await it.condition_of(one.metadata.name))[2] or ""
        assert not others or "waits for" in message, (message, [each.metadata.name for each in others])


async def _admission_parameters_agree(it: QueueCluster) -> None:
    """What is shown to the API server is what conditions say: how much there is, and how much others have."""
    nodes, queues = (await it.client.list(kinds.NODE)).items, (await it.client.list(kinds.QUEUE)).items
    limit = sum(parse_amounts(one.status.allocatable)["cpu"] for one in nodes) * CEILING // 100
    shown = (await it.client.get(kinds.CONFIG_MAP, CEILINGS_NAME, SYSTEM)).data or {}
    expected = {"share_": str(CEILING), "nodes": str(len(nodes)), "amount__cpu": str(quantity_of("cpu", limit))}
    assert shown | expected == shown and "share_q1" not in shown, shown
    accepted = {f"left_{one.metadata.name}" for one in queues if one.status.accepted_guarantee is not None}
    assert accepted == {key for key in shown if key.startswith("left_") and key.count("_") == 1}, shown


async def _shown(it: QueueCluster) -> dict[str, tuple[str, ...]]:
    return locks_in_status((await it.client.list(kinds.QUEUE)).items)


if __name__ == "__main__":
    run_seeds(run, "queue")
