"""Gangs before the first of their pods is bound: who waits for whom, and what stops them all."""

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
from tests.control.interfering_api import interfered
from tests.control.scheduler_cluster import condition, events, group, member, places, stage
from tests.sim.simulated_cluster import SimulatedCluster, is_pod_ready, on_virtual_time, pass_time, pod


class Doubts(ReservePlugin, PermitPlugin, PreBindPlugin):
    """Answers as told about one pod, agrees to every other, and notes who reserves and gives back."""

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
    pytest.param({"permits": [wait(), unschedulable("not yet")]}, "not yet", id="is not permitted"),
    pytest.param({"permits": PATIENCE}, "Doubts did not permit it in time", id="is not permitted in time"),
    pytest.param({"settles": [wait(), error("no volume")]}, "Doubts: no volume", id="cannot be prepared"),
]


@pytest.mark.parametrize(("answers", "why"), REFUSED)
def test_a_gang_of_which_one(answers: dict[str, list[Verdict]], why: str) -> None:
    """Nobody of it is bound, everything is given back, and all are tried again together."""

    @on_virtual_time
    async def story() -> None:
        doubts, (made, around) = Doubts("w2", **answers), interfered()
        async with stage(doubts, around=around, nodes=1) as it:
            await _gang_of_three(it)
            while len(doubts.journal) < 6:
                assert made[0].bindings == 0
                await pass_time(0.5)
            assert doubts.journal == ["+w1", "+w2", "+w3", "-w2", "-w3", "-w1"]
            told = dict(await events(it, "FailedScheduling"))
            assert told == {"w2": why} | dict.fromkeys(
                ("w1", "w3"), f"pod group default/train does not start: pod w2: {why}"
            )
            doubts.relent()
            await pass_time(20)
            assert await places(it) == {"w1": "n1", "w2": "n1", "w3": "n1"}
            assert (made[0].bindings, await events(it, "Completing")) == (3, [])

    story()


async def _gang_of_three(it: SimulatedCluster, least: int = 3) -> None:
    await it.create(kinds.POD_GROUP, group("train", least))
    for name in ("w1", "w2", "w3"):
        await it.create(kinds.POD, member(name, "train"))


@on_virtual_time
async def test_who_waits_for_something_else_does_not_wait_longer_than_the_gang() -> None:
    hasty, patient = Doubts("w1", permits=[wait(), unschedulable("no")]), Patient()
    async with stage(hasty, patient, nodes=1) as it:
        await _gang_of_three(it)
        await pass_time(0.3)
        assert hasty.journal[:6] == ["+w1", "+w2", "+w3", "-w1", "-w3", "-w2"]


class Patient(PermitPlugin):
    """Is never sure about one pod."""

    name: ClassVar[str] = "Patient"

    def permit(self, cycle: Cycle, node: str) -> tuple[Verdict, float]:
        return (wait("patience") if cycle.pod.metadata.name == "w2" else SUCCESS), 600.0


@on_virtual_time
async def test_a_gang_goes_without_the_one_that_it_does_not_need() -> None:
    async with stage(Doubts("w2", permits=[wait(), unschedulable("not yet")] * 9), nodes=1) as it:
        await _gang_of_three(it, least=2)
        await pass_time(2)
        assert await places(it) == {"w1": "n1", "w2": None, "w3": "n1"}


@on_virtual_time
async def test_a_gang_goes_as_soon_as_enough_of_it_are_ready_whoever_they_are() -> None:
    doubts, (made, around) = Doubts("w1", permits=PATIENCE), interfered()
    async with stage(doubts, around=around, nodes=1) as it:
        await it.create(kinds.POD_GROUP, group("train", 2))
        for name in ("w1", "w2"):
            await it.create(kinds.POD, member(name, "train"))
        await pass_time(0.5)
        assert made[0].bindings == 0
        await it.create(kinds.POD, member("w3", "train"))
        await pass_time(0.5)
        assert await places(it) == {"w1": None, "w2": "n1", "w3": "n1"}


@on_virtual_time
async def test_a_gang_is_not_called_running_before_it_is_certain() -> None:
    doubts = Doubts("w1", settles=PATIENCE)
    async with stage(doubts, nodes=1) as it:
        await _gang_of_three(it)
        await pass_time(5)
        assert (await it.document(kinds.POD_GROUP, "train")).get("status", {}).get("phase") in (None, "Inqueue")
        assert await events(it, "Scheduled") == []
        doubts.relent()
        await pass_time(15)
        assert (await it.document(kinds.POD_GROUP, "train"))["status"]["phase"] == "Running"
        assert await events(it, "Scheduled", "PodGroup") == [("train", "3 of 3 pods have a node")]


@on_virtual_time
async def test_roles_count_before_the_first_binding_too() -> None:
    doubts, (made, around) = Doubts("chief", permits=PATIENCE), interfered()
    async with stage(doubts, around=around, nodes=1) as it:
        await it.create(kinds.POD_GROUP, group("train", 2, minTaskMember={"chief": 1, "worker": 1}))
        for name, role in (("chief", "chief"), ("w1", "worker"), ("w2", "worker")):
            document = member(name, "train")
            document["metadata"]["annotations"]["volcano.sh/task-spec"] = role
            await it.create(kinds.POD, document)
        await pass_time(0.9)
        assert made[0].bindings == 0
        doubts.relent()
        await pass_time(20)
        assert all(map(is_pod_ready, await it.pods()))


@on_virtual_time
async def test_a_member_that_goes_away_before_the_first_binding_stops_the_others() -> None:
    doubts, (made, around) = Doubts("w2", settles=PATIENCE), interfered()
    async with stage(doubts, around=around, nodes=1) as it:
        await _gang_of_three(it)
        await pass_time(1)
        await it.delete(kinds.POD, "w3", grace_seconds=0)
        await pass_time(20)
        assert (await places(it), made[0].bindings) == ({"w1": None, "w2": None}, 0)
        assert (await condition(it, "w1"))[2] == "pod group default/train needs 3 pods, 2 exist"
        doubts.relent()
        await it.create(kinds.POD, member("w4", "train"))
        await pass_time(90)
        assert all(map(is_pod_ready, await it.pods()))


@on_virtual_time
async def test_room_that_is_taken_before_the_first_binding_stops_the_whole_gang() -> None:
    doubts, (made, around) = Doubts("w2", settles=PATIENCE), interfered()
    async with stage(doubts, around=around, nodes=1) as it:
        await _gang_of_three(it)
        await pass_time(1)
        await it.create(kinds.POD, pod("thief", "2", schedulerName="other", nodeName="n1"))
        await pass_time(1)
        doubts.relent()
        await pass_time(20)
        assert made[0].bindings == 0
        assert (await places(it)) == {"thief": "n1", "w1": None, "w2": None, "w3": None}
        await it.delete(kinds.POD, "thief", grace_seconds=0)
        await pass_time(20)
        assert all(map(is_pod_ready, await it.pods()))
