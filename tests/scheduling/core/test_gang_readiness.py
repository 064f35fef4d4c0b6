"""How many members of a gang are there, and whether the successor of a member that leaves could be scheduled."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import Pod, PodGroup, SchedulingGate
from restow.scheduling.gang_readiness import GangReadiness
from restow.scheduling.jobs import why_successor_unschedulable
from restow.scheduling.pod_group_cache import PodGroupCache
from tests.narrowing import present
from tests.scheduling.core.sample_plugins import nodes
from tests.scheduling.core.session_fixture import SessionFixture, gang, task

MIGRATING_POD = task("t0", "g", on="n0", role="worker")
GATED = task("t9", "g", scheduling_gates=[SchedulingGate(name="wait")])
ROLES: dict[str, Any] = {"min_task_member": {"chief": 1, "worker": 2}}


@pytest.mark.parametrize(
    ("group", "others", "why"),
    [
        pytest.param(gang("g", 1), [], None, id="alone, and enough"),
        pytest.param(None, [], "does not exist", id="there is no group"),
        pytest.param(gang("g", None), [], None, id="no minimum"),
        pytest.param(gang("g", 2), [task("t1", "g", on="n0")], None, id="another runs"),
        pytest.param(gang("g", 2), [task("t1", "g")], None, id="another waits"),
        pytest.param(gang("g", 2), [task("t1", "g", on="n0", phase="Succeeded")], None, id="another is done"),
        pytest.param(gang("g", 2), [], "needs 2 pods, 1 exist", id="another is missing"),
        pytest.param(
            gang("g", 2),
            [task("t1", "g", on="n0", phase="Failed")],
            "needs 2 pods, 2 exist and 1 of them can be placed",
            id="another failed",
        ),
        pytest.param(
            gang("g", 2),
            [task("t1", "g", on="n0", leaving=True)],
            "needs 2 pods, 2 exist and 1 of them can be placed",
            id="another leaves",
        ),
        pytest.param(
            gang("g", 2), [GATED], "needs 2 pods, 2 exist and 1 of them can be placed", id="another must not start yet"
        ),
        pytest.param(
            gang("g", 3, **ROLES),
            [task("t1", "g", role="worker"), task("t2", "g", role="worker")],
            "lacks pods of a role that it needs",
            id="no chief, and no other pod runs",
        ),
        pytest.param(
            gang("g", 3, **ROLES),
            [task("t1", "g", role="worker", on="n0"), task("t2", "g", role="worker")],
            None,
            id="no chief, but others run",
        ),
        pytest.param(
            gang("g", 3, **ROLES),
            [task("t1", "g", role="worker"), task("t2", "g", role="chief")],
            None,
            id="one of each role waits",
        ),
    ],
)
def test_successor_of_a_gang_member_is_scheduled_or_told_why_not(
    group: PodGroup | None, others: list[Pod], why: str | None
) -> None:
    why_incomplete = f"pod group default/g {why}" if why else None
    readiness = GangReadiness.of([MIGRATING_POD, *others])
    assert why_successor_unschedulable(MIGRATING_POD, group, readiness) == (
        why_incomplete and f"{why_incomplete}: its successor would not be scheduled"
    )
    pending = [one for one in others if not (one.spec.node_name or one.spec.scheduling_gates)]
    running = [one for one in others if one not in pending]
    successor = task("new", "g", role="worker")
    fixture = SessionFixture(*nodes(1), running=running, groups=[group] if group else []).run(successor, *pending)
    assert fixture.refused.get("new") == why_incomplete


def test_pod_without_a_gang_is_always_ready() -> None:
    assert why_successor_unschedulable(task("t0", on="n0"), None, GangReadiness.of(())) is None


def test_gang_readiness_follows_pods_that_come_change_and_go() -> None:
    pod_groups, gone = (
        PodGroupCache(),
        replace(MIGRATING_POD, metadata=replace(MIGRATING_POD.metadata, deletion_timestamp="2026-01-01T00:00:00Z")),
    )
    key = present(pod_groups.gang_of(MIGRATING_POD))
    assert pod_groups.readiness(key) == GangReadiness.of([])
    pod_groups.apply_pod(MIGRATING_POD)
    assert pod_groups.readiness(key) == GangReadiness.of([MIGRATING_POD]) != GangReadiness.of([])
    assert pod_groups.readiness(key) is pod_groups.readiness(key)
    pod_groups.apply_pod(gone)
    assert pod_groups.readiness(key) == GangReadiness.of([gone]) != GangReadiness.of([MIGRATING_POD])
    pod_groups.remove_pod(gone)
    assert pod_groups.readiness(key) == GangReadiness.of([])
