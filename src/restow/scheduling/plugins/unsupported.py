"""Unsupported: a pod with a field that Restow does not implement is refused, with the name of the field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from restow.model.cluster import Mask, Which
from restow.model.objects import PodSpec
from restow.scheduling.cluster_events import ClusterEventWithHint
from restow.scheduling.framework import SKIP, Cycle, FilterPlugin, Reach, Refusal, Verdict, unresolvable


class Unsupported(FilterPlugin):
    name: ClassVar[str] = "Unsupported"
    reach: ClassVar[Reach] = Reach.NODE

    def pre_filter(self, cycle: Cycle) -> Verdict:
        reasons = tuple(unsupported_fields(cycle.pod_class.shape.spec))
        return unresolvable(*reasons) if reasons else SKIP

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        return np.ones_like(cycle.snapshot.nodes.present[rows])

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        return []

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return []  # only the pod itself can change it


_CONSEQUENCES = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES = (None, "Honor", "Ignore")


def unsupported_fields(spec: PodSpec) -> Iterator[str]:
    """The fields of a pod that Restow does not implement, one sentence each. Values that are not known count: an API
    server of a later version may know more of them, and in templates and files they are not validated."""
    claims = [claim.name for claim in spec.resource_claims or ()]
    if claims:
        yield f"Restow does not support spec.resourceClaims: dynamic resource allocation of {', '.join(claims)}"
    if spec.scheduling_group is not None:
        group = spec.scheduling_group.pod_group_name or ""
        yield f"Restow does not support spec.schedulingGroup: native pod group {group}; use a Volcano PodGroup"
    for number, constraint in enumerate(spec.topology_spread_constraints or ()):
        place = f"Restow does not support spec.topologySpreadConstraints[{number}]"
        if constraint.when_unsatisfiable not in _CONSEQUENCES:
            yield f"{place}.whenUnsatisfiable: {constraint.when_unsatisfiable!r}"
        if constraint.node_affinity_policy not in _POLICIES:
            yield f"{place}.nodeAffinityPolicy: {constraint.node_affinity_policy!r}"
        if constraint.node_taints_policy not in _POLICIES:
            yield f"{place}.nodeTaintsPolicy: {constraint.node_taints_policy!r}"
