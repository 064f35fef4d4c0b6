"""Plugins at QueueSort, PreEnqueue, PostFilter and Bind, and one that raises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from restow.model.objects import Pod
from restow.scheduling.framework import (
    SUCCESS,
    BindPlugin,
    Cycle,
    FilterPlugin,
    PostFilterPlugin,
    PreEnqueuePlugin,
    QueueSortPlugin,
    Refusal,
    Verdict,
    unschedulable,
)
from restow.scheduling.writes import Write
from tests.control.interfering_api import interfering_api
from tests.control.scheduler_cluster import condition_of_pod, events_with_reason, nodes_by_pod, scheduled_cluster
from tests.sim.simulated_cluster import is_pod_ready, node, on_virtual_time, pass_time, pod


class Preempting(PostFilterPlugin):
    """Says that room will come free where less important pods are; others see to that."""

    name: ClassVar[str] = "Preempting"

    def post_filter(self, cycle: Cycle, refused: Mapping[str, Sequence[Refusal]]) -> tuple[Verdict, str]:
        pods = cycle.snapshot.pods.known.values()
        less = [one.node for one in pods if (one.pod.spec.priority or 0) < (cycle.pod.spec.priority or 0)]
        return (SUCCESS, less[0]) if less else (unschedulable("no pod is less important"), "")


@on_virtual_time
async def test_pod_nominated_by_post_filter_has_its_room_kept() -> None:
    async with scheduled_cluster(Preempting(), nodes=2) as it:
        await it.create(kinds.PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 1000})
        for number in (1, 2):
            await it.create(kinds.POD, pod(f"low{number}", "4"))
        await pass_time(5)
        await it.create(kinds.POD, pod("vip", "4", priorityClassName="high"))
        await it.create(kinds.POD, pod("rival", "4"))
        await pass_time(5)
        vip = await it.document(kinds.POD, "vip")
        assert (await condition_of_pod(it, "vip"))[1] == "Unschedulable"
        assert "no pod is less important" in ((await condition_of_pod(it, "rival"))[2] or "")
        on = {where: name for name, where in (await nodes_by_pod(it)).items()}
        nominated = vip["status"]["nominatedNodeName"]
        await it.delete(kinds.POD, on[nominated])
        await pass_time(15)
        assert (await nodes_by_pod(it))["vip"] == nominated
        assert (await nodes_by_pod(it))["rival"] is None
        assert "nominatedNodeName" not in (await it.document(kinds.POD, "vip"))["status"]


class ByLetter(BindPlugin):
    """Asks another component, by a label on the node, to bind the pods that the name marks."""

    name: ClassVar[str] = "ByLetter"

    def bind(self, cycle: Cycle, node: str) -> Sequence[Write] | None:
        if not cycle.pod.metadata.name.startswith("letter"):
            return None
        there, label = cycle.snapshot.node(node), {"metadata": {"labels": {"bind": cycle.pod.metadata.name}}}
        version = there.metadata.resource_version if there else ""
        return [Write(kind=kinds.NODE, namespace=None, name=node, changes=label, resource_version=version)]


@on_virtual_time
async def test_bind_plugin_binds_its_pods_and_leaves_the_others() -> None:
    made, around = interfering_api()
    async with scheduled_cluster(
        ByLetter(), around=around, nodes=1, settings=SchedulerSettings(pre_bind_timeout=30.0)
    ) as it:
        await it.create(kinds.POD, pod("letter"))
        await it.create(kinds.POD, pod("plain"))
        await pass_time(5)
        assert (await nodes_by_pod(it))["letter"] is None
        assert (await it.document(kinds.NODE, "n1", None))["metadata"]["labels"]["bind"] == "letter"
        [waiting] = [one for one in await it.pods() if one.metadata.name == "letter"]
        await it.client.bind("default", "letter", uid=waiting.metadata.uid, node="n1")
        await pass_time(5)
        assert all(map(is_pod_ready, await it.pods()))
        assert made[0].bindings == 1
        assert {name for name, _ in await events_with_reason(it, "Scheduled")} == {"letter", "plain"}


@on_virtual_time
async def test_bind_plugin_that_times_out_gives_back_the_room() -> None:
    async with scheduled_cluster(ByLetter(), nodes=1, settings=SchedulerSettings(pre_bind_timeout=30.0)) as it:
        await it.create(kinds.POD, pod("letter", "4"))
        await pass_time(31)
        assert (await condition_of_pod(it, "letter"))[2] == "ByLetter: not bound to node n1 within 30 seconds"


class Curfew(PreEnqueuePlugin):
    """Gates the pods that the name marks."""

    name: ClassVar[str] = "Curfew"

    def pre_enqueue(self, pod: Pod) -> Verdict:
        return unschedulable("it is late") if pod.metadata.name.startswith("late") else SUCCESS


@on_virtual_time
async def test_pod_gated_by_a_plugin_has_the_scheduling_gated_reason() -> None:
    async with scheduled_cluster(Curfew(), nodes=1) as it:
        for name in ("late", "early"):
            await it.create(kinds.POD, pod(name))
        await pass_time(5)
        assert await nodes_by_pod(it) == {"early": "n1", "late": None}
        assert await condition_of_pod(it, "late") == ("False", "SchedulingGated", "Curfew: it is late")
        assert await events_with_reason(it, "FailedScheduling") == [("late", "Curfew: it is late")]


class ByName(QueueSortPlugin):
    """The last names first, however important."""

    name: ClassVar[str] = "ByName"

    def sort_key(self, pod: Pod) -> Any:
        return [-ord(letter) for letter in pod.metadata.name]


@on_virtual_time
async def test_queue_sort_plugin_decides_the_order() -> None:
    async with scheduled_cluster(ByName(), nodes=0) as it:
        for name in ("a", "c", "b"):
            await it.create(kinds.POD, pod(name, "4"))
        await pass_time(5)
        await it.create(kinds.NODE, node("n1"))
        await pass_time(30)
        assert [name for name, where in (await nodes_by_pod(it)).items() if where] == ["c"]


class Explosive(FilterPlugin):
    """Raises for the pods that the name marks."""

    name: ClassVar[str] = "Explosive"

    def pre_filter(self, cycle: Cycle) -> Verdict:
        if cycle.pod.metadata.name == "bad":
            raise RuntimeError("boom")
        return SUCCESS

    def filter(self, cycle: Cycle, rows: Any) -> Any:
        return cycle.snapshot.nodes.present[rows]

    def refusals(self, cycle: Cycle, rows: Any) -> list[Any]:
        return []


@on_virtual_time
async def test_plugin_that_fails_for_one_pod_does_not_stop_the_others() -> None:
    async with scheduled_cluster(Explosive()) as it:
        for name, cpu in (("a", "1"), ("bad", "2"), ("c", "1")):
            await it.create(kinds.POD, pod(name, cpu))
        await pass_time(20)
        assert {name for name, where in (await nodes_by_pod(it)).items() if where} == {"a", "c"}
        assert await condition_of_pod(it, "bad") == ("False", "SchedulerError", "Explosive: RuntimeError: boom")
