"""Queues in a session: admission to them, how they share the cluster, and what they refuse."""

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
from tests.scheduling.core.sample_plugins import nodes
from tests.scheduling.core.session_fixture import SessionFixture, gang, queue, task

# --- the gate ---------------------------------------------------------------------------------------------------------


def test_pending_gang_is_admitted_and_started() -> None:
    fixture = SessionFixture(*nodes(1), groups=[gang("g", 1, "Pending", min_resources={"cpu": "1"})]).run(
        task("t0", "g")
    )
    assert (fixture.placed, fixture.statuses["g"].phase) == ({"t0": "n0"}, "Running")


def test_enqueue_admits_up_to_a_fifth_above_the_free_room() -> None:
    groups = [gang(name, 1, "Pending", min_resources={"cpu": "2400m"}) for name in "abc"]
    fixture = SessionFixture(*nodes(1), groups=groups).run(*(task(f"t-{name}", name, {"cpu": "2"}) for name in "abc"))
    assert set(fixture.placed) == {"t-a", "t-b"}
    no_room = "its minResources do not fit beside the pod groups admitted before it"
    figures = "cpu (left 4800m, admitted 4800m, needed 2400m)"
    assert fixture.refused["t-c"] == f"pod group default/c is not admitted: {no_room}: {figures}"
    assert fixture.statuses["c"].phase == "Pending"


def test_session_without_enqueue_admits_all_gangs() -> None:
    fixture = SessionFixture(*nodes(1), groups=[gang("g", 1, "Pending", min_resources={"cpu": "99"})])
    assert fixture.run(task("t0", "g"), actions=(admit_all, allocate)).placed == {"t0": "n0"}


def leaving(one: Queue) -> Queue:
    return replace(one, metadata=replace(one.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))


# --- queues -----------------------------------------------------------------------------------------------------------


def test_queues_share_the_cluster_by_weight() -> None:
    fixture = SessionFixture(
        *nodes(1, allocatable={"cpu": "4", "pods": "99"}), queues=[queue("a", weight=3), queue("b", weight=1)]
    )
    pods = [task(f"{name}{n}", queue=name) for name in "ab" for n in range(4)]
    assert Counter(name[0] for name in fixture.run(*pods).placed) == {"a": 3, "b": 1}


def test_jobs_behind_a_truncated_queue_are_postponed() -> None:
    fixture = SessionFixture(*nodes(1, allocatable={"cpu": "9", "pods": "99"}), queues=[queue("a"), queue("b")])
    fixture.run(task("a0", queue="a"), *(task(f"b{n}", queue="b") for n in range(3)), truncated_queues=["a"])
    assert (set(fixture.placed), fixture.postponed, fixture.refused) == ({"a0", "b0"}, ["b1", "b2"], {})


def _in_batches(fixture: SessionFixture, pods: Sequence[Pod], size: int) -> dict[str, str]:
    """Where the pods go when a session gets only the first of each queue."""
    placed: dict[str, str] = {}
    left = {name: [one for one in pods if fixture.pod_groups.queue_of(one) == name] for name in "abc"}
    while any(left.values()):
        batch = [one for line in left.values() for one in line[:size]]
        fixture.run(*batch, truncated_queues=[name for name, line in left.items() if len(line) > size])
        placed |= fixture.placed
        back = set(fixture.postponed)
        assert len(back) < len(batch)
        left = {
            name: [one for one in line[:size] if one.metadata.name in back] + line[size:] for name, line in left.items()
        }
    return placed


sizes = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["500m", "1", "2", "3"])), max_size=14)


@settings(max_examples=60, deadline=None)
@given(sizes, st.integers(1, 4), st.tuples(*[st.integers(1, 3)] * 3))
def test_queues_share_the_same_in_one_session_and_in_batches(
    sizes: list[tuple[str, str]], size: int, weights: tuple[int, int, int]
) -> None:
    def fixture() -> SessionFixture:
        queues = [queue(name, weight=weight) for name, weight in zip("abc", weights, strict=True)]
        return SessionFixture(*nodes(2, allocatable={"cpu": "5", "pods": "99"}), queues=queues)

    pods = [task(f"{name}{n:02}", queue=name, requests={"cpu": cpu}) for n, (name, cpu) in enumerate(sizes)]
    assert _in_batches(fixture(), pods, size) == fixture().run(*pods).placed


def test_queue_share_counts_running_pods() -> None:
    running = [task(f"r{n}", queue="a", on="n0") for n in range(2)]
    fixture = SessionFixture(*nodes(1), running=running, queues=[queue("a"), queue("b")])
    assert set(fixture.run(task("a0", queue="a"), task("b0", queue="b"), task("b1", queue="b")).placed) == {"b0", "b1"}


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
            id="with unreadable limits",
        ),
    ],
)
def test_queue_limit_is_named_in_the_refusal(known: list[Queue], message: str) -> None:
    assert SessionFixture(*nodes(1), queues=known).run(task("p", queue="q")).refused == {"p": message}


def test_gang_with_large_pods_behind_does_not_exceed_its_queue() -> None:
    fixture = SessionFixture(*nodes(1), groups=[gang("g", 1, queue="q")], queues=[queue("q", capability={"cpu": "2"})])
    fixture.run(task("t0", "g", node_selector={"moon": "yes"}), task("t1", "g", {"cpu": "3"}))
    assert (fixture.placed, set(fixture.refused)) == ({}, {"t0", "t1"})


def test_gang_starts_the_pods_that_its_queue_can_take() -> None:
    fixture = SessionFixture(*nodes(1), groups=[gang("g", 2, queue="q")], queues=[queue("q", capability={"cpu": "2"})])
    fixture.run(task("t0", "g", {"cpu": "3"}), task("t1", "g"), task("t2", "g"))
    assert set(fixture.placed) == {"t1", "t2"}
    assert fixture.refused == {"t0": "queue q would exceed its capability: cpu (limit 2, used 2, requested 3)"}


def test_gang_is_in_the_queue_of_its_pod_group() -> None:
    fixture = SessionFixture(*nodes(1), groups=[gang("g", 1, queue="gone")]).run(task("t", "g"))
    assert fixture.refused == {"t": "queue gone does not exist"}


def test_default_queue_exists_while_it_is_being_deleted() -> None:
    limited = queue("default", capability={"cpu": "0"})
    assert SessionFixture(*nodes(1), queues=[leaving(limited)]).run(task("p")).placed == {"p": "n0"}


def test_corrected_queue_limits_apply() -> None:
    fixture = SessionFixture(*nodes(1), queues=[queue("default", deserved={"cpu": "x"})])
    assert "cannot be read" in fixture.run(task("p")).refused["p"]
    fixture.pod_groups.queues.apply(queue("default"))
    assert fixture.run(task("p")).placed == {"p": "n0"}
