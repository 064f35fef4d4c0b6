"""The example of the documentation, as it is."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import yaml

from restow.control.scheduler import Scheduler
from restow.model import kinds
from restow.scheduling.registry import read_profile
from tests.control.reservations.reservation_cluster import phase_and_reason, read_reservation
from tests.control.scheduler_cluster import nodes_by_pod, unscheduled_cluster
from tests.sim.simulated_cluster import on_virtual_time, pass_time, running_component

EXAMPLE = Path(__file__).parents[3] / "examples" / "reservation.yaml"


def user(task: dict[str, Any], name: str) -> dict[str, Any]:
    """A pod of the job that the example names, as its tasks describe it."""
    labels = {"volcano.sh/reservation-job": "job-multi"}
    spec = {**task["template"]["spec"], "schedulerName": "volcano"}
    return {"metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": spec}


@on_virtual_time
async def test_documented_example_works_unchanged() -> None:
    document = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    names = {"schedulerNames": ["restow", "volcano"]}
    async with unscheduled_cluster(nodes=2) as it:
        scheduler = Scheduler(it.api, it.clock, random.Random(1), profile=read_profile(names))
        async with running_component(scheduler):
            await it.create(kinds.RESERVATION, document)
            await pass_time(2)
            found = await read_reservation(it, "complex-reservation")
            assert (found.status.state.phase, found.status.available) == ("Available", 3)
            assert found.status.allocatable == {"cpu": "1250m", "memory": "1256Mi"}
            for task in document["spec"]["tasks"]:
                for index in range(task["replicas"]):
                    await it.create(kinds.POD, user(task, f"{task['name']}-{index}"))
            await pass_time(5)
            assert await phase_and_reason(it, "complex-reservation") == ("Succeeded", "Consumed")
            found = await read_reservation(it, "complex-reservation")
            assert {one.pod_ref.name: one.node_name for one in found.status.placements or () if one.pod_ref} == (
                await nodes_by_pod(it)
            )
