"""Rules for pods and pod templates, and for what an update of a pod may change.

Updates: images, an earlier activeDeadlineSeconds, more tolerations, fewer scheduling gates; while gated also a narrower
node selection; a negative grace period may become 1. The subresources each change their own part only.
"""

from __future__ import annotations

from collections.abc import Collection

from restow.adapters.memory.documents.affinity_rules import (
    REQUIRED,
    check_affinity,
    check_spread,
    check_tolerations,
)
from restow.adapters.memory.documents.container_rules import check_containers, check_identity, check_volumes, is_address
from restow.adapters.memory.documents.field_errors import FieldErrors
from restow.adapters.memory.documents.metadata_rules import check_annotations, check_labels
from restow.adapters.memory.documents.resource_rules import check_amounts, check_resources
from restow.model.names import dns_label_problems, qualified_name_problems, subdomain_problems
from restow.model.objects import Document

_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION = ("Never", "PreemptLowerPriority")
_SYSTEMS = ("linux", "windows")
_CLAIM_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")
_MAX_INT32 = 2**31 - 1
_CHANGEABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def check_pod(pod: Document, errors: FieldErrors) -> None:
    spec = pod.get("spec") or {}
    check_pod_spec(spec, "spec", errors)
    if spec.get("nodeName") and spec.get("schedulingGates"):
        errors.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def check_template(
    template: Document | None,
    field: str,
    errors: FieldErrors,
    restart: tuple[str, ...] = ("Always",),
    claims: Collection[str] = (),
) -> None:
    """The pod template of a workload, which fixes the restart policies it can work with."""
    if not template:
        errors.required(field)
        return
    metadata = template.get("metadata") or {}
    check_labels(metadata.get("labels"), f"{field}.labels", errors)  # upstream leaves "metadata" out here
    if metadata.get("annotations"):
        check_annotations(metadata["annotations"], f"{field}.annotations", errors)
    spec = template.get("spec") or {}
    check_pod_spec(spec, f"{field}.spec", errors, claims)
    policy = spec.get("restartPolicy", "Always")
    if policy in _RESTART and policy not in restart:
        if policy == "Always":
            errors.required(f"{field}.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
        else:
            errors.unsupported(f"{field}.spec.restartPolicy", policy, restart)
    if restart == ("Always",) and "activeDeadlineSeconds" in spec:
        errors.forbidden(
            f"{field}.spec.activeDeadlineSeconds", "activeDeadlineSeconds in a template is not supported here"
        )
    if spec.get("ephemeralContainers"):
        errors.forbidden(f"{field}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def check_pod_spec(spec: Document, field: str, errors: FieldErrors, claims: Collection[str] = ()) -> None:
    """`claims` are volumes that the pod will get beside its own: those of a StatefulSet's claim templates."""
    if volumes := spec.get("volumes"):
        check_volumes(volumes, f"{field}.volumes", errors)
    check_containers(spec, field, errors, claims)
    if spec.get("restartPolicy") not in _RESTART:
        _unsupported_or_missing(spec, "restartPolicy", _RESTART, field, errors)
    if spec.get("dnsPolicy") not in _DNS:
        _unsupported_or_missing(spec, "dnsPolicy", _DNS, field, errors)
    if labels := spec.get("nodeSelector"):
        check_labels(labels, f"{field}.nodeSelector", errors)
    if affinity := spec.get("affinity"):
        check_affinity(affinity, f"{field}.affinity", errors)
    if constraints := spec.get("topologySpreadConstraints"):
        check_spread(constraints, f"{field}.topologySpreadConstraints", errors)
    if tolerations := spec.get("tolerations"):
        check_tolerations(tolerations, f"{field}.tolerations", errors)
    if gates := spec.get("schedulingGates"):
        _check_gates(gates, f"{field}.schedulingGates", errors)
    if overhead := spec.get("overhead"):
        check_amounts(overhead, f"{field}.overhead", errors)
    if resources := spec.get("resources"):
        check_resources(resources, f"{field}.resources", errors, pod_level=True)
    _check_scalars(spec, field, errors)
    _check_surroundings(spec, field, errors)
    if spec.get("hostNetwork"):
        _check_host_network(spec, field, errors)


def _unsupported_or_missing(spec: Document, name: str, known: tuple[str, ...], field: str, errors: FieldErrors) -> None:
    if spec.get(name):
        errors.unsupported(f"{field}.{name}", spec[name], known)
    else:
        errors.required(f"{field}.{name}")


def _check_scalars(spec: Document, field: str, errors: FieldErrors) -> None:
    for name in ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"):
        value = spec.get(name)
        if value and (problems := subdomain_problems(value)):
            errors.all_invalid(f"{field}.{name}", value, problems)
    for name in ("hostname", "subdomain"):
        value = spec.get(name)
        if value and (problems := dns_label_problems(value)):
            errors.all_invalid(f"{field}.{name}", value, problems)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        errors.invalid(f"{field}.activeDeadlineSeconds", deadline, f"must be between 1 and {_MAX_INT32}, inclusive")
    policy = spec.get("preemptionPolicy")
    if policy is not None and policy not in _PREEMPTION:
        errors.unsupported(f"{field}.preemptionPolicy", policy, _PREEMPTION)


def _check_surroundings(spec: Document, field: str, errors: FieldErrors) -> None:
    """What a pod expects of the machine and the network around it."""
    if spec.get("dnsPolicy") == "None" and not (spec.get("dnsConfig") or {}).get("nameservers"):
        errors.required(f"{field}.dnsConfig", "must provide at least one DNS nameserver when `dnsPolicy` is None")
    system = (spec.get("os") or {}).get("name")
    if spec.get("os") is not None and system not in _SYSTEMS:
        errors.unsupported(f"{field}.os", system or "", _SYSTEMS)
    check_identity(spec.get("securityContext") or {}, f"{field}.securityContext", errors)
    for index, alias in enumerate(spec.get("hostAliases", ())):
        if not is_address(alias.get("ip", "")):
            errors.invalid(f"{field}.hostAliases[{index}].ip", alias.get("ip", ""), "must be an IP address")
    for index, gate in enumerate(spec.get("readinessGates", ())):
        kind = gate.get("conditionType", "")
        errors.all_invalid(f"{field}.readinessGates[{index}].conditionType", kind, qualified_name_problems(kind))
    for index, claim in enumerate(spec.get("resourceClaims", ())):
        sources = [name for name in _CLAIM_SOURCES if claim.get(name)]
        if len(sources) != 1:
            why = f"must specify exactly one of: {', '.join(_CLAIM_SOURCES)}"
            errors.invalid(f"{field}.resourceClaims[{index}]", claim, why)


def _check_gates(gates: list[Document], field: str, errors: FieldErrors) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        errors.all_invalid(f"{field}[{index}]", name, qualified_name_problems(name))
        if name in seen:
            errors.duplicate(f"{field}[{index}]", name)
        seen.add(name)


def _check_host_network(spec: Document, field: str, errors: FieldErrors) -> None:
    for index, container in enumerate(spec.get("containers", ())):
        for position, port in enumerate(container.get("ports", ())):
            host = port.get("hostPort")
            if host and host != port.get("containerPort"):
                where = f"{field}.containers[{index}].ports[{position}].containerPort"
                errors.invalid(where, port.get("containerPort"), "must match `hostPort` when `hostNetwork` is true")


# --- creation and updates ---


def check_new_pod(pod: Document, errors: FieldErrors) -> None:
    if (pod.get("spec") or {}).get("ephemeralContainers"):
        errors.forbidden("spec.ephemeralContainers", "cannot be set on create")


def check_pod_update(new: Document, old: Document, subresource: str | None, errors: FieldErrors) -> None:
    after, before = new.get("spec") or {}, old.get("spec") or {}
    if after == before:
        return
    if subresource == "resize":
        _only_changed(
            _without_resources(after), _without_resources(before), "only cpu and memory resources are mutable", errors
        )
    elif subresource == "ephemeralcontainers":
        _check_ephemeral(after, before, errors)
    elif subresource == "binding":
        _check_binding(after, before, errors)
    elif subresource is None:
        _check_spec_update(after, before, errors)


def _only_changed(after: Document, before: Document, why: str, errors: FieldErrors) -> None:
    changed = sorted(name for name in {*after, *before} if after.get(name) != before.get(name))
    if changed:
        errors.forbidden("spec", f"{why}\nchanged: {', '.join(f'spec.{name}' for name in changed)}")


def _without_resources(spec: Document) -> Document:
    kept = {name: value for name, value in spec.items() if name != "resources"}
    for kind in ("containers", "initContainers"):
        if kind in kept:
            kept[kind] = [
                {name: value for name, value in container.items() if name not in ("resources", "resizePolicy")}
                for container in kept[kind]
            ]
    return kept


def _check_ephemeral(after: Document, before: Document, errors: FieldErrors) -> None:
    had = before.get("ephemeralContainers", [])
    if after.get("ephemeralContainers", [])[: len(had)] != had:
        errors.forbidden("spec.ephemeralContainers", "existing ephemeral containers may not be changed or removed")
    rest = (
        {**after, "ephemeralContainers": had} if had else {k: v for k, v in after.items() if k != "ephemeralContainers"}
    )
    _only_changed(rest, before, "only ephemeralContainers may be added", errors)


def _check_binding(after: Document, before: Document, errors: FieldErrors) -> None:
    _only_changed({**after, "nodeName": ""}, {**before, "nodeName": ""}, "a binding may only set nodeName", errors)


def _check_spec_update(after: Document, before: Document, errors: FieldErrors) -> None:
    munged = dict(after)
    for kind in ("containers", "initContainers"):
        new, old = after.get(kind, []), before.get(kind, [])
        if len(new) != len(old):
            errors.forbidden(f"spec.{kind}", "pod updates may not add or remove containers")
            return
        if new != old:
            munged[kind] = [{**ours, "image": theirs.get("image")} for ours, theirs in zip(new, old, strict=True)]
    _check_deadline(after, before, errors)
    _check_added_tolerations(after.get("tolerations", []), before.get("tolerations", []), errors)
    _check_removed_gates(after.get("schedulingGates", []), before.get("schedulingGates", []), errors)
    for name in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        _put_back(munged, before, name)
    if before.get("terminationGracePeriodSeconds", 0) < 0 and after.get("terminationGracePeriodSeconds") == 1:
        _put_back(munged, before, "terminationGracePeriodSeconds")
    if before.get("schedulingGates"):
        _check_gated(munged, before, errors)
    _only_changed(munged, before, f"pod updates may not change fields other than {_CHANGEABLE}", errors)


def _put_back(munged: Document, before: Document, name: str) -> None:
    if name in before:
        munged[name] = before[name]
    else:
        munged.pop(name, None)


def _check_deadline(after: Document, before: Document, errors: FieldErrors) -> None:
    new, old = after.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if new is None and old is not None:
        errors.invalid("spec.activeDeadlineSeconds", None, "must not update from a positive integer to nil value")
    elif new is not None and old is not None and new > old:
        errors.invalid("spec.activeDeadlineSeconds", new, "must be less than or equal to previous value")


def _check_added_tolerations(new: list[Document], old: list[Document], errors: FieldErrors) -> None:
    def lasting(toleration: Document) -> Document:
        return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}

    kept = [lasting(each) for each in new]
    if any(lasting(each) not in kept for each in old):
        errors.forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")


def _check_removed_gates(new: list[Document], old: list[Document], errors: FieldErrors) -> None:
    added = {gate.get("name"): index for index, gate in enumerate(new)}  # of equal ones the last is named
    for gate in old:
        added.pop(gate.get("name"), None)
    for name, index in added.items():
        why = f"only deletion is allowed, but found new scheduling gate '{name}'"
        errors.forbidden(f"spec.schedulingGates[{index}].name", why)


def _check_gated(munged: Document, before: Document, errors: FieldErrors) -> None:
    """A gated pod may narrow where it can go: more node labels, more requirements in each required term."""
    new, old = munged.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    if new != old:
        if any(new.get(key) != value for key, value in old.items()):
            errors.invalid(
                "spec.nodeSelector", new, "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            )
        _put_back(munged, before, "nodeSelector")
    affinity, was = munged.get("affinity") or {}, before.get("affinity") or {}
    if affinity.get("nodeAffinity") != was.get("nodeAffinity"):
        if not _narrower(affinity.get("nodeAffinity") or {}, was.get("nodeAffinity") or {}):
            why = "only additions are allowed (no deletions or mutations)"
            errors.invalid("spec.affinity.nodeAffinity", affinity.get("nodeAffinity"), why)
        rest = {name: value for name, value in affinity.items() if name != "nodeAffinity"}
        if "nodeAffinity" in was:
            rest["nodeAffinity"] = was["nodeAffinity"]
        munged["affinity"] = rest
        if not rest and "affinity" not in before:
            del munged["affinity"]


def _narrower(new: Document, old: Document) -> bool:
    """Preferences may change freely; required terms may only gain expressions."""
    wanted, was = new.get(REQUIRED), old.get(REQUIRED)
    if was is None:
        return True
    terms, before = (wanted or {}).get("nodeSelectorTerms", []), was.get("nodeSelectorTerms", [])
    return len(terms) == len(before) and all(
        all(each in ours.get(name, []) for name in ("matchExpressions", "matchFields") for each in theirs.get(name, []))
        for ours, theirs in zip(terms, before, strict=True)
    )
