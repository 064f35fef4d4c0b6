"""A guarantee on a real control plane: nodes locked, kept from others, cleared, released; and refusals by admission."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from e2e.audit import audit
from e2e.cluster import deployment, eventually, fake_node, following, reaches, running, together
from e2e.restow_process import LEASES, refusals, restow
from restow.client.informer import Informer
from restow.client.requests import resource_of
from restow.client.verbs import Client
from restow.migration.conditions import is_job_ended
from restow.model.guarantees import ClusterCapacity
from restow.model.kinds import CONFIG_MAP, DEPLOYMENT, NODE, QUEUE
from restow.model.objects import Document, JobPhase, Pod, Queue
from restow.model.pods import find_condition
from restow.ports import MERGE_PATCH, Forbidden, Invalid, Request
from restow.queues.admission_parameters import AcceptedGuarantee, admission_parameters
from restow.queues.admission_policies import CEILINGS_NAME
from restow.queues.guarantee_ceilings import GuaranteeCeilings

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


async def dry_run_patch(client: Client, name: str, changes: Document) -> None:
    """Validate a change of a queue without storing it. Raises ApiError."""
    body, query = msgspec.json.encode(changes), {"dryRun": "All"}
    resource = resource_of(QUEUE)
    request = Request(verb="patch", resource=resource, name=name, query=query, content_type=MERGE_PATCH, body=body)
    await client.api.call(request)


def locked(queues: Informer[Queue], name: str) -> list[str]:
    shown = queues.get(name)
    reservation = shown.status.reservation if shown else None
    return (reservation.nodes or []) if reservation else []


def stands(queues: Informer[Queue], name: str) -> str:
    shown = queues.get(name)
    said = find_condition(shown.status.conditions, "GuaranteeSatisfied") if shown else None
    return said.status if said else ""


def on(pods: Informer[Pod], nodes: list[str], app: str) -> int:
    return sum(pod.spec.node_name in nodes and (pod.metadata.labels or {}).get("app") == app for pod in pods)


async def refusal(client: Client, document: Document, seconds: int = 10) -> str:
    """What an API server says to a queue; a policy that was just made is heeded after a moment."""
    for _ in range(10 * seconds + 1):
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

            # Best-Effort: nodes are locked, no pods are evicted
            promised = queue(mine, guarantee={"resource": {"example.org/slots": "8"}})
            await eventually_admitted(
                client, promised
            )  # a process that was killed before may still have the Lease; its figures stay
            await client.create(QUEUE, promised)
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

            # Guaranteed: the pods of others on the nodes move away, seat first
            await client.patch(QUEUE, mine, {"spec": {"guarantee": {"policy": "Guaranteed"}}})
            await reaches(lambda: on(seen.pods, locked(queues, mine), "web"), 0, "pods of others on locked nodes", 180)
            await reaches(lambda: running(seen.pods), 16, "running pods", 120)
            await eventually(lambda: all(map(is_job_ended, seen.jobs)), "jobs that have ended")
            jobs = list(seen.jobs)
            assert {job.status.phase for job in jobs} <= {JobPhase.SUCCEED, JobPhase.ABORTED} and jobs
            assert {(job.metadata.labels or {}).get("restow.sh/queue") for job in jobs} == {mine}

            # deleted: all pods may use the nodes again at once
            nodes = locked(queues, mine)
            await client.delete(QUEUE, mine)
            await client.patch(DEPLOYMENT, "web", {"spec": {"replicas": 40}}, namespace)
            await reaches(lambda: running(seen.pods), 44, "running pods", 120)
            assert on(seen.pods, nodes, "web") > 0
            assert process.poll() is None
        assert seen.faults(least=6, per_node=None) == []
    assert refusals(tmp_path) == []


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "more than its capability": (
        {"guarantee": {"resource": {"cpu": "4", "memory": 1}}, "capability": {"cpu": "2", "memory": "1Gi"}},
        "the guarantee is more than the queue's capability: cpu (asked 4, capability 2)",
    ),
    "a negative amount": (
        {"guarantee": {"resource": {"cpu": "-1"}}},
        "spec.guarantee.resource: expected quantities that are not negative, got cpu -1",
    ),
    "more than everything": ({"guarantee": {"percentage": {"value": 1.5}}}, "1.5"),
    "a percentage of nothing": ({"guarantee": {"percentage": {}}}, "got nothing"),
    "a policy that does not exist": ({"guarantee": {"policy": "Perhaps"}}, "Perhaps"),
}
"""What is wrong in itself, and what is said of it."""


async def test_queue_with_invalid_fields_is_refused(client: Client, account: Path, namespace: str) -> None:
    heard = {id: await refusal(client, queue(f"q-{namespace}", **spec)) for id, (spec, _) in WRONG.items()}
    assert [id for id, (_, told) in WRONG.items() if told not in heard[id]] == [], heard


# --- what the API server knows of the cluster and of other guarantees -------------------------------------------------

SOME = {"cpu": 80_000, "memory": 320 * 2**30, "example.org/slots": 8}
PROMISES = [
    AcceptedGuarantee("old", 0, {"cpu": 24_000}),
    AcceptedGuarantee("first", 9, {"cpu": 8_000}),
]
"""Of 80 cores on ten nodes 40 may be guaranteed: 8 are left to a newcomer, 32 to one that comes before `old`."""


def amounts(**spec: Any) -> Document:
    return {"guarantee": {"resource": {name.replace("_", "/"): text for name, text in spec.items()}}}


def share(value: float, **resource: str) -> Document:
    return {"guarantee": {"percentage": {"value": value}, **({"resource": resource} if resource else {})}}


REFUSED_GUARANTEES: dict[str, tuple[str, Document, str]] = {
    "amounts the cluster does not have": (
        "new",
        amounts(cpu="81", memory="1Gi"),
        "the guarantee is more than the cluster has: cpu (asked 81, total 80)",
    ),
    "what no node has": (
        "new",
        amounts(**{"example.org_moons": "1"}),
        "the guarantee is more than the cluster has: example.org/moons (asked 1, total 0)",
    ),
    "nothing of what no node has": ("new", amounts(**{"example.org_moons": "0"}), ""),
    "amounts above the ceiling of a queue": (
        "new",
        amounts(cpu="1", **{"example.org_slots": "5"}),
        "the guarantee is above the ceiling for queue new: example.org/slots (asked 5, limit 4)",
    ),
    "amounts above its own ceiling": (
        "small",
        amounts(cpu="9"),
        "the guarantee is above the ceiling for queue small: cpu (asked 9, limit 8)",
    ),
    "a share above the ceiling of a queue": (
        "new",
        share(0.6),
        "spec.guarantee.percentage.value: 0.6 is above the ceiling for queue new: nodes (asked 6 of 10, limit 5)",
    ),
    "a share above its own ceiling": (
        "small",
        share(0.2),
        "spec.guarantee.percentage.value: 0.2 is above the ceiling for queue small: nodes (asked 2 of 10, limit 1)",
    ),
    "a larger share of no more nodes": ("small", share(0.19999), ""),
    "amounts above what others leave": (
        "new",
        amounts(cpu="9"),
        "the guarantee is above the ceiling for all guarantees: cpu (asked 9, limit 40, left 8)",
    ),
    "a share above what others leave": (
        "new",
        share(0.2),
        "spec.guarantee.percentage.value: 0.2 is above the ceiling for all guarantees: nodes (asked 2 of 10, left 1)",
    ),
    "what others leave": ("new", amounts(cpu="8"), ""),
    "a share that others leave": ("new", share(0.1), ""),
    "one that comes before some": ("new", {**amounts(cpu="32"), "priority": 1}, ""),
    "one that comes before some, and wants more": (
        "new",
        {**amounts(cpu="33"), "priority": 1},
        "the guarantee is above the ceiling for all guarantees: cpu (asked 33, limit 40, left 32)",
    ),
    "one that comes before all": ("new", {**amounts(cpu="40"), "priority": 10}, ""),
    "one that has some already": ("old", amounts(cpu="32"), ""),
    "one that has some already, and wants more": (
        "old",
        amounts(cpu="33"),
        "the guarantee is above the ceiling for all guarantees: cpu (asked 33, limit 40, left 32)",
    ),
    "both, where the amounts are less": ("new", share(0.1, cpu="1"), ""),
    "both, where the amounts are more": (
        "new",
        share(0.1, cpu="9"),
        "the guarantee is above the ceiling for all guarantees: cpu (asked 9, limit 40, left 8)",
    ),
    "both, where the share is more": (
        "new",
        share(0.2, cpu="8"),
        "spec.guarantee.percentage.value: 0.2 is above the ceiling for all guarantees: nodes (asked 2 of 10, left 1)",
    ),
}
"""The queue, its request and the refusal."""


async def know(client: Client, shown: dict[str, str]) -> None:
    """Have the API server know these parameters, and no others; it hears of them after a moment."""
    config_map = await client.get(CONFIG_MAP, CEILINGS_NAME, LEASES)
    mark = {"share_mark": "100", "nodes_mark": "-1"}
    data = {**dict.fromkeys(config_map.data or ()), **shown, **mark}
    await client.patch(CONFIG_MAP, CEILINGS_NAME, {"data": data}, LEASES)
    assert "for queue mark" in await refusal(client, queue("mark", **share(0.1)))


async def test_queue_beyond_the_cluster_or_other_guarantees_is_refused(client: Client, account: Path) -> None:
    await know(
        client, admission_parameters(GuaranteeCeilings(by_queue={"small": 10}), ClusterCapacity(10, SOME), PROMISES)
    )
    heard = {id: await refusal(client, queue(name, **spec), 0) for id, (name, spec, _) in REFUSED_GUARANTEES.items()}
    assert [
        id
        for id, (_, _, told) in REFUSED_GUARANTEES.items()
        if not heard[id].endswith(told) or bool(told) != bool(heard[id])
    ] == [], heard


async def test_updated_queue_is_validated_for_its_changes(client: Client, account: Path, namespace: str) -> None:
    mine = f"q-{namespace}"
    half = {"guarantee": {"resource": {"cpu": "40"}}}
    await know(client, admission_parameters(GuaranteeCeilings(), ClusterCapacity(10, SOME)))
    await client.create(QUEUE, queue(mine, **half))
    await know(client, admission_parameters(GuaranteeCeilings(), ClusterCapacity(9, {**SOME, "cpu": 72_000}), PROMISES))
    for edit in ({"weight": 3}, {"capability": {"cpu": "41"}}, {"guarantee": {"policy": "Guaranteed"}}):
        await dry_run_patch(client, mine, {"spec": edit})
    with pytest.raises((Invalid, Forbidden), match="asked 39, limit 36"):
        await dry_run_patch(client, mine, {"spec": {"guarantee": {"resource": {"cpu": "39"}}}})
    lower = {"guarantee": {"resource": {"cpu": "30"}}}
    with pytest.raises((Invalid, Forbidden), match="asked 30, limit 36, left 4"):
        await dry_run_patch(client, mine, {"spec": lower})
    await dry_run_patch(client, mine, {"spec": {**lower, "priority": 1}})  # the condition will tell


async def test_before_anybody_has_looked_at_the_cluster_shares_are_compared(
    client: Client, account: Path, namespace: str
) -> None:
    mine = f"q-{namespace}"
    await know(client, admission_parameters(GuaranteeCeilings(by_queue={mine: 7})))
    told = await refusal(client, queue(mine, **share(0.0701)))
    assert told.endswith(f"0.0701 is above the ceiling of 7% of the cluster for queue {mine}")
    await client.create(QUEUE, queue(mine, **share(0.07)), dry_run=True)
    await client.create(QUEUE, queue(mine, **amounts(cpu="99999")), dry_run=True)


async def test_admission_follows_configuration_cluster_size_and_other_queues(
    client: Client, account: Path, namespace: str, tmp_path: Path
) -> None:
    slots, mine, theirs = f"example.org/{namespace}", f"q-{namespace}", f"r-{namespace}"
    room = {**ROOM, slots: "8"}
    node = {**fake_node(namespace, pool=namespace), "status": {"capacity": room, "allocatable": room}}

    def asks(name: str, number: int) -> Document:
        return queue(name, guarantee={"resource": {slots: str(number)}})

    await client.create(NODE, node)
    with restow(account, tmp_path, "door", CONFIGURATION.replace("1s", f"1s, maxGuaranteedPerQueue: {{{slots}: 25}}")):
        told = await refusal(client, asks(mine, 4), 90)  # a process that was killed before may still have its Lease
        assert told.endswith(f"the guarantee is above the ceiling for queue {mine}: {slots} (asked 4, limit 2)")
        (tmp_path / "restow.yaml").write_text(CONFIGURATION)
        await eventually_admitted(client, asks(mine, 4))
        told = f"the guarantee is more than the cluster has: {slots} (asked 9, total 8)"
        assert (await refusal(client, asks(mine, 9))).endswith(told)

        # what was promised to one is refused to the next, until it is given back
        await client.create(QUEUE, asks(mine, 3))
        told = f"the guarantee is above the ceiling for all guarantees: {slots} (asked 2, limit 4, left 1)"
        assert (await refusal(client, asks(theirs, 2))).endswith(told)
        await client.create(QUEUE, asks(theirs, 1), dry_run=True)
        await dry_run_patch(client, mine, {"spec": {"guarantee": {"resource": {slots: "4"}}}})
        await client.delete(QUEUE, mine)
        await eventually_admitted(client, asks(theirs, 2))
    assert refusals(tmp_path) == []


async def eventually_admitted(client: Client, document: Document) -> None:
    for _ in range(300):
        try:
            await client.create(QUEUE, document, dry_run=True)
        except (Invalid, Forbidden):
            await asyncio.sleep(0.1)
        else:
            return
    raise AssertionError("it is still refused")


async def test_queue_within_all_limits_is_admitted(client: Client, account: Path, namespace: str) -> None:
    name = f"q-{namespace}"
    await know(client, admission_parameters(GuaranteeCeilings()))
    fair = {"policy": "Guaranteed", "percentage": {"dimensions": ["cpu"], "value": 0.5}, "resource": {"cpu": 1}}
    await client.create(QUEUE, queue(name, guarantee=fair, capability={"cpu": "1"}))
    await client.patch(QUEUE, name, {"spec": {"weight": 3}})
    await client.patch(QUEUE, name, {"spec": {"guarantee": None}})
