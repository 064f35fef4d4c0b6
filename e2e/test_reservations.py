"""Reservations on a real control plane: the stories that the embedded cluster tells, with real workload controllers."""

from __future__ import annotations

import asyncio
import re
import subprocess
from itertools import pairwise

import pytest

from e2e.cluster import reaches
from e2e.controlplane import ControlPlane
from e2e.reservation_stories import STORIES, Story, leader, story_cluster, workload
from restow.adapters.clock import SystemClock
from restow.client.verbs import Client
from restow.model.kinds import DEPLOYMENT
from restow.ports import Api


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_reservations_on_a_real_control_plane(story: Story, api: Api, client: Client, namespace: str) -> None:
    async with story_cluster(api, client, namespace, SystemClock()) as it:
        await story(it)


async def test_kubectl_shows_phase_counts_and_owner(
    plane: ControlPlane, api: Api, client: Client, namespace: str
) -> None:
    async with story_cluster(api, client, namespace, SystemClock()) as it, leader(it):
        await it.reserve(3, minAvailable=2, queue="default", ttl="1h")
        await it.reserve(1, "huge", cpu="1000")
        await it.comes_to("Reserved")
        await client.create(DEPLOYMENT, workload(namespace, 1))
        await it.runs(1)
        await reaches(lambda: len(it.taken()), 1, "seats that are marked")
        await it.comes_to("Unschedulable", "huge")
        [pod] = it.alive()
        shown = await _table(plane, "get", "resv", "-n", namespace, "-o", "wide")
    held, refused = shown["seats"], shown["huge"]
    assert " ".join(held) == "NAME PHASE REASON MIN PENDING AVAILABLE SUCCEEDED FAILED OWNER QUEUE TTL AGE MESSAGE"
    owner = pod.metadata.name.rsplit("-", 1)[0]
    assert [*held.values()][1:11] == ["Available", "Reserved", "2", "0", "2", "1", "0", owner, "default", "1h"]
    assert [*refused.values()][1:9] == ["Pending", "Unschedulable", "1", "1", "0", "0", "0", ""]
    assert "requested 1k" in refused["MESSAGE"]


async def _table(plane: ControlPlane, *words: str) -> dict[str, dict[str, str]]:
    """The cells that kubectl prints, by row and column; columns begin where their headings do."""
    command = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig), *words]
    ended = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
    heading, *lines = ended.stdout.splitlines()
    begins = [word.start() for word in re.finditer(r"\S+", heading)]
    cuts = [slice(*pair) for pair in pairwise([*begins, None])]
    rows = [{heading[cut].strip(): line[cut].strip() for cut in cuts} for line in lines]
    return {row["NAME"]: row for row in rows}
