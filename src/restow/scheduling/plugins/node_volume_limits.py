"""NodeVolumeLimits: a node attaches only so many volumes of each CSI driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from restow.model.cluster import Mask, Which
from restow.model.cluster.mounted_volumes import mounts_of
from restow.model.cluster.storage import VolumeId
from restow.model.reservations.reserved_pod import is_reserved_pod
from restow.model.volumes import claims_used
from restow.scheduling.accelerated import ClassFilter
from restow.scheduling.framework import SKIP, SKIP_FOR_CLASS, SUCCESS, Cycle, FilterPlugin, Reach, Refusal, Verdict
from restow.scheduling.plugins.refusals import refusals_of
from restow.scheduling.plugins.volume_candidates import not_made_for

TOO_MANY = "node(s) exceed max volume count"


class NeededVolumes(msgspec.Struct, frozen=True):
    """The volumes that the pod of a cycle needs attached."""

    volumes: frozenset[VolumeId]
    problem: str = ""
    """Why that is not known."""


class NodeVolumeLimits(FilterPlugin, ClassFilter):
    name: ClassVar[str] = "NodeVolumeLimits"
    reach: ClassVar[Reach] = Reach.CLUSTER

    def pre_filter(self, cycle: Cycle) -> Verdict:
        if not cycle.pod_class.shape.fields.volumes:
            return SKIP_FOR_CLASS
        volumes = cycle.snapshot.attached.volumes_of(mounts_of(cycle.pod))
        needed = NeededVolumes(volumes, next(_problems(cycle), ""))
        if not needed.volumes and not needed.problem:
            return SKIP
        cycle.state[self.name] = needed
        return SUCCESS

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        needed: NeededVolumes = cycle.state[self.name]
        return ~(cycle.snapshot.attached.exceeding_limit(needed.volumes, rows) | bool(needed.problem))

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        needed: NeededVolumes = cycle.state[self.name]
        refusing = ~self.filter(cycle, rows)
        if needed.problem:
            return refusals_of(needed.problem, refusing)
        return refusals_of(TOO_MANY, refusing, resolvable=True)


def _problems(cycle: Cycle) -> Iterator[str]:
    """Claims that do not exist, or are not this pod's. If VolumeBinding is active, it has refused them before."""
    yet_to_be_made = is_reserved_pod(cycle.pod)
    for use in claims_used(cycle.pod):
        if use.generated and yet_to_be_made:
            continue
        key = f"{cycle.pod.metadata.namespace or ''}/{use.name}"
        claim = cycle.snapshot.storage.claims.shown(key)
        if claim is None:
            yield f'looking up PVC {key}: persistentvolumeclaim "{use.name}" not found'
        elif use.generated and (problem := not_made_for(cycle.pod, claim)):
            yield problem
