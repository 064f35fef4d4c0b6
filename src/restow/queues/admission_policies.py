"""Admission: the rules of guarantees that an API server can check by itself, as ValidatingAdmissionPolicies.

Goes in: the namespace of Restow. Comes out: policies with their bindings, to be applied by whoever administers the
cluster.

    restow-queue-guarantees   refuses what is wrong in itself: a policy that does not exist, a percentage outside of
                              [0, 1], amounts that are no quantities, negative, or above the queue's capability
    restow-queue-ceilings     refuses what is more than the cluster has, above the ceiling of the queue, or above what
                              the ceiling of all guarantees together has left, as a ConfigMap of the same name shows it
                              (`parameters`), which the queue controller keeps

A policy sees one queue and what was last written into the ConfigMap: of two queues that come at once and exceed a
ceiling only together, the condition rejects one. A queue that exists is asked only about what changes, so that nobody
is kept from correcting something else.
"""

from __future__ import annotations

from typing import Any, Final

from restow.model.kinds import CONFIG_MAP, QUEUE
from restow.model.objects import GuaranteePolicy
from restow.queues.admission_parameters import LONGEST_KEY, LONGEST_NAME

GUARANTEE_POLICY_NAME: Final = "restow-queue-guarantees"
CEILINGS_NAME: Final = "restow-queue-ceilings"
"""The name of a policy, and of the ConfigMap that it reads."""
API_VERSION: Final = "admissionregistration.k8s.io/v1"

_ASKED: Final = "variables.resource[name]"
_LIMIT: Final = "variables.capability[name]"
_RESOURCE: Final = "name.replace('/', '_')"
"""A resource as it is written in keys of parameters."""
_OVER: Final = f"quantity(string({_ASKED})).isGreaterThan(quantity(string({_LIMIT})))"


# --- the policies -----------------------------------------------------------------------------------------------------


def admission_policy_documents(namespace: str) -> list[dict[str, Any]]:
    """The policies and their bindings; metadata has the name alone. The ConfigMap is in this namespace."""
    variables = [
        {"name": "resource", "expression": _or_empty("object", "spec", "guarantee", "resource")},
        {"name": "share", "expression": _share()},
    ]
    limits = {
        "name": CEILINGS_NAME,
        "namespace": namespace,
        "parameterNotFoundAction": "Allow",  # what is let in then, the queue controller rejects
    }
    return [
        _policy(GUARANTEE_POLICY_NAME, _same("guarantee", "capability"), [*variables, *_in_itself()], _validations()),
        _binding(GUARANTEE_POLICY_NAME),
        _policy(
            CEILINGS_NAME,
            _same("guarantee.percentage", "guarantee.resource"),
            [*variables, *_asked(), *_allowed()],
            [*_cluster_validations(), *_own_validations(), *_common_validations()],
            paramKind={"apiVersion": CONFIG_MAP.api_version, "kind": CONFIG_MAP.kind},
        ),
        _binding(CEILINGS_NAME, paramRef=limits),
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
                {"name": "asks-for-something", "expression": _given("object", "spec", "guarantee")},
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

_PARTS: Final = 1_000_000_000
"""A share is counted in so many parts, so that 0.29 of 100 nodes are 29: what is written in nine digits is exact."""


def _asked() -> list[dict[str, str]]:
    """What a guarantee asks for, by the rule of `model.guarantees`: nodes or amounts, whichever are more."""
    asked, total = _figure(_ASKED), _figure(_shown(_key("total")))
    compared = _or_empty("object", "spec", "guarantee", "percentage", "dimensions", empty="[]")
    more = (
        f"name in variables.resource && isQuantity(string({_ASKED})) && {asked} > 0.0"
        f" && ({_is_missing('total')}"
        f" || {asked} * double(variables.cluster_nodes) >= {total} * double(variables.share_nodes))"
    )
    return [
        {"name": "limits", "expression": "has(params.data) ? params.data : {}"},
        {"name": "cluster_nodes", "expression": "'nodes' in variables.limits ? int(variables.limits['nodes']) : -1"},
        {
            "name": "share_nodes",
            "expression": "variables.cluster_nodes < 0 || variables.share < 0.0 || variables.share > 1.0 ? 0"
            f" : variables.cluster_nodes * int(variables.share * {_PARTS}.0 + 0.00001) / {_PARTS}",
        },
        {"name": "dimensions", "expression": compared},
        {
            "name": "compared",
            "expression": "size(variables.dimensions) > 0 ? variables.dimensions : variables.resource.map(name, name)",
        },
        {
            "name": "by_amount",
            "expression": f"{_given('object', 'spec', 'guarantee', 'resource')}"
            f" && (variables.share_nodes == 0 || variables.compared.exists(name, {more}))",
        },
        {"name": "nodes", "expression": "variables.by_amount ? 0 : variables.share_nodes"},
        {
            "name": "amounts",
            "expression": "!variables.by_amount ? [] : variables.resource.map(name, name)"
            f".filter(name, isQuantity(string({_ASKED})))",
        },
    ]


def _allowed() -> list[dict[str, str]]:
    """Under which keys it stands how much a queue may ask for."""
    name, priority = "object.metadata.name", "variables.priority"
    return [
        {"name": "whose", "expression": f"('share_' + {name}) in variables.limits ? {name} : ''"},
        {"name": "priority", "expression": _number("object", "priority")},
        {
            "name": "same_priority",
            "expression": f"oldObject == null || {_number('oldObject', 'priority')} == {priority}",
        },
        {
            "name": "before",
            "expression": "!('priorities' in variables.limits) ? []"
            f" : variables.limits['priorities'].split(',').filter(each, int(each) >= {priority})",
        },
        {
            "name": "room",
            "expression": f"!variables.same_priority || size({name}) > {LONGEST_NAME} ? 'unknown'"
            f" : ('left_' + {name}) in variables.limits ? 'left_' + {name}"
            " : 'room_' + (size(variables.before) > 0 ? variables.before[0] : '')",
        },
    ]


def _cluster_validations() -> list[dict[str, str]]:
    total = f"({_is_missing('total')} ? '0' : {_shown(_key('total'))})"
    over = (
        f"variables.cluster_nodes >= 0 && size({_key('total')}) <= {LONGEST_KEY}"
        f" && quantity(string({_ASKED})).isGreaterThan(quantity({total}))"
    )
    return [_refuse_amounts(over, "'the guarantee is more than the cluster has: '", f"', total ' + {total}")]


def _own_validations() -> list[dict[str, str]]:
    whose = "' for queue ' + object.metadata.name"
    share = "'share_' + variables.whose"
    ceiling = f"(({share}) in variables.limits ? {_shown(share)} : '100')"
    amount = f"'amount_' + variables.whose + '_' + {_RESOURCE}"
    return [
        {
            # Divided, because that gives the very number that was written: 0.07 times 100 is above 7.
            "expression": "variables.cluster_nodes >= 0 || variables.share > 1.0"
            f" || variables.share <= double({ceiling}) / 100.0",
            "messageExpression": "'spec.guarantee.percentage.value: ' + string(variables.share)"
            f" + ' is above the ceiling of ' + {ceiling} + '% of the cluster' + {whose}",
        },
        _refuse_nodes("'nodes_' + variables.whose", f"'above the ceiling' + {whose}", "limit"),
        _refuse_amounts(
            _is_above(amount),
            f"'the guarantee is above the ceiling' + {whose} + ': '",
            f"', limit ' + {_shown(amount)}",
        ),
    ]


def _common_validations() -> list[dict[str, str]]:
    key, whole = f"variables.room + '_' + {_RESOURCE}", f"'room__' + {_RESOURCE}"
    return [
        _refuse_nodes("variables.room", "'above the ceiling for all guarantees'", "left"),
        _refuse_amounts(
            f"({whole}) in variables.limits && {_is_above(key)}",
            "'the guarantee is above the ceiling for all guarantees: '",
            f"', limit ' + {_shown(whole)} + ', left ' + {_shown(key)}",
        ),
    ]


def _refuse_amounts(over: str, said: str, figures: str) -> dict[str, str]:
    """Refuse where some amount is too much, and say which."""
    told = f"name + ' (asked ' + string({_ASKED}) + {figures} + ')'"
    return {
        "expression": f"!variables.amounts.exists(name, {over})",
        "messageExpression": f"{said} + variables.amounts.filter(name, {over}).map(name, {told}).join(', ')",
    }


def _refuse_nodes(key: str, said: str, called: str) -> dict[str, str]:
    """Refuse where there are too many nodes, and say how many they are."""
    return {
        "expression": f"!(({key}) in variables.limits) || variables.nodes <= int({_shown(key)})",
        "messageExpression": "'spec.guarantee.percentage.value: ' + string(variables.share) + ' is ' + "
        + f"{said} + ': nodes (asked ' + string(variables.nodes) + ' of ' + string(variables.cluster_nodes)"
        + f" + ', {called} ' + {_shown(key)} + ')'",
    }


# --- expressions ------------------------------------------------------------------------------------------------------


def _given(*path: str) -> str:
    """Whether something is there, and not null."""
    steps = [".".join(path[: length + 1]) for length in range(1, len(path))]
    return " && ".join(f"has({step}) && {step} != null" for step in steps)


def _or_empty(*path: str, empty: str = "{}") -> str:
    return f"{_given(*path)} ? {'.'.join(path)} : {empty}"


def _same(*fields: str) -> str:
    """Whether a queue is there already, and fields of its spec stay what they are."""
    optional = [".?".join(("spec", *field.split("."))) for field in fields]
    same = " && ".join(f"oldObject.{field} == object.{field}" for field in optional)
    return f"oldObject != null && {_given('oldObject', 'spec', 'guarantee')} && {same}"


def _number(queue: str, field: str) -> str:
    """A number of a queue's spec: 0 where there is none."""
    return f"({_given(queue, 'spec', field)} ? int({queue}.spec.{field}) : 0)"


def _key(prefix: str) -> str:
    return f"('{prefix}_' + {_RESOURCE})"


def _shown(key: str) -> str:
    return f"variables.limits[{key}]"


def _is_missing(prefix: str) -> str:
    return f"!({_key(prefix)} in variables.limits)"


def _is_above(key: str) -> str:
    """Whether a limit is shown, and what is asked for is more."""
    return f"({key}) in variables.limits && quantity(string({_ASKED})).isGreaterThan(quantity({_shown(key)}))"


def _figure(text: str) -> str:
    return f"quantity(string({text})).asApproximateFloat()"


def _share() -> str:
    """The percentage as a number: 0 where none is asked for, below everything where it has no value."""
    there = _given("object", "spec", "guarantee", "percentage")
    value = "object.spec.guarantee.percentage.value"
    return f"!({there}) ? 0.0 : (has({value}) && {value} != null ? double({value}) : -2.0)"
