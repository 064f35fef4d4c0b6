"""What the API server serves: one `ResourceType` per group, version and plural, with the traits its writes follow.

The traits are facts of upstream's registry strategies (pkg/registry/*/strategy.go and storage.go): which kinds count
generations, accept a status on creation, allow updates without a resourceVersion, may be created by PUT, and answer a
deletion with the object instead of a Status. `Catalog` is the living table: built-ins first, custom resources as their
definitions come and go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from restow.adapters.memory import errors
from restow.adapters.memory.documents.schema import CustomSchema
from restow.adapters.memory.store import Document, Field, Stored, encode
from restow.ports import Resource

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
READ_VERBS = ("get", "list")
UPDATE_VERBS = ("get", "patch", "update")


class Subresource(msgspec.Struct, frozen=True):
    """`group`, `version` and `kind` are those of the body, which for scale, eviction and binding is another kind."""

    name: str
    kind: str
    group: str = ""
    version: str = ""
    verbs: tuple[str, ...] = UPDATE_VERBS


class ScalePaths(msgspec.Struct, frozen=True):
    """Where a kind keeps what its Scale shows; `selector` may be a label selector object or its text form."""

    replicas: tuple[str, ...] = ("spec", "replicas")
    status_replicas: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] | None = ("spec", "selector")


class Conversion(msgspec.Struct, frozen=True):
    """Between the form a version is spoken in and the form it is stored in; both take and return a document."""

    inward: Callable[[Document], Document]
    outward: Callable[[Document], Document]


class ResourceType(msgspec.Struct, frozen=True, kw_only=True):
    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    collection: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    fields: tuple[Field, ...] = ()
    index: str | None = None
    counts_generation: bool = False
    status_on_create: bool = False
    unconditional_update: bool = True
    create_on_update: bool = False
    returns_deleted: bool = False
    scale: ScalePaths | None = None
    conversion: Conversion | None = None
    custom: CustomSchema | None = None
    definition: dict[str, Any] | None = None  # the version entry of a custom resource's definition
    list_kind: str = ""

    @property
    def resource(self) -> Resource:
        return Resource(self.group, self.version, self.plural)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def columns(self) -> list[dict[str, Any]]:
        """The additional printer columns of a custom resource's version."""
        return list((self.definition or {}).get("additionalPrinterColumns") or ())

    @property
    def has_status(self) -> bool:
        return any(each.name == "status" for each in self.subresources)

    def subresource(self, name: str) -> Subresource | None:
        return next((each for each in self.subresources if each.name == name), None)

    def outward(self, document: Document) -> Document:
        return self.conversion.outward(document) if self.conversion else document

    def inward(self, document: Document) -> Document:
        return self.conversion.inward(document) if self.conversion else document

    def render_all(self, objects: list[Stored]) -> list[bytes]:
        return [self.render(each) for each in objects] if self.conversion else [each.data for each in objects]

    def render(self, stored: Stored) -> bytes:
        return encode(self.conversion.outward(stored.document())) if self.conversion else stored.data

    def list_body(self, metadata: Document, bodies: list[bytes]) -> bytes:
        """A list of bodies. The items of built-ins do not repeat kind and apiVersion."""
        if self.custom is None:
            head = b'{"kind":"%s","apiVersion":"%s",' % (self.kind.encode(), self.api_version.encode())
            length = len(head)
            bodies = [b"{" + body[length:] if body.startswith(head) else body for body in bodies]
        start = encode({"kind": self.list_kind, "apiVersion": self.api_version, "metadata": metadata})
        return b'%s,"items":[%s]}' % (start[:-1], b",".join(bodies))


class Catalog:
    """The resources served right now, by path, by kind and by where they are stored."""

    def __init__(self, types: Iterable[ResourceType]) -> None:
        self._types: dict[Resource, ResourceType] = {}
        self._kinds: dict[tuple[str, str], ResourceType] = {}
        self._collections: dict[str, ResourceType] = {}
        for each in types:
            self.add(each)

    def __iter__(self) -> Iterator[ResourceType]:
        return iter([self._types[resource] for resource in sorted(self._types)])

    def add(self, served: ResourceType) -> None:
        self._types[served.resource] = served
        self._kinds.setdefault((served.group, served.kind), served)
        if served.conversion is None or served.collection not in self._collections:
            self._collections[served.collection] = served

    def keep(self, stored: ResourceType) -> None:
        """Say how the objects of a collection are stored, whether or not that form is served."""
        self._collections[stored.collection] = stored

    def discard(self, group: str, plural: str) -> None:
        gone = [each for each in self._types if (each.group, each.plural) == (group, plural)]
        for resource in gone:
            served = self._types.pop(resource)
            if self._kinds.get((served.group, served.kind)) is served:
                del self._kinds[served.group, served.kind]
        self._collections.pop(collection_name(plural, group), None)

    def find(self, resource: Resource) -> ResourceType:
        served = self._types.get(resource)
        if served is None:
            raise errors.unknown_resource()
        return served

    def of_collection(self, name: str) -> ResourceType:
        """The type that speaks the stored form."""
        return self._collections[name]

    def is_builtin(self, name: str) -> bool:
        """Whether a collection is the server's own, not that of a definition."""
        found = self._collections.get(name)
        return found is not None and found.custom is None

    def of_kind(self, group: str, kind: str) -> ResourceType | None:
        return self._kinds.get((group, kind))


def collection_name(plural: str, group: str) -> str:
    return errors.qualified(plural, group)


def field(label: str, *others: str, absent: str = "") -> Field:
    """A selectable field under its own path, or the first of `others` that is set."""
    return Field(label, tuple(tuple(path.split(".")) for path in (label, *others)), absent)


_STATUS = ("status",)
_SCALED = ("status", "scale")

_POD_FIELDS = (
    field("spec.nodeName"),
    field("spec.restartPolicy"),
    field("spec.schedulerName"),
    field("spec.serviceAccountName"),
    field("spec.hostNetwork", absent="false"),
    field("status.phase"),
    field("status.podIP"),
    field("status.nominatedNodeName"),
)
_EVENT_FIELDS = (
    *(
        field(f"involvedObject.{name}")
        for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    ),
    field("reason"),
    field("reportingComponent"),
    Field("source", (("source", "component"), ("reportingComponent",))),
    field("type"),
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
        fields=(field("spec.unschedulable", absent="false"),),
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
        fields=(field("status.phase"),),
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
    _builtin("v1", "Secret", "secrets", fields=(field("type"),)),
    _builtin(
        "v1",
        "Service",
        "services",
        "svc",
        subresources=_STATUS,
        categories=_ALL,
        fields=(field("spec.clusterIP"), field("spec.type")),
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
        fields=(field("status.replicas", absent="0"),),
        **_APPS,
    ),
    _builtin("v1", "ResourceQuota", "resourcequotas", "quota", subresources=_STATUS, returns_deleted=True),
    _builtin("v1", "LimitRange", "limitranges", "limits", create_on_update=True),
    _builtin("v1", "PodTemplate", "podtemplates", counts_generation=True, returns_deleted=True),
    _builtin("apps/v1", "Deployment", "deployments", "deploy", **_APPS),
    _builtin("apps/v1", "ReplicaSet", "replicasets", "rs", fields=(field("status.replicas", absent="0"),), **_APPS),
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
    _builtin("metrics.k8s.io/v1beta1", "NodeMetrics", "nodes", namespaced=False, verbs=READ_VERBS),
    _builtin("metrics.k8s.io/v1beta1", "PodMetrics", "pods", verbs=READ_VERBS),
    _review("authorization.k8s.io", "SelfSubjectAccessReview", "selfsubjectaccessreviews"),
    _review("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews"),
    _review("authorization.k8s.io", "SelfSubjectRulesReview", "selfsubjectrulesreviews"),
    _review("authorization.k8s.io", "LocalSubjectAccessReview", "localsubjectaccessreviews", namespaced=True),
    _review("authentication.k8s.io", "SelfSubjectReview", "selfsubjectreviews"),
    _review("authentication.k8s.io", "TokenReview", "tokenreviews"),
)
