"""Random disruptions of a cluster in a seeded run, and the loop that carries out seeded runs."""

from __future__ import annotations

import logging
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from restow.model import kinds
from restow.model.objects import Pod
from restow.ports import ApiError
from restow.sim.loop import run_virtual
from tests.sim.simulated_cluster import SimulatedCluster, node, pass_time, pod

Disruption = Callable[[], Awaitable[object]]


class RandomDisruptions:
    """Each disruption picks its object at random, and the API may refuse it. `all` has every disruption as often as it
    is likely."""

    def __init__(self, it: SimulatedCluster, rng: random.Random, nodes: Sequence[str]) -> None:
        self.all: list[Disruption] = []
        self._cluster = it
        self._rng = rng
        self._nodes = nodes
        self._made = 0

    async def disrupt(self) -> None:
        self._made += 1
        with suppress(ApiError, IndexError):
            await self._rng.choice(self.all)()

    async def delete_pod(self) -> None:
        one = self._rng.choice(await self._cluster.pods())
        await self._cluster.delete(kinds.POD, one.metadata.name, grace_seconds=self._rng.choice((0, 10)))

    async def scale_workload(self, least: int = 1, most: int = 4) -> None:
        await self._cluster.patch(kinds.DEPLOYMENT, "web", {"spec": {"replicas": self._rng.randint(least, most)}})

    # --- nodes --------------------------------------------------------------------------------------------------------

    async def cordon_node(self) -> None:
        await self._cluster.patch(kinds.NODE, self._rng.choice(self._nodes), {"spec": {"unschedulable": True}})

    async def uncordon_nodes(self) -> None:
        for name in self._nodes:
            await self._cluster.patch(kinds.NODE, name, {"spec": {"unschedulable": None}})

    async def recreate_node(self) -> None:
        """Delete a node; it comes back under its old name."""
        name = self._rng.choice(self._nodes)
        await self._cluster.delete(kinds.NODE, name)
        await pass_time(self._rng.uniform(0, 3))
        await self._cluster.create(kinds.NODE, node(name))

    # --- foreign pods
    # ------------------------------------------------------------------------------------------------------

    async def create_foreign_pod(self, where: str, cpu: str) -> None:
        """A pod that another scheduler has placed takes room on a node."""
        foreign = pod(f"foreign{self._made}", cpu, app="other", schedulerName="other", nodeName=where)
        await self._cluster.create(kinds.POD, foreign)

    async def foreign_pods(self) -> list[Pod]:
        return [one for one in await self._cluster.pods() if one.metadata.name.startswith("foreign")]

    async def delete_foreign_pod(self) -> None:
        one = self._rng.choice(await self.foreign_pods())
        await self._cluster.delete(kinds.POD, one.metadata.name, grace_seconds=0)


def run_seeds(run: Callable[[int], Coroutine[Any, Any, Counter[str]]], name: str) -> None:
    """Carry out runs until as many seeds have passed as the command line says. A file keeps how far they got, so that
    the command can be interrupted and continued."""
    logging.disable(logging.ERROR)
    wanted = int(sys.argv[1])
    file = Path(sys.argv[2] if len(sys.argv) > 2 else f"{tempfile.gettempdir()}/restow-{name}-runs")
    first = int(file.read_text()) if file.exists() else 0
    if first:
        sys.stdout.write(f"{first} runs had passed before, according to {file}\n")
    total: Counter[str] = Counter()
    for seed in range(first, wanted):
        try:
            total += run_virtual(run(seed))
        except BaseException:
            sys.stderr.write(f"seed {seed}\n")
            raise
        file.write_text(str(seed + 1))
        if seed % 10 == 9:
            sys.stdout.write(f"{seed + 1} runs passed: {dict(total)}\n")
            sys.stdout.flush()
