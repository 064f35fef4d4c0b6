"""Changes of which nobody has heard yet, of several reservations on one node, or beyond a limit: who asks for more
gives way."""

from __future__ import annotations

from typing import Any

import pytest

from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from restow.ports import Forbidden, Request
from tests.control.reservations.reservation_cluster import Barrier, message, phase, reservation, seats
from tests.control.reservations.write_auditor import Auditor
from tests.control.scheduler_cluster import Answering, stage, world
from tests.sim.simulated_cluster import on_virtual_time, pass_time, pod, running_scheduler, template

ALL = SchedulerSettings(namespace_share=100)
HELD, LOST = ("Available", "Reserved"), ("Failed", "RoomTaken")
NO_RIGHTS = Forbidden.because(403, "Forbidden", "no rights")


def of(cpu: str) -> dict[str, Any]:
    return {"tasks": [{"name": "web", "replicas": 1, "template": template(cpu)}]}


def tasks(**sizes: tuple[str, str]) -> dict[str, Any]:
    """One seat of each task: on which node, and how large."""
    templates = {
        name: template(cpu, nodeSelector={"kubernetes.io/hostname": node}) for name, (node, cpu) in sizes.items()
    }
    return {"tasks": [{"name": name, "replicas": 1, "template": one} for name, one in templates.items()]}


def writes_newer(request: Request) -> bool:
    return (request.name, request.subresource) == ("newer", "status")


@pytest.mark.parametrize(
    ("older", "newer", "outcome"),
    [
        pytest.param(of("3"), {}, (LOST, HELD), id="not who stays as it is"),
        pytest.param(of("3"), {"owners": []}, (LOST, HELD), id="not who is somebody else's"),
        pytest.param(of("3"), {"ttl": "1h"}, (LOST, HELD), id="not who stays longer"),
        pytest.param(of("3"), of("1500m"), (LOST, HELD), id="not who asks for less"),
        pytest.param(of("3"), of("1"), (HELD, HELD), id="nobody, if others ask for enough less"),
        pytest.param(of("3"), of("3"), (HELD, LOST), id="of two who ask for more the newer one"),
        pytest.param({"ttl": "1h"}, of("4"), (HELD, LOST), id="the newer one, if it is the one"),
    ],
)
@on_virtual_time
async def test_who_asks_for_more_than_there_is_gives_way(
    older: dict[str, Any], newer: dict[str, Any], outcome: tuple[Any, Any]
) -> None:
    """On a node of 4 cores, seats of 1 and 2 that are changed while no scheduler looks."""
    async with world(nodes=1) as it:
        auditor = Auditor(it.api, it.clock)
        async with running_scheduler(auditor, it.clock, settings=ALL):
            for name, cpu in (("older", "1"), ("newer", "2")):
                await it.create(kinds.RESERVATION, reservation(name, 1, cpu))
                await pass_time(2)
        for name, change in (("older", older), ("newer", newer)):
            await it.patch(kinds.RESERVATION, name, {"spec": change})
            await auditor.look()
        async with running_scheduler(auditor, it.clock, settings=ALL):
            await pass_time(5)
            assert (await phase(it, "older"), await phase(it, "newer")) == outcome
        assert auditor.faults == []


@on_virtual_time
async def test_who_waits_for_a_loss_that_cannot_be_written_does_not_insist() -> None:
    async with world(nodes=1) as it:
        strict = Answering(it.api, writes_newer, NO_RIGHTS)
        async with running_scheduler(it.api, it.clock, settings=ALL):
            for name in ("older", "newer"):
                await it.create(kinds.RESERVATION, reservation(name, 1, "1"))
                await pass_time(2)
        for name in ("older", "newer"):
            await it.patch(kinds.RESERVATION, name, {"spec": of("3")})
        async with running_scheduler(strict, it.clock, settings=ALL):
            await pass_time(60)
            assert 5 < strict.asked < 25
            strict.answer = None
            await pass_time(20)
            assert (await phase(it, "older"), await phase(it, "newer")) == (HELD, LOST)


@on_virtual_time
async def test_a_pod_on_its_way_into_a_seat_that_grows_takes_what_it_needs_and_costs_nobody_theirs() -> None:
    barrier = Barrier()
    async with world(nodes=1) as it:
        auditor = Auditor(it.api, it.clock)
        async with running_scheduler(auditor, it.clock, barrier, settings=ALL):
            await it.create(kinds.RESERVATION, reservation("older", 1, "1"))
            await pass_time(2)
            await it.create(kinds.RESERVATION, reservation("newer", 1, "3", owners=[]))
            await pass_time(2)
            await it.create(kinds.POD, pod("a", "1"))
            await pass_time(2)
            await it.patch(kinds.RESERVATION, "older", {"spec": of("1500m")})
            await auditor.look()
            await pass_time(5)
            barrier.lifted = True
            await it.patch(kinds.NODE, "n1", {"metadata": {"labels": {"a": "b"}}})  # news, for which it waits
            await pass_time(15)
            assert (await phase(it, "older"), await phase(it, "newer")) == (("Succeeded", "Consumed"), HELD)
        assert auditor.faults == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(tasks(web=("n1", "3")), id="a seat that it gives up elsewhere"),
        pytest.param(tasks(web=("n1", "3"), db=("n2", "1")), id="a seat elsewhere that it asks less for"),
    ],
)
@on_virtual_time
async def test_what_it_gives_up_elsewhere_does_not_make_up_for_a_seat_that_grows(change: dict[str, Any]) -> None:
    """On nodes of 4 cores, seats of 1 and 3 on the first and one of 3 on the second, changed while no scheduler looks:
    altogether it asks for no more than before."""
    async with world(nodes=2) as it:
        auditor = Auditor(it.api, it.clock)
        async with running_scheduler(auditor, it.clock, settings=ALL):
            older, newer = tasks(web=("n1", "1"), db=("n2", "3")), tasks(web=("n1", "3"))
            for name, spec in (("older", older), ("newer", newer)):
                await it.create(kinds.RESERVATION, reservation(name, **spec))
                await pass_time(2)
        await it.patch(kinds.RESERVATION, "older", {"spec": change})
        await auditor.look()
        async with running_scheduler(auditor, it.clock, settings=ALL):
            await pass_time(5)
            assert (await phase(it, "older"), await phase(it, "newer")) == (LOST, HELD)
        assert auditor.faults == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"ttl": "1h"}, id="it stays longer"),
        pytest.param(tasks(web=("n1", "1"), db=("n2", "1")), id="it asks for less elsewhere"),
        pytest.param(tasks(web=("n1", "1"), db=("n2", "3"), more=("n2", "1")), id="it asks for one more seat"),
    ],
)
@on_virtual_time
async def test_who_asks_for_no_more_where_it_is_keeps_its_standing(change: dict[str, Any]) -> None:
    """A thief takes room that is held for two, while no scheduler looks."""
    async with world(nodes=2) as it:
        async with running_scheduler(it.api, it.clock, settings=ALL):
            older, newer = tasks(web=("n1", "1"), db=("n2", "3")), tasks(web=("n1", "3"))
            for name, spec in (("older", older), ("newer", newer)):
                await it.create(kinds.RESERVATION, reservation(name, **spec))
                await pass_time(2)
        await it.patch(kinds.RESERVATION, "older", {"spec": change})
        await it.create(kinds.POD, pod("thief", "1", app="other", schedulerName="other", nodeName="n1"))
        async with running_scheduler(it.api, it.clock, settings=ALL):
            await pass_time(5)
            assert (await phase(it, "older"), await phase(it, "newer")) == (HELD, LOST)


# --- limits -----------------------------------------------------------------------------------------------------------


def limited(name: str, cpu: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"weight": 1, "capability": {"cpu": cpu}}}


EXCEEDED = ("Failed", "LimitExceeded")


@pytest.mark.parametrize(
    ("fields", "share", "change", "says"),
    [
        pytest.param(
            {"queue": "q"},
            100,
            of("4"),
            "queue q would exceed its capability: cpu (limit 2, used 1, requested 3)",
            id="a larger template, a queue",
        ),
        pytest.param(
            {},
            20,
            of("4"),
            "namespace default may hold 20% of the cluster (reservations.namespaceShare): "
            "cpu (limit 2400m, held 1, requested 3)",
            id="a larger template, a namespace",
        ),
        pytest.param(
            {},
            100,
            {"queue": "small"},
            "queue small would exceed its capability: cpu (limit 500m, used 0, requested 1)",
            id="another queue",
        ),
        pytest.param({"queue": "q"}, 100, {"queue": "gone"}, "queue gone does not exist", id="a queue that is none"),
    ],
)
@pytest.mark.parametrize("seen", [True, False], ids=["at work", "while no scheduler looks"])
@on_virtual_time
async def test_what_a_change_asks_for_beyond_a_limit_is_lost(
    fields: dict[str, Any], share: int, change: dict[str, Any], says: str, seen: bool
) -> None:
    settings = SchedulerSettings(namespace_share=share)
    async with world(nodes=3) as it:
        for name, cpu in (("q", "2"), ("small", "500m")):
            await it.create(kinds.QUEUE, limited(name, cpu))
        async with running_scheduler(it.api, it.clock, settings=settings):
            await it.create(kinds.RESERVATION, reservation("r", 1, "1", **fields))
            await pass_time(2)
            assert await phase(it) == HELD
            if seen:
                await it.patch(kinds.RESERVATION, "r", {"spec": change})
                await pass_time(2)
        if not seen:
            await it.patch(kinds.RESERVATION, "r", {"spec": change})
        async with running_scheduler(it.api, it.clock, settings=settings):
            await pass_time(2)
            assert await phase(it) == EXCEEDED
            assert await message(it) == f"{says} (1 seat); 0 of 1 seats are consumed"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(of("2"), id="as much as there is"),
        pytest.param(of("500m"), id="less"),
        pytest.param({"ttl": "1h"}, id="something else"),
        pytest.param({"queue": "other"}, id="a queue that has room for it"),
    ],
)
@on_virtual_time
async def test_what_a_change_asks_for_within_the_limits_is_held(change: dict[str, Any]) -> None:
    async with stage(nodes=3, settings=ALL) as it:
        for name in ("q", "other"):
            await it.create(kinds.QUEUE, limited(name, "2"))
        await it.create(kinds.RESERVATION, reservation("r", 1, "1", queue="q"))
        await pass_time(2)
        await it.patch(kinds.RESERVATION, "r", {"spec": change})
        await pass_time(5)
        assert await phase(it) == HELD


@on_virtual_time
async def test_what_was_given_stays_though_the_limit_is_lowered_and_something_else_is_changed() -> None:
    async with stage(nodes=3, settings=ALL) as it:
        await it.create(kinds.QUEUE, limited("q", "2"))
        await it.create(kinds.RESERVATION, reservation("r", 1, "2", queue="q"))
        await pass_time(2)
        await it.patch(kinds.QUEUE, "q", {"spec": {"capability": {"cpu": "1"}}}, namespace=None)
        await it.patch(kinds.RESERVATION, "r", {"spec": {"ttl": "1h"}})
        await pass_time(5)
        assert await phase(it) == HELD


@on_virtual_time
async def test_as_many_seats_are_lost_as_are_beyond_the_limit() -> None:
    async with stage(nodes=3, settings=ALL) as it:
        await it.create(kinds.QUEUE, limited("q", "5"))
        await it.create(kinds.RESERVATION, reservation("r", 3, "1", queue="q", minAvailable=1))
        await pass_time(2)
        task = {"name": "web", "replicas": 3, "template": template("2")}
        await it.patch(kinds.RESERVATION, "r", {"spec": {"tasks": [task]}})
        await pass_time(5)
        assert await phase(it) == HELD
        assert sorted(await seats(it)) == [0, 1]
        told = "queue q would exceed its capability: cpu (limit 5, used 4, requested 2)"
        assert await message(it) == f"2 of 3 seats are held or consumed: cpu 4, memory 128Mi; {told}"


@on_virtual_time
async def test_of_two_who_ask_for_more_than_a_limit_the_newer_one_gives_way() -> None:
    async with world(nodes=3) as it:
        await it.create(kinds.QUEUE, limited("q", "5"))
        async with running_scheduler(it.api, it.clock, settings=ALL):
            for name in ("older", "newer"):
                await it.create(kinds.RESERVATION, reservation(name, 1, "1", queue="q"))
                await pass_time(2)
        for name in ("older", "newer"):
            await it.patch(kinds.RESERVATION, name, {"spec": of("3")})
        async with running_scheduler(it.api, it.clock, settings=ALL):
            await pass_time(5)
            assert (await phase(it, "older"), await phase(it, "newer")) == (HELD, EXCEEDED)


@on_virtual_time
async def test_one_that_has_what_it_needs_makes_nobody_wait_for_more() -> None:
    """A node of 4 cores: 2 are being left, 2 are held for the newer one; the older one has its seat elsewhere."""
    async with world(nodes=2) as it:
        auditor = Auditor(it.api, it.clock)
        stops = {"sim.restow.sh/stop-seconds": "20"}
        await it.create(kinds.POD, pod("going", "2", app="other", nodeName="n1", annotations=stops))
        await it.create(kinds.POD, pod("filler", "2", app="other", nodeName="n2"))
        async with running_scheduler(auditor, it.clock, settings=ALL):
            for name, node in (("older", "n2"), ("newer", "n1")):
                made = reservation(name, 1, "2", minAvailable=1)
                made["spec"]["tasks"][0]["reservationNodeNames"] = [node]
                await it.create(kinds.RESERVATION, made)
                await pass_time(2)
            await it.delete(kinds.POD, "going")
            await it.patch(kinds.RESERVATION, "older", {"spec": reservation("older", 2, "2", minAvailable=1)["spec"]})
            await pass_time(5)
            assert (await phase(it, "older"), await phase(it, "newer")) == (HELD, HELD)
            assert await seats(it, "older") == {0: ("n2", None)}
            await pass_time(30)
            assert await seats(it, "older") == {0: ("n2", None), 1: ("n1", None)}
        assert auditor.faults == []


@on_virtual_time
async def test_one_that_comes_to_need_less_than_it_hopes_for_makes_nobody_wait_either() -> None:
    async with world(nodes=2) as it:
        auditor = Auditor(it.api, it.clock)
        async with running_scheduler(auditor, it.clock, settings=ALL):
            slowly = {"annotations": {"sim.restow.sh/stop-seconds": "200"}, "terminationGracePeriodSeconds": 300}
            await it.create(kinds.POD, pod("going", "2", app="other", nodeName="n1", **slowly))
            await it.create(kinds.POD, pod("filler", "2", app="other", nodeName="n2"))
            await pass_time(2)
            for name, where in (("older", "n2"), ("newer", "n1")):
                made = reservation(name, 1, "2")
                made["spec"]["tasks"][0]["reservationNodeNames"] = [where]
                await it.create(kinds.RESERVATION, made)
                await pass_time(2)
            await it.delete(kinds.POD, "going")
            await it.patch(kinds.RESERVATION, "older", {"spec": reservation("older", 2, "2")["spec"]})
            await pass_time(5)
            assert await phase(it, "older") == ("Waiting", "RoomBeingLeft")
            await it.patch(kinds.RESERVATION, "older", {"spec": {"minAvailable": 1}})
            await pass_time(5)
            assert (await phase(it, "older"), await phase(it, "newer")) == (HELD, HELD)
            assert await seats(it, "older") == {0: ("n2", None)}
            assert (await message(it, "older") or "").startswith("1 of 2 seats are held or consumed")
            await pass_time(300)
            assert await seats(it, "older") == {0: ("n2", None), 1: ("n1", None)}
        assert auditor.faults == []
