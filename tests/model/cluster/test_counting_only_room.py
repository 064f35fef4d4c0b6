"""In a try, a migrating pod counts for nothing but the room that it takes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from restow.model.cluster.selector_group import selector_group_of_term
from restow.model.objects import ContainerPort, PodAffinityTerm, SelectorSpec
from restow.model.snapshot import Snapshot
from tests.model.cluster.builders import node, pod

WEB = selector_group_of_term(
    PodAffinityTerm(topology_key="zone", label_selector=SelectorSpec(match_labels={"app": "web"})), "default"
)
PORT = ("0.0.0.0", "TCP", 80)


@pytest.fixture
def snapshot() -> Snapshot:
    found = Snapshot()
    found.apply_node(node("a"))
    one = pod("p", {"cpu": "1"}, on="a", labels={"app": "web"})
    ports = [ContainerPort(container_port=80, host_port=80)]
    containers = [replace(each, ports=ports) for each in one.spec.containers or ()]
    found.apply_pod(replace(one, spec=replace(one.spec, containers=containers)))
    return found


def counted_values(snapshot: Snapshot) -> tuple[int, bool, int]:
    """How many pods of the selector group are there, whether the port is free, how much cpu is free."""
    count = snapshot.affinity.pod_count((WEB,)).by_row.get(0, 0)
    vacant = bool(snapshot.ports.rows_with_free_ports([PORT], snapshot.rows.every)[0])
    return count, vacant, int(snapshot.room.free[snapshot.room.resources.column("cpu"), 0])


def test_migrating_pod_counts_for_room_but_not_for_affinity_and_ports(snapshot: Snapshot) -> None:
    assert counted_values(snapshot) == (1, False, 3000)
    with snapshot.counting_only_room_of("uid-p"):
        assert counted_values(snapshot) == (0, True, 3000)
    assert counted_values(snapshot) == (1, False, 3000)


def test_mask_made_during_the_try_is_made_again_after_it(snapshot: Snapshot) -> None:
    with snapshot.counting_only_room_of("uid-p"):
        seen = snapshot.room.changes.generation
    assert snapshot.room.changes.since(seen).tolist() == [0]


def test_unknown_uid_is_ignored(snapshot: Snapshot) -> None:
    with snapshot.counting_only_room_of("missing"):
        assert counted_values(snapshot) == (1, False, 3000)
