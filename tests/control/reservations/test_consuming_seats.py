"""Pods consume seats: the consumption is recorded and is final; a forged annotation consumes none."""

from __future__ import annotations

import pytest

from restow.model import kinds
from tests.control.reservations.reservation_cluster import (
    THEIRS,
    new_reservation,
    pass_time_and_check_room,
    phase_and_reason,
    read_reservation,
    seats_by_index,
)
from tests.control.scheduler_cluster import events_with_reason, scheduled_cluster
from tests.sim.simulated_cluster import on_virtual_time, pass_time, pod, workload


@on_virtual_time
async def test_pods_consume_seats_and_the_reservation_succeeds() -> None:
    async with scheduled_cluster(nodes=2) as it:
        await it.create(kinds.RESERVATION, new_reservation())
        await pass_time_and_check_room(it)
        await it.create(kinds.REPLICA_SET, workload("web", 1))
        await pass_time_and_check_room(it)
        one = (await it.pods())[0]
        found = await read_reservation(it)
        assert [name for _, name in (await seats_by_index(it)).values()].count(one.metadata.name) == 1
        assert (found.status.state.phase, found.status.available, found.status.succeeded) == ("Available", 1, 1)
        assert found.status.allocated == {"cpu": "1", "memory": "64Mi"}
        (told,) = [message for name, message in await events_with_reason(it, "Scheduled") if name == one.metadata.name]
        assert told.endswith(", in reserved seat default/r/web/0")
        await it.patch(kinds.REPLICA_SET, "web", {"spec": {"replicas": 3}})
        await pass_time_and_check_room(it)
        found = await read_reservation(it)
        assert await phase_and_reason(it) == ("Succeeded", "Consumed")
        assert [(owner.kind, owner.name) for owner in found.status.current_owners or ()] == [("ReplicaSet", "web")]
        assert await events_with_reason(it, "Consumed") == [("r", "all 2 seats are consumed")]


@on_virtual_time
async def test_consumed_seat_never_opens_again() -> None:
    async with scheduled_cluster(nodes=1) as it:
        await it.create(kinds.RESERVATION, new_reservation())
        await pass_time_and_check_room(it)
        await it.create(kinds.POD, pod("a"))
        await pass_time_and_check_room(it)
        taken = [index for index, (_, name) in (await seats_by_index(it)).items() if name == "a"]
        await it.delete(kinds.POD, "a", grace_seconds=0)
        await it.create(kinds.POD, pod("b"))
        await pass_time_and_check_room(it)
        assert (await seats_by_index(it))[taken[0]] == ("n1", "a")
        assert {name for _, name in (await seats_by_index(it)).values()} == {"a", "b"}
        assert await phase_and_reason(it) == ("Succeeded", "Consumed")


@on_virtual_time
async def test_seat_stays_consumed_if_its_pod_is_gone_before_the_status_write() -> None:
    async with scheduled_cluster(nodes=1) as it:
        await it.create(kinds.RESERVATION, new_reservation())
        await pass_time_and_check_room(it)
        await it.create(kinds.POD, pod("a"))
        while not (await it.pods())[0].spec.node_name:
            await pass_time(0.005)
        await pass_time(0.02)
        assert {name for _, name in (await seats_by_index(it)).values()} == {None}
        await it.delete(kinds.POD, "a", grace_seconds=0)
        await it.create(kinds.POD, pod("b"))
        await pass_time_and_check_room(it)
        assert {name for _, name in (await seats_by_index(it)).values()} == {"a", "b"}


@pytest.mark.parametrize(
    ("labels", "namespace", "elsewhere"),
    [
        pytest.param("other", "default", False, id="of another owner"),
        pytest.param("web", "other", False, id="of another namespace"),
        pytest.param("web", "default", True, id="on another node"),
    ],
)
@on_virtual_time
async def test_forged_annotation_consumes_no_seat(labels: str, namespace: str, elsewhere: bool) -> None:
    async with scheduled_cluster(nodes=2) as it:
        await it.create(kinds.NAMESPACE, {"metadata": {"name": "other"}})
        await it.create(kinds.RESERVATION, new_reservation(replicas=1))
        await pass_time_and_check_room(it)
        held = (await seats_by_index(it))[0][0]
        reservation_uid = (await read_reservation(it)).metadata.uid
        forged = {"restow.sh/reservation": "default/r/web/0", "restow.sh/reservation-uid": reservation_uid}
        node_name = {"n1": "n2", "n2": "n1"}[held] if elsewhere else held
        foreign = pod("foreign", "1", app=labels, annotations=forged, nodeName=node_name, **THEIRS)
        foreign["metadata"]["namespace"] = namespace
        await it.create(kinds.POD, foreign)
        await pass_time_and_check_room(it)
        assert (await seats_by_index(it), await phase_and_reason(it)) == ({0: (held, None)}, ("Available", "Reserved"))
