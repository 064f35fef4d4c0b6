"""Queues of which a tenant tries to use more than its quota."""

from __future__ import annotations

from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from tests.control.reservations.reservation_cluster import new_reservation, phase_and_reason
from tests.control.scheduler_cluster import scheduled_cluster
from tests.sim.simulated_cluster import on_virtual_time, pass_time, pod

TEAM = {"scheduling.volcano.sh/queue-name": "team"}


@on_virtual_time
async def test_a_migrating_pod_frees_quota_for_one_seat_only() -> None:
    async with scheduled_cluster(settings=SchedulerSettings(namespace_share=100)) as it:
        capability = {"weight": 1, "capability": {"cpu": "1"}}
        await it.create(kinds.QUEUE, {"metadata": {"name": "team"}, "spec": capability})
        await pass_time(2)
        one = await it.create(kinds.POD, pod("a", "1", app="web", annotations=TEAM))
        await pass_time(3)
        for name in ("r1", "r2", "r3"):
            made = new_reservation(name, replicas=1, cpu="1", queue="team")
            made["metadata"]["annotations"] = {"restow.sh/migrating": one.metadata.uid}
            await it.create(kinds.RESERVATION, made)
        await pass_time(5)
        assert [(await phase_and_reason(it, name))[0] for name in ("r1", "r2", "r3")] == [
            "Available",
            "Pending",
            "Pending",
        ]
