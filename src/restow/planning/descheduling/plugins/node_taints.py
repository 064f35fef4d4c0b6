"""RemovePodsViolatingNodeTaints: moves pods that do not tolerate a taint of their node.

    args: {includePreferNoSchedule: false, excludedTaints: [dedicated=team-a, maintenance], includedTaints: []}

Taints of effect NoExecute are left to the cluster, which evicts by itself.
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
    arguments_check,
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

    def is_about(self, taint: Taint) -> bool:
        if self.included_taints:
            return _is_named(taint, self.included_taints)
        return not _is_named(taint, self.excluded_taints)


def _is_named(taint: Taint, names: Collection[str]) -> bool:
    return taint.key in names or f"{taint.key}={taint.value or ''}" in names


def plan_node_taints(snapshot: Snapshot, request: PlanRequest) -> Plan:
    arguments = read_plugin_arguments(NodeTaintsArgs, request.arguments, NAME)
    effects = (NO_SCHEDULE, PREFER_NO_SCHEDULE) if arguments.include_prefer_no_schedule else (NO_SCHEDULE,)

    def find_candidates(simulation: MoveSimulation) -> Iterator[Candidate]:
        for occupant in pods_on_nodes(snapshot, arguments.pod_filter()):
            node = snapshot.node(occupant.node)
            taints = [taint for taint in (node.spec.taints if node else None) or () if arguments.is_about(taint)]
            violated = untolerated_taint(taints, occupant.pod.spec.tolerations, effects)
            if violated:
                yield Candidate(occupant, f"does not tolerate the taint {violated[0].key} of {occupant.node}")

    return plan_candidates(NAME, snapshot, request, find_candidates)


PLUGIN = Planner(name=NAME, point="deschedule", plan=plan_node_taints, check=arguments_check(NodeTaintsArgs, NAME))
