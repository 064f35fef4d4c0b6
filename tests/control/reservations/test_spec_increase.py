"""Edits that ask for more: of several reservations on one node before any status has seen them, and beyond a limit."""

from __future__ import annotations

from typing import Any

import pytest

from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from restow.ports import Forbidden, Request
from tests.control.reservations.reservation_cluster import (
    PermitBarrier,
    new_reservation,
    phase_and_reason,
    seats_by_index,
    status_message,
)
from tests.control.reservations.write_auditor import WriteAuditor
from tests.control.scheduler_cluster import FixedErrorApi, scheduled_cluster, unscheduled_cluster
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
        pytest.param(of("3"), {}, (LOST, HELD), id="unedited reservation keeps its seat"),
        pytest.param(of("3"), {"owners": []}, (LOST, HELD), id="reservation of another scheduler keeps its seat"),
        pytest.param(of("3"), {"ttl": "1h"}, (LOST, HELD), id="reservation edited to stay longer keeps its seat"),
        pytest.param(of("3"), of("1500m"), (LOST, HELD), id="reservation edited to less keeps its seat"),
        pytest.param(of("3"), of("1"), (HELD, HELD), id="no loss if others ask for less"),
        pytest.param(of("3"), of("3"), (HELD, LOST), id="newer of two increases"),
        pytest.param({"ttl": "1h"}, of("4"), (HELD, LOST), id="newer reservation with the increase"),
    ],
)
@on_virtual_time
async def test_spec_increase_beyond_the_node_costs_its_own_seat(
    older: dict[str, Any], newer: dict[str, Any], outcome: tuple[Any, Any]
) -> None:
    """On a node of 4 cores, seats of 1 and 2 that are changed while no scheduler looks."""
    async with unscheduled_cluster(nodes=1) as it:
        auditor = WriteAuditor(it.api, it.clock)
        async with running_scheduler(auditor, it.clock, settings=ALL):
            for name, cpu in (("older", "1"), ("newer", "2")):
                await it.create(kinds.RESERVATION, new_reservation(name, 1, cpu))
                await pass_time(2)
        for name, change in (("older", older), ("newer", newer)):
            await it.patch(kinds.RESERVATION, name, {"spec": change})
            await auditor.note_specs()
        async with running_scheduler(auditor, it.clock, settings=ALL):
            await pass_time(5)
            assert (await phase_and_reason(it, "older"), await phase_and_reason(it, "newer")) == outcome
        assert auditor.faults == []


@on_virtual_time
async def test_increase_waiting_for_a_loss_that_cannot_be_written_does_not_retry_at_once() -> None:
    async with unscheduled_cluster(nodes=1) as it:
        strict = FixedErrorApi(it.api, writes_newer, NO_RIGHTS)
        async with running_scheduler(it.api, it.clock, settings=ALL):
            for name in ("older", "newer"):
                await it.create(kinds.RESERVATION, new_reservation(name, 1, "1"))
                await pass_time(2)
        for name in ("older", "newer"):
            await it.patch(kinds.RESERVATION, name, {"spec": of("3")})
        async with running_scheduler(strict, it.clock, settings=ALL):
            await pass_time(60)
            assert 5 < strict.times_raised < 25
            strict.error = None
            await pass_time(20)
            assert (await phase_and_reason(it, "older"), await phase_and_reason(it, "newer")) == (HELD, LOST)


@on_virtual_time
async def test_pod_on_its_way_into_an_enlarged_seat_costs_others_no_seat() -> None:
    barrier = PermitBarrier()
    async with unscheduled_cluster(nodes=1) as it:
        auditor = WriteAuditor(it.api, it.clock)
        async with running_scheduler(auditor, it.clock, barrier, settings=ALL):
            await it.create(kinds.RESERVATION, new_reservation("older", 1, "1"))
            await pass_time(2)
            await it.create(kinds.RESERVATION, new_reservation("newer", 1, "3", owners=[]))
            await pass_time(2)
            await it.create(kinds.POD, pod("a", "1"))
            await pass_time(2)
            await it.patch(kinds.RESERVATION, "older", {"spec": of("1500m")})
            await auditor.note_specs()
            await pass_time(5)
            barrier.is_lifted = True
            await it.patch(kinds.NODE, "n1", {"metadata": {"labels": {"a": "b"}}})  # news, for which it waits
            await pass_time(15)
            assert (await phase_and_reason(it, "older"), await phase_and_reason(it, "newer")) == (
                ("Succeeded", "Consumed"),
                HELD,
            )
        assert auditor.faults == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(tasks(web=("n1", "3")), id="seat removed on another node"),
        pytest.param(tasks(web=("n1", "3"), db=("n2", "1")), id="smaller seat on another node"),
    ],
)
@on_virtual_time
async def test_room_given_up_on_another_node_does_not_pay_for_an_enlarged_seat(change: dict[str, Any]) -> None:
    """On nodes of 4 cores, seats of 1 and 3 on the first and one of 3 on the second, changed while no scheduler looks:
    altogether it asks for no more than before."""
    async with unscheduled_cluster(nodes=2) as it:
        auditor = WriteAuditor(it.api, it.clock)
        async with running_scheduler(auditor, it.clock, settings=ALL):
            older, newer = tasks(web=("n1", "1"), db=("n2", "3")), tasks(web=("n1", "3"))
            for name, spec in (("older", older), ("newer", newer)):
                await it.create(kinds.RESERVATION, new_reservation(name, **spec))
                await pass_time(2)
        await it.patch(kinds.RESERVATION, "older", {"spec": change})
        await auditor.note_specs()
        async with running_scheduler(auditor, it.clock, settings=ALL):
            await pass_time(5)
            assert (await phase_and_reason(it, "older"), await phase_and_reason(it, "newer")) == (LOST, HELD)
        assert auditor.faults == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"ttl": "1h"}, id="longer ttl"),
        pytest.param(tasks(web=("n1", "1"), db=("n2", "1")), id="smaller seat elsewhere"),
        pytest.param(tasks(web=("n1", "1"), db=("n2", "3"), more=("n2", "1")), id="one more seat"),
    ],
)
@on_virtual_time
async def test_reservation_that_needs_no_more_on_its_node_keeps_its_age(change: dict[str, Any]) -> None:
    """A foreign pod takes room that is held for two, while no scheduler looks."""
    async with unscheduled_cluster(nodes=2) as it:
        async with running_scheduler(it.api, it.clock, settings=ALL):
            older, newer = tasks(web=("n1", "1"), db=("n2", "3")), tasks(web=("n1", "3"))
            for name, spec in (("older", older), ("newer", newer)):
                await it.create(kinds.RESERVATION, new_reservation(name, **spec))
                await pass_time(2)
        await it.patch(kinds.RESERVATION, "older", {"spec": change})
        await it.create(kinds.POD, pod("foreign", "1", app="other", schedulerName="other", nodeName="n1"))
        async with running_scheduler(it.api, it.clock, settings=ALL):
            await pass_time(5)
            assert (await phase_and_reason(it, "older"), await phase_and_reason(it, "newer")) == (HELD, LOST)


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
            id="larger template beyond a queue",
        ),
        pytest.param(
            {},
            20,
            of("4"),
            "namespace default may hold 20% of the cluster (reservations.namespaceShare): "
            "cpu (limit 2400m, held 1, requested 3)",
            id="larger template beyond a namespace",
        ),
        pytest.param(
            {},
            100,
            {"queue": "small"},
            "queue small would exceed its capability: cpu (limit 500m, used 0, requested 1)",
            id="another queue",
        ),
        pytest.param({"queue": "q"}, 100, {"queue": "gone"}, "queue gone does not exist", id="unknown queue"),
    ],
)
@pytest.mark.parametrize("seen", [True, False], ids=["scheduler running", "scheduler restarted"])
@on_virtual_time
async def test_seat_enlarged_beyond_a_limit_is_lost(
    fields: dict[str, Any], share: int, change: dict[str, Any], says: str, seen: bool
) -> None:
    settings = SchedulerSettings(namespace_share=share)
    async with unscheduled_cluster(nodes=3) as it:
        for name, cpu in (("q", "2"), ("small", "500m")):
            await it.create(kinds.QUEUE, limited(name, cpu))
        async with running_scheduler(it.api, it.clock, settings=settings):
            await it.create(kinds.RESERVATION, new_reservation("r", 1, "1", **fields))
            await pass_time(2)
            assert await phase_and_reason(it) == HELD
            if seen:
                await it.patch(kinds.RESERVATION, "r", {"spec": change})
                await pass_time(2)
        if not seen:
            await it.patch(kinds.RESERVATION, "r", {"spec": change})
        async with running_scheduler(it.api, it.clock, settings=settings):
            await pass_time(2)
            assert await phase_and_reason(it) == EXCEEDED
            assert await status_message(it) == f"{says} (1 seat); 0 of 1 seats are consumed"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(of("2"), id="exactly the limit"),
        pytest.param(of("500m"), id="below the limit"),
        pytest.param({"ttl": "1h"}, id="another resource"),
        pytest.param({"queue": "other"}, id="queue with room"),
    ],
)
@on_virtual_time
async def test_seat_enlarged_within_the_limits_is_held(change: dict[str, Any]) -> None:
    async with scheduled_cluster(nodes=3, settings=ALL) as it:
        for name in ("q", "other"):
            await it.create(kinds.QUEUE, limited(name, "2"))
        await it.create(kinds.RESERVATION, new_reservation("r", 1, "1", queue="q"))
        await pass_time(2)
        await it.patch(kinds.RESERVATION, "r", {"spec": change})
        await pass_time(5)
        assert await phase_and_reason(it) == HELD


@on_virtual_time
async def test_granted_seats_survive_a_lowered_limit_and_an_unrelated_edit() -> None:
    async with scheduled_cluster(nodes=3, settings=ALL) as it:
        await it.create(kinds.QUEUE, limited("q", "2"))
        await it.create(kinds.RESERVATION, new_reservation("r", 1, "2", queue="q"))
        await pass_time(2)
        await it.patch(kinds.QUEUE, "q", {"spec": {"capability": {"cpu": "1"}}}, namespace=None)
        await it.patch(kinds.RESERVATION, "r", {"spec": {"ttl": "1h"}})
        await pass_time(5)
        assert await phase_and_reason(it) == HELD


@on_virtual_time
async def test_only_the_seats_beyond_the_limit_are_lost() -> None:
    async with scheduled_cluster(nodes=3, settings=ALL) as it:
        await it.create(kinds.QUEUE, limited("q", "5"))
        await it.create(kinds.RESERVATION, new_reservation("r", 3, "1", queue="q", minAvailable=1))
        await pass_time(2)
        task = {"name": "web", "replicas": 3, "template": template("2")}
        await it.patch(kinds.RESERVATION, "r", {"spec": {"tasks": [task]}})
        await pass_time(5)
        assert await phase_and_reason(it) == HELD
        assert sorted(await seats_by_index(it)) == [0, 1]
        told = "queue q would exceed its capability: cpu (limit 5, used 4, requested 2)"
        assert await status_message(it) == f"2 of 3 seats are held or consumed: cpu 4, memory 128Mi; {told}"


@on_virtual_time
async def test_newer_of_two_reservations_beyond_a_limit_loses_its_seats() -> None:
    async with unscheduled_cluster(nodes=3) as it:
        await it.create(kinds.QUEUE, limited("q", "5"))
        async with running_scheduler(it.api, it.clock, settings=ALL):
            for name in ("older", "newer"):
                await it.create(kinds.RESERVATION, new_reservation(name, 1, "1", queue="q"))
                await pass_time(2)
        for name in ("older", "newer"):
            await it.patch(kinds.RESERVATION, name, {"spec": of("3")})
        async with running_scheduler(it.api, it.clock, settings=ALL):
            await pass_time(5)
            assert (await phase_and_reason(it, "older"), await phase_and_reason(it, "newer")) == (HELD, EXCEEDED)


@on_virtual_time
async def test_reservation_with_all_its_seats_lets_others_pass() -> None:
    """A node of 4 cores: 2 are being left, 2 are held for the newer one; the older one has its seat elsewhere."""
    async with unscheduled_cluster(nodes=2) as it:
        auditor = WriteAuditor(it.api, it.clock)
        stops = {"sim.restow.sh/stop-seconds": "20"}
        await it.create(kinds.POD, pod("going", "2", app="other", nodeName="n1", annotations=stops))
        await it.create(kinds.POD, pod("filler", "2", app="other", nodeName="n2"))
        async with running_scheduler(auditor, it.clock, settings=ALL):
            for name, node in (("older", "n2"), ("newer", "n1")):
                made = new_reservation(name, 1, "2", minAvailable=1)
                made["spec"]["tasks"][0]["reservationNodeNames"] = [node]
                await it.create(kinds.RESERVATION, made)
                await pass_time(2)
            await it.delete(kinds.POD, "going")
            await it.patch(
                kinds.RESERVATION, "older", {"spec": new_reservation("older", 2, "2", minAvailable=1)["spec"]}
            )
            await pass_time(5)
            assert (await phase_and_reason(it, "older"), await phase_and_reason(it, "newer")) == (HELD, HELD)
            assert await seats_by_index(it, "older") == {0: ("n2", None)}
            await pass_time(30)
            assert await seats_by_index(it, "older") == {0: ("n2", None), 1: ("n1", None)}
        assert auditor.faults == []


@on_virtual_time
async def test_reservation_edited_to_need_less_lets_others_pass() -> None:
    async with unscheduled_cluster(nodes=2) as it:
        auditor = WriteAuditor(it.api, it.clock)
        async with running_scheduler(auditor, it.clock, settings=ALL):
            slowly = {"annotations": {"sim.restow.sh/stop-seconds": "200"}, "terminationGracePeriodSeconds": 300}
            await it.create(kinds.POD, pod("going", "2", app="other", nodeName="n1", **slowly))
            await it.create(kinds.POD, pod("filler", "2", app="other", nodeName="n2"))
            await pass_time(2)
            for name, where in (("older", "n2"), ("newer", "n1")):
                made = new_reservation(name, 1, "2")
                made["spec"]["tasks"][0]["reservationNodeNames"] = [where]
                await it.create(kinds.RESERVATION, made)
                await pass_time(2)
            await it.delete(kinds.POD, "going")
            await it.patch(kinds.RESERVATION, "older", {"spec": new_reservation("older", 2, "2")["spec"]})
            await pass_time(5)
            assert await phase_and_reason(it, "older") == ("Waiting", "RoomBeingLeft")
            await it.patch(kinds.RESERVATION, "older", {"spec": {"minAvailable": 1}})
            await pass_time(5)
            assert (await phase_and_reason(it, "older"), await phase_and_reason(it, "newer")) == (HELD, HELD)
            assert await seats_by_index(it, "older") == {0: ("n2", None)}
            assert (await status_message(it, "older") or "").startswith("1 of 2 seats are held or consumed")
            await pass_time(300)
            assert await seats_by_index(it, "older") == {0: ("n2", None), 1: ("n1", None)}
        assert auditor.faults == []
