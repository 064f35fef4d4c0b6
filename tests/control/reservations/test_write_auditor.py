"""The write auditor itself: on which room it lets seats count, and how it judges edits."""

from __future__ import annotations

import pytest

from restow.client.verbs import Client
from restow.model import kinds
from restow.model.objects import Document
from tests.control.reservations.reservation_cluster import new_reservation, read_reservation
from tests.control.reservations.write_auditor import WriteAuditor
from tests.control.scheduler_cluster import unscheduled_cluster
from tests.sim.simulated_cluster import SimulatedCluster, on_virtual_time, pod

SEEN = "seen"


@pytest.mark.parametrize(
    ("awaits", "bind", "short"),
    [
        pytest.param(True, None, set(), id="waiting seat and the pod that it awaits"),
        pytest.param(False, None, {"later", "awaited"}, id="waiting seat that awaits no pod"),
        pytest.param(True, "1", {"awaited"}, id="pod beside the waiting seat"),
        pytest.param(True, "2", {"now", "later", "awaited"}, id="pod in room that is not left yet"),
    ],
)
@on_virtual_time
async def test_auditor_lets_only_unguaranteed_seats_count_on_room_being_left(
    awaits: bool, bind: str | None, short: set[str]
) -> None:
    """A pod of 3 on a node of 4 cores, and a claim of 4 that waits for it to leave; perhaps another pod comes."""
    async with unscheduled_cluster(nodes=1) as it:
        auditor = WriteAuditor(it.api, it.clock)
        there = await it.create(kinds.POD, pod("there", "3", nodeName="n1"))
        made: Document = new_reservation("claim", 1, "4")
        made["metadata"]["annotations"] = {"restow.sh/awaits": there.metadata.uid} if awaits else {}
        await it.create(kinds.RESERVATION, made)
        held = {
            "state": {"phase": "Waiting"},
            "placements": [{"task": "web", "index": 0, "nodeName": "n1"}],
            "taskStatusCount": {"web": {"phase": {"Waiting": 1}}},
        }
        await it.client.patch(kinds.RESERVATION, "claim", {"status": held}, "default", subresource="status")
        if bind is not None:
            await it.create(kinds.POD, pod("comer", bind, nodeName="n1"))
        assert {horizon for horizon, _, name in await auditor.shortages() if name == "cpu"} == short


@on_virtual_time
async def test_auditor_counts_seats_that_wait_after_all_others() -> None:
    """On a node of 4 cores: a pod of 1 that is to leave, a seat of 1, and a claim of 3, whatever they are called."""
    async with unscheduled_cluster(nodes=1) as it:
        auditor = WriteAuditor(it.api, it.clock)
        there = await it.create(kinds.POD, pod("there", "1", nodeName="n1"))
        for name, cpu, phase in (("a-claim", "3", "Waiting"), ("b-seat", "1", "Available")):
            made: Document = new_reservation(name, 1, cpu)
            made["metadata"]["annotations"] = {"restow.sh/awaits": there.metadata.uid} if phase == "Waiting" else {}
            await it.create(kinds.RESERVATION, made)
            held = {
                "state": {"phase": phase},
                "placements": [{"task": "web", "index": 0, "nodeName": "n1"}],
                "taskStatusCount": {"web": {"phase": {phase: 1}}},
            }
            await it.client.patch(kinds.RESERVATION, name, {"status": held}, "default", subresource="status")
        assert await auditor.shortages() == {}


@on_virtual_time
async def test_auditor_no_longer_counts_a_lost_seat_on_room_being_left() -> None:
    """A claim of 2 waits on a node of 4 cores for a pod of 3 to leave, and a foreign pod takes 3."""
    async with unscheduled_cluster(nodes=1) as it:
        auditor = WriteAuditor(it.api, it.clock)
        there = await it.create(kinds.POD, pod("there", "3", nodeName="n1"))
        made: Document = new_reservation("r", 1, "2")
        made["metadata"]["annotations"] = {"restow.sh/awaits": there.metadata.uid}
        await it.create(kinds.RESERVATION, made)
        await _agree(it, "Waiting")
        await it.create(kinds.POD, pod("foreign", "3", nodeName="n1"))
        assert (await auditor.shortages())["awaited", "n1", "cpu"] == 1000
        lost = {"state": {"phase": "Failed", "reason": "RoomTaken"}}
        await Client(auditor).patch(kinds.RESERVATION, "r", {"status": lost}, "default", subresource="status")
        assert (auditor.faults, (await auditor.shortages())["awaited", "n1", "cpu"]) == ([], 2000)


@pytest.mark.parametrize(
    ("changes", "comer", "short"),
    [
        pytest.param([], "3", 1000, id="no edit"),
        pytest.param(["3"], "2", 0, id="edit to more, not seen"),
        pytest.param(["3", SEEN], "2", 1000, id="edit to more, seen"),
        pytest.param(["1"], "3", 0, id="edit to less, not seen"),
        pytest.param(["1", "2"], "3", 0, id="edit to less and more, not seen"),
        pytest.param(["1", "2", SEEN], "3", 1000, id="edit to less and more, seen"),
    ],
)
@on_virtual_time
async def test_auditor_counts_edits_from_when_the_status_has_seen_them(
    changes: list[str], comer: str, short: int
) -> None:
    """A seat of 2 on a node of 4 cores, of which something else is asked; and a pod that comes beside it."""
    async with unscheduled_cluster(nodes=1) as it:
        auditor = WriteAuditor(it.api, it.clock)
        await it.create(kinds.RESERVATION, new_reservation("r", 1, "2"))
        for change in [SEEN, *changes]:
            if change is SEEN:
                await _agree(it)
            else:
                tasks = new_reservation("r", 1, change)["spec"]["tasks"]
                await it.patch(kinds.RESERVATION, "r", {"spec": {"tasks": tasks}})
            await auditor.note_specs()
        await it.create(kinds.POD, pod("comer", comer, nodeName="n1"))
        assert (await auditor.shortages()).get(("now", "n1", "cpu"), 0) == short


@pytest.mark.parametrize(
    ("bound", "blamed"),
    [
        pytest.param(["a"], [], id="consumed by one pod"),
        pytest.param(["a", "b"], ["was taken by"], id="consumed by two pods"),
    ],
)
@on_virtual_time
async def test_auditor_reports_a_seat_that_is_consumed_twice(bound: list[str], blamed: list[str]) -> None:
    async with unscheduled_cluster(nodes=1) as it:
        auditor = WriteAuditor(it.api, it.clock)
        made = await it.create(kinds.RESERVATION, new_reservation("r", 1, "1"))
        await _agree(it)
        await auditor.note_specs()
        annotations = {"restow.sh/reservation": "default/r/web/0", "restow.sh/reservation-uid": made.metadata.uid}
        for name in bound:
            one = await it.create(kinds.POD, pod(name, "1"))
            await Client(auditor).bind("default", name, uid=one.metadata.uid, node="n1", annotations=annotations)
        assert len(auditor.faults) == len(blamed)
        assert all(what in fault for what, fault in zip(blamed, auditor.faults, strict=True))


OPEN, ELSEWHERE = ({"task": "web", "index": 0, "nodeName": node} for node in ("n1", "n2"))
MORE = {**OPEN, "index": 1}


@pytest.mark.parametrize(
    ("phase", "placements", "blamed"),
    [
        pytest.param("Available", [OPEN, MORE], "", id="unchanged"),
        pytest.param("Available", [OPEN], "web/1 was given up for no reason", id="seat given up"),
        pytest.param("Available", [MORE, ELSEWHERE], "was on n1, and is on n2", id="seat on another node"),
        pytest.param("Available", [], "it says that it is Available", id="no seats left"),
        pytest.param("Succeeded", [OPEN, MORE], "it says that it has succeeded", id="Succeeded without consumers"),
        pytest.param("Failed", [OPEN, MORE], "it failed", id="Failed without a reason"),
    ],
)
@on_virtual_time
async def test_auditor_reports_seats_given_up_before_the_end(
    phase: str, placements: list[Document], blamed: str
) -> None:
    async with unscheduled_cluster(nodes=2) as it:
        auditor = WriteAuditor(it.api, it.clock)
        await it.create(kinds.RESERVATION, new_reservation("r", 2, "1", minAvailable=1))
        status = {"state": {"phase": "Available"}, "placements": [OPEN, MORE], "observedGeneration": 1}
        await it.client.patch(kinds.RESERVATION, "r", {"status": status}, "default", subresource="status")
        status |= {"state": {"phase": phase}, "placements": placements}
        await Client(auditor).patch(kinds.RESERVATION, "r", {"status": status}, "default", subresource="status")
        assert bool(auditor.faults) is bool(blamed)
        assert not blamed or any(blamed in fault for fault in auditor.faults), auditor.faults


@pytest.mark.parametrize(
    ("replicas", "node", "blamed"),
    [
        pytest.param(1, "n1", False, id="removed by an edit"),
        pytest.param(2, None, False, id="node is gone"),
        pytest.param(2, "n1", True, id="no reason"),
    ],
)
@on_virtual_time
async def test_auditor_reports_a_seat_given_up_without_a_reason(replicas: int, node: str | None, blamed: bool) -> None:
    async with unscheduled_cluster(nodes=1) as it:
        auditor = WriteAuditor(it.api, it.clock)
        await it.create(kinds.RESERVATION, new_reservation("r", replicas, "1", minAvailable=1))
        status = {"state": {"phase": "Available"}, "placements": [OPEN, MORE], "observedGeneration": 1}
        await it.client.patch(kinds.RESERVATION, "r", {"status": status}, "default", subresource="status")
        if node is None:
            await it.delete(kinds.NODE, "n1")
        status |= {"placements": [OPEN]}
        await Client(auditor).patch(kinds.RESERVATION, "r", {"status": status}, "default", subresource="status")
        assert [("was given up" in fault) for fault in auditor.faults] == [True] * blamed


@pytest.mark.parametrize(
    ("leaving", "blamed"),
    [
        pytest.param(False, True, id="pod stays"),
        pytest.param(True, False, id="pod is terminating"),
        pytest.param(None, False, id="pod is gone"),
    ],
)
@on_virtual_time
async def test_auditor_reports_a_migration_seat_consumed_before_the_pod_leaves(
    leaving: bool | None, blamed: bool
) -> None:
    async with unscheduled_cluster(nodes=2) as it:
        auditor = WriteAuditor(it.api, it.clock)
        migrating = await it.create(kinds.POD, pod("old", "1", nodeName="n2"))
        made = new_reservation("r", 1, "1")
        made["metadata"]["annotations"] = {"restow.sh/migrating": migrating.metadata.uid}
        reservation_uid = (await it.create(kinds.RESERVATION, made)).metadata.uid
        await _agree(it)
        await auditor.note_specs()
        if leaving is not False:
            await it.delete(kinds.POD, "old", grace_seconds=10 if leaving else 0)
        one = await it.create(kinds.POD, pod("new", "1"))
        annotations = {"restow.sh/reservation": "default/r/web/0", "restow.sh/reservation-uid": reservation_uid}
        await Client(auditor).bind("default", "new", uid=one.metadata.uid, node="n1", annotations=annotations)
        assert [("made to move" in fault) for fault in auditor.faults] == [True] * blamed


@on_virtual_time
async def test_auditor_reports_a_scheduler_that_creates_or_edits_reservations() -> None:
    async with unscheduled_cluster(nodes=1) as it:
        auditor = WriteAuditor(it.api, it.clock, statuses_only=True)
        client = Client(auditor)
        await client.create(kinds.RESERVATION, new_reservation("r", 1, "1"))
        await client.patch(kinds.RESERVATION, "r", {"spec": {"ttl": "1h"}}, "default")
        await client.delete(kinds.RESERVATION, "r", "default")
        assert len(auditor.faults) == 3


async def _agree(it: SimulatedCluster, phase: str = "Available") -> None:
    """What the reservation asks for now is held."""
    generation = (await read_reservation(it)).metadata.generation
    held = {
        "state": {"phase": phase},
        "placements": [{"task": "web", "index": 0, "nodeName": "n1"}],
        "taskStatusCount": {"web": {"phase": {phase: 1}}},
        "observedGeneration": generation,
    }
    await it.client.patch(kinds.RESERVATION, "r", {"status": held}, "default", subresource="status")
