"""The affinity index: pod counts and affinity weights follow the pods, and unused ones are dropped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from restow.model.cluster import affinity_index
from restow.model.cluster.selector_group import SelectorGroup
from restow.model.objects import Affinity, Namespace, ObjectMeta, PodAffinity, PodAffinityTerm, SelectorSpec
from restow.model.selectors import NOTHING, LabelSelector, parse_label_selector
from restow.model.snapshot import Snapshot
from tests.model.cluster.builders import node, pod

AVOIDS_WEB = Affinity(
    pod_anti_affinity=PodAffinity(
        required=[PodAffinityTerm(topology_key="zone", label_selector=SelectorSpec(match_labels={"app": "web"}))]
    )
)


@pytest.fixture(autouse=True)
def _few_idle_groups() -> Iterator[None]:
    with patch.object(affinity_index, "_MAX_IDLE_GROUPS", 2), patch.object(affinity_index, "_MAX_POD_COUNTS", 3):
        yield


def selector_groups_of(
    selector: str, *namespaces: str, namespace_selector: LabelSelector = NOTHING
) -> tuple[SelectorGroup, ...]:
    return (SelectorGroup(parse_label_selector(selector), frozenset(namespaces or ["default"]), namespace_selector),)


def snapshot_with(*pods: Any) -> Snapshot:
    snapshot = Snapshot()
    snapshot.apply_node(node("n1", labels={"zone": "a"}))
    for one in pods:
        snapshot.apply_pod(one)
    return snapshot


@pytest.mark.parametrize(
    ("selector_groups", "expected"),
    [
        pytest.param(selector_groups_of("app=web"), 2, id="by label"),
        pytest.param(selector_groups_of("app in (web,db)"), 3, id="by one of several values"),
        pytest.param(selector_groups_of("app!=web"), 1, id="by not having it"),
        pytest.param(selector_groups_of("app=web", "other"), 1, id="in a named namespace"),
        pytest.param(selector_groups_of("app=web", "default", "other"), 3, id="in several"),
        pytest.param(
            selector_groups_of("app=web", namespace_selector=parse_label_selector("team=a")), 3, id="in selected ones"
        ),
        pytest.param((*selector_groups_of("app=web"), *selector_groups_of("tier=front")), 1, id="by belonging to both"),
    ],
)
@pytest.mark.parametrize("asked_first", [True, False], ids=["asked before the pods came", "asked after the pods came"])
def test_pod_count_follows_pods_and_namespace_labels(
    selector_groups: tuple[SelectorGroup, ...], expected: int, asked_first: bool
) -> None:
    snapshot = snapshot_with()
    snapshot.apply_namespace(Namespace(metadata=ObjectMeta(name="other", labels={"team": "a"})))
    if asked_first:
        snapshot.affinity.pod_count(selector_groups)
    snapshot.apply_pod(pod("w1", on="n1", labels={"app": "web", "tier": "front"}))
    snapshot.apply_pod(pod("w2", on="n1", labels={"app": "web"}, leaving=True))
    snapshot.apply_pod(pod("db", on="n1", labels={"app": "db"}))
    snapshot.apply_pod(pod("w3", on="n1", labels={"app": "web"}, namespace="other"))
    assert snapshot.affinity.pod_count(selector_groups).by_row == {0: expected}


def test_pod_count_without_leaving_excludes_terminating_pods() -> None:
    snapshot = snapshot_with(pod("w", on="n1", labels={"app": "web"}))
    not_terminating = snapshot.affinity.pod_count(selector_groups_of("app=web"), without_leaving=True)
    snapshot.apply_pod(pod("w", on="n1", labels={"app": "web"}, leaving=True))
    assert not_terminating.by_row == {}
    assert snapshot.affinity.pod_count(selector_groups_of("app=web")).by_row == {0: 1}


def test_affinity_weights_are_found_by_the_pods_they_select() -> None:
    snapshot = snapshot_with(pod("shy", on="n1", labels={"app": "db"}, affinity=AVOIDS_WEB))
    assert [one.by_row for one in snapshot.affinity.weights_about("default", {"app": "web"})] == [{0: 1}]
    assert snapshot.affinity.weights_about("default", {"app": "db"}) == []
    assert snapshot.affinity.weights_about("other", {"app": "web"}) == []


def test_groups_and_weights_of_deleted_pods_are_dropped() -> None:
    snapshot = snapshot_with()
    for number in range(20):
        one = pod(f"p{number}", on="n1", namespace=f"ns{number}", labels={"n": str(number)}, affinity=AVOIDS_WEB)
        snapshot.apply_pod(one)
        snapshot.remove_pod(one)
    assert (
        len(snapshot.affinity._groups) == len(snapshot.affinity._weights) == len(snapshot.affinity._in_namespace) == 2
    )


def test_unused_labels_are_dropped_from_the_affinity_index() -> None:
    snapshot = snapshot_with()
    for number in range(20):
        snapshot.affinity.pod_count(selector_groups_of("app=web"))
        snapshot.affinity.pod_count(selector_groups_of(f"key{number}=x"))
        one = pod(f"p{number}", on="n1", labels={"app": str(number)})
        snapshot.apply_pod(one)
        snapshot.remove_pod(one)
    assert len(snapshot.affinity._by_label) <= 3
    assert all(len(shelf) <= 3 for shelf in snapshot.affinity._by_label.values())


def test_too_many_pod_counts_are_dropped_and_the_version_changes() -> None:
    snapshot = snapshot_with(pod("w", on="n1", labels={"app": "web"}))
    version, first = snapshot.affinity.version, snapshot.affinity.pod_count(selector_groups_of("app=web"))
    for number in range(3):
        snapshot.affinity.pod_count(selector_groups_of(f"n={number}"))
    assert snapshot.affinity.version != version
    assert snapshot.affinity.pod_count(selector_groups_of("app=web")) is not first
    assert snapshot.affinity.pod_count(selector_groups_of("app=web")).by_row == {0: 1}


def test_pod_with_changed_labels_counts_by_its_new_labels() -> None:
    snapshot = snapshot_with(pod("w", on="n1", labels={"app": "web"}, affinity=AVOIDS_WEB))
    web, front = (
        snapshot.affinity.pod_count(selector_groups_of("app=web")),
        snapshot.affinity.pod_count(selector_groups_of("tier=front")),
    )
    mark = snapshot.mark()
    snapshot.apply_pod(pod("w", on="n1", labels={"app": "web", "tier": "front"}, affinity=AVOIDS_WEB))
    assert (web.by_row, front.by_row) == ({0: 1}, {0: 1})
    snapshot.apply_pod(pod("w", on="n1", labels={"tier": "front"}, affinity=AVOIDS_WEB))
    assert (web.by_row, front.by_row) == ({}, {0: 1})
    assert [one.by_row for one in snapshot.affinity.weights_about("default", {"app": "web"})] == [{0: 1}]
    snapshot.undo_to(mark)
    assert (web.by_row, front.by_row) == ({0: 1}, {})


def test_changed_label_touches_only_the_counts_it_concerns() -> None:
    snapshot = snapshot_with(pod("w", on="n1", labels={"app": "web"}))
    web = snapshot.affinity.pod_count(selector_groups_of("app=web"))
    with patch.object(affinity_index.RowSums, "add") as touched:
        snapshot.apply_pod(pod("w", on="n1", labels={"app": "web", "zone": "a"}))
    assert not touched.called
    assert web.by_row == {0: 1}


def test_label_order_does_not_matter() -> None:
    snapshot = snapshot_with(pod("w", on="n1", labels={"app": "web", "tier": "front"}))
    web = snapshot.affinity.pod_count(selector_groups_of("app=web"))
    snapshot.apply_pod(pod("w", on="n1", labels={"tier": "front", "app": "web"}, leaving=True))
    snapshot.remove_pod(pod("w", on="n1", labels={"tier": "front", "app": "web"}))
    assert web.by_row == {}


def test_labels_added_by_the_binding_are_counted_and_touch_no_row() -> None:
    snapshot = snapshot_with()
    zone = snapshot.affinity.pod_count(selector_groups_of("zone=a"))
    snapshot.assume(pod("p", labels={"app": "web"}), "n1", at=0.0)
    before = snapshot.room.changes.generation
    snapshot.apply_pod(pod("p", on="n1", labels={"app": "web", "zone": "a"}))
    assert (zone.by_row, snapshot.room.changes.generation) == ({0: 1}, before)


def test_topology_key_gets_a_column_once_a_node_has_it() -> None:
    snapshot = Snapshot()
    snapshot.apply_node(node("n1", labels={"zone": "a"}))
    odd = [snapshot.topologies.domains(f"odd-{number}") for number in range(30)]
    for domains in odd:
        domains.refresh()
    assert [domains.number for domains in odd] == [0] * 30
    assert not snapshot.nodes.labels._columns
    snapshot.apply_node(node("n2", labels={"odd-7": "x"}))
    odd[7].refresh()
    assert (odd[7].number, odd[7].of_row[:2].tolist()) == (1, [0, 1])
