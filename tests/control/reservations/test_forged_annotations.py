"""Annotations written by hand consume no seat, although the pod has the right owner and is on the node of the seat."""

from __future__ import annotations

import pytest

from restow.model import kinds
from tests.control.reservations.reservation_cluster import (
    new_reservation,
    phase_and_reason,
    read_reservation,
    seats_by_index,
)
from tests.control.scheduler_cluster import scheduled_cluster
from tests.sim.simulated_cluster import on_virtual_time, pass_time, pod

SEAT = {"restow.sh/reservation": "default/r/web/0"}


@on_virtual_time
async def test_annotation_without_the_reservation_uid_consumes_no_seat() -> None:
    async with scheduled_cluster(nodes=1) as it:
        await it.create(kinds.POD, pod("copy", "1"))
        await pass_time(3)
        await it.create(kinds.RESERVATION, new_reservation(replicas=1))
        await pass_time(3)
        await it.patch(kinds.POD, "copy", {"metadata": {"annotations": SEAT}})
        await pass_time(3)
        assert (await seats_by_index(it), await phase_and_reason(it)) == ({0: ("n1", None)}, ("Available", "Reserved"))


@pytest.mark.parametrize("says", [False, True], ids=["without the reservation UID", "with the reservation UID"])
@on_virtual_time
async def test_forged_annotation_consumes_no_migration_seat_before_the_pod_has_left(says: bool) -> None:
    async with scheduled_cluster(nodes=2) as it:
        for name, node in (("mover", "n1"), ("sibling", "n2")):
            await it.create(kinds.POD, pod(name, "1", nodeSelector={"kubernetes.io/hostname": node}))
        await pass_time(3)
        made = new_reservation(replicas=1)
        made["metadata"]["annotations"] = {"restow.sh/migrating": (await it.pods())[0].metadata.uid}
        made["spec"]["tasks"][0]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n2"}
        await it.create(kinds.RESERVATION, made)
        await pass_time(3)
        reservation_uid = {"restow.sh/reservation-uid": (await read_reservation(it)).metadata.uid} if says else {}
        await it.patch(kinds.POD, "sibling", {"metadata": {"annotations": SEAT | reservation_uid}})
        await pass_time(3)
        assert (await seats_by_index(it), await phase_and_reason(it)) == ({0: ("n2", None)}, ("Available", "Reserved"))
