"""Sharing equal parts between decoded objects, so that a hundred thousand pods fit into memory.

Pods of one workload differ in their names and times and little else. In: a freshly decoded object without other
references to it. Out: the same object; its labels, owner references, containers, tolerations and so on are those
of an equal pod that was seen before. The tables are cleared when they grow past a limit, which costs memory, never
correctness.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
from msgspec.structs import force_setattr

from restow.model.objects import ObjectMeta, Pod, Volume

T = TypeVar("T")

_META_TEXTS = ("namespace", "generate_name", "creation_timestamp")
_META_PARTS = ("labels", "annotations", "owner_references", "finalizers")
_SPEC_TEXTS = ("node_name", "scheduler_name", "priority_class_name", "preemption_policy", "restart_policy")
_SPEC_PARTS = (
    "containers",
    "init_containers",
    "volumes",
    "node_selector",
    "affinity",
    "tolerations",
    "topology_spread_constraints",
    "overhead",
    "resources",
    "resource_claims",
)
_STATUS_TEXTS = ("phase", "qos_class", "start_time", "nominated_node_name")
_STATUS_PARTS = ("container_statuses", "init_container_statuses")
_CONDITION_TEXTS = ("type", "status", "reason", "last_transition_time")


class Interner:
    """Tables of parts seen before; one per cache, used from one task."""

    def __init__(self, limit: int = 50_000) -> None:
        self._limit = limit
        self._encode = msgspec.msgpack.Encoder().encode
        self._texts: dict[str, str] = {}
        self._parts: dict[str, dict[bytes, Any]] = {name: {} for name in (*_META_PARTS, *_SPEC_PARTS, *_STATUS_PARTS)}

    def share(self, value: T) -> T:
        """Replace parts of `value`, in place, by equal ones seen before. Only for objects without other references."""
        if isinstance(value, Pod):
            self._share_pod(value)
        else:
            metadata = getattr(value, "metadata", None)
            if isinstance(metadata, ObjectMeta):
                self._share_members(metadata, _META_TEXTS, _META_PARTS)
        return value

    def _share_pod(self, pod: Pod) -> None:
        self._share_members(pod.metadata, _META_TEXTS, _META_PARTS)
        if pod.spec.volumes:
            force_setattr(pod.spec, "volumes", _without_unread_volumes(pod.spec.volumes))
        self._share_members(pod.spec, _SPEC_TEXTS, _SPEC_PARTS)
        self._share_members(pod.status, _STATUS_TEXTS, _STATUS_PARTS)
        for condition in pod.status.conditions or ():
            self._share_members(condition, _CONDITION_TEXTS, ())

    def _share_members(self, holder: msgspec.Struct, texts: Iterable[str], parts: Iterable[str]) -> None:
        table = self._texts
        for name in texts:
            text = getattr(holder, name)
            if text is not None:
                shared = table.setdefault(text, text)
                if shared is not text:
                    force_setattr(holder, name, shared)
        if len(table) > self._limit:
            table.clear()
        for name in parts:
            part = getattr(holder, name)
            if part is not None:
                self._share_part(holder, name, part)

    def _share_part(self, holder: msgspec.Struct, name: str, part: Any) -> None:
        table = self._parts[name]
        try:
            key = self._encode(part)
        except OverflowError:  # an absurd number that JSON can carry and the key cannot; such a part is kept as it is
            return
        shared = table.setdefault(key, part)
        if shared is not part:
            force_setattr(holder, name, shared)
        elif len(table) > self._limit:
            table.clear()


def _without_unread_volumes(volumes: list[Volume]) -> list[Volume] | None:
    """The volumes except those of which only the name is read: these names differ from pod to pod."""
    kept = [volume for volume in volumes if volume != Volume(name=volume.name)]
    return kept or None
