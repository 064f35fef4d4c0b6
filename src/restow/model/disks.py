"""Disks that pods name directly in their spec, the old way: GCE, EBS, iSCSI and Ceph RBD.

Goes in: a pod, or two disks. Comes out: the disks it mounts, and whether two mounts on one node are in conflict: the
same disk, unless both only read. An EBS volume has one user however it is mounted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from restow.model.objects import Pod, Volume

DiskKind = Literal["gce", "ebs", "iscsi", "rbd"]
_DEFAULT_POOL = "rbd"


class Disk(msgspec.Struct, frozen=True, gc=False):
    """A disk as one pod mounts it. Two RBD images are the same if their clusters share a monitor."""

    kind: DiskKind
    name: str
    read_only: bool = False
    monitors: frozenset[str] = frozenset()

    @property
    def key(self) -> tuple[DiskKind, str]:
        return self.kind, self.name


def disks_used(pod: Pod) -> Iterator[Disk]:
    for volume in pod.spec.volumes or ():
        yield from _disks(volume)


def disks_conflict(disk: Disk, other: Disk) -> bool:
    """Whether two pods on one node cannot have these mounts."""
    if disk.key != other.key:
        return False
    if disk.kind == "rbd" and disk.monitors.isdisjoint(other.monitors):
        return False
    return disk.kind == "ebs" or not (disk.read_only and other.read_only)


def _disks(volume: Volume) -> Iterator[Disk]:
    if gce := volume.gce_persistent_disk:
        yield Disk("gce", gce.pd_name, bool(gce.read_only))
    if ebs := volume.aws_elastic_block_store:
        yield Disk("ebs", ebs.volume_id, bool(ebs.read_only))
    if iscsi := volume.iscsi:
        yield Disk("iscsi", iscsi.iqn, bool(iscsi.read_only))
    if rbd := volume.rbd:
        name = f"{rbd.pool or _DEFAULT_POOL}/{rbd.image}"
        yield Disk("rbd", name, bool(rbd.read_only), frozenset(rbd.monitors or ()))
