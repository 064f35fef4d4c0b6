"""How many volumes of each CSI driver are attached to each node, and how many may be.

Goes in: mounts, claims, volumes, attachments and CSINodes, as they change. Comes out: the rows where additional volumes
would exceed the limit of a driver. A volume counts once per node, however many pods there use it. A claim without a
volume yet counts as one volume of its class's provisioner. Only rows where something changed are counted again.

A volume that is attached while no pod on the node uses it counts, too; and when a pod that uses it comes, it counts
once more for the pod. That is how kube-scheduler counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Set
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from restow.model import volumes
from restow.model.cluster.mounted_volumes import MountedVolumes, PodMounts
from restow.model.cluster.node_table import NodeTable
from restow.model.cluster.row_changes import changed_since
from restow.model.cluster.rows import Mask, Rows, Which, extended_array
from restow.model.cluster.storage.storage import Storage
from restow.model.disks import Disk
from restow.model.objects import PersistentVolumeSpec

Counts = NDArray[np.int64]
VolumeId = tuple[str, str]
"""(driver, handle)."""

UNLIMITED: Final = np.iinfo(np.int64).max
_DRIVER_OF: Final = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}  # the CSI drivers that do the work of provisioners once built in
_DISK_DRIVER: Final = {"ebs": _DRIVER_OF["kubernetes.io/aws-ebs"], "gce": _DRIVER_OF["kubernetes.io/gce-pd"]}


class _Here(msgspec.Struct, frozen=True):
    """The volumes of one row."""

    used: frozenset[VolumeId] = frozenset()
    """Volumes that pods on the row use."""
    counts: dict[str, int] = {}
    limits: dict[str, int] = {}


_NOTHING: Final = _Here()


class AttachedVolumes:
    def __init__(self, storage: Storage, mounts: MountedVolumes, nodes: NodeTable) -> None:
        self._storage = storage
        self._mounts = mounts
        self._nodes = nodes
        self._rows: Rows = nodes.rows
        self._tracks = (mounts.changes, storage.changes, nodes.changes)
        self._seen = [0, 0, 0]
        self._here: dict[int, _Here] = {}
        self._used_at: dict[VolumeId, set[int]] = {}
        self._counts: dict[str, Counts] = {}
        self._limits: dict[str, Counts] = {}
        self._rows.on_growth(self._grow)

    def volumes_of(self, mounted: PodMounts) -> frozenset[VolumeId]:
        """The volumes that a pod with these mounts needs attached."""
        return frozenset(self._identities(mounted))

    def exceeding_limit(self, wanted: Iterable[VolumeId], rows: Which) -> Mask:
        """Rows that would exceed a limit with these volumes beside those that they have."""
        self._refresh()
        over: Mask = np.zeros(self._nodes.present[rows].shape, np.bool_)
        by_driver: dict[str, list[VolumeId]] = {}
        for volume in wanted:
            by_driver.setdefault(volume[0], []).append(volume)
        for driver, new in by_driver.items():
            if driver in self._limits:
                there = self._cells(self._counts, driver, 0)[rows]
                added = self._added(new, rows)
                over |= (added > 0) & (there + added > self._limits[driver][rows])
        return over

    def _added(self, new: list[VolumeId], rows: Which) -> Counts:
        """How many of these volumes are not in use on each row yet."""
        if isinstance(rows, slice):
            added = np.full(self._rows.size, len(new), np.int64)
            for volume in new:
                added[list(self._used_at.get(volume, ()))] -= 1
            return added
        there: list[Set[int]] = [self._used_at.get(volume, frozenset()) for volume in new]
        return np.array([sum(row not in used for used in there) for row in rows.tolist()], np.int64)

    # --- counting -----------------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        generations = [track.generation for track in self._tracks]
        if generations != self._seen:
            for row in changed_since(self._tracks, self._seen).tolist():
                self._set(row, self._count(row))
            self._seen = generations

    def _count(self, row: int) -> _Here:
        name = self._rows.name(row) if row < self._rows.size else None
        if name is None:
            return _NOTHING
        used = frozenset(volume for mounted in self._mounts.on(row) for volume in self._identities(mounted))
        attached = frozenset(self._attached(name))
        return _Here(used, Counter(driver for driver, _ in used | attached), dict(self._published(name)))

    def _set(self, row: int, new: _Here) -> None:
        old = self._here.pop(row, _NOTHING)
        if new != _NOTHING:
            self._here[row] = new
        for volume in old.used - new.used:
            self._used_at[volume].discard(row)
            if not self._used_at[volume]:
                del self._used_at[volume]
        for volume in new.used - old.used:
            self._used_at.setdefault(volume, set()).add(row)
        for driver in {**old.counts, **new.counts}:
            self._cells(self._counts, driver, 0)[row] = new.counts.get(driver, 0)
        for driver in {**old.limits, **new.limits}:
            self._cells(self._limits, driver, UNLIMITED)[row] = new.limits.get(driver, UNLIMITED)

    def _cells(self, table: dict[str, Counts], driver: str, default: int) -> Counts:
        cells = table.get(driver)
        if cells is None:
            cells = table[driver] = np.full(self._rows.capacity, default, np.int64)
        return cells

    def _grow(self, capacity: int) -> None:
        for driver, counts in self._counts.items():
            self._counts[driver] = extended_array(counts, capacity)
        for driver, limits in self._limits.items():
            longer = np.full(capacity, UNLIMITED, np.int64)
            longer[: len(limits)] = limits
            self._limits[driver] = longer

    # --- which volumes ------------------------------------------------------------------------------------------------

    def _identities(self, mounted: PodMounts) -> Iterator[VolumeId]:
        for claim in mounted.claims:
            identity = self._of_claim(claim)
            if identity is not None:
                yield identity
        for disk in mounted.disks:
            yield from _of_disk(disk)

    def _of_claim(self, key: str) -> VolumeId | None:
        claim = self._storage.claims.shown(key)
        if claim is None:
            return None
        volume = self._storage.volumes.shown(f"/{claim.spec.volume_name}") if claim.spec.volume_name else None
        if volume is not None:
            return _of_volume(volume.spec)
        storage_class = self._storage.storage_class(volumes.class_name(claim))
        if storage_class is None:
            return None
        return _DRIVER_OF.get(storage_class.provisioner, storage_class.provisioner), f"to be made for {key}"

    def _attached(self, node: str) -> Iterator[VolumeId]:
        for attachment in self._storage.attachment_index.on(node):
            name = attachment.spec.source.persistent_volume_name
            volume = self._storage.volumes.shown(f"/{name}") if name else None
            if attachment.spec.attacher and volume is not None and volume.spec.csi is not None:
                yield attachment.spec.attacher, volume.spec.csi.volume_handle

    def _published(self, node: str) -> Iterator[tuple[str, int]]:
        csi_node = self._storage.csi_node(node)
        for driver in (csi_node.spec.drivers if csi_node else None) or ():
            if driver.allocatable is not None and driver.allocatable.count is not None:
                yield driver.name, driver.allocatable.count


def _of_volume(spec: PersistentVolumeSpec) -> VolumeId | None:
    """None for a volume that no CSI driver attaches."""
    if spec.csi is not None:
        return (spec.csi.driver, spec.csi.volume_handle) if spec.csi.volume_handle else None
    if spec.aws_elastic_block_store is not None:
        return _DRIVER_OF["kubernetes.io/aws-ebs"], spec.aws_elastic_block_store.volume_id.rpartition("/")[2]
    if spec.gce_persistent_disk is not None:
        return _DRIVER_OF["kubernetes.io/gce-pd"], spec.gce_persistent_disk.pd_name
    if spec.azure_disk is not None:
        return _DRIVER_OF["kubernetes.io/azure-disk"], spec.azure_disk.disk_uri
    if spec.cinder is not None:
        return _DRIVER_OF["kubernetes.io/cinder"], spec.cinder.volume_id
    if spec.portworx_volume is not None:
        return _DRIVER_OF["kubernetes.io/portworx-volume"], spec.portworx_volume.volume_id
    return None


def _of_disk(disk: Disk) -> Iterator[VolumeId]:
    """The volume of a disk that a pod names in its spec: Kubernetes attaches those by CSI drivers too."""
    if disk.kind in _DISK_DRIVER:
        yield _DISK_DRIVER[disk.kind], disk.name.rpartition("/")[2]
