"""Admission: the rules of guarantees that an API server can check by itself, as ValidatingAdmissionPolicies.

Goes in: the namespace of Restow, the ceilings, what the cluster has. Comes out: policies with their bindings, and what
they read; all of it is to be applied by whoever administers the cluster.

    restow-queue-guarantees   refuses what is wrong in itself: a policy that does not exist, a percentage outside of
                              [0, 1], amounts that are no quantities, negative, or above the queue's capability
    restow-queue-ceilings     refuses what is above the ceilings, as a ConfigMap of the same name shows them. The queue
                              controller keeps that equal to its configuration, and to what the cluster has

What others were promised no such policy can know: that is for the queue's condition to say. A queue that exists is
asked only about what changes, so that nobody is kept from correcting something else.
"""

from __future__ import annotations

from typing import Any, Final

from restow.model.kinds import CONFIG_MAP, QUEUE
from restow.model.objects import GuaranteePolicy
from restow.model.quantity import quantity_of
from restow.model.resources import Vector
from restow.queues.ceilings import Ceiling, Ceilings, lowest, percent

NAME: Final = "restow-queue-guarantees"
CEILINGS: Final = "restow-queue-ceilings"
"""The name of a policy, and of the ConfigMap that it reads."""
API_VERSION: Final = "admissionregistration.k8s.io/v1"

_LONGEST_KEY: Final = 253
_ASKED: Final = "variables.resource[name]"
_LIMIT: Final = "variables.capability[name]"
_OVER: Final = f"quantity(string({_ASKED})).isGreaterThan(quantity(string({_LIMIT})))"
_KEY: Final = "'amount_' + variables.whose + '_' + name.replace('/', '_')"
_UNCHANGED: Final = (
    "oldObject != null && has(oldObject.spec)"
    " && oldObject.spec.?guarantee == object.spec.?guarantee"
    " && oldObject.spec.?capability == object.spec.?capability"
)


# --- what the policies read -------------------------------------------------------------------------------------------


def shown_ceilings(ceilings: Ceilings, totals: Vector) -> dict[str, str]:
    """The data of the ConfigMap, where a queue without a name is any that has no ceiling of its own:

    share_<queue>               in percent of the nodes
    amount_<queue>_<resource>   of what the cluster has; a resource that no node has is left to the condition.
                                Keys have no slashes
    """
    shown = {}
    for queue in ("", *sorted(ceilings.queues)):
        own = ceilings.of(queue)
        shown[f"share_{queue}"] = str(min(lowest(own), lowest(ceilings.cluster)))
        for name, total in sorted(totals.items()):
            key = f"amount_{queue}_{name.replace('/', '_')}"
            if total and len(key) <= _LONGEST_KEY:
                shown[key] = str(quantity_of(name, _part(total, name, own, ceilings.cluster)))
    return shown


def _part(total: int, name: str, *ceilings: Ceiling) -> int:
    return total * min(percent(one, name) for one in ceilings) // 100


# --- the policies -----------------------------------------------------------------------------------------------------


def policy_documents(namespace: str) -> list[dict[str, Any]]:
    """The policies and their bindings; metadata has the name alone. The ConfigMap is in this namespace."""
    variables = [
        {"name": "resource", "expression": _or_empty("object", "spec", "guarantee", "resource")},
        {"name": "share", "expression": _share()},
    ]
    limits = {
        "name": CEILINGS,
        "namespace": namespace,
        "parameterNotFoundAction": "Allow",  # what is let in then, the queue controller rejects
    }
    return [
        _policy(NAME, [*variables, *_in_itself()], _validations()),
        _binding(NAME),
        _policy(
            CEILINGS,
            [*variables, *_whose_ceiling()],
            _ceiling_validations(),
            paramKind={"apiVersion": CONFIG_MAP.api_version, "kind": CONFIG_MAP.kind},
        ),
        _binding(CEILINGS, paramRef=limits),
    ]


def _policy(name: str, variables: list[dict[str, str]], validations: list[dict[str, str]], **more: Any) -> Any:
    rule = {
        "apiGroups": [QUEUE.group],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [QUEUE.plural],
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            **more,
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [
                {"name": "asks-for-something", "expression": _given("object", "spec", "guarantee")},
                {"name": "asks-for-something-else", "expression": f"!({_UNCHANGED})"},
            ],
            "variables": variables,
            "validations": validations,
        },
    }


def _binding(name: str, **more: Any) -> Any:
    return {
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, **more, "validationActions": ["Deny"]},
    }


# --- what is wrong in itself ------------------------------------------------------------------------------------------


def _in_itself() -> list[dict[str, str]]:
    return [
        {"name": "guarantee", "expression": "object.spec.guarantee"},
        {"name": "capability", "expression": _or_empty("object", "spec", "capability")},
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


# --- what is above a ceiling ------------------------------------------------------------------------------------------


def _whose_ceiling() -> list[dict[str, str]]:
    name, share = "object.metadata.name", "'share_' + variables.whose"
    return [
        {"name": "limits", "expression": "has(params.data) ? params.data : {}"},
        {"name": "whose", "expression": f"('share_' + {name}) in variables.limits ? {name} : ''"},
        {"name": "ceiling", "expression": f"({share}) in variables.limits ? int(variables.limits[{share}]) : 100"},
    ]


def _ceiling_validations() -> list[dict[str, str]]:
    limit = f"variables.limits[{_KEY}]"
    over = (
        f"({_KEY}) in variables.limits && isQuantity(string({_ASKED}))"
        f" && quantity(string({_ASKED})).isGreaterThan(quantity({limit}))"
    )
    return [
        {
            # Divided, because that gives the very number that was written: 0.07 times 100 is above 7.
            "expression": "variables.share > 1.0 || variables.share <= double(variables.ceiling) / 100.0",
            "messageExpression": "'spec.guarantee.percentage.value: ' + string(variables.share)"
            " + ' is above the ceiling of ' + string(variables.ceiling)"
            " + '% of the cluster for queue ' + object.metadata.name",
        },
        {
            "expression": f"!variables.resource.exists(name, {over})",
            "messageExpression": "'the guarantee is above the ceiling for queue ' + object.metadata.name + ': '"
            f" + variables.resource.filter(name, {over})"
            f".map(name, name + ' (asked ' + string({_ASKED}) + ', limit ' + {limit} + ')').join(', ')",
        },
    ]


# --- expressions ------------------------------------------------------------------------------------------------------


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
