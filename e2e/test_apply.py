"""`restow plan` and `restow apply` on a real control plane: room is gathered for a gang, and thieves do not get it."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from random import Random

import pytest

from e2e.cluster import deployment, eventually, fake_node, following, running, together
from e2e.controlplane import ControlPlane
from e2e.restow_process import refusals, restow
from restow.client.informer import Informer
from restow.client.verbs import Client
from restow.model.kinds import DEPLOYMENT, NODE, POD, POD_GROUP, RESERVATION
from restow.model.objects import Document, Pod, Reservation

SCHEDULER = "restow-gathers"
CONFIGURATION = f"""
scheduler: {{schedulerNames: [{SCHEDULER}]}}
reservations: {{namespaceShare: 100}}
migration: {{maxMigratingPerNode: 0, maxMigratingPerWorkload: 3, objectLimiters: {{workload: {{duration: 0s}}}}}}
"""
MEMBERS = 2


def ours(document: Document, **labels: str) -> Document:
    document["spec"]["template"]["spec"] |= {"schedulerName": SCHEDULER, "nodeSelector": labels}
    return document


def member(number: int, namespace: str) -> Document:
    """A pod that needs a node nearly for itself."""
    template = ours(deployment("gang", namespace, 1, cpu="7"), pool=namespace)["spec"]["template"]
    notes = {"scheduling.k8s.io/group-name": "gang"}
    return {
        "metadata": {"name": f"gang-{number}", "namespace": namespace, "annotations": notes},
        "spec": template["spec"],
    }


async def command(*words: str) -> Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-m", "restow", *words, stdout=PIPE, stderr=PIPE)


async def done(process: Process, seconds: float = 120) -> str:
    async with asyncio.timeout(seconds):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()


@pytest.mark.timeout(300)
async def test_the_room_that_is_gathered_for_a_gang_is_not_stolen(
    client: Client, namespace: str, plane: ControlPlane, account: Path, tmp_path: Path
) -> None:
    names = [f"{namespace}-{number}" for number in range(3)]
    await together(client.create(NODE, fake_node(name, pool=namespace, anchor=name)) for name in names)
    files = ["--kubeconfig", str(plane.kubeconfig), "--config", str(tmp_path / "restow.yaml")]
    pods: Informer[Pod] = Informer(client, POD, namespace=namespace, rng=Random(1))
    claims: Informer[Reservation] = Informer(client, RESERVATION, namespace=namespace, rng=Random(2))
    with restow(account, tmp_path, "restow", CONFIGURATION, lease="15s"):
        async with following(pods), following(claims):
            anchor = ours(deployment("anchor", namespace, 1, cpu="1900m"), anchor=names[0])
            await client.create(DEPLOYMENT, anchor)
            await eventually(lambda: running(pods) == 1, "the anchor runs")
            await client.create(DEPLOYMENT, ours(deployment("web", namespace, 3, cpu="2"), pool=namespace))
            await eventually(lambda: running(pods) == 4, "web runs")
            group = {"metadata": {"name": "gang", "namespace": namespace}, "spec": {"minMember": MEMBERS}}
            await client.create(POD_GROUP, group)
            await together(client.create(POD, member(number, namespace)) for number in range(MEMBERS))
            await eventually(lambda: len(list(pods)) == 4 + MEMBERS, "the gang waits")

            plan = str(tmp_path / "plan.json")
            await done(await command("plan", *files, "--objective", "pending", "--save", plan))
            applying = await command("apply", *files, "--namespace", "restow-e2e", plan)
            held = ("Waiting", "Available", "Succeeded")
            await eventually(
                lambda: any((claim.status.state.phase in held) and _is_claim(claim) for claim in claims), "a claim", 60
            )
            await client.create(DEPLOYMENT, ours(deployment("thief", namespace, 3, cpu="5"), pool=namespace))

            output = await done(applying)
            assert f"2 of 2 moves done, {MEMBERS} of {MEMBERS} places taken" in output
            await eventually(
                lambda: sum(pod.spec.node_name in names[1:] for pod in _named(pods, "gang")) == 2, "a gang"
            )
            assert [pod.metadata.name for pod in _named(pods, "thief") if pod.spec.node_name] == []
    assert refusals(tmp_path) == []


def _is_claim(reservation: Reservation) -> bool:
    return "restow.sh/claim-of" in (reservation.metadata.labels or {})


def _named(pods: Informer[Pod], name: str) -> list[Pod]:
    return [pod for pod in pods if pod.metadata.name.startswith(name)]
