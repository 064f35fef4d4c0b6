"""Mounts: which claims and disks are used on which row, and by whom.

Goes in: occupants with volumes, as they come and go. Comes out: the rows where a claim is used, the rows where mounting
a disk would be in conflict, what is mounted on a row, and which rows changed. Pods without such volumes cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import TypeVar

import msgspec

from restow.model.cluster.row_changes import RowChanges
from restow.model.cluster.rows import Rows
from restow.model.cluster.undo_log import UndoLog
from restow.model.disks import Disk, DiskKind, conflicts, disks_used
from restow.model.objects import Pod
from restow.model.volumes import claims_used

K = TypeVar("K")
V = TypeVar("V")


class PodMounts(msgspec.Struct, frozen=True, gc=False):
    """What one pod mounts."""

    claims: tuple[str, ...]
    """Keys, "namespace/name"."""
    disks: tuple[Disk, ...]


def mounted_by(pod: Pod) -> PodMounts:
    namespace = pod.metadata.namespace or ""
    claims = dict.fromkeys(f"{namespace}/{use.name}" for use in claims_used(pod))
    return PodMounts(tuple(claims), tuple(dict.fromkeys(disks_used(pod))))


class MountedVolumes:
    __slots__ = ("_claims", "_disks", "_log", "_on", "changes")

    def __init__(self, log: UndoLog, rows: Rows) -> None:
        self._log = log
        self.changes = RowChanges(rows)
        self._on: dict[int, dict[str, PodMounts]] = {}
        self._claims: dict[str, dict[int, set[str]]] = {}
        self._disks: dict[tuple[DiskKind, str], dict[int, set[tuple[str, Disk]]]] = {}

    def take(self, row: int, key: str, pod: Pod) -> None:
        """Count what an occupant mounts as mounted on a row."""
        self._take(row, key, mounted_by(pod))

    def release(self, row: int, key: str) -> None:
        """The inverse of `take`."""
        mounted = self._on[row].pop(key)
        if not self._on[row]:
            del self._on[row]
        for claim in mounted.claims:
            _discard(self._claims, claim, row, key)
        for disk in mounted.disks:
            _discard(self._disks, disk.key, row, (key, disk))
        self.changes.touch(row)
        self._log.record(self._take, row, key, mounted)

    def rows(self) -> Iterable[int]:
        """Rows where anything is mounted."""
        return self._on.keys()

    def on(self, row: int) -> Iterable[PodMounts]:
        return self._on.get(row, {}).values()

    def users(self, claim: str) -> dict[int, set[str]]:
        """Who uses a claim, by row; not to be changed."""
        return self._claims.get(claim, {})

    def in_conflict(self, disks: Iterable[Disk]) -> Set[int]:
        """Rows where somebody mounts one of these disks in a way that shuts another pod out."""
        return {
            row
            for disk in disks
            for row, holders in self._disks.get(disk.key, {}).items()
            if any(conflicts(disk, held) for _, held in holders)
        }

    def _take(self, row: int, key: str, mounted: PodMounts) -> None:
        self._on.setdefault(row, {})[key] = mounted
        for claim in mounted.claims:
            self._claims.setdefault(claim, {}).setdefault(row, set()).add(key)
        for disk in mounted.disks:
            self._disks.setdefault(disk.key, {}).setdefault(row, set()).add((key, disk))
        self.changes.touch(row)
        self._log.record(self.release, row, key)


def _discard(table: dict[K, dict[int, set[V]]], key: K, row: int, value: V) -> None:
    rows = table[key]
    rows[row].discard(value)
    if not rows[row]:
        del rows[row]
    if not rows:
        del table[key]
