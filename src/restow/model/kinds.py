"""The kinds Restow speaks: where each lives in the API and which Struct reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from restow.model import objects

T = TypeVar("T")


class Kind(Struct, Generic[T], frozen=True, kw_only=True):
    """One kind of API object: its group ("" for core), version, names and the type that reads it."""

    group: str = ""
    version: str = "v1"
    kind: str
    plural: str
    namespaced: bool
    type: type[T]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified_name(self) -> str:
        """The plural with its group, as kubectl and CRD names write it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def whole(self) -> Kind[objects.Document]:
        """The same, read with all that a server says of it."""
        return replace(cast(Kind[Any], self), type=objects.Document)

    def __str__(self) -> str:
        return f"{self.api_version} {self.kind}"


POD = Kind(kind="Pod", plural="pods", namespaced=True, type=objects.Pod, short_names=("po",), categories=("all",))
NODE = Kind(kind="Node", plural="nodes", namespaced=False, type=objects.Node, short_names=("no",))
NAMESPACE = Kind(kind="Namespace", plural="namespaces", namespaced=False, type=objects.Namespace, short_names=("ns",))
EVENT = Kind(kind="Event", plural="events", namespaced=True, type=objects.Event, short_names=("ev",))
CONFIG_MAP = Kind(kind="ConfigMap", plural="configmaps", namespaced=True, type=objects.ConfigMap, short_names=("cm",))
SECRET = Kind(kind="Secret", plural="secrets", namespaced=True, type=objects.MetadataOnly)
SERVICE_ACCOUNT = Kind(
    kind="ServiceAccount", plural="serviceaccounts", namespaced=True, type=objects.MetadataOnly, short_names=("sa",)
)
SERVICE = Kind(
    kind="Service",
    plural="services",
    namespaced=True,
    type=objects.Service,
    short_names=("svc",),
    categories=("all",),
)
PERSISTENT_VOLUME = Kind(
    kind="PersistentVolume",
    plural="persistentvolumes",
    namespaced=False,
    type=objects.PersistentVolume,
    short_names=("pv",),
)
PERSISTENT_VOLUME_CLAIM = Kind(
    kind="PersistentVolumeClaim",
    plural="persistentvolumeclaims",
    namespaced=True,
    type=objects.PersistentVolumeClaim,
    short_names=("pvc",),
)
REPLICATION_CONTROLLER = Kind(
    kind="ReplicationController",
    plural="replicationcontrollers",
    namespaced=True,
    type=objects.ReplicationController,
    short_names=("rc",),
    categories=("all",),
)
REPLICA_SET = Kind(
    group="apps",
    kind="ReplicaSet",
    plural="replicasets",
    namespaced=True,
    type=objects.ReplicaSet,
    short_names=("rs",),
    categories=("all",),
)
DEPLOYMENT = Kind(
    group="apps",
    kind="Deployment",
    plural="deployments",
    namespaced=True,
    type=objects.Deployment,
    short_names=("deploy",),
    categories=("all",),
)
STATEFUL_SET = Kind(
    group="apps",
    kind="StatefulSet",
    plural="statefulsets",
    namespaced=True,
    type=objects.StatefulSet,
    short_names=("sts",),
    categories=("all",),
)
DAEMON_SET = Kind(
    group="apps",
    kind="DaemonSet",
    plural="daemonsets",
    namespaced=True,
    type=objects.DaemonSet,
    short_names=("ds",),
    categories=("all",),
)
JOB = Kind(group="batch", kind="Job", plural="jobs", namespaced=True, type=objects.Job, categories=("all",))
POD_DISRUPTION_BUDGET = Kind(
    group="policy",
    kind="PodDisruptionBudget",
    plural="poddisruptionbudgets",
    namespaced=True,
    type=objects.PodDisruptionBudget,
    short_names=("pdb",),
)
POD_UNAVAILABLE_BUDGET = Kind(
    group="policy.kruise.io",
    version="v1alpha1",
    kind="PodUnavailableBudget",
    plural="podunavailablebudgets",
    namespaced=True,
    type=objects.PodUnavailableBudget,
    short_names=("pub",),
)
LEASE = Kind(group="coordination.k8s.io", kind="Lease", plural="leases", namespaced=True, type=objects.Lease)
PRIORITY_CLASS = Kind(
    group="scheduling.k8s.io",
    kind="PriorityClass",
    plural="priorityclasses",
    namespaced=False,
    type=objects.PriorityClass,
    short_names=("pc",),
)
STORAGE_CLASS = Kind(
    group="storage.k8s.io",
    kind="StorageClass",
    plural="storageclasses",
    namespaced=False,
    type=objects.StorageClass,
    short_names=("sc",),
)
CSI_NODE = Kind(group="storage.k8s.io", kind="CSINode", plural="csinodes", namespaced=False, type=objects.CSINode)
CSI_DRIVER = Kind(
    group="storage.k8s.io", kind="CSIDriver", plural="csidrivers", namespaced=False, type=objects.CSIDriver
)
CSI_STORAGE_CAPACITY = Kind(
    group="storage.k8s.io",
    kind="CSIStorageCapacity",
    plural="csistoragecapacities",
    namespaced=True,
    type=objects.CSIStorageCapacity,
)
VOLUME_ATTACHMENT = Kind(
    group="storage.k8s.io",
    kind="VolumeAttachment",
    plural="volumeattachments",
    namespaced=False,
    type=objects.VolumeAttachment,
)
CUSTOM_RESOURCE_DEFINITION = Kind(
    group="apiextensions.k8s.io",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    namespaced=False,
    type=objects.CustomResourceDefinition,
    short_names=("crd", "crds"),
)
POD_METRICS = Kind(
    group="metrics.k8s.io",
    version="v1beta1",
    kind="PodMetrics",
    plural="pods",
    namespaced=True,
    type=objects.PodMetrics,
)
NODE_METRICS = Kind(
    group="metrics.k8s.io",
    version="v1beta1",
    kind="NodeMetrics",
    plural="nodes",
    namespaced=False,
    type=objects.NodeMetrics,
)
RESERVATION = Kind(
    group="batch.volcano.sh",
    version="v1alpha1",
    kind="Reservation",
    plural="reservations",
    namespaced=True,
    type=objects.Reservation,
    short_names=("resv",),
    categories=("restow",),
)
QUEUE = Kind(
    group="scheduling.volcano.sh",
    version="v1beta1",
    kind="Queue",
    plural="queues",
    namespaced=False,
    type=objects.Queue,
    short_names=("q",),
    categories=("restow",),
)
POD_GROUP = Kind(
    group="scheduling.volcano.sh",
    version="v1beta1",
    kind="PodGroup",
    plural="podgroups",
    namespaced=True,
    type=objects.PodGroup,
    short_names=("pg",),
    categories=("restow",),
)
POD_MIGRATION_JOB = Kind(
    group="scheduling.koordinator.sh",
    version="v1alpha1",
    kind="PodMigrationJob",
    plural="podmigrationjobs",
    namespaced=False,
    type=objects.PodMigrationJob,
    short_names=("pmj",),
    categories=("restow",),
)

TOKEN_REVIEW = Kind(
    group="authentication.k8s.io",
    kind="TokenReview",
    plural="tokenreviews",
    namespaced=False,
    type=objects.TokenReview,
)
SUBJECT_ACCESS_REVIEW = Kind(
    group="authorization.k8s.io",
    kind="SubjectAccessReview",
    plural="subjectaccessreviews",
    namespaced=False,
    type=objects.SubjectAccessReview,
)

OWN_KINDS: tuple[Kind[Any], ...] = (RESERVATION, QUEUE, POD_GROUP, POD_MIGRATION_JOB)
OPTIONAL_KINDS: tuple[Kind[Any], ...] = (*OWN_KINDS, POD_UNAVAILABLE_BUDGET)
"""Those that a cluster may not have, and then there are none."""
WORKLOADS: tuple[Kind[Any], ...] = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET, REPLICATION_CONTROLLER, JOB)
"""What makes pods anew, somewhere else, when they are evicted."""
OWNERS: tuple[Kind[Any], ...] = (*WORKLOADS, DAEMON_SET)
"""What owns pods: those, and what makes them anew on the same node."""
STORAGE: tuple[Kind[Any], ...] = (
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    CSI_NODE,
    CSI_DRIVER,
    CSI_STORAGE_CAPACITY,
    VOLUME_ATTACHMENT,
)
"""What decides where volumes can be."""
BUDGETS: tuple[Kind[Any], ...] = (POD_DISRUPTION_BUDGET, POD_UNAVAILABLE_BUDGET)
ALL_KINDS: tuple[Kind[Any], ...] = (
    POD,
    NODE,
    NAMESPACE,
    EVENT,
    CONFIG_MAP,
    SECRET,
    SERVICE_ACCOUNT,
    SERVICE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    REPLICATION_CONTROLLER,
    REPLICA_SET,
    DEPLOYMENT,
    STATEFUL_SET,
    DAEMON_SET,
    JOB,
    POD_DISRUPTION_BUDGET,
    POD_UNAVAILABLE_BUDGET,
    LEASE,
    PRIORITY_CLASS,
    STORAGE_CLASS,
    CSI_NODE,
    CSI_DRIVER,
    CSI_STORAGE_CAPACITY,
    VOLUME_ATTACHMENT,
    CUSTOM_RESOURCE_DEFINITION,
    POD_METRICS,
    NODE_METRICS,
    *OWN_KINDS,
)

_BY_NAME = {(kind.api_version, kind.kind): kind for kind in ALL_KINDS}


class UnknownKind(ValueError):
    """No kind of that apiVersion and name is known; the message says which are close."""


def kind_of(api_version: str, kind: str, known: Sequence[Kind[Any]] = ALL_KINDS) -> Kind[Any]:
    """The kind an object's apiVersion and kind name. Raises UnknownKind."""
    named = _BY_NAME.get((api_version, kind))
    if named is not None and named in known:
        return named
    close = sorted(str(other) for other in known if other.kind.lower() == kind.lower())
    hint = f"; known is {', '.join(close)}" if close else ""
    raise UnknownKind(f"unknown kind {kind!r} in apiVersion {api_version!r}{hint}")
