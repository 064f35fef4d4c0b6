"""Room that is not free yet: the job that it is kept for, and the pods that may use it in the meantime."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import PodStatus
from restow.scheduling.actions.allocate import allocate
from restow.scheduling.actions.enqueue import enqueue
from restow.scheduling.decisions import Assign, RefusePod
from restow.scheduling.session import PendingWork, Session
from tests.model.cluster.builders import node, pod
from tests.model.cluster.snapshot_values import ledgers
from tests.narrowing import present
from tests.scheduling.core.sample_plugins import nodes
from tests.scheduling.core.session_fixture import ALL, SessionFixture, gang, task

# --- room that others are leaving -------------------------------------------------------------------------------------


def leaving_cluster(**fields: Any) -> SessionFixture:
    return SessionFixture(*nodes(1), running=[pod("old", {"cpu": "3"}, on="n0", leaving=True)], **fields)


def test_gang_pods_beyond_the_minimum_wait_with_the_gang() -> None:
    fixture = leaving_cluster(groups=[gang("g", 1)])
    fixture.run(*(task(name, "g", {"cpu": "4"}) for name in ("a", "b")))
    assert fixture.refused == {
        "a": "waiting for room that other pods are leaving on node n0",
        "b": "pod group default/g is waiting for room that other pods are leaving",
    }
    [condition] = present(fixture.statuses["g"].conditions)
    assert condition.message == "waiting for room that other pods are leaving"


def test_room_of_terminating_pods_is_kept_for_the_first_job_that_needs_it() -> None:
    fixture = leaving_cluster().run(task("a", requests={"cpu": "4"}), task("b", requests={"cpu": "4"}))
    assert fixture.nominated == {"a": "n0"}
    assert fixture.refused["a"] == "waiting for room that other pods are leaving on node n0"
    assert ledgers(fixture.snapshot)["requested"]["n0"]["cpu"] == 3000


def test_room_of_overdue_terminating_pods_is_not_kept() -> None:
    fixture = leaving_cluster()
    pods = [task("a", requests={"cpu": "4"}), task("b")]
    decisions = Session(fixture.snapshot, fixture.engine, fixture.pod_groups, PendingWork(pods), now=1.9e9).run(ALL)
    assert [type(one) for one in decisions] == [RefusePod, Assign]


def test_backfill_uses_only_room_that_the_waiting_job_does_not_need() -> None:
    there = [node("n0", {"cpu": "4", "pods": "9"}), node("n1", {"cpu": "1", "pods": "9"})]
    fixture = SessionFixture(*there, running=[pod("old", {"cpu": "3"}, on="n0", leaving=True)])
    fixture.run(task("a-big", requests={"cpu": "4"}), task("b"), task("c"))
    assert (fixture.nominated, fixture.placed) == ({"a-big": "n0"}, {"b": "n1"})
    assert set(fixture.refused) == {"a-big", "c"}


def test_jobs_behind_a_waiting_one_wait_without_backfill() -> None:
    fixture = leaving_cluster().run(task("a", requests={"cpu": "4"}), task("b", None, {}), actions=(enqueue, allocate))
    assert fixture.refused["b"] == "queue default waits for an earlier job"


def test_gang_waits_for_room_as_a_whole() -> None:
    fixture = leaving_cluster(groups=[gang("g", 2)]).run(task("t0", "g", {"cpu": "2"}), task("t1", "g", {"cpu": "2"}))
    assert fixture.nominated == {"t0": "n0", "t1": "n0"}
    assert fixture.placed == {}


def test_nominated_room_is_kept_from_pods_that_are_not_more_important() -> None:
    waiting = task("w", requests={"cpu": "4"}, priority=5)
    waiting = replace(waiting, status=PodStatus(nominated_node_name="n0"))
    assert leaving_cluster().run(task("low"), nominated=[waiting]).placed == {}
    assert leaving_cluster().run(task("high", priority=6), nominated=[waiting]).placed == {"high": "n0"}


# --- room whose end is known -----------------------------------------------------------------------------------------


def batch_cluster() -> SessionFixture:
    """One node of 4 with 1 free; a pod of 2 ends at 100, one of 1 at 200."""
    began = PodStatus(start_time="1970-01-01T00:00:00Z")
    running = [
        replace(pod(name, {"cpu": cpu}, on="n0", active_deadline_seconds=end), status=began)
        for name, cpu, end in [("first", "2", 100), ("second", "1", 200)]
    ]
    return SessionFixture(*nodes(1), running=running, groups=[gang("g", 1)])


def test_gang_keeps_the_room_that_is_free_soonest() -> None:
    fixture = batch_cluster().run(task("big", "g", {"cpu": "3"}))
    assert fixture.nominated == {"big": "n0"}
    assert fixture.refused["big"] == "waiting for room that other pods are leaving on node n0 by 1970-01-01T00:01:40Z"


def test_single_pod_keeps_no_room_of_running_pods() -> None:
    assert batch_cluster().run(task("big", requests={"cpu": "3"})).nominated == {}


@pytest.mark.parametrize(
    ("seconds", "placed"),
    [
        pytest.param(100, {"small": "n0"}, id="over in time"),
        pytest.param(101, {}, id="over too late"),
        pytest.param(None, {}, id="the end is not known"),
    ],
)
def test_pod_that_ends_in_time_may_use_kept_room(seconds: int | None, placed: dict[str, str]) -> None:
    pods = [task("big", "g", {"cpu": "3"}, priority=1), task("small", active_deadline_seconds=seconds)]
    fixture = batch_cluster().run(*pods)
    assert (fixture.nominated, fixture.placed) == ({"big": "n0"}, placed)
    assert ledgers(fixture.snapshot)["requested"]["n0"]["cpu"] == 3000 + 1000 * len(placed)


def test_pod_that_can_never_fit_keeps_no_room() -> None:
    fixture = batch_cluster().run(task("huge", "g", {"cpu": "9"}), task("small"))
    assert (fixture.nominated, fixture.placed) == ({}, {"small": "n0"})
