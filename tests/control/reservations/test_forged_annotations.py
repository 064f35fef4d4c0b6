"""Annotations that somebody wrote by hand: they take no seat, although the pod is the owner's, on the seat's node."""

from __future__ import annotations

import pytest

from restow.model import kinds
from tests.control.reservations.reservation_cluster import phase, read, reservation, seats
from tests.control.scheduler_cluster import stage
from tests.sim.simulated_cluster import on_virtual_time, pass_time, pod

SEAT = {"restow.sh/reservation": "default/r/web/0"}


@on_virtual_time
async def test_who_does_not_say_of_which_reservation_has_no_seat() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.POD, pod("copy", "1"))
        await pass_time(3)
        await it.create(kinds.RESERVATION, reservation(replicas=1))
        await pass_time(3)
        await it.patch(kinds.POD, "copy", {"metadata": {"annotations": SEAT}})
        await pass_time(3)
        assert (await seats(it), await phase(it)) == ({0: ("n1", None)}, ("Available", "Reserved"))


@pytest.mark.parametrize("says", [False, True], ids=["a copy", "one that names the reservation"])
@on_virtual_time
async def test_nobody_sits_in_the_seat_of_a_move_before_the_pod_has_left(says: bool) -> None:
    async with stage(nodes=2) as it:
        for name, node in (("mover", "n1"), ("sibling", "n2")):
            await it.create(kinds.POD, pod(name, "1", nodeSelector={"kubernetes.io/hostname": node}))
        await pass_time(3)
        made = reservation(replicas=1)
        made["metadata"]["annotations"] = {"restow.sh/migrating": (await it.pods())[0].metadata.uid}
        made["spec"]["tasks"][0]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n2"}
        await it.create(kinds.RESERVATION, made)
        await pass_time(3)
        life = {"restow.sh/reservation-uid": (await read(it)).metadata.uid} if says else {}
        await it.patch(kinds.POD, "sibling", {"metadata": {"annotations": SEAT | life}})
        await pass_time(3)
        assert (await seats(it), await phase(it)) == ({0: ("n2", None)}, ("Available", "Reserved"))
