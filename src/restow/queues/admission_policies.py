"""The rules about guarantees that an API server can check by itself, as ValidatingAdmissionPolicies.

Goes in: the namespace of Restow. Comes out: two policies with their bindings, for `restow install` to print.

    restow-queue-guarantees   refuses what is invalid by itself: an unknown policy, a percentage outside of [0, 1],
                              amounts that are no quantities, are negative, or are above the queue's capability
    restow-queue-ceilings     refuses what is more than the cluster has, above the ceiling of the queue, or above what
                              the ceiling of all guarantees leaves. It reads that from a ConfigMap of the same name
                              (`admission_parameters`), which the queue controller keeps up to date

A policy sees one queue, and what was last written into the ConfigMap. If two queues come at once and exceed a ceiling
only together, both are let in, and the condition of one of them becomes Rejected. An existing queue is checked only if
the guarantee changes, so that anything else about it can be corrected at any time.
"""

from __future__ import annotations

from typing import Any, Final

from restow.model.kinds import CONFIG_MAP, QUEUE
from restow.model.objects import GuaranteePolicy
from restow.queues.admission_parameters import MAX_KEY_LENGTH, MAX_QUEUE_NAME_LENGTH

GUARANTEE_POLICY_NAME: Final = "restow-queue-guarantees"
CEILINGS_NAME: Final = "restow-queue-ceilings"
"""The name of the second policy, and of the ConfigMap that it reads."""
API_VERSION: Final = "admissionregistration.k8s.io/v1"

_AMOUNT: Final = "variables.resource[name]"
_CAPABILITY: Final = "variables.capability[name]"
_RESOURCE_KEY: Final = "name.replace('/', '_')"
"""A resource as it is written in the keys of the parameters."""
_ABOVE_CAPABILITY: Final = f"quantity(string({_AMOUNT})).isGreaterThan(quantity(string({_CAPABILITY})))"


# --- the policies -----------------------------------------------------------------------------------------------------


def admission_policy_documents(namespace: str) -> list[dict[str, Any]]:
    """The policies and their bindings, with nothing but a name in their metadata. The ConfigMap is in this
    namespace."""
    variables = [
        {"name": "resource", "expression": _value_or_empty("object", "spec", "guarantee", "resource")},
        {"name": "share", "expression": _share_expression()},
    ]
    parameters = {
        "name": CEILINGS_NAME,
        "namespace": namespace,
        "parameterNotFoundAction": "Allow",  # without the ConfigMap, the queue controller alone rejects
    }
    return [
        _policy(
            GUARANTEE_POLICY_NAME,
            _is_unchanged("guarantee", "capability"),
            [*variables, *_guarantee_variables()],
            _guarantee_validations(),
        ),
        _binding(GUARANTEE_POLICY_NAME),
        _policy(
            CEILINGS_NAME,
            _is_unchanged("guarantee.percentage", "guarantee.resource"),
            [*variables, *_request_variables(), *_limit_key_variables()],
            [*_cluster_total_validations(), *_queue_ceiling_validations(), *_cluster_ceiling_validations()],
            paramKind={"apiVersion": CONFIG_MAP.api_version, "kind": CONFIG_MAP.kind},
        ),
        _binding(CEILINGS_NAME, paramRef=parameters),
    ]


def _policy(
    name: str, unchanged: str, variables: list[dict[str, str]], validations: list[dict[str, str]], **more: Any
) -> Any:
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
                {"name": "asks-for-something", "expression": _is_set("object", "spec", "guarantee")},
                {"name": "asks-for-something-else", "expression": f"!({unchanged})"},
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


# --- what is invalid by itself ----------------------------------------------------------------------------------------


def _guarantee_variables() -> list[dict[str, str]]:
    return [
        {"name": "guarantee", "expression": "object.spec.guarantee"},
        {"name": "capability", "expression": _value_or_empty("object", "spec", "capability")},
    ]


def _guarantee_validations() -> list[dict[str, str]]:
    policies = ", ".join(f"'{policy}'" for policy in GuaranteePolicy)
    field = "variables.guarantee.policy"
    invalid = f"!isQuantity(string({_AMOUNT})) || quantity(string({_AMOUNT})).isLessThan(quantity('0'))"
    above = (
        f"name in variables.capability && isQuantity(string({_AMOUNT})) && isQuantity(string({_CAPABILITY}))"
        f" && {_ABOVE_CAPABILITY}"
    )
    return [
        {
            "expression": f"!has({field}) || {field} == null || {field} in [{policies}]",
            "messageExpression": f"'spec.guarantee.policy: expected {' or '.join(GuaranteePolicy)}, got ' + {field}",
        },
        {
            "expression": "variables.share >= 0.0 && variables.share <= 1.0",
            "messageExpression": "'spec.guarantee.percentage.value: expected a number from 0 to 1, got '"
            " + (variables.share < -1.5 ? 'nothing' : string(variables.share))",
        },
        {
            "expression": f"!variables.resource.exists(name, {invalid})",
            "messageExpression": "'spec.guarantee.resource: expected quantities that are not negative, got '"
            f" + variables.resource.filter(name, {invalid}).map(name, name + ' ' + string({_AMOUNT})).join(', ')",
        },
        {
            "expression": f"!variables.resource.exists(name, {above})",
            "messageExpression": "'the guarantee is more than the queue\\'s capability: '"
            f" + variables.resource.filter(name, {above})"
            f".map(name, name + ' (asked ' + string({_AMOUNT}) + ', capability ' + string({_CAPABILITY}) + ')')"
            ".join(', ')",
        },
    ]


# --- what is above a ceiling ------------------------------------------------------------------------------------------

_SHARE_UNITS: Final = 1_000_000_000
"""Shares are multiplied as integers in this fraction, so that 0.29 of 100 nodes are 29: nine digits are exact."""


def _request_variables() -> list[dict[str, str]]:
    """What a guarantee asks for: nodes or amounts, the larger of the two, by the rule of `model.guarantees`."""
    asked, total = _as_float(_AMOUNT), _as_float(_limit_value(_limit_key("total")))
    compared = _value_or_empty("object", "spec", "guarantee", "percentage", "dimensions", empty="[]")
    amount_is_larger = (
        f"name in variables.resource && isQuantity(string({_AMOUNT})) && {asked} > 0.0"
        f" && ({_has_no_limit('total')}"
        f" || {asked} * double(variables.cluster_nodes) >= {total} * double(variables.share_nodes))"
    )
    return [
        {"name": "limits", "expression": "has(params.data) ? params.data : {}"},
        {"name": "cluster_nodes", "expression": "'nodes' in variables.limits ? int(variables.limits['nodes']) : -1"},
        {
            "name": "share_nodes",
            "expression": "variables.cluster_nodes < 0 || variables.share < 0.0 || variables.share > 1.0 ? 0"
            f" : variables.cluster_nodes * int(variables.share * {_SHARE_UNITS}.0 + 0.00001) / {_SHARE_UNITS}",
        },
        {"name": "dimensions", "expression": compared},
        {
            "name": "compared",
            "expression": "size(variables.dimensions) > 0 ? variables.dimensions : variables.resource.map(name, name)",
        },
        {
            "name": "by_amount",
            "expression": f"{_is_set('object', 'spec', 'guarantee', 'resource')}"
            f" && (variables.share_nodes == 0 || variables.compared.exists(name, {amount_is_larger}))",
        },
        {"name": "nodes", "expression": "variables.by_amount ? 0 : variables.share_nodes"},
        {
            "name": "amounts",
            "expression": "!variables.by_amount ? [] : variables.resource.map(name, name)"
            f".filter(name, isQuantity(string({_AMOUNT})))",
        },
    ]


def _limit_key_variables() -> list[dict[str, str]]:
    """The keys of the parameters that apply to the queue: `ceiling_key` for its own ceiling, `room` for what the
    ceiling of all guarantees leaves to it."""
    name, priority = "object.metadata.name", "variables.priority"
    return [
        {"name": "ceiling_key", "expression": f"('share_' + {name}) in variables.limits ? {name} : ''"},
        {"name": "priority", "expression": _int_field("object", "priority")},
        {
            "name": "same_priority",
            "expression": f"oldObject == null || {_int_field('oldObject', 'priority')} == {priority}",
        },
        {
            "name": "before",
            "expression": "!('priorities' in variables.limits) ? []"
            f" : variables.limits['priorities'].split(',').filter(each, int(each) >= {priority})",
        },
        {
            "name": "room",
            "expression": f"!variables.same_priority || size({name}) > {MAX_QUEUE_NAME_LENGTH} ? 'unknown'"
            f" : ('left_' + {name}) in variables.limits ? 'left_' + {name}"
            " : 'room_' + (size(variables.before) > 0 ? variables.before[0] : '')",
        },
    ]


def _cluster_total_validations() -> list[dict[str, str]]:
    total = f"({_has_no_limit('total')} ? '0' : {_limit_value(_limit_key('total'))})"
    is_above = (
        f"variables.cluster_nodes >= 0 && size({_limit_key('total')}) <= {MAX_KEY_LENGTH}"
        f" && quantity(string({_AMOUNT})).isGreaterThan(quantity({total}))"
    )
    return [_refuse_amounts(is_above, "'the guarantee is more than the cluster has: '", f"', total ' + {total}")]


def _queue_ceiling_validations() -> list[dict[str, str]]:
    for_queue = "' for queue ' + object.metadata.name"
    share = "'share_' + variables.ceiling_key"
    ceiling = f"(({share}) in variables.limits ? {_limit_value(share)} : '100')"
    amount = f"'amount_' + variables.ceiling_key + '_' + {_RESOURCE_KEY}"
    return [
        {
            # The ceiling is divided, not the share multiplied: 7 / 100 is 0.07, but 0.07 * 100 is above 7.
            "expression": "variables.cluster_nodes >= 0 || variables.share > 1.0"
            f" || variables.share <= double({ceiling}) / 100.0",
            "messageExpression": "'spec.guarantee.percentage.value: ' + string(variables.share)"
            f" + ' is above the ceiling of ' + {ceiling} + '% of the cluster' + {for_queue}",
        },
        _refuse_nodes("'nodes_' + variables.ceiling_key", f"'above the ceiling' + {for_queue}", "limit"),
        _refuse_amounts(
            _is_above_limit(amount),
            f"'the guarantee is above the ceiling' + {for_queue} + ': '",
            f"', limit ' + {_limit_value(amount)}",
        ),
    ]


def _cluster_ceiling_validations() -> list[dict[str, str]]:
    key, whole = f"variables.room + '_' + {_RESOURCE_KEY}", f"'room__' + {_RESOURCE_KEY}"
    return [
        _refuse_nodes("variables.room", "'above the ceiling for all guarantees'", "left"),
        _refuse_amounts(
            f"({whole}) in variables.limits && {_is_above_limit(key)}",
            "'the guarantee is above the ceiling for all guarantees: '",
            f"', limit ' + {_limit_value(whole)} + ', left ' + {_limit_value(key)}",
        ),
    ]


def _refuse_amounts(is_above: str, message: str, figures: str) -> dict[str, str]:
    """A validation that fails if an amount is above a limit. Its message is followed by each such amount."""
    amount = f"name + ' (asked ' + string({_AMOUNT}) + {figures} + ')'"
    return {
        "expression": f"!variables.amounts.exists(name, {is_above})",
        "messageExpression": f"{message} + variables.amounts.filter(name, {is_above}).map(name, {amount}).join(', ')",
    }


def _refuse_nodes(key: str, message: str, limit_name: str) -> dict[str, str]:
    """A validation that fails if more nodes are asked for than the parameter of this key."""
    return {
        "expression": f"!(({key}) in variables.limits) || variables.nodes <= int({_limit_value(key)})",
        "messageExpression": "'spec.guarantee.percentage.value: ' + string(variables.share) + ' is ' + "
        + f"{message} + ': nodes (asked ' + string(variables.nodes) + ' of ' + string(variables.cluster_nodes)"
        + f" + ', {limit_name} ' + {_limit_value(key)} + ')'",
    }


# --- expressions ------------------------------------------------------------------------------------------------------


def _is_set(*path: str) -> str:
    """Whether a field is set, and not to null."""
    steps = [".".join(path[: length + 1]) for length in range(1, len(path))]
    return " && ".join(f"has({step}) && {step} != null" for step in steps)


def _value_or_empty(*path: str, empty: str = "{}") -> str:
    return f"{_is_set(*path)} ? {'.'.join(path)} : {empty}"


def _is_unchanged(*fields: str) -> str:
    """Whether the queue exists with a guarantee, and these fields of its spec stay the same."""
    optional = [".?".join(("spec", *field.split("."))) for field in fields]
    same = " && ".join(f"oldObject.{field} == object.{field}" for field in optional)
    return f"oldObject != null && {_is_set('oldObject', 'spec', 'guarantee')} && {same}"


def _int_field(queue: str, field: str) -> str:
    """A number in the spec of a queue; 0 if it is not set."""
    return f"({_is_set(queue, 'spec', field)} ? int({queue}.spec.{field}) : 0)"


def _limit_key(prefix: str) -> str:
    return f"('{prefix}_' + {_RESOURCE_KEY})"


def _limit_value(key: str) -> str:
    return f"variables.limits[{key}]"


def _has_no_limit(prefix: str) -> str:
    return f"!({_limit_key(prefix)} in variables.limits)"


def _is_above_limit(key: str) -> str:
    """Whether the parameters have this limit, and the amount is above it."""
    return f"({key}) in variables.limits && quantity(string({_AMOUNT})).isGreaterThan(quantity({_limit_value(key)}))"


def _as_float(text: str) -> str:
    return f"quantity(string({text})).asApproximateFloat()"


def _share_expression() -> str:
    """The percentage as a number: 0 if none is asked for, -2 if it has no value, which is then refused."""
    there = _is_set("object", "spec", "guarantee", "percentage")
    value = "object.spec.guarantee.percentage.value"
    return f"!({there}) ? 0.0 : (has({value}) && {value} != null ? double({value}) : -2.0)"
