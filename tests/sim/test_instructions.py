"""Annotations that tell the world how to behave, well and badly written."""

from __future__ import annotations

import pytest

from restow.model import kinds
from restow.model.objects import Event, ObjectMeta, Pod
from restow.sim.world.instructions import instruction_value
from tests.sim.simulated_cluster import (
    SimulatedCluster,
    is_pod_ready,
    on_virtual_time,
    pass_time,
    pod,
    simulated_cluster,
)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("start-seconds", "2.5", 2.5),
        ("start-seconds", "abc", None),
        ("run-seconds", "-1", None),
        ("run-seconds", "nan", None),
        ("run-seconds", "inf", None),
        ("exit-code", "137", 137),
        ("exit-code", "1.5", None),
        ("exit-code", "256", None),
        ("never-ready", "true", 1),
        ("never-ready", "false", 0),
        ("never-ready", "perhaps", None),
        ("silent-since", "1970-01-01T00:01:00Z", 60),
        ("silent-since", "yesterday", None),
    ],
)
def test_annotation_sets_pod_behaviour(key: str, text: str, value: float | None) -> None:
    made = Pod(metadata=ObjectMeta(annotations={f"sim.restow.sh/{key}": text}))
    assert instruction_value(made, f"sim.restow.sh/{key}") == value
    assert instruction_value(Pod(), f"sim.restow.sh/{key}") is None


async def complaints(it: SimulatedCluster, name: str) -> list[Event]:
    events = (await it.client.list(kinds.EVENT)).items
    return [each for each in events if each.reason == "BadAnnotation" and each.involved_object.name == name]


@on_virtual_time
async def test_unreadable_silent_since_annotation_is_ignored_and_reported_once() -> None:
    async with simulated_cluster(nodes=1) as it:
        annotations = {"sim.restow.sh/silent-since": "yesterday"}
        await it.patch(kinds.NODE, "n1", {"metadata": {"annotations": annotations}})
        await it.create(kinds.POD, pod("a"))
        await pass_time(100)
        await it.patch(kinds.NODE, "n1", {"metadata": {"labels": {"touched": "yes"}}})
        await pass_time(10)
        assert is_pod_ready((await it.pods())[0])
        [event] = await complaints(it, "n1")
        assert (event.type, event.count) == ("Warning", 1)
        assert event.message == (
            'annotation sim.restow.sh/silent-since: "yesterday" is ignored: '
            'expected a time, such as "2026-01-31T12:00:00Z"'
        )


@on_virtual_time
async def test_unreadable_pod_annotation_is_reported_once_per_value() -> None:
    async with simulated_cluster(nodes=1) as it:
        bad = {
            "sim.restow.sh/start-seconds": "abc",
            "sim.restow.sh/exit-code": "many",
            "sim.restow.sh/ready-seconds": "2",
        }
        await it.create(kinds.POD, pod("a", annotations=bad))
        await pass_time(10)
        assert is_pod_ready((await it.pods())[0])
        assert [each.count for each in await complaints(it, "a")] == [1, 1]
        await it.patch(kinds.POD, "a", {"metadata": {"annotations": {"sim.restow.sh/start-seconds": "soon"}}})
        await pass_time(10)
        assert [each.count for each in await complaints(it, "a")] == [1, 1, 1]
