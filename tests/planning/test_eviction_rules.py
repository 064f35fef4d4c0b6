"""Which pods may move, why others may not, and how many may move at once."""

from __future__ import annotations

from typing import Any

import pytest

from restow.eviction.protections import Protections
from restow.model.objects import ObjectMeta, Pod, PodGroup, PodGroupSpec
from restow.planning.eviction_rules import candidates_on_node, foreign_pod_refusals
from restow.planning.plan_request import DisruptionLimit
from restow.scheduling.pod_group_cache import PodGroupCache
from tests.model.cluster.builders import pod, reservation
from tests.planning.clusters import app, budget, node_of_ten, plan_request, snapshot_of, with_annotations

OURS = Protections(scheduler_names=frozenset(["restow"]))
WEB = {"app": "web"}


def own_pod(name: str, **fields: Any) -> Pod:
    return app(name, on="a", scheduler_name="restow", **fields)


@pytest.mark.parametrize(
    ("one", "budgets", "reason"),
    [
        pytest.param(own_pod("p"), [], "", id="pod that may move"),
        pytest.param(pod("p", on="a"), [], "no controller would recreate it", id="bare pod"),
        pytest.param(
            with_annotations(own_pod("p"), {"restow.sh/use-reservation": "r"}),
            [],
            "it requests reservation r by name, so its successor could use no other seat",
            id="pod that requests a reservation by name",
        ),
        pytest.param(own_pod("p", leaving=True), [], "it is already terminating", id="terminating pod"),
        pytest.param(own_pod("p", labels=WEB), [budget("one", 1, "web")], "", id="budget that allows a disruption"),
        pytest.param(
            own_pod("p", labels=WEB),
            [budget("one", 0, "web")],
            "PodDisruptionBudget default/one: 1 of 1 desired pods are healthy, 0 may be disrupted",
            id="exhausted budget",
        ),
        pytest.param(
            own_pod("p", labels=WEB),
            [budget("one", 5, "web"), budget("two", 5, "web")],
            "2 PodDisruptionBudgets cover it (one, two), and the eviction API accepts at most one",
            id="two budgets",
        ),
    ],
)
def test_refusal_reason_is_the_first_that_holds(one: Pod, budgets: list[Any], reason: str) -> None:
    snapshot = snapshot_of([node_of_ten("a")], [one])
    assert plan_request(snapshot, budgets=budgets).eviction_rules.refusal_reason(one) == reason


def test_pod_of_an_incomplete_gang_may_not_move() -> None:
    one, other = (with_annotations(own_pod(name), {"scheduling.k8s.io/group-name": "g"}) for name in "pq")
    snapshot, pod_groups = snapshot_of([node_of_ten("a")], [one, other]), PodGroupCache()
    mobility = plan_request(snapshot, pod_groups=pod_groups).eviction_rules
    pod_groups.apply_group(
        PodGroup(metadata=ObjectMeta(name="g", namespace="default"), spec=PodGroupSpec(min_member=2))
    )
    pod_groups.apply_pod(one)
    reason = "pod group default/g needs 2 pods, 1 exist: its successor would not be scheduled"
    assert [each.reason for each in candidates_on_node(snapshot, "a", mobility).refusals] == [reason, reason]
    pod_groups.apply_pod(other)
    assert not candidates_on_node(snapshot, "a", mobility).refusals


def test_moving_pod_counts_against_its_budget_and_its_workload() -> None:
    one = own_pod("p", labels=WEB)
    snapshot = snapshot_of([node_of_ten("a")], [one, own_pod("q")])
    request = plan_request(snapshot, budgets=[budget("web", 3, "web")], limit=lambda replicas, has_budget: replicas)
    assert request.eviction_rules.disruption_limits(one) == [
        DisruptionLimit("PodDisruptionBudget default/web", 3),
        DisruptionLimit("ReplicaSet default/app", 2),
    ]


def test_workload_limit_is_told_whether_a_budget_covers_it() -> None:
    snapshot = snapshot_of([node_of_ten("a")], [own_pod("p", labels=WEB), own_pod("q")])
    request = plan_request(snapshot, budgets=[budget("web", 3, "web")], limit=lambda replicas, has: None if has else 1)
    names = [
        [one.name for one in request.eviction_rules.disruption_limits(each.pod)] for each in snapshot.occupants("a")
    ]
    assert names == [["PodDisruptionBudget default/web"], ["ReplicaSet default/app"]]


def test_pods_on_a_node_are_candidates_refusals_foreign_or_arriving() -> None:
    pods = [
        own_pod("p"),
        pod("bare", on="a", scheduler_name="restow"),
        app("foreign", on="a", scheduler_name="other"),
        app("agent", on="a", kind="DaemonSet"),
    ]
    snapshot = snapshot_of([node_of_ten("a")], pods)
    snapshot.apply_reservation(reservation("r", {0: "a"}))
    snapshot.assume(own_pod("coming"), "a", at=0.0)
    on_node = candidates_on_node(snapshot, "a", plan_request(snapshot, protections=OURS).eviction_rules)
    assert [occupant.pod.metadata.name for occupant in on_node.candidates] == ["p"]
    assert {refusal.pod: refusal.reason for refusal in on_node.refusals} == {
        "bare": "no controller would recreate it",
        "r-t-0": "seats of reservations are not moved",
    }
    assert (on_node.foreign_count, on_node.arriving_count, on_node.staying_count) == (1, 1, 4)


def test_pods_of_other_schedulers_are_one_refusal_that_says_how_to_include_them() -> None:
    pods = [own_pod("p"), *(app(f"f{number}", on="a") for number in range(3)), app("agent", on="a", kind="DaemonSet")]
    snapshot = snapshot_of([node_of_ten("a")], pods)
    (found,) = foreign_pod_refusals(snapshot, plan_request(snapshot, protections=OURS).eviction_rules)
    assert (found.pod, found.reason) == (
        "",
        "3 pods belong to other schedulers (default-scheduler): "
        "list the name under scheduler.schedulerNames in --config to include them",
    )
