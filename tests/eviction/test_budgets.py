from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.eviction.budgets import (
    Budgets,
    covered_by_several_budgets,
    disruption_budget,
    exhausted_budget,
    unavailable_budget,
)
from restow.model.objects import OwnerReference, Pod, PodDisruptionBudget, PodUnavailableBudget
from restow.model.selectors import label_selector
from restow.model.wire import convert_document
from tests.eviction.eviction_objects import pdb, pod

RS = OwnerReference(kind="ReplicaSet", name="web-rs", uid="web-rs", controller=True)
WEB = OwnerReference(kind="Deployment", name="web", uid="web", controller=True)


def pub(
    name: str = "web", allowed: int = 1, *, status: dict[str, Any] | None = None, **spec: Any
) -> PodUnavailableBudget:
    return convert_document(
        PodUnavailableBudget,
        {
            "metadata": {"name": name, "namespace": "shop"},
            "spec": spec or {"selector": {"matchLabels": {"app": "web"}}},
            "status": {"unavailableAllowed": allowed, "currentAvailable": 3, "desiredAvailable": 2, **(status or {})},
        },
    )


def covering(item: Pod, *written: PodDisruptionBudget | PodUnavailableBudget) -> list[str]:
    budgets = Budgets()
    for one in written:
        budgets.put(one)
    return [f"{one.kind}/{one.name}" for one in budgets.covering(item, [RS, WEB])]


COVER: dict[str, tuple[Pod, list[PodDisruptionBudget | PodUnavailableBudget], list[str]]] = {
    "by labels": (pod(), [pdb(), pdb("db", app="db")], ["PodDisruptionBudget/web"]),
    "not in another namespace": (pod(namespace="elsewhere"), [pdb()], []),
    "both kinds": (pod(), [pdb(), pub()], ["PodDisruptionBudget/web", "PodUnavailableBudget/web"]),
    "a workload by reference": (
        pod(),
        [pub(targetRef={"kind": "Deployment", "name": "web"}), pub("x", targetRef={"kind": "CloneSet", "name": "web"})],
        ["PodUnavailableBudget/web"],
    ),
    "not a pod that is exempt": (pod(annotations={"pub.kruise.io/no-protect": "true"}), [pub()], []),
}


@pytest.mark.parametrize("case", COVER.values(), ids=COVER)
def test_a_budget_covers_the_pods_that_its_selector_or_target_matches(
    case: tuple[Pod, list[PodDisruptionBudget | PodUnavailableBudget], list[str]],
) -> None:
    item, written, expected = case
    assert covering(item, *written) == expected


CHARGED: dict[str, tuple[Pod, PodDisruptionBudget, bool]] = {
    "a ready pod": (pod(), pdb(), True),
    "an unready pod while enough others are healthy": (pod(ready=False), pdb(), False),
    "an unready pod that counts": (pod(ready=False), pdb(currentHealthy=1), True),
    "a pod without conditions": (pod(conditions=[]), pdb(), True),
    "a pending pod": (pod(phase="Pending", ready=False), pdb(currentHealthy=1), False),
    "a pod that is over": (pod(phase="Succeeded"), pdb(), False),
    "a pod that leaves": (pod(deletionTimestamp="2026-01-01T00:00:00Z"), pdb(), False),
    "a pod among the disrupted ones": (pod(), pdb(disruptedPods={"web-1": "2026-01-01T00:00:00Z"}), False),
}


@pytest.mark.parametrize("case", CHARGED.values(), ids=CHARGED)
def test_evicting_a_serving_pod_is_charged_to_its_budget(case: tuple[Pod, PodDisruptionBudget, bool]) -> None:
    item, budget, charged = case
    assert disruption_budget(budget).is_charged_for(item) is charged


BOOKED: dict[str, tuple[dict[str, Any], bool]] = {
    "no pod": ({}, True),
    "another pod": ({"disruptedPods": {"web-2": "2026-01-01T00:00:00Z"}}, True),
    "one that is being evicted": ({"disruptedPods": {"web-1": "2026-01-01T00:00:00Z"}}, False),
    "one that is being updated": ({"unavailablePods": {"web-1": "2026-01-01T00:00:00Z"}}, False),
}


@pytest.mark.parametrize("case", BOOKED.values(), ids=BOOKED)
def test_a_pod_that_an_unavailable_budget_already_counts_is_not_charged_again(
    case: tuple[dict[str, Any], bool],
) -> None:
    booked, charged = case
    assert unavailable_budget(pub(status=booked)).is_charged_for(pod()) is charged


def test_unready_pods_are_not_charged_with_policy_always_allow() -> None:
    budget = convert_document(
        PodDisruptionBudget,
        {"metadata": {"name": "web"}, "spec": {"selector": {}, "unhealthyPodEvictionPolicy": "AlwaysAllow"}},
    )
    assert not disruption_budget(budget).is_charged_for(pod(ready=False))


def test_an_exhausted_budget_is_reported_with_its_numbers() -> None:
    budget = disruption_budget(pdb(allowed=0, currentHealthy=2))
    assert exhausted_budget([budget], pod()) == (
        "PodDisruptionBudget shop/web: 2 of 2 desired pods are healthy, 0 may be disrupted"
    )


def test_a_budget_with_an_outdated_status_allows_no_disruption() -> None:
    budget = disruption_budget(pdb(allowed=5, observedGeneration=0))
    assert (budget.left, exhausted_budget([budget], pod())) == (
        0,
        "PodDisruptionBudget shop/web: its status is not up to date with its spec",
    )


def test_two_disruption_budgets_make_a_pod_unevictable_and_one_of_each_kind_does_not() -> None:
    one, other, kruise = disruption_budget(pdb("a")), disruption_budget(pdb("b")), unavailable_budget(pub())
    assert covered_by_several_budgets([one, kruise]) is None
    assert covered_by_several_budgets([one, other, kruise]) is not None


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"), max_size=3)
TERMS = st.sampled_from(
    [
        {},
        {"matchLabels": {"a": "x"}},
        {"matchLabels": {"a": "x", "b": "y"}},
        {"matchExpressions": [{"key": "c", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["x", "y"]}]},
        {"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["x"]}]},
    ]
)


@given(LABELS, st.lists(TERMS, max_size=6), st.sets(st.integers(0, 5)))
def test_budgets_found_by_label_are_those_found_by_looking_at_each(
    labels: dict[str, str], terms: list[dict[str, Any]], gone: set[int]
) -> None:
    budgets = Budgets()
    for number, selector in enumerate(terms):
        metadata = {"name": str(number), "namespace": "shop"}
        budgets.put(convert_document(PodDisruptionBudget, {"metadata": metadata, "spec": {"selector": selector}}))
    for number in gone:
        budgets.drop("PodDisruptionBudget", "shop", str(number))
    found = [one.name for one in budgets.covering(pod(labels=labels), [])]
    kept = [number for number in range(len(terms)) if number not in gone]
    assert found == [str(number) for number in kept if label_selector(terms[number]).matches(labels)]
