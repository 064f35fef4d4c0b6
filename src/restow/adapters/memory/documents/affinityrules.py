"""Rules for where a pod may go: selectors, node affinity, pod affinity, spreading and tolerations."""

from __future__ import annotations

from typing import Any

from restow.adapters.memory.documents.findings import Findings
from restow.adapters.memory.documents.metadatarules import check_labels
from restow.model.names import dns_label_problems, label_value_problems, qualified_name_problems, subdomain_problems
from restow.model.objects import Document
from restow.model.selectors import OPERATORS

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_POLICIES = ("Honor", "Ignore")
_WHEN = ("DoNotSchedule", "ScheduleAnyway")


def check_selector(selector: Document | None, field: str, found: Findings) -> None:
    """A label selector as objects hold it."""
    if not selector:
        return
    check_labels(selector.get("matchLabels"), f"{field}.matchLabels", found)
    for index, wanted in enumerate(selector.get("matchExpressions", ())):
        where = f"{field}.matchExpressions[{index}]"
        _check_requirement(wanted, where, found, OPERATORS)
        _check_key_and_values(wanted, where, found)


def check_affinity(affinity: Document, field: str, found: Findings) -> None:
    if node := affinity.get("nodeAffinity"):
        _check_node_affinity(node, f"{field}.nodeAffinity", found)
    for name in ("podAffinity", "podAntiAffinity"):
        if pods := affinity.get(name):
            _check_pod_affinity(pods, f"{field}.{name}", found)


def _check_node_affinity(affinity: Document, field: str, found: Findings) -> None:
    required = affinity.get(REQUIRED)
    if required is not None:
        check_node_selector(required, f"{field}.{REQUIRED}", found)
    for index, term in enumerate(affinity.get(PREFERRED, ())):
        where = f"{field}.{PREFERRED}[{index}]"
        _check_weight(term, where, found)
        _check_node_term(term.get("preference") or {}, f"{where}.preference", found)


def check_node_selector(selector: Document, field: str, found: Findings) -> None:
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        found.required(f"{field}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms or ()):
        _check_node_term(term, f"{field}.nodeSelectorTerms[{index}]", found)


def _check_weight(term: Document, field: str, found: Findings) -> None:
    if not 1 <= term.get("weight", 0) <= 100:
        found.invalid(f"{field}.weight", term.get("weight", 0), "must be in the range 1-100")


def _check_node_term(term: Document, field: str, found: Findings) -> None:
    for index, wanted in enumerate(term.get("matchExpressions", ())):
        where = f"{field}.matchExpressions[{index}]"
        _check_requirement(wanted, where, found, (*OPERATORS, "Gt", "Lt"))
        _check_key_and_values(wanted, where, found)
    for index, wanted in enumerate(term.get("matchFields", ())):
        _check_field_requirement(wanted, f"{field}.matchFields[{index}]", found)


def _check_key_and_values(wanted: Document, field: str, found: Findings) -> None:
    found.all_invalid(f"{field}.key", wanted.get("key", ""), qualified_name_problems(wanted.get("key", "")))
    for position, value in enumerate(wanted.get("values", ())):
        found.all_invalid(f"{field}.values[{position}]", value, label_value_problems(value))


def _check_requirement(wanted: Document, field: str, found: Findings, operators: tuple[str, ...]) -> None:
    operator, values = wanted.get("operator", ""), wanted.get("values") or []
    if operator not in operators:
        found.invalid(f"{field}.operator", operator, "not a valid selector operator")
    elif operator in ("In", "NotIn") and not values:
        found.required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist") and values:
        found.forbidden(f"{field}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif operator in ("Gt", "Lt") and len(values) != 1:
        found.required(f"{field}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")


def _check_field_requirement(wanted: Document, field: str, found: Findings) -> None:
    if wanted.get("operator") not in ("In", "NotIn"):
        found.invalid(f"{field}.operator", wanted.get("operator", ""), "not a valid selector operator")
    elif len(wanted.get("values") or []) != 1:
        found.required(
            f"{field}.values", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        )
    if wanted.get("key") != "metadata.name":
        found.invalid(f"{field}.key", wanted.get("key", ""), "not a valid field selector key")
        return
    for position, value in enumerate(wanted.get("values") or ()):
        found.all_invalid(f"{field}.values[{position}]", value, subdomain_problems(value))


def _check_pod_affinity(affinity: Document, field: str, found: Findings) -> None:
    for index, term in enumerate(affinity.get(REQUIRED, ())):
        _check_pod_term(term, f"{field}.{REQUIRED}[{index}]", found)
    for index, weighted in enumerate(affinity.get(PREFERRED, ())):
        where = f"{field}.{PREFERRED}[{index}]"
        _check_weight(weighted, where, found)
        _check_pod_term(weighted.get("podAffinityTerm") or {}, f"{where}.podAffinityTerm", found)


def _check_pod_term(term: Document, field: str, found: Findings) -> None:
    check_selector(term.get("labelSelector"), f"{field}.labelSelector", found)
    check_selector(term.get("namespaceSelector"), f"{field}.namespaceSelector", found)
    for namespace in term.get("namespaces", ()):
        found.all_invalid(f"{field}.namespace", namespace, dns_label_problems(namespace))  # so upstream calls it
    _check_topology_key(term, field, found)
    _check_label_keys(term, ("matchLabelKeys", "mismatchLabelKeys"), field, found)


def _check_topology_key(term: Document, field: str, found: Findings) -> None:
    key = term.get("topologyKey")
    if not key:
        found.required(f"{field}.topologyKey", "can not be empty")
    elif problems := qualified_name_problems(key):
        found.all_invalid(f"{field}.topologyKey", key, problems)


def _check_label_keys(term: Document, names: tuple[str, ...], field: str, found: Findings) -> None:
    for name in names:
        keys = term.get(name)
        if keys and term.get("labelSelector") is None:
            found.forbidden(f"{field}.{name}", "must not be specified when labelSelector is not set")
        for index, key in enumerate(keys or ()):
            found.all_invalid(f"{field}.{name}[{index}]", key, qualified_name_problems(key))


def check_spread(constraints: list[Document], field: str, found: Findings) -> None:
    pairs = [(one.get("topologyKey"), one.get("whenUnsatisfiable", "")) for one in constraints]
    for index, one in enumerate(constraints):
        where = f"{field}[{index}]"
        if one.get("maxSkew", 0) <= 0:
            found.invalid(f"{where}.maxSkew", one.get("maxSkew", 0), "must be greater than zero")
        _check_topology_key(one, where, found)
        when = one.get("whenUnsatisfiable", "")
        if when not in _WHEN:
            found.unsupported(f"{where}.whenUnsatisfiable", when, _WHEN)
        if pairs[index] in pairs[index + 1 :]:
            found.duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{pairs[index][0]}, {when}}}")
        _check_domains(one, when, where, found)
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if name in one and one[name] not in _POLICIES:
                found.unsupported(f"{where}.{name}", one[name], _POLICIES)
        check_selector(one.get("labelSelector"), f"{where}.labelSelector", found)
        _check_label_keys(one, ("matchLabelKeys",), where, found)


def _check_domains(one: Document, when: str, field: str, found: Findings) -> None:
    least = one.get("minDomains")
    if least is None:
        return
    if least <= 0:
        found.invalid(f"{field}.minDomains", least, "must be greater than zero")
    if when != "DoNotSchedule":
        found.invalid(
            f"{field}.minDomains", least, f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}"
        )


def check_tolerations(tolerations: list[Document], field: str, found: Findings) -> None:
    for index, one in enumerate(tolerations):
        key, operator, value = one.get("key"), one.get("operator") or "Equal", one.get("value", "")
        effect = one.get("effect")
        if key and (problems := qualified_name_problems(key)):
            found.all_invalid(f"{field}[{index}].key", key, problems)
        if not key and operator != "Exists":
            why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            found.invalid(f"{field}[{index}].operator", one.get("operator", ""), why)
        if "tolerationSeconds" in one and effect != "NoExecute":
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            found.invalid(f"{field}[{index}].effect", effect or "", why)
        if operator == "Equal":
            if problems := label_value_problems(value):
                found.all_invalid(f"{field}[{index}].operator", value, problems)
        elif operator == "Exists":
            if value:
                found.invalid(f"{field}[{index}].operator", value, "value must be empty when `operator` is 'Exists'")
        else:
            found.unsupported(f"{field}[{index}].operator", operator, ("Equal", "Exists"))
        if effect and effect not in EFFECTS:
            found.unsupported(f"{field}[{index}].effect", effect, EFFECTS)


def check_taints(taints: list[Document], field: str, found: Findings) -> None:
    seen: set[tuple[Any, Any]] = set()
    for index, taint in enumerate(taints):
        where = f"{field}[{index}]"
        found.all_invalid(f"{where}.key", taint.get("key", ""), qualified_name_problems(taint.get("key", "")))
        found.all_invalid(f"{where}.value", taint.get("value", ""), label_value_problems(taint.get("value", "")))
        if not taint.get("effect"):
            found.required(f"{where}.effect")
        elif taint["effect"] not in EFFECTS:
            found.unsupported(f"{where}.effect", taint["effect"], EFFECTS)
        pair = (taint.get("key"), taint.get("effect"))
        if pair in seen:
            found.duplicate(where, taint)
        seen.add(pair)
