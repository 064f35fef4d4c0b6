"""Short ways to read the status of workloads."""

from __future__ import annotations

from typing import Any

from restow.model import kinds
from restow.model.objects import Document, Pod
from tests.sim.simulated_cluster import SimulatedCluster


def names(pods: list[Pod]) -> list[str]:
    return [each.metadata.name for each in pods]


async def status(it: SimulatedCluster, kind: kinds.Kind[Any], name: str) -> Document:
    status_now: Document = (await it.document(kind, name))["status"]
    return status_now


def conditions(status: Document) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in status.get("conditions", ())}
