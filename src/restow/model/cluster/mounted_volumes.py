"""The volumes that pods mount: which PersistentVolumeClaims and disks are in use on which row, and by which pods.

Goes in: occupants with volumes, as they come and go. Comes out: the rows where a claim is in use, the rows where
mounting a disk would be in conflict, what is mounted on a row, and which rows changed. Pods without such volumes cost
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import TypeVar

import msgspec

from restow.model.cluster.row_changes import RowChanges
from restow.model.cluster.rows import Rows
from restow.model.cluster.undo_log import UndoLog
from restow.model.disks import Disk, DiskKind, disks_conflict, disks_used
from restow.model.objects import Pod
from restow.model.volumes import claims_used

K = TypeVar("K")
V = TypeVar("V")


class PodMounts(msgspec.Struct, frozen=True, gc=False):
    """What one pod mounts."""

    claims: tuple[str, ...]
    """The keys of claims, "namespace/name"."""
    disks: tuple[Disk, ...]


def mounts_of(pod: Pod) -> PodMounts:
    namespace = pod.metadata.namespace or ""
    claims = dict.fromkeys(f"{namespace}/{use.name}" for use in claims_used(pod))
    return PodMounts(tuple(claims), tuple(dict.fromkeys(disks_used(pod))))


class MountedVolumes:
    __slots__ = ("_by_row", "_claims", "_disks", "_log", "changes")

    def __init__(self, log: UndoLog, rows: Rows) -> None:
        self._log = log
        self.changes = RowChanges(rows)
        self._by_row: dict[int, dict[str, PodMounts]] = {}
        self._claims: dict[str, dict[int, set[str]]] = {}
        self._disks: dict[tuple[DiskKind, str], dict[int, set[tuple[str, Disk]]]] = {}

    def mount(self, row: int, key: str, pod: Pod) -> None:
        """Count the volumes of an occupant as mounted on a row."""
        self._mount(row, key, mounts_of(pod))

    def unmount(self, row: int, key: str) -> None:
        """The inverse of `mount`."""
        mounted = self._by_row[row].pop(key)
        if not self._by_row[row]:
            del self._by_row[row]
        for claim in mounted.claims:
            _discard(self._claims, claim, row, key)
        for disk in mounted.disks:
            _discard(self._disks, disk.key, row, (key, disk))
        self.changes.touch(row)
        self._log.record(self._mount, row, key, mounted)

    def rows(self) -> Iterable[int]:
        """Rows where any volume is mounted."""
        return self._by_row.keys()

    def on(self, row: int) -> Iterable[PodMounts]:
        return self._by_row.get(row, {}).values()

    def users(self, claim: str) -> dict[int, set[str]]:
        """The keys of the occupants that use a claim, by row; not to be changed."""
        return self._claims.get(claim, {})

    def in_conflict(self, disks: Iterable[Disk]) -> Set[int]:
        """Rows where one of these disks is mounted in a way that conflicts with another mount."""
        return {
            row
            for disk in disks
            for row, holders in self._disks.get(disk.key, {}).items()
            if any(disks_conflict(disk, held) for _, held in holders)
        }

    def _mount(self, row: int, key: str, mounted: PodMounts) -> None:
        self._by_row.setdefault(row, {})[key] = mounted
        for claim in mounted.claims:
            self._claims.setdefault(claim, {}).setdefault(row, set()).add(key)
        for disk in mounted.disks:
            self._disks.setdefault(disk.key, {}).setdefault(row, set()).add((key, disk))
        self.changes.touch(row)
        self._log.record(self.unmount, row, key)


def _discard(table: dict[K, dict[int, set[V]]], key: K, row: int, value: V) -> None:
    rows = table[key]
    rows[row].discard(value)
    if not rows[row]:
        del rows[row]
    if not rows:
        del table[key]
