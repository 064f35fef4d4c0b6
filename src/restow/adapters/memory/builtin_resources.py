"""The built-in kinds that are served, with their traits: facts of upstream's registry strategies
(pkg/registry/*/strategy.go and storage.go).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from restow.adapters.memory.resources import (
    ALL_VERBS,
    READ_VERBS,
    Conversion,
    ResourceType,
    ScalePaths,
    Subresource,
    collection_name,
    selectable_field,
)
from restow.adapters.memory.store import Field
from restow.model.objects import Document

_STATUS = ("status",)
_SCALED = ("status", "scale")

_POD_FIELDS = (
    selectable_field("spec.nodeName"),
    selectable_field("spec.restartPolicy"),
    selectable_field("spec.schedulerName"),
    selectable_field("spec.serviceAccountName"),
    selectable_field("spec.hostNetwork", absent="false"),
    selectable_field("status.phase"),
    selectable_field("status.podIP"),
    selectable_field("status.nominatedNodeName"),
)
_EVENT_FIELDS = (
    *(
        selectable_field(f"involvedObject.{name}")
        for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    ),
    selectable_field("reason"),
    selectable_field("reportingComponent"),
    Field("source", (("source", "component"), ("reportingComponent",))),
    selectable_field("type"),
)

# events.k8s.io/v1 speaks of the same stored objects in other words.
_EVENT_WORDS = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}


def _renamed(words: dict[str, str], api_version: str) -> Callable[[Document], Document]:
    def rename(document: Document) -> Document:
        return {words.get(name, name): value for name, value in document.items()} | {"apiVersion": api_version}

    return rename


_NEW_EVENTS = Conversion(
    inward=_renamed({new: old for old, new in _EVENT_WORDS.items()}, "v1"),
    outward=_renamed(_EVENT_WORDS, "events.k8s.io/v1"),
)


def _builtin(group_version: str, kind: str, plural: str, short: str = "", **traits: Any) -> ResourceType:
    group, _, version = group_version.rpartition("/")
    names = traits.pop("subresources", ())
    return ResourceType(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        short_names=tuple(short.split()),
        namespaced=traits.pop("namespaced", True),
        collection=traits.pop("collection", collection_name(plural, group)),
        subresources=tuple(each if isinstance(each, Subresource) else _named(each, kind) for each in names),
        list_kind=f"{kind}List",
        **traits,
    )


def _named(name: str, kind: str) -> Subresource:
    if name == "scale":
        return Subresource("scale", "Scale", "autoscaling", "v1")
    return Subresource(name, kind)


def _review(group: str, kind: str, plural: str, *, namespaced: bool = False) -> ResourceType:
    return _builtin(f"{group}/v1", kind, plural, namespaced=namespaced, verbs=("create",))


_ALL = ("all",)
_APPS: dict[str, Any] = {"subresources": _SCALED, "counts_generation": True, "categories": _ALL, "scale": ScalePaths()}
_GUARDED: dict[str, Any] = {"namespaced": False, "unconditional_update": False}

BUILTINS: tuple[ResourceType, ...] = (
    _builtin(
        "v1",
        "Pod",
        "pods",
        "po",
        categories=_ALL,
        subresources=(
            "status",
            Subresource("binding", "Binding", verbs=("create",)),
            Subresource("eviction", "Eviction", "policy", "v1", verbs=("create",)),
            Subresource("log", "Pod", verbs=("get",)),
            Subresource("ephemeralcontainers", "Pod"),
            Subresource("resize", "Pod"),
        ),
        fields=_POD_FIELDS,
        index="spec.nodeName",
        counts_generation=True,
        returns_deleted=True,
    ),
    _builtin("v1", "Binding", "bindings", verbs=("create",)),
    _builtin(
        "v1",
        "Node",
        "nodes",
        "no",
        namespaced=False,
        subresources=_STATUS,
        fields=(selectable_field("spec.unschedulable", absent="false"),),
        status_on_create=True,
    ),
    _builtin(
        "v1",
        "Namespace",
        "namespaces",
        "ns",
        namespaced=False,
        verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
        subresources=("status", Subresource("finalize", "Namespace", verbs=("update",))),
        fields=(selectable_field("status.phase"),),
        returns_deleted=True,
    ),
    _builtin("v1", "Event", "events", "ev", fields=_EVENT_FIELDS, create_on_update=True),
    _builtin(
        "events.k8s.io/v1",
        "Event",
        "events",
        "ev",
        fields=_EVENT_FIELDS,
        create_on_update=True,
        collection="events",
        conversion=_NEW_EVENTS,
    ),
    _builtin("v1", "ConfigMap", "configmaps", "cm"),
    _builtin("v1", "Secret", "secrets", fields=(selectable_field("type"),)),
    _builtin(
        "v1",
        "Service",
        "services",
        "svc",
        subresources=_STATUS,
        categories=_ALL,
        fields=(selectable_field("spec.clusterIP"), selectable_field("spec.type")),
        create_on_update=True,
        returns_deleted=True,
    ),
    _builtin(
        "v1",
        "ServiceAccount",
        "serviceaccounts",
        "sa",
        subresources=(Subresource("token", "TokenRequest", "authentication.k8s.io", "v1", verbs=("create",)),),
        returns_deleted=True,
    ),
    _builtin("v1", "Endpoints", "endpoints", "ep", create_on_update=True),
    _builtin(
        "v1",
        "PersistentVolume",
        "persistentvolumes",
        "pv",
        namespaced=False,
        subresources=_STATUS,
        returns_deleted=True,
    ),
    _builtin(
        "v1", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", subresources=_STATUS, returns_deleted=True
    ),
    _builtin(
        "v1",
        "ReplicationController",
        "replicationcontrollers",
        "rc",
        fields=(selectable_field("status.replicas", absent="0"),),
        **_APPS,
    ),
    _builtin("v1", "ResourceQuota", "resourcequotas", "quota", subresources=_STATUS, returns_deleted=True),
    _builtin("v1", "LimitRange", "limitranges", "limits", create_on_update=True),
    _builtin("v1", "PodTemplate", "podtemplates", counts_generation=True, returns_deleted=True),
    _builtin("apps/v1", "Deployment", "deployments", "deploy", **_APPS),
    _builtin(
        "apps/v1", "ReplicaSet", "replicasets", "rs", fields=(selectable_field("status.replicas", absent="0"),), **_APPS
    ),
    _builtin("apps/v1", "StatefulSet", "statefulsets", "sts", **_APPS),
    _builtin("apps/v1", "DaemonSet", "daemonsets", "ds", subresources=_STATUS, counts_generation=True, categories=_ALL),
    _builtin("apps/v1", "ControllerRevision", "controllerrevisions"),
    _builtin(
        "batch/v1",
        "Job",
        "jobs",
        subresources=_STATUS,
        counts_generation=True,
        categories=_ALL,
        fields=(Field("status.successful", (("status", "succeeded"),), "0"),),
    ),
    _builtin("batch/v1", "CronJob", "cronjobs", "cj", subresources=_STATUS, counts_generation=True, categories=_ALL),
    _builtin(
        "policy/v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        "pdb",
        subresources=_STATUS,
        counts_generation=True,
        unconditional_update=False,
    ),
    _builtin("coordination.k8s.io/v1", "Lease", "leases", unconditional_update=False, create_on_update=True),
    _builtin(
        "scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", "pc", namespaced=False, counts_generation=True
    ),
    _builtin("storage.k8s.io/v1", "StorageClass", "storageclasses", "sc", namespaced=False, returns_deleted=True),
    _builtin("storage.k8s.io/v1", "CSINode", "csinodes", returns_deleted=True, **_GUARDED),
    _builtin("storage.k8s.io/v1", "CSIDriver", "csidrivers", returns_deleted=True, **_GUARDED),
    _builtin("storage.k8s.io/v1", "CSIStorageCapacity", "csistoragecapacities", unconditional_update=False),
    _builtin(
        "storage.k8s.io/v1",
        "VolumeAttachment",
        "volumeattachments",
        subresources=_STATUS,
        returns_deleted=True,
        **_GUARDED,
    ),
    _builtin(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "crd crds",
        subresources=_STATUS,
        counts_generation=True,
        categories=("api-extensions",),
        **_GUARDED,
    ),
    _builtin("rbac.authorization.k8s.io/v1", "Role", "roles", create_on_update=True),
    _builtin("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", create_on_update=True),
    _builtin("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", namespaced=False, create_on_update=True),
    _builtin(
        "rbac.authorization.k8s.io/v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        namespaced=False,
        create_on_update=True,
    ),
    _builtin(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        subresources=_STATUS,
        counts_generation=True,
        categories=("api-extensions",),
        **_GUARDED,
    ),
    _builtin(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        counts_generation=True,
        categories=("api-extensions",),
        **_GUARDED,
    ),
    _builtin("networking.k8s.io/v1", "Ingress", "ingresses", "ing", subresources=_STATUS, counts_generation=True),
    _builtin("networking.k8s.io/v1", "IngressClass", "ingressclasses", namespaced=False, counts_generation=True),
    _builtin("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", "netpol", counts_generation=True),
    _builtin("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", counts_generation=True),
    _builtin(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        "hpa",
        subresources=_STATUS,
        categories=_ALL,
    ),
    _builtin(
        "node.k8s.io/v1",
        "RuntimeClass",
        "runtimeclasses",
        namespaced=False,
        create_on_update=True,
        unconditional_update=False,
    ),
    _builtin("metrics.k8s.io/v1beta1", "NodeMetrics", "nodes", namespaced=False, verbs=READ_VERBS),
    _builtin("metrics.k8s.io/v1beta1", "PodMetrics", "pods", verbs=READ_VERBS),
    _review("authorization.k8s.io", "SelfSubjectAccessReview", "selfsubjectaccessreviews"),
    _review("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews"),
    _review("authorization.k8s.io", "SelfSubjectRulesReview", "selfsubjectrulesreviews"),
    _review("authorization.k8s.io", "LocalSubjectAccessReview", "localsubjectaccessreviews", namespaced=True),
    _review("authentication.k8s.io", "SelfSubjectReview", "selfsubjectreviews"),
    _review("authentication.k8s.io", "TokenReview", "tokenreviews"),
)
