"""Owner chains: the owners of a pod, their owners, and so on; and the PodGroup of a pod.

Goes in: the metadata of objects that are owners, such as ReplicaSets, and PodGroups. Comes out: the chain of a pod.
"""

from __future__ import annotations

from collections.abc import Iterator

from restow.model.cluster.undo_log import UndoLog
from restow.model.object_key import key_of
from restow.model.objects import ObjectMeta, OwnerReference, Pod, PodGroup

GROUP_NAME_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")


class OwnerChains:
    """The owner references of objects by UID, and the PodGroups, as far as the API has shown them."""

    __slots__ = ("_groups", "_log", "_owners")

    def __init__(self, log: UndoLog) -> None:
        self._log = log
        self._owners: dict[str, tuple[OwnerReference, ...]] = {}
        self._groups: dict[tuple[str, str], PodGroup] = {}

    def put(self, metadata: ObjectMeta) -> bool:
        """Record the owners of an object; returns whether they changed."""
        owners = tuple(metadata.owner_references or ())
        if self._owners.get(metadata.uid) == owners:
            return False
        self._log.put(self._owners, metadata.uid, owners)
        return True

    def drop(self, uid: str) -> None:
        self._log.drop(self._owners, uid)

    def knows(self, uid: str) -> bool:
        """Whether the owners of an object were recorded."""
        return uid in self._owners

    def put_group(self, group: PodGroup) -> bool:
        key = key_of(group)
        old = self._groups.get(key)
        self._log.put(self._groups, key, group)
        return old is None or old.metadata.labels != group.metadata.labels

    def drop_group(self, namespace: str, name: str) -> None:
        self._log.drop(self._groups, (namespace, name))

    def group_of(self, pod: Pod) -> PodGroup | None:
        """The PodGroup that a pod belongs to, if it is known."""
        name = group_name(pod) if self._groups else None
        return None if name is None else self._groups.get((pod.metadata.namespace or "", name))

    def chain(self, pod: Pod) -> Iterator[OwnerReference]:
        """The owners of a pod, their owners, and so on, nearest first."""
        waiting = list(pod.metadata.owner_references or ())
        seen: set[str] = set()
        while waiting:
            owner = waiting.pop(0)
            if owner.uid not in seen:
                seen.add(owner.uid)
                yield owner
                waiting.extend(self._owners.get(owner.uid, ()))


def group_name(pod: Pod) -> str | None:
    """The name of the PodGroup that the annotations of a pod name; None without one."""
    annotations = pod.metadata.annotations
    return (
        next((annotations[key] for key in GROUP_NAME_ANNOTATIONS if annotations.get(key)), None)
        if annotations
        else None
    )
