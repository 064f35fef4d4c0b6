"""The auditor inside the API server reports what is wrong with a write, with the knowledge of a scheduler and with its
next steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from restow.control.scheduler import Scheduler
from restow.model import kinds
from restow.model.objects import Document, Placement, Pod
from restow.model.reservations.seat_name import SeatName
from restow.ports import Forbidden
from tests.control.reservations import api_memory_auditor as auditing
from tests.control.reservations.api_memory_auditor import LONGEST, ApiMemoryAuditor
from tests.control.reservations.next_leader import FirstSteps, Lists, NextLeader, SchedulerKnowledge
from tests.control.reservations.reservation_cluster import new_reservation, phase_and_reason, read_reservation
from tests.control.scheduler_cluster import FixedErrorApi, unscheduled_cluster
from tests.sim.simulated_cluster import (
    SimulatedCluster,
    default_profile,
    on_virtual_time,
    pass_time,
    pod,
    running_scheduler,
)

SEAT = SeatName("default", "r", "web", 0)
OPEN: Document = {"task": "web", "index": 0, "nodeName": "n1"}
TAKEN: Document = {**OPEN, "podRef": {"namespace": "default", "name": "p", "uid": "uid-p"}}


def audited(it: SimulatedCluster) -> ApiMemoryAuditor:
    return ApiMemoryAuditor(it.api, it.clock, profile=default_profile())


async def _write(it: SimulatedCluster, placements: list[Document], phase: str = "Available", seen: int = 1) -> None:
    status = {"state": {"phase": phase}, "placements": placements, "observedGeneration": seen}
    await it.client.patch(kinds.RESERVATION, "r", {"status": status}, "default", subresource="status")


async def _sits(it: SimulatedCluster, name: str, **fields: Any) -> Pod:
    """A pod is on n1, and says that it took the seat."""
    made = pod(name, "1", nodeName="n1", **fields)
    reservation_uid = (await read_reservation(it)).metadata.uid
    annotations = {"restow.sh/reservation": str(SEAT), "restow.sh/reservation-uid": reservation_uid}
    made["metadata"]["annotations"] = annotations
    found: Pod = await it.create(kinds.POD, made)
    return found


# --- what is written --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "blamed"),
    [
        pytest.param(([], "Failed"), ([OPEN], "Available"), "had ended", id="ended and available again"),
        pytest.param(([], "Failed"), ([OPEN], "Failed"), "has another seat", id="ended and holding a seat"),
        pytest.param(([TAKEN],), ([OPEN],), "had recorded", id="consumed seat opened"),
        pytest.param(([TAKEN],), ([],), "had recorded", id="consumed seat removed"),
        pytest.param(([OPEN], "Available", 2), ([OPEN],), "has forgotten", id="older observedGeneration"),
    ],
)
@on_virtual_time
async def test_auditor_reports_a_status_that_must_not_be_written(before: Any, after: Any, blamed: str) -> None:
    async with unscheduled_cluster(nodes=1) as it:
        memory = audited(it)
        await it.create(kinds.RESERVATION, new_reservation(replicas=1))
        await _write(it, *before)
        known = len(memory.faults)
        await _write(it, *after)
        assert any(blamed in fault for fault in memory.faults[known:]), memory.faults


# --- what a successor would know --------------------------------------------------------------------------------------


@on_virtual_time
async def test_auditor_accepts_a_seat_held_consumed_and_ended() -> None:
    async with unscheduled_cluster(nodes=1) as it:
        memory = audited(it)
        await it.create(kinds.RESERVATION, new_reservation(replicas=1))
        await _write(it, [OPEN])
        one = await _sits(it, "p")
        taken = {**OPEN, "podRef": {"namespace": "default", "name": "p", "uid": one.metadata.uid}}
        await _write(it, [taken], "Succeeded")
        await it.delete(kinds.POD, "p", grace_seconds=0)
        await it.delete(kinds.RESERVATION, "r")
        assert (memory.faults, memory.counts["events"] > 5) == ([], True)


@on_virtual_time
async def test_auditor_reports_a_consumer_that_a_new_leader_would_not_believe() -> None:
    """It is none of the owners, and nothing says that it ever was: the seat would be held beside it."""
    async with unscheduled_cluster(nodes=1) as it:
        memory = audited(it)
        await it.create(kinds.RESERVATION, new_reservation(replicas=1))
        await _write(it, [OPEN])
        assert memory.faults == []
        await _sits(it, "p", app="other")
        told = " ".join(memory.faults)
        assert all(blamed in told for blamed in ("would count with", "give it away again", "would not record it"))


# --- what a successor would do ----------------------------------------------------------------------------------------


def _none(lists: Lists) -> FirstSteps:
    """Nothing is done at all."""
    [made] = lists[kinds.RESERVATION.qualified_name]
    return FirstSteps(
        {}, {("default", "r"): made}, {one.metadata.uid: one for one in lists[kinds.POD.qualified_name]}, []
    )


def bind(steps: FirstSteps, name: str, seat: SeatName | None = None) -> None:
    """A pod is bound to n1, into a seat of the reservation."""
    one = next(one for one in steps.pods.values() if one.metadata.name == name)
    [made] = steps.reservations.values()
    annotations = {"restow.sh/reservation": str(seat), "restow.sh/reservation-uid": made.metadata.uid} if seat else {}
    bound = replace(
        one, metadata=replace(one.metadata, annotations=annotations), spec=replace(one.spec, node_name="n1")
    )
    steps.pods[one.metadata.uid] = bound
    steps.bound.append(bound)


def remove_recorded_consumption(steps: FirstSteps) -> None:
    for key, one in steps.reservations.items():
        steps.reservations[key] = replace(one, status=replace(one.status, placements=None))


@pytest.mark.parametrize(
    ("wrong", "blamed"),
    [
        pytest.param(lambda steps: None, "", id="nothing is done"),
        pytest.param(lambda steps: bind(steps, "large"), "would lack", id="pod bound without room"),
        pytest.param(lambda steps: bind(steps, "small", SEAT), "which was taken", id="seat assigned twice"),
        pytest.param(remove_recorded_consumption, "had recorded", id="recorded consumption removed"),
    ],
)
@on_virtual_time
async def test_auditor_reports_what_a_new_leader_must_not_do(
    wrong: Callable[[FirstSteps], None], blamed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wrong(NextLeader):
        def first_steps(self) -> FirstSteps:
            steps = _none(self._lists)
            wrong(steps)
            return steps

    async with unscheduled_cluster(nodes=1) as it:
        memory = audited(it)
        await it.create(kinds.RESERVATION, new_reservation(replicas=1))
        await _write(it, [OPEN])
        one = await _sits(it, "p")
        for name, cpu in (("small", "1"), ("large", "9")):
            await it.create(kinds.POD, pod(name, cpu))
        await _write(it, [{**OPEN, "podRef": {"namespace": "default", "name": "p", "uid": one.metadata.uid}}])
        assert memory.faults == []
        monkeypatch.setattr(auditing, "NextLeader", Wrong)
        memory.audit("now")
        assert bool(memory.faults) is bool(blamed) and all(blamed in fault for fault in memory.faults)


@pytest.mark.parametrize(
    ("spec", "annotations", "blamed"),
    [
        pytest.param({"ttl": "1s"}, {}, "has expired", id="expired and not ended"),
        pytest.param({}, {"restow.sh/migrating": "p"}, "still closed", id="migrating pod has not left"),
        pytest.param({}, {}, "is gone", id="node is gone"),
    ],
)
@on_virtual_time
async def test_auditor_reports_what_a_new_leader_must_not_leave(
    spec: Document, annotations: Document, blamed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Idle(NextLeader):
        def first_steps(self) -> FirstSteps:
            steps = _none(self._lists)
            if annotations:
                bind(steps, "q", SEAT)
            return steps

    async with unscheduled_cluster(nodes=1) as it:
        migrating = await it.create(kinds.POD, pod("p", nodeName="n1"))
        await it.create(kinds.POD, pod("q"))
        made = new_reservation(replicas=1, **spec)
        made["metadata"]["annotations"] = dict.fromkeys(annotations, migrating.metadata.uid)
        await it.create(kinds.RESERVATION, made)
        await _write(it, [OPEN])
        await pass_time(2)
        if not spec and not annotations:
            await it.delete(kinds.NODE, "n1")
        memory = audited(it)
        memory.audit("now")
        assert memory.faults == []
        monkeypatch.setattr(auditing, "NextLeader", Idle)
        memory.audit("now")
        assert [blamed in fault for fault in memory.faults] == [True]


@on_virtual_time
async def test_auditor_reports_a_consumed_seat_that_looks_free(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(NextLeader):
        @property
        def knowledge(self) -> SchedulerKnowledge:
            return replace(super().knowledge, free_seats=frozenset({str(SEAT)}))

    async with unscheduled_cluster(nodes=1) as it:
        await it.create(kinds.RESERVATION, new_reservation(replicas=1))
        await _write(it, [OPEN])
        await _sits(it, "p")
        memory = audited(it)
        memory.audit("now")
        assert memory.faults == []
        monkeypatch.setattr(auditing, "NextLeader", Forgetful)
        memory.audit("now")
        assert ["give it away again" in fault for fault in memory.faults] == [True]


# --- what the leader knows --------------------------------------------------------------------------------------------


def hold(leader: Scheduler) -> None:
    known = leader._cache.snapshot.reservations.get("default", "none")
    assert known is not None
    leader._cache.snapshot.assume_placements(
        known, [Placement(task="web", index=0, node_name="n1")], at=leader._sessions._clock.now()
    )


def grow(leader: Scheduler) -> None:
    leader._cache.snapshot.room.set_allocatable(0, ((0, 110), (1, 9000)))


def assume(leader: Scheduler) -> None:
    leader._cache.snapshot.assume(
        Pod(metadata=replace(Pod().metadata, name="x", uid="x")), "n1", at=leader._sessions._clock.now()
    )


def assume_and_grow(leader: Scheduler) -> None:
    assume(leader)
    task = asyncio.current_task()
    assert task is not None
    leader._binding_tasks._tasks["x"] = task
    grow(leader)


@pytest.mark.parametrize(
    ("wrong", "blamed"),
    [
        pytest.param(lambda leader: None, "", id="correct knowledge"),
        pytest.param(assume, "no task binds it", id="assumed pod without a binding cycle"),
        pytest.param(hold, "no task writes that", id="assumed seats without a write"),
        pytest.param(
            lambda leader: leader._reservation_parts.work.live.clear(), "looks after", id="no live reservations"
        ),
        pytest.param(grow, "the leader counts with", id="too much room"),
        pytest.param(assume_and_grow, "sees more room", id="too much room while pods are assumed"),
        pytest.param(
            lambda leader: leader._cache.snapshot.reservations.free.discard(SEAT), "are vacant", id="free seat missing"
        ),
        pytest.param(
            lambda leader: leader._cache.snapshot.reservations.states.close(SEAT),
            "was consumed, and no task writes that",
            id="consumption without a write",
        ),
        pytest.param(
            lambda leader: leader._reservation_parts.entries._entries.clear(),
            "looks for seats",
            id="reservation missing in the queue",
        ),
    ],
)
@on_virtual_time
async def test_auditor_reports_what_only_the_leader_knows(wrong: Callable[[Scheduler], None], blamed: str) -> None:
    async with unscheduled_cluster(nodes=1) as it:
        memory = audited(it)
        async with running_scheduler(it.api, it.clock) as made:
            memory.leader = lambda: made
            await it.create(kinds.RESERVATION, new_reservation(replicas=1))
            await it.create(kinds.RESERVATION, new_reservation("none", replicas=1, cpu="9"))
            await pass_time(3)
            assert memory.faults == []
            wrong(made)
            await it.create(kinds.POD, pod("next", app="other"))
        told = [fault for fault in memory.faults if "before the write of pods default/next" in fault]
        assert [blamed in fault for fault in told[:1]] == [True] * bool(blamed)


@pytest.mark.parametrize("late", [False, True], ids=["in time", "too late"])
@on_virtual_time
async def test_auditor_reports_a_status_that_is_written_too_late(late: bool) -> None:
    """A reservation expires, and no write of its status is accepted."""
    async with unscheduled_cluster(nodes=1) as it:
        memory = audited(it)
        strict = FixedErrorApi(it.api, lambda request: request.subresource == "status", None)
        async with running_scheduler(strict, it.clock) as made:
            memory.leader = lambda: made
            await it.create(kinds.RESERVATION, new_reservation(replicas=1, ttl="5s"))
            await pass_time(4)
            strict.error = Forbidden.because(403, "Forbidden", "no rights")
            await pass_time(2)
            memory.audit("now")
            assert len(memory.due) == 1
            await pass_time(LONGEST + 1 if late else 1)
            await it.create(kinds.NAMESPACE, {"metadata": {"name": "next"}})
            assert await phase_and_reason(it) == ("Available", "Reserved")
        assert ["was to be written" in fault for fault in memory.faults] == [True] * late
