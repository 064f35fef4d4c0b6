"""What a guarantee asks for, and what is rejected, sentence by sentence."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model.guarantees import (
    ClusterCapacity,
    GuaranteeRejection,
    GuaranteeRequest,
    RejectionReason,
    guarantee_problems,
    read_guarantee,
    was_accepted,
)
from restow.model.objects import Guarantee, GuaranteePercentage, GuaranteePolicy
from restow.queues.guarantee_ceilings import GuaranteeCeilings, ceiling_rejection
from tests.queues.node_capacity_fixture import queue, vector

CLUSTER = ClusterCapacity(nodes=10, totals=vector(cpu="80", memory="320Gi"))


def asked(cluster: ClusterCapacity = CLUSTER, **spec: Any) -> GuaranteeRequest:
    request = read_guarantee(queue(**spec), cluster)
    assert isinstance(request, GuaranteeRequest)
    return request


@pytest.mark.parametrize(
    ("guarantee", "nodes", "cpu"),
    [
        pytest.param({"percentage": {"value": 0.2}}, 2, "16", id="a percentage is a number of nodes"),
        pytest.param({"percentage": {"value": 0.29}}, 2, "16", id="rounded down"),
        pytest.param({"percentage": {"value": 0}}, 0, "0", id="zero is legal"),
        pytest.param({"percentage": {"value": 1}}, 10, "80", id="one is legal"),
        pytest.param({"resource": {"cpu": "2", "memory": "4G"}}, None, "2", id="a resource is an amount"),
        pytest.param(
            {"percentage": {"value": 0.2}, "resource": {"cpu": "20"}}, None, "20", id="both: the resource is more"
        ),
        pytest.param(
            {"percentage": {"value": 0.2}, "resource": {"cpu": "10"}}, 2, "16", id="both: the percentage is more"
        ),
        pytest.param(
            {"percentage": {"value": 0.2}, "resource": {"cpu": "1", "memory": "96Gi"}},
            None,
            "1",
            id="more is by the dominant share, not by the sum",
        ),
        pytest.param(
            {"percentage": {"value": 0.2, "dimensions": ["cpu"]}, "resource": {"cpu": "1", "memory": "96Gi"}},
            2,
            "16",
            id="only the dimensions named are compared",
        ),
    ],
)
def test_guarantee_asks_for(guarantee: dict[str, Any], nodes: int | None, cpu: str) -> None:
    request = asked(guarantee=guarantee)
    assert (request.nodes, request.amounts.get("cpu", 0)) == (nodes, vector(cpu=cpu)["cpu"])


def test_guarantee_percentage_is_computed_exactly() -> None:
    cluster = ClusterCapacity(nodes=100, totals=vector(cpu="800"))
    assert asked(cluster, guarantee={"percentage": {"value": 0.29}}).nodes == 29


@pytest.mark.parametrize(
    ("policy", "read"),
    [(None, GuaranteePolicy.BEST_EFFORT), ("Best-Effort", "Best-Effort"), ("Guaranteed", "Guaranteed")],
)
def test_guarantee_policy_is_best_effort_by_default(policy: str | None, read: str) -> None:
    assert asked(guarantee={"policy": policy, "resource": {"cpu": "1"}}).policy == read


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        pytest.param(
            {"guarantee": {"resource": {"cpu": "81", "memory": "1Gi"}}},
            "AboveClusterTotal",
            "the guarantee is more than the cluster has: cpu (asked 81, total 80)",
            id="more than the cluster has in one dimension",
        ),
        pytest.param(
            {"guarantee": {"resource": {"nvidia.com/gpu": "1"}}},
            "AboveClusterTotal",
            "the guarantee is more than the cluster has: nvidia.com/gpu (asked 1, total 0)",
            id="something the cluster does not have",
        ),
        pytest.param(
            {"guarantee": {"resource": {"cpu": "4"}}, "capability": {"cpu": "2"}},
            "AboveCapability",
            "the guarantee is more than the queue's capability: cpu (asked 4, capability 2)",
            id="more than the capability",
        ),
        pytest.param(
            {"guarantee": {"percentage": {"value": 0.2}}, "capability": {"memory": "32Gi"}},
            "AboveCapability",
            "the guarantee is more than the queue's capability: memory (asked 64Gi, capability 32Gi)",
            id="nodes that are more than the capability",
        ),
        pytest.param(
            {"guarantee": {"percentage": {"value": 1.5}, "policy": "Maybe"}},
            "InvalidGuarantee",
            "spec.guarantee.policy: expected Best-Effort or Guaranteed, got 'Maybe'; "
            "spec.guarantee.percentage.value: expected a number from 0 to 1, got 1.5",
            id="every wrong field at once",
        ),
        pytest.param(
            {"guarantee": {"resource": {"cpu": "4"}}, "deserved": {"cpu": "-1"}},
            "InvalidGuarantee",
            "spec.deserved.cpu: quantity '-1': must not be negative",
            id="unreadable limits: no pod would be let in",
        ),
    ],
)
def test_guarantee_above_a_limit_is_rejected_not_clamped(spec: dict[str, Any], reason: str, message: str) -> None:
    request = read_guarantee(queue(**spec), CLUSTER)
    assert isinstance(request, GuaranteeRejection)
    assert (request.reason, request.message) == (reason, message)


def test_queue_without_a_guarantee_asks_for_nothing() -> None:
    assert read_guarantee(queue(), CLUSTER) is None


@pytest.mark.parametrize(
    ("ceilings", "taken", "reason"),
    [
        pytest.param(GuaranteeCeilings(), {}, None, id="half of the cluster is allowed"),
        pytest.param(
            GuaranteeCeilings(all_queues=49), {}, "AboveClusterCeiling", id="above the ceiling of the cluster"
        ),
        pytest.param(GuaranteeCeilings(), vector(memory="1"), "AboveClusterCeiling", id="above it with those before"),
        pytest.param(GuaranteeCeilings(any_queue=49), {}, "AboveQueueCeiling", id="above the ceiling of every queue"),
        pytest.param(
            GuaranteeCeilings(any_queue=10, by_queue={"q1": 50}), {}, None, id="a queue with a ceiling of its own"
        ),
        pytest.param(GuaranteeCeilings(by_queue={"q1": 20}), {}, "AboveQueueCeiling", id="and above its own"),
    ],
)
def test_guarantee_above_a_ceiling_is_rejected(
    ceilings: GuaranteeCeilings, taken: dict[str, int], reason: str | None
) -> None:
    rejection = ceiling_rejection(
        "q1", asked(guarantee={"resource": {"cpu": "40", "memory": "160Gi"}}), CLUSTER, ceilings, taken
    )
    assert (rejection.reason if rejection else None) == reason


def test_ceiling_rejection_has_numbers() -> None:
    request = asked(guarantee={"resource": {"cpu": "30"}})
    assert ceiling_rejection("q1", request, CLUSTER, GuaranteeCeilings(), vector(cpu="20")) == GuaranteeRejection(
        RejectionReason.ABOVE_CLUSTER_CEILING,
        "the guarantee is above the ceiling of 50% of the cluster for all guarantees: "
        "cpu (asked 30, limit 40, taken by others 20)",
    )


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), None])
def test_guarantee_percentage_outside_of_0_to_1_is_invalid(value: float | None) -> None:
    assert len(guarantee_problems(Guarantee(percentage=GuaranteePercentage(value=value)))) == 1


@pytest.mark.parametrize(("text", "says"), [("-1", "quantity '-1': must not be negative"), ("2c", "2c")])
def test_guarantee_with_unreadable_quantities_is_invalid(text: str, says: str) -> None:
    (problem,) = guarantee_problems(Guarantee(resource={"cpu": text}))
    assert problem.path == "spec.guarantee.resource.cpu"
    assert says in problem.message


# --- newcomers --------------------------------------------------------------------------------------------------------

FIFTH = {"percentage": {"value": 0.2}}
BOTH = {"percentage": {"value": 0.5, "dimensions": ["cpu"]}, "resource": {"cpu": "8", "memory": "290Gi"}}


@pytest.mark.parametrize(
    ("then", "now", "accepted"),
    [
        pytest.param(None, FIFTH, False, id="it never was"),
        pytest.param(FIFTH, FIFTH, True, id="it asks for the same"),
        pytest.param(FIFTH, {**FIFTH, "policy": "Guaranteed"}, True, id="in another way"),
        pytest.param(FIFTH, {"percentage": {"value": 0.25}}, True, id="for a larger share of as many nodes"),
        pytest.param(FIFTH, {"percentage": {"value": 0.3}}, False, id="for more nodes"),
        pytest.param(FIFTH, {"resource": {"cpu": "16"}}, True, id="for the same as an amount"),
        pytest.param({"resource": {"cpu": "16"}}, FIFTH, False, id="for the same, and for memory"),
        pytest.param({"resource": {"cpu": "9"}}, {"resource": {"cpu": "8500m"}}, True, id="for less"),
        pytest.param(BOTH, {"resource": BOTH["resource"]}, False, id="for what was not looked at before"),
        pytest.param(FIFTH, {"resource": {"cpu": "odd"}}, False, id="for an unreadable amount"),
        pytest.param({"resource": {"cpu": "odd"}}, FIFTH, False, id="and so it did"),
    ],
)
def test_queue_was_accepted_before_if(then: dict[str, Any] | None, now: dict[str, Any], accepted: bool) -> None:
    assert was_accepted(queue(guarantee=now, accepted=then), CLUSTER) is accepted


def test_locked_nodes_show_acceptance_if_the_guarantee_is_pruned() -> None:
    assert was_accepted(queue(guarantee=FIFTH, nodes=("a",)), CLUSTER)
