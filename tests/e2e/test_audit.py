"""The audit of real moves: a correct move has no fault, and every planted fault is found."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from e2e.audit import Event, Item, faults
from restow.model.objects import Pod, PodMigrationJob, Reservation

Happening = tuple[str, Item]
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
NO_ROOM = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available."}
TAKEN: dict[str, Any] = {"podRef": {"name": "web-9", "uid": "web-9"}}


def pod(name: str, node: str | None = "n1", *conditions: Any, leaving: bool = False, app: str = "web") -> Pod:
    metadata: dict[str, Any] = {"name": name, "uid": name, "labels": {"app": app}}
    if leaving:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status = READY if node else {"phase": "Pending"}
    told = [*status.get("conditions", ()), *conditions]
    return msgspec.convert(
        {"metadata": metadata, "spec": {"nodeName": node}, "status": {**status, "conditions": told}}, Pod
    )


def seat(phase: str = "Available", node: str = "n2", of: str = "web-1", **placement: Any) -> Reservation:
    """The reservation made for a pod."""
    metadata = {"name": f"seat-{of}", "uid": f"seat-{of}", "annotations": {"restow.sh/migrating": of}}
    placements = [{"task": "pod", "index": 0, "nodeName": node, **placement}] if phase == "Available" else []
    status = {"state": {"phase": phase}, "placements": placements}
    return msgspec.convert({"metadata": metadata, "spec": {}, "status": status}, Reservation)


def job(of: str = "web-1", phase: str = "Running") -> PodMigrationJob:
    spec = {"podRef": {"name": of, "uid": of}}
    return msgspec.convert(
        {"metadata": {"name": f"move-{of}", "uid": of}, "spec": spec, "status": {"phase": phase}}, PodMigrationJob
    )


START: list[Happening] = [("ADDED", pod(f"web-{number}")) for number in (1, 2, 3)]
LEAVES: Happening = ("MODIFIED", pod("web-1", leaving=True))
KEPT: Happening = ("ADDED", seat())
ARRIVES: list[Happening] = [("ADDED", pod("web-4", None)), ("MODIFIED", pod("web-4", "n2"))]
GONE: Happening = ("DELETED", pod("web-1", leaving=True))
BACK_TO_THREE = [KEPT, LEAVES, *ARRIVES, GONE]


def found(*happenings: Happening, per_node: int | None = 1) -> list[str]:
    events: list[Event] = [(number, *one) for number, one in enumerate((*START, *happenings))]
    return faults(events, least=2, per_node=per_node)


def test_correct_move_has_no_fault() -> None:
    assert found(("ADDED", job()), *BACK_TO_THREE, ("MODIFIED", job(phase="Succeed"))) == []


def test_events_are_ordered_by_resource_version() -> None:
    events: list[Event] = [(number, *one) for number, one in enumerate((*START, *BACK_TO_THREE))]
    assert faults(reversed(events), least=2, per_node=1) == []


@pytest.mark.parametrize(
    ("happenings", "told"),
    [
        pytest.param([LEAVES], "web-1 leaves, its seats are []", id="evicted without a reservation"),
        pytest.param([("ADDED", seat("Pending")), LEAVES], "web-1 leaves", id="evicted before its seat was placed"),
        pytest.param([("ADDED", seat("Waiting")), LEAVES], "web-1 leaves", id="evicted while its seat was not free"),
        pytest.param([LEAVES, KEPT], "web-1 leaves", id="seat created too late"),
        pytest.param([KEPT, ("DELETED", seat()), LEAVES], "web-1 leaves", id="seat deleted before the eviction"),
        pytest.param([("ADDED", seat(node="n1")), LEAVES], "web-1 leaves", id="seat on its own node"),
        pytest.param([("ADDED", seat(of="web-2")), LEAVES], "web-1 leaves", id="seat of another pod"),
        pytest.param([("ADDED", seat(**TAKEN)), LEAVES], "web-1 leaves", id="seat already consumed"),
        pytest.param([("DELETED", pod("web-1"))], "web-1 leaves", id="deleted without a grace period"),
        pytest.param(
            [KEPT, LEAVES, ("ADDED", seat(of="web-2")), ("MODIFIED", pod("web-2", leaving=True))],
            "only 1 pods of web are healthy, its budget wants 2",
            id="more pods evicted than the budget allows",
        ),
        pytest.param(
            [KEPT, LEAVES, ("ADDED", pod("web-4", None, NO_ROOM))],
            "web-4 waits for a seat: 0/3 nodes are available.",
            id="successor without room",
        ),
        pytest.param(
            [("ADDED", job()), ("ADDED", job("web-2"))],
            "2 pods of n1 move",
            id="more pods of a node than the limit allows",
        ),
    ],
)
def test_planted_fault_is_found(happenings: list[Happening], told: str) -> None:
    assert any(told in fault for fault in found(*happenings)), found(*happenings)
