"""A guarantee on a real control plane: locked, kept from others, cleared, released; and what is refused at the door."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from e2e.audit import audit
from e2e.cluster import deployment, eventually, fake_node, following, reaches, running, together
from e2e.running import LEASES, refusals, restow
from restow.client.informer import Informer
from restow.client.verbs import Client
from restow.migration.conditions import is_ended
from restow.model.kinds import CONFIG_MAP, DEPLOYMENT, NODE, POD_MIGRATION_JOB, QUEUE
from restow.model.objects import Document, JobPhase, Pod, Queue
from restow.model.pods import condition
from restow.ports import Forbidden, Invalid
from restow.queues.admission import CEILINGS

SCHEDULER = "restow-queues"
CONFIGURATION = f"""
scheduler: {{schedulerNames: [{SCHEDULER}]}}
migration:
  maxMigratingPerNode: 0
  objectLimiters: {{workload: {{duration: 0s}}}}
queues: {{relockPeriod: 1s}}
"""
ROOM = {"cpu": "8", "memory": "32Gi", "pods": "110", "example.org/slots": "4"}


def slotted(name: str, pool: str) -> Document:
    """A node that has what no other has, so that only these nodes are locked."""
    made = fake_node(name, pool=pool)
    made["status"] = {"capacity": ROOM, "allocatable": ROOM}
    return made


def ours(name: str, namespace: str, replicas: int, pool: str, **annotations: str) -> Document:
    made = deployment(name, namespace, replicas, cpu="500m")
    made["spec"]["template"]["metadata"]["annotations"] = annotations
    made["spec"]["template"]["spec"] |= {"schedulerName": SCHEDULER, "nodeSelector": {"pool": pool}}
    return made


def queue(name: str, **spec: Any) -> Document:
    return {"metadata": {"name": name}, "spec": spec}


def locked(queues: Informer[Queue], name: str) -> list[str]:
    found = queues.get(name)
    reservation = found.status.reservation if found else None
    return (reservation.nodes or []) if reservation else []


def stands(queues: Informer[Queue], name: str) -> str:
    found = queues.get(name)
    said = condition(found.status.conditions, "GuaranteeSatisfied") if found else None
    return said.status if said else ""


def on(pods: Informer[Pod], nodes: list[str], app: str) -> int:
    return sum(pod.spec.node_name in nodes and (pod.metadata.labels or {}).get("app") == app for pod in pods)


async def refusal(client: Client, document: Document, seconds: int = 10) -> str:
    """What an API server says to a queue; a policy that was just made is heeded after a moment."""
    for _ in range(10 * seconds):
        try:
            await client.create(QUEUE, document, dry_run=True)
        except (Invalid, Forbidden) as error:
            return str(error)
        await asyncio.sleep(0.1)
    return ""


@pytest.mark.timeout(300)
async def test_a_guarantee_is_locked_kept_cleared_and_released(
    client: Client, namespace: str, account: Path, tmp_path: Path
) -> None:
    names = [f"{namespace}-{number}" for number in range(4)]
    mine = f"q-{namespace}"
    await together(client.create(NODE, slotted(name, namespace)) for name in names)
    async with (
        audit(client, namespace) as seen,
        following(Informer(client, QUEUE, rng=Random(1))) as queues,
    ):
        with restow(account, tmp_path, "queues", CONFIGURATION, lease="15s") as process:
            await client.create(DEPLOYMENT, ours("web", namespace, 8, namespace))
            await reaches(lambda: running(seen.pods), 8, "running pods", 120)

            # Best-Effort: nodes are locked, nobody is evicted
            await client.create(QUEUE, queue(mine, guarantee={"resource": {"example.org/slots": "8"}}))
            await reaches(lambda: len(locked(queues, mine)), 2, "locked nodes")
            await eventually(lambda: stands(queues, mine) == "True", "the guarantee is satisfied")
            nodes = locked(queues, mine)
            before = on(seen.pods, nodes, "web")

            # others stay off, the queue's own pods may come
            await client.patch(DEPLOYMENT, "web", {"spec": {"replicas": 12}}, namespace)
            await reaches(lambda: running(seen.pods), 12, "running pods", 120)
            assert on(seen.pods, nodes, "web") <= before
            await client.create(
                DEPLOYMENT, ours("own", namespace, 4, namespace, **{"scheduling.volcano.sh/queue-name": mine})
            )
            await reaches(lambda: running(seen.pods), 16, "running pods", 120)
            assert not list(seen.jobs)

            # Guaranteed: those who are there leave, seat first
            await client.patch(QUEUE, mine, {"spec": {"guarantee": {"policy": "Guaranteed"}}})
            await reaches(lambda: on(seen.pods, locked(queues, mine), "web"), 0, "pods of others on locked nodes", 180)
            await reaches(lambda: running(seen.pods), 16, "running pods", 120)
            await eventually(lambda: all(map(is_ended, seen.jobs)), "jobs that have ended")
            jobs = list(seen.jobs)
            assert {job.status.phase for job in jobs} <= {JobPhase.SUCCEED, JobPhase.ABORTED} and jobs
            assert {(job.metadata.labels or {}).get("restow.sh/queue") for job in jobs} == {mine}

            # deleted: the nodes are everybody's at once
            nodes = locked(queues, mine)
            await client.delete(QUEUE, mine)
            await client.patch(DEPLOYMENT, "web", {"spec": {"replicas": 40}}, namespace)
            await reaches(lambda: running(seen.pods), 44, "running pods", 120)
            assert on(seen.pods, nodes, "web") > 0
            assert process.poll() is None
        assert seen.faults(least=6, per_node=None) == []
    assert refusals(tmp_path) == []
    await together(client.delete(POD_MIGRATION_JOB, job.metadata.name) for job in jobs)
    await together(client.delete(NODE, name) for name in names)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        pytest.param(
            {"guarantee": {"percentage": {"value": 0.6}}},
            "spec.guarantee.percentage.value: 0.6 is above the ceiling of 50% of the cluster for queue",
            id="a share above the ceiling",
        ),
        pytest.param(
            {"guarantee": {"resource": {"cpu": "4", "memory": 1}}, "capability": {"cpu": "2", "memory": "1Gi"}},
            "the guarantee is more than the queue's capability: cpu (asked 4, capability 2)",
            id="more than its capability",
        ),
        pytest.param(
            {"guarantee": {"resource": {"cpu": "-1"}}},
            "spec.guarantee.resource: expected quantities that are not negative, got cpu -1",
            id="a negative amount",
        ),
        pytest.param({"guarantee": {"percentage": {"value": 1.5}}}, "1.5", id="more than everything"),
        pytest.param({"guarantee": {"percentage": {}}}, "got nothing", id="a percentage of nothing"),
        pytest.param({"guarantee": {"policy": "Perhaps"}}, "Perhaps", id="a policy that does not exist"),
    ],
)
async def test_a_queue_that_asks_for_too_much_is_refused(
    client: Client, account: Path, namespace: str, spec: Document, told: str
) -> None:
    assert told in await refusal(client, queue(f"q-{namespace}", **spec))


async def test_what_is_refused_at_the_door_follows_the_configuration_and_the_cluster(
    client: Client, account: Path, namespace: str, tmp_path: Path
) -> None:
    slots, mine = f"example.org/{namespace}", f"q-{namespace}"
    room = {**ROOM, slots: "8"}
    node = {**fake_node(namespace, pool=namespace), "status": {"capacity": room, "allocatable": room}}
    half = queue(mine, guarantee={"resource": {slots: "4"}})
    await client.create(NODE, node)
    with restow(account, tmp_path, "door", CONFIGURATION.replace("1s", f"1s, maxGuaranteed: {{{slots}: 25}}")):
        told = await refusal(client, half, 90)  # whoever was killed before may still have its lease
        assert f"the guarantee is above the ceiling for queue {mine}: {slots} (asked 4, limit 2)" in told
        (tmp_path / "restow.yaml").write_text(CONFIGURATION)
        await eventually_let_in(client, half)
        assert f"{slots} (asked 5, limit 4)" in await refusal(client, queue(mine, guarantee={"resource": {slots: "5"}}))
    assert refusals(tmp_path) == []
    await client.delete(NODE, namespace)


async def test_a_share_that_is_the_ceiling_is_not_above_it(client: Client, account: Path, namespace: str) -> None:
    mine = f"q-{namespace}"
    await client.patch(CONFIG_MAP, CEILINGS, {"data": {f"share_{mine}": "7"}}, LEASES)
    told = await refusal(client, queue(mine, guarantee={"percentage": {"value": 0.0701}}))
    assert "0.0701 is above the ceiling of 7%" in told
    await client.create(QUEUE, queue(mine, guarantee={"percentage": {"value": 0.07}}), dry_run=True)


async def eventually_let_in(client: Client, document: Document) -> None:
    for _ in range(300):
        try:
            await client.create(QUEUE, document, dry_run=True)
        except (Invalid, Forbidden):
            await asyncio.sleep(0.1)
        else:
            return
    raise AssertionError("it is still refused")


async def test_a_queue_that_asks_for_what_it_may_is_let_in(client: Client, account: Path, namespace: str) -> None:
    name = f"q-{namespace}"
    fair = {"policy": "Guaranteed", "percentage": {"dimensions": ["cpu"], "value": 0.5}, "resource": {"cpu": 1}}
    await client.create(QUEUE, queue(name, guarantee=fair, capability={"cpu": "1"}))
    await client.patch(QUEUE, name, {"spec": {"weight": 3}})
    await client.patch(QUEUE, name, {"spec": {"guarantee": None}})
    await client.delete(QUEUE, name)
