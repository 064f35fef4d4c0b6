"""Pending pods that the watch showed before one of their owners.

Goes in: pods with the part of their owner chain that is known, and owners as they appear. Comes out: the pods to try
again. Reservations match pods by the whole owner chain (a Deployment behind a ReplicaSet), and watches of different
kinds are not ordered: so a pod may arrive before the object that entitles it to a seat.
"""

from __future__ import annotations

from collections.abc import Iterable

from restow.model import kinds
from restow.model.objects import ObjectMeta, OwnerReference
from restow.model.snapshot import Snapshot

_OWNER_KINDS = frozenset(kind.kind for kind in kinds.OWNERS)
"""The kinds that stand between a pod and the object that a reservation names as its owner."""


class PodsAwaitingOwners:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._pods: dict[str, set[str]] = {}
        """UIDs of the pods that await an owner, by the UID of the owner."""
        self._owners: dict[str, set[str]] = {}
        """UIDs of the owners that a pod awaits, by the UID of the pod."""

    def await_unseen_owners(self, pod_uid: str, owners: Iterable[OwnerReference]) -> None:
        """Note which of these owners of a pod were not seen yet."""
        for owner in owners:
            if owner.kind in _OWNER_KINDS and not self._snapshot.owner_chains.knows(owner.uid):
                self._pods.setdefault(owner.uid, set()).add(pod_uid)
                self._owners.setdefault(pod_uid, set()).add(owner.uid)

    def owner_seen(self, owner: ObjectMeta) -> list[str]:
        """The UIDs of the pods that awaited this owner. They may now await the owner of that owner."""
        pods = sorted(self._pods.pop(owner.uid, ()))
        for uid in pods:
            self._owners[uid].discard(owner.uid)
            self.await_unseen_owners(uid, owner.owner_references or ())
            if not self._owners[uid]:
                del self._owners[uid]
        return pods

    def forget(self, pod_uid: str) -> None:
        """The pod is not pending any more."""
        for owner in self._owners.pop(pod_uid, ()):
            self._pods[owner].discard(pod_uid)
            if not self._pods[owner]:
                del self._pods[owner]
