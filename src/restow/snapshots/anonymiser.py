"""Replaces the texts of a cluster by aliases, so that a snapshot can be given to others and gives the same answers.

Goes in: the objects of a cluster. Comes out: documents with only the fields that Restow reads, in which every text that
Kubernetes or Restow does not define has an alias. The same text has the same alias everywhere: selectors still match
their labels, owner references their owners, and host names their nodes. Aliases sort as the texts do, because ties are
broken by name. Numbers, quantities, times and the names of schedulers stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final

import msgspec
from msgspec import inspect

from restow.eviction import budgets, costs, job_backoff, protections
from restow.eviction.qos_and_priority import PRIORITY_CLASS_LABEL, QOS_LABEL, KoordinatorQos
from restow.migration.history import WORKLOAD_ANNOTATION
from restow.migration.job_annotations import PLAN_ANNOTATION, PRIORITY_ANNOTATION, WAVE_ANNOTATION
from restow.migration.reservation import JOB_LABEL, TARGET_ANNOTATION
from restow.model import objects, taints, volumes
from restow.model.cluster.owner_chains import GROUP_NAME_ANNOTATIONS
from restow.model.inventory import Inventory
from restow.model.kinds import ALL_KINDS, NODE, POD, Kind
from restow.model.objects import Document
from restow.model.pods import DELETION_COST, MIRROR
from restow.model.problems import type_info
from restow.model.queues import QUEUE_ANNOTATION
from restow.model.reservations import reservation_annotations
from restow.model.reservations.seat_name import SeatName
from restow.model.wire import to_document
from restow.planning.defragmentation_nodes import CRITICAL_LABEL
from restow.scheduling.gang_readiness import ROLE_ANNOTATION
from restow.scheduling.plugins.image_locality import with_tag

RewriteText = Callable[[str], str]
RewriteValue = Callable[[Any], Any]

_NAMING_ANNOTATIONS: Final = frozenset(
    {
        budgets.NO_PROTECTION,
        protections.EVICT,
        MIRROR,
        protections.PREFER_NO_EVICTION,
        protections.SOURCE,
        reservation_annotations.MIGRATING_ANNOTATION,
        reservation_annotations.MOVED_FROM_ANNOTATION,
        reservation_annotations.RESERVATION_UID_ANNOTATION,
        reservation_annotations.USE_RESERVATION_ANNOTATION,
        volumes.BIND_COMPLETED,
        volumes.BOUND_BY_CONTROLLER,
        volumes.CLASS_ANNOTATION,
        volumes.SELECTED_NODE,
        *GROUP_NAME_ANNOTATIONS,
        PLAN_ANNOTATION,
        QUEUE_ANNOTATION,
        ROLE_ANNOTATION,
        TARGET_ANNOTATION,
        WORKLOAD_ANNOTATION,
    }
)
_COUNTING_ANNOTATIONS: Final = frozenset(
    {
        costs.EVICTION_COST,
        job_backoff.FAILURES,
        reservation_annotations.MOVED_AT_ANNOTATION,
        DELETION_COST,
        PRIORITY_ANNOTATION,
        WAVE_ANNOTATION,
    }
)
"""Numbers and times."""

_LABEL_KEYS: Final = (
    *("kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "kubernetes.io/metadata.name"),
    *("beta.kubernetes.io/os", "beta.kubernetes.io/arch", "node.kubernetes.io/instance-type"),
    *("topology.kubernetes.io/zone", "topology.kubernetes.io/region"),
    *("failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"),
    *("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"),
    *(taints.NOT_READY, taints.UNREACHABLE, taints.UNSCHEDULABLE.key, "node.kubernetes.io/out-of-service"),
    *(taints.MEMORY_PRESSURE, taints.DISK_PRESSURE, taints.PID_PRESSURE, taints.NETWORK_UNAVAILABLE),
    *("statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "pod-template-hash"),
    *("controller-revision-hash", "batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index"),
    *(QOS_LABEL, PRIORITY_CLASS_LABEL, CRITICAL_LABEL, JOB_LABEL, "metadata.name"),
)
_LABEL_VALUES: Final = (
    *("true", "false", "yes", "linux", "windows", "amd64", "arm64", "api", "file", "http"),
    *("koord-prod", "koord-mid", "koord-batch", "koord-free", *KoordinatorQos.__members__),
)
_RESOURCES: Final = (
    *("cpu", "memory", "pods", "storage", "ephemeral-storage", "nvidia.com/gpu", "amd.com/gpu"),
    *("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory", "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"),
)
_NAMES: Final = (
    *("default", "kube-system", "kube-public", "kube-node-lease"),
    *("system-cluster-critical", "system-node-critical", "0.0.0.0", "::"),
)
_STORAGE: Final = (
    *("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod", "Filesystem", "Block", "Memory"),
    *("Immediate", "WaitForFirstConsumer", "Delete", "Retain", "Recycle", "Bound", "Lost", "Released"),
    *("kubernetes.io/no-provisioner", "kubernetes.io/aws-ebs", "kubernetes.io/gce-pd", "kubernetes.io/azure-disk"),
    *("kubernetes.io/cinder", "kubernetes.io/portworx-volume", "ebs.csi.aws.com", "pd.csi.storage.gke.io"),
    *("disk.csi.azure.com", "cinder.csi.openstack.org", "pxd.portworx.com", "rbd"),
)
_VERDICTS: Final = (
    *("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal"),
    *(taints.NO_SCHEDULE, taints.PREFER_NO_SCHEDULE, taints.NO_EXECUTE),
    *("DoNotSchedule", "ScheduleAnyway", "Honor", "Ignore"),
    *("Always", "Never", "OnFailure", "RestartAllContainers", "PreemptLowerPriority", "TCP", "UDP", "SCTP"),
    *("Guaranteed", "Burstable", "BestEffort", "AlwaysAllow", "IfHealthyBudget", "Foreground", "Background", "Orphan"),
    *("RollingUpdate", "Recreate", "OnDelete", "OrderedReady", "Parallel", "NonIndexed", "Indexed"),
    *("FailJob", "FailIndex", "Count", job_backoff.TRACKING),
)
_CONDITIONS: Final = (
    *("Active", "Terminating", "Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"),
    *("PodScheduled", "Initialized", "ContainersReady", "PodReadyToStartContainers", "DisruptionTarget"),
    *("PodResizePending", "PodResizeInProgress", "Infeasible", "Deferred", "Unschedulable", "SchedulingGated"),
    *("DisruptionAllowed", "SufficientPods", "InsufficientPods", "SyncFailed", "Evicted", "Preempted", "Expired"),
    *("Complete", "Suspended", "SuccessCriteriaMet", "FailureTarget", "Progressing", "ReplicaFailure", "Scheduled"),
)
_ENUMS: Final = (
    objects.ReservationPhase,
    objects.MatchPolicy,
    objects.JobMode,
    objects.JobPhase,
    objects.JobConditionType,
    objects.JobReason,
    objects.QueueState,
    objects.GuaranteePolicy,
    objects.PodGroupPhase,
    objects.ConditionStatus,
)
PUBLIC_TEXTS: Final = frozenset(
    chain(
        *(_LABEL_KEYS, _LABEL_VALUES, _RESOURCES, _NAMES, _STORAGE, _VERDICTS, _CONDITIONS),
        chain.from_iterable(map(str, values) for values in _ENUMS),
        *((kind.kind, kind.api_version) for kind in ALL_KINDS),
        ("CronJob",),
    )
)
"""Texts that Kubernetes, Koordinator, Volcano or Restow define. They say nothing about the owner of the cluster, and a
scheduler, or a reader of its answers, needs them as they are."""

_SEPARATOR: Final = re.compile(r"(/|__|\.kubernetes\.io(?=/|$)|^attachable-volumes-)")
"""Separators between the parts of a text (of a label key, a resource name, a list of zones, a seat). They stay as they
are, and each part has an alias of its own."""
_PUBLIC: Final = re.compile(r"hugepages-[0-9]+[KMGT]i", re.ASCII)
_COUNTED: Final = re.compile(r"-?[0-9]{1,10}|[-0-9]{10}T[:.0-9]{8,18}(Z|[-+][:0-9]{5})", re.ASCII)
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,19}", re.ASCII)
_UNREAD: Final = frozenset({"resource_version", "message", "description"})
_AS_WRITTEN: Final = frozenset(
    {
        (objects.PodSpec, "scheduler_name"),
        (objects.ReservationSpec, "scheduler_name"),
        (objects.NodeStatus, "declared_features"),
        (objects.NodeMetrics, "window"),
        (objects.PodMetrics, "window"),
    }
)
_IMAGES: Final = frozenset(
    {
        (objects.Container, "image"),
        (objects.EphemeralContainer, "image"),
        (objects.ImageVolume, "reference"),
        (objects.ContainerImage, "names"),
    }
)


class Anonymiser:
    """Goes through every object twice: first to collect the texts, then to replace them. Aliases can be numbered in the
    order of the texts only when all of them are known."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        collected: dict[str, None] = {}
        collector = _TextRewriter(
            lambda text: collected.setdefault(text) or text, PUBLIC_TEXTS, dict(_generated_claim_names(inventory))
        )
        for kind, item in _objects(inventory):
            collector.rewrite_document(kind, item)
        unchanged = PUBLIC_TEXTS | frozenset(_numbers_compared_as_texts(inventory, collector.comparisons))
        texts = sorted(text for text in collected if text not in unchanged)
        width = len(str(len(texts)))
        aliases = {text: f"x{number:0{width}d}" for number, text in enumerate(texts)}
        self._rewriter = _TextRewriter(lambda text: aliases.get(text, text), unchanged, collector.composed_names)

    def alias_of(self, text: str) -> str:
        """What a text is replaced by."""
        return self._rewriter.rewrite_text(text)

    def documents(self) -> Iterator[Document]:
        for kind, item in _objects(self._inventory):
            yield self._rewriter.rewrite_document(kind, item)


def _objects(inventory: Inventory) -> Iterator[tuple[Kind[Any], Any]]:
    return ((kind, item) for kind in inventory.kinds for item in inventory.of(kind))


def _generated_claim_names(inventory: Inventory) -> Iterator[tuple[str, tuple[str, str]]]:
    """The names of the claims of ephemeral volumes, each with the names of pod and volume that it is made of."""
    for pod in inventory.of(POD):
        for volume in pod.spec.volumes or ():
            if volume.ephemeral is not None:
                yield f"{pod.metadata.name}-{volume.name}", (pod.metadata.name, volume.name)


def _numbers_compared_as_texts(inventory: Inventory, comparisons: Iterable[tuple[str, list[str]]]) -> Iterator[str]:
    """Texts that are compared as numbers, and so cannot have an alias: the values of the operators Gt and Lt, and the
    node labels that such a requirement reads."""
    keys = set()
    for key, values in comparisons:
        keys.add(key)
        yield from filter(_INTEGER.fullmatch, values)
    for node in inventory.of(NODE):
        labels = node.metadata.labels or {}
        yield from (labels[key] for key in sorted(keys & labels.keys()) if _INTEGER.fullmatch(labels[key]))


class _TextRewriter:
    """Walks through objects as their types say, and rewrites their texts."""

    def __init__(
        self, rewrite_part: RewriteText, unchanged: frozenset[str], composed_names: dict[str, tuple[str, str]]
    ) -> None:
        """`rewrite_part` rewrites a text without separators. A composed name is rewritten part by part."""
        self._rewrite_part = rewrite_part
        self._unchanged = unchanged
        self._rewritten: dict[str, str] = {}
        self._struct_rewriters: dict[type[Any], RewriteValue] = {}
        self.composed_names = composed_names
        self.comparisons: list[tuple[str, list[str]]] = []
        """The keys and values of all requirements with Gt or Lt so far."""

    def rewrite_document(self, kind: Kind[Any], item: msgspec.Struct) -> Document:
        rewritten: Document = self._struct_rewriter(kind.type)(to_document(kind, item))
        return rewritten

    def rewrite_text(self, text: str) -> str:
        known = self._rewritten.get(text)
        if known is None:
            known = self._rewritten[text] = self._rewrite_new_text(text)
        return known

    def _rewrite_new_text(self, text: str) -> str:
        if not text or text in self._unchanged or _PUBLIC.fullmatch(text):
            return text
        if text in self.composed_names:
            return "-".join(map(self.rewrite_text, self.composed_names[text]))
        parts = _SEPARATOR.split(text)
        if len(parts) == 1:
            return self._rewrite_part(text)
        # With a group in the pattern, split() returns the separators as well, at the odd places.
        return "".join(part if place % 2 else self.rewrite_text(part) for place, part in enumerate(parts))

    def _rewrite_image(self, image: str) -> str:
        """One alias for the whole name: images are compared whole. Without a tag, an image is the latest."""
        return f"{self._rewrite_part(with_tag(image))}:1"

    def _rewrite_annotations(self, annotations: dict[str, str]) -> dict[str, str]:
        """The annotations that Restow reads. All others are left out, because they may hold whole objects."""
        rewritten: dict[str, str] = {}
        for key, value in annotations.items():
            if key in _NAMING_ANNOTATIONS or (key in _COUNTING_ANNOTATIONS and not _COUNTED.fullmatch(value)):
                rewritten[key] = self.rewrite_text(value)
            elif key in _COUNTING_ANNOTATIONS:
                rewritten[key] = value
            elif key == reservation_annotations.RESERVATION_ANNOTATION and (seat := SeatName.parse(value)):
                namespace, reservation, task = map(self.rewrite_text, (seat.namespace, seat.reservation, seat.task))
                rewritten[key] = str(SeatName(namespace, reservation, task, seat.index))
        return rewritten

    def _rewrite_requirement(self, requirement: Document, rewrite_members: RewriteValue) -> Document:
        if requirement.get("operator") in ("Gt", "Lt"):
            self.comparisons.append((requirement.get("key", ""), requirement.get("values") or []))
        rewritten: Document = rewrite_members(requirement)
        return rewritten

    # --- by type ------------------------------------------------------------------------------------------------------

    def _struct_rewriter(self, type: type[Any]) -> RewriteValue:
        rewriter = self._struct_rewriters.get(type)
        if rewriter is None:
            info = type_info(type)
            assert isinstance(info, inspect.StructType)
            rewriter = self._struct_rewriters[type] = self._members_rewriter(info)
        return rewriter

    def _members_rewriter(self, info: inspect.StructType) -> RewriteValue:
        unread = {member.encode_name for member in info.fields if member.name in _UNREAD}
        rewriters = {member.encode_name: self._member_rewriter(info.cls, member) for member in info.fields}

        def rewrite_members(value: Document) -> Document:
            return {
                name: item if (rewrite := rewriters.get(name)) is None or item is None else rewrite(item)
                for name, item in value.items()
                if name not in unread
            }

        if info.cls is objects.SelectorRequirement:
            return lambda value: self._rewrite_requirement(value, rewrite_members)
        return rewrite_members

    def _member_rewriter(self, owner: type[Any], member: inspect.Field) -> RewriteValue | None:
        if (owner, member.name) in _AS_WRITTEN:
            return None
        if (owner, member.name) in _IMAGES:
            return lambda value: (
                [self._rewrite_image(image) for image in value]
                if isinstance(value, list)
                else self._rewrite_image(value)
            )
        if (owner, member.name) == (objects.ObjectMeta, "annotations"):
            return self._rewrite_annotations
        return self._value_rewriter(member.type)

    def _value_rewriter(self, info: inspect.Type) -> RewriteValue | None:
        """How values of a type are rewritten; None if they stay as they are. Raises TypeError for a type that may hold
        texts in a way not known here: otherwise a new field could give names away."""
        while isinstance(info, inspect.Metadata):
            if (info.extra or {}).get("format"):  # quantities, times, durations, percentages
                return None
            info = info.type
        match info:
            case inspect.StrType():
                return self.rewrite_text
            case inspect.UnionType():
                options = [option for option in info.types if not isinstance(option, inspect.NoneType)]
                if len(options) == 1:
                    return self._value_rewriter(options[0])
            case inspect.StructType():
                return self._struct_rewriter(info.cls)
            case inspect.ListType():
                rewrite_item = self._value_rewriter(info.item_type)
                return rewrite_item and (lambda value: [rewrite_item(item) for item in value])
            case inspect.DictType():
                rewrite_member = self._value_rewriter(info.value_type)
                return lambda value: {
                    self.rewrite_text(key): item if rewrite_member is None or item is None else rewrite_member(item)
                    for key, item in value.items()
                }
            case inspect.IntType() | inspect.FloatType() | inspect.BoolType():
                return None
        raise TypeError(f"no rule says which texts a {info} contains")
