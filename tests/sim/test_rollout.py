"""The arithmetic of rolling updates, and the order in which pods are given up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.model.objects import Condition, ContainerStatus, ObjectMeta, Pod, PodSpec, PodStatus
from restow.model.times import format_time
from restow.sim.world.pods import deletion_order
from restow.sim.world.rollout import Bounds, Size, grow_new, scale_in_proportion, shrink_old

share = st.integers(0, 10) | st.integers(0, 100).map(lambda percent: f"{percent}%")


@st.composite
def sizes(draw: st.DrawFn, name: str = "s") -> Size:
    replicas = draw(st.integers(0, 20))
    return Size(name, replicas, draw(st.integers(0, replicas)))


@st.composite
def rollouts(draw: st.DrawFn) -> tuple[Bounds, Size, list[Size]]:
    bounds = Bounds.of(draw(st.integers(0, 20)), draw(share), draw(share))
    old = [draw(sizes(f"old-{number}")) for number in range(draw(st.integers(0, 3)))]
    return bounds, draw(sizes("new")), old


@given(rollouts())
def test_growing_respects_the_surge(rollout: tuple[Bounds, Size, list[Size]]) -> None:
    bounds, new, old = rollout
    size = grow_new(bounds, new, old)
    total = size + sum(each.replicas for each in old)
    assert size <= bounds.replicas
    assert size <= new.replicas or total <= bounds.replicas + bounds.surge


@given(rollouts())
def test_shrinking_keeps_enough_available(rollout: tuple[Bounds, Size, list[Size]]) -> None:
    bounds, new, old = rollout
    shrunk = shrink_old(bounds, new, old)
    left = [Size(each.name, shrunk.get(each.name, each.replicas), 0) for each in old]
    # A set gives up its unavailable pods first.
    available = new.available + sum(min(now.replicas, was.available) for now, was in zip(left, old, strict=True))
    before = new.available + sum(each.available for each in old)
    assert all(0 <= now.replicas <= was.replicas for now, was in zip(left, old, strict=True))
    assert available >= min(before, bounds.replicas - bounds.unavailable)


@given(st.integers(0, 20), share, share)
def test_a_rollout_with_healthy_pods_always_ends(replicas: int, surge: int | str, unavailable: int | str) -> None:
    bounds = Bounds.of(replicas, surge, unavailable)
    new, old = Size("new", 0, 0), Size("old", replicas, replicas)
    for _ in range(4 * replicas + 2):
        size = grow_new(bounds, new, [old])
        new = Size("new", size, size)
        left = shrink_old(bounds, new, [old]).get("old", old.replicas)
        old = Size("old", left, left)
    assert (new.replicas, old.replicas) == (replicas, 0)


@given(rollouts())
def test_proportional_scaling_fills_the_allowed_total(rollout: tuple[Bounds, Size, list[Size]]) -> None:
    bounds, new, old = rollout
    active = [each for each in (new, *old) if each.replicas]
    scaled = scale_in_proportion(bounds, active, {})
    if active:
        assert sum(scaled.values()) == (bounds.replicas + bounds.surge if bounds.replicas else 0)
    assert all(size >= 0 for size in scaled.values())


NOW = 1_000_000.0


def _pod(uid: str, node: str | None = "n1", phase: str = "Running", ready: float | None = 1000.0, **more: int) -> Pod:
    conditions = None
    if ready is not None:
        conditions = [Condition(type="Ready", status="True", last_transition_time=format_time(NOW - ready))]
    annotations = {"controller.kubernetes.io/pod-deletion-cost": str(more["cost"])} if "cost" in more else None
    created = format_time(NOW - more.get("age", 1000))
    return Pod(
        metadata=ObjectMeta(name=uid, uid=uid, creation_timestamp=created, annotations=annotations),
        spec=PodSpec(node_name=node),
        status=PodStatus(
            phase=phase,
            conditions=conditions,
            container_statuses=[ContainerStatus(name="c", restart_count=more.get("restarts", 0))],
        ),
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(_pod("z", None, "Pending", None), _pod("a", phase="Pending", ready=None), id="unassigned"),
        pytest.param(_pod("z", phase="Pending", ready=None), _pod("a", ready=None), id="pending"),
        pytest.param(_pod("z", ready=None), _pod("a", cost=-9), id="not ready, whatever the cost"),
        pytest.param(_pod("z", cost=-1), _pod("a", cost=0), id="cheaper"),
        pytest.param(_pod("z", ready=10), _pod("a", ready=1000), id="ready for a shorter time, by magnitude"),
        pytest.param(_pod("a", ready=1000), _pod("z", ready=990), id="ready about as long: by uid"),
        pytest.param(_pod("z", restarts=3), _pod("a", restarts=1), id="restarted more often"),
        pytest.param(_pod("z", age=10), _pod("a", age=1000), id="younger"),
    ],
)
def test_scale_down_deletes_pods_in_order(first: Pod, second: Pod) -> None:
    for pods in ([first, second], [second, first]):
        assert [pod.metadata.uid for pod in deletion_order(pods, pods, NOW)] == [
            first.metadata.uid,
            second.metadata.uid,
        ]


def test_scale_down_deletes_the_pod_on_a_shared_node_first() -> None:
    alone, doubled, neighbour = _pod("a", "n1"), _pod("z", "n2"), _pod("y", "n2")
    assert deletion_order([alone, doubled], [alone, doubled, neighbour], NOW)[0] is doubled
