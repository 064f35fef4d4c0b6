"""Rules for where a pod may go: selectors, node affinity, pod affinity, spreading and tolerations."""

from __future__ import annotations

from typing import Any

from restow.adapters.memory.documents.field_errors import FieldErrors
from restow.adapters.memory.documents.metadata_rules import check_labels
from restow.model.names import dns_label_problems, label_value_problems, qualified_name_problems, subdomain_problems
from restow.model.objects import Document
from restow.model.selectors import OPERATORS

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_POLICIES = ("Honor", "Ignore")
_WHEN = ("DoNotSchedule", "ScheduleAnyway")


def check_selector(selector: Document | None, field: str, errors: FieldErrors) -> None:
    """A label selector as objects hold it."""
    if not selector:
        return
    check_labels(selector.get("matchLabels"), f"{field}.matchLabels", errors)
    for index, wanted in enumerate(selector.get("matchExpressions", ())):
        where = f"{field}.matchExpressions[{index}]"
        _check_requirement(wanted, where, errors, OPERATORS)
        _check_key_and_values(wanted, where, errors)


def check_affinity(affinity: Document, field: str, errors: FieldErrors) -> None:
    if node := affinity.get("nodeAffinity"):
        _check_node_affinity(node, f"{field}.nodeAffinity", errors)
    for name in ("podAffinity", "podAntiAffinity"):
        if pods := affinity.get(name):
            _check_pod_affinity(pods, f"{field}.{name}", errors)


def _check_node_affinity(affinity: Document, field: str, errors: FieldErrors) -> None:
    required = affinity.get(REQUIRED)
    if required is not None:
        check_node_selector(required, f"{field}.{REQUIRED}", errors)
    for index, term in enumerate(affinity.get(PREFERRED, ())):
        where = f"{field}.{PREFERRED}[{index}]"
        _check_weight(term, where, errors)
        _check_node_term(term.get("preference") or {}, f"{where}.preference", errors)


def check_node_selector(selector: Document, field: str, errors: FieldErrors) -> None:
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        errors.required(f"{field}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms or ()):
        _check_node_term(term, f"{field}.nodeSelectorTerms[{index}]", errors)


def _check_weight(term: Document, field: str, errors: FieldErrors) -> None:
    if not 1 <= term.get("weight", 0) <= 100:
        errors.invalid(f"{field}.weight", term.get("weight", 0), "must be in the range 1-100")


def _check_node_term(term: Document, field: str, errors: FieldErrors) -> None:
    for index, wanted in enumerate(term.get("matchExpressions", ())):
        where = f"{field}.matchExpressions[{index}]"
        _check_requirement(wanted, where, errors, (*OPERATORS, "Gt", "Lt"))
        _check_key_and_values(wanted, where, errors)
    for index, wanted in enumerate(term.get("matchFields", ())):
        _check_field_requirement(wanted, f"{field}.matchFields[{index}]", errors)


def _check_key_and_values(wanted: Document, field: str, errors: FieldErrors) -> None:
    errors.all_invalid(f"{field}.key", wanted.get("key", ""), qualified_name_problems(wanted.get("key", "")))
    for position, value in enumerate(wanted.get("values", ())):
        errors.all_invalid(f"{field}.values[{position}]", value, label_value_problems(value))


def _check_requirement(wanted: Document, field: str, errors: FieldErrors, operators: tuple[str, ...]) -> None:
    operator, values = wanted.get("operator", ""), wanted.get("values") or []
    if operator not in operators:
        errors.invalid(f"{field}.operator", operator, "not a valid selector operator")
    elif operator in ("In", "NotIn") and not values:
        errors.required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist") and values:
        errors.forbidden(f"{field}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif operator in ("Gt", "Lt") and len(values) != 1:
        errors.required(f"{field}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")


def _check_field_requirement(wanted: Document, field: str, errors: FieldErrors) -> None:
    if wanted.get("operator") not in ("In", "NotIn"):
        errors.invalid(f"{field}.operator", wanted.get("operator", ""), "not a valid selector operator")
    elif len(wanted.get("values") or []) != 1:
        errors.required(
            f"{field}.values", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        )
    if wanted.get("key") != "metadata.name":
        errors.invalid(f"{field}.key", wanted.get("key", ""), "not a valid field selector key")
        return
    for position, value in enumerate(wanted.get("values") or ()):
        errors.all_invalid(f"{field}.values[{position}]", value, subdomain_problems(value))


def _check_pod_affinity(affinity: Document, field: str, errors: FieldErrors) -> None:
    for index, term in enumerate(affinity.get(REQUIRED, ())):
        _check_pod_term(term, f"{field}.{REQUIRED}[{index}]", errors)
    for index, weighted in enumerate(affinity.get(PREFERRED, ())):
        where = f"{field}.{PREFERRED}[{index}]"
        _check_weight(weighted, where, errors)
        _check_pod_term(weighted.get("podAffinityTerm") or {}, f"{where}.podAffinityTerm", errors)


def _check_pod_term(term: Document, field: str, errors: FieldErrors) -> None:
    check_selector(term.get("labelSelector"), f"{field}.labelSelector", errors)
    check_selector(term.get("namespaceSelector"), f"{field}.namespaceSelector", errors)
    for namespace in term.get("namespaces", ()):
        errors.all_invalid(f"{field}.namespace", namespace, dns_label_problems(namespace))  # so upstream calls it
    _check_topology_key(term, field, errors)
    _check_label_keys(term, ("matchLabelKeys", "mismatchLabelKeys"), field, errors)


def _check_topology_key(term: Document, field: str, errors: FieldErrors) -> None:
    key = term.get("topologyKey")
    if not key:
        errors.required(f"{field}.topologyKey", "can not be empty")
    elif problems := qualified_name_problems(key):
        errors.all_invalid(f"{field}.topologyKey", key, problems)


def _check_label_keys(term: Document, names: tuple[str, ...], field: str, errors: FieldErrors) -> None:
    for name in names:
        keys = term.get(name)
        if keys and term.get("labelSelector") is None:
            errors.forbidden(f"{field}.{name}", "must not be specified when labelSelector is not set")
        for index, key in enumerate(keys or ()):
            errors.all_invalid(f"{field}.{name}[{index}]", key, qualified_name_problems(key))


def check_spread(constraints: list[Document], field: str, errors: FieldErrors) -> None:
    pairs = [(each.get("topologyKey"), each.get("whenUnsatisfiable", "")) for each in constraints]
    for index, constraint in enumerate(constraints):
        where = f"{field}[{index}]"
        if constraint.get("maxSkew", 0) <= 0:
            errors.invalid(f"{where}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero")
        _check_topology_key(constraint, where, errors)
        when = constraint.get("whenUnsatisfiable", "")
        if when not in _WHEN:
            errors.unsupported(f"{where}.whenUnsatisfiable", when, _WHEN)
        if pairs[index] in pairs[index + 1 :]:
            errors.duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{pairs[index][0]}, {when}}}")
        _check_domains(constraint, when, where, errors)
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if name in constraint and constraint[name] not in _POLICIES:
                errors.unsupported(f"{where}.{name}", constraint[name], _POLICIES)
        check_selector(constraint.get("labelSelector"), f"{where}.labelSelector", errors)
        _check_label_keys(constraint, ("matchLabelKeys",), where, errors)


def _check_domains(constraint: Document, when: str, field: str, errors: FieldErrors) -> None:
    least = constraint.get("minDomains")
    if least is None:
        return
    if least <= 0:
        errors.invalid(f"{field}.minDomains", least, "must be greater than zero")
    if when != "DoNotSchedule":
        errors.invalid(
            f"{field}.minDomains", least, f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}"
        )


def check_tolerations(tolerations: list[Document], field: str, errors: FieldErrors) -> None:
    for index, toleration in enumerate(tolerations):
        key, operator, value = toleration.get("key"), toleration.get("operator") or "Equal", toleration.get("value", "")
        effect = toleration.get("effect")
        if key and (problems := qualified_name_problems(key)):
            errors.all_invalid(f"{field}[{index}].key", key, problems)
        if not key and operator != "Exists":
            why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.invalid(f"{field}[{index}].operator", toleration.get("operator", ""), why)
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.invalid(f"{field}[{index}].effect", effect or "", why)
        if operator == "Equal":
            if problems := label_value_problems(value):
                errors.all_invalid(f"{field}[{index}].operator", value, problems)
        elif operator == "Exists":
            if value:
                errors.invalid(f"{field}[{index}].operator", value, "value must be empty when `operator` is 'Exists'")
        else:
            errors.unsupported(f"{field}[{index}].operator", operator, ("Equal", "Exists"))
        if effect and effect not in EFFECTS:
            errors.unsupported(f"{field}[{index}].effect", effect, EFFECTS)


def check_taints(taints: list[Document], field: str, errors: FieldErrors) -> None:
    seen: set[tuple[Any, Any]] = set()
    for index, taint in enumerate(taints):
        where = f"{field}[{index}]"
        errors.all_invalid(f"{where}.key", taint.get("key", ""), qualified_name_problems(taint.get("key", "")))
        errors.all_invalid(f"{where}.value", taint.get("value", ""), label_value_problems(taint.get("value", "")))
        if not taint.get("effect"):
            errors.required(f"{where}.effect")
        elif taint["effect"] not in EFFECTS:
            errors.unsupported(f"{where}.effect", taint["effect"], EFFECTS)
        pair = (taint.get("key"), taint.get("effect"))
        if pair in seen:
            errors.duplicate(where, taint)
        seen.add(pair)
