"""What kube-apiserver's strategies and default admission plugins do to objects on their way in.

`prepare_new_object` runs before defaulting and sets the first status. `complete_new_object` runs after it and fills in
what depends on other objects (priority classes, the default storage class). `keep_on_update` guards fields that later
writes must not lose.

ValidatingAdmissionPolicies and their bindings are stored like any other object. The embedded server does not evaluate
them: it admits objects that a policy would refuse on a real API server.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import msgspec

from restow.adapters.memory import custom_resource_definitions, errors
from restow.adapters.memory.documents.typed_documents import conform_to_kind
from restow.adapters.memory.resources import ResourceType
from restow.adapters.memory.state import State, set_condition
from restow.adapters.memory.store import Stored
from restow.model.objects import Document, PodSpec
from restow.model.qos import qos_class
from restow.model.taints import NOT_READY, UNREACHABLE
from restow.model.volumes import DEFAULT_CLASS
from restow.ports import StatusCause

_NOT_READY_SECONDS = 300
_PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io"
_STORAGE_CLASSES = "storageclasses.storage.k8s.io"


def check_namespace(state: State, served: ResourceType, metadata: Document) -> None:
    """A namespaced object needs a namespace that exists and is not on its way out."""
    namespace = metadata.get("namespace")
    if not served.namespaced or namespace is None:
        return
    stored = state.find("namespaces", "", namespace)
    if stored is None:
        raise errors.not_found("namespaces", "", namespace)
    if stored.deleting:
        cause = StatusCause(
            reason="NamespaceTerminating",
            message=f"namespace {namespace} is being terminated",
            field="metadata.namespace",
        )
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        raise errors.forbidden_error(served.plural, served.group, metadata.get("name") or "", why, [cause])


def prepare_new_object(state: State, served: ResourceType, document: Document) -> None:
    step = _PREPARE.get(served.collection)
    if step is not None:
        step(state, document)
    elif served.custom is None and served.has_status and "status" not in document:
        document["status"] = msgspec.json.decode(_blank_status(served.group, served.kind))


@cache
def _blank_status(group: str, kind: str) -> bytes:
    """The status of a new object: the numbers that are written even when they are zero."""
    return msgspec.json.encode(conform_to_kind({}, group=group, kind=kind).document.get("status") or {})


def complete_new_object(state: State, served: ResourceType, document: Document) -> None:
    step = _COMPLETE.get(served.collection)
    if step is not None:
        step(state, document)


def keep_on_update(state: State, served: ResourceType, old: Document, new: Document, subresource: str | None) -> None:
    if served.collection == "pods" and subresource == "status":
        _keep_pod_status(old.get("status", {}), new.setdefault("status", {}))
    elif served.collection == "pods":
        for name in ("priority", "preemptionPolicy"):
            if name in old["spec"]:
                new["spec"].setdefault(name, old["spec"][name])
        # The DefaultTolerationSeconds plugin runs on updates as well: tolerations that an update drops come back.
        _tolerate_lost_nodes(new["spec"])
    elif served.collection == _PRIORITY_CLASSES:
        _check_one_default(state, new)
    elif served.collection == "namespaces" and subresource is None:
        # spec.finalizers is written by the subresource `finalize` only.
        if "spec" in old:
            new["spec"] = old["spec"]
    elif served.collection == custom_resource_definitions.COLLECTION:
        custom_resource_definitions.update_definition(state, old, new, subresource)


def _keep_pod_status(old: Document, new: Document) -> None:
    """The server keeps the QoS class, and keeps the single address equal to the first of the list."""
    if "qosClass" in old:
        new.setdefault("qosClass", old["qosClass"])
    for single, many in (("podIP", "podIPs"), ("hostIP", "hostIPs")):
        listed = new.get(many) or []
        if new.get(single) and (not listed or listed[0].get("ip") != new[single]):
            new[many] = [{"ip": new[single]}]
        elif listed and not new.get(single):
            new[single] = listed[0].get("ip")


def _prepare_pod(state: State, pod: Document) -> None:
    pod["status"] = {"phase": "Pending"}


def _prepare_namespace(state: State, namespace: Document) -> None:
    spec = namespace.setdefault("spec", {})
    finalizers = spec.setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    namespace["status"] = {"phase": "Active"}


def _label_namespace(state: State, namespace: Document) -> None:
    metadata = namespace["metadata"]
    if metadata.get("name"):
        metadata.setdefault("labels", {})["kubernetes.io/metadata.name"] = metadata["name"]


def _prepare_volume(state: State, volume: Document) -> None:
    volume["status"] = {"phase": "Pending"}


def _add_protection_finalizer(state: State, volume: Document, finalizer: str) -> None:
    """The StorageObjectInUseProtection admission plugin."""
    finalizers = volume["metadata"].get("finalizers", [])
    if state.protect_volumes and finalizer not in finalizers:
        volume["metadata"]["finalizers"] = [*finalizers, finalizer]


def _complete_volume(state: State, volume: Document) -> None:
    _add_protection_finalizer(state, volume, "kubernetes.io/pv-protection")


def _complete_pod(state: State, pod: Document) -> None:
    spec = pod["spec"]
    _set_priority(state, pod, spec)
    _tolerate_lost_nodes(spec)
    if spec.get("schedulingGates"):
        gated = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "reason": "SchedulingGated",
        }
        why = "Scheduling is blocked due to non-empty scheduling gates"
        set_condition(pod["status"], {**gated, "message": why}, state.stamp())
    pod["status"]["qosClass"] = qos_class(msgspec.convert(spec, PodSpec))


def _tolerate_lost_nodes(spec: Document) -> None:
    tolerations = spec.setdefault("tolerations", [])
    for key in (NOT_READY, UNREACHABLE):
        if not any(_tolerates_execution(each, key) for each in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _NOT_READY_SECONDS}
            )


def _tolerates_execution(toleration: Document, key: str) -> bool:
    return toleration.get("key") in (key, None, "") and toleration.get("effect") in ("NoExecute", None, "")


def _set_priority(state: State, pod: Document, spec: Document) -> None:
    """The Priority admission plugin: the class decides, and a pod with another priority is refused."""
    name = spec.get("priorityClassName")
    priority, policy = 0, "PreemptLowerPriority"
    classes = state.store.collections[_PRIORITY_CLASSES]
    chosen = classes.get("", name) if name else next((each for each in classes if _is_global(each)), None)
    if name and chosen is None:
        why = f"no PriorityClass with name {name} was found"
        raise errors.forbidden_error("pods", "", pod["metadata"].get("name") or "", why)
    if chosen is not None:
        document = chosen.document()
        spec["priorityClassName"] = chosen.name
        priority = document.get("value", 0)
        policy = document.get("preemptionPolicy") or policy
    _check_equal(pod, "integer value of priority", spec.setdefault("priority", priority), priority)
    _check_equal(pod, "string value of PreemptionPolicy", spec.setdefault("preemptionPolicy", policy), policy)


def _check_equal(pod: Document, field: str, given: object, computed: object) -> None:
    if given != computed:
        why = (
            f"the {field} ({given}) must not be provided in pod spec; priority admission controller computed {computed}"
        )
        raise errors.forbidden_error("pods", "", pod["metadata"].get("name") or "", why)


def _is_global(stored: Stored) -> bool:
    # The search in the encoded bytes saves decoding nearly all classes.
    return b'"globalDefault":true' in stored.data and stored.document().get("globalDefault") is True


def _check_one_default(state: State, priority_class: Document) -> None:
    if not priority_class.get("globalDefault"):
        return
    name = priority_class["metadata"].get("name") or ""
    for other in state.store.collections[_PRIORITY_CLASSES]:
        if other.name != name and _is_global(other):
            why = f"PriorityClass {other.name} is already marked as default. Only one default can exist"
            raise errors.forbidden_error("priorityclasses", "scheduling.k8s.io", name, why)


def _complete_claim(state: State, claim: Document) -> None:
    _add_protection_finalizer(state, claim, "kubernetes.io/pvc-protection")
    spec = claim.setdefault("spec", {})
    if spec.get("storageClassName") is not None:
        return
    annotated = f'"{DEFAULT_CLASS}":"true"'.encode()
    default = [each.document() for each in state.store.collections[_STORAGE_CLASSES] if annotated in each.data]
    if default:
        newest = max(default, key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["name"]))
        spec["storageClassName"] = newest["metadata"]["name"]


Step = Callable[[State, Document], None]
_PREPARE: dict[str, Step] = {
    "pods": _prepare_pod,
    "namespaces": _prepare_namespace,
    "persistentvolumes": _prepare_volume,
    "persistentvolumeclaims": _prepare_volume,
    custom_resource_definitions.COLLECTION: custom_resource_definitions.prepare_definition,
}
_COMPLETE: dict[str, Step] = {
    "pods": _complete_pod,
    "namespaces": _label_namespace,
    "persistentvolumes": _complete_volume,
    "persistentvolumeclaims": _complete_claim,
    _PRIORITY_CLASSES: _check_one_default,
    custom_resource_definitions.COLLECTION: custom_resource_definitions.complete_definition,
}
