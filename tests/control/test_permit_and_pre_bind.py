"""What may wait or fail between the assignment of a node and Bind: Permit and PreBind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pytest

from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from restow.scheduling.framework import SUCCESS, Cycle, PreBindPlugin, Verdict, error, unschedulable, wait
from restow.scheduling.writes import Write
from tests.control.interfering_api import RecordingPlugin
from tests.control.scheduler_cluster import condition_of_pod, events_with_reason, nodes_by_pod, scheduled_cluster
from tests.sim.simulated_cluster import is_pod_ready, on_virtual_time, pass_time, pod


@on_virtual_time
async def test_pod_waits_until_the_permit_plugin_agrees() -> None:
    keeper = RecordingPlugin()
    keeper.permits = [wait("not yet"), wait("not yet"), SUCCESS]
    async with scheduled_cluster(keeper) as it:
        await it.create(kinds.POD, pod("a"))
        await pass_time(15)
        assert all(map(is_pod_ready, await it.pods()))
        assert keeper.journal == ["reserve", "pre-bind", "post-bind"]


@pytest.mark.parametrize(
    ("permits", "message"),
    [
        pytest.param([wait("not yet")], "Keeper did not permit it in time", id="not within the time limit"),
        pytest.param([wait("not yet"), unschedulable("no")], "no", id="refused"),
    ],
)
def test_pod_refused_by_permit_is_unschedulable(permits: list[Verdict], message: str) -> None:
    @on_virtual_time
    async def run() -> None:
        keeper = RecordingPlugin()
        keeper.permits = permits
        async with scheduled_cluster(keeper) as it:
            await it.create(kinds.POD, pod("a"))
            await pass_time(14)
            assert keeper.journal[:2] == ["reserve", "unreserve"]
            assert (await events_with_reason(it, "FailedScheduling"))[0] == ("a", message)
            assert (await condition_of_pod(it, "a"))[1] == "Unschedulable"

    run()


@pytest.mark.parametrize("at", ["permits", "settles"])
def test_pod_deleted_while_it_waits_gives_back_what_was_reserved(at: str) -> None:
    @on_virtual_time
    async def run() -> None:
        keeper = RecordingPlugin()
        setattr(keeper, at, [wait("not yet")] * 100)
        keeper.permit_timeout = 600.0
        async with scheduled_cluster(keeper) as it:
            await it.create(kinds.POD, pod("a"))
            await pass_time(5)
            await it.delete(kinds.POD, "a", grace_seconds=0)
            await pass_time(5)
            assert keeper.journal[-1] == "unreserve"
            assert await events_with_reason(it, "FailedScheduling") == []

    run()


@on_virtual_time
async def test_pre_bind_that_never_settles_fails_the_pod() -> None:
    one, two = RecordingPlugin("One"), RecordingPlugin("Two")
    two.journal = one.journal
    two.settles = [wait("a moment"), error("it will never settle")]
    async with scheduled_cluster(one, two) as it:
        await it.create(kinds.POD, pod("a"))
        await pass_time(12)
        assert one.journal[:6] == ["reserve", "reserve", "pre-bind", "pre-bind", "unreserve", "unreserve"]
        await pass_time(12)
        assert all(map(is_pod_ready, await it.pods()))
        assert await events_with_reason(it, "FailedScheduling") == [("a", "Two: it will never settle")]


class Slow(PreBindPlugin):
    """Never settles for pods with a name that begins with "slow"."""

    name: ClassVar[str] = "Slow"

    def pre_bind(self, cycle: Cycle, node: str) -> Sequence[Write]:
        return ()

    def settled(self, cycle: Cycle, node: str) -> Verdict:
        return wait("patience") if cycle.pod.metadata.name.startswith("slow") else SUCCESS


@on_virtual_time
async def test_pods_waiting_for_plugins_do_not_hold_up_other_pods() -> None:
    async with scheduled_cluster(
        Slow(), settings=SchedulerSettings(max_binding_pods=2, binding_writers=1, pre_bind_timeout=60.0)
    ) as it:
        for number in range(4):
            await it.create(kinds.POD, pod(f"slow{number}"))
        await pass_time(5)
        for number in range(4):
            await it.create(kinds.POD, pod(f"quick{number}"))
        await pass_time(5)
        assert {name for name, where in (await nodes_by_pod(it)).items() if where} == {
            f"quick{one}" for one in range(4)
        }
        await pass_time(65)
        assert (await condition_of_pod(it, "slow0"))[2] == "Slow: not settled within 60 seconds, patience"
