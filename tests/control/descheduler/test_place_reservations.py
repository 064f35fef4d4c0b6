"""The room that a plan makes is kept for its pending pods, although other pods come meanwhile and requests fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from random import Random

import pytest
from msgspec.structs import replace

from restow.client.verbs import Client
from restow.control.descheduler import ApplyProgress, ClusterChanged, DeschedulerSettings, RunRefused
from restow.control.descheduler.place_reservations import PlanPlaceReservations
from restow.migration.conditions import is_job_ended
from restow.model import kinds
from restow.model.affinity import names_of
from restow.model.objects import Document
from restow.planning.plan import Place
from restow.ports import Api, ApiError, OutcomeUnknown, Request, TooManyRequests
from restow.sim.faults import FaultPlan, FaultyApi, run_until_crash
from tests.control.descheduler.descheduler_fixture import (
    ScatteredCluster,
    descheduler,
    plan_runner,
    running_event_handlers,
)
from tests.control.descheduler.place_reservation_fixture import (
    create_competing_pods,
    crowded_cluster,
    place_reservations,
    plan_with_places,
)
from tests.control.scheduler_cluster import (
    FixedErrorApi,
    assert_nothing_overcommitted,
    gang_member,
    nodes_by_pod,
    pod_group,
)
from tests.sim.simulated_cluster import default_profile, on_virtual_time, pass_time, pod, running_component


@pytest.mark.parametrize("after", [0.3, 9.0], ids=lambda seconds: f"{seconds:g} s after the plan began")
@on_virtual_time
async def test_room_gathered_for_a_gang_is_not_taken_by_other_pods(after: float) -> None:
    async with crowded_cluster() as it:
        plan = await plan_with_places(it)
        competitors = asyncio.create_task(create_competing_pods(it, after))
        done = await plan_runner(it).apply(plan)
        await competitors
        await pass_time(5)
        where = await nodes_by_pod(it)
        assert (done.succeeded, done.filled_places) == (2, 2)
        assert (where["gang-0"], where["gang-1"]) == ("n2", "n3")
        assert not any(node for name, node in where.items() if name.startswith("competitor"))
        await assert_nothing_overcommitted(it)


@on_virtual_time
async def test_without_place_reservations_other_pods_take_the_room() -> None:
    async with crowded_cluster() as it:
        plan = replace(await plan_with_places(it), objective="", places=())
        competitors = asyncio.create_task(create_competing_pods(it, 2.0))
        with suppress(ClusterChanged):
            await plan_runner(it).apply(plan)
        await competitors
        await pass_time(5)
        where = await nodes_by_pod(it)
        assert any(node for name, node in where.items() if name.startswith("competitor"))
        assert where["gang-0"] is None and where["gang-1"] is None


@on_virtual_time
async def test_place_reservation_waits_from_the_beginning_and_opens_when_all_pods_have_left() -> None:
    async with crowded_cluster() as it:
        plan, seen = await plan_with_places(it), list[tuple[str | None, str | None]]()
        begun = asyncio.create_task(plan_runner(it).apply(plan))
        for _ in range(200):
            await pass_time(0.1)
            seen += [(one.status.state.phase, one.status.state.reason) for one in await place_reservations(it)]
            if begun.done():
                break
        phases = list(dict.fromkeys(phase for phase, _ in seen if phase))
        assert phases == ["Waiting", "Available", "Succeeded"]
        assert ("Waiting", "RoomBeingLeft") in seen


@on_virtual_time
async def test_gang_has_one_place_reservation_with_all_its_seats() -> None:
    async with crowded_cluster() as it:
        begun = asyncio.create_task(plan_runner(it).apply(await plan_with_places(it)))
        await pass_time(1)
        [place_reservation] = await place_reservations(it)
        assert place_reservation.spec.min_available == 2
        assert sorted(one.node_name for one in place_reservation.status.placements or ()) == ["n2", "n3"]
        assert [(one.object.kind, one.object.name) for one in place_reservation.spec.owners or () if one.object] == [
            ("PodGroup", "gang")
        ]
        await begun


@pytest.mark.parametrize("seconds", [3.0, 14.0], ids=lambda seconds: f"after {seconds:g} s")
@on_virtual_time
async def test_interrupted_apply_finds_its_place_reservation_again(seconds: float) -> None:
    async with crowded_cluster() as it:
        plan = await plan_with_places(it)
        begun = asyncio.create_task(plan_runner(it).apply(plan))
        await pass_time(seconds)
        begun.cancel()
        with suppress(asyncio.CancelledError):
            await begun
        await create_competing_pods(it, 0.0)
        done = await plan_runner(it).apply(plan)
        assert (done.succeeded, done.filled_places) == (2, 2)
        assert len(await place_reservations(it)) <= 1


@on_virtual_time
async def test_place_reservation_of_an_abandoned_plan_expires() -> None:
    async with crowded_cluster() as it:
        begun = asyncio.create_task(plan_runner(it).apply(await plan_with_places(it)))
        await pass_time(0.3)
        begun.cancel()
        with suppress(asyncio.CancelledError):
            await begun
        await it.delete(kinds.POD, "gang-1")
        await pass_time(1000)
        [place_reservation] = await place_reservations(it)
        assert (place_reservation.status.state.phase, place_reservation.status.state.reason) == ("Failed", "Expired")


@on_virtual_time
async def test_plan_that_stops_half_way_deletes_its_place_reservations() -> None:
    async with crowded_cluster() as it:
        plan, told = await plan_with_places(it), list[ApplyProgress]()
        begun = asyncio.create_task(plan_runner(it, strict=True, report_progress=told.append).apply(plan))
        await pass_time(1)
        assert len(await place_reservations(it)) == 1
        await it.delete(kinds.POD, plan.moves[1].pod)
        with pytest.raises(ClusterChanged, match="wave 2 does not begin"):
            await begun
        assert await place_reservations(it) == []


@on_virtual_time
async def test_place_reservations_are_extended_while_the_plan_is_carried_out() -> None:
    async with crowded_cluster() as it:
        plan = await plan_with_places(it)
        await it.stop()
        shaky = FaultyApi(it.api, Random(1))
        begun = asyncio.create_task(plan_runner(it, api=shaky, settings=DeschedulerSettings(place_ttl=90)).apply(plan))
        await pass_time(20)
        shaky.plan = FaultPlan(refused=0.3, unknown=0.3)
        await pass_time(380)
        [place_reservation] = await place_reservations(it)
        assert (place_reservation.status.state.phase, begun.done()) == ("Waiting", False)
        begun.cancel()
        with suppress(asyncio.CancelledError):
            await begun


@on_virtual_time
async def test_node_that_still_has_to_take_a_pod_is_reserved_afterwards() -> None:
    """The pod of n3 makes a stop on n2, which is to be the gang's in the end."""
    async with crowded_cluster() as it:
        plan = await plan_with_places(it)
        out, then = plan.moves
        stop = replace(then, target="n2", order=2, wave=2)
        last = replace(then, source="n2", order=3, wave=3)
        begun = asyncio.create_task(plan_runner(it).apply(replace(plan, moves=(out, stop, last))))
        await pass_time(1)
        assert await place_reservations(it) == []
        done = await begun
        assert (done.succeeded, done.filled_places) == (3, 2)


@on_virtual_time
async def test_pods_without_a_gang_have_place_reservations_of_their_own() -> None:
    async with crowded_cluster() as it:
        await it.delete(kinds.POD, "gang-0")
        await it.delete(kinds.POD, "gang-1")
        await it.create(kinds.POD, pod("alone", "4"))
        await pass_time(1)
        plan = await plan_with_places(it)
        seat = Place(namespace="default", pod="alone", node="n2")
        competitors = asyncio.create_task(create_competing_pods(it, 0.5))
        done = await plan_runner(it).apply(replace(plan, moves=plan.moves[:1], places=(seat,)))
        await competitors
        assert done.filled_places == 1 and (await nodes_by_pod(it))["alone"] == "n2"


@on_virtual_time
async def test_pods_of_different_sizes_get_seats_of_their_size() -> None:
    async with crowded_cluster() as it:
        await it.delete(kinds.POD, "gang-0")
        await it.delete(kinds.POD, "gang-1")
        for name, cpu in (("gang-a", "2"), ("gang-b", "4")):
            await it.create(kinds.POD, gang_member(name, "gang", cpu))
        await pass_time(1)
        plan = await plan_with_places(it)
        seats = (
            Place(namespace="default", pod="gang-a", node="n3"),
            Place(namespace="default", pod="gang-b", node="n2"),
        )
        done = await plan_runner(it).apply(replace(plan, moves=plan.moves[:1], places=seats))
        where = await nodes_by_pod(it)
        assert (done.filled_places, where["gang-a"], where["gang-b"]) == (2, "n3", "n2")


@on_virtual_time
async def test_repaired_place_moves_its_reservation_and_dropped_place_leaves_none() -> None:
    async with crowded_cluster() as it, running_event_handlers(it) as handlers:
        plan, client = await plan_with_places(it), Client(it.api)
        places = PlanPlaceReservations(client, it.clock, handlers, DeschedulerSettings(), "plan")
        elsewhere = (plan.places[0], replace(plan.places[1], node="n4"))
        for seats, nodes in ((plan.places, {"n2", "n3"}), (elsewhere, {"n2", "n4"}), ((), set[str]())):
            await places.ensure_due(places.desired(seats, handlers.pending_pods(default_profile())), plan.moves)
            tasks = [task for one in await place_reservations(it) for task in one.spec.tasks or ()]
            assert {name for task in tasks for name in names_of(task.template.spec)} == nodes


@on_virtual_time
async def test_gang_recreated_under_its_name_gets_the_reserved_places() -> None:
    """A place reservation is for the pods that were pending when it was created. Pods that come instead of them must
    not have to wait until it expires."""
    async with crowded_cluster() as it:
        begun = asyncio.create_task(plan_runner(it).apply(await plan_with_places(it)))
        await pass_time(1)
        await it.delete(kinds.POD_GROUP, "gang")
        await it.create(kinds.POD_GROUP, pod_group("gang", 2))
        done = await begun
        assert (done.succeeded, done.filled_places) == (2, 2)
        assert {one.status.state.phase for one in await place_reservations(it)} == {"Succeeded"}


@on_virtual_time
async def test_gang_recreated_while_its_room_is_ready_gets_the_room() -> None:
    async with crowded_cluster() as it:
        begun = asyncio.create_task(plan_runner(it).apply(await plan_with_places(it)))
        while len(await it.jobs()) < 2:
            await pass_time(0.2)
        await it.patch(kinds.NODE, "n3", {"spec": {"unschedulable": True}})
        await pass_time(20)
        await it.delete(kinds.POD_GROUP, "gang")
        await it.create(kinds.POD_GROUP, pod_group("gang", 2))
        await pass_time(10)
        await it.patch(kinds.NODE, "n3", {"spec": {"unschedulable": None}})
        assert (await begun).filled_places == 2


@on_virtual_time
async def test_room_that_other_pods_leave_meanwhile_is_kept() -> None:
    """Somebody else, such as a queue that clears its nodes, moves the pods of the second wave."""
    async with crowded_cluster() as it:
        plan = await plan_with_places(it)
        begun = asyncio.create_task(plan_runner(it).apply(plan))
        await pass_time(0.1)
        other = next(one for one in await it.pods() if one.metadata.uid == plan.moves[1].uid)
        await it.move(other, annotations={"restow.sh/target-node": "n1"})
        await create_competing_pods(it, 1.0)
        done = await begun
        assert (done.succeeded, done.filled_places) == (1, 2)
        assert "there is no such pod on any node" in done.repairs[0]


@on_virtual_time
async def test_seats_held_elsewhere_after_a_repair_are_kept_after_the_last_move() -> None:
    async with crowded_cluster() as it, running_event_handlers(it) as handlers:
        plan, client = await plan_with_places(it), Client(it.api)
        places = PlanPlaceReservations(client, it.clock, handlers, DeschedulerSettings(), "plan")
        pending, repaired = (
            handlers.pending_pods(default_profile()),
            (plan.places[0], replace(plan.places[1], node="n4")),
        )
        await places.ensure_due(places.desired(repaired, pending), plan.moves)
        [before] = await place_reservations(it)
        await places.ensure_due(places.desired(plan.places, pending), ())
        [after] = await place_reservations(it)
        assert before.metadata.uid == after.metadata.uid


MAKING_ROOM: Document = {
    "profiles": [
        {
            "plugins": {"balance": {"enabled": ["Optimal"]}},
            "pluginConfig": [{"name": "Optimal", "args": {"objective": "pending", "workLimit": 200}}],
        }
    ]
}


@on_virtual_time
async def test_place_reservations_of_a_dead_descheduler_are_deleted_by_the_next_cycle() -> None:
    async with crowded_cluster() as it:
        mortal = FaultyApi(it.api, Random(1), FaultPlan(crash_after=1))  # after the Lease and the place reservation

        async def first() -> None:
            async with running_component(descheduler(it, MAKING_ROOM, api=mortal)) as controller:
                await controller.trigger()

        await run_until_crash(mortal, first())
        await pass_time(2)
        [orphan] = await place_reservations(it)
        async with running_component(descheduler(it, MAKING_ROOM)) as controller:
            await controller.trigger()
            await pass_time(30)
        left = await place_reservations(it)
        assert orphan.metadata.uid not in {one.metadata.uid for one in left}
        assert [one.status.state.phase for one in left] == ["Succeeded"]


@pytest.mark.parametrize("again", [True, False], ids=["others come under their names", "they are gone"])
@on_virtual_time
async def test_place_reservations_for_pods_that_are_not_pending_are_deleted_by_the_next_cycle(again: bool) -> None:
    async with crowded_cluster() as it, running_component(descheduler(it, MAKING_ROOM)) as controller:
        await controller.trigger()
        await it.delete(kinds.POD_GROUP, "gang")
        if again:
            await it.create(kinds.POD_GROUP, pod_group("gang", 2))
        else:
            await it.delete(kinds.POD, "gang-0")
            await it.delete(kinds.POD, "gang-1")
            await it.create(kinds.POD, pod("alone", "3500m"))
        await pass_time(30)
        assert [one.status.state.phase for one in await place_reservations(it)] == ["Available"]
        await controller.trigger()
        await pass_time(5)
        where = await nodes_by_pod(it)
        assert await place_reservations(it) == []
        assert {where.get(name, "gone") for name in ("gang-0", "gang-1", "alone")} > {"gone"}
        assert None not in where.values()


@on_virtual_time
async def test_applied_plan_is_under_way_between_its_waves() -> None:
    async with crowded_cluster() as it:
        begun = asyncio.create_task(plan_runner(it).apply(await plan_with_places(it)))
        await pass_time(1)
        begun.cancel()
        await pass_time(20)
        async with running_component(descheduler(it, MAKING_ROOM)) as controller:
            with pytest.raises(RunRefused, match="is under way: its place reservations wait for pods to leave"):
                await controller.trigger()


@on_virtual_time
async def test_profile_that_makes_room_reserves_it() -> None:
    async with crowded_cluster() as it, running_component(descheduler(it, MAKING_ROOM)) as controller:
        run = await controller.trigger()
        assert len(run.outcome.plan.places) == 2
        await create_competing_pods(it, 0.5)
        await pass_time(30)
        where = await nodes_by_pod(it)
        assert {where["gang-0"], where["gang-1"]} == {"n2", "n3"}
        assert [one.status.state.phase for one in await place_reservations(it)] == ["Succeeded"]


async def _grow(it: ScatteredCluster) -> None:
    """The gang needs a third member, which is never created."""
    await it.patch(kinds.POD_GROUP, "gang", {"spec": {"minMember": 3}})


async def _cordon(it: ScatteredCluster) -> None:
    await it.patch(kinds.NODE, "n3", {"spec": {"unschedulable": True}})


async def _fill(it: ScatteredCluster) -> None:
    await it.create(kinds.POD, pod("stranger", "1", nodeName="n3", schedulerName="other"))


@pytest.mark.parametrize(
    ("happens", "left"),
    [
        pytest.param(_grow, ["Available"], id="available places stay reserved for pods that do not come"),
        pytest.param(_fill, [], id="what others have taken is let go"),
        pytest.param(_cordon, [], id="what cannot be had is let go"),
    ],
)
@on_virtual_time
async def test_apply_waits_a_minute_for_pods_to_take_their_places(
    happens: Callable[[ScatteredCluster], Awaitable[None]], left: list[str]
) -> None:
    async with crowded_cluster() as it:
        begun = asyncio.create_task(plan_runner(it).apply(await plan_with_places(it)))
        while sum(is_job_ended(job) for job in await it.jobs()) < 2:
            if len(await it.jobs()) == 2:
                with suppress(ApiError):
                    await happens(it)
            await pass_time(0.2)
        since = it.clock.now()
        done = await begun
        assert (done.succeeded, done.filled_places) == (2, 0)
        assert [one.status.state.phase for one in await place_reservations(it)] == left
        assert 55 < it.clock.now() - since < 70


@on_virtual_time
async def test_apply_waits_for_places_once_although_the_cluster_did_not_answer() -> None:
    async with crowded_cluster() as it:
        told, lost = list[ApplyProgress](), OutcomeUnknown.because(503, "ServiceUnavailable", "cut off")
        api = FixedErrorApi(it.api, lambda request: request.verb == "delete", lost)
        begun = asyncio.create_task(
            plan_runner(it, api=api, report_progress=told.append).apply(await plan_with_places(it))
        )
        while sum(is_job_ended(job) for job in await it.jobs()) < 2:
            if len(await it.jobs()) == 2:
                await _cordon(it)
            await pass_time(0.2)
        await pass_time(80)
        assert api.times_raised and told[-1].interruption == "cut off" and not begun.done()
        api.error = None
        await pass_time(10)
        assert begun.done() and (await begun).succeeded == 2
        assert told[-1].interruption is None and await place_reservations(it) == []


class _Blind:
    """An Api with a watch that does not show that the gang was bound."""

    def __init__(self, api: Api) -> None:
        self.call = api.call
        self._api = api

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        async for event in self._api.watch(request):
            is_news = request.resource.plural == "pods" and b'"name":"gang-' in event and b'"nodeName":' in event
            if not is_news:
                yield event


@on_virtual_time
async def test_filled_places_are_read_until_the_cluster_answers() -> None:
    """The gang has taken its places, of which the watch shows nothing, and the server is too busy to say so."""
    async with crowded_cluster() as it:
        told, busy = list[ApplyProgress](), TooManyRequests.because(429, "TooManyRequests", "too busy")
        api = FixedErrorApi(
            _Blind(it.api), lambda request: (request.verb, request.resource.plural) == ("get", "pods"), busy
        )
        begun = asyncio.create_task(
            plan_runner(it, api=api, report_progress=told.append).apply(await plan_with_places(it))
        )
        await pass_time(40)
        assert [one.status.state.phase for one in await place_reservations(it)] == ["Succeeded"]
        assert api.times_raised and told[-1].interruption == "too busy" and not begun.done()
        api.error = None
        await pass_time(10)
        assert begun.done() and ((await begun).succeeded, (await begun).filled_places) == (2, 2)
        assert told[-1].interruption is None
