"""The time of a reservation: what it lets go when it is over, and that nothing else ends it before."""

from __future__ import annotations

import pytest

from restow.model import kinds
from tests.control.reservations.reservation_cluster import over_committed, phase, reservation, settled
from tests.control.scheduler_cluster import places, stage
from tests.sim.simulated_cluster import on_virtual_time, pass_time, pod, workload


@pytest.mark.parametrize("replicas", [1, 9], ids=["placed", "never placed"])
@on_virtual_time
async def test_it_expires_whether_it_was_placed_or_not(replicas: int) -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation(replicas=replicas, ttl="30s"))
        await pass_time(29)
        assert (await phase(it))[0] != "Failed"
        await pass_time(3)
        assert await phase(it) == ("Failed", "Expired")


@on_virtual_time
async def test_what_expires_lets_its_room_go_and_its_pods_run() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation(ttl="30s"))
        await settled(it)
        await it.create(kinds.POD, pod("a", "1"))
        await settled(it)
        await it.create(kinds.POD, pod("big", "3", app="other"))
        await pass_time(5)
        assert (await places(it))["big"] is None
        await pass_time(30)
        assert await phase(it) == ("Failed", "Expired")
        assert await places(it) == {"a": "n1", "big": "n1"}
        assert await over_committed(it.client) == []


@on_virtual_time
async def test_what_goes_wrong_is_told_as_a_warning() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation(ttl="5s"))
        await pass_time(10)
        told = {(one["reason"], one["type"]) for one in (await it.client.list(kinds.EVENT.whole)).items}
        assert told == {("Reserved", "Normal"), ("Expired", "Warning")}


@on_virtual_time
async def test_without_its_owner_it_stays_until_its_time_is_over() -> None:
    """Whoever is deleted may come back, as in a rolling update or a restored backup."""
    async with stage(nodes=1) as it:
        deployment = await it.create(kinds.DEPLOYMENT, workload("web", 0))
        owner = {"controller": {"kind": "Deployment", "name": "web", "uid": deployment.metadata.uid}}
        await it.create(kinds.RESERVATION, reservation(owners=[owner], ttl="60s"))
        await settled(it)
        await it.delete(kinds.DEPLOYMENT, "web")
        await pass_time(30)
        assert (await phase(it))[0] == "Available"
        await pass_time(40)
        assert await phase(it) == ("Failed", "Expired")
