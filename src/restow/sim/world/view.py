"""The rules' view of the cluster: one cache per kind, fed by informers and by the answers to the world's own writes.

Answers to writes are applied at once, so a rule never acts twice on the same state: the pod that it created a moment
ago exists, the pod that it deleted is leaving, whether or not the watch has shown that yet. An object that is known
only from an answer is later compared with the informer, because it may have been deleted before the watch ever showed
it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

from restow.client.cache import Cache, Change, by_namespace, by_node, is_older
from restow.client.informer import Informer
from restow.client.verbs import WatchEvent
from restow.model.affinity import node_constraint
from restow.model.kinds import NODE, POD, Kind
from restow.model.object_key import Key, key_of
from restow.model.objects import Node, Object, Pod
from restow.model.pods import controller_of
from restow.model.resources import Vector, pod_requests
from restow.model.selectors import LabelSelector
from restow.ports import Clock
from restow.sim.world.creation_backoff import CreationBackoff

T = TypeVar("T", bound=Object)


def _by_controller(item: Object) -> Iterable[str]:
    owner = controller_of(item)
    return (owner.uid,) if owner else ()


def _orphans(item: Object) -> Iterable[str]:
    return () if controller_of(item) else (item.metadata.namespace or "",)


def pinned_node(pod: Pod) -> str | None:
    """The node a DaemonSet made this pod for, also while it is not bound."""
    names = node_constraint(pod.spec).pinned()
    return pod.spec.node_name or (min(names) if names else None)


def creator_of(pod: Pod) -> str | None:
    """The controller that created a pod and would create it again; for a DaemonSet, together with the node."""
    owner = controller_of(pod)
    if owner is None:
        return None
    return daemon_creator(owner.uid, pinned_node(pod) or "") if owner.kind == "DaemonSet" else owner.uid


def daemon_creator(uid: str, node: str) -> str:
    return f"{uid}/{node}"


def _by_creator(item: Object) -> Iterable[str]:
    return filter(None, (creator_of(cast(Pod, item)),))


def _by_label(item: Object) -> Iterable[str]:
    meta = item.metadata
    return [f"{meta.namespace}/{key}={value}" for key, value in (meta.labels or {}).items()]


def _by_claim(item: Object) -> Iterable[str]:
    pod = cast(Pod, item)
    claims = (volume.persistent_volume_claim for volume in pod.spec.volumes or ())
    return {f"{pod.metadata.namespace}/{claim.claim_name}": None for claim in claims if claim}


class View:
    """The caches, the time and the randomness that rules decide by."""

    def __init__(self, kinds: Iterable[Kind[Any]], clock: Clock, rng: random.Random) -> None:
        self.rng = rng
        self.creation_backoff = CreationBackoff()
        self._clock = clock
        self._leaving: set[str] = set()
        self._unconfirmed: dict[tuple[Kind[Any], Key], str] = {}
        self._requests: dict[str, tuple[str, Vector]] = {}
        indexes = {"controller": _by_controller, "orphans": _orphans, "namespace": by_namespace}
        of_pods = {"node": by_node, "claim": _by_claim, "maker": _by_creator, "label": _by_label}
        self._caches: dict[Kind[Any], Cache[Any]] = {
            kind: Cache(indexes | of_pods if kind == POD else indexes) for kind in kinds
        }

    @property
    def now(self) -> float:
        return self._clock.now()

    # ---- reading

    def all(self, kind: Kind[T]) -> Cache[T]:
        return cast("Cache[T]", self._caches[kind])

    def get(self, kind: Kind[T], key: Key) -> T | None:
        return self.all(kind).get(key)

    def node(self, name: str | None) -> Node | None:
        return self.get(NODE, ("", name or ""))

    def owned(self, kind: Kind[T], uid: str) -> list[T]:
        """The objects that the object with this uid controls."""
        return self.all(kind).find("controller", uid)

    def orphans(self, kind: Kind[T], namespace: str) -> list[T]:
        """Objects without a controller."""
        return self.all(kind).find("orphans", namespace)

    def inside(self, kind: Kind[T], namespace: str) -> list[T]:
        return self.all(kind).find("namespace", namespace)

    def pods_on(self, node: str) -> list[Pod]:
        """The pods bound to a node; those bound to none have the empty name."""
        return self.all(POD).find("node", node)

    def pods_selected(self, namespace: str, selector: LabelSelector, equal: Mapping[str, str]) -> list[Pod]:
        """The pods a selector selects; `equal` are the labels it demands, of which the rarest is looked up."""
        pods = self.all(POD)
        labelled = [pods.find("label", f"{namespace}/{key}={value}") for key, value in equal.items()]
        candidates = min(labelled, key=len) if labelled else self.inside(POD, namespace)
        return [pod for pod in candidates if selector.matches(pod.metadata.labels)]

    def daemons(self, uid: str, node: str) -> list[Pod]:
        """The pods that a DaemonSet made for a node."""
        return self.all(POD).find("maker", daemon_creator(uid, node))

    def requests(self, pod: Pod) -> Vector:
        """What a pod asks of its node, computed once per version of the pod."""
        meta = pod.metadata
        known = self._requests.get(meta.uid)
        if known is None or known[0] != meta.resource_version:
            known = self._requests[meta.uid] = (meta.resource_version, pod_requests(pod))
        return known[1]

    def pods_using(self, namespace: str, claim: str) -> list[Pod]:
        return self.all(POD).find("claim", f"{namespace}/{claim}")

    def creation_pause(self, creator: str) -> float:
        """Seconds until a controller that lost pods right after it created them should create more; 0 if it may now."""
        return self.creation_backoff.seconds_left(creator, self.now)

    def is_leaving(self, item: Object) -> bool:
        """Whether the object is being deleted, as the API says or as we asked."""
        return item.metadata.deletion_timestamp is not None or item.metadata.uid in self._leaving

    # ---- changes

    def learn(self, kind: Kind[Any], change: Change[Any]) -> list[Change[Any]]:
        """Apply a watch event; returns the changes that it made."""
        item: Object = change.object
        if change.type == "DELETED":
            self._leaving.discard(item.metadata.uid)
            self._requests.pop(item.metadata.uid, None)
            held = self.get(kind, key_of(item))
            if held is not None and held.metadata.uid == item.metadata.uid:
                item = held  # it is gone, even if an answer to a write of ours had a newer version
        return self._caches[kind].apply(WatchEvent(change.type, item))

    def learn_written(self, kind: Kind[Any], item: Object) -> list[Change[Any]]:
        """Apply the answer to a write of ours; returns the changes that it made."""
        cache = self._caches.get(kind)
        changes = cache.apply(WatchEvent("MODIFIED", item)) if cache is not None else []
        if changes:
            self._unconfirmed[kind, key_of(item)] = item.metadata.resource_version
        return changes

    @property
    def is_confirmed(self) -> bool:
        """Whether the informers have seen the results of all our writes."""
        return not self._unconfirmed

    def missing(self, informer: Informer[Any]) -> list[Any]:
        """Objects that are known from our writes, but not to an informer that is newer: they are probably gone."""
        suspects: list[Any] = []
        for (kind, key), version in list(self._unconfirmed.items()):
            if kind != informer.kind or informer.version is None or is_older(informer.version, version):
                continue
            held, seen = self.get(kind, key), informer.get(key[1], key[0])
            if held is None or (seen is not None and seen.metadata.uid == held.metadata.uid):
                del self._unconfirmed[kind, key]
            else:
                suspects.append(held)
        return suspects

    def learn_deleted(self, uid: str) -> None:
        """Our deletion was accepted: the object is leaving."""
        self._leaving.add(uid)
