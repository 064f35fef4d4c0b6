"""Wake-ups: which news may make a refused pod schedulable.

Goes in: something that happened in the cluster, and the plugins that refused a pod. Comes out: whether to try again.
Each plugin has rules; a rule names a kind of object, what happened to it, and optionally a hint that looks closer. A
plugin without rules is woken by everything: trying once too often is cheap, never trying again is not.
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
    """What the news are about."""

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
    ANYTHING = "Anything"
    """News that cannot be told apart: a list was read anew."""


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
    """News that may help a pod which a plugin refused."""

    resource: EventResource
    action: ActionType = ActionType.ANY
    hint: QueueingHint | None = None

    def matches(self, news: ClusterEvent) -> bool:
        return news.resource is self.resource and bool(news.action & self.action)

    def may_help(self, pod: Pod, news: ClusterEvent) -> bool:
        """A hint that fails counts as yes."""
        if not self.matches(news):
            return False
        try:
            return self.hint is None or self.hint(pod, news)
        except Exception:  # a foreign hint must not strand a pod
            return True


@runtime_checkable
class EnqueueExtensions(Protocol):
    """A plugin that knows which news matter to it."""

    def events_to_register(self) -> Sequence[ClusterEventWithHint]: ...


def is_same_offer(old: Node, new: Node) -> bool:
    """Whether a change to a node makes no difference to what may go there."""
    return (
        old.metadata.labels == new.metadata.labels
        and old.spec == new.spec
        and old.status.allocatable == new.status.allocatable
        and old.status.declared_features == new.status.declared_features
    )


def _is_more_than_heartbeat(pod: Pod, news: ClusterEvent) -> bool:
    return news.old is None or news.new is None or not is_same_offer(news.old, news.new)


def _is_of_same_gang(pod: Pod, news: ClusterEvent) -> bool:
    other = news.new or news.old
    return other is None or (_gang(other) == _gang(pod) and other.metadata.namespace == pod.metadata.namespace)


def _gang(item: Any) -> str | None:
    return item.metadata.name if isinstance(item, PodGroup) else group_name(item)


def _is_of_same_namespace(pod: Pod, news: ClusterEvent) -> bool:
    other = news.new or news.old
    return other is None or other.metadata.namespace == pod.metadata.namespace


def _opens(news: ClusterEvent) -> bool:
    """Whether a reservation has become available, is for others than it was, or was changed, and decided about:
    whatever refused its owner's pods, a seat may be had there."""
    if news.resource is not EventResource.RESERVATION or not isinstance(news.new, Reservation):
        return False
    if news.new.status.state.phase != ReservationPhase.AVAILABLE:
        return False
    if not isinstance(news.old, Reservation) or news.old.status.state.phase != ReservationPhase.AVAILABLE:
        return True
    return _offer(news.old) != _offer(news.new)


def _offer(reservation: Reservation) -> tuple[ReservationSpec, list[ReservationOwner] | None, int | None]:
    status = reservation.status
    return reservation.spec, status.observed_owners, status.observed_generation


def _may_be_its(reservation: Reservation, pod: Pod) -> bool:
    """Whether a pod may turn out to be one of a reservation's owner; of whom it belongs to, only what it says itself is
    known here."""
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


def _changes_shares(pod: Pod, news: ClusterEvent) -> bool:
    """Whether a queue may have more now, or leave more to others; what is counted in its status is of no concern."""
    old, new = news.old, news.new
    if old is None or new is None:
        return True
    return bool(old.spec != new.spec or old.status.state != new.status.state or is_rejected(old) != is_rejected(new))


def _unlocks(pod: Pod, news: ClusterEvent) -> bool:
    """Whether some nodes are not locked any more, or are now locked for what may be the pod's own queue."""
    before, after = locked_nodes(news.old), locked_nodes(news.new)
    if before - after:
        return True
    name = news.new.metadata.name if news.new is not None else ""
    return bool(after - before) and (group_name(pod) is not None or queue_name(None, pod) == name)


def _gives_volumes_back(pod: Pod, news: ClusterEvent) -> bool:
    """Whether the pod that is gone may have been promised volumes, of which the API server was never told."""
    return news.old is None or any(
        volume.persistent_volume_claim is not None or volume.ephemeral is not None
        for volume in news.old.spec.volumes or ()
    )


def _room_freed(*more: ClusterEventWithHint) -> tuple[ClusterEventWithHint, ...]:
    return (ClusterEventWithHint(EventResource.POD, ActionType.DELETED | ActionType.UPDATED), *_NODES, *more)


_NODES = (ClusterEventWithHint(EventResource.NODE, ActionType.ADDED | ActionType.UPDATED, _is_more_than_heartbeat),)
_STORAGE = tuple(
    ClusterEventWithHint(thing)
    for thing in (
        EventResource.VOLUME,
        EventResource.CLAIM,
        EventResource.STORAGE_CLASS,
        EventResource.CSI_NODE,
        EventResource.CSI_DRIVER,
        EventResource.CSI_CAPACITY,
    )
)
_PODS_MOVED = (
    ClusterEventWithHint(EventResource.POD),
    ClusterEventWithHint(EventResource.NODE, ActionType.ANY, _is_more_than_heartbeat),
    ClusterEventWithHint(EventResource.NAMESPACE),
)
_GANGS = tuple(
    ClusterEventWithHint(thing, ActionType.ANY, _is_of_same_gang)
    for thing in (EventResource.POD, EventResource.PENDING_POD, EventResource.POD_GROUP)
)

GANG, QUEUE, RESERVATION = "Gang", "Queue", "Reservation"
"""Who refuses beside the plugins."""

BUILT_IN_EVENTS: Mapping[str, tuple[ClusterEventWithHint, ...]] = {
    "SchedulingGates": (),  # only the pod itself can change it
    "NodeUnschedulable": _NODES,
    "NodeName": _NODES,
    "TaintToleration": _NODES,
    "NodeAffinity": _NODES,
    "NodeReservation": (
        ClusterEventWithHint(EventResource.QUEUE, ActionType.ANY, _unlocks),
        ClusterEventWithHint(EventResource.POD_GROUP, ActionType.ANY, _is_of_same_gang),
        *_NODES,
    ),
    "NodePorts": _room_freed(),
    "NodeResourcesFit": _room_freed(),
    "VolumeRestrictions": _room_freed(ClusterEventWithHint(EventResource.CLAIM)),
    "NodeVolumeLimits": _room_freed(ClusterEventWithHint(EventResource.ATTACHMENT, ActionType.DELETED), *_STORAGE),
    "VolumeBinding": (
        *_NODES,
        *_STORAGE,
        ClusterEventWithHint(EventResource.POD, ActionType.DELETED, _gives_volumes_back),
    ),
    "VolumeZone": (*_NODES, *_STORAGE),
    "PodTopologySpread": _PODS_MOVED,
    "InterPodAffinity": _PODS_MOVED,
    GANG: _room_freed(*_GANGS),
    QUEUE: _room_freed(
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
    """The rules of every plugin."""

    def __init__(self, rules: Mapping[str, Sequence[ClusterEventWithHint]] = BUILT_IN_EVENTS) -> None:
        self._rules = {name: tuple(some) for name, some in rules.items()}
        self._concerned: dict[tuple[frozenset[str], EventResource, ActionType], bool] = {}

    def may_help_any(self, plugins: frozenset[str], news: ClusterEvent) -> bool:
        """Whether news of this kind can help any pod that these plugins refused; hints are not asked."""
        if _opens(news):
            return True
        key = (plugins, news.resource, news.action)
        known = self._concerned.get(key)
        if known is None:
            named = [self._rules.get(name) for name in plugins]
            known = not named or news.resource is EventResource.ANYTHING
            known = known or any(rules is None or any(one.matches(news) for one in rules) for rules in named)
            self._concerned[key] = known
        return known

    def is_worth_requeuing(self, pod: Pod, plugins: Iterable[str], news: ClusterEvent) -> bool:
        """Whether news may help a pod that these plugins refused."""
        if news.resource is EventResource.ANYTHING or (_opens(news) and _may_be_its(news.new, pod)):
            return True
        refused = False
        for name in plugins:
            refused = True
            rules = self._rules.get(name)
            if rules is None or any(rule.may_help(pod, news) for rule in rules):
                return True
        return not refused  # nobody is known to have refused it: anything may have been the reason
