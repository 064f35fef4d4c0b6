"""Reservations in a cluster: from placing to their ends, and whatever happens to them on the way."""

from __future__ import annotations

from typing import Any

import pytest

from restow.client.verbs import Client
from restow.model import kinds
from restow.ports import Api, Request
from tests.control.reservations.stage import message, over_committed, phase, read, reservation, seats
from tests.control.stage import events, places, stage, world
from tests.sim.stage import Stage, node, pass_time, pod, scheduler, template, virtual, workload

THEIRS = {"schedulerName": "other"}


async def settled(it: Stage) -> None:
    await pass_time(3)
    assert await over_committed(it.client) == []


# --- placing ----------------------------------------------------------------------------------------------------------


@virtual
async def test_seats_are_held_and_said_where_in_the_write_that_makes_it_available() -> None:
    async with stage(nodes=2) as it:
        made = await it.create(kinds.RESERVATION, reservation())
        await settled(it)
        found = await read(it)
        assert (found.status.state.phase, found.status.available) == ("Available", 2)
        assert {where for where, _ in (await seats(it)).values()} == {"n1", "n2"}
        assert int(found.metadata.resource_version) == int(made.metadata.resource_version) + 1
        assert await events(it, "Reserved") == [("r", "2 of 2 seats are held or taken")]


@virtual
async def test_one_that_fits_nowhere_says_why_and_keeps_trying() -> None:
    async with stage(nodes=2, cpu="4") as it:
        await it.create(kinds.RESERVATION, reservation(replicas=1, cpu="3"))
        await it.create(kinds.POD, pod("a", "3", app="other"))
        await settled(it)
        await it.create(kinds.RESERVATION, reservation("late", replicas=1, cpu="3"))
        await settled(it)
        late = await read(it, "late")
        why = "namespace default may hold 50% of the cluster by reservations: cpu (limit 4, held 3, requested 3)"
        assert (late.status.state.phase, late.status.state.reason) == ("Pending", "Unschedulable")
        assert late.status.state.message == why
        assert await events(it, "Unschedulable") == [("late", why)]
        await it.create(kinds.NODE, node("n3", cpu="6"))
        await pass_time(12)
        assert await phase(it, "late") == ("Available", "Reserved")


@virtual
async def test_held_room_is_nobody_elses() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation(replicas=1, cpu="2"))
        await settled(it)
        await it.create(kinds.POD, pod("stranger", "3", app="other"))
        await pass_time(5)
        assert (await places(it))["stranger"] is None


@virtual
async def test_an_invalid_one_fails_with_every_path_and_holds_nothing() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation(minAvailable=7, ttl="-1s"))
        await settled(it)
        assert await phase(it) == ("Failed", "Invalid")
        assert await message(it) == (
            "spec.minAvailable: 7 is more than the 2 seats there are; spec.ttl: -1s is negative"
        )
        assert await seats(it) == {}


@virtual
async def test_one_that_names_another_scheduler_is_left_alone() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation(schedulerName="other"))
        await settled(it)
        assert "status" not in await it.document(kinds.RESERVATION, "r")


@virtual
async def test_room_that_terminating_pods_are_leaving_is_waited_for() -> None:
    async with stage(nodes=1, stop=20.0) as it:
        await it.create(kinds.POD, pod("old", "3", app="other", terminationGracePeriodSeconds=20))
        await pass_time(5)
        await it.delete(kinds.POD, "old")
        await it.create(kinds.RESERVATION, reservation(replicas=1, cpu="2"))
        await pass_time(5)
        assert await phase(it) == ("Waiting", "RoomBeingLeft")
        assert "have not left node n1 yet" in (await message(it) or "")
        await pass_time(30)
        assert await phase(it) == ("Available", "Reserved")
        assert [one.status for one in (await read(it)).status.conditions or ()] == ["Waiting", "Available"]


# --- using ------------------------------------------------------------------------------------------------------------


@virtual
async def test_pods_take_seats_which_are_marked_and_then_it_has_succeeded() -> None:
    async with stage(nodes=2) as it:
        await it.create(kinds.RESERVATION, reservation())
        await settled(it)
        await it.create(kinds.REPLICA_SET, workload("web", 1))
        await settled(it)
        one = (await it.pods())[0]
        found = await read(it)
        assert [name for _, name in (await seats(it)).values()].count(one.metadata.name) == 1
        assert (found.status.state.phase, found.status.available, found.status.succeeded) == ("Available", 1, 1)
        assert found.status.allocated == {"cpu": "1", "memory": "64Mi"}
        (told,) = [message for name, message in await events(it, "Scheduled") if name == one.metadata.name]
        assert told.endswith(", in the seat default/r/web/0 that was reserved")
        await it.patch(kinds.REPLICA_SET, "web", {"spec": {"replicas": 3}})
        await settled(it)
        found = await read(it)
        assert await phase(it) == ("Succeeded", "Consumed")
        assert [(owner.kind, owner.name) for owner in found.status.current_owners or ()] == [("ReplicaSet", "web")]
        assert await events(it, "Consumed") == [("r", "all 2 seats were taken")]


@virtual
async def test_a_taken_seat_never_opens_again() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation())
        await settled(it)
        await it.create(kinds.POD, pod("a"))
        await settled(it)
        taken = [index for index, (_, name) in (await seats(it)).items() if name == "a"]
        await it.delete(kinds.POD, "a", grace_seconds=0)
        await it.create(kinds.POD, pod("b"))
        await settled(it)
        assert (await seats(it))[taken[0]] == ("n1", "a")
        assert {name for _, name in (await seats(it)).values()} == {"a", "b"}
        assert await phase(it) == ("Succeeded", "Consumed")


@virtual
async def test_a_seat_stays_taken_if_its_pod_goes_before_that_is_written_down() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation())
        await settled(it)
        await it.create(kinds.POD, pod("a"))
        while not (await it.pods())[0].spec.node_name:
            await pass_time(0.005)
        await pass_time(0.02)
        assert {name for _, name in (await seats(it)).values()} == {None}
        await it.delete(kinds.POD, "a", grace_seconds=0)
        await it.create(kinds.POD, pod("b"))
        await settled(it)
        assert {name for _, name in (await seats(it)).values()} == {"a", "b"}


# --- ending -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("replicas", [1, 9], ids=["placed", "never placed"])
@virtual
async def test_it_expires_whether_it_was_placed_or_not(replicas: int) -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation(replicas=replicas, ttl="30s"))
        await pass_time(29)
        assert (await phase(it))[0] != "Failed"
        await pass_time(3)
        assert await phase(it) == ("Failed", "Expired")


@virtual
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


@virtual
async def test_foreign_pods_cost_the_newest_reservation_there() -> None:
    async with stage(nodes=1, cpu="8") as it:
        for name in ("old", "newer", "newest"):
            await it.create(kinds.RESERVATION, reservation(name, replicas=1, cpu="1"))
            await pass_time(2)
        await it.create(kinds.POD, pod("thief", "6500m", app="other", nodeName="n1", **THEIRS))
        await settled(it)
        assert [(await phase(it, name))[1] for name in ("old", "newer", "newest")] == [
            "Reserved",
            "RoomTaken",
            "RoomTaken",
        ]
        assert await message(it, "newest") == (
            "node n1 has 1500m cpu less than is on it (1 seat); 0 of 1 seats were taken"
        )


@virtual
async def test_a_node_that_goes_takes_its_seats_along() -> None:
    async with stage(nodes=2) as it:
        await it.create(kinds.RESERVATION, reservation())
        await it.create(kinds.RESERVATION, reservation("spare", minAvailable=1))
        await settled(it)
        await it.delete(kinds.NODE, "n1")
        await pass_time(5)
        assert await phase(it) == ("Failed", "NodeGone")
        assert await message(it) == "node n1 is gone (1 seat); 0 of 2 seats were taken"
        assert (await phase(it, "spare"))[0] == "Available"
        assert {where for where, _ in (await seats(it, "spare")).values()} == {"n2"}


CORDON = {"spec": {"unschedulable": True}}
TAINT = {"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}}


@pytest.mark.parametrize(
    ("change", "back", "why"),
    [
        pytest.param(CORDON, {"spec": {"unschedulable": False}}, "node n1 is cordoned (2 seats)", id="cordoned"),
        pytest.param(
            TAINT,
            {"spec": {"taints": None}},
            "node n1 has the taint gpu=yes:NoSchedule, which the task does not tolerate (2 seats)",
            id="tainted",
        ),
    ],
)
@virtual
async def test_an_unfit_node_makes_it_wait_until_it_is_fit_again(change: Any, back: Any, why: str) -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation())
        await settled(it)
        await it.patch(kinds.NODE, "n1", change)
        await settled(it)
        assert (await phase(it), await message(it)) == (("Waiting", "NodeUnfit"), why)
        await it.create(kinds.POD, pod("big", "3", app="other"))
        await it.patch(kinds.NODE, "n1", back)
        await pass_time(5)
        assert await phase(it) == ("Available", "Reserved")
        assert (await places(it))["big"] is None


@virtual
async def test_a_node_that_shrinks_costs_the_newest() -> None:
    async with stage(nodes=1, cpu="8") as it:
        for name in ("old", "new"):
            await it.create(kinds.RESERVATION, reservation(name, replicas=1, cpu="2"))
            await pass_time(2)
        less = {"status": {"allocatable": {"cpu": "3", "memory": "16Gi", "pods": "110"}}}
        await it.client.patch(kinds.NODE, "n1", less, subresource="status")
        await settled(it)
        assert [(await phase(it, name))[1] for name in ("old", "new")] == ["Reserved", "RoomTaken"]


@virtual
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


# --- changing ---------------------------------------------------------------------------------------------------------


async def change(it: Stage, **task: Any) -> None:
    document = reservation()
    await it.patch(kinds.RESERVATION, "r", {"spec": {"tasks": [{**document["spec"]["tasks"][0], **task}]}})
    await settled(it)


@virtual
async def test_fewer_replicas_give_room_back() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation())
        await settled(it)
        await change(it, replicas=1)
        await it.create(kinds.POD, pod("big", "3", app="other"))
        await settled(it)
        assert (len(await seats(it)), await places(it)) == (1, {"big": "n1"})


@virtual
async def test_more_replicas_are_placed_later() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation(replicas=1))
        await settled(it)
        await change(it, replicas=2)
        assert (await phase(it), len(await seats(it))) == (("Available", "Reserved"), 2)
        await change(it, replicas=3)
        assert (await phase(it), len(await seats(it))) == (("Pending", "Unschedulable"), 2)
        await it.create(kinds.NODE, node("n2"))
        await pass_time(12)
        assert (await phase(it), len(await seats(it))) == (("Available", "Reserved"), 3)


@virtual
async def test_what_is_said_of_one_that_waits_is_said_of_what_it_asks_for() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation(replicas=1, cpu="5"))
        await settled(it)
        await change(it, replicas=1, template=template("6"))
        found = (await read(it)).status
        assert (found.observed_generation, found.state.reason) == (2, "Unschedulable")
        said = [text for _, text in await events(it, "SeatsMissing")]
        assert said == ["0 of the 1 seats that are needed are held"]


@virtual
async def test_a_template_that_grows_costs_nobody_but_itself() -> None:
    async with stage(nodes=1, cpu="8") as it:
        await it.create(kinds.RESERVATION, reservation(replicas=1))
        await pass_time(2)
        await it.create(kinds.RESERVATION, reservation("newer", replicas=1))
        await settled(it)
        await change(it, replicas=1, template=template("8"))
        assert await phase(it) == ("Failed", "RoomTaken")
        assert await phase(it, "newer") == ("Available", "Reserved")


@virtual
async def test_a_template_that_still_fits_keeps_its_seat() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation(replicas=1))
        await settled(it)
        await change(it, replicas=1, template=template("2"))
        found = await read(it)
        assert (found.status.state.phase, found.status.allocatable) == ("Available", {"cpu": "2", "memory": "64Mi"})


@virtual
async def test_one_that_is_made_invalid_fails_and_its_pods_run() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation())
        await settled(it)
        await it.create(kinds.POD, pod("a"))
        await settled(it)
        await it.patch(kinds.RESERVATION, "r", {"spec": {"ttl": "-5s"}})
        await settled(it)
        assert await phase(it) == ("Failed", "Invalid")
        assert await places(it) == {"a": "n1"}


@virtual
async def test_one_that_is_deleted_holds_nothing_and_a_namesake_begins_anew() -> None:
    async with stage(nodes=1) as it:
        await it.create(kinds.RESERVATION, reservation())
        await settled(it)
        await it.create(kinds.POD, pod("a", "1"))
        await settled(it)
        await it.delete(kinds.RESERVATION, "r")
        await it.create(kinds.RESERVATION, reservation(replicas=1, cpu="2"))
        await settled(it)
        assert await seats(it) == {0: ("n1", None)}
        assert await phase(it) == ("Available", "Reserved")


# --- taking over ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", [False, True], ids=["running", "over"])
@virtual
async def test_a_successor_marks_seats_that_were_taken_and_not_marked(over: bool) -> None:
    async with world(nodes=1) as it:
        async with scheduler(it.api, it.clock):
            await it.create(kinds.RESERVATION, reservation(replicas=1))
            await settled(it)
        run = {"annotations": {"sim.restow.sh/run-seconds": "1"}, "restartPolicy": "Never"} if over else {}
        made = await it.create(kinds.POD, pod("a", "1", **run))
        named = {"restow.sh/reservation": "default/r/web/0"}
        await Client(it.api).bind("default", "a", uid=made.metadata.uid, node="n1", annotations=named)
        await pass_time(10)
        assert (await it.pods())[0].status.phase == ("Succeeded" if over else "Running")
        async with scheduler(it.api, it.clock, seed=2):
            await settled(it)
            assert (await seats(it), await phase(it)) == ({0: ("n1", "a")}, ("Succeeded", "Consumed"))


@pytest.mark.parametrize(
    ("labels", "where"),
    [pytest.param("other", "n1", id="of another owner"), pytest.param("web", "n2", id="on another node")],
)
@virtual
async def test_a_forged_annotation_takes_no_seat(labels: str, where: str) -> None:
    async with stage(nodes=2) as it:
        await it.create(kinds.RESERVATION, reservation(replicas=1))
        await settled(it)
        held = (await seats(it))[0][0]
        forged = {"restow.sh/reservation": "default/r/web/0"}
        node_name = held if where == "n1" else {"n1": "n2", "n2": "n1"}[held]
        await it.create(kinds.POD, pod("thief", "1", app=labels, annotations=forged, nodeName=node_name, **THEIRS))
        await settled(it)
        assert (await seats(it), await phase(it)) == ({0: (held, None)}, ("Available", "Reserved"))


@virtual
async def test_whoever_takes_over_reads_what_is_not_what_some_cache_remembers() -> None:
    asked: list[Request] = []

    class Listening:
        def __init__(self, api: Api) -> None:
            self.call = api.call
            self._api = api

        def watch(self, request: Request) -> Any:
            asked.append(request)
            return self._api.watch(request)

    async with stage(nodes=1, around=Listening):
        first = {one.resource.plural: one.query for one in reversed(asked)}
    assert {"pods", "reservations", "nodes"} <= first.keys()
    assert all("sendInitialEvents" in query and not query.get("resourceVersion") for query in first.values())
