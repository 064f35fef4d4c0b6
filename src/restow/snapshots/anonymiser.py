"""A cluster that may be shown to others: nothing readable about its owner stays, and every answer is the same.

Goes in: the objects of a cluster. Comes out: documents that hold only what Restow reads, in which every text that is
not known to everybody has an alias. The same text has the same alias wherever it stands, so that selectors find their
labels, owners their pods and host names their nodes. Aliases sort as the texts do, because ties are broken by name.
Numbers, quantities and times stay as they are, and so do the names of schedulers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final

import msgspec
from msgspec import inspect

from restow.eviction import budgets, costs, job_backoff, protections
from restow.eviction.qos_and_priority import PRIORITY_CLASS_LABEL, QOS_LABEL, Qos
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
from restow.model.wire import document
from restow.planning.defragmentation_nodes import CRITICAL_LABEL
from restow.scheduling.gang_readiness import ROLE_ANNOTATION
from restow.scheduling.plugins.image_locality import tagged

Name = Callable[[str], str]
Change = Callable[[Any], Any]

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
    *("koord-prod", "koord-mid", "koord-batch", "koord-free", *Qos.__members__),
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
KEPT: Final = frozenset(
    chain(
        *(_LABEL_KEYS, _LABEL_VALUES, _RESOURCES, _NAMES, _STORAGE, _VERDICTS, _CONDITIONS),
        chain.from_iterable(map(str, values) for values in _ENUMS),
        *((kind.kind, kind.api_version) for kind in ALL_KINDS),
        ("CronJob",),
    )
)
"""Texts that are known to everybody, and mean something to a scheduler or to whoever reads the answers."""

_SEPARATOR: Final = re.compile(r"(/|__|\.kubernetes\.io(?=/|$)|^attachable-volumes-)")
"""What stays between the parts of a text: of a key or a resource's name, of zones, of a seat."""
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
    """Looks at every object twice: for the texts there are, then to replace them."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        found: dict[str, None] = {}
        looking = _Rewriter(lambda text: found.setdefault(text) or text, KEPT, dict(_generated_claims(inventory)))
        for kind, item in _objects(inventory):
            looking.document(kind, item)
        kept = KEPT | frozenset(_compared(inventory, looking.comparisons))
        texts = sorted(text for text in found if text not in kept)
        width = len(str(len(texts)))
        aliases = {text: f"x{number:0{width}d}" for number, text in enumerate(texts)}
        self._rewriter = _Rewriter(lambda text: aliases.get(text, text), kept, looking.composed)

    def text(self, text: str) -> str:
        """What stands for a text."""
        return self._rewriter.text(text)

    def documents(self) -> Iterator[Document]:
        for kind, item in _objects(self._inventory):
            yield self._rewriter.document(kind, item)


def _objects(inventory: Inventory) -> Iterator[tuple[Kind[Any], Any]]:
    return ((kind, item) for kind in inventory.kinds for item in inventory.of(kind))


def _generated_claims(inventory: Inventory) -> Iterator[tuple[str, tuple[str, str]]]:
    """Names that are made of two others: those of claims that are made for one pod."""
    for pod in inventory.of(POD):
        for volume in pod.spec.volumes or ():
            if volume.ephemeral is not None:
                yield f"{pod.metadata.name}-{volume.name}", (pod.metadata.name, volume.name)


def _compared(inventory: Inventory, comparisons: Iterable[tuple[str, list[str]]]) -> Iterator[str]:
    """Texts that are compared as numbers: those that Gt and Lt name, and labels of nodes that they look at."""
    keys = set()
    for key, values in comparisons:
        keys.add(key)
        yield from filter(_INTEGER.fullmatch, values)
    for node in inventory.of(NODE):
        labels = node.metadata.labels or {}
        yield from (labels[key] for key in sorted(keys & labels.keys()) if _INTEGER.fullmatch(labels[key]))


class _Rewriter:
    """Goes through objects as their types say and replaces texts."""

    def __init__(self, atom: Name, kept: frozenset[str], composed: dict[str, tuple[str, str]]) -> None:
        self._atom = atom
        self._kept = kept
        self._known: dict[str, str] = {}
        self._structs: dict[type[Any], Change] = {}
        self.composed = composed
        self.comparisons: list[tuple[str, list[str]]] = []
        """The keys and values that Gt and Lt were seen with."""

    def document(self, kind: Kind[Any], item: msgspec.Struct) -> Document:
        changed: Document = self._struct(kind.type)(document(kind, item))
        return changed

    def text(self, text: str) -> str:
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self._replaced(text)
        return known

    def _replaced(self, text: str) -> str:
        if not text or text in self._kept or _PUBLIC.fullmatch(text):
            return text
        if text in self.composed:
            return "-".join(map(self.text, self.composed[text]))
        parts = _SEPARATOR.split(text)
        if len(parts) == 1:
            return self._atom(text)
        return "".join(part if number % 2 else self.text(part) for number, part in enumerate(parts))

    def _image(self, image: str) -> str:
        """One name, however many parts: images are compared whole, and one without a tag is the latest."""
        return f"{self._atom(tagged(image))}:1"

    def _annotations(self, written: dict[str, str]) -> dict[str, str]:
        """Those that are read; others may hold whole objects."""
        changed: dict[str, str] = {}
        for key, value in written.items():
            if key in _NAMING_ANNOTATIONS or (key in _COUNTING_ANNOTATIONS and not _COUNTED.fullmatch(value)):
                changed[key] = self.text(value)
            elif key in _COUNTING_ANNOTATIONS:
                changed[key] = value
            elif key == reservation_annotations.RESERVATION_ANNOTATION and (name := SeatName.parse(value)):
                parts = (self.text(name.namespace), self.text(name.reservation), self.text(name.task))
                changed[key] = str(SeatName(*parts, name.index))
        return changed

    def _requirement(self, requirement: Document, plain: Change) -> Document:
        if requirement.get("operator") in ("Gt", "Lt"):
            self.comparisons.append((requirement.get("key", ""), requirement.get("values") or []))
        changed: Document = plain(requirement)
        return changed

    # ---- types

    def _struct(self, type: type[Any]) -> Change:
        found = self._structs.get(type)
        if found is None:
            info = type_info(type)
            assert isinstance(info, inspect.StructType)
            found = self._structs[type] = self._members(info)
        return found

    def _members(self, info: inspect.StructType) -> Change:
        unread = {member.encode_name for member in info.fields if member.name in _UNREAD}
        changes = {member.encode_name: self._member(info.cls, member) for member in info.fields}

        def members(value: Document) -> Document:
            return {
                name: item if (change := changes.get(name)) is None or item is None else change(item)
                for name, item in value.items()
                if name not in unread
            }

        if info.cls is objects.SelectorRequirement:
            return lambda value: self._requirement(value, members)
        return members

    def _member(self, owner: type[Any], member: inspect.Field) -> Change | None:
        if (owner, member.name) in _AS_WRITTEN:
            return None
        if (owner, member.name) in _IMAGES:
            return lambda value: [self._image(one) for one in value] if isinstance(value, list) else self._image(value)
        if (owner, member.name) == (objects.ObjectMeta, "annotations"):
            return self._annotations
        return self._change(member.type)

    def _change(self, info: inspect.Type) -> Change | None:
        """What to do with values of a type; None if they stay as they are."""
        while isinstance(info, inspect.Metadata):
            if (info.extra or {}).get("mark"):  # quantities, times, durations, percentages
                return None
            info = info.type
        match info:
            case inspect.StrType():
                return self.text
            case inspect.UnionType():
                options = [one for one in info.types if not isinstance(one, inspect.NoneType)]
                if len(options) == 1:
                    return self._change(options[0])
            case inspect.StructType():
                return self._struct(info.cls)
            case inspect.ListType():
                item = self._change(info.item_type)
                return item and (lambda value: [item(one) for one in value])
            case inspect.DictType():
                member = self._change(info.value_type)
                return lambda value: {
                    self.text(key): one if member is None or one is None else member(one) for key, one in value.items()
                }
            case inspect.IntType() | inspect.FloatType() | inspect.BoolType():
                return None
        raise TypeError(f"nobody knows what would be readable in a {info}")
