"""Guarantees: what a queue's guarantee asks for, and whether it may.

Goes in: a queue, what the cluster has. Comes out: an `Asked`, or a `Rejection` with its numbers; nothing is clamped.

    percentage   ⌊nodes × value⌋ nodes, computed exactly (0.29 of 100 nodes is 29)
    resource     amounts by dimension
    both         the one with more reserved resources: the larger dominant share, over `percentage.dimensions` if given,
                 else over the dimensions of `resource`. A number of nodes counts as that share of everything
    limits       no more than the cluster has, nor than `capability` in any dimension it names
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction

import msgspec

from restow.model.objects import ConditionStatus, Guarantee, GuaranteePolicy, Quantities, Queue
from restow.model.pods import condition
from restow.model.problems import Problem, join
from restow.model.quantity import QuantityError, not_negative, quantity_of
from restow.model.queues import locked_nodes
from restow.model.resources import Vector, amounts

REJECTED_CONDITION = "Rejected"
"""The type of the condition of a queue whose guarantee was rejected."""
_EMPTY: Mapping[str, int] = {}


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
    """A request: a number of nodes, or else amounts."""

    policy: GuaranteePolicy
    amounts: Vector
    """By dimension; of a number of nodes, that share of all there is."""
    nodes: int | None = None
    """None when the amounts are what is asked for."""
    dimensions: tuple[str, ...] = ()
    """What nodes are compared by."""
    missing_dimensions: tuple[str, ...] = ()
    """What they were to be compared by, and none has."""


class ClusterCapacity(msgspec.Struct, frozen=True):
    """What there is to be shared."""

    nodes: int
    totals: Vector


def read_guarantee(queue: Queue, cluster: ClusterCapacity) -> GuaranteeRequest | GuaranteeRejection | None:
    """What a queue's guarantee asks for; None if it has none."""
    guarantee = queue.spec.guarantee
    if guarantee is None or (guarantee.percentage is None and guarantee.resource is None):
        return None
    problems = guarantee_problems(guarantee) + limit_problems(queue)
    if problems:
        return GuaranteeRejection(RejectionReason.INVALID, "; ".join(str(problem) for problem in problems))
    asked = _larger(guarantee, cluster)
    limits = amounts(queue.spec.capability)
    capped = {name: asked.amounts[name] for name in limits if name in asked.amounts}
    return (
        rejection_above(
            RejectionReason.ABOVE_CLUSTER, "is more than the cluster has", asked.amounts, cluster.totals, "total"
        )
        or rejection_above(
            RejectionReason.ABOVE_CAPABILITY, "is more than the queue's capability", capped, limits, "capability"
        )
        or asked
    )


def is_rejected(queue: Queue) -> bool:
    """Whether a queue says that its guarantee was rejected."""
    found = condition(queue.status.conditions, REJECTED_CONDITION)
    return found is not None and found.status == ConditionStatus.TRUE


def was_accepted(queue: Queue, cluster: ClusterCapacity) -> bool:
    """Whether a queue's guarantee was accepted, and asks for no more than what was. Where the definition of Queue is
    another project's, of all that the locked nodes are what is kept."""
    now, then = queue.spec.guarantee, queue.status.accepted_guarantee
    if now is None or then is None:
        return now is not None and bool(locked_nodes(queue))
    if then == now:
        return True
    if guarantee_problems(now) or guarantee_problems(then):
        return False
    before = _larger(then, cluster).amounts
    return all(number <= before.get(name, 0) for name, number in _larger(now, cluster).amounts.items())


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
            problems.append(Problem(join(path, name), str(error)))
    return problems


def _larger(guarantee: Guarantee, cluster: ClusterCapacity) -> GuaranteeRequest:
    policy = GuaranteePolicy(guarantee.policy or GuaranteePolicy.BEST_EFFORT)
    resource = {name: number for name, number in sorted(amounts(guarantee.resource).items()) if number}
    by_amount = GuaranteeRequest(policy, resource, None, tuple(resource))
    if guarantee.percentage is None:
        return by_amount
    dimensions = tuple(sorted(set(guarantee.percentage.dimensions or ())))
    # The shortest decimal that reads back as the number is what was written; its binary value may lie below.
    nodes = math.floor(cluster.nodes * Fraction(str(guarantee.percentage.value)))
    share = Fraction(nodes, max(cluster.nodes, 1))
    if guarantee.resource is not None and _dominant(resource, cluster.totals, dimensions or tuple(resource)) >= share:
        return by_amount
    part = {name: math.floor(total * share) for name, total in cluster.totals.items() if total * share >= 1}
    missing = tuple(name for name in dimensions if not cluster.totals.get(name))
    return GuaranteeRequest(policy, part, nodes, tuple(name for name in dimensions if name not in missing), missing)


def _dominant(resource: Vector, totals: Vector, dimensions: tuple[str, ...]) -> Fraction:
    """The largest share of any of these dimensions; of what the cluster does not have, more than all."""
    shares = [
        Fraction(resource[name], totals[name]) if totals.get(name) else Fraction(2)
        for name in dimensions
        if resource.get(name)
    ]
    return max(shares, default=Fraction(0))


def rejection_above(
    reason: RejectionReason, said: str, asked: Vector, limits: Vector, called: str, taken: Vector = _EMPTY
) -> GuaranteeRejection | None:
    """Why what is asked for is more than these limits, with what is `taken` already; None if it is not."""
    over = [
        f"{name} (asked {quantity_of(name, number)}, {called} {quantity_of(name, limits.get(name, 0))}"
        + (f", taken by others {quantity_of(name, taken[name])})" if taken.get(name) else ")")
        for name, number in sorted(asked.items())
        if number + taken.get(name, 0) > limits.get(name, 0)
    ]
    return GuaranteeRejection(reason, f"the guarantee {said}: {', '.join(over)}") if over else None
