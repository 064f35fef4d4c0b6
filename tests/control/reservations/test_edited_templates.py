"""Templates that are edited while seats are held: a node that accepts the old pod need not accept the new one."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model import kinds
from restow.model.objects import Document
from tests.control.reservations.reservation_cluster import (
    new_reservation,
    phase_and_reason,
    seats_by_index,
    status_message,
)
from tests.control.reservations.test_refused_writes import Strict
from tests.control.scheduler_cluster import nodes_by_pod, scheduled_cluster, unscheduled_cluster
from tests.sim.simulated_cluster import SimulatedCluster, on_virtual_time, pass_time, pod, running_scheduler, template

SECOND: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": "n2"}}


def with_port(made: Document) -> Document:
    made["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    return made


async def retemplate(it: SimulatedCluster, made: Document, replicas: int = 2, **spec: Any) -> None:
    task = {"name": "web", "replicas": replicas, "template": made}
    await it.patch(kinds.RESERVATION, "r", {"spec": {"tasks": [task], **spec}})
    await pass_time(10)


async def held_on_first(it: SimulatedCluster, **spec: Any) -> None:
    """Both seats are on n1, and there is a second node."""
    await it.patch(kinds.NODE, "n2", {"spec": {"unschedulable": True}})
    await it.create(kinds.RESERVATION, new_reservation(**spec))
    await pass_time(3)
    assert await seats_by_index(it) == {0: ("n1", None), 1: ("n1", None)}
    await it.patch(kinds.NODE, "n2", {"spec": {"unschedulable": None}})
    await pass_time(1)


REFUSED = "node n1 does not accept the pod of the changed template: "
PORTS = REFUSED + "node(s) didn't have free ports for the requested pod ports"
SELECTOR = REFUSED + "node(s) didn't match Pod's node affinity/selector"


@pytest.mark.parametrize(
    ("made", "says"),
    [
        pytest.param(with_port(template("1")), f"{PORTS} (1 seat); 0 of 2 seats are consumed", id="a host port"),
        pytest.param(template("1", **SECOND), f"{SELECTOR} (2 seats); 0 of 2 seats are consumed", id="another node"),
    ],
)
@on_virtual_time
async def test_seats_are_lost_if_their_node_refuses_the_edited_template(made: Document, says: str) -> None:
    async with scheduled_cluster(nodes=2) as it:
        await held_on_first(it)
        await retemplate(it, made)
        assert (await phase_and_reason(it), await status_message(it)) == (("Failed", "NoLongerFits"), says)


@on_virtual_time
async def test_seats_lost_beyond_min_available_are_placed_again() -> None:
    async with scheduled_cluster(nodes=2) as it:
        await held_on_first(it, minAvailable=1)
        await retemplate(it, with_port(template("1")))
        assert await phase_and_reason(it) == ("Available", "Reserved")
        assert await seats_by_index(it) == {0: ("n1", None), 1: ("n2", None)}
        for name in ("a", "b"):
            await it.create(kinds.POD, with_port(pod(name, "1")))
        await pass_time(3)
        assert await phase_and_reason(it) == ("Succeeded", "Consumed")
        assert await nodes_by_pod(it) == {"a": "n1", "b": "n2"}


@on_virtual_time
async def test_obstacle_older_than_the_edit_costs_no_seat() -> None:
    async with scheduled_cluster(nodes=2) as it:
        await held_on_first(it)
        await it.patch(kinds.NODE, "n1", {"spec": {"unschedulable": True}})
        await pass_time(3)
        assert await phase_and_reason(it) == ("Waiting", "NodeUnfit")
        await retemplate(it, template("500m", app="shop"))
        assert await phase_and_reason(it) == ("Waiting", "NodeUnfit")
        await it.patch(kinds.NODE, "n1", {"spec": {"unschedulable": None}})
        await pass_time(3)
        assert await phase_and_reason(it) == ("Available", "Reserved")


@on_virtual_time
async def test_second_edit_is_compared_with_the_first() -> None:
    async with scheduled_cluster(nodes=2) as it:
        await held_on_first(it)
        await retemplate(it, template("500m"))
        assert await phase_and_reason(it) == ("Available", "Reserved")
        await retemplate(it, template("500m", **SECOND))
        assert await phase_and_reason(it) == ("Failed", "NoLongerFits")


@on_virtual_time
async def test_new_leader_without_the_old_template_reports_an_unusable_seat() -> None:
    async with unscheduled_cluster(nodes=2) as it:
        async with running_scheduler(it.api, it.clock):
            await held_on_first(it)
        await retemplate(it, with_port(template("1")))
        async with running_scheduler(it.api, it.clock, seed=2):
            await pass_time(3)
            assert await phase_and_reason(it) == ("Waiting", "NodeUnfit")


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(with_port(template("1")), ("Waiting", "RoomBeingLeft"), id="host port in use"),
        pytest.param(template("1", **SECOND), ("Failed", "NoLongerFits"), id="selector of another node"),
    ],
)
@on_virtual_time
async def test_seat_is_kept_when_only_terminating_pods_are_in_the_way(
    made: Document, expected: tuple[str, str]
) -> None:
    async with scheduled_cluster(nodes=2, stop=60.0) as it:
        await held_on_first(it)
        await it.create(
            kinds.POD, with_port(pod("old", "1", app="old", nodeName="n1", terminationGracePeriodSeconds=60))
        )
        await pass_time(3)
        await it.delete(kinds.POD, "old")
        await retemplate(it, made, replicas=1)
        assert await phase_and_reason(it) == expected


@on_virtual_time
async def test_refused_status_is_decided_the_same_once_writes_are_allowed() -> None:
    strict = Strict()
    strict.refuses = False
    async with scheduled_cluster(nodes=2, around=strict.around) as it:
        await held_on_first(it)
        strict.refuses = True
        await retemplate(it, template("1", **SECOND))
        assert strict.refused and await phase_and_reason(it) == ("Available", "Reserved")
        strict.refuses = False
        await pass_time(60)
        assert await phase_and_reason(it) == ("Failed", "NoLongerFits")
