"""Gangs before the first of their pods is bound: which members wait for which, and what stops the whole gang."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pytest

from restow.model import kinds
from restow.scheduling.framework import (
    SUCCESS,
    Cycle,
    PermitPlugin,
    PreBindPlugin,
    ReservePlugin,
    Verdict,
    error,
    unschedulable,
    wait,
)
from restow.scheduling.writes import Write
from tests.control.interfering_api import interfering_api
from tests.control.scheduler_cluster import (
    condition_of_pod,
    events_with_reason,
    gang_member,
    nodes_by_pod,
    pod_group,
    scheduled_cluster,
)
from tests.sim.simulated_cluster import SimulatedCluster, is_pod_ready, on_virtual_time, pass_time, pod


class Doubts(ReservePlugin, PermitPlugin, PreBindPlugin):
    """Answers as set for one pod, agrees to all others, and records every Reserve (+) and Unreserve (-)."""

    name: ClassVar[str] = "Doubts"

    def __init__(self, about: str, *, permits: Sequence[Verdict] = (), settles: Sequence[Verdict] = ()) -> None:
        super().__init__()
        self.journal: list[str] = []
        self._about = about
        self._permits = list(permits)
        self._settles = list(settles)

    def relent(self) -> None:
        self._permits, self._settles = [], []

    def reserve(self, cycle: Cycle, node: str) -> Verdict:
        self.journal.append(f"+{cycle.pod.metadata.name}")
        return SUCCESS

    def unreserve(self, cycle: Cycle, node: str) -> None:
        self.journal.append(f"-{cycle.pod.metadata.name}")

    def permit(self, cycle: Cycle, node: str) -> tuple[Verdict, float]:
        return self._answer(cycle, self._permits), 3.0

    def pre_bind(self, cycle: Cycle, node: str) -> Sequence[Write]:
        return ()

    def settled(self, cycle: Cycle, node: str) -> Verdict:
        return self._answer(cycle, self._settles)

    def _answer(self, cycle: Cycle, answers: list[Verdict]) -> Verdict:
        return answers.pop(0) if answers and cycle.pod.metadata.name == self._about else SUCCESS


PATIENCE = [wait("patience")] * 100
REFUSED = [
    pytest.param({"permits": [wait(), unschedulable("not yet")]}, "not yet", id="not permitted"),
    pytest.param({"permits": PATIENCE}, "Doubts did not permit it in time", id="not permitted in time"),
    pytest.param({"settles": [wait(), error("no volume")]}, "Doubts: no volume", id="PreBind fails"),
]


@pytest.mark.parametrize(("answers", "why"), REFUSED)
def test_gang_does_not_start_when_a_member_fails_and_is_tried_again_as_a_whole(
    answers: dict[str, list[Verdict]], why: str
) -> None:
    """No member is bound, all that was reserved is given back, and all members are tried again together."""

    @on_virtual_time
    async def story() -> None:
        doubts, (made, around) = Doubts("w2", **answers), interfering_api()
        async with scheduled_cluster(doubts, around=around, nodes=1) as it:
            await _gang_of_three(it)
            while len(doubts.journal) < 6:
                assert made[0].bindings == 0
                await pass_time(0.5)
            assert doubts.journal == ["+w1", "+w2", "+w3", "-w2", "-w3", "-w1"]
            told = dict(await events_with_reason(it, "FailedScheduling"))
            assert told == {"w2": why} | dict.fromkeys(
                ("w1", "w3"), f"pod group default/train does not start: pod w2: {why}"
            )
            doubts.relent()
            await pass_time(20)
            assert await nodes_by_pod(it) == {"w1": "n1", "w2": "n1", "w3": "n1"}
            assert (made[0].bindings, await events_with_reason(it, "Completing")) == (3, [])

    story()


async def _gang_of_three(it: SimulatedCluster, least: int = 3) -> None:
    await it.create(kinds.POD_GROUP, pod_group("train", least))
    for name in ("w1", "w2", "w3"):
        await it.create(kinds.POD, gang_member(name, "train"))


@on_virtual_time
async def test_member_waiting_for_a_plugin_stops_when_its_gang_fails() -> None:
    hasty, patient = Doubts("w1", permits=[wait(), unschedulable("no")]), Patient()
    async with scheduled_cluster(hasty, patient, nodes=1) as it:
        await _gang_of_three(it)
        await pass_time(0.3)
        assert hasty.journal[:6] == ["+w1", "+w2", "+w3", "-w1", "-w3", "-w2"]


class Patient(PermitPlugin):
    """Is never sure about one pod."""

    name: ClassVar[str] = "Patient"

    def permit(self, cycle: Cycle, node: str) -> tuple[Verdict, float]:
        return (wait("patience") if cycle.pod.metadata.name == "w2" else SUCCESS), 600.0


@on_virtual_time
async def test_gang_is_bound_without_a_failed_member_beyond_its_minimum() -> None:
    async with scheduled_cluster(Doubts("w2", permits=[wait(), unschedulable("not yet")] * 9), nodes=1) as it:
        await _gang_of_three(it, least=2)
        await pass_time(2)
        assert await nodes_by_pod(it) == {"w1": "n1", "w2": None, "w3": "n1"}


@on_virtual_time
async def test_gang_is_bound_as_soon_as_any_sufficient_members_are_ready() -> None:
    doubts, (made, around) = Doubts("w1", permits=PATIENCE), interfering_api()
    async with scheduled_cluster(doubts, around=around, nodes=1) as it:
        await it.create(kinds.POD_GROUP, pod_group("train", 2))
        for name in ("w1", "w2"):
            await it.create(kinds.POD, gang_member(name, "train"))
        await pass_time(0.5)
        assert made[0].bindings == 0
        await it.create(kinds.POD, gang_member("w3", "train"))
        await pass_time(0.5)
        assert await nodes_by_pod(it) == {"w1": None, "w2": "n1", "w3": "n1"}


@on_virtual_time
async def test_gang_is_not_running_before_its_barrier_opens() -> None:
    doubts = Doubts("w1", settles=PATIENCE)
    async with scheduled_cluster(doubts, nodes=1) as it:
        await _gang_of_three(it)
        await pass_time(5)
        assert (await it.document(kinds.POD_GROUP, "train")).get("status", {}).get("phase") in (None, "Inqueue")
        assert await events_with_reason(it, "Scheduled") == []
        doubts.relent()
        await pass_time(15)
        assert (await it.document(kinds.POD_GROUP, "train"))["status"]["phase"] == "Running"
        assert await events_with_reason(it, "Scheduled", "PodGroup") == [("train", "3 of 3 pods have a node")]


@on_virtual_time
async def test_barrier_waits_for_every_role() -> None:
    doubts, (made, around) = Doubts("chief", permits=PATIENCE), interfering_api()
    async with scheduled_cluster(doubts, around=around, nodes=1) as it:
        await it.create(kinds.POD_GROUP, pod_group("train", 2, minTaskMember={"chief": 1, "worker": 1}))
        for name, role in (("chief", "chief"), ("w1", "worker"), ("w2", "worker")):
            document = gang_member(name, "train")
            document["metadata"]["annotations"]["volcano.sh/task-spec"] = role
            await it.create(kinds.POD, document)
        await pass_time(0.9)
        assert made[0].bindings == 0
        doubts.relent()
        await pass_time(20)
        assert all(map(is_pod_ready, await it.pods()))


@on_virtual_time
async def test_member_deleted_before_the_first_binding_stops_the_gang() -> None:
    doubts, (made, around) = Doubts("w2", settles=PATIENCE), interfering_api()
    async with scheduled_cluster(doubts, around=around, nodes=1) as it:
        await _gang_of_three(it)
        await pass_time(1)
        await it.delete(kinds.POD, "w3", grace_seconds=0)
        await pass_time(20)
        assert (await nodes_by_pod(it), made[0].bindings) == ({"w1": None, "w2": None}, 0)
        assert (await condition_of_pod(it, "w1"))[2] == "pod group default/train needs 3 pods, 2 exist"
        doubts.relent()
        await it.create(kinds.POD, gang_member("w4", "train"))
        await pass_time(90)
        assert all(map(is_pod_ready, await it.pods()))


@on_virtual_time
async def test_room_taken_before_the_first_binding_stops_the_gang() -> None:
    doubts, (made, around) = Doubts("w2", settles=PATIENCE), interfering_api()
    async with scheduled_cluster(doubts, around=around, nodes=1) as it:
        await _gang_of_three(it)
        await pass_time(1)
        await it.create(kinds.POD, pod("foreign", "2", schedulerName="other", nodeName="n1"))
        await pass_time(1)
        doubts.relent()
        await pass_time(20)
        assert made[0].bindings == 0
        assert (await nodes_by_pod(it)) == {"foreign": "n1", "w1": None, "w2": None, "w3": None}
        await it.delete(kinds.POD, "foreign", grace_seconds=0)
        await pass_time(20)
        assert all(map(is_pod_ready, await it.pods()))
