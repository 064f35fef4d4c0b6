"""Templates that are changed while seats are held: a node that takes the pod as it was need not take it as it is."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model import kinds
from restow.model.objects import Document
from tests.control.reservations.reservation_cluster import message, phase, reservation, seats
from tests.control.reservations.test_refused_writes import Strict
from tests.control.scheduler_cluster import places, stage, world
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
    await it.create(kinds.RESERVATION, reservation(**spec))
    await pass_time(3)
    assert await seats(it) == {0: ("n1", None), 1: ("n1", None)}
    await it.patch(kinds.NODE, "n2", {"spec": {"unschedulable": None}})
    await pass_time(1)


PORTS = "node n1 does not accept the pod of the changed template: node(s) didn't have free ports for the requested pod ports"
SELECTOR = "node n1 does not accept the pod of the changed template: node(s) didn't match Pod's node affinity/selector"


@pytest.mark.parametrize(
    ("made", "says"),
    [
        pytest.param(with_port(template("1")), f"{PORTS} (1 seat); 0 of 2 seats are consumed", id="a host port"),
        pytest.param(template("1", **SECOND), f"{SELECTOR} (2 seats); 0 of 2 seats are consumed", id="another node"),
    ],
)
@on_virtual_time
async def test_seats_that_their_node_refuses_now_are_lost(made: Document, says: str) -> None:
    async with stage(nodes=2) as it:
        await held_on_first(it)
        await retemplate(it, made)
        assert (await phase(it), await message(it)) == (("Failed", "NoLongerFits"), says)


@on_virtual_time
async def test_what_is_lost_beyond_the_least_is_looked_for_again() -> None:
    async with stage(nodes=2) as it:
        await held_on_first(it, minAvailable=1)
        await retemplate(it, with_port(template("1")))
        assert await phase(it) == ("Available", "Reserved")
        assert await seats(it) == {0: ("n1", None), 1: ("n2", None)}
        for name in ("a", "b"):
            await it.create(kinds.POD, with_port(pod(name, "1")))
        await pass_time(3)
        assert await phase(it) == ("Succeeded", "Consumed")
        assert await places(it) == {"a": "n1", "b": "n2"}


@on_virtual_time
async def test_what_was_in_the_way_before_costs_no_seat_whatever_is_changed() -> None:
    async with stage(nodes=2) as it:
        await held_on_first(it)
        await it.patch(kinds.NODE, "n1", {"spec": {"unschedulable": True}})
        await pass_time(3)
        assert await phase(it) == ("Waiting", "NodeUnfit")
        await retemplate(it, template("500m", app="shop"))
        assert await phase(it) == ("Waiting", "NodeUnfit")
        await it.patch(kinds.NODE, "n1", {"spec": {"unschedulable": None}})
        await pass_time(3)
        assert await phase(it) == ("Available", "Reserved")


@on_virtual_time
async def test_a_second_change_is_compared_with_the_first() -> None:
    async with stage(nodes=2) as it:
        await held_on_first(it)
        await retemplate(it, template("500m"))
        assert await phase(it) == ("Available", "Reserved")
        await retemplate(it, template("500m", **SECOND))
        assert await phase(it) == ("Failed", "NoLongerFits")


@on_virtual_time
async def test_who_did_not_see_what_it_was_before_says_that_it_cannot_be_used() -> None:
    async with world(nodes=2) as it:
        async with running_scheduler(it.api, it.clock):
            await held_on_first(it)
        await retemplate(it, with_port(template("1")))
        async with running_scheduler(it.api, it.clock, seed=2):
            await pass_time(3)
            assert await phase(it) == ("Waiting", "NodeUnfit")


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(with_port(template("1")), ("Waiting", "RoomBeingLeft"), id="a host port is theirs"),
        pytest.param(template("1", **SECOND), ("Failed", "NoLongerFits"), id="it is another node's"),
    ],
)
@on_virtual_time
async def test_a_seat_is_kept_where_those_may_be_in_the_way_who_are_leaving(
    made: Document, expected: tuple[str, str]
) -> None:
    async with stage(nodes=2, stop=60.0) as it:
        await held_on_first(it)
        await it.create(
            kinds.POD, with_port(pod("old", "1", app="old", nodeName="n1", terminationGracePeriodSeconds=60))
        )
        await pass_time(3)
        await it.delete(kinds.POD, "old")
        await retemplate(it, made, replicas=1)
        assert await phase(it) == expected


@on_virtual_time
async def test_what_could_not_be_written_down_is_decided_as_before_once_it_can_be() -> None:
    strict = Strict()
    strict.refuses = False
    async with stage(nodes=2, around=strict.around) as it:
        await held_on_first(it)
        strict.refuses = True
        await retemplate(it, template("1", **SECOND))
        assert strict.refused and await phase(it) == ("Available", "Reserved")
        strict.refuses = False
        await pass_time(60)
        assert await phase(it) == ("Failed", "NoLongerFits")
