"""VolumeZone: a volume with zone or region labels is used in that zone and region.

A label of a volume may hold several zones, joined by two underscores. The beta names of the labels count as well; a
node that has only the present name of a label meets a volume's beta one. Nodes without any such label are not asked.
"""

from __future__ import annotations

from typing import ClassVar, Final

import msgspec
import numpy as np

from restow.model import volumes
from restow.model.cluster import Mask, Which
from restow.model.objects import PersistentVolume
from restow.model.selectors import Requirement
from restow.model.snapshot import Snapshot
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

REFUSED = "node(s) had no available volume zone"
_PRESENT_NAME: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}


class VolumeTopology(msgspec.Struct, frozen=True, gc=False):
    """Where a volume is, by one label."""

    key: str
    values: tuple[str, ...]


class VolumeZone(FilterPlugin, ClassFilter):
    name: ClassVar[str] = "VolumeZone"
    reach: ClassVar[Reach] = Reach.CLUSTER

    def pre_filter(self, cycle: Cycle) -> Verdict:
        if not cycle.pod_class.shape.fields.volumes:
            return SKIP_FOR_CLASS
        places: list[VolumeTopology] = []
        for volume in cycle.pod.spec.volumes or ():
            if volume.persistent_volume_claim is not None:
                zones = _places(cycle, volume.persistent_volume_claim.claim_name)
                if isinstance(zones, Verdict):
                    return zones
                places += zones
        if not places:
            return SKIP
        cycle.state[self.name] = tuple(dict.fromkeys(places))
        return SUCCESS

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        mask: Mask = np.ones(cycle.snapshot.nodes.present[rows].shape, np.bool_)
        for place in cycle.state[self.name]:
            mask &= _is_in(cycle.snapshot, place, rows)
        return mask | ~_has_any_place(cycle.snapshot, rows)

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        return refusals_of(REFUSED, ~self.filter(cycle, rows))


def _places(cycle: Cycle, name: str) -> list[VolumeTopology] | Verdict:
    """Where the volume of a claim is; nowhere yet while its class waits for a pod."""
    storage = cycle.snapshot.storage
    claim = storage.claim(cycle.pod.metadata.namespace or "", name)
    if claim is None:
        return unresolvable(f'persistentvolumeclaim "{name}" not found')
    if claim.spec.volume_name:
        volume = storage.volume(claim.spec.volume_name)
        if volume is None:
            return unresolvable(f'persistentvolume "{claim.spec.volume_name}" not found')
        return _places_of(volume)
    class_name = volumes.class_name(claim)
    if not class_name:
        return unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
    storage_class = storage.storage_class(class_name)
    if storage_class is None:
        return unresolvable(f'storageclass.storage.k8s.io "{class_name}" not found')
    return [] if volumes.waits_for_pod(storage_class) else unresolvable("PersistentVolume had no name")


def _places_of(volume: PersistentVolume) -> list[VolumeTopology]:
    labels = volume.metadata.labels or {}
    split = {key: [value.strip() for value in labels[key].split("__")] for key in _PRESENT_NAME if key in labels}
    return [
        VolumeTopology(key, tuple(values)) for key, values in split.items() if all(values)
    ]  # an odd label says nothing


def _is_in(snapshot: Snapshot, place: VolumeTopology, rows: Which) -> Mask:
    labels, present_name = snapshot.nodes.labels, _PRESENT_NAME[place.key]
    mask = labels.mask(Requirement(place.key, "In", place.values), rows)
    if present_name != place.key:
        unnamed = labels.mask(Requirement(place.key, "DoesNotExist"), rows)
        mask = mask | unnamed & labels.mask(Requirement(present_name, "In", place.values), rows)
    return mask


def _has_any_place(snapshot: Snapshot, rows: Which) -> Mask:
    masks = [snapshot.nodes.labels.column(key).ids[rows] != 0 for key in _PRESENT_NAME]
    any_of_them: Mask = np.logical_or.reduce(masks)
    return any_of_them
