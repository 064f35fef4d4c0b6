"""NodeVolumeLimits: a node attaches only so many volumes of each CSI driver."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from restow.model.cluster import Mask, Which
from restow.model.cluster.mounts import mounted_by
from restow.model.cluster.storage import VolumeId
from restow.scheduling.framework import NEVER, SKIP, SUCCESS, Cycle, FilterPlugin, Reach, Refusal, Verdict
from restow.scheduling.plugins.refusing import refused

TOO_MANY = "node(s) exceed max volume count"


class Needed(msgspec.Struct, frozen=True):
    """What the pod of a cycle needs attached."""

    volumes: frozenset[VolumeId]
    missing: str = ""
    """A claim that is not there: what it will need cannot be told."""


class NodeVolumeLimits(FilterPlugin):
    name: ClassVar[str] = "NodeVolumeLimits"
    reach: ClassVar[Reach] = Reach.CLUSTER

    def pre_filter(self, cycle: Cycle) -> Verdict:
        if not cycle.pod_class.shape.facts.volumes:
            return NEVER
        mounted = mounted_by(cycle.pod)
        missing = next((key for key in mounted.claims if cycle.snapshot.storage.claims.shown(key) is None), "")
        needed = Needed(cycle.snapshot.attached.volumes_of(mounted), missing)
        if not needed.volumes and not needed.missing:
            return SKIP
        cycle.notes[self.name] = needed
        return SUCCESS

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        needed: Needed = cycle.notes[self.name]
        return ~(cycle.snapshot.attached.too_many(needed.volumes, rows) | bool(needed.missing))

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        needed: Needed = cycle.notes[self.name]
        refusing = ~self.filter(cycle, rows)
        if needed.missing:
            name = needed.missing.partition("/")[2]
            return refused(f'looking up PVC {needed.missing}: persistentvolumeclaim "{name}" not found', refusing)
        return refused(TOO_MANY, refusing, resolvable=True)
