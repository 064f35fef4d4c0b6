"""Rules for the objects around pods: nodes, volumes, claims, classes, configuration, services, leases, roles."""

from __future__ import annotations

import re

from restow.adapters.memory.documents.affinity_rules import check_node_selector, check_taints
from restow.adapters.memory.documents.container_rules import ACCESS_MODES, check_claim_spec
from restow.adapters.memory.documents.field_errors import FieldErrors
from restow.adapters.memory.documents.metadata_rules import check_labels
from restow.adapters.memory.documents.resource_rules import check_amounts, parsed_quantity
from restow.model.names import qualified_name_problems, subdomain_problems
from restow.model.objects import Document

_BASIC_AUTH = "kubernetes.io/basic-auth"
_SECRET_KEYS = {
    _BASIC_AUTH: ("username", "password"),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+", re.ASCII)
_MAX_DATA = 1024 * 1024
_RECLAIM = ("Delete", "Recycle", "Retain")
_SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_VOLUME_FIELDS = frozenset(
    {
        "capacity",
        "accessModes",
        "claimRef",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "mountOptions",
        "volumeMode",
        "nodeAffinity",
        "volumeAttributesClassName",
    }
)
USER_PRIORITY = 1_000_000_000
_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def check_node(doc: Document, old: Document | None, errors: FieldErrors) -> None:
    spec, status = doc.get("spec") or {}, doc.get("status") or {}
    if taints := spec.get("taints"):
        check_taints(taints, "metadata.taints", errors)
    for name in ("capacity", "allocatable"):
        if amounts := status.get(name):
            check_amounts(amounts, f"status.{name}", errors)
    if old is None:
        return
    before = old.get("spec") or {}
    for name, word in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
        if before.get(name) and before[name] != spec.get(name):
            errors.forbidden(f"spec.{name}", f'node updates may not change {word} except from "" to valid')


def check_config_map(doc: Document, old: Document | None, errors: FieldErrors) -> None:
    _check_keys(doc, ("data", "binaryData"), errors)
    for key in (doc.get("data") or {}).keys() & (doc.get("binaryData") or {}).keys():
        errors.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    _check_frozen(doc, old, ("data", "binaryData"), errors)


def check_secret(doc: Document, old: Document | None, errors: FieldErrors) -> None:
    _check_keys(doc, ("data",), errors)
    _check_secret_keys(doc, errors)
    if old is not None:
        errors.immutable("type", old.get("type"), doc.get("type"))
    _check_frozen(doc, old, ("data",), errors)


def _check_secret_keys(doc: Document, errors: FieldErrors) -> None:
    """Secrets of a well-known type hold what the type promises."""
    data = doc.get("data") or {}
    needed = _SECRET_KEYS.get(doc.get("type", ""), ())
    missing = [key for key in needed if key not in data]
    if doc.get("type") == _BASIC_AUTH and len(missing) < len(needed):  # a name or a password is enough
        return
    for key in missing:
        errors.required(f"data[{key}]")


def _check_keys(doc: Document, members: tuple[str, ...], errors: FieldErrors) -> None:
    size = 0
    for member in members:
        for key, value in (doc.get(member) or {}).items():
            if not _CONFIG_KEY.fullmatch(key) or len(key) > 253 or key in (".", "..") or key.startswith(".."):
                errors.invalid(f"{member}[{key}]", key, "must be at most 253 letters, digits, '-', '_' or '.'")
            size += len(value)
    if size > _MAX_DATA:
        errors.too_long("data", _MAX_DATA)


def _check_frozen(doc: Document, old: Document | None, members: tuple[str, ...], errors: FieldErrors) -> None:
    if old is None or not old.get("immutable"):
        return
    if not doc.get("immutable"):
        errors.forbidden("immutable", "field is immutable when `immutable` is set")
    for member in members:
        if doc.get(member) != old.get(member):
            errors.forbidden(member, "field is immutable when `immutable` is set")


def check_claim(doc: Document, old: Document | None, errors: FieldErrors) -> None:
    spec = doc.get("spec") or {}
    if old is None or spec != old.get("spec"):
        check_claim_spec(spec, "spec", errors)
    if old is not None:
        _check_claim_update(doc, old, errors)


def _check_claim_update(doc: Document, old: Document, errors: FieldErrors) -> None:
    after, before = dict(doc.get("spec") or {}), dict(old.get("spec") or {})
    bound = (doc.get("status") or {}).get("phase") == "Bound"
    for name, changeable in (
        ("volumeName", not before.get("volumeName")),
        ("storageClassName", before.get("storageClassName") is None),
        ("resources", bound),
        ("volumeAttributesClassName", bound),
    ):
        if changeable:
            after.pop(name, None)
            before.pop(name, None)
    if after != before:
        why = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        errors.forbidden("spec", why)
    size = parsed_quantity(doc.get("spec", {}).get("resources", {}).get("requests", {}).get("storage", 0))
    was = parsed_quantity(old.get("spec", {}).get("resources", {}).get("requests", {}).get("storage", 0))
    has = parsed_quantity((old.get("status") or {}).get("capacity", {}).get("storage", 0))
    if size is not None and was is not None and has is not None and size < was and size <= has:
        errors.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")


def check_volume(doc: Document, old: Document | None, errors: FieldErrors) -> None:
    spec = doc.get("spec") or {}
    modes = spec.get("accessModes")
    if not modes:
        errors.required("spec.accessModes")
    for mode in modes or ():
        if mode not in ACCESS_MODES:
            errors.unsupported("spec.accessModes", mode, ACCESS_MODES)
    capacity = spec.get("capacity")
    if not capacity:
        errors.required("spec.capacity")
    elif "storage" not in capacity or len(capacity) > 1:
        errors.unsupported("spec.capacity", capacity, ("storage",))
    else:
        check_amounts(capacity, "spec.capacity", errors)
    sources = [name for name in spec if name not in _VOLUME_FIELDS]
    if not sources:
        errors.required("spec", "must specify a volume type")
    for extra in sources[1:]:
        errors.forbidden(f"spec.{extra}", "may not specify more than 1 volume type")
    if spec.get("persistentVolumeReclaimPolicy", "Retain") not in _RECLAIM:
        errors.unsupported("spec.persistentVolumeReclaimPolicy", spec["persistentVolumeReclaimPolicy"], _RECLAIM)
    required = (spec.get("nodeAffinity") or {}).get("required")
    if required is not None:
        check_node_selector(required, "spec.nodeAffinity.required", errors)
    elif "local" in spec:
        errors.required("spec.nodeAffinity", "Local volume requires node affinity")
    if old is not None:
        _check_volume_update(spec, old.get("spec") or {}, errors)


def _check_volume_update(spec: Document, before: Document, errors: FieldErrors) -> None:
    for name in (each for each in {**spec, **before} if each not in _VOLUME_FIELDS):
        if spec.get(name) != before.get(name):
            errors.forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation")
            break
    errors.immutable("spec.volumeMode", before.get("volumeMode"), spec.get("volumeMode"))
    if before.get("nodeAffinity"):
        errors.immutable("spec.nodeAffinity", before["nodeAffinity"], spec.get("nodeAffinity"))


def check_storage_class(doc: Document, old: Document | None, errors: FieldErrors) -> None:
    if not doc.get("provisioner"):
        errors.required("provisioner")
    elif problems := qualified_name_problems(doc["provisioner"].lower()):
        errors.all_invalid("provisioner", doc["provisioner"], problems)
    if doc.get("reclaimPolicy") not in ("Delete", "Retain"):
        errors.unsupported("reclaimPolicy", doc.get("reclaimPolicy") or "", ("Delete", "Retain"))
    if doc.get("volumeBindingMode") not in ("Immediate", "WaitForFirstConsumer"):
        errors.unsupported(
            "volumeBindingMode", doc.get("volumeBindingMode") or "", ("Immediate", "WaitForFirstConsumer")
        )
    if old is None:
        return
    for name in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        errors.immutable(name, old.get(name), doc.get(name))


def check_priority_class(doc: Document, old: Document | None, errors: FieldErrors) -> None:
    name, value = doc["metadata"].get("name") or "", doc.get("value", 0)
    if name.startswith("system-"):
        if _SYSTEM_CLASSES.get(name) != value:
            errors.forbidden(
                "metadata.name", "priority class names with 'system-' prefix are reserved for system use only"
            )
    elif value > USER_PRIORITY:
        errors.forbidden("value", f"maximum allowed value of a user defined priority is {USER_PRIORITY}")
    if doc.get("preemptionPolicy", "Never") not in ("Never", "PreemptLowerPriority"):
        errors.unsupported("preemptionPolicy", doc["preemptionPolicy"], ("Never", "PreemptLowerPriority"))
    if old is None:
        return
    for field in ("value", "preemptionPolicy"):
        if doc.get(field) != old.get(field):
            errors.forbidden(field, "may not be changed in an update.")


def check_lease(doc: Document, old: Document | None, errors: FieldErrors) -> None:
    spec = doc.get("spec") or {}
    if spec.get("leaseDurationSeconds") is not None and spec["leaseDurationSeconds"] <= 0:
        errors.invalid("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0")
    if spec.get("leaseTransitions") is not None and spec["leaseTransitions"] < 0:
        errors.invalid("spec.leaseTransitions", spec["leaseTransitions"], "must be greater than or equal to 0")


def check_service(doc: Document, old: Document | None, errors: FieldErrors) -> None:
    spec = doc.get("spec") or {}
    kind = spec.get("type", "ClusterIP")
    if kind not in _SERVICE_TYPES:
        errors.unsupported("spec.type", kind, _SERVICE_TYPES)
    ports = spec.get("ports") or []
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        errors.required("spec.ports")
    names: set[str] = set()
    for index, port in enumerate(ports):
        _check_service_port(port, f"spec.ports[{index}]", len(ports) > 1, names, errors)
    check_labels(spec.get("selector"), "spec.selector", errors)
    if spec.get("sessionAffinity", "None") not in ("None", "ClientIP"):
        errors.unsupported("spec.sessionAffinity", spec["sessionAffinity"], ("ClientIP", "None"))
    if kind == "ExternalName" and not spec.get("externalName"):
        errors.required("spec.externalName")
    if old is not None and kind != "ExternalName":
        before = (old.get("spec") or {}).get("clusterIP")
        if before and spec.get("clusterIP") != before:
            errors.invalid("spec.clusterIP", spec.get("clusterIP", ""), "field is immutable")


def _check_service_port(port: Document, field: str, several: bool, names: set[str], errors: FieldErrors) -> None:
    name, number = port.get("name"), port.get("port", 0)
    if not name and several:
        errors.required(f"{field}.name")
    elif name in names:
        errors.duplicate(f"{field}.name", name)
    names.add(name or "")
    if not 0 < number < 65536:
        errors.invalid(f"{field}.port", number, "must be between 1 and 65535, inclusive")
    target = port.get("targetPort", number)
    if isinstance(target, int) and not 0 < target < 65536:
        errors.invalid(f"{field}.targetPort", target, "must be between 1 and 65535, inclusive")
    if port.get("protocol", "TCP") not in ("TCP", "UDP", "SCTP"):
        errors.unsupported(f"{field}.protocol", port["protocol"], ("SCTP", "TCP", "UDP"))


def check_event(doc: Document, old: Document | None, errors: FieldErrors) -> None:
    about = (doc.get("involvedObject") or doc.get("regarding") or {}).get("namespace", "")
    namespace = doc["metadata"].get("namespace", "")
    if about != namespace and (about or namespace != "default"):
        errors.invalid("involvedObject.namespace", about, "does not match event.namespace")


def check_volume_attachment(doc: Document, old: Document | None, errors: FieldErrors) -> None:
    spec = doc.get("spec") or {}
    for name in ("attacher", "nodeName"):
        if not spec.get(name):
            errors.required(f"spec.{name}")
    source = spec.get("source") or {}
    if not source.get("persistentVolumeName") and not source.get("inlineVolumeSpec"):
        errors.required("spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
    if old is not None:
        errors.immutable("spec", old.get("spec"), spec)


def check_csi_node(doc: Document, old: Document | None, errors: FieldErrors) -> None:
    seen: set[str] = set()
    for index, driver in enumerate((doc.get("spec") or {}).get("drivers") or ()):
        field = f"spec.drivers[{index}]"
        if not driver.get("name"):
            errors.required(f"{field}.name")
        elif driver["name"] in seen:
            errors.duplicate(f"{field}.name", driver["name"])
        seen.add(driver.get("name", ""))
        if not driver.get("nodeID"):
            errors.required(f"{field}.nodeID")


def check_role_binding(doc: Document, old: Document | None, errors: FieldErrors) -> None:
    reference = doc.get("roleRef") or {}
    kinds = ("Role", "ClusterRole") if doc.get("kind") == "RoleBinding" else ("ClusterRole",)
    if reference.get("kind") not in kinds:
        errors.unsupported("roleRef.kind", reference.get("kind") or "", kinds)
    if not reference.get("name"):
        errors.required("roleRef.name")
    for index, subject in enumerate(doc.get("subjects") or ()):
        if not subject.get("name"):
            errors.required(f"subjects[{index}].name")
        if subject.get("kind") == "ServiceAccount" and not subject.get("namespace"):
            errors.required(f"subjects[{index}].namespace")
    if old is not None and reference != old.get("roleRef"):
        errors.invalid("roleRef", reference, "cannot change roleRef")


def check_role(doc: Document, old: Document | None, errors: FieldErrors) -> None:
    for index, rule in enumerate(doc.get("rules") or ()):
        if not rule.get("verbs"):
            errors.required(f"rules[{index}].verbs", "verbs must contain at least one value")
        if not rule.get("nonResourceURLs"):
            for name in ("apiGroups", "resources"):
                if not rule.get(name):
                    errors.required(f"rules[{index}].{name}", f"resource rules must supply at least one {name[:-1]}")


def check_namespace(doc: Document, old: Document | None, errors: FieldErrors) -> None:
    for finalizer in (doc.get("spec") or {}).get("finalizers") or ():
        if "/" not in finalizer and finalizer != "kubernetes":
            errors.invalid("spec.finalizers", finalizer, "must be `kubernetes` or a name with a domain")


def check_service_account(doc: Document, old: Document | None, errors: FieldErrors) -> None:
    for index, secret in enumerate(doc.get("imagePullSecrets") or ()):
        if secret.get("name"):
            errors.all_invalid(f"imagePullSecrets[{index}].name", secret["name"], subdomain_problems(secret["name"]))
