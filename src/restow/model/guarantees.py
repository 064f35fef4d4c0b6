"""Guarantees: what the guarantee of a queue asks for, and whether that is allowed.

Goes in: a queue, and what the cluster has. Comes out: a `GuaranteeRequest`, or a `GuaranteeRejection` with its numbers;
a request is never cut down to a limit.

    percentage   ⌊nodes × value⌋ nodes, computed exactly (0.29 of 100 nodes is 29)
    resource     amounts by resource
    both         the one that reserves more: the larger dominant share, over `percentage.dimensions` if given, else over
                 the resources in `resource`. A number of nodes counts as that share of every resource
    limits       no more than the cluster has, nor than `capability` for any resource that it names
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction

import msgspec

from restow.model.objects import ConditionStatus, Guarantee, GuaranteePolicy, Quantities, Queue
from restow.model.pods import find_condition
from restow.model.problems import Problem, member_path
from restow.model.quantity import QuantityError, not_negative, quantity_of
from restow.model.queues import locked_nodes
from restow.model.resources import Vector, parse_amounts

REJECTED_CONDITION = "Rejected"
"""The type of the condition that is True when the guarantee of a queue was rejected."""
_NOTHING: Mapping[str, int] = {}


class RejectionReason(StrEnum):
    """Why a guarantee is rejected."""

    INVALID = "InvalidGuarantee"
    ABOVE_CLUSTER = "AboveClusterTotal"
    ABOVE_CAPABILITY = "AboveCapability"
    ABOVE_QUEUE_CEILING = "AboveQueueCeiling"
    ABOVE_CLUSTER_CEILING = "AboveClusterCeiling"


class GuaranteeRejection(msgspec.Struct, frozen=True):
    reason: RejectionReason
    message: str


class GuaranteeRequest(msgspec.Struct, frozen=True):
    """What a guarantee asks for: a number of nodes, or amounts."""

    policy: GuaranteePolicy
    amounts: Vector
    """By resource. For a number of nodes: that share of everything the cluster has."""
    nodes: int | None = None
    """None if amounts are asked for."""
    dimensions: tuple[str, ...] = ()
    """The resources by which nodes are compared."""
    missing_dimensions: tuple[str, ...] = ()
    """Resources by which nodes should be compared, but which no node has."""


class ClusterCapacity(msgspec.Struct, frozen=True):
    """What all nodes have together."""

    nodes: int
    totals: Vector


def read_guarantee(queue: Queue, cluster: ClusterCapacity) -> GuaranteeRequest | GuaranteeRejection | None:
    """What the guarantee of a queue asks for, or why it is invalid or above a limit. None without a guarantee."""
    guarantee = queue.spec.guarantee
    if guarantee is None or (guarantee.percentage is None and guarantee.resource is None):
        return None
    problems = guarantee_problems(guarantee) + limit_problems(queue)
    if problems:
        return GuaranteeRejection(RejectionReason.INVALID, "; ".join(str(problem) for problem in problems))
    request = _larger_request(guarantee, cluster)
    capability = parse_amounts(queue.spec.capability)
    limited = {name: request.amounts[name] for name in capability if name in request.amounts}
    return (
        rejection_above(
            RejectionReason.ABOVE_CLUSTER, "is more than the cluster has", request.amounts, cluster.totals, "total"
        )
        or rejection_above(
            RejectionReason.ABOVE_CAPABILITY,
            "is more than the queue's capability",
            limited,
            capability,
            "capability",
        )
        or request
    )


def is_rejected(queue: Queue) -> bool:
    """Whether the status of a queue says that its guarantee was rejected."""
    rejected = find_condition(queue.status.conditions, REJECTED_CONDITION)
    return rejected is not None and rejected.status == ConditionStatus.TRUE


def was_accepted(queue: Queue, cluster: ClusterCapacity) -> bool:
    """Whether the guarantee of a queue was accepted before, and asks for no more since."""
    now, then = queue.spec.guarantee, queue.status.accepted_guarantee
    if now is None or then is None:
        # Where another project's CRD of Queue is installed, the API server prunes acceptedGuarantee. Only an accepted
        # queue has locked nodes, and these are not pruned.
        return now is not None and bool(locked_nodes(queue))
    if then == now:
        return True
    if guarantee_problems(now) or guarantee_problems(then):
        return False
    before = _larger_request(then, cluster).amounts
    return all(amount <= before.get(name, 0) for name, amount in _larger_request(now, cluster).amounts.items())


def guarantee_problems(guarantee: Guarantee) -> list[Problem]:
    """Everything that is wrong with a guarantee as written, with paths."""
    problems = []
    if guarantee.policy not in (None, *GuaranteePolicy):
        expected = " or ".join(GuaranteePolicy)
        problems.append(Problem("spec.guarantee.policy", f"expected {expected}, got {guarantee.policy!r}"))
    percentage = guarantee.percentage
    if percentage is not None and (percentage.value is None or not 0 <= percentage.value <= 1):
        got = "nothing" if percentage.value is None else percentage.value
        problems.append(Problem("spec.guarantee.percentage.value", f"expected a number from 0 to 1, got {got}"))
    return problems + _quantity_problems("spec.guarantee.resource", guarantee.resource)


def limit_problems(queue: Queue) -> list[Problem]:
    """Everything that is wrong with the limits of a queue as written, with paths."""
    spec = queue.spec
    capability = _quantity_problems("spec.capability", spec.capability)
    return capability + _quantity_problems("spec.deserved", spec.deserved)


def _quantity_problems(path: str, written: Quantities | None) -> list[Problem]:
    problems = []
    for name, text in sorted((written or {}).items()):
        try:
            not_negative(text)
        except QuantityError as error:
            problems.append(Problem(member_path(path, name), str(error)))
    return problems


def _larger_request(guarantee: Guarantee, cluster: ClusterCapacity) -> GuaranteeRequest:
    """What a valid guarantee asks for: amounts, a number of nodes, or the larger of the two."""
    policy = GuaranteePolicy(guarantee.policy or GuaranteePolicy.BEST_EFFORT)
    resource = {name: amount for name, amount in sorted(parse_amounts(guarantee.resource).items()) if amount}
    by_amount = GuaranteeRequest(policy, resource, None, tuple(resource))
    if guarantee.percentage is None:
        return by_amount
    dimensions = tuple(sorted(set(guarantee.percentage.dimensions or ())))
    # The shortest decimal that reads back as the number is what was written; its binary value may lie below.
    nodes = math.floor(cluster.nodes * Fraction(str(guarantee.percentage.value)))
    share = Fraction(nodes, max(cluster.nodes, 1))
    if guarantee.resource is not None:
        amount_share = _dominant_share(resource, cluster.totals, dimensions or tuple(resource))
        if amount_share >= share:
            return by_amount
    part = {name: math.floor(total * share) for name, total in cluster.totals.items() if total * share >= 1}
    missing = tuple(name for name in dimensions if not cluster.totals.get(name))
    return GuaranteeRequest(policy, part, nodes, tuple(name for name in dimensions if name not in missing), missing)


def _dominant_share(resource: Vector, totals: Vector, dimensions: tuple[str, ...]) -> Fraction:
    """The largest share of the cluster in any of these dimensions. An amount of a resource that the cluster does not
    have counts as more than all: so it is the one that is asked for, and then rejected."""
    shares = [
        Fraction(resource[name], totals[name]) if totals.get(name) else Fraction(2)
        for name in dimensions
        if resource.get(name)
    ]
    return max(shares, default=Fraction(0))


def rejection_above(
    reason: RejectionReason,
    sentence: str,
    asked: Vector,
    limits: Vector,
    limit_name: str,
    taken: Vector = _NOTHING,
) -> GuaranteeRejection | None:
    """Why what is asked for, together with what is `taken` by others, is above these limits; None if it is not. The
    message is `sentence`, followed by the numbers for each resource."""
    above = [
        f"{name} (asked {quantity_of(name, amount)}, {limit_name} {quantity_of(name, limits.get(name, 0))}"
        + (f", taken by others {quantity_of(name, taken[name])})" if taken.get(name) else ")")
        for name, amount in sorted(asked.items())
        if amount + taken.get(name, 0) > limits.get(name, 0)
    ]
    return GuaranteeRejection(reason, f"the guarantee {sentence}: {', '.join(above)}") if above else None
