"""Room that is not free yet: who gets it, and who may use it in the meantime."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import PodStatus
from restow.scheduling.actions.allocate import allocate
from restow.scheduling.actions.enqueue import enqueue
from restow.scheduling.decisions import Assign, RefusePod
from restow.scheduling.session import Session
from tests.model.cluster.builders import node, pod
from tests.model.cluster.reading import ledgers
from tests.narrowing import present
from tests.scheduling.core.doubles import nodes
from tests.scheduling.core.stories import ALL, Story, gang, task

# --- room that others are leaving -------------------------------------------------------------------------------------


def leaving_cluster(**fields: Any) -> Story:
    return Story(*nodes(1), running=[pod("old", {"cpu": "3"}, on="n0", leaving=True)], **fields)


def test_what_a_gang_has_beyond_its_minimum_waits_with_it() -> None:
    story = leaving_cluster(groups=[gang("g", 1)])
    story.run(*(task(name, "g", {"cpu": "4"}) for name in ("a", "b")))
    assert story.refused == {
        "a": "waiting for room that other pods are leaving on node n0",
        "b": "pod group default/g is waiting for room that other pods are leaving",
    }
    [told] = present(story.statuses["g"].conditions)
    assert told.message == "waiting for room that other pods are leaving"


def test_room_that_others_are_leaving_is_kept_for_the_first_who_needs_it() -> None:
    story = leaving_cluster().run(task("a", requests={"cpu": "4"}), task("b", requests={"cpu": "4"}))
    assert story.nominated == {"a": "n0"}
    assert story.refused["a"] == "waiting for room that other pods are leaving on node n0"
    assert ledgers(story.snapshot)["requested"]["n0"]["cpu"] == 3000


def test_room_of_pods_that_should_have_been_gone_is_not_waited_for() -> None:
    story = leaving_cluster()
    pods = [task("a", requests={"cpu": "4"}), task("b")]
    decisions = Session(story.snapshot, story.engine, story.roster, now=1.9e9, pods=pods).run(ALL)
    assert [type(one) for one in decisions] == [RefusePod, Assign]


def test_backfill_takes_only_what_the_waiting_job_does_not_need() -> None:
    there = [node("n0", {"cpu": "4", "pods": "9"}), node("n1", {"cpu": "1", "pods": "9"})]
    story = Story(*there, running=[pod("old", {"cpu": "3"}, on="n0", leaving=True)])
    story.run(task("a-big", requests={"cpu": "4"}), task("b"), task("c"))
    assert (story.nominated, story.placed) == ({"a-big": "n0"}, {"b": "n1"})
    assert set(story.refused) == {"a-big", "c"}


def test_without_backfill_what_is_behind_waits() -> None:
    story = leaving_cluster().run(task("a", requests={"cpu": "4"}), task("b", None, {}), actions=(enqueue, allocate))
    assert story.refused["b"] == "queue default waits for an earlier job"


def test_a_gang_waits_for_room_as_a_whole() -> None:
    story = leaving_cluster(groups=[gang("g", 2)]).run(task("t0", "g", {"cpu": "2"}), task("t1", "g", {"cpu": "2"}))
    assert story.nominated == {"t0": "n0", "t1": "n0"}
    assert story.placed == {}


def test_room_nominated_earlier_is_kept_against_who_is_not_more_important() -> None:
    waiting = task("w", requests={"cpu": "4"}, priority=5)
    waiting = replace(waiting, status=PodStatus(nominated_node_name="n0"))
    assert leaving_cluster().run(task("low"), nominated=[waiting]).placed == {}
    assert leaving_cluster().run(task("high", priority=6), nominated=[waiting]).placed == {"high": "n0"}


# --- room whose end is known -----------------------------------------------------------------------------------------


def batch_cluster() -> Story:
    """One node of 4 with 1 free; a pod of 2 ends at 100, one of 1 at 200."""
    began = PodStatus(start_time="1970-01-01T00:00:00Z")
    running = [
        replace(pod(name, {"cpu": cpu}, on="n0", active_deadline_seconds=end), status=began)
        for name, cpu, end in [("first", "2", 100), ("second", "1", 200)]
    ]
    return Story(*nodes(1), running=running, groups=[gang("g", 1)])


def test_a_gang_keeps_the_room_that_is_free_soonest() -> None:
    story = batch_cluster().run(task("big", "g", {"cpu": "3"}))
    assert story.nominated == {"big": "n0"}
    assert story.refused["big"] == "waiting for room that other pods are leaving on node n0 by 1970-01-01T00:01:40Z"


def test_a_single_pod_does_not() -> None:
    assert batch_cluster().run(task("big", requests={"cpu": "3"})).nominated == {}


@pytest.mark.parametrize(
    ("seconds", "placed"),
    [
        pytest.param(100, {"small": "n0"}, id="over in time"),
        pytest.param(101, {}, id="over too late"),
        pytest.param(None, {}, id="nobody knows"),
    ],
)
def test_who_is_over_in_time_may_use_kept_room(seconds: int | None, placed: dict[str, str]) -> None:
    pods = [task("big", "g", {"cpu": "3"}, priority=1), task("small", active_deadline_seconds=seconds)]
    story = batch_cluster().run(*pods)
    assert (story.nominated, story.placed) == ({"big": "n0"}, placed)
    assert ledgers(story.snapshot)["requested"]["n0"]["cpu"] == 3000 + 1000 * len(placed)


def test_who_can_never_fit_keeps_nothing() -> None:
    story = batch_cluster().run(task("huge", "g", {"cpu": "9"}), task("small"))
    assert (story.nominated, story.placed) == ({}, {"small": "n0"})
