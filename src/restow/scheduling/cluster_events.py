"""Cluster events, and which of them may make a refused pod schedulable (kube-scheduler's queueing hints).

Goes in: something that happened in the cluster, and the plugins that refused a pod. Comes out: whether to try again.
Each plugin registers events: a kind of object, what happened to it, and optionally a hint that looks closer. A plugin
that registers nothing is helped by every event: trying once too often is cheap, never trying again is not.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from restow.model.cluster.owner_chains import group_name
from restow.model.guarantees import is_rejected
from restow.model.objects import Node, Pod, PodGroup, Reservation, ReservationOwner, ReservationPhase, ReservationSpec
from restow.model.queues import locked_nodes, queue_name
from restow.model.selectors import SelectorError, label_selector


class EventResource(enum.Enum):
    """The kind of object that an event is about."""

    NODE = "Node"
    POD = "Pod"
    """A pod on a node, or one that was."""
    PENDING_POD = "PendingPod"
    VOLUME = "PersistentVolume"
    CLAIM = "PersistentVolumeClaim"
    STORAGE_CLASS = "StorageClass"
    CSI_NODE = "CSINode"
    CSI_DRIVER = "CSIDriver"
    CSI_CAPACITY = "CSIStorageCapacity"
    ATTACHMENT = "VolumeAttachment"
    NAMESPACE = "Namespace"
    POD_GROUP = "PodGroup"
    QUEUE = "Queue"
    RESERVATION = "Reservation"
    WILDCARD = "Anything"
    """Any of them: a list was read anew, so that it is not known what changed."""


class ActionType(enum.Flag):
    ADDED = enum.auto()
    UPDATED = enum.auto()
    DELETED = enum.auto()
    ANY = ADDED | UPDATED | DELETED


class ClusterEvent(msgspec.Struct, frozen=True):
    """Something happened to an object of the cluster."""

    resource: EventResource
    action: ActionType = ActionType.ANY
    old: Any = None
    new: Any = None


QueueingHint = Callable[[Pod, ClusterEvent], bool]


class ClusterEventWithHint(msgspec.Struct, frozen=True):
    """An event that may help a pod that a plugin refused."""

    resource: EventResource
    action: ActionType = ActionType.ANY
    hint: QueueingHint | None = None

    def matches(self, event: ClusterEvent) -> bool:
        return event.resource is self.resource and bool(event.action & self.action)

    def may_help(self, pod: Pod, event: ClusterEvent) -> bool:
        """Whether an event may help a pod; a hint that raises counts as yes."""
        if not self.matches(event):
            return False
        try:
            return self.hint is None or self.hint(pod, event)
        except Exception:  # the hint of a foreign plugin must not leave a pod waiting for ever
            return True


@runtime_checkable
class EnqueueExtensions(Protocol):
    """A plugin that registers the events that may help the pods that it refused."""

    def events_to_register(self) -> Sequence[ClusterEventWithHint]: ...


def is_node_unchanged_for_scheduling(old: Node, new: Node) -> bool:
    """Whether an update of a node, such as a heartbeat, changes nothing that scheduling reads."""
    return (
        old.metadata.labels == new.metadata.labels
        and old.spec == new.spec
        and old.status.allocatable == new.status.allocatable
        and old.status.declared_features == new.status.declared_features
    )


def _is_node_changed(pod: Pod, event: ClusterEvent) -> bool:
    return event.old is None or event.new is None or not is_node_unchanged_for_scheduling(event.old, event.new)


def _is_of_same_gang(pod: Pod, event: ClusterEvent) -> bool:
    changed = event.new or event.old
    return changed is None or (_gang(changed) == _gang(pod) and changed.metadata.namespace == pod.metadata.namespace)


def _gang(item: Any) -> str | None:
    return item.metadata.name if isinstance(item, PodGroup) else group_name(item)


def _is_of_same_namespace(pod: Pod, event: ClusterEvent) -> bool:
    changed = event.new or event.old
    return changed is None or changed.metadata.namespace == pod.metadata.namespace


def _makes_seats_available(event: ClusterEvent) -> bool:
    """Whether a reservation has become available, or an available one has other owners or another spec. Whatever plugin
    refused its owner's pods, they may get a seat there."""
    if event.resource is not EventResource.RESERVATION or not isinstance(event.new, Reservation):
        return False
    if event.new.status.state.phase != ReservationPhase.AVAILABLE:
        return False
    if not isinstance(event.old, Reservation) or event.old.status.state.phase != ReservationPhase.AVAILABLE:
        return True
    return _spec_and_owners(event.old) != _spec_and_owners(event.new)


def _spec_and_owners(reservation: Reservation) -> tuple[ReservationSpec, list[ReservationOwner] | None, int | None]:
    status = reservation.status
    return reservation.spec, status.observed_owners, status.observed_generation


def _may_be_of_owner(reservation: Reservation, pod: Pod) -> bool:
    """Whether a pod may belong to an owner of a reservation. Only the pod itself is known here, not its owner chain, so
    that a pod with any owner may."""
    if reservation.metadata.namespace != pod.metadata.namespace:
        return False
    if pod.metadata.owner_references or group_name(pod) is not None:
        return True
    return any(
        owner.object is not None or _selects(owner, pod.metadata.labels or {})
        for owner in reservation.spec.owners or ()
    )


def _selects(owner: ReservationOwner, labels: dict[str, str]) -> bool:
    try:
        return label_selector(owner.label_selector).matches(labels)
    except SelectorError:
        return False


def _changes_shares(pod: Pod, event: ClusterEvent) -> bool:
    """Whether a queue may use more now, or leaves more to others. The counts in its status do not matter."""
    old, new = event.old, event.new
    if old is None or new is None:
        return True
    return bool(old.spec != new.spec or old.status.state != new.status.state or is_rejected(old) != is_rejected(new))


def _unlocks(pod: Pod, event: ClusterEvent) -> bool:
    """Whether some nodes are not locked any more, or are now locked for a queue that may be the pod's own."""
    before, after = locked_nodes(event.old), locked_nodes(event.new)
    if before - after:
        return True
    name = event.new.metadata.name if event.new is not None else ""
    return bool(after - before) and (group_name(pod) is not None or queue_name(None, pod) == name)


def _frees_assumed_volumes(pod: Pod, event: ClusterEvent) -> bool:
    """Whether a pod that is gone may have had volumes assumed for it that were never written to the API."""
    return event.old is None or any(
        volume.persistent_volume_claim is not None or volume.ephemeral is not None
        for volume in event.old.spec.volumes or ()
    )


def _freed_room(*more: ClusterEventWithHint) -> tuple[ClusterEventWithHint, ...]:
    return (ClusterEventWithHint(EventResource.POD, ActionType.DELETED | ActionType.UPDATED), *_NODES, *more)


_NODES = (ClusterEventWithHint(EventResource.NODE, ActionType.ADDED | ActionType.UPDATED, _is_node_changed),)
_STORAGE = tuple(
    ClusterEventWithHint(resource)
    for resource in (
        EventResource.VOLUME,
        EventResource.CLAIM,
        EventResource.STORAGE_CLASS,
        EventResource.CSI_NODE,
        EventResource.CSI_DRIVER,
        EventResource.CSI_CAPACITY,
    )
)
_PODS_AND_TOPOLOGY = (
    ClusterEventWithHint(EventResource.POD),
    ClusterEventWithHint(EventResource.NODE, ActionType.ANY, _is_node_changed),
    ClusterEventWithHint(EventResource.NAMESPACE),
)
_SAME_GANG = tuple(
    ClusterEventWithHint(resource, ActionType.ANY, _is_of_same_gang)
    for resource in (EventResource.POD, EventResource.PENDING_POD, EventResource.POD_GROUP)
)

GANG, QUEUE, RESERVATION = "Gang", "Queue", "Reservation"
"""What refuses pods besides the plugins."""

BUILT_IN_EVENTS: Mapping[str, tuple[ClusterEventWithHint, ...]] = {
    "SchedulingGates": (),  # only the pod itself can change it
    "NodeUnschedulable": _NODES,
    "NodeName": _NODES,
    "TaintToleration": _NODES,
    "NodeAffinity": _NODES,
    "NodeReservation": (  # the plugin QueueNodeLock
        ClusterEventWithHint(EventResource.QUEUE, ActionType.ANY, _unlocks),
        ClusterEventWithHint(EventResource.POD_GROUP, ActionType.ANY, _is_of_same_gang),
        *_NODES,
    ),
    "NodePorts": _freed_room(),
    "NodeResourcesFit": _freed_room(),
    "VolumeRestrictions": _freed_room(ClusterEventWithHint(EventResource.CLAIM)),
    "NodeVolumeLimits": _freed_room(ClusterEventWithHint(EventResource.ATTACHMENT, ActionType.DELETED), *_STORAGE),
    "VolumeBinding": (
        *_NODES,
        *_STORAGE,
        ClusterEventWithHint(EventResource.POD, ActionType.DELETED, _frees_assumed_volumes),
    ),
    "VolumeZone": (*_NODES, *_STORAGE),
    "PodTopologySpread": _PODS_AND_TOPOLOGY,
    "InterPodAffinity": _PODS_AND_TOPOLOGY,
    GANG: _freed_room(*_SAME_GANG),
    QUEUE: _freed_room(
        ClusterEventWithHint(EventResource.QUEUE, ActionType.ANY, _changes_shares),
        ClusterEventWithHint(EventResource.POD_GROUP),
    ),
    RESERVATION: (
        ClusterEventWithHint(EventResource.RESERVATION, ActionType.ANY, _is_of_same_namespace),
        ClusterEventWithHint(EventResource.POD, ActionType.DELETED | ActionType.UPDATED, _is_of_same_namespace),
        ClusterEventWithHint(EventResource.POD_GROUP, ActionType.ANY, _is_of_same_gang),
        *_NODES,
    ),
}


class QueueingHints:
    """The events that every plugin has registered."""

    def __init__(self, registered: Mapping[str, Sequence[ClusterEventWithHint]] = BUILT_IN_EVENTS) -> None:
        self._registered = {name: tuple(events) for name, events in registered.items()}
        self._may_help: dict[tuple[frozenset[str], EventResource, ActionType], bool] = {}

    def may_help_any(self, plugins: frozenset[str], event: ClusterEvent) -> bool:
        """Whether an event of this kind can help any pod that these plugins refused; hints are not called."""
        if _makes_seats_available(event):
            return True
        key = (plugins, event.resource, event.action)
        known = self._may_help.get(key)
        if known is None:
            each = [self._registered.get(name) for name in plugins]
            known = not each or event.resource is EventResource.WILDCARD
            known = known or any(
                events is None or any(registered.matches(event) for registered in events) for events in each
            )
            self._may_help[key] = known
        return known

    def is_worth_requeuing(self, pod: Pod, plugins: Iterable[str], event: ClusterEvent) -> bool:
        """Whether an event may help a pod that these plugins refused."""
        if event.resource is EventResource.WILDCARD or (
            _makes_seats_available(event) and _may_be_of_owner(event.new, pod)
        ):
            return True
        refused = False
        for name in plugins:
            refused = True
            events = self._registered.get(name)
            if events is None or any(registered.may_help(pod, event) for registered in events):
                return True
        return not refused  # no plugin is known to have refused it: anything may have been the reason
