"""VolumeRestrictions: pods that may not share a volume.

A disk named in the pod's own spec has one writing user per node; a claim with access mode ReadWriteOncePod has one user
in the whole cluster.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec
import numpy as np

from restow.model.cluster import Mask, Which
from restow.model.disks import Disk, disks_used
from restow.model.volumes import READ_WRITE_ONCE_POD
from restow.scheduling.accelerated import ClassFilter
from restow.scheduling.framework import (
    SKIP,
    SKIP_FOR_CLASS,
    SUCCESS,
    Cycle,
    FilterPlugin,
    Reach,
    Refusal,
    Verdict,
    unresolvable,
)
from restow.scheduling.plugins.refusals import refusals_of

DISK_IN_USE = "node(s) had no available disk"
CLAIM_IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


class RestrictedVolumes(msgspec.Struct, frozen=True):
    """The restricted volumes of the pod of a cycle."""

    disks: tuple[Disk, ...]
    claim_in_use: bool


class VolumeRestrictions(FilterPlugin, ClassFilter):
    name: ClassVar[str] = "VolumeRestrictions"
    reach: ClassVar[Reach] = Reach.CLUSTER

    def pre_filter(self, cycle: Cycle) -> Verdict:
        if not cycle.pod_class.shape.fields.volumes:
            return SKIP_FOR_CLASS
        in_use = False
        for name in _claim_names(cycle):
            claim = cycle.snapshot.storage.claim(cycle.pod.metadata.namespace or "", name)
            if claim is None:
                return unresolvable(f'persistentvolumeclaim "{name}" not found')
            if READ_WRITE_ONCE_POD in (claim.spec.access_modes or ()):
                in_use = in_use or _is_used(cycle, name)
        disks = tuple(disks_used(cycle.pod))
        if not disks and not in_use:
            return SKIP
        cycle.state[self.name] = RestrictedVolumes(disks, in_use)
        return SUCCESS

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        restricted: RestrictedVolumes = cycle.state[self.name]
        return ~(_without_disk(cycle, rows) | restricted.claim_in_use)

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        restricted: RestrictedVolumes = cycle.state[self.name]
        without = _without_disk(cycle, rows)
        return [
            *refusals_of(DISK_IN_USE, without, resolvable=True),
            *refusals_of(CLAIM_IN_USE, ~without & restricted.claim_in_use, resolvable=True),
        ]


def _claim_names(cycle: Cycle) -> list[str]:
    """A claim made for this very pod has no other user, so only those that are named count."""
    used = [volume.persistent_volume_claim for volume in cycle.pod.spec.volumes or ()]
    return [claim.claim_name for claim in used if claim is not None]


def _is_used(cycle: Cycle, name: str) -> bool:
    """Whether another pod, or a seat held for one, uses the claim."""
    users = cycle.snapshot.mounts.users(f"{cycle.pod.metadata.namespace or ''}/{name}")
    return any(keys != {cycle.pod.metadata.uid} for keys in users.values())


def _without_disk(cycle: Cycle, rows: Which) -> Mask:
    """Rows where a disk of the pod is taken."""
    restricted: RestrictedVolumes = cycle.state[VolumeRestrictions.name]
    taken = np.zeros(cycle.snapshot.rows.size, np.bool_)
    taken[list(cycle.snapshot.mounts.in_conflict(restricted.disks))] = True
    return taken[rows]
