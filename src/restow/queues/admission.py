"""Admission: the rules of guarantees that an API server can check by itself, as a ValidatingAdmissionPolicy.

Goes in: the ceilings. Comes out: a policy and its binding, to be applied by whoever administers the cluster. It refuses
what would be Rejected whatever the cluster is like: a policy that does not exist, a percentage outside of [0, 1] or
above the ceilings, amounts that are no quantities, negative, or above the queue's capability. How much the cluster has,
and what others were promised, no such policy can know: that is for the queue's condition to say.

A queue that exists is asked only about what changes, so that nobody is kept from correcting something else.
"""

from __future__ import annotations

from typing import Any, Final

from restow.model.kinds import QUEUE
from restow.model.objects import GuaranteePolicy
from restow.queues.ceilings import Ceilings, lowest

NAME: Final = "restow-queue-guarantees"
API_VERSION: Final = "admissionregistration.k8s.io/v1"

_ASKED: Final = "variables.resource[name]"
_LIMIT: Final = "variables.capability[name]"
_OVER: Final = f"quantity(string({_ASKED})).isGreaterThan(quantity(string({_LIMIT})))"
_UNCHANGED: Final = (
    "oldObject != null && has(oldObject.spec)"
    " && oldObject.spec.?guarantee == object.spec.?guarantee"
    " && oldObject.spec.?capability == object.spec.?capability"
)


def policy_documents(ceilings: Ceilings) -> list[dict[str, Any]]:
    """The policy and its binding; metadata has the name alone."""
    return [
        {
            "apiVersion": API_VERSION,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": NAME},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": [QUEUE.group],
                            "apiVersions": ["*"],
                            "operations": ["CREATE", "UPDATE"],
                            "resources": [QUEUE.plural],
                        }
                    ]
                },
                "matchConditions": [
                    {"name": "asks-for-something", "expression": _given("object", "spec", "guarantee")},
                    {"name": "asks-for-something-else", "expression": f"!({_UNCHANGED})"},
                ],
                "variables": [
                    {"name": "guarantee", "expression": "object.spec.guarantee"},
                    {"name": "resource", "expression": _or_empty("object", "spec", "guarantee", "resource")},
                    {"name": "capability", "expression": _or_empty("object", "spec", "capability")},
                    {"name": "share", "expression": _share()},
                    {"name": "ceiling", "expression": _ceiling(ceilings)},
                ],
                "validations": [*_validations()],
            },
        },
        {
            "apiVersion": API_VERSION,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": NAME},
            "spec": {"policyName": NAME, "validationActions": ["Deny"]},
        },
    ]


def _validations() -> list[dict[str, str]]:
    policies = ", ".join(f"'{one}'" for one in GuaranteePolicy)
    policy = "variables.guarantee.policy"
    wrong = f"!isQuantity(string({_ASKED})) || quantity(string({_ASKED})).isLessThan(quantity('0'))"
    over = f"name in variables.capability && isQuantity(string({_ASKED})) && isQuantity(string({_LIMIT})) && {_OVER}"
    return [
        {
            "expression": f"!has({policy}) || {policy} == null || {policy} in [{policies}]",
            "messageExpression": f"'spec.guarantee.policy: expected {' or '.join(GuaranteePolicy)}, got ' + {policy}",
        },
        {
            "expression": "variables.share >= 0.0 && variables.share <= 1.0",
            "messageExpression": "'spec.guarantee.percentage.value: expected a number from 0 to 1, got '"
            " + (variables.share < -1.5 ? 'nothing' : string(variables.share))",
        },
        {
            "expression": "variables.share > 1.0 || variables.share * 100.0 <= double(variables.ceiling)",
            "messageExpression": "'spec.guarantee.percentage.value: ' + string(variables.share)"
            " + ' is above the ceiling of ' + string(variables.ceiling)"
            " + '% of the cluster for queue ' + object.metadata.name",
        },
        {
            "expression": f"!variables.resource.exists(name, {wrong})",
            "messageExpression": "'spec.guarantee.resource: expected quantities that are not negative, got '"
            f" + variables.resource.filter(name, {wrong}).map(name, name + ' ' + string({_ASKED})).join(', ')",
        },
        {
            "expression": f"!variables.resource.exists(name, {over})",
            "messageExpression": "'the guarantee is more than the queue\\'s capability: '"
            f" + variables.resource.filter(name, {over})"
            f".map(name, name + ' (asked ' + string({_ASKED}) + ', capability ' + string({_LIMIT}) + ')').join(', ')",
        },
    ]


def _given(*path: str) -> str:
    """Whether something is there, and not null."""
    steps = [".".join(path[: length + 1]) for length in range(1, len(path))]
    return " && ".join(f"has({step}) && {step} != null" for step in steps)


def _or_empty(*path: str) -> str:
    return f"{_given(*path)} ? {'.'.join(path)} : {{}}"


def _share() -> str:
    """The percentage as a number: 0 where none is asked for, below everything where it has no value."""
    there = _given("object", "spec", "guarantee", "percentage")
    value = "object.spec.guarantee.percentage.value"
    return f"!({there}) ? 0.0 : (has({value}) && {value} != null ? double({value}) : -2.0)"


def _ceiling(ceilings: Ceilings) -> str:
    """In percent, by the name of the queue."""
    everybody = lowest(ceilings.cluster)
    single = {name: min(lowest(ceiling), everybody) for name, ceiling in sorted(ceilings.queues.items())}
    otherwise = min(lowest(ceilings.queue), everybody)
    if not single:
        return str(otherwise)
    known = ", ".join(f"'{name}': {percent}" for name, percent in single.items())
    return f"object.metadata.name in {{{known}}} ? {{{known}}}[object.metadata.name] : {otherwise}"
