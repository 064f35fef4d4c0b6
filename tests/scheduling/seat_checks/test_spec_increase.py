"""Spec increase: which seats a changed reservation may not have, by what was granted and what it requests."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import ObjectMeta, Placement, Queue, QueueSpec, Reservation
from restow.model.reservations.observed_spec import has_undecided_increase
from restow.scheduling.seat_checks.spec_increase import seats_beyond_limits
from tests.model.cluster.builders import Amounts, pod
from tests.model.reservations.builders import task, web_reservation
from tests.scheduling.reservations.session_cluster import SessionCluster, named_nodes


def changed_reservation(
    name: str, replicas: int, cpu: str, granted: str, beside: Amounts | None = None, **fields: Any
) -> Reservation:
    """One with two seats that were granted so much each; its spec was changed to so many, of this size. If it has
    another task beside that one, that has one seat, and is as it was."""
    tasks = [task(replicas, {"cpu": cpu}), *([task(1, beside, name="u")] if beside else [])]
    one = web_reservation(name, *tasks, at={0: "n1", 1: "n2"}, queue="q", **fields)
    status = replace(
        one.status,
        observed_generation=1,
        observed_queue="q",
        observed_requests={"t": {"cpu": granted}, "u": dict(beside or {})},
        placements=[
            *(one.status.placements or ()),
            *(Placement(task=each.name, index=0, node_name="n1") for each in tasks[1:]),
        ],
    )
    return replace(one, metadata=replace(one.metadata, generation=2), status=status)


def lost_indices(one: Reservation, *others: Any, share: int = 100) -> list[int]:
    """The seats that it loses where its queue may have 4 cpu, by index."""
    limited = Queue(metadata=ObjectMeta(name="q"), spec=QueueSpec(capability={"cpu": "4"}))
    cluster = SessionCluster(*named_nodes("n1", "n2"), limited, *others, one)
    return sorted(name.index for name in seats_beyond_limits(cluster.snapshot, cluster.pod_groups, one, share))


@pytest.mark.parametrize(
    ("cpu", "taken", "more"),
    [
        pytest.param("2", (), True, id="its seats ask for more than they were granted"),
        pytest.param("2", (0,), True, id="one of them is taken, the other is not"),
        pytest.param("2", (0, 1), False, id="all of them are taken, and ask for nothing any more"),
        pytest.param("1", (), False, id="for as much"),
    ],
)
def test_undecided_increase_counts_unconsumed_seats_only(cpu: str, taken: tuple[int, ...], more: bool) -> None:
    one = changed_reservation("r", 2, cpu, "1", consumed={index: f"uid-{index}" for index in taken})
    assert has_undecided_increase(one) is more


@pytest.mark.parametrize(
    ("replicas", "cpu", "granted", "expected"),
    [
        pytest.param(2, "2", "1", [], id="as much as there may be"),
        pytest.param(2, "3", "1", [1], id="the last one goes, the other is within the limit"),
        pytest.param(2, "5", "1", [0, 1], id="none is"),
        pytest.param(1, "3", "1", [], id="a seat that is not asked for any more is not counted"),
        pytest.param(2, "3", "3", [], id="it was granted all that, before the limit was lowered"),
    ],
)
def test_seats_are_lost_until_the_rest_is_within_the_limit(
    replicas: int, cpu: str, granted: str, expected: list[int]
) -> None:
    assert lost_indices(changed_reservation("r", replicas, cpu, granted)) == expected


@pytest.mark.parametrize(
    ("beside", "expected"),
    [
        pytest.param({"memory": "1Gi"}, [1], id="it asks for nothing that is over"),
        pytest.param({"cpu": "500m"}, [1], id="there is room beside the seat that stays"),
        pytest.param({"cpu": "1500m"}, [0, 1], id="there is not"),
    ],
)
def test_seat_after_a_lost_one_stays_if_the_limit_allows_it(beside: Amounts, expected: list[int]) -> None:
    assert lost_indices(changed_reservation("r", 2, "3", "1", beside)) == expected


def test_migrating_pod_is_credited_to_its_reservation() -> None:
    migrating_pod = pod("web", {"cpu": "2"}, on="n1")
    migrating_pod = replace(
        migrating_pod, metadata=replace(migrating_pod.metadata, annotations={"scheduling.volcano.sh/queue-name": "q"})
    )
    assert lost_indices(changed_reservation("r", 2, "2", "1"), migrating_pod) == [1]
    assert (
        lost_indices(changed_reservation("r", 2, "2", "1", migrating=migrating_pod.metadata.uid), migrating_pod) == []
    )


def test_consumed_seats_are_not_counted_as_increase() -> None:
    consumer = pod("web", on="n2")
    one = changed_reservation("r", 2, "4", "1", consumed={1: consumer.metadata.uid})
    assert lost_indices(one, consumer) == []


def test_newer_change_counts_as_it_was_granted() -> None:
    older, newer = changed_reservation("older", 2, "1500m", "1"), changed_reservation("newer", 2, "1", "500m")
    newer = replace(newer, metadata=replace(newer.metadata, creation_timestamp="2026-01-02T00:00:00Z"))
    assert (lost_indices(older, newer), lost_indices(newer, older)) == ([], [1])


def test_unrecorded_consumed_seat_makes_up_for_no_other() -> None:
    """What it was granted is its pod's, which counts itself; the other seat was granted no more than its own share."""
    one = changed_reservation("r", 2, "3", "2")
    consumer = pod("web", {"cpu": "2"}, on="n2", labels={"app": "web"}, seat="default/r/t/1")
    said = {"restow.sh/reservation-uid": one.metadata.uid, "scheduling.volcano.sh/queue-name": "q"}
    consumer = replace(
        consumer, metadata=replace(consumer.metadata, annotations={**(consumer.metadata.annotations or {}), **said})
    )
    assert lost_indices(one, consumer) == [0]
