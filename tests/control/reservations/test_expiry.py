"""The expiry of a reservation: what it frees, and that nothing else ends the reservation before."""

from __future__ import annotations

import pytest

from restow.model import kinds
from tests.control.reservations.reservation_cluster import (
    new_reservation,
    overcommitted_nodes,
    pass_time_and_check_room,
    phase_and_reason,
)
from tests.control.scheduler_cluster import nodes_by_pod, scheduled_cluster
from tests.sim.simulated_cluster import on_virtual_time, pass_time, pod, workload


@pytest.mark.parametrize("replicas", [1, 9], ids=["placed", "never placed"])
@on_virtual_time
async def test_reservation_expires_whether_placed_or_not(replicas: int) -> None:
    async with scheduled_cluster(nodes=1) as it:
        await it.create(kinds.RESERVATION, new_reservation(replicas=replicas, ttl="30s"))
        await pass_time(29)
        assert (await phase_and_reason(it))[0] != "Failed"
        await pass_time(3)
        assert await phase_and_reason(it) == ("Failed", "Expired")


@on_virtual_time
async def test_expired_reservation_frees_its_room_and_its_pods_keep_running() -> None:
    async with scheduled_cluster(nodes=1) as it:
        await it.create(kinds.RESERVATION, new_reservation(ttl="30s"))
        await pass_time_and_check_room(it)
        await it.create(kinds.POD, pod("a", "1"))
        await pass_time_and_check_room(it)
        await it.create(kinds.POD, pod("big", "3", app="other"))
        await pass_time(5)
        assert (await nodes_by_pod(it))["big"] is None
        await pass_time(30)
        assert await phase_and_reason(it) == ("Failed", "Expired")
        assert await nodes_by_pod(it) == {"a": "n1", "big": "n1"}
        assert await overcommitted_nodes(it.client) == []


@on_virtual_time
async def test_failed_reservation_records_a_warning_event() -> None:
    async with scheduled_cluster(nodes=1) as it:
        await it.create(kinds.RESERVATION, new_reservation(ttl="5s"))
        await pass_time(10)
        told = {(one["reason"], one["type"]) for one in (await it.client.list(kinds.EVENT.whole)).items}
        assert told == {("Reserved", "Normal"), ("Expired", "Warning")}


@on_virtual_time
async def test_reservation_without_an_owner_stays_until_it_expires() -> None:
    """A deleted owner may come back, as in a rolling update or a restored backup."""
    async with scheduled_cluster(nodes=1) as it:
        deployment = await it.create(kinds.DEPLOYMENT, workload("web", 0))
        owner = {"controller": {"kind": "Deployment", "name": "web", "uid": deployment.metadata.uid}}
        await it.create(kinds.RESERVATION, new_reservation(owners=[owner], ttl="60s"))
        await pass_time_and_check_room(it)
        await it.delete(kinds.DEPLOYMENT, "web")
        await pass_time(30)
        assert (await phase_and_reason(it))[0] == "Available"
        await pass_time(40)
        assert await phase_and_reason(it) == ("Failed", "Expired")
