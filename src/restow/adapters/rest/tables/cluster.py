"""Rows of nodes, namespaces, events and the other small kinds of a cluster."""

from __future__ import annotations

from restow.adapters.rest.tables.columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Cells,
    abbreviated,
    age_of,
    boolean_column,
    integer_column,
    labels_text,
    make_printer,
    name_of,
    selector_text,
    wide_column,
)
from restow.adapters.rest.tables.durations import UNKNOWN, age_since
from restow.adapters.rest.unchecked_documents import (
    at,
    condition_is_true,
    flag,
    mapping,
    number,
    sequence,
    strings,
    text,
)
from restow.model.objects import Document

ROLE_PREFIX = "node-role.kubernetes.io/"
ROLE_LABEL = "kubernetes.io/role"


def _node(item: Document, now: float) -> Cells:
    details = mapping(item, "status", "nodeInfo")
    kernel, architecture = text(details, "kernelVersion") or UNKNOWN, text(details, "architecture")
    return [
        name_of(item),
        _node_status(item),
        _node_roles(item),
        age_of(item, now),
        text(details, "kubeletVersion"),
        _node_address(item, "InternalIP"),
        _node_address(item, "ExternalIP"),
        text(details, "osImage") or UNKNOWN,
        f"{kernel} ({architecture})" if architecture else kernel,
        text(details, "containerRuntimeVersion") or UNKNOWN,
    ]


def _node_status(item: Document) -> str:
    if any(text(each, "type") == "Ready" for each in sequence(item, "status", "conditions")):
        status = "Ready" if condition_is_true(item, "Ready") else "NotReady"
    else:
        status = "Unknown"
    return f"{status},SchedulingDisabled" if flag(item, "spec", "unschedulable") else status


def _node_roles(item: Document) -> str:
    labels = mapping(item, "metadata", "labels")
    roles = {key.removeprefix(ROLE_PREFIX) for key in labels if key.startswith(ROLE_PREFIX)}
    roles |= {text(labels, ROLE_LABEL)}
    return ",".join(sorted(roles - {""})) or NONE


def _node_address(item: Document, kind: str) -> str:
    addresses = [text(each, "address") for each in sequence(item, "status", "addresses") if text(each, "type") == kind]
    return addresses[0] if addresses else NONE


def _namespace(item: Document, now: float) -> Cells:
    return [name_of(item), text(item, "status", "phase"), age_of(item, now)]


def _event(item: Document, now: float) -> Cells:
    """Both event APIs; the newer one calls the same things regarding, note and deprecated*."""
    first = text(item, "firstTimestamp") or text(item, "deprecatedFirstTimestamp") or text(item, "eventTime")
    last = text(item, "lastTimestamp") or text(item, "deprecatedLastTimestamp") or first
    count = number(item, "count") or number(item, "deprecatedCount") or 1
    if series := mapping(item, "series"):
        last, count = text(series, "lastObservedTime"), number(series, "count")
    subject = mapping(item, "involvedObject") or mapping(item, "regarding")
    kind, name = text(subject, "kind").lower(), text(subject, "name")
    return [
        age_since(last, now),
        text(item, "type"),
        text(item, "reason"),
        f"{kind}/{name}" if name else kind,
        text(subject, "fieldPath"),
        _event_source(item),
        (text(item, "message") or text(item, "note")).strip(),
        age_since(first, now),
        count,
        name_of(item),
    ]


def _event_source(item: Document) -> str:
    source = mapping(item, "source") or mapping(item, "deprecatedSource")
    component = text(source, "component") or text(item, "reportingComponent") or text(item, "reportingController")
    host = text(source, "host") or text(item, "reportingInstance")
    return f"{component}, {host}" if host else component


def _service(item: Document, now: float) -> Cells:
    ports = ",".join(_service_port(port) for port in sequence(item, "spec", "ports"))
    cluster_ip = next(iter(strings(item, "spec", "clusterIPs")), "") or text(item, "spec", "clusterIP")
    cells = [name_of(item), text(item, "spec", "type"), cluster_ip or NONE, _external_ip(item), ports or NONE]
    return [*cells, age_of(item, now), labels_text(mapping(item, "spec", "selector"))]


def _service_port(port: Document) -> str:
    node_port = number(port, "nodePort")
    shown = f"{number(port, 'port')}:{node_port}" if node_port else f"{number(port, 'port')}"
    return f"{shown}/{text(port, 'protocol')}"


def _external_ip(item: Document) -> str:
    external = strings(item, "spec", "externalIPs")
    match text(item, "spec", "type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external) or NONE
        case "LoadBalancer":
            ingress = sequence(item, "status", "loadBalancer", "ingress")
            return ",".join(sorted({text(e, "ip") or text(e, "hostname") for e in ingress}) + external) or "<pending>"
        case "ExternalName":
            return text(item, "spec", "externalName")
    return UNKNOWN


def _endpoints(item: Document, now: float) -> Cells:
    shown = []
    for subset in sequence(item, "subsets"):
        addresses = [text(each, "ip") for each in sequence(subset, "addresses")]
        ports = [f":{number(each, 'port')}" for each in sequence(subset, "ports")] or [""]
        shown += [address + port for port in ports for address in addresses]
    return [name_of(item), abbreviated(shown) or NONE, age_of(item, now)]


def _endpoint_slice(item: Document, now: float) -> Cells:
    ports = [text(each, "port") or text(each, "name") or "*" for each in sequence(item, "ports")]
    addresses = [address for each in sequence(item, "endpoints") for address in strings(each, "addresses")]
    cells = [name_of(item), text(item, "addressType"), abbreviated(ports) or UNSET, abbreviated(addresses) or UNSET]
    return [*cells, age_of(item, now)]


def _config_map(item: Document, now: float) -> Cells:
    return [name_of(item), len(mapping(item, "data")) + len(mapping(item, "binaryData")), age_of(item, now)]


def _secret(item: Document, now: float) -> Cells:
    return [name_of(item), text(item, "type"), len(mapping(item, "data")), age_of(item, now)]


def _name_and_age(item: Document, now: float) -> Cells:
    return [name_of(item), age_of(item, now)]


def _quota(item: Document, now: float) -> Cells:
    used = mapping(item, "status", "used")
    hard = sorted(mapping(item, "status", "hard").items())
    shown = [(resource, f"{resource}: {text(used, resource) or '0'}/{limit}") for resource, limit in hard]
    requests = ", ".join(entry for resource, entry in shown if not resource.startswith("limits."))
    limits = ", ".join(entry for resource, entry in shown if resource.startswith("limits."))
    return [name_of(item), requests, limits, age_of(item, now)]


def _lease(item: Document, now: float) -> Cells:
    return [name_of(item), text(item, "spec", "holderIdentity"), age_of(item, now)]


def _priority_class(item: Document, now: float) -> Cells:
    cells = [name_of(item), number(item, "value"), flag(item, "globalDefault"), age_of(item, now)]
    return [*cells, text(item, "preemptionPolicy")]


def _role_binding(item: Document, now: float) -> Cells:
    role = f"{text(item, 'roleRef', 'kind')}/{text(item, 'roleRef', 'name')}"
    subjects = sequence(item, "subjects")
    users, groups = (
        ", ".join(text(each, "name") for each in subjects if text(each, "kind") == kind) for kind in ("User", "Group")
    )
    accounts = (each for each in subjects if text(each, "kind") == "ServiceAccount")
    shown = ", ".join(f"{text(each, 'namespace')}/{text(each, 'name')}" for each in accounts)
    return [name_of(item), role, age_of(item, now), users, groups, shown]


def _network_policy(item: Document, now: float) -> Cells:
    return [name_of(item), selector_text(mapping(item, "spec", "podSelector")), age_of(item, now)]


def _ingress(item: Document, now: float) -> Cells:
    hosts = [text(each, "host") for each in sequence(item, "spec", "rules") if text(each, "host")]
    points = sequence(item, "status", "loadBalancer", "ingress")
    address = ",".join(sorted({text(each, "ip") or text(each, "hostname") for each in points}))
    ports = "80, 443" if sequence(item, "spec", "tls") else "80"
    cells = [name_of(item), text(item, "spec", "ingressClassName") or NONE, abbreviated(hosts) or "*"]
    return [*cells, address, ports, age_of(item, now)]


def _ingress_class(item: Document, now: float) -> Cells:
    parameters = mapping(item, "spec", "parameters")
    group, name = text(parameters, "apiGroup"), text(parameters, "name")
    shown = f"{text(parameters, 'kind')}{f'.{group}' if group else ''}/{name}" if parameters else NONE
    return [name_of(item), text(item, "spec", "controller"), shown, age_of(item, now)]


def _runtime_class(item: Document, now: float) -> Cells:
    return [name_of(item), text(item, "handler"), age_of(item, now)]


def _metrics(item: Document, now: float) -> Cells:
    usage = mapping(item, "usage")
    return [name_of(item), text(usage, "cpu"), text(usage, "memory"), text(item, "window")]


def _created(item: Document, now: float) -> Cells:
    return [name_of(item), at(item, "metadata", "creationTimestamp")]


_BINDING_COLUMNS = (NAME, "Role", AGE, wide_column("Users"), wide_column("Groups"), wide_column("ServiceAccounts"))
_EVENT_COLUMNS = (
    *("Last Seen", "Type", "Reason", "Object", wide_column("Subobject"), wide_column("Source"), "Message"),
    *(wide_column("First Seen"), wide_column("Count"), wide_column("Name")),
)

# What every kind without columns of its own prints, as upstream does for Roles and CustomResourceDefinitions.
PLAIN = make_printer(_created, NAME, "Created At")

PRINTERS = {
    ("", "Node"): make_printer(
        _node,
        *(NAME, "Status", "Roles", AGE, "Version", wide_column("Internal-IP"), wide_column("External-IP")),
        *(wide_column("OS-Image"), wide_column("Kernel-Version"), wide_column("Container-Runtime")),
    ),
    ("", "Namespace"): make_printer(_namespace, NAME, "Status", AGE),
    ("", "Event"): make_printer(_event, *_EVENT_COLUMNS),
    ("events.k8s.io", "Event"): make_printer(_event, *_EVENT_COLUMNS),
    ("", "Service"): make_printer(
        _service, NAME, "Type", "Cluster-IP", "External-IP", "Port(s)", AGE, wide_column("Selector")
    ),
    ("", "Endpoints"): make_printer(_endpoints, NAME, "Endpoints", AGE),
    ("discovery.k8s.io", "EndpointSlice"): make_printer(
        _endpoint_slice, NAME, "AddressType", "Ports", "Endpoints", AGE
    ),
    ("", "ConfigMap"): make_printer(_config_map, NAME, integer_column("Data"), AGE),
    ("", "Secret"): make_printer(_secret, NAME, "Type", integer_column("Data"), AGE),
    ("", "ServiceAccount"): make_printer(_name_and_age, NAME, AGE),
    ("", "ResourceQuota"): make_printer(_quota, NAME, "Request", "Limit", AGE),
    ("coordination.k8s.io", "Lease"): make_printer(_lease, NAME, "Holder", AGE),
    ("scheduling.k8s.io", "PriorityClass"): make_printer(
        _priority_class, NAME, integer_column("Value"), boolean_column("Global-Default"), AGE, "PreemptionPolicy"
    ),
    ("rbac.authorization.k8s.io", "RoleBinding"): make_printer(_role_binding, *_BINDING_COLUMNS),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): make_printer(_role_binding, *_BINDING_COLUMNS),
    ("networking.k8s.io", "NetworkPolicy"): make_printer(_network_policy, NAME, "Pod-Selector", AGE),
    ("networking.k8s.io", "Ingress"): make_printer(_ingress, NAME, "Class", "Hosts", "Address", "Ports", AGE),
    ("networking.k8s.io", "IngressClass"): make_printer(_ingress_class, NAME, "Controller", "Parameters", AGE),
    ("node.k8s.io", "RuntimeClass"): make_printer(_runtime_class, NAME, "Handler", AGE),
    ("metrics.k8s.io", "NodeMetrics"): make_printer(_metrics, NAME, "CPU", "Memory", "Window"),
}
