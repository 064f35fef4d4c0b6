"""RemovePodsViolatingNodeTaints: pods that do not tolerate what keeps newcomers from their node.

    args: {includePreferNoSchedule: false, excludedTaints: [dedicated=team-a, maintenance], includedTaints: []}

NoExecute taints need no help from here: the cluster evicts by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from restow.model.objects import Taint
from restow.model.problems import Problem
from restow.model.snapshot import Snapshot
from restow.model.taints import NO_SCHEDULE, PREFER_NO_SCHEDULE, untolerated_taint
from restow.planning.descheduling.framework import Planner
from restow.planning.descheduling.plugins.candidates import (
    Candidate,
    CandidateArguments,
    plan_candidates,
    pods_on_nodes,
    read_plugin_arguments,
)
from restow.planning.move_simulation import MoveSimulation
from restow.planning.plan import Plan
from restow.planning.plan_request import PlanRequest

NAME = "RemovePodsViolatingNodeTaints"


class NodeTaintsArgs(CandidateArguments, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    include_prefer_no_schedule: bool = False
    excluded_taints: tuple[str, ...] = ()
    included_taints: tuple[str, ...] = ()

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if self.excluded_taints and self.included_taints:
            yield Problem("includedTaints", "includedTaints and excludedTaints cannot both be set")

    def regards(self, taint: Taint) -> bool:
        if self.included_taints:
            return _is_named(taint, self.included_taints)
        return not _is_named(taint, self.excluded_taints)


def _is_named(taint: Taint, names: Collection[str]) -> bool:
    return taint.key in names or f"{taint.key}={taint.value or ''}" in names


def plan(snapshot: Snapshot, request: PlanRequest) -> Plan:
    arguments = read_plugin_arguments(NodeTaintsArgs, request.arguments, NAME)
    effects = (NO_SCHEDULE, PREFER_NO_SCHEDULE) if arguments.include_prefer_no_schedule else (NO_SCHEDULE,)

    def search(bookings: MoveSimulation) -> Iterator[Candidate]:
        for one in pods_on_nodes(snapshot, arguments.pod_filter()):
            node = snapshot.node(one.node)
            taints = [taint for taint in (node.spec.taints if node else None) or () if arguments.regards(taint)]
            kept = untolerated_taint(taints, one.pod.spec.tolerations, effects)
            if kept:
                yield Candidate(one, f"does not tolerate the taint {kept[0].key} of {one.node}")

    return plan_candidates(NAME, snapshot, request, search)


PLUGIN = Planner(
    name=NAME, point="deschedule", plan=plan, check=lambda written: read_plugin_arguments(NodeTaintsArgs, written, NAME)
)
