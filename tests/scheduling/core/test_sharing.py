"""Queues in a session: the gate before them, how they share the cluster, and what they refuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from restow.model.objects import Pod, Queue
from restow.scheduling.actions.allocate import allocate
from restow.scheduling.actions.enqueue import admit_all
from tests.scheduling.core.doubles import nodes
from tests.scheduling.core.stories import Story, gang, queue, task

# --- the gate ---------------------------------------------------------------------------------------------------------


def test_a_pending_gang_is_let_in_and_started() -> None:
    story = Story(*nodes(1), groups=[gang("g", 1, "Pending", min_resources={"cpu": "1"})]).run(task("t0", "g"))
    assert (story.placed, story.statuses["g"].phase) == ({"t0": "n0"}, "Running")


def test_the_gate_closes_a_fifth_above_what_there_is() -> None:
    groups = [gang(name, 1, "Pending", min_resources={"cpu": "2400m"}) for name in "abc"]
    story = Story(*nodes(1), groups=groups).run(*(task(f"t-{name}", name, {"cpu": "2"}) for name in "abc"))
    assert set(story.placed) == {"t-a", "t-b"}
    no_room = "its minResources do not fit beside the pod groups admitted before it"
    figures = "cpu (left 4800m, admitted 4800m, needed 2400m)"
    assert story.refused["t-c"] == f"pod group default/c is not admitted: {no_room}: {figures}"
    assert story.statuses["c"].phase == "Pending"


def test_without_the_gate_everybody_is_let_in() -> None:
    story = Story(*nodes(1), groups=[gang("g", 1, "Pending", min_resources={"cpu": "99"})])
    assert story.run(task("t0", "g"), actions=(admit_all, allocate)).placed == {"t0": "n0"}


def leaving(one: Queue) -> Queue:
    return replace(one, metadata=replace(one.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))


# --- queues -----------------------------------------------------------------------------------------------------------


def test_queues_share_by_weight() -> None:
    story = Story(*nodes(1, offers={"cpu": "4", "pods": "99"}), queues=[queue("a", weight=3), queue("b", weight=1)])
    pods = [task(f"{name}{n}", queue=name) for name in "ab" for n in range(4)]
    assert Counter(name[0] for name in story.run(*pods).placed) == {"a": 3, "b": 1}


def test_what_is_behind_a_job_that_is_not_here_is_postponed() -> None:
    story = Story(*nodes(1, offers={"cpu": "9", "pods": "99"}), queues=[queue("a"), queue("b")])
    story.run(task("a0", queue="a"), *(task(f"b{n}", queue="b") for n in range(3)), cut=["a"])
    assert (set(story.placed), story.postponed, story.refused) == ({"a0", "b0"}, ["b1", "b2"], {})


def _in_batches(story: Story, pods: Sequence[Pod], size: int) -> dict[str, str]:
    """Where the pods go when a session gets only the first of each queue."""
    placed: dict[str, str] = {}
    left = {name: [one for one in pods if story.roster.queue_of(one) == name] for name in "abc"}
    while any(left.values()):
        batch = [one for line in left.values() for one in line[:size]]
        story.run(*batch, cut=[name for name, line in left.items() if len(line) > size])
        placed |= story.placed
        back = set(story.postponed)
        assert len(back) < len(batch)
        left = {
            name: [one for one in line[:size] if one.metadata.name in back] + line[size:] for name, line in left.items()
        }
    return placed


sizes = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["500m", "1", "2", "3"])), max_size=14)


@settings(max_examples=60, deadline=None)
@given(sizes, st.integers(1, 4), st.tuples(*[st.integers(1, 3)] * 3))
def test_queues_share_alike_in_one_session_and_in_batches(
    sizes: list[tuple[str, str]], size: int, weights: tuple[int, int, int]
) -> None:
    def story() -> Story:
        queues = [queue(name, weight=weight) for name, weight in zip("abc", weights, strict=True)]
        return Story(*nodes(2, offers={"cpu": "5", "pods": "99"}), queues=queues)

    pods = [task(f"{name}{n:02}", queue=name, requests={"cpu": cpu}) for n, (name, cpu) in enumerate(sizes)]
    assert _in_batches(story(), pods, size) == story().run(*pods).placed


def test_what_a_queue_uses_already_counts() -> None:
    running = [task(f"r{n}", queue="a", on="n0") for n in range(2)]
    story = Story(*nodes(1), running=running, queues=[queue("a"), queue("b")])
    assert set(story.run(task("a0", queue="a"), task("b0", queue="b"), task("b1", queue="b")).placed) == {"b0", "b1"}


@pytest.mark.parametrize(
    ("known", "message"),
    [
        pytest.param([], "queue q does not exist", id="missing"),
        pytest.param([queue("q", "Closed")], "queue q is Closed", id="closed"),
        pytest.param(
            [queue("q", capability={"cpu": "500m"})],
            "queue q would exceed its capability: cpu (limit 500m, used 0, requested 1)",
            id="limited",
        ),
        pytest.param([leaving(queue("q"))], "queue q is being deleted", id="being deleted"),
        pytest.param(
            [queue("q", capability={"memory": "-1"}, deserved={"cpu": "x"})],
            "queue q has limits that cannot be read: spec.capability.memory: quantity '-1': must not be negative; "
            "spec.deserved.cpu: quantity 'x': it must start with a number",
            id="with limits that nobody understands",
        ),
    ],
)
def test_a_queue_that_cannot_take_more_is_named(known: list[Queue], message: str) -> None:
    assert Story(*nodes(1), queues=known).run(task("p", queue="q")).refused == {"p": message}


def test_a_gang_does_not_exceed_its_queue_by_others_than_those_that_come_first() -> None:
    story = Story(*nodes(1), groups=[gang("g", 1, queue="q")], queues=[queue("q", capability={"cpu": "2"})])
    story.run(task("t0", "g", node_selector={"moon": "yes"}), task("t1", "g", {"cpu": "3"}))
    assert (story.placed, set(story.refused)) == ({}, {"t0", "t1"})


def test_of_a_gang_those_start_whom_its_queue_can_take() -> None:
    story = Story(*nodes(1), groups=[gang("g", 2, queue="q")], queues=[queue("q", capability={"cpu": "2"})])
    story.run(task("t0", "g", {"cpu": "3"}), task("t1", "g"), task("t2", "g"))
    assert set(story.placed) == {"t1", "t2"}
    assert story.refused == {"t0": "queue q would exceed its capability: cpu (limit 2, used 2, requested 3)"}


def test_the_queue_of_a_gang_is_the_groups() -> None:
    story = Story(*nodes(1), groups=[gang("g", 1, queue="gone")]).run(task("t", "g"))
    assert story.refused == {"t": "queue gone does not exist"}


def test_the_default_queue_exists_also_while_it_is_deleted() -> None:
    limited = queue("default", capability={"cpu": "0"})
    assert Story(*nodes(1), queues=[leaving(limited)]).run(task("p")).placed == {"p": "n0"}


def test_limits_that_are_put_right_hold() -> None:
    story = Story(*nodes(1), queues=[queue("default", deserved={"cpu": "x"})])
    assert "cannot be read" in story.run(task("p")).refused["p"]
    story.roster.queues.apply(queue("default"))
    assert story.run(task("p")).placed == {"p": "n0"}
