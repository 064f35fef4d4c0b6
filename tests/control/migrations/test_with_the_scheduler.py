"""The migration controller and the scheduler together: they meet only through the API."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model import kinds
from tests.control.migrations.stage import controller, scheduled
from tests.control.stage import check_room
from tests.sim.stage import pass_time, pod, ready, virtual


@pytest.mark.parametrize("kind", [kinds.DEPLOYMENT, kinds.REPLICA_SET, kinds.STATEFUL_SET], ids=lambda kind: kind.kind)
@virtual
async def test_a_pod_moves_into_its_seat(kind: Any) -> None:
    async with scheduled() as it, controller(it.api, it.clock):
        old = (await it.start(2, kind))[0]
        await it.move(old)
        await pass_time(60)
        assert (await it.told())[0] == "Succeed", await it.told()
        job = await it.job()
        assert job.status.pod_ref is not None
        new = await it.client.get(kinds.POD, job.status.pod_ref.name or "", "default")
        assert new.metadata.uid != old.metadata.uid and new.spec.node_name != old.spec.node_name
        notes = new.metadata.annotations or {}
        assert notes["restow.sh/moved-from"] == old.spec.node_name
        [made] = await it.reservations()
        assert notes["restow.sh/reservation"] == f"default/{made.metadata.name}/pod/0"
        assert made.status.state.phase == "Succeeded"
        assert all(map(ready, await it.pods()))
        await check_room(it)


@virtual
async def test_a_pod_that_fits_nowhere_else_stays_until_it_does() -> None:
    async with scheduled(nodes=2) as it, controller(it.api, it.clock):
        [old] = await it.start(1)
        other = "n2" if old.spec.node_name == "n1" else "n1"
        await it.create(kinds.POD, pod("filler", "3800m", nodeName=other))
        await it.move(old)
        await pass_time(60)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Running", "Unschedulable")
        assert "1 Insufficient cpu" in (message or ""), message
        await it.delete(kinds.POD, "filler")
        await pass_time(60)
        assert (await it.told())[0] == "Succeed"
        await check_room(it)
